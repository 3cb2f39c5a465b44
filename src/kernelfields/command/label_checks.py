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
                columns = file.format in ("columns", "conllu")
                line = f"line {file.source[index].lines[position]}" if columns else ""
                where = line or f"sequence {index}, position {position}"
                shown = ", ".join(str(each) for each in known[:_SHOWN]) + (", ..." if len(known) > _SHOWN else "")
                raise ValueError(
                    f"{input_name(path)}, {where}: the label {label} was never seen in training, where there are "
                    f"{shown}"
                )
