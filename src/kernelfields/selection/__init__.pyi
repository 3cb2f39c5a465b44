from kernelfields.selection.field_search_cv import ChainCRFCV as ChainCRFCV
from kernelfields.selection.field_search_cv import FieldSearchCV as FieldSearchCV
