"""Fields as layers of PyTorch networks: exact log-likelihoods of labellings with their gradients.

Names load on first use, and PyTorch with them. Without it the package cannot be imported.
"""

from importlib.util import find_spec

from kernelfields.numerics.lazy import lazy_names

if find_spec("torch") is None:
    raise ImportError("kernelfields.layers needs PyTorch: pip install 'kernelfields[torch]'")

__getattr__, __dir__, __all__ = lazy_names(__name__)
