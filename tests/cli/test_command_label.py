"""``kernelfields label`` before its page is open: what is wrong is one line, and nothing is left behind."""

import sys

import pytest
from command_files import run

from kernelfields.page.lock import FileLock


def refused(*arguments):
    *_, last = run(*arguments, code=2).stderr.splitlines()
    assert last.startswith("error: ")
    return last


def test_a_file_or_a_model_that_is_not_there_is_one_line(tmp_path):
    pytest.importorskip("starlette", reason="the extra page is not installed")
    assert "No such file" in refused("label", tmp_path / "nothing.conll", "--no-browser")
    (tmp_path / "words.conll").write_text("we\nsaw\n")
    assert "does not exist" in refused("label", tmp_path / "words.conll", "--model", tmp_path / "none", "--no-browser")
    assert [each.name for each in tmp_path.iterdir()] == ["words.conll"]


def test_a_missing_extra_is_one_line(tmp_path, monkeypatch):
    (tmp_path / "words.conll").write_text("we\nsaw\n")
    monkeypatch.setitem(sys.modules, "starlette", None)
    assert "pip install 'kernelfields[page]'" in refused("label", tmp_path / "words.conll", "--no-browser")
    assert [each.name for each in tmp_path.iterdir()] == ["words.conll"]


def test_a_file_that_changed_under_its_journal_is_one_line(tmp_path):
    pytest.importorskip("starlette", reason="the extra page is not installed")
    (tmp_path / "words.conll").write_text("we\nsaw\n")
    (tmp_path / "words.conll.journal").write_text('{"journal": 1, "of": "another"}\n')
    assert "move words.conll.journal away" in refused("label", tmp_path / "words.conll", "--no-browser")


def test_a_file_that_is_being_labelled_is_one_line(tmp_path):
    pytest.importorskip("starlette", reason="the extra page is not installed")
    (tmp_path / "words.conll").write_text("we\nsaw\n")
    lock = FileLock(tmp_path / "words.conll")
    assert f"{tmp_path / 'words.conll'} is being labelled by" in refused(
        "label", tmp_path / "words.conll", "--no-browser"
    )
    lock.release()
    assert [each.name for each in tmp_path.iterdir()] == ["words.conll"]
