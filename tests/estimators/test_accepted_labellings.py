"""The most probable labellings that a condition accepts, against a list of all of them."""

from itertools import groupby, islice

import numpy as np
import pytest

from kernelfields import ChainCRF, GraphCRF, KernelClassifier, MultiLabelCRF, RingCRF, SegmentCRF
from kernelfields.datasets import load_addresses

random = np.random.default_rng(1)
SETTINGS = {"prior_variance": 1.0, "scale": False, "random_state": 0}
X = [random.normal(size=(length, 2)) for length in (4, 2, 5, 1)]
Y = [[int(place % 3) for place, _ in enumerate(x)] for x in X]
EVERY = 3**5


def once(labels):
    """Whether each label has one run at most."""
    runs = [label for label, _ in groupby(labels)]
    return len(set(runs)) == len(runs)


def listed(ranked):
    return [[(np.ravel(labels).tolist(), log) for labels, log in own] for own in ranked]


def graphs():
    return [(x, [[place, place + 1] for place in range(len(x) - 1)]) for x in X]


FIELDS = {
    "chain": lambda: (ChainCRF("linear", **SETTINGS).fit(X, Y), X),
    "ring": lambda: (RingCRF("linear", **SETTINGS).fit(X, Y), X),
    "segments": lambda: (SegmentCRF("linear", max_duration=3, **SETTINGS).fit(X, Y), X),
    "graphs": lambda: (GraphCRF("linear", **SETTINGS).fit(graphs(), Y), graphs()),
    "rows": lambda: (KernelClassifier("linear", **SETTINGS).fit(np.concatenate(X), np.concatenate(Y)), X[0]),
    "several labels": lambda: (
        MultiLabelCRF("linear", **SETTINGS).fit(np.concatenate(X), random.integers(2, size=(12, 3))),
        X[0],
    ),
}


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.filterwarnings("ignore")
def test_accepted_labellings_are_the_first_of_all(name):
    field, inputs = FIELDS[name]()

    def odd(labels):
        return int(np.sum(labels)) % 2 == 1

    expected = [
        list(islice((pair for pair in own if odd(pair[0])), 3)) for own in listed(field.predict_nbest(inputs, EVERY))
    ]
    found = listed(field.predict_nbest(inputs, 3, where=odd))
    for one, other in zip(found, expected, strict=True):
        assert [labels for labels, _ in one] == [labels for labels, _ in other]
        np.testing.assert_allclose([log for _, log in one], [log for _, log in other], atol=1e-12)


def test_segments_are_seen_as_they_are_returned():
    field = SegmentCRF("linear", max_duration=3, repeats=True, **SETTINGS).fit(X, Y)

    def long_ones(segments):
        return all(end - begin >= 2 for begin, end, _ in segments)

    every = field.predict_nbest(X[2:3], 10_000, segments=True)[0]
    expected = [pair for pair in every if long_ones(pair[0])][:4]
    found = field.predict_nbest(X[2:3], 4, segments=True, where=long_ones)[0]
    assert [labels for labels, _ in found] == [labels for labels, _ in expected]
    np.testing.assert_allclose([log for _, log in found], [log for _, log in expected], atol=1e-12)


def test_no_more_labellings_are_ranked_than_it_takes():
    field, seen = ChainCRF("linear", **SETTINGS).fit(X, Y), []

    def accept(labels):
        seen.append(labels)
        return True

    field.predict_nbest(X, 2, where=accept)
    assert len(seen) == 2 * 3 + 2  # two for each sequence, of the last three labellings in all two


def test_the_number_of_ranked_labellings_has_an_end():
    field, seen = ChainCRF("linear", **SETTINGS).fit(X, Y), []

    def refuse(labels):
        seen.append(tuple(labels))
        return False

    assert field.predict_nbest(X[2:3], 1, where=refuse, max_ranked=50) == [[]]
    assert len(set(seen)) == 50
    seen.clear()
    assert field.predict_nbest(X[1:2], 1, where=refuse) == [[]]
    assert len(set(seen)) == 9  # there are no more
    with pytest.raises(ValueError, match="max_ranked"):
        field.predict_nbest(X, 1, where=refuse, max_ranked=0)


def test_known_labels_and_lengths_go_with_a_condition():
    field = ChainCRF("linear", **SETTINGS).fit(X, Y)
    known = [[None] * len(x) for x in X]
    known[0][1] = 2
    expected = field.predict_nbest(X, 2, where=once, known=known)
    assert all(labels[1] == 2 and once(labels) for labels, _ in expected[0])
    found = field.predict_nbest(
        np.concatenate(X), 2, where=once, known=[label for own in known for label in own], lengths=[4, 2, 5, 1]
    )
    assert listed(found) == listed(expected)


@pytest.mark.slow
def test_addresses_with_a_part_twice_get_one_where_each_is_there_once():
    words, parts = load_addresses(return_X_y=True)
    crf = ChainCRF(prior_variance=1.0, support="observed", l1=0.0, random_state=0).fit(words[:400], parts[:400])
    twice = [item for item in words[400:] if not once(crf.predict([item], decode="viterbi")[0])]
    found = crf.predict_nbest(twice, 1, where=once)
    assert len(twice) > 20
    assert sum(map(bool, found)) >= 0.95 * len(twice)
    for item, ranked in zip(twice, found, strict=True):
        for labels, log in ranked:
            assert once(labels)
            assert log == pytest.approx(crf.log_likelihood([item], [labels]))
