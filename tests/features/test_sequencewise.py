import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import kernelfields
from kernelfields import OutOfFold, SequenceClassifier
from kernelfields.features import SequenceUnion, Sequencewise

RNG = np.random.default_rng(0)
X = [RNG.normal(size=(length, 3)) for length in (4, 1, 7)]


def test_the_transformer_sees_all_positions_at_once():
    expected = StandardScaler().fit_transform(np.vstack(X))
    wrapped = Sequencewise(StandardScaler())
    for got in (wrapped.fit_transform(X), wrapped.fit(X).transform(X)):
        assert isinstance(got, list)
        assert [len(x) for x in got] == [4, 1, 7]
        np.testing.assert_allclose(np.vstack(got), expected, rtol=0, atol=1e-14)
    assert wrapped.n_features_in_ == 3


def test_an_imputer_may_be_wrapped():
    holes = [np.array([[1.0], [np.nan]]), np.array([[3.0]])]
    got = Sequencewise(SimpleImputer()).fit_transform(holes)
    np.testing.assert_array_equal(np.vstack(got), [[1], [2], [3]])


@pytest.mark.parametrize("y", [["a", "b", "b"], np.array([0, 1, 1]), [True, False, False]])
def test_a_label_of_a_whole_sequence_is_that_of_its_positions(y):
    got = Sequencewise(SelectKBest(k=1)).fit(X, y)
    expected = SelectKBest(k=1).fit(np.vstack(X), np.repeat(np.asarray(y), [4, 1, 7]))
    np.testing.assert_array_equal(got.transformer_.scores_, expected.scores_)
    with pytest.raises(ValueError, match="X has 3 sequences but y has 2"):
        Sequencewise(StandardScaler()).fit(X, list(y)[:2])


@pytest.mark.parametrize("y", [["a", None, {"a", "b"}], [["a", None, "b", "a"], [None], ["b"] * 7]])
def test_labels_that_are_partly_known_do_not_stand_in_the_way(y):
    got = Sequencewise(StandardScaler()).fit(X, y)
    np.testing.assert_array_equal(got.transformer_.mean_, StandardScaler().fit(np.vstack(X)).mean_)
    with pytest.raises(ValueError, match="requires y to be passed, but the target y is None"):
        Sequencewise(SelectKBest(k=1)).fit(X, y)


@pytest.mark.parametrize(
    "transformer",
    [
        Sequencewise(StandardScaler()),
        OutOfFold(LogisticRegression(), cv=2),
        SequenceUnion([("scaled", Sequencewise(StandardScaler())), ("as they are", "passthrough")]),
    ],
    ids=lambda one: type(one).__name__,
)
def test_pipelines_of_whole_sequences(transformer, tmp_path):
    random = np.random.default_rng(0)
    sequences = [random.normal(size=(length, 2)) + 3 * (length % 2) for length in (3, 4, 5, 6, 7, 8)]
    classes = ["even" if len(x) % 2 == 0 else "odd" for x in sequences]
    model = make_pipeline(transformer, SequenceClassifier("linear", prior_variance=1.0, random_state=0))
    model.fit(sequences, classes)
    assert list(model.predict(sequences)) == classes
    kernelfields.save(model, tmp_path / "model.kfm")
    read = kernelfields.load(tmp_path / "model.kfm")
    np.testing.assert_allclose(read.predict_proba(sequences), model.predict_proba(sequences), rtol=0, atol=1e-12)


@pytest.mark.parametrize("ask", ["set_output", "config"])
def test_each_sequence_becomes_a_data_frame_where_that_is_asked_for(ask):
    pandas = pytest.importorskip("pandas")
    frames = [pandas.DataFrame(x, columns=["a", "b", "c"]) for x in X]
    pipeline = make_pipeline(Sequencewise(StandardScaler()), Sequencewise(SelectKBest(k=2)))
    y = [["+" if row[1] > 0 else "-" for row in x] for x in X]
    plain = make_pipeline(Sequencewise(StandardScaler()), Sequencewise(SelectKBest(k=2))).fit_transform(X, y)
    if ask == "set_output":
        pipeline.set_output(transform="pandas")
        answers = [pipeline.fit_transform(frames, y), pipeline.transform(frames), clone(pipeline).fit_transform(X, y)]
    else:
        with config_context(transform_output="pandas"):
            answers = [pipeline.fit_transform(frames, y), pipeline.transform(frames)]
    for got in answers:
        assert all(isinstance(x, pandas.DataFrame) for x in got)
        assert [x.index.tolist() for x in got] == [list(range(len(x))) for x in X]
        np.testing.assert_array_equal(np.vstack(got), np.vstack(plain))
    assert answers[0][0].columns.tolist() == pipeline.get_feature_names_out().tolist()
    assert set(answers[0][0].columns) < {"a", "b", "c"}
    assert pipeline[0].feature_names_in_.tolist() == ["a", "b", "c"]
    assert isinstance(pipeline[0].set_output(transform="default").transform(frames)[0], np.ndarray)


def test_a_transformer_that_cannot_set_its_output_is_not_asked_to():
    class Plain:
        def fit(self, X, y=None):
            return self

    assert hasattr(Sequencewise(StandardScaler()), "set_output")
    assert not hasattr(Sequencewise(Plain()), "set_output")


def test_columns_in_another_order_are_refused():
    pandas = pytest.importorskip("pandas")
    frames = [pandas.DataFrame(x, columns=["a", "b", "c"]) for x in X]
    wrapped = Sequencewise(StandardScaler()).fit(frames)
    with pytest.raises(ValueError, match="must be in the same order, 'a', 'b', 'c', got 'c', 'b', 'a'"):
        wrapped.transform([frame[["c", "b", "a"]] for frame in frames])
    assert not hasattr(wrapped.fit(X), "feature_names_in_")


def test_errors():
    with pytest.raises(NotFittedError):
        Sequencewise(StandardScaler()).transform(X)
    wrapped = Sequencewise(StandardScaler()).fit(X)
    with pytest.raises(ValueError, match="X has 2 features per position, but this model was fitted with 3"):
        wrapped.transform([x[:, :2] for x in X])
    with pytest.raises(ValueError, match=r"wrap it: \[X\]"):
        wrapped.transform(X[0])
    with pytest.raises(ValueError, match="made 6 rows of 12 positions"):
        Sequencewise(FunctionTransformer(lambda table: table[::2])).fit_transform(X)
