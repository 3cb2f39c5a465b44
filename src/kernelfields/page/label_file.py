"""LabelFile: the interface of files of all formats for the page.

A file is replaced when its labels are saved, all at once, and nothing else in it changes. ``check_item`` writes an item
without keeping it: a label counts only where the file can hold it.

Fails: ValueError for labels that could not be read again.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelfields.data.text_files import write_whole
from kernelfields.formats.label_marks import BETWEEN, UNKNOWN

# Kinds of characters that end lines or cells, or that UTF-8 does not have.
_UNWRITABLE = ("Cc", "Zl", "Zp", "Cs")


@dataclass(frozen=True, eq=False)
class LabelFile:
    """A file that was read: inputs ``X`` and labels ``y`` as estimators take them, words or columns to show.

    ``content`` is that of the file at ``path``, empty if it is not there yet; ``scheme`` is that of LabellingSession.
    """

    path: Path
    content: bytes
    X: Any
    y: list | None
    words: list | None
    columns: list[str] | None
    scheme: str | None
    options: dict[str, Any]

    @classmethod
    def read_from(cls, path: str, kind: str, options: dict[str, Any]) -> LabelFile:
        """Read a file of a format."""
        raise NotImplementedError(f"{cls.__name__} must define read_from(path, kind, options)")

    def check_label(self, label: str, *, new: bool) -> None:
        """Raise ValueError for a label that would not be read as it was written; ``new`` ones may hold no spaces."""
        if not label.strip() or any(unicodedata.category(each) in _UNWRITABLE for each in label):
            raise ValueError(
                f"the label {label!r:.40} cannot be written: labels may not hold {self._forbidden}, nor be empty"
            )
        unknown, between = self._marks
        if label in unknown:
            raise ValueError(f"the label {label!r:.40} cannot be written: it stands for a label that is not known")
        if between in label:
            raise ValueError(f"the label {label!r:.40} cannot be written: {between} stands between labels of a set")

    @property
    def _forbidden(self) -> str:
        return "tabs or ends of lines"

    @property
    def _marks(self) -> tuple[list[str], str]:
        """What stands for unknown labels, as it is written first, and what between labels of which one is right."""
        return [UNKNOWN], BETWEEN

    def written(self, labels: Sequence[Sequence[object]]) -> bytes:
        """Return the content with labels, None where nothing is known, sets of which one is right."""
        raise NotImplementedError(f"{type(self).__name__} must define written(labels)")

    def check_item(self, item: int, labels: Sequence[object]) -> None:
        """Raise ValueError if the file cannot hold these labels of an item."""
        raise NotImplementedError(f"{type(self).__name__} must define check_item(item, labels)")

    def after(self, content: bytes) -> LabelFile:
        """Return the file after saving."""
        raise NotImplementedError(f"{type(self).__name__} must define after(content)")

    def current(self) -> bytes:
        """Return the present content of the file, empty without a file."""
        return self.path.read_bytes() if self.path.exists() else b""

    def save(self, content: bytes) -> None:
        """Replace the file, all at once."""
        write_whole({str(self.path): content})
