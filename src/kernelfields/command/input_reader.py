"""How a model reads its files: learnt from the training file, kept with the model, used for every other file.

A reader is the options of the file's format, a template for column files, and a scaling of numbers where wanted.
Column files without a template get one: every column but that of the labels, at -1, 0 and 1, and transitions.
Fails: ValueError for options that do not fit the format, SequenceFileError for files that do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kernelfields.command.run_settings import RunSettings
from kernelfields.formats import SequenceFile, Template, format_of, read_sequences

#: Which settings say how a format is read.
_USED = {
    "columns": ("template", "columns", "label_column", "separator"),
    "conllu": ("template", "columns", "label_column"),
    "crfsuite": (),
    "npz": ("arrays",),
    "csv": ("columns", "label_column", "sequence_column", "separator"),
}
_OPTIONS = {
    "template": "--template",
    "columns": "--columns",
    "label_column": "--label-column",
    "sequence_column": "--sequence-column",
    "separator": "--separator",
    "arrays": "--array",
}
_SEPARATORS = {"tab": "\t", "space": " "}
_NEAR = (-1, 0, 1)


@dataclass(frozen=True)
class Scaling:
    """(x - mean) / deviation of every column, as they were in training."""

    mean: np.ndarray
    deviation: np.ndarray

    @classmethod
    def of(cls, X: Sequence[np.ndarray]) -> Scaling:
        """Learn the scaling from training inputs; columns that never change are only centred."""
        stacked = np.concatenate([np.asarray(x, dtype=np.float64) for x in X])
        deviation = stacked.std(axis=0)
        return cls(stacked.mean(axis=0), np.where(deviation > 0, deviation, 1.0))

    def apply(self, X: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return scaled inputs."""
        return [(x - self.mean) / self.deviation for x in X]


@dataclass(frozen=True)
class InputReader:
    """Reads files as the training file was read."""

    reading: dict[str, Any]
    template: Template | None = None
    scaling: Scaling | None = None

    @property
    def has_transitions(self) -> bool:
        """Whether labels depend on their neighbours: a template without a B line says that they do not."""
        return self.template is None or self.template.uses_label_bigrams

    def read(self, path: str, *, labels_required: bool = True) -> SequenceFile:
        """Read a file of labelled sequences, or of sequences alone."""
        options = self.reading if self.template is None else {**self.reading, "template": self.template}
        file = read_sequences(path, labels_required=labels_required, **options)
        return self._scaled(file)

    def _scaled(self, file: SequenceFile) -> SequenceFile:
        if self.scaling is None:
            return file
        width = len(self.scaling.mean)
        if file.X[0].shape[1:] != (width,):
            raise ValueError(f"the inputs have {file.X[0].shape[1]} columns, the model was trained on {width}")
        return replace(file, X=self.scaling.apply(file.X))

    def to_document(self) -> dict[str, Any]:
        """Return plain values and arrays for a model file."""
        scaling = None if self.scaling is None else vars(self.scaling)
        template = None if self.template is None else self.template.text
        return {"reading": self.reading, "template": template, "scaling": scaling}

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> InputReader:
        """Return the reader that ``to_document`` described."""
        template, scaling = document["template"], document["scaling"]
        return cls(
            dict(document["reading"]),
            None if template is None else Template.parse(template, "the model's template"),
            None if scaling is None else Scaling(**scaling),
        )


def read_training_file(settings: RunSettings) -> tuple[InputReader, SequenceFile]:
    """Read the training file as the settings say; return how to read others, and what was read."""
    path = str(settings.train)
    file_format = format_of(path) if settings.format == "auto" else settings.format
    template = None if settings.template is None else Template.read(settings.template)
    options = reading_options(settings, file_format)
    if template is not None:
        options["template"] = template
        if template.observed_bigrams:
            line = template.observed_bigrams[0]
            raise ValueError(
                f"{template.name}, line {line.number}: {line.text!r} makes transitions depend on words, which "
                "templates cannot do here: write B alone, or use --edge-kernel linear"
            )
    file = read_sequences(path, file_format, **options)
    reading = dict(file.reading)
    if template is None and file.format in ("columns", "conllu"):
        template = default_template(reading)
        file = replace(file, X=[template.features(sequence.rows) for sequence in file.source])
    reader = InputReader(reading, template)
    if settings.standardize:
        if not is_dense(file.X):
            raise ValueError("--standardize scales columns of numbers, and these inputs are names of features")
        reader = replace(reader, scaling=Scaling.of(file.X))
    return reader, reader._scaled(file)


def reading_options(settings: RunSettings, file_format: str) -> dict[str, Any]:
    """Return the settings as options of ``read_sequences``, all but the template."""
    if file_format not in _USED:
        raise ValueError(f"--format must be auto or one of {', '.join(_USED)}, got {file_format!r}")
    for name, option in _OPTIONS.items():
        if getattr(settings, name) is not None and name not in _USED[file_format]:
            raise ValueError(f"{option} has no meaning for files of format {file_format}")
    if settings.template is not None and settings.columns is not None:
        raise ValueError("--template says which columns to read, so --columns has no meaning beside it")
    options: dict[str, Any] = {}
    named = file_format == "csv"
    if settings.columns is not None:
        options["features"] = [name if named else _number(name, "--columns") for name in settings.columns]
    if settings.label_column is not None:
        options["label"] = settings.label_column if named else _number(settings.label_column, "--label-column")
    if settings.separator is not None:
        separator = settings.separator
        options |= {"delimiter": _SEPARATORS.get(separator, separator)} if named else {"separator": separator}
    if named:
        if settings.sequence_column is None:
            raise ValueError("CSV files need --sequence-column, the column that tells sequences apart")
        options["sequence"] = settings.sequence_column
    if settings.arrays is not None:
        options["names"] = dict(_array_name(text) for text in settings.arrays)
    return options


def default_template(reading: dict[str, Any]) -> Template:
    """Return the template of column files that come without one."""
    columns = reading.get("features")
    if columns is None:
        columns = [column for column in range(reading["n_columns"]) if column != reading["label"]]
    cells = [(row, column) for column in columns for row in _NEAR]
    lines = [f"U{number:02d}:%x[{row},{column}]" for number, (row, column) in enumerate(cells)]
    return Template.parse("\n".join([*lines, "B", ""]), "the default template")


def is_dense(X: Sequence[Any]) -> bool:
    """Whether sequences are arrays of numbers, not names of features and not sparse."""
    return isinstance(X[0], np.ndarray)


def _number(text: str, option: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{option} counts columns from 0, -1 is the last: {text!r} is no number") from None


def _array_name(text: str) -> tuple[str, Any]:
    role, equals, names = text.partition("=")
    if not (role and equals and names):
        raise ValueError(f"--array takes ROLE=NAME, such as X=pixels, got {text!r}")
    several = names.split(",")
    return role, several if len(several) > 1 else names
