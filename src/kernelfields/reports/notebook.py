"""Pieces of HTML for a notebook: plots and sequences in the colours of the text around them."""

from __future__ import annotations

from collections.abc import Iterable

from kernelfields.reports.markup import Markup, element
from kernelfields.reports.shaded_tables import fragment
from kernelfields.reports.style import NOTEBOOK_STYLE


def notebook(parts: Iterable[object]) -> str:
    """Return parts as one element that brings the style of plots, tables and sequences, and loads nothing."""
    return fragment([element("style", Markup(NOTEBOOK_STYLE)), *parts])
