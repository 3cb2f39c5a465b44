"""Conversion of files: ``kernelfields convert`` for sequences and CRFsuite models, ``kernelfields export`` to ONNX."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Annotated, Any

import typer

from kernelfields import cli
from kernelfields.cli import library
from kernelfields.cli.messages import Console, command
from kernelfields.cli.settings import SETTINGS, RunSettings, Value, collect_given_settings
from kernelfields.numerics.wording import inflect

_TEXTS = {"template": "CRF++ template for column files.", "columns": "Columns of the inputs, as in train."}
_READING = [
    replace(setting, text=_TEXTS.get(setting.name, "As in train."), panel=None, metavar=None, file=None)
    for setting in SETTINGS.values()
    if setting.part == "reading" or setting.name in ("unknown_label", "label_sets")
]
#: Formats of sequences that are read as features here; all others hold annotated texts or time lines.
_OF_SEQUENCES = ("crfsuite",)


@command(
    options=[setting.parameter() for setting in _READING],
    as_json=False,
    reads=("file", "template"),
    writes=("output",),
)
def convert(
    console: Console,
    file: Annotated[str, typer.Argument(help="What to read; - is standard input.", metavar="FILE")],
    output: Annotated[
        str, typer.Argument(help="What to write; - is standard output.", metavar="OUTPUT", show_default=False)
    ] = "-",
    source: Annotated[
        str,
        typer.Option(
            "--from",
            help="columns, conllu, crfsuite, csv, doccano, labelstudio, brat, spacy, textgrid, elan or text; auto "
            "goes by the name.",
        ),
    ] = "auto",
    target: Annotated[
        str,
        typer.Option("--to", help="crfsuite, or a format of annotated texts as in --from; auto goes by the name."),
    ] = "auto",
    lossy: Annotated[bool, typer.Option("--lossy", help="Go on where the format cannot hold everything.")] = False,
    **reading: Value,
) -> None:
    """Convert sequences to CRFsuite's text, annotated texts to the format of another tool, or models of CRFsuite.

    \b
    Between doccano, Label Studio, CoNLL-U, columns, brat, spaCy, Praat's TextGrid
    and ELAN, whatever a format cannot hold is listed before anything is written.

    \b
    Column files become features by their template, or by that of train where
    there is none.

    \b
    What CRFsuite would see:
      kernelfields convert train.conll train.crfsuite -t chunk.template
      kernelfields convert room.csv room.crfsuite --sequence-column day
    Through a pipe:
      zcat train.conll.gz | kernelfields convert - - --from columns --to crfsuite
    For another tool, and back:
      kernelfields convert train.conll train.jsonl --to doccano
      kernelfields convert tasks.json train.conll --from labelstudio --lossy
    A model that CRFsuite trained, as a model file for all commands:
      kernelfields convert model.crfsuite model.safetensors
    """
    if library.is_crfsuite_file(file):
        _convert_model(console, file, output)
        return
    kinds = [
        library.guess_annotation_format(path) or "" if kind == "auto" else kind
        for path, kind in ((file, source), (output, target))
    ]
    if not kinds[0] and library.has_raw_text(file):
        kinds[0] = "text"
    if kinds[0] not in _OF_SEQUENCES and kinds[1] in library.ANNOTATION_FORMATS:
        _convert_documents(
            console, (file, output), (kinds[0] or source, kinds[1]), lossy, collect_given_settings(reading)
        )
        return
    if kinds[0] in library.ANNOTATION_FORMATS and kinds[0] not in ("columns", "conllu"):
        raise ValueError(
            f"{kinds[0]} becomes {_join_names(library.ANNOTATION_FORMATS)} by --to; for features, convert that again"
        )
    settings = RunSettings(train=file, format=source, **collect_given_settings(reading))
    if target == "auto":
        target = library.guess_format(output, "--to")
    read = cli.read_training_file(settings, "--from")
    library.write_sequences(output, read.X, read.y, read.weights, target)
    console.info(f"wrote {inflect(len(read.X), 'sequence')} of {library.input_name(file)} as {target}")


def _convert_model(console: Console, file: str, output: str) -> None:
    """Write a model of CRFsuite as a model file."""
    if output == "-":
        raise ValueError(f"{file} is a model of CRFsuite: name the model file to write, such as model.safetensors")
    trained = cli.load_model(file)
    field = trained.crf
    library.write_whole({output: cli.model_content(output, field, trained.reading, trained.settings)})
    sizes = inflect(len(field.classes_), "label"), inflect(field.n_features_in_, "attribute")
    console.info(f"wrote the model of CRFsuite {file} with {' and '.join(sizes)} as {output}")


def _join_names(names: Iterable[str]) -> str:
    """Join names with commas and "or"."""
    *first, last = names
    return f"{', '.join(first)} or {last}"


def _convert_documents(
    console: Console, paths: tuple[str, str], kinds: tuple[str, str], lossy: bool, reading: Mapping[str, Value]
) -> None:
    """Convert annotated texts or time lines to another format, and list unsupported content."""
    if kinds[0] not in library.ANNOTATION_FORMATS:
        formats = _join_names(library.ANNOTATION_FORMATS)
        if kinds[0] == "auto":
            name = library.input_name(paths[0])
            raise ValueError(
                f"what {name} holds cannot be told: pass --from text for running text, --from columns for a word and "
                f"its label on each line, or another one of {formats}"
            )
        raise ValueError(f"--from must be one of {formats} for --to {kinds[1]}, got {kinds[0]!r}")
    options: dict[str, Any] = {name: value for name, value in reading.items() if value is not None}
    if (label := options.pop("label_column", None)) is not None:
        options["label"] = int(label) if label.removeprefix("-").isdigit() else label
    taken = [
        library.list_options(library.ANNOTATION_FORMATS[kinds[0]].read),
        library.list_options(library.ANNOTATION_FORMATS[kinds[1]].write),
    ]
    if strange := sorted(set(options) - set(taken[0]) - set(taken[1])):
        option = "label_column" if strange[0] == "label" else strange[0]
        raise ValueError(f"{SETTINGS[option].names[0]} has no meaning between {kinds[0]} and {kinds[1]}")
    read, write = ({name: options[name] for name in names if name in options} for names in taken)
    if kinds[0] in ("columns", "conllu"):
        write.pop("label", None)  # where labels are in the file that is read
    try:
        documents = library.read_documents(paths[0], kinds[0], **read)
        found = library.find_losses(documents, kinds[1], **write)
        for loss in found:
            console.warn(f"{kinds[1]} cannot hold {loss}")
        if found and not lossy:
            raise ValueError(f"{paths[1]} was not written: {kinds[1]} cannot hold all; --lossy writes what it can hold")
        # Of folders, and of texts with their annotations beside them, each file.
        written, given = library.list_files(paths[1], kinds[1], documents), library.list_files(paths[0], kinds[0])
        library.check_outputs([("OUTPUT", each) for each in written], [("FILE", each) for each in given])
        library.write_documents(paths[1], documents, kinds[1], lossy=lossy, **write)
    except ImportError as error:
        raise ValueError(str(error)) from error
    console.info(f"wrote {inflect(len(documents), 'document')} of {library.input_name(paths[0])} as {kinds[1]}")


@command(as_json=False, reads=("model",), writes=("output",))
def export(
    console: Console,
    model: Annotated[str, typer.Argument(help="Model file of train, or of ChainCRF.save.", metavar="MODEL")],
    output: Annotated[
        str, typer.Argument(help="What to write, such as model.onnx; - is standard output.", metavar="OUTPUT")
    ],
    decode: Annotated[
        str | None, typer.Option("--decode", help="viterbi or posterior; by default that of the model.")
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", help="labels, marginals or log_partition, once for each; all if left out."),
    ] = None,
) -> None:
    """Write a model as a graph of ONNX, for onnxruntime.

    \b
    The graph takes one sequence: inputs (T, d), or indptr, indices and values
    of a sparse matrix. It gives labels (T), numbers of the classes, marginals
    (T, L) and log_partition. Names of classes and features are in its metadata.
    Needs the package onnx: pip install 'kernelfields[onnx]'

    \b
    All outputs:
      kernelfields export chunks.safetensors chunks.onnx
    The best labelling alone, in less time:
      kernelfields export chunks.safetensors fast.onnx --only labels
    """
    try:
        library.to_onnx(library.load_chain(model), output, decode=decode, outputs=tuple(only or library.OUTPUTS))
    except ImportError as error:
        raise ValueError(str(error)) from error
    console.info(f"wrote {model} as {output}")
