from kernelfields.selection.field_search_cv import ChainCRFCV as ChainCRFCV, FieldSearchCV as FieldSearchCV
from kernelfields.selection.structure_search import StructureSearch as StructureSearch
