"""One self-contained HTML page: title, lead, sections, tables. No scripts, nothing loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from kernelfields.reports.markup import Markup, element, join
from kernelfields.reports.style import PAGE_STYLE, PLOT_STYLE


def page(title: str, lead: str, sections: Iterable[Markup], footer: str | None = None) -> str:
    """Return a whole HTML document. Write it as UTF-8."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", title),
        element("style", Markup(PLOT_STYLE + PAGE_STYLE)),
    )
    main = element(
        "main",
        element("header", element("h1", title), element("p", lead, class_="lead")),
        *sections,
        *([element("footer", footer)] if footer else []),
    )
    return "<!DOCTYPE html>\n" + element("html", head, element("body", main), lang="en") + "\n"


def section(heading: str, *content: object) -> Markup:
    """Return a section; plain strings among the content become paragraphs."""
    parts = [part if isinstance(part, Markup) else element("p", part) for part in content]
    return element("section", element("h2", heading), *parts)


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    best: int | None = None,
    *,
    words: Collection[int] = (),
    totals: int = 0,
) -> Markup:
    """Return a table whose first column is text and the others numbers.

    Row ``best`` is set in bold; the columns ``words`` are text that may take several lines; the last ``totals``
    rows are set apart from those above them.
    """
    body = []
    rows = list(rows)
    for index, row in enumerate(rows):
        if len(row) != len(columns):
            raise ValueError(f"row {index} of the table has {len(row)} cells, but there are {len(columns)} columns")
        cells = [element("td", cell, class_="words" if j in words else None) for j, cell in enumerate(row)]
        first_total = totals and index == len(rows) - totals
        body.append(element("tr", *cells, class_="best" if index == best else "total" if first_total else None))
    heads = [
        element("th", column, scope="col", class_="words" if j in words else None) for j, column in enumerate(columns)
    ]
    whole = element("table", element("thead", element("tr", *heads)), element("tbody", *body))
    return element("div", whole, class_="wide")


def beside(*figures: tuple[str, Markup]) -> Markup:
    """Return captioned pictures next to each other, or below each other on a narrow screen."""
    return element(
        "div",
        join(element("figure", element("figcaption", caption), picture) for caption, picture in figures),
        class_="beside",
    )
