"""Columns of data frames have to come as they came to the fit, for every estimator, and for fields from files."""

import warnings

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from kernelfields import ChainCRF, ExponentialFamilyDensity, GraphCRF, KernelClassifier, MultiLabelCRF, Sequencewise
from tests.samples import labelled_instances, labelled_sequences

pandas = pytest.importorskip("pandas")

NAMES = ["a", "b", "c"]
X, y = labelled_sequences()
EDGES = [np.column_stack([np.arange(len(x) - 1), np.arange(1, len(x))]) for x in X]
ROWS, LABELS = labelled_instances()


def frame(rows, names=NAMES):
    return pandas.DataFrame(rows, columns=names)


def tables(change):
    return change(frame(ROWS))


def sequences(change):
    return [change(frame(x)) for x in X]


def graphs(change):
    return [(change(frame(x)), edges) for x, edges in zip(X, EDGES, strict=True)]


def graphs_of_edges(change):
    features = [np.repeat(edges, 2, axis=1)[:, :3] for edges in EDGES]
    return [{"x": x, "edges": e, "edge_features": change(frame(f))} for x, e, f in zip(X, EDGES, features, strict=True)]


#: An estimator, how its inputs are made of data frames, its labels, and what is asked of it.
ESTIMATORS = {
    "KernelClassifier": (KernelClassifier(random_state=0), tables, LABELS[:, 0], "predict"),
    "MultiLabelCRF": (MultiLabelCRF("linear", random_state=0), tables, LABELS, "predict"),
    "ExponentialFamilyDensity": (ExponentialFamilyDensity("poly", n_nodes=8), tables, None, "score_samples"),
    "ChainCRF": (ChainCRF("linear"), sequences, y, "predict"),
    "GraphCRF": (GraphCRF("linear"), graphs, y, "predict"),
    "GraphCRF's edges": (GraphCRF("linear"), graphs_of_edges, y, "predict"),
}


def unchanged(table):
    return table


@pytest.fixture(params=ESTIMATORS, scope="module")
def fitted(request, tmp_path_factory):
    """An estimator fitted to data frames, the same from a file, how inputs are made, and what is asked."""
    estimator, make, labels, method = ESTIMATORS[request.param]
    estimator.fit(make(unchanged), labels)
    path = tmp_path_factory.mktemp("model") / "model"
    estimator.save(path)
    return estimator, type(estimator).load(path), make, method


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda table: table[NAMES[::-1]], "in the same order"),
        (lambda table: table.rename(columns={"b": "z"}), "unseen at fit time.*z.*now missing.*b"),
        (lambda table: table[["a", "c"]], "now missing.*b"),
        (lambda table: table.assign(d=1.0), "unseen at fit time.*d"),
    ],
    ids=["order", "name", "missing", "more"],
)
def test_other_columns_than_at_the_fit_are_refused(fitted, change, words):
    estimator, loaded, make, method = fitted
    for each in (estimator, loaded):
        with pytest.raises(ValueError, match=f"(?s)feature names should match those that were passed.*{words}"):
            getattr(each, method)(make(change))


def test_arrays_are_taken_with_a_warning_and_the_same_columns_without(fitted):
    estimator, loaded, make, method = fitted
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        expected = getattr(estimator, method)(make(unchanged))
        found = getattr(loaded, method)(make(unchanged))
    with pytest.warns(UserWarning, match="does not have valid feature names, but .* fitted with feature names"):
        plain = getattr(loaded, method)(make(pandas.DataFrame.to_numpy))
    for one, same, other in zip(expected, found, plain, strict=True):
        np.testing.assert_array_equal(one, same)
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", ["ChainCRF", "GraphCRF", "GraphCRF's edges"])
def test_frames_for_a_field_of_arrays_are_taken_with_a_warning(name):
    estimator, make, labels, _ = ESTIMATORS[name]
    field = type(estimator)("linear").fit(make(pandas.DataFrame.to_numpy), labels)
    with pytest.warns(UserWarning, match="X has feature names, but .* fitted without feature names"):
        field.predict(make(unchanged))


def test_sequences_of_one_fit_have_the_same_columns():
    mixed = [frame(X[0]), *[frame(x)[NAMES[::-1]] for x in X[1:]]]
    with pytest.raises(ValueError, match=r"columns of sequence 1 are not those of sequence 0: .* same order, 'a', 'b'"):
        ChainCRF("linear").fit(mixed, y)
    with pytest.warns(UserWarning, match="some sequences have names of columns, such as sequence 0"):
        ChainCRF("linear").fit([frame(X[0]), *X[1:]], y)
    with pytest.raises(TypeError, match="string names, but these columns are named by int, str"):
        ChainCRF("linear").fit([frame(x, ["a", "b", 3]) for x in X], y)


def test_columns_that_are_numbered_have_no_names():
    field = ChainCRF("linear").fit([pandas.DataFrame(x) for x in X], y)
    assert not hasattr(field, "feature_names_in_")
    np.testing.assert_array_equal(
        np.concatenate(field.predict(X)), np.concatenate(ChainCRF("linear").fit(X, y).predict(X))
    )


def test_weights_of_a_field_are_named_by_the_columns(tmp_path):
    field = ChainCRF("linear").fit(sequences(unchanged), y)
    field.save(tmp_path / "model")
    for each in (field, ChainCRF.load(tmp_path / "model")):
        assert list(each.feature_names_in_) == NAMES
        assert {row["feature"] for row in each.weights(None).to_rows() if row.get("feature")} >= set(NAMES)


def test_every_question_of_a_field_checks_the_columns():
    field = ChainCRF("linear").fit(sequences(unchanged), y)
    other = sequences(lambda table: table[NAMES[::-1]])
    for ask in (field.score, field.log_likelihood, field.certify, field.laplace):
        with pytest.raises(ValueError, match="feature names should match"):
            ask(other, y)
    with pytest.raises(ValueError, match="development set: The feature names should match"):
        ChainCRF("linear").fit(sequences(unchanged), y, X_dev=other, y_dev=y)


def test_transformers_of_sequences_check_the_columns():
    scaler = Sequencewise(StandardScaler()).fit(sequences(unchanged))
    with pytest.raises(ValueError, match="feature names should match"):
        scaler.transform(sequences(lambda table: table[NAMES[::-1]]))
    np.testing.assert_allclose(np.concatenate(scaler.transform(sequences(unchanged))).mean(axis=0), 0.0, atol=1e-12)


def test_columns_of_labels_have_to_come_as_at_the_fit():
    names = ["first", "second", "third", "fourth"]
    labels = frame(LABELS, names)
    field = MultiLabelCRF("linear", random_state=0).fit(ROWS, labels)
    assert field.score(ROWS, labels) == field.score(ROWS, LABELS)
    for ask in (field.score, field.log_likelihood):
        with pytest.raises(ValueError, match=r"columns of Y should match .* same order, 'first'"):
            ask(ROWS, labels[names[::-1]])
