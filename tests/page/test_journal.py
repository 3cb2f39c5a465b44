"""The journal of the page: disks that are full, lines that are torn or glued, and one process for a file."""

import errno
import json
import os
import signal
import subprocess
import sys

import pytest
from sentences import sentences, written

from kernelfields.page import LabellingSession
from kernelfields.page.files import open_file
from kernelfields.page.journal import Action, Journal
from kernelfields.page.lock import FileLock, LockedError

ACTIONS = [Action(item, 0, [(item, ["O", "B-city"]), (0, None)]) for item in range(20)]


def opened(tmp_path, journal="new.journal", **options):
    path = tmp_path / "new.conll"
    if not path.exists():
        path.write_text(written(sentences(12, seed=1)[0]), encoding="utf-8")
    file = open_file(str(path), **options)
    return LabellingSession(file.words, file.read.y, words=file.words, file=file, journal=tmp_path / journal)


def kept(path):
    """Return the actions that a journal holds, and what it leaves out."""
    journal = Journal(path, b"")
    journal.close()
    return journal.actions, journal.left_out


def limited(size):
    """Let files of this process grow no larger, as on a full disk; returns what takes the limit away."""
    resource = pytest.importorskip("resource", reason="limits of the size of files are those of POSIX")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))

    def lift():
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, old)

    return lift


@pytest.mark.parametrize("room", [1, 30, 80])
def test_a_full_disk_refuses_the_action_and_loses_none(tmp_path, room):
    path = tmp_path / "journal"
    journal = Journal(path, b"")
    for action in ACTIONS[:5]:
        journal.append(action)
    whole = path.read_bytes()
    lift = limited(len(whole) + room)
    try:
        for _ in range(2):
            with pytest.raises(
                OSError, match=r"not kept and does not count: journal cannot be written \(File too large"
            ):
                journal.append(Action(3, 0, [(position, ["a-label"]) for position in range(99)]))
            assert path.read_bytes() == whole
    finally:
        lift()
    for action in ACTIONS[5:]:
        journal.append(action)
    journal.close()
    assert kept(path) == (ACTIONS, [])


def test_what_is_written_in_pieces_is_whole(tmp_path, monkeypatch):
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, bytes(data)[:7]))
    journal = Journal(tmp_path / "journal", b"")
    for action in ACTIONS:
        journal.append(action)
    journal.close()
    monkeypatch.undo()
    assert kept(tmp_path / "journal") == (ACTIONS, [])


@pytest.mark.parametrize("cannot_cut", [False, True])
def test_a_torn_line_never_stands_before_another(tmp_path, monkeypatch, cannot_cut):
    journal = Journal(tmp_path / "journal", b"")
    journal.append(ACTIONS[0])
    write = os.write

    def torn(file, data):
        if len(data) < 20:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(file, bytes(data)[:-10])

    def fails(file, size):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "write", torn)
    if cannot_cut:
        monkeypatch.setattr(os, "ftruncate", fails)
    with pytest.raises(OSError, match="No space left on device"):
        journal.append(ACTIONS[1])
    assert journal.actions == ACTIONS[:1]
    monkeypatch.undo()
    journal.append(ACTIONS[2])
    journal.close()
    assert kept(tmp_path / "journal") == ([ACTIONS[0], ACTIONS[2]], [])


def test_an_action_that_the_disk_may_not_have_is_refused(tmp_path, monkeypatch):
    journal = Journal(tmp_path / "journal", b"")
    journal.append(ACTIONS[0])

    def fails(file):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError, match="Input/output error"):
        journal.append(ACTIONS[1])
    monkeypatch.undo()
    journal.close()
    assert kept(tmp_path / "journal") == (ACTIONS[:1], [])
    with pytest.raises(OSError, match="journal is closed"):
        journal.append(ACTIONS[1])


def test_the_page_is_as_it_was_when_an_action_cannot_be_kept(tmp_path, monkeypatch):
    session = opened(tmp_path)
    session.change(0, 0, [[0, ["O"]]])
    before = session.labels(), list(session.versions)

    def full(file, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    for refused in (lambda: session.change(0, 1, [[1, ["O"]]]), session.undo, session.save):
        with pytest.raises(OSError, match=r"not kept and does not count: new.journal .*Make room on the disk"):
            refused()
        assert (session.labels(), session.versions) == before
    monkeypatch.undo()
    session.undo()
    assert session.labels()[0][0] is None
    session.close()


def test_lines_that_cannot_be_read_do_not_put_the_others_out_of_reach(tmp_path):
    path = tmp_path / "journal"
    journal = Journal(path, b"")
    for action in ACTIONS:
        journal.append(action)
    journal.close()
    head, *lines = path.read_bytes().splitlines(keepends=True)
    torn, noise = lines[3][:25], b"\x00\xff not json\n"
    # One is torn and the next one glued to it, one is noise, one is cut off at the end.
    path.write_bytes(head + b"".join([*lines[:3], torn, *lines[4:9], noise, *lines[10:19], lines[19][:-5]]))
    actions, left_out = kept(path)
    assert actions == [*ACTIONS[:3], *ACTIONS[4:9], *ACTIONS[10:19]]
    assert left_out[0] == f"line 5: {torn.decode()}"
    assert left_out[1].startswith("line 10: ")
    assert left_out[2].startswith("line 20, cut off: ")
    # What was cut off is gone, the others stay, and new actions stand on lines of their own.
    journal = Journal(path, b"")
    assert len(journal.left_out) == 2
    journal.append(ACTIONS[3])
    journal.close()
    assert kept(path)[0] == [*actions, ACTIONS[3]]


def test_what_is_left_out_is_said(tmp_path):
    session = opened(tmp_path)
    session.change(0, 0, [[0, ["O"]]])
    session.close()
    action = {"item": 1, "version": 0, "changes": [[0, ["a|b"]]]}  # of a time when such labels were accepted
    with (tmp_path / "new.journal").open("a") as file:
        file.write(json.dumps(action) + "\n" + '{"item": 1, "vers')
    with pytest.warns(
        UserWarning, match=r"lines of new.journal that cannot be used are left out \(2\): line 4, cut off"
    ):
        again = opened(tmp_path)
    assert "stands between labels of a set" in again.state()["status"]
    assert again.labels()[0][0] == "O"
    again.save()
    again.close()
    assert opened(tmp_path).labels()[0][0] == "O"


def test_a_journal_that_was_cut_off_in_its_first_line_is_begun_anew(tmp_path):
    path = tmp_path / "journal"
    path.write_text('{"journal": 1, "o')
    journal = Journal(path, b"")
    journal.append(ACTIONS[0])
    journal.close()
    assert kept(path) == (ACTIONS[:1], [])


# ---- one process


def test_one_session_for_a_file_and_for_a_journal(tmp_path):
    session = opened(tmp_path)
    for journal in ("new.journal", "other.journal"):
        with pytest.raises(LockedError, match=r"new.conll is being labelled by this process"):
            opened(tmp_path, journal)
    (tmp_path / "link.conll").symlink_to(tmp_path / "new.conll")
    link = open_file(str(tmp_path / "link.conll"))
    with pytest.raises(LockedError, match=r"link.conll is being labelled"):
        LabellingSession(link.words, words=link.words, file=link)
    with pytest.raises(LockedError, match=r"new.journal is being labelled"):
        Journal(tmp_path / "new.journal", b"")
    session.change(0, 0, [[0, ["O"]]])
    session.save()  # the file is another one now, and still locked
    with pytest.raises(LockedError, match=r"new.conll"):
        opened(tmp_path)
    session.close()
    opened(tmp_path).close()
    assert not list(tmp_path.glob(".*"))


HOLDER = """
import sys
from pathlib import Path
from kernelfields.page.lock import FileLock
lock = FileLock(Path(sys.argv[1]))
print("locked", flush=True)
sys.stdin.read()
"""


def test_the_other_process_is_named_and_its_lock_ends_with_it(tmp_path):
    path = tmp_path / "new.conll"
    command = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "locked\n"
        with pytest.raises(LockedError, match=f"is being labelled by process {other.pid}: go on there, or end it"):
            FileLock(path)
        other.kill()
    lock = FileLock(path)  # what a killed process left behind is taken over
    (tmp_path / ".new.conll.lock").write_text("")
    with pytest.raises(LockedError, match="another process"):
        FileLock(path)
    (tmp_path / ".new.conll.lock").write_text('{"process": 7, "host": "elsewhere"}')
    with pytest.raises(LockedError, match="process 7 of elsewhere"):
        FileLock(path)
    lock.release()
    assert not list(tmp_path.iterdir())


def test_a_folder_without_locks_is_said(tmp_path, monkeypatch):
    fcntl = pytest.importorskip("fcntl")

    def unsupported(file, operation):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", unsupported)
    with pytest.warns(UserWarning, match=r"has no locks \(No locks available\): label its files from one place"):
        FileLock(tmp_path / "new.conll").release()


def test_windows_locks_a_byte_that_nobody_reads(tmp_path, monkeypatch):
    from kernelfields.page import lock as room

    class Bytes:
        LK_NBLCK, taken = 2, set()

        def locking(self, file, mode, count):
            place = os.lseek(file, 0, os.SEEK_CUR)
            assert (mode, count) == (self.LK_NBLCK, 1)
            assert place > 1000
            if os.fstat(file).st_ino in self.taken:
                raise OSError(errno.EACCES, "Permission denied")
            self.taken.add(os.fstat(file).st_ino)

    monkeypatch.setattr(room, "fcntl", None)
    monkeypatch.setitem(sys.modules, "msvcrt", Bytes())
    lock = FileLock(tmp_path / "new.conll")
    with pytest.raises(LockedError, match="this process"):
        FileLock(tmp_path / "new.conll")
    lock.release()
    assert not list(tmp_path.iterdir())


# ---- labels that cannot be written


@pytest.mark.parametrize("label", ["?", "a|b", "|", "a b", " ", "a\tb", "a\n", "\r", "a\u2028b", "", "\ud800", "\x00"])
def test_labels_that_cannot_be_written_are_refused(tmp_path, label):
    session = opened(tmp_path)
    for labels in ([label], ["O", label]):
        with pytest.raises(ValueError, match=r"the label .* cannot be written|a label is a text of 1 to 200"):
            session.change(0, 0, [[0, ["O"]], [1, labels]])
    assert session.labels()[0][0] is None
    session.change(0, 0, [[0, ["New-York's"]]])
    session.save()
    session.close()
    assert opened(tmp_path).labels()[0][0] == "New-York's"


def test_labels_of_the_file_may_hold_what_it_can_hold(tmp_path):
    path = tmp_path / "new.conll"
    path.write_text("we\tnot known\nsaw\t?\n")
    session = opened(tmp_path)
    session.change(0, 0, [[1, ["not known"]]])
    session.save()
    session.close()
    assert path.read_text() == "we\tnot known\nsaw\tnot known\n\n"
    table = tmp_path / "rooms.csv"
    table.write_text("day,speed\n1,0.5\n1,0.7\n2,0.1\n")
    file = open_file(str(table), sequence="day")
    session = LabellingSession(file.read.X, file.read.y, None, columns=file.columns, file=file)
    with pytest.raises(ValueError, match="labels may not hold tabs or ends of lines"):
        session.change(0, 0, [[0, ["a\tb"]]])
    session.change(0, 0, [[0, ["at rest, or not"]]])
    session.save()
    session.change(0, 1, [[1, ["fast"]]])
    session.save()
    assert table.read_text() == 'day,speed,label\n1,0.5,"at rest, or not"\n1,0.7,fast\n2,0.1,?\n'


def test_labels_that_are_named_at_the_start_can_be_written(tmp_path):
    path = tmp_path / "new.conll"
    path.write_text("we\nsaw\n")
    file = open_file(str(path))
    with pytest.raises(ValueError, match="it stands for a label that is not known"):
        LabellingSession(file.words, None, words=file.words, file=file, classes=["O", "?"])
