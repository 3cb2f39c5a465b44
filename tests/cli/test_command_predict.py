"""kernelfields predict: labels beside the input, probabilities, alternatives, pipes."""

import json
import subprocess
import sys

import numpy as np
import pytest
from command_files import run, sentences, write_columns_file, write_csv_file
from sklearn.pipeline import make_pipeline

from kernelfields import ChainCRF, TextFeatures, save
from kernelfields.cli.models import load_model
from kernelfields.features import SequenceUnion
from kernelfields.formats import read_sequences


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A folder with a model for each format and files to label."""
    folder = tmp_path_factory.mktemp("models")
    write_columns_file(folder / "train.conll")
    write_columns_file(folder / "test.conll", sentences(6, seed=1))
    write_columns_file(folder / "bare.conll", sentences(6, seed=1), columns=(0, 1))
    write_csv_file(folder / "train.csv")
    write_csv_file(folder / "test.csv", 5, seed=1)
    run("convert", folder / "train.conll", folder / "train.crfsuite", "-q")
    for end in ("conll", "csv", "crfsuite"):
        column = ["--sequence-column", "day", "--standardize"] if end == "csv" else []
        run("train", folder / f"train.{end}", "-m", folder / f"{end}.model", *column, "-q")
    return folder


def predictions(folder, end, name):
    trained = load_model(folder / f"{end}.model")
    file = trained.read(str(folder / name), labels_required=False)
    return trained.crf, file, trained.crf.predict(file.X)


def test_the_input_comes_back_with_one_more_column(models):
    _, file, labels = predictions(models, "conll", "test.conll")
    lines = run("predict", models / "conll.model", models / "test.conll").stdout.splitlines()
    cells = [line.split("\t") for line in lines if line]
    assert [row[:3] for row in cells] == [row for sequence in file.sequences for row in sequence.rows]
    assert [row[3] for row in cells] == np.concatenate(labels).tolist()
    assert lines.count("") == 6


def test_the_probability_of_each_label(models):
    crf, file, labels = predictions(models, "conll", "test.conll")
    output = run("predict", models / "conll.model", models / "test.conll", "--confidence", "-q").stdout
    shown = [float(line.split("\t")[4]) for line in output.splitlines() if line]
    tables = crf.predict_marginals(file.X)
    classes = crf.classes_.tolist()
    expected = [
        row[classes.index(label)]
        for table, sequence in zip(tables, labels, strict=True)
        for row, label in zip(table, sequence, strict=True)
    ]
    np.testing.assert_allclose(shown, expected, atol=1e-6)


def test_the_best_labellings_with_their_probabilities(models):
    crf, file, _ = predictions(models, "conll", "test.conll")
    lines = run("predict", models / "conll.model", models / "test.conll", "--nbest", "3", "-q").stdout.splitlines()
    ranked = crf.predict_nbest(file.X, 3)
    heads = [line.split() for line in lines if line.startswith("#")]
    assert [int(head[1]) for head in heads] == [0, 1, 2] * 6
    expected = [np.exp(logarithm) for best in ranked for _, logarithm in best]
    np.testing.assert_allclose([float(head[2]) for head in heads], expected, atol=1e-6)
    assert [line.split("\t")[3] for line in lines[1:6]] == ranked[0][0][0].tolist()


def test_lines_of_json(models):
    crf, file, labels = predictions(models, "conll", "test.conll")
    arguments = ["predict", models / "conll.model", models / "test.conll", "--json", "-q"]
    assert [json.loads(line)["labels"] for line in run(*arguments).stdout.splitlines()] == labels
    first = json.loads(run(*arguments, "--marginals").stdout.splitlines()[0])
    assert list(first["marginals"][0]) == crf.classes_.tolist()
    np.testing.assert_allclose(list(first["marginals"][0].values()), crf.predict_marginals(file.X)[0][0])
    best = json.loads(run(*arguments, "--nbest", "2").stdout.splitlines()[0])["nbest"]
    expected = crf.predict_nbest(file.X, 2)[0]
    assert [each["labels"] for each in best] == [each.tolist() for each, _ in expected]
    assert [each["log_probability"] for each in best] == [logarithm for _, logarithm in expected]


@pytest.mark.slow
def test_pipes_in_another_process(models):
    text = (models / "test.conll").read_bytes()
    command = [sys.executable, "-m", "kernelfields.cli", "predict", str(models / "conll.model"), "-", "-q"]
    result = subprocess.run(command, input=text, capture_output=True, check=True)
    assert result.stderr == b""
    assert result.stdout.decode() == run("predict", models / "conll.model", models / "test.conll", "-q").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["absent.model", "test.conll"], "absent.model does not exist"),
        (["train.conll", "test.conll"], "is not a kernelfields model file"),
        (["plain.model", "test.conll"], "has no notes on how its files are read"),
        (["conll.model", "absent.conll"], "No such file or directory"),
        (["conll.model", "wide.conll"], "wide.conll"),
        (["conll.model", "test.conll", "--nbest", "2", "--marginals"], "--nbest writes whole labellings"),
        (["csv.model", "test.csv", "--nbest", "2"], "--nbest writes column files or, with --json, documents"),
        (["conll.model", "test.conll", "-o", "absent/out"], "there is no folder"),
    ],
)
def test_what_cannot_be_labelled_is_named(models, monkeypatch, arguments, message):
    monkeypatch.chdir(models)
    (models / "wide.conll").write_text("a\tb\tc\td\te\n")
    ChainCRF.load("csv.model").save("plain.model")
    result = run("predict", *arguments, code=2)
    assert message in result.stderr
    assert result.stderr.startswith("error: ")
    assert result.stdout == ""


def test_a_pipeline_of_python_labels_files_of_words(models, tmp_path):
    file = read_sequences(models / "train.conll")
    pipeline = make_pipeline(TextFeatures(), ChainCRF("linear", prior_variance=1.0)).fit(file.X, file.y)
    save(pipeline, tmp_path / "words.kfm")
    expected = [label for labels in pipeline.predict(read_sequences(models / "test.conll").X) for label in labels]
    for name, column in (("test.conll", 3), ("bare.conll", 2)):
        lines = run("predict", tmp_path / "words.kfm", models / name, "-q").stdout.splitlines()
        assert [line.split("\t")[column] for line in lines if line] == expected
    assert "sequence accuracy" in run("evaluate", tmp_path / "words.kfm", models / "test.conll", "-q").stdout


def test_pipelines_that_the_command_cannot_use_are_named(models, tmp_path):
    file = read_sequences(models / "train.conll")
    named = make_pipeline(TextFeatures(word_column="0", tag_columns=["1"]), ChainCRF("linear", prior_variance=1.0))
    save(named.fit(file.X, file.y), tmp_path / "named.kfm")
    failed = run("predict", tmp_path / "named.kfm", models / "test.conll", code=2).stderr
    assert "it names its columns '0', '1', and columns of files have numbers" in failed
    twice = make_pipeline(SequenceUnion([("words", TextFeatures())]), ChainCRF("linear", prior_variance=1.0))
    save(twice.fit(file.X, file.y), tmp_path / "union.kfm")
    failed = run("predict", tmp_path / "union.kfm", models / "test.conll", code=2).stderr
    assert "has features that the command cannot use: it takes TextFeatures and a ChainCRF or SegmentCRF" in failed


def test_running_text_is_cut_into_words(models, tmp_path):
    text = tmp_path / "new.txt"
    text.write_text("the cat sees a dog.\n\nthis tree\n")
    write_columns_file(tmp_path / "words.conll", columns=(0, 2))
    run("train", tmp_path / "words.conll", "-m", tmp_path / "words.model", "-q")
    labelled = run("predict", tmp_path / "words.model", text, "--text", "-q").stdout
    words = [line.split("\t")[0] for line in labelled.splitlines()]
    assert words == ["the", "cat", "sees", "a", "dog", ".", "", "this", "tree", ""]
    column = tmp_path / "column.conll"
    column.write_text("\n".join(words) + "\n")
    assert run("predict", tmp_path / "words.model", column, "-q").stdout == labelled
    first, second = run("predict", tmp_path / "words.model", text, "--text", "--entities", "-q").stdout.splitlines()
    found = json.loads(first)["entities"]
    assert [word for each in found for word in each["words"]] == words[:6]
    assert all(len(each["words"]) == each["end"] - each["begin"] for each in [*found, *found[0]["alternatives"]])
    assert json.loads(second)["entities"][0]["words"][0] == "this"
    for each in [*found, *found[0]["alternatives"]]:
        assert "the cat sees a dog."[each["start_char"] : each["end_char"]] == each["text"]
    assert found[-1]["end_char"] == len("the cat sees a dog.")


def test_text_that_a_model_cannot_read_is_named(models, tmp_path):
    (tmp_path / "new.txt").write_text("the cat\n")
    (tmp_path / "blank.txt").write_text("\n")
    for model, name, message in (
        ("conll.model", "new.txt", "has 1 column, and the training file had 3"),
        ("conll.model", "blank.txt", "holds no words"),
        (
            "csv.model",
            "new.txt",
            "--text is for models of words in column files, and this one reads files of format csv",
        ),
    ):
        assert message in run("predict", models / model, tmp_path / name, "--text", code=2).stderr
    assert "--text has no labels" in run("predict", models / "conll.model", "-", "--text", "--known", code=2).stderr


def test_tabs_stay_tabs(tmp_path):
    spaced = tmp_path / "train.tsv"
    spaced.write_text(write_columns_file(tmp_path / "tabs.tsv").read_text().replace("\t", " "))
    run("train", spaced, "--separator", "space", "-m", tmp_path / "words.model", "-q")
    for name, separator in (("tabs.tsv", "\t"), ("train.tsv", " ")):
        output = run("predict", tmp_path / "words.model", tmp_path / name, "-q").stdout
        assert {line.count(separator) for line in output.splitlines() if line} == {3}


def test_a_file_with_fewer_columns_is_named_with_its_columns(models, tmp_path):
    (tmp_path / "words.conll").write_text("the\ncat\n\n")
    said = run("predict", models / "conll.model", tmp_path / "words.conll", code=2).stderr
    assert said == (
        f"error: {tmp_path / 'words.conll'} has 1 column, and the training file had 3: the features of the model are "
        "made of columns 0, 1 (from 0) For running text, a sentence on each line: --text\n"
    )
