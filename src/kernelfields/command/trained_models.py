"""Model files of the command: a ChainCRF with notes on how its files are read and what it was trained by.

The notes are one more entry of the model's document, so ``ChainCRF.load`` reads these files as well.
Fails: ModelFileError naming the file, OSError.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kernelfields.command.input_reader import InputReader
from kernelfields.command.run_settings import RunSettings, from_document, to_document
from kernelfields.formats import ModelFileError, read_model
from kernelfields.formats.model_file import model_bytes
from kernelfields.formats.whole_files import write_whole

if TYPE_CHECKING:
    from kernelfields import ChainCRF

_NOTES = "command"


@dataclass
class TrainedModel:
    """A fitted estimator, the reader of its files, and the settings of its run with checksums."""

    crf: ChainCRF
    reader: InputReader
    settings: RunSettings
    checksums: dict[str, str]


def save_model(path: str | os.PathLike, crf: Any, reader: InputReader, settings: RunSettings) -> None:
    """Write a model with its notes, atomically."""
    write_whole({os.fspath(path): model_content(path, crf, reader, settings)})


def model_content(path: str | os.PathLike, crf: Any, reader: InputReader, settings: RunSettings) -> bytes:
    """Return what the file of a model at ``path`` holds."""
    from kernelfields.estimators.model_document import KIND, describe_chain_crf

    notes = {"reader": reader.to_document(), "settings": to_document(settings, path)}
    return model_bytes(KIND, {**describe_chain_crf(crf), _NOTES: notes}, {})


def load_model(path: str | os.PathLike, n_jobs: int | None = None) -> TrainedModel:
    """Read a model with its notes; ``n_jobs`` is for predicting, not that of the training run."""
    from kernelfields import ChainCRF
    from kernelfields.estimators.model_document import KIND, rebuild_chain_crf

    document, _ = read_model(path, KIND)
    if _NOTES not in document:
        raise ModelFileError(
            f"{path} was written by ChainCRF.save and does not say how its files are read: use it in Python, or "
            "train by the command"
        )
    notes = document.pop(_NOTES)
    try:
        crf = rebuild_chain_crf(ChainCRF, document)
        reader = InputReader.from_document(notes["reader"])
        settings, checksums = from_document(notes["settings"], path)
    except (KeyError, TypeError, IndexError, AttributeError, ValueError) as error:
        raise ModelFileError(f"{path} is not a sound model: {error}") from error
    return TrainedModel(crf.set_params(n_jobs=n_jobs, verbose=0), reader, settings, checksums)
