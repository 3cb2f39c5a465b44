import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelfields.formats import ColumnSequence, SequenceFileError, read_columns, write_columns

CHUNKS = """He\tPRP\tB-NP
reckons\tVBZ\tB-VP

only\tRB\tB-NP
#\t#\tI-NP
1.8\tCD\tI-NP

"""


@pytest.fixture
def write(tmp_path):
    def to_file(text):
        path = tmp_path / "data.tsv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return to_file


def rows(path, **options):
    return [sequence.rows for sequence in read_columns(path, **options)]


def rewritten(path, **options):
    write_columns(path.with_name("copy"), read_columns(path, **options))
    return path.with_name("copy").read_bytes().decode()


EXPECTED = [
    [["He", "PRP", "B-NP"], ["reckons", "VBZ", "B-VP"]],
    [["only", "RB", "B-NP"], ["#", "#", "I-NP"], ["1.8", "CD", "I-NP"]],
]


@pytest.mark.parametrize(
    "text",
    [
        CHUNKS,
        CHUNKS.rstrip("\n"),
        CHUNKS.replace("\n", "\r\n"),
        "\ufeff" + CHUNKS,
        "\n \n" + CHUNKS.replace("\n\n", "\n\t \n\n"),
        CHUNKS.replace("\t", " "),
        CHUNKS.replace("\t", "   ").replace("He", "  He").replace("VBZ ", "VBZ \t"),
        "# id = 1\n" + CHUNKS + "# the end",
        CHUNKS.replace("\t", " ").replace("only", "# a comment of many words\nonly"),
    ],
)
def test_the_same_rows_in_many_dresses(write, text):
    path = write(text)
    assert rows(path) == EXPECTED
    assert all(len(sequence.rows) == len(sequence.lines) for sequence in read_columns(path))


def test_the_separator_can_be_forced(write):
    path = write("a b\tc d\n")
    assert rows(path) == rows(path, separator="tab") == [[["a b", "c d"]]]
    assert rows(path, separator="space") == [[["a", "b", "c", "d"]]]
    assert rows(write("one\ntwo\n"), separator="tab") == [[["one"], ["two"]]]
    with pytest.raises(ValueError, match="separator must be"):
        list(read_columns(path, separator=","))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # before a sequence: a comment unless it has as many cells as the rows
        ("a\tX\n\n# newdoc\nb\tY\n", [["a"], ["b"]]),
        ("a\tX\n\n#\tY\nb\tY\n", [["a"], ["#", "b"]]),
        ("# # B\na N B\n", [["#", "a"]]),
        ("# name = x\na N B X\n", [["a"]]),
        ("# sent_id = 5\na N B\n", [["a"]]),
        ("# text = one\ttwo\na\tX\n", [["a"]]),
        ("#\ntoken\n", [["#", "token"]]),
        ("# a comment\ntoken\n", [["token"]]),
        # nothing but lines that begin with "#"
        ("#\tX\n#\tY\n", [["#", "#"]]),
        ("# just words\n", []),
        ("\n\n", []),
        ("", []),
        # -DOCSTART- is never a row, and ends what comes before it
        ("-DOCSTART- -X- O\n\na N B\n", [["a"]]),
        ("-DOCSTART-\n\na N B\n", [["a"]]),
        ("-DOCSTART- -X- O\na N B\n-DOCSTART- -X- O\nb N B\n", [["a"], ["b"]]),
        ("-DOCSTART- -X- O\n", []),
    ],
)
def test_what_begins_with_a_hash_is_a_comment_or_a_word(write, text, expected):
    assert [[row[0] for row in sequence] for sequence in rows(write(text))] == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\tb\n\nc\td\te\n", "line 3, column 2 (from 0): 'e' is one too many; found 3 columns, expected 2"),
        (
            "a\tb\tc\nd e f\n",
            "line 2, column 1 (from 0): there is none; found 1 column, expected 3 as in line 1. Cells are "
            "separated by tabs here, and",
        ),
        ("a\tb\nc\td\t\n", "line 2, column 2 (from 0): '' is one too many; found 3 columns, expected 2"),
        ("a b\nNew York c\n", "line 2, column 2 (from 0): 'c' is one too many; found 3 columns, expected 2"),
        ("token\ntwo tokens\n", "line 2, column 1 (from 0): 'tokens' is one too many; found 2 columns"),
        ("# id = 1\na b\n# inside\nc d\ne f\n", ""),
        (
            "a\tb\n# inside\nc\td\n",
            "line 2, column 1 (from 0): there is none; found 1 column, expected 2 as in line 1. Comments may",
        ),
    ],
)
def test_ragged_rows_are_named(write, text, message):
    path = write(text)
    if not message:  # two cells after all: a row
        assert rows(path) == [[["a", "b"], ["#", "inside"], ["c", "d"], ["e", "f"]]]
        return
    with pytest.raises(SequenceFileError, match=re.escape(f"{path}, {message}")):
        rows(path)


CONLLU = (
    "# newdoc\n# text = Don't.\n"
    + "".join(
        f"{number}\t{word}\t" + "\t".join("_" * 8) + "\n"
        for number, word in [
            ("1-2", "Don't"),
            ("1", "Do"),
            ("2", "n't"),
            ("2.1", "go"),
            ("3", "."),
            ("3.1", "now"),
        ]
    )
    + "\n# text = #\n1\t#"
    + "\t_" * 8
    + "\n\n"
)


def test_conllu_rows_are_words_and_everything_else_is_written_again(write):
    path = write(CONLLU)
    first, second = read_columns(path, conllu=True)
    assert [row[1] for row in first.rows] == ["Do", "n't", "."]
    assert first.lines == [4, 5, 7]
    assert [row[1] for row in second.rows] == ["#"]
    assert rewritten(path, conllu=True) == CONLLU
    path = write(CONLLU + "# end\n")
    assert rewritten(path, conllu=True) == CONLLU + "# end\n"
    with pytest.raises(
        SequenceFileError, match=r"line 1, column 2 \(from 0\): .* found 2 columns, expected 10 as in CoNLL-U"
    ):
        rows(write("1\ta\n"), conllu=True)


@pytest.mark.parametrize(
    "text",
    [
        CHUNKS,
        CHUNKS.replace("\t", " "),
        "# licence\n-DOCSTART-\n# id = 1\n" + CHUNKS + "# the end\n# really\n",
        "-DOCSTART-\t-X-\tO\n\n" + CHUNKS + "-DOCSTART-\t-X-\tO\n\n" + CHUNKS,
        CHUNKS + "-DOCSTART-\n\n",
        "one\n\n#\n\n",
        "a\rb\tX\n\n",
    ],
)
def test_what_is_read_is_written_again(write, text):
    assert rewritten(write(text)) == text


@pytest.mark.parametrize(
    ("sequence", "appended", "message"),
    [
        (ColumnSequence([["a"]]), [[["x\ty"]]], "may not hold tabs"),
        (ColumnSequence([["a\n"]]), [[[]]], "ends of lines"),
        (ColumnSequence([["a"]]), [[["b\r"]]], "ends of lines"),
        (ColumnSequence([["a"]], separator=" "), [[["New York"]]], "may not hold spaces"),
        (ColumnSequence([["a"]], separator=" "), [[[""]]], "nor be empty"),
        (ColumnSequence([["a"], ["b"]]), [[["x"]]], "1 rows to append to a sequence of 2 rows"),
        (ColumnSequence([["a"]]), [], "shorter"),
    ],
)
def test_what_could_not_be_read_again_is_not_written(tmp_path, sequence, appended, message):
    path = tmp_path / "out.tsv"
    path.write_text("old")
    with pytest.raises(ValueError, match=message):
        write_columns(path, [sequence], appended)
    assert path.read_text() == "old"


words = st.text(st.characters(codec="utf-8", exclude_characters="\t\n\r "), min_size=1, max_size=5)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(2, 4).flatmap(
        lambda width: st.lists(
            st.lists(st.lists(words, min_size=width, max_size=width), min_size=1, max_size=5),
            min_size=1,
            max_size=4,
        )
    ),
    st.sampled_from(["\t", " "]),
    st.sampled_from(["columns.txt", "columns.gz"]),
)
def test_round_trip(tmp_path_factory, sequences, separator, name):
    path = tmp_path_factory.mktemp("round") / name
    sequences = [[["word", *row[1:]] if row[0][0] in "#-" else row for row in rows] for rows in sequences]
    if sequences[0][0][0].startswith("\ufeff"):
        sequences[0][0][0] = "word"
    write_columns(path, [ColumnSequence(rows, separator=separator) for rows in sequences])
    assert rows(path) == sequences
