import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelfields.data.names import NameTable, join_names

# Lengths on both sides of eight bytes, letters of one to four bytes, the zero byte and half a surrogate pair.
NAMES = st.text(st.sampled_from("aab:é日😀\0\ud800\x80 "), max_size=20)


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
