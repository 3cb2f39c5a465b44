"""A model behind another program, ``kernelfields serve``: a backend of Label Studio."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from kernelfields import cli
from kernelfields.cli import library
from kernelfields.cli.messages import Console, Jobs, command
from kernelfields.numerics.wording import inflect


@command(as_json=False, reads=("model", "train"), writes=("output",))
def serve(
    console: Console,
    model: Annotated[str, typer.Argument(help="A model; with --from-scratch, where it is written.", metavar="MODEL")],
    label_studio: Annotated[
        bool, typer.Option("--label-studio", help="Answer as a machine learning backend of Label Studio.")
    ] = False,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", help="Where fitted models are written; by default MODEL's name with .studio."),
    ] = None,
    train: Annotated[
        str | None,
        typer.Option(
            "--train", help="Labelled data, which each fit takes together with the annotations.", metavar="FILE"
        ),
    ] = None,
    from_scratch: Annotated[
        bool, typer.Option("--from-scratch", help="Fit to the annotations alone; MODEL need not be there.")
    ] = False,
    every: Annotated[
        int,
        typer.Option("--every", metavar="N", help="Fit after N submissions; 0: when training is started.", min=0),
    ] = 1,
    control: Annotated[
        str | None, typer.Option("--control", help="The name of the control tag, if there are several.", metavar="NAME")
    ] = None,
    host: Annotated[str, typer.Option("--host", help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", metavar="N", help="The port; 0 for one that is free.", min=0, max=65535)
    ] = 9090,
    user: Annotated[
        str | None,
        typer.Option("--user", help="The name that requests must have; the password is KERNELFIELDS_PASSWORD."),
    ] = None,
    n_jobs: Jobs = None,
) -> None:
    """Serve a model to Label Studio: predictions with scores, and fits to submitted annotations.

    \b
    MODEL stays as it is. Submitted annotations are kept beside the output, each
    fit takes all of them, and the fitted model is written to the output as a
    whole. Interrupt with Ctrl-C; the same command goes on from there.

    \b
    Predictions for tasks, and fits together with the training data:
      kernelfields serve names.safetensors --label-studio --train train.conll
    From nothing: the model is fitted to what is submitted:
      kernelfields serve names.safetensors --label-studio --from-scratch
    For a Label Studio in a container:
      KERNELFIELDS_PASSWORD=... kernelfields serve names.safetensors --label-studio \\
        --host 0.0.0.0 --user studio
    """
    from contextlib import suppress

    if not label_studio:
        raise ValueError("for what program? --label-studio is the one there is")
    if train is not None and from_scratch:
        raise ValueError("--train and --from-scratch exclude each other")
    library.check_installed()
    password = os.environ.get("KERNELFIELDS_PASSWORD", "")
    if user is not None and not password:
        raise ValueError("--user needs a password: set the environment variable KERNELFIELDS_PASSWORD")
    path = Path(model)
    data: tuple[Any, Any] | None = None
    if train is not None:
        read = cli.load_model(model).read(train)
        worded = cli.get_template(read.reading) is not None
        data = (list((worded and read.words) or read.X), read.y or [])
    backend = library.Backend(
        path,
        Path(output) if output else path if from_scratch else path.with_name(f"{path.stem}.studio{path.suffix}"),
        beginning="nothing" if from_scratch else "model" if data is None else "data",
        data=data,
        every=every,
        control=control,
        n_jobs=n_jobs,
        say=console.info,
    )
    login = None if user is None else (user, password)
    server = library.StudioServer(backend, host, port, login=login)
    console.info(f"{inflect(len(backend.annotations), 'annotation')} in {backend.annotations.path}")
    console.info(f"{backend.version} for Label Studio at {server.address}")
    with suppress(KeyboardInterrupt):  # how it is ended
        server.run()
    backend.wait()
