"""The quick ways to read positions agree with the plain one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelfields.data.chunks import read_chunk, read_each


def place(row):
    return f"row {row}"


def contents(chunk):
    """Names, weights and counts of a chunk."""
    names = chunk.names
    spelled = [names.text[start:stop].tobytes() for start, stop in zip(names.starts, names.stops, strict=True)]
    weights = np.ones(len(spelled)) if chunk.weights is None else chunk.weights
    return spelled, weights.tolist(), chunk.counts.tolist()


def agree(positions):
    assert contents(read_chunk(positions, place)) == contents(read_each(positions, place))


WORDS = st.sampled_from(["", "a", "b:c", "é日", "some longer word", "\0"])
NUMBERS = st.one_of(st.floats(-3, 3), st.booleans(), st.integers(-2, 2), st.floats(-3, 3).map(np.float32))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(st.lists(WORDS, max_size=5), st.lists(WORDS, max_size=3).map(tuple)), max_size=8))
def test_lists_of_strings(positions):
    agree(positions)


def columns(draw, names):
    """A kind of values for each name, the same in all positions."""
    return {name: draw(st.sampled_from([WORDS, NUMBERS, st.just(np.str_("x"))])) for name in names}


@st.composite
def alike(draw):
    """Many dicts with the same keys."""
    kinds = columns(draw, draw(st.lists(WORDS, unique=True, max_size=4)))
    return draw(st.lists(st.fixed_dictionaries(kinds), min_size=40, max_size=50))


@st.composite
def unlike(draw):
    """Dicts with any choice of a few keys."""
    kinds = columns(draw, draw(st.lists(WORDS, unique=True, max_size=5)))
    return draw(st.lists(st.fixed_dictionaries({}, optional=kinds), min_size=40, max_size=60))


@settings(max_examples=30, deadline=None)
@given(alike())
def test_dicts_with_the_same_keys(positions):
    agree(positions)


@settings(max_examples=30, deadline=None)
@given(unlike())
def test_dicts_with_a_choice_of_keys(positions):
    agree(positions)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.dictionaries(WORDS, NUMBERS, max_size=4), max_size=6))
def test_dicts_of_numbers(positions):
    agree(positions)


VALUES = st.recursive(
    st.one_of(WORDS, NUMBERS, WORDS.map(str.encode)),
    lambda inner: st.one_of(
        st.dictionaries(WORDS, inner, max_size=3), st.lists(WORDS, max_size=3), st.frozensets(WORDS, max_size=3)
    ),
    max_leaves=5,
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(st.dictionaries(WORDS, VALUES, max_size=3), st.lists(WORDS, max_size=3)), max_size=40))
def test_everything_mixed(positions):
    agree(positions)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"w": "x", "n": float("nan")}, "row 33: feature 'n' is nan"),
        ({"w": "x", "n": -float("inf")}, "row 33: feature 'n' is -inf"),
        ({"w": "x", "n": 10**400}, "row 33: feature 'n' is 1000.*too large"),
        ({"w": "x", "n": None}, "row 33: feature 'n' is None"),
        ({"w": "x", 3: 1.0}, "row 33: feature name 3 is int"),
        (["x", 3], "row 33: feature name 3 is int"),
        ("word", "row 33: expected a feature dict"),
    ],
)
def test_what_is_wrong_is_said_by_the_plain_way(bad, words):
    for good in ({"w": "x", "n": 1.0}, {"w": "x"}, ["x"]):
        positions = [good] * 40
        positions[33] = bad
        with pytest.raises((TypeError, ValueError), match=words):
            read_chunk(positions, place)
