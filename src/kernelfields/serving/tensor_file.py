"""Model files read by hand: a safetensors file with a JSON document in its metadata, in NumPy alone.

    8 bytes     length of the header, little endian
    header      JSON: name -> {"dtype", "shape", "data_offsets"}, and "__metadata__"
    the rest    the tensors, end to end

formats/model_file.py writes these files and says how the document spells what JSON lacks. Everything is checked
before it is believed: sizes against the file, the checksum against text and tensors.
Fails: ServingError that names the file and says why.
"""

from __future__ import annotations

import hashlib
import json
import os
from math import prod
from typing import Any

import numpy as np

_FORMAT, _VERSION = "kernelfields-model", "2"
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


class ServingError(ValueError):
    """A model that cannot be read, or is not one of those that can be served; the message names what it is."""


def read_document(path: str | os.PathLike[str]) -> tuple[str, dict[str, Any]]:
    """Return the kind of a model and its document of plain values and arrays."""
    with open(path, "rb") as file:
        content = file.read()
    try:
        metadata, arrays = _tensors(content)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ServingError(f"{path} is not a kernelfields model file: damaged or of another format") from error
    if metadata.get("format") != _FORMAT or "model" not in metadata:
        raise ServingError(f"{path} is a safetensors file, but not one that kernelfields wrote")
    if metadata.get("version") != _VERSION:
        raise ServingError(
            f"{path} has the format version {metadata.get('version')!r:.20}, and this reader knows {_VERSION!r}: load "
            "it with ChainCRF.load and save it again"
        )
    text = metadata["model"]
    if metadata.get("sha256") != _digest(text, arrays):
        raise ServingError(f"{path} is damaged: its checksum does not match. Save or copy the model again.")
    try:
        whole = json.loads(text)
        return whole["kind"], _decoded(whole["document"], arrays)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ServingError(f"{path} is damaged: its model text cannot be read") from error


def _tensors(content: bytes) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    begin = 8 + int.from_bytes(content[:8], "little")
    if not 8 < begin <= len(content):
        raise ValueError("the header is longer than the file")
    header = json.loads(content[8:begin])
    metadata = header.pop("__metadata__", {})
    return metadata, {name: _tensor(content, begin, entry) for name, entry in header.items()}


def _tensor(content: bytes, begin: int, entry: dict[str, Any]) -> np.ndarray:
    dtype, shape, (first, last) = np.dtype(_DTYPES[entry["dtype"]]), entry["shape"], entry["data_offsets"]
    count = prod(shape)
    if not 0 <= first <= last <= len(content) - begin or count * dtype.itemsize != last - first:
        raise ValueError("a tensor does not lie in the file")
    return np.frombuffer(content, dtype, count, begin + first).reshape(shape)


def _digest(text: str, arrays: dict[str, np.ndarray]) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(json.dumps([name, array.dtype.name, list(array.shape)]).encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _decoded(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    if isinstance(value, list):
        return [_decoded(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    if "$array" in value:
        return arrays[value["$array"]]
    if "$strings" in value:
        return np.array(_decoded(value["$strings"], arrays), dtype=str).reshape(value["shape"])
    if "$float" in value:
        return float(value["$float"])
    if "$json" in value:
        return json.loads(arrays[value["$json"]].tobytes())
    if "$dict" in value:
        return {key: _decoded(inner, arrays) for key, inner in value["$dict"]}
    return {key: _decoded(inner, arrays) for key, inner in value.items()}
