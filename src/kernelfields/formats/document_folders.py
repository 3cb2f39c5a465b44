"""Formats with a file, or a pair of files, for each document: the path names such a file, or a folder of files.

The id of a document is its file name without the extension; characters that file names may not contain are written as
%2F and so on. Documents without an id are named document-0001 and so on, and are read back without an id. They are read
in the order of their names; if the documents have another order, a hidden file lists the names in that order.

Raises ValueError for two documents with the same name; SequenceFileError for a folder without files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote, unquote

from kernelfields.data.text_files import STANDARD_STREAM, PathName, SequenceFileError, write_whole
from kernelfields.formats.annotated_texts import Document

_MADE = re.compile(r"document-\d{4,}")
_ORDER = ".kernelfields-order"
_PLAIN = " !#$&'()+,;=@[]{}~"


def find_document_files(path: PathName, ending: str, also: str = "") -> list[Path]:
    """Return the sorted files of a folder with an extension, or the single file at a path."""
    place = Path(path)
    if path == STANDARD_STREAM:
        raise SequenceFileError(f"files with {ending} are read from a folder or a file, not from standard input")
    if place.is_dir():
        found = sorted(file for file in place.iterdir() if file.suffix.lower() == ending.lower())
        if not found:
            raise SequenceFileError(f"{place} holds no files with the ending {ending}")
        listed = (place / _ORDER).read_text(encoding="utf-8").split("\n") if (place / _ORDER).is_file() else []
        rank = {name: number for number, name in enumerate(listed)}
        return sorted(found, key=lambda file: rank.get(file.stem, len(rank)))
    return [place.with_suffix(ending) if also and place.suffix.lower() == also else place]


def document_id(file: Path) -> str | None:
    """Return the id of a document from its file name."""
    return None if _MADE.fullmatch(file.stem) else unquote(file.stem)


def plan_files(path: PathName, documents: Sequence[Document], endings: Sequence[str]) -> list[dict[str, Path]]:
    """Return the paths to write for each document, by extension."""
    if path == STANDARD_STREAM:
        raise ValueError(f"files with {endings[0]} are written to a folder or a file, not to standard output")
    place = Path(path)
    if place.suffix.lower() in map(str.lower, endings) and not place.is_dir():
        if len(documents) != 1:
            raise ValueError(f"{place} is a file for one document, and there are {len(documents)}: name a folder")
        return [{one: place.with_suffix(one) for one in endings}]
    names = [
        f"document-{number:04d}" if document.id is None else quote(document.id, safe=_PLAIN).lstrip(".") or "%2E"
        for number, document in enumerate(documents, start=1)
    ]
    if twice := next((name for name in names if names.count(name) > 1), None) if len(set(names)) < len(names) else None:
        raise ValueError(f"two documents have the name {twice!r}, and one folder cannot hold both")
    return [{one: place / f"{name}{one}" for one in endings} for name in names]


def write_files(
    path: PathName, documents: Sequence[Document], contents: Sequence[Mapping[str, bytes]], endings: Sequence[str]
) -> None:
    """Write all files of documents or none; the first extension is that of the annotations."""
    files, place = plan_files(path, documents, endings), Path(path)
    written = {str(own[one]): content[one] for own, content in zip(files, contents, strict=True) for one in endings}
    annotated = [own[endings[0]] for own in files]
    if place.suffix.lower() not in map(str.lower, endings) or place.is_dir():
        os.makedirs(place, exist_ok=True)
        if sorted(annotated) != annotated or (place / _ORDER).exists():
            written[str(place / _ORDER)] = "\n".join(one.name.removesuffix(endings[0]) for one in annotated).encode()
    write_whole(written)
