"""The observed support holds the pairs that a loop over the data finds, and nothing else."""

from collections import defaultdict

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from kernelfields.objective.designs.supports import Support, observed_support


def pairs_of(support):
    return set(zip(support.features.tolist(), support.outcomes.tolist(), strict=True))


def csr(rows, n_features):
    """A CSR from lists of (feature, weight), stored as they come: zeros stay, nothing is sorted or added up."""
    indptr = np.cumsum([0, *map(len, rows)])
    stored = [each for row in rows for each in row]
    data, indices = [weight for _, weight in stored], [feature for feature, _ in stored]
    return sp.csr_array(
        (np.array(data, dtype=float), np.array(indices, dtype=np.int32), indptr), shape=(len(rows), n_features)
    )


def totals_of(rows, labellings):
    """Total weight of every pair that occurs, by a loop over the data."""
    totals = defaultdict(float)
    for row, labelling in zip(rows, labellings, strict=True):
        for feature, weight in row:
            totals[feature, labelling] += weight
    return totals


N_FEATURES, N_OUTCOMES = 5, 4
# Weights in quarters add up without rounding, so that "at least min_freq" has one meaning.
WEIGHTS = st.integers(-4, 8).map(lambda quarters: quarters / 4)
ROWS = st.lists(
    st.tuples(
        st.dictionaries(st.integers(0, N_FEATURES - 1), WEIGHTS, max_size=4).map(lambda row: list(row.items())),
        st.integers(0, N_OUTCOMES - 1),
    ),
    max_size=12,
)


@pytest.mark.slow
@given(ROWS, st.sampled_from([0.0, 0.25, 0.5, 1.0, 2.0, 100.0]))
def test_the_pairs_are_those_a_loop_finds(data, min_freq):
    rows, labellings = [row for row, _ in data], [label for _, label in data]
    support = observed_support(
        csr(rows, N_FEATURES), np.array(labellings, dtype=np.int64), N_OUTCOMES, min_freq=min_freq
    )
    totals = totals_of(rows, labellings)
    expected = {pair for pair, total in totals.items() if min_freq == 0 or total >= min_freq}
    assert pairs_of(support) == expected
    assert support.size == len(expected)
    assert (support.n_features, support.n_outcomes) == (N_FEATURES, N_OUTCOMES)
    for feature in range(N_FEATURES):
        outcomes = support.outcomes[support.begin[feature] : support.begin[feature + 1]]
        assert outcomes.tolist() == sorted(set(outcomes.tolist()))
    support.check()


def test_stored_zeros_and_weights_that_cancel_count_as_seen():
    features = csr([[(0, 0.0)], [(1, 2.0)], [(1, -2.0)]], 3)
    labels = np.array([1, 0, 0])
    assert pairs_of(observed_support(features, labels, 2)) == {(0, 1), (1, 0)}
    # But their total is zero, which is less than any frequency asked for.
    assert pairs_of(observed_support(features, labels, 2, min_freq=1e-300)) == set()


def test_a_pair_of_exactly_the_least_frequency_stays():
    features = csr([[(0, 1.0)], [(0, 1.0)], [(0, 1.0)], [(1, 0.5)]], 2)
    labels = np.array([0, 0, 1, 1])
    assert pairs_of(observed_support(features, labels, 2, min_freq=2.0)) == {(0, 0)}
    assert pairs_of(observed_support(features, labels, 2, min_freq=1.0)) == {(0, 0), (0, 1)}
    assert pairs_of(observed_support(features, labels, 2, min_freq=0.5)) == {(0, 0), (0, 1), (1, 1)}


def test_of_dense_features_the_zeros_are_not_seen():
    dense = np.array([[1.0, 0.0, 0.0], [0.0, -1.0, 0.0]])
    labels = np.array([0, 1])
    assert pairs_of(observed_support(dense, labels, 2)) == {(0, 0), (1, 1)}
    assert pairs_of(observed_support(sp.csr_matrix(dense), labels, 2)) == {(0, 0), (1, 1)}


def test_without_features_there_is_one_the_constant():
    steps = np.array([3, 0, 3, 3])
    support = observed_support(None, steps, 4)
    assert pairs_of(support) == {(0, 0), (0, 3)}
    assert pairs_of(observed_support(None, steps, 4, min_freq=2.0)) == {(0, 3)}
    np.testing.assert_array_equal(support.row(np.array([[5.0], [7.0]])), [[5.0, 0.0, 0.0, 7.0]])
    nothing = observed_support(None, np.empty(0, dtype=np.int64), 4)
    assert (nothing.size, nothing.n_features) == (0, 1)
    np.testing.assert_array_equal(nothing.row(np.empty((0, 1))), np.zeros((1, 4)))


SOUND = Support(np.array([0, 2, 2, 3], dtype=np.int32), np.array([0, 2, 1], dtype=np.int32), 3)


@pytest.mark.parametrize(
    ("begin", "outcomes", "words"),
    [
        ([0], [], "do not fit together"),
        ([1, 2], [0, 1], "do not fit together"),
        ([0, 1], [0, 1], "do not fit together"),
        ([0, 2, 1, 2], [0, 1], "do not fit together"),
        ([0, 1], [3], "do not fit together"),
        ([0, 1], [-1], "do not fit together"),
        ([[0, 1]], [0], "do not fit together"),
        ([0.0, 1.0], [0], "do not fit together"),
        ([0, 2], [1, 0], "not sorted, or one occurs twice"),
        ([0, 2], [1, 1], "not sorted, or one occurs twice"),
    ],
)
def test_pairs_that_do_not_fit_together_are_refused(begin, outcomes, words):
    SOUND.check()
    kind = int if not outcomes else type(outcomes[0])
    with pytest.raises(ValueError, match=words):
        Support(np.array(begin), np.array(outcomes, dtype=kind), 3).check()
