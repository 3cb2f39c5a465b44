"""Column files as labelled sequences: which column holds the labels, and what the others become.

Inputs are the feature strings of a CRF++ template, or feature dicts {"0": cell, "1": cell} by the number of the
column. Numbers of columns count from 0, as in templates. Cost: one pass over the rows.
Fails: SequenceFileError naming the file, and the line of a label that is missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernelfields.formats.column_files import ColumnSequence
from kernelfields.formats.templates import Template
from kernelfields.formats.text_files import SequenceFileError


class LabelledColumns:
    """Sequences of rows and the column of their labels: ``label`` counts from 0 and is None if there are none.

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
        expected = self.n_columns
        column = label if label is None or label >= 0 else expected + label
        dropped = not required and column is not None and column >= self.width
        if self.width != expected and not dropped:
            columns = f"{self.width} column{'s' if self.width != 1 else ''}"
            missing = f"; the labels, column {column} (from 0), are missing" if column == self.width else ""
            raise SequenceFileError(
                f"{self.name} has {columns}, expected {expected} as in the training file{missing}"
            )
        if dropped or column is None:
            return None
        if not 0 <= column < self.width:
            raise SequenceFileError(
                f"{self.name} has columns 0 to {self.width - 1}, so there is no column {label} for the labels"
            )
        return column

    def labels(self) -> list[list[str]] | None:
        """Return the labels of every sequence, or None if there are none."""
        if self.label is None:
            return None
        y = [[row[self.label] for row in sequence.rows] for sequence in self.sequences]
        for sequence, labels in zip(self.sequences, y, strict=True):
            if "" in labels:
                line = sequence.lines[labels.index("")]
                raise SequenceFileError(
                    f"{self.name}, line {line}, column {self.label} (from 0): the label is empty"
                )
        return y

    def inputs(self, template: Template | None, columns: Sequence[int] | None) -> list[Any]:
        """Return the strings of a template, or else feature dicts of columns, None for all but the label."""
        if not self.sequences:
            return []
        if template is not None:
            template.check_columns(self.width, self.label)
            return [template.features(sequence.rows) for sequence in self.sequences]
        chosen = [c for c in range(self.width) if c != self.label] if columns is None else list(columns)
        for column in chosen:
            if not 0 <= column < self.width or column == self.label:
                holds = "holds the labels" if column == self.label else f"is not one of 0 to {self.width - 1}"
                raise SequenceFileError(f"{self.name}: column {column} {holds}, so it cannot be a feature")
        if not chosen:
            raise SequenceFileError(
                f"{self.name} has no columns beside the labels; without labels, in Python, use label=None"
            )
        names = [str(column) for column in chosen]
        return [
            [dict(zip(names, [row[column] for column in chosen], strict=True)) for row in sequence.rows]
            for sequence in self.sequences
        ]
