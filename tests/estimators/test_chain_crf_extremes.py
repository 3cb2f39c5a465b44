"""Inputs, priors and label sets at the edges of what is reasonable."""

import pytest

from kernelfields import ChainCRF, EdgeCliques
from kernelfields.engines import threads
from kernelfields.kernels import Linear, Polynomial
from kernelfields.objective import datafit
from tests.samples import labelled_sequences

X, y = labelled_sequences(n_sequences=30)


@pytest.mark.parametrize("prior_variance", [1e-12, 1e-6, 1e4, 1e6])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_prior_variances_of_any_size_are_certified(kernel, prior_variance):
    crf = ChainCRF(kernel, prior_variance=prior_variance, random_state=0, max_iter=2000).fit(X, y)
    assert crf.solution_.converged
    certificate = crf.certify(X, y, scope="span")
    assert certificate.value == pytest.approx(crf.solution_.value, rel=1e-6)
    twin = ChainCRF(kernel, prior_variance=prior_variance, random_state=0, solver="newton").fit(X, y)
    assert twin.solution_.lower_bound <= crf.solution_.value * (1 + 1e-12)
    assert crf.solution_.value <= twin.solution_.value * (1 + 2e-3)


@pytest.mark.parametrize("solver", ["newton", "newton-cg", "subspace", "block-jacobi", "lbfgs"])
def test_inputs_in_tiny_units_are_a_matter_of_patience_not_of_failure(solver):
    # The likelihood is piecewise linear at the scale of the first step: the line search must come back from it.
    wide = [1e6 * x for x in X]
    crf = ChainCRF(Linear() + 1e6, prior_variance=1e-6, solver=solver, max_iter=2000, tol=1e-2).fit(wide, y)
    assert crf.solution_.converged
    assert crf.score(wide, y) > 0.7


def test_an_outlier_does_not_blind_a_polynomial_field():
    crf = ChainCRF(Polynomial(3, gamma=0.1), dtype="float32", random_state=0)
    plain = crf.fit(X, y).score(X, y)
    spoilt = [x.copy() for x in X]
    spoilt[3][1] *= 100.0
    crf.fit(spoilt, y)
    assert crf.basis_["node"].rank > 10
    assert crf.score(X, y) > plain - 0.1


def test_what_cannot_fit_in_memory_says_so_before_the_work_starts(monkeypatch):
    for module in (threads, datafit):
        monkeypatch.setattr(module, "available_memory", lambda: 1000)
    with pytest.raises(MemoryError, match=r"clique set 'node': features of .* Use rank=\d+ or less"):
        ChainCRF().fit(X, y)
    with pytest.raises(MemoryError, match=r"\(L, L\) scores at every position: .* Leave out the edge kernel"):
        ChainCRF("linear", edges=EdgeCliques("linear")).fit(X, y)
    ChainCRF("linear").fit(X, y)
