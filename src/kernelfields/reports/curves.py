"""Curves: the convergence of a fit, the reliability of probabilities, the path of a structure search.

    plot_convergence(crf.solution_)
    plot_reliability(evaluation.calibration)
    plot_structure(crf.structure_path_)

Every function draws into the Axes given as ``ax`` or into a new figure, and returns a Picture (figures.py).
Calibrations and structure paths may be given as the dicts that their ``to_dict`` returns, also after a way through
JSON. Relative gaps are held between 1e-16, which is zero to rounding, and 1e16. Cost: O(points).
Fails: ValueError naming the part that is missing or does not fit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelfields.reports.figures import (
    COLOURS,
    Picture,
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
from kernelfields.reports.tables import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from kernelfields.solvers import Iteration, Solution

_SMALLEST_GAP, _LARGEST_GAP = 1e-16, 1e16
_MOST_DOTS = 60
# How far the panel of a fit reaches below the last bound, as a share of the way from there to the first value.
_ROOM_BELOW = 0.3
# Beside each other, the numbers of more bins than this do not fit.
_MOST_NUMBERS = 12
_ROUNDING = 1e-6
#: What is told of every addition to a structure, the largest first.
_IMPROVEMENTS = ("bound", "estimate", "gain")
_KEPT = "✓ "
# Improvements less than this share of the largest stand at the foot of the axis.
_LEAST_SHARE = 1e-6


def plot_convergence(solution: Solution, ax: Any = None, *, tol: float | None = None) -> Picture:
    """Plot the ``solution_`` of a fitted estimator: value, lower bound and relative gap against passes.

    Upper panel: the value and the best lower bound on the minimum so far; whatever the solver, the minimum lies in
    the band between them. Lower panel: the relative gap in decades, with the tolerance if given. One Axes given as
    ``ax`` takes the upper panel alone, two take both. The upper axis is logarithmic once the bound is positive;
    bounds far below the last one are cut off, and those that are still minus infinity are not drawn.
    """
    history = [each for each in solution.history if math.isfinite(each.value)]
    if not history:
        raise ValueError("the solution has no history with a finite value; pass the solution_ of a fitted estimator")
    description = (
        f"Convergence of {solution.solver}: value {solution.value:.6g}, relative gap "
        f"{solution.relative_gap:.2g} after {solution.passes:g} passes"
    )
    alone = ax is not None and not hasattr(ax, "__len__")
    with panels(ax, description, (8.4, 4.4), (1,) if alone else (2, 1)) as picture:
        _draw_band(picture.axes[0], history)
        if not alone:
            _draw_gaps(picture.axes[1], history, tol)
        picture.axes[-1].set_xlabel("passes over the data")
        picture.axes[-1].locator_params(axis="x", steps=[1, 2, 5, 10])
    return picture


def _draw_band(panel: Axes, history: Sequence[Iteration]) -> None:
    passes, values, bounds = np.array([(each.passes, each.value, each.lower_bound) for each in history]).T
    known = np.isfinite(bounds)
    low, high, in_decades = _value_range(values, bounds[known])
    # An end that matplotlib cannot place would lose the whole band: ends beyond the panel are held outside it.
    floor = low / 10 if in_decades else low - 10 * (high - low) - 1
    held = np.maximum(bounds[known], floor)
    dot = "." if len(history) <= _MOST_DOTS else None
    (lower,) = panel.plot(passes[known], held, color=COLOURS[1], linestyle="--", marker=dot)
    (upper,) = panel.plot(passes, values, color=COLOURS[0], marker=dot)
    band = panel.fill_between(passes[known], held, values[known], color=COLOURS[0], alpha=0.14, linewidth=0)
    # A range of a single value is widened around it.
    if in_decades:
        margin = (high / low) ** 0.05 if high > (1 + _ROUNDING) * low else 1.05
        logarithmic(panel, "y", low / margin, high * margin)
        panel.set_ylim(low / margin, high * margin)
    else:
        margin = 0.05 * (high - low if high - low > _ROUNDING * abs(high) else max(1.0, abs(high)))
        panel.set_ylim(low - margin, high + margin)
    panel.set_ylabel("negative log-posterior")
    legend(panel, [upper, lower, band], ["value", "lower bound", "the minimum is here"])


def _value_range(values: np.ndarray, bounds: np.ndarray) -> tuple[float, float, bool]:
    """Return the ends of an axis that covers values and the bounds near the last one, and if it is in decades."""
    high = float(values.max())
    if not len(bounds):
        return float(values.min()), high, False
    last, least = float(bounds[-1]), float(bounds.min())
    if last <= _SMALLEST_GAP * high:  # zero to rounding
        return max(least, last - _ROOM_BELOW * (high - last)), high, False
    return max(least, last * (last / high) ** _ROOM_BELOW), high, True


def _draw_gaps(panel: Axes, history: Sequence[Iteration], tol: float | None) -> None:
    known = [each for each in history if math.isfinite(each.relative_gap)]
    passes = [each.passes for each in known]
    gaps = np.clip([each.relative_gap for each in known], _SMALLEST_GAP, _LARGEST_GAP).tolist()
    (line,) = panel.plot(passes, gaps, color=COLOURS[0], marker="." if len(history) <= _MOST_DOTS else None)
    hover(line, [f"pass {at:g}: relative gap {gap:.3g}" for at, gap in zip(passes, gaps, strict=True)])
    if tol:
        panel.axhline(tol, color=LIGHT["muted"], linestyle=":", linewidth=1)
        at_the_left = {"transform": panel.get_yaxis_transform(), "va": "bottom"}
        note(panel, 0.02, tol, f"tol = {tol:g}", color=LIGHT["muted"], **at_the_left)
    decade_axis(panel, [*gaps, tol] if tol else gaps)
    panel.set_ylabel("relative gap")


def read_figure(given: Any, where: str = "the figure") -> tuple[float, float, float]:
    """Return value, low and high of a number, an estimate or the dict of one; NaN where there is none."""
    if isinstance(given, Mapping):
        parts = [given.get(name) for name in ("value", "low", "high")]
        if "value" not in given:
            raise ValueError(f"{where} is {given!r:.80}, which has no 'value'")
    elif hasattr(given, "value") and hasattr(given, "low"):
        parts = [given.value, given.low, given.high]
    else:
        parts = [given, None, None]
    try:
        value, low, high = (math.nan if part is None else float(part) for part in parts)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{where} is {given!r:.80}: pass a number, or a value with its interval such as an Estimate"
        ) from error
    return value, low, high


#: What stands in the place of an interval that there is none of, and why there is none: for some figures, or for all.
NO_ENDS = "[–]"
NO_INTERVAL = f"{NO_ENDS} where there is too little to count"
NO_INTERVALS = "no intervals, as resamples of one sequence are all alike"


def interval_words(n_resamples: int) -> str:
    """Say what intervals are made of, after "95 % intervals"."""
    return f"by Wilson's method for shares, else from {n_resamples:,} resamples of sequences"


def figure_words(given: Any, form: str = ".4f", *, resampled: bool = False) -> str:
    """Return a figure with its interval in words, as in "0.9412 [0.9377, 0.9448]".

    ``resampled`` says that an interval was asked for: one that is not there is then shown as absent.
    """
    value, low, high = read_figure(given)
    absent = f" {NO_ENDS}" if resampled else ""
    interval = f" [{low:{form}}, {high:{form}}]" if math.isfinite(low) and math.isfinite(high) else absent
    return f"{value:{form}}{interval}"


def lacks_intervals(plain: Any) -> bool:
    """Whether a figure among plain values has no interval, for whatever reason."""
    if isinstance(plain, Mapping):
        if "value" in plain and "low" in plain:
            return plain["value"] is not None and plain["low"] is None
        return any(map(lacks_intervals, plain.values()))
    return isinstance(plain, list) and any(map(lacks_intervals, plain))


def read_reliability(given: Any) -> tuple[dict[str, np.ndarray], str]:
    """Read a Calibration or a ReliabilityCurve of ``kernelfields.evaluation``, or one of them as a dict.

    Return the bins of confidence and the expected calibration error in words. Bins are edges (n + 1,), counts,
    confidence, accuracy and the ends of its intervals, accuracy_low and accuracy_high, (n,), NaN for none.
    """
    plain = _plain(given, "Calibration or ReliabilityCurve")
    error, curve = plain.get("expected_error"), plain.get("curve", plain)
    columns = {name: _column(curve, name) for name in ("edges", "counts", "confidence", "accuracy")}
    n_bins = len(columns["counts"])
    for name in ("accuracy_low", "accuracy_high"):
        columns[name] = np.full(n_bins, np.nan) if curve.get(name) is None else _column(curve, name)
    for name, column in columns.items():
        expected = n_bins + 1 if name == "edges" else n_bins
        if len(column) != expected:
            raise ValueError(f"{name} has {len(column)} entries, but {n_bins} bins need {expected}")
    counts, filled = columns["counts"], columns["counts"] > 0
    if not filled.any():
        raise ValueError("counts are all zero: there is nothing to draw")
    shares = np.concatenate([columns["confidence"][filled], columns["accuracy"][filled], columns["edges"]])
    if not ((shares >= -_ROUNDING) & (shares <= 1 + _ROUNDING)).all():
        raise ValueError("edges, and confidence and accuracy of bins that are not empty, must lie between 0 and 1")
    if error is None:
        distance = np.abs(columns["accuracy"] - columns["confidence"])[filled]
        error = float(counts[filled] @ distance / counts.sum())
    return columns, f"expected calibration error {figure_words(error, '.3f')}"


def _bin_words(bins: Mapping[str, np.ndarray], index: int) -> str:
    (low, high), parts = bins["edges"][index : index + 2], ("accuracy", "accuracy_low", "accuracy_high")
    figure = dict(zip(("value", "low", "high"), (bins[name][index] for name in parts), strict=True))
    return (
        f"probability {low:.3g} to {high:.3g}: {bins['counts'][index]:,.0f} positions, "
        f"mean probability {bins['confidence'][index]:.3f}, right {figure_words(figure, '.3f')}"
    )


def plot_reliability(calibration: Any, ax: Any = None) -> Picture:
    """Plot how often labels are right against how probable the field said they were.

        expected calibration error = sum_bins (n_bin / N) abs(accuracy - confidence)

    A mark for each bin of confidence stands at its mean confidence and its accuracy, with its interval where there
    is one; on the diagonal the probabilities are as good as they say, below it the field is too sure of itself.
    Above the diagram, in ``picture.axes[0].child_axes[-1]``: how many positions the bins hold, which says how much
    each mark weighs. ``calibration`` is a Calibration or ReliabilityCurve of ``kernelfields.evaluation``.
    """
    bins, error_words = read_reliability(calibration)
    filled = np.flatnonzero(bins["counts"] > 0).tolist()
    with panels(ax, f"reliability diagram, {error_words}", (4.3, 5.4)) as picture:
        (panel,) = picture.axes
        panel.plot([0, 1], [0, 1], color=LIGHT["muted"], linestyle=":", linewidth=1)
        ends = bins["accuracy_low"][filled], bins["accuracy_high"][filled]
        marks = whiskers(panel, bins["confidence"][filled], bins["accuracy"][filled], ends, **look(0))
        hover(marks[0], [_bin_words(bins, index) for index in filled])
        panel.set(xlim=(0, 1), ylim=(-0.02, 1.02), aspect="equal")
        panel.set_xlabel("probability of the most probable label")
        panel.set_ylabel("share of right labels")
        above = panel.inset_axes((0.0, 1.04, 1.0, 0.18), sharex=panel)
        _draw_counts(above, bins)
        above.set_title(error_words, fontsize="medium")
    return picture


def _draw_counts(panel: Axes, bins: Mapping[str, np.ndarray]) -> None:
    edges, counts = bins["edges"], bins["counts"]
    style: dict[str, Any] = {"color": COLOURS[0], "alpha": 0.55, "edgecolor": LIGHT["card"]}
    bars = panel.bar(edges[:-1], counts, width=np.diff(edges), align="edge", **style)
    for index, bar in enumerate(bars):
        hover(bar, [_bin_words(bins, index)])
    if len(counts) <= _MOST_NUMBERS:
        written = [f"{count:,.0f}" if count else "" for count in counts]
        panel.bar_label(bars, written, fontsize="x-small", color=LIGHT["muted"])
        panel.margins(y=0.25)
    panel.tick_params(length=0, labelbottom=False, labelleft=False)
    panel.grid(False)
    panel.spines[["top", "right", "left"]].set_visible(False)
    panel.set_ylabel("positions")


def _plain(given: Any, kind: str) -> Mapping[str, Any]:
    """Return a result as a dict."""
    plain = given.to_dict() if hasattr(given, "to_dict") else given
    if not isinstance(plain, Mapping):
        raise ValueError(f"expected a {kind} or its dict, got {type(given).__name__}")
    return plain


def _column(curve: Mapping[str, Any], name: str) -> np.ndarray:
    if curve.get(name) is None:
        raise ValueError(
            f"the reliability curve has no {name!r}: pass a Calibration or a ReliabilityCurve of "
            "kernelfields.evaluation, or what their to_dict() returns"
        )
    return np.array([math.nan if value is None else value for value in curve[name]], dtype=float)


@dataclass(frozen=True, eq=False)
class StructureFigures:
    """The additions of a path: names, which were kept, bound, estimate and gain (n,), scores (n + 1,) or None."""

    names: list[str]
    kept: list[bool]
    improvements: dict[str, np.ndarray]
    scores: np.ndarray | None
    reason: str

    @property
    def held(self) -> dict[str, np.ndarray]:
        """The improvements as a logarithmic axis can show them."""
        every = np.concatenate(list(self.improvements.values()))
        shown = every[np.isfinite(every) & (every > 0)]
        high = float(shown.max()) if shown.size else 1.0
        low = max(float(shown.min()), _LEAST_SHARE * high) if shown.size else 0.1
        return {
            name: np.clip(np.nan_to_num(values, nan=low, posinf=high), low, high)
            for name, values in self.improvements.items()
        }

    def words(self, index: int) -> str:
        """One addition in words."""
        parts = [f"{name} {values[index]:.4g}" for name, values in self.improvements.items()]
        return f"{self.names[index]}, {'kept' if self.kept[index] else 'taken back'}: {', '.join(parts)}"


def read_structure(given: Any) -> StructureFigures:
    """Read a StructurePath of ``kernelfields.structure``, or one as a dict."""
    path = _plain(given, "StructurePath")
    steps, reason = _needed(path, "steps"), str(_needed(path, "reason"))
    if not isinstance(steps, Sequence) or isinstance(steps, str) or not steps:
        raise ValueError(f"steps must be a list with the field at the start and additions, got {steps!r:.80}")
    additions = steps[1:]
    if not additions:
        raise ValueError(f"nothing was added, so there is nothing to draw: the search ended because {reason}")
    scores = [_needed(step, "score") for step in steps]
    return StructureFigures(
        [_step_name(step) for step in additions],
        [bool(_needed(step, "kept")) for step in additions],
        {name: np.array([_needed(step, name) for step in additions], dtype=float) for name in _IMPROVEMENTS},
        None if None in scores else np.array(scores, dtype=float),
        reason,
    )


def _step_name(step: Mapping[str, Any]) -> str:
    others = len(step.get("others", ()))
    return f"{_needed(step, 'added')}{f' + {others}' if others else ''}"


def _needed(part: Mapping[str, Any], name: str) -> Any:
    if name not in part:
        raise ValueError(f"the path has no {name!r}: pass a StructurePath, or what its to_dict gives")
    return part[name]


def plot_structure(path: Any, ax: Any = None) -> Picture:
    """Plot the ``structure_path_`` of a fitted estimator: what additions could have brought and what they brought.

    Upper panel, in decades: for each addition its bound (Remark 11), the estimate of a Newton step, and the gain.
    Those that are not positive, or less than a millionth of the largest, stand at the foot of the axis, infinite
    bounds at its head; hovering tells the true ones. Lower panel, if data were held out: their log-likelihood,
    from the field at the start on; the line leads through what was kept. ``ax`` holds one Axes for each panel.
    """
    read = read_structure(path)
    first = 1 if read.scores is None else 0
    size = (max(6.4, 1.0 + 0.6 * len(read.names)), 3.4 if first else 5.2)
    with panels(ax, f"structure search: {', '.join(read.names)}", size, (1,) if first else (3, 2)) as picture:
        _draw_improvements(picture.axes[0], read)
        if read.scores is not None:
            _draw_scores(picture.axes[1], read, read.scores)
        labels = [f"{_KEPT}{name}" if kept else name for name, kept in zip(read.names, read.kept, strict=True)]
        last = picture.axes[-1]
        slanted = {"rotation": 30, "ha": "right", "rotation_mode": "anchor"}
        places = range(first, len(read.names) + 1)
        tick_labels(last.xaxis, places, labels if first else ["(start)", *labels], **slanted)
        last.set_xlim(first - 0.5, len(read.names) + 0.5)
        last.set_xlabel(printable(f"{_KEPT}kept; ended: {read.reason}"), parse_math=False)
    return picture


def _draw_improvements(panel: Axes, read: StructureFigures) -> None:
    places = np.arange(1, len(read.names) + 1)
    titles = [read.words(index) for index in range(len(read.names))]
    handles = []
    for number, values in enumerate(read.held.values()):
        (marks,) = panel.plot(places + 0.16 * (number - 1), values, **{**look(number), "linestyle": "none"})
        hover(marks, titles)
        handles.append(marks)
    decade_axis(panel, np.concatenate(list(read.held.values())).tolist())
    panel.set_ylabel("improvement, nats")
    legend(panel, handles, list(read.improvements))


def _draw_scores(panel: Axes, read: StructureFigures, scores: np.ndarray) -> None:
    names = ["(start)", *(read.words(index) for index in range(len(read.names)))]
    kept = np.array([True, *read.kept])
    handles = []
    # Two curves, so that the line leads past what was taken back.
    for number, chosen in enumerate((kept, ~kept)):
        places = np.flatnonzero(chosen & np.isfinite(scores))
        style = {**look(number), "linestyle": "none"} if number else look(number)
        handles += panel.plot(places, scores[places], **style)
        hover(handles[-1], [f"{names[place]}; held out {scores[place]:.6g}" for place in places])
    if not kept.all():
        legend(panel, handles, ["kept", "taken back"])
    panel.set_ylabel("held-out log-likelihood")
