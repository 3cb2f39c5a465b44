"""Models in production: chains read with NumPy alone, and exported to ONNX.

Kernels, feature names and model files are shared with the library; the imported modules need only NumPy.
"""

from kernelfields.numerics.lazy import lazy_names
from kernelfields.serving.chain_model import ChainModel as ChainModel
from kernelfields.serving.chain_model import load_chain as load_chain
from kernelfields.serving.inputs import ServingError as ServingError

# A program that predicts does not load what writes.
__getattr__, __dir__, __all__ = lazy_names(__name__)
