"""A file of sequences in memory: the result of every reader, to which predictions can be added.

    X, y, weights     arrays or feature dicts, labels and weights for estimators
    reading           options for reading other files in the same way

The subclass of each format describes positions in messages, and writes the file with predictions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from kernelfields.data.text_files import PathName
from kernelfields.formats.label_marks import unknown_marks
from kernelfields.numerics.sparse_rows import is_sparse

#: Options of ``read_sequences`` by name, which it checks itself.
Reading: TypeAlias = dict[str, Any]


@dataclass(eq=False, kw_only=True)
class SequenceFile:
    r"""A file of sequences as inputs and labels, with the options of its reading.

    Parameters
    ----------
    X : list
        The inputs of each sequence.
    y : list or None
        The labels; None if the file has none.
    weights : array (S,), optional
        The weights; None if the file has none.
    reading : dict, optional
        The options that read another file the same way: ``read_sequences(other, **file.reading)``.

    See Also
    --------
    read_sequences : Reads one.

    Examples
    --------
    >>> from pathlib import Path
    >>> from kernelfields.formats import read_sequences
    >>> n = Path("train.tsv").write_text("Ann\tNNP\tB-PER\nlives\tVBZ\tO\n")
    >>> file = read_sequences("train.tsv")
    >>> file.y, file.lengths
    ([['B-PER', 'O']], [2])
    """

    X: list
    y: list | None
    weights: np.ndarray | None = None
    reading: Reading = field(default_factory=dict)

    @property
    def format(self) -> str:
        """The format of the file."""
        return self.reading["format"]

    @property
    def lengths(self) -> list[int]:
        """The number of positions of each sequence."""
        return [x.shape[0] if is_sparse(x) else len(x) for x in self.X]

    @property
    def unknown_marks(self) -> list[str]:
        """The marks of unknown labels in the file, the preferred one first."""
        return unknown_marks(self.format, self.reading.get("unknown_label"))

    @property
    def words(self) -> list[list[str] | None]:
        """The words of each sequence in column files, else None."""
        return [None] * len(self.X)

    @property
    def part(self) -> str:
        """The noun for positions in reports."""
        return "position"

    def place(self, sequence: int, position: int) -> str:
        """Return the place of the label of a position for messages: line and column, or sequence and position.

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
        return f"sequence {sequence}, position {position}"

    def write_predictions(self, path: PathName, predictions: Predictions) -> None:
        """Write the content of the file with predictions.

        Parameters
        ----------
        path : str or path
            The file; "-" is standard output.
        predictions : Predictions
            Labels and probabilities of every sequence.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class Predictions:
    """Labels (T,) of each sequence, with their probabilities (T,), or those (T, L) of all ``classes`` (L,)."""

    labels: list[np.ndarray]
    marginals: list[np.ndarray] | None = None
    classes: Sequence | np.ndarray | None = None

    def check(self, lengths: Sequence[int]) -> None:
        """Raise ValueError unless sequences of these lengths have one prediction for each position."""
        labels, marginals, classes = self.labels, self.marginals, self.classes
        if len(labels) != len(lengths):
            raise ValueError(f"labels of {len(labels)} sequences for a file of {len(lengths)}")
        if marginals is None and classes is not None:
            raise ValueError("classes without marginals: they name the columns of marginals")
        if marginals is not None and len(marginals) != len(labels):
            raise ValueError(f"marginals of {len(marginals)} sequences, but labels of {len(labels)}")
        for index, length in enumerate(lengths):
            if labels[index].shape != (length,):
                raise ValueError(f"labels of sequence {index} have shape {labels[index].shape}, expected ({length},)")
            expected = (length,) if classes is None else (length, len(classes))
            if marginals is not None and marginals[index].shape != expected:
                raise ValueError(
                    f"marginals of sequence {index} have shape {marginals[index].shape}, expected {expected}"
                )

    def texts(self) -> list[list[str]]:
        """Return the labels as texts."""
        return [[str(label) for label in sequence.tolist()] for sequence in self.labels]

    def shares(self) -> list[tuple[str | None, list[list[str]]]]:
        """Return the probabilities as texts by class, under None for predicted labels only."""
        if self.marginals is None:
            return []
        names = [None] if self.classes is None else [str(label) for label in self.classes]
        tables = [np.reshape(sequence, (len(sequence), len(names))) for sequence in self.marginals]
        return [
            (name, [[f"{share:.6f}" for share in table[:, column].tolist()] for table in tables])
            for column, name in enumerate(names)
        ]

    def cells(self, *before: list[list[str]]) -> list[list[tuple[str, ...]]]:
        """Return the cells of every position: those of ``before``, then B-NP, B-NP/0.970000, ..."""
        columns = [*before, self.texts()]
        for name, shares in self.shares():
            head = "" if name is None else f"{name}/"
            columns.append([[head + share for share in sequence] for sequence in shares])
        return [list(zip(*parts, strict=True)) for parts in zip(*columns, strict=True)]
