"""The file of a fitted model: a named or a temporary file, written on first access."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable


class ModelResource:
    """The file of a model, with the interface of ``sklearn_crfsuite.CRF.modelfile``.

    Parameters
    ----------
    write : callable or None
        What writes the model to a path; None before a fit.
    path : path or None
        The file that was named; None for a temporary one.
    keep : bool
        Whether a temporary file stays when this object is gone.
    """

    def __init__(self, write: Callable[[str], None] | None, path: str | os.PathLike[str] | None, keep: bool):
        self._write, self._keep = write, keep
        self._path = None if path is None else os.fspath(path)
        self._remove: Callable[[], object] | None = None

    @property
    def name(self) -> str | None:
        """The path of the file, or None before a fit without a given path."""
        if self._path is None and self._write is not None:
            folder = tempfile.mkdtemp(prefix="kernelfields")
            path = os.path.join(folder, "model.crfsuite")
            self._write(path)
            self._path = path
            if not self._keep:
                self._remove = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        return self._path

    def cleanup(self) -> None:
        """Remove a temporary file."""
        if self._remove is not None:
            self._remove()
            self._remove = self._path = None
