"""The house in numbers: files that a fit enters, sizes of the source, and how often one concept is written down.

    python -m benchmarks.house [--source src] [--dask] [--list]

A file is entered by a call when one of its functions runs, compiled ones included. ``--source`` counts another
checkout, so that two of them can be compared. Constructors of estimators and functions of the command are left out of
the count of long parameter lists. Classes are counted by the end of their names, ``Any`` by lines with the word, and
functions that take an estimator without a type by parameters named estimator, crf, model or field.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from benchmarks.import_graph import dynamic_calls, module_imports, modules_in_circles

MANY_PARAMETERS = 12
#: Ends of names of classes that are counted: concepts that should be written down once.
CONCEPTS = ("Likelihood", "Layout", "Answers", "Structure")
#: Parameters that need a type.
ESTIMATORS = ("estimator", "crf", "model", "field")


def walked(package: Path, call: Callable[[], object]) -> dict[str, set[str]]:
    """Return the functions of the package that a call runs, by file."""
    seen: dict[str, set[str]] = {}
    folder = f"{package}{os.sep}"

    def note(frame: object, event: str, argument: object) -> None:
        code = frame.f_code  # type: ignore[attr-defined]
        if event == "call" and code.co_filename.startswith(folder) and code.co_name != "<module>":
            seen.setdefault(code.co_filename[len(folder) :], set()).add(code.co_qualname)

    call()  # so that modules which are loaded with the first call do not count
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return seen


def walks(dask: bool) -> Iterator[tuple[str, dict[str, set[str]]]]:
    """Yield the walks of a fit of an RBF field, marginals, a Laplace approximation and a fit on a cluster."""
    import kernelfields
    from kernelfields import ChainCRF

    package = Path(kernelfields.__file__).parent
    random = np.random.default_rng(0)
    y = [np.repeat(random.integers(3, size=4), 3) for _ in range(40)]
    X = [np.eye(3)[labels] + random.normal(size=(12, 3)) for labels in y]
    crf = ChainCRF("rbf", rank=50, random_state=0)
    yield "fit", walked(package, lambda: crf.fit(X, y))
    yield "predict_marginals", walked(package, lambda: crf.predict_marginals(X))
    yield "laplace", walked(package, lambda: crf.laplace(X, y, random_state=0))
    if dask:
        import distributed

        cluster = distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None, silence_logs=50
        )
        with cluster, distributed.Client(cluster):
            remote = ChainCRF("rbf", rank=50, random_state=0, engine="dask")
            yield "fit on Dask", walked(package, lambda: remote.fit(X, y))


def long_signatures(package: Path) -> list[tuple[str, str, int]]:
    """Return the functions with many parameters, but for constructors of estimators and the command."""
    found = []
    for path in sorted(package.rglob("*.py")):
        place = path.relative_to(package)
        if place.parts[0] in ("cli", "command"):
            continue
        for owner in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(owner, ast.Module | ast.ClassDef):
                continue
            for node in owner.body:
                if not isinstance(node, ast.FunctionDef) or (
                    node.name == "__init__" and place.parts[0] in ("estimators", "selection", "compat")
                ):
                    continue
                arguments = node.args
                every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
                count = len([each for each in every if each.arg not in ("self", "cls")])
                if count >= MANY_PARAMETERS:
                    found.append((place.as_posix(), node.name, count))
    return found


def functions_of(package: Path) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Yield the functions and methods of a package with their files."""
    for path in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                yield path.relative_to(package).as_posix(), node


def untyped_estimators(package: Path) -> list[str]:
    """Return the functions with a parameter for an estimator whose type is ``Any``."""
    found = []
    for place, node in functions_of(package):
        for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
            annotation = "" if argument.annotation is None else ast.unparse(argument.annotation)
            if argument.arg in ESTIMATORS and annotation == "Any":
                found.append(f"{place} {node.name}")
    return found


def print_concepts(package: Path, texts: dict[Path, str], listed: bool) -> None:
    """Print how often concepts are written down, and what hides types and imports."""
    for concept in CONCEPTS:
        classes = [
            name for text in texts.values() for name in re.findall(rf"^class (\w*{concept})\b", text, re.MULTILINE)
        ]
        print(f"classes ...{concept:<12}{len(classes):4d}")
        if listed:
            print(f"    {', '.join(sorted(classes))}")
    lines = sum(bool(re.search(r"\bAny\b", line)) for text in texts.values() for line in text.splitlines())
    print(f"lines with Any       {lines}")
    print(f"modules in circles   {len(modules_in_circles(module_imports(package)))}")
    # The lists of public names of packages and numerics/lazy.py, which loads packages on first use, import by names.
    lazy = ("__init__.py", "lazy.py")
    hidden = [path for path in texts if path.name not in lazy and dynamic_calls(path)]
    print(f"imports by names     {len(hidden)}")
    untyped = untyped_estimators(package)
    print(f"untyped estimators   {len(untyped)}")
    for place in untyped if listed else ():
        print(f"    {place}")


def main() -> None:
    """Count and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, default=Path(__file__).resolve().parents[1] / "src")
    parser.add_argument("--dask", action="store_true", help="walk through a fit on a cluster as well")
    parser.add_argument("--list", action="store_true", help="name the files and the long signatures")
    parser.add_argument("--walk", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.walk:
        # In a process of its own, with the package of the source that was asked for.
        command = [sys.executable, "-m", "benchmarks.house", "--walk", *sys.argv[1:]]
        paths = f"{options.source.resolve()}{os.pathsep}{Path(__file__).resolve().parents[1]}"
        subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": paths})
        return
    warnings.simplefilter("ignore")
    for name, seen in walks(options.dask):
        functions = sum(map(len, seen.values()))
        print(f"{name:<20}{len(seen):4d} files, {functions} functions")
        for file in sorted(seen) if options.list else ():
            print(f"    {file} {len(seen[file])}")
    package = options.source.resolve() / "kernelfields"
    texts = {path: path.read_text(encoding="utf-8") for path in package.rglob("*.py")}
    print(f"files under src      {len(texts)}")
    print(f"lines under src      {sum(len(text.splitlines()) for text in texts.values())}")
    print_concepts(package, texts, options.list)
    signatures = long_signatures(package)
    print(f"functions of {MANY_PARAMETERS} or more parameters  {len(signatures)}")
    for file, name, count in signatures if options.list else ():
        print(f"    {file} {name} {count}")
    print(f"longest file         {max(len(text.splitlines()) for text in texts.values())} lines")
    folders = [len(list(folder.glob("*.py"))) for folder in {path.parent for path in texts}]
    print(f"largest folder       {max(folders)} files")


if __name__ == "__main__":
    main()
