"""The reliability diagram: share of right labels against probability, with the counts of the bins above it.

The input is a Calibration or ReliabilityCurve of ``kernelfields.evaluation`` or its dict; see
``kernelfields.reports.reliability``. Cost: O(bins). Fails: ValueError when parts are missing or do not fit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelfields.plots.canvas import COLOURS, MUTED, new_axes
from kernelfields.reports.reliability import MOST_NUMBERS, read_reliability


def plot_reliability(calibration: Any, ax: Any = None) -> Any:
    """Plot the reliability of marginals; return the Axes of the diagram.

    The counts are in ``ax.child_axes[-1]``, above the diagram.
    """
    bins = read_reliability(calibration)
    ax = new_axes(ax, (4.6, 5.0))
    filled = bins.filled
    confidence, accuracy = bins.confidence[filled], bins.accuracy[filled]
    ends = np.array([accuracy - bins.low[filled], bins.high[filled] - accuracy])
    known = np.isfinite(ends).all()
    ax.plot([0, 1], [0, 1], color=MUTED, linestyle=":", linewidth=1)
    ax.errorbar(
        confidence,
        accuracy,
        yerr=np.maximum(ends, 0.0) if known else None,
        color=COLOURS[0],
        marker="o",
        capsize=3,
    )
    ax.set(xlim=(0, 1), ylim=(-0.02, 1.02), aspect="equal")
    ax.set_xlabel("probability of the most probable label")
    ax.set_ylabel("share of right labels")
    counts = ax.inset_axes((0.0, 1.03, 1.0, 0.2), sharex=ax)
    bars = counts.bar(
        bins.edges[:-1],
        bins.counts,
        width=np.diff(bins.edges),
        align="edge",
        color=COLOURS[0],
        alpha=0.55,
        edgecolor="white",
    )
    if len(bins.counts) <= MOST_NUMBERS:
        written = [f"{count:,.0f}" if count else "" for count in bins.counts]
        counts.bar_label(bars, written, fontsize="xx-small")
        counts.margins(y=0.25)
    counts.tick_params(labelbottom=False)
    counts.set_ylabel("positions", fontsize="small")
    counts.set_title(bins.error_words, fontsize="small")
    for side in ("top", "right"):
        counts.spines[side].set_visible(False)
    return ax
