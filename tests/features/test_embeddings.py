"""Embeddings by a function of words: shapes, cache, bad input; no encoder is needed here."""

import pickle
import re

import numpy as np
import pytest

from kernelfields.features import Embeddings
from kernelfields.features.embeddings import ArrayCache

SENTENCES = [["the", "cat", "sat"], ["a", "dog"], ["the"]]


class Counting:
    """Lengths and first letters of words; counts the sequences it has seen."""

    cache_key = "lengths and first letters"

    def __init__(self):
        self.calls = 0

    def __call__(self, words):
        self.calls += 1
        return np.array([[len(word), ord(word[0])] for word in words], dtype=float)


def shared(words):
    return np.array([[len(word), word.count("a")] for word in words])


def test_a_function_of_words_gives_a_row_for_each():
    vectors = Embeddings(shared).fit_transform(SENTENCES)
    assert [each.shape for each in vectors] == [(3, 2), (2, 2), (1, 2)]
    np.testing.assert_array_equal(vectors[0], [[3, 0], [3, 1], [3, 1]])
    assert vectors[0].dtype == np.float32
    assert Embeddings(shared).transform([]) == []


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_arrays_have_the_precision_that_was_asked_for(dtype, tmp_path):
    embeddings = Embeddings(Counting(), dtype=dtype, cache=tmp_path)
    for vectors in (embeddings.transform(SENTENCES), embeddings.transform(SENTENCES)):
        assert {each.dtype for each in vectors} == {np.dtype(dtype)}


def test_a_cache_is_asked_before_the_model(tmp_path):
    model = Counting()
    embeddings = Embeddings(model, cache=tmp_path / "cache")
    first = embeddings.transform(SENTENCES)
    assert model.calls == 3
    again = embeddings.transform([*SENTENCES, ["new"]])
    assert model.calls == 4
    for one, other in zip(first, again, strict=False):
        np.testing.assert_array_equal(one, other)
    Embeddings(model, cache=tmp_path / "cache", dtype="float16").transform(SENTENCES)
    assert model.calls == 7


def test_words_that_join_to_the_same_text_are_kept_apart(tmp_path):
    embeddings = Embeddings(Counting(), cache=tmp_path)
    one, two = (embeddings.transform([words])[0] for words in (["a b"], ["a", "b"]))
    assert (len(one), len(two)) == (1, 2)


def test_a_damaged_file_of_the_cache_is_written_again(tmp_path):
    model = Counting()
    embeddings = Embeddings(model, cache=tmp_path)
    expected = embeddings.transform(SENTENCES)
    for number, path in enumerate(sorted(tmp_path.rglob("*.npy"))):
        content = bytearray(path.read_bytes())
        if number == 0:
            content = content[:-1]
        elif number == 1:
            content[-40] ^= 1
        else:
            content = bytearray()
        path.write_bytes(content)
    for one, other in zip(embeddings.transform(SENTENCES), expected, strict=True):
        np.testing.assert_array_equal(one, other)
    assert model.calls == 6
    assert embeddings.transform(SENTENCES)[0].shape == (3, 2)
    assert model.calls == 6
    assert not list(tmp_path.rglob("*.tmp"))


def test_nothing_in_a_cache_is_run(tmp_path):
    cache = ArrayCache(tmp_path)
    with pytest.raises(ValueError, match="Object arrays"):
        cache.put("ab" * 32, np.array([print], dtype=object))
    assert cache.get("ab" * 32) is None


def test_progress_is_told_where_it_is_asked_for(capsys, tmp_path):
    Embeddings(Counting(), cache=tmp_path).transform(SENTENCES)
    assert capsys.readouterr().err == ""
    Embeddings(Counting(), cache=tmp_path, verbose=1).transform([*SENTENCES, ["new"]])
    captured = capsys.readouterr()
    assert captured.out == ""
    assert re.search(r"3 of 4 sequences from the cache\n.*1 sequence, \d+ s", captured.err)


def test_a_pickle_carries_the_parameters():
    embeddings = Embeddings(shared, dtype="float16").fit(SENTENCES)
    copy = pickle.loads(pickle.dumps(embeddings))
    assert copy.get_params() == embeddings.get_params()
    np.testing.assert_array_equal(copy.transform(SENTENCES)[0], embeddings.transform(SENTENCES)[0])


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        ("the cat", TypeError, "list of sequences, each a list of words, got str"),
        (3, TypeError, "got int"),
        (["the cat"], TypeError, r"sequence 0 is one string, split it into words, for example x.split()"),
        ([["the"], 7], TypeError, "sequence 1 is int"),
        ([["the"], []], ValueError, "sequence 1 has no words: remove empty sequences"),
        ([["the", None]], TypeError, r"sequence 0, position 1 is None (NoneType), expected a string"),
        ([["the"], [float("nan")]], TypeError, r"sequence 1, position 0 is nan (float)"),
        ([[["the"]]], TypeError, r"position 0 is ['the'] (list)"),
    ],
)
def test_input_that_is_no_words_is_refused(X, error, message):
    with pytest.raises(error, match=re.escape(message)):
        Embeddings(shared).transform(X)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"dtype": "int8"}, "dtype must be one of 'float16', 'float32', 'float64'"),
        ({"layers": 3}, r"layers must be whole numbers such as (0, 3, 6), or None, got 3"),
        ({"layers": ()}, "layers must be whole numbers"),
        ({"layers": (1,)}, "layers are those of a Hugging Face encoder"),
        ({"batch_size": 0}, "batch_size must be a whole number of at least 1"),
        ({"cache": "somewhere"}, "cache needs the content of the model"),
    ],
)
def test_parameters_that_cannot_be_meant_are_refused(parameters, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        Embeddings(shared, **parameters).transform(SENTENCES)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda words: np.zeros(len(words)), r"shape (3,) of sequence 0, which has 3 positions"),
        (lambda words: np.zeros((1, 2)), r"shape (1, 2) of sequence 0"),
        (lambda words: np.zeros((len(words), 0)), r"shape (3, 0)"),
        (lambda words: np.zeros((len(words), len(words))), "2 columns of sequence 1 but 3 of sequence 0"),
        (lambda words: np.full((len(words), 1), np.nan), "not finite of sequence 0"),
        (lambda words: [[word] for word in words], "where numbers are needed"),
    ],
)
def test_what_a_function_returns_is_checked(made, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        Embeddings(made).transform(SENTENCES)


def test_what_is_no_model_is_refused(tmp_path):
    with pytest.raises(TypeError, match="a callable or the path of a model folder"):
        Embeddings(3).fit(SENTENCES)
    with pytest.raises(ValueError, match=r"no folder '.*/nothing'"):
        Embeddings(str(tmp_path / "nothing")).fit(SENTENCES)
    (tmp_path / "file").write_text("words")
    with pytest.raises(ValueError, match="is a file: model is the folder"):
        Embeddings(tmp_path / "file").fit(SENTENCES)
    with pytest.raises(ValueError, match="is a file, give a folder"):
        Embeddings(Counting(), cache=tmp_path / "file").transform(SENTENCES)


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "transformers", None)
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    for model in (tmp_path, "owner/model"):
        with pytest.raises(ImportError, match=r'pip install "kernelfields\[embeddings\]"'):
            Embeddings(model).transform(SENTENCES)
