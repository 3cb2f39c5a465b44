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
many columns the file must have; where labels are not required, their column and those after may be missing.
``template="text"`` makes a template: the first column is read as words, with the features of ``TextFeatures``, or as
symbols where it holds single characters alone; the others but that of the labels are tags. CSV: ``sequence`` is the
name of the column of sequence ids, ``label`` that of the labels ("label"). The other options are those of
read_columns, read_arrays and read_table. Of every format, labels may be partly known:

    the     DET
    run     ?              unknown_label="?"     nothing is known: the label is None
    cat     NOUN|VERB      label_sets="|"        one of these: the label is the set of them

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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import Parameter, signature
from typing import Any, TypeAlias

import numpy as np

from kernelfields.formats.column_files import ColumnSequence, LabelledColumns, read_columns, write_columns
from kernelfields.formats.crfsuite_text import CRFsuiteData, read_crfsuite, write_crfsuite, write_crfsuite_labels
from kernelfields.formats.sequence_arrays import SequenceArrays, read_arrays, write_archive, write_arrays
from kernelfields.formats.sequence_tables import SequenceTable, read_table, write_table
from kernelfields.formats.templates import Template, text_template
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
#: The option of a column file that makes its features those of text.
TEXT_FEATURES = "text"
#: Options of ``read_sequences`` by name, which it checks itself.
Reading: TypeAlias = dict[str, Any]
#: Options that a description may hold, and the types of their values.
_DESCRIBED: dict[str, type | tuple[type, ...]] = {
    "format": str,
    "separator": str,
    "comments": bool,
    "label": (str, int, type(None)),
    "n_columns": int,
    "features": list,
    "template": str,
    "names": dict,
    "sequence": str,
    "kinds": dict,
    "contiguous": bool,
    "delimiter": str,
    "unknown_label": str,
    "label_sets": str,
}


@dataclass(frozen=True, eq=False)
class SequenceFile:
    """Sequences X, their labels y and weights (S,), or None where the file has none, and where they came from.

    ``reading`` holds the options that read another file the same way: ``read_sequences(other, **file.reading)``.
    ``source`` is what the reader of the format returned, for write_predictions.
    """

    X: list
    y: list | None
    format: str
    source: list[ColumnSequence] | CRFsuiteData | SequenceTable | SequenceArrays = field(repr=False)
    weights: np.ndarray | None = None
    reading: Reading = field(default_factory=dict)

    def place(self, sequence: int, position: int) -> str:
        """Return where the label of a position stands: line and column in texts, sequence and position in arrays."""
        source, label = self.source, self.reading.get("label")
        if isinstance(source, SequenceTable):
            return f"line {source.line_of(sequence, position)}, column {label!r}"
        if isinstance(source, CRFsuiteData):
            return f"line {source.first_lines[sequence] + position}, column 0"
        if isinstance(source, SequenceArrays):
            return f"sequence {sequence}, position {position}"
        return f"line {source[sequence].lines[position]}, column {label} (from 0)"

    @property
    def words(self) -> list[list[str] | None]:
        """What people call the positions of each sequence: the words of column files, else None."""
        if not isinstance(self.source, list):
            return [None] * len(self.X)
        column = _FORM if self.format == "conllu" else 0
        return [[row[column] for row in sequence.rows] for sequence in self.source]


def format_of(path: PathName, option: str = "format") -> str:
    """Return the format that a file's name stands for; ``option`` is where else users can name it."""
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
    unknown_label: str | None = None,
    label_sets: str | None = None,
    **options: Any,
) -> SequenceFile:
    """Read a file of sequences; "-" is standard input. The options of the formats are listed above.

    Parameters
    ----------
    labels_required : with False, y is None where the file has no labels, instead of an error
    unknown_label : how the file writes a label that is not known
    label_sets : what stands between labels of which one is right
    """
    kind = format_of(path) if format == "auto" else format
    if kind not in _READERS:
        raise ValueError(f"format must be 'auto' or one of {', '.join(map(repr, _READERS))}, got {format!r}")
    _check_marks(unknown_label, label_sets)
    allowed = [
        each.name for each in signature(_READERS[kind]).parameters.values() if each.kind is Parameter.KEYWORD_ONLY
    ]
    if strange := [name for name in options if name not in allowed]:
        takes = f"takes {', '.join(allowed)}" if allowed else "takes no options"
        raise ValueError(f"format {kind!r} {takes}, got {strange[0]}")
    found = _READERS[kind](path, labels_required, **options)
    if not found.X:
        raise SequenceFileError(f"{input_name(path)} holds no sequences")
    unlabelled = "label" in options and options["label"] is None
    if labels_required and found.y is None and not unlabelled:
        raise SequenceFileError(f"{input_name(path)} holds no labels")
    marks = {"unknown_label": unknown_label, "label_sets": label_sets}
    reading = {"format": kind, **found.reading, **{name: mark for name, mark in marks.items() if mark is not None}}
    return replace(found, y=partial_labels(found.y, unknown_label, label_sets), format=kind, reading=reading)


def partial_labels(y: list | None, unknown_label: str | None, label_sets: str | None) -> list | None:
    """Return labels as estimators take them: None for unknown ones, sets of those of which one is right."""
    _check_marks(unknown_label, label_sets)
    if y is None or (unknown_label is None and label_sets is None):
        return y

    def entry(label: object) -> object:
        if str(label) == unknown_label:
            return None
        if label_sets is None or not isinstance(label, str) or label_sets not in label:
            return label
        parts = label.split(label_sets)
        if "" in parts or unknown_label in parts:
            raise ValueError(f"the set of labels {label!r} names one that is empty or unknown: leave it out")
        return set(parts)

    return [[entry(label) for label in labels] for labels in y]


def _check_marks(unknown_label: str | None, label_sets: str | None) -> None:
    for value, option, example in ((unknown_label, "--unknown-label", "?"), (label_sets, "--label-sets", "|")):
        if value is not None and not value.strip():
            raise ValueError(f"{option} must be a text that is not empty, such as {example}")
    if unknown_label is not None and label_sets is not None and label_sets in unknown_label:
        raise ValueError(f"--unknown-label {unknown_label} holds --label-sets {label_sets}: they cannot be told apart")


def describe_reading(reading: Reading) -> dict[str, object]:
    """Return the options of ``SequenceFile.reading`` as plain values for a model file: a template is its text."""
    return {name: value.text if isinstance(value, Template) else value for name, value in reading.items()}


def rebuild_reading(described: Mapping[str, object]) -> Reading:
    """Return the options that were described; ValueError for what is no option of reading a file."""
    for name, value in described.items():
        if name not in _DESCRIBED or not isinstance(value, _DESCRIBED[name]):
            raise ValueError(f"its files are read with {name}={value!r}, which has no meaning")
    if described.get("format") == "columns" and isinstance(described.get("label"), str):
        raise ValueError(f"its files have labels in column {described['label']!r}, and columns without names")
    template = described.get("template")
    if template is None:
        return dict(described)
    return {**described, "template": Template.parse(str(template), "the model's template")}


def write_sequences(
    path: PathName,
    X: Sequence,
    y: Sequence | None = None,
    weights: Sequence[float] | np.ndarray | None = None,
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
    template: Template | str | None = None,
    n_columns: int | None = None,
) -> SequenceFile:
    sequences = list(read_columns(path, separator=separator, comments=comments))
    columns = LabelledColumns(sequences, input_name(path), label, labels_required, n_columns)
    reading: Reading = {"separator": separator, "comments": comments}
    reading |= {"label": label if columns.label is None else columns.label, "n_columns": columns.n_columns}
    return _of_columns(columns, features, template, reading)


def _read_conllu(
    path: PathName,
    labels_required: bool,
    *,
    label: int | None = _UPOS,
    features: Sequence[int] | None = None,
    template: Template | str | None = None,
) -> SequenceFile:
    columns = LabelledColumns(list(read_columns(path, conllu=True)), input_name(path), label, labels_required)
    file = _of_columns(columns, features or [_FORM], template, {"label": label})
    unlabelled = all(label == _UNSPECIFIED for labels in file.y or () for label in labels)
    return replace(file, y=None) if unlabelled else file


def _of_columns(
    columns: LabelledColumns, features: Sequence[int] | None, template: Template | str | None, reading: Reading
) -> SequenceFile:
    """Return the sequences of columns with the strings of a template, or else feature dicts."""
    if isinstance(template, str):
        if template != TEXT_FEATURES:
            raise ValueError(f"template must be a Template, {TEXT_FEATURES!r} or None, got {template!r}")
        rows = [sequence.rows for sequence in columns.sequences]
        template = text_template(rows, columns.chosen(features)) if rows else None
    if template is not None:
        reading["template"] = template
    if features is not None:
        reading["features"] = list(features)
    return SequenceFile(columns.inputs(template, features), columns.labels(), "", columns.sequences, None, reading)


def _read_crfsuite_file(path: PathName, labels_required: bool) -> SequenceFile:
    data = read_crfsuite(path)
    return SequenceFile(data.X, data.y, "", data, data.weights)


def _read_npz(
    path: PathName, labels_required: bool, *, names: Mapping[str, str | Sequence[str]] | None = None
) -> SequenceFile:
    arrays = read_arrays(path, names, label_required=labels_required)
    reading: Reading = {} if names is None else {"names": dict(names)}
    return SequenceFile(arrays.X, arrays.y, "", arrays, arrays.weights, reading)


def _read_csv(
    path: PathName,
    labels_required: bool,
    *,
    sequence: str | None = None,
    label: str | None = "label",
    features: Sequence[str] | None = None,
    kinds: Mapping[str, str] | None = None,
    contiguous: bool = True,
    delimiter: str = ",",
) -> SequenceFile:
    if sequence is None:
        raise ValueError("format 'csv' needs sequence, the name of the column that tells sequences apart")
    names: Reading = {"sequence": sequence, "label": label, "contiguous": contiguous, "delimiter": delimiter}
    table = read_table(path, **names, label_required=labels_required, features=features, kinds=kinds)
    reading = {**names, "features": list(table.kinds), "kinds": table.kinds}
    return SequenceFile(table.X, table.y, "", table, None, reading)


_READERS: dict[str, Callable[..., SequenceFile]] = {
    "columns": _read_column_file,
    "conllu": _read_conllu,
    "crfsuite": _read_crfsuite_file,
    "npz": _read_npz,
    "csv": _read_csv,
}


def write_predictions(
    path: PathName,
    file: SequenceFile,
    labels: Sequence,
    marginals: Sequence | None = None,
    classes: Sequence | np.ndarray | None = None,
) -> None:
    """Write predicted labels beside what was read; "-" is standard output.

    ``labels`` holds one label per position of every sequence; ``marginals``, if given, probabilities of the
    predicted labels, (T,) for every sequence, or of all ``classes`` (L,), (T, L).
    """
    labels = [np.asarray(sequence) for sequence in labels]
    marginals = None if marginals is None else [np.asarray(sequence) for sequence in marginals]
    _check(file, labels, marginals, classes)
    source = file.source
    if isinstance(source, SequenceArrays):
        arrays = {"offsets": source.offsets, _PREDICTED: np.concatenate(labels)}
        if marginals is not None:
            arrays["marginals"] = np.concatenate(marginals)
        if classes is not None:
            arrays["classes"] = np.asarray(classes)
        write_archive(path, arrays)
        return
    texts = [[str(label) for label in sequence.tolist()] for sequence in labels]
    names, numbers = _probabilities(marginals, classes)
    if isinstance(source, SequenceTable):
        heads = [_PROBABILITY if name is None else f"p({name})" for name in names]
        write_table(path, source, {_PREDICTED: texts} | dict(zip(heads, numbers, strict=True)))
        return
    columns = [texts]
    for name, column in zip(names, numbers, strict=True):
        head = "" if name is None else f"{name}/"
        columns.append([[head + number for number in sequence] for sequence in column])
    if isinstance(source, CRFsuiteData):
        columns.insert(0, source.y)
    cells = [list(zip(*parts, strict=True)) for parts in zip(*columns, strict=True)]
    if isinstance(source, CRFsuiteData):
        write_crfsuite_labels(path, cells)
    else:
        write_columns(path, source, cells)


def _check(file: SequenceFile, labels: list, marginals: Sequence | None, classes: Sequence | np.ndarray | None) -> None:
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


def _probabilities(
    marginals: Sequence | None, classes: Sequence | np.ndarray | None
) -> tuple[list, list[list[list[str]]]]:
    """Return the names of columns of probabilities, None for that of the predicted label, and their cells."""
    if marginals is None:
        return [], []
    names = [None] if classes is None else list(classes)
    tables = [np.reshape(sequence, (len(sequence), len(names))) for sequence in marginals]
    return names, [[[f"{p:.6f}" for p in table[:, place].tolist()] for table in tables] for place in range(len(names))]
