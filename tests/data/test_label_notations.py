"""Schemes of entities in the usual spellings, strays, and labels that are no entities."""

from __future__ import annotations

import numpy as np
import pytest

from kernelfields import ChainCRF
from kernelfields.data.label_notations import recognize_scheme
from kernelfields.data.spans import spans_of_scheme
from kernelfields.evaluation import entity_f1_score

BIO = ["O", "B-PER", "I-PER", "O", "B-LOC"]
SPANS = [("PER", 1, 3), ("LOC", 4, 5)]
SPELLINGS = {
    "underscore": ["O", "B_PER", "I_PER", "O", "B_LOC"],
    "the type first": ["O", "PER-B", "PER-I", "O", "LOC-B"],
    "lower case": ["o", "b-PER", "i-PER", "o", "b-LOC"],
    "a dot and lower case": ["O", "b.PER", "i.PER", "O", "b.LOC"],
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_spellings_of_bio_are_read_as_bio(name):
    scheme = recognize_scheme(SPELLINGS[name])
    assert scheme.name == "bio"
    assert sorted(spans_of_scheme(SPELLINGS[name], scheme)) == sorted(SPANS)
    assert scheme.notation.strays == frozenset()


def test_labels_as_the_scheme_writes_them_have_no_notation():
    assert recognize_scheme(BIO).notation is None
    assert recognize_scheme(["B-X", "I-X", "E-X", "S-X", "O"]).notation is None


@pytest.mark.parametrize(
    "labels",
    [
        ["B-NAME", "M-NAME", "M-NAME", "E-NAME", "O", "S-NAME"],
        ["B-NAME", "M-NAME", "M-NAME", "E-NAME", "O", "W-NAME"],
        ["B_NAME", "I_NAME", "I_NAME", "E_NAME", "O", "S_NAME"],
        ["NAME-B", "NAME-M", "NAME-M", "NAME-E", "O", "NAME-S"],
    ],
)
def test_labels_with_ends_are_read_as_bioes(labels):
    scheme = recognize_scheme(labels)
    assert scheme.name == "bioes"
    assert spans_of_scheme(labels, scheme) == [("NAME", 0, 4), ("NAME", 5, 6)]


def test_segmentation_of_words_into_letters_is_read_as_bioes():
    assert recognize_scheme(["B", "M", "E", "S"]).name == "bioes"


def test_one_stray_label_is_outside():
    scheme = recognize_scheme([*BIO, "<PAD>"])
    assert (scheme.name, scheme.notation.strays) == ("bio", {"<PAD>"})
    assert spans_of_scheme(["<PAD>", "B-PER", "<PAD>", "I-PER"], scheme) == [("PER", 1, 2), ("PER", 3, 4)]


@pytest.mark.parametrize(
    "labels",
    [
        ["S_1", "E_2", "O"],
        ["NOUN", "VERB", "DET", "ADJ"],
        ["B", "C", "D"],
        ["a", "b", "c"],
        [0, 1, 2],
        ["B-PER", "x", "y", "z"],
        ["b", "c", "d", "e"],
        ["b", "i", "o"],
        ["I_am", "B_side"],
    ],
)
def test_other_labels_are_no_entities(labels):
    assert recognize_scheme(labels) is None


def test_entities_of_another_spelling_are_decoded_as_a_whole_and_counted():
    """The field of labels in another spelling answers as the one of the same labels in the usual one."""
    random = np.random.default_rng(0)
    usual = [["O", "B-PER", "I-PER", "O"], ["B-PER", "I-PER", "I-PER", "O"], ["O", "O", "B-PER", "O"]] * 6
    X = [random.normal([["OBI".index(label[0])] * 2 for label in labels], 0.8) for labels in usual]
    other = [[label.replace("-", "_") for label in labels] for labels in usual]
    settings = {"prior_variance": 1.0, "window": 1, "scale": False, "random_state": 0}
    plain = ChainCRF("linear", **settings).fit(X, usual)
    spelt = ChainCRF("linear", **settings).fit(X, other)
    assert [[label.replace("_", "-") for label in labels] for labels in spelt.predict(X)] == [
        *map(list, plain.predict(X))
    ]
    assert spelt.predict_entities(X) == plain.predict_entities(X)
    assert entity_f1_score(other, spelt.predict(X), scheme="auto") == entity_f1_score(usual, plain.predict(X))


def test_a_stray_label_is_named_in_one_line():
    random = np.random.default_rng(0)
    y = [["O", "B-PER", "I-PER", "O"], ["B-PER", "I-PER", "<PAD>", "O"]] * 40
    X = [random.normal([["OBI<".index(label[0])] * 2 for label in labels], 0.5) for labels in y]
    with pytest.warns(UserWarning, match=r"those of the scheme 'bio', and '<PAD>' \(12\.5% of the positions\) outside"):
        crf = ChainCRF("linear", window=1, random_state=0).fit(X, y)
    assert crf.choices_.chosen["decode"] in ("viterbi", "posterior")
