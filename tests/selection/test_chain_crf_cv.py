"""ChainCRFCV finds what an exhaustive search finds, and behaves like the field it has chosen."""

from itertools import pairwise

import numpy as np
import pytest
from search_sequences import as_entities, as_feature_dicts, per_token, search_sequences
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold

from kernelfields import ChainCRF, ChainCRFCV
from kernelfields.evaluation import entity_f1_score
from kernelfields.kernels import RBF, Polynomial

X, y = search_sequences()
CRF = ChainCRF(rank=12, tol=1e-7, max_iter=500, random_state=0)
GRID = {"kernels": [RBF(0.1), Polynomial(2)], "prior_variances": [0.1, 1.0, 10.0]}
FOLDS = KFold(3, shuffle=True, random_state=0)
QUICK = {"kernels": [RBF(0.1), RBF(1.0)], "prior_variances": [0.1, 1.0], "random_state": 0}


def quick(**settings):
    return ChainCRFCV(ChainCRF(rank=12), **{**QUICK, **settings})


def exhaustive(scoring, X=X, y=y, crf=CRF):
    grid = {"kernel": GRID["kernels"], "prior_variance": GRID["prior_variances"]}
    return GridSearchCV(crf, grid, scoring=scoring, cv=FOLDS).fit(X, y)


def entity_f1(estimator, X, y):
    return entity_f1_score(y, estimator.predict(X), scheme="bio")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scoring", "peer", "inputs", "labels"),
    [
        ("log_likelihood", per_token, X, y),
        ("accuracy", None, X, y),
        ("entity_f1", entity_f1, X, as_entities(y)),
        (per_token, per_token, X, y),
        ("log_likelihood", per_token, as_feature_dicts(X), y),
    ],
)
def test_without_halving_it_is_a_grid_search(scoring, peer, inputs, labels):
    search = ChainCRFCV(CRF, **GRID, cv=FOLDS, scoring=scoring, halving=False).fit(inputs, labels)
    grid = exhaustive(peer, inputs, labels)
    ours, theirs = search.cv_results_, grid.cv_results_
    order = [
        next(i for i, mine in enumerate(ours["params"]) if all(mine[key] == value for key, value in each.items()))
        for each in theirs["params"]
    ]
    for name in ("mean_test_score", "std_test_score", *(f"split{fold}_test_score" for fold in range(3))):
        np.testing.assert_allclose(ours[name][order], theirs[name], atol=1e-3, err_msg=name)
    for name in ("kernel", "prior_variance"):
        assert search.best_params_[name] == grid.best_params_[name]
    assert search.best_score_ == pytest.approx(grid.best_score_, abs=1e-3)
    for one, other in zip(
        search.predict_marginals(inputs), grid.best_estimator_.predict_marginals(inputs), strict=True
    ):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_results_are_arrays_in_the_manner_of_scikit_learn():
    search = ChainCRFCV(CRF, **GRID, halving=False, random_state=0).fit(X, y)
    results = search.cv_results_
    assert set(exhaustive(None).cv_results_) <= {*results}
    assert all(len(column) == 6 for column in results.values())
    scores = np.array([results[f"split{fold}_test_score"] for fold in range(search.n_splits_)])
    np.testing.assert_allclose(results["mean_test_score"], scores.mean(axis=0))
    np.testing.assert_allclose(results["std_test_score"], scores.std(axis=0))
    assert sorted(results["rank_test_score"]) == list(range(1, 7))
    order = np.argsort(results["rank_test_score"])
    assert np.all(np.diff(results["mean_test_score"][order]) <= 0)
    assert search.best_index_ == order[0]
    assert results["params"][order[0]] == search.best_params_
    assert search.best_score_ == results["mean_test_score"].max()
    assert list(results["param_kernel"]) == [each["kernel"] for each in results["params"]]
    assert np.all(results["mean_fit_time"] > 0)
    sizes = [sum(len(y[i]) for i in train) for train, _ in search.splits_]
    assert np.all(results["n_resources"] == max(sizes))
    assert not results["n_dropped"].any()
    assert not results["n_unconverged"].any()


@pytest.mark.slow
def test_halving_compares_few_candidates_on_all_sequences():
    X, y = search_sequences(60)
    search = ChainCRFCV(CRF, **GRID, factor=2, min_items=4, random_state=0).fit(X, y)
    results = search.cv_results_
    rungs = [np.flatnonzero(results["iter"] == rung) for rung in range(results["iter"].max() + 1)]
    assert [len(rows) for rows in rungs] == [6, 3, 2]
    sizes = [results["n_resources"][rows[0]] for rows in rungs]
    assert sizes[-1] == max(sum(len(y[i]) for i in train) for train, _ in search.splits_)
    assert sizes[0] < sizes[1] < sizes[2]
    for before, after in pairwise(rungs):
        # Those that go on are the best of their rung.
        passed = sorted(results["mean_test_score"][before], reverse=True)[: len(after)]
        names = [str(results["params"][row]) for row in after]
        old = [row for row in before if str(results["params"][row]) in names]
        np.testing.assert_array_equal(sorted(results["mean_test_score"][old], reverse=True), passed)
    # Ranks put the last rung first: a score on few sequences is not a score on all of them.
    assert sorted(results["rank_test_score"][rungs[-1]]) == [1, 2]
    assert search.best_index_ in rungs[-1]
    everything = ChainCRFCV(CRF, **GRID, halving=False, random_state=0).fit(X, y)
    row = everything.cv_results_["params"].index(search.best_params_)
    assert search.best_score_ == pytest.approx(everything.cv_results_["mean_test_score"][row], abs=1e-3)
    assert everything.best_score_ - search.best_score_ < 0.05


@pytest.mark.slow
def test_defaults_search_scales_and_prior_variances():
    search = ChainCRFCV(ChainCRF(rank=8), random_state=0, refit=False).fit(X, y)
    assert len(search.cv_results_["params"]) == 25
    assert len(set(search.cv_results_["param_kernel"])) == 5
    assert set(search.cv_results_["param_prior_variance"]) == {0.01, 0.1, 1.0, 10.0, 100.0}
    assert set(search.cv_results_["param_rank"]) == {8}


def test_the_search_answers_like_its_best_estimator(tmp_path):
    search = quick().fit(X, y)
    best = search.best_estimator_
    assert isinstance(best, ChainCRF)
    assert {name: getattr(best, name) for name in search.best_params_} == search.best_params_
    assert best.kernel is not search.best_params_["kernel"]
    np.testing.assert_array_equal(search.classes_, [0, 1, 2])
    assert search.n_features_in_ == 3
    assert search.coef_ is best.coef_
    assert search.score(X, y) == best.score(X, y)
    assert search.log_likelihood(X, y) == best.log_likelihood(X, y)
    np.testing.assert_array_equal(np.concatenate(search.predict(X)), np.concatenate(best.predict(X)))
    nodes, pairs = search.predict_marginals(X, cliques="edge")
    assert nodes[0].shape == (len(X[0]), 3)
    assert pairs[0].shape == (len(X[0]) - 1, 3, 3)
    assert len(search.predict_nbest(X, 2)[0]) == 2
    assert search.entropy(X).shape == (len(X),)
    assert search.certify(X, y, scope="span").relative_gap < 1e-2
    search.save(tmp_path / "field")
    loaded = ChainCRF.load(tmp_path / "field")
    np.testing.assert_array_equal(np.concatenate(loaded.predict(X)), np.concatenate(search.predict(X)))
    with pytest.raises(AttributeError, match="'ChainCRFCV' object has no attribute 'transform'"):
        search.transform(X)


def test_without_refit_there_is_a_choice_and_no_field():
    search = quick(refit=False).fit(X, y)
    assert search.best_params_["kernel"] in QUICK["kernels"]
    with pytest.raises(NotFittedError, match="refit=False, so it has no fitted field"):
        search.predict(X)
    search.set_params(refit=True).fit(X, y)
    assert len(search.predict(X)) == len(X)
    assert not hasattr(search.set_params(refit=False).fit(X, y), "best_estimator_")


def test_weights_of_sequences_reach_the_fits():
    weights = np.where(np.arange(len(X)) < 12, 1.0, 0.0)
    # With all pivots the span is no smaller for sequences of weight zero.
    crf = ChainCRF(basis="all", tol=1e-7, max_iter=500)
    weighted, fewer = (
        ChainCRFCV(crf, **QUICK, cv=[(train, np.arange(16, 24))], refit=False).fit(X, y, given).cv_results_
        for train, given in ((np.arange(16), weights), (np.arange(12), None))
    )
    np.testing.assert_allclose(weighted["mean_test_score"], fewer["mean_test_score"], atol=1e-4)


def test_rows_with_rare_labels_are_scored_where_they_can_be():
    labels = [each.copy() for each in y]
    labels[4][0] = 7  # once only: whoever holds it out cannot have learnt it
    search = quick(kernels=[RBF(0.1)]).fit(X, labels)
    assert np.all(search.cv_results_["n_dropped"] == 1)
    assert np.all(np.isfinite(search.cv_results_["mean_test_score"]))
    assert "1 held-out sequence was not scored" in str(search.table())
    np.testing.assert_array_equal(search.classes_, [0, 1, 2, 7])
    # A fold in which nothing can be scored has no say.
    alone = quick(cv=[(np.delete(np.arange(24), 4), [4]), (np.arange(12), np.arange(12, 24))])
    alone.fit(X, labels)
    results = alone.cv_results_
    assert np.all(np.isnan(results["split0_test_score"]))
    np.testing.assert_array_equal(results["mean_test_score"], results["split1_test_score"])


def test_the_table_shows_each_candidate_once_the_best_first():
    X, y = search_sequences(60)
    search = ChainCRFCV(CRF, **GRID, factor=3, min_items=4, random_state=0).fit(X, y)
    text = str(search.table())
    heading, columns, first, *rest = [line for line in text.splitlines() if line]
    assert heading == "6 candidates, 3 folds"
    assert columns.split("   ")[0].strip() == "kernel"
    assert first.startswith(repr(search.best_params_["kernel"]))
    assert f"{search.best_score_:.4f}" in first
    assert len(rest) == 5
    assert len(str(search.table(top=2)).splitlines()) == 4
    assert str(search.table(top=2)).startswith("best 2 of 6 candidates, 3 folds")
    page = search.table()._repr_html_()
    assert page.count("<tr>") == 7
    assert "log likelihood" in page
    with pytest.raises(ValueError, match="top must be a whole number"):
        search.table(top=0)
