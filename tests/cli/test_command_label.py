"""``kernelfields label`` before its page is open: what is wrong is one line, and nothing is left behind."""

import json
import re
import signal
import subprocess
import sys
import urllib.request

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


def test_a_model_of_words_labels_files_of_other_formats(tmp_path, monkeypatch):
    pytest.importorskip("starlette", reason="the extra page is not installed")
    from kernelfields.page.server import Server

    sentences = [["Anna", "Smith", "ran", "."], ["Nobody", "ran", "."], ["Ben", "Smith", "sat", "."]] * 4
    labels = {"Anna": "B-PER", "Ben": "B-PER", "Smith": "I-PER"}
    lines = ["".join(f"{word}\t{labels.get(word, 'O')}\n" for word in words) for words in sentences]
    (tmp_path / "train.conll").write_text("\n".join(lines))
    run("train", tmp_path / "train.conll", "-m", tmp_path / "names.kfm", "--prior-variance", "1", "-q")
    (tmp_path / "notes.txt").write_text("Ben Smith ran.\n")
    (tmp_path / "new.conll").write_text("Ben\t?\nSmith\t?\nran\t?\n.\t?\n")
    shown = []
    monkeypatch.setattr(Server, "run", lambda self: shown.append(self.labelling.show(0)["positions"]))
    for name in ("notes.txt", "new.conll"):
        run("label", tmp_path / name, "--model", tmp_path / "names.kfm", "--no-browser")
    assert [place["top"] for place in shown[0]] == [place["top"] for place in shown[1]]
    assert [place["top"][0][0] for place in shown[0]] == ["B-PER", "I-PER", "O", "O"]
    (tmp_path / "numbers.csv").write_text("sequence,x,label\n1,0.5,a\n1,1.5,b\n2,0.1,a\n2,0.3,a\n")
    columns = ("--sequence-column", "sequence", "--label-column", "label")
    run("train", tmp_path / "numbers.csv", "-m", tmp_path / "numbers.kfm", *columns, "--prior-variance", "1", "-q")
    assert "fitted on numeric arrays" in refused(
        "label", tmp_path / "notes.txt", "--model", tmp_path / "numbers.kfm", "--no-browser", "-o", tmp_path / "a.conll"
    )


def test_the_page_that_is_interrupted_says_what_is_not_saved(tmp_path):
    pytest.importorskip("starlette", reason="the extra page is not installed")
    (tmp_path / "notes.txt").write_text("Anna Smith went home.\nNobody else did.\n")
    command = [sys.executable, "-m", "kernelfields.cli", "label", "notes.txt", "--labels", "PER", "--no-browser"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as running:
        lines = [running.stderr.readline() for _ in range(2)]
        assert "notes.conll: 2 items, 9 positions not labelled" in lines[0]
        address, token = re.search(r"(http://\S+/)\?token=(\S+)", lines[1]).groups()
        body = {"item": 0, "version": 0, "begin": 0, "end": 2, "kind": "PER"}
        headers = {"Content-Type": "application/json", "X-Kernelfields-Token": token}
        request = urllib.request.Request(f"{address}api/mark", json.dumps(body).encode(), headers)
        urllib.request.urlopen(request).close()
        running.send_signal(signal.SIGINT)
        _, last = running.communicate(timeout=60)
    assert running.returncode == 0
    assert (
        "1 action not saved in notes.conll yet: they are in notes.conll.journal, and the same command goes on" in last
    )


def test_no_name_is_no_folder(tmp_path, monkeypatch):
    pytest.importorskip("starlette", reason="the extra page is not installed")
    monkeypatch.chdir(tmp_path)
    assert refused("label", "", "--no-browser") == "error: which file? FILE is empty"
    assert not list(tmp_path.iterdir())


def test_annotators_of_other_words_have_no_disagreements(tmp_path):
    pytest.importorskip("starlette", reason="the extra page is not installed")
    first, other = tmp_path / "notes.anna.conll", tmp_path / "notes.ben.conll"
    first.write_text("Anna\tB-PER\nran\tO\n")
    other.write_text("Anna\tB-PER\nsat\tO\n")
    assert "have different words" in refused("label", first, "--against", other, "--no-browser")
    assert "has the name of FILE" in refused("label", first, "--against", first, "--no-browser")
    assert "No such file" in refused("label", first, "--guidelines", tmp_path / "none.md", "--no-browser")
    (tmp_path / "rooms.csv").write_text("day,x\n1,0.5\n")
    told = refused("label", tmp_path / "rooms.csv", "--no-browser")
    assert "--sequence-column NAME" in told
    assert "has the columns 'day', 'x'" in told
    assert {each.name for each in tmp_path.iterdir()} == {first.name, other.name, "rooms.csv"}
