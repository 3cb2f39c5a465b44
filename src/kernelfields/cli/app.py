"""Typer application: the command and its subcommands.

Commands import their modules when they run, so that help is fast.
"""

from __future__ import annotations

from typing import Annotated

import typer

from kernelfields import __version__
from kernelfields.cli.checkout_scripts import PASSED_ON, find_experiments, reproduce
from kernelfields.cli.convert import convert, export
from kernelfields.cli.evaluate import evaluate
from kernelfields.cli.help import HelpfulCommand
from kernelfields.cli.inspect import certify, inspect
from kernelfields.cli.label import agreement, label
from kernelfields.cli.labelling import check, rank
from kernelfields.cli.messages import CommandGroup
from kernelfields.cli.predict import predict
from kernelfields.cli.serve import serve
from kernelfields.cli.train import train

app = typer.Typer(
    name="kernelfields",
    cls=CommandGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (train, predict, evaluate, inspect, certify, check, rank, convert, export, label, agreement, serve):
    app.command(cls=HelpfulCommand)(command)
# Experiments come with the source alone.
app.command(cls=HelpfulCommand, context_settings=PASSED_ON, hidden=find_experiments() is None)(reproduce)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"kernelfields {__version__}")
        raise typer.Exit


@app.callback()
def kernelfields(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Label sequences with conditional random fields: from a file to a model, its evaluation and a report.

    \b
    Begin with a file that has a word and its label on each line, and an empty
    line between sentences:
      kernelfields train train.conll -m model.safetensors
      kernelfields evaluate model.safetensors test.conll
      kernelfields predict model.safetensors new.txt > labelled.txt

    \b
    Each command explains itself with --help. Files named - are standard input
    and output. Exit codes: 0 done, 1 done but not as required, 2 not
    done, 130 interrupted.
    """
