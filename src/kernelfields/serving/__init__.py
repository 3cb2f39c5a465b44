"""Models in production: chains read with NumPy alone, and exported to ONNX.

Kernels, feature names and model files are those of the library; what is imported of it needs nothing but NumPy.
"""

from typing import TYPE_CHECKING

from kernelfields.numerics.lazy import lazy_names
from kernelfields.serving.chain_model import ChainModel, load_chain
from kernelfields.serving.inputs import ServingError

if TYPE_CHECKING:
    from kernelfields.serving.onnx_export import to_onnx

__all__ = ["ChainModel", "ServingError", "load_chain", "to_onnx"]
# A program that predicts does not load what writes.
__getattr__, __dir__ = lazy_names(__name__, {"onnx_export": ["to_onnx"]})
