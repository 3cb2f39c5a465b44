"""Pictures of experiments: figures against degrees, ranks or sizes, gaps of solvers, densities.

    degree_plot([1, 2, 3, "RBF"], {"Afrikaans": [...], "English": [...]})
    rank_plot([100, 300, 1000], accuracy=[0.89, 0.92, 0.93], gap=[0.2, 0.04, 0.008])
    gap_curves({"passes over the data": {"lbfgs": [(0.5, 1.0), (9.5, 1e-3)], "newton": [(0.5, 1.0), (40, 1e-6)]}})

A figure is a number, an object with value, low and high, or the dict of one; None and NaN mean that there is none.
One list of figures is one curve, a mapping of names to lists is several. Marks differ in colour and shape and tell
their figures on hover; intervals are whiskers. Gaps are held between 1e-16, zero to rounding, and 1e16.
Every function returns a Picture of kernelfields.reports. Arrays: values, low, high (n,), NaN where there is none.
Cost: O(figures). Fails: ValueError naming the entry that is no figure, or a list that does not fit its places.
"""

from __future__ import annotations

import math
import numbers
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np

from kernelfields.reports import Picture
from kernelfields.reports.figures import (
    decade_axis,
    hover,
    legend,
    logarithmic,
    look,
    note,
    panels,
    tick_labels,
    whiskers,
)
from kernelfields.reports.page import LIGHT
from kernelfields.reports.tables import read_estimate

_SMALLEST_GAP, _LARGEST_GAP = 1e-16, 1e16
_LONGEST_NAME = 36
# Curves that share a place stand this far apart, so that their whiskers can be told.
_APART, _WIDEST_GROUP = 0.09, 0.7
# The least distance between two ticks, as a share of the axis: that of a label of six digits.
_SMALLEST_STEP = 0.085
# The least distance between two marks of a curve, as a share of the axes.
_SMALLEST_DISTANCE = 0.03


@dataclass(frozen=True, eq=False)
class Curve:
    """The figures of one curve and the ends of their intervals, (n,) each; NaN where there is none."""

    name: str
    values: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def words(self, index: int) -> str:
        """Return one figure with its interval in words."""
        return f"{read_estimate({'value': self.values[index], 'low': self.low[index], 'high': self.high[index]}):.4g}"

    def changed(self, change: Any) -> Curve:
        """Return the curve with all its numbers changed alike."""
        return Curve(self.name, change(self.values), change(self.low), change(self.high))


def read_curves(given: Any, n_places: int, name: str) -> list[Curve]:
    """Read one curve from a list of figures, or several from a mapping of names to lists."""
    several = given if isinstance(given, Mapping) else {"": given}
    if not several:
        raise ValueError(f"{name} is empty: pass a list of figures, or a mapping of names to lists")
    return [
        _read_curve(str(key), figures, n_places, f"{name} {key!r}" if key else name) for key, figures in several.items()
    ]


def _read_curve(name: str, figures: Any, n_places: int, what: str) -> Curve:
    if isinstance(figures, str | bytes | Mapping) or not hasattr(figures, "__len__"):
        raise ValueError(f"{what} must be a list of {n_places} figures, got {figures!r:.80}")
    if len(figures) != n_places:
        raise ValueError(f"{what} has {len(figures)} figures, but there are {n_places} places for them")
    read = [read_estimate(each, f"entry {index} of {what}") for index, each in enumerate(figures)]
    values, low, high = np.array([astuple(each) for each in read], dtype=float).reshape(-1, 3).T
    if not np.isfinite(values).any():
        raise ValueError(f"{what} has no finite figure to draw")
    return Curve(name, values, low, high)


def draw_curves(
    panel: Any,
    curves: Sequence[Curve],
    places: np.ndarray,
    words: Sequence[str],
    lines: Sequence,
    apart: float = 0.0,
) -> None:
    """Draw curves over the same places, with a line through each run of indices in ``lines``, and their legend."""
    from matplotlib.lines import Line2D

    for number, curve in enumerate(curves):
        where = places + apart * (number - (len(curves) - 1) / 2)
        style = look(number)
        dashes = style.pop("linestyle")
        for run in lines:
            # matplotlib interrupts the line where a value is NaN.
            panel.plot(where[run], curve.values[run], color=style["color"], linestyle=dashes)
        known = np.flatnonzero(np.isfinite(curve.values))
        ends = curve.low[known], curve.high[known]
        marks = whiskers(panel, where[known], curve.values[known], ends, linestyle="none", **style)
        prefix = f"{curve.name}, " if curve.name else ""
        hover(marks[0], [f"{prefix}{words[index]}: {curve.words(index)}" for index in known])
    if len(curves) > 1:
        handles = [Line2D([], [], **look(number)) for number in range(len(curves))]
        for handle in handles if not lines else ():
            handle.set_linestyle("none")
        legend(panel, handles, [curve.name for curve in curves])


def degree_plot(degrees: Sequence[Any], accuracy: Any, *, name: str = "token accuracy") -> Picture:
    """Draw accuracy against the degree of the kernel, one place per degree, at equal distances.

    Degrees that are numbers and stand beside each other are joined by a line; a kernel that has no degree, such as
    "RBF", stands alone.
    """
    if not len(degrees):
        raise ValueError("degrees is empty: name at least one")
    curves = read_curves(accuracy, len(degrees), "accuracy")
    return _places_plot(degrees, curves, name, "degree")


def lag_plot(lags: Sequence[Any], figures: Mapping[str, list], *, name: str = "token accuracy") -> Picture:
    """Draw a figure against the lag of a stream, one place per lag, at equal distances; "all" stands alone."""
    return _places_plot(lags, read_curves(figures, len(lags), name), name, "lag")


def named_plot(places: Sequence[str], figures: Mapping[str, list], name: str) -> Picture:
    """Draw figures at named places, without lines between them; several curves stand side by side."""
    return _places_plot(places, read_curves(figures, len(places), name), name, "")


def _places_plot(places: Sequence[Any], curves: Sequence[Curve], name: str, place_name: str) -> Picture:
    numeric = [isinstance(place, numbers.Real) for place in places]
    breaks = [i for i in range(1, len(places)) if not (numeric[i - 1] and numeric[i])]
    lines = [run for run in np.split(np.arange(len(places)), breaks) if len(run) > 1]
    words = [f"{place_name} {place}".strip() for place in places]
    with panels(None, f"{name} against {place_name}" if place_name else name, (6.6, 3.4)) as picture:
        (panel,) = picture.axes
        apart = min(_APART, _WIDEST_GROUP / len(curves))
        draw_curves(panel, curves, np.arange(len(places), dtype=float), words, lines, apart)
        tick_labels(panel.xaxis, range(len(places)), places)
        panel.set(xlim=(-0.5, len(places) - 0.5), xlabel=place_name)
        name_axis(panel, name)
    return picture


def rank_plot(ranks: Any, accuracy: Any, gap: Any, *, name: str = "token accuracy") -> Picture:
    """Draw what a larger basis buys: accuracy in the upper panel, relative gap in the lower one, against rank.

    Ranks are on a logarithmic axis, gaps too. The gap is the relative gap of whatever certificate the caller has:
    over the RKHS it falls with the rank, over the span it is what the solver was told to reach.
    """
    places, order = _read_ranks(ranks)
    accuracies = [each.changed(lambda part: part[order]) for each in read_curves(accuracy, len(places), "accuracy")]
    gaps = [each.changed(lambda part: _held(part[order])) for each in read_curves(gap, len(places), "gap")]
    words = [f"rank {place:g}" for place in places]
    with panels(None, f"{name} and relative gap against rank", (6.6, 5.0), (1, 1)) as picture:
        for panel, curves, what in zip(picture.axes, (accuracies, gaps), (name, "relative gap"), strict=True):
            draw_curves(panel, curves, places, words, [np.arange(len(places))])
            name_axis(panel, what)
        decade_axis(picture.axes[1], _numbers(gaps))
        _places_as_ticks(picture.axes[1], places, "rank")
    return picture


def shares_plot(shares: Sequence[float], figures: Mapping[str, list], *, name: str, axis: str) -> Picture:
    """Draw a figure against shares in per cent, on a logarithmic axis."""
    curves = read_curves(figures, len(shares), name)
    places = 100.0 * np.asarray(shares, dtype=float)
    with panels(None, f"{name} against {axis}", (6.6, 3.4)) as picture:
        (panel,) = picture.axes
        draw_curves(panel, curves, places, [f"{place:g} %" for place in places], [np.arange(len(places))])
        name_axis(panel, name)
        _places_as_ticks(panel, places, axis)
    return picture


def sizes_plot(sizes: Sequence[int], figures: Mapping[str, list]) -> Picture:
    """Draw KL against the size of the sample, both on logarithmic axes."""
    curves = read_curves(figures, len(sizes), "KL")
    places = np.asarray(sizes, dtype=float)
    with panels(None, "KL against the number of samples", (6.6, 3.4)) as picture:
        (panel,) = picture.axes
        draw_curves(panel, curves, places, [f"n = {size:,}" for size in sizes], [np.arange(len(sizes))])
        decade_axis(panel, _numbers(curves))
        _places_as_ticks(panel, places, "samples")
        panel.set_ylabel("KL, nats")
    return picture


def curves_plot(x: Sequence[float], curves: Mapping[str, list], name: str, histogram: dict | None = None) -> Picture:
    """Draw smooth curves over x, over a histogram where there is one."""
    with panels(None, name, (6.6, 3.2)) as picture:
        (panel,) = picture.axes
        if histogram is not None:
            style = {"color": LIGHT["accent"], "alpha": 0.14, "linewidth": 0}
            widths = np.diff(histogram["edges"])
            panel.bar(histogram["edges"][:-1], histogram["heights"], widths, align="edge", **style)
        dashes = ("-", (0, (5, 2)), (0, (1.5, 2)), (0, (6, 2, 1.5, 2)))
        handles = [
            panel.plot(x, values, color=look(number)["color"], linestyle=dashes[number % len(dashes)])[0]
            for number, values in enumerate(curves.values())
        ]
        panel.set(xlim=(x[0], x[-1]), ylim=(0.0, None))
        name_axis(panel, name)
        legend(panel, handles, list(curves))
    return picture


def gap_curves(
    charts: Mapping[str, Mapping[str, Sequence]], *, tol: float | None = None, name: str = "relative gap"
) -> Picture:
    """Draw how the gap of each solver closes, in charts beside each other, all axes in decades.

    Charts are named by their horizontal axis; a curve is a list of (place, gap), and has the same colour, mark and
    dashes in every chart. All charts share the vertical axis, with a line at ``tol`` if given. Places are
    positive; gaps that are NaN are not drawn. Marks that would touch are left out, the ends never.
    """
    if not charts:
        raise ValueError("panels is empty: name at least one horizontal axis, with its curves")
    read = {chart: _read_chart(chart, curves) for chart, curves in charts.items()}
    names = list(dict.fromkeys(curve for curves in read.values() for curve in curves))
    gaps = [gap for curves in read.values() for rows in curves.values() for gap in rows[:, 1]]
    with panels(None, f"{name} of {', '.join(names)}", (9.0, 4.0), columns=len(read)) as picture:
        drawn = {}
        for panel, (chart, curves) in zip(picture.axes, read.items(), strict=True):
            places = np.concatenate([rows[:, 0] for rows in curves.values()])
            logarithmic(panel, "x", places.min(), places.max())
            decade_axis(panel, [*gaps, tol] if tol else gaps)
            if tol:
                panel.axhline(tol, color=LIGHT["muted"], linestyle=":", linewidth=1)
                at_the_left = {"transform": panel.get_yaxis_transform(), "va": "bottom"}
                note(panel, 0.02, tol, f"tol = {tol:g}", color=LIGHT["muted"], **at_the_left)
            for curve, rows in curves.items():
                drawn[curve] = _draw_gaps(panel, rows, names.index(curve), f"{curve}, {chart}")
            panel.set_xlabel(chart, parse_math=False)
        name_axis(picture.axes[0], name)
        style = {"loc": "outside upper right", "bbox_to_anchor": None, "ncols": len(names)}
        legend(picture.figure, [drawn[curve] for curve in names], names, **style)
    return picture


def _draw_gaps(panel: Any, rows: np.ndarray, number: int, words: str) -> Any:
    (line,) = panel.plot(*rows.T, **look(number))
    ends = np.log10([panel.get_xlim(), panel.get_ylim()])
    kept = spaced((np.log10(rows) - ends[:, 0]) / (ends[:, 1] - ends[:, 0]))
    line.set_markevery(kept)
    hover(line, [f"{words} {place:.4g}: {gap:.3g}" for place, gap in rows[kept]])
    return line


def spaced(points: np.ndarray, least: float = _SMALLEST_DISTANCE) -> list[int]:
    """Return which points (n, 2) of a curve have marks that do not touch; the first and the last always have."""
    kept, last = [0], len(points) - 1
    for index in range(1, last):
        if min(math.dist(points[index], points[other]) for other in (kept[-1], last)) >= least:
            kept.append(index)
    return [*kept, last] if last else kept


def _read_chart(chart: str, curves: Mapping[str, Sequence]) -> dict[str, np.ndarray]:
    if not curves:
        raise ValueError(f"panel {chart!r} has no curves")
    return {str(curve): _read_pairs(pairs, f"curve {curve!r} of panel {chart!r}") for curve, pairs in curves.items()}


def _read_pairs(pairs: Any, what: str) -> np.ndarray:
    """Return places and gaps (n, 2) in rising order of places, without those that have no gap."""
    try:
        rows = np.array([(place, gap) for place, gap in pairs], dtype=float).reshape(-1, 2)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{what} must be a list of pairs (place, gap), got {pairs!r:.80}") from error
    wrong = ~(np.isfinite(rows[:, 0]) & (rows[:, 0] > 0))
    if wrong.any():
        raise ValueError(
            f"{what} has a point at {rows[wrong][0, 0]:g}, and a logarithmic axis shows positive places only: "
            "leave the point out"
        )
    rows = rows[~np.isnan(rows[:, 1])]
    if not len(rows):
        raise ValueError(f"{what} has no gap to draw")
    rows[:, 1] = _held(rows[:, 1])
    return rows[np.argsort(rows[:, 0], kind="stable")]


def _read_ranks(ranks: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return ranks in rising order, and that order."""
    try:
        places = np.asarray(ranks, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"ranks must be a list of numbers, got {ranks!r:.80}") from error
    if places.ndim != 1 or not places.size or not (np.isfinite(places) & (places > 0)).all():
        raise ValueError(f"ranks must be a list of positive numbers, got {ranks!r:.80}")
    order = np.argsort(places, kind="stable")
    return places[order], order


def _places_as_ticks(panel: Any, places: np.ndarray, name: str) -> None:
    logarithmic(panel, "x", places[0], places[-1])
    ticks = rank_ticks(places)
    panel.set_xticks(ticks, [f"{tick:,.6g}" for tick in ticks])
    panel.set_xlabel(name)


def rank_ticks(places: np.ndarray) -> list[float]:
    """Return the places themselves as ticks, those left out that are too near to the one before on a log axis."""
    decades = np.log10(places)
    least = _SMALLEST_STEP * max(float(decades[-1] - decades[0]), np.finfo(float).tiny)
    kept = [0]
    for index in range(1, len(places)):
        if decades[index] - decades[kept[-1]] >= least:
            kept.append(index)
    return places[kept].tolist()


def name_axis(panel: Any, name: str) -> None:
    """Say what the vertical axis shows, in several lines where one would be longer than the axis."""
    panel.set_ylabel(textwrap.fill(name, _LONGEST_NAME), parse_math=False)


def _held(gaps: np.ndarray) -> np.ndarray:
    """Hold gaps within what a logarithmic axis can show; NaN stays NaN."""
    return np.clip(gaps, _SMALLEST_GAP, _LARGEST_GAP)


def _numbers(curves: Sequence[Curve]) -> list[float]:
    return np.concatenate([part for each in curves for part in (each.values, each.low, each.high)]).tolist()
