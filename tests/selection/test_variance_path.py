"""A path of prior variances ends where single fits end, on features that are computed once."""

import numpy as np
import pytest
from search_sequences import as_entities, as_feature_dicts, per_token, search_sequences
from sklearn.base import clone

from kernelfields import ChainCRF
from kernelfields.estimators import base
from kernelfields.kernels.dot_product import Linear
from kernelfields.kernels.stationary import RBF
from kernelfields.numerics.threads import Workers
from kernelfields.selection import variance_path
from kernelfields.selection.candidates import Candidate, list_candidates
from kernelfields.selection.training_data import SequenceData
from kernelfields.selection.variance_path import VariancePath, extrapolated

X, y = search_sequences()
TRAIN, TEST = np.arange(0, 16), np.arange(16, 24)
VARIANCES = (10.0, 0.1, 1.0)


def follow(estimator, X, y, **grids):
    """Each candidate's parameters and its fit, along the path of one kernel."""
    training = estimator._training(X, y, None, estimator._progress())
    data = SequenceData(X, y, None, training)
    grids = {"kernels": None, "prior_variances": VARIANCES, "ranks": None, "edge_prior_variances": None, **grids}
    inputs = training.data.inputs
    candidates = list_candidates(estimator, lambda _: inputs, lambda each: each._cliques(training), **grids)
    assert len({each.path for each in candidates}) == 1
    path = VariancePath(clone(estimator), data, data.share(TRAIN, TEST), Workers(1))
    return [(candidate.params, fit) for candidate, fit, _ in path.follow(candidates)]


def pick(values, indices):
    return [values[i] for i in indices]


SETTINGS = {"rank": 15, "tol": 1e-9, "max_iter": 1000, "random_state": 3}
FIELDS = {
    "rbf": (ChainCRF(RBF(0.3), **SETTINGS), X, y),
    "linear": (ChainCRF("linear", **SETTINGS), X, y),
    "sum": (ChainCRF(Linear() + RBF(0.3), **SETTINGS), X, y),
    "edge kernel": (ChainCRF(RBF(0.3), edge_kernel="linear", **SETTINGS), X, y),
    "constraints": (ChainCRF(RBF(0.3), constraints="bio", window=3, **SETTINGS), X, as_entities(y)),
    "observed": (ChainCRF("linear", support="observed", **SETTINGS), as_feature_dicts(X), y),
}


@pytest.mark.parametrize("name", FIELDS)
def test_fits_on_a_path_are_those_of_single_estimators(name):
    estimator, X, y = FIELDS[name]
    fits = follow(estimator, X, y)
    assert [params["prior_variance"] for params, _ in fits] == sorted(VARIANCES)
    for params, fit in fits:
        single = ChainCRF(**{**estimator.get_params(deep=False), **params})
        single.fit(pick(X, TRAIN), pick(y, TRAIN))
        assert fit.fitted.solution.value == pytest.approx(single.solution_.value, rel=1e-8)
        held_X, held_y = pick(X, TEST), pick(y, TEST)
        assert fit.log_likelihood() == pytest.approx(single.log_likelihood(held_X, held_y), rel=1e-4)
        for ours, theirs in zip(fit.predictions(), single.predict(held_X), strict=True):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("name", FIELDS)
def test_scores_and_the_estimator_of_a_fit_agree(name):
    estimator, X, y = FIELDS[name]
    for params, fit in follow(estimator, X, y):
        fitted = fit.estimator()
        assert fitted.prior_variance == params["prior_variance"]
        held_X, held_y = pick(X, TEST), pick(y, TEST)
        per_sequence = fit.log_likelihood() / fit.part.test.n_positions
        assert per_sequence == pytest.approx(per_token(fitted, held_X, held_y), rel=1e-9)
        assert fitted.certify(pick(X, TRAIN), pick(y, TRAIN), scope="span").relative_gap < 1e-6
        for ours, theirs in zip(fit.predictions(), fitted.predict(held_X), strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_features_are_computed_once_and_starts_save_passes(monkeypatch):
    built = []

    def counted(cliques, *arguments):
        built.extend(name for name, _ in cliques)
        return build_designs(cliques, *arguments)

    build_designs = base.build_designs
    monkeypatch.setattr(base, "build_designs", counted)
    variances = np.geomspace(0.01, 100.0, 9)
    estimator = ChainCRF(RBF(0.3), rank=15, random_state=0, tol=1e-6, max_iter=500)
    warm = follow(estimator, X, y, prior_variances=variances)
    assert sorted(built) == ["edge", "node"]
    subspaces = {id(term.subspace) for _, fit in warm for term in fit.fitted.terms if term.name == "node"}
    assert len(subspaces) == 1
    monkeypatch.setattr(variance_path, "extrapolated", lambda trail, candidate: None)
    cold = follow(estimator, X, y, prior_variances=variances)
    passes = [sum(fit.fitted.solution.passes for _, fit in fits) for fits in (warm, cold)]
    assert passes[0] < 0.9 * passes[1]


def test_a_basis_that_grows_is_chosen_for_each_variance():
    estimator = ChainCRF(RBF(0.3), basis="gradient", **{**SETTINGS, "tol": 1e-5})
    ranks = []
    for params, fit in follow(estimator, X, y):
        single = ChainCRF(**{**estimator.get_params(deep=False), **params})
        single.fit(pick(X, TRAIN), pick(y, TRAIN))
        np.testing.assert_array_equal(fit.fitted.terms[0].subspace.indices, single.basis_["node"].indices)
        assert fit.log_likelihood() == pytest.approx(single.log_likelihood(pick(X, TEST), pick(y, TEST)), rel=1e-9)
        ranks.append(single.basis_["node"].rank)
    assert len(ranks) == 3


def test_transitions_may_have_variances_of_their_own():
    fits = follow(FIELDS["rbf"][0], X, y, edge_prior_variances=[5.0, 0.5])
    levels = [(params["edge_prior_variance"], params["prior_variance"]) for params, _ in fits]
    assert levels == [(edge, node) for edge in (0.5, 5.0) for node in (0.1, 1.0, 10.0)]
    for params, fit in fits:
        single = ChainCRF(**{**FIELDS["rbf"][0].get_params(deep=False), **params})
        value = single.fit(pick(X, TRAIN), pick(y, TRAIN)).solution_.value
        assert fit.fitted.solution.value == pytest.approx(value, rel=1e-8)


def candidate(node, edge=None):
    return Candidate({"prior_variance": node, **({} if edge is None else {"edge_prior_variance": edge})}, ())


def test_starts_are_continued_in_the_logarithm_of_the_variance():
    one, two = [np.array([1.0])], [np.array([3.0])]
    assert extrapolated([], candidate(1.0)) is None
    assert extrapolated([(candidate(1.0), one)], candidate(10.0)) is one
    trail = [(candidate(1.0), one), (candidate(10.0), two)]
    assert extrapolated(trail, candidate(100.0))[0] == pytest.approx(5.0)
    assert extrapolated(trail, candidate(10.0**1.5))[0] == pytest.approx(4.0)
    # No further than the last step, and not to infinity.
    assert extrapolated(trail, candidate(1e6))[0] == pytest.approx(5.0)
    assert extrapolated(trail, candidate(np.inf)) is two
    # Parts of a sum may have the same mean; another variance of transitions begins a new row.
    equal = [(candidate((1.0, 4.0)), one), (candidate((4.0, 1.0)), two)]
    assert extrapolated(equal, candidate((8.0, 8.0))) is two
    assert extrapolated([(candidate(1.0, 1.0), one), (candidate(10.0, 1.0), two)], candidate(1.0, 2.0)) is one


def test_held_out_sequences_with_labels_that_training_lacks_are_dropped():
    labels = [each.copy() for each in y]
    labels[20][-1] = 9
    crf = ChainCRF(class_weight={9: 2.0})
    data = SequenceData(X, labels, None, crf._training(X, labels, None, crf._progress()))
    share = data.share(TRAIN, TEST)
    assert share.n_dropped == 1
    part = data.part(share, crf)
    assert part.test.n_sequences == len(TEST) - 1
    assert all(9 not in each for each in part.y_test)
    assert not data.share(TRAIN, np.array([20])).scored
    # The field of the fold knows the label all the same, so constraints and weights of classes can name it.
    np.testing.assert_array_equal(part.training.classes, [0, 1, 2, 9])
