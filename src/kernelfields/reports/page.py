"""HTML pages and notebook cells, self-contained: no scripts, nothing loaded from elsewhere; the base of displays.

A page follows light and dark screens and can be printed; paper is always light. The elements and the style are
templates (markup.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeAlias, runtime_checkable

from kernelfields.reports.markup import SCHEMES, Markup, notebook, render
from kernelfields.reports.tables import PlainValues, Result, Table, printable


@runtime_checkable
class HasMarkup(Protocol):
    """The interface of elements of a page: a table, a picture, a display."""

    def markup(self) -> Markup:
        """Return the element as HTML for a page."""


#: What a page shows: paragraphs of strings, Markup as it is, other objects by their ``markup()``.
Part: TypeAlias = str | HasMarkup


class Shown(Result):
    """Base class of displays: text for a terminal, HTML for notebooks and pages, plain values and rows.

    See Also
    --------
    report_page : Joins several into a page.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import ChainCRF
    >>> y = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]]
    >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])]
    >>> crf = ChainCRF("rbf", prior_variance=1.0, scale=True, window=1).fit(X, y)
    >>> crf.weights().to_rows()[0]["set"]
    'transitions'
    """

    def parts(self) -> Iterable[Part | list[Table]]:
        """Yield the parts of the display in order; tables in a list are side by side in HTML.

        Yields
        ------
        str, Table and Picture
            The parts.
        """
        raise NotImplementedError

    def __init_subclass__(cls) -> None:
        """Restore the representation of displays that are dataclasses."""
        super().__init_subclass__()
        cls.__repr__ = Shown.__repr__  # type: ignore[method-assign]

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        texts = (_to_text(part) for group in self.parts() for part in (group if isinstance(group, list) else [group]))
        return "\n\n".join(filter(None, texts))

    def markup(self) -> Markup:
        """Return the display as HTML for a page.

        Returns
        -------
        Markup
            The HTML.
        """
        groups = [
            [part.markup() for part in group] if isinstance(group, list) else render_part(group)
            for group in self.parts()
        ]
        return render("display.html", groups=groups)

    def _repr_html_(self) -> str | None:
        return notebook([self.markup()])

    def to_rows(self) -> list[PlainValues]:
        """Return one dict for each row of the tables, for ``pandas.DataFrame`` or ``csv.DictWriter``.

        Returns
        -------
        list of dict
            The rows.
        """
        tables = [part for part in self.parts() if isinstance(part, Table)]
        return [row for table in tables for row in table.to_rows()]


def _to_text(part: Part) -> str:
    """Return a part as text; empty for pictures and HTML."""
    if isinstance(part, Table):
        return part.text()
    if isinstance(part, Markup) or not isinstance(part, str):
        return ""
    return "\n".join(printable(line, None) for line in part.split("\n"))


def page(title: str, lead: str, sections: Iterable[Markup], footer: str | None = None) -> str:
    """Return a complete HTML document, to be written as UTF-8."""
    return str(render("page.html", title=title, lead=lead, sections=sections, footer=footer, **SCHEMES))


def section(heading: str, *content: Part) -> Markup:
    """Return a section; plain strings in the content become paragraphs."""
    return render("section.html", heading=heading, parts=map(render_part, content))


def side_by_side(*figures: tuple[str, Part]) -> Markup:
    """Return captioned pictures side by side, or stacked on a narrow screen."""
    return render("beside.html", figures=[(caption, render_part(picture)) for caption, picture in figures])


def render_part(part: Part) -> Markup:
    """Return the HTML of a part: Markup unchanged, a paragraph for a string, else its ``markup()``."""
    if isinstance(part, Markup):
        return part
    return part.markup() if isinstance(part, HasMarkup) else render("paragraph.html", text=part)
