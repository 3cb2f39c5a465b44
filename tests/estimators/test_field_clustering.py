"""FieldClustering: recovery, restarts, scikit-learn's manners, sequences, files, interrupts, errors."""

import re

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone, is_clusterer
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import adjusted_rand_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from kernelfields import FieldClustering
from kernelfields.kernels import RBF, Linear
from kernelfields.models import clusters

X, Y = make_blobs(90, 3, centers=3, cluster_std=0.5, random_state=0)
HOLED = X.copy()
HOLED[5, 1] = np.nan
QUICK = {"rank": 30, "n_init": 2, "random_state": 0}


def sticky_sequences(seed=0, n_sequences=8, length=30, n_states=3):
    """Sequences of states that mostly stay, seen through noise that hides them from k-means, and the states."""
    random = np.random.default_rng(seed)
    centres = 1.5 * np.eye(n_states)
    sequences, states = [], []
    for _ in range(n_sequences):
        moves = random.random(length) < 0.05
        state = (random.integers(n_states) + np.cumsum(moves)) % n_states
        sequences.append(centres[state] + random.normal(size=(length, n_states)))
        states.append(state)
    return sequences, states


SEQUENCES, STATES = sticky_sequences()


@pytest.fixture(scope="module")
def single():
    return FieldClustering(3, **QUICK).fit(X)


@pytest.fixture(scope="module")
def chains():
    return FieldClustering(3, **QUICK).fit(SEQUENCES)


@pytest.mark.parametrize("init", ["spectral", "kmeans", "random"])
@pytest.mark.parametrize("kernel", ["auto", Linear(), RBF(0.05) + Linear()], ids=str)
def test_blobs_are_found(kernel, init):
    labels = FieldClustering(3, kernel=kernel, init=init, rank=30, n_init=4, random_state=0).fit_predict(X)
    assert adjusted_rand_score(Y, labels) == 1.0


def test_what_is_fitted_belongs_together(single):
    assert is_clusterer(single)
    probabilities = single.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    assert single.labels_.dtype.kind == "i"
    np.testing.assert_array_equal(single.labels_, probabilities.argmax(axis=1))
    np.testing.assert_array_equal(single.labels_, single.predict(X))
    shares = probabilities.mean(axis=0)
    rows = -np.sum(probabilities * np.log(probabilities), axis=1)
    information = -np.sum(shares * np.log(shares)) - rows.mean()
    assert single.information_ == pytest.approx(information, abs=1e-9)
    penalty = sum(np.sum(term.known**2) / (2 * term.prior_variance) for term in single.field_.terms)
    assert single.objective_ == pytest.approx(information - penalty, abs=1e-9)
    assert single.objective_ == max(single.objectives_)
    assert single.transitions_ is None
    assert single.solution_.converged


@pytest.mark.parametrize("data", [X, SEQUENCES], ids=["single inputs", "sequences"])
def test_no_step_loses_anything_and_the_best_start_is_kept(data):
    model = FieldClustering(3, init="random", rank=30, n_init=4, random_state=3).fit(data)
    values = [each.value for each in model.solution_.history]
    assert np.all(np.diff(values) <= 1e-12)
    assert model.objective_ == max(model.objectives_) >= -values[0]
    assert len(model.objectives_) == 4


def test_transitions_see_what_inputs_hide(chains):
    states = np.concatenate(STATES)
    flat = FieldClustering(3, **QUICK).fit_predict(np.concatenate(SEQUENCES))
    found = adjusted_rand_score(states, np.concatenate(chains.labels_))
    assert found > adjusted_rand_score(states, flat) + 0.1
    assert np.all(np.diag(chains.transitions_) > 0)
    assert [len(labels) for labels in chains.labels_] == [30] * 8


def test_chains_without_transitions_are_single_inputs():
    rows = np.concatenate(SEQUENCES)
    settings = {**QUICK, "basis": "greedy-cholesky", "n_init": 1}
    flat = FieldClustering(3, bias=False, **settings).fit(rows)
    tied = FieldClustering(3, edge_prior_variance=1e-9, **settings).fit(SEQUENCES)
    assert tied.objective_ == pytest.approx(flat.objective_, abs=1e-4)


def test_marginals_of_sequences(chains):
    marginals = chains.predict_marginals(SEQUENCES)
    assert [part.shape for part in marginals] == [(30, 3)] * 8
    for labels, again, part in zip(chains.labels_, chains.predict(SEQUENCES), marginals, strict=True):
        np.testing.assert_array_equal(labels, part.argmax(axis=1))
        np.testing.assert_array_equal(labels, again)
    assert chains.predict([]) == []


@pytest.mark.parametrize(
    "sequences",
    [
        [[{"warm": 1.0}] * 3 + [{"cold": 1.0}] * 3, [{"cold": 1.0}] * 2 + [{"warm": 1.0}]],
        [[["warm"]] * 3 + [["cold"]] * 3, [["cold"]] * 2 + [["warm"]]],
        [[[1.0, 0.0]] * 3 + [[0.0, 1.0]] * 3, [[0.0, 1.0]] * 2 + [[1.0, 0.0]]],
        [scipy.sparse.csr_array(np.repeat(np.eye(2), 3, axis=0)), scipy.sparse.csr_array(np.eye(2)[[1, 1, 0]])],
    ],
    ids=["dicts", "strings", "lists", "sparse"],
)
def test_sequences_in_every_form_are_taken_for_sequences(sequences):
    first, second = FieldClustering(2, random_state=0).fit_predict(sequences)
    warm, cold = first[0], first[-1]
    assert warm != cold
    assert first.tolist() == [warm] * 3 + [cold] * 3
    assert second.tolist() == [cold, cold, warm]


@pytest.mark.parametrize("form", [np.ndarray.tolist, scipy.sparse.csr_array])
def test_tables_in_every_form_are_single_inputs(form):
    labels = FieldClustering(3, **QUICK).fit_predict(form(X))
    assert adjusted_rand_score(Y, labels) == 1.0


def test_names_of_columns_are_kept():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(X, columns=["a", "b", "c"])
    model = FieldClustering(3, **QUICK).fit(table)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    assert adjusted_rand_score(Y, model.labels_) == 1.0
    assert not hasattr(model.fit(SEQUENCES), "feature_names_in_")
    model.fit([table, table])
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]


@pytest.mark.slow
def test_scikit_learns_checks_pass():
    quick = FieldClustering(2, rank=10, n_init=1, random_state=0, max_iter=20)
    results = check_estimator(quick, on_fail=None, on_skip=None)
    failed = {each["check_name"]: str(each["exception"]) for each in results if each["status"] == "failed"}
    # Some checks ask for one cluster, which tells nothing apart.
    theirs = {"check_estimator_sparse_array", "check_estimator_sparse_matrix"}
    # Optima are local: starts are partitions of the inputs, which are others where an input is there twice.
    theirs |= {f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")}
    assert not {name: text for name, text in failed.items() if "n_clusters=1" not in text and name not in theirs}
    assert sum(each["status"] == "passed" for each in results) > 35


def test_clones_and_pipelines_work():
    model = FieldClustering(3, **QUICK)
    assert clone(model).get_params() == model.get_params()
    labels = make_pipeline(StandardScaler(), model).fit_predict(X)
    assert adjusted_rand_score(Y, labels) == 1.0


@pytest.mark.parametrize("data", [X, SEQUENCES], ids=["single inputs", "sequences"])
def test_the_same_seed_gives_the_same_clusters(data):
    first, second = (FieldClustering(3, **QUICK).fit(data) for _ in range(2))
    assert first.objective_ == second.objective_
    np.testing.assert_array_equal(np.hstack(first.labels_), np.hstack(second.labels_))


def test_files_of_single_inputs(single, tmp_path):
    single.save(tmp_path / "model")
    loaded = FieldClustering.load(tmp_path / "model")
    assert loaded.get_params() == single.get_params()
    np.testing.assert_array_equal(loaded.predict_proba(X), single.predict_proba(X))
    np.testing.assert_array_equal(loaded.labels_, single.labels_)
    assert (loaded.information_, loaded.objective_) == (single.information_, single.objective_)
    np.testing.assert_array_equal(loaded.objectives_, single.objectives_)


def test_files_of_sequences(chains, tmp_path):
    chains.save(tmp_path / "model")
    loaded = FieldClustering.load(tmp_path / "model")
    for ours, theirs in zip(chains.predict_marginals(SEQUENCES), loaded.predict_marginals(SEQUENCES), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    for ours, theirs in zip(chains.labels_, loaded.labels_, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(loaded.transitions_, chains.transitions_)


@pytest.mark.parametrize("change", [{"labels": np.array([0, 7])}, {"lengths": np.array([5])}], ids=str)
def test_files_whose_labels_do_not_fit_are_refused(single, change):
    document = single.to_document()
    with pytest.raises(ValueError, match="do not fit together"):
        FieldClustering.from_document({**document, "clusters": {**document["clusters"], **change}})


@pytest.mark.parametrize(("start", "step"), [(1, 0), (2, 1)])
def test_an_interrupt_keeps_the_best_so_far(monkeypatch, start, step):
    climb, calls = clusters.minimize, []

    def interrupted(posterior, *arguments, **settings):
        if posterior.convex:
            return climb(posterior, *arguments, **settings)
        calls.append(1)

        def watch(iteration):
            if len(calls) == start and iteration.iteration == step:
                raise KeyboardInterrupt

        return climb(posterior, *arguments, **{**settings, "watch": watch})

    monkeypatch.setattr(clusters, "minimize", interrupted)
    with pytest.warns(ConvergenceWarning, match=f"interrupted in start {start}; the best clusters so far"):
        model = FieldClustering(3, **{**QUICK, "n_init": 5}).fit(X)
    assert len(model.objectives_) == start
    assert model.objective_ == max(model.objectives_)
    assert adjusted_rand_score(Y, model.predict(X)) == 1.0


def test_progress_says_how_far_starts_came(capfd):
    FieldClustering(3, **QUICK, verbose=1).fit(X)
    said = capfd.readouterr().err
    assert re.search(r"start 2 of 2: 1\.0\d+ of at most 1\.0986 nats", said)


def test_a_prior_that_allows_nothing_is_told_of():
    with pytest.warns(ConvergenceWarning, match=r"no clusters were found.*raise prior_variance"):
        FieldClustering(3, prior_variance=0.1, **QUICK).fit(X)


def test_a_climb_that_is_cut_short_is_told_of():
    with pytest.warns(ConvergenceWarning, match="not over after max_iter=1 iterations"):
        FieldClustering(3, max_iter=1, tol=1e-12, **QUICK).fit(X)


@pytest.mark.parametrize(
    ("settings", "data", "message"),
    [
        ({"n_clusters": 1}, X, "n_clusters=1 leaves nothing to separate: ask for at least 2"),
        ({"n_clusters": 2.5}, X, "n_clusters must be a whole number"),
        ({"n_clusters": 91}, X, "n_clusters=91 is more than there are inputs: X has n_samples=90"),
        ({"n_clusters": 4}, [X[:2], X[2:3]], "n_clusters=4 is more than there are inputs: X has n_samples=3 positions"),
        ({"n_init": 0}, X, "n_init must be a whole number"),
        ({"init": "k-means"}, X, "init must be"),
        ({"prior_variance": -1.0}, X, "prior_variance"),
        ({"edge_prior_variance": np.inf}, X, "prior variances must be finite"),
        ({"basis": "gradient"}, X, "basis='gradient' grows by the gradient of a likelihood"),
        ({"window": 3}, X, "windows are for sequences"),
        ({}, HOLED, "contains NaN"),
        ({}, [X, HOLED], "sequence 1"),
        ({}, [], "X is empty: pass a table"),
        ({}, np.empty((0, 3)), "0 sample"),
    ],
    ids=lambda value: str(value)[:20] if isinstance(value, dict) else None,
)
def test_errors_say_what_to_do(settings, data, message):
    with pytest.raises(ValueError, match=message):
        FieldClustering(**{"n_clusters": 3, **settings}).fit(data)


def test_what_is_not_there_is_told(single, chains):
    with pytest.raises(NotFittedError):
        FieldClustering().predict(X)
    with pytest.raises(ValueError, match="X must be a table"):
        single.predict(SEQUENCES)
    with pytest.raises(ValueError, match="X must be a list of sequences"):
        chains.predict(X)
    with pytest.raises(ValueError, match="predict_marginals"):
        chains.predict_proba(SEQUENCES)
    with pytest.raises(ValueError, match="predict_proba"):
        single.predict_marginals(X)
    with pytest.raises(AttributeError, match="not convex"):
        single.certificate_  # noqa: B018
    with pytest.raises(AttributeError, match="not convex"):
        single.certify(X, Y)
    with pytest.raises(AttributeError, match="no labels were seen"):
        single.laplace(X, Y)
    with pytest.raises(TypeError, match=r"n_components.*use n_clusters"):
        FieldClustering(n_components=3)
