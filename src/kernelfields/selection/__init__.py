"""Choice of kernel, rank and prior variance by cross-validation, for every estimator of labels."""

from typing import TYPE_CHECKING

from kernelfields.numerics.lazy import lazy_names

if TYPE_CHECKING:
    from kernelfields.selection.field_search_cv import ChainCRFCV, FieldSearchCV

__all__ = ["ChainCRFCV", "FieldSearchCV"]
__getattr__, __dir__ = lazy_names(__name__, {"field_search_cv": __all__})
