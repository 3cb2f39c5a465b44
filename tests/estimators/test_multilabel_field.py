"""The parts of a multi-label field, as a search for edges uses them."""

import itertools

import numpy as np
import pytest

from benchmarks.fit_parts import parts_of_fit
from kernelfields import KernelClassifier, MultiLabelCRF
from kernelfields.kernels import RBF
from kernelfields.models.fit import FitOptions, fit_field
from kernelfields.models.structure import StructureSearch, learn_structure
from tests.samples import labelled_instances

X, Y = labelled_instances(150)
EDGES = list(itertools.combinations(range(4), 2))
OPTIONS = FitOptions("auto", tol=1e-7, max_iter=100)


def field():
    """The sample of a field in which all labels may meet, and what makes terms on it."""
    crf = MultiLabelCRF(RBF(0.3), prior_variance=1.0, tol=1e-7, rank=30, label_graph="full", random_state=0)
    training, sample, _ = parts_of_fit(crf, X, Y)
    return sample, crf._terms(sample, training)


def test_a_search_finds_the_pairs_that_depend_on_each_other():
    sample, terms = field()
    path, designs, fitted = learn_structure(
        terms.label_designs(),
        terms.pair_designs(EDGES),
        sample,
        StructureSearch(max_additions=2, threshold=1.0, validation=0.0),
        OPTIONS,
        fits=lambda designs: True,
    )
    assert set(path.added) == {"pair 0 ~ 1", "pair 2 ~ 3"}
    sample, terms = field()
    whole = fit_field(terms.designs([(0, 1), (2, 3)]), sample, OPTIONS)
    assert fitted.solution.value == pytest.approx(whole.solution.value, rel=1e-6)
    assert len(designs) == 4 + 4 + 2


@pytest.mark.parametrize("solver", ["auto", "newton", "lbfgs"])
def test_without_edges_a_missing_label_drops_out(solver):
    """A field of labels that do not meet is one field for each label, fitted to the instances that have it."""
    random = np.random.default_rng(0)
    X, Y = random.normal(size=(50, 3)), (random.random((50, 2)) < 0.5).astype(float)
    Y[random.random(Y.shape) < 0.3] = np.nan
    settings = {"prior_variance": 1.0, "scale": False, "tol": 1e-9, "random_state": 0, "label_graph": "none"}
    crf = MultiLabelCRF("linear", solver=solver, **settings).fit(X, Y)
    assert crf.solution_.reason == "gap"
    assert not crf.certificate_.completed
    assert not crf.certify(X, Y).completed
    alone = [
        MultiLabelCRF("linear", **settings).fit(X[known], Y[known, k, None]) for k, known in enumerate(~np.isnan(Y).T)
    ]
    assert crf.solution_.value == pytest.approx(sum(each.solution_.value for each in alone), rel=1e-7)
    np.testing.assert_allclose(crf.predict_proba(X), np.hstack([each.predict_proba(X) for each in alone]), atol=1e-4)
    evidence = [
        each.laplace(X[known], Y[known, k, None]).value
        for each, (k, known) in zip(alone, enumerate(~np.isnan(Y).T), strict=True)
    ]
    assert crf.laplace(X, Y).value == pytest.approx(sum(evidence), rel=1e-6)


def test_samples_without_a_label_drop_out_of_a_classifier():
    random = np.random.default_rng(0)
    X, y = random.normal(size=(40, 2)), random.integers(3, size=40)
    gaps = [None if number % 4 == 0 else int(label) for number, label in enumerate(y)]
    known = np.arange(40) % 4 != 0
    settings = {"prior_variance": 1.0, "scale": False, "random_state": 0}
    crf = KernelClassifier("linear", solver="newton", **settings).fit(X, gaps)
    assert crf.solution_.reason == "gap"
    np.testing.assert_allclose(
        crf.predict_proba(X), KernelClassifier("linear", **settings).fit(X[known], y[known]).predict_proba(X), atol=1e-6
    )
