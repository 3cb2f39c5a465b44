"""Plots with matplotlib, for papers and notebooks; ``pip install kernelfields[plots]``.

Every function takes plain data (a Solution, arrays, an Evaluation's calibration, what ``show()`` returns), draws
into the Axes it is given or into a new figure, and returns the Axes. matplotlib is loaded when a function is
called, not before; nothing about it is changed, neither styles nor backends.
"""

from kernelfields.plots.convergence import plot_convergence
from kernelfields.plots.curves import plot_degrees, plot_rank
from kernelfields.plots.reliability import plot_reliability
from kernelfields.plots.sequences import plot_sequence
from kernelfields.plots.structure import plot_structure
from kernelfields.plots.transitions import plot_transitions

__all__ = [
    "plot_convergence",
    "plot_degrees",
    "plot_rank",
    "plot_reliability",
    "plot_sequence",
    "plot_structure",
    "plot_transitions",
]
