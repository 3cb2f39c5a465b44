"""Models of the command: how their files are read, the estimator that settings describe, model files.

A reader is the options of the file's format, a template for column files, and a scaling of numbers where wanted.
It is learnt from the training file, kept with the model, and used for every other file. Column files without a
template get one: the first column is read as words, with the features of ``TextFeatures``, or as symbols where it has
single characters alone; the others but that of the labels are tags, and there are transitions.

Kernels are a name or a sum of names. Their parameters are numbers, each for every kernel of the sum that has it:

    --kernel rbf --gamma 0.1              RBF(gamma=0.1)
    --kernel linear+poly --degree 2       Linear() + Polynomial(degree=2)

A model file holds a ChainCRF or a SegmentCRF with notes on how its files are read and what it was trained by. The
notes are one more entry of the model's document, so ``load`` of the class reads these files as well.

Fails: ValueError for unknown labels and for settings that do not fit the format or the kernel, SequenceFileError
for files of sequences, ModelFileError naming the model file, OSError.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelfields.cli.labels import LabelMarks, labels_named
from kernelfields.cli.settings import SETTINGS, RunSettings, from_document, to_document
from kernelfields.features.text import symbol_patterns, text_patterns
from kernelfields.formats import ModelFileError, SequenceFile, Template, format_of, read_sequences
from kernelfields.formats.text_files import input_name

if TYPE_CHECKING:
    from kernelfields import ChainCRF, LabelDictionary, SegmentCRF

KERNEL_PARAMETERS = tuple(name for name, setting in SETTINGS.items() if setting.part == "kernel")
#: Which settings say how a format is read.
_USED = {
    "columns": ("template", "columns", "label_column", "separator"),
    "conllu": ("template", "columns", "label_column"),
    "crfsuite": (),
    "npz": ("arrays",),
    "csv": ("columns", "label_column", "sequence_column", "separator"),
}
#: Options of ``read_sequences`` that model files keep, and of what types.
_READING: dict[str, Any] = {
    "format": str,
    "separator": str,
    "comments": bool,
    "label": str | int | None,
    "n_columns": int,
    "features": list,
    "names": dict,
    "sequence": str,
    "kinds": dict,
    "contiguous": bool,
    "delimiter": str,
}
_SEPARATORS = {"tab": "\t", "space": " "}
_LABELS_SHOWN = 10
#: Symbols that a column may have to be seen widely: letters of all alphabets are words of a text by characters.
_LARGEST_ALPHABET, _SYMBOL_WINDOW = 64, 7
_LEAST_MEMORY = 10_000
_NOTES = "command"


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

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Scaling:
        """Return the scaling that a model file holds."""
        from kernelfields.models.stored_values import finite_array

        mean = finite_array(document["mean"], "the means of the columns", (None,))
        deviation = finite_array(document["deviation"], "the deviations of the columns", mean.shape)
        if not (deviation > 0).all():
            raise ValueError("the deviations of the columns must be positive")
        return cls(mean, deviation)

    def apply(self, X: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return scaled inputs."""
        return [(x - self.mean) / self.deviation for x in X]


@dataclass(frozen=True)
class InputReader:
    """Reads files as the training file was read."""

    reading: dict[str, Any]
    template: Template | None = None
    scaling: Scaling | None = None
    marks: LabelMarks = field(default_factory=LabelMarks)

    @property
    def has_transitions(self) -> bool:
        """Whether labels depend on their neighbours: a template without a B line says that they do not."""
        return self.template is None or self.template.uses_label_bigrams

    def read(
        self,
        path: str,
        *,
        labels_required: bool = True,
        unknown_label: str | None = None,
        label_sets: str | None = None,
        partly: bool = False,
    ) -> SequenceFile:
        """Read a file of labelled sequences, or of sequences alone.

        ``unknown_label`` and ``label_sets`` take the place of the model's own marks; with ``partly`` labels may be
        unknown whatever the model was trained on.
        """
        options = self.reading if self.template is None else {**self.reading, "template": self.template}
        file = read_sequences(path, labels_required=labels_required, **options)
        marks = self.marks.or_else(unknown_label, label_sets)
        marks = marks.or_usual(file.format) if partly else marks
        return self._scaled(replace(file, y=marks.read(file.y)))

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
        document = {"reading": self.reading, "template": template, "scaling": scaling}
        return document if self.marks == LabelMarks() else {**document, "marks": vars(self.marks)}

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> InputReader:
        """Return the reader that ``to_document`` described."""
        template, scaling, reading = document["template"], document["scaling"], dict(document["reading"])
        for name, value in reading.items():
            if name not in _READING or not isinstance(value, _READING[name]):
                raise ValueError(f"its files are read with {name}={value!r}, which has no meaning")
        if reading.get("format") == "columns" and isinstance(reading.get("label"), str):
            raise ValueError(f"its files have labels in column {reading['label']!r}, and columns without names")
        return cls(
            reading,
            None if template is None else Template.parse(template, "the model's template"),
            None if scaling is None else Scaling.from_document(scaling),
            _rebuilt_marks(document.get("marks", {})),
        )


def _rebuilt_marks(described: Any) -> LabelMarks:
    if not isinstance(described, dict) or not set(described) <= {"unknown", "between"}:
        raise ValueError("the marks of unknown labels must be named")
    if not all(value is None or isinstance(value, str) for value in described.values()):
        raise ValueError("the marks of unknown labels must be texts")
    return LabelMarks(**described)


def read_training_file(settings: RunSettings, option: str = "--format") -> tuple[InputReader, SequenceFile]:
    """Read the training file as the settings say; return how to read others, and what was read.

    ``option`` is the one that names the format.
    """
    path = str(settings.train)
    file_format = format_of(path, option) if settings.format == "auto" else settings.format
    template = None if settings.template is None else Template.read(settings.template)
    options = reading_options(settings, file_format, option)
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
        template, _ = default_template(file)
        file = replace(file, X=template.features_of(sequence.rows for sequence in file.source))
    marks = LabelMarks(settings.unknown_label, settings.label_sets)
    file = replace(file, y=marks.read(file.y))
    reader = InputReader(reading, template, marks=marks)
    if settings.standardize:
        if not is_dense(file.X):
            raise ValueError("--standardize scales columns of numbers, and these inputs are names of features")
        reader = replace(reader, scaling=Scaling.of(file.X))
    return reader, reader._scaled(file)


def reading_options(settings: RunSettings, file_format: str, option: str = "--format") -> dict[str, Any]:
    """Return the settings as options of ``read_sequences``, all but the template; ``option`` names the format."""
    if file_format not in _USED:
        raise ValueError(f"{option} must be auto or one of {', '.join(_USED)}, got {file_format!r}")
    for name, value in settings.part("reading").items():
        if value is not None and name not in _USED[file_format]:
            raise ValueError(f"{SETTINGS[name].names[0]} has no meaning for files of format {file_format}")
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


def default_template(file: SequenceFile) -> tuple[Template, str]:
    """Return the template of a column file that comes without one, and what it sees in words."""
    given, n_columns = file.reading.get("features"), file.reading["n_columns"]
    first, *tags = given or [column for column in range(n_columns) if column != file.reading["label"]]
    if _holds_symbols(file, first):
        reach = _SYMBOL_WINDOW
        patterns, seen = symbol_patterns(first, tags, window=reach), f"symbols in column {first} at -{reach} to {reach}"
    else:
        patterns, seen = text_patterns(first, tags), f"text features of words in column {first}"
    if tags:
        seen += f" and tags in column{'s' if len(tags) > 1 else ''} {', '.join(map(str, tags))}"
    lines = [f"U:{pattern}" for pattern in patterns]
    return Template.parse("\n".join([*lines, "B", ""]), "the default template"), seen


def _holds_symbols(file: SequenceFile, column: int) -> bool:
    """Whether the cells of a column are single characters of a small alphabet, as residues of proteins are."""
    symbols = {row[column] for sequence in file.source for row in sequence.rows}
    return len(symbols) <= _LARGEST_ALPHABET and max(map(len, symbols)) == 1


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


def check_labels(file: SequenceFile, classes: Any, path: str, advice: str) -> None:
    """Raise if a file holds a label that was never seen in training, saying where and what to do."""
    known = list(classes)
    seen = set(known)
    for index, labels in enumerate(file.y or []):
        for position, entry in enumerate(labels):
            label = next((each for each in sorted(labels_named([[entry]])) if each not in seen), None)
            if label is not None:
                where = _place(file, index, position)
                more = ["..."] if len(known) > _LABELS_SHOWN else []
                shown = ", ".join([*map(str, known[:_LABELS_SHOWN]), *more])
                raise ValueError(
                    f"{input_name(path)}, {where}: the label {label} was never seen in training, where there are "
                    f"{shown}; {advice}"
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


def words_of(file: SequenceFile) -> list[list[str] | None]:
    """Return what people call the positions of each sequence: the words of column files, else nothing."""
    if file.format not in ("columns", "conllu"):
        return [None] * len(file.X)
    column = 1 if file.format == "conllu" else 0
    return [[row[column] for row in sequence.rows] for sequence in file.source]


def tokens_for(crf: ChainCRF | SegmentCRF, words: list[str] | None) -> dict[str, Any]:
    """Return the words of a sequence as ``show`` and ``explain`` take them: segments go by numbers of positions."""
    return {"tokens": words} if crf.kind == "ChainCRF" else {}


def named_kernel(text: str, parameters: dict[str, Any], option: str = "--kernel") -> Any:
    """Return the kernel of a name; ``parameters`` that are None keep their defaults."""
    from kernelfields.kernels import resolve_kernel

    parts = [resolve_kernel(name.strip()) for name in text.split("+")]
    for name, value in parameters.items():
        if value is None:
            continue
        takers = [part for part in parts if name in part.get_params(deep=False)]
        if not takers:
            raise ValueError(f"{SETTINGS[name].names[0]} has no meaning for {option} {text}")
        for part in takers:
            part.set_params(**{name: value})
    kernel = reduce(lambda first, second: first + second, parts)
    kernel.check_parameters()
    return kernel


def kernel_settings(kernel: Any) -> dict[str, Any]:
    """Return the settings that name a kernel which is not a sum; rules such as gamma="scale" are the default."""
    parameters = kernel.get_params(deep=False)
    numbers = {name: parameters.get(name) for name in KERNEL_PARAMETERS}
    return {"kernel": kernel.kind} | {
        name: None if isinstance(value, str) else value for name, value in numbers.items()
    }


def build_estimator(settings: RunSettings, reader: InputReader) -> ChainCRF | SegmentCRF:
    """Return the estimator that the settings describe."""
    return build_segments(settings, reader) if settings.segments else build_chain(settings, reader)


def build_chain(settings: RunSettings, reader: InputReader) -> ChainCRF:
    """Return the field of single labels and neighbours that the settings describe."""
    from kernelfields import ChainCRF, NodeCliques

    nodes, edges, fit = _nodes_of(settings), settings.part("edges"), fit_parameters(settings)
    if not reader.has_transitions:
        if any(value is not None for value in edges.values()):
            raise ValueError("the template has no B line, so there are no transitions: leave out the edge options")
        if nodes["prior_variance"] == "auto":
            nodes["prior_variance"] = 1.0
        if nodes["kernel"] == "auto":
            nodes["kernel"] = "linear"
        return ChainCRF(cliques=[NodeCliques(**nodes)], **fit)
    return ChainCRF(**nodes, **_edges_of(settings), **fit)


def build_segments(settings: RunSettings, reader: InputReader) -> SegmentCRF:
    """Return the field of segments that the settings describe; ValueError where it would break what they ask for."""
    from kernelfields import SegmentCRF
    from kernelfields.fields.constraints import find_scheme

    if not reader.has_transitions:
        raise ValueError("the template has no B line, and --segments has transitions between segments: add a line B")
    # Labels within a segment are equal, so that what may not follow itself cannot be forbidden there.
    if settings.constraints is not None and (name := find_scheme(settings.constraints).name) in ("bioes", "bilou"):
        raise ValueError(
            f"--constraints {name} forbids B-X after B-X, and a SegmentCRF may have both in one segment: "
            "write the labels as bio, or leave out --segments"
        )
    own = {name: value for name, value in settings.part("segments").items() if value is not None}
    if settings.segment_kernel is not None:
        own["segment_kernel"] = named_kernel(settings.segment_kernel, {}, "--segment-kernel")
    given = {**_nodes_of(settings), **_edges_of(settings), **settings.part("estimator"), **own}
    chains_alone = {name for name, setting in SETTINGS.items() if setting.only == "chains"}
    return SegmentCRF(
        **{name: value for name, value in given.items() if name not in chains_alone}, engine=engine_of(settings)
    )


def _nodes_of(settings: RunSettings) -> dict[str, Any]:
    """Return the parameters of the function of the inputs."""
    left_open = settings.kernel == "auto" and not any(settings.part("kernel").values())
    variance = "auto" if settings.prior_variance is None else _one_or_tuple(settings.prior_variance)
    return settings.part("nodes") | {
        "kernel": "auto" if left_open else named_kernel(settings.kernel, settings.part("kernel")),
        "window": _one_or_tuple(settings.window),
        "rank": settings.rank or None,
        "prior_variance": variance,
    }


def _edges_of(settings: RunSettings) -> dict[str, Any]:
    """Return the parameters of the transitions."""
    edges = settings.part("edges")
    if settings.edge_kernel is not None:
        edges["edge_kernel"] = named_kernel(settings.edge_kernel, {}, "--edge-kernel")
    return edges


def fit_parameters(settings: RunSettings) -> dict[str, Any]:
    """Return the parameters of the estimator that do not describe its clique sets."""
    return {**settings.part("estimator"), "allowed": allowed_by(settings), "engine": engine_of(settings)}


def allowed_by(settings: RunSettings) -> LabelDictionary | None:
    """Return the dictionary of labels that the settings ask for; None for none."""
    from kernelfields import LabelDictionary

    feature, count = settings.allowed_by, settings.allowed_min_count
    if feature is None:
        if count is not None:
            raise ValueError("--allowed-min-count is for --allowed-by: name a feature, or leave it out")
        return None
    named = int(feature) if feature.isdecimal() else feature
    return LabelDictionary(named) if count is None else LabelDictionary(named, min_count=count)


def engine_of(settings: RunSettings) -> Any:
    """Return where a fit runs, as the estimator is told; ValueError if it cannot run there."""
    from kernelfields.engines.choice import resolve_engine
    from kernelfields.engines.threads import Threads
    from kernelfields.engines.torch.engine import Torch
    from kernelfields.objective.designs.memory import parse_memory

    engine, device, memory = settings.engine, settings.device, settings.memory
    if device is not None and engine not in ("auto", "torch"):
        raise ValueError(f"device={device!r} is for engine='torch', got engine={engine!r}")
    place: Any = engine
    if memory is not None:
        if device is not None or engine == "torch":
            raise ValueError("memory is a budget for engine='threads': a device has the memory it has")
        if engine == "dask":
            raise ValueError("memory is a budget for engine='threads': set the memory of Dask workers in Dask")
        if engine in ("auto", "threads"):
            place = Threads(memory)
            if (parse_memory(memory) or 0) < _LEAST_MEMORY:
                raise ValueError(f"--memory {memory} is less than any fit can do with: give at least 10kB")
    elif device is not None:
        place = Torch(device)
    try:
        resolve_engine(place)
    except (ImportError, RuntimeError) as error:
        raise ValueError(str(error)) from error
    return place


def _one_or_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


@dataclass
class TrainedModel:
    """A fitted estimator, the reader of its files, and the settings of its run with checksums."""

    crf: ChainCRF | SegmentCRF
    reader: InputReader
    settings: RunSettings
    checksums: dict[str, str]


def model_content(path: str | os.PathLike, crf: Any, reader: InputReader, settings: RunSettings) -> bytes:
    """Return what the file of a model at ``path`` holds."""
    from kernelfields.models.documents import document_bytes

    notes = {"reader": reader.to_document(), "settings": to_document(settings, path)}
    return document_bytes(crf.kind, {**crf.to_document(), _NOTES: notes})


def load_model(path: str | os.PathLike, n_jobs: int | None = None) -> TrainedModel:
    """Read a model with its notes; ``n_jobs`` is for predicting, not that of the training run."""
    from kernelfields import ChainCRF, SegmentCRF
    from kernelfields.engines.choice import engine_here
    from kernelfields.models.documents import read_document_of

    def rebuild(estimator: Any, document: dict[str, Any]) -> TrainedModel:
        if _NOTES not in document:
            raise ModelFileError(
                f"{path} was written by {estimator.kind}.save and does not say how its files are read: use it in "
                "Python, or train by the command"
            )
        notes = document[_NOTES]
        crf = estimator.from_document(document)
        crf.set_params(n_jobs=n_jobs, verbose=0, engine=engine_here(crf.engine))
        settings, checksums = from_document(notes["settings"], path)
        return TrainedModel(crf, InputReader.from_document(notes["reader"]), settings, checksums)

    return read_document_of(path, {each.kind: partial(rebuild, each) for each in (ChainCRF, SegmentCRF)})
