"""Structure learning: the clique sets that a field should have (Remark 11)."""

from kernelfields.structure.bounds import improvement_bounds
from kernelfields.structure.search import StructurePath, StructureSearch, StructureStep, learn_structure

__all__ = ["StructurePath", "StructureSearch", "StructureStep", "improvement_bounds", "learn_structure"]
