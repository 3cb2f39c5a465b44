"""TextFeatures: words in sentences to feature strings, in every form they may come in, and in pipelines."""

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from kernelfields import ChainCRF, TextFeatures
from kernelfields.compat import CRF
from kernelfields.features.text import text_patterns
from kernelfields.formats import Template

SENTENCE = ["Anna", "left", "Heathrow-2", "."]
TAGS = ["NNP", "VBD", "NNP", "."]


def test_what_is_said_about_a_word():
    features = TextFeatures().fit_transform([SENTENCE])
    assert len(features) == 1
    assert len(features[0]) == 4
    assert features[0][2] == [
        "lower[-2]=anna",
        "lower[-1]=left", "shape[-1]=xxxx", "shortshape[-1]=x",
        "word=Heathrow-2", "lower=heathrow-2", "prefix1=h", "prefix2=he", "prefix3=hea", "prefix4=heat",
        "suffix1=2", "suffix2=-2", "suffix3=w-2", "suffix4=ow-2", "shape=Xxxxx-d", "shortshape=Xx-d",
        "capital=yes", "digits=some", "hyphen=yes",
        "lower[1]=.", "shape[1]=.", "shortshape[1]=.", "punctuation[1]=yes",
        "lower[2]=_B+1",
    ]  # fmt: skip
    assert {"lower[-2]=_B-2", "lower[-1]=_B-1"} <= set(features[0][0])


def test_parameters_choose_features():
    (words,) = TextFeatures(
        window=0, context=0, prefixes=0, suffixes=2, shapes=False, flags=False, bigrams=True
    ).transform([SENTENCE])
    assert words[1] == ["word=left", "lower=left", "suffix1=t", "suffix2=ft", "lower[-1|0]=anna|left",
                        "lower[0|1]=left|heathrow-2"]  # fmt: skip
    rows = list(zip(SENTENCE, TAGS, strict=True))
    (tags,) = TextFeatures(window=1, tag_ngrams=2).transform([rows])
    assert tags[0][-5:] == ["tag1[-1]=_B-1", "tag1=NNP", "tag1[1]=VBD", "tag1[-1|0]=_B-1|NNP", "tag1[0|1]=NNP|VBD"]


def test_every_form_of_rows_gives_the_same():
    rows = list(zip(SENTENCE, TAGS, strict=True))
    dicts = [{"word": word, "pos": tag} for word, tag in rows]
    expected = TextFeatures().transform([rows])
    assert TextFeatures().transform([[list(row) for row in rows]]) == expected
    assert TextFeatures().transform([np.array(rows)]) == expected
    assert TextFeatures().transform([np.array(rows, dtype=object)]) == expected
    assert TextFeatures().transform([dicts]) == expected
    assert TextFeatures().transform([pd.DataFrame(dicts)]) == expected
    swapped = [(tag, 7, word) for word, tag in rows]
    assert TextFeatures(word_column=-1, tag_columns=[0]).transform([swapped]) == expected
    assert (
        TextFeatures(word_column="word", tag_columns=["pos"]).transform([[{"n": 1, **row} for row in dicts]])
        == expected
    )
    words = TextFeatures().transform([SENTENCE])
    assert TextFeatures(tag_columns=()).transform([rows]) == words
    assert TextFeatures().transform([np.array(SENTENCE)]) == words
    assert TextFeatures().transform((tuple(SENTENCE),)) == words


def test_words_of_subclasses_are_their_letters():
    class Token(str):
        def __str__(self):
            return "no"

    assert TextFeatures().transform([[Token("Anna")]]) == TextFeatures().transform([["Anna"]])


def test_the_template_of_the_command_says_the_same():
    rows = list(zip(SENTENCE, TAGS, strict=True))
    template = Template.parse("\n".join(f"U{pattern}" for pattern in text_patterns(0, [1])))
    (expected,) = TextFeatures().transform([rows])
    assert template.features(rows) == [[f"U{name}" for name in position] for position in expected]


@pytest.mark.parametrize("model", [ChainCRF("linear"), CRF()], ids=lambda model: type(model).__name__)
def test_pipelines_learn_from_words(model):
    names = ["Anna", "Bert", "Carla", "Dora"]
    X = [[name, "sees", other] for name in names for other in ("Emil", "trees")]
    y = [["PER", "O", "PER" if words[2] == "Emil" else "O"] for words in X]
    pipeline = clone(make_pipeline(TextFeatures(prefixes=0), model)).fit(X, y)
    assert [list(labels) for labels in pipeline.predict([["Zoe", "likes", "bees"]])] == [["PER", "O", "O"]]
    assert pipeline.get_params()["textfeatures__prefixes"] == 0


@pytest.mark.parametrize(
    ("parameters", "X", "message"),
    [
        ({}, "a text", "X must be a list of sequences of words, got 'a text' (str)"),
        ({}, ["one", "sentence"], "sequence 0 is 'one' (str): split texts into lists of words, and pass"),
        ({}, [["a"], 5], "sequence 1 must be a list of words or rows, got 5 (int)"),
        ({}, [["a", "b"], ["c", None]], "sequence 1, position 1: None (NoneType) is no word, expected a string"),
        ({}, [["a", float("nan")]], "sequence 0, position 1: nan (float) is no word"),
        ({}, [[("a", 1)]], "sequence 0, position 0: 1 (int) is no word, expected a string; make strings of numbers"),
        ({}, [[("a", "N"), ("b",)]], "the rows of sequence 0 must all have the same columns"),
        ({}, [[("a", "N"), "bc"]], "the rows of sequence 0 must all have the same columns"),
        ({}, [[{"w": "a"}, {"v": "b"}]], "the rows of sequence 0 must all have the same columns"),
        ({}, [[("a", "N")], ["a"]], "sequence 1 has 0 columns of tags, those before had 1"),
        ({"word_column": 2}, [[("a", "N")]], "word_column: sequence 0 has no column 2, only 0, 1"),
        ({"tag_columns": ["pos"]}, [[{"w": "a"}]], "tag_columns: sequence 0 has no column 'pos', only 'w'"),
        ({"tag_columns": "pos"}, [[{"w": "a"}]], "tag_columns must be 'rest' or a list of columns, got 'pos'"),
        ({"window": 16}, [["a"]], "window must be a whole number from 0 to 15, got 16"),
        ({"prefixes": -1}, [["a"]], "prefixes must be a whole number from 0 to 9, got -1"),
        ({"suffixes": True}, [["a"]], "suffixes must be a whole number from 0 to 9, got True"),
        ({"tag_ngrams": 0}, [["a"]], "tag_ngrams must be a whole number from 1 to 31, got 0"),
    ],
)
def test_mistakes_are_named(parameters, X, message):
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        TextFeatures(**parameters).fit(X)


def test_other_columns_than_at_the_fit_are_named():
    features = TextFeatures().fit([[("a", "N")]])
    assert features.n_tags_ == 1
    with pytest.raises(ValueError, match="sequence 0 has 0 columns of tags, the fit had 1: pass the same columns"):
        features.transform([["a"]])
    assert features.fit([["a"]]).transform([["a"]]) == TextFeatures().transform([["a"]])


def test_a_list_with_one_sentence_is_answered_where_one_sentence_is_taken():
    settings = {"features": TextFeatures(), "prior_variance": 1.0, "random_state": 0}
    crf = ChainCRF("linear", **settings).fit([["a", "b"], ["b", "a"]], [["x", "y"], ["y", "x"]])
    assert len(crf.show(["a", "b"]).labels) == 2
    with pytest.raises(ValueError, match=r"one list of words is one sequence here, got \[words\]: pass words alone"):
        crf.show([["a", "b", "a"]])
