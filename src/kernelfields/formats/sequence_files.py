"""Files of labelled sequences of every format, and predictions beside them.

    format      by the end of the name (.gz aside)         X                          options
    columns     .tsv .conll .iob .bio .txt .data, "-"      strings by a template,     separator, comments, label,
                                                           or dicts {"0": cell}       features, template, n_columns
    conllu      .conllu                                    the same, from words       label, features, template
    crfsuite    .crfsuite .crfs                            strings, or dicts
    npz         .npz                                       arrays, dense or CSR       names
    csv         .csv                                       arrays, or dicts           sequence, label, features,
                                                                                      kinds, contiguous, delimiter

Column files: ``label`` is the number of the label's column (-1: the last; CoNLL-U: 3, UPOS) or None, ``features``
the numbers of the columns to take as dicts where there is no template (CoNLL-U: 1, the form), ``n_columns`` how
many columns the file must have; where labels are not required, their column and those after may be missing. CSV:
``sequence`` is the name of the column that tells sequences apart, ``label`` that of the labels ("label"). The
other options are those of read_columns, read_arrays and read_table.

Predicted labels and probabilities are written beside what was read and in the same format:

    columns, conllu   cells after those of the row: label, then 0.970000 or B-NP/0.970000 I-NP/0.010000 ...
    crfsuite          a line per position: label read, label predicted, probabilities as above
    csv               columns after those of the table: predicted, then probability or p(B-NP), p(I-NP), ...
    npz               arrays offsets, predicted (N,), and marginals (N,) or (N, L) with classes (L,)

Fails: SequenceFileError naming the file and, in text, the line; ValueError for options that do not fit, and for
predictions that do not fit the file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kernelfields.formats.column_files import LabelledColumns, read_columns, write_columns
from kernelfields.formats.crfsuite_text import read_crfsuite, write_crfsuite, write_crfsuite_labels
from kernelfields.formats.sequence_arrays import read_arrays, write_archive, write_arrays
from kernelfields.formats.sequence_tables import read_table, write_table
from kernelfields.formats.templates import Template
from kernelfields.formats.text_files import PathName, SequenceFileError, input_name

_ENDINGS = {
    "columns": ("", ".tsv", ".conll", ".iob", ".bio", ".txt", ".data"),
    "conllu": (".conllu",),
    "crfsuite": (".crfsuite", ".crfs"),
    "npz": (".npz",),
    "csv": (".csv",),
}
_UPOS, _FORM, _UNSPECIFIED = 3, 1, "_"  # of CoNLL-U
_PREDICTED, _PROBABILITY = "predicted", "probability"


@dataclass(frozen=True, eq=False)
class SequenceFile:
    """Sequences X, their labels y and weights (S,), or None where the file has none, and where they came from.

    ``reading`` holds the options that read another file the same way, all but the template: ``read_sequences(other,
    **file.reading)``. ``source`` is what the reader of the format returned, for write_predictions.
    """

    X: list[Any]
    y: list[Any] | None
    format: str
    source: Any = field(repr=False)
    weights: np.ndarray | None = None
    reading: dict[str, Any] = field(default_factory=dict)


def format_of(path: PathName, option: str = "format") -> str:
    """Return the format that a file's name stands for; ``option`` is where else users can say it."""
    name = os.path.basename(os.fspath(path)).lower().removesuffix(".gz")
    ending = os.path.splitext(name)[1]
    for known, endings in _ENDINGS.items():
        if ending in endings:
            return known
    choices = ", ".join(map(repr, _ENDINGS))
    raise ValueError(f"the name {os.fspath(path)!r} says nothing about the format: give {option}, one of {choices}")


def read_sequences(
    path: PathName,
    format: str = "auto",  # noqa: A002
    *,
    labels_required: bool = True,
    **options: Any,
) -> SequenceFile:
    """Read a file of sequences; "-" is standard input. The options of the formats are listed above.

    With ``labels_required=False`` y is None where the file has no labels, instead of an error.
    """
    kind = format_of(path) if format == "auto" else format
    if kind not in _READERS:
        raise ValueError(f"format must be 'auto' or one of {', '.join(map(repr, _READERS))}, got {format!r}")
    reader, allowed = _READERS[kind]
    if strange := [name for name in options if name not in allowed]:
        takes = f"takes {', '.join(allowed)}" if allowed else "takes no options"
        raise ValueError(f"format {kind!r} {takes}, got {strange[0]}")
    found = reader(path, labels_required, **options)
    if not found.X:
        raise SequenceFileError(f"{input_name(path)} holds no sequences")
    unlabelled = "label" in options and options["label"] is None
    if labels_required and found.y is None and not unlabelled:
        raise SequenceFileError(f"{input_name(path)} holds no labels")
    return found


def write_sequences(
    path: PathName,
    X: Any,
    y: Any = None,
    weights: Any = None,
    format: str = "auto",  # noqa: A002
) -> None:
    """Write sequences as CRFsuite's text or as .npz; "-" is standard output.

    CRFsuite's text takes feature dicts, feature strings and arrays, and needs labels; .npz takes arrays.
    """
    kind = format_of(path) if format == "auto" else format
    if kind == "npz":
        write_arrays(path, X, y, weights)
    elif kind == "crfsuite":
        if y is None:
            raise ValueError("CRFsuite's text format has no place for sequences without labels")
        write_crfsuite(path, X, y, weights)
    else:
        raise ValueError(f"sequences can be written as 'crfsuite' or 'npz', not as {kind!r}")


def _read_column_file(
    path: PathName,
    labels_required: bool,
    *,
    separator: str = "auto",
    comments: bool = True,
    label: int | None = -1,
    features: Sequence[int] | None = None,
    template: Template | None = None,
    n_columns: int | None = None,
) -> SequenceFile:
    sequences = list(read_columns(path, separator=separator, comments=comments))
    columns = LabelledColumns(sequences, input_name(path), label, labels_required, n_columns)
    reading: dict[str, Any] = {"format": "columns", "separator": separator, "comments": comments}
    reading |= {"label": label if columns.label is None else columns.label, "n_columns": columns.n_columns}
    if features is not None:
        reading["features"] = list(features)
    return SequenceFile(columns.inputs(template, features), columns.labels(), "columns", sequences, None, reading)


def _read_conllu(
    path: PathName,
    labels_required: bool,
    *,
    label: int | None = _UPOS,
    features: Sequence[int] | None = None,
    template: Template | None = None,
) -> SequenceFile:
    chosen = [_FORM] if features is None else list(features)
    sequences = list(read_columns(path, conllu=True))
    columns = LabelledColumns(sequences, input_name(path), label, labels_required)
    X, y = columns.inputs(template, chosen), columns.labels()
    if y is not None and all(label == _UNSPECIFIED for labels in y for label in labels):
        y = None
    return SequenceFile(X, y, "conllu", sequences, None, {"format": "conllu", "label": label, "features": chosen})


def _read_crfsuite_file(path: PathName, labels_required: bool) -> SequenceFile:
    data = read_crfsuite(path)
    return SequenceFile(data.X, data.y, "crfsuite", data, data.weights, {"format": "crfsuite"})


def _read_npz(path: PathName, labels_required: bool, *, names: Any = None) -> SequenceFile:
    arrays = read_arrays(path, names, label_required=labels_required)
    reading = {"format": "npz"} if names is None else {"format": "npz", "names": dict(names)}
    return SequenceFile(arrays.X, arrays.y, "npz", arrays, arrays.weights, reading)


def _read_csv(
    path: PathName, labels_required: bool, *, sequence: str | None = None, label: str | None = "label", **options: Any
) -> SequenceFile:
    if sequence is None:
        raise ValueError("format 'csv' needs sequence, the name of the column that tells sequences apart")
    table = read_table(path, sequence=sequence, label=label, label_required=labels_required, **options)
    reading = {"format": "csv", **options, "sequence": sequence, "label": label}
    reading |= {"features": list(table.kinds), "kinds": table.kinds}
    return SequenceFile(table.X, table.y, "csv", table, reading=reading)


_READERS: dict[str, tuple[Callable[..., SequenceFile], tuple[str, ...]]] = {
    "columns": (_read_column_file, ("separator", "comments", "label", "features", "template", "n_columns")),
    "conllu": (_read_conllu, ("label", "features", "template")),
    "crfsuite": (_read_crfsuite_file, ()),
    "npz": (_read_npz, ("names",)),
    "csv": (_read_csv, ("sequence", "label", "features", "kinds", "contiguous", "delimiter")),
}


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
    return names, [[[f"{p:.6f}" for p in table[:, place].tolist()] for table in tables] for place in range(len(names))]
