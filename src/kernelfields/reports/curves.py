"""Curves: the convergence of a fit, the reliability of probabilities, scores by the number of training items.

    plot_convergence(crf)
    plot_reliability(evaluation)
    plot_learning_curve(sizes, scores)

Every function draws into the Axes passed as ``ax`` or into a new figure, and returns a Picture (figures.py).
Relative gaps are clipped to [1e-16, 1e16]: 1e-16 is zero to rounding. Cost: O(points).
Raises ValueError naming the part that is missing or does not fit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from kernelfields.numerics.wording import inflect
from kernelfields.reports.figures import (
    COLOURS,
    Picture,
    legend,
    note,
    panels,
    set_decade_limits,
    set_logarithmic,
)
from kernelfields.reports.markup import LIGHT
from kernelfields.reports.tables import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from kernelfields.reports.figures import AxesOrNone
    from kernelfields.solvers import Iteration, Solution

_SMALLEST_GAP, _LARGEST_GAP = 1e-16, 1e16
_MOST_DOTS = 60
# How far the panel of a fit reaches below the last bound, as a share of the way from there to the first value.
_ROOM_BELOW = 0.3
# Beside each other, the numbers of more bins than this do not fit.
_MOST_NUMBERS = 12
_ROUNDING = 1e-6


@runtime_checkable
class CalibrationDisplay(Protocol):
    """The attributes of a Calibration of ``kernelfields.evaluation`` that are displayed."""

    curve: Any
    expected_error: Estimate


def plot_convergence(fit: Any, ax: AxesOrNone = None) -> Picture:
    """Plot value, lower bound and relative gap of a fit against passes over the data.

    Upper panel: the value and the best lower bound on the minimum so far; for every solver, the minimum is in the band
    between them. Lower panel: the relative gap in decades, with the gap that ends the fit. The upper axis is
    logarithmic once the bound is positive; bounds far below the last one are cut off, and those that are still minus
    infinity are not drawn.

    Parameters
    ----------
    fit : fitted estimator or Solution
        The fit.
    ax : Axes or pair of Axes, optional
        One takes the upper panel alone, two take both; by default a new figure.

    Returns
    -------
    Picture
        The drawing.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import ChainCRF
    >>> y = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]]
    >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])]
    >>> crf = ChainCRF("rbf", prior_variance=1.0, scale=True, window=1).fit(X, y)
    >>> from kernelfields.reports import plot_convergence
    >>> picture = plot_convergence(crf)
    >>> picture.savefig("convergence.png")
    """
    solution: Solution = getattr(fit, "solution_", fit)
    history = [iteration for iteration in solution.history if math.isfinite(iteration.value)]
    if not history:
        raise ValueError("the solution has no history with a finite value; pass a fitted estimator")
    description = (
        f"Convergence of {solution.solver}: value {solution.value:.6g}, relative gap "
        f"{solution.relative_gap:.2g} after {inflect(solution.passes, 'pass', 'g')}"
    )
    alone = ax is not None and not isinstance(ax, Sequence | np.ndarray)
    with panels(ax, description, (8.4, 4.4), (1,) if alone else (2, 1)) as picture:
        _draw_band(picture.axes[0], history)
        if not alone:
            _draw_gaps(picture.axes[1], history, history[-1].tol)
        picture.axes[-1].set_xlabel("passes over the data")
        picture.axes[-1].locator_params(axis="x", steps=[1, 2, 5, 10])
    return picture


def _draw_band(panel: Axes, history: Sequence[Iteration]) -> None:
    passes, values, bounds = np.array([(step.passes, step.value, step.lower_bound) for step in history]).T
    known = np.isfinite(bounds)
    low, high, in_decades = _axis_limits(values, bounds[known])
    # An end that matplotlib cannot place would lose the whole band: ends beyond the panel are clipped outside it.
    floor = low / 10 if in_decades else low - 10 * (high - low) - 1
    clipped = np.maximum(bounds[known], floor)
    dot = "." if len(history) <= _MOST_DOTS else None
    (lower,) = panel.plot(passes[known], clipped, color=COLOURS[1], linestyle="--", marker=dot)
    (upper,) = panel.plot(passes, values, color=COLOURS[0], marker=dot)
    band = panel.fill_between(passes[known], clipped, values[known], color=COLOURS[0], alpha=0.14, linewidth=0)
    # A range of a single value is widened around it.
    if in_decades:
        margin = (high / low) ** 0.05 if high > (1 + _ROUNDING) * low else 1.05
        set_logarithmic(panel, low / margin, high * margin)
        panel.set_ylim(low / margin, high * margin)
    else:
        margin = 0.05 * (high - low if high - low > _ROUNDING * abs(high) else max(1.0, abs(high)))
        panel.set_ylim(low - margin, high + margin)
    panel.set_ylabel("negative log-posterior")
    legend(panel, [upper, lower, band], ["value", "lower bound", "the minimum is here"])


def _axis_limits(values: np.ndarray, bounds: np.ndarray) -> tuple[float, float, bool]:
    """Return axis limits for values and the bounds near the last value, and whether the axis is logarithmic."""
    high = float(values.max())
    if not len(bounds):
        return float(values.min()), high, False
    last, least = float(bounds[-1]), float(bounds.min())
    if last <= _SMALLEST_GAP * high:  # zero to rounding
        return max(least, last - _ROOM_BELOW * (high - last)), high, False
    return max(least, last * (last / high) ** _ROOM_BELOW), high, True


def _draw_gaps(panel: Axes, history: Sequence[Iteration], tol: float | None) -> None:
    known = [step for step in history if math.isfinite(step.relative_gap)]
    passes = [step.passes for step in known]
    gaps = np.clip([step.relative_gap for step in known], _SMALLEST_GAP, _LARGEST_GAP).tolist()
    panel.plot(passes, gaps, color=COLOURS[0], marker="." if len(history) <= _MOST_DOTS else None)
    if tol:
        panel.axhline(tol, color=LIGHT["muted"], linestyle=":", linewidth=1)
        at_the_left = {"transform": panel.get_yaxis_transform(), "va": "bottom"}
        note(panel, 0.02, tol, f"tol = {tol:.2g}", color=LIGHT["muted"], **at_the_left)
    set_decade_limits(panel, [*gaps, tol] if tol else gaps)
    panel.set_ylabel("relative gap")


def plot_reliability(calibration: object, ax: AxesOrNone = None) -> Picture:
    """Plot the share of right labels against the predicted probability.

    A mark for each bin of confidence stands at its mean confidence and its accuracy, with its interval if there is one.
    On the diagonal the probabilities are calibrated; below it the field is overconfident. Above the diagram, in
    ``picture.axes[0].child_axes[-1]``: the number of positions of each bin, which is the weight of its mark in the
    expected calibration error.

    Parameters
    ----------
    calibration : Evaluation or Calibration
        An evaluation, or that part of it.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    Picture
        The drawing.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import ChainCRF
    >>> y = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]]
    >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])]
    >>> crf = ChainCRF("rbf", prior_variance=1.0, scale=True, window=1).fit(X, y)
    >>> from kernelfields.evaluation import evaluate
    >>> from kernelfields.reports import plot_reliability
    >>> picture = plot_reliability(evaluate(crf, X, y, random_state=0))
    >>> len(picture.axes)
    1
    """
    calibration = getattr(calibration, "calibration", calibration)
    if not isinstance(calibration, CalibrationDisplay):
        raise ValueError(f"expected the calibration of an evaluation, got {type(calibration).__name__}")
    curve, error_words = calibration.curve, f"expected calibration error {calibration.expected_error:.3f}"
    filled = curve.counts > 0
    with panels(ax, f"reliability diagram, {error_words}", (4.3, 5.4)) as picture:
        (panel,) = picture.axes
        panel.plot([0, 1], [0, 1], color=LIGHT["muted"], linestyle=":", linewidth=1)
        value, reach = curve.accuracy[filled], None
        if curve.accuracy_low is not None and np.isfinite(curve.accuracy_low[filled]).any():
            low, high = curve.accuracy_low[filled], curve.accuracy_high[filled]
            reach = np.maximum(np.where(np.isfinite(low), [value - low, high - value], 0.0), 0.0)
        style: dict[str, Any] = {"color": COLOURS[0], "marker": "o", "linestyle": "-", "capsize": 3, "elinewidth": 1.0}
        panel.errorbar(curve.confidence[filled], value, yerr=reach, **style)
        panel.set(xlim=(0, 1), ylim=(-0.02, 1.02), aspect="equal")
        panel.set_xlabel("probability of the most probable label")
        panel.set_ylabel("share of right labels")
        above = panel.inset_axes((0.0, 1.04, 1.0, 0.18), sharex=panel)
        _draw_counts(above, curve.edges, curve.counts)
        above.set_title(error_words, fontsize="medium")
    return picture


def _draw_counts(panel: Axes, edges: np.ndarray, counts: np.ndarray) -> None:
    bars = panel.bar(
        edges[:-1], counts, np.diff(edges), align="edge", color=COLOURS[0], alpha=0.55, edgecolor=LIGHT["card"]
    )
    if len(counts) <= _MOST_NUMBERS:
        written = [f"{count:,.0f}" if count else "" for count in counts]
        panel.bar_label(bars, written, fontsize="x-small", color=LIGHT["muted"])
        panel.margins(y=0.25)
    panel.tick_params(length=0, labelbottom=False, labelleft=False)
    panel.grid(False)
    panel.spines[["top", "right", "left"]].set_visible(False)
    panel.set_ylabel("positions")


def plot_learning_curve(
    sizes: Sequence[int],
    scores: Sequence[Estimate],
    ax: AxesOrNone = None,
    *,
    score: str = "accuracy",
    item: str = "sequence",
) -> Picture:
    """Plot a score on test data against the number of training items, on a logarithmic axis.

    Parameters
    ----------
    sizes : list of int
        The numbers of training items.
    scores : list of Estimate
        The score of each, with its interval if there is one.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure.
    score : str, default "accuracy"
        The name of the score.
    item : str, default "sequence"
        What an item is called.

    Returns
    -------
    Picture
        The drawing.

    Examples
    --------
    >>> from kernelfields.reports import Estimate, plot_learning_curve
    >>> picture = plot_learning_curve([10, 20], [Estimate(0.7, 0.6, 0.8), Estimate(0.8, 0.75, 0.85)])
    >>> picture.axes[0].get_xlabel()
    'training sequences'
    """
    if not len(sizes) or len(sizes) != len(scores):
        raise ValueError(f"a learning curve needs one score for each size, got {len(scores)} for {len(sizes)}")
    values = np.array([float(each) for each in scores])
    ends = [(each.low, each.high) for each in scores]
    description = f"{score} of {values[-1]:.3f} after {inflect(sizes[-1], f'training {item}')}"
    with panels(ax, f"learning curve, {description}", (5.6, 3.4)) as picture:
        (panel,) = picture.axes
        panel.plot(sizes, values, color=COLOURS[0], marker="o")
        if all(end is not None and math.isfinite(end) for pair in ends for end in pair):
            low, high = np.array(ends, dtype=float).T
            panel.fill_between(sizes, low, high, color=COLOURS[0], alpha=0.14, linewidth=0)
        panel.set_xscale("log", base=2)
        panel.set_xticks(list(sizes), [f"{size:,}" for size in sizes])
        panel.minorticks_off()
        panel.set_xlabel(f"training {item}s")
        panel.set_ylabel(score)
    return picture
