"""Locks and journals of the page: no other file is followed, cut or written, and damage is one line."""

import os

import pytest

from kernelfields.page import LabellingSession
from kernelfields.page.files import open_file
from kernelfields.page.journal import Action, Journal, JournalError
from kernelfields.page.lock import FileLock, LockedError
from kernelfields.page.own_files import NotOwnFileError

ACTION = '{"item": 0, "version": 0, "changes": [[0, ["O"]]]}'
PRECIOUS = b"precious line 1\nprecious line 2\n"


def head(path):
    """Return the first line of the journal of no file."""
    journal = Journal(path, b"")
    journal.append(Action(0, 0, [(0, ["O"])]))
    journal.close()
    return path.read_text().split("\n")[0] + "\n"


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("name", [".words.conll.lock", "words.conll.journal", ".words.conll.journal.lock"])
def test_a_link_is_not_followed(tmp_path, name, there):
    victim, folder = tmp_path / "victim", tmp_path / "project"
    folder.mkdir()
    if there:
        victim.write_bytes(PRECIOUS)
    (folder / "words.conll").write_text("He\tO\nran\tO\n\n")
    (folder / name).symlink_to(victim)
    file = open_file(str(folder / "words.conll"))
    with pytest.raises(NotOwnFileError, match="is a link"):
        LabellingSession(file.words, file.y, words=file.words, file=file, journal=folder / "words.conll.journal")
    assert victim.exists() == there
    assert not there or victim.read_bytes() == PRECIOUS


@pytest.mark.parametrize(
    "content", [PRECIOUS, b"a", b"\0" * 40, b'{"process": 7}\nmore', b'{"process": 7' + b" " * 2000]
)
def test_a_file_that_is_no_lock_stays(tmp_path, content):
    (tmp_path / ".words.conll.lock").write_bytes(content)
    with pytest.raises(NotOwnFileError, match="is no lock of the page"):
        FileLock(tmp_path / "words.conll")
    assert (tmp_path / ".words.conll.lock").read_bytes() == content


def test_a_second_name_of_a_file_is_no_lock(tmp_path):
    (tmp_path / "empty").touch()
    os.link(tmp_path / "empty", tmp_path / ".words.conll.lock")
    with pytest.raises(NotOwnFileError, match="is no lock"):
        FileLock(tmp_path / "words.conll")
    assert (tmp_path / "empty").read_bytes() == b""


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names are those of POSIX")
def test_pipes_and_folders_are_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / ".a.lock")
    (tmp_path / ".b.lock").mkdir()
    for name in "ab":
        with pytest.raises(NotOwnFileError, match="is no file"):
            FileLock(tmp_path / name)


@pytest.mark.parametrize("content", ['{"process": ', '{"process": 1e999, "host": 3}', '{"process": ' + "[" * 900])
def test_a_damaged_lock_is_taken_over_and_names_nobody(tmp_path, content):
    place = tmp_path / ".words.conll.lock"
    place.write_text(content)
    lock = FileLock(tmp_path / "words.conll")
    place.write_text(content)
    with pytest.raises(LockedError, match="by another process"):
        FileLock(tmp_path / "words.conll")
    lock.release()
    assert not place.exists()


@pytest.mark.parametrize("content", ["my thesis, without an end", '{"journal": 2, "of": "', '{"a": 1}', "\0", "[" * 99])
def test_a_file_that_is_no_journal_stays(tmp_path, content):
    for text in (content, content + "\n"):
        (tmp_path / "notes.txt").write_text(text)
        with pytest.raises(JournalError, match="no journal that can be read, and stays as it is"):
            Journal(tmp_path / "notes.txt", b"")
        assert (tmp_path / "notes.txt").read_text() == text


def test_every_beginning_of_a_journal_is_one_that_was_cut_off(tmp_path):
    path = tmp_path / "journal"
    first = head(path)
    for length in range(len(first)):
        path.write_text(first[:length])
        Journal(path, b"").close()
        assert path.read_bytes() == b""


DAMAGED = [
    '{"item": 1e999, "version": 0, "changes": [[0, ["O"]]]}',
    '{"item": ' + "[" * 100_000,
    '{"item": 0, "version": 0, "changes": [[0, ["O"]]], "before": [[0, [["O"]]]]}',
    '{"item": 0, "version": 0, "changes": [[0, ["O"]]], "before": []}',
    '{"item": 0, "version": 0, "changes": [[0, ["O"]]], "before": [[1, null]]}',
    '{"item": 0, "version": 0, "changes": []}',
    '{"item": 0, "version": 0, "changes": [[0, [{}]]]}',
    '{"item": 0, "version": Infinity, "changes": [[0, ["O"]]]}',
    '{"item": 0, "version": 0, "changes": [[0, ["O"]]], "step": -1}',
    '{"item": 0, "version": 0, "changes": [[0, ["O"]]], "kind": ["do"]}',
    '{"item": true, "version": 0, "changes": [[0, ["O"]]]}',
    '{"flag": Infinity, "note": null}',
    '{"flag": 0, "note": [1]}',
    '{"saved": 3}',
]


@pytest.mark.parametrize("line", DAMAGED)
def test_a_damaged_line_is_left_out_and_listed(tmp_path, line):
    path = tmp_path / "journal"
    path.write_text(head(path) + line + "\n" + ACTION + "\n")
    with pytest.warns(UserWarning, match=r"that cannot be used are left out \(1\): line 2"):
        session = LabellingSession([["He"], ["ran"]], words=[["He"], ["ran"]], journal=path)
    assert session.labels()[0] == ["O"]
    session.undo() if session.history.done else session.change(0, 1, [[0, None]])
    session.close()


def test_flags_of_items_that_are_not_there_are_left_out(tmp_path):
    path = tmp_path / "journal"
    path.write_text(head(path) + '{"flag": 99, "note": "far"}\n{"flag": 1, "note": "near"}\n')
    with pytest.warns(UserWarning, match="the flag of item 100"):
        session = LabellingSession([["He"], ["ran"]], words=[["He"], ["ran"]], journal=path)
    assert [own["item"] for own in session.queue(part="flagged")] == [1]
    session.close()
