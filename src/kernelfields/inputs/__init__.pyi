from kernelfields.inputs.neighbours import Neighbours as Neighbours
from kernelfields.inputs.scale import Scale as Scale
from kernelfields.inputs.step import InputStep as InputStep, Layout as Layout, Table as Table
from kernelfields.inputs.steps import ColumnSteps as ColumnSteps, register_step as register_step
from kernelfields.inputs.window_statistics import WindowStatistics as WindowStatistics
