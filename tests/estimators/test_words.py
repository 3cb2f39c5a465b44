"""Words go straight in: ``features`` of estimators of sequences, and every question with words as inputs."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.decomposition import TruncatedSVD
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import kernelfields
from kernelfields import (
    ChainCRF,
    ConformalField,
    ExponentialFamilyDensity,
    FieldSearchCV,
    KernelClassifier,
    OutOfFold,
    RingCRF,
    SegmentCRF,
    SequenceClassifier,
    Sequencewise,
    TextFeatures,
    evaluate,
    find_label_errors,
    get_field,
    rank_for_labelling,
)
from kernelfields.compat import CRF
from kernelfields.estimators.probabilities import share_of_fit
from kernelfields.features import SequenceUnion
from kernelfields.models.stored import kinds_by_name
from kernelfields.models.wrapped_field import unwrap_pipeline
from kernelfields.serving import ServingError, load_chain, to_onnx

PATTERNS = [
    (["Anna", "sleeps"], ["B-P", "O"]),
    (["Bob", "Smith", "runs", "to", "Rome"], ["B-P", "I-P", "O", "O", "B-L"]),
    (["She", "runs"], ["O", "O"]),
    (["We", "saw", "Rome", "today"], ["O", "O", "B-L", "O"]),
]
X = [words for words, _ in PATTERNS] * 5
Y = [labels for _, labels in PATTERNS] * 5
FIELDS = kinds_by_name((ChainCRF, RingCRF, SegmentCRF))


def test_words_are_read_as_by_a_pipeline_of_text_features():
    straight = ChainCRF(random_state=0).fit(X, Y)
    piped = make_pipeline(TextFeatures(), ChainCRF(random_state=0)).fit(X, Y)
    assert isinstance(straight.features_, TextFeatures)
    assert straight.predict(X) == piped.predict(X)
    made = TextFeatures().fit_transform(X)
    expected = piped[-1].predict_marginals(made)
    for own, other in zip(straight.predict_marginals(X), expected, strict=True):
        np.testing.assert_array_equal(own, other)
    assert straight.predict_entities(X) == piped[-1].predict_entities(made)


@pytest.mark.parametrize("kind", FIELDS)
def test_what_makes_features_is_kept_in_files(kind, tmp_path):
    own = TextFeatures(window=1, prefixes=2)
    for features, kept in (("auto", TextFeatures()), (own, own), (make_pipeline(own, "passthrough"), own)):
        model = FIELDS[kind](features=features, random_state=0).fit(X, Y)
        model.save(tmp_path / "words.kfm")
        again = kernelfields.load(tmp_path / "words.kfm")
        assert again.predict(X) == model.predict(X)
        assert again.features_.get_params() == kept.get_params()
        if kind == "ChainCRF":
            served = load_chain(tmp_path / "words.kfm")
            assert served.predict(X) == model.predict(X)
        assert clone(again).fit(X, Y).predict(X) == model.predict(X)


def test_other_inputs_stay_as_they_are():
    strings = TextFeatures().fit_transform(X)
    for inputs in (strings, [[dict.fromkeys(own, 1.0) for own in x] for x in strings]):
        assert ChainCRF(random_state=0).fit(inputs, Y).features_ is None
    assert ChainCRF(random_state=0).fit([np.eye(5)[: len(x)] for x in X], Y).features_ is None


def test_words_in_arrays():
    model = ChainCRF(random_state=0).fit([np.array(x) for x in X], Y)
    assert model.predict([np.array(x) for x in X]) == model.predict(X) == ChainCRF(random_state=0).fit(X, Y).predict(X)


def test_symbols_of_a_small_alphabet_are_read_as_the_command_reads_them():
    rng = np.random.default_rng(0)
    letters = [rng.choice(list("ACGT"), 12).tolist() for _ in range(20)]
    inside = [["x" if letter in "AC" else "y" for letter in each] for each in letters]
    model = ChainCRF(random_state=0).fit(letters, inside)
    assert "symbol[-7]=A" in model.feature_names_in_


def test_features_that_cannot_be_used():
    for features in ("words", TextFeatures, 3, [TextFeatures(), 3]):
        with pytest.raises(TypeError, match="features must be 'auto', None, a transformer or a list of them, got"):
            ChainCRF(features=features).fit(X, Y)
    with pytest.raises(ValueError, match="features holds no transformer"):
        ChainCRF(features=[]).fit(X, Y)
    with pytest.raises(ValueError, match="numbers are needed"):
        ChainCRF(features=None).fit(X, Y)


CLASSES = ["name" if "B-P" in labels else "none" for labels in Y]
LABELLERS = {name: (kind, Y) for name, kind in FIELDS.items()} | {"SequenceClassifier": (SequenceClassifier, CLASSES)}
SPLIT = "sequence 0 is .*split texts into lists of words"
WRONG_INPUTS = {
    "texts": ([" ".join(words) for words in X], SPLIT),
    "bytes": ([" ".join(words).encode() for words in X], SPLIT),
    "words in bytes": ([[word.encode() for word in words] for words in X], r"bytes become strings by decode\(\)"),
    "a number": ([["Anna", 3], *X[1:]], r"sequence 0, position 1: 3 \(int\) is no word, expected a string; make"),
    "a gap": ([*X[:-1], ["We", "saw", None, "today"]], r"sequence 19, position 2: None \(NoneType\) is no word"),
    "NaN": ([["Anna", np.nan], *X[1:]], r"sequence 0, position 1: nan \(float\) is no word"),
    "None": ([*X[:-1], None], r"sequence 19 is None \(NoneType\): make a list of its positions"),
    "arrays": ([*X[:-1], np.zeros((4, 2))], r"sequence 19, position 0: 0.0 \(float\) is no word"),
    "sets": ([set(words) for words in X], "make a list of its positions, in their order"),
    "generators": ([iter(words) for words in X], "make a list of its positions, in their order"),
    "a generator": (iter(X), "X must be a list of sequences.* Collect the sequences in a list first"),
    "a table": (np.array([words[:2] for words in X]), r"If its rows are sequences of words, use list\(X\)"),
    "one text": ("Anna sleeps", "X must be a list of sequences, .* or a list of words, got str"),
    "an empty one": ([[], *X[1:]], "sequence 0 .*is empty: remove"),
    "empty ones": ([[] for _ in X], "sequence 0 .*is empty: remove"),
    "none": ([], "at least one sequence is needed"),
}


@pytest.mark.parametrize("kind", LABELLERS)
@pytest.mark.parametrize("case", WRONG_INPUTS)
def test_words_that_cannot_be_fitted(kind, case):
    estimator, labels = LABELLERS[kind]
    inputs, message = WRONG_INPUTS[case]
    with pytest.raises((TypeError, ValueError), match=message):
        estimator(random_state=0).fit(inputs, labels)


@pytest.mark.parametrize("kind", LABELLERS)
def test_new_inputs_of_another_kind_than_the_words_of_the_fit(kind):
    estimator, labels = LABELLERS[kind]
    tables = [np.eye(5)[: len(x)] for x in X]
    of_words = estimator(random_state=0).fit(X, labels)
    of_numbers = estimator("linear", prior_variance=1.0, random_state=0).fit(tables, labels)
    for model, inputs, message in (
        (of_words, X[0], "split texts into lists of words, and pass one alone as"),
        (of_words, "Anna sleeps", "X must be a list of sequences of words, got 'Anna sleeps'"),
        (of_words, tables, r"sequence 0, position 0: 1.0 \(float\) is no word, expected a string"),
        (of_numbers, X, "X holds words, but this model was fitted on numeric arrays; pass arrays of 5 columns"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            model.predict(inputs)


@pytest.mark.parametrize(("lag", "step"), [(2, 1), (4, 1), (3, 2), (2, 50)])
def test_streams_of_words_answer_as_whole_sequences_do(lag, step):
    model = ChainCRF(random_state=0).fit(X, Y)
    x = [word for words in X[:4] for word in words]
    stream = model.stream(lag=lag, decode="viterbi")
    answers = [stream.push(x[first : first + step]) for first in range(0, len(x), step)]
    assert stream.n_pending + sum(len(each.labels) for each in answers) == len(x)
    answers.append(stream.end())
    assert [label for each in answers for label in each.labels] == model.predict([x])[0]
    stream = model.stream(lag=np.inf, decode="posterior")
    marginals = [stream.push(x[first : first + step]).marginals for first in range(0, len(x), step)]
    marginals.append(stream.end().marginals)
    np.testing.assert_allclose(np.concatenate(marginals), model.predict_marginals([x])[0], atol=1e-12)


def test_streams_need_features_that_see_neighbours_alone():
    with pytest.raises(ValueError, match="lag must be at least 2, got 1"):
        ChainCRF(random_state=0).fit(X, Y).stream(lag=1)
    model = ChainCRF(features=[TextFeatures()], random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match="a SequenceUnion may see the whole sequence"):
        model.stream()


def test_explanations_and_pictures_show_the_words():
    model = ChainCRF(random_state=0).fit(X, Y)
    assert "Smith" in str(model.explain(X[1]))
    assert "Smith" in model.show(X[1])._repr_html_()
    np.testing.assert_array_equal(model.show(np.array(X[1])).marginals, model.predict_marginals([X[1]])[0])


def test_classes_of_whole_sequences_of_words(tmp_path):
    model = SequenceClassifier(random_state=0).fit(X, CLASSES)
    made = TextFeatures().fit_transform(X)
    piped = SequenceClassifier(random_state=0).fit(made, CLASSES)
    np.testing.assert_array_equal(model.predict_proba(X), piped.predict_proba(made))
    model.save(tmp_path / "classes.kfm")
    again = kernelfields.load(tmp_path / "classes.kfm")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert "Smith" in again.show(X[1])._repr_html_()


DOCUMENTS = [
    ["We study names of cities", "They are hard to find", "Our method finds most of them"],
    ["Cities are large", "We find them by a method", "Results are good in most cities"],
    ["Little is known of names", "Our method is new", "Results are good"],
] * 5
ROLES = [["aim", "aim", "method"], ["aim", "method", "result"], ["aim", "method", "result"]] * 5
CLASSIFIED = OutOfFold(make_pipeline(TfidfVectorizer(), LogisticRegression()), cv=3)
OF_TEXTS = {
    "auto": "auto",
    "vectorizer": TfidfVectorizer(stop_words="english", ngram_range=(1, 2)),
    "counts": CountVectorizer(binary=True),
    "pipeline": make_pipeline(TfidfVectorizer(), TruncatedSVD(4, random_state=0)),
    "classifier": CLASSIFIED,
    "joined": [TfidfVectorizer(), CLASSIFIED],
}


@pytest.mark.parametrize("name", OF_TEXTS)
def test_documents_of_sentences(name, tmp_path):
    model = ChainCRF(features=OF_TEXTS[name], random_state=0).fit(DOCUMENTS, ROLES)
    assert model.score(DOCUMENTS, ROLES) > 0.8
    assert (
        model.score([["Names are known", "The method finds them", "Good results"]], [["aim", "method", "result"]]) > 0.6
    )
    model.save(tmp_path / "roles.kfm")
    again = kernelfields.load(tmp_path / "roles.kfm")
    for own, other in zip(again.predict_marginals(DOCUMENTS), model.predict_marginals(DOCUMENTS), strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-12)


def test_texts_by_hand_and_straight_are_one_field():
    rows = TfidfVectorizer().fit_transform([text for document in DOCUMENTS for text in document]).tocsr()
    tables = [rows[first : first + 3] for first in range(0, rows.shape[0], 3)]
    by_hand = ChainCRF(random_state=0).fit(tables, ROLES)
    straight = ChainCRF(features=TfidfVectorizer(), random_state=0).fit(DOCUMENTS, ROLES)
    own, other = straight.predict_marginals(DOCUMENTS), by_hand.predict_marginals(tables)
    np.testing.assert_allclose(np.concatenate(own), np.concatenate(other), rtol=1e-12)
    for wrong in (["A text alone"], [[1.0, 2.0]]):
        with pytest.raises(TypeError, match="sequence 0 must be a list of strings"):
            straight.predict(wrong)


def values_of(words):
    """Make one small number of each word, which says its label, and which no part of the word shows."""
    return np.array([[1e-3 * (int(word) * 37 % 997 - 498)] for word in words])


def test_parts_of_features_have_variances_of_their_own(tmp_path):
    rng = np.random.default_rng(0)
    sentences = [[str(number) for number in rng.integers(100, 997, size=12)] for _ in range(60)]
    labels = [["a" if value > 0 else "b" for value in values_of(words)] for words in sentences]
    model = ChainCRF(features=[TextFeatures(), FunctionTransformer(values_of)], random_state=0).fit(sentences, labels)
    text, values = model.choices_.chosen["part_variances"]
    assert values > 10.0 * text
    weights = model.features_.weights_
    assert weights == {"part1": text**0.5, "part2": values**0.5}
    made = model.features_.transform(sentences[:1])[0].toarray()
    np.testing.assert_allclose(made[:, -1:], values_of(sentences[0]) * weights["part2"])
    alone = ChainCRF(features=[TextFeatures()], random_state=0).fit(sentences, labels)
    assert "part_variances" not in alone.choices_.chosen
    rebuilt = SequenceUnion.rebuild(SequenceUnion([("words", TextFeatures())]).fit(X).describe())
    assert rebuilt.weights_ == {"words": 1.0}


def test_text_features_say_that_words_are_texts():
    with pytest.warns(UserWarning, match="TextFeatures takes each for one word"):
        TextFeatures().fit(DOCUMENTS)


def test_vectorizers_that_are_code_are_not_saved(tmp_path):
    model = ChainCRF(features=CountVectorizer(tokenizer=str.split, token_pattern=None), random_state=0)
    with pytest.raises(TypeError, match="cannot hold a CountVectorizer with tokenizer="):
        model.fit(DOCUMENTS, ROLES).save(tmp_path / "roles.kfm")


def questions(model, inputs, labels, tmp_path):
    """Ask all that a field of sequences answers; what is written goes through files."""
    yield "n best", model.predict_nbest(inputs, 2)
    yield "entropy", model.entropy(inputs)
    yield "likelihood", model.log_likelihood(inputs, labels)
    yield "score", model.score(inputs, labels)
    yield "draws", model.sample(inputs, random_state=0)
    yield "boundaries", model.predict_boundaries(inputs)
    known = [[own[0], *[None] * (len(own) - 1)] for own in labels]
    yield "known", model.predict_marginals(inputs, known=known)
    yield "evaluation", str(evaluate(model, inputs, labels, random_state=0))
    yield "certificate", model.certify(inputs, labels).lower_bound
    yield "share of the fit", share_of_fit(model, inputs)
    yield "explanation", str(model.explain(inputs[1], tokens=X[1]))
    yield "ranking", str(rank_for_labelling(model, inputs, batch=3))
    yield "evidence", model.laplace(inputs, labels, random_state=0, n_samples=3).value
    yield "sets", ConformalField(clone(model), cv="cross", random_state=0).fit(inputs, labels).predict_set(inputs)
    yield "errors", str(find_label_errors(clone(model), inputs, labels, cv=2))
    yield "search", FieldSearchCV(clone(model), prior_variances=[0.1, 1.0], cv=2).fit(inputs, labels).predict(inputs)
    batches = clone(model).set_params(kernel="rbf").partial_fit(inputs, labels)
    yield "batches", batches.partial_fit(inputs, labels).predict_marginals(inputs)
    yield "continued", clone(model).set_params(warm_start=True).fit(inputs, labels).fit(inputs, labels).entropy(inputs)
    yield "scores across folds", cross_val_score(clone(model), inputs, labels, cv=2)
    yield "development set", clone(model).fit(inputs, labels, X_dev=inputs, y_dev=labels).dev_log_likelihoods_
    yield "onnx inputs", load_chain(saved(model, tmp_path)).inputs.encode(inputs[0])


def saved(model, folder):
    """Write a model; return the path."""
    model.save(folder / "model.kfm")
    return folder / "model.kfm"


def test_every_question_takes_words(tmp_path):
    settings = {"constraints": "bio", "prior_variance": 1.0, "support": "all", "l1": 0.0, "random_state": 0}
    made = TextFeatures().fit_transform(X)
    straight, given = ChainCRF(**settings).fit(X, Y), ChainCRF(**settings).fit(made, Y)
    asked = zip(questions(straight, X, Y, tmp_path), questions(given, made, Y, tmp_path), strict=True)
    for (name, own), (_, other) in asked:
        assert_same(own, other, name)


def capitalised(sentences):
    """Make words of words."""
    return [[word if word == "Rome" else word.capitalize() for word in words] for words in sentences]


OF_COUNTS = Sequencewise(TruncatedSVD(8, random_state=0))
OF_PIPELINES = {
    "ChainCRF": make_pipeline(TextFeatures(), ChainCRF(random_state=0)),
    "SegmentCRF": make_pipeline("passthrough", TextFeatures(), SegmentCRF(random_state=0)),
    "two steps": make_pipeline(SequenceUnion([("words", TextFeatures())]), OF_COUNTS, ChainCRF(random_state=0)),
    "words again": make_pipeline(FunctionTransformer(capitalised), ChainCRF(random_state=0)),
    "compat": make_pipeline(TextFeatures(), CRF(c2=0.5)),
    "search": make_pipeline(TextFeatures(), FieldSearchCV(ChainCRF(), prior_variances=[0.1, 1.0], cv=2)),
    "grid": GridSearchCV(make_pipeline(TextFeatures(), ChainCRF()), {"chaincrf__prior_variance": [0.1, 1.0]}, cv=2),
}


@pytest.mark.parametrize("name", OF_PIPELINES)
def test_the_field_of_a_pipeline_takes_what_the_pipeline_takes(name):
    pipeline = clone(OF_PIPELINES[name]).fit(X, Y)
    field = get_field(pipeline)
    assert [list(own) for own in field.predict(X)] == [list(own) for own in pipeline.predict(X)]
    inner, made = unwrap_pipeline(pipeline, X)
    assert [entity[:4] for entity in field.predict_entities(X)[1]] == [
        entity[:4] for entity in inner.predict_entities(made)[1]
    ]
    if name != "SegmentCRF":  # which explains no single labels
        assert "Smith" in str(field.explain(X[1]))
    if not isinstance(inner, CRF):  # of sklearn-crfsuite, which has dicts of marginals
        assert_same(field.predict_marginals(X), inner.predict_marginals(made), name)


def test_the_field_of_a_pipeline_is_kept_in_files(tmp_path):
    field = get_field(make_pipeline(TextFeatures(), ChainCRF(random_state=0)).fit(X, Y))
    again = kernelfields.load(saved(field, tmp_path))
    assert again.predict(X) == field.predict(X) == clone(field).fit(X, Y).predict(X)
    classes = get_field(make_pipeline(TextFeatures(), SequenceClassifier(random_state=0)).fit(X, CLASSES))
    again = kernelfields.load(saved(classes, tmp_path))
    np.testing.assert_array_equal(again.predict_proba(X), classes.predict_proba(X))


def test_fields_of_rows_and_what_has_no_field():
    rows = np.random.default_rng(0).normal(size=(40, 3)) * [1.0, 50.0, 3.0]
    above = rows[:, 0] > 0
    pipeline = make_pipeline(StandardScaler(), KernelClassifier("linear", prior_variance=1.0)).fit(rows, above)
    np.testing.assert_array_equal(get_field(pipeline).predict_proba(rows), pipeline.predict_proba(rows))
    assert get_field(pipeline[-1]) is pipeline[-1]
    with pytest.raises(NotFittedError):
        get_field(make_pipeline(TextFeatures(), ChainCRF()))
    with pytest.raises(TypeError, match="model must be a fitted estimator of kernelfields, or a pipeline"):
        get_field(make_pipeline(StandardScaler(), LogisticRegression()).fit(rows, above))
    density = make_pipeline(StandardScaler(), ExponentialFamilyDensity()).fit(rows[:, :1])
    with pytest.raises(TypeError, match=r"ask it with pipeline\[:-1\].transform"):
        get_field(density)


def test_graphs_of_onnx_take_what_is_made_of_words(tmp_path):
    runtime = pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
    pytest.importorskip("onnx", reason="the extra onnx is not installed")
    model = ChainCRF(random_state=0).fit(X, Y)
    to_onnx(model, tmp_path / "words.onnx")
    session = runtime.InferenceSession(tmp_path / "words.onnx", providers=["CPUExecutionProvider"])
    (numbers,) = session.run(["labels"], load_chain(saved(model, tmp_path)).inputs.encode(X[1]))
    assert model.classes_[numbers].tolist() == model.predict([X[1]])[0]
    joined = ChainCRF(features=[TextFeatures()], random_state=0).fit(X, Y)
    to_onnx(joined, tmp_path / "joined.onnx")  # the columns that the parts make, which ONNX does not have
    with pytest.raises(ServingError, match="the transformer 'union' cannot be served"):
        load_chain(saved(joined, tmp_path))


@pytest.mark.parametrize("kind", ["field", "pipeline"])
def test_the_component_of_spacy_takes_models_of_words(kind, tmp_path):
    spacy = pytest.importorskip("spacy", reason="the extra spacy is not installed")
    model = ChainCRF(random_state=0) if kind == "field" else OF_PIPELINES["ChainCRF"]
    model = clone(model).fit(X, Y)
    kernelfields.save(model, tmp_path / "names.kfm")
    nlp = spacy.blank("en")
    nlp.add_pipe("kernelfields", config={"model": str(tmp_path / "names.kfm")})
    (doc,) = nlp.pipe(["Bob Smith runs to  Rome"])
    assert [(span.text, span.label_) for span in doc.ents] == [("Bob Smith", "P"), ("Rome", "L")]
    expected = get_field(model).predict_entities([X[1]])[0]
    np.testing.assert_allclose([span._.probability for span in doc.ents], [each.probability for each in expected])
    nlp.to_disk(tmp_path / "nlp")
    again = spacy.load(tmp_path / "nlp")("Bob Smith runs to Rome")
    np.testing.assert_allclose(again.spans["kernelfields"].attrs["scores"], [each.probability for each in expected])


def assert_same(own, other, name):
    """Raise unless two answers are the same, lists of arrays and dicts of them too."""
    if isinstance(own, dict):
        assert own.keys() == other.keys()
        own, other = list(own.values()), list(other.values())
    if isinstance(own, list | tuple):
        assert len(own) == len(other), name
        for first, second in zip(own, other, strict=True):
            assert_same(first, second, name)
    elif isinstance(own, float) or (isinstance(own, np.ndarray) and own.dtype.kind == "f"):
        np.testing.assert_allclose(own, other, err_msg=name)
    elif isinstance(own, np.ndarray):
        np.testing.assert_array_equal(own, other, err_msg=name)
    else:
        assert own == other, name
