"""Lines of text files, in and out: gzip, standard streams, UTF-8, and files that are whole or not there.

Reading: "-" is standard input; gzip is recognised by its first bytes, whatever the name; a byte order mark and
CRLF are taken off. Only a line feed ends a line: words may hold the other characters that Unicode calls breaks.
Writing: "-" is standard output; a name that ends in ".gz" is compressed; a file appears under its name only once
it is complete, so that an error leaves the old one as it was. Pipes and devices are written to directly.
Cost: one line in memory at a time. Fails: SequenceFileError naming file and line; OSError of the system.
"""

from __future__ import annotations

import gzip
import io
import os
import secrets
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TextIO

STANDARD_STREAM = "-"
PathName = str | os.PathLike
_GZIP = b"\x1f\x8b"
_GZIP_ERRORS = (EOFError, gzip.BadGzipFile, zlib.error)
_DAMAGED = "the gzip data are damaged or cut short"
_MARK = b"\xef\xbb\xbf"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


class SequenceFileError(ValueError):
    """A file of sequences, or a template, that cannot be read; the message says where and why."""


def input_name(path: PathName) -> str:
    """Return what messages call an input."""
    return "standard input" if path == STANDARD_STREAM else os.fspath(path)


def read_lines(path: PathName) -> Iterator[str]:
    """Yield the lines of a text file without their ends."""
    name, number = input_name(path), 0
    with open_input(path) as file:
        try:
            for number, raw in enumerate(file, start=1):
                if number == 1:
                    raw = raw.removeprefix(_MARK)
                try:
                    line = raw.decode("utf-8")
                except UnicodeDecodeError as error:
                    raise SequenceFileError(_not_utf8(name, number, raw, error)) from error
                yield line.removesuffix("\n").removesuffix("\r")
        except _GZIP_ERRORS as error:
            raise SequenceFileError(f"{name}, after line {number}: {_DAMAGED} ({error})") from error


def read_content(path: PathName) -> bytes:
    """Return all bytes of a file, unpacked if they are gzip."""
    with open_input(path) as file:
        try:
            return file.read()
        except _GZIP_ERRORS as error:
            raise SequenceFileError(f"{input_name(path)}: {_DAMAGED} ({error})") from error


@contextmanager
def open_input(path: PathName) -> Iterator[BinaryIO]:
    """Open a file, or standard input for "-", and unpack it if it is gzip."""
    standard = path == STANDARD_STREAM
    file = sys.stdin.buffer if standard else open(path, "rb")  # noqa: SIM115
    try:
        packed = file.peek(len(_GZIP))[: len(_GZIP)] == _GZIP  # type: ignore[union-attr]
        yield gzip.GzipFile(fileobj=file) if packed else file  # type: ignore[misc]
    finally:
        if not standard:
            file.close()


@contextmanager
def open_output(path: PathName) -> Iterator[BinaryIO]:
    """Open a file, or standard output for "-"; what was written replaces an old file when the block ends well."""
    if path == STANDARD_STREAM:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: there is no folder {target.parent}; create it first")
    if target.exists() and not target.is_file():
        with open(target, "wb") as file:
            yield file
        return
    # Opened by hand, not by tempfile, so that the file gets the user's usual permissions.
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except OSError as error:
        # What the block reads may fail as well; errors of other files keep their own names.
        if error.filename not in (None, str(temporary)):
            raise
        raise OSError(error.errno, f"cannot write the file: {error.strerror}", os.fspath(path)) from error
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def open_text_output(path: PathName) -> Iterator[TextIO]:
    """Open a text file for writing as UTF-8 with line feeds, compressed if its name ends in ".gz"."""
    with open_output(path) as file:
        packed = os.fspath(path).endswith(".gz")
        # No time stamp and no name: the same text gives the same bytes.
        inner = gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0) if packed else file
        text = io.TextIOWrapper(inner, encoding="utf-8", newline="\n")
        try:
            yield text
            text.flush()
        finally:
            text.detach()
        if packed:
            inner.close()


def _not_utf8(name: str, number: int, raw: bytes, error: UnicodeDecodeError) -> str:
    if number == 1 and raw.startswith(_UTF16_MARKS):
        return f"{name}, line 1: this is UTF-16, expected UTF-8. Convert it: iconv -f UTF-16 -t UTF-8."
    column = len(raw[: error.start].decode("utf-8")) + 1
    return (
        f"{name}, line {number}, character {column}: byte 0x{raw[error.start]:02x} is not UTF-8 ({error.reason}). "
        "Convert the file first, for example: iconv -f ISO-8859-1 -t UTF-8."
    )
