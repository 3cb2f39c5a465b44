"""A path of prior variances ends where single fits end, on features that are computed once."""

import numpy as np
import pytest
from search_sequences import as_entities, as_feature_dicts, per_token, search_sequences
from sklearn.base import clone

from kernelfields import ChainCRF, EdgeCliques
from kernelfields.estimators.base import prepare_fit
from kernelfields.kernels import RBF, Linear
from kernelfields.selection import variance_path
from kernelfields.selection.candidates import Candidate, list_candidates
from kernelfields.selection.folds import Fold, Items
from kernelfields.selection.variance_path import extrapolate_start, follow_path
from kernelfields.structures import library

X, y = search_sequences()
TRAIN, TEST = np.arange(0, 16), np.arange(16, 24)
VARIANCES = (10.0, 0.1, 1.0)


def read(estimator, X, y):
    training = prepare_fit(estimator, X, y, None)
    return training, Items(estimator, training, X, y, None)


def follow(estimator, X, y, **grids):
    """Each candidate's parameters and its fit, along the path of one kernel."""
    training, items = read(estimator, X, y)
    grids = {"kernels": estimator.kernel, "prior_variances": VARIANCES, "ranks": None, **grids}
    candidates = list_candidates(estimator, training, **{"edge_prior_variances": None, **grids})
    assert len({each.path for each in candidates}) == 1
    share = items.share(Fold(TRAIN, TEST, TRAIN, TEST))
    return [(fit.candidate.params, fit) for fit in follow_path(estimator, items, share, candidates)]


def pick(values, indices):
    return [values[i] for i in indices]


SETTINGS = {"rank": 15, "tol": 1e-9, "max_iter": 1000, "random_state": 3}
FIELDS = {
    "rbf": (ChainCRF(RBF(0.3), **SETTINGS), X, y),
    "linear": (ChainCRF("linear", **SETTINGS), X, y),
    "sum": (ChainCRF(Linear() + RBF(0.3), **SETTINGS), X, y),
    "edge kernel": (ChainCRF(RBF(0.3), edges=EdgeCliques("linear"), **SETTINGS), X, y),
    "constraints": (ChainCRF(RBF(0.3), constraints="bio", window=3, **SETTINGS), X, as_entities(y)),
    "observed": (ChainCRF("linear", support="observed", **SETTINGS), as_feature_dicts(X), y),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FIELDS)
def test_fits_on_a_path_are_those_of_single_estimators(name):
    estimator, X, y = FIELDS[name]
    fits = follow(estimator, X, y)
    assert [params["prior_variance"] for params, _ in fits] == sorted(VARIANCES)
    for params, fit in fits:
        single = ChainCRF(**{**estimator.get_params(deep=False), **params})
        single.fit(pick(X, TRAIN), pick(y, TRAIN))
        assert fit.estimator.solution_.value == pytest.approx(single.solution_.value, rel=1e-8)
        held_X, held_y = pick(X, TEST), pick(y, TEST)
        assert fit.log_likelihood() == pytest.approx(per_token(single, held_X, held_y), rel=1e-4)
        for ours, theirs in zip(fit.estimator.predict(fit.test.X), single.predict(held_X), strict=True):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("name", FIELDS)
def test_scores_and_the_estimator_of_a_fit_agree(name):
    estimator, X, y = FIELDS[name]
    for params, fit in follow(estimator, X, y):
        assert fit.estimator.prior_variance == params["prior_variance"]
        assert fit.log_likelihood() == pytest.approx(per_token(fit.estimator, pick(X, TEST), pick(y, TEST)), rel=1e-9)
        assert fit.estimator.certify(pick(X, TRAIN), pick(y, TRAIN), scope="span").relative_gap < 1e-6


def test_features_are_computed_once_and_starts_save_passes(monkeypatch):
    built = []

    def counted(cliques, *arguments):
        built.extend(name for name, _ in cliques)
        return build_designs(cliques, *arguments)

    build_designs = library.build_designs
    monkeypatch.setattr(library, "build_designs", counted)
    variances = np.geomspace(0.01, 100.0, 9)
    estimator = ChainCRF(RBF(0.3), rank=15, random_state=0, tol=1e-6, max_iter=500)
    warm = follow(estimator, X, y, prior_variances=variances)
    assert sorted(built) == ["edge", "node"]
    subspaces = {id(fit.estimator.basis_["node"]) for _, fit in warm}
    assert len(subspaces) == 1
    monkeypatch.setattr(variance_path, "extrapolate_start", lambda trail, candidate: None)
    cold = follow(estimator, X, y, prior_variances=variances)
    passes = [sum(fit.estimator.solution_.passes for _, fit in fits) for fits in (warm, cold)]
    assert passes[0] < 0.9 * passes[1]


def test_a_basis_that_grows_is_chosen_for_each_variance():
    estimator = ChainCRF(RBF(0.3), basis="gradient", **{**SETTINGS, "tol": 1e-5})
    ranks = []
    for params, fit in follow(estimator, X, y):
        single = ChainCRF(**{**estimator.get_params(deep=False), **params})
        single.fit(pick(X, TRAIN), pick(y, TRAIN))
        np.testing.assert_array_equal(fit.estimator.basis_["node"].indices, single.basis_["node"].indices)
        assert fit.log_likelihood() == pytest.approx(per_token(single, pick(X, TEST), pick(y, TEST)), rel=1e-9)
        ranks.append(single.basis_["node"].rank)
    assert len(ranks) == 3


def test_transitions_may_have_variances_of_their_own():
    fits = follow(FIELDS["rbf"][0], X, y, edge_prior_variances=[5.0, 0.5])
    levels = [(params["edges__prior_variance"], params["prior_variance"]) for params, _ in fits]
    assert levels == [(edge, node) for edge in (0.5, 5.0) for node in (0.1, 1.0, 10.0)]
    for params, fit in fits:
        single = clone(FIELDS["rbf"][0]).set_params(**params)
        value = single.fit(pick(X, TRAIN), pick(y, TRAIN)).solution_.value
        assert fit.estimator.solution_.value == pytest.approx(value, rel=1e-8)


def candidate(node, edge=None):
    return Candidate({"prior_variance": node, **({} if edge is None else {"edges__prior_variance": edge})})


def test_starts_are_continued_in_the_logarithm_of_the_variance():
    one, two = [np.array([1.0])], [np.array([3.0])]
    assert extrapolate_start([], candidate(1.0)) is None
    assert extrapolate_start([(candidate(1.0), one)], candidate(10.0)) is one
    trail = [(candidate(1.0), one), (candidate(10.0), two)]
    assert extrapolate_start(trail, candidate(100.0))[0] == pytest.approx(5.0)
    assert extrapolate_start(trail, candidate(10.0**1.5))[0] == pytest.approx(4.0)
    # No further than the last step, and not to infinity.
    assert extrapolate_start(trail, candidate(1e6))[0] == pytest.approx(5.0)
    assert extrapolate_start(trail, candidate(np.inf)) is two
    # Another variance of transitions begins a new row.
    assert extrapolate_start([(candidate(1.0, 1.0), one), (candidate(10.0, 1.0), two)], candidate(1.0, 2.0)) is one


def test_held_out_sequences_with_labels_that_training_lacks_are_dropped():
    labels = [each.copy() for each in y]
    labels[20][-1] = 9
    crf = ChainCRF("linear", constraints={"start": [9]}, prior_variance=1.0)
    training, items = read(crf, X, labels)
    share = items.share(Fold(TRAIN, TEST, TRAIN, TEST))
    assert share.n_dropped == 1
    assert list(share.scored) == [each for each in TEST if each != 20]
    assert not len(items.share(Fold(TRAIN, np.array([20]), TRAIN, TEST)).scored)
    grids = {"kernels": "linear", "prior_variances": [1.0], "ranks": None, "edge_prior_variances": None}
    (fit,) = follow_path(crf, items, share, list_candidates(crf, training, **grids))
    assert all(9 not in each for each in fit.test.y)
    # The field of the fold knows the label all the same, so constraints can name it.
    np.testing.assert_array_equal(fit.estimator.classes_, [0, 1, 2, 9])
