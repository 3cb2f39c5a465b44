import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelfields.formats import SequenceFileError, Template

MANUAL = """# Unigram
U00:%x[-2,0]
U01:%x[-1,0]
U05:%x[-1,0]/%x[0,0]

U12:%x[0,1]q
U22:%x[0,1]/%x[1,1]/%x[2,1]

# Bigram
B
"""
ROWS = [["He", "PRP"], ["reckons", "VBZ"], ["the", "DT"], ["current", "JJ"], ["account", "NN"]]


def expand_plainly(line, rows, position):
    """One line at one position, walking the text as CRF++ does."""
    text, place = "", 0
    while place < len(line):
        if line[place] != "%":
            text, place = text + line[place], place + 1
            continue
        end = line.index("]", place)
        row, column = line[place + 3 : end].split(",")
        index = position + int(row)
        if index < 0:
            text += "_B" + str(index)
        elif index >= len(rows):
            text += "_B+" + str(index - len(rows) + 1)
        else:
            text += rows[index][int(column)]
        place = end + 1
    return text


def test_the_example_of_the_manual():
    template = Template.parse(MANUAL)
    assert template.features(ROWS)[2] == [
        "U00:He",
        "U01:reckons",
        "U05:reckons/the",
        "U12:DTq",
        "U22:DT/JJ/NN",
    ]
    assert template.uses_label_bigrams
    assert template.observed_bigrams == ()
    assert Template.parse("UABC%x[0,1]123").features(ROWS)[2] == ["UABCDT123"]


cells = st.text(st.characters(codec="utf-8", exclude_characters="\n\r\t"), min_size=1, max_size=4)
macros = st.builds("%x[{},{}]".format, st.integers(-4, 4), st.integers(0, 2))
literals = st.text(st.characters(codec="utf-8", exclude_characters="%\n\r"), max_size=3)
lines = st.builds(lambda parts: "U" + "".join(parts), st.lists(st.one_of(macros, literals), max_size=5))


@settings(max_examples=60, deadline=None)
@given(st.lists(lines, min_size=1, max_size=5), st.lists(st.lists(cells, min_size=3, max_size=3), max_size=7))
def test_features_equal_the_plain_expansion(texts, rows):
    template = Template.parse("\n".join(texts))
    expected = [[expand_plainly(text, rows, position) for text in texts] for position in range(len(rows))]
    assert template.features(rows) == expected


def test_bigrams_that_see_the_rows_are_told_from_those_that_do_not():
    template = Template.parse("U\nB01:%x[0,1]\nB00")
    assert template.uses_label_bigrams
    assert [(line.text, line.number, line.cells) for line in template.observed_bigrams] == [
        ("B01:%x[0,1]", 2, ((0, 1, "x"),))
    ]
    assert not Template.parse("B01:%x[0,1]").uses_label_bigrams
    assert not Template.parse("U00:%x[0,0]").uses_label_bigrams
    assert Template.parse("B").features(ROWS) == [[]] * 5
    assert template.features(ROWS) == [["U"]] * 5


def test_comments_blank_lines_and_crlf_leave_no_trace(tmp_path):
    path = tmp_path / "template"
    path.write_bytes(b"# one\r\n\r\n  \r\nU00:%x[0,0]\r\n#U01:%x[0,0]\r\nB\r\n")
    template = Template.read(path)
    assert template.features([["a"]]) == [["U00:a"]]
    assert template.uses_label_bigrams
    assert [line.number for line in (*template.unigrams, *template.bigrams)] == [4, 6]
    assert Template.parse(template.text) == Template.parse(template.text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("U00:%x[0,0]\nX01", "template, line 2, column 1: 'X01' begins with 'X'"),
        (" U00:%x[0,0]", "line 1, column 1"),
        ("U00:%y[0,0]", "line 1, column 5: %y[0,0] names no function of cells, expected one of x, lower"),
        ("U00:100%", "line 1, column 8"),
        ("U00:%x[0,0]/%x[+1,0]", "line 1, column 13: '%x[+1,0]' is no macro"),
        ("U00:%x[,0]", "column 5"),
        ("U00:%x[0,]", "column 5"),
        ("U00:%x[0,-1]", "column 5"),
        ("U00:%x[0 ,0]", "column 5"),
        ("U00:%x[0,0", "column 5"),
        (f"U00:%x[0,{'9' * 5000}]", "column 5"),
        ("U00:%x[16,0]", "line 1, column 5: %x[16,0] is 16 rows away, expected at most 15"),
        ("B%x[-16,0]", "column 2: %x[-16,0] is 16 rows away"),
        ("U00:%sufix3[0,0]", "line 1, column 5: %sufix3[0,0] names no function of cells, expected one of x, lower"),
        ("U00:%sufix3[0,0]", "; did you mean %suffix3?"),
        ("U00:%shape2[0,0]", "; did you mean %shape?"),
        ("U00:%suffix[0,0]", "%suffix[0,0] must say how many characters, 1 to 9, such as %suffix3[0,0]"),
        ("U00:%prefix0[0,0]", "%prefix0[0,0] must say how many characters, 1 to 9"),
        ("U00:%prefix10[0,0]", "%prefix10[0,0] must say how many characters, 1 to 9"),
        ("U00:%Lower[0,0]", "'%Lower[0,0]' is no macro"),
        ("", "holds no templates"),
        ("# nothing\n\n", "holds no templates"),
    ],
)
def test_mistakes_are_named_by_line_and_column(text, message):
    with pytest.raises(SequenceFileError, match=re.escape(message)):
        Template.parse(text)


def test_columns_that_are_missing_or_hold_the_labels_are_refused():
    template = Template.parse("U00:%x[0,0]\nU01:%x[0,0]/%x[1,2]\n", name="chunks.tpl")
    message = "chunks.tpl, line 2, column 13: %x[1,2] reads column 2"
    with pytest.raises(SequenceFileError, match=re.escape(message + ", but the data have columns 0 to 1")):
        template.check_columns(2)
    with pytest.raises(SequenceFileError, match=re.escape(message + ", which holds the labels")):
        template.check_columns(3, label_column=2)
    with pytest.raises(SequenceFileError, match=re.escape(message)):
        template.features(ROWS)
    template.check_columns(4, label_column=3)
    with pytest.raises(SequenceFileError, match="reads column 1"):
        Template.parse("B:%x[0,1]").check_columns(1)
