"""Experiments of a checkout: ``kernelfields reproduce`` runs them by name.

They are in the folder ``experiments`` beside ``src``, not in the installed package.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

import kernelfields
from kernelfields.cli import library
from kernelfields.cli.messages import explain_errors

_Name = Annotated[str | None, typer.Argument(help="Which one; without a name they are listed.", metavar="NAME")]
#: What is not an option of ours goes to the script.
PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True}


@explain_errors
def reproduce(context: typer.Context, name: _Name = None) -> None:
    """Run an experiment: the paper's figure, or one of our result tables.

    \b
    Options after the name go to the experiment.

    \b
    Which are there?
      kernelfields reproduce
    Run one, and see what it takes:
      kernelfields reproduce prominence
      kernelfields reproduce prominence -- --help
    """
    raise typer.Exit(_run(name, context.args))


def _run(name: str | None, arguments: list[str]) -> int:
    """Run the script of an experiment in a separate process."""
    folder = find_experiments()
    if folder is None:
        raise ValueError(
            "experiments come with the source of kernelfields, not with the installed package: run this inside a "
            "checkout"
        )
    texts = {path.stem: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.py"))}
    scripts = {stem: text for stem, text in texts.items() if '__name__ == "__main__"' in text}
    if name is None:
        width = max(map(len, scripts), default=0)
        with library.standard_output():
            for stem, text in scripts.items():
                title, *_ = (ast.get_docstring(ast.parse(text)) or "").split("\n")
                typer.echo(f"{stem:{width}}  {title}")
        return 0
    wanted = name.removesuffix(".py").replace("-", "_")
    if wanted not in scripts:
        raise ValueError(f"there is no {name!r} in {folder}: choose among {', '.join(scripts) or 'nothing'}")
    # A module of the checkout, so that scripts can import each other; paths among the options stay what they are.
    command = [sys.executable, "-m", f"experiments.{wanted}", *arguments]
    search_path = os.pathsep.join(filter(None, [str(folder.parent), os.environ.get("PYTHONPATH")]))
    return subprocess.run(command, env={**os.environ, "PYTHONPATH": search_path}, check=False).returncode


def find_experiments() -> Path | None:
    """Find the folder of experiments in the checkout of the package or in the working directory, else None."""
    roots = (Path(kernelfields.__file__).parents[2], Path.cwd())
    folders = [root / "experiments" for root in roots if (root / "src" / "kernelfields").is_dir()]
    return next((folder for folder in folders if folder.is_dir()), None)
