"""Which modules of a package import which: import statements, and names of modules passed to ``import_module``.

``package`` is the folder of the package. Imports within functions and for annotations count. A module that calls
``import_module``, ``__import__`` or ``lazy_names`` imports every module that one of its string constants names,
absolutely or relative to its own package. A package with a stub imports what the stub does.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

#: Functions that import a module by its name.
DYNAMIC = ("import_module", "__import__", "lazy_names")


def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """Return the nodes of the syntax tree of a file, the module first."""
    return _nodes(path.read_text(encoding="utf-8"))


@lru_cache(maxsize=1000)
def _nodes(text: str) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(ast.parse(text)))


def module_names(package: Path) -> dict[Path, str]:
    """Return the dotted name of each module of a package."""
    return {path: module_name(path, package) for path in sorted(package.rglob("*.py"))}


def module_name(path: Path, package: Path) -> str:
    """Return the dotted name of a module."""
    parts = (package.name, *path.relative_to(package).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_names(path: Path, package: Path) -> Iterator[str]:
    """Yield the dotted names that a module imports by statements, relative ones resolved."""
    folder, stub = (package.name, *path.relative_to(package).parent.parts), path.with_suffix(".pyi")
    for node in (*nodes_of(path), *(nodes_of(stub) if stub.exists() else ())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = folder[: len(folder) - node.level + 1] if node.level else ()
            base = ".".join([*above, *([node.module] if node.module else [])])
            # ``from kernelfields import solvers`` names a module as well.
            yield from (f"{base}.{alias.name}" for alias in node.names)


def dynamic_calls(path: Path) -> list[int]:
    """Return the lines on which a module calls a function that imports a module by its name."""
    calls = (node for node in nodes_of(path) if isinstance(node, ast.Call))
    called = ((getattr(call.func, "id", getattr(call.func, "attr", "")), call.lineno) for call in calls)
    return [line for name, line in called if name in DYNAMIC]


def _dynamic_names(path: Path, package: Path) -> Iterator[str]:
    """Yield the strings of a module that imports by names, as absolute names."""
    if not dynamic_calls(path):
        return
    folder = ".".join((package.name, *path.relative_to(package).parent.parts))
    for node in nodes_of(path):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from (node.value, f"{folder}.{node.value}")


def module_imports(package: Path, *, dynamic: bool = True) -> dict[str, set[str]]:
    """Return the modules of a package that each of its modules imports, with ``dynamic`` also by their names."""
    names = module_names(package)
    known, imports = set(names.values()), {}
    for path, own in names.items():
        stated = {name if name in known else name.rpartition(".")[0] for name in imported_names(path, package)}
        named = set(_dynamic_names(path, package)) if dynamic else set()
        imports[own] = (stated | named) & known - {own}
    return imports


def modules_in_circles(imports: Mapping[str, set[str]]) -> list[str]:
    """Return the modules that import each other in circles, with those that lead from circle to circle."""
    above: dict[str, set[str]] = {name: set() for name in imports}
    for name, imported in imports.items():
        for below in imported:
            above[below].add(name)
    left = set(imports)
    while removed := {name for name in left if not (imports[name] & left) or not (above[name] & left)}:
        left -= removed
    return sorted(left)
