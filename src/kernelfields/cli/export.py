"""Export of models, ``kernelfields export``: a chain as a graph of ONNX."""

from __future__ import annotations

from typing import Annotated

import typer

from kernelfields.cli.messages import Console, command


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
