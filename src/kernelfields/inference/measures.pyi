from kernelfields.inference.base_measure import BaseMeasure as BaseMeasure
