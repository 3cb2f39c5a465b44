"""Small grey pictures inside a page: arrays to PNG (ISO/IEC 15948) to data URIs.

An 8-bit greyscale PNG is a signature and three chunks, each length, kind, data and CRC: IHDR (size and type),
IDAT (rows, each after a filter byte 0, deflated), IEND.
"""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

import numpy as np

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_GREY, _BITS = 0, 8


def png_bytes(image: Any, low: float = 0.0, high: float = 1.0) -> bytes:
    """Return an (h, w) array as a greyscale PNG; ``low`` is black, ``high`` white, values beyond are clipped."""
    image = np.asarray(image, dtype=float)
    if image.ndim != 2 or image.size == 0 or not np.all(np.isfinite(image)):
        raise ValueError(f"an image is an (h, w) array of finite numbers, got shape {image.shape}")
    if not low < high:
        raise ValueError(f"low must be less than high, got {low!r} and {high!r}")
    height, width = image.shape
    levels = np.rint(255.0 * np.clip((image - low) / (high - low), 0.0, 1.0)).astype(np.uint8)
    rows = b"".join(b"\x00" + row.tobytes() for row in levels)
    return (
        _SIGNATURE
        + _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, _BITS, _GREY, 0, 0, 0))
        + _chunk(b"IDAT", zlib.compress(rows, 9))
        + _chunk(b"IEND", b"")
    )


def png_data_uri(image: Any, low: float = 0.0, high: float = 1.0) -> str:
    """Return :func:`png_bytes` as a data URI for the src of an <img>."""
    return "data:image/png;base64," + base64.b64encode(png_bytes(image, low, high)).decode("ascii")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
