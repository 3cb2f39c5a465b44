"""Check the reference by numpydoc's own rules: every public name, and every public method of it, inherited ones too.

    python release/check_reference.py

Left out are two rules: an extended summary (ES01) and See Also (SA01) stand where they help. Examples (EX01) are asked
of classes, of functions, and of methods that answer, by their names; tests/test_reference.py runs them. A method
without a docstring has that of the method that it overrides.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec

from numpydoc.validate import validate

#: Packages whose public names are explained in full; the first is the top.
COMPLETE = (
    "",
    "annotators",
    "basis",
    "compat",
    "compat.pycrfsuite",
    "compat.utils",
    "data",
    "datasets",
    "engines",
    "estimators",
    "evaluation",
    "families",
    "features",
    "formats",
    "inference",
    "inputs",
    "kernels",
    "labelling",
    "layers",
    "layers.compat",
    "numerics",
    "page",
    "reports",
    "selection",
    "serving",
    "solvers",
    "uncertainty",
)
#: Classes of answers and of fitted attributes, which stand in the modules that give them.
ANSWERED = (
    "compat.training.TrainingLog",
    "data.segments.Segment",
    "estimators.span_questions.Entity",
    "models.choices.Choices",
    "models.choices.Trial",
    "models.stream.LabelStream",
    "models.stream.StreamAnswers",
    "models.structure.StructurePath",
    "objective.bounds.Certificate",
    "posterior.evidence.settings.EvidencePath",
    "posterior.laplace.laplace.Evidence",
    "reports.labelling.LabelError",
    "reports.labelling.LabelErrors",
    "reports.labelling.LabellingOrder",
    "uncertainty.calibrated_field.Reliability",
    "uncertainty.conformal_field.Coverage",
    "uncertainty.conformal_field.LabellingSet",
    "uncertainty.conformal_field.SpanSet",
)
_NOT_ASKED = {"ES01", "SA01"}
#: Methods that answer a question about data or about a fitted model.
_ANSWERS = re.compile(
    "certify|consensus(_.*)?|decision_function|entropy|expectation|explain|laplace|log_likelihood|mean|moments|"
    "predict(_.*)?|reliability|sample(_.*)?|score(_samples)?|show|stream|summary|weights"
)
#: What a package needs to be imported.
NEEDED = {"layers": "torch", "layers.compat": "torch"}


def has_answer(method: str) -> bool:
    """Return whether a method answers a question, by its name."""
    return bool(_ANSWERS.fullmatch(method))


def public_names(package: str) -> dict[str, object]:
    """Return the classes and functions of a package of kernelfields by their full names."""
    path = f"kernelfields.{package}".rstrip(".")
    module = importlib.import_module(path)
    found = {f"{path}.{name}": getattr(module, name) for name in module.__all__}
    own = {name: each for name, each in found.items() if inspect.isclass(each) or inspect.isroutine(each)}
    return {name: each for name, each in own.items() if (each.__module__ or "").startswith("kernelfields")}


def public_methods(owner: type) -> list[str]:
    """Return the names of the public methods of a class, those of its own base classes included.

    Questions that a class passes on are explained where they are answered.
    """
    found = {name: inspect.getattr_static(owner, name) for name in dir(owner) if name[0] != "_"}
    functions = {name: getattr(each, "__func__", getattr(each, "fn", each)) for name, each in found.items()}
    return [
        name
        for name, each in functions.items()
        if inspect.isfunction(each) and (each.__module__ or "").startswith("kernelfields")
    ]


def documented_place(owner: type, name: str, method: str) -> str:
    """Return the full name of the docstring of a method: its own, or that of the method which it overrides."""
    if getattr(owner, method).__doc__:
        return f"{name}.{method}"
    base = next((base for base in owner.__mro__ if getattr(vars(base).get(method), "__doc__", None)), owner)
    return f"{base.__module__}.{base.__qualname__}.{method}"


@cache
def errors_of(place: str) -> list[tuple[str, str]]:
    """Return the codes and texts of what numpydoc finds in a docstring."""
    return [(code, text) for code, text in validate(place)["errors"] if code not in _NOT_ASKED]


def answered_names() -> dict[str, object]:
    """Return the classes of answers by their full names."""
    places = [f"kernelfields.{name}".rpartition(".") for name in ANSWERED]
    return {f"{module}.{name}": getattr(importlib.import_module(module), name) for module, _, name in places}


def findings(named: Mapping[str, object]) -> list[str]:
    """Return what numpydoc finds in classes and functions by their full names, a line each."""
    lines = []
    for name, each in named.items():
        lines += [f"{name}: {code} {text}" for code, text in errors_of(name)]
        for method in public_methods(each) if isinstance(each, type) else []:
            errors = errors_of(documented_place(each, name, method))
            asked = [error for error in errors if error[0] != "EX01" or has_answer(method)]
            lines += [f"{name}.{method}: {code} {text}" for code, text in asked]
    return lines


def main() -> None:
    """Print the findings of all packages; exit with 1 if there are any."""
    packages = [package for package in COMPLETE if find_spec(NEEDED.get(package, "kernelfields"))]
    named = answered_names()
    for package in packages:
        named |= public_names(package)
    found = findings(named)
    print(*found, sep="\n")
    sys.exit(f"{len(found)} findings in the reference of {len(named)} names" if found else 0)


if __name__ == "__main__":
    main()
