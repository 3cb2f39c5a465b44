"""Draw names of classes, functions and methods with the first lines of their docstrings, to be judged by a reader.

    python release/draw_names.py SEED [COUNT]

Drawn are 60 of all that have a docstring under src, private names and methods included, special methods left out. A
seed gives the same names as long as the sources are the same.
"""

from __future__ import annotations

import ast
import random
import sys
from collections.abc import Iterator
from pathlib import Path

SOURCES = Path(__file__).parents[1] / "src" / "kernelfields"


def first_lines(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the full names of the classes and functions of a file that have a docstring, with its first line."""
    open_nodes: list[tuple[str, ast.AST]] = [("", ast.parse(path.read_text(encoding="utf-8")))]
    while open_nodes:
        owner, node = open_nodes.pop()
        for child in ast.iter_child_nodes(node):
            is_definition = isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            name = f"{owner}.{child.name}".lstrip(".") if is_definition else owner
            open_nodes.append((name, child))
            if is_definition and not child.name.startswith("__") and (text := ast.get_docstring(child)):
                yield name, text.splitlines()[0]


def draw(seed: int, count: int = 60) -> list[str]:
    """Return lines of names drawn with a seed: file, name and first line."""
    lines = sorted(
        f"{path.relative_to(SOURCES).as_posix()}: {name}: {line}"
        for path in SOURCES.rglob("*.py")
        for name, line in first_lines(path)
    )
    return random.Random(seed).sample(lines, count)


if __name__ == "__main__":
    print(*draw(*map(int, sys.argv[1:])), sep="\n")
