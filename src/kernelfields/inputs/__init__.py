"""What is done to the columns of inputs before kernels see them: a list of steps, which readers and serving run.

    rows  ->  step_1(rows)  ->  ...  ->  step_k(...)

A step is a value that never changes, needs NumPy alone to answer, and sees the items of a call one by one.
"""

from kernelfields.inputs.neighbours import Neighbours
from kernelfields.inputs.scale import Scale
from kernelfields.inputs.step import InputStep, Layout, Table
from kernelfields.inputs.steps import ColumnSteps, register_step
from kernelfields.inputs.window_statistics import WindowStatistics

__all__ = ["ColumnSteps", "InputStep", "Layout", "Neighbours", "Scale", "Table", "WindowStatistics", "register_step"]
