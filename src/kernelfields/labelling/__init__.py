"""Labels that may be wrong, and what to label next."""

from kernelfields.labelling.label_errors import find_label_errors
from kernelfields.labelling.ranking import rank_for_labelling

__all__ = ["find_label_errors", "rank_for_labelling"]
