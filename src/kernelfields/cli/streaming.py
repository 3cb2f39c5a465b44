"""Column files labelled line by line, ``kernelfields predict --stream``: what can be answered is written at once.

A row is answered when ``lag`` rows after it have come, or its sequence has ended; rows that the template reads ahead
are counted into the lag, and so are windows of the field. Comments and empty lines are written in their places.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TextIO

import numpy as np

from kernelfields.cli.messages import json_text
from kernelfields.cli.models import TrainedModel, template_of
from kernelfields.data.cliques import check_window
from kernelfields.data.text_files import SequenceFileError, input_name, open_text_output
from kernelfields.formats.column_files import (
    ColumnLine,
    ColumnSequence,
    LabelledColumns,
    ends_sequence,
    read_column_lines,
)

if TYPE_CHECKING:
    from kernelfields.models.stream import LabelStream

# Positions that are waited for beyond what features look ahead, where no --lag is given.
_USUAL_LAG = 5


def label_lines(
    trained: TrainedModel, file: str, output: str, lag: int | None, decode: str | None, shown: str | None, as_json: bool
) -> int:
    """Write the lines of a column file again with their labels, each as soon as it can be; return how many sequences.

    ``shown``: "confidence" adds the probability of the label, "marginals" those of all.
    """
    reading = trained.reading
    if trained.crf.kind != "ChainCRF":
        raise ValueError(
            f"--stream labels lines by a chain, and this model is a {trained.crf.kind}, which cuts whole sequences: "
            "leave out --stream"
        )
    if reading.get("format") != "columns":
        raise ValueError(f"--stream reads column files, and this model was trained on {reading.get('format')}")
    with open_text_output(output) as stream:
        chosen = _chosen_lag(trained, lag)
        separator, column_lines = read_column_lines(file, separator=reading.get("separator", "auto"))
        lines = _Lines(trained, stream, input_name(file), separator, chosen, decode, shown, as_json)
        for line in column_lines:
            lines.add(line)
        lines.end()
    if not lines.n_sequences:
        raise SequenceFileError(f"{input_name(file)} holds no sequences")
    return lines.n_sequences


def _reach(trained: TrainedModel) -> tuple[int, int]:
    """Return how many rows before a position, and after it, its features read."""
    template = template_of(trained.reading)
    return (0, 0) if template is None else template.reach


def _chosen_lag(trained: TrainedModel, lag: int | None) -> int:
    """Return the lag in rows of the file."""
    terms = trained.crf.field_.terms
    windows = [check_window(term.clique.window)[1] for term in terms if not term.tied_everywhere]
    least = _reach(trained)[1] + max(windows, default=0)
    if lag is not None and lag < least:
        raise ValueError(f"the features look {least} lines ahead, so that no answer can come sooner: --lag {least}")
    return least + _USUAL_LAG if lag is None else lag


@dataclass
class _Lines:
    """The lines that wait for their answers, and the stream of the sequence they belong to."""

    trained: TrainedModel
    output: TextIO
    name: str
    separator: str
    lag: int
    decode: str | None
    shown: str | None
    as_json: bool
    n_sequences: int = 0
    position: int = 0
    stream: LabelStream | None = None
    waiting: deque[ColumnLine] = field(default_factory=deque)
    #: Rows that features are made of, the numbers of their lines, and how many of them have their features.
    sequence: ColumnSequence = field(default_factory=lambda: ColumnSequence([]))
    done: int = 0

    def add(self, line: ColumnLine) -> None:
        """Take the next line and write what can be answered."""
        number, text, cells = line
        if cells is None and ends_sequence(text):
            self.end()
        self.waiting.append(line)
        if cells is None:
            self._write([], [])
            return
        ahead = _reach(self.trained)[1]
        if self.stream is None:
            self.stream = self.trained.crf.stream(self.lag - ahead, decode=self.decode)
            self.position, self.n_sequences = 0, self.n_sequences + 1
        self.sequence.rows.append(cells)
        self.sequence.lines.append(number)
        self._push(self.stream, len(self.sequence.rows) - ahead)

    def end(self) -> None:
        """End the sequence, if there is one, and write all that is left of it."""
        if self.stream is not None:
            self._push(self.stream, len(self.sequence.rows))
            self._write(*self.stream.end())
            self.stream, self.sequence, self.done = None, ColumnSequence([]), 0

    def _push(self, stream: LabelStream, end: int) -> None:
        """Push the features of rows up to ``end`` and forget those that no further row reads."""
        if end <= self.done:
            return
        self._write(*stream.push(self._features()[self.done : end]))
        kept = max(0, end - _reach(self.trained)[0])
        self.sequence = ColumnSequence(self.sequence.rows[kept:], self.sequence.lines[kept:])
        self.done = end - kept

    def _features(self) -> list:
        label, features, n_columns = map(self.trained.reading.get, ("label", "features", "n_columns"))
        columns = LabelledColumns([self.sequence], self.name, label, False, n_columns)
        return columns.inputs(template_of(self.trained.reading), features)[0]

    def _write(self, labels: Sequence, marginals: Sequence[np.ndarray] | np.ndarray) -> None:
        """Write lines that have answers, and those between them that need none."""
        answers = deque(zip(labels, marginals, strict=True))
        while self.waiting and (answers or self.waiting[0][2] is None):
            _, text, cells = self.waiting.popleft()
            if cells is not None:
                self.output.write(self._answered(cells, *answers.popleft()) + "\n")
            elif not self.as_json:
                self.output.write(text + "\n")
        self.output.flush()

    def _answered(self, cells: list[str], label: object, marginals: np.ndarray) -> str:
        position, self.position = self.position, self.position + 1
        classes = self.trained.crf.classes_.tolist()
        if self.as_json:
            document = {"sequence": self.n_sequences - 1, "position": position, "label": label}
            if self.shown is not None:
                document["marginals"] = dict(zip(map(str, classes), marginals, strict=True))
            return json_text(document)
        cells = [*cells, str(label)]
        if self.shown == "confidence":
            cells.append(f"{marginals[classes.index(label)]:.6f}")
        elif self.shown == "marginals":
            cells += [f"{name}/{share:.6f}" for name, share in zip(classes, marginals, strict=True)]
        return self.separator.join(cells)
