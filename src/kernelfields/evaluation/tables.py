"""Tables of figures as text and as HTML: a title, column heads, rows of cells; an empty row is a gap."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """A title, column heads, and rows with as many cells; the first column is text, the others numbers."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def text(self) -> str:
        """Return lines with aligned columns, the title above the first."""
        heads = [self.title, *self.columns[1:]]
        widths = [max(map(len, column)) for column in zip(heads, *(row for row in self.rows if row), strict=True)]
        lines = []
        for row in [heads, *self.rows]:
            cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=False)]
            cells[:1] = [row[0].ljust(widths[0])] if row else []
            lines.append("   ".join(cells).rstrip())
        return "\n".join(lines)

    def html(self) -> str:
        """Return a table element with its text escaped."""
        heads = "".join(f'<th scope="col">{html.escape(head)}</th>' for head in self.columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in self.rows if row
        )
        caption = f"<caption>{html.escape(self.title)}</caption>"
        return f"<table>{caption}<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"


def text_of(heading: str, tables: Sequence[Table]) -> str:
    """Return a heading and tables with lines between them."""
    return "\n\n".join([heading, *(table.text() for table in tables)])


def html_of(heading: str, tables: Sequence[Table]) -> str:
    """Return a heading and tables as one element."""
    return f"<div><p>{html.escape(heading)}</p>{''.join(table.html() for table in tables)}</div>"
