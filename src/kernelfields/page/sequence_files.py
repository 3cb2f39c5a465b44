"""Column files, CoNLL-U and CSV on the page: words or numbers with a column of labels, which may be missing.

Rows, comments and other columns are written as they were read; unknown labels are written as the file's mark for them.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from kernelfields.formats import ColumnFile, SequenceFile, SequenceFileError, label_text, read_sequences
from kernelfields.formats.annotation_columns import find_sequence_id, read_sequence_text, replace_sequence_words
from kernelfields.formats.column_files import ColumnSequence, format_columns
from kernelfields.formats.label_marks import BETWEEN
from kernelfields.formats.sequence_tables import SequenceTable
from kernelfields.formats.tokens import TokenizedText
from kernelfields.page.label_file import LabelFile, command_line, name_items, neighbours_in_document
from kernelfields.page.time_lines import make_table_lines


@dataclass(frozen=True, eq=False)
class SequenceLabelFile(LabelFile):
    """A column file, CoNLL-U or CSV; ``source`` is its original content."""

    read: SequenceFile
    source: bytes
    labelled: bool

    @classmethod
    def from_path(cls, path: str, kind: str, options: dict[str, Any]) -> SequenceLabelFile:
        """Read words or numbers; the option ``lanes`` names the columns of the time line."""
        content = Path(path).read_bytes()
        settings: dict[str, Any] = {"label_sets": BETWEEN, "labels_required": False, **options}
        lanes = settings.pop("lanes", None)
        if "label" not in settings and kind == "columns" and _one_column(content):
            settings["label"] = None  # words alone
        read = read_sequences(path, **{"format": kind, **settings})
        words = [list(own) for own in read.words if own is not None] or None
        columns = None
        lines = make_table_lines(read, lanes, path) if isinstance(read, SequenceTable) else None
        if words is None and (lines is None or isinstance(read.X[0], np.ndarray)):
            if not isinstance(read.X[0], np.ndarray):
                raise SequenceFileError(f"{path} has neither words nor columns of numbers to show")
            columns = [str(name) for name in read.reading.get("features") or range(read.X[0].shape[1])]
        known = read.y is not None and any(entry is not None for own in read.y for entry in own)
        scheme = "spans" if words is not None and not known and kind == "columns" else "auto"
        own = (Path(path), content, read.X, read.y, words, columns, scheme, options)
        return cls(*own, read=read, source=content, labelled=read.y is not None, names=_names(read), lines=lines)

    def check_label(self, label: str, *, new: bool) -> None:
        """Raise ValueError for a label that the file cannot hold, or for a ``new`` label with spaces."""
        # Labels of tab-separated files may hold spaces, but who reads the file elsewhere may part cells there.
        if isinstance(self.read, ColumnFile) and any(map(str.isspace, label)) and (new or not self._has_tabs):
            label = ""
        super().check_label(label, new=new)

    @property
    def _forbidden(self) -> str:
        return "spaces, tabs or ends of lines" if isinstance(self.read, ColumnFile) else super()._forbidden

    @property
    def _has_tabs(self) -> bool:
        return isinstance(self.read, ColumnFile) and self.read.sequences[0].separator == "\t"

    @property
    def _marks(self) -> tuple[list[str], str]:
        return self.read.unknown_marks, self.read.reading["label_sets"]

    def with_labels(self, labels: Sequence[Sequence[object]]) -> bytes:
        """Return the content of the file with labels."""
        unknown, between = self._marks
        texts = [[label_text(entry, unknown[0], between) for entry in own] for own in labels]
        return self._columns(texts, self.read.sequences) if isinstance(self.read, ColumnFile) else self._table(texts)

    def check_item(self, item: int, labels: Sequence[object]) -> None:
        """Raise ValueError if the row of a position cannot be written; rows of CSV hold any text."""
        if isinstance(self.read, ColumnFile):
            unknown, between = self._marks
            self._columns([[label_text(entry, unknown[0], between) for entry in labels]], [self.read.sequences[item]])

    def text(self, item: int) -> TokenizedText | None:
        """Return the text of a sentence from its comment, or else its words joined by spaces."""
        if not isinstance(self.read, ColumnFile):
            return None
        return read_sequence_text(self.read.sequences[item], self.read.format, self.path.name)

    def find_neighbours(self, item: int) -> tuple[int | None, int | None]:
        """Return the sentences before and after a sentence within its document of a column file."""
        if not isinstance(self.read, ColumnFile):
            return None, None
        sequences, marks = self.read.sequences, ("-DOCSTART-", "# newdoc")
        return neighbours_in_document(
            item, len(sequences), lambda k: any(row == 0 and line.startswith(marks) for row, line in sequences[k].kept)
        )

    def with_text(self, item: int, text: TokenizedText) -> LabelFile:
        """Return the file with other rows of a sentence; labels are written on saving."""
        read = self.read
        if not isinstance(read, ColumnFile) or read.format != "columns":
            return super().with_text(item, text)
        if len(read.sequences[item].rows[0]) > 1 + self.labelled or (self.labelled and read.reading["label"] != 1):
            raise ValueError(
                f"words of {self.path.name} stay as they are: it has columns beside words and labels, and parts of a "
                "word have none of their own"
            )
        sequences, X, words = list(read.sequences), list(self.X), list(self.words or ())
        sequences[item] = replace_sequence_words(read.sequences[item], text, self.path.name)
        (X[item],) = read.read_inputs([sequences[item]])
        words[item] = text.words
        return replace(self, read=replace(read, sequences=sequences), X=X, words=words)

    def reload(self, content: bytes) -> LabelFile:
        """Return the file after saving, read again if a column of labels was added."""
        if self.labelled:
            return replace(self, content=content)
        # Where a column of labels was added, rows are read again, so that the next time it is replaced.
        return self.from_path(str(self.path), self.read.format, self.options)

    def commands(self) -> dict[str, str]:
        """Return the commands to train on the file and to export it."""
        label = self.options.get("label")
        options = [] if label is None else ["--label-column", label]
        model = self.path.with_suffix(".safetensors")
        if isinstance(self.read, SequenceTable):
            options = ["--sequence-column", self.read.reading["sequence"], *options]
            exported = [self.path.with_suffix(".crfsuite"), *options]
        else:
            exported = [self.path.with_suffix(".jsonl"), "--to", "doccano", *options]
        return {
            "train a model": command_line("train", self.path, *options, "-m", model),
            "export the labels": command_line("convert", self.path, *exported),
        }

    def _columns(self, texts: list[list[str]], read: Sequence[ColumnSequence]) -> bytes:
        """Return sequences with texts of labels in their column as the content of a column file."""
        sequences = []
        for sequence, own in zip(read, texts, strict=True):
            column = self.read.reading["label"] if self.labelled else len(sequence.rows[0])
            rows = [[*row[:column], text, *row[column + 1 :]] for row, text in zip(sequence.rows, own, strict=True)]
            sequences.append(replace(sequence, rows=rows))
        return format_columns(sequences).encode()

    def _table(self, texts: list[list[str]]) -> bytes:
        """Return the table with texts of labels in their column as the content of a CSV file."""
        reading = self.read.reading
        text = self.source.decode("utf-8-sig")
        delimiter = reading.get("delimiter") or ","
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
        header, body = rows[0], [row for row in rows[1:] if row]
        name = reading.get("label") or "label"
        column = header.index(name) if name in header else len(header)
        by_sequence: dict[str, list[list[str]]] = {}
        place = header.index(reading["sequence"])
        for row in body:
            by_sequence.setdefault(row[place], []).append(row)
        for own, cells in zip(by_sequence.values(), texts, strict=True):
            for row, cell in zip(own, cells, strict=True):
                row[column : column + 1] = [cell]
        out = io.StringIO()
        writer = csv.writer(out, delimiter=delimiter, lineterminator="\n")
        writer.writerow(header if name in header else [*header, name])
        writer.writerows(body)
        return out.getvalue().encode()


def _names(read: SequenceFile) -> list[str | None]:
    """Return the names of sequences: recordings of tables, or ids of sentences."""
    if isinstance(read, SequenceTable):
        return name_items(list(map(str, read.groups.ids)), read.reading["sequence"])
    return name_items(list(map(find_sequence_id, read.sequences))) if isinstance(read, ColumnFile) else []


def _one_column(content: bytes) -> bool:
    """Whether the first nonempty line has a single cell."""
    return next((len(line.split()) == 1 for line in content.splitlines() if line.strip()), False)
