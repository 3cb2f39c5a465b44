"""Check the reference by numpydoc's own rules: every public name, and every public method of it, inherited ones too.

    python release/check_reference.py

Left out are two rules: an extended summary (ES01) and See Also (SA01) stand where they help. Examples (EX01) are asked
of classes and functions; tests/test_reference.py runs them.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from importlib.util import find_spec

from numpydoc.validate import validate

#: Packages whose public names are explained in full; names at the top are those of these packages, too.
COMPLETE = (
    "basis",
    "compat",
    "engines",
    "evaluation",
    "families",
    "features",
    "formats",
    "kernels",
    "labelling",
    "layers",
    "page",
    "reports",
    "selection",
    "serving",
    "solvers",
    "uncertainty",
)
_NOT_ASKED = {"ES01", "SA01"}
#: What a package needs to be imported.
_NEEDED = {"layers": "torch"}


def public_names(package: str) -> dict[str, object]:
    """Return the classes and functions of a package of kernelfields by their full names."""
    module = importlib.import_module(f"kernelfields.{package}")
    found = {f"kernelfields.{package}.{name}": getattr(module, name) for name in module.__all__}
    own = {name: each for name, each in found.items() if inspect.isclass(each) or inspect.isroutine(each)}
    return {name: each for name, each in own.items() if (each.__module__ or "").startswith("kernelfields")}


def public_methods(owner: type) -> list[str]:
    """Return the names of the public methods of a class, those of its own base classes included."""
    found = {name: inspect.getattr_static(owner, name) for name in dir(owner) if name[0] != "_"}
    functions = {name: getattr(each, "__func__", each) for name, each in found.items()}
    return [
        name
        for name, each in functions.items()
        if inspect.isfunction(each) and (each.__module__ or "").startswith("kernelfields")
    ]


def findings(package: str) -> list[str]:
    """Return what numpydoc finds in the names of a package, a line each."""
    lines = []
    for name, each in public_names(package).items():
        methods = public_methods(each) if isinstance(each, type) else []
        for place in (name, *(f"{name}.{method}" for method in methods)):
            left_out = _NOT_ASKED if place == name else _NOT_ASKED | {"EX01"}
            lines += [f"{place}: {code} {text}" for code, text in validate(place)["errors"] if code not in left_out]
    return lines


def main() -> None:
    """Print the findings of all packages; exit with 1 if there are any."""
    packages = [package for package in COMPLETE if find_spec(_NEEDED.get(package, "kernelfields"))]
    found = [line for package in packages for line in findings(package)]
    print(*found, sep="\n")
    names = sum(len(public_names(package)) for package in packages)
    sys.exit(f"{len(found)} findings in the reference of {names} names" if found else 0)


if __name__ == "__main__":
    main()
