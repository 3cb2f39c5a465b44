"""Fields as layers of PyTorch networks: exact log-likelihoods of labellings with their gradients.

Names and PyTorch are imported on first use.
"""

from importlib.util import find_spec

from kernelfields.numerics.lazy import lazy_names

if find_spec("torch") is None:
    raise ImportError("kernelfields.layers needs PyTorch: pip install 'kernelfields[torch]'")

__getattr__, __dir__, __all__ = lazy_names(__name__)
