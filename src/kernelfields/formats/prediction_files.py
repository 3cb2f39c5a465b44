"""Predicted labels and probabilities, written beside what was read and in the same format.

    columns, conllu   cells after those of the row: label, then 0.970000 or B-NP/0.970000 I-NP/0.010000 ...
    crfsuite          a line per position: label read, label predicted, probabilities as above
    csv               columns after those of the table: predicted, then probability or p(B-NP), p(I-NP), ...
    npz               arrays offsets, predicted (N,), and marginals (N,) or (N, L) with classes (L,)

Cost: one pass; text formats hold the new cells in memory. Fails: ValueError if predictions and file do not fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kernelfields.formats.column_files import write_columns
from kernelfields.formats.crfsuite_text import write_crfsuite_labels
from kernelfields.formats.sequence_arrays import write_archive
from kernelfields.formats.sequence_files import SequenceFile
from kernelfields.formats.sequence_tables import write_table
from kernelfields.formats.text_files import PathName

_PREDICTED, _PROBABILITY = "predicted", "probability"


def write_predictions(
    path: PathName, file: SequenceFile, labels: Any, marginals: Any = None, classes: Sequence[Any] | None = None
) -> None:
    """Write predicted labels beside what was read; "-" is standard output.

    ``labels`` holds one label per position of every sequence; ``marginals``, if given, probabilities of the
    predicted labels, (T,) for every sequence, or of all ``classes`` (L,), (T, L).
    """
    labels = [np.asarray(sequence) for sequence in labels]
    marginals = None if marginals is None else [np.asarray(sequence) for sequence in marginals]
    _check(file, labels, marginals, classes)
    if file.format == "npz":
        arrays = {"offsets": file.source.offsets, _PREDICTED: np.concatenate(labels)}
        if marginals is not None:
            arrays["marginals"] = np.concatenate(marginals)
        if classes is not None:
            arrays["classes"] = np.asarray(classes)
        write_archive(path, arrays)
        return
    texts = [[str(label) for label in sequence.tolist()] for sequence in labels]
    names, numbers = _probabilities(marginals, classes)
    if file.format == "csv":
        heads = [_PROBABILITY if name is None else f"p({name})" for name in names]
        write_table(path, file.source, {_PREDICTED: texts} | dict(zip(heads, numbers, strict=True)))
        return
    columns = [texts]
    for name, column in zip(names, numbers, strict=True):
        head = "" if name is None else f"{name}/"
        columns.append([[head + number for number in sequence] for sequence in column])
    if file.format == "crfsuite":
        columns.insert(0, file.source.y)
    cells = [list(zip(*parts, strict=True)) for parts in zip(*columns, strict=True)]
    if file.format == "crfsuite":
        write_crfsuite_labels(path, cells)
    else:
        write_columns(path, file.source, cells)


def _check(file: SequenceFile, labels: list, marginals: list | None, classes: Sequence[Any] | None) -> None:
    lengths = [x.shape[0] if hasattr(x, "shape") else len(x) for x in file.X]
    if len(labels) != len(lengths):
        raise ValueError(f"labels of {len(labels)} sequences for a file of {len(lengths)}")
    expected = () if classes is None else (len(classes),)
    if marginals is None and classes is not None:
        raise ValueError("classes without marginals: they name the columns of marginals")
    if marginals is not None and len(marginals) != len(labels):
        raise ValueError(f"marginals of {len(marginals)} sequences, but labels of {len(labels)}")
    for index, length in enumerate(lengths):
        if labels[index].shape != (length,):
            raise ValueError(f"labels of sequence {index} have shape {labels[index].shape}, expected ({length},)")
        if marginals is not None and marginals[index].shape != (length, *expected):
            shape = marginals[index].shape
            raise ValueError(f"marginals of sequence {index} have shape {shape}, expected {(length, *expected)}")


def _probabilities(marginals: list | None, classes: Sequence[Any] | None) -> tuple[list, list[list[list[str]]]]:
    """Return the names of columns of probabilities, None for that of the predicted label, and their cells."""
    if marginals is None:
        return [], []
    names = [None] if classes is None else list(classes)
    tables = [np.reshape(sequence, (len(sequence), len(names))) for sequence in marginals]
    return names, [
        [[f"{p:.6f}" for p in table[:, column].tolist()] for table in tables] for column in range(len(names))
    ]
