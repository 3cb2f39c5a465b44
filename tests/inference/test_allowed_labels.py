"""Chains with lists of allowed labels: passes over lists equal passes over all labels with minus infinity."""

import numpy as np
import pytest

from kernelfields.data import Chains, resolve_constraints
from kernelfields.data.allowed import AllowedLabels
from kernelfields.inference import EDGE, Answers, ChainFamily, FamilySpec, ListFamily, Potentials, choose_family
from kernelfields.inference.chain.list_family import limit_chains
from kernelfields.inference.chain.lists import best_in_lists, infer_lists, should_use_lists
from kernelfields.inference.chain.scored_steps import ScoredSteps, StepBlocks, StepTable, should_list_steps
from kernelfields.numerics import Workers
from kernelfields.objective import choose_objective
from tests.arrays import Inferred, infer_chains
from tests.oracles.chains import enumerate_chain
from tests.samples import faint_chain

LENGTHS = np.array([4, 1, 6, 3])
OFFSETS = np.concatenate([[0], np.cumsum(LENGTHS)])
N = int(OFFSETS[-1])


def some_lists(random, n_labels, share=0.4):
    """A mask of allowed labels, at least one for each position, and the lists of it."""
    mask = random.random((N, n_labels)) < share
    mask[np.arange(N), random.integers(n_labels, size=N)] = True
    return mask, AllowedLabels.from_mask(mask)


def some_case(seed, scale=1.0, tied=True, forbid=0.0):
    random = np.random.default_rng(seed)
    n_labels = int(random.integers(3, 8))
    mask, lists = some_lists(random, n_labels)
    node = scale * random.normal(size=(N, n_labels))
    edge = scale * random.normal(size=(1 if tied else N, n_labels, n_labels))
    # The first label stays within reach of all.
    forbidden = random.random(edge.shape) < forbid
    forbidden[:, 0] = forbidden[:, :, 0] = False
    if forbid:
        mask[:, 0] = True
        lists = AllowedLabels.from_mask(mask)
    return mask, lists, node, np.where(forbidden, -np.inf, edge)


def infer_allowed(scores, edge, offsets, lists, *, position_weights=None, workers=None):
    """Infer chains with lists of allowed labels, their scores (A,) and edges."""
    weights = None if position_weights is None else position_weights[offsets[:-1]]
    family = ListFamily(offsets, lists.n_labels, lists, tied=len(edge) == 1)
    return Inferred(family.distribution(Potentials(lists.scatter(scores), {EDGE: edge}), weights, workers))


def infer_listed(scores, values, offsets, lists, listed, *, position_weights=None, workers=None):
    """Infer the same with scores of listed steps alone."""
    weights = None if position_weights is None else position_weights[offsets[:-1]]
    return infer_lists(scores, values, offsets, lists, listed=listed, weights=weights, workers=workers)


def listed_forms(edge, lists, large=2):
    """The scored steps of a table, to be found on the way and written down."""
    steps = ScoredSteps(np.flatnonzero(edge), edge.shape[-1])
    blocks = StepBlocks(steps, lists, OFFSETS, Workers(2, 1), large=large, at_once=7)
    return edge.reshape(-1)[steps.outcomes], [steps, blocks]


@pytest.mark.slow
@pytest.mark.parametrize(("scale", "forbid"), [(1.0, 0.0), (1.0, 0.5), (300.0, 0.0), (300.0, 0.3)])
@pytest.mark.parametrize("large", [1, 4, 10_000])
def test_steps_with_a_score_alone_have_the_marginals_of_a_table(scale, forbid, large):
    for seed in range(3):
        mask, lists, node, edge = some_case(seed, scale, True, forbid)
        edge[np.random.default_rng(seed).random(edge.shape) < 0.6] = 0.0
        weights = np.repeat(np.array([1.0, 0.5, 2.0, 0.0]), LENGTHS)
        dense = infer_chains(np.where(mask, node, -np.inf), edge, OFFSETS, position_weights=weights)
        values, forms = listed_forms(edge, lists, large)
        for listed in forms:
            found = infer_listed(
                node[mask], values, OFFSETS, lists, listed, position_weights=weights, workers=Workers(2, 1)
            )
            np.testing.assert_allclose(found.log_partition, dense.log_partition, rtol=1e-12)
            np.testing.assert_allclose(lists.scatter(found.entries), dense.node_marginals, atol=1e-12)
            steps = dense.gradient()[1].reshape(-1)[listed.outcomes]
            np.testing.assert_allclose(found.steps, steps, atol=1e-11)


def test_labels_that_no_step_reaches_have_no_probability():
    # From label 2 one can go to 0 alone, which 1 and 2 do not know when they divide by what was predicted of them.
    edge = np.zeros((1, 3, 3))
    edge[0, 2, 1:] = -np.inf
    mask = np.ones((N, 3), dtype=bool)
    mask[1, :2] = False
    lists, node = AllowedLabels.from_mask(mask), np.random.default_rng(0).normal(size=(N, 3))
    dense = infer_chains(np.where(mask, node, -np.inf), edge, OFFSETS)
    values, forms = listed_forms(edge, lists)
    for scores, listed in [(edge, None), *((values, form) for form in forms)]:
        found = lists.scatter(infer_lists(node[mask], scores, OFFSETS, lists, listed=listed).entries)
        np.testing.assert_allclose(found, dense.node_marginals, atol=1e-14)
        assert found[2].tolist() == [1.0, 0.0, 0.0]


def test_long_sequences_and_long_lists_keep_no_blocks():
    random = np.random.default_rng(3)
    node, edge, offsets = random.normal(size=(60, 40)), random.normal(size=(1, 40, 40)), np.array([0, 60])
    edge[random.random(edge.shape) < 0.5] = 0.0
    lists = AllowedLabels.from_mask(np.ones((60, 40), dtype=bool))
    dense = infer_chains(node, edge, offsets)
    steps = ScoredSteps(np.flatnonzero(edge), 40)
    values = edge.reshape(-1)[steps.outcomes]
    for listed in (steps, StepBlocks(steps, lists, offsets, Workers(1))):
        found = infer_lists(node.reshape(-1), values, offsets, lists, listed=listed)
        np.testing.assert_allclose(lists.scatter(found.entries), dense.node_marginals, atol=1e-12)
        np.testing.assert_allclose(found.steps, dense.gradient()[1].reshape(-1)[steps.outcomes], atol=1e-11)
    found = infer_allowed(node.reshape(-1), edge, offsets, lists)
    np.testing.assert_allclose(found.gradient()[1], dense.gradient()[1], atol=1e-11)


def test_large_blocks_between_equal_lists_are_written_once():
    lists = AllowedLabels.from_mask(np.arange(70)[None, :] < np.where(np.arange(N) % 2, 60, 2)[:, None])
    steps = ScoredSteps(np.arange(0, 4900, 3), 70)
    once = StepBlocks(steps, lists, OFFSETS, Workers(1), large=1)
    often = StepBlocks(steps, lists, OFFSETS, Workers(1), large=10_000)
    assert len(once.starts) - 1 == 2
    assert len(often.starts) - 1 == N - len(LENGTHS)
    for t in np.flatnonzero(once.which >= 0):
        ours, theirs = (slice(*each.starts[each.which[t] : each.which[t] + 2]) for each in (once, often))
        np.testing.assert_array_equal(once.places[ours], often.places[theirs])
        np.testing.assert_array_equal(once.pairs[ours], often.pairs[theirs])


def test_tables_of_steps_are_listed_where_they_are_large_and_sparse():
    assert should_list_steps(10_000, 1000)
    assert not should_list_steps(500_000, 1000)
    assert not should_list_steps(10, 40)
    edge = np.zeros((1, 200, 200))
    edge[0, 3, 150] = edge[0, 199, 199] = 2.0
    table = StepTable(edge)
    assert table.listed.outcomes.tolist() == [750, 39_999]
    assert table.values.tolist() == [2.0, 2.0]
    np.testing.assert_array_equal(table.listed.table(table.values), edge)
    assert StepTable(np.ones((1, 4, 4))).listed is None


@pytest.mark.parametrize("nats", range(10))
def test_labels_of_few_digits_are_inferred_in_logarithms(nats):
    node, edge, offsets = faint_chain(nats)
    exact = enumerate_chain(node, edge, offsets)
    found = infer_allowed(node.ravel(), edge, offsets, AllowedLabels.from_mask(np.ones(node.shape, dtype=bool)))
    np.testing.assert_allclose(found.log_partition, exact.log_partition, rtol=1e-13)
    np.testing.assert_allclose(found.node_marginals, exact.node_marginals, rtol=1e-12)


def test_evidence_that_leaves_few_labels_is_walked():
    _, _, node, edge = some_case(7)
    log_weights = np.where(np.arange(node.shape[1]) == 1, 0.0, -np.inf) * np.ones((N, 1))
    chains, family = Chains(np.empty((N, 0)), OFFSETS), ChainFamily(OFFSETS, node.shape[1], narrow=limit_chains)
    answers = Answers(chains, family, Potentials(node, {EDGE: edge}), Workers(1)).condition(log_weights)
    assert isinstance(answers.family, ListFamily)
    np.testing.assert_array_equal(answers.best_labels(), np.ones(N))


def test_a_chain_without_a_path_is_named():
    lists = AllowedLabels.from_mask(np.eye(2, dtype=bool)[np.arange(N) % 2])
    edge = np.array([[[0.0, -np.inf], [-np.inf, 0.0]]])
    with pytest.raises(ValueError, match="sequence 0: every labelling is forbidden"):
        infer_allowed(np.zeros(N), edge, OFFSETS, lists)
    with pytest.raises(ValueError, match="sequence 0"):
        best_in_lists(np.zeros(N), edge, OFFSETS, lists)


class TestLists:
    def test_rows_sets_and_masks_agree(self):
        mask, lists = some_lists(np.random.default_rng(1), 5)
        np.testing.assert_array_equal(lists.penalties() == 0, mask)
        np.testing.assert_array_equal(lists[3:7].penalties() == 0, mask[3:7])
        rows = np.array([5, 0, 5])
        np.testing.assert_array_equal(lists[rows].penalties() == 0, mask[rows])
        sets = [np.flatnonzero(row) for row in mask]
        np.testing.assert_array_equal(AllowedLabels.from_sets(sets, np.arange(N), 5).labels, lists.labels)

    def test_labels_are_admitted(self):
        mask, lists = some_lists(np.random.default_rng(2), 5)
        labels = np.full(N, 4)
        mask[:, 4] = True
        admitted = lists.with_allowed(labels)
        np.testing.assert_array_equal(admitted.penalties() == 0, mask)
        assert admitted.is_allowed(labels).all()
        assert admitted.with_allowed(labels) is admitted

    def test_lists_are_worth_it_where_they_are_short(self):
        every = AllowedLabels.from_mask(np.ones((N, 10), dtype=bool))
        few = AllowedLabels.from_mask(np.arange(10)[None, :] < np.full((N, 1), 2))
        assert should_use_lists(few)
        assert not should_use_lists(every)


def test_constraints_shorten_lists():
    classes = np.array(["B", "I", "O"])
    masks = resolve_constraints("bio", classes)
    lists = AllowedLabels.from_mask(np.ones((N, 3), dtype=bool))
    labels = np.full(N, 2)
    spec, chains = FamilySpec("chain", 3, masks), Chains(np.empty((N, 0)), OFFSETS, labels, allowed=lists)
    base = spec.base_measure(chains)
    listed = ListFamily(OFFSETS, 3, base.lists, base=base)
    free = choose_family(Chains(np.empty((N, 0)), OFFSETS, labels), (), spec)
    one, other = choose_objective(listed, chains), choose_objective(free, chains)
    assert one.value_at_zero == pytest.approx(other.value_at_zero)
    assert 1 not in base.lists.labels[base.lists.begin[0] : base.lists.begin[1]]
