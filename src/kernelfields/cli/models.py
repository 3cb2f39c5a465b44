"""Models of the command: reading options of their files, the estimator of given settings, model files.

Files are read by ``formats.read_sequences``. The options for the training file are stored with the model, and used for
every other file. Column files without a template get the features of ``TextFeatures``.

Kernels are a name or a sum of names. Their parameters are numbers, each for every kernel of the sum that has it:

    --kernel rbf --gamma 0.1              RBF(gamma=0.1)
    --kernel linear+poly --degree 2       Linear() + Polynomial(degree=2)

A model file contains a ChainCRF or a SegmentCRF, with notes: reading options and settings of the run. The notes are an
additional entry of the model's document, so ``load`` of the class reads these files as well. A model of words,
or a pipeline of ``TextFeatures`` and a model, saved in Python, reads column files by the template of its features.

Raises ValueError for unknown labels and for settings that contradict the format or the kernel, SequenceFileError for
files of sequences, ModelFileError with the model file, OSError.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from kernelfields.cli import library
from kernelfields.cli.labels import collect_labels, join_labels
from kernelfields.cli.settings import SETTINGS, Parameters, RunSettings, from_document, to_document
from kernelfields.data.text_files import input_name
from kernelfields.features.templates import template_of_patterns
from kernelfields.features.text import TextFeatures, rebuild_transformer, text_patterns
from kernelfields.formats import (
    TEXT_FEATURES,
    ModelFileError,
    Reading,
    SequenceFile,
    Template,
    describe_reading,
    guess_format,
    read_sequences,
    rebuild_reading,
)
from kernelfields.models.model_text import COMMAND_NOTES, PIPELINE
from kernelfields.numerics.parameters import is_whole

#: A line of running text, and the (begin, end) of each of its words.
TextPlaces: TypeAlias = tuple[str, list[tuple[int, int]]]

if TYPE_CHECKING:
    Field: TypeAlias = library.ChainCRF | library.SegmentCRF

KERNEL_PARAMETERS = tuple(name for name, setting in SETTINGS.items() if setting.part == "kernel")
#: The settings that a format is read by.
_USED = {
    "columns": ("template", "columns", "label_column", "separator"),
    "conllu": ("template", "columns", "label_column"),
    "crfsuite": (),
    "csv": ("columns", "label_column", "sequence_column", "separator", "time_features"),
}
_SEPARATORS = {"tab": "\t", "space": " "}


def read_training_file(settings: RunSettings, option: str = "--format") -> SequenceFile:
    """Read the training file with the options in the settings; ``option`` is the name of the format option."""
    path = str(settings.train)
    file_format = guess_format(path, option) if settings.format == "auto" else settings.format
    file = read_sequences(
        path,
        file_format,
        unknown_label=settings.unknown_label,
        label_sets=settings.label_sets,
        **reading_options(settings, file_format, option),
    )
    if file.y is not None and not collect_labels(file.y):
        raise ValueError(f"{input_name(path)} holds no labels: every one is empty or {file.unknown_marks[0]}")
    if settings.standardize and not is_dense(file.X):
        raise ValueError("--standardize scales columns of numbers, and these inputs are names of features")
    return file


def reading_options(settings: RunSettings, file_format: str, option: str = "--format") -> Parameters:
    """Return the options of ``read_sequences`` in the settings; ``option`` is the name of the format option."""
    if file_format not in _USED:
        raise ValueError(f"{option} must be auto or one of {', '.join(_USED)}, got {file_format!r}")
    for name, value in settings.part("reading").items():
        if value is not None and name not in _USED[file_format]:
            raise ValueError(f"{SETTINGS[name].names[0]} has no meaning for files of format {file_format}")
    if settings.template is not None and settings.columns is not None:
        raise ValueError("--template names the columns to read, so --columns has no meaning beside it")
    options: Parameters = {}
    named = file_format == "csv"
    if settings.columns is not None:
        options["features"] = [name if named else _parse_column(name, "--columns") for name in settings.columns]
    if settings.label_column is not None:
        options["label"] = settings.label_column if named else _parse_column(settings.label_column, "--label-column")
    if settings.separator is not None:
        separator = settings.separator
        options |= {"delimiter": _SEPARATORS.get(separator, separator)} if named else {"separator": separator}
    if named:
        options["sequence"] = settings.sequence_column
    if settings.time_features is not None:
        options["time_features"] = settings.time_features
    if "template" in _USED[file_format]:
        options["template"] = TEXT_FEATURES if settings.template is None else _read_template(settings.template)
    return options


def _read_template(path: str) -> Template:
    """Return the template named in the settings."""
    template = Template.read(path)
    if template.observed_bigrams:
        line = template.observed_bigrams[0]
        raise ValueError(
            f"{template.name}, line {line.number}: {line.text!r} makes transitions depend on words, which "
            "templates cannot do here: write B alone, or use --edge-kernel linear"
        )
    return template


def get_template(reading: Reading) -> Template | None:
    """Return the template among the reading options of a column file; None for other formats."""
    template = reading.get("template")
    return template if isinstance(template, Template) else None


def has_transitions(reading: Reading) -> bool:
    """Whether labels depend on their neighbours; False if a template has no B line."""
    template = get_template(reading)
    return template is None or template.uses_label_bigrams


def is_dense(X: Sequence) -> bool:
    """Whether the inputs are arrays of numbers."""
    return isinstance(X[0], np.ndarray)


def _parse_column(text: str, option: str) -> int:
    """Parse the number of a column."""
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{option} counts columns from 0, -1 is the last: {text!r} is no number") from None


def check_labels(file: SequenceFile, classes: Iterable, path: str, advice: str) -> None:
    """Raise for a label unknown to the model, with its place and ``advice``."""
    known = list(classes)
    seen = set(known)
    for index, labels in enumerate(file.y or []):
        for position, entry in enumerate(labels):
            label = next((name for name in sorted(collect_labels([[entry]])) if name not in seen), None)
            if label is not None:
                raise ValueError(
                    f"{input_name(path)}, {file.place(index, position)}: the label {label} was never seen in training, "
                    f"where there are {join_labels(known)}; {advice}"
                )


def token_arguments(crf: Field, words: list[str] | None) -> Parameters:
    """Return the words of a sequence as keyword arguments of ``show`` and ``explain``; empty for segments."""
    return {"tokens": words} if isinstance(crf, library.ChainCRF) else {}


def build_kernel(text: str, parameters: Mapping[str, object], option: str = "--kernel") -> library.Kernel:
    """Return the kernel with a name; ``parameters`` equal to None have their defaults."""
    kernel = library.resolve_kernel(text)
    parts = kernel.summands
    for name, value in parameters.items():
        if value is None:
            continue
        takers = [part for part in parts if name in part.get_params(deep=False)]
        if not takers:
            raise ValueError(f"{SETTINGS[name].names[0]} has no meaning for {option} {text}")
        for part in takers:
            part.set_params(**{name: value})
    kernel.check_parameters()
    return kernel


def describe_kernel(kernel: library.Kernel) -> Parameters:
    """Return the settings of a kernel, or sum of kernels; rules such as gamma="scale" become None."""
    parts = kernel.summands
    parameters = reduce(lambda first, second: first | second, (part.get_params(deep=False) for part in parts))
    numbers = {name: parameters.get(name) for name in KERNEL_PARAMETERS}
    return {"kernel": " + ".join(part.kind for part in parts)} | {
        name: None if isinstance(value, str) else value for name, value in numbers.items()
    }


def build_estimator(settings: RunSettings, *, transitions: bool = True) -> Field:
    """Return the estimator defined by the settings; without edges if ``transitions`` is False."""
    nodes, edges, fit = _node_parameters(settings), _edge_parameters(settings), fit_parameters(settings)
    if settings.segments:
        del nodes["support"], nodes["l1"]
        return library.SegmentCRF(**nodes, edges=edges, **fit, **_segment_parameters(settings, transitions))
    if transitions:
        return library.ChainCRF(**nodes, edges=edges, **fit)
    if edges is not None:
        raise ValueError("the template has no B line, so there are no transitions: leave out the edge options")
    usual = {"prior_variance": 1.0, "kernel": "linear", "window": 1, "support": "all", "l1": 0.0}
    nodes |= {name: value for name, value in usual.items() if nodes[name] == "auto"}
    return library.ChainCRF(cliques=[library.NodeCliques(**nodes)], **fit)


def _segment_parameters(settings: RunSettings, transitions: bool) -> Parameters:
    """Return the parameters of segments; ValueError for contradictory settings."""
    if not transitions:
        raise ValueError("the template has no B line, and --segments has transitions between segments: add a line B")
    # Labels within a segment are equal, so that what may not follow itself cannot be forbidden there.
    name = None if settings.constraints is None else library.find_scheme(settings.constraints).name
    if name in ("bioes", "bilou"):
        raise ValueError(
            f"--constraints {name} forbids B-X after B-X, and a SegmentCRF may have both in one segment: "
            "write the labels as bio, or leave out --segments"
        )
    own: Parameters = {"repeats": bool(settings.repeats), "max_duration": settings.max_duration}
    if settings.duration_prior_variance is not None:
        own["durations"] = library.DurationCliques(prior_variance=settings.duration_prior_variance)
    return own


def _node_parameters(settings: RunSettings) -> Parameters:
    """Return the parameters of the clique set of single labels."""
    left_open = settings.kernel == "auto" and not any(settings.part("kernel").values())
    nodes = {name: "auto" if value is None else value for name, value in settings.part("nodes").items()}
    if least := nodes.pop("min_freq"):
        if nodes["support"] != "observed":
            raise ValueError("--min-freq counts observed pairs of features and labels: it needs --support observed")
        nodes["support"] = least
    return nodes | {
        "kernel": "auto" if left_open else build_kernel(settings.kernel, settings.part("kernel")),
        "window": _to_tuple(nodes["window"]),
        "rank": nodes["rank"] or None,
        "prior_variance": _to_tuple(nodes["prior_variance"]),
    }


def _edge_parameters(settings: RunSettings) -> library.EdgeCliques | None:
    """Return the clique set of transitions; None for the default."""
    kernel, variance = settings.edge_kernel, settings.edge_prior_variance
    if kernel is None and variance is None:
        return None
    return library.EdgeCliques(
        None if kernel is None else build_kernel(kernel, {}, "--edge-kernel"), prior_variance=variance
    )


def fit_parameters(settings: RunSettings) -> Parameters:
    """Return the parameters of the estimator except those of its clique sets."""
    parameters = settings.part("estimator")
    if settings.strict_labels:
        if settings.constraints is None:
            raise ValueError("--strict-labels is for --constraints: name a scheme, or leave it out")
        parameters["constraints"] = {"scheme": settings.constraints, "strict": True}
    scale = "auto" if settings.standardize is None else settings.standardize
    parameters["tol"] = "auto" if settings.tol is None else settings.tol
    return {**parameters, "scale": scale, "allowed": build_dictionary(settings)}


def build_dictionary(settings: RunSettings) -> library.LabelDictionary | None:
    """Return the label dictionary defined by the settings, or None."""
    feature, count = settings.allowed_by, settings.allowed_min_count
    if feature is None:
        if count is not None:
            raise ValueError("--allowed-min-count is for --allowed-by: name a feature, or leave it out")
        return None
    named = int(feature) if feature.isdecimal() else feature
    return library.LabelDictionary(named) if count is None else library.LabelDictionary(named, min_count=count)


def check_engine(settings: RunSettings) -> None:
    """Raise ValueError if the engine of the settings is not available."""
    try:
        library.resolve_engine(settings.engine)
    except (ImportError, RuntimeError) as error:
        raise ValueError(str(error)) from error


def _to_tuple(value: object) -> object:
    """Convert lists to tuples, recursively."""
    return tuple(value) if isinstance(value, list) else value


@dataclass
class TrainedModel:
    """A fitted estimator with the reading options and settings of its training run."""

    crf: Field
    reading: Reading
    settings: RunSettings
    checksums: dict[str, str]

    def read(self, path: str, **changes: object) -> SequenceFile:
        """Read a file of sequences with the options of the training file, replaced by ``changes`` that are not None."""
        changed = {name: value for name, value in changes.items() if value is not None}
        return read_sequences(path, **{**self.reading, **changed})

    def read_text(self, path: str) -> tuple[SequenceFile, list[TextPlaces]]:
        """Read plain text, one sequence per line; return words and their offsets by ``formats.tokenize``."""
        if self.reading["format"] != "columns":
            raise ValueError(
                f"--text is for models of words in column files, and this one reads files of format "
                f"{self.reading['format']}"
            )
        lines = [document for document in library.read_documents(path, "text") if document.words]
        sequences = [library.ColumnSequence([[word] for word in line.words]) for line in lines]
        if not sequences:
            raise ValueError(f"{input_name(path)} holds no words")
        columns = library.LabelledColumns(
            sequences, input_name(path), self.reading["label"], required=False, n_columns=self.reading.get("n_columns")
        )
        file = columns.file(self.reading.get("template"), self.reading.get("features"), dict(self.reading))
        return file, [(line.text, list(library.tokenize(line.text))) for line in lines]


def model_content(path: str | os.PathLike, crf: Field, reading: Reading, settings: RunSettings) -> bytes:
    """Return the bytes of a model file that is written to ``path``."""
    notes = {"reading": describe_reading(reading), "settings": to_document(settings, path)}
    kind, document = library.describe_stored(crf)
    return library.document_bytes(kind, {**document, COMMAND_NOTES: notes})


def load_model(path: str | os.PathLike, n_jobs: int | None = None) -> TrainedModel:
    """Load a model with its notes, or one of CRFsuite; ``n_jobs`` is for predictions."""
    kinds = library.kinds_by_name([library.ChainCRF, library.SegmentCRF])

    def rebuild(kind: type[library.ChainCRF | library.SegmentCRF], document: dict) -> TrainedModel:
        """Rebuild an estimator or pipeline with its notes."""
        if "features" in document:
            return rebuild_words_model(kind, document["features"], {**document, "features": []})
        if COMMAND_NOTES not in document and library.is_crfsuite_file(path):
            return TrainedModel(rebuild_estimator(kind, document), {"format": "crfsuite"}, RunSettings(), {})
        if COMMAND_NOTES not in document:
            raise ModelFileError(
                f"{path} was written by {kind.__name__}.save and has no notes on how its files are read: fit it to "
                "words, use it in Python, or train by the command"
            )
        notes = document[COMMAND_NOTES]
        settings, checksums = from_document(notes["settings"], path)
        return TrainedModel(rebuild_estimator(kind, document), rebuild_reading(notes["reading"]), settings, checksums)

    def rebuild_estimator(kind: type[library.ChainCRF | library.SegmentCRF], document: dict) -> Field:
        return library.rebuild_locally(kind, document).set_params(n_jobs=n_jobs, verbose=0)

    def rebuild_pipeline(document: dict) -> TrainedModel:
        """Rebuild a pipeline with its notes."""
        described = document["estimator"]
        kind = kinds.get(described["kind"])
        return rebuild_words_model(kind, document["steps"], described["document"])

    def rebuild_words_model(
        kind: type[library.ChainCRF | library.SegmentCRF] | None, steps: list[dict], document: dict
    ) -> TrainedModel:
        """Return the model of words inside a pipeline, with reading options."""
        first = rebuild_transformer(steps[0]["transformer"]) if len(steps) == 1 else None
        if kind is None or not isinstance(first, TextFeatures):
            raise ModelFileError(
                f"{path} has features that the command cannot use: it takes TextFeatures and a ChainCRF or SegmentCRF"
            )
        return TrainedModel(rebuild_estimator(kind, document), make_word_reading(first), RunSettings(), {})

    readers: dict[str, Callable[[dict], TrainedModel]] = {PIPELINE: rebuild_pipeline}
    readers |= {name: partial(rebuild, kind) for name, kind in kinds.items()}
    return library.read_any_document(path, readers)


def make_word_reading(features: TextFeatures) -> Reading:
    """Return options for reading column files as words, with labels in the second column."""
    rest = features.tag_columns == "rest"
    tags = list(range(1, 1 + getattr(features, "n_tags_", 0))) if rest else list(features.tag_columns)
    columns = [features.word_column, *tags]
    if rest and features.word_column != 0:
        raise ValueError("its words are not in the first column, and its tags are the rest: name them by tag_columns")
    if not all(is_whole(column) and column >= 0 for column in columns):
        raise ValueError(f"it names its columns {', '.join(map(repr, columns))}, and columns of files have numbers")
    options: Parameters = {
        name: own for name, own in features.get_params().items() if not name.endswith(("_column", "_columns"))
    }
    template = template_of_patterns(text_patterns(columns[0], columns[1:], **options))
    label = max(columns) + 1
    return {"format": "columns", "label": label, "n_columns": label + 1, "template": template}
