from kernelfields.inputs.neighbours import Neighbours as Neighbours
from kernelfields.inputs.scale import Scale as Scale
from kernelfields.inputs.window_statistics import WindowStatistics as WindowStatistics
