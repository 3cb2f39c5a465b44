"""LabelFile: the interface of files of all formats for the page.

Saving replaces the file at once, and changes nothing but labels. ``check_item`` writes an item in memory, so that a
label is accepted only if the file can hold it.

Raises ValueError for labels that could not be read again.
"""

from __future__ import annotations

import shlex
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kernelfields.data.text_files import write_whole
from kernelfields.formats.label_marks import BETWEEN, UNKNOWN
from kernelfields.formats.tokens import TokenizedText
from kernelfields.page.time_lines import TimeLines

# Kinds of characters that end lines or cells, or that UTF-8 does not have.
_UNWRITABLE = ("Cc", "Zl", "Zp", "Cs")
# The most characters of the items before and after.
_MOST_BESIDE = 300


@dataclass(frozen=True, eq=False)
class LabelFile(ABC):
    """A file with inputs ``X`` and labels ``y`` in the form of estimators, and words or columns to show.

    ``content`` is that of the file at ``path``, empty if it is not there yet; ``scheme`` is that of LabellingSession.
    ``names`` are those of the items, None for one without a name; ``lines`` are what a table draws.
    """

    path: Path
    content: bytes
    X: Any
    y: list | None
    words: list | None
    columns: list[str] | None
    scheme: str | None
    options: dict[str, Any]
    names: Sequence[str | None] = field(default=(), kw_only=True)
    lines: TimeLines | None = field(default=None, kw_only=True)

    @classmethod
    @abstractmethod
    def from_path(cls, path: str, kind: str, options: dict[str, Any]) -> LabelFile:
        """Read a file of a format."""

    def check_label(self, label: str, *, new: bool) -> None:
        """Raise ValueError for a label that the file cannot hold, or for a ``new`` label with spaces."""
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
        """The marks of unknown labels, and the separator of alternative labels."""
        return [UNKNOWN], BETWEEN

    @abstractmethod
    def with_labels(self, labels: Sequence[Sequence[object]]) -> bytes:
        """Return the content of the file with labels; None for unknown labels, sets for alternatives."""

    @abstractmethod
    def check_item(self, item: int, labels: Sequence[object]) -> None:
        """Raise ValueError if the file cannot hold these labels of an item."""

    def without_labels(self) -> LabelFile:
        """Return the file without labels, and without other parts that reveal them."""
        return replace(self, y=None)

    @abstractmethod
    def reload(self, content: bytes) -> LabelFile:
        """Return the file after saving this content."""

    def text(self, item: int) -> TokenizedText | None:
        """Return the original text of an item, or None without a text."""
        return None

    def find_neighbours(self, item: int) -> tuple[int | None, int | None]:
        """Return the items before and after an item in its document, None at an end."""
        return None, None

    def show_text(self, item: int, rows: slice) -> dict[str, Any]:
        """Return the text around the words of an item for the page: gaps, and excerpts of the neighbours."""
        text = self.text(item)
        if text is None:
            return {}
        found: dict[str, Any] = {"gaps": text.gaps(rows.start, rows.stop)}
        found["begins"] = [begin for begin, _ in text.tokens[rows]]
        for side, other in zip(("before", "after"), self.find_neighbours(item), strict=True):
            if other is not None and (own := self.text(other)) is not None:
                line = " ".join(own.text.split())
                found[side] = line[-_MOST_BESIDE:] if side == "before" else line[:_MOST_BESIDE]
        return found

    def with_text(self, item: int, text: TokenizedText) -> LabelFile:
        """Return the file with a new segmentation of an item into words; ValueError if words are fixed."""
        raise ValueError(f"words of {self.path.name} stay as they are: it has no place for parts of them")

    @abstractmethod
    def commands(self) -> dict[str, str]:
        """Return shell commands to train on the file and to export it, by purpose."""

    def read_content(self) -> bytes:
        """Read the current content of the file; empty if it does not exist."""
        return self.path.read_bytes() if self.path.exists() else b""

    def save(self, content: bytes) -> None:
        """Replace the content of the file at once."""
        write_whole({str(self.path): content})


def command_line(name: str, *arguments: object) -> str:
    """Return a ``kernelfields`` command as a line for a shell."""
    return shlex.join(["kernelfields", name, *map(str, arguments)])


def name_items(ids: Sequence[str | None], noun: str = "id") -> list[str | None]:
    """Return the names of items from their ids; numbers get a noun as prefix."""
    return [None if own is None else f"{noun} {own}" if own.isdecimal() else own for own in ids]


def neighbours_in_document(item: int, count: int, is_first: Callable[[int], bool]) -> tuple[int | None, int | None]:
    """Return the items before and after an item, None at an end; ``is_first`` marks the begins of documents."""
    before = item - 1 if item and not is_first(item) else None
    return before, item + 1 if item + 1 < count and not is_first(item + 1) else None
