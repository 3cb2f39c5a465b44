"""Local shapes of whole sequences: rows of a table, classifiers on them, and what has no shapes."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from kernelfields import KernelClassifier, SequenceClassifier, load, save
from kernelfields.features import LocalShapes

RANDOM = np.random.default_rng(0)
X = [RANDOM.normal(size=(length, 2)) for length in (1, 2, 7, 30)]


def pieces(n_sequences, seed=0):
    """Return sequences of noise with a short piece somewhere that rises or falls: levels and trends tell nothing."""
    random, classes = np.random.default_rng(seed), ["falls", "rises"] * (n_sequences // 2)
    made = []
    for own in classes:
        rows = random.normal(scale=0.2, size=(int(random.integers(30, 50)), 1))
        begin = int(random.integers(2, len(rows) - 10))
        rows[begin : begin + 8, 0] += np.linspace(-1.5, 1.5, 8) * (1.0 if own == "rises" else -1.0)
        made.append(rows)
    return made, classes


def test_rows_are_of_every_length_and_in_both_forms():
    shapes = LocalShapes(n_convolutions=20, random_state=3).fit(X)
    table = shapes.transform(X)
    assert table.shape == (4, 40)
    assert np.isfinite(table).all()
    assert len(shapes.get_feature_names_out()) == 40
    np.testing.assert_array_equal(clone(shapes).fit_transform(X), table)
    rows = LocalShapes(n_convolutions=20, random_state=3, as_sequences=True).fit_transform(X)
    np.testing.assert_array_equal(np.concatenate(rows), table)
    frames = [pd.DataFrame(x, columns=["a", "b"]) for x in X]
    np.testing.assert_array_equal(LocalShapes(n_convolutions=20, random_state=3).fit_transform(frames), table)
    assert shapes.transform([]).shape == (0, 40)


@pytest.mark.parametrize("seed", [None, np.random.default_rng(0), np.random.RandomState(0)])
def test_any_source_of_randomness(seed):
    assert LocalShapes(n_convolutions=5, random_state=seed).fit_transform(X).shape == (4, 10)


def test_a_classifier_on_shapes_in_a_pipeline_a_search_and_a_file(tmp_path):
    rows, y = pieces(60)
    pipeline = make_pipeline(
        LocalShapes(n_convolutions=100), KernelClassifier("linear", prior_variance=0.1, scale=True, random_state=0)
    )
    search = GridSearchCV(pipeline, {"localshapes__n_convolutions": [1, 100]}, cv=2).fit(rows[:40], y[:40])
    assert search.best_params_ == {"localshapes__n_convolutions": 100}
    model = search.best_estimator_
    assert model.score(rows[40:], y[40:]) > 0.9
    save(model, tmp_path / "shapes.safetensors")
    again = load(tmp_path / "shapes.safetensors")
    np.testing.assert_array_equal(again.predict_proba(rows), model.predict_proba(rows))


def test_a_classifier_of_sequences_chooses_shapes_where_they_tell(tmp_path):
    rows, y = pieces(60)
    model = SequenceClassifier(n_states=0, random_state=0).fit(rows[:40], y[:40])
    assert model.choices_.chosen["whole"] == "shapes"
    assert model.choices_.chosen["kernel"] == "linear"
    assert {trial.settings["whole"] for trial in model.choices_.trials} == {"summaries", "shapes"}
    assert model.score(rows[40:], y[40:]) > 0.9
    model.save(tmp_path / "model.kfm")
    again = load(tmp_path / "model.kfm")
    np.testing.assert_array_equal(again.predict_proba(rows), model.predict_proba(rows))
    same = SequenceClassifier(n_states=0, random_state=0).fit(rows[:40], y[:40])
    np.testing.assert_array_equal(same.predict_proba(rows), model.predict_proba(rows))
    other = clone(model).set_params(random_state=1).fit(rows[:40], y[:40])
    assert not np.array_equal(other.predict_proba(rows), model.predict_proba(rows))


def test_what_is_given_is_not_chosen():
    rows, y = pieces(12)
    settings = {"n_states": 0, "whole": "shapes", "prior_variance": 0.1, "kernel": "rbf", "random_state": 0}
    model = SequenceClassifier(**settings).fit(rows, y)
    assert model.choices_.chosen == {}
    assert model.prior_variance_ == 0.1
    alone = SequenceClassifier(n_states=0, whole="shapes", random_state=0).fit(rows, [*y[:-1], None])
    assert alone.prior_variance_ == 0.1
    assert alone.estimator_.kernel == "linear"


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        ([np.zeros((0, 2)), *X], ValueError, "sequence 0 has no rows"),
        ([sp.csr_array(x) for x in X], TypeError, "X is sparse"),
        ([np.array([[1.0], [np.nan]])], ValueError, "finite"),
    ],
)
def test_what_has_no_shapes(rows, error, message):
    with pytest.raises(error, match=message):
        LocalShapes().fit(rows)


def test_bad_parameters_and_other_columns():
    with pytest.raises(ValueError, match="sequence 1 of X is empty"):
        LocalShapes(n_convolutions=5).fit(X).transform([X[0], X[0][:0]])
    with pytest.raises(ValueError, match="n_convolutions must be"):
        LocalShapes(n_convolutions=0).fit(X)
    with pytest.raises(ValueError, match="whole"):
        SequenceClassifier(whole="wavelets").fit(*pieces(4))
    with pytest.raises(ValueError, match="3"):
        LocalShapes(n_convolutions=5).fit(X).transform([np.zeros((4, 3))])
