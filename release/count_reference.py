"""Count what the reference explains: every public name, and every public method of it, inherited ones too.

    python release/count_reference.py

Names are those of release/check_reference.py. Parameters are asked of what takes arguments, Returns of functions and
methods that return something, Examples of classes, functions and methods that answer. A method without a docstring has
that of the method that it overrides; a docstring that several classes share counts in each. Doctests are counted as
tests/test_reference.py finds them.
"""

from __future__ import annotations

import inspect
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

from check_reference import COMPLETE, NEEDED, answered_names, has_answer, public_methods, public_names
from numpydoc.docscrape import FunctionDoc, NumpyDocString

PACKAGE = Path(__file__).parents[1] / "src" / "kernelfields"
#: Returned by functions and methods that return nothing, as annotations are written.
_NOTHING = ("None", None, "NoReturn")


def takes_arguments(each: object) -> bool:
    """Return whether a class, function or method takes arguments besides ``self``."""
    try:
        parameters = inspect.signature(each).parameters  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
    return bool(set(parameters) - {"self", "cls"})


def returns_something(each: object) -> bool:
    """Return whether a function or method is annotated with something else than None."""
    annotation = inspect.signature(each).return_annotation  # type: ignore[arg-type]
    return annotation is not inspect.Signature.empty and annotation not in _NOTHING


def docstring_of(owner: type, method: str) -> str:
    """Return the docstring of a method, or of the method that it overrides."""
    return next((text for base in owner.__mro__ if (text := getattr(vars(base).get(method), "__doc__", None))), "")


def sections(text: str | None) -> NumpyDocString:
    """Return a docstring by its sections."""
    return FunctionDoc(None, doc=inspect.cleandoc(text or ""))


def count(named: dict[str, object]) -> tuple[Counter[str], Counter[str]]:
    """Return how many names have a section, and how many should, by the kind of the name and the section."""
    have: Counter[str] = Counter()
    should: Counter[str] = Counter()

    def add(key: str, found: object) -> None:
        should[key] += 1
        have[key] += bool(found)

    for each in named.values():
        kind, text = "classes" if isinstance(each, type) else "functions", sections(each.__doc__)
        if takes_arguments(each):
            add(f"Parameters of {kind}", text["Parameters"])
        add(f"Examples of {kind}", text["Examples"])
        if not isinstance(each, type):
            if returns_something(each):
                add("Returns of functions", text["Returns"] or text["Yields"])
            continue
        for name in public_methods(each):
            method, text = getattr(each, name), sections(docstring_of(each, name))
            if takes_arguments(method):
                add("Parameters of methods", text["Parameters"])
            if returns_something(method):
                add("Returns of methods", text["Returns"] or text["Yields"])
            if has_answer(name):
                add("Examples of methods that answer", text["Examples"])
    return have, should


def n_doctests() -> int:
    """Return the number of docstrings with examples that run."""
    sys.path.insert(0, str(PACKAGE.parents[1] / "tests"))
    import importlib

    from test_reference import MODULES, Finder
    from test_reference import NEEDED as PACKAGES

    found = 0
    for module in MODULES:
        missing = (
            package
            for room, packages in PACKAGES.items()
            if f"{module}.".startswith(f"kernelfields.{room}.")
            for package in packages
            if not find_spec(package)
        )
        if next(missing, None) is None:
            found += sum(bool(tests.examples) for tests in Finder().find(importlib.import_module(module)))
    return found


def main() -> None:
    """Print the counts; exit with 1 unless every count is all."""
    packages = [package for package in COMPLETE if find_spec(NEEDED.get(package, "kernelfields"))]
    named = answered_names()
    for package in packages:
        named |= public_names(package)
    have, should = count(named)
    print(f"public names: {len(named)}")
    for key in sorted(should):
        print(f"{key}: {have[key]} of {should[key]}")
    print(f"doctests: {n_doctests()}")
    sys.exit(0 if have == should else 1)


if __name__ == "__main__":
    main()
