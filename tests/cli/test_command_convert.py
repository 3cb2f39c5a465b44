"""kernelfields convert: the same sequences in another format."""

import json
import re

import pytest
from command_files import run, write_columns_file, write_csv_file

import kernelfields
from kernelfields.formats import write_sequences
from kernelfields.serving import load_chain
from tests.models.crfsuite_bytes import crfsuite_bytes, random_model, random_sequences


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
        (["train.csv", "out.crfsuite"], "CSV files need --sequence-column NAME"),
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


def test_raw_text_that_ends_in_txt_needs_no_format(tmp_path):
    (tmp_path / "raw.txt").write_text("Ann lives in Paris.\nHe took 5mg.\n")
    run("convert", tmp_path / "raw.txt", tmp_path / "out.conll")
    assert "Paris\t?\n" in (tmp_path / "out.conll").read_text()
    (tmp_path / "even.txt").write_text("Anna lives in Zürich.\nDid Bob see José?\n")  # as many words in each line
    run("convert", tmp_path / "even.txt", tmp_path / "even.conll")
    assert "Zürich\t?\n" in (tmp_path / "even.conll").read_text()
    for rows in ("Ann\tB-PER\nlives\tO\n", "Ann NNP B-PER\nlives VBZ O\n. . .\n"):
        (tmp_path / "rows.txt").write_text(rows)
        failed = run("convert", tmp_path / "rows.txt", tmp_path / "out.jsonl", "--to", "doccano", code=2).stderr
        assert "what rows.txt holds cannot be told" in " ".join(failed.split()).replace(f"{tmp_path}/", "")
        assert "--from text for running text, --from columns" in " ".join(failed.split())


def test_models_of_crfsuite_are_asked_by_the_command(folder):
    """As they are and converted: files of CRFsuite's own program are read by both."""
    labels, attributes, states, transitions = random_model()
    (folder / "given.crfsuite").write_bytes(crfsuite_bytes(labels, attributes, states, transitions))
    run("convert", "given.crfsuite", "model.kfm")
    X, field = random_sequences(attributes), kernelfields.load("given.crfsuite")
    predicted = field.predict(X)
    write_sequences("data.crfsuite", X, predicted)
    for name in ("given.crfsuite", "model.kfm"):
        assert "read from a file of another program" in run("inspect", name).stdout
        assert "w:aé" in run("inspect", name, "--top", "20").stdout
        explained = json.loads(run("inspect", name, "--explain", "data.crfsuite", "--json").stdout)
        assert list(explained) == ["explanation"]
        lines = run("predict", name, "data.crfsuite").stdout.splitlines()
        assert [line.split()[-1] for line in lines if line] == [label for own in predicted for label in own]
        assert re.search(r"^accuracy +1\.0+ ", run("evaluate", name, "data.crfsuite").stdout, re.MULTILINE)


def test_models_of_crfsuite_become_model_files(folder):
    labels, attributes, states, transitions = random_model()
    (folder / "given.crfsuite").write_bytes(crfsuite_bytes(labels, attributes, states, transitions))
    words = "wrote the model of CRFsuite given.crfsuite with 4 labels and 12 attributes as model.kfm"
    assert words in run("convert", "given.crfsuite", "model.kfm").stderr
    X = random_sequences(attributes)
    field = kernelfields.load("model.kfm")
    assert field.predict(X) == kernelfields.load("given.crfsuite").predict(X)
    assert load_chain("model.kfm").predict(X) == field.predict(X)
    assert "name the model file to write" in run("convert", "given.crfsuite", code=2).stderr
    (folder / "given.crfsuite").write_bytes((folder / "given.crfsuite").read_bytes()[:-9])
    shown = run("convert", "given.crfsuite", "other.kfm", code=2).stderr
    assert "given.crfsuite is not a model file of CRFsuite that can be read: it has" in " ".join(shown.split())
    assert not (folder / "other.kfm").exists()
