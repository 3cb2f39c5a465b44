"""Conversion of files: ``kernelfields convert`` for sequences, ``kernelfields export`` for models as ONNX graphs."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from kernelfields.cli.messages import Console, command
from kernelfields.cli.settings import SETTINGS, RunSettings, Value, given_settings

_TEXTS = {"template": "CRF++ template for column files.", "columns": "Columns of the inputs, as in train."}
_READING = [
    replace(setting, text=_TEXTS.get(setting.name, "As in train."), panel=None, metavar=None, file=None)
    for setting in SETTINGS.values()
    if setting.part == "reading"
]


@command(options=[setting.parameter() for setting in _READING], as_json=False)
def convert(
    console: Console,
    file: Annotated[str, typer.Argument(help="What to read; - is standard input.", metavar="FILE")],
    output: Annotated[
        str, typer.Argument(help="What to write; - is standard output.", metavar="OUTPUT", show_default=False)
    ] = "-",
    source: Annotated[
        str, typer.Option("--from", help="columns, conllu, crfsuite, npz or csv; auto goes by the name.")
    ] = "auto",
    target: Annotated[str, typer.Option("--to", help="crfsuite or npz; auto goes by the name.")] = "auto",
    **reading: Value,
) -> None:
    """Write sequences as CRFsuite's text or as .npz, whatever they were.

    \b
    Column files become features by their template, or by that of train where
    there is none. Names of features go to the array feature_names in .npz.

    \b
    What CRFsuite would see:
      kernelfields convert train.conll train.crfsuite -t chunk.template
    Arrays for Python:
      kernelfields convert train.conll train.npz
      kernelfields convert room.csv room.npz --sequence-column day
    Through a pipe:
      zcat train.conll.gz | kernelfields convert - - --from columns --to crfsuite
    """
    from kernelfields.cli.models import read_training_file
    from kernelfields.formats import format_of, write_sequences
    from kernelfields.formats.text_files import input_name

    settings = RunSettings(train=file, format=source, **given_settings(reading))
    if target == "auto":
        target = format_of(output, "--to")
    read = read_training_file(settings, "--from")
    write_sequences(output, read.X, read.y, read.weights, target)
    console.info(f"wrote {len(read.X):,} sequences of {input_name(file)} as {target}")


@command(as_json=False)
def export(
    console: Console,
    model: Annotated[str, typer.Argument(help="Model file of train, or of ChainCRF.save.", metavar="MODEL")],
    output: Annotated[str, typer.Argument(help="What to write, such as model.onnx.", metavar="OUTPUT")],
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
    from kernelfields.serving import load_chain
    from kernelfields.serving.onnx_export import OUTPUTS, to_onnx

    try:
        to_onnx(load_chain(model), output, decode=decode, outputs=tuple(only or OUTPUTS))
    except ImportError as error:
        raise ValueError(str(error)) from error
    console.info(f"wrote {model} as {output}")
