"""Entities as conlleval reads them; expected scores are those of seqeval 1.2.2 in its default mode."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelfields.evaluation import Span, entity_f1_score, entity_spans, evaluate


def split(*sequences):
    return [sequence.split() for sequence in sequences]


# IOB1 beside IOB2, entities cut short, run together, of the wrong type, and of a type that is never true.
TRUE = split(
    "B-PER I-PER O B-LOC",
    "O B-ORG I-ORG I-ORG O B-PER",
    "I-LOC I-LOC O I-PER B-PER I-PER",
    "B-ORG B-ORG I-PER O",
    "O O B-MISC I-MISC",
)
PREDICTED = split(
    "B-PER I-PER O I-LOC",
    "O B-ORG I-ORG O O B-PER",
    "B-LOC I-LOC O I-PER I-PER I-PER",
    "B-ORG I-LOC I-PER O",
    "O B-X O I-MISC",
)
EXPECTED = {
    "LOC": (2 / 3, 1, 0.8, 2),
    "MISC": (0, 0, 0, 1),
    "ORG": (1 / 2, 1 / 3, 0.4, 3),
    "PER": (3 / 4, 3 / 5, 2 / 3, 5),
    "X": (0, 0, 0, 0),
    "micro": (0.5454545454545454, 0.5454545454545454, 0.5454545454545454, 11),
    "macro": (0.3833333333333333, 0.3866666666666666, 0.37333333333333335, 11),
    "weighted": (0.5984848484848485, 0.5454545454545454, 0.5575757575757575, 11),
}
TRUE_BIOES = split("S-PER O B-LOC E-LOC", "B-ORG I-ORG E-ORG S-ORG", "B-PER O E-PER I-PER", "O O")
PREDICTED_BIOES = split("S-PER O B-LOC I-LOC", "B-ORG I-ORG E-ORG E-ORG", "B-PER O E-PER O", "S-LOC B-LOC")
EXPECTED_BIOES = {
    "LOC": (1 / 3, 1, 0.5, 1),
    "ORG": (1, 1, 1, 2),
    "PER": (1, 0.75, 0.8571428571428571, 4),
    "micro": (0.75, 0.8571428571428571, 0.8, 7),
    "macro": (0.7777777777777777, 0.9166666666666666, 0.7857142857142857, 7),
    "weighted": (0.9047619047619049, 0.8571428571428571, 0.8469387755102041, 7),
}


def in_bilou(sequences):
    letters = {"E": "L", "S": "U"}
    return [[letters.get(label[0], label[0]) + label[1:] for label in labels] for labels in sequences]


CASES = [
    ("bio", TRUE, PREDICTED, EXPECTED),
    ("iob1", TRUE, PREDICTED, EXPECTED),
    ("bioes", TRUE_BIOES, PREDICTED_BIOES, EXPECTED_BIOES),
    ("bilou", in_bilou(TRUE_BIOES), in_bilou(PREDICTED_BIOES), EXPECTED_BIOES),
]


@pytest.mark.parametrize(("scheme", "true", "predicted", "expected"), CASES, ids=[case[0] for case in CASES])
def test_scores_are_those_of_seqeval(scheme, true, predicted, expected):
    entities = evaluate(true, predicted, scheme=scheme, n_resamples=0).entities
    assert entities.scheme == scheme
    found = {**entities.per_type, **entities.averages}
    assert list(found) == list(expected)
    for name, (precision, recall, f1, support) in expected.items():
        values = [found[name].precision.value, found[name].recall.value, found[name].f1.value]
        np.testing.assert_allclose(values, [precision, recall, f1], rtol=1e-14)
        assert found[name].support == support
    for average in ("micro", "macro", "weighted"):
        score = entity_f1_score(true, predicted, scheme=scheme, average=average)
        assert score == pytest.approx(expected[average][2], rel=1e-14)
    if scheme != "iob1":
        assert entity_f1_score(true, predicted, scheme="auto") == entity_f1_score(true, predicted, scheme=scheme)


@pytest.mark.parametrize(
    ("labels", "scheme", "expected"),
    [
        ("B-X I-X O B-Y", "bio", [("X", 0, 2), ("Y", 3, 4)]),
        ("I-X I-X B-X I-X", "iob1", [("X", 0, 2), ("X", 2, 4)]),
        ("I-X I-Y I-Y O I-X", "bio", [("X", 0, 1), ("Y", 1, 3), ("X", 4, 5)]),
        ("B-X I-Y", "bio", [("X", 0, 1), ("Y", 1, 2)]),
        ("B-X I-X E-X S-X", "bioes", [("X", 0, 3), ("X", 3, 4)]),
        ("B-X I-X L-X U-X", "bilou", [("X", 0, 3), ("X", 3, 4)]),
        ("I-X E-X I-X O E-X", "bioes", [("X", 0, 2), ("X", 2, 3), ("X", 4, 5)]),
        ("B-X O O B-X", "bioes", [("X", 0, 1), ("X", 3, 4)]),
        ("B I O I B", "bio", [("_", 0, 2), ("_", 3, 4), ("_", 4, 5)]),
        ("B-a-b I-a-b I-a", "auto", [("a-b", 0, 2), ("a", 2, 3)]),
        ("O O", "bio", []),
        ("", "bio", []),
    ],
)
def test_spans(labels, scheme, expected):
    found = entity_spans(labels.split(), scheme)
    assert found == [Span(*each) for each in expected]
    assert entity_spans(np.array(labels.split(), dtype=str), scheme) == found


def conlleval_spans(labels):
    """The rules position by position: where an entity ends, and where one begins."""
    spans, begin, tag, kind = [], None, "O", ""
    for place, label in enumerate([*labels, "O"]):
        next_tag, next_kind = label[0], label[2:]
        ends = tag in "ES" or next_tag in "BSO" or next_kind != kind
        if begin is not None and ends:
            spans.append(Span(kind, begin, place))
            begin = None
        if begin is None and next_tag != "O":
            begin = place
        tag, kind = next_tag, next_kind
    return spans


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(st.sampled_from(["O", *(f"{tag}-{kind}" for tag in "BIES" for kind in "XY")]))))
def test_spans_agree_with_the_rules_one_by_one_and_do_not_cross_sequences(sequences):
    sequences = [labels for labels in sequences if labels]
    for labels in sequences:
        assert entity_spans(labels, "bioes") == conlleval_spans(labels)
    if sequences:
        support = sum(len(conlleval_spans(labels)) for labels in sequences)
        entities = evaluate(sequences, sequences, scheme="bioes", n_resamples=0).entities
        assert entities.averages["micro"].support == support
        assert entities.averages["micro"].f1.value == (1.0 if support else 0.0)


def test_no_entities_at_all_is_zero_like_elsewhere():
    assert entity_f1_score([["O", "O"]], [["O", "O"]]) == 0.0
    entities = evaluate([["O", "O"]], [["O", "O"]], scheme="bio", n_resamples=20).entities
    assert entities.per_type == {}
    assert entities.averages["macro"].f1.to_dict() == {"value": 0.0, "low": None, "high": None}


@pytest.mark.parametrize(
    ("scheme", "words"),
    [
        ("bio", "label 'NN' does not fit the scheme 'bio': expected 'O' or one of 'B-type', 'I-type'"),
        ("auto", "scheme='auto' finds no entities in the labels 'NN', 'VB': name a scheme"),
        (None, "scheme=None finds no entities"),
        ("iob", "unknown scheme 'iob'"),
    ],
)
def test_labels_that_follow_no_scheme(scheme, words):
    with pytest.raises(ValueError, match=words):
        entity_f1_score([["NN", "VB"]], [["NN", "NN"]], scheme=scheme)
    with pytest.raises(ValueError, match=words):
        entity_spans(["NN", "VB"], scheme)


def test_averages_are_checked():
    with pytest.raises(ValueError, match="average must be one of 'micro', 'macro', 'weighted', got 'binary'"):
        entity_f1_score(TRUE, PREDICTED, average="binary")
