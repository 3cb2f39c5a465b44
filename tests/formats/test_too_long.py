"""Words, labels and documents that are longer than any can be are refused where they are read, in one short line."""

import json

import numpy as np
import pytest

from kernelfields.data.reading import encode_labels
from kernelfields.formats import SequenceFileError, read_sequences
from kernelfields.formats.annotation_files import read_documents

ROWS = "a\tA\nb\tB\n\n" * 3


def refused(read, *arguments, **options):
    with pytest.raises(SequenceFileError) as error:
        read(*arguments, **options)
    assert len(str(error.value)) < 300
    return str(error.value)


@pytest.mark.parametrize("length", [1001, 50_000])
def test_a_label_has_a_thousand_characters(tmp_path, length):
    path = tmp_path / "long.conll"
    path.write_text("a\t" + "L" * 1000 + "\n\n" + ROWS)
    assert len(read_sequences(path).y) == 4
    path.write_text(ROWS + "a\t" + "L" * length + "\n\n")
    assert f"line 10, column 1 (from 0): a label of {length:,} characters, 'LLLL" in refused(read_sequences, path)
    table = tmp_path / "long.csv"
    table.write_text("day,speed,label\n1,0.5,a\n1,0.5," + "L" * length + "\n")
    assert "a label of" in refused(read_sequences, table, sequence="day")
    texts = tmp_path / "long.jsonl"
    texts.write_text(json.dumps({"text": "He ran", "label": [[0, 2, "L" * length]]}) + "\n")
    assert f"document 1: a label of {length:,}" in refused(read_documents, texts)


def test_a_word_has_a_hundred_thousand_characters(tmp_path):
    path = tmp_path / "long.conll"
    path.write_text(ROWS + "w" * 100_001 + "\tA\n")
    assert "line 10: a cell of 100,001 characters" in refused(read_sequences, path)
    texts = tmp_path / "long.jsonl"
    texts.write_text(json.dumps({"text": "w" * 100_001}) + "\n")
    assert "document 1: a word of 100,001 characters" in refused(read_documents, texts)


@pytest.mark.slow
def test_a_document_has_a_million_words(tmp_path):
    texts = tmp_path / "long.jsonl"
    texts.write_text(json.dumps({"text": "[" * 1_000_001}) + "\n")
    assert "document 1: more than 1,000,000 words" in refused(read_documents, texts)


def test_one_long_label_takes_its_own_room_alone():
    """Arrays of text have the room of the longest at each place: 4 (N + 1) bytes times its length, 8 TB here."""
    y = [["a", "b"] * 1000, ["L" * 10**6], *[["b", "a"]] * 500_000]
    labels, known = encode_labels(y)
    assert known.tolist() == ["L" * 10**6, "a", "b"]
    np.testing.assert_array_equal(labels[:2001], [*([1, 2] * 1000), 0])
    np.testing.assert_array_equal(labels[2001:], [2, 1] * 500_000)
    with pytest.raises(ValueError, match="unknown label 'zzz") as error:
        encode_labels([["a"], ["z" * 10**6]], known)
    assert len(str(error.value)) < 1000
