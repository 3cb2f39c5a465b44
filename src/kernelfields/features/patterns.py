"""Feature strings of rows of text: patterns of cells around a position, and functions of words.

    suffix3[-1]=%suffix3[-1,0]    with the rows  Anna | sleeps | here   gives   -, "suffix3[-1]=nna", "suffix3[-1]=eps"

A pattern is text around cells, %function[row,column]: row counts from the current position, column from 0. The
functions of a cell w are

    x               w itself
    lower           in lower case
    prefixN         its first N characters in lower case, N from 1 to 9; nothing if it is shorter
    suffixN         its last N characters, likewise
    shape           X, x and d for upper case, other letters and digits, other characters unchanged, at most four of a
                    kind in a row: "Heathrow-2" is Xxxxx-d
    shortshape      the same with at most one of a kind in a row: Xx-d
    capital         "yes" if it begins with upper case, else nothing
    capitals        "yes" if all its letters are upper case and it has two or more
    digits          "all" if it has only digits, "some" if it has any
    hyphen          "yes" if it has a hyphen and more
    punctuation     "yes" if it has neither letter nor digit

Rows beyond the ends read _B-1, _B-2, ... before the first and _B+1, _B+2, ... after the last, for x, lower and the
shapes; the others have no value there. If a cell has no value, its pattern has no string at that position.

Cost: an ``Expansion`` caches the strings of a cell by its text, so that patterns of one cell cost a look-up in a dict
per position and cell, others one formatted string per position. Raises KeyError for a name that is not in
``FUNCTIONS``, IndexError for a row without the column of a cell.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, groupby
from typing import NamedTuple

#: Rows that patterns may reach, and characters that affixes may have.
FARTHEST_ROW, LONGEST_AFFIX = 15, 9
_BEFORE = [f"_B-{distance}" for distance in range(FARTHEST_ROW, 0, -1)]
_AFTER = [f"_B+{distance}" for distance in range(1, FARTHEST_ROW + 1)]
_ENDS = frozenset((*_BEFORE, *_AFTER))
_LONG_RUN = re.compile(r"(.)\1{4,}", re.DOTALL)


def _kinds(word: str) -> str:
    return "".join(["X" if c.isupper() else "x" if c.isalpha() else "d" if c.isdigit() else c for c in word])


def _prefix(length: int) -> Callable[[str], str | None]:
    return lambda word: word[:length].lower() if len(word) >= length else None


def _suffix(length: int) -> Callable[[str], str | None]:
    return lambda word: word[-length:].lower() if len(word) >= length else None


#: Functions that have a value for every cell, also for those beyond the ends.
_TOTAL: dict[str, Callable[[str], str]] = {
    "x": str,
    "lower": str.lower,
    "shape": lambda word: _LONG_RUN.sub(lambda run: run[0][:4], _kinds(word)),
    "shortshape": lambda word: "".join([kind for kind, _ in groupby(_kinds(word))]),
}
_FLAGS: dict[str, Callable[[str], str | None]] = {
    "capital": lambda word: "yes" if word[:1].isupper() else None,
    "capitals": lambda word: "yes" if word.isupper() and sum(map(str.isalpha, word)) > 1 else None,
    "digits": lambda word: "all" if word.isdigit() else "some" if any(map(str.isdigit, word)) else None,
    "hyphen": lambda word: "yes" if "-" in word and word.strip("-") else None,
    "punctuation": lambda word: "yes" if word and not any(map(str.isalnum, word)) else None,
}
_AFFIXES = {f"prefix{n}": _prefix(n) for n in range(1, LONGEST_AFFIX + 1)} | {
    f"suffix{n}": _suffix(n) for n in range(1, LONGEST_AFFIX + 1)
}
FLAGS = tuple(_FLAGS)
FUNCTIONS: dict[str, Callable[[str], str | None]] = {**_TOTAL, **_AFFIXES, **_FLAGS}


class Cell(NamedTuple):
    """A cell relative to the current position, and the name of a function of its text."""

    row: int
    column: int
    function: str = "x"

    def __str__(self) -> str:
        return f"%{self.function}[{self.row},{self.column}]"


class Pattern(NamedTuple):
    """A sequence of cells and the texts around them; ``texts`` has one entry more than ``cells``."""

    texts: tuple[str, ...]
    cells: tuple[Cell, ...]

    def __str__(self) -> str:
        return "".join(chain(*zip(self.texts, map(str, self.cells), strict=False), self.texts[-1:]))

    @property
    def place(self) -> tuple[int, int] | None:
        """Row and column of a single cell; None for any other number of cells."""
        return self.cells[0][:2] if len(self.cells) == 1 else None


class Expansion:
    """The feature strings of patterns at the positions of sequences, in the order of the patterns.

    What was found for a cell is kept, so one expansion serves for all sequences of a file.
    """

    def __init__(self, patterns: Sequence[Pattern]):
        self._columns = sorted({cell.column for pattern in patterns for cell in pattern.cells})
        self._values = {cell.function: _Values(cell.function) for pattern in patterns for cell in pattern.cells}
        self._parts: list[_SingleCellStrings | _ManyCellStrings] = []
        for place, group in groupby(patterns, key=lambda pattern: pattern.place):
            if place is None:
                self._parts += [_ManyCellStrings(pattern, self._values) for pattern in group]
            else:
                self._parts.append(_SingleCellStrings(list(group), self._values))

    def __call__(self, rows: Sequence[Sequence[str]]) -> list[list[str]]:
        """Return the strings of every row of a sequence."""
        return self._expand({column: [row[column] for row in rows] for column in self._columns}, len(rows))

    def expand_columns(self, columns: Sequence[Sequence[str]]) -> list[list[str]]:
        """Return the feature strings of every position of a sequence, whose cells are given by column."""
        return self._expand({column: columns[column] for column in self._columns}, len(columns[0]))

    def _expand(self, columns: dict[int, Sequence[str]], length: int) -> list[list[str]]:
        # Column by column: that way no step of Python is taken per cell.
        padded = {column: [*_BEFORE, *cells, *_AFTER] for column, cells in columns.items()}

        def shifted(row: int, column: int) -> list[str]:
            return padded[column][FARTHEST_ROW + row : FARTHEST_ROW + row + length]

        parts = [part(shifted, length) for part in self._parts]
        if len(parts) == 1:
            return list(map(list, parts[0]))
        if not parts:
            return [[] for _ in range(length)]
        return [list(chain(*position)) for position in zip(*parts, strict=True)]


_Shifted = Callable[[int, int], list[str]]


class _Values(dict[str, str | None]):
    """Cached values of a function, by the text of the cell."""

    def __init__(self, function: str):
        super().__init__()
        self._function = FUNCTIONS[function]
        if function in _TOTAL:
            self.update({end: end for end in _ENDS})
        else:
            self.update(dict.fromkeys(_ENDS))

    def __missing__(self, cell: str) -> str | None:
        value = self[cell] = self._function(cell)
        return value


class _SingleCellStrings(dict[str, tuple[str, ...]]):
    """Cached feature strings of consecutive patterns of the same cell, by its text."""

    def __init__(self, patterns: list[Pattern], values: dict[str, _Values]):
        super().__init__()
        self._place = patterns[0].cells[0][:2]
        self._patterns = [
            (pattern.texts[0], pattern.texts[1], values[pattern.cells[0].function]) for pattern in patterns
        ]

    def __missing__(self, cell: str) -> tuple[str, ...]:
        strings = [
            before + value + after for before, after, values in self._patterns if (value := values[cell]) is not None
        ]
        found = self[cell] = tuple(strings)
        return found

    def __call__(self, shifted: _Shifted, length: int) -> Iterable[tuple[str, ...]]:
        return map(self.__getitem__, shifted(*self._place))


class _ManyCellStrings:
    """The feature strings of a pattern with no cell or several cells."""

    def __init__(self, pattern: Pattern, values: dict[str, _Values]):
        self._cells = [(cell.row, cell.column, values[cell.function]) for cell in pattern.cells]
        self._format = "%s".join(text.replace("%", "%%") for text in pattern.texts)
        self._total = all(cell.function in _TOTAL for cell in pattern.cells)

    def __call__(self, shifted: _Shifted, length: int) -> Iterable[tuple[str, ...]]:
        if not self._cells:
            return [(self._format % (),)] * length
        columns = [list(map(values.__getitem__, shifted(row, column))) for row, column, values in self._cells]
        positions = zip(*columns, strict=True)
        if self._total:
            return [(self._format % values,) for values in positions]
        return [() if None in values else (self._format % values,) for values in positions]
