"""Entries of a shard: computed once, on demand, from recipes; forgotten when the client lets go."""

import gc
import pickle
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse

from kernelfields.data import Chains
from kernelfields.engines.dask.shards import SHARD, Shard, ShardGroup, Taken, answer


class Done:
    """A future that is there already."""

    def __init__(self, key, result):
        self.key, self.value, self.status = key, result, "finished"

    def result(self, timeout=None):
        return self.value

    def done(self):
        return True


class LostAnswer(Done):
    """A future whose answer was on a worker that died before it could be fetched."""

    def result(self, timeout=None):
        raise TimeoutError

    def release(self):
        self.status = "released"


class HereClient:
    """Runs every task at once; ``travel`` replaces a shard by what would arrive elsewhere."""

    scheduler = SimpleNamespace(set_restrictions="set_restrictions")

    def __init__(self, n_shards):
        chains = Chains(np.zeros((2, 1)), np.array([0, 2]), np.zeros(2, dtype=np.int64))
        self.futures = [Done(f"shard{number}", Shard(chains, number)) for number in range(n_shards)]
        self.requests = []
        self.worker = "here"

    def submit(self, function, future, request, **_):
        assert function is answer
        self.requests.append(request)
        return Done("answer", answer(future.value, pickle.loads(pickle.dumps(request))))

    def who_has(self, futures):
        return {future.key: (self.worker,) for future in futures}

    def sync(self, function, worker):
        assert function == "set_restrictions"
        assert worker.keys() <= {future.key for future in self.futures}

    def nthreads(self):
        return {"here": 1}

    def travel(self, number):
        self.futures[number].value = pickle.loads(pickle.dumps(self.futures[number].value))


@pytest.fixture
def group():
    pytest.importorskip("distributed")
    client = HereClient(2)
    return ShardGroup(client, client.futures)


COUNTS = {}


def counted(shard, name, *others):
    COUNTS[name] = COUNTS.get(name, 0) + 1
    return [shard.number, name, *others]


def grown(entry, value):
    entry.append(value)
    return entry


def identity(entry):
    return list(entry)


@pytest.fixture(autouse=True)
def counts():
    COUNTS.clear()
    return COUNTS


def test_entries_are_computed_once_and_when_they_are_asked_for(group, counts):
    base = group.recipe(counted, SHARD, "base")
    top = group.recipe(counted, SHARD, "top", base)
    assert counts == {}
    assert group.ask(identity, top) == [[0, "top", [0, "base"]], [1, "top", [1, "base"]]]
    group.ask(identity, base)
    assert counts == {"base": 2, "top": 2}
    # The recipes travelled with the first question only.
    assert [len(request.recipes) for request in group.client.requests] == [2, 2, 0, 0]


def test_entries_that_cannot_wait_are_computed_with_the_next_question(group, counts):
    first = group.recipe(counted, SHARD, "first")
    soon, later = group.recipe(counted, SHARD, "soon", at_once=True), group.recipe(counted, SHARD, "later")
    group.ask(identity, first)
    assert counts == {"first": 2, "soon": 2}
    group.ask(identity, first)
    assert counts == {"first": 2, "soon": 2}
    assert group.ask(identity, soon) == [[0, "soon"], [1, "soon"]]
    assert group.ask(identity, later) == [[0, "later"], [1, "later"]]
    assert counts == {"first": 2, "soon": 2, "later": 2}


def test_a_shard_that_has_moved_is_sent_the_recipes_again(group, counts):
    top = group.recipe(counted, SHARD, "top", group.recipe(counted, SHARD, "base"))
    expected = group.ask(identity, top)
    group.client.travel(1)
    assert group.ask(identity, top) == expected
    assert counts == {"base": 3, "top": 3}


def test_what_the_client_lets_go_of_is_dropped_with_the_next_question(group):
    top, other = group.recipe(counted, SHARD, "top"), group.recipe(counted, SHARD, "other")
    group.ask(identity, top)
    shard = group.client.futures[0].value
    assert len(shard._values) == 1
    del top
    gc.collect()
    group.ask(identity, other)
    assert list(shard._values) == [other.key] == list(shard._recipes)


def test_steps_that_change_an_entry_are_walked_again_in_their_order(group):
    panel = group.recipe(counted, SHARD, "panel")
    for value in ("a", "b", "c"):
        panel = group.successor(panel, grown, value)
    assert group.ask(identity, panel)[1] == [1, "panel", "a", "b", "c"]
    panel = group.successor(panel, grown, "d")
    group.client.travel(0)
    assert group.ask(identity, panel) == [[number, "panel", "a", "b", "c", "d"] for number in range(2)]
    assert [len(future.value._values) for future in group.client.futures] == [1, 1]


def test_an_entry_that_was_taken_is_made_again_if_it_is_needed(group, counts):
    base = group.recipe(counted, SHARD, "base")
    top = group.recipe(grown, Taken(base), "more")
    assert group.ask(identity, top)[0] == [0, "base", "more"]
    assert group.ask(identity, base)[0] == [0, "base"]
    assert counts == {"base": 4}


def test_a_shard_is_as_large_as_what_travels():

    offsets, labels = np.array([0, 2]), np.zeros(2, dtype=np.int64)
    dense, sparse = np.ones((2, 100)), scipy.sparse.csr_array(np.eye(2, 100))
    for inputs, least in ((dense, dense.nbytes), (sparse, sparse.data.nbytes)):
        shard = Shard(Chains(inputs, offsets, labels), 0)
        assert least < sys.getsizeof(shard) < least + 200
        assert len(pickle.dumps(shard)) < least + 2000


def test_a_shard_may_be_asked_alone(group):
    base = group.recipe(counted, SHARD, "base")
    assert group.ask_each(identity, [None, (base,)]) == [[1, "base"]]


def test_an_answer_that_died_with_its_worker_is_asked_for_again(group, monkeypatch):
    base, submit = group.recipe(counted, SHARD, "base"), group.client.submit

    def dying(*arguments, **keywords):
        monkeypatch.setattr(group.client, "submit", submit)
        group.client.worker = "there"
        return LostAnswer("answer", None)

    monkeypatch.setattr(group.client, "submit", dying)
    assert group.ask(identity, base) == [[0, "base"], [1, "base"]]


def test_a_shard_that_never_knows_ends_the_fit(group, monkeypatch):
    monkeypatch.setattr(group.client, "submit", lambda *_, **__: Done("answer", (False, None)))
    with pytest.raises(RuntimeError, match="shard 0 of 2 was lost again and again"):
        group.ask(identity, group.recipe(counted, SHARD, "base"))
