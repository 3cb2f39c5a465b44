"""Files that are labelled on the page: their items, what is shown of each position, and how labels are written back.

Column files have words, CSV files numbers; the column of labels may be there or not, and unknown labels are written as
the mark says. The file is replaced when its labels are saved, all at once, and nothing else in it changes.
"""

from __future__ import annotations

import csv
import io
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from kernelfields.data.text_files import remove_leftovers, write_whole
from kernelfields.formats import ColumnFile, SequenceFile, SequenceFileError, format_of, label_text, read_sequences
from kernelfields.formats.column_files import columns_text
from kernelfields.formats.label_marks import BETWEEN

# Kinds of characters that end lines or cells, or that UTF-8 does not have.
_UNWRITABLE = ("Cc", "Zl", "Zp", "Cs")


@dataclass(frozen=True, eq=False)
class LabelFile:
    """A file that was read: ``X`` and ``y`` as estimators take them, words or columns to show."""

    path: Path
    read: SequenceFile
    content: bytes
    words: list | None
    columns: list[str] | None
    labelled: bool
    options: dict[str, Any]

    @classmethod
    def open(cls, path: str, **options: Any) -> LabelFile:
        """Read a file of words or numbers, with labels or without."""
        place = Path(path)
        remove_leftovers(path)
        content = place.read_bytes()
        settings: dict[str, Any] = {"label_sets": BETWEEN, "labels_required": False, **options}
        if "label" not in settings and settings.get("format", format_of(path)) == "columns" and _one_column(content):
            settings["label"] = None  # words alone
        read = read_sequences(path, **settings)
        words = [list(own) for own in read.words if own is not None] or None
        if not isinstance(read, ColumnFile) and read.format != "csv":
            raise SequenceFileError(f"{path} is of format {read.format}: the page labels column files and CSV")
        columns = None
        if words is None:
            if not isinstance(read.X[0], np.ndarray):
                raise SequenceFileError(f"{path} has neither words nor columns of numbers to show")
            columns = [str(name) for name in read.reading.get("features") or range(read.X[0].shape[1])]
        return cls(place, read, content, words, columns, read.y is not None, options)

    def check_label(self, label: str, *, new: bool) -> None:
        """Raise ValueError for a label that would not be read as it was written; ``new`` ones may hold no spaces."""
        columns, (unknown, between) = isinstance(self.read, ColumnFile), self._marks
        # Labels of tab-separated files may hold spaces, but who reads the file elsewhere may part cells there.
        spaced = columns and any(map(str.isspace, label)) and (new or not self._has_tabs)
        if not label.strip() or spaced or any(unicodedata.category(each) in _UNWRITABLE for each in label):
            what = "spaces, tabs or ends of lines" if columns else "tabs or ends of lines"
            raise ValueError(f"the label {label!r:.40} cannot be written: labels may not hold {what}, nor be empty")
        if label in unknown:
            raise ValueError(f"the label {label!r:.40} cannot be written: it stands for a label that is not known")
        if between in label:
            raise ValueError(f"the label {label!r:.40} cannot be written: {between} stands between labels of a set")

    @property
    def _has_tabs(self) -> bool:
        return isinstance(self.read, ColumnFile) and self.read.sequences[0].separator == "\t"

    @property
    def _marks(self) -> tuple[list[str], str]:
        """What stands for unknown labels, as it is written first, and what between labels of which one is right."""
        return self.read.unknown_marks, self.read.reading["label_sets"]

    def written(self, labels: Sequence[Sequence[object]]) -> bytes:
        """Return the content with labels, None where nothing is known, sets of which one is right."""
        unknown, between = self._marks
        texts = [[label_text(entry, unknown[0], between) for entry in own] for own in labels]
        return self._columns(texts) if isinstance(self.read, ColumnFile) else self._table(texts)

    def after(self, content: bytes) -> LabelFile:
        """Return the file with the content that was saved."""
        # Where a column of labels was added, rows are read again, so that the next time it is replaced.
        return replace(self, content=content) if self.labelled else LabelFile.open(str(self.path), **self.options)

    def current(self) -> bytes | None:
        """Return the content that the file has now; None if it is gone."""
        return self.path.read_bytes() if self.path.exists() else None

    def save(self, content: bytes) -> None:
        """Replace the file, all at once."""
        write_whole({str(self.path): content})

    def _columns(self, texts: list[list[str]]) -> bytes:
        file = self.read
        assert isinstance(file, ColumnFile)
        sequences = []
        for sequence, own in zip(file.sequences, texts, strict=True):
            column = file.reading["label"] if self.labelled else len(sequence.rows[0])
            rows = [[*row[:column], text, *row[column + 1 :]] for row, text in zip(sequence.rows, own, strict=True)]
            sequences.append(replace(sequence, rows=rows))
        return columns_text(sequences).encode()

    def _table(self, texts: list[list[str]]) -> bytes:
        reading = self.read.reading
        text = self.content.decode("utf-8-sig")
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


def _one_column(content: bytes) -> bool:
    """Whether the first line that is not empty holds one cell."""
    return next((len(line.split()) == 1 for line in content.splitlines() if line.strip()), False)
