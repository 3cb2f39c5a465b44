r"""CRFsuite's text format: a line per position, its label and its attributes, an empty line between sequences.

    B-NP <TAB> w[0]=An <TAB> len:2.5 <TAB> time=12\:30

A colon separates an attribute from its weight, which is 1 by default; in names "\:" is a colon and "\\" a
backslash. A line "@weight:2" before the first position gives its sequence a weight. There are no comments.

Read: positions are lists of names, or feature dicts {name: weight} throughout if any weight in the file is not 1.
Memory: the result and one line. Raises SequenceFileError with file, line and column, also for invalid weights that
CRFsuite reads as zero.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp

from kernelfields.data.chunks import iterate_features, read_weighted
from kernelfields.data.text_files import PathName, SequenceFileError, input_name, open_text_output, read_lines
from kernelfields.formats.label_marks import label_texts
from kernelfields.formats.sequence_file import Predictions, SequenceFile
from kernelfields.numerics.sparse_rows import is_sparse

_ESCAPED = re.compile(r"([:\\])")
_DECLARATION = "@"
_WEIGHT = "@weight"
#: An attribute with its weight, or its name alone if that is 1.
Attribute: TypeAlias = str | tuple[str, float]
#: A position as it is read: names of features, or a feature dict.
Position: TypeAlias = list[str] | dict[str, float]


@dataclass(eq=False, kw_only=True)
class CRFsuiteData(SequenceFile):
    """The sequences of a file in CRFsuite's text format; ``first_lines`` (S,) has their line numbers."""

    first_lines: list[int]

    def place(self, sequence: int, position: int) -> str:
        """Return the line and column of the label of a position, for messages."""
        return f"line {self.first_lines[sequence] + position}, column 0"

    def write_predictions(self, path: PathName, predictions: Predictions) -> None:
        """Write true label, predicted label and probabilities of each position, as CRFsuite's tagger does."""
        with open_text_output(path) as file:
            for sequence in predictions.cells(label_texts(self.y or [], self.unknown_marks[0])):
                file.writelines("\t".join(cells) + "\n" for cells in sequence)
                file.write("\n")


def read_crfsuite(path: PathName, *, labels_required: bool = True) -> CRFsuiteData:
    """Read a file in CRFsuite's text format, in which every position has a label.

    Parameters
    ----------
    path : str or path
        The file; "-" is standard input, gzip is unpacked.
    labels_required : bool, default True
        Whether an empty label is an error.

    Returns
    -------
    SequenceFile
        Feature dicts X, labels y and weights.

    Examples
    --------
    >>> from kernelfields.formats import read_crfsuite, write_crfsuite
    >>> write_crfsuite("train.crfsuite", [[{"word=Ann": 1.0, "upper": 1.0}]], [["B-PER"]])
    >>> read_crfsuite("train.crfsuite").y
    [['B-PER']]
    """
    X: list[list[Position]] = []
    y: list[list[str]] = []
    weights: list[float] = []
    first_lines: list[int] = []
    for positions, labels, weight, first_line in _read_sequences(path):
        X.append(positions)
        y.append(labels)
        weights.append(weight)
        first_lines.append(first_line)
    if any(type(position) is dict for positions in X for position in positions):
        X = [[p if isinstance(p, dict) else _sum_by_name(p) for p in positions] for positions in X]
    given = np.array(weights) if any(weight != 1.0 for weight in weights) else None
    return CRFsuiteData(X=X, y=y, weights=given, reading={"format": "crfsuite"}, first_lines=first_lines)


def write_crfsuite(
    path: PathName, X: Sequence, y: Sequence, weights: Sequence[float] | np.ndarray | None = None
) -> None:
    r"""Write sequences in CRFsuite's text format.

    Parameters
    ----------
    path : str or path
        The file; "-" is standard output.
    X : list of sequences
        Feature dicts or lists of feature strings for each position; for arrays, dense or sparse, the names of features
        are the numbers of columns, and zeros are left out.
    y : list of list of str
        The labels.
    weights : array (S,), optional
        A weight for each sequence.

    Examples
    --------
    >>> from pathlib import Path
    >>> from kernelfields.formats import write_crfsuite
    >>> write_crfsuite("train.crfsuite", [[["word=Ann", "upper"], ["word=lives"]]], [["B-PER", "O"]])
    >>> print(Path("train.crfsuite").read_text().replace("\t", " ").strip())
    B-PER word=Ann upper
    O word=lives
    """
    every = [1.0] * len(X) if weights is None else [float(weight) for weight in weights]
    if not len(X) == len(y) == len(every):
        raise ValueError(f"{len(X)} sequences, labels of {len(y)} and {len(every)} weights: they have to match")
    written = _Escaped()
    with open_text_output(path) as file:
        for index, (positions, labels, weight) in enumerate(zip(X, y, every, strict=True)):
            if weight != 1.0:
                file.write(f"{_WEIGHT}:{weight!r}\n")
            try:
                rows = positions.shape[0] if is_sparse(positions) else len(positions)
                if rows != len(labels):
                    raise ValueError(f"{rows} positions but {len(labels)} labels")
                for position, label in zip(_rows_to_dicts(positions), labels, strict=True):
                    cells = [_write_label(label, written), *_write_position(position, written)]
                    file.write("\t".join(cells) + "\n")
            except (TypeError, ValueError) as error:
                kind = TypeError if isinstance(error, TypeError) else ValueError
                raise kind(f"sequence {index}: {error}") from error
            file.write("\n")


def _read_sequences(path: PathName) -> Iterator[tuple[list[Position], list[str], float, int]]:
    """Yield positions, labels, weight and first line of each sequence."""
    name, attributes = input_name(path), _Attributes()
    positions: list[Position] = []
    labels: list[str] = []
    weight: float | None = None
    for number, line in enumerate(chain(read_lines(path), [""]), start=1):  # an empty line ends the last one, too
        if not line:
            if positions:
                yield positions, labels, 1.0 if weight is None else weight, number - len(labels)
                positions, labels, weight = [], [], None
            continue
        # CRFsuite takes runs of tabs as one, and a backslash or a colon is rare: most lines need nothing more.
        cells = [cell for cell in line.split("\t") if cell]
        try:
            if not cells:
                raise ValueError("a line of tabs; the label is missing")
            if cells[0].startswith(_DECLARATION):
                if positions or weight is not None or len(cells) > 1:
                    raise ValueError(f"{cells[0]!r:.60} belongs on a line of its own, once, before a sequence")
                weight = _parse_weight(cells[0])
                continue
            plain = ":" not in line and "\\" not in line
            label = cells[0] if plain else attributes.label(cells[0])
            position = cells[1:] if plain else attributes.position(cells[1:])
        except ValueError as error:
            raise SequenceFileError(f"{name}, line {number}{attributes.place(cells)}: {error}") from error
        positions.append(position)
        labels.append(label)
    if weight is not None:
        raise SequenceFileError(f"{name}, last line: {_WEIGHT} without a sequence after it")


def _parse_weight(text: str) -> float:
    """Parse the weight of a sequence in a line ``@weight:number``."""
    name, _, value = text.partition(":")
    try:
        weight = float(value)
    except ValueError:
        weight = -1.0
    if name != _WEIGHT or not 0 <= weight < np.inf:
        raise ValueError(f"{text!r:.60} is unknown; lines that begin with @ read @weight:number, not negative")
    return weight


class _Attributes(dict[str, Attribute]):
    """A cache of attributes by cell text: a name or, if the weight is not 1, (name, weight).

    The same ones come again and again, so each is read once.
    """

    def __missing__(self, text: str) -> Attribute:
        ((name, weight),) = read_weighted([text]).items()
        self[text] = meaning = name if weight == 1.0 else (name, weight)
        return meaning

    def label(self, text: str) -> str:
        """Parse the label in a cell."""
        label = self[text]
        if not label or not isinstance(label, str):
            raise ValueError(rf"{text!r:.60} is no label; a colon in a label is written \:")
        return label

    def position(self, texts: list[str]) -> Position:
        """Parse cells as a list of names, or as a feature dict if a weight is not 1."""
        position = list(map(self.__getitem__, texts))
        if tuple in set(map(type, position)):
            return _sum_by_name(position)
        return position  # type: ignore[return-value]  # of strings alone

    def place(self, cells: list[str]) -> str:
        """Return the column of the first invalid cell of a line, for messages; empty if all are valid."""
        for column, text in enumerate(cells):
            try:
                self.label(text) if column == 0 else self[text]
            except ValueError:
                return f", column {column} (from 0)"
        return ""


class _Escaped(dict[str, str]):
    """A cache of names with escaped colons and backslashes."""

    def __missing__(self, name: str) -> str:
        if not name or "\t" in name or "\n" in name or "\r" in name:
            raise ValueError(f"the name {name!r:.60} cannot be written: it is empty, or holds a tab or line end")
        self[name] = written = _ESCAPED.sub(r"\\\1", name)
        return written


def _sum_by_name(attributes: Iterable[Attribute]) -> dict[str, float]:
    """Sum the weights of each attribute name into a feature dict."""
    features: dict[str, float] = {}
    for attribute in attributes:
        name, weight = (attribute, 1.0) if isinstance(attribute, str) else attribute
        features[name] = features.get(name, 0.0) + weight
    return features


def _rows_to_dicts(sequence: object) -> Iterable[object]:
    """Yield rows of arrays as feature dicts with column numbers as keys; yield other positions unchanged."""
    if sp.issparse(sequence):
        table = sp.csr_array(sequence)
        for start, stop in zip(table.indptr[:-1], table.indptr[1:], strict=True):
            columns, values = table.indices[start:stop].tolist(), table.data[start:stop].tolist()
            yield {str(column): value for column, value in zip(columns, values, strict=True) if value}
    elif isinstance(sequence, np.ndarray) and sequence.dtype.kind in "biuf":
        if sequence.ndim != 2:
            raise ValueError(f"an array of shape {sequence.shape}, expected (rows, features)")
        for row in sequence:
            yield {str(column): row[column].item() for column in np.flatnonzero(row)}
    else:
        yield from sequence  # type: ignore[misc]  # what is no sequence is refused here


def _write_position(position: object, written: _Escaped) -> list[str]:
    """Format the attributes of a position as cells."""
    if isinstance(position, list) and set(map(type, position)) <= {str}:
        return [written[name] for name in position]
    return [
        written[name] if weight == 1.0 else f"{written[name]}:{weight!r}" for name, weight in iterate_features(position)
    ]


def _write_label(label: object, written: _Escaped) -> str:
    """Format a label as a cell."""
    text = str(label)
    if text.startswith(_DECLARATION):
        raise ValueError(f"the label {text!r:.60} cannot be written: CRFsuite reads @ as a declaration")
    return written[text]
