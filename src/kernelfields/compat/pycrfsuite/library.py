"""Names that a frequently used tagger needs, imported on first use; they are listed in the stub."""

from kernelfields.numerics.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
