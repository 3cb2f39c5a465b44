"""Suspicious labels, ``kernelfields check``, and sequences to label next, ``kernelfields rank``."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import typer

from kernelfields import cli
from kernelfields.cli import library
from kernelfields.cli.labels import LabelSets, UnknownLabel, count_line
from kernelfields.cli.messages import Console, Jobs, ModelFile, command
from kernelfields.cli.settings import LARGEST_SEED, SETTINGS, RunSettings, Value, collect_given_settings

# How a file is read, and the field, where there is no model to name them.
_READING = ("format", "template", "columns", "label_column", "sequence_column", "separator")
_OWN = (*_READING, "unknown_label", "label_sets", "kernel", "prior_variance", "segments", "max_duration", "n_jobs")


@command(options=[SETTINGS[name].parameter() for name in _OWN])
def check(
    console: Console,
    file: Annotated[str, typer.Argument(help="Labelled sequences; - is standard input.", metavar="FILE")],
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="A model of train, whose settings read and fit the file.")
    ] = None,
    by_model: Annotated[
        bool, typer.Option("--by-model", help="The model of -m judges, fitted to other sequences; nothing is fitted.")
    ] = False,
    top: Annotated[int, typer.Option("--top", metavar="N", help="How many findings to list.", min=1)] = 50,
    folds: Annotated[int, typer.Option("--folds", metavar="N", help="Parts that are held out in turn.", min=2)] = 5,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Of the folds.", min=0, max=LARGEST_SEED)] = 0,
    **options: Value,
) -> None:
    """List the labels of a file that are most likely wrong.

    \b
    Each sequence is judged by a field that was fitted without it: those of
    folds, or with --by-model one that was trained on another file. A finding is
    one label, a boundary, an entity or a whole sequence, with the labels that
    would fit and a score in nats for each label that changes. Positions whose
    label is not known are skipped.

    \b
    Words and labels in columns:
      kernelfields check train.conll --top 20
    With the settings of a model, for a program:
      kernelfields check train.conll -m chunks.safetensors --json
    A file that the model was not trained on, by the model itself:
      kernelfields check new.conll -m chunks.safetensors --by-model
    """
    given = collect_given_settings(options)
    if by_model and model is None:
        raise ValueError("--by-model needs the model that is to judge: -m MODEL")
    if model is None:
        settings = RunSettings(train=file, **given)
        read = cli.read_training_file(settings)
        if settings.kernel == "auto" and not cli.is_dense(read.X):
            settings = replace(settings, kernel="linear")
    else:
        marks = {name: given.pop(name, None) for name in ("unknown_label", "label_sets")}
        n_jobs = given.pop("n_jobs", None)
        if given:
            named = ", ".join(SETTINGS[name].names[0] for name in given)
            raise ValueError(f"the model names how files are read and fields are fitted: leave out {named}")
        trained = cli.load_model(model, n_jobs)
        settings, read = replace(trained.settings, n_jobs=n_jobs), trained.read(file, **marks)
    console.info(count_line(library.input_name(file), read.y or [], read.part))
    for doubt in cli.doubts.find_warnings(read, library.input_name(file)):
        console.warn(doubt)
    if by_model:
        estimator: Any = trained.crf
    else:
        estimator = cli.build_estimator(settings, transitions=cli.has_transitions(read.reading))
    tokens = read.words if read.words and read.words[0] is not None else None
    cv = None if by_model else folds
    errors = library.find_label_errors(estimator, read.X, read.y, cv=cv, top=top, tokens=tokens, random_state=seed)
    places = [read.place(row.sequence, row.position).partition(",")[0] for row in errors.rows]
    shown = [
        replace(row, token=place if row.token is None else f"{row.token} ({place})")
        for row, place in zip(errors.rows, places, strict=True)
    ]
    document = errors.to_dict()
    for finding, place in zip(document["findings"], places, strict=True):
        finding["place"] = place
    console.result(str(replace(errors, rows=tuple(shown))), document)


@command()
def rank(
    console: Console,
    model: ModelFile,
    file: Annotated[str, typer.Argument(help="Sequences that may be labelled; - is standard input.", metavar="FILE")],
    batch: Annotated[
        int | None,
        typer.Option("--batch", metavar="N", help="How many to choose, spread by the kernel; else all.", min=1),
    ] = None,
    positions: Annotated[bool, typer.Option("--positions", help="Rank positions inside of sequences.")] = False,
    known: Annotated[
        bool, typer.Option("--known", help="Labels in the file are known: rank the positions that are unknown.")
    ] = False,
    unknown_label: UnknownLabel = None,
    label_sets: LabelSets = None,
    n_jobs: Jobs = None,
) -> None:
    """Rank the sequences, or positions, by the doubt of a model, to label them next.

    \b
    Ten sequences that differ from each other:
      kernelfields rank chunks.safetensors unlabelled.conll --batch 10
    The words whose labels would help most, where the file has a ? for some:
      kernelfields rank tags.safetensors half.conll --known --positions --batch 9
    """
    if not known and (unknown_label is not None or label_sets is not None):
        raise ValueError("--unknown-label and --label-sets are for --known, which takes the labels of the file")
    trained = cli.load_model(model, n_jobs)
    if known:
        read = trained.read(file, unknown_label=unknown_label, label_sets=label_sets)
        cli.check_labels(read, trained.crf.classes_, file, "--unknown-label names how unknown labels are written")
    else:
        read = trained.read(file, labels_required=False)
    tokens = read.words if read.words and read.words[0] is not None else None
    order = library.rank_for_labelling(
        trained.crf,
        read.X,
        batch=batch,
        known=read.y if known else None,
        positions=positions,
        tokens=tokens,
    )
    console.result(str(order), order.to_dict())
