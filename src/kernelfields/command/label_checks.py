"""Labels of a file against those that a model knows."""

from __future__ import annotations

from typing import Any

from kernelfields.formats import SequenceFile
from kernelfields.formats.text_files import input_name

_SHOWN = 10


def check_labels(file: SequenceFile, classes: Any, path: str) -> None:
    """Raise if a file holds a label that was never seen in training, saying where."""
    known = list(classes)
    seen = set(known)
    for index, labels in enumerate(file.y or []):
        for position, label in enumerate(labels):
            if label not in seen:
                where = _place(file, index, position)
                shown = ", ".join(str(each) for each in known[:_SHOWN]) + (", ..." if len(known) > _SHOWN else "")
                raise ValueError(
                    f"{input_name(path)}, {where}: the label {label} was never seen in training, where there are "
                    f"{shown}"
                )


def _place(file: SequenceFile, sequence: int, position: int) -> str:
    """Say where the label of a position stands: line and column in texts, sequence and position in arrays."""
    source, column = file.source, file.reading.get("label")
    if file.format in ("columns", "conllu"):
        return f"line {source[sequence].lines[position]}, column {column} (from 0)"
    if file.format == "csv":
        return f"line {source.lines[source.members[sequence][position]]}, column {column!r}"
    if file.format == "crfsuite":
        return f"line {source.first_lines[sequence] + position}, column 0"
    return f"sequence {sequence}, position {position}"
