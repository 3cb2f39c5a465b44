import re

import numpy as np
import pytest
import scipy.sparse as sp

from kernelfields.formats import SequenceFileError, Template, guess_format, read_sequences, write_sequences

CHUNKS = "He\tPRP\tB\nran\tVBD\tO\n\nShe\tPRP\tB\n\n"
CONLLU = "".join(f"{i}\t{word}\t_\t{tag}\t" + "\t".join("_" * 6) + "\n" for i, word, tag in [(1, "Go", "VERB")])
TEMPLATE = Template.parse("U0:%x[0,0]\nU1:%x[-1,1]\nB")


@pytest.fixture
def write(tmp_path):
    def to_file(name, text):
        (tmp_path / name).write_text(text, encoding="utf-8")
        return tmp_path / name

    return to_file


def test_names_that_say_nothing_are_refused(write):
    with pytest.raises(ValueError, match=re.escape("'train.v2' does not show the format")):
        guess_format("train.v2")
    assert read_sequences(write("train.v2", CHUNKS), "columns").y == [["B", "O"], ["B"]]
    with pytest.raises(ValueError, match="format must be 'auto' or one of 'columns'"):
        read_sequences("train.tsv", "tsv")


def test_a_file_without_labels_is_read_as_the_one_with_them(write):
    train = read_sequences(write("a.tsv", CHUNKS), template=TEMPLATE)
    bare = write("b.txt", "He PRP\nran VBD\n\nShe PRP\n")
    test = read_sequences(bare, **train.reading, labels_required=False)
    assert test.X == train.X
    assert test.y is None
    again = read_sequences(write("a.tsv", CHUNKS), **train.reading, labels_required=False)
    assert again.y == train.y
    with pytest.raises(SequenceFileError, match=r"b\.txt has 2 columns, expected 3"):
        read_sequences(bare, **train.reading)
    with pytest.raises(SequenceFileError, match="has 4 columns, expected 3"):
        read_sequences(write("c.tsv", "a\tb\tc\td\n"), **train.reading, labels_required=False)
    middle = read_sequences(write("a.tsv", CHUNKS), label=1)
    with pytest.raises(SequenceFileError, match="has 2 columns, expected 3"):
        read_sequences(bare, **middle.reading, labels_required=False)


@pytest.mark.parametrize(
    ("name", "text", "options"),
    [
        ("a.tsv", "a\tX\nb\t?\nc\t\n\nd\t \n", {}),
        ("a.csv", "id,word,label\n1,a,X\n1,b,?\n1,c,\n2,d, \n", {"sequence": "id"}),
        ("a.conllu", "".join(CONLLU.replace("VERB", tag) for tag in ("X", "?", "", "_")), {}),
        ("a.crfsuite", "X\ta\n?\tb\n?\tc\n\n?\td\n", {}),
    ],
)
def test_question_marks_and_empty_labels_are_unknown_in_every_format(write, name, text, options):
    file = read_sequences(write(name, text), **options)
    assert [label for labels in file.y for label in labels] == ["X", None, None, None]
    other = read_sequences(write(name, text), unknown_label="X", **options)
    found = [label for labels in other.y for label in labels]
    assert found[:2] == [None, "?"], "another mark in the place of the usual one makes a label of that"
    assert (name == "a.conllu") == ("_" in found)
    assert "" not in found
    assert " " not in found


def test_unknown_labels_and_sets_are_written_and_read_again(write, tmp_path):
    file = read_sequences(write("a.tsv", "a\tX\nb\t?\n\nc\tX|Y\n"), label_sets="|")
    assert file.y == [["X", None], [{"X", "Y"}]]
    write_sequences(tmp_path / "b.crfsuite", file.X, file.y)
    assert read_sequences(tmp_path / "b.crfsuite", label_sets="|").y == file.y


def test_tables_are_read_again_with_the_kinds_of_the_first(write):
    train = read_sequences(write("a.csv", "id;word;tag\n1;a;X\n1;7;Y\n"), sequence="id", label="tag", delimiter=";")
    assert train.X == [[{"word": "a"}, {"word": "7"}]]
    test = read_sequences(write("b.csv", "word;more;id\n7;z;1\n"), **train.reading, labels_required=False)
    assert (test.X, test.y) == ([[{"word": "7"}]], None)
    with pytest.raises(SequenceFileError, match="no column 'label'"):
        read_sequences(write("b.csv", "id,x\n1,2\n"), sequence="id")
    with pytest.raises(ValueError, match="CSV files need --sequence-column"):
        read_sequences(write("b.csv", "id,x\n1,2\n"))


@pytest.mark.parametrize(
    ("name", "text", "options", "message"),
    [
        ("a.tsv", "", {}, "a.tsv holds no sequences"),
        ("a.tsv", "# only\n", {"template": TEMPLATE}, "a.tsv holds no sequences"),
        ("a.conllu", "# only\n", {}, "a.conllu holds no sequences"),
        ("a.crfsuite", "\n\n", {}, "a.crfsuite holds no sequences"),
        (
            "a.tsv",
            "B\nI\n",
            {},
            "no columns beside the labels; without labels, in Python, use label=None",
        ),
        ("a.tsv", "a\tB\n", {"label": 2}, "has columns 0 to 1, so there is no column 2 for the labels"),
        ("a.tsv", "a\tB\n", {"label": -3}, "no column -3"),
        ("a.tsv", "a\tB\n", {"features": [1]}, "column 1 holds the labels, so it cannot be a feature"),
        ("a.tsv", "a\tB\n", {"features": [4]}, "column 4 is not one of 0 to 1"),
    ],
)
def test_files_that_do_not_serve_are_named(write, name, text, options, message):
    with pytest.raises(SequenceFileError, match=re.escape(message)):
        read_sequences(write(name, text), **options)


def test_options_of_other_formats_are_refused():
    with pytest.raises(ValueError, match="format 'crfsuite' takes no options, got template"):
        read_sequences("a.crfsuite", template=TEMPLATE)
    with pytest.raises(ValueError, match=r"format 'csv' takes sequence, .* got template"):
        read_sequences("a.csv", template=TEMPLATE)


def test_sequences_are_converted(write, tmp_path):
    columns = read_sequences(write("a.tsv", CHUNKS), template=TEMPLATE)
    write_sequences(tmp_path / "a.crfsuite.gz", columns.X, columns.y, [1.0, 2.0])
    text = read_sequences(tmp_path / "a.crfsuite.gz")
    assert (text.X, text.y, text.weights.tolist()) == (columns.X, columns.y, [1.0, 2.0])
    arrays = [sp.csr_array(np.eye(2)), sp.csr_array(np.eye(2)[:1])]
    write_sequences(tmp_path / "b", arrays, columns.y, text.weights, format="crfsuite")
    assert read_sequences(tmp_path / "b", "crfsuite").X == [[["0"], ["1"]], [["0"]]]
    with pytest.raises(ValueError, match="no place for sequences without labels"):
        write_sequences(tmp_path / "b.crfsuite", arrays)
    with pytest.raises(ValueError, match="as 'crfsuite', not as 'columns'"):
        write_sequences(tmp_path / "b.tsv", arrays, columns.y)
