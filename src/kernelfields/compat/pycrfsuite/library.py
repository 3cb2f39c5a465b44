"""What a tagger needs once it is asked often, which loads on first use; the names are in the stub."""

from kernelfields.numerics.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
