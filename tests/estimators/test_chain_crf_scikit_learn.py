"""ChainCRF keeps the contract of scikit-learn estimators, on lists of sequences."""

import copy
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kernelfields import ChainCRF, EdgeCliques, NodeCliques, Sequencewise
from kernelfields.basis.subspace import PivotSubspace
from kernelfields.kernels import RBF
from kernelfields.objective.bounds import Certificate
from kernelfields.solvers import Solution
from tests.samples import as_words, labelled_sequences

X, y = labelled_sequences()


def test_parameters_can_be_read_set_and_cloned():
    crf = ChainCRF(RBF(gamma=0.5), prior_variance=2.0, constraints=[(0, 2)])
    assert crf.get_params()["kernel__gamma"] == 0.5
    crf.set_params(kernel__gamma=0.25, prior_variance=3.0)
    copied = clone(crf)
    assert copied.get_params() == crf.get_params()
    assert copied.kernel is not crf.kernel
    assert not hasattr(clone(ChainCRF(random_state=0).fit(X, y)), "field_")
    with pytest.raises(ValueError, match="ChainCRF has no parameter 'gamma'"):
        crf.set_params(gamma=1.0)
    spelled = ChainCRF(cliques=[NodeCliques(RBF(gamma=0.1)), EdgeCliques()])
    assert clone(spelled).cliques[0].kernel == RBF(gamma=0.1)


def test_fit_does_not_touch_the_parameters():
    kernel = RBF()
    crf = ChainCRF(kernel, rank=12, random_state=0)
    before = dict(crf.get_params())
    assert crf.fit(X, y) is crf
    assert crf.get_params() == before
    assert kernel.gamma == "scale"


def test_attributes_after_fit():
    crf = ChainCRF(rank=12, random_state=0).fit(X, as_words(y))
    np.testing.assert_array_equal(crf.classes_, ["adj", "noun", "verb"])
    assert crf.n_features_in_ == 3
    assert isinstance(crf.basis_["node"], PivotSubspace)
    assert crf.basis_["node"].rank == 12
    assert crf.coef_["node"].shape == (12, 3)
    assert crf.coef_["edge"].shape == (1, 9)
    assert crf.transitions_.shape == (3, 3)
    np.testing.assert_array_equal(crf.transitions_.ravel(), crf.coef_["edge"][0])
    assert isinstance(crf.solution_, Solution)
    assert isinstance(crf.certificate_, Certificate)
    assert crf.certificate_.scope == "span"
    assert crf.rkhs_certificate_.scope == "rkhs"
    # Lemma 13: at the optimum the delta kernel's coefficients sum to zero over labels.
    np.testing.assert_allclose(crf.coef_["node"].sum(axis=1), 0.0, atol=1e-12)
    assert ChainCRF(edges=EdgeCliques("linear"), random_state=0).fit(X, y).transitions_ is None


def test_pipeline_scales_the_positions_of_all_sequences():
    raw = [10.0 * x + 5.0 for x in X]
    pipeline = make_pipeline(Sequencewise(StandardScaler()), ChainCRF(random_state=0)).fit(raw, y)
    everything = np.concatenate(raw)
    scaled = [(x - everything.mean(axis=0)) / everything.std(axis=0) for x in raw]
    by_hand = ChainCRF(random_state=0).fit(scaled, y)
    np.testing.assert_allclose(
        np.concatenate(pipeline[-1].predict_marginals(pipeline[:-1].transform(raw))),
        np.concatenate(by_hand.predict_marginals(scaled)),
        atol=1e-8,
    )
    assert pipeline.score(raw, y) == by_hand.score(scaled, y)
    assert len(pipeline.predict(raw)) == len(raw)


def test_grid_search_over_prior_and_kernel_parameters():
    search = GridSearchCV(
        ChainCRF(RBF(), rank=20, random_state=0),
        {"prior_variance": [0.1, 10.0], "kernel__gamma": [0.01, 0.3]},
        cv=3,
    ).fit(X, y)
    assert set(search.best_params_) == {"prior_variance", "kernel__gamma"}
    assert np.all(np.isfinite(search.cv_results_["mean_test_score"]))
    assert search.best_estimator_.kernel.gamma == search.best_params_["kernel__gamma"]
    assert search.score(X, y) > 0.8


def test_grid_search_through_a_pipeline():
    pipeline = make_pipeline(Sequencewise(StandardScaler()), ChainCRF(rank=20, random_state=0))
    search = GridSearchCV(pipeline, {"chaincrf__prior_variance": [0.1, 1.0]}, cv=2).fit(X, as_words(y))
    assert search.best_score_ > 0.5


def test_cross_validation_on_lists_of_sequences():
    scores = cross_val_score(ChainCRF(rank=20, random_state=0), X, y, cv=3)
    assert scores.shape == (3,)
    assert np.all((scores > 0.3) & (scores <= 1.0))


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda crf: pickle.loads(pickle.dumps(crf))])
@pytest.mark.parametrize("kernel", ["linear", RBF(gamma=0.3)])
def test_fitted_estimators_can_be_copied_and_pickled(duplicate, kernel):
    crf = ChainCRF(kernel, random_state=0).fit(X, y)
    twin = duplicate(crf)
    for one, other in zip(crf.predict_marginals(X), twin.predict_marginals(X), strict=True):
        np.testing.assert_array_equal(one, other)
    assert twin.certificate_ == crf.certificate_
    assert twin.fit(X, y).solution_.converged


@pytest.mark.parametrize(
    "call",
    [
        lambda crf: crf.predict(X),
        lambda crf: crf.predict_marginals(X),
        lambda crf: crf.predict_nbest(X, 2),
        lambda crf: crf.log_likelihood(X, y),
        lambda crf: crf.score(X, y),
        lambda crf: crf.sample(X),
        lambda crf: crf.entropy(X),
        lambda crf: crf.certify(X, y),
        lambda crf: crf.save("never-written"),
    ],
)
def test_nothing_can_be_asked_before_fit(call):
    with pytest.raises(NotFittedError, match="Call 'fit'"):
        call(ChainCRF())
