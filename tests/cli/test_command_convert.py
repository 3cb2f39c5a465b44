"""kernelfields convert: the same sequences in another format."""

import pytest
from command_files import run, write_columns_file, write_csv_file


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_columns_file(tmp_path / "train.conll")
    write_csv_file(tmp_path / "train.csv")
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train.conll", "out.xml"], "does not show the format: give --to, one of"),
        (["train.xml", "out.crfsuite"], "does not show the format: give --from, one of"),
        (["train.conll", "out.crfsuite", "--from", "xml"], "--from must be auto or one of columns"),
        (["train.conll", "out.csv"], "sequences can be written as"),
        (["train.conll", "out.npz"], "the name 'out.npz' does not show the format"),
        (["train.csv", "out.crfsuite"], "CSV files need --sequence-column"),
        (["train.conll", "absent/out.crfsuite"], "there is no folder"),
        (["absent.conll", "out.crfsuite"], "No such file or directory"),
    ],
)
def test_what_cannot_be_converted_is_named(folder, arguments, message):
    assert message in run("convert", *arguments, code=2).stderr
    assert not list(folder.glob("out.*"))


def test_annotated_texts_go_to_other_tools_and_back(folder):
    before = (folder / "train.conll").read_text()
    run("convert", "train.conll", "train.jsonl", "-q")
    run("convert", "train.jsonl", "tasks.json", "-q")
    assert "wrote 20 documents of tasks.json as columns" in run("convert", "tasks.json", "back.conll").stderr
    assert (folder / "back.conll").read_text() == before


def test_losses_are_listed_before_anything_is_written(folder):
    (folder / "a.jsonl").write_text('{"text": "New York", "label": [[0, 8, "ORG"], [0, 3, "X"]]}\n')
    shown = run("convert", "a.jsonl", "a.conll", code=2).stderr
    assert "columns cannot hold spans that nest or overlap" in shown
    assert "--lossy writes what it can hold" in shown
    assert not (folder / "a.conll").exists()
    run("convert", "a.jsonl", "a.conll", "--lossy", "-q")
    assert "New\tB-ORG\nYork\tI-ORG\n" in (folder / "a.conll").read_text()


def test_options_of_annotated_texts(folder):
    (folder / "a.conll").write_text("the\tD|N\nrun\t?\n\n")
    run("convert", "a.conll", "a.conllu", "--unknown-label", "?", "--label-sets", "|", "-q")
    assert "\tD|N\t" in (folder / "a.conllu").read_text()
    assert "--separator has no meaning between doccano and conllu" in (
        run("convert", "a.jsonl", "a.conllu", "--separator", "tab", code=2).stderr
    )
    assert "for features, convert that again" in run("convert", "a.jsonl", "a.crfsuite", code=2).stderr


def test_texts_without_labels_become_unknown_labels_and_no_others(folder):
    (folder / "raw.txt").write_text("We saw Rome\nLima was far\n")
    run("convert", "raw.txt", "raw.conll", "--from", "text", "-q")
    rows = [line.split("\t") for line in (folder / "raw.conll").read_text().splitlines() if "\t" in line]
    assert rows == [[word, "?"] for word in ["We", "saw", "Rome", "Lima", "was", "far"]]
    assert "raw.conll holds no labels" in run("train", "raw.conll", code=2).stderr
    run("convert", "raw.conll", "again.txt", "--to", "text", "-q")
    assert (folder / "again.txt").read_text() == (folder / "raw.txt").read_text()
