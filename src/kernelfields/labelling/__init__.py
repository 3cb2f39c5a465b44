"""Labels that may be wrong, and what to label next."""

from kernelfields.labelling.label_errors import find_label_errors

__all__ = ["find_label_errors"]
