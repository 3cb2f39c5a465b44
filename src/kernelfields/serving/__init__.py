"""Models in production: chains read with NumPy alone, and exported to ONNX.

The modules here import each other by relative names and nothing else of the package: a copy of the folder works alone.
"""

from .chain_model import ChainModel, load_chain
from .onnx_export import to_onnx
from .tensor_file import ServingError

__all__ = ["ChainModel", "ServingError", "load_chain", "to_onnx"]
