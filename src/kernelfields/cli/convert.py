"""Conversion of files, ``kernelfields convert``: sequences from one format to another."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernelfields.cli.messages import Voice, command
from kernelfields.cli.settings import SETTINGS, RunSettings

if TYPE_CHECKING:
    from kernelfields.formats import SequenceFile


_TEXTS = {"template": "CRF++ template for column files.", "columns": "Columns of the inputs, as in train."}
_READING = [
    replace(each, text=_TEXTS.get(each.name, "As in train."), panel=None, metavar=None, file=None)
    for each in SETTINGS.values()
    if each.part == "reading"
]


@command(options=[each.parameter() for each in _READING], as_json=False)
def convert(
    voice: Voice,
    file: Annotated[str, typer.Argument(help="What to read; - is standard input.", metavar="FILE")],
    output: Annotated[
        str, typer.Argument(help="What to write; - is standard output.", metavar="OUTPUT", show_default=False)
    ] = "-",
    source: Annotated[
        str, typer.Option("--from", help="columns, conllu, crfsuite, npz or csv; auto goes by the name.")
    ] = "auto",
    target: Annotated[str, typer.Option("--to", help="crfsuite or npz; auto goes by the name.")] = "auto",
    **reading: Any,
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

    given = {name: SETTINGS[name].read(value) for name, value in reading.items()}
    settings = RunSettings(train=file, format=source, **given)
    if target == "auto":
        target = format_of(output, "--to")
    read = read_training_file(settings, "--from")
    if target == "npz" and not hasattr(read.X[0], "shape"):
        _write_named_features(output, read)
    else:
        write_sequences(output, read.X, read.y, read.weights, target)
    voice.say(f"wrote {len(read.X):,} sequences of {input_name(file)} as {target}")


def _write_named_features(path: str, file: SequenceFile) -> None:
    """Write feature dicts or strings as a sparse array with the names of its columns."""
    import numpy as np

    from kernelfields.features import FeatureDictEncoder
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
