"""Text files for reading and writing: lines, gzip, standard streams, UTF-8, and atomic replacement.

Reading: "-" is standard input; gzip is recognised by its first bytes, whatever the name; a byte order mark and CRLF are
taken off. Only a line feed ends a line: words may hold the other characters that Unicode calls breaks. Writing: "-" is
standard output; a name that ends in ".gz" is compressed. Pipes and devices are written to directly.

A file appears under its name only once it is complete. What is written goes to a draft beside the target,
``.NAME.<16 hex digits>.tmp``, is made durable, and then takes the place of the target: an error leaves the old
file as it was and nothing else. A process that is killed in between leaves a draft behind, and the
next one to write NAME removes it. Drafts of running processes are locked and stay. ``check_outputs`` refuses outputs
that are inputs, whatever their names.

Cost: one line in memory at a time; gzip is unpacked as a whole, since its checksum stands at the end, and
refused where that is more than 64 MiB and 200 times the file; beside the writing, one look at the names in the folder.
Raises SequenceFileError naming file and line; OSError that names the target, not the draft.
"""

from __future__ import annotations

import errno
import gzip
import io
import os
import re
import secrets
import shutil
import stat
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, TextIO

try:
    import fcntl
except ImportError:  # Windows, which itself refuses to remove a file that is open
    fcntl = None  # type: ignore[assignment]

PathName = str | os.PathLike
STANDARD_STREAM = "-"
_GZIP = b"\x1f\x8b"
PIECE = 2**20
# How much packed data may unpack to: as many bytes in any case, and beyond that as many times its own size.
_ALWAYS_UNPACKED, _MOST_TIMES = 64 * 2**20, 200
_MARK = b"\xef\xbb\xbf"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
#: The name of a draft, with that of its file.
_DRAFT = re.compile(r"\.(.+)\.[0-9a-f]{16}\.tmp")
# Of so many files that are written at once the drafts stay locked; a process may open about a thousand.
_MOST_LOCKED = 100


class SequenceFileError(ValueError):
    """An unreadable file of sequences or template; the message names place and reason.

    Examples
    --------
    >>> from kernelfields.formats import Template
    >>> Template.parse("U0:%x[0]")
    Traceback (most recent call last):
        ...
    kernelfields.data.text_files.SequenceFileError: template, line 1, column 4: ...
    """


def input_name(path: PathName) -> str:
    """Return the name of an input in messages."""
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
    opened: BinaryIO = sys.stdin.buffer if standard else open(path, "rb")  # noqa: SIM115
    # Programs that call the command in their own process may put any stream in the place of standard input.
    file = opened if isinstance(opened, io.BufferedReader) else io.BufferedReader(opened)  # type: ignore[type-var]
    try:
        if not standard:
            _check_ends(file, path)
        with _name_errors(input_name(path), "cannot read"):
            packed = file.peek(len(_GZIP))[: len(_GZIP)] == _GZIP
        yield io.BytesIO(_unpack(file, path)) if packed else file
    finally:
        if not standard:
            file.close()


def _check_ends(file: BinaryIO, path: PathName) -> None:
    """Raise SequenceFileError for a device that is no terminal: most are endless and hold no sequences."""
    about = os.fstat(file.fileno())
    endless = stat.S_ISBLK(about.st_mode) or (stat.S_ISCHR(about.st_mode) and not file.isatty())
    if endless and about.st_rdev != os.stat(os.devnull).st_rdev:
        raise SequenceFileError(f"{input_name(path)} is a device, not a file: give the path of a file")


@contextmanager
def open_output(path: PathName) -> Iterator[BinaryIO]:
    """Open a file, or standard output for "-"; an old file is replaced if the block ends without an error."""
    if path == STANDARD_STREAM:
        with standard_output():
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
    elif os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
        with _name_errors(os.fspath(path)), open(path, "wb") as file:
            yield file
    else:
        with open_whole(path) as file:
            yield file


def standard_output() -> AbstractContextManager[None]:
    """Name standard output in errors of writing; errors of closed pipes are unchanged."""
    return _name_errors("standard output")


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


@contextmanager
def open_whole(path: PathName) -> Iterator[BinaryIO]:
    """Open a file for writing; an old file is replaced if the block ends without an error."""
    with _rename_errors(path), closing(_Draft(path)) as draft:
        yield draft.file
        draft.finish()
        draft.publish()


def write_whole(contents: Mapping[str, bytes]) -> None:
    """Write several files, either all of them or none."""
    with ExitStack() as drafts:
        made: list[tuple[str, _Draft]] = []
        remove_leftovers(*contents)
        for path, content in contents.items():
            with _rename_errors(path):
                draft = drafts.enter_context(closing(_Draft(path, cleared=True)))
                draft.file.write(content)
                draft.finish()
                if len(contents) > _MOST_LOCKED:
                    draft.unlock()
                made.append((path, draft))
        for path, draft in made:
            with _rename_errors(path):
                draft.publish()


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Make a folder for writing; it is renamed if the block ends without an error, and removed otherwise."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    draft.mkdir()
    try:
        yield draft
        os.rename(draft, path)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


#: Files by what messages call them; None are left out.
NamedFiles = Iterable[tuple[str, PathName | None]]


def check_outputs(outputs: NamedFiles, inputs: NamedFiles) -> None:
    """Raise ValueError if an output is the same file as an input, or as another output, by any name.

    Standard streams, pipes and devices may be both.
    """
    taken = {_identity(path): (name, path) for name, path in inputs if path is not None and _is_replaced(path)}
    for name, path in outputs:
        if path is None or not _is_replaced(path):
            continue
        if (identity := _identity(path)) in taken:
            other, same = taken[identity]
            also = "" if os.fspath(same) == os.fspath(path) else f" ({os.fspath(same)})"
            raise ValueError(f"{name} {os.fspath(path)} is the same file as {other}{also}: give it another name")
        taken[identity] = name, path


def _is_replaced(path: PathName) -> bool:
    """Whether writing under this name would replace a file."""
    return path != STANDARD_STREAM and (not os.path.exists(path) or os.path.isfile(path) or os.path.isdir(path))


def _identity(path: PathName) -> tuple[int, int] | str:
    """Return a key that is equal for all names of a file, existing or not."""
    try:
        about = os.stat(path)
    except OSError:
        return os.path.normcase(os.path.realpath(path))
    return about.st_dev, about.st_ino


def check_writable(path: PathName) -> None:
    """Raise OSError if a file of this name cannot be written."""
    with _rename_errors(path):
        _Draft(path).close()


def remove_leftovers(*paths: PathName) -> None:
    """Remove the drafts of killed writers."""
    targets: dict[str, set[str]] = {}
    for path in paths:
        folder, name = os.path.split(os.path.realpath(path))
        targets.setdefault(folder, set()).add(name)
    for folder, names in targets.items():
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                if (match := _DRAFT.fullmatch(entry.name)) and match[1] in names:
                    # One that is locked is not removed; one that cannot be does no harm.
                    with suppress(OSError), open(entry.path, "rb") as file:
                        if fcntl is not None:
                            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        os.unlink(entry.path)


def _unpack(file: BinaryIO, path: PathName) -> bytes:
    """Return all content of a gzip file: its checksum is at the end."""
    packed, unpacked = file.read(), io.BytesIO()
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(packed)) as inner:
            while piece := inner.read(PIECE):
                unpacked.write(piece)
                check_unpacked(unpacked.tell(), len(packed), path, "unpack it first")
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise SequenceFileError(
            f"{input_name(path)}: the gzip data are damaged or cut short ({error}). Fetch or compress it again."
        ) from error
    return unpacked.getvalue()


def check_unpacked(size: int, packed: int, path: PathName, advice: str) -> None:
    """Raise SequenceFileError if a file unpacks to far more bytes than it has."""
    if size > max(_ALWAYS_UNPACKED, _MOST_TIMES * packed):
        raise SequenceFileError(
            f"{input_name(path)} would unpack to more than 64 MiB and {_MOST_TIMES} times its size: if it is meant, "
            f"{advice}"
        )


def _not_utf8(name: str, number: int, raw: bytes, error: UnicodeDecodeError) -> str:
    if number == 1 and raw.startswith(_UTF16_MARKS):
        return f"{name}, line 1: this is UTF-16, expected UTF-8. Convert it: iconv -f UTF-16 -t UTF-8."
    column = len(raw[: error.start].decode("utf-8")) + 1
    return (
        f"{name}, line {number}, character {column}: byte 0x{raw[error.start]:02x} is not UTF-8 ({error.reason}). "
        "Convert the file first, for example: iconv -f ISO-8859-1 -t UTF-8."
    )


@contextmanager
def _name_errors(name: str, what_failed: str = "cannot write") -> Iterator[None]:
    """Add a name to the errors of streams; errors of files keep theirs."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.filename is not None or error.strerror is None:
            raise
        raise OSError(error.errno, f"{what_failed}: {error.strerror}", name) from error


class _Draft:
    """A file beside its target, locked during the life of its writer."""

    def __init__(self, path: PathName, *, cleared: bool = False):
        self.target = Path(os.path.realpath(path))
        if not self.target.parent.is_dir():
            raise FileNotFoundError(
                f"cannot write {os.fspath(path)}: there is no folder {self.target.parent}; create it first"
            )
        if self.target.is_dir():
            raise OSError(errno.EISDIR, "it is a folder", os.fspath(path))
        if self.target.exists() and not self.target.is_file():
            raise OSError(errno.EINVAL, "it is a device or a pipe, expected a file", os.fspath(path))
        if not cleared:
            remove_leftovers(self.target)
        self.place, self.file = self._create()
        # A second handle keeps the lock when the file is closed, until it has been moved.
        self._lock: int | None = os.dup(self.file.fileno()) if fcntl is not None else None

    def _create(self) -> tuple[Path, BinaryIO]:
        while True:
            place = self.target.with_name(f".{self.target.name}.{secrets.token_hex(8)}.tmp")
            # Opened by hand, not by tempfile, so that the file gets the user's usual permissions.
            file = open(place, "xb")  # noqa: SIM115
            if fcntl is None:
                return place, file
            with suppress(OSError):  # some network folders have no locks, and then no one takes a draft away
                fcntl.flock(file, fcntl.LOCK_EX)
            if place.exists():
                return place, file
            file.close()  # taken for a leftover in the moment before it was locked

    def finish(self) -> None:
        """Make the content durable and close the file."""
        self.file.flush()
        os.fsync(self.file.fileno())
        self.file.close()

    def publish(self) -> None:
        """Replace the target by the draft."""
        os.replace(self.place, self.target)

    def close(self) -> None:
        """Remove an unpublished draft, and release the lock."""
        with suppress(OSError):  # a full disk fails again when the rest of a buffer is written
            self.file.close()
        with suppress(OSError):  # it has been published, or lies where nothing can be removed
            os.unlink(self.place)
        self.unlock()

    def unlock(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


@contextmanager
def _rename_errors(path: PathName) -> Iterator[None]:
    """Replace the name of a draft by the name of its target in errors."""
    try:
        yield
    except OSError as error:
        own = error.filename in (None, os.fspath(path)) or _is_draft(str(error.filename), path)
        if error.strerror is None or not own:
            raise
        raise OSError(error.errno, f"cannot write the file: {error.strerror}", os.fspath(path)) from error


def _is_draft(name: str, path: PathName) -> bool:
    """Whether a name belongs to a draft of the file at ``path``."""
    match = _DRAFT.fullmatch(os.path.basename(name))
    return match is not None and match[1] == os.path.basename(os.path.realpath(path))
