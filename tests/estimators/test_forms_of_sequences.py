"""Sequences in every form that users have them: the same field, or one line that says what to write."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.preprocessing import FunctionTransformer

from kernelfields import (
    AnnotatedCRF,
    ChainCRF,
    ChainCRFCV,
    FrameCRF,
    GraphCRF,
    KernelClassifier,
    RingCRF,
    SegmentCRF,
    SequenceClassifier,
)
from kernelfields.features import read_frame

pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
random = np.random.default_rng(3)
N, T, D = 8, 6, 2
EQUAL = random.normal(size=(N, T, D)) + 5.0
LABELS = (np.cumsum(random.random((N, T)) < 0.3, axis=1) + (EQUAL[..., 0] > 5.0)) % 2
LENGTHS = [6, 4, 5, 6, 3, 6, 2, 5]
MASK = np.arange(T) < np.array(LENGTHS)[:, None]
X = [x[mask] for x, mask in zip(EQUAL, MASK, strict=True)]
y = [labels[mask] for labels, mask in zip(LABELS, MASK, strict=True)]
STARTS = np.cumsum([0, *LENGTHS[:-1]])
LONG, LONG_Y = np.concatenate(X), np.concatenate(y)
IDS = np.repeat(np.arange(N), LENGTHS)
SETTINGS = {"kernel": "linear", "prior_variance": 1.0, "scale": False, "window": 1, "random_state": 0}
PADDED = np.where(MASK[..., None], EQUAL, 0.0)


def field(**settings):
    return ChainCRF(**{**SETTINGS, **settings})


def frame(library=pd):
    return library.DataFrame({"subject": IDS, "a": LONG[:, 0], "b": LONG[:, 1], "stage": LONG_Y})


def tables(library):
    return [library.DataFrame({"a": x[:, 0], "b": x[:, 1]}) for x in X]


def by_column(library):
    return FrameCRF(field(), sequence="subject", label="stage").fit(frame(library)).estimator_


def by_reading():
    read = read_frame(frame(), sequence="subject", label="stage")
    return field().fit(read.X, read.y)


REFERENCE = field().fit(X, y)
#: The ways to give the same sequences, and what makes the field of them.
WAYS = {
    "lists of lists": lambda: field().fit([x.tolist() for x in X], [labels.tolist() for labels in y]),
    "tuples": lambda: field().fit(tuple(X), tuple(y)),
    "an array of objects": lambda: field().fit(np.array([*X, None], dtype=object)[:-1], y),
    "one array with lengths": lambda: field().fit(LONG, LONG_Y, lengths=LENGTHS),
    "one array with lengths, labels by sequence": lambda: field().fit(LONG, y, lengths=LENGTHS),
    "one list with lengths": lambda: field().fit(LONG.tolist(), LONG_Y.tolist(), lengths=LENGTHS),
    "padded with lengths": lambda: field().fit(PADDED, LABELS, lengths=LENGTHS),
    "padded with a mask": lambda: field().fit(PADDED, LABELS, lengths=MASK),
    "padded, labels by sequence": lambda: field().fit(PADDED, y, lengths=np.array(LENGTHS)),
    "padded lists": lambda: field().fit(PADDED.tolist(), LABELS.tolist(), lengths=LENGTHS),
    "a long frame with lengths": lambda: field().fit(frame()[["a", "b"]], frame()["stage"], lengths=LENGTHS),
    "a long frame of polars with lengths": lambda: field().fit(
        frame(pl)[["a", "b"]], frame(pl)["stage"], lengths=LENGTHS
    ),
    "a long frame with ids": lambda: by_column(pd),
    "a long frame of polars with ids": lambda: by_column(pl),
    "a frame that is read": by_reading,
    "frames": lambda: field().fit(tables(pd), y),
    "frames of polars": lambda: field().fit(tables(pl), y),
    "sparse": lambda: field().fit([sp.csr_array(x) for x in X], y),
    "one sparse array with lengths": lambda: field().fit(sp.csr_array(LONG), LONG_Y, lengths=LENGTHS),
    "dicts": lambda: field(support="all", l1=0.0).fit([[{"a": a, "b": b} for a, b in x] for x in X], y),
    "one list of dicts with lengths": lambda: field(support="all", l1=0.0).fit(
        [{"a": a, "b": b} for a, b in LONG], LONG_Y, lengths=LENGTHS
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_same_sequences_are_the_same_field_however_they_are_given(way):
    found = WAYS[way]()
    np.testing.assert_allclose(found.coef_["node"], REFERENCE.coef_["node"], rtol=0.0, atol=1e-12)
    np.testing.assert_allclose(found.transitions_, REFERENCE.transitions_, rtol=0.0, atol=1e-12)


def test_an_array_of_sequences_of_equal_lengths_is_their_list():
    found, expected = field().fit(EQUAL, LABELS), field().fit(list(EQUAL), list(LABELS))
    np.testing.assert_array_equal(found.coef_["node"], expected.coef_["node"])
    for one, other in zip(found.predict(EQUAL), expected.predict(list(EQUAL)), strict=True):
        np.testing.assert_array_equal(one, other)


WIDE = pd.DataFrame(EQUAL[..., 0], columns=[f"t{time}" for time in range(T)])
#: Forms that cannot be read, and the words of the line that says what to write.
REFUSED = {
    "a long frame": (frame(), LONG_Y, ["FrameCRF(ChainCRF(), sequence='subject', label='stage').fit(X)"]),
    "a long frame of polars": (frame(pl), LONG_Y, ["FrameCRF(ChainCRF(), sequence='subject', label='stage').fit(X)"]),
    "a wide frame": (WIDE, LABELS, ["if each row is a sequence of one number", "X.to_numpy()[:, :, None]"]),
    "one array": (LONG, LONG_Y, ["[X]", "lengths=", "FrameCRF"]),
    "padded": (PADDED, LABELS, ["looks padded", "lengths=[...]", "mask (n, T)", "list(X)"]),
    "padded by NaN": (np.where(MASK[..., None], EQUAL, np.nan), LABELS, ["rows of NaN", "lengths=[...]"]),
    "channels first": (EQUAL.transpose(0, 2, 1), LABELS, ["X.transpose(0, 2, 1)"]),
    "a generator": ((x for x in X), y, ["got generator", "Collect the sequences in a list first"]),
    "groups": (frame().groupby("subject"), y, ["the table itself to kernelfields.FrameCRF"]),
    "gaps": ([*X[:-1], X[-1] * np.nan], y, ["5 rows hold nothing else", "np.nan_to_num(x)"]),
}


@pytest.mark.parametrize("way", REFUSED)
def test_what_cannot_be_read_is_answered_by_one_line_with_what_to_write(way):
    inputs, labels, words = REFUSED[way]
    with pytest.raises((TypeError, ValueError)) as caught:
        field().fit(inputs, labels)
    said = str(caught.value)
    assert "\n" not in said
    for each in words:
        assert each in said


def test_columns_of_ids_are_found_by_their_rows_where_no_name_says_so():
    table = frame().rename(columns={"subject": "where", "stage": "what"})
    with pytest.raises(ValueError, match=r"sequence='where'.*name the column of labels by label="):
        field().fit(table, LONG_Y)


def test_new_sequences_with_channels_first_are_answered_with_the_transpose():
    with pytest.raises(ValueError, match=r"6 features per position and 2 positions.*X\.transpose\(0, 2, 1\)"):
        REFERENCE.predict(EQUAL.transpose(0, 2, 1))


def test_channels_first_are_answered_where_labels_do_not_tell():
    turned, classes = EQUAL.transpose(0, 2, 1), [0, 1] * 4
    classifier = SequenceClassifier("linear", n_states=1, prior_variance=1.0, scale=False, random_state=0)
    with pytest.raises(
        ValueError, match=r"looks like \(sequences, features, positions\).*X\.transpose\(0, 2, 1\), or list"
    ):
        classifier.fit(turned, classes)
    found = classifier.fit(turned.transpose(0, 2, 1), classes).predict_proba(EQUAL)
    np.testing.assert_array_equal(found, classifier.fit(list(EQUAL), classes).predict_proba(list(EQUAL)))
    assert classifier.fit(list(turned), classes).n_features_in_ == T


def by_hand(answers, axis=0):
    return np.concatenate(list(answers), axis=axis)


@pytest.mark.parametrize(
    ("name", "arguments", "axis"),
    [
        ("predict", {}, 0),
        ("predict", {"decode": "viterbi"}, 0),
        ("predict_marginals", {}, 0),
        ("predict_boundaries", {}, 0),
        ("sample", {"random_state": 0}, 0),
        ("sample", {"random_state": 0, "n_samples": 3}, 1),
    ],
)
def test_answers_about_positions_of_one_array_are_one_array(name, arguments, axis):
    found = getattr(REFERENCE, name)(LONG, **arguments, lengths=LENGTHS)
    np.testing.assert_array_equal(found, by_hand(getattr(REFERENCE, name)(X, **arguments), axis))


def test_answers_about_sequences_of_one_array_have_an_entry_for_each():
    np.testing.assert_array_equal(REFERENCE.entropy(LONG, lengths=LENGTHS), REFERENCE.entropy(X))
    assert REFERENCE.predict_entities(LONG, lengths=LENGTHS) == REFERENCE.predict_entities(X)
    both = [REFERENCE.predict_nbest(LONG, 2, lengths=LENGTHS), REFERENCE.predict_nbest(X, 2)]
    assert [[log for _, log in ranked] for ranked in both[0]] == [[log for _, log in ranked] for ranked in both[1]]
    assert REFERENCE.score(LONG, LONG_Y, lengths=LENGTHS) == REFERENCE.score(X, y)
    assert REFERENCE.log_likelihood(LONG, LONG_Y, lengths=LENGTHS) == REFERENCE.log_likelihood(X, y)
    marginals, pairs = REFERENCE.predict_marginals(LONG, "edge", lengths=LENGTHS)
    assert marginals.shape == (len(LONG), 2)
    assert len(pairs) == N


def test_questions_about_the_fit_take_lengths():
    crf = field(kernel="rbf").fit(X, y)
    assert crf.certify(LONG, LONG_Y, lengths=LENGTHS) == crf.certify(X, y)
    found = crf.laplace(LONG, LONG_Y, random_state=0, lengths=LENGTHS)
    variances = crf.predict_variances(LONG, lengths=LENGTHS)
    assert found.value == crf.laplace(X, y, random_state=0).value
    np.testing.assert_array_equal(variances, by_hand(crf.predict_variances(X)))


def test_known_labels_are_cut_like_the_positions():
    known = [int(label) if place % 3 else None for place, label in enumerate(LONG_Y)]
    expected = REFERENCE.predict(X, known=[known[a : a + n] for a, n in zip(STARTS, LENGTHS, strict=True)])
    np.testing.assert_array_equal(REFERENCE.predict(LONG, known=known, lengths=LENGTHS), by_hand(expected))


def test_padded_arrays_are_answered_by_sequence():
    found = REFERENCE.predict(PADDED, lengths=MASK)
    assert [len(labels) for labels in found] == LENGTHS
    np.testing.assert_array_equal(by_hand(found), by_hand(REFERENCE.predict(X)))


def test_a_mask_with_gaps_takes_the_positions_that_it_marks():
    mask = MASK.copy()
    mask[:, 1] = False
    expected = [x[kept] for x, kept in zip(EQUAL, mask, strict=True)]
    found = REFERENCE.predict_marginals(PADDED, lengths=mask)
    np.testing.assert_array_equal(by_hand(found), by_hand(REFERENCE.predict_marginals(expected)))


QUICK = {"prior_variance": 1.0, "scale": False, "random_state": 0}
#: Estimators of sequences, each with what it takes and its answers.
ESTIMATORS = {
    "RingCRF": (RingCRF("linear", window=1, **QUICK), LONG_Y, y),
    "SegmentCRF": (SegmentCRF("linear", window=1, **QUICK), LONG_Y, y),
    "SequenceClassifier": (SequenceClassifier("linear", n_states=2, **QUICK), [0, 1] * 4, [0, 1] * 4),
    "ChainCRFCV": (ChainCRFCV(field(), prior_variances=[1.0], cv=2, random_state=0), LONG_Y, y),
    "AnnotatedCRF": (
        AnnotatedCRF(field(), cv=2),
        {"Ada": LONG_Y, "Bob": 1 - LONG_Y, "Eve": LONG_Y},
        {"Ada": y, "Bob": [1 - own for own in y], "Eve": y},
    ),
}


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.filterwarnings("ignore")
def test_every_estimator_of_sequences_takes_lengths(name):
    estimator, long, by_sequence = ESTIMATORS[name]
    expected = estimator.fit(X, by_sequence).predict(X)
    found = estimator.fit(LONG, long, lengths=LENGTHS).predict(LONG, lengths=LENGTHS)
    np.testing.assert_array_equal(found, expected if isinstance(expected, np.ndarray) else by_hand(expected))


def test_batches_take_lengths():
    expected = field(kernel="rbf").partial_fit(X, y)
    found = field(kernel="rbf").partial_fit(LONG, LONG_Y, lengths=LENGTHS)
    np.testing.assert_array_equal(found.coef_["node"], expected.coef_["node"])


@pytest.mark.parametrize(
    ("inputs", "lengths", "words"),
    [
        (LONG, [3, 4], "lengths add up to 7, but there are 37 positions"),
        (LONG, [0, 37], "positive whole numbers"),
        (LONG, 37, "list of positive whole numbers, one per sequence, or a mask"),
        (PADDED, [7] * N, "sequence 0 is to have 7 rows, but X has 6 of each"),
        (PADDED, [3] * 5, "lengths are those of 5 sequences, but X has 8"),
        (PADDED, np.zeros((N, T), dtype=bool), "marks no position of sequence 0"),
        (PADDED, MASK[:, :4], "sequence 0 has 6 rows, but lengths or the mask are those of 4"),
        (iter(X), LENGTHS, "one array of all positions, or a padded one, got list_iterator"),
    ],
)
def test_lengths_that_do_not_fit_are_refused(inputs, lengths, words):
    with pytest.raises((TypeError, ValueError), match=words):
        REFERENCE.predict(inputs, lengths=lengths)


def test_items_that_are_no_sequences_have_no_lengths():
    with pytest.raises(TypeError, match="lengths= is for sequences in one array"):
        KernelClassifier().fit(LONG, LONG_Y, lengths=LENGTHS)
    with pytest.raises(TypeError, match="items are graphs here"):
        GraphCRF().fit([], [], lengths=LENGTHS)


def test_a_transformer_sees_the_sequences_that_lengths_cut():
    doubled = field(features=FunctionTransformer(lambda rows: 2.0 * rows))
    expected = field().fit([2.0 * x for x in X], y)
    np.testing.assert_allclose(doubled.fit(LONG, LONG_Y, lengths=LENGTHS).coef_["node"], expected.coef_["node"])
