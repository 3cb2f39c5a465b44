"""Names of the package for commands: each imports its module on first use, so that help is fast."""

from kernelfields.numerics.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
