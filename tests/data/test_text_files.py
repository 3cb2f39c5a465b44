import errno
import gzip
import io
import os
import stat
import sys
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelfields.data.text_files import open_output, open_text_output, read_lines
from kernelfields.formats import SequenceFileError


@pytest.fixture
def standard_input(monkeypatch):
    def give(content):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BufferedReader(io.BytesIO(content))))

    return give


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", []),
        (b"a\nb\n", ["a", "b"]),
        (b"a\nb", ["a", "b"]),
        (b"a\r\n\r\nb\r\n", ["a", "", "b"]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb", ["a", "\ufeffb"]),
        ("x\u2028y\x0bz\x85\n\u3000\tIDEO".encode(), ["x\u2028y\x0bz\x85", "\u3000\tIDEO"]),
        (b"a\rb\n", ["a\rb"]),
    ],
)
def test_only_line_feeds_end_lines(tmp_path, standard_input, content, lines):
    path = tmp_path / "lines.txt"
    path.write_bytes(content)
    assert list(read_lines(path)) == lines
    path.write_bytes(gzip.compress(content))  # found by its first bytes, not by the name
    assert list(read_lines(path)) == lines
    standard_input(content)
    assert list(read_lines("-")) == lines
    standard_input(gzip.compress(content))
    assert list(read_lines("-")) == lines


def test_bytes_that_are_not_utf8_are_named_by_line_and_character(tmp_path):
    path = tmp_path / "latin.txt"
    path.write_bytes("gut\nü caf".encode() + b"\xe9\n")
    with pytest.raises(SequenceFileError, match=r"latin\.txt, line 2, character 6: byte 0xe9 is not UTF-8"):
        list(read_lines(path))


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf16_is_recognised(tmp_path, encoding):
    path = tmp_path / "wide.txt"
    path.write_bytes("\ufeffword\n".encode(encoding))
    with pytest.raises(SequenceFileError, match="line 1: this is UTF-16"):
        list(read_lines(path))


def test_gzip_that_is_cut_short_or_damaged_is_refused(tmp_path):
    content = gzip.compress(b"".join(b"line %d\n" % number for number in range(5000)))
    path = tmp_path / "lines.gz"
    path.write_bytes(content[:-100])
    with pytest.raises(SequenceFileError, match=r"lines\.gz: the gzip data are damaged or cut short"):
        list(read_lines(path))
    damaged = bytearray(content)
    damaged[len(content) // 2] ^= 0xFF
    path.write_bytes(damaged)
    with pytest.raises(SequenceFileError, match=r"lines\.gz: the gzip data are damaged"):
        list(read_lines(path))


def test_what_is_not_there_is_an_error_of_the_system(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        list(read_lines(tmp_path / "nowhere"))
    with pytest.raises(FileNotFoundError, match="no folder"), open_text_output(tmp_path / "no" / "file"):
        pass


@settings(max_examples=60, deadline=None)
@given(text=st.text(st.characters(codec="utf-8")))
def test_text_comes_back_and_compressed_bytes_do_not_depend_on_the_name(tmp_path_factory, text):
    folder = tmp_path_factory.mktemp("round")
    for name in ("one.txt", "two.gz", "three.gz"):
        with open_text_output(folder / name) as file:
            file.write(text)
        assert os.listdir(folder).count(name) == 1
    assert (folder / "one.txt").read_bytes() == text.encode()
    assert gzip.decompress((folder / "two.gz").read_bytes()) == text.encode()
    assert (folder / "two.gz").read_bytes() == (folder / "three.gz").read_bytes()


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path):
    def half(file):
        file.write("new")
        raise ZeroDivisionError

    path = tmp_path / "out.txt"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), open_text_output(path) as file:
        half(file)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["out.txt"]


def test_a_full_disk_names_the_file_that_was_meant(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    message = r"cannot write the file: No space left on device: .*out\.txt"
    with pytest.raises(OSError, match=message), open_output(tmp_path / "out.txt") as file:
        file.write(b"new")
    assert os.listdir(tmp_path) == []


def test_errors_of_other_files_keep_their_names(tmp_path):
    with pytest.raises(FileNotFoundError, match="input"), open_output(tmp_path / "out.txt"):
        (tmp_path / "input").read_text()
    assert os.listdir(tmp_path) == []


def test_devices_are_written_to_and_links_followed(tmp_path):
    with open_text_output(os.devnull) as file:
        file.write("gone")
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    with open_text_output(link) as file:
        file.write("new")
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_standard_output_gets_the_bytes(capfdbinary):
    with open_text_output("-") as file:
        file.write("ü\n")
    assert capfdbinary.readouterr().out == "ü\n".encode()
    assert not sys.stdout.buffer.closed
