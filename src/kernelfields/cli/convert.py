"""``kernelfields convert``: sequences from one file format to another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernelfields.cli.messages import Quiet, Verbose, Voice, explains_errors
from kernelfields.cli.settings import RunSettings

if TYPE_CHECKING:
    from kernelfields.formats.sequence_files import SequenceFile


@explains_errors
def convert(
    file: Annotated[str, typer.Argument(help="What to read; - is standard input.", metavar="FILE")],
    output: Annotated[
        str, typer.Argument(help="What to write; - is standard output.", metavar="OUTPUT", show_default=False)
    ] = "-",
    source: Annotated[
        str, typer.Option("--from", help="columns, conllu, crfsuite, npz or csv; auto goes by the name.")
    ] = "auto",
    target: Annotated[str, typer.Option("--to", help="crfsuite or npz; auto goes by the name.")] = "auto",
    template: Annotated[
        str | None, typer.Option("--template", "-t", help="CRF++ template for column files.")
    ] = None,
    columns: Annotated[str | None, typer.Option("--columns", help="Columns of the inputs, as in train.")] = None,
    label_column: Annotated[str | None, typer.Option("--label-column", help="As in train.")] = None,
    sequence_column: Annotated[str | None, typer.Option("--sequence-column", help="As in train.")] = None,
    separator: Annotated[str | None, typer.Option("--separator", help="As in train.")] = None,
    array: Annotated[list[str] | None, typer.Option("--array", help="As in train.")] = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
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
    from kernelfields.formats.sequence_files import format_of, write_sequences
    from kernelfields.formats.text_files import input_name

    voice = Voice(quiet=quiet, verbose=verbose)
    settings = RunSettings(
        train=file,
        format=source,
        template=template,
        columns=None if columns is None else columns.split(","),
        label_column=label_column,
        sequence_column=sequence_column,
        separator=separator,
        arrays=array or None,
    )
    if target == "auto":
        target = format_of(output)
    _, read = read_training_file(settings)
    if target == "npz" and not hasattr(read.X[0], "shape"):
        _write_named_features(output, read)
    else:
        write_sequences(output, read.X, read.y, read.weights, target)
    voice.say(f"wrote {len(read.X):,} sequences of {input_name(file)} as {target}")


def _write_named_features(path: str, file: SequenceFile) -> None:
    """Write feature dicts or strings as a sparse array with the names of its columns."""
    import numpy as np

    from kernelfields.features.dicts import FeatureDictEncoder
    from kernelfields.formats.sequence_arrays import write_archive

    encoder = FeatureDictEncoder()
    inputs, offsets = encoder.fit_transform(file.X)
    arrays: dict[str, Any] = {
        "data": inputs.data,
        "indices": inputs.indices,
        "indptr": inputs.indptr,
        "n_features": np.array(inputs.shape[1]),
        "feature_names": np.array(encoder.feature_names_),
        "offsets": offsets,
    }
    if file.y is not None:
        arrays["y"] = np.concatenate([np.asarray(labels) for labels in file.y])
    if file.weights is not None:
        arrays["weights"] = file.weights
    write_archive(path, arrays)
