"""``kernelfields train``: the options of a training run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernelfields.cli.messages import AsJson, Jobs, Quiet, Verbose, Voice, explains_errors
from kernelfields.cli.settings import (
    RunSettings,
    changed_files,
    checkpoint_plan,
    one_or_more,
    read_settings,
    search_plan,
)

if TYPE_CHECKING:
    pass


_DEFAULTS = RunSettings()


def _option(panel: str, *names: str, text: str, default: str | None = None, takes: str | None = None) -> Any:
    """Return an option; ``default`` is what its setting is unless given here or in a config file."""
    shown = getattr(_DEFAULTS, default) if default is not None else None
    return typer.Option(
        *names,
        help=text,
        rich_help_panel=panel,
        metavar=takes,
        show_default=False if shown is None else f"{shown}",
    )


def _data(*names: str, **about: Any) -> Any:
    return _option("The files", *names, **about)


def _field(*names: str, **about: Any) -> Any:
    return _option("The field", *names, **about)


def _search(*names: str, **about: Any) -> Any:
    return _option("Search", *names, **about)


def _fit_option(*names: str, **about: Any) -> Any:
    return _option("The fit", *names, **about)


@explains_errors
def train(
    file: Annotated[str | None, typer.Argument(help="Training file; - is standard input.", metavar="FILE")] = None,
    model: Annotated[
        str | None,
        _data("--model", "-m", text="The model; the settings go beside it.", default="model", takes="FILE"),
    ] = None,
    config: Annotated[
        str | None, _data("--config", "-c", text="Settings of an earlier run; options win.", takes="FILE")
    ] = None,
    dev: Annotated[
        str | None, _data("--dev", text="Development file: stop when it gets no better.", takes="FILE")
    ] = None,
    file_format: Annotated[
        str | None,
        _data(
            "--format",
            text="columns, conllu, crfsuite, npz or csv; auto goes by the name.",
            default="format",
            takes="NAME",
        ),
    ] = None,
    template: Annotated[
        str | None, _data("--template", "-t", text="CRF++ template for column files.", takes="FILE")
    ] = None,
    columns: Annotated[
        str | None, _data("--columns", text="Columns of the inputs, such as 0,1, or names for CSV.", takes="N,N")
    ] = None,
    label_column: Annotated[
        str | None,
        _data("--label-column", text="Column of the labels, from 0, -1 the last; CSV: its name.", takes="N"),
    ] = None,
    sequence_column: Annotated[
        str | None, _data("--sequence-column", text="CSV: column that tells sequences apart.", takes="NAME")
    ] = None,
    separator: Annotated[
        str | None, _data("--separator", text="tab or space; for CSV any character.", takes="NAME")
    ] = None,
    array: Annotated[
        list[str] | None,
        _data("--array", text="npz: ROLE=NAME, such as X=pixels or y=letters; may be repeated.", takes="R=N"),
    ] = None,
    standardize: Annotated[
        bool | None, _data("--standardize/--no-standardize", text="Scale columns of numbers to mean 0, spread 1.")
    ] = None,
    report: Annotated[
        str | None, _data("--report", text="Write an HTML report of the fit here.", takes="FILE")
    ] = None,
    kernel: Annotated[
        str | None,
        _field(
            "--kernel",
            "-k",
            text="linear, rbf, poly, matern, ..., or a sum: linear+rbf. [dim]auto: linear "
            "for named features, rbf for numbers[/]",
            default="kernel",
        ),
    ] = None,
    gamma: Annotated[float | None, _field("--gamma", text="Of rbf, laplacian, poly; else from the data.")] = None,
    degree: Annotated[int | None, _field("--degree", text="Of poly.")] = None,
    coef0: Annotated[float | None, _field("--coef0", text="Of poly.")] = None,
    nu: Annotated[float | None, _field("--nu", text="Of matern.")] = None,
    length_scale: Annotated[float | None, _field("--length-scale", text="Of matern; else from the data.")] = None,
    edge_kernel: Annotated[
        str | None, _field("--edge-kernel", text="Lets transitions depend on the inputs, such as linear.")
    ] = None,
    window: Annotated[
        str | None, _field("--window", text="Positions a kernel sees: 3, or before,after: 2,0.", default="window")
    ] = None,
    rank: Annotated[
        int | None, _field("--rank", text="Most basis functions of a kernel; 0 for no limit.", default="rank")
    ] = None,
    basis: Annotated[
        str | None,
        _field("--basis", text="random-cholesky, greedy-cholesky, uniform, gradient or all.", default="basis"),
    ] = None,
    prior_variance: Annotated[
        str | None,
        _field(
            "--prior-variance",
            text="Of the Gaussian prior; larger fits closer. Or 1,0.1 for the parts of a sum.",
            default="prior_variance",
        ),
    ] = None,
    c2: Annotated[float | None, _field("--c2", text="CRFsuite's name for 1 / (2 prior variance).")] = None,
    edge_prior_variance: Annotated[
        float | None, _field("--edge-prior-variance", text="Of the transitions; else as above.")
    ] = None,
    l1: Annotated[float | None, _field("--l1", "--c1", text="Weight of absolute values.", default="l1")] = None,
    support: Annotated[
        str | None, _field("--support", text="all, or observed: weights for pairs seen only.", default="support")
    ] = None,
    min_freq: Annotated[
        float | None, _field("--min-freq", text="With --support observed: how often seen.", default="min_freq")
    ] = None,
    constraints: Annotated[
        str | None, _field("--constraints", text="Scheme of entity labels: bio, iob1, bioes or bilou.")
    ] = None,
    search: Annotated[
        bool,
        _search("--search", text="Choose kernel, its scale or degree, and prior variance by cross-validation."),
    ] = False,
    folds: Annotated[int | None, _search("--folds", text="Parts the training file is cut into, 3.")] = None,
    scoring: Annotated[
        str | None, _search("--scoring", text="log_likelihood unless told; accuracy or entity_f1.")
    ] = None,
    prior_variances: Annotated[
        str | None, _search("--prior-variances", text="Those to choose from, 0.01,0.1,1,10,100 unless told.")
    ] = None,
    ranks: Annotated[
        str | None,
        _search("--ranks", text="Those to choose from, such as 100,300; else --rank and a quarter of it."),
    ] = None,
    solver: Annotated[
        str | None,
        _fit_option(
            "--solver", text="newton, newton-cg, block-jacobi, subspace, lbfgs or auto.", default="solver"
        ),
    ] = None,
    tol: Annotated[
        float | None, _fit_option("--tol", text="Relative duality gap to stop at.", default="tol")
    ] = None,
    max_iter: Annotated[int | None, _fit_option("--max-iter", text="Most iterations.", default="max_iter")] = None,
    patience: Annotated[
        int | None, _fit_option("--patience", text="With --dev: iterations without a gain.", default="patience")
    ] = None,
    dtype: Annotated[str | None, _fit_option("--dtype", text="float32, float64 or auto.", default="dtype")] = None,
    n_jobs: Jobs = None,
    engine: Annotated[
        str | None, _fit_option("--engine", text="threads, torch or auto: where the fit runs.", default="engine")
    ] = None,
    device: Annotated[str | None, _fit_option("--device", text="Of --engine torch, such as cuda:0.")] = None,
    memory: Annotated[str | None, _fit_option("--memory", text="What a fit may take, such as 8GB.")] = None,
    seed: Annotated[
        int | None, _fit_option("--seed", text="Of all that is random.", default="random_state")
    ] = None,
    checkpoint: Annotated[
        str | None, _fit_option("--checkpoint", text="Write what there is so far to this file now and then.")
    ] = None,
    checkpoint_seconds: Annotated[
        float | None, _fit_option("--checkpoint-seconds", text="How often; 60 unless told.")
    ] = None,
    resume: Annotated[bool, _fit_option("--resume", text="Go on from the checkpoint, if there is one.")] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Fit a model to a file of labelled sequences.

    \b
    The model is one file that knows how to read files like the one it was
    trained on. Beside it goes a TOML file with all settings: --config repeats
    the run. Ctrl-C keeps the best estimate so far and writes it. The exit code
    is 1 if the fit ended short of its tolerance.

    \b
    Words and tags in columns, labels in the last one:
      kernelfields train train.conll -m chunks.safetensors
    With a CRF++ template and CRFsuite's kind of weights:
      kernelfields train train.conll -t chunk.template --support observed --c2 1
    Numbers in a CSV file, one sequence per recording:
      kernelfields train room.csv --sequence-column day --kernel rbf --standardize
    Find good settings by cross-validation:
      kernelfields train train.npz --search -m best.safetensors
    A long fit that survives a crash:
      kernelfields train big.crfsuite --checkpoint big.checkpoint --resume
    The same again, or nearly:
      kernelfields train --config chunks.toml
      kernelfields train --config chunks.toml --tol 1e-6 -m better.safetensors
    """
    voice = Voice(quiet=quiet, verbose=verbose, as_json=as_json)
    given = {
        "train": file,
        "model": model,
        "dev": dev,
        "format": file_format,
        "template": template,
        "columns": None if columns is None else columns.split(","),
        "label_column": label_column,
        "sequence_column": sequence_column,
        "separator": separator,
        "arrays": array or None,
        "standardize": standardize,
        "report": report,
        "kernel": kernel,
        "gamma": gamma,
        "degree": degree,
        "coef0": coef0,
        "nu": nu,
        "length_scale": length_scale,
        "edge_kernel": edge_kernel,
        "window": one_or_more(window, "--window", int),
        "rank": rank,
        "basis": basis,
        "prior_variance": _prior_variance(prior_variance, c2),
        "edge_prior_variance": edge_prior_variance,
        "l1": l1,
        "support": support,
        "min_freq": min_freq,
        "constraints": constraints,
        "solver": solver,
        "tol": tol,
        "max_iter": max_iter,
        "patience": patience,
        "dtype": dtype,
        "n_jobs": n_jobs,
        "engine": engine,
        "device": device,
        "memory": memory,
        "random_state": seed,
    }
    settings = RunSettings()
    if config is not None:
        settings, checksums = read_settings(config)
        for path in changed_files(settings, checksums):
            voice.warn(f"{path} has changed since {config} was written")
    settings = settings.updated(given)
    if settings.train is None:
        raise ValueError("which file? Give a training file, or --config with the settings of an earlier run")
    checkpoints = checkpoint_plan(checkpoint, checkpoint_seconds, resume, settings.model)
    plan = search_plan(search, folds, scoring, prior_variances, ranks)
    if plan is not None and given["prior_variance"] is not None:
        raise ValueError("--search chooses the prior variance: say among which by --prior-variances")

    from kernelfields.cli.training_run import run_training

    raise typer.Exit(run_training(settings, voice, checkpoints, plan))


def _prior_variance(text: str | None, c2: float | None) -> float | list[float] | None:
    if text is not None and c2 is not None:
        raise ValueError("--c2 is 1 / (2 prior variance): give one of --c2 and --prior-variance")
    if c2 is None:
        return one_or_more(text, "--prior-variance", float)
    if not c2 >= 0:
        raise ValueError(f"--c2 must be a number of at least 0, got {c2}")
    return 1 / (2 * c2) if c2 else float("inf")


# Columns whose spreads differ by more than this are worth a hint.
