"""Files of labelled sequences in every format, and predictions written to them.

    format      by the end of the name (.gz aside)         X                          options
    columns     .tsv .conll .iob .bio .txt .data, "-"      strings by a template,     separator, label, features,
                                                           or dicts {"0": cell}       template, n_columns
    conllu      .conllu                                    the same, from words       label, features, template
    crfsuite    .crfsuite .crfs                            strings, or dicts
    csv         .csv                                       arrays, or dicts           sequence, label, features,
                                                                                      kinds, delimiter

Column files: ``label`` is the number of the label's column (-1: the last; CoNLL-U: 3, UPOS) or None, ``features``
the numbers of the columns in feature dicts without a template (CoNLL-U: 1, the form), ``n_columns`` the required
number of columns; if labels are optional, their column and those behind may be missing. ``template="text"`` makes a
template: the first column has words, with the features of ``TextFeatures``, or symbols if all its cells are single
characters; the other columns except the labels are tags. CSV: ``sequence`` is the
name of the column of sequence ids, ``label`` that of the labels ("label"). The other options are those of
read_columns and read_table. In every format, labels may be partly known (label_marks.py): "?" and an
empty label are None, and in CoNLL-U "_"; with ``label_sets="|"``, NOUN|VERB is the set of both.

Predicted labels and probabilities are written in the same format, behind the original content:

    columns, conllu   cells after those of the row: label, then 0.970000 or B-NP/0.970000 I-NP/0.010000 ...
    crfsuite          a line per position: label read, label predicted, probabilities as above
    csv               columns after those of the table: predicted, then probability or p(B-NP), p(I-NP), ...

Raises SequenceFileError with the file and, in text, the line; ValueError for incompatible options, and for predictions
of other lengths.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from inspect import Parameter, signature

import numpy as np

from kernelfields.data.text_files import PathName, SequenceFileError, input_name
from kernelfields.features.templates import Template
from kernelfields.formats.column_files import read_column_file, read_conllu
from kernelfields.formats.crfsuite_text import read_crfsuite, write_crfsuite
from kernelfields.formats.label_marks import LONGEST_LABEL, check_label, check_marks, label_texts, partial_labels
from kernelfields.formats.sequence_file import Predictions, Reading, SequenceFile
from kernelfields.formats.sequence_tables import read_header, read_table

_ENDINGS = {
    "columns": ("", ".tsv", ".conll", ".iob", ".bio", ".txt", ".data"),
    "conllu": (".conllu",),
    "crfsuite": (".crfsuite", ".crfs"),
    "csv": (".csv",),
}
_REQUIRED = "labels_required"
# Options of older model files, which had one value in all of them.
_FORMER = ("comments", "contiguous")
#: Options that a description may hold, and the types of their values.
_DESCRIBED: dict[str, type | tuple[type, ...]] = {
    "format": str,
    "separator": str,
    "label": (str, int, type(None)),
    "n_columns": int,
    "features": list,
    "template": str,
    "sequence": str,
    "kinds": dict,
    "delimiter": str,
    "time": str,
    "time_features": list,
    "unknown_label": str,
    "label_sets": str,
}


_READERS: dict[str, Callable[..., SequenceFile]] = {
    "columns": read_column_file,
    "conllu": read_conllu,
    "crfsuite": read_crfsuite,
    "csv": read_table,
}


def guess_format(path: PathName, option: str = "format") -> str:
    """Guess the format of a file from its name.

    Parameters
    ----------
    path : str or path
        The name.
    option : str, default "format"
        Where else users can name the format; for messages.

    Returns
    -------
    str
        The format.

    Examples
    --------
    >>> from kernelfields.formats import guess_format
    >>> guess_format("train.tsv")
    'columns'
    """
    name = os.path.basename(os.fspath(path)).lower().removesuffix(".gz")
    ending = os.path.splitext(name)[1]
    for known, endings in _ENDINGS.items():
        if ending in endings:
            return known
    choices = ", ".join(map(repr, _ENDINGS))
    raise ValueError(f"the name {os.fspath(path)!r} does not show the format: give {option}, one of {choices}")


def read_sequences(
    path: PathName,
    format: str = "auto",  # noqa: A002
    *,
    labels_required: bool = True,
    unknown_label: str | None = None,
    label_sets: str | None = None,
    **options: object,
) -> SequenceFile:
    r"""Read a file of sequences with their labels.

    Parameters
    ----------
    path : str or path
        The file; "-" is standard input, gzip is unpacked.
    format : str, default "auto"
        The format; "auto" goes by the end of the name.
    labels_required : bool, default True
        Whether a file without labels is an error; else its y is None.
    unknown_label : str, optional
        How the file writes a label that is not known, in the place of "?" ("_" in CoNLL-U).
    label_sets : str, optional
        What stands between labels of which one is right.
    **options : dict
        Options of the format; see the user guide.

    Returns
    -------
    SequenceFile
        Inputs X, labels y and weights.

    Raises
    ------
    SequenceFileError
        If the file is damaged; the message has the line.

    Examples
    --------
    >>> from pathlib import Path
    >>> from kernelfields.formats import read_sequences
    >>> n = Path("train.tsv").write_text("Ann\tNNP\tB-PER\nlives\tVBZ\tO\n\nBob\tNNP\tB-PER\n")
    >>> read_sequences("train.tsv").y
    [['B-PER', 'O'], ['B-PER']]
    """
    kind = guess_format(path) if format == "auto" else format
    if kind not in _READERS:
        raise ValueError(f"format must be 'auto' or one of {', '.join(map(repr, _READERS))}, got {format!r}")
    check_marks(unknown_label, label_sets)  # before the file is read
    parameters = signature(_READERS[kind]).parameters.values()
    known = [each.name for each in parameters if each.kind is Parameter.KEYWORD_ONLY and each.name != _REQUIRED]
    if strange := [name for name in options if name not in known]:
        takes = f"takes {', '.join(known)}" if known else "takes no options"
        raise ValueError(f"format {kind!r} {takes}, got {strange[0]}")
    if kind == "csv":
        if options.get("sequence") is None:
            there = ", ".join(map(repr, read_header(path, str(options.get("delimiter") or ","))))
            raise ValueError(
                "CSV files need --sequence-column NAME, in Python sequence=NAME, the column that separates sequences: "
                f"{input_name(path)} has the columns {there}"
            )
        options = {"label": "label", **options}
    found = _READERS[kind](path, labels_required=labels_required, **options)
    if not found.X:
        raise SequenceFileError(f"{input_name(path)} holds no sequences")
    unlabelled = "label" in options and options["label"] is None
    if labels_required and found.y is None and not unlabelled:
        raise SequenceFileError(f"{input_name(path)} holds no labels")
    for index, labels in enumerate(found.y or ()):
        for position in [place for place, label in enumerate(labels) if len(str(label)) > LONGEST_LABEL]:
            check_label(str(labels[position]), f"{input_name(path)}, {found.place(index, position)}")
    marks = {"unknown_label": unknown_label, "label_sets": label_sets}
    reading = found.reading | {name: mark for name, mark in marks.items() if mark is not None}
    return replace(found, y=partial_labels(found.y, unknown_label, label_sets, kind), reading=reading)


def describe_reading(reading: Reading) -> dict[str, object]:
    """Convert the options in ``SequenceFile.reading`` to plain values for a model file.

    Parameters
    ----------
    reading : dict
        The options.

    Returns
    -------
    dict
        Plain values; a template is its text.

    Examples
    --------
    >>> from kernelfields.formats import Template, describe_reading
    >>> describe_reading({"template": Template.parse("U0:%x[0,0]")})["template"]
    'U0:%x[0,0]'
    """
    return {name: value.text if isinstance(value, Template) else value for name, value in reading.items()}


def rebuild_reading(described: Mapping[str, object]) -> Reading:
    """Restore reading options from their description.

    Parameters
    ----------
    described : dict
        What :func:`describe_reading` returned.

    Returns
    -------
    dict
        The options.

    Raises
    ------
    ValueError
        If one is no option of reading a file.

    Examples
    --------
    >>> from kernelfields.formats import rebuild_reading
    >>> rebuild_reading({"label": -1})
    {'label': -1}
    """
    described = {name: value for name, value in described.items() if name not in _FORMER}
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
    """Write sequences of feature dicts, feature strings or arrays as CRFsuite's text.

    Parameters
    ----------
    path : str or path
        The file; "-" is standard output.
    X : list of sequences
        The inputs.
    y : list of sequences, optional
        The labels; those that are not known are written as "?".
    weights : array (S,), optional
        A weight for each sequence.
    format : str, default "auto"
        The format; "auto" goes by the end of the name.

    Examples
    --------
    >>> from kernelfields.formats import read_sequences, write_sequences
    >>> write_sequences("data.crfsuite", [[["upper"], ["lower"]]], [["B-PER", None]])
    >>> read_sequences("data.crfsuite").y
    [['B-PER', None]]
    """
    kind = guess_format(path) if format == "auto" else format
    if kind != "crfsuite":
        raise ValueError(f"sequences can be written as 'crfsuite', not as {kind!r}")
    if y is None:
        raise ValueError("CRFsuite's text format has no place for sequences without labels")
    write_crfsuite(path, X, label_texts(y), weights)


def write_predictions(
    path: PathName,
    file: SequenceFile,
    labels: Sequence,
    marginals: Sequence | None = None,
    classes: Sequence | np.ndarray | None = None,
) -> None:
    r"""Write a file with predicted labels.

    Parameters
    ----------
    path : str or path
        The file; "-" is standard output.
    file : SequenceFile
        What was read.
    labels : list of sequences
        A label for each position.
    marginals : list of arrays, optional
        Probabilities of the predicted labels, (T,) for every sequence, or of all classes, (T, L).
    classes : list, optional
        The classes, in the order of the columns of ``marginals``.

    Examples
    --------
    >>> from pathlib import Path
    >>> from kernelfields.formats import read_sequences, write_predictions
    >>> n = Path("test.tsv").write_text("Ann\tNNP\tO\nlives\tVBZ\tO\n")
    >>> write_predictions("out.tsv", read_sequences("test.tsv"), [["B-PER", "O"]])
    >>> Path("out.tsv").read_text()
    'Ann\tNNP\tO\tB-PER\nlives\tVBZ\tO\tO\n\n'
    """
    tables = None if marginals is None else [np.asarray(sequence) for sequence in marginals]
    predictions = Predictions([np.asarray(sequence) for sequence in labels], tables, classes)
    predictions.check(file.lengths)
    file.write_predictions(path, predictions)
