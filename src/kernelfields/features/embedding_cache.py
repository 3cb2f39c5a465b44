"""Cache of arrays on disk: one file for each key, data only, whole or not there.

    FOLDER / ab / abcdef....npy        the array as NumPy writes it, then the SHA-256 of those bytes

A key is the digest of what an array depends on. A file appears under its name once it is complete, so that several
processes may share a folder. A file that is damaged counts as missing and is written again; nothing in it is ever run.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import secrets
from pathlib import Path
from typing import Any

import numpy as np

_DIGEST_BYTES = 32


def cache_key(*parts: Any) -> str:
    """Return the digest of plain values: strings, numbers, lists and None."""
    return hashlib.sha256(json.dumps(parts, ensure_ascii=True).encode()).hexdigest()


class ArrayCache:
    """Arrays under keys in a folder, which is made when the first one is kept."""

    def __init__(self, folder: str | os.PathLike):
        self.folder = Path(folder).expanduser()
        if self.folder.exists() and not self.folder.is_dir():
            raise ValueError(f"cache: {self.folder} is a file, give a folder")

    def get(self, key: str) -> np.ndarray | None:
        """Return the array of a key, or None if there is none that is whole."""
        try:
            content = self._path(key).read_bytes()
        except FileNotFoundError:
            return None
        body, digest = content[:-_DIGEST_BYTES], content[-_DIGEST_BYTES:]
        if hashlib.sha256(body).digest() != digest:
            return None
        return np.load(io.BytesIO(body), allow_pickle=False)

    def put(self, key: str, array: np.ndarray) -> None:
        """Keep an array under a key."""
        buffer = io.BytesIO()
        np.save(buffer, array, allow_pickle=False)
        body = buffer.getvalue()
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
        try:
            draft.write_bytes(body + hashlib.sha256(body).digest())
            os.replace(draft, path)
        finally:
            draft.unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.npy"
