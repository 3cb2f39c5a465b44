"""Parts of answers about labels: their form, the choice of labels, and spans; each loads its module on first use."""

from kernelfields.numerics.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
