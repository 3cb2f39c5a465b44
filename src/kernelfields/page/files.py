"""Files that are labelled on the page: their items, what is shown of each position, and how labels are written back.

    columns, conllu, csv                        words or numbers with a column of labels, which may be missing
    doccano, labelstudio, brat, spacy, text     texts, cut into words (page/document_files.py)
    textgrid, elan                              intervals of one tier, which are labelled in another

A file is replaced when its labels are saved, all at once, and nothing else in it changes. Labels may also go to another
file, which is read in its place once it is there: that of an annotator, or the column file beside a raw text.

Fails: SequenceFileError in one line for what cannot be read; ValueError for labels that could not be read again.
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
from kernelfields.formats.annotation_files import annotation_format_of
from kernelfields.formats.column_files import columns_text
from kernelfields.formats.label_marks import BETWEEN, UNKNOWN

# Kinds of characters that end lines or cells, or that UTF-8 does not have.
_UNWRITABLE = ("Cc", "Zl", "Zp", "Cs")
_OF_SEQUENCES = ("columns", "conllu", "csv")


@dataclass(frozen=True, eq=False)
class LabelFile:
    """A file that was read: inputs ``X`` and labels ``y`` as estimators take them, words or columns to show.

    ``content`` is that of the file at ``path``, empty if it is not there yet; ``scheme`` is that of LabellingSession.
    """

    path: Path
    content: bytes
    X: Any
    y: list | None
    words: list | None
    columns: list[str] | None
    scheme: str | None
    options: dict[str, Any]

    @classmethod
    def open(
        cls,
        path: str,
        format: str = "auto",  # noqa: A002
        *,
        output: str | None = None,
        blind: bool = False,
        **options: Any,
    ) -> LabelFile:
        """Read a file of any format, with labels or without.

        Parameters
        ----------
        path : the file, or of brat, textgrid and elan a folder
        format : its format; "auto" goes by the name, and by the lines of texts
        output : where labels are written, the file itself if left out; once it is there, it is read in its place
        blind : with ``output``, begin without the labels of ``path``
        options : those of the format: label, sequence, separator and so on
        """
        from kernelfields.page.document_files import DocumentFile, TierFile

        kind = _format(path) if format == "auto" else format
        if kind == "text" and output is None:
            output = str(Path(path).with_suffix(".conll"))
        if output is not None and Path(output).exists() and Path(output) != Path(path):
            return cls.open(output, "auto" if kind == "text" else kind, **options)
        remove_leftovers(path)
        reader = (
            TierFile if kind in ("textgrid", "elan") else SequenceLabelFile if kind in _OF_SEQUENCES else DocumentFile
        )
        opened = reader.read_from(path, kind, options)
        if output is None:
            return opened
        return replace(opened, path=Path(output), content=b"", y=None if blind else opened.y)

    @classmethod
    def read_from(cls, path: str, kind: str, options: dict[str, Any]) -> LabelFile:
        """Read a file of a format."""
        raise NotImplementedError

    def check_label(self, label: str, *, new: bool) -> None:
        """Raise ValueError for a label that would not be read as it was written; ``new`` ones may hold no spaces."""
        if not label.strip() or any(unicodedata.category(each) in _UNWRITABLE for each in label):
            raise ValueError(
                f"the label {label!r:.40} cannot be written: labels may not hold {self._forbidden}, nor be empty"
            )
        unknown, between = self._marks
        if label in unknown:
            raise ValueError(f"the label {label!r:.40} cannot be written: it stands for a label that is not known")
        if between in label:
            raise ValueError(f"the label {label!r:.40} cannot be written: {between} stands between labels of a set")

    @property
    def _forbidden(self) -> str:
        return "tabs or ends of lines"

    @property
    def _marks(self) -> tuple[list[str], str]:
        """What stands for unknown labels, as it is written first, and what between labels of which one is right."""
        return [UNKNOWN], BETWEEN

    def written(self, labels: Sequence[Sequence[object]]) -> bytes:
        """Return the content with labels, None where nothing is known, sets of which one is right."""
        raise NotImplementedError

    def after(self, content: bytes) -> LabelFile:
        """Return the file with the content that was saved."""
        raise NotImplementedError

    def current(self) -> bytes:
        """Return the content that the file has now; empty if it is not there."""
        return self.path.read_bytes() if self.path.exists() else b""

    def save(self, content: bytes) -> None:
        """Replace the file, all at once."""
        write_whole({str(self.path): content})


@dataclass(frozen=True, eq=False)
class SequenceLabelFile(LabelFile):
    """A column file, CoNLL-U or CSV; ``source`` is the content that was read."""

    read: SequenceFile
    source: bytes
    labelled: bool

    @classmethod
    def read_from(cls, path: str, kind: str, options: dict[str, Any]) -> SequenceLabelFile:
        """Read words or numbers."""
        content = Path(path).read_bytes()
        settings: dict[str, Any] = {"label_sets": BETWEEN, "labels_required": False, **options}
        if "label" not in settings and kind == "columns" and _one_column(content):
            settings["label"] = None  # words alone
        read = read_sequences(path, **{"format": kind, **settings})
        words = [list(own) for own in read.words if own is not None] or None
        columns = None
        if words is None:
            if not isinstance(read.X[0], np.ndarray):
                raise SequenceFileError(f"{path} has neither words nor columns of numbers to show")
            columns = [str(name) for name in read.reading.get("features") or range(read.X[0].shape[1])]
        known = read.y is not None and any(entry is not None for own in read.y for entry in own)
        scheme = "spans" if words is not None and not known and kind == "columns" else "auto"
        own = (Path(path), content, read.X, read.y, words, columns, scheme, options)
        return cls(*own, read=read, source=content, labelled=read.y is not None)

    def check_label(self, label: str, *, new: bool) -> None:
        """Raise ValueError for a label that would not be read as it was written; ``new`` ones may hold no spaces."""
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

    def written(self, labels: Sequence[Sequence[object]]) -> bytes:
        """Return the rows with their labels."""
        unknown, between = self._marks
        texts = [[label_text(entry, unknown[0], between) for entry in own] for own in labels]
        return self._columns(texts) if isinstance(self.read, ColumnFile) else self._table(texts)

    def after(self, content: bytes) -> LabelFile:
        """Return the file with the content that was saved."""
        if self.labelled:
            return replace(self, content=content)
        # Where a column of labels was added, rows are read again, so that the next time it is replaced.
        return self.read_from(str(self.path), self.read.format, self.options)

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


def _one_column(content: bytes) -> bool:
    """Whether the first line that is not empty holds one cell."""
    return next((len(line.split()) == 1 for line in content.splitlines() if line.strip()), False)


def _format(path: str) -> str:
    """Return the format of a file by its name, and by the lines of texts."""
    place = Path(path)
    if place.is_dir():
        endings = {each.suffix.lower() for each in place.iterdir()}
        kinds = {".ann": "brat", ".textgrid": "textgrid", ".eaf": "elan"}
        found = next((kind for ending, kind in kinds.items() if ending in endings), None)
        if found is None:
            raise SequenceFileError(f"{path} is a folder without files of brat, Praat or ELAN")
        return found
    if place.suffix.lower() in (".txt", "") and place.exists() and not _in_columns(place.read_bytes()):
        return "text"
    named = annotation_format_of(path)
    found = named if named not in (None, *_OF_SEQUENCES) else format_of(path, "--format")
    if found in ("crfsuite", "npz"):
        raise SequenceFileError(f"{path} is of format {found}, which has no words to show: label what it was made of")
    assert found is not None
    return found


def _in_columns(content: bytes) -> bool:
    """Whether lines are rows: two or more, with as many cells each, but for comments and empty lines."""
    lines = [
        line.split() for line in content.splitlines() if line.strip() and not line.startswith((b"#", b"-DOCSTART-"))
    ]
    return len(lines) > 1 and len(set(map(len, lines))) == 1
