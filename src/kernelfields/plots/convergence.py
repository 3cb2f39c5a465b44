"""A fit seen through its certificate: value and lower bound against passes, the minimum in the band between them.

As in ``kernelfields.reports.convergence``: the axis is logarithmic once the bound is positive, and bounds far
below the last one are cut off. Cost: O(iterations). Fails: ValueError for a solution without a history.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelfields.plots.canvas import COLOURS, legend, new_axes
from kernelfields.reports.convergence import finite_history, value_range
from kernelfields.solvers.loop import Solution


def plot_convergence(solution: Solution, ax: Any = None) -> Any:
    """Plot the ``solution_`` of a fitted estimator; return the Axes."""
    history = finite_history(solution)
    ax = new_axes(ax, (6.4, 3.6))
    passes = np.array([each.passes for each in history])
    values = np.array([each.value for each in history])
    bounds = np.array([each.lower_bound for each in history])
    known = np.isfinite(bounds)
    low, high, logarithmic = value_range(values.tolist(), bounds[known].tolist())
    # An end that matplotlib cannot place would lose the whole band: ends beyond the panel are held outside it.
    floor = low / 10 if logarithmic else low - 10 * (high - low) - 1
    held = np.maximum(bounds[known], floor)
    (upper,) = ax.plot(passes, values, color=COLOURS[0], marker="." if len(history) <= 60 else None)
    (lower,) = ax.plot(
        passes[known], held, color=COLOURS[1], linestyle="--", marker="." if len(history) <= 60 else None
    )
    band = ax.fill_between(passes[known], held, values[known], color=COLOURS[0], alpha=0.14, linewidth=0)
    if logarithmic:
        ax.set_yscale("log")
    margin = (high / low) ** 0.05 if logarithmic else 0.05 * (high - low)
    if high > low:
        ax.set_ylim(*((low / margin, high * margin) if logarithmic else (low - margin, high + margin)))
    ax.set_xlabel("passes over the data")
    ax.set_ylabel("negative log-posterior")
    ax.set_title(f"{solution.solver}: relative gap {solution.relative_gap:.2g}", fontsize="medium")
    legend(ax, [upper, lower, band], ["value", "lower bound", "the minimum is here"])
    return ax
