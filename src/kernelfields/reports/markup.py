"""Elements of HTML and SVG, escaped by construction.

    element("p", "a < b", class_="note")  ->  <p class="note">a &lt; b</p>

Plain strings are escaped; only :class:`Markup`, which elements return, passes as it is. Numbers in attributes
must be finite: a browser drops a shape with "nan" in it without a word.
"""

from __future__ import annotations

import html
import math
import numbers
import re
from collections.abc import Iterable

_VOID = frozenset({"img", "meta"})
# Neither HTML nor XML allows these, and lone surrogates cannot be written as UTF-8.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


class Markup(str):
    """Text that is already HTML or SVG."""

    __slots__ = ()


def escape(text: object) -> Markup:
    """Return text safe between tags and inside quoted attributes; Markup is returned unchanged."""
    if isinstance(text, Markup):
        return text
    return Markup(html.escape(_FORBIDDEN.sub("\ufffd", str(text)), quote=True))


def element(tag: str, *children: object, **attributes: object) -> Markup:
    """Return one element. ``class_`` and ``stroke_width`` become class and stroke-width; None is left out."""
    opening = tag + "".join(
        f' {name.rstrip("_").replace("_", "-")}="{_attribute(name, value)}"'
        for name, value in attributes.items()
        if value is not None
    )
    if tag in _VOID:
        if children:
            raise ValueError(f"<{tag}> cannot have content, got {len(children)} children")
        return Markup(f"<{opening}>")
    return Markup(f"<{opening}>{join(children)}</{tag}>")


def join(parts: Iterable[object]) -> Markup:
    """Return parts one after the other, escaping those that are not Markup."""
    return Markup("".join(escape(part) for part in parts))


def _attribute(name: str, value: object) -> str:
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        number = float(value)
        if not math.isfinite(number):
            raise ValueError(f"attribute {name!r} must be a finite number, got {value!r}")
        # Adding zero turns -0.0 into 0.0.
        return f"{round(number, 2) + 0.0:.2f}".rstrip("0").rstrip(".")
    # str() takes a Markup back to plain text: inside quotes it is escaped like any other.
    return escape(str(value))
