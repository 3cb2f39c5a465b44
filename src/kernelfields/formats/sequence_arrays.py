"""Sequences in .npz files: arrays of numbers, and the offsets where sequences begin.

    X (N, d)                                  dense inputs, or
    data, indices, indptr, n_features         the parts of a CSR with N rows
    offsets (S + 1,)                          sequence i owns rows offsets[i] .. offsets[i + 1] - 1
    y (N,), weights (S,)                      labels of positions and weights of sequences, if known

Files that call them otherwise are read by a mapping, names={"X": "pixels"}. Other arrays are left alone. Pickled
objects are never loaded, nor are encrypted members. A compressed file may hold arrays of 16 MiB, or of 100 times its
own size: what unpacks to more is refused as a decompression bomb.
Cost: the arrays, once; sequences are views of dense inputs. Fails: SequenceFileError naming file and array.
"""

from __future__ import annotations

import io
import math
import struct
import sys
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from tokenize import TokenError
from typing import NoReturn

import numpy as np
import scipy.sparse as sp

from kernelfields.data.text_files import PathName, SequenceFileError, input_name, open_output, read_content
from kernelfields.formats.sequence_file import Predictions, SequenceFile

_ROLES = ("X", "data", "indices", "indptr", "n_features", "offsets", "y", "weights")
_LABEL_KINDS = "biufUS"
_ZIP = b"PK"
_PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
# How much a file may unpack to: as many bytes in any case, and beyond that as many times its own size.
_ALWAYS_UNPACKED, _MOST_TIMES = 16 * 2**20, 100
_MOST_FEATURES = 2**31 - 1
# zipfile and NumPy also raise errors that are not their own for damage: fields of a header are used unchecked.
_DAMAGE = (
    *(ValueError, ArithmeticError, LookupError, TypeError, EOFError, OSError, RuntimeError, SyntaxError),
    *(MemoryError, TokenError, zlib.error, zipfile.BadZipFile, struct.error),
)


@dataclass(eq=False, kw_only=True)
class SequenceArrays(SequenceFile):
    """The sequences of arrays, dense or CSR, and the offsets (S + 1,) where they begin."""

    offsets: np.ndarray

    def write_predictions(self, path: PathName, predictions: Predictions) -> None:
        """Write arrays: offsets, predicted (N,), and marginals (N,) or (N, L) with classes (L,)."""
        arrays = {"offsets": self.offsets, "predicted": np.concatenate(predictions.labels)}
        if predictions.marginals is not None:
            arrays["marginals"] = np.concatenate(predictions.marginals)
        if predictions.classes is not None:
            arrays["classes"] = np.asarray(predictions.classes)
        write_archive(path, arrays)


def read_arrays(
    path: PathName, *, names: Mapping[str, str] | None = None, labels_required: bool = True
) -> SequenceArrays:
    """Read an .npz file; ``names`` maps the names above to those of the file, where these differ.

    Without ``labels_required`` the labels are None where the file has no array of the name given for y.
    """
    for role in names or {}:
        if role not in _ROLES:
            raise ValueError(f"names has the key {role!r}, which means nothing: use {', '.join(_ROLES)}")
    file = _Archive(path, names or {})
    offsets = file.vector("offsets", "iu")
    inputs = file.inputs()
    n_rows = inputs.shape[0]
    file.check_offsets(offsets, n_rows)
    labels = file.labels(n_rows, labels_required)
    weights = file.weights(len(offsets) - 1) if file.has("weights") else None
    cuts = list(pairwise(offsets.tolist()))
    return SequenceArrays(
        X=[inputs[first:last] for first, last in cuts],
        y=None if labels is None else [labels[first:last] for first, last in cuts],
        weights=weights,
        reading={"format": "npz"} if names is None else {"format": "npz", "names": dict(names)},
        offsets=offsets.astype(np.int64),
    )


def write_archive(path: PathName, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays as a compressed .npz; "-" is standard output."""
    for name, array in arrays.items():
        if array.dtype.kind == "O":
            raise ValueError(f"{name} holds Python objects: use strings or numbers")
    buffer = io.BytesIO()  # a zip file needs to go back and forth, which standard output cannot
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]  # no array is called allow_pickle
    with open_output(path) as file:
        file.write(buffer.getbuffer())


def _naming(role: str, name: str = "NAME") -> str:
    """Return how to name the array of a part, on the command line and in Python, for messages."""
    return f"--array {role}={name}, in Python names={{{role!r}: {name!r}}}"


def _array(content: bytes) -> np.ndarray:
    """Return the array of a member; ValueError and the like where its header does not fit what follows."""
    file = io.BytesIO(content)
    version = np.lib.format.read_magic(file)
    read_header = {(1, 0): np.lib.format.read_array_header_1_0}.get(version, np.lib.format.read_array_header_2_0)
    shape, _, dtype = read_header(file)
    claimed, found = math.prod(shape) * dtype.itemsize, len(content) - file.tell()
    if not dtype.hasobject and (claimed != found or any(length < 0 for length in shape)):
        raise ValueError(f"a header claims {claimed} bytes where there are {found}")
    file.seek(0)
    return np.lib.format.read_array(file, allow_pickle=False)


class _Archive:
    """The arrays of an .npz file by the part they play."""

    def __init__(self, path: PathName, names: Mapping[str, str]):
        self.file = input_name(path)
        self.names = names
        content = read_content(path)
        if not content:
            raise SequenceFileError(f"{self.file} is empty, expected an .npz file")
        if not content.startswith(_ZIP):
            raise SequenceFileError(f"{self.file} is not an .npz file: numpy.savez writes them")
        try:
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                infos = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
                self.members = list(infos)
                wanted = {self.name(role) for role in _ROLES}
                chosen = {member: info for member, info in infos.items() if member in wanted}
                self._check_members(chosen, len(content))
                contents = {member: archive.read(info) for member, info in chosen.items()}
                magic = np.lib.format.MAGIC_PREFIX
                if strange := [name for name, content in contents.items() if not content.startswith(magic)]:
                    raise SequenceFileError(f"{self.file}: {strange[0]!r} is no array")
                self.arrays = {member: _array(content) for member, content in contents.items()}
        except SequenceFileError:
            raise
        except _DAMAGE as error:
            reason = " ".join(str(error).split())[:120]
            raise SequenceFileError(
                f"{self.file} is damaged or holds Python objects, which are never loaded ({reason})"
            ) from error

    def _check_members(self, chosen: Mapping[str, zipfile.ZipInfo], size: int) -> None:
        """Raise before anything is unpacked that should not be."""
        for member, info in chosen.items():
            if info.flag_bits & 1:
                raise SequenceFileError(
                    f"{self.file}: array {member!r} is encrypted; write the file without a password"
                )
            if info.compress_type not in _PACKINGS:
                raise SequenceFileError(
                    f"{self.file}: array {member!r} is packed in a way that numpy.savez_compressed does not use; write "
                    "it anew"
                )
        total = sum(info.file_size for info in chosen.values())
        if total > max(_ALWAYS_UNPACKED, _MOST_TIMES * size):
            raise SequenceFileError(
                f"{self.file} would unpack to {total} bytes, more than {_MOST_TIMES} times its size; if it is meant, "
                "write it by numpy.savez, without compression"
            )

    def name(self, role: str) -> str:
        """Return the name of the array that plays a part."""
        return self.names.get(role, role)

    def has(self, role: str) -> bool:
        """Whether the file has an array for this part, or the caller named one."""
        return role in self.names or self.name(role) in self.arrays

    def array(self, role: str) -> np.ndarray:
        """Return the array of a part."""
        name = self.name(role)
        if name not in self.arrays:
            there = ", ".join(self.members) or "nothing"
            advice = "" if role in self.names else f" If it is called otherwise, say so: {_naming(role)}."
            raise SequenceFileError(f"{self.file} has no array {name!r}; it holds {there}.{advice}")
        return self.arrays[name]

    def vector(self, role: str, kinds: str) -> np.ndarray:
        """Return a flat array of numbers."""
        array = self.array(role)
        if array.ndim != 1 or array.dtype.kind not in kinds:
            kind = "whole numbers" if kinds == "iu" else "numbers"
            self.fail(role, f"is {array.dtype} of shape {array.shape}, expected a flat array of {kind}")
        return array

    def fail(self, role: str, problem: str) -> NoReturn:
        """Raise an error about an array."""
        raise SequenceFileError(f"{self.file}: array {self.name(role)!r} {problem}")

    def inputs(self) -> np.ndarray | sp.csr_array:
        """Return the inputs of all positions, dense (N, d) or CSR."""
        sparse = self.has("indptr") or self.has("indices")
        if sparse and self.has("X") and "X" not in self.names:
            raise SequenceFileError(
                f"{self.file} holds both X and the parts of a CSR: choose X by {_naming('X', 'X')}, or remove one"
            )
        return self.sparse_inputs() if sparse and "X" not in self.names else self.dense_inputs()

    def dense_inputs(self) -> np.ndarray:
        """Return the array for X."""
        table = self.array("X")
        if table.ndim != 2 or table.dtype.kind not in "biuf":
            self.fail(
                "X",
                f"is {table.dtype} of shape {table.shape}, expected numbers of shape (rows, features); a flat array "
                "with one number per position is reshaped to (rows, 1) first",
            )
        return table

    def sparse_inputs(self) -> sp.csr_array:
        """Return the CSR of the parts."""
        indptr, indices = self.vector("indptr", "iu"), self.vector("indices", "iu")
        if not len(indptr) or indptr[0] != 0 or (np.diff(indptr.astype(np.int64)) < 0).any():
            self.fail("indptr", "must begin with 0 and never fall")
        if indptr[-1] != len(indices):
            self.fail("indptr", f"ends at {indptr[-1]}, but there are {len(indices)} indices")
        data = self.vector("data", "biuf")
        if data.dtype == np.float16:
            data = data.astype(np.float32)  # SciPy has no sparse matrices of half precision
        if len(data) != len(indices):
            self.fail("data", f"has {len(data)} entries, but there are {len(indices)} indices")
        width = self.n_features()
        if len(indices) and not (indices.min() >= 0 and indices.max() < width):
            self.fail("indices", f"runs from {indices.min()} to {indices.max()}, expected 0 to {width - 1}")
        return sp.csr_array((data, indices, indptr), shape=(len(indptr) - 1, width))

    def n_features(self) -> int:
        """Return the number of columns of the CSR."""
        count = self.array("n_features")
        if count.size != 1 or count.dtype.kind not in "iu" or not 1 <= count.item() <= _MOST_FEATURES:
            self.fail("n_features", f"is {count.dtype} of shape {count.shape}, expected one whole number")
        return int(count.item())

    def check_offsets(self, offsets: np.ndarray, n_rows: int) -> None:
        """Check that the offsets run through all rows and leave no sequence empty."""
        if len(offsets) < 2 or offsets[0] != 0 or offsets[-1] != n_rows:
            ends = f"from {offsets[0]} to {offsets[-1]}" if len(offsets) else "nowhere"
            self.fail("offsets", f"runs {ends}, expected from 0 to {n_rows}, the number of rows")
        if (bad := np.flatnonzero(np.diff(offsets.astype(np.int64)) <= 0)).size:
            self.fail("offsets", f"leaves sequence {bad[0]} without rows: it must rise from entry to entry")

    def labels(self, n_rows: int, required: bool) -> np.ndarray | None:
        """Return the labels of all positions."""
        if self.name("y") not in self.arrays and not (required and "y" in self.names):
            return None
        labels = self.array("y")
        if labels.shape != (n_rows,):
            self.fail("y", f"has shape {labels.shape}, expected ({n_rows},), one label per position")
        if labels.dtype.kind not in _LABEL_KINDS:
            self.fail("y", f"is {labels.dtype}, expected numbers or texts")
        if labels.dtype.kind == "U" and np.ascontiguousarray(labels).view(np.uint32).max(initial=0) > sys.maxunicode:
            self.fail("y", "holds texts with characters beyond Unicode: the file is damaged")
        return labels

    def weights(self, n_sequences: int) -> np.ndarray:
        """Return the weights of the sequences."""
        weights = self.vector("weights", "biuf")
        if len(weights) != n_sequences:
            self.fail("weights", f"has {len(weights)} entries, but there are {n_sequences} sequences")
        return weights.astype(np.float64)
