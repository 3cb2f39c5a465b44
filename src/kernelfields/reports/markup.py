"""The templates of HTML, and the colours of pages, notebooks and pictures.

HTML comes from the jinja2 templates in the folder ``templates``, which escape every value that is not
:class:`Markup`. jinja2 is loaded when the first template is filled.

Colours have names (``var(--kf-accent)``), so that one picture or table serves all schemes. On a page they keep a
contrast of at least 4.5 to 1 with the background for text, and no meaning rests on colour alone. A notebook has its own
colour scheme, which media queries do not report: there, text takes the colour of the text around it, and the other
colours are legible on white and on black.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

if TYPE_CHECKING:
    from jinja2 import Environment

# On light paper, on dark screens, in notebooks. Cells of notebooks are half transparent: the paper behind them, light
# or dark, keeps the numbers in them readable.
_COLOURS = {
    "ink": ("#1d2530", "#e7eaef", "currentColor"),
    "muted": ("#596473", "#9da8b7", "color-mix(in srgb,currentColor 72%,transparent)"),
    "paper": ("#f7f7f4", "#13171c", "transparent"),
    "card": ("#ffffff", "#1a1f26", "transparent"),
    "line": ("#dde1e6", "#333c48", "color-mix(in srgb,currentColor 22%,transparent)"),
    "accent": ("#2156a5", "#86b4ff", "#3f7fd9"),
    "second": ("#9c4f00", "#f2ac66", "#c76a12"),
    "third": ("#1a7347", "#76cf9f", "#2b9a62"),
    "fourth": ("#7b3ea3", "#d0a3ee", "#9d5fc4"),
    "cell": ("#76a3ea", "#2b62b5", "rgba(70,130,230,0.6)"),
    "cell-below": ("#eba767", "#96560f", "rgba(225,130,40,0.6)"),
    "wrong": ("#b3261e", "#ff9389", "#d0453a"),
}
#: Colours on light paper by name, which are also those of pictures in files.
LIGHT = {name: colours[0] for name, colours in _COLOURS.items()}
#: The values of the colours in each scheme, as templates need them.
SCHEMES = {
    scheme: ";".join(f"--kf-{name}:{colours[index]}" for name, colours in _COLOURS.items())
    for index, scheme in enumerate(("light", "dark", "notebook"))
}
# Neither HTML nor XML allows these, and lone surrogates cannot be written as UTF-8.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def valid_text(text: object) -> str:
    """Replace the characters that HTML and XML do not allow."""
    return _FORBIDDEN.sub("\ufffd", str(text))


def render(template: str, **values: object) -> Markup:
    """Render a template of the folder ``templates``; values are escaped unless they are Markup."""
    return Markup(_templates().get_template(template).render(values))


@cache
def _templates() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: value if isinstance(value, Markup) else valid_text(value),
        keep_trailing_newline=True,
    )


def notebook(parts: Iterable[Markup]) -> str:
    """Return parts as one HTML element with inline style, for a notebook or any page."""
    return str(render("notebook.html", parts=parts, **SCHEMES))
