"""Column files in the CoNLL manner: a line per position, cells in columns, an empty line between sequences.

    # id = 1                 a comment: kept, and written again in its place
    He    PRP   B-NP         rows: cells separated by tabs, or by runs of spaces and tabs
    ran   VBD   B-VP

The first row determines the number of columns and, without ``separator``, the separator: tabs if it contains one, else
spaces. Between tabs, a cell may contain spaces or be empty.

A line that begins with "#" may be a comment or a row. It is a comment if it precedes a sequence and either has another
number of cells than the rows or has the form "# name = value". A line that begins with -DOCSTART- marks the begin of a
document: it is no row, ends the sequence before it, and is stored as a comment, with the empty line after it. With
``conllu=True``, lines with ids such as 1-2 or 1.1 are stored as comments everywhere. Numbers of columns
count from 0, as in templates.

Reading is one pass over the rows, with one sequence in memory. Raises SequenceFileError with file, line and column,
counted from 0.
"""

from __future__ import annotations

import io
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from kernelfields.data.text_files import PathName, SequenceFileError, input_name, open_text_output, read_lines
from kernelfields.features.templates import Template, text_template
from kernelfields.formats.sequence_file import Predictions, Reading, SequenceFile
from kernelfields.formats.tokens import LONGEST_WORD, check_word
from kernelfields.numerics.wording import inflect

SEPARATORS = {"tab": "\t", "space": " "}
_NAMED_COMMENT = re.compile(r"# *[\w.:-]+ *= ")
_DOCUMENT_START = "-DOCSTART-"
_NO_WORD = re.compile(r"[0-9]+[-.][0-9]+")
_CONLLU_COLUMNS = 10
_UPOS, _FORM = 3, 1  # of CoNLL-U
#: The option ``template`` that makes features of text.
TEXT_FEATURES = "text"


@dataclass
class ColumnSequence:
    """The rows of one sequence of a column file.

    Parameters
    ----------
    rows : list of list of str
        The cells of each row.
    lines : list of int, optional
        The line number of each row.
    kept : list of pairs, optional
        Comments and other lines: (r, line) for a line that stood after r rows.
    separator : str, default tab
        What stands between cells.

    Examples
    --------
    >>> from kernelfields.formats import ColumnSequence
    >>> ColumnSequence([["Ann", "B-PER"], ["lives", "O"]]).rows[0]
    ['Ann', 'B-PER']
    """

    rows: list[list[str]]
    lines: list[int] = field(default_factory=list)
    kept: list[tuple[int, str]] = field(default_factory=list)
    separator: str = "\t"


class LabelledColumns:
    """Sequences of rows, and the number ``label`` of their column of labels, None without labels.

    A negative ``label`` counts from the last column. Without ``required``, the column of labels and those after it
    may be missing. ``n_columns``, if given, is how many there must be with the labels.
    """

    def __init__(
        self,
        sequences: list[ColumnSequence],
        name: str,
        label: int | None,
        required: bool,
        n_columns: int | None = None,
    ):
        self.sequences = sequences
        self.name = name
        self.width = len(sequences[0].rows[0]) if sequences else 0
        self.n_columns = self.width if n_columns is None else n_columns
        self.label = self._resolve(label, required) if sequences else None

    def _resolve(self, label: int | None, required: bool) -> int | None:
        """Return the number of the column of labels, counted from 0."""
        expected = self.n_columns
        column = label if label is None or label >= 0 else expected + label
        dropped = not required and column is not None and column >= self.width
        if self.width != expected and not dropped:
            missing = f"; the labels, column {column} (from 0), are missing" if column == self.width else ""
            found = inflect(self.width, "column")
            raise SequenceFileError(f"{self.name} has {found}, expected {expected} as in the training file{missing}")
        if dropped or column is None:
            return None
        if not 0 <= column < self.width:
            raise SequenceFileError(
                f"{self.name} has columns 0 to {self.width - 1}, so there is no column {label} for the labels"
            )
        return column

    def labels(self) -> list[list[str]] | None:
        """Return the labels of every sequence, or None without a column of labels."""
        if self.label is None:
            return None
        return [[row[self.label] for row in sequence.rows] for sequence in self.sequences]

    def choose_columns(self, columns: Sequence[int] | None) -> list[int]:
        """Return the numbers of the feature columns: those given, or all except the labels."""
        chosen = [c for c in range(self.width) if c != self.label] if columns is None else list(columns)
        for column in chosen:
            if not 0 <= column < self.width or column == self.label:
                holds = "holds the labels" if column == self.label else f"is not one of 0 to {self.width - 1}"
                raise SequenceFileError(f"{self.name}: column {column} {holds}, so it cannot be a feature")
        if not chosen:
            raise SequenceFileError(
                f"{self.name} has no columns beside the labels; without labels, in Python, use label=None"
            )
        return chosen

    def inputs(self, template: Template | None, columns: Sequence[int] | None) -> list:
        """Return the feature strings of a template, or without a template feature dicts of the columns."""
        if not self.sequences:
            return []
        if template is not None:
            if self.width < self.n_columns and max(template.columns, default=0) >= self.width:
                read = ", ".join(map(str, sorted(template.columns)))
                raise SequenceFileError(
                    f"{self.name} has {inflect(self.width, 'column')}, and the training file had {self.n_columns}: the "
                    f"features of the model are made of columns {read} (from 0)"
                )
            template.check_columns(self.width, self.label)
            return template.list_features(sequence.rows for sequence in self.sequences)
        chosen = self.choose_columns(columns)
        names = [str(column) for column in chosen]
        return [
            [dict(zip(names, [row[column] for column in chosen], strict=True)) for row in sequence.rows]
            for sequence in self.sequences
        ]

    def file(self, template: Template | str | None, features: Sequence[int] | None, reading: Reading) -> ColumnFile:
        """Return the file with its inputs, labels and reading options."""
        if isinstance(template, str):
            if template != TEXT_FEATURES:
                raise ValueError(f"template must be a Template, {TEXT_FEATURES!r} or None, got {template!r}")
            rows = [sequence.rows for sequence in self.sequences]
            template = text_template(rows, self.choose_columns(features)) if rows else None
        if template is not None:
            reading["template"] = template
        if features is not None:
            reading["features"] = list(features)
        X, y = self.inputs(template, features), self.labels()
        return ColumnFile(X=X, y=y, reading=reading, sequences=self.sequences)


@dataclass(eq=False, kw_only=True)
class ColumnFile(SequenceFile):
    r"""A column file: its sequences and their rows.

    Parameters
    ----------
    X : list
        The inputs of each sequence.
    y : list or None
        The labels; None if the file has none.
    weights : array (S,), optional
        The weights; None if the file has none.
    reading : dict, optional
        The options that read another file the same way.
    sequences : list of ColumnSequence
        The rows.

    See Also
    --------
    read_sequences : Reads one.

    Examples
    --------
    >>> from pathlib import Path
    >>> from kernelfields.formats import read_sequences
    >>> n = Path("train.tsv").write_text("Ann\tNNP\tB-PER\nlives\tVBZ\tO\n")
    >>> read_sequences("train.tsv").words
    [['Ann', 'lives']]
    """

    sequences: list[ColumnSequence]

    @property
    def word_column(self) -> int:
        """The number of the column of words: 0, or in CoNLL-U that of the form."""
        return _FORM if self.format == "conllu" else 0

    @property
    def words(self) -> list[list[str] | None]:
        """The words of every sequence."""
        return [[row[self.word_column] for row in sequence.rows] for sequence in self.sequences]

    @property
    def part(self) -> str:
        """The noun for positions in reports: "word", or "position" if all words are single characters."""
        return "word" if any(len(word) > 1 for words in self.words for word in words or ()) else super().part

    def place(self, sequence: int, position: int) -> str:
        """Return the line and column of the label of a position, for messages.

        Parameters
        ----------
        sequence : int
            The number of the sequence.
        position : int
            The number of the position in it.

        Returns
        -------
        str
            The place, in words.
        """
        return f"line {self.sequences[sequence].lines[position]}, column {self.reading['label']} (from 0)"

    def read_inputs(self, sequences: list[ColumnSequence]) -> list:
        """Convert other sequences of rows to inputs by the options of this file.

        Parameters
        ----------
        sequences : list of ColumnSequence
            Rows with the columns of the file.

        Returns
        -------
        list
            Feature strings or feature dicts of each sequence.
        """
        columns = LabelledColumns(sequences, "the rows", self.reading["label"], required=False)
        return columns.inputs(self.reading.get("template"), self.reading.get("features"))

    def write_predictions(self, path: PathName, predictions: Predictions) -> None:
        """Write the rows with additional cells: the label, then 0.970000, or B-NP/0.970000 I-NP/0.010000.

        Parameters
        ----------
        path : str or path
            The file; "-" is standard output.
        predictions : Predictions
            Labels and probabilities of every sequence.
        """
        write_columns(path, self.sequences, predictions.cells())


def read_column_file(
    path: PathName,
    *,
    separator: str = "auto",
    label: int | None = -1,
    features: Sequence[int] | None = None,
    template: Template | str | None = None,
    n_columns: int | None = None,
    labels_required: bool = True,
) -> ColumnFile:
    """Read a column file; formats/sequence_files.py explains the options."""
    sequences = list(read_columns(path, separator=separator))
    columns = LabelledColumns(sequences, input_name(path), label, labels_required, n_columns)
    reading: Reading = {"format": "columns", "separator": separator}
    reading |= {"label": label if columns.label is None else columns.label, "n_columns": columns.n_columns}
    return columns.file(template, features, reading)


def read_conllu(
    path: PathName,
    *,
    label: int | None = _UPOS,
    features: Sequence[int] | None = None,
    template: Template | str | None = None,
    labels_required: bool = True,
) -> ColumnFile:
    """Read a file in CoNLL-U; the form is the default feature."""
    sequences = list(read_columns(path, conllu=True))
    columns = LabelledColumns(sequences, input_name(path), label, labels_required)
    return columns.file(template, features or [_FORM], {"format": "conllu", "label": label})


def read_columns(path: PathName, *, separator: str = "auto", conllu: bool = False) -> Iterator[ColumnSequence]:
    """Yield the sequences of a column file.

    Parameters
    ----------
    path : str or path
        The file; "-" is standard input, gzip is unpacked.
    separator : {"auto", "tab", "space"}, default "auto"
        What stands between cells.
    conllu : bool, default False
        Whether the file is in CoNLL-U.

    Yields
    ------
    ColumnSequence
        The rows of a sequence.

    See Also
    --------
    read_sequences : Reads inputs and labels for a field.

    Examples
    --------
    >>> from kernelfields.formats import ColumnSequence, read_columns, write_columns
    >>> write_columns("out.tsv", [ColumnSequence([["Ann", "B-PER"], ["lives", "O"]])])
    >>> [sequence.rows for sequence in read_columns("out.tsv")]
    [[['Ann', 'B-PER'], ['lives', 'O']]]
    """
    if separator not in ("auto", *SEPARATORS):
        raise ValueError(f"separator must be 'auto', 'tab' or 'space', got {separator!r}")
    numbered = enumerate(read_lines(path), start=1)
    unread = _ColumnFormat(input_name(path), SEPARATORS.get(separator, ""), conllu)
    head, layout = _find_format(numbered, unread)
    if not layout.n_columns:
        return
    character = layout.joined_by
    current = ColumnSequence([], separator=character)
    done: ColumnSequence | None = None  # held back: what is left at the end of the file belongs to it
    for number, line, cells in layout.split_lines(chain(head, numbered)):
        if cells is not None:
            if done is not None:
                yield done
                done = None
            current.rows.append(cells)
            current.lines.append(number)
        elif not _is_sequence_end(line):
            current.kept.append((len(current.rows), line))
        else:
            begins = line.startswith(_DOCUMENT_START)
            if current.rows:
                done, current = current, ColumnSequence([], separator=character)
            elif not begins and current.kept and current.kept[-1][1].startswith(_DOCUMENT_START):
                # Readers that take -DOCSTART- for a word find it in a sequence of its own.
                current.kept.append((0, ""))
            if begins:
                current.kept.append((0, line))
    if current.rows:
        yield current
    elif done is not None:
        done.kept += [(len(done.rows) + 1, line) for _, line in current.kept]
        yield done


def write_columns(
    path: PathName, sequences: Iterable[ColumnSequence], appended: Iterable[Sequence[Sequence[str]]] | None = None
) -> None:
    r"""Write sequences with their comments, each followed by an empty line.

    Parameters
    ----------
    path : str or path
        The file; "-" is standard output.
    sequences : iterable of ColumnSequence
        The rows.
    appended : iterable, optional
        For every sequence, and in it for every row, the cells to put after the row's own.

    Examples
    --------
    >>> from pathlib import Path
    >>> from kernelfields.formats import ColumnSequence, write_columns
    >>> write_columns("tagged.tsv", [ColumnSequence([["Ann"], ["lives"]])], appended=[[["B-PER"], ["O"]]])
    >>> Path("tagged.tsv").read_text()
    'Ann\tB-PER\nlives\tO\n\n'
    """
    with open_text_output(path) as file:
        if appended is None:
            for sequence in sequences:
                _write_sequence(file.write, sequence, [()] * len(sequence.rows))
        else:
            for sequence, cells in zip(sequences, appended, strict=True):
                _write_sequence(file.write, sequence, cells)


def format_columns(sequences: Iterable[ColumnSequence]) -> str:
    """Return the content of the file that :func:`write_columns` would write."""
    text = io.StringIO()
    for sequence in sequences:
        _write_sequence(text.write, sequence, [()] * len(sequence.rows))
    return text.getvalue()


@dataclass(frozen=True)
class _ColumnFormat:
    """The layout of rows: the separator and the number of cells, with the origin of that number for messages.

    Cells are written with tabs, unless the first row has spaces alone between its cells: tabs stay tabs.
    """

    name: str
    separator: str
    conllu: bool
    n_columns: int = 0
    authority: str = ""
    joined_by: str = ""

    def with_first_row(self, number: int, line: str) -> _ColumnFormat:
        """Return the layout of a first row."""
        if self.conllu:
            return replace(self, separator="\t", n_columns=_CONLLU_COLUMNS, authority="CoNLL-U", joined_by="\t")
        separator = self.separator or ("\t" if "\t" in line else " ")
        n_columns = len(_split_cells(line, separator))
        joined_by = "\t" if "\t" in line or separator == "\t" or n_columns == 1 else " "
        authority = f"line {number}"
        return replace(self, separator=separator, n_columns=n_columns, authority=authority, joined_by=joined_by)

    def split_lines(self, numbered: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str, list[str] | None]]:
        """Yield the number, the text and the cells of each line, None instead of cells if it is no row."""
        inside, separator, n_columns = False, self.separator, self.n_columns
        for number, line in numbered:
            if _is_sequence_end(line):
                inside = False
                yield number, line, None
                continue
            cells = line.split("\t") if separator == "\t" else _split_cells(line, separator)
            # Most lines are plain rows, about which there is nothing more to find out.
            if len(cells) != n_columns or line[0] == "#" or self.conllu:
                if self._is_comment(line, cells, inside):
                    yield number, line, None
                    continue
                if len(cells) != n_columns:
                    raise SequenceFileError(self._describe_wrong_row(number, line, cells))
            inside = True
            if len(line) > LONGEST_WORD:
                check_word(max(map(len, cells)), f"{self.name}, line {number}", "cell")
            yield number, line, cells

    def _is_comment(self, line: str, cells: list[str], inside: bool) -> bool:
        """Whether a line is a comment before a sequence, or a line of CoNLL-U without a word."""
        if self.conllu and _NO_WORD.fullmatch(cells[0]):
            return True
        if inside or line[0] != "#":
            return False
        return len(cells) != self.n_columns or _NAMED_COMMENT.match(line) is not None

    def _describe_wrong_row(self, number: int, line: str, cells: list[str]) -> str:
        """Return the message for a row with a wrong number of cells."""
        found, expected = len(cells), self.n_columns
        if line.startswith("#"):
            advice = "Comments may stand before a sequence, not inside."
        elif self.separator == " ":
            advice = "Cells are separated by spaces here; for cells that hold spaces, write tabs between them."
        elif found == 1:
            advice = "Cells are separated by tabs here, and this line has none; for both, set the separator to space."
        else:
            advice = "Cells are separated by tabs here; an empty cell counts."
        column = min(found, expected)
        problem = "there is none" if found < expected else f"{cells[column]!r:.40} is one too many"
        columns = f"{inflect(found, 'column')}, expected {expected} as in {self.authority}"
        return f"{self.name}, line {number}, column {column} (from 0): {problem}; found {columns}. {advice}"


def _find_format(
    numbered: Iterator[tuple[int, str]], layout: _ColumnFormat
) -> tuple[list[tuple[int, str]], _ColumnFormat]:
    """Read up to the first certain row; return the lines read and the layout of that row."""
    head: list[tuple[int, str]] = []
    for number, line in numbered:
        head.append((number, line))
        if line.strip(" \t") and not line.startswith(("#", _DOCUMENT_START)):
            return head, layout.with_first_row(number, line)
    # Nothing but doubtful lines: those that look like rows are rows.
    first = next(((number, line) for number, line in head if line.startswith("#\t")), None)
    return head, layout if first is None else layout.with_first_row(*first)


def _is_sequence_end(line: str) -> bool:
    """Whether a line ends a sequence: an empty line, or the beginning of a document."""
    return not line.strip(" \t") or line.startswith(_DOCUMENT_START)


def _split_cells(line: str, separator: str) -> list[str]:
    """Split a line into cells."""
    if separator == "\t":
        return line.split("\t")
    # Not str.split(): other spaces of Unicode, such as the ideographic one, can be words.
    return [cell for cell in line.replace("\t", " ").split(" ") if cell]


def _write_sequence(write: Callable[[str], object], sequence: ColumnSequence, added: Sequence[Sequence[str]]) -> None:
    """Write the rows and comments of a sequence, with additional cells."""
    if len(added) != len(sequence.rows):
        raise ValueError(f"{len(added)} rows to append to a sequence of {len(sequence.rows)} rows")
    kept = deque(sequence.kept)

    def write_kept(place: int) -> None:
        while kept and kept[0][0] <= place:
            write(kept.popleft()[1] + "\n")

    for index, (row, more) in enumerate(zip(sequence.rows, added, strict=True)):
        write_kept(index)
        write(sequence.separator.join(_check_cells([*row, *more], sequence.separator)) + "\n")
    write_kept(len(sequence.rows))
    write("\n")
    write_kept(len(sequence.rows) + 1)


def _check_cells(cells: list[str], separator: str) -> list[str]:
    """Return cells; ValueError if a cell contains the separator or a line break."""
    last = cells[-1]
    for cell in cells:
        broken = "\n" in cell or (cell is last and cell.endswith("\r"))
        if broken or separator in cell or (separator == " " and ("\t" in cell or not cell)):
            names = {"\t": "tabs or ends of lines", " ": "spaces, tabs or ends of lines, nor be empty"}[separator]
            raise ValueError(f"the cell {cell!r:.60} cannot be written: cells may not hold {names}")
    return cells
