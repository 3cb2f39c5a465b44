"""The path of a structure search: bound, estimate and gain of each addition, and the held-out likelihood.

As in ``kernelfields.reports.structure``: improvements are in decades, those that are not positive stand at the
foot of the axis, and the line of the lower panel leads through what was kept. Cost: O(steps).
Fails: ValueError when a part of the path is missing, or when nothing was added.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelfields.plots.canvas import COLOURS, MARKERS, legend, new_axes, new_panels, tick_labels
from kernelfields.reports.structure import read_structure

_APART = 0.16


def plot_structure(path: Any, axes: Any = None) -> Any:
    """Plot the ``structure_path_`` of a fitted estimator; return its two Axes, one if no data were held out."""
    read = read_structure(path)
    panels = [new_axes(axes, (6.4, 3.6))] if read.scores is None else list(new_panels(axes, 2, (6.4, 5.4)))
    upper = panels[0]
    places = np.arange(1, len(read.names) + 1)
    handles = []
    for number, values in enumerate(read.held.values()):
        (marks,) = upper.plot(
            places + _APART * (number - 1), values, MARKERS[number], color=COLOURS[number], linestyle="none"
        )
        handles.append(marks)
    upper.set_yscale("log")
    upper.set_ylabel("improvement, nats")
    legend(upper, handles, list(read.figures))
    if read.scores is not None:
        kept = np.array([True, *read.kept])
        every = np.arange(len(kept))
        (line,) = panels[1].plot(every[kept], read.scores[kept], color=COLOURS[0], marker=MARKERS[0])
        if not kept.all():
            (marks,) = panels[1].plot(every[~kept], read.scores[~kept], MARKERS[1], color=COLOURS[1], linestyle="none")
            legend(panels[1], [line, marks], ["kept", "taken back"])
        panels[1].set_ylabel("held-out log-likelihood")
    first = 0 if read.scores is not None else 1
    names = ["(start)", *read.labels] if first == 0 else read.labels
    tick_labels(panels[-1].xaxis, range(first, len(read.names) + 1), names, rotation=30, ha="right")
    panels[-1].set_xlim(first - 0.5, len(read.names) + 0.5)
    upper.set_title(f"ended: {read.reason}", fontsize="small", parse_math=False)
    return panels[0] if read.scores is None else panels
