from kernelfields.selection.field_search_cv import ChainCRFCV as ChainCRFCV, FieldSearchCV as FieldSearchCV
