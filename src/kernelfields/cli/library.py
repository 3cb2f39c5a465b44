"""What commands call of the package: each name loads its module when a command comes to it, so that help is quick."""

from kernelfields.numerics.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
