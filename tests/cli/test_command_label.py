"""``kernelfields label`` before its page is open: what is wrong is one line, and nothing is left behind."""

import sys

import pytest
from command_files import run

from kernelfields import AnnotatedCRF, ChainCRF, TextFeatures
from kernelfields.page.files import open_file
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


def test_two_annotators_agree_in_a_table_and_go_into_one_model(tmp_path):
    files = {name: tmp_path / f"notes.{name}.conll" for name in ("anna", "ben")}
    files["anna"].write_text("Anna\tB-PER\nran\tO\n\nit\tO\nrained\t?\n")
    files["ben"].write_text("Anna\tB-PER\nran\tO\n\nit\tB-PER\nrained\tO\n")
    lines = run("agreement", *files.values()).stdout.splitlines()
    assert lines[0].split() == ["annotators", "labels", "same", "kappa", "F1"]
    assert lines[1].endswith("3   0.667   0.400   1.000")
    y = {name: open_file(str(path)).y for name, path in files.items()}
    X = [["Anna", "ran"], ["it", "rained"]]
    model = AnnotatedCRF(ChainCRF("linear"), cv=2).fit(
        TextFeatures().fit_transform(X * 5), {k: v * 5 for k, v in y.items()}
    )
    assert set(model.confusions_) == {"anna", "ben"}
    files["ben"].write_text("Other\tO\n")
    assert "have different words" in refused("agreement", *files.values())
