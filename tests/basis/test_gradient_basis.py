"""Gradient-driven pivots: the score of Corollary 10 against a dense formula, and how a round grows."""

import numpy as np
import pytest

from kernelfields.basis import Gradient, PanelCholesky
from kernelfields.kernels import RBF


def started(n_inputs=80, capacity=60, initial=12, seed=0, **parameters):
    inputs = np.random.default_rng(seed).normal(size=(n_inputs, 2))
    panel = PanelCholesky(RBF(gamma=1.5), inputs, capacity)
    basis = Gradient(initial=initial, **parameters)
    basis.select(panel, np.random.default_rng(seed))
    return basis, panel


def dense_scores(panel, residuals):
    outside = panel.kernel(panel.inputs) - panel.features @ panel.features.T
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.sum((outside @ residuals) ** 2, axis=1) / np.diag(outside)


def test_scores_equal_the_dense_formula():
    _, panel = started()
    residuals = np.random.default_rng(1).normal(size=(80, 3))
    candidates = np.flatnonzero(panel.residual > 1e-6)
    scores = panel.candidate_scores(candidates, residuals)
    np.testing.assert_allclose(scores, dense_scores(panel, residuals)[candidates], rtol=1e-9)


def test_a_score_is_what_one_more_pivot_adds_to_the_squared_gradient():
    # ||Z^T R||^2 grows by exactly score_j when j becomes a pivot: the new column is the residual normalised.
    _, panel = started()
    residuals = np.random.default_rng(2).normal(size=(80, 2))
    j = int(np.argmax(panel.residual))
    score = panel.candidate_scores(np.array([j]), residuals)[0]
    before = np.sum((panel.features.T @ residuals) ** 2)
    assert panel.extend(np.array([j])) == 1
    np.testing.assert_allclose(np.sum((panel.features.T @ residuals) ** 2) - before, score, rtol=1e-10)


def test_grow_takes_the_best_of_a_pool_that_holds_everything():
    basis, panel = started(growth=1.5, candidates=1000, block_size=1)
    residuals = np.random.default_rng(3).normal(size=(80, 2))
    before = panel.pivots.copy()
    scores = np.where(panel.residual > panel.floor, dense_scores(panel, residuals), -np.inf)
    assert basis.grow(panel, residuals, np.random.default_rng(0)) == 6
    np.testing.assert_array_equal(panel.pivots[:12], before)
    assert set(panel.pivots[12:]) == set(np.argsort(-scores)[:6])


def test_a_round_multiplies_the_rank_by_a_half_more_and_scores_five_candidates_for_each_pivot_wanted():
    class Noting:
        def choice(self, outside, size, replace):
            self.size = size
            return outside[:size]

    basis, panel = started(block_size=1)
    random = Noting()
    assert basis.grow(panel, np.random.default_rng(6).normal(size=(80, 2)), random) == 6
    assert random.size == 5 * 6
    assert random.size < len(panel.candidates) + 6


def test_growth_must_be_above_one():
    with pytest.raises(ValueError, match=r"growth must be above 1, got 1\.0"):
        started(growth=1.0)


def test_tol_is_a_relative_residual_trace_here_too():
    inputs = np.random.default_rng(8).normal(size=(150, 3))
    panel = PanelCholesky(RBF(gamma=0.1), inputs, 150)
    basis, random = Gradient(tol=0.05, initial=100), np.random.default_rng(0)
    basis.select(panel, random)
    assert panel.relative_residual <= 0.05
    assert panel.rank < 100
    assert basis.grow(panel, np.ones((150, 2)), random) == 0
    with pytest.raises(ValueError, match=r"tol of Gradient must be in \[0, 1\)"):
        Gradient(tol=2.0).select(panel, random)
