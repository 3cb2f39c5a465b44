"""Model files read by hand: a safetensors file with a JSON document in its metadata, in NumPy alone.

    8 bytes     length of the header, little endian
    header      JSON: name -> {"dtype", "shape", "data_offsets"}, and "__metadata__"
    the rest    the tensors, end to end

formats/model_file.py writes these files, formats/model_text.py spells their documents. Everything is checked before it
is used: sizes against the file, the checksum against text and tensors.
Fails: ServingError with the name of the file and the reason.
"""

from __future__ import annotations

import json
import os
from math import prod
from typing import Any

import numpy as np

from kernelfields.formats.model_text import FORMAT, VERSION, decoded, digest

_DTYPES = {
    "BOOL": "?",
    "I8": "<i1",
    "I16": "<i2",
    "I32": "<i4",
    "I64": "<i8",
    "U8": "<u1",
    "U16": "<u2",
    "U32": "<u4",
    "U64": "<u8",
    "F16": "<f2",
    "F32": "<f4",
    "F64": "<f8",
}
#: The document of a model: plain values and arrays, nested.
Document = dict[str, Any]


class ServingError(ValueError):
    """A model that cannot be read, or that cannot be served; the message names the reason."""


def read_document(path: str | os.PathLike[str]) -> tuple[str, Document]:
    """Return the kind of a model and its document."""
    with open(path, "rb") as file:
        content = file.read()
    try:
        metadata, arrays = _tensors(content)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ServingError(f"{path} is not a kernelfields model file: damaged or of another format") from error
    if metadata.get("format") != FORMAT or "model" not in metadata:
        raise ServingError(f"{path} is a safetensors file, but not one that kernelfields wrote")
    if metadata.get("version") != str(VERSION):
        raise ServingError(
            f"{path} has the format version {metadata.get('version')!r:.20}, and this reader reads {str(VERSION)!r}: "
            "load it with ChainCRF.load and save it again"
        )
    text = metadata["model"]
    if metadata.get("sha256") != digest(text, arrays):
        raise ServingError(f"{path} is damaged: its checksum does not match. Save or copy the model again.")
    try:
        whole = json.loads(text)
        return whole["kind"], decoded(whole["document"], arrays)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ServingError(f"{path} is damaged: its model text cannot be read") from error


def _tensors(content: bytes) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    begin = 8 + int.from_bytes(content[:8], "little")
    if not 8 < begin <= len(content):
        raise ValueError("the header is longer than the file")
    header = json.loads(content[8:begin])
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        dtype, shape, (first, last) = np.dtype(_DTYPES[entry["dtype"]]), entry["shape"], entry["data_offsets"]
        count = prod(shape)
        if not 0 <= first <= last <= len(content) - begin or count * dtype.itemsize != last - first:
            raise ValueError("a tensor does not lie in the file")
        tensors[name] = np.frombuffer(content, dtype, count, begin + first).reshape(shape)
    return metadata, tensors
