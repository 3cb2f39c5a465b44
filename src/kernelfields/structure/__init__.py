"""Structure learning: the clique sets that a field should have (Remark 11)."""

from typing import TYPE_CHECKING

from kernelfields.numerics.lazy import lazy_names

if TYPE_CHECKING:
    from kernelfields.structure.bounds import improvement_bounds
    from kernelfields.structure.search import StructurePath, StructureSearch, StructureStep, learn_structure

__all__ = ["StructurePath", "StructureSearch", "StructureStep", "improvement_bounds", "learn_structure"]
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "bounds": ["improvement_bounds"],
        "search": ["StructurePath", "StructureSearch", "StructureStep", "learn_structure"],
    },
)
