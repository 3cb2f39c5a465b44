"""Which pivots the strategies choose: the greedy ones against a plain loop, the random ones by their law."""

import numpy as np
import pytest
from scipy.stats import chisquare
from threadpoolctl import threadpool_limits

from kernelfields.basis import GreedyCholesky, PanelCholesky, RandomCholesky, Uniform
from kernelfields.kernels import RBF, Precomputed

NUMBERS = np.arange(5.0)[:, None]


@pytest.fixture(autouse=True, scope="module")
def one_blas_thread():
    """Thousands of factors of size 2: waking a second thread for each would take longer than the work."""
    with threadpool_limits(1):
        yield


# Pairs of pivots that a law is judged by.
DRAWS = 1000


def five_points():
    """A Gram matrix of unequal variances and strong correlations."""
    rng = np.random.default_rng(0)
    half = rng.normal(size=(5, 4)) * [[0.6], [1.0], [1.4], [1.0], [0.8]]
    return half @ half.T + 0.05 * np.eye(5)


def residual_after(gram, pivots):
    """diag(K - K_:P K_PP^-1 K_P:), by a dense solve."""
    if len(pivots) == 0:
        return gram.diagonal().copy()
    columns = gram[:, pivots]
    inside = columns @ np.linalg.solve(gram[np.ix_(pivots, pivots)], columns.T)
    residual = np.diag(gram - inside).copy()
    residual[pivots] = 0.0
    return residual


def test_greedy_takes_the_largest_residual_each_time():
    inputs = np.random.default_rng(1).normal(size=(70, 3))
    kernel = RBF(gamma=0.4) * 3.0 + 0.5
    panel = PanelCholesky(kernel, inputs, 15)
    GreedyCholesky().select(panel, np.random.default_rng(0))
    gram, pivots = kernel(inputs), []
    for _ in range(15):
        pivots.append(int(np.argmax(residual_after(gram, pivots))))
    assert panel.pivots.tolist() == pivots


def pair_law(gram):
    """P(first = i, second = j) when each pivot is drawn in proportion to the residual."""
    first = gram.diagonal() / np.trace(gram)
    law = np.zeros((5, 5))
    for i in range(5):
        residual = residual_after(gram, [i])
        law[i] = first[i] * residual / residual.sum()
    return law


@pytest.mark.slow
@pytest.mark.parametrize("block_size", [1, 2, 6])
def test_random_pivots_follow_the_law_of_drawing_one_at_a_time(block_size):
    gram = five_points()
    kernel, basis, random = Precomputed(gram), RandomCholesky(2, block_size=block_size), np.random.default_rng(2)
    counts = np.zeros((5, 5))
    for _ in range(DRAWS):
        panel = PanelCholesky(kernel, NUMBERS, 2)
        basis.select(panel, random)
        counts[tuple(panel.pivots)] += 1
    law = pair_law(gram)
    possible = law > 0
    assert not counts[~possible].any()
    assert chisquare(counts[possible], DRAWS * law[possible]).pvalue > 0.01


def test_without_rejection_blocks_would_have_another_law():
    # The power of the test above: pairs drawn in one go, kept unless equal, are told apart by it.
    gram = five_points()
    first = gram.diagonal() / np.trace(gram)
    wrong = first[:, None] * first[None, :]
    np.fill_diagonal(wrong, 0.0)
    wrong /= wrong.sum()
    law = pair_law(gram)
    possible = law > 0
    assert chisquare(DRAWS * wrong[possible], DRAWS * law[possible]).pvalue < 1e-8


@pytest.mark.slow
def test_uniform_pivots_are_uniform():
    gram, random = five_points(), np.random.default_rng(3)
    counts = np.zeros(5)
    for _ in range(DRAWS):
        panel = PanelCholesky(Precomputed(gram), NUMBERS, 2)
        Uniform(2).select(panel, random)
        counts[panel.pivots] += 1
    # A point is in a pair with probability 2/5 and pairs exclude each other: the variance is smaller than
    # the multinomial one by (5 - 2) / (5 - 1), which the statistic is corrected for.
    statistic = np.sum((counts - 400) ** 2 / 400) * 4 / 3
    assert statistic < 13.28, "the 1 % point of chi-square with 4 degrees of freedom"
