"""Questions to fields that are their methods, and parts of these; each loads its module when it is first asked."""

from kernelfields.numerics.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
