"""Figures by matplotlib: panels to draw into, and their conversion for a page, a notebook or a file.

    with panels(ax, "description of the picture", (6.4, 3.6)) as picture:
        picture.axes[0].plot(...)

A :class:`Picture` holds the Axes of a drawing and a description for screen readers. Without ``ax``
they belong to a new figure in the style of reports; Axes that are passed keep their own. ``picture.figure`` is a
matplotlib Figure, ``savefig`` writes it, a notebook shows it, and ``markup()`` is SVG for a page.

The SVG is written by matplotlib, with text as text and without dates. Its ids begin with a hash of its content, so
that they are unique on a page; colours of the palette become names (``var(--kf-ink)``) that follow
light and dark screens.

matplotlib is imported when a figure is drawn; its settings and its backend do not change, and pyplot is not used.
Labels come from data, so "$" (a formula for matplotlib), a leading "_" (hidden in a legend) and line breaks are
escaped. Cost: that of drawing, some tens of milliseconds. Raises ImportError with the package to install; ValueError
unless there is one Axes for each panel.
"""

from __future__ import annotations

import hashlib
import io
import math
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from markupsafe import escape

from kernelfields.reports.markup import LIGHT, Markup, notebook, valid_text
from kernelfields.reports.tables import printable

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

    #: Axes to draw into: one, several, or None for those of a new figure.
    AxesOrNone: TypeAlias = Axes | Sequence[Axes] | np.ndarray | None

#: Colours of curves; they differ in grey, too.
COLOURS = (LIGHT["accent"], LIGHT["second"])
_FONT_SIZE, _SMALL = 9.0, 7.5
_LONGEST_LABEL, _LONGEST_IN_LEGEND = 24, 40
# A word joiner has no width and no ink.
_WORD_JOINER = "\u2060"
_LEGEND_LETTERS = 80
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_STYLE = {
    "font.size": _FONT_SIZE,
    "axes.titlesize": _FONT_SIZE,
    "axes.labelsize": _FONT_SIZE,
    "legend.fontsize": _FONT_SIZE,
    "text.color": LIGHT["ink"],
    "axes.labelcolor": LIGHT["ink"],
    "axes.titlecolor": LIGHT["muted"],
    "axes.edgecolor": LIGHT["line"],
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": LIGHT["line"],
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.formatter.useoffset": False,
    "axes.formatter.limits": (-5, 7),
    "lines.linewidth": 1.5,
    "lines.markersize": 5.0,
    "legend.frameon": False,
    "legend.handlelength": 3.0,
    "legend.labelcolor": LIGHT["muted"],
    "figure.facecolor": LIGHT["card"],
    "figure.constrained_layout.h_pad": 0.07,
}
_NAMES_OF_COLOURS = {colour: f"var(--kf-{name},{colour})" for name, colour in LIGHT.items()}
# Black, the colour of figures without a style, is ink.
_NAMES_OF_COLOURS["#000000"] = _NAMES_OF_COLOURS[LIGHT["ink"]]
_COLOUR = re.compile("#[0-9a-f]{6}")
_IDS = re.compile(r' id="|url\(#| xlink:href="#')
# What a file has before its picture, and the style of it, which would be that of the whole page.
_HEAD, _OWN_STYLE = re.compile(r".*?<svg ", re.DOTALL), re.compile(r"<defs>\s*<style.*?</defs>", re.DOTALL)
_NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))


@dataclass(frozen=True, eq=False, repr=False)
class Picture:
    """A picture: matplotlib's Axes, and a description in words.

    Parameters
    ----------
    axes : tuple of Axes
        The Axes.
    description : str
        What it shows, for readers who do not see it.

    Examples
    --------
    >>> from kernelfields.reports import plot_heat_map
    >>> picture = plot_heat_map([[1.0]], ["a"], ["a"])
    >>> picture.savefig("map.svg")
    """

    axes: tuple[Axes, ...]
    description: str

    @property
    def figure(self) -> Figure:
        """The complete figure of the Axes, also of Axes in a subfigure."""
        whole = self.axes[0].get_figure(root=True)
        assert whole is not None
        return whole

    def savefig(self, target: object, **options: object) -> None:
        """Write the figure in the format of the file extension: PNG, PDF, SVG.

        Parameters
        ----------
        target : str, path or file
            Where to write.
        **options : dict
            Options of matplotlib's ``savefig``, such as ``dpi``.
        """
        self.figure.savefig(target, **options)  # type: ignore[arg-type]

    def markup(self) -> Markup:
        """Return the figure as SVG for an HTML page.

        Returns
        -------
        Markup
            The SVG.
        """
        import matplotlib.style

        written = io.StringIO()
        settings = {"svg.fonttype": "none", "svg.hashsalt": "kernelfields", "savefig.bbox": None}
        with matplotlib.style.context(settings), warnings.catch_warnings():
            # A browser may have letters that matplotlib's fonts do not have.
            warnings.filterwarnings("ignore", message="Glyph")
            self.figure.savefig(written, format="svg", facecolor="none", metadata=_NO_METADATA)
        svg = written.getvalue()
        prefix = f"kf-{hashlib.sha256(svg.encode()).hexdigest()[:10]}-"
        svg = _IDS.sub(rf"\g<0>{prefix}", _HEAD.sub('<svg role="img" class="kf-plot" ', svg, count=1))
        svg = _COLOUR.sub(lambda found: _NAMES_OF_COLOURS.get(found[0], found[0]), svg)
        title = f"<title>{escape(self.description)}</title>"
        return Markup(_OWN_STYLE.sub(lambda _: title, svg, count=1))

    def __repr__(self) -> str:
        return f"Picture({self.description!r})"

    def _repr_html_(self) -> str | None:
        # A figure that pyplot keeps is shown by pyplot, and must not be shown twice.
        return None if self.figure.canvas.manager is not None else notebook([self.markup()])


@contextmanager
def panels(
    ax: AxesOrNone, description: str, size: tuple[float, float], heights: Sequence[float] = (1,), columns: int = 1
) -> Iterator[Picture]:
    """Return the given Axes, or panels with relative heights in a new figure of a size in inches."""
    if ax is not None:
        own: tuple[Axes, ...] = tuple(ax) if isinstance(ax, Sequence | np.ndarray) else (ax,)
        count = len(heights) * columns
        if len(own) != count:
            shown = len(own) if isinstance(ax, Sequence | np.ndarray) else type(ax).__name__
            raise ValueError(f"ax must hold {count} Axes, one for each panel, got {shown}")
        yield Picture(own, description)
        return
    try:
        import matplotlib.style
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(f"plots need matplotlib: pip install matplotlib ({error})") from error
    with matplotlib.style.context(["default", _STYLE]):
        figure = Figure(figsize=size, layout="compressed")
        axes = figure.subplots(
            len(heights), columns, squeeze=False, sharex="col", sharey="row", height_ratios=heights
        ).ravel()
        for panel in axes:
            # Ticks are made when they are drawn, which may be after this style has gone.
            panel.tick_params(which="both", length=0, labelcolor=LIGHT["muted"], labelsize=_FONT_SIZE, pad=5)
        yield Picture(tuple(axes), valid_text(description))


def short_label(label: object) -> str:
    """Shorten a label to one line of a plot, with an ellipsis."""
    return printable(label, _LONGEST_LABEL)


def set_tick_labels(axis: Axis, places: Sequence[float] | np.ndarray, labels: Sequence[object], **style: Any) -> None:
    """Set text labels at positions of an axis."""
    axis.set_ticks(list(places), [short_label(label) for label in labels], parse_math=False, **style)


def note(ax: Axes, x: float, y: float, words: str, **style: Any) -> None:
    """Write small text at data coordinates."""
    ax.text(x, y, words, **{"fontsize": _SMALL, "parse_math": False, **style})


def draw_squares(
    ax: Axes,
    places: Sequence[tuple[float, float]],
    colours: Sequence[object],
    *,
    inset: float = 0.0,
    **style: Any,
) -> None:
    """Draw unit squares, shrunk by ``inset``, with upper left corners at (x, y)."""
    from matplotlib.collections import PolyCollection

    corners = np.array([(inset, inset), (1 - inset, inset), (1 - inset, 1 - inset), (inset, 1 - inset)])
    ax.add_collection(PolyCollection([corners + place for place in places], facecolors=colours, clip_on=False, **style))


def legend(ax: Axes, handles: Sequence[Artist], labels: Sequence[object], **style: Any) -> None:
    """Add a legend of texts, in rows above the right end of a panel."""
    words = [printable(label, _LONGEST_IN_LEGEND) for label in labels]
    words = [_WORD_JOINER + word if word.startswith("_") else word for word in words]
    columns = max(1, min(len(words), _LEGEND_LETTERS // (6 + max(map(len, words)))))
    above = {"loc": "lower right", "bbox_to_anchor": (1.0, 1.0), "ncols": columns, "borderaxespad": 0.2}
    for text in ax.legend(handles, words, frameon=False, **{**above, **style}).get_texts():
        text.set_parse_math(False)


def set_logarithmic(ax: Axes, low: float, high: float) -> None:
    """Make the vertical axis logarithmic, with plain ticks for values from ``low`` to ``high``."""
    from matplotlib import ticker

    axis = ax.yaxis
    ax.set(yscale="log")
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    inside = [low <= factor * 10.0**power <= high for power in powers for factor in (1, 2, 5)]
    if high >= 100 * low:
        axis.set_major_locator(ticker.LogLocator(numticks=6))
    elif sum(inside) < 3:
        axis.set_major_locator(ticker.MaxNLocator(4, steps=[1, 2, 5, 10]))
    else:
        axis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    axis.set_minor_locator(ticker.NullLocator())
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: format_decade(value, high / low)))


def set_decade_limits(panel: Axes, values: Sequence[float]) -> None:
    """Set the limits of the vertical axis to whole powers of ten around the positive, finite values."""
    finite = [value for value in values if math.isfinite(value) and value > 0]
    bottom = math.floor(math.log10(min(finite, default=0.1)))
    top = max(math.ceil(math.log10(max(finite, default=1.0))), bottom + 1)
    set_logarithmic(panel, 10.0**bottom, 10.0**top)
    # Marks at the very ends are drawn whole.
    room = 0.05 * (top - bottom)
    panel.set_ylim(10.0 ** (bottom - room), 10.0 ** (top + room))


def format_decade(value: float, ratio: float = math.inf) -> str:
    """Format a value of a logarithmic axis, as a power of ten if the axis spans a factor of 100 or more."""
    power = round(math.log10(value)) if value > 0 else 0
    if ratio >= 100 and value > 0 and math.isclose(value, 10.0**power, rel_tol=1e-6):
        return "10" + str(power).translate(_SUPERSCRIPTS)
    return f"{value:,.6g}"
