"""Names are found where they stand in a long list, whatever letters they have."""

import json

import numpy as np
import pytest

from kernelfields.serving import name_table
from kernelfields.serving.name_table import NameList, name_text

STRANGE = [
    "",
    "a",
    "eight bt",
    "eight bte",
    'with "quotes"',
    'ends in a quote"',
    '", "',
    'x", ',
    "back\\slash",
    "ends in one\\",
    "été",
    "字",
    "\0zero",
    "\ud800",
    "a, b",
    "12345678" * 9,
    "12345678" * 8 + "12345679",
]


@pytest.mark.parametrize("names", [STRANGE, [name for name in STRANGE if '"' not in name], ["only"], []])
def test_every_name_has_its_place(names):
    table = NameList.of(names)
    assert len(table) == len(names)
    assert list(table) == names
    assert table.find(names).tolist() == list(range(len(names)))
    assert table.find(names[::-1] * 2).tolist() == list(range(len(names)))[::-1] * 2
    assert table.find(["never seen", "eight bx", '"', "\\"]).tolist() == [-1] * 4
    assert NameList(json.dumps(names).encode()).find([]).tolist() == []
    assert NameList.of(table) is table


def test_random_names_are_found_as_a_dict_finds_them(monkeypatch):
    random = np.random.default_rng(0)
    letters = np.array(list('ab",\\ é'))
    names = {"".join(random.choice(letters, size=random.integers(0, 20))): None for _ in range(3000)}
    known, others = list(names)[:1500], list(names)[1500:]
    places = {name: place for place, name in enumerate(known)}
    monkeypatch.setattr(name_table, "_AT_ONCE", 100)
    asked = [name for pair in zip(known, others, strict=False) for name in pair]
    assert NameList.of(known).find(asked).tolist() == [places.get(name, -1) for name in asked]


def test_names_that_share_a_hash_are_told_apart(monkeypatch):
    monkeypatch.setattr(name_table.NameText, "hashes", lambda self: (self.lengths % 3).astype(np.uint64))
    table = NameList.of(STRANGE)
    assert table.find(STRANGE).tolist() == list(range(len(STRANGE)))
    assert table.find(["other", "names"]).tolist() == [-1, -1]


def test_what_is_no_list_of_strings_is_refused():
    with pytest.raises(ValueError, match="no list of strings"):
        name_text(b"[1, 2]")
