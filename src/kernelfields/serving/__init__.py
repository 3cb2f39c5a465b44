"""Models in production: chains read with NumPy alone, and exported to ONNX.

The modules here import each other by relative names and nothing else of the package: a copy of the folder works alone.
"""

from typing import TYPE_CHECKING, Any

from .chain_model import ChainModel, load_chain
from .tensor_file import ServingError

if TYPE_CHECKING:
    from .onnx_export import to_onnx

__all__ = ["ChainModel", "ServingError", "load_chain", "to_onnx"]


def __getattr__(name: str) -> Any:
    # A program that predicts does not load what writes.
    if name == "to_onnx":
        from .onnx_export import to_onnx

        return to_onnx
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
