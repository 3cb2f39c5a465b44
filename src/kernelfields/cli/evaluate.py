"""Evaluation, ``kernelfields evaluate``: agreement of a model with the true labels.

The report is one HTML page on a model and its evaluation; ``train`` writes it, too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import accumulate
from typing import Annotated

import typer

from kernelfields import cli
from kernelfields.cli import library
from kernelfields.cli.labels import LabelSets, UnknownLabel, count_line, count_unknown
from kernelfields.cli.messages import Console, Jobs, ModelFile, command
from kernelfields.cli.predict import Decode, check_decoding
from kernelfields.cli.settings import LARGEST_SEED, Parameters, file_digest

_SHOWN_SEQUENCES = 12
_SHOWN_POSITIONS = 600
_DRAWN_POSITIONS = 100_000
_WEIGHTS_PER_LABEL = 10
_MOST = 1_000_000  # resamples: the interval has no further digit by then


@command(reads=("model", "file", "against"), writes=("report",))
def evaluate(
    console: Console,
    model: ModelFile,
    file: Annotated[str, typer.Argument(help="Labelled sequences; - is standard input.", metavar="FILE")],
    decode: Decode = None,
    against: Annotated[
        str | None, typer.Option("--against", help="Another model: is it better on the same sequences?")
    ] = None,
    scheme: Annotated[
        str, typer.Option("--scheme", help="Entities: bio, iob1, bioes, bilou, none, or auto by the labels.")
    ] = "auto",
    labels_only: Annotated[bool, typer.Option("--labels-only", help="No likelihood or calibration.")] = False,
    resamples: Annotated[
        int,
        typer.Option(
            "--resamples", metavar="N", help="Resamples of sequences for intervals; 0 for none.", min=0, max=_MOST
        ),
    ] = 1000,
    confidence: Annotated[
        float, typer.Option("--confidence", metavar="NUMBER", help="Share that an interval holds.")
    ] = 0.95,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Of the resamples.", min=0, max=LARGEST_SEED)] = 0,
    report: Annotated[str | None, typer.Option("--report", help="Write an HTML report here.")] = None,
    unknown_label: UnknownLabel = None,
    label_sets: LabelSets = None,
    n_jobs: Jobs = None,
) -> None:
    """Compare predictions with the true labels.

    \b
    Accuracy of positions and sequences, precision, recall and F1 of labels and
    entities, log-likelihood and calibration, each with an interval. Where the
    best labelling as a whole and the most probable labels one by one differ,
    both are listed. Positions whose true label is not known do not count; labels
    that were never seen in training are errors, and named.

    \b
    A model on a file it was not trained on, with a report to look at:
      kernelfields evaluate chunks.safetensors test.conll --report test.html
    Is the second model better than the first?
      kernelfields evaluate one.safetensors test.conll --against two.safetensors
    """
    check_decoding(decode)
    shared: Parameters = {
        "scheme": None if scheme == "none" else scheme,
        "n_resamples": resamples,
        "confidence": confidence,
        "random_state": seed,
    }
    trained = cli.load_model(model, n_jobs)
    marks: Parameters = {"unknown_label": unknown_label, "label_sets": label_sets}
    with _name_model(model if against is not None else ""):
        read = trained.read(file, **marks)
    console.info(count_line(library.input_name(file), read.y or [], read.part))
    if (digest := file_digest(file)) is not None and digest == trained.checksums.get("train"):
        console.warn(f"{model} was trained on this very file: of new sequences its figures are lower")
    nouns = ("sequence", read.part)
    if against is not None:
        with _name_model(model):
            first = trained.crf.predict(read.X, decode)
        other = cli.load_model(against, n_jobs)
        with _name_model(against):
            reread = _read_with_options(other, trained, file, read, marks)
            second = other.crf.predict(reread.X, decode)
        comparison = replace(library.compare(read.y or [], first, second, **shared), nouns=nouns)
        console.result(f"first: {model}, second: {against}\n{comparison}", comparison.to_dict())
        return
    evaluation = library.evaluate(trained.crf, read.X, read.y or [], decode=decode, labels_only=labels_only, **shared)
    evaluation = replace(evaluation, nouns=nouns)
    if report is not None:
        title = f"{os.path.basename(model)} on {os.path.basename(library.input_name(file))}"
        write_report(report, trained.crf, read, title, evaluation=evaluation)
        console.info(f"wrote {report}")
    console.result(str(evaluation), evaluation.to_dict())


@contextmanager
def _name_model(model: str) -> Iterator[None]:
    """Add the name of the model to errors if two models are compared."""
    try:
        yield
    except (TypeError, ValueError) as error:
        if not model:
            raise
        raise ValueError(f"the model {model} does not fit: {error}") from error


def _read_with_options(
    other: cli.TrainedModel, trained: cli.TrainedModel, path: str, read: library.SequenceFile, marks: Parameters
) -> library.SequenceFile:
    """Read the file again with the options of another model."""
    if library.describe_reading(other.reading) == library.describe_reading(trained.reading):
        return read
    if path == "-":
        raise ValueError("it reads files otherwise than the first, so standard input cannot serve both: use a file")
    return other.read(path, **marks)


def write_report(
    path: str,
    crf: cli.Field,
    file: library.SequenceFile,
    title: str,
    *,
    evaluation: library.Evaluation | None = None,
) -> None:
    """Write a report on a model, with predictions for the first sequences of a file."""
    lengths = file.lengths[:_SHOWN_SEQUENCES]
    words = file.words
    # Words take room each; without them there is a time line, which is as wide as the page whatever it holds.
    most = _SHOWN_POSITIONS if words and words[0] is not None else _DRAWN_POSITIONS
    shown = max(1, sum(total <= most for total in accumulate(lengths)))
    labelled = list(zip(file.X, file.y or [None] * len(file.X), words, strict=True))
    sequences = [
        crf.show(x, None if labels is None or count_unknown([labels]) else labels, **cli.token_arguments(crf, tokens))
        for x, labels, tokens in labelled[:shown]
    ]
    page = library.report_page(
        title,
        model=crf.summary(),
        evaluation=evaluation,
        weights=crf.weights(top=_WEIGHTS_PER_LABEL),
        sequences=sequences,
    )
    with library.open_text_output(path) as stream:
        stream.write(page)
