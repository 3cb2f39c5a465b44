"""Batches one after the other: the objective of each, what is kept of those before, labels and pivots that are new."""

import copy

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from kernelfields import (
    ChainCRF,
    EdgeCliques,
    GraphCRF,
    KernelClassifier,
    MultiLabelCRF,
)
from kernelfields.basis.subspace import LATER_INPUT
from kernelfields.engines.choice import Partitions
from kernelfields.kernels import RBF
from kernelfields.models.callbacks import Checkpoint
from kernelfields.models.continuation import Continuation, with_pivots
from kernelfields.models.documents import describe_subspace, rebuild_subspace
from kernelfields.models.expectations import LabelShares
from kernelfields.models.partial import PartialLabels
from kernelfields.numerics import Workers
from tests.samples import labelled_instances, labelled_sequences

X, y = labelled_sequences(n_sequences=40, seed=5)
FIELD = ChainCRF(RBF(gamma=0.3), rank=40, prior_variance=2.0, tol=1e-8, dtype="float64", random_state=0)


@pytest.fixture(scope="module")
def first():
    return clone(FIELD).partial_fit(X[:20], y[:20])


def copied(crf):
    return copy.deepcopy(crf)


def objective(before, after, X_new, y_new):
    """The loss of a batch and the squares of the posterior before it, from coefficients alone."""
    value = -after.log_likelihood(X_new, y_new)
    for place, term in enumerate(after.field_.terms):
        old, precision = before.field_.terms[place].known, before.continuation_.precisions[place]
        difference = term.known[: len(old)] - old
        if term.has_pivots:
            value += 0.5 * np.sum(difference * (precision @ difference))
            value += 0.5 * np.sum(term.known[len(old) :] ** 2) / term.prior_variance
        else:
            value += 0.5 * np.sum(difference**2 * precision)
    return value


def test_the_first_batch_is_a_fit(first):
    fitted = clone(FIELD).fit(X[:20], y[:20])
    for name, coefficients in fitted.coef_.items():
        assert np.array_equal(first.coef_[name], coefficients)


def test_a_batch_minimises_its_loss_and_the_squares_around_the_posterior_before(first):
    after = copied(first).partial_fit(X[20:], y[20:])
    best = objective(first, after, X[20:], y[20:])
    assert after.solution_.value == pytest.approx(best, rel=1e-9)
    assert after.certificate_.relative_gap < 1e-7
    random = np.random.default_rng(0)
    for size in (1e-2, 1e-1):
        for term in after.field_.terms:
            moved = copied(after)
            other = next(each for each in moved.field_.terms if each.name == term.name)
            other.coefficients = term.known + size * random.normal(size=term.known.shape)
            moved._set_views()
            assert objective(first, moved, X[20:], y[20:]) > best


def test_precisions_of_constant_terms_are_diagonals_of_the_curvature(first):
    """Those of steps that do not know of each other: the variance of each step, summed."""
    place = [term.name for term in first.field_.terms].index("edge")
    _, pairs = first.predict_marginals(X[:20], cliques="edge")
    variances = sum((p * (1 - p)).sum(axis=0) for p in pairs).ravel()
    precision = first.continuation_.precisions[place]
    assert np.allclose(precision, 1 / first.field_.terms[place].prior_variance + variances)


def test_two_batches_come_close_to_a_fit_of_both(first):
    after = copied(first).partial_fit(X[20:], y[20:])
    whole = clone(FIELD).fit(X, y)
    losses = [-crf.log_likelihood(X, y) for crf in (first, after, whole)]
    assert losses[1] - losses[2] < 0.35 * (losses[0] - losses[2])


def test_new_labels_are_learnt_and_old_ones_kept(first):
    letters = [np.array(["b", "d", "f"])[each] for each in y]
    crf = clone(FIELD).partial_fit(X[:20], letters[:20])
    more = [np.where(each == "f", "e", each) for each in letters[20:]]
    crf.partial_fit(X[20:], more, classes=["a", "b"])
    assert crf.classes_.tolist() == ["a", "b", "d", "e", "f"]
    assert {name: part.shape[1] for name, part in crf.coef_.items()} == {"node": 5, "edge": 25}
    marginals = np.concatenate(crf.predict_marginals(X[20:]))
    true = np.concatenate(more)
    assert marginals[true == "e", 3].mean() > 2 * marginals[true != "e", 3].mean()
    early = clone(FIELD).partial_fit(X[:20], letters[:20], classes=["a"])
    assert early.classes_.tolist() == ["a", "b", "d", "f"]


def test_pivots_are_added_where_the_span_does_not_reach():
    crf = clone(FIELD).set_params(rank=60).partial_fit(X[:3], y[:3])
    rank = crf.basis_["node"].rank
    far = [x + 10.0 for x in X[20:25]]
    crf.partial_fit(far, y[20:25])
    added = crf.basis_["node"].rank - rank
    assert 0 < added <= sum(map(len, far))
    subspace = crf.basis_["node"]
    assert np.allclose(subspace.factor @ subspace.factor.T, subspace.kernel(subspace.pivots))
    left = 1.0 - (subspace.features(np.concatenate(far)) ** 2).sum(axis=1)
    assert left.max() <= 0.05 + 1e-9
    assert crf.continuation_.precisions[0].shape == (rank + added,) * 2
    data = crf.structure.read(far, y[20:25])
    assert next(term.subspace.rank for term in with_pivots(crf.field_.terms, data)) == rank + added


def test_a_model_that_was_loaded_goes_on(first, tmp_path):
    first.save(tmp_path / "model.safetensors")
    loaded = ChainCRF.load(tmp_path / "model.safetensors")
    for crf in (loaded, again := copied(first)):
        crf.partial_fit(X[20:], y[20:])
    assert np.allclose(loaded.coef_["node"], again.coef_["node"], atol=1e-8)


def test_weights_of_sequences_count(first):
    twice = copied(first).partial_fit(X[20:24] * 2, y[20:24] * 2)
    weighed = copied(first).partial_fit(X[20:24], y[20:24], sample_weight=[2.0] * 4)
    assert np.allclose(twice.coef_["node"], weighed.coef_["node"], atol=1e-5)


def test_errors_keep_what_was_there(first):
    crf = copied(first)
    for arguments, message in (
        (([x[:, :2] for x in X], y), "2 features per position"),
        ((X[:2], y[:1]), "labels of 1 sequences|1 sequence|y holds|y has"),
        ((X[:2], [["a"] * len(each) for each in y[:2]]), "labels of another type"),
        ((X[:1], [[None] * len(y[0])]), "all known"),
    ):
        with pytest.raises(ValueError, match=message):
            crf.partial_fit(*arguments)
    with pytest.raises(ValueError, match=r"prior_variance was 2.0 in the first batch and is 3.0"):
        crf.set_params(prior_variance=3.0).partial_fit(X, y)
    assert crf.classes_.tolist() == first.classes_.tolist()
    assert np.array_equal(crf.coef_["node"], first.coef_["node"])
    with pytest.raises(ValueError, match="begin with it"):
        clone(FIELD).fit(X[:5], y[:5]).partial_fit(X, y)


def test_parameters_that_are_no_longer_there_do_not_stop_the_next_batch(first):
    older = copied(first)
    older._fitted_with = {**older._fitted_with, "edge_kernel": "None"}
    after, expected = older.partial_fit(X[20:], y[20:]), copied(first).partial_fit(X[20:], y[20:])
    assert np.array_equal(after.coef_["node"], expected.coef_["node"])


def test_explicit_features_are_refused():
    with pytest.raises(ValueError, match="'node' has explicit features"):
        ChainCRF("linear", prior_variance=1.0).partial_fit(X[:5], y[:5])
    with pytest.raises(ValueError, match="needs a Gaussian prior"):
        ChainCRF(RBF(0.3), rank=3, prior_variance=1.0, edges=EdgeCliques(prior_variance=np.inf)).partial_fit(X, y)
    with pytest.raises(ValueError, match="needs a Gaussian prior: edges__prior_variance is infinite"):
        MultiLabelCRF(RBF(0.3), edges=EdgeCliques(prior_variance=np.inf)).partial_fit(*labelled_instances(30))


def test_curvature_adds_up(first):
    data = first.structure.read(X[20:], y[20:])
    more = first.continuation_.learn(first.field_, data, Workers(1))
    alone = Continuation.begin(first.field_.terms)
    only = alone.learn(first.field_, data, Workers(1))
    for old, new, prior, part in zip(
        first.continuation_.precisions, more.precisions, alone.precisions, only.precisions, strict=True
    ):
        assert np.allclose(new - old, part - prior)


@pytest.mark.parametrize("kind", [pytest.param("linear wins", marks=pytest.mark.slow), "categories"])
def test_a_kernel_that_is_left_to_the_data_is_one_that_can_go_on(kind):
    """Where a linear function predicts best, and where there are names beside numbers: batches need pivots."""
    random = np.random.default_rng(0)
    slopes = 1.5 * random.normal(size=10)
    inputs = [random.normal(size=(10, 10)) for _ in range(40)]
    labels = [np.where(x @ slopes + random.logistic(size=10) > 0, "a", "b") for x in inputs]
    if kind == "categories":
        inputs = [[{"level": row[0], f"colour{row[1] > 0}": 1.0} for row in x] for x in inputs]
        with pytest.raises(ValueError, match="kernel='auto' is 'linear' for such inputs, and partial_fit"):
            ChainCRF(random_state=0).partial_fit(inputs, labels)
        return
    assert ChainCRF(random_state=0).fit(inputs, labels).choices_.chosen["kernel"] == "linear"
    crf = ChainCRF(random_state=0).partial_fit(inputs[:20], labels[:20]).partial_fit(inputs[20:], labels[20:])
    assert crf.choices_.chosen["kernel"] != "linear"
    assert crf.score(inputs, labels) > 0.75


def test_a_classifier_of_rows_goes_on_with_the_kernel_that_it_chose():
    random = np.random.default_rng(0)
    rows = random.normal(size=(400, 3))
    labels = (rows @ [2.0, -1.0, 0.5] + random.logistic(size=400) > 0).astype(int)
    assert KernelClassifier(random_state=0).fit(rows, labels).choices_.chosen["kernel"] == "linear"
    classifier = KernelClassifier(random_state=0).partial_fit(rows[:300], labels[:300])
    classifier.partial_fit(rows[300:], labels[300:])
    assert classifier.choices_.chosen["kernel"] != "linear"
    assert classifier.score(rows, labels) > 0.75


def test_terms_without_a_curvature_are_refused_before_the_solver_starts():
    seen = []
    crf = ChainCRF("linear", prior_variance=1.0, callbacks=[seen.append])
    with pytest.raises(ValueError, match="'node' has explicit features"):
        crf.partial_fit(X[:5], y[:5])
    assert seen == []


def test_expectations_are_refused():
    settings = PartialLabels(classes=[0, 1, 2], expectations=[LabelShares({0: 0.5})])
    with pytest.raises(ValueError, match="partial_fit takes labels only"):
        clone(FIELD).set_params(partial_labels=settings, solver="lbfgs").partial_fit(X[:5], y[:5])


# ---- every batch is a fit: checked, solved and kept as any other


def test_parameters_are_checked_in_later_batches(first):
    crf = copied(first)
    with pytest.raises(ValueError, match="max_iter must be"):
        crf.set_params(max_iter=0).partial_fit(X[20:], y[20:])
    settings = PartialLabels(classes=[0, 1, 2], expectations=[LabelShares({0: 0.5})])
    with pytest.raises(ValueError, match="partial_fit takes labels only"):
        crf.set_params(max_iter=10, partial_labels=settings, solver="lbfgs").partial_fit(X[20:], y[20:])
    assert np.array_equal(crf.coef_["node"], first.coef_["node"])


def test_small_batches_of_a_classifier_are_solved_as_exactly_as_its_first():
    rows, labels = labelled_instances(60)
    classifier = KernelClassifier(RBF(0.5), rank=40, prior_variance=1.0, random_state=0)
    gaps = [
        classifier.partial_fit(rows[part], labels[part, 0]).solution_.relative_gap
        for part in (slice(0, 30), slice(30, 60))
    ]
    assert max(gaps) < 1e-10


def test_an_interrupted_batch_keeps_its_best_estimate_and_can_go_on(first):
    def interrupt(iteration):
        if iteration.iteration == 1:
            raise KeyboardInterrupt

    crf = copied(first).set_params(callbacks=[interrupt], solver="lbfgs")
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        crf.partial_fit(X[20:30], y[20:30])
    assert crf.solution_.reason == "interrupted"
    assert crf.set_params(callbacks=None).partial_fit(X[30:], y[30:]).solution_.converged


def test_the_checkpoint_of_a_first_batch_has_the_labels_that_are_named_and_goes_on(tmp_path):
    crf = clone(FIELD).set_params(callbacks=[Checkpoint(tmp_path / "model")]).partial_fit(X[:20], y[:20], classes=[7])
    loaded = ChainCRF.load(tmp_path / "model")
    assert loaded.classes_.tolist() == [0, 1, 2, 7]
    loaded.partial_fit(X[20:], y[20:])
    assert np.allclose(loaded.coef_["node"], crf.partial_fit(X[20:], y[20:]).coef_["node"], atol=1e-8)


def test_batches_of_other_processes_are_refused_in_a_line(first):
    for crf in (clone(FIELD), copied(first)):
        with pytest.raises(ValueError, match=r"partial_fit reads batches of this process.*X.compute\(\)"):
            crf.set_params(engine="threads").partial_fit(Partitions([0], [X]), Partitions([0], [y]))


def test_iterators_are_read_once():
    crf = clone(FIELD).partial_fit(iter(X[:20]), iter(y[:20])).partial_fit(iter(X[20:]), iter(y[20:]))
    again = clone(FIELD).partial_fit(X[:20], y[:20]).partial_fit(X[20:], y[20:])
    assert np.array_equal(crf.coef_["node"], again.coef_["node"])


def as_trees(inputs):
    return [(x, [[t, t + 1] for t in range(len(x) - 1)]) for x in inputs]


def test_certificates_and_inference_are_those_of_the_last_batch():
    """Trees have exact certificates; of a grid that is inferred approximately there are none."""
    side = 3
    grid = [[t, t + 1] for t in range(side**2) if (t + 1) % side] + [[t, t + side] for t in range(side**2 - side)]
    random = np.random.default_rng(0)
    crf = GraphCRF(RBF(0.3), prior_variance=1.0, scale=False, random_state=0, tol=1e-2)
    crf.partial_fit(as_trees(X[:6]), y[:6])
    assert crf.inference_.method == "tree"
    assert crf.certificate_.relative_gap < 1e-2
    crf.set_params(inference="trw", solver="lbfgs")
    crf.partial_fit([(random.normal(size=(side**2, 3)), grid)], [random.integers(3, size=side**2)])
    assert not crf.inference_.exact
    assert crf.inference_.method == "trw"
    with pytest.raises(AttributeError, match="certificate"):
        assert crf.certificate_
    crf.set_params(inference="auto", solver="auto").partial_fit(as_trees(X[6:9]), y[6:9])
    assert crf.inference_.method == "tree"
    assert crf.certificate_.relative_gap < 1e-2


def test_labels_of_an_instance_share_the_pivots_that_are_added(tmp_path):
    inputs, labels = labelled_instances(60)
    crf = MultiLabelCRF(RBF(0.5), rank=40, prior_variance=1.0, scale=False, random_state=0)
    crf.partial_fit(inputs[:20], labels[:20])
    rank = next(iter(crf.basis_.values())).rank
    crf.partial_fit(inputs[20:] + 2.0, labels[20:])
    subspaces = {id(term.subspace) for term in crf.field_.terms if term.has_pivots}
    assert len(subspaces) == 1
    assert next(term.subspace.rank for term in crf.field_.terms if term.has_pivots) > rank
    crf.save(tmp_path / "model")
    assert np.array_equal(MultiLabelCRF.load(tmp_path / "model").predict_proba(inputs), crf.predict_proba(inputs))


def test_a_checkpoint_of_a_batch_with_pivots_can_be_loaded(tmp_path):
    crf = clone(FIELD).set_params(rank=60, callbacks=[Checkpoint(tmp_path / "model")])
    crf.partial_fit(X[:3], y[:3]).partial_fit([x + 10.0 for x in X[3:6]], y[3:6])
    indices = crf.basis_["node"].indices
    assert (indices == LATER_INPUT).sum() > 1
    loaded = ChainCRF.load(tmp_path / "model")
    assert np.array_equal(loaded.basis_["node"].indices, indices)
    names = {loaded.basis_["node"].origin(place) for place in np.flatnonzero(indices == LATER_INPUT)}
    assert names == {"an input of a later batch"}


def test_numbers_of_pivots_below_those_of_later_inputs_are_refused():
    described = describe_subspace(clone(FIELD).fit(X[:5], y[:5]).basis_["node"])
    described["indices"] = described["indices"] - 2
    with pytest.raises(ValueError, match="the numbers of the pivots must be from -1 to any number"):
        rebuild_subspace(described, {})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"classes": [[1, 2]]}, r"classes must be a list of labels, got \[\[1, 2\]\]"),
        ({"classes": [None]}, "classes must be a list of labels"),
        ({"classes": [float("nan")]}, "classes must be a list of labels"),
        ({"classes": "ab"}, "classes must be a list of labels, got 'ab'"),
        ({"classes": ["a"]}, "labels of another type than those of the first batch, 0: pass the same type"),
        ({"y": None}, "the target y is None"),
        ({"y": [1] * 20}, "sequence 0 of y is 1"),
        ({"y": [[[1, 2], 3]] * 20}, "sequence 0 of y is not a flat list of labels"),
        ({"y": [[[1, 2]]] * 20}, r"sequence 0 of y has shape \(1, 2\)"),
    ],
)
def test_what_is_no_labels_is_refused_in_a_line(first, arguments, message):
    with pytest.raises(ValueError, match=message):
        copied(first).partial_fit(**{"X": X[20:], "y": y[20:], **arguments})


def test_a_batch_of_targets_of_a_regression_is_refused():
    rows, labels = labelled_instances(30)
    classifier = KernelClassifier(RBF(0.3), prior_variance=1.0, random_state=0).partial_fit(rows, labels[:, 0])
    with pytest.raises(ValueError, match="continuous"):
        classifier.partial_fit(rows, rows[:, 0])
