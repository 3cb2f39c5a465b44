"""Section 4: what growing the space can still bring (Corollary 10), and what a clique set can (Remark 11)."""

import numpy as np
import pytest
from small_fields import KERNEL, as_lists, small_field

from kernelfields import ChainCRF, EdgeCliques, NodeCliques
from kernelfields.basis import Gradient, PanelCholesky
from kernelfields.objective.designs import design as quadratic_form
from tests.samples import random_chains

VARIANCE = 1.5
CHAINS = random_chains((4, 3, 5, 2, 3), seed=4)


def fitted(basis, rank=None, tol=1e-13):
    crf = ChainCRF(
        KERNEL,
        basis=basis,
        rank=rank,
        prior_variance=VARIANCE,
        solver="newton",
        tol=tol,
        dtype="float64",
        random_state=0,
        n_jobs=1,
    )
    return crf.fit(*as_lists(CHAINS))


def gradient_outside(crf):
    """||g_perp||^2 = tr R^T (K - Z Z^T) R, from dense matrices."""
    X, _ = as_lists(CHAINS)
    residuals = np.vstack(crf.predict_marginals(X)) - np.eye(3)[CHAINS.labels]
    features = crf.basis_["node"].features(CHAINS.inputs)
    return np.vdot(residuals, (KERNEL(CHAINS.inputs) - features @ features.T) @ residuals)


@pytest.fixture(scope="module")
def whole():
    """The best function of the whole RKHS."""
    return fitted("all").solution_.value


@pytest.mark.parametrize("rank", [1, 3, 6, 12])
@pytest.mark.parametrize("basis", ["greedy-cholesky", "random-cholesky"])
def test_corollary_10_bounds_what_a_larger_basis_brings(whole, basis, rank):
    """At the optimum within the span, P - min P <= (s / 2) ||g_perp||^2, and the bound is not idle."""
    crf = fitted(basis, rank)
    improvement = crf.solution_.value - whole
    bound = 0.5 * VARIANCE * gradient_outside(crf)
    assert -1e-11 <= improvement <= bound
    assert improvement > 1e-3 * bound


@pytest.mark.parametrize("rank", [1, 3, 6, 12])
def test_corollary_10_is_what_certificates_report(whole, rank):
    """certify(scope="rkhs") is exact; rkhs_certificate_ bounds it from above at no cost."""
    crf = fitted("greedy-cholesky", rank)
    exact = crf.certify(*as_lists(CHAINS), scope="rkhs")
    bound = 0.5 * VARIANCE * gradient_outside(crf)
    np.testing.assert_allclose(exact.value, crf.solution_.value, rtol=1e-10)
    np.testing.assert_allclose(exact.gap, bound, rtol=1e-6)
    np.testing.assert_allclose(exact.parts["edge"], 0.0, atol=1e-10)
    assert exact.exact
    assert exact.lower_bound <= whole <= exact.value + 1e-11
    assert crf.rkhs_certificate_.lower_bound <= exact.lower_bound + 1e-9
    span = crf.certify(*as_lists(CHAINS), scope="span")
    assert span.gap <= 1e-12 * span.value


def test_quadratic_form_is_exact_however_the_kernel_is_cut_into_blocks(monkeypatch):
    """tr R^T K R from blocks of five rows and columns, rows of R that are zero included, equals the dense sum."""
    monkeypatch.setattr(
        quadratic_form, "row_blocks", lambda rows, _: [slice(b, min(b + 5, rows)) for b in range(0, rows, 5)]
    )
    residuals = np.random.default_rng(0).normal(size=(CHAINS.n_positions, 3))
    residuals[[2, 9]] = 0.0
    dense = np.vdot(residuals, KERNEL(CHAINS.inputs) @ residuals)
    streamed = quadratic_form.kernel_quadratic_form(KERNEL, CHAINS.inputs, residuals)
    np.testing.assert_allclose(streamed, dense, rtol=1e-12)


def test_away_from_the_restricted_optimum_the_span_part_is_added(whole):
    """min P >= P - (s / 2)(||g_span||^2 + ||g_perp||^2) everywhere; the last part alone bounds nothing."""
    node = NodeCliques(KERNEL, basis="greedy-cholesky", rank=6, prior_variance=VARIANCE)
    field = small_field([node, EdgeCliques(prior_variance=VARIANCE)], CHAINS)
    features, factor = field.designs[0].features, field.designs[0].term.label_factor
    outside = KERNEL(CHAINS.inputs) - features @ features.T
    for seed in range(6):
        point = field.posterior.make_point(field.random_theta(seed, 1.0))
        residuals = point.evaluation.residual.node @ factor
        perpendicular = 0.5 * VARIANCE * np.vdot(residuals, outside @ residuals)
        span = sum(field.posterior.gap_parts(point).values())
        assert point.value - perpendicular - span <= whole < point.value - perpendicular


@pytest.mark.slow
@pytest.mark.parametrize("edge_kernel", [None, KERNEL])
def test_corollary_10_bounds_what_a_clique_set_brings(edge_kernel):
    """Remark 11: a set outside the model improves P by at most (s_c / 2) ||g_c||^2 at the model's optimum."""
    node = NodeCliques(KERNEL, basis="all", prior_variance=VARIANCE)
    edge = EdgeCliques(edge_kernel, basis="all", prior_variance=0.3)
    without = small_field([node], CHAINS)
    theta = without.minimiser()
    both = small_field([node, edge], CHAINS)
    extended = np.concatenate([theta, np.zeros(both.size - without.size)])
    point = both.posterior.make_point(extended)
    np.testing.assert_allclose(point.value, without.value(theta), rtol=1e-12)
    parts = both.posterior.gap_parts(point)
    assert parts["node"] < 1e-20
    improvement = point.value - both.value(both.minimiser())
    assert 0 < improvement <= parts["edge"]
    assert improvement > 0.05 * parts["edge"]


def test_gradient_basis_takes_the_pivots_that_promise_most():
    """Corollary 10 as a selection rule: the input whose direction outside the span has the largest gradient comes next.

    Along k(x_j, .) less its projection, the squared norm of the gradient is ((K - Z Z^T) R)_j^2 / d_j.
    """
    crf = fitted("greedy-cholesky", 5)
    X, _ = as_lists(CHAINS)
    residuals = np.vstack(crf.predict_marginals(X)) - np.eye(3)[CHAINS.labels]
    panel = PanelCholesky(KERNEL, CHAINS.inputs, CHAINS.n_positions)
    panel.extend(crf.basis_["node"].indices)
    outside = KERNEL(CHAINS.inputs) - panel.features @ panel.features.T
    left = np.setdiff1d(np.arange(CHAINS.n_positions), panel.pivots)
    promised = np.sum((outside @ residuals)[left] ** 2, axis=1) / np.diagonal(outside)[left]
    assert Gradient(growth=1.2, candidates=100).grow(panel, residuals, np.random.default_rng(0)) == 1
    assert panel.pivots[-1] == left[np.argmax(promised)]


def test_gradient_basis_grows_until_the_whole_rkhs_is_certified(whole):
    """Corollary 10 as a selection rule: pivots are added until the certificate over all functions is tight."""
    crf = ChainCRF(
        KERNEL, basis="gradient", prior_variance=VARIANCE, solver="newton", tol=1e-4, random_state=0, n_jobs=1
    ).fit(*as_lists(CHAINS))
    assert crf.rkhs_certificate_.relative_gap <= 1e-4
    assert crf.rkhs_certificate_.lower_bound <= whole * (1 + 1e-12)
    assert crf.solution_.value - whole <= 1e-4 * crf.solution_.value
