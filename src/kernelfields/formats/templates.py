"""Feature templates as CRF++ reads them: which cells around a position become feature strings.

    U05:%x[-1,0]/%x[0,0]   with the rows  He PRP | reckons VBZ   gives   "U05:_B-1/He", "U05:He/reckons"

%x[row,column] is a cell: row counts from the current position, -4 to 4, column from the first column, 0. Rows
beyond the ends read _B-1, _B-2, ... before the first and _B+1, _B+2, ... after the last. All else in a line is
taken as it is. Lines that begin with U make features of a position and a label; lines that begin with B, of a pair
of neighbouring labels: "B" alone is the transition matrix, and one with macros lets it depend on the rows. Empty
lines and lines that begin with # are skipped.

Cost: one formatted string per position and line. Fails: SequenceFileError naming line and column of the template.
Where CRF++ is vague this is strict: both numbers of a macro must be there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from kernelfields.formats.text_files import PathName, SequenceFileError, input_name, read_lines

_FARTHEST = 4
_BEFORE = [f"_B-{distance}" for distance in range(_FARTHEST, 0, -1)]
_AFTER = [f"_B+{distance}" for distance in range(1, _FARTHEST + 1)]
_MACRO = re.compile(r"%x\[(-?[0-9]{1,9}),([0-9]{1,9})\]")
_SHOWN = "%x[row,column], such as %x[-1,0]"


@dataclass(frozen=True)
class TemplateLine:
    """One line: its text, its number, and the cells (row, column) that it reads, as often as it does."""

    text: str
    number: int
    cells: tuple[tuple[int, int], ...]
    _format: str = field(repr=False)  # the text with %s for each macro

    def expand(self, shifted: dict[tuple[int, int], list[str]], length: int) -> list[str]:
        """Return the string of every position, given the cells of all positions for each (row, column)."""
        if len(self.cells) == 1:
            head, tail = self._format.split("%s")
            return [head + cell + tail for cell in shifted[self.cells[0]]]
        if not self.cells:
            return [self.text] * length
        return [self._format % cells for cells in zip(*(shifted[cell] for cell in self.cells), strict=True)]


@dataclass(frozen=True)
class Template:
    """A CRF++ template: ``Template.parse(text)`` or ``Template.read(path)``, then ``features(rows)``."""

    text: str
    name: str
    unigrams: tuple[TemplateLine, ...]
    bigrams: tuple[TemplateLine, ...]

    @classmethod
    def parse(cls, text: str, name: str = "template") -> Template:
        """Read a template; messages of errors call it by ``name``."""
        unigrams: list[TemplateLine] = []
        bigrams: list[TemplateLine] = []
        for number, line in enumerate(text.split("\n"), start=1):
            line = line.removesuffix("\r")
            if not line.strip() or line.startswith("#"):
                continue
            if line[0] not in "UB":
                raise SequenceFileError(
                    f"{name}, line {number}, column 1: {line!r:.60} begins with {line[0]!r}, expected U (features "
                    "of a position), B (of two neighbouring labels) or # (a comment)"
                )
            (unigrams if line[0] == "U" else bigrams).append(_parse_line(line, number, name))
        if not unigrams and not bigrams:
            raise SequenceFileError(f"{name} holds no templates: write lines such as U00:%x[0,0]")
        return cls(text, name, tuple(unigrams), tuple(bigrams))

    @classmethod
    def read(cls, path: PathName) -> Template:
        """Read a template file; "-" is standard input."""
        return cls.parse("\n".join(read_lines(path)), input_name(path))

    @property
    def uses_label_bigrams(self) -> bool:
        """Whether there is a plain transition matrix: a B line without macros."""
        return any(not line.cells for line in self.bigrams)

    @property
    def observed_bigrams(self) -> tuple[TemplateLine, ...]:
        """B lines with macros: transitions that depend on the rows. ``features`` leaves them out."""
        return tuple(line for line in self.bigrams if line.cells)

    def check_columns(self, n_columns: int, label_column: int | None = None) -> None:
        """Raise if a macro reads a column that is not there, or the column of the labels (counted from 0)."""
        for line in (*self.unigrams, *self.bigrams):
            for place, (_, column) in zip(_MACRO.finditer(line.text), line.cells, strict=True):
                macro = f"line {line.number}, column {place.start() + 1}: {place.group()} reads column {column}"
                if column >= n_columns:
                    raise SequenceFileError(f"{self.name}, {macro}, but the data have columns 0 to {n_columns - 1}")
                if column == label_column:
                    labels = "which holds the labels: they are not known in prediction"
                    raise SequenceFileError(f"{self.name}, {macro}, {labels}")

    def features(self, rows: Sequence[Sequence[str]]) -> list[list[str]]:
        """Return the strings of the U lines for every row of a sequence."""
        length = len(rows)
        cells = {cell for line in self.unigrams for cell in line.cells}
        columns = {column for _, column in cells}
        try:
            # Column by column: that way no step of Python is taken per cell.
            padded = {column: [*_BEFORE, *[row[column] for row in rows], *_AFTER] for column in columns}
        except IndexError:
            self.check_columns(min(map(len, rows)))
            raise
        shifted = {(row, column): padded[column][_FARTHEST + row : _FARTHEST + row + length] for row, column in cells}
        expanded = [line.expand(shifted, length) for line in self.unigrams]
        return list(map(list, zip(*expanded, strict=True))) if expanded else [[] for _ in rows]


def _parse_line(line: str, number: int, name: str) -> TemplateLine:
    cells, place = [], 0
    while (place := line.find("%", place)) >= 0:
        macro = _MACRO.match(line, place)
        where = f"{name}, line {number}, column {place + 1}"
        if macro is None:
            raise SequenceFileError(f"{where}: {line[place : place + 12]!r} is no macro, expected {_SHOWN}")
        row, column = int(macro[1]), int(macro[2])
        if abs(row) > _FARTHEST:
            raise SequenceFileError(f"{where}: {macro[0]} is {abs(row)} rows away, expected at most {_FARTHEST}")
        cells.append((row, column))
        place = macro.end()
    return TemplateLine(line, number, tuple(cells), _MACRO.sub("%s", line))
