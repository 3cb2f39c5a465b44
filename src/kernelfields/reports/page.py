"""HTML pages and notebook cells, self-contained: no scripts, nothing loaded from elsewhere; the base of displays.

A page follows light and dark screens and can be printed; paper is always light. Colours have names
(``var(--kf-accent)``), so that one picture or table serves all schemes. On a page they keep a contrast of at least
4.5 to 1 with the background for text, and no meaning rests on colour alone. A notebook has its own colour scheme, which
media queries do not report: there, text takes the colour of the text around it, and the other colours are legible on
white and on black. The elements and the style are jinja2 templates in the folder ``templates``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeAlias, runtime_checkable

from kernelfields.reports.tables import Markup, PlainValues, Result, Table, printable, render

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


@runtime_checkable
class HasMarkup(Protocol):
    """What a page shows as an element of its own: a table, a picture, a display."""

    def markup(self) -> Markup:
        """Return the element for a page, which has the style for it."""


#: What a page shows: paragraphs of strings, Markup as it is, other objects by their ``markup()``.
Part: TypeAlias = str | HasMarkup


class Shown(Result):
    """The base of what is shown: ``str()`` for a terminal, HTML for notebooks and pages, plain values and rows."""

    def parts(self) -> Iterable[Part | list[Table]]:
        """Yield what is shown, in order; tables in a list stand side by side in HTML."""
        raise NotImplementedError

    def __str__(self) -> str:
        texts = (_text_of(part) for group in self.parts() for part in (group if isinstance(group, list) else [group]))
        return "\n\n".join(filter(None, texts))

    def markup(self) -> Markup:
        """Return the display for a page, which has the style for it."""
        groups = [
            [part.markup() for part in group] if isinstance(group, list) else markup_of(group) for group in self.parts()
        ]
        return render("display.html", groups=groups)

    def _repr_html_(self) -> str | None:
        return notebook([self.markup()])

    def to_rows(self) -> list[PlainValues]:
        """Return one dict for each row of the tables, for ``pandas.DataFrame`` or ``csv.DictWriter``."""
        tables = [part for part in self.parts() if isinstance(part, Table)]
        return [row for table in tables for row in table.to_rows()]


def _text_of(part: Part) -> str:
    """Return a part as text; pictures and HTML have none."""
    if isinstance(part, Table):
        return part.text()
    if isinstance(part, Markup) or not isinstance(part, str):
        return ""
    return "\n".join(printable(line, None) for line in part.split("\n"))


def page(title: str, lead: str, sections: Iterable[Markup], footer: str | None = None) -> str:
    """Return a whole HTML document. Write it as UTF-8."""
    return str(render("page.html", title=title, lead=lead, sections=sections, footer=footer, **SCHEMES))


def section(heading: str, *content: Part) -> Markup:
    """Return a section; plain strings among the content become paragraphs."""
    return render("section.html", heading=heading, parts=map(markup_of, content))


def beside(*figures: tuple[str, Part]) -> Markup:
    """Return captioned pictures next to each other, or below each other on a narrow screen."""
    return render("beside.html", figures=[(caption, markup_of(picture)) for caption, picture in figures])


def markup_of(part: Part) -> Markup:
    """Return what a page shows of a part: Markup as it is, a paragraph for a string, else its ``markup()``."""
    if isinstance(part, Markup):
        return part
    return part.markup() if isinstance(part, HasMarkup) else render("paragraph.html", text=part)


def notebook(parts: Iterable[Markup]) -> str:
    """Return parts as one element that brings its own style and loads nothing, for a notebook or any page."""
    return str(render("notebook.html", parts=parts, **SCHEMES))
