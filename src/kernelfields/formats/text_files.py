"""Lines of text files, in and out: gzip, standard streams, UTF-8, and files that are whole or not there.

Reading: "-" is standard input; gzip is recognised by its first bytes, whatever the name; a byte order mark and
CRLF are taken off. Only a line feed ends a line: words may hold the other characters that Unicode calls breaks.
Writing: "-" is standard output; a name that ends in ".gz" is compressed; a file appears under its name only once
it is complete, so that an error leaves the old one as it was. Pipes and devices are written to directly.
Cost: one line in memory at a time; gzip is unpacked as a whole, since only its end says whether it is sound.
Fails: SequenceFileError naming file and line; OSError of the system.
"""

from __future__ import annotations

import gzip
import io
import os
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, TextIO

from kernelfields.formats.whole_files import PathName, open_whole

STANDARD_STREAM = "-"
_GZIP = b"\x1f\x8b"
_MARK = b"\xef\xbb\xbf"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


class SequenceFileError(ValueError):
    """A file of sequences, or a template, that cannot be read; the message says where and why."""


def input_name(path: PathName) -> str:
    """Return what messages call an input."""
    return "standard input" if path == STANDARD_STREAM else os.fspath(path)


def read_lines(path: PathName) -> Iterator[str]:
    """Yield the lines of a text file without their ends."""
    name = input_name(path)
    with open_input(path) as file:
        for number, raw in enumerate(file, start=1):
            if number == 1:
                raw = raw.removeprefix(_MARK)
            try:
                line = raw.decode("utf-8")
            except UnicodeDecodeError as error:
                raise SequenceFileError(_not_utf8(name, number, raw, error)) from error
            yield line.removesuffix("\n").removesuffix("\r")


def read_content(path: PathName) -> bytes:
    """Return all bytes of a file, unpacked if they are gzip."""
    with open_input(path) as file:
        return file.read()


@contextmanager
def open_input(path: PathName) -> Iterator[BinaryIO]:
    """Open a file, or standard input for "-", and unpack it if it is gzip."""
    standard = path == STANDARD_STREAM
    file = sys.stdin.buffer if standard else open(path, "rb")  # noqa: SIM115
    try:
        packed = file.peek(len(_GZIP))[: len(_GZIP)] == _GZIP  # type: ignore[union-attr]
        yield io.BytesIO(_unpacked(file, path)) if packed else file
    finally:
        if not standard:
            file.close()


def _unpacked(file: BinaryIO, path: PathName) -> bytes:
    """Return all that a gzip file holds; damage would else pass for odd lines, its checksum stands at the end."""
    try:
        with gzip.GzipFile(fileobj=file) as inner:
            return inner.read()
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise SequenceFileError(
            f"{input_name(path)}: the gzip data are damaged or cut short ({error}). Fetch or compress it again."
        ) from error


@contextmanager
def open_output(path: PathName) -> Iterator[BinaryIO]:
    """Open a file, or standard output for "-"; what was written replaces an old file when the block ends well."""
    if path == STANDARD_STREAM:
        with standard_output():
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
    elif os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
        with _named(os.fspath(path)), open(path, "wb") as file:
            yield file
    else:
        with open_whole(path) as file:
            yield file


@contextmanager
def standard_output() -> Iterator[None]:
    """Let errors of writing to standard output say so; those of a closed pipe stay what they are."""
    with _named("standard output"):
        yield


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Give a name to the errors of streams, which have none; errors about files have one and keep it."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.filename is not None or error.strerror is None:
            raise
        raise OSError(error.errno, f"cannot write: {error.strerror}", name) from error


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
