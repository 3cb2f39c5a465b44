"""No command writes over what it reads: every output against every input, by its name, another one, and a link."""

import os
import shutil
from inspect import signature

import pytest
from command_files import run, sentences, write_columns_file

from kernelfields.cli.app import app
from kernelfields.data.text_files import check_outputs

#: What each command reads and writes; M is a model, F a labelled file, and what is written is named by the test.
CALLS = {
    "predict": (["M", "F"], [], ["--output"]),
    "evaluate": (["M", "F"], ["--against"], ["--report"]),
    "convert": (["F"], ["--template"], ["OUTPUT"]),
    "export": (["M"], [], ["OUTPUT"]),
    "train": (["F"], ["--dev", "--template", "--config"], ["--model", "--report"]),
    "label": (["F"], ["--model", "--guidelines", "--against"], ["--journal"]),
    "serve": (["M"], ["--train"], ["--output"]),
}
PAIRS = [
    (name, written, read)
    for name, (arguments, options, outputs) in CALLS.items()
    for written in outputs
    for read in [*range(len(arguments)), *options]
]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    write_columns_file(folder / "F", sentences(12), (0, 2))
    (folder / "template").write_text("U00:%x[0,0]\nB\n")
    run("train", folder / "F", "-m", folder / "M", "--max-iter", "3", "--quiet", code=1)
    (folder / "M.toml").rename(folder / "settings")
    return folder


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("way", ["same", "link", "other name"])
@pytest.mark.parametrize(("name", "written", "read"), PAIRS)
def test_an_output_that_is_an_input_is_refused_and_nothing_changes(
    made, tmp_path, monkeypatch, name, written, read, way
):
    folder = tmp_path / "work"
    shutil.copytree(made, folder)
    monkeypatch.chdir(folder)
    arguments, options, _ = CALLS[name]
    files = {
        "--against": "M",
        "--model": "M",
        "--guidelines": "template",
        "--dev": "F",
        "--train": "F",
        "--template": "template",
        "--config": "settings",
    }
    given = [*arguments]
    for option in options if isinstance(read, str) else []:
        if option == read:
            given += [option, files[option]]
    target = arguments[read] if isinstance(read, int) else files[read]
    if way == "link":
        os.symlink(target, "link")
        target = "link"
    elif way == "other name":
        target = os.path.join("..", "work", target)
    given += [target] if written == "OUTPUT" else [written, target]
    before = contents(folder)
    result = run(name, *given, code=2)
    assert "is the same file as" in result.stderr
    assert contents(folder) == before


def test_every_command_with_files_is_tried():
    writing = {"output", "report", "model", "journal"}
    for command in app.registered_commands:
        names = set(signature(command.callback).parameters)
        wrote = names & (writing if command.callback.__name__ in ("train", "label") else writing - {"model"})
        assert not wrote or command.callback.__name__ in CALLS


def test_two_outputs_are_two_files(made, tmp_path, monkeypatch):
    monkeypatch.chdir(made)
    before = contents(made)
    for model, report in (("new", "./new"), ("new.kfm", "new.toml")):
        assert "is the same file as" in run("train", "F", "-m", model, "--report", report, code=2).stderr
    assert contents(made) == before


def test_the_files_of_a_folder_are_compared_one_by_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("Anna ran.\n")
    assert (
        "OUTPUT a.txt is the same" in run("convert", "a.txt", "a.ann", "--from", "text", "--to", "brat", code=2).stderr
    )
    run("convert", "a.txt", "folder", "--from", "text", "--to", "brat")
    (tmp_path / "folder" / "document-0001.ann").rename(tmp_path / "folder" / "b.ann")
    (tmp_path / "folder" / "document-0001.txt").rename(tmp_path / "folder" / "b.txt")
    before = contents(tmp_path / "folder")
    for given in (os.path.join("folder", "b.ann"), "folder"):
        assert (
            "is the same file as FILE"
            in run("convert", given, "folder", "--from", "brat", "--to", "brat", code=2).stderr
        )
    assert contents(tmp_path / "folder") == before


def test_devices_may_be_read_and_written(tmp_path):
    check_outputs([("a", os.devnull), ("b", os.devnull), ("c", "-"), ("d", None)], [("in", os.devnull), ("in", "-")])
    os.link(write_columns_file(tmp_path / "F"), tmp_path / "second")
    with pytest.raises(ValueError, match=r"--out .*second is the same file as FILE \(.*F\): give it another name"):
        check_outputs([("--out", tmp_path / "second")], [("FILE", tmp_path / "F")])
