"""Inspection and certificates of models, ``kernelfields inspect`` and ``kernelfields certify``.

Shows what a model has learnt, why it labels a sequence as it does, and how far it can be from the best model,
checked anew on its training file. A model may come from anyone, so that no file is opened because a model names it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kernelfields.cli.messages import Console, ExitCode, Jobs, ModelFile, command
from kernelfields.cli.settings import LARGEST_COUNT

if TYPE_CHECKING:
    from kernelfields.objective.bounds import Certificate
    from kernelfields.reports.page import Shown


@command()
def inspect(
    console: Console,
    model: ModelFile,
    top: Annotated[int, typer.Option("--top", help="Weights of each label.", min=1, max=LARGEST_COUNT)] = 10,
    label: Annotated[list[str] | None, typer.Option("--label", help="Only this label; may be repeated.")] = None,
    features: Annotated[
        str | None, typer.Option("--features", help="Only features in which this regular expression is found.")
    ] = None,
    explain: Annotated[
        str | None, typer.Option("--explain", help="A file: why is one of its sequences labelled as it is?")
    ] = None,
    sequence: Annotated[int, typer.Option("--sequence", help="With --explain: which one, from 0.", min=0)] = 0,
) -> None:
    """Show what a model has learnt.

    \b
    Its labels, clique sets and certificates, the largest weights of each
    label, and the transitions. Kernels without explicit features, such as rbf,
    have no weights per feature; --explain works for all.

    \b
    The model at a glance:
      kernelfields inspect chunks.safetensors
    The weights of one label, among suffixes:
      kernelfields inspect chunks.safetensors --label B-NP --features suffix
    Why is the third sentence labelled as it is?
      kernelfields inspect chunks.safetensors --explain test.conll --sequence 2
    """
    from kernelfields.cli.models import load_model, tokens_for

    trained = load_model(model)
    crf = trained.crf
    if explain is not None:
        if label or features is not None:
            raise ValueError("--label and --features are for tables of weights, not for --explain")
        read = trained.read(explain, labels_required=False)
        if sequence >= len(read.X):
            raise ValueError(f"{explain} holds {len(read.X)} sequences, 0 to {len(read.X) - 1}: no {sequence}")
        tokens = tokens_for(crf, read.words[sequence])
        shown: dict[str, Shown] = {"explanation": crf.explain(read.X[sequence], top=top, **tokens)}
    else:
        # Labels of .npz files may be numbers.
        known = {str(name): name for name in crf.classes_.tolist()}
        labels = [known.get(name, name) for name in label] if label else None
        shown = {"model": crf.summary(), "weights": crf.weights(top=top, labels=labels, feature_re=features)}
    document = {name: table.to_dict() for name, table in shown.items()}
    console.result("\n\n".join(map(str, shown.values())), document)


@command()
def certify(
    console: Console,
    model: ModelFile,
    file: Annotated[str, typer.Argument(help="Its training file; - is standard input.", metavar="FILE")],
    scope: Annotated[
        str, typer.Option("--scope", help="span: best of what its basis spans. rkhs: best of all functions (slower).")
    ] = "span",
    limit: Annotated[
        float | None, typer.Option("--limit", help="Largest relative gap to accept: the exit code is 1 if it is above.")
    ] = None,
    n_jobs: Jobs = None,
) -> None:
    """Check how far a model can be from the best one on its training data.

    \b
    The objective is computed anew and bounded from below; the gap between the
    two is how much the best model could gain at most. The bound comes from
    the model alone, so it is looser than that of the fit, which has seen all
    of its steps: both are shown.

    \b
    Is this the optimum?
      kernelfields certify chunks.safetensors train.conll --limit 0.01
    Would a larger basis help?
      kernelfields certify rbf.safetensors train.npz --scope rkhs --limit 0.01
    """
    from kernelfields.cli.models import check_labels, load_model
    from kernelfields.cli.settings import file_digest

    if limit is not None and not limit >= 0:
        raise ValueError(f"--limit must be a relative gap of at least 0, such as 0.01, got {limit}")
    trained = load_model(model, n_jobs)
    read = trained.read(file)
    check_labels(read, trained.crf.classes_, file, "give its training file, which has none")
    digest = file_digest(file)
    if digest is not None and digest != trained.checksums.get("train", digest):
        console.warn(f"{file} is not the file that {model} was trained on, or has changed since")
    certificate = trained.crf.certify(read.X, read.y, scope=scope, sample_weight=read.weights)
    fitted = trained.crf.certificate_ if scope == "span" else trained.crf.rkhs_certificate_
    accepted = limit is None or certificate.relative_gap <= limit
    verdict = "" if limit is None else f"\n{'within' if accepted else 'above'} the limit of {limit:g}"
    console.result(
        f"now:        {certificate}\nby the fit: {fitted}{verdict}",
        {"file": file, "now": _document(certificate), "fit": _document(fitted), "limit": limit, "accepted": accepted},
    )
    raise typer.Exit(ExitCode.DONE if accepted else ExitCode.SHORT)


def _document(certificate: Certificate) -> dict[str, object]:
    return {
        "scope": certificate.scope,
        "value": certificate.value,
        "lower_bound": certificate.lower_bound,
        "relative_gap": certificate.relative_gap,
        "exact": certificate.exact,
        "parts": certificate.parts,
    }
