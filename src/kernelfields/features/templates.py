"""Feature templates of CRF++, with functions of words: lists of the cells around a position that become features.

    U05:%x[-1,0]/%x[0,0]   with the rows  He PRP | reckons VBZ   gives   "U05:_B-1/He", "U05:He/reckons"
    U06:%suffix2[0,0]      with the same rows                    gives   "U06:he", "U06:ns"

%x[row,column] is a cell: row counts from the current position, -15 to 15, column from the first column, 0. Rows
beyond the ends read _B-1, _B-2, ... before the first and _B+1, _B+2, ... after the last. Other names than x are
functions of the cell, which features/patterns.py defines: lower, prefix1 to prefix9, suffix1 to suffix9, shape,
shortshape, capital, capitals, digits, hyphen, punctuation. If one has no value, as suffix3 of a word of two
letters, the line makes no feature. The rest of a line is literal text. Lines that begin with U make features of a
position and a label; lines that begin with B, of a pair of neighbouring labels: "B" alone is the transition matrix,
and one with macros lets it depend on the rows. Lines that begin with a colon are as those with U, but the rest of
the line is the name of the feature, as in TextFeatures. Empty lines and lines that begin with # are skipped.

Cost: that of the patterns, at most one formatted string per position and line. Raises SequenceFileError with line and
column of the template. Unlike in CRF++, both numbers of a macro are required. CRF++ supports only x, rows -4 to 4, and
no lines that begin with a colon.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from kernelfields.data.text_files import PathName, SequenceFileError, input_name, read_lines
from kernelfields.features.patterns import FARTHEST_ROW, FUNCTIONS, LONGEST_AFFIX, Cell, Expansion, Pattern
from kernelfields.features.text import TRANSFORMERS, TextFeatures, WordTransformer, symbol_patterns, text_patterns
from kernelfields.models.model_text import COMMAND_NOTES

_MACRO = re.compile(r"%([a-z]+[0-9]{0,9})\[(-?[0-9]{1,9}),([0-9]{1,9})\]")
_SHOWN = "%x[row,column], such as %x[-1,0]"
_AFFIXES = ("prefix", "suffix")
# Symbols that a column may have to be seen widely: letters of all alphabets are words of a text by characters.
_LARGEST_ALPHABET, _SYMBOL_WINDOW = 64, 7
#: The functions as messages list them.
_NAMES = ", ".join(
    [name for name in FUNCTIONS if not name.startswith(_AFFIXES)] + [f"{name}1 to {LONGEST_AFFIX}" for name in _AFFIXES]
)


@dataclass(frozen=True)
class TemplateLine:
    """A line of a template: its text, its number, and its pattern."""

    text: str
    number: int
    pattern: Pattern

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The cells of the line in order, with repetitions."""
        return self.pattern.cells


@dataclass(frozen=True)
class Template:
    r"""A template of CRF++, which defines the features of a position.

    Make one by ``Template.parse(text)`` or ``Template.read(path)``.

    Parameters
    ----------
    text : str
        The template.
    name : str
        What messages call it.
    unigrams : tuple
        The U lines.
    bigrams : tuple
        The B lines.
    sees : str
        What a template of words without one reads, in words.

    Examples
    --------
    >>> from kernelfields.formats import Template
    >>> template = Template.parse("U0:%x[0,0]\nU1:%x[-1,0]")
    >>> template.features([["Ann"], ["lives"]])
    [['U0:Ann', 'U1:_B-1'], ['U0:lives', 'U1:Ann']]
    """

    text: str
    name: str
    unigrams: tuple[TemplateLine, ...]
    bigrams: tuple[TemplateLine, ...]
    sees: str = ""

    @classmethod
    def parse(cls, text: str, name: str = "template") -> Template:
        """Parse the text of a template.

        Parameters
        ----------
        text : str
            The lines of the template.
        name : str, default "template"
            What messages of errors call it.

        Returns
        -------
        Template
            The template.
        """
        unigrams: list[TemplateLine] = []
        bigrams: list[TemplateLine] = []
        for number, line in enumerate(text.split("\n"), start=1):
            line = line.removesuffix("\r")
            if not line.strip() or line.startswith("#"):
                continue
            if line[0] not in "UB:":
                raise SequenceFileError(
                    f"{name}, line {number}, column 1: {line!r:.60} begins with {line[0]!r}, expected U (features "
                    "of a position), B (of two neighbouring labels) or # (a comment)"
                )
            (bigrams if line[0] == "B" else unigrams).append(_parse_line(line, number, name))
        if not unigrams and not bigrams:
            raise SequenceFileError(f"{name} holds no templates: write lines such as U00:%x[0,0]")
        return cls(text, name, tuple(unigrams), tuple(bigrams))

    @classmethod
    def read(cls, path: PathName) -> Template:
        """Read a template file.

        Parameters
        ----------
        path : str or path
            The file; "-" is standard input.

        Returns
        -------
        Template
            The template.
        """
        return cls.parse("\n".join(read_lines(path)), input_name(path))

    @property
    def uses_label_bigrams(self) -> bool:
        """Whether a B line without macros defines a transition matrix."""
        return any(not line.cells for line in self.bigrams)

    @property
    def observed_bigrams(self) -> tuple[TemplateLine, ...]:
        """The B lines with macros, for transitions that depend on the inputs; ``features`` ignores them."""
        return tuple(line for line in self.bigrams if line.cells)

    @property
    def columns(self) -> set[int]:
        """The numbers of the columns in macros."""
        return {cell.column for line in (*self.unigrams, *self.bigrams) for cell in line.cells}

    def check_columns(self, n_columns: int, label_column: int | None = None) -> None:
        """Raise ValueError if a macro refers to a missing column, or to the column of labels.

        Parameters
        ----------
        n_columns : int
            The number of columns.
        label_column : int, optional
            The column of labels, counted from 0.
        """
        for line in (*self.unigrams, *self.bigrams):
            for place, cell in zip(_MACRO.finditer(line.text), line.cells, strict=True):
                column = cell.column
                macro = f"line {line.number}, column {place.start() + 1}: {place.group()} reads column {column}"
                if column >= n_columns:
                    raise SequenceFileError(f"{self.name}, {macro}, but the data have columns 0 to {n_columns - 1}")
                if column == label_column:
                    labels = "which holds the labels: they are not known in prediction"
                    raise SequenceFileError(f"{self.name}, {macro}, {labels}")

    def features(self, rows: Sequence[Sequence[str]]) -> list[list[str]]:
        """Return the feature strings of the U lines for every row of a sequence.

        Parameters
        ----------
        rows : list of list of str
            The cells of each row.

        Returns
        -------
        list of list of str
            The strings of each row.
        """
        return self.list_features([rows])[0]

    def list_features(self, sequences: Iterable[Sequence[Sequence[str]]]) -> list[list[list[str]]]:
        """Return the feature strings of the U lines for every row of every sequence.

        Parameters
        ----------
        sequences : iterable of lists of rows
            The cells.

        Returns
        -------
        list of lists of list of str
            The strings.
        """
        expand = Expansion([line.pattern for line in self.unigrams])
        made = []
        for rows in sequences:
            try:
                made.append(expand(rows))
            except IndexError:
                self.check_columns(min(map(len, rows)))
                raise
        return made


@TRANSFORMERS.register("template")
class TemplateFeatures(WordTransformer):
    """Convert words, or rows of columns, to the feature strings of a template.

    ``text``: the template. ``label``: the number of the column of labels, which templates count as well.
    """

    def __init__(self, text: str, label: int | None = None):
        self.text = text
        self.label = label

    def transform(self, X: object) -> list[list[list[str]]]:
        """Return the feature strings of every position of every sequence."""
        template = Template.parse(self.text, "the model's template")
        used = {cell.column for line in template.unigrams for cell in line.cells}
        read = TextFeatures().split_columns(X)
        return template.list_features([self._rows(columns, used) for columns in read])

    @property
    def reach(self) -> int:
        """The number of neighbours on either side that the features of a position depend on."""
        lines = Template.parse(self.text, "the model's template").unigrams
        return max((abs(cell.row) for line in lines for cell in line.cells), default=0)

    def _rows(self, columns: list[list[str]], used: set[int]) -> list[tuple[str, ...]]:
        """Return rows with the numbered columns of the template; words alone are a single column."""
        empty = [[""] * len(columns[0])]
        if len(columns) == len(used) == 1:
            columns = empty * max(used) + columns
        elif self.label is not None and self.label < len(columns):
            columns = columns[: self.label] + empty + columns[self.label :]
        return list(zip(*columns, strict=True))

    def describe(self) -> dict[str, object]:
        """Return the parameters as plain values."""
        return self.get_params()

    @classmethod
    def rebuild(cls, described: Mapping[str, Any]) -> Self:
        """Rebuild the transformer from its description."""
        rebuilt = cls(str(described["text"]), described["label"])
        rebuilt.transform([])
        return rebuilt


def get_model_template(document: Mapping[str, Any]) -> TemplateFeatures | None:
    """Return the transformer of words inside a model that the command trained, or None."""
    reading = document.get(COMMAND_NOTES, {}).get("reading", {})
    if "template" not in reading:
        return None
    return TemplateFeatures.rebuild({"text": reading["template"], "label": reading.get("label")})


def text_template(sequences: Sequence[Sequence[Sequence[str]]], columns: Sequence[int]) -> Template:
    """Return the default template of rows of words and tags, with the features of TextFeatures.

    The first of the ``columns`` holds the words, the others tags. Single characters of a small alphabet, as residues
    of proteins are, are seen as symbols: farther away, and as they are.
    """
    first, *tags = columns
    if are_symbols({row[first] for rows in sequences for row in rows}):
        reach = _SYMBOL_WINDOW
        patterns, sees = symbol_patterns(first, tags, window=reach), f"symbols in column {first} at -{reach} to {reach}"
    else:
        patterns, sees = text_patterns(first, tags), f"text features of words in column {first}"
    if tags:
        sees += f" and tags in column{'s' if len(tags) > 1 else ''} {', '.join(map(str, tags))}"
    return replace(template_of_patterns(patterns), sees=sees)


def are_symbols(words: set[str]) -> bool:
    """Whether words are single characters of a small alphabet."""
    return len(words) <= _LARGEST_ALPHABET and max(map(len, words)) == 1


def template_of_patterns(patterns: Iterable[Pattern]) -> Template:
    """Make a template of named patterns and of transitions."""
    return Template.parse("\n".join([*(f":{pattern}" for pattern in patterns), "B", ""]), "the default template")


def _parse_line(line: str, number: int, name: str) -> TemplateLine:
    texts, cells, end = [], [], 0
    while (place := line.find("%", end)) >= 0:
        macro = _MACRO.match(line, place)
        where = f"{name}, line {number}, column {place + 1}"
        if macro is None:
            raise SequenceFileError(f"{where}: {line[place : place + 12]!r} is no macro, expected {_SHOWN}")
        function, row, column = macro[1], int(macro[2]), int(macro[3])
        if function not in FUNCTIONS:
            raise SequenceFileError(f"{where}: {_unknown_function(macro[0], function)}")
        if abs(row) > FARTHEST_ROW:
            raise SequenceFileError(f"{where}: {macro[0]} is {abs(row)} rows away, expected at most {FARTHEST_ROW}")
        texts.append(line[end:place])
        cells.append(Cell(row, column, function))
        end = macro.end()
    first, *rest = (*texts, line[end:])
    return TemplateLine(line, number, Pattern((first.removeprefix(":"), *rest), tuple(cells)))


def _unknown_function(macro: str, function: str) -> str:
    kind = function.rstrip("0123456789")
    if kind in _AFFIXES:
        return f"{macro} must say how many characters, 1 to {LONGEST_AFFIX}, such as %{kind}3[0,0]"
    meant = [kind] if kind in FUNCTIONS else difflib.get_close_matches(function, FUNCTIONS, n=1)
    advice = f"; did you mean %{meant[0]}?" if meant else ""
    return f"{macro} names no function of cells, expected one of {_NAMES}{advice}"
