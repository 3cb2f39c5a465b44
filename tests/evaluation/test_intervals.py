"""Intervals of shares: Wilson's where cases are independent, wider where sequences differ, and they hold the truth."""

import numpy as np
import pytest

from kernelfields.evaluation import Estimate
from kernelfields.evaluation.intervals import f1_intervals, mean_interval, wilson_intervals


def column(values):
    return np.array(values, dtype=float)[:, None]


@pytest.mark.parametrize(
    ("right", "cases", "low", "high"),
    # statsmodels.stats.proportion.proportion_confint(right, cases, method="wilson")
    [(1, 1, 0.206549, 1.0), (20, 20, 0.838875, 1.0), (0, 5, 0.0, 0.434482), (7, 10, 0.396778, 0.892209)],
)
def test_one_case_a_sequence_is_wilsons_interval(right, cases, low, high):
    hits = column([1] * right + [0] * (cases - right))
    np.testing.assert_allclose(wilson_intervals(hits, np.ones_like(hits)), [[low], [high]], atol=1e-6)


def test_a_sequence_that_is_right_throughout_counts_once_whatever_its_length():
    for length in (1, 3, 100):
        ends = wilson_intervals(column([length] * 8), column([length] * 8))
        np.testing.assert_allclose(ends, wilson_intervals(column([1] * 8), column([1] * 8)))
    # Of unequal lengths, fewer: (sum n)^2 / sum n^2.
    assert (
        wilson_intervals(column([1, 99]), column([1, 99]))[0] < wilson_intervals(column([50, 50]), column([50, 50]))[0]
    )


def test_sequences_that_differ_widen_the_interval_as_their_variance_says():
    even = wilson_intervals(np.full((40, 1), 5.0), np.full((40, 1), 10.0))
    uneven = wilson_intervals(column([10, 0] * 20), np.full((40, 1), 10.0))
    one_each = wilson_intervals(column([1, 0] * 20), np.ones((40, 1)))
    assert np.ptp(even) < np.ptp(uneven)
    np.testing.assert_allclose(uneven, one_each, atol=1e-12)


def test_there_is_no_share_of_nothing():
    low, high = wilson_intervals(np.zeros((3, 2)), np.array([[0.0, 1.0]] * 3))
    assert np.isnan([low[0], high[0]]).all()
    assert 0 == low[1] < high[1] < 1


def test_the_interval_of_f1_is_that_of_hits_among_all_that_are_true_or_predicted():
    hits, predicted, true = column([1, 0, 1, 1]), column([1, 1, 1, 1]), column([1, 0, 1, 2])
    low, high = wilson_intervals(hits, column([1, 1, 1, 2]))
    found = f1_intervals(hits, predicted, true)
    np.testing.assert_allclose(found, [2 * low / (1 + low), 2 * high / (1 + high)])
    assert found[0] < 2 * 3 / (4 + 4) < found[1]


def test_the_mean_of_equal_figures_is_narrower_by_the_root_of_their_number():
    np.testing.assert_allclose(mean_interval([Estimate(0.5, 0.3, 0.9)] * 4, np.ones(4)), [0.4, 0.7])
    one = mean_interval([Estimate(0.5, 0.3, 0.9), Estimate(0.8, np.nan, np.nan)], np.array([1, 0]))
    np.testing.assert_allclose(one, [0.3, 0.9])
    assert np.isnan(mean_interval([Estimate(0.0, np.nan, np.nan)], np.ones(1))).all()


@pytest.mark.parametrize("n_sequences", [2, 5, 30])
@pytest.mark.parametrize("correlation", [0.0, 0.2])
@pytest.mark.parametrize("share", [0.5, 0.9, 0.98])
def test_intervals_hold_the_share_of_all_sequences_there_could_be(n_sequences, correlation, share):
    """Beta-binomial sequences; the bootstrap's intervals hold 0.98 in 7 % of the trials with 2 sequences of 3."""
    random = np.random.default_rng(0)
    trials = 2000
    for mean_length, least in ((1, 0.90), (3, 0.93), (20, 0.88)):
        lengths = 1 + random.poisson(mean_length - 1, (n_sequences, trials))
        chances = np.full(lengths.shape, share)
        if correlation and mean_length > 1:
            strength = (1 - correlation) / correlation
            chances = random.beta(share * strength, (1 - share) * strength, lengths.shape)
        low, high = wilson_intervals(random.binomial(lengths, chances).astype(float), lengths)
        assert np.mean((low <= share) & (share <= high)) > least
