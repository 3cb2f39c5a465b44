"""Inspection and certificates of models, ``kernelfields inspect`` and ``kernelfields certify``.

Shows what a model has learnt, why it labels a sequence as it does, and how far it can be from the best model,
checked anew on its training file. A model may come from anyone, so the file that it names is opened on request only,
and only if it is, by its checksum, the one that the model was trained on, whose content its author has seen already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kernelfields.cli.messages import Console, ExitCode, Jobs, ModelFile, command
from kernelfields.cli.settings import LARGEST_COUNT

if TYPE_CHECKING:
    from kernelfields.cli.models import TrainedModel
    from kernelfields.objective.bounds import Certificate
    from kernelfields.reports.page import Shown

_HEADINGS = {
    "model": "The model",
    "weights": "Weights of features by label",
    "explanation": "Contributions to each label",
}


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
    html: Annotated[str | None, typer.Option("--html", help="Write the tables as an HTML page here.")] = None,
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
    from kernelfields.data.text_files import open_text_output
    from kernelfields.reports.page import page, section

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
    if html is not None:
        parts = [section(_HEADINGS[name], table) for name, table in shown.items()]
        with open_text_output(html) as stream:
            stream.write(page(model, "", parts))
        console.info(f"wrote {html}")
    document = {name: table.to_dict() for name, table in shown.items()}
    console.result("\n\n".join(map(str, shown.values())), document)


@command()
def certify(
    console: Console,
    model: ModelFile,
    file: Annotated[str | None, typer.Argument(help="Its training file; - is standard input.", metavar="FILE")] = None,
    stored_data: Annotated[
        bool, typer.Option("--stored-data", help="Read the file that the model names, if it is still the same.")
    ] = False,
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
    The same, on the file that the model was trained on, wherever it lies:
      kernelfields certify chunks.safetensors --stored-data --limit 0.01
    Would a larger basis help?
      kernelfields certify rbf.safetensors train.npz --scope rkhs --limit 0.01
    """
    from kernelfields.cli.models import check_labels, load_model
    from kernelfields.cli.settings import file_digest

    if file is not None and stored_data:
        raise ValueError("--stored-data reads the file that the model names: leave it out to read another")
    if limit is not None and not limit >= 0:
        raise ValueError(f"--limit must be a relative gap of at least 0, such as 0.01, got {limit}")
    trained = load_model(model, n_jobs)
    path = file
    if path is None:
        path = _stored_path(trained, model, stored_data)
        console.info(f"reading {path!r}, the training file that {model} names")
    read = trained.read(path)
    check_labels(read, trained.crf.classes_, path, "give its training file, which has none")
    digest = file_digest(path)
    if digest is not None and digest != trained.checksums.get("train", digest):
        console.warn(f"{path} is not the file that {model} was trained on, or has changed since")
    certificate = trained.crf.certify(read.X, read.y, scope=scope, sample_weight=read.weights)
    fitted = trained.crf.certificate_ if scope == "span" else trained.crf.rkhs_certificate_
    accepted = limit is None or certificate.relative_gap <= limit
    verdict = "" if limit is None else f"\n{'within' if accepted else 'above'} the limit of {limit:g}"
    console.result(
        f"now:        {certificate}\nby the fit: {fitted}{verdict}",
        {"file": path, "now": _document(certificate), "fit": _document(fitted), "limit": limit, "accepted": accepted},
    )
    raise typer.Exit(ExitCode.DONE if accepted else ExitCode.SHORT)


def _stored_path(trained: TrainedModel, model: str, wanted: bool) -> str:
    """Return the training file that a model names, if the user wants it; ValueError if it is not the one it was."""
    from kernelfields.cli.settings import STANDARD_STREAM, file_digest

    path = trained.settings.train
    if path in (None, STANDARD_STREAM):
        origin = "in Python" if path is None else "from standard input"
        raise ValueError(f"{model} was trained {origin}: give its training file as well")
    if not wanted:
        raise ValueError(
            f"which training file? Give it after the model, or --stored-data to read the one that {model} names, "
            f"{path!r}"
        )
    if "train" not in trained.checksums or file_digest(path) != trained.checksums["train"]:
        raise ValueError(
            f"{path!r} is not there or is not the file that {model} was trained on: give the training file itself"
        )
    return str(path)


def _document(certificate: Certificate) -> dict[str, object]:
    figures = ("scope", "value", "lower_bound", "relative_gap", "exact", "parts")
    return {name: getattr(certificate, name) for name in figures}
