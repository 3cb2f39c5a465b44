"""Documents of models as JSON and arrays, and the checksum over both.

JSON is strict, so what it lacks is spelled with reserved keys, undone on reading:

    {"$array": name}                    a numeric array, kept bit for bit as a tensor
    {"$strings": [...], "shape": [...]} an array of str
    {"$float": "nan" | "inf" | "-inf"}  a float that is not finite
    {"$json": bytes}                    a long list of str, its JSON text kept as bytes
    {"$array": bytes, "dtype", "shape"} a long array of whole numbers, kept as bytes
    {"$deflated": name, "size": n}      n bytes, kept deflated (zlib) in a tensor; a name alone: as they are
    {"$dict": [[key, value], ...]}      a dict with a key that begins with "$"

Names of features and numbers of their pairs are most of a model of words, and deflate to a third of their size.
"""

from __future__ import annotations

import hashlib
import json
import math
import zlib
from typing import Any

import numpy as np

FORMAT = "kernelfields-model"
# 1 and 2 are those of 0.1.0 and 0.2.0, which later versions do not promise to read.
VERSION = 3
#: The form of documents that this version writes.
LAYOUT = 3
#: The kind of a pipeline of transformers and a model.
PIPELINE = "Pipeline"
#: The entry of a document that holds how ``kernelfields train`` read the files of the model.
COMMAND_NOTES = "command"
_KINDS, _WIDEST = "biuf", 8  # bool, signed, unsigned and float, up to 8 bytes each
_LONG_LIST = 1000
# Numbers of so many bytes are deflated. What is so many times as long as its deflated bytes is kept as it is, and
# refused in a file: a small file must not fill the memory.
_LONG_ARRAY, _MOST_DEFLATED = 4096, 100


def encode_value(value: object, place: str, arrays: dict[str, np.ndarray]) -> object:
    """Convert a value to strict JSON and move its arrays to ``arrays``."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": repr(value)}
    if isinstance(value, np.ndarray):
        return _encode_array(value, place, arrays)
    if isinstance(value, dict):
        return _encode_dict(value, place, arrays)
    if isinstance(value, list | tuple):
        if len(value) >= _LONG_LIST and all(isinstance(item, str) for item in value):
            return {"$json": _keep_bytes(json.dumps(value, separators=(",", ":")).encode(), place, arrays)}
        return [encode_value(item, f"{place}.{index}", arrays) for index, item in enumerate(value)]
    raise TypeError(
        f"{place} is {type(value).__name__}, which a model file cannot hold: use None, str, bool, int, "
        "float, dict, list or a NumPy array"
    )


def _encode_dict(value: dict, place: str, arrays: dict[str, np.ndarray]) -> dict:
    for key in value:
        if not isinstance(key, str):
            raise TypeError(f"{place} has the key {key!r} of type {type(key).__name__}: keys must be str")
    if any(key.startswith("$") for key in value):
        return {"$dict": [[key, encode_value(inner, f"{place}.{key}", arrays)] for key, inner in value.items()]}
    return {str(key): encode_value(inner, f"{place}.{key}", arrays) for key, inner in value.items()}


def _encode_array(value: np.ndarray, place: str, arrays: dict[str, np.ndarray]) -> dict:
    if value.dtype.kind == "U":
        return {"$strings": encode_value(value.ravel().tolist(), place, arrays), "shape": list(value.shape)}
    if value.dtype.kind not in _KINDS or value.dtype.itemsize > _WIDEST:
        raise TypeError(f"{place} is an array of {value.dtype}, which a model file cannot hold: convert it first")
    if value.dtype.kind in "iu" and value.nbytes >= _LONG_ARRAY:
        little = value.astype(value.dtype.newbyteorder("<"), copy=False)
        described = {"dtype": value.dtype.name, "shape": list(value.shape)}
        return {"$array": _keep_bytes(little.tobytes(), place, arrays), **described}
    return {"$array": _keep(value, place, arrays)}


def _keep_bytes(content: bytes, place: str, arrays: dict[str, np.ndarray]) -> object:
    deflated = zlib.compress(content)
    if len(content) > _MOST_DEFLATED * len(deflated):
        return _keep(np.frombuffer(content, np.uint8), place, arrays)
    return {"$deflated": _keep(np.frombuffer(deflated, np.uint8), place, arrays), "size": len(content)}


def _decode_bytes(described: Any, arrays: dict[str, np.ndarray]) -> bytes:
    """Decode stored bytes; ValueError if they are not sound."""
    if isinstance(described, str):
        return arrays[described].tobytes()
    deflated, size = arrays[described["$deflated"]].tobytes(), described["size"]
    if not isinstance(size, int) or not 0 <= size <= _MOST_DEFLATED * len(deflated):
        raise ValueError(f"{len(deflated)} deflated bytes of the size {size!r:.40}")
    stream = zlib.decompressobj()
    try:
        content = stream.decompress(deflated, size + 1)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if len(content) != size or not stream.eof or stream.unused_data:
        raise ValueError("deflated bytes of another size")
    return content


def _keep(value: np.ndarray, place: str, arrays: dict[str, np.ndarray]) -> str:
    name = place.encode(errors="backslashreplace").decode()  # tensor names must be proper Unicode
    while name in arrays:  # {"a.b": x, "a": {"b": y}} share one path
        name += "_"
    # safetensors copies memory as it lies; np.ascontiguousarray would make 0-d arrays 1-d.
    arrays[name] = np.asarray(value, dtype=value.dtype.newbyteorder("="), order="C")
    return name


def decode_value(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    """Decode a value from JSON and arrays."""
    if isinstance(value, list):
        return [decode_value(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    if "$array" in value:
        if "dtype" not in value:
            return arrays[value["$array"]]
        dtype = np.dtype(value["dtype"]).newbyteorder("<")
        if dtype.kind not in "iu":
            raise ValueError(f"whole numbers of the type {dtype.name}")
        # A bytearray may be written to: compiled code would have a second form for arrays that may not.
        return np.frombuffer(bytearray(_decode_bytes(value["$array"], arrays)), dtype).reshape(value["shape"])
    if "$strings" in value:
        return _string_array(decode_value(value["$strings"], arrays), value["shape"])
    if "$float" in value:
        return float(value["$float"])
    if "$json" in value:
        return json.loads(_decode_bytes(value["$json"], arrays))
    pairs = value["$dict"] if "$dict" in value else value.items()
    return {key: decode_value(inner, arrays) for key, inner in pairs}


def _string_array(words: list, shape: list) -> np.ndarray:
    # One long word among many would blow a small file up, since NumPy gives all words the same room.
    if sum(map(len, words)) * 1000 + 1_000_000 < len(words) * max(map(len, words), default=0):
        raise ValueError("an array of strings with one word far longer than the rest")
    return np.array(words, dtype=str).reshape(shape)


def digest(text: str, arrays: dict[str, np.ndarray]) -> str:
    """Return the checksum of the JSON text and of the name, dtype, shape and bytes of every array."""
    checksum = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        array = arrays[name]
        checksum.update(json.dumps([name, array.dtype.name, list(array.shape)]).encode())
        checksum.update(array.reshape(-1).view(np.uint8).data)
    return checksum.hexdigest()
