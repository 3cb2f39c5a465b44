"""Options that several commands share, with the words that explain them."""

from __future__ import annotations

from typing import Annotated

import typer

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but warnings and errors.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Say more: every iteration, tracebacks of errors.")]
AsJson = Annotated[bool, typer.Option("--json", help="Write the result as JSON to standard output, for machines.")]
Jobs = Annotated[
    int | None,
    typer.Option("--n-jobs", "-j", help="Threads; -1 means all cores.", show_default="all cores"),
]
ModelFile = Annotated[str, typer.Argument(help="A model that kernelfields train wrote.", metavar="MODEL")]
