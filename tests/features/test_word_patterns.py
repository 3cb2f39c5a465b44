"""Functions of words and patterns of cells: what each says, and that the fast expansion is the plain one."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelfields.features.patterns import FUNCTIONS, Cell, Expansion, Pattern


@pytest.mark.parametrize(
    ("function", "values"),
    [
        ("x", {"Heathrow-2": "Heathrow-2", "": ""}),
        ("lower", {"McCain": "mccain", "ÄRA": "ära"}),
        ("prefix3", {"McCain": "mcc", "abc": "abc", "ab": None, "": None}),
        ("suffix2", {"McCain": "in", "OK": "ok", "a": None}),
        ("suffix9", {"unbelievable": "elievable", "short": None}),
        ("shape", {"Heathrow-2": "Xxxxx-d", "NATO": "XXXX", "UNESCO": "XXXX", "1999": "dddd", "12,345": "dd,ddd"}),
        ("shortshape", {"Heathrow-2": "Xx-d", "NATO": "X", "12,345": "d,d", "http://t.co/aB": "x:/x.x/xX"}),
        ("capital", {"Anna": "yes", "anna": None, "": None, "1A": None, "Ä": "yes"}),
        ("capitals", {"NATO": "yes", "U.S.": "yes", "A": None, "Anna": None, "12": None}),
        ("digits", {"1999": "all", "B2B": "some", "two": None, "": None}),
        ("hyphen", {"twenty-two": "yes", "-": None, "--": None, "two": None}),
        ("punctuation", {"...": "yes", "(": "yes", "U.S.": None, "": None, "7": None}),
    ],
)
def test_functions_of_words(function, values):
    assert {word: FUNCTIONS[function](word) for word in values} == values


def expand_plainly(pattern, rows, position):
    """One pattern at one position, as the words of the module say it; None for nothing."""
    text = pattern.texts[0]
    for cell, after in zip(pattern.cells, pattern.texts[1:], strict=True):
        index = position + cell.row
        if 0 <= index < len(rows):
            value = FUNCTIONS[cell.function](rows[index][cell.column])
        elif cell.function in ("x", "lower", "shape", "shortshape"):
            value = f"_B{index}" if index < 0 else f"_B+{index - len(rows) + 1}"
        else:
            value = None
        if value is None:
            return None
        text += value + after
    return text


words = st.text("aB-7.é%", max_size=5)
cells = st.builds(Cell, st.integers(-3, 3), st.integers(0, 1), st.sampled_from(sorted(FUNCTIONS)))
patterns = st.lists(cells, max_size=3).flatmap(
    lambda some: st.builds(Pattern, st.tuples(*[st.text("u=|%", max_size=2)] * (len(some) + 1)), st.just(tuple(some)))
)


@settings(max_examples=80, deadline=None)
@given(
    st.lists(patterns, max_size=6),
    st.lists(st.lists(st.tuples(words, words), max_size=5), max_size=3),
)
def test_the_fast_expansion_is_the_plain_one(some, sequences):
    expand = Expansion(some)
    for rows in sequences:
        plain = [[expand_plainly(each, rows, position) for each in some] for position in range(len(rows))]
        expected = [[string for string in strings if string is not None] for strings in plain]
        assert expand(rows) == expected
        assert expand.expand_columns([[row[0] for row in rows], [row[1] for row in rows]]) == expected


def test_patterns_are_written_as_in_templates():
    pattern = Pattern(("pair=", "|", ""), (Cell(-1, 0, "lower"), Cell(0, 2)))
    assert str(pattern) == "pair=%lower[-1,0]|%x[0,2]"
    assert str(Pattern(("bias",), ())) == "bias"
