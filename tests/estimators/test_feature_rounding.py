"""Float32 features that are too coarse for a prior are noticed."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from kernelfields import ChainCRF, EdgeCliques
from kernelfields.engines import Torch
from kernelfields.estimators import library
from kernelfields.kernels import RBF
from kernelfields.models.fit import fit_field


def smooth_data(n_sequences=80, seed=1):
    random = np.random.default_rng(seed)
    X = [random.normal(size=(int(random.integers(1, 13)), 2)) for _ in range(n_sequences)]
    weights = random.normal(size=(2, 3))
    return X, [(x @ weights).argmax(axis=1) for x in X]


X, y = smooth_data()


def fitted(monkeypatch, **parameters):
    """A fitted field and what it found rounding to do to its value."""
    kept = []

    def kept_fit(*arguments, **options):
        kept.append(fit_field(*arguments, **options))
        return kept[-1]

    monkeypatch.setattr(library, "fit_field", kept_fit)
    crf = ChainCRF(RBF(0.05), random_state=0, max_iter=1000, **parameters).fit(X, y)
    return crf, sum(kept[0].roundings)


@pytest.mark.parametrize(("edge_kernel", "engine"), [(None, "threads"), (RBF(0.05), "threads"), (None, "torch")])
def test_the_estimate_is_the_difference_between_the_value_reported_and_that_of_the_field(
    monkeypatch, edge_kernel, engine
):
    if engine == "torch":
        pytest.importorskip("torch")
        engine = Torch("cpu")
    parameters = {"prior_variance": 300.0, "dtype": "float32", "edges": EdgeCliques(edge_kernel), "engine": engine}
    crf, rounding = fitted(monkeypatch, **parameters)
    difference = crf.certify(X, y, scope="span").value - crf.solution_.value
    assert abs(difference) > 1e-7 * crf.solution_.value
    assert rounding == pytest.approx(difference, rel=0.2)


@pytest.mark.slow
def test_a_prior_too_weak_for_float32_warns():
    random = np.random.default_rng(2)
    noisy = [np.where(random.random(len(labels)) < 0.2, 0, labels) for labels in y]
    parameters = {"prior_variance": 1e5, "tol": 1e-3, "random_state": 0, "max_iter": 1000}
    with pytest.warns(ConvergenceWarning, match="float32 features are too coarse .* dtype='float64'"):
        coarse = ChainCRF(RBF(0.05), dtype="float32", **parameters).fit(X, noisy)
    fine = ChainCRF(RBF(0.05), dtype="float64", **parameters).fit(X, noisy)
    assert coarse.solution_.value < fine.solution_.lower_bound, "what the warning is about"
