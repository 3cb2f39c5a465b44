"""``kernelfields certify``: how far a model can be from the best one, checked anew on its training file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernelfields.command.messages import ExitCode, Voice, explains_errors
from kernelfields.command.options import AsJson, Jobs, ModelFile, Quiet, Verbose

if TYPE_CHECKING:
    from kernelfields.posterior import Certificate


@explains_errors
def certify(
    model: ModelFile,
    file: Annotated[
        str | None,
        typer.Argument(help="Its training file.", metavar="FILE", show_default="the one it remembers"),
    ] = None,
    scope: Annotated[
        str,
        typer.Option("--scope", help="span: best of what its basis spans. rkhs: best of all functions (slower)."),
    ] = "span",
    limit: Annotated[
        float | None,
        typer.Option("--limit", help="Largest relative gap to accept: the exit code is 1 if it is above."),
    ] = None,
    n_jobs: Jobs = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Check how far a model can be from the best one on its training data.

    \b
    The objective is computed anew and bounded from below; the gap between the
    two is how much the best model could gain at most. The bound comes from
    the model alone, so it is looser than that of the fit, which has seen all
    of its steps: both are shown.

    \b
    Is this the optimum?
      kernelfields certify chunks.safetensors --limit 0.01
    Would a larger basis help?
      kernelfields certify rbf.safetensors train.npz --scope rkhs --limit 0.01
    """
    from kernelfields.command.label_checks import check_labels
    from kernelfields.command.run_settings import file_digest
    from kernelfields.command.trained_models import load_model

    voice = Voice(quiet=quiet, verbose=verbose, as_json=as_json)
    trained = load_model(model, n_jobs)
    path = file or trained.settings.train
    if path is None or (file is None and path == "-"):
        raise ValueError(f"{model} was trained from standard input: give its training file as well")
    read = trained.reader.read(path)
    check_labels(read, trained.crf.classes_, path)
    digest = file_digest(path)
    if digest is not None and digest != trained.checksums.get("train", digest):
        voice.warn(f"{path} is not the file that {model} was trained on, or has changed since")
    certificate = trained.crf.certify(read.X, read.y, scope=scope, sample_weight=read.weights)
    fitted = trained.crf.certificate_ if scope == "span" else trained.crf.rkhs_certificate_
    accepted = limit is None or certificate.relative_gap <= limit
    verdict = "" if limit is None else f"\n{'within' if accepted else 'above'} the limit of {limit:g}"
    voice.result(
        f"now:        {certificate}\nby the fit: {fitted}{verdict}",
        {"now": _document(certificate), "fit": _document(fitted), "limit": limit, "accepted": accepted},
    )
    raise typer.Exit(ExitCode.DONE if accepted else ExitCode.SHORT)


def _document(certificate: Certificate) -> dict[str, Any]:
    figures = ("scope", "value", "lower_bound", "relative_gap", "exact", "parts")
    return {name: getattr(certificate, name) for name in figures}
