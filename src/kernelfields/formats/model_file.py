"""Model files: one safetensors file that holds data and never code.

    metadata: format = "kernelfields-model", version = "2", sha256 = <hex>,
              model  = JSON {"kind": ..., "document": ..., "tensors": ...}
    tensors:  every numeric array of the document, named by its path ("document.basis.pivots")

JSON is strict, so what it lacks is spelled with reserved keys, undone on reading:

    {"$array": name}                    a numeric array, kept bit for bit as a tensor
    {"$strings": [...], "shape": [...]} an array of str
    {"$float": "nan" | "inf" | "-inf"}  a float that is not finite
    {"$json": name}                     a long list of str, its JSON text kept as a tensor of bytes
    {"$dict": [[key, value], ...]}      a dict with a key that begins with "$"

Tuples come back as lists and NumPy scalars as Python numbers. The checksum covers the JSON text and the
name, dtype, shape and bytes of every tensor, so a damaged file is refused and never half believed.
Cost: the file is built in memory once; reading checks sizes against the file before anything is allocated.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Collection
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from kernelfields.formats.text_files import PathName, write_whole

#: Plain values by name: None, str, bool, int, float, dicts and lists of them, and arrays.
Document: TypeAlias = dict[str, Any]
_FORMAT = "kernelfields-model"
# 1 is that of kernelfields 0.1.0; its documents are read through models/old_documents.py.
_VERSION = 2
_KINDS, _WIDEST = "biuf", 8  # bool, signed, unsigned and float, up to 8 bytes each
# safetensors refuses headers above 100 MB, and the JSON text lies in the header: long lists of names move
# to the tensors, and what is still too long is refused while the model is in memory, not when it is read.
_LONG_LIST = 1000
_LONGEST_JSON = 50_000_000


class ModelFileError(ValueError):
    """A file that is not a model this version can read; the message names the file and the reason."""


class ModelFileMissing(ModelFileError, FileNotFoundError):
    """No file of this name, for those who catch OSError as well as for those who catch ModelFileError."""


def write_model(path: PathName, kind: str, document: Document, tensors: dict[str, np.ndarray]) -> None:
    """Write a model file, replacing an old one only once the new one is complete."""
    write_whole({os.fspath(path): model_bytes(kind, document, tensors)})


def model_bytes(kind: str, document: Document, tensors: dict[str, np.ndarray]) -> bytes:
    """Return the content of a model file, for who writes it together with others."""
    arrays: dict[str, np.ndarray] = {}
    content = {
        "kind": kind,
        "document": _encode(document, "document", arrays),
        "tensors": _encode(tensors, "tensors", arrays),
    }
    text = json.dumps(content, allow_nan=False)
    if len(text) > _LONGEST_JSON:
        raise ValueError(f"the model's document is too large, {len(text)} characters: store long lists as NumPy arrays")
    metadata = {"format": _FORMAT, "version": str(_VERSION), "sha256": _digest(text, arrays), "model": text}
    return save(arrays, metadata)


def read_model(path: PathName, kind: str) -> tuple[Document, dict[str, np.ndarray]]:
    """Read the document and the tensors of a model file of this kind, or raise ModelFileError."""
    _, document, tensors = read_model_of(path, (kind,))
    return document, tensors


def read_model_of(path: PathName, kinds: Collection[str]) -> tuple[str, Document, dict[str, np.ndarray]]:
    """Read the kind, the document and the tensors of a model file of one of these kinds, or raise ModelFileError."""
    _check_is_file(path)
    try:
        with safe_open(os.fspath(path), framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError) as error:
        # The library's errors for alien bytes differ by version; whatever they are, this is no model.
        reason = _looks_like_pickle(path) or f"damaged or of another format ({_one_line(error)})"
        raise ModelFileError(f"{path} is not a kernelfields model file: {reason}") from error
    text = _model_text(path, metadata)
    if metadata.get("sha256") != _digest(text, arrays):
        raise ModelFileError(f"{path} is damaged: its checksum does not match. Save or copy the model again.")
    try:
        content = json.loads(text)
        found, document, tensors = content["kind"], content["document"], content["tensors"]
        if found in kinds:
            document, tensors = _decode(document, arrays), _decode(tensors, arrays)
            if not (isinstance(document, dict) and isinstance(tensors, dict)):
                raise TypeError("document and tensors must be dicts")
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise ModelFileError(f"{path} is damaged: its model text cannot be read ({_one_line(error)})") from error
    if found not in kinds:
        expected = " or ".join(map(repr, kinds))
        raise ModelFileError(f"{path} holds a model of kind {found!r}, expected {expected}: load it with its own class")
    return found, document, tensors


def _encode(value: object, place: str, arrays: dict[str, np.ndarray]) -> object:
    """Turn a value into strict JSON, moving its arrays to ``arrays``."""
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
            return {"$json": _keep(np.frombuffer(json.dumps(value).encode(), np.uint8), place, arrays)}
        return [_encode(item, f"{place}.{index}", arrays) for index, item in enumerate(value)]
    raise TypeError(
        f"{place} is {type(value).__name__}, which a model file cannot hold: use None, str, bool, int, "
        "float, dict, list or a NumPy array"
    )


def _encode_dict(value: dict, place: str, arrays: dict[str, np.ndarray]) -> dict:
    for key in value:
        if not isinstance(key, str):
            raise TypeError(f"{place} has the key {key!r} of type {type(key).__name__}: keys must be str")
    if any(key.startswith("$") for key in value):
        return {"$dict": [[key, _encode(inner, f"{place}.{key}", arrays)] for key, inner in value.items()]}
    return {str(key): _encode(inner, f"{place}.{key}", arrays) for key, inner in value.items()}


def _encode_array(value: np.ndarray, place: str, arrays: dict[str, np.ndarray]) -> dict:
    if value.dtype.kind == "U":
        return {"$strings": _encode(value.ravel().tolist(), place, arrays), "shape": list(value.shape)}
    if value.dtype.kind not in _KINDS or value.dtype.itemsize > _WIDEST:
        raise TypeError(f"{place} is an array of {value.dtype}, which a model file cannot hold: convert it first")
    return {"$array": _keep(value, place, arrays)}


def _keep(value: np.ndarray, place: str, arrays: dict[str, np.ndarray]) -> str:
    name = place.encode(errors="backslashreplace").decode()  # tensor names must be proper Unicode
    while name in arrays:  # {"a.b": x, "a": {"b": y}} share one path
        name += "_"
    # safetensors copies memory as it lies; np.ascontiguousarray would make 0-d arrays 1-d.
    arrays[name] = np.asarray(value, dtype=value.dtype.newbyteorder("="), order="C")
    return name


def _decode(value: object, arrays: dict[str, np.ndarray]) -> Any:
    if isinstance(value, list):
        return [_decode(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    if "$array" in value:
        return arrays[value["$array"]]
    if "$strings" in value:
        return _string_array(_decode(value["$strings"], arrays), value["shape"])
    if "$float" in value:
        return float(value["$float"])
    if "$json" in value:
        return json.loads(arrays[value["$json"]].tobytes())
    if "$dict" in value:
        return {key: _decode(inner, arrays) for key, inner in value["$dict"]}
    return {key: _decode(inner, arrays) for key, inner in value.items()}


def _string_array(words: list, shape: list) -> np.ndarray:
    # One long word among many would blow a small file up, since NumPy gives all words the same room.
    if sum(map(len, words)) * 1000 + 1_000_000 < len(words) * max(map(len, words), default=0):
        raise ValueError("an array of strings with one word far longer than the rest")
    return np.array(words, dtype=str).reshape(shape)


def _digest(text: str, arrays: dict[str, np.ndarray]) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(json.dumps([name, array.dtype.name, list(array.shape)]).encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _check_is_file(path: PathName) -> None:
    place = Path(path)
    if not place.exists():
        raise ModelFileMissing(f"{path} does not exist")
    if not place.is_file():
        raise ModelFileError(f"{path} is not a file: give the path of the model file itself")
    if place.stat().st_size == 0:
        raise ModelFileError(f"{path} is empty: saving it was probably cut short")


def _model_text(path: PathName, metadata: dict[str, str]) -> str:
    if metadata.get("format") != _FORMAT or "model" not in metadata:
        raise ModelFileError(f"{path} is a safetensors file, but not one that kernelfields wrote")
    version = metadata.get("version", "")
    if not (version.isascii() and version.isdigit()) or int(version[:9]) < 1:
        raise ModelFileError(f"{path} is damaged: its format version reads {version!r:.40}")
    if int(version[:9]) > _VERSION:
        raise ModelFileError(
            f"{path} was written by a newer version of kernelfields (format {version:.9}, this one reads "
            f"up to {_VERSION}): upgrade kernelfields"
        )
    return metadata["model"]


def _looks_like_pickle(path: PathName) -> str:
    with open(path, "rb") as file:
        opening = file.read(9)
    if opening[4:] == b"\0\0\0\0{":
        return ""  # a safetensors header: its length comes first, and may begin with any byte
    if opening[:1] == b"\x80" or opening[:2] == b"PK":
        return "it looks like a pickle or an archive, which is never opened: it could run code. Save it anew"
    return ""


def _one_line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]
