"""Pipelines that begin with words are kept in model files, as data, and predict from words when they are read."""

import re

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_selection import SelectKBest, VarianceThreshold
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)

import kernelfields
from kernelfields import ChainCRF, KernelClassifier, OutOfFold, SegmentCRF, Sequencewise, TextFeatures
from kernelfields.compat import CRF
from kernelfields.features import Embeddings, SequenceUnion
from kernelfields.formats import ModelFileError, read_model, write_model
from kernelfields.models.stored import find_kind, known_kinds

NAMES = ["Anna", "Bert", "Carla", "Dora"]
WORDS = [[name, "sees", other] for name in NAMES for other in ("Emil", "trees")]
LABELS = [["PER", "O", "PER" if words[2] == "Emil" else "O"] for words in WORDS]
ROWS = [[(word, "N" if word[0].isupper() else "x") for word in words] for words in WORDS]
NEW = [["Zoe", "likes", "bees"], ["Emil"]]
FIXED = {"kernel": "linear", "prior_variance": 1.0}


def fitted(*transformers, X=WORDS, model=None):
    return make_pipeline(*transformers, model or ChainCRF(**FIXED)).fit(X, LABELS)


def saved(model, tmp_path):
    kernelfields.save(model, tmp_path / "model.kfm")
    return tmp_path / "model.kfm"


@pytest.mark.parametrize("model", [ChainCRF(**FIXED), SegmentCRF(**FIXED)], ids=lambda model: type(model).__name__)
def test_a_pipeline_predicts_from_words_when_it_is_read(model, tmp_path):
    pipeline = fitted(TextFeatures(prefixes=2, tag_columns=()), "passthrough", model=model)
    read = kernelfields.load(saved(pipeline, tmp_path))
    assert read.predict(NEW) == pipeline.predict(NEW)
    assert [name for name, _ in read.steps] == ["textfeatures", type(model).__name__.lower()]
    assert read.steps[0][1] == TextFeatures(prefixes=2, tag_columns=[])
    for ours, theirs in zip(
        read[-1].predict_marginals(read[:-1].transform(NEW)),
        pipeline[-1].predict_marginals(pipeline[:-1].transform(NEW)),
        strict=True,
    ):
        np.testing.assert_array_equal(ours, theirs)


def test_rows_have_the_columns_of_the_fit(tmp_path):
    pipeline = fitted(TextFeatures(), X=ROWS)
    read = kernelfields.load(saved(pipeline, tmp_path))
    assert read.predict(ROWS) == pipeline.predict(ROWS)
    with pytest.raises(ValueError, match="sequence 0 has 0 columns of tags, the fit had 1"):
        read.predict(NEW)


def test_a_union_of_features_is_kept_with_its_names(tmp_path):
    union = SequenceUnion([("words", TextFeatures(context=0)), ("wide", TextFeatures(window=3, prefixes=0))])
    pipeline = fitted(union)
    read = kernelfields.load(saved(pipeline, tmp_path))
    assert read.predict(NEW) == pipeline.predict(NEW)
    assert read[0].columns_ == pipeline[0].columns_


@pytest.mark.parametrize(
    ("transformers", "message"),
    [
        (
            [Embeddings(lambda words: np.ones((len(words), 2)))],
            "the step 'embeddings' is a Embeddings, which a file of",
        ),
        (
            [Embeddings(lambda words: np.ones((len(words), 2))), Sequencewise(StandardScaler())],
            "it can hold TextFeatures, Sequencewise, OutOfFold, WindowFeatures, and a SequenceUnion of them; apply",
        ),
    ],
)
def test_steps_that_are_no_data_are_named(transformers, message, tmp_path):
    with pytest.raises(TypeError, match=re.escape(message)):
        kernelfields.save(fitted(*transformers), tmp_path / "model.kfm")
    assert not list(tmp_path.iterdir())


class Boosted(LogisticRegression):
    """A classifier of another package."""


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (
            OutOfFold(Boosted(), cv=2),
            "the step 'outoffold' cannot be saved: a file of data cannot hold a Boosted: of classifiers it can hold "
            "LogisticRegression, LogisticRegressionCV, ",
        ),
        (OutOfFold(Boosted(), cv=2), "or keep the Boosted in a file of its own format and give the field its probabil"),
        (
            Sequencewise(FunctionTransformer()),
            "the step 'sequencewise' cannot be saved: a file of data cannot hold a FunctionTransformer: of "
            "scikit-learn's transformers it can hold StandardScaler, MinMaxScaler, ",
        ),
        (Sequencewise(SimpleImputer(add_indicator=True)), "cannot hold a MissingIndicator"),
        (
            SequenceUnion([("a", Sequencewise(FunctionTransformer()))]),
            "the step 'sequenceunion' cannot be saved: a file",
        ),
    ],
)
def test_what_is_inside_of_a_step_and_no_data_is_named_with_the_step(step, message, tmp_path):
    numbers = [np.random.default_rng(0).normal(size=(len(words), 2)) for words in WORDS]
    with pytest.raises(TypeError, match=re.escape(message)):
        kernelfields.save(fitted(step, X=numbers), tmp_path / "model.kfm")
    assert not list(tmp_path.iterdir())


TRANSFORMERS = [
    StandardScaler(),
    StandardScaler(with_mean=False),
    MinMaxScaler(feature_range=(-1, 2), clip=True),
    MaxAbsScaler(),
    RobustScaler(quantile_range=(10.0, 90.0)),
    Normalizer("l1"),
    QuantileTransformer(n_quantiles=7, output_distribution="normal", random_state=0),
    PowerTransformer(),
    SimpleImputer(strategy="median"),
    PCA(2, whiten=True, random_state=0),
    TruncatedSVD(2, random_state=np.random.RandomState(0)),
    VarianceThreshold(0.1),
    SelectKBest(k=2),
    make_pipeline(SimpleImputer(), "passthrough", StandardScaler(), PCA(2)),
]


@pytest.mark.parametrize("transformer", TRANSFORMERS, ids=lambda one: type(one).__name__)
def test_transformers_of_scikit_learn_are_kept_as_arrays(transformer, tmp_path):
    random = np.random.default_rng(0)
    numbers = [random.normal(size=(len(words), 3)) * [1.0, 5.0, 0.2] for words in WORDS]
    pipeline = fitted(Sequencewise(transformer), X=numbers)
    read = kernelfields.load(saved(pipeline, tmp_path))
    new = [random.normal(size=(4, 3)), np.zeros((1, 3))]
    for ours, theirs in zip(read[0].transform(new), pipeline[0].transform(new), strict=True):
        # Arrays that were read lie in another order in memory, and some processors add up in another one then.
        np.testing.assert_allclose(ours, theirs, rtol=1e-14, atol=1e-15)
    assert read.predict(new) == pipeline.predict(new)
    assert type(read[0].transformer_) is type(pipeline[0].transformer_)
    assert read[0].n_features_in_ == 3
    assert not hasattr(read[0].transformer, "n_features_in_")
    # It is read as it was, and can be fitted again.
    again = clone(read[0]).fit(numbers, LABELS)
    for ours, theirs in zip(again.transform(new), pipeline[0].transform(new), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12)


def test_names_of_columns_and_frames_are_kept(tmp_path):
    pandas = pytest.importorskip("pandas")
    frames = [pandas.DataFrame(np.random.default_rng(0).normal(size=(3, 2)), columns=["a", "b"]) for _ in WORDS]
    wrapped = Sequencewise(StandardScaler()).set_output(transform="pandas")
    pipeline = fitted(wrapped, X=frames)
    read = kernelfields.load(saved(pipeline, tmp_path))
    pandas.testing.assert_frame_equal(read[0].transform(frames)[0], pipeline[0].transform(frames)[0])
    assert read[0].feature_names_in_.tolist() == ["a", "b"]
    with pytest.raises(ValueError, match="must be in the same order"):
        read.predict([frame[["b", "a"]] for frame in frames])


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("class",), "FunctionTransformer", "a transformer of scikit-learn that is not known, 'FunctionTransformer'"),
        (("state", "transform"), 1, "a transformer of scikit-learn that is not known"),
        (("state", "mean_"), np.array([np.nan, 0.0]), "a transformer makes numbers that are not finite"),
        (("state", "scale_"), np.array([1.0, 2.0, 3.0]), "broadcast"),
        (("parameters", "axis"), 1, "unexpected keyword argument 'axis'"),
        (("output",), "pickle", "a transformer makes 'pickle'"),
    ],
)
def test_transformers_that_are_not_sound_are_refused(place, value, message, tmp_path):
    numbers = [np.random.default_rng(0).normal(size=(len(words), 2)) for words in WORDS]
    path = saved(fitted(Sequencewise(StandardScaler()), X=numbers), tmp_path)
    document, _ = read_model(path, "Pipeline")
    holder = document["steps"][0]["transformer"]["transformer"]
    for step in place[:-1]:
        holder = holder[step]
    holder[place[-1]] = value
    write_model(path, "Pipeline", document, {})
    with pytest.raises(ModelFileError, match=re.escape(message)):
        kernelfields.load(path)


def test_other_last_steps_are_named(tmp_path):
    pipeline = fitted(TextFeatures(), model=CRF())
    with pytest.raises(TypeError, match="the last step 'crf' is a CRF, and not an estimator that can be saved"):
        kernelfields.save(pipeline, tmp_path / "model.kfm")
    with pytest.raises(TypeError, match="model must be an estimator of kernelfields or a Pipeline that ends in one"):
        kernelfields.save(StandardScaler(), tmp_path / "model.kfm")


def test_estimators_of_every_kind_are_read_by_one_function(tmp_path):
    model = KernelClassifier("linear", prior_variance=1.0).fit([[0.0], [1.0]], ["a", "b"])
    read = kernelfields.load(saved(model, tmp_path))
    assert isinstance(read, KernelClassifier)
    assert read.predict([[0.0], [1.0]]).tolist() == ["a", "b"]


def test_the_class_of_the_last_step_names_the_function_that_reads_it(tmp_path):
    path = saved(fitted(TextFeatures()), tmp_path)
    with pytest.raises(ModelFileError, match=r"of kind 'Pipeline', .* load it with kernelfields\.load"):
        ChainCRF.load(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "pickle"}, "a transformer of the unknown kind 'pickle'"),
        ({"window": 99}, "window must be a whole number from 0 to 15, got 99"),
        ({"shapes": "yes"}, "shapes must be True or False, got 'yes'"),
        ({"n_tags": -1}, "the number of columns of tags is -1"),
        ({"new": 1}, "unexpected keyword argument 'new'"),
        ({"tag_columns": "all"}, "tag_columns must be 'rest' or a list of columns, got 'all'"),
    ],
)
def test_descriptions_that_are_not_sound_are_refused(changes, message, tmp_path):
    path = saved(fitted(TextFeatures()), tmp_path)
    document, _ = read_model(path, "Pipeline")
    document["steps"][0]["transformer"] |= changes
    write_model(path, "Pipeline", document, {})
    with pytest.raises(ModelFileError, match=re.escape(message)) as refusal:
        kernelfields.load(path)
    assert str(path) in str(refusal.value)


def test_models_of_every_kind_are_found_by_their_name():
    for kind in known_kinds():
        assert find_kind(kind).__name__ == kind
