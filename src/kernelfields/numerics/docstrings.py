"""Docstrings of classes with parameters and attributes of several classes, without repetition in the source.

A class explains what it declares itself:

    @complete_docstring
    @dataclass
    class SkipCliques(CliqueSet): ...

and the decorator adds what its base classes explain to the sections Parameters and Attributes, so that the reference,
``help`` and checks see the whole. The docstrings of base classes are complete already: they were declared before.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TypeVar

_OURS = "kernelfields."
# What stands before the sections of a docstring, and the two that are completed.
_HEAD, _PARAMETERS, _ATTRIBUTES = "", "Parameters", "Attributes"

Sections = dict[str, list[str]]
Class = TypeVar("Class", bound=type)


def complete_docstring(cls: Class) -> Class:
    """Add the explanations of base classes to the docstring of a dataclass, in the order of its fields.

    A docstring that explains all of them is left as it is.
    """
    own = _sections(cls)
    bases = [_sections(base) for base in cls.__mro__[1:] if base.__module__.startswith(_OURS)]
    found = {title: _merge(title, [own, *bases]) for title in (_PARAMETERS, _ATTRIBUTES)}
    fields = sorted((each for each in dataclasses.fields(cls) if each.init), key=lambda each: bool(each.kw_only))
    names = [each.name for each in fields]
    found[_PARAMETERS] = {name: found[_PARAMETERS][name] for name in names if name in found[_PARAMETERS]}
    found[_ATTRIBUTES] = {name: text for name, text in found[_ATTRIBUTES].items() if name not in names}
    if any(found[title].keys() - _entries(own.get(title, ())).keys() for title in found):
        completed = {title: [line for entry in found[title].values() for line in entry] for title in found}
        head, others = own.pop(_HEAD), {title: lines for title, lines in own.items() if title not in completed}
        cls.__doc__ = _write({_HEAD: head, **completed, **others})
    return cls


def _sections(cls: type) -> Sections:
    """Return the lines of a docstring by the titles of its sections, in their order."""
    lines = inspect.cleandoc(vars(cls).get("__doc__") or "").splitlines()  # none with python -OO
    found: Sections = {_HEAD: []}
    title, rule = _HEAD, False
    for line, following in pairwise([*lines, ""]):
        if rule:
            rule = False
        elif line and set(following) == {"-"} and len(following) == len(line):
            title, rule = line, True
            found[title] = []
        else:
            found[title].append(line)
    return found


def _entries(lines: Iterable[str]) -> Sections:
    """Return the lines of each parameter or attribute by its name."""
    found: Sections = {}
    name = _HEAD
    for line in lines:
        if line and not line.startswith(" "):
            name = line.partition(" :")[0]
            found[name] = []
        if line:
            found[name].append(line)
    return found


def _merge(title: str, sections: Sequence[Sections]) -> Sections:
    """Merge the entries of a section in the order of the last docstring, with the first text for each."""
    found: Sections = {}
    for each in reversed(sections):
        found |= _entries(each.get(title, ()))
    return found


def _write(sections: Sections) -> str:
    """Return a docstring with some sections."""
    parts = []
    for title, lines in sections.items():
        text = "\n".join(lines).strip("\n")
        if text:
            parts.append(f"{title}\n{'-' * len(title)}\n{text}" if title else text)
    return "\n\n".join(parts) + "\n"
