"""Model files: one safetensors file with data and never code.

    metadata: format = "kernelfields-model", version = "3", sha256 = <hex>,
              model  = JSON {"kind": ..., "document": ..., "tensors": ...}
    tensors:  every numeric array of the document, named by its path ("document.basis.pivots")

    8 bytes     length of the header, little endian
    header      JSON: name -> {"dtype", "shape", "data_offsets"}, and "__metadata__"
    the rest    the tensors, end to end

model_text.py spells the document in JSON. Tuples come back as lists and NumPy scalars as Python numbers. The checksum
covers the JSON text and the name, dtype, shape and bytes of every tensor, so a damaged file is refused as a whole.
Model files of CRFsuite are read too, as documents (crfsuite_document.py). Reading and writing need NumPy alone. The
same document is the same file, byte for byte: entries of the header are in a fixed order, which the package
safetensors, that can read these files, does not promise of those that it writes.
Cost: the file is in memory once, written or read; tensors that were read are views of it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from kernelfields.models.crfsuite_document import KIND, describe_crfsuite
from kernelfields.models.crfsuite_file import CRFsuiteModel, is_crfsuite, read_crfsuite
from kernelfields.models.model_text import FORMAT, PIPELINE, VERSION, decode_value, digest, encode_value

if TYPE_CHECKING:
    from kernelfields.data.text_files import PathName

#: Plain values by name: None, str, bool, int, float, dicts and lists of them, and arrays.
Document: TypeAlias = dict[str, Any]
#: Kinds of models that older versions wrote and this one does not have, and what to do in their place.
RETIRED = {
    "FieldClustering": "cluster with scikit-learn, or fit a ChainCRF to the surest of its clusters, as the example "
    "'Clusters that last' does",
}
# safetensors refuses headers above 100 MB, and the JSON text lies in the header: long lists of names move
# to the tensors, and what is still too long is refused while the model is in memory, not when it is read.
_LONGEST_JSON = 50_000_000
# What safetensors calls the types of NumPy: I8 to I64, U8 to U64, F16 to F64.
_DTYPES = {"BOOL": "?"} | {f"{kind}{8 * size}": f"<{kind.lower()}{size}" for kind in "IUF" for size in (1, 2, 4, 8)}
_NAMES = {np.dtype(dtype).str[1:]: name for name, dtype in _DTYPES.items() if name != "F8"}


class ModelFileError(ValueError):
    """An unreadable model file; the message names the file and the reason.

    Examples
    --------
    >>> from pathlib import Path
    >>> from kernelfields import load
    >>> n = Path("notes.safetensors").write_text("no model")
    >>> load("notes.safetensors")
    Traceback (most recent call last):
        ...
    kernelfields.models.model_file.ModelFileError: notes.safetensors ...
    """


class ModelFileMissing(ModelFileError, FileNotFoundError):
    """A missing model file; both an OSError and a ModelFileError."""


def write_model(path: PathName, kind: str, document: Document, tensors: dict[str, np.ndarray]) -> None:
    """Write a model file; an old file is replaced by the complete new one.

    Parameters
    ----------
    path : str or path
        The file.
    kind : str
        What the file holds; :func:`read_model` names it again.
    document : dict
        Plain values.
    tensors : dict of arrays
        The numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields.formats import read_model, write_model
    >>> write_model("scores.safetensors", "scores", {"unit": "nats"}, {"scores": np.zeros(3)})
    >>> document, tensors = read_model("scores.safetensors", "scores")
    >>> document["unit"], tensors["scores"]
    ('nats', array([0., 0., 0.]))
    """
    from kernelfields.data.text_files import write_whole

    write_whole({os.fspath(path): model_bytes(kind, document, tensors)})


def model_bytes(kind: str, document: Document, tensors: dict[str, np.ndarray]) -> bytes:
    """Return the content of a model file."""
    arrays: dict[str, np.ndarray] = {}
    content = {
        "kind": kind,
        "document": encode_value(document, "document", arrays),
        "tensors": encode_value(tensors, "tensors", arrays),
    }
    text = json.dumps(content, allow_nan=False)
    if len(text) > _LONGEST_JSON:
        raise ValueError(f"the model's document is too large, {len(text)} characters: store long lists as NumPy arrays")
    metadata = {"format": FORMAT, "version": str(VERSION), "sha256": digest(text, arrays), "model": text}
    return _safetensors(arrays, metadata)


def _safetensors(arrays: dict[str, np.ndarray], metadata: dict[str, str]) -> bytes:
    """Serialize arrays and texts, the widest numbers first for alignment."""
    header: dict[str, object] = {"__metadata__": metadata}
    parts: list[bytes] = []
    end = 0
    for name in sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name)):
        little = arrays[name].astype(arrays[name].dtype.newbyteorder("<"), copy=False)
        begin, end = end, end + little.nbytes
        header[name] = {
            "dtype": _NAMES[little.dtype.str[1:]],
            "shape": list(little.shape),
            "data_offsets": [begin, end],
        }
        parts.append(little.tobytes())
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([len(text).to_bytes(8, "little"), text, *parts])


def read_model(path: PathName, kind: str) -> tuple[Document, dict[str, np.ndarray]]:
    """Read a model file.

    Parameters
    ----------
    path : str or path
        The file.
    kind : str
        What it should hold.

    Returns
    -------
    document : dict
        Plain values.
    tensors : dict of arrays
        The numbers.

    Raises
    ------
    ModelFileError
        If it is no model of this kind that this version can read.

    See Also
    --------
    kernelfields.load : Reads a fitted estimator.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields.formats import read_model, write_model
    >>> write_model("scores.safetensors", "scores", {"unit": "nats"}, {"scores": np.zeros(3)})
    >>> read_model("scores.safetensors", "scores")[0]["unit"]
    'nats'
    """
    _, document, tensors = read_model_parts(path, (kind,))
    return document, tensors


def read_model_parts(
    path: PathName, kinds: Collection[str] | None = None
) -> tuple[str, Document, dict[str, np.ndarray]]:
    """Read the kind, the document and the tensors of a model file; ModelFileError if it is not sound.

    None is for models of any kind. A model file of CRFsuite is read as the field that it describes.
    """
    _check_is_file(path)
    if is_crfsuite_file(path):
        return _field_of_crfsuite(path, kinds)
    try:
        metadata, arrays = _read_tensors(path)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        reason = _looks_like_pickle(path) or f"damaged or of another format ({_one_line(error)})"
        raise ModelFileError(f"{path} is not a kernelfields model file: {reason}") from error
    text = _model_text(path, metadata)
    if metadata.get("sha256") != digest(text, arrays):
        raise ModelFileError(f"{path} is damaged: its checksum does not match. Save or copy the model again.")
    try:
        content = json.loads(text)
        found, document, tensors = content["kind"], content["document"], content["tensors"]
        if kinds is None or found in kinds:
            document, tensors = decode_value(document, arrays), decode_value(tensors, arrays)
            if not (isinstance(document, dict) and isinstance(tensors, dict)):
                raise TypeError("document and tensors must be dicts")
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise ModelFileError(f"{path} is damaged: its model text cannot be read ({_one_line(error)})") from error
    if isinstance(found, str) and found in RETIRED:
        raise ModelFileError(f"{path} holds a {found}, which kernelfields no longer has: {RETIRED[found]}")
    if kinds is not None and found not in kinds:
        expected = " or ".join(map(repr, kinds))
        advice = "kernelfields.load" if found == PIPELINE else "its own class"
        raise ModelFileError(f"{path} holds a model of kind {found!r}, expected {expected}: load it with {advice}")
    return found, document, tensors


def is_crfsuite_file(path: PathName) -> bool:
    """Whether a path names a model file of CRFsuite, by its first bytes."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return is_crfsuite(file.read(4))


def read_crfsuite_model(path: PathName) -> CRFsuiteModel:
    """Return the model of a file of CRFsuite; ModelFileError if it is damaged."""
    with open(path, "rb") as file:
        content = file.read()
    try:
        return read_crfsuite(content)
    except ValueError as error:
        raise ModelFileError(f"{path} is not a model file of CRFsuite that can be read: {error}") from error


def _field_of_crfsuite(path: PathName, kinds: Collection[str] | None) -> tuple[str, Document, dict[str, np.ndarray]]:
    if kinds is not None and KIND not in kinds:
        raise ModelFileError(
            f"{path} is a model file of CRFsuite, which holds a {KIND}: open it with kernelfields.load, or with "
            "kernelfields.compat.CRF.from_crfsuite"
        )
    try:
        return KIND, describe_crfsuite(read_crfsuite_model(path)), {}
    except ModelFileError:
        raise
    except ValueError as error:
        raise ModelFileError(f"{path} is a model file of CRFsuite that no field can be: {error}") from error


def _read_tensors(path: PathName) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    """Return the metadata and the tensors of a safetensors file; errors of any kind for other files."""
    content = np.fromfile(path, dtype=np.uint8)
    begin = 8 + int.from_bytes(content[:8].tobytes(), "little")
    if begin > len(content):
        raise ValueError("the header is longer than the file")
    header, data = json.loads(content[8:begin].tobytes()), content[begin:]
    metadata = header.pop("__metadata__", {})
    if not all(isinstance(value, str) for value in metadata.values()):
        raise TypeError("its metadata are no strings")
    spans = sorted(entry["data_offsets"] for entry in header.values())
    if [*(first for first, _ in spans), len(data)] != [0, *(last for _, last in spans)]:
        raise ValueError("its tensors do not fill it")
    tensors = {}
    for name, entry in header.items():
        dtype, shape, (first, last) = np.dtype(_DTYPES[entry["dtype"]]), entry["shape"], entry["data_offsets"]
        if not first <= last or prod(shape) * dtype.itemsize != last - first:
            raise ValueError("a tensor has another size than its shape")
        tensors[name] = data[first:last].view(dtype).reshape(shape)
    return metadata, tensors


def _check_is_file(path: PathName) -> None:
    if not os.path.exists(path):
        raise ModelFileMissing(f"{path} does not exist")
    if not os.path.isfile(path):
        raise ModelFileError(f"{path} is not a file: give the path of the model file itself")
    if os.path.getsize(path) == 0:
        raise ModelFileError(f"{path} is empty: saving it was probably cut short")


def _model_text(path: PathName, metadata: dict[str, str]) -> str:
    if metadata.get("format") != FORMAT or "model" not in metadata:
        raise ModelFileError(f"{path} is a safetensors file, but not one that kernelfields wrote")
    version = metadata.get("version", "")
    if not (version.isascii() and version.isdigit()) or int(version[:9]) < 1:
        raise ModelFileError(f"{path} is damaged: its format version reads {version!r:.40}")
    if int(version[:9]) > VERSION:
        raise ModelFileError(
            f"{path} was written by a newer version of kernelfields (format {version:.9}, this one reads "
            f"up to {VERSION}): upgrade kernelfields"
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
