"""Whole files: drafts of the dead are removed, those of the living stay, and several files are written or none."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kernelfields.data.text_files import check_writable, open_whole, remove_leftovers, write_whole

fcntl = pytest.importorskip("fcntl", reason="only systems with file locks leave drafts of killed writers behind")
LEFT = ".out.txt.0123456789abcdef.tmp"
WRITE_AND_DIE = """
import os, signal, sys
from kernelfields.data.text_files import open_whole
with open_whole(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def full(_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_who_is_killed_leaves_a_draft_and_the_next_writer_removes_it(tmp_path):
    path = tmp_path / "out.txt"
    path.write_bytes(b"old")
    ended = subprocess.run([sys.executable, "-c", WRITE_AND_DIE, str(path)], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert path.read_bytes() == b"old"
    assert len(os.listdir(tmp_path)) == 2
    with open_whole(path) as file:
        file.write(b"new")
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["out.txt"]


def test_the_draft_of_a_living_writer_stays(tmp_path):
    path = tmp_path / "out.txt"
    with open_whole(path) as first:
        first.write(b"first")
        write_whole({str(path): b"second"})
        assert path.read_bytes() == b"second"
    assert path.read_bytes() == b"first"
    assert os.listdir(tmp_path) == ["out.txt"]


def test_only_drafts_of_the_same_file_are_removed(tmp_path):
    others = [".out.txt.tmp", ".out.txt.0123456789abcdef.tmp.gz", ".other.0123456789abcdef.tmp", "out.txt.bak"]
    for name in [*others, LEFT]:
        (tmp_path / name).touch()
    remove_leftovers(tmp_path / "out.txt")
    assert sorted(os.listdir(tmp_path)) == sorted(others)


def test_several_files_are_written_or_none(tmp_path, monkeypatch):
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    write_whole({one: b"1", two: b"2"})
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        write_whole({one: b"new", str(tmp_path / "absent" / "two"): b"new"})
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="cannot write the file: No space left on device"):
            write_whole({one: b"new", two: b"new"})
    assert [Path(name).read_bytes() for name in (one, two)] == [b"1", b"2"]
    assert sorted(os.listdir(tmp_path)) == ["one", "two"]


def test_folders_and_devices_are_not_replaced(tmp_path):
    with pytest.raises(IsADirectoryError, match="cannot write the file: it is a folder"):
        write_whole({str(tmp_path): b""})
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for write in (check_writable, lambda path: write_whole({str(path): b""})):
        with pytest.raises(OSError, match="cannot write the file: it is a device or a pipe, expected a file"):
            write(pipe)
    assert os.listdir(tmp_path) == ["pipe"]


def test_whether_a_file_can_be_written_is_tried_without_touching_it(tmp_path):
    path = tmp_path / "out.txt"
    check_writable(path)
    assert os.listdir(tmp_path) == []
    path.write_text("old")
    check_writable(path)
    assert path.read_text() == "old"
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        check_writable(tmp_path / "absent" / "out.txt")
    with pytest.raises(OSError, match=r"cannot write the file: .*File name too long") as got:
        check_writable(tmp_path / ("n" * 250))
    assert got.value.filename == str(tmp_path / ("n" * 250))
