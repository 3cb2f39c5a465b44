"""Models in production: chains read with NumPy alone, and exported to ONNX.

The modules here import each other by relative names and nothing else of the package: a copy of the folder works alone.
"""

from typing import Any

from .chain_model import ChainModel, load_chain
from .tensor_file import ServingError

__all__ = ["ChainModel", "ServingError", "load_chain", "to_onnx"]


def to_onnx(*arguments: Any, **settings: Any) -> None:
    """Write a fitted chain as a graph of ONNX; see onnx_export.py, which a program that predicts does not load."""
    from .onnx_export import to_onnx as write

    write(*arguments, **settings)
