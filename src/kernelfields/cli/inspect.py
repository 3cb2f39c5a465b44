"""Inspection and certificates of models, ``kernelfields inspect`` and ``kernelfields certify``.

``inspect`` shows the weights of a model and explanations of its labels; ``certify`` bounds its distance from the best
model on the training file. A model may come from anyone, so no file is opened whose name is read from a model.
"""

from __future__ import annotations

import textwrap
from typing import Annotated

import typer

from kernelfields import cli
from kernelfields.cli import library
from kernelfields.cli.messages import Console, ExitCode, Jobs, ModelFile, command
from kernelfields.cli.settings import LARGEST_COUNT
from kernelfields.numerics.wording import inflect

#: Weights of each label where none is named, and what a screen has of labels, of features of each and of transitions.
_TOP, _LABELS_SHOWN, _FEATURES_SHOWN, _TRANSITIONS_SHOWN = 10, 12, 3, 4
_WIDTH = 80


@command()
def inspect(
    console: Console,
    model: ModelFile,
    top: Annotated[
        int | None,
        typer.Option(
            "--top", metavar="N", help="So many weights of each label; else a screen of all.", min=1, max=LARGEST_COUNT
        ),
    ] = None,
    label: Annotated[list[str] | None, typer.Option("--label", help="Only this label; may be repeated.")] = None,
    features: Annotated[
        str | None, typer.Option("--features", help="Only features in which this regular expression is found.")
    ] = None,
    explain: Annotated[
        str | None, typer.Option("--explain", help="A file: why is one of its sequences labelled as it is?")
    ] = None,
    sequence: Annotated[
        int, typer.Option("--sequence", metavar="N", help="With --explain: which one, from 0.", min=0)
    ] = 0,
) -> None:
    """Show the weights, transitions and settings of a model.

    \b
    A screen of it: how it was fitted, what speaks most for each label, the
    strongest transitions. --top, --label and --features list clique sets,
    weights and transitions in full. Kernels without explicit features, such as
    rbf, have no weights per feature; --explain works for all fields but those
    of segments.

    \b
    The model at a glance:
      kernelfields inspect chunks.safetensors
    All of it, 20 weights of each label:
      kernelfields inspect chunks.safetensors --top 20
    The weights of one label, among suffixes:
      kernelfields inspect chunks.safetensors --label B-NP --features suffix
    Why is the third sentence labelled as it is?
      kernelfields inspect chunks.safetensors --explain test.conll --sequence 2
    """
    trained = cli.load_model(model)
    crf = trained.crf
    if explain is not None:
        if label or features is not None:
            raise ValueError("--label and --features are for tables of weights, not for --explain")
        read = trained.read(explain, labels_required=False)
        if sequence >= len(read.X):
            raise ValueError(f"{explain} holds {len(read.X)} sequences, 0 to {len(read.X) - 1}: no {sequence}")
        tokens = cli.token_arguments(crf, read.words[sequence])
        shown: dict[str, library.Shown] = {"explanation": crf.explain(read.X[sequence], top=top or _TOP, **tokens)}
    else:
        # Labels of a model that was fitted in Python may be numbers.
        known = {str(name): name for name in crf.classes_.tolist()}
        labels = [known.get(name, name) for name in label] if label else None
        summary, weights = crf.summary(), crf.weights(top=top or _TOP, labels=labels, feature_re=features)
        shown = {"model": summary, "weights": weights}
        if top is None and labels is None and features is None and not console.as_json:
            console.result(_summarize(summary, weights), None)
            return
    document = {name: table.to_dict() for name, table in shown.items()}
    console.result("\n\n".join(map(str, shown.values())), document)


def _summarize(model: library.ModelSummary, weights: library.WeightsTable) -> str:
    """Summarize a model in at most 24 lines: the fit, the largest weights of each label, transitions."""
    import numpy as np

    lines = [model.heading, f"fit: {model.fit_words}", *model.sentences[:1], *model.choices[:1]]
    listed = [own for clique_set in weights.sets for own in clique_set.lists if own.label is not None]
    for own in listed[:_LABELS_SHOWN]:
        features = "  ".join(f"{entry.weight:+.2f} {entry.words}" for entry in own.positive[:_FEATURES_SHOWN])
        lines.append(f"{own.label!s:{max(len(str(each.label)) for each in listed)}}  {features}")
    if len(listed) > _LABELS_SHOWN:
        lines.append(f"and {inflect(len(listed) - _LABELS_SHOWN, 'more label')}")
    lines += [f"{clique_set.name}: {clique_set.note}" for clique_set in weights.sets if clique_set.note]
    if weights.transitions is not None:
        scores = np.where(np.isfinite(weights.transitions), weights.transitions, 0.0)
        strongest = np.argsort(-np.abs(scores), axis=None, kind="stable")[:_TRANSITIONS_SHOWN]
        steps = [(int(place) // len(scores), int(place) % len(scores)) for place in strongest]
        words = [f"{weights.labels[i]} -> {weights.labels[j]} {scores[i, j]:+.2f}" for i, j in steps]
        lines.append(f"transitions: {', '.join(words)}")
    lines.append("more: --top N, --label NAME, --features EXPRESSION; why: --explain FILE")
    return "\n".join(_fold(line) for line in lines)


def _fold(text: str) -> str:
    """Wrap a text to at most two lines of the screen."""
    return textwrap.fill(text, _WIDTH, subsequent_indent="    ", max_lines=2, placeholder=" ...")


@command()
def certify(
    console: Console,
    model: ModelFile,
    file: Annotated[str, typer.Argument(help="Its training file; - is standard input.", metavar="FILE")],
    scope: Annotated[
        str, typer.Option("--scope", help="span: best of what its basis spans. rkhs: best of all functions (slower).")
    ] = "span",
    limit: Annotated[
        float | None,
        typer.Option(
            "--limit", metavar="NUMBER", help="Largest relative gap to accept: the exit code is 1 if it is above."
        ),
    ] = None,
    n_jobs: Jobs = None,
) -> None:
    """Check the distance of a model from the best one on its training data.

    \b
    The objective is computed anew and bounded from below; the gap between the
    two is how much the best model could gain at most. The bound comes from
    the model alone, so it is looser than that of the fit, which has seen all
    of its steps: both are shown.

    \b
    Is this the optimum?
      kernelfields certify chunks.safetensors train.conll --limit 0.01
    Would a larger basis help?
      kernelfields certify rbf.safetensors train.csv --scope rkhs --limit 0.01
    """
    if limit is not None and not limit >= 0:
        raise ValueError(f"--limit must be a relative gap of at least 0, such as 0.01, got {limit}")
    trained = cli.load_model(model, n_jobs)
    read = trained.read(file)
    cli.check_labels(read, trained.crf.classes_, file, "give its training file, which has none")
    digest = cli.file_digest(file)
    if digest is not None and digest != trained.checksums.get("train", digest):
        console.warn(f"{file} is not the file that {model} was trained on, or has changed since")
    certificate = trained.crf.certify(read.X, read.y, scope=scope, sample_weight=read.weights)
    fitted = trained.crf.certificate_ if scope == "span" else trained.crf.rkhs_certificate_
    accepted = limit is None or certificate.relative_gap <= limit
    verdict = "" if limit is None else f"\n{'within' if accepted else 'above'} the limit of {limit:g}"
    console.result(
        f"now:        {certificate}\nby the fit: {fitted}{verdict}",
        {"file": file, "now": _describe(certificate), "fit": _describe(fitted), "limit": limit, "accepted": accepted},
    )
    raise typer.Exit(ExitCode.DONE if accepted else ExitCode.SHORT)


def _describe(certificate: library.Certificate) -> dict[str, object]:
    """Convert a certificate to plain values."""
    return {
        "scope": certificate.scope,
        "value": certificate.value,
        "lower_bound": certificate.lower_bound,
        "relative_gap": certificate.relative_gap,
        "exact": certificate.exact,
        "parts": certificate.parts,
    }
