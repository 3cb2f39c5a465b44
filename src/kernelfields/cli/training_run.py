"""Training run: read, search, fit, write the model and the settings that repeat it.

The files are written in this order: checkpoints during the fit, the model with the settings beside it, both or
none, the report. Then the checkpoint goes, unless there is something left to continue. Whether they can be written
is tried first. Ctrl-C ends the fit with the best estimate so far, which is written like any other.
Fails: ValueError and OSError with messages for users; nothing is left half-written.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import typer

from kernelfields.cli.evaluate import write_report
from kernelfields.cli.messages import ExitCode, Voice
from kernelfields.cli.models import (
    KERNEL_PARAMETERS,
    InputReader,
    TrainedModel,
    build_estimator,
    check_labels,
    fit_parameters,
    is_dense,
    load_model,
    model_content,
    read_training_file,
    save_model,
)
from kernelfields.cli.search import Choice, search_settings
from kernelfields.cli.settings import STANDARD_STREAM, RunSettings, file_digest, settings_text
from kernelfields.formats import ModelFileError, SequenceFile
from kernelfields.formats.text_files import check_writable, input_name, remove_leftovers, write_whole

if TYPE_CHECKING:
    from kernelfields import ChainCRF

# Columns whose spreads differ by more than this are worth a hint.
_UNEVEN = 30.0
_FINISHED = ("gap", "early")


def settings_path(model: str) -> str:
    """Return where the settings of a model's run are written."""
    return str(Path(model).with_suffix(".toml"))


def run_training(settings: RunSettings, voice: Voice) -> ExitCode:
    """Fit a model as the settings say, and write it."""
    _check_outputs(settings)
    reader, file = read_training_file(settings)
    voice.say(_sizes(file, settings))
    development = None if settings.dev is None else _read_development(reader, settings.dev, file)
    _say_how_inputs_are_seen(settings, reader, file, voice)
    before = _checkpointed(settings, voice)
    choice: Choice | None = None
    if settings.search and before is not None:
        searched = ("kernel", "rank", "prior_variance", *KERNEL_PARAMETERS)
        settings = replace(settings, **{name: getattr(before.settings, name) for name in searched})
    elif settings.search:
        choice = search_settings(settings, reader, file, voice)
        settings = choice.settings
        voice.say(f"chosen: {choice.words}; {settings.scoring.replace('_', ' ')} {choice.score:.4f}")
    elif settings.kernel == "auto":
        settings = replace(settings, kernel="rbf" if is_dense(file.X) else "linear")
    crf = build_estimator(settings, reader) if before is None else _continued(settings, before)
    _fit(crf, settings, reader, file, development, voice)
    beside = settings_path(settings.model)
    write_whole(
        {
            settings.model: model_content(settings.model, crf, reader, settings),
            beside: settings_text(settings, beside).encode(),
        }
    )
    if settings.report is not None:
        _write_report(crf, settings, development or file, choice, voice)
    if settings.checkpoint is not None and crf.solution_.reason in _FINISHED:
        _remove(settings.checkpoint, voice)
    _tell(crf, settings, file, development, choice, voice)
    if crf.solution_.reason == "interrupted":
        return ExitCode.INTERRUPTED
    finished = crf.solution_.reason in _FINISHED and not (choice is not None and choice.interrupted)
    return ExitCode.DONE if finished else ExitCode.SHORT


def _check_outputs(settings: RunSettings) -> None:
    """Raise before the work if what it makes could not be written."""
    if settings.model == STANDARD_STREAM:
        raise ValueError("a model is written to a file: give --model a name")
    if settings.model.endswith(".toml"):
        raise ValueError("--model ends in .toml, where the settings of the run go: use .safetensors")
    check_writable(settings.model)
    check_writable(settings_path(settings.model))
    if settings.checkpoint is not None:
        check_writable(settings.checkpoint)
    if settings.report is not None and settings.report != STANDARD_STREAM:
        check_writable(settings.report)


def _read_development(reader: InputReader, path: str, training: SequenceFile) -> SequenceFile:
    file = reader.read(path)
    check_labels(file, sorted({label for labels in training.y or [] for label in labels}), path)
    return file


def _say_how_inputs_are_seen(settings: RunSettings, reader: InputReader, file: SequenceFile, voice: Voice) -> None:
    if reader.template is not None and settings.template is None:
        count = len(reader.template.unigrams)
        voice.say(f"no --template: every column at -1, 0 and 1, {count} features a position")
        voice.detail(reader.template.text.rstrip())
    if not reader.has_transitions:
        voice.say("the template has no B line: labels do not depend on their neighbours")
    if is_dense(file.X) and not settings.standardize and settings.kernel != "linear":
        spreads = np.concatenate(file.X).std(axis=0)
        spreads = spreads[spreads > 0]
        if len(spreads) and spreads.max() > _UNEVEN * spreads.min():
            voice.say(
                f"the columns have very different spreads, {spreads.min():.3g} to {spreads.max():.3g}: "
                "--standardize brings them to one scale"
            )


def _checkpointed(settings: RunSettings, voice: Voice) -> TrainedModel | None:
    """Return what the checkpoint to go on from holds; None to start afresh."""
    path = settings.checkpoint
    if path is None or not settings.resume:
        return None
    if not os.path.exists(path):
        voice.say(f"there is no checkpoint {path} yet: starting afresh")
        return None
    try:
        before = load_model(path)
    except ModelFileError as error:
        raise ModelFileError(f"{str(error).rstrip('.')}. Leave out --resume to start afresh") from error
    voice.say(f"going on from {path}, objective {before.crf.solution_.value:.6g}")
    return before


def _continued(settings: RunSettings, before: TrainedModel) -> ChainCRF:
    """Return the estimator of a checkpoint, ready to go on; ValueError if this run is another one."""
    differences = settings.differences(before.settings)
    for name in ("train", "template"):
        digest = file_digest(getattr(settings, name))
        if digest is not None and before.checksums.get(name, digest) != digest:
            differences.append(f"the file {getattr(settings, name)} has changed")
    if differences:
        raise ValueError(
            f"{settings.checkpoint} is the checkpoint of another run: {'; '.join(differences)}. "
            "Leave out --resume to start afresh"
        )
    return before.crf.set_params(warm_start=True, **fit_parameters(settings))


def _fit(
    crf: ChainCRF,
    settings: RunSettings,
    reader: InputReader,
    file: SequenceFile,
    development: SequenceFile | None,
    voice: Voice,
) -> None:
    crf.set_params(verbose=voice.level)
    if settings.checkpoint is not None:
        from kernelfields.models.checkpoints import Checkpoint

        def write(path: Any, estimator: Any) -> None:
            save_model(path, estimator, reader, settings)

        crf.set_params(callbacks=[Checkpoint(settings.checkpoint, settings.checkpoint_seconds, write=write)])
    dev = {} if development is None else {"X_dev": development.X, "y_dev": development.y}
    with voice.hears_warnings():
        crf.fit(file.X, file.y, sample_weight=file.weights, **dev)
    crf.set_params(callbacks=None, verbose=0, warm_start=False)


def _write_report(
    crf: ChainCRF, settings: RunSettings, file: SequenceFile, choice: Choice | None, voice: Voice
) -> None:
    """Write the page about the fit; who cannot have it hears that the model is there all the same."""
    table = None if choice is None else choice.table
    title = f"{Path(settings.model).name}, trained on {os.path.basename(input_name(str(settings.train)))}"
    try:
        write_report(str(settings.report), crf, file, title, search=table)
    except OSError as error:
        kept = f"{error.strerror}; the model was written to {settings.model}"
        raise OSError(error.errno, kept, error.filename) from error
    except KeyboardInterrupt as interrupt:
        voice.warn(f"interrupted: there is no report, but the model was written to {settings.model}")
        raise typer.Exit(ExitCode.INTERRUPTED) from interrupt


def _remove(checkpoint: str, voice: Voice) -> None:
    remove_leftovers(checkpoint)
    try:
        Path(checkpoint).unlink(missing_ok=True)
    except OSError as error:
        voice.warn(f"the checkpoint {checkpoint} is no longer needed, but cannot be removed: {error.strerror}")


def _sizes(file: SequenceFile, settings: RunSettings) -> str:
    labels = {label for labels in file.y or [] for label in labels}
    positions = sum(map(len, file.y or []))
    name = input_name(str(settings.train))
    return f"{name}: {len(file.X):,} sequences, {positions:,} positions, {len(labels)} labels"


def _tell(
    crf: ChainCRF,
    settings: RunSettings,
    file: SequenceFile,
    development: SequenceFile | None,
    choice: Choice | None,
    voice: Voice,
) -> None:
    """Say how the fit went and what was written."""
    solution = crf.solution_
    figures = ("converged", "reason", "lower_bound", "relative_gap", "solver", "iterations", "passes", "seconds")
    document: dict[str, Any] = {
        "model": settings.model,
        "config": settings_path(settings.model),
        "objective": solution.value,
        **{name: getattr(solution, name) for name in figures},
        "n_sequences": len(file.X),
        "n_positions": sum(map(len, file.y or [])),
        "labels": crf.classes_,
    }
    # A fit that ended otherwise has warned already, and said why.
    why = f": {solution.message}" if solution.reason in _FINISHED else ""
    voice.say(
        f"objective {solution.value:.6g}, relative gap {solution.relative_gap:.2g}, {solution.iterations} "
        f"iterations of {solution.solver} in {solution.seconds:.1f} s{why}"
    )
    if development is not None:
        document["dev_accuracy"] = crf.score(development.X, development.y)
        voice.say(f"token accuracy on {settings.dev}: {document['dev_accuracy']:.4f}")
    if choice is not None:
        rows = [dict(zip(choice.table.columns, row, strict=True)) for row in choice.table.rows]
        document["search"] = {"score": choice.score, "candidates": rows}
    written = [settings.model, settings_path(settings.model), *([settings.report] if settings.report else [])]
    voice.say(f"wrote {', '.join(written)}")
    if voice.as_json:
        voice.result("", document)
