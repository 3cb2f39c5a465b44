"""Training, ``kernelfields train``: its options are the settings of a run.

The options are made from the fields of ``RunSettings``. Options on the command line override the settings of
``--config``, and these the defaults. Raises ValueError for incompatible options.
"""

from __future__ import annotations

from dataclasses import asdict, replace

import typer

from kernelfields.cli.messages import Console, command
from kernelfields.cli.settings import (
    SETTINGS,
    RunSettings,
    Value,
    collect_given_settings,
    find_changed_files,
    read_settings,
)


@command(options=[setting.parameter() for setting in SETTINGS.values()])
def train(console: Console, **options: Value) -> None:
    """Fit a model to a file of labelled sequences.

    \b
    The model is one file that holds how to read files like the one it was
    trained on. Beside it goes a TOML file with all settings: --config repeats
    the run. Ctrl-C keeps the best estimate so far and writes it. The exit code
    is 1 if the fit ended short of its tolerance.

    \b
    Words and tags in columns, labels in the last one:
      kernelfields train train.conll -m chunks.safetensors
    With a CRF++ template and CRFsuite's kind of weights:
      kernelfields train train.conll -t chunk.template --support observed
    Numbers in a CSV file, one sequence per recording:
      kernelfields train room.csv --sequence-column day -k rbf --standardize
    Where it matters how long a label lasts, segments with their durations:
      kernelfields train room.csv --sequence-column day --segments
    The same again, or nearly:
      kernelfields train --config chunks.toml
      kernelfields train --config chunks.toml --tol 1e-6 -m better.safetensors
    """
    from kernelfields.cli.training_run import TrainingRun

    given = collect_given_settings(options)
    settings = RunSettings()
    if "config" in given:
        settings, checksums = read_settings(given["config"])
        for path in find_changed_files(settings, checksums):
            console.warn(f"{path} has changed since {given['config']} was written")
    settings = replace(settings, **given)
    if settings.train is None:
        raise ValueError("which file? Give a training file, or --config with the settings of an earlier run")
    _check_kind(settings)
    raise typer.Exit(TrainingRun(settings, console).run())


def _check_kind(settings: RunSettings) -> None:
    """Raise for options that contradict the kind of field."""
    unwanted = "chains" if settings.segments else "segments"
    for name, value in asdict(settings).items():
        setting = SETTINGS[name]
        if setting.only == unwanted and value not in (setting.default, None):
            option = setting.names[0].split("/")[0]
            if settings.segments:
                raise ValueError(f"{option} is for chains, and --segments trains a SegmentCRF: leave out one of them")
            raise ValueError(f"{option} is for --segments, which is not set")
