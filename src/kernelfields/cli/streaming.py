"""Column files labelled line by line, ``kernelfields predict --stream``: what can be answered is written at once.

A row is answered when ``lag`` rows after it have come, or its sequence has ended; rows that the template reads ahead
are counted into the lag, and so are windows of the field. Comments and empty lines are written in their places.
"""

from __future__ import annotations

from collections import deque
from typing import Any, TextIO

from kernelfields.cli.messages import json_text
from kernelfields.cli.models import TrainedModel
from kernelfields.fields.cliques import check_window
from kernelfields.formats.column_files import ColumnLine, ColumnSequence, LabelledColumns, read_column_lines
from kernelfields.formats.text_files import SequenceFileError, input_name, open_text_output

# Positions that are waited for beyond what features look ahead, where nobody says how many.
_USUAL_LAG = 5


def label_lines(
    trained: TrainedModel, file: str, output: str, lag: int | None, decode: str | None, shown: str | None, as_json: bool
) -> int:
    """Write the lines of a column file again with their labels, each as soon as it can be; return how many sequences.

    ``shown``: "confidence" adds the probability of the label, "marginals" those of all.
    """
    reading = trained.reader.reading
    if trained.crf.kind != "ChainCRF":
        raise ValueError(
            f"--stream labels lines by a chain, and this model is a {trained.crf.kind}, which cuts whole sequences: "
            "leave out --stream"
        )
    if reading.get("format") != "columns":
        raise ValueError(f"--stream reads column files, and this model was trained on {reading.get('format')}")
    options = {name: reading[name] for name in ("separator", "comments") if name in reading}
    with open_text_output(output) as stream:
        lines = _Lines(trained, stream, input_name(file), _chosen_lag(trained, lag), decode, shown, as_json)
        for line in read_column_lines(file, **options):
            lines.add(line)
        lines.end()
    if not lines.n_sequences:
        raise SequenceFileError(f"{input_name(file)} holds no sequences")
    return lines.n_sequences


def _ahead(trained: TrainedModel) -> int:
    template = trained.reader.template
    return 0 if template is None else template.reach[1]


def _chosen_lag(trained: TrainedModel, lag: int | None) -> int:
    """Return the lag in rows of the file."""
    terms = trained.crf.field_.terms
    windows = [check_window(term.clique.window)[1] for term in terms if not term.tied_everywhere]
    least = _ahead(trained) + max(windows, default=0)
    if lag is not None and lag < least:
        raise ValueError(f"the features look {least} lines ahead, so that no answer can come sooner: --lag {least}")
    return least + _USUAL_LAG if lag is None else lag


class _Lines:
    """The lines that wait for their answers, and the stream of the sequence they belong to."""

    def __init__(
        self,
        trained: TrainedModel,
        output: TextIO,
        name: str,
        lag: int,
        decode: str | None,
        shown: str | None,
        as_json: bool,
    ):
        self.n_sequences = 0
        self._trained, self._output, self._name = trained, output, name
        self._lag, self._decode, self._shown, self._as_json = lag, decode, shown, as_json
        self._stream: Any = None
        self._waiting: deque[ColumnLine] = deque()
        #: Rows that features are made of, and how many of them have theirs.
        self._rows: list[ColumnLine] = []
        self._done = self._position = 0

    def add(self, line: ColumnLine) -> None:
        """Take the next line and write what can be answered."""
        if line.ends:
            self.end()
        self._waiting.append(line)
        if line.cells is None:
            self._write([], [])
            return
        if self._stream is None:
            lag = self._lag - _ahead(self._trained)
            self._stream = self._trained.crf.stream(lag, decode=self._decode)
            self._position, self.n_sequences = 0, self.n_sequences + 1
        self._rows.append(line)
        self._push(len(self._rows) - _ahead(self._trained))

    def end(self) -> None:
        """End the sequence, if there is one, and write all that is left of it."""
        if self._stream is not None:
            self._push(len(self._rows))
            self._write(*self._stream.end())
            self._stream, self._rows, self._done = None, [], 0

    def _push(self, end: int) -> None:
        """Push the features of rows up to ``end`` and forget those that no further row reads."""
        if end <= self._done:
            return
        self._write(*self._stream.push(self._features()[self._done : end]))
        template = self._trained.reader.template
        kept = max(0, end - (0 if template is None else template.reach[0]))
        self._rows, self._done = self._rows[kept:], end - kept

    def _features(self) -> Any:
        reading = self._trained.reader.reading
        rows = [line.cells for line in self._rows if line.cells is not None]
        found = ColumnSequence(rows, [line.number for line in self._rows])
        columns = LabelledColumns([found], self._name, reading.get("label", -1), False, reading.get("n_columns"))
        return columns.inputs(self._trained.reader.template, reading.get("features"))[0]

    def _write(self, labels: Any, marginals: Any) -> None:
        """Write lines that have answers, and those between them that need none."""
        answers = deque(zip(labels, marginals, strict=True))
        while self._waiting and (answers or self._waiting[0].cells is None):
            line = self._waiting.popleft()
            if line.cells is not None:
                self._output.write(self._answered(line, *answers.popleft()) + "\n")
            elif not self._as_json:
                self._output.write(line.text + "\n")
        self._output.flush()

    def _answered(self, line: ColumnLine, label: Any, marginals: Any) -> str:
        position, self._position = self._position, self._position + 1
        classes = self._trained.crf.classes_.tolist()
        if self._as_json:
            document = {"sequence": self.n_sequences - 1, "position": position, "label": label}
            if self._shown is not None:
                document["marginals"] = dict(zip(map(str, classes), marginals, strict=True))
            return json_text(document)
        cells = [*(line.cells or ()), str(label)]
        if self._shown == "confidence":
            cells.append(f"{marginals[classes.index(label)]:.6f}")
        elif self._shown == "marginals":
            cells += [f"{name}/{share:.6f}" for name, share in zip(classes, marginals, strict=True)]
        return line.separator.join(cells)
