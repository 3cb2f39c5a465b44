"""Sphinx extension: docstrings as the site shows them.

Docstrings are written to be read in a terminal: names of pages as files (``docs/frames.md``), names that end in an
underscore without quotes, and of classes that few call, entries in one line: ``rank : int, default 1000; most basis
functions``. Here they are laid out as numpydoc reads them. Methods that come from scikit-learn (``get_params``,
``set_fit_request``) are documented there and left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from sphinx.application import Sphinx

PAGE = re.compile(r"\bdocs/(\w+(?:/\w+)*)\.md\b")
ENTRY = re.compile(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)*) : (.*)$")
SECOND_ATTRIBUTE = re.compile(r"; (?=\w+_(?:, \w+_)* : )")
FITTED = re.compile(r"(?<![\w`.:/])(\w*[a-z]_)(?![\w`{])")
RULE = re.compile(r"^-{3,}$")


def sections(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Yield each line with the title of the section that it stands in."""
    title = ""
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if RULE.match(following) and line and not line.startswith(" "):
            title = line
        yield title, line


def is_terse(line: str, following: str) -> bool:
    """Whether the entry of an attribute says what it is in its own line, not below."""
    return bool(ENTRY.match(line)) and not following.startswith(" ")


def attributes(line: str) -> Iterator[str]:
    """Yield the entries of a line of attributes: the names, and what they are as an indented description."""
    for entry in SECOND_ATTRIBUTE.split(line):
        match = ENTRY.match(entry)
        yield from (match[1], f"    {match[2]}") if match else (entry,)


def parameters(line: str) -> Iterator[str]:
    """Yield the entry of a parameter; what follows a semicolon describes it, and so does a word of where else it is."""
    match = ENTRY.match(line)
    if match and match[2].startswith("as in"):
        yield from (match[1], f"    {match[2].rstrip('.')}.")
    elif match and "; " in match[2]:
        kind, _, description = match[2].partition("; ")
        yield from (f"{match[1]} : {kind}", f"    {description}")
    else:
        yield line


def quoted(line: str) -> str:
    """Put names of fitted attributes, which docutils would take for links, into quotes."""
    parts = line.split("``")
    parts[::2] = [FITTED.sub(r"``\1``", part) for part in parts[::2]]
    return "``".join(parts)


def lay_out(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Lay a docstring out as numpydoc reads it, and link the pages that it names."""
    laid_out: list[str] = []
    for (title, line), following in zip(sections(lines), [*lines[1:], ""], strict=True):
        if title == "Attributes" and is_terse(line, following):
            names, *rest = attributes(line)
            laid_out += [names, *(quoted(each) if each.startswith(" ") else each for each in rest)]
        elif title == "Attributes" and ENTRY.match(line):
            laid_out.append(line)
        elif title == "Parameters":
            laid_out += map(quoted, parameters(line))
        else:
            laid_out.append(quoted(line))
    lines[:] = [PAGE.sub(r":doc:`/\1`", line) for line in laid_out]


def skip_foreign(app: Sphinx, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Leave out members that another package defines; None leaves the decision to Sphinx."""
    function = getattr(obj, "fget", None) or getattr(obj, "__func__", obj)
    home = getattr(function, "__module__", None) or ""
    return True if home.partition(".")[0] in {"sklearn", "abc", "enum"} else None


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect the steps to the reading of docstrings, before that of numpydoc."""
    app.connect("autodoc-process-docstring", lay_out, priority=400)
    app.connect("autodoc-skip-member", skip_foreign)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
