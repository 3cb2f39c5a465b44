"""Files whose labels are partly known: training on them, filling them in, counting what is known."""

import json

import numpy as np
import pytest
from command_files import run, sentences, write_columns_file

from kernelfields.cli.models import load_model


def blanked(rows, mark="?", every=3):
    """The same sentences with each third label unknown."""
    return [
        [(word, length, mark if (i + t) % every == 0 else tag) for t, (word, length, tag) in enumerate(sentence)]
        for i, sentence in enumerate(rows)
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("partial")
    write_columns_file(place / "full.conll")
    write_columns_file(place / "train.conll", blanked(sentences()))
    write_columns_file(place / "half.conll", blanked(sentences(6, seed=1), every=2))
    write_columns_file(place / "test.conll", sentences(6, seed=1))
    run("train", place / "full.conll", "-m", place / "full.model", "-q")
    run("train", place / "train.conll", "-m", place / "partial.model", "-q")
    return place


def test_what_the_page_writes_is_no_label_in_train_check_evaluate_and_predict(folder, tmp_path):
    for name, mark in (("empty", ""), ("marked", "?")):
        write_columns_file(tmp_path / f"{name}.conll", blanked(sentences(), mark))
        said = [
            run("train", tmp_path / f"{name}.conll", "-m", tmp_path / f"{name}.model").stderr,
            run("check", tmp_path / f"{name}.conll", "--folds", 2).stderr,
            run("check", tmp_path / f"{name}.conll", "-m", folder / "full.model", "--folds", 2).stderr,
            run("evaluate", tmp_path / f"{name}.model", tmp_path / f"{name}.conll", "--resamples", 0).stderr,
        ]
        line = f"{name}.conll: 20 sequences, 100 words, 3 labels (DET, NOUN, VERB), 33 words not labelled"
        assert all(each.splitlines()[0].endswith(line) for each in said)
        assert load_model(tmp_path / f"{name}.model").crf.classes_.tolist() == ["DET", "NOUN", "VERB"]
    predicted = run("predict", tmp_path / "marked.model", tmp_path / "marked.conll", "-q").stdout
    assert {row[3] for row in cells(predicted)} <= {"DET", "NOUN", "VERB"}
    written, empty = (
        np.fromiter(load_model(tmp_path / f"{n}.model").crf.coef_["node"].ravel(), float) for n in ("marked", "empty")
    )
    np.testing.assert_array_equal(written, empty)


def cells(text):
    return [line.split("\t") for line in text.splitlines() if line]


@pytest.mark.parametrize("model", ["full.model", "partial.model"])
def test_what_is_known_is_kept_and_the_rest_filled_in(folder, model):
    result = run("predict", folder / model, folder / "half.conll", "--known", "--confidence", "-v")
    rows = cells(result.stdout)
    assert all(row[3] == row[2] and row[4] == "1.000000" for row in rows if row[2] != "?")
    assert all(row[3] in ("DET", "NOUN", "VERB") for row in rows)
    assert "filled in 15 labels of 30" in result.stderr
    trained = load_model(folder / model)
    file = trained.read(str(folder / "half.conll"), unknown_label="?")
    assert [row[3] for row in rows] == np.concatenate(trained.crf.predict(file.X, known=file.y)).tolist()


def test_evaluation_counts_what_is_known(folder):
    rows = cells(run("predict", folder / "full.model", folder / "half.conll", "-q").stdout)
    known = [row for row in rows if row[2] != "?"]
    share = np.mean([row[2] == row[3] for row in known])
    options = ("--unknown-label", "?", "--resamples", 0, "--json", "-q")
    found = json.loads(run("evaluate", folder / "full.model", folder / "half.conll", *options).stdout)
    assert found["n_tokens"] == len(known) == 15
    assert found["accuracy"]["value"] == pytest.approx(share)
    assert found["log_likelihood"]["per_token"]["value"] < 0
    other = run(
        "evaluate", folder / "full.model", folder / "half.conll", "--against", folder / "partial.model", *options
    )
    assert json.loads(other.stdout)["n_tokens"] == 15


def test_what_cannot_be_read_is_said(folder, tmp_path):
    said = run("predict", folder / "full.model", folder / "half.conll", "--unknown-label", "?", code=2).stderr
    assert "are for --known" in said
    said = run(
        "predict", folder / "full.model", folder / "half.conll", "--known", "--unknown-label", "-", code=2
    ).stderr
    assert "half.conll, line 1, column 2" in said
    assert "the label ? was never seen in training" in said
    said = run("train", folder / "train.conll", "--unknown-label", "", "-m", tmp_path / "m.model", code=2).stderr
    assert "--unknown-label must be a text that is not empty" in said
    said = run("train", folder / "train.conll", "--unknown-label", "a|b", "--label-sets", "|", code=2).stderr
    assert "cannot be distinguished" in said
    write_columns_file(tmp_path / "bare.conll", sentences(2), columns=(0, 1))
    said = run("predict", folder / "full.model", tmp_path / "bare.conll", "--known", code=2).stderr
    assert "the labels, column 2 (from 0), are missing" in said
    options = ("--unknown-label", "?", "--scheme", "bio")
    said = run("evaluate", folder / "full.model", folder / "half.conll", *options, code=2).stderr
    assert "entities are counted where every label is known" in said
    write_columns_file(tmp_path / "open.conll", [[("the", "3", "DET|")]])
    said = run("predict", folder / "full.model", tmp_path / "open.conll", "--known", "--label-sets", "|", code=2).stderr
    assert "names one that is empty or unknown" in said
