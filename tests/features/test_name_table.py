import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelfields.data.names import NameTable, join_names, split_names

# Lengths on both sides of eight bytes, letters of one to four bytes, the zero byte and half a surrogate pair.
NAMES = st.text(st.sampled_from("aab:é日😀\0\ud800\x80 "), max_size=20)


def spelled(names):
    """The names of a NameText, as its text spells them."""
    spans = zip(names.starts, names.stops, strict=True)
    return [names.text[start:stop].tobytes() for start, stop in spans]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(NAMES, max_size=12), max_size=6), st.lists(NAMES, max_size=6))
def test_names_are_numbered_in_order_of_first_sight(groups, others):
    table, numbers = NameTable(), {}
    for names in groups:
        columns = table.add(join_names(names))
        assert columns.tolist() == [numbers.setdefault(name, len(numbers)) for name in names]
    assert len(table) == len(numbers)
    assert table.names() == list(numbers)
    assert table.find(join_names(others)).tolist() == [numbers.get(name, -1) for name in others]


def test_a_table_grows():
    names = [f"w[{k % 5}]={k}" for k in range(5000)]
    table = NameTable()
    for start in range(0, 5000, 700):
        table.add(join_names(names[start : start + 700]))
    np.testing.assert_array_equal(table.find(join_names(names[::-1])), np.arange(5000)[::-1])
    assert table.names() == names
    assert (table.find(join_names([f"{name} " for name in names])) == -1).all()


def test_names_with_equal_hashes_are_told_apart():
    names = [f"{'x' * (k % 10)}{k}" for k in range(30)]
    text = join_names(names)
    text = text._replace(hashes=np.full_like(text.hashes, 77))
    table = NameTable()
    np.testing.assert_array_equal(table.add(text.select(np.arange(20))), np.arange(20))
    np.testing.assert_array_equal(table.find(text), [*range(20), *[-1] * 10])
    np.testing.assert_array_equal(table.add(text), np.arange(30))
    assert table.names() == names


def test_hashes_depend_on_every_byte_and_on_the_length():
    base = "abcdefghijklmnopqrstuvwxyz"
    names = [base[:k] for k in range(27)]
    names += [base[:k] + "#" + base[k + 1 :] for k in range(26)]
    assert len(set(join_names(names).hashes.tolist())) == len(names)


def test_a_name_hashes_the_same_wherever_it_stands():
    alone = join_names(["some name"]).hashes[0]
    for before in range(10):
        assert join_names(["a" * before, "some name", "b"]).hashes[1] == alone


def test_a_text_is_split_at_its_ends_of_names():
    assert spelled(split_names("a\0\0bc", 3)) == [b"a", b"", b"bc"]
    assert spelled(split_names("", 0)) == []
    assert spelled(split_names("", 1)) == [b""]
    assert split_names("a\0b", 1) is None


def test_kept_names_keep_their_order():
    table = NameTable(["a", "b\0", "c", "d"])
    kept = table.keep(np.array([False, True, False, True]))
    assert kept.names() == ["b\0", "d"]
    assert kept.find(join_names(["d", "a", "b\0"])).tolist() == [1, -1, 0]
    assert table.names() == ["a", "b\0", "c", "d"]


def test_a_pickled_table_is_the_same_table():
    table = NameTable(["a", "é", "\0"])
    assert pickle.loads(pickle.dumps(table)).names() == table.names()


def test_only_strings_are_names():
    with pytest.raises(TypeError):
        join_names(["a", 3])
