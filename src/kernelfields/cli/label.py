"""Label, correct and refit in the browser, ``kernelfields label``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kernelfields.cli.messages import Console, Jobs, command
from kernelfields.numerics.wording import counted


@command()
def label(
    console: Console,
    file: Annotated[str, typer.Argument(help="Sequences to label: column files or CSV.", metavar="FILE")],
    model: Annotated[str | None, typer.Option("--model", "-m", help="A model of train to begin with.")] = None,
    labels: Annotated[str | None, typer.Option("--labels", help="The labels there are, with commas between.")] = None,
    sequence_column: Annotated[
        str | None, typer.Option("--sequence-column", help="The column that separates sequences of CSV.")
    ] = None,
    journal: Annotated[
        str | None, typer.Option("--journal", help="Where actions are kept; FILE.journal by default.")
    ] = None,
    port: Annotated[int, typer.Option("--port", help="The port; 0 for one that is free.", min=0, max=65535)] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the browser.")] = True,
    n_jobs: Jobs = None,
) -> None:
    """Label a file in the browser, with a model beside.

    \b
    Fix a label, and the rest of the sequence is decoded given it, at once. Every
    action is kept in a journal beside the file before the page shows it; the file
    is written when you save. Interrupt with Ctrl-C: nothing is lost.

    \b
    From nothing, with labels of your own:
      kernelfields label notes.conll --labels B-drug,I-drug,O
    Correct what a model predicts:
      kernelfields label new.conll --model drugs.safetensors
    """
    import webbrowser
    from contextlib import closing

    from kernelfields.cli.models import load_model
    from kernelfields.page.files import LabelFile
    from kernelfields.page.server import Server, check_installed
    from kernelfields.page.session import LabellingSession

    check_installed()  # before a journal is begun
    trained = None if model is None else load_model(model, n_jobs)
    options = {} if sequence_column is None else {"sequence": sequence_column}
    if trained is not None:
        options = trained.reading
    opened = LabelFile.open(file, **options)
    words = opened.words if trained is None else None
    X = opened.read.X if words is None else words
    labelling = LabellingSession(
        X,
        opened.read.y,
        None if trained is None else trained.crf,
        classes=None if labels is None else [part.strip() for part in labels.split(",") if part.strip()],
        words=opened.words,
        columns=opened.columns,
        file=opened,
        journal=journal or f"{Path(file)}.journal",
    )
    with closing(labelling):
        server = Server(labelling, port)
        if labelling.journal.actions:
            console.info(f"applied {counted(len(labelling.journal.actions), 'action')} of the journal")
        console.info(f"labelling {file} at {server.address}")
        if browser:
            webbrowser.open(server.address)
        server.run()
