"""kernelfields check and rank: the tables of the library, from files."""

import json

import pytest
from command_files import run, sentences, write_columns_file

from kernelfields import find_label_errors, rank_for_labelling
from kernelfields.cli.models import load_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("labelling")
    rows = sentences(24)
    word, length, tag = rows[3][1]
    rows[3][1] = (word, length, "VERB" if tag != "VERB" else "DET")
    write_columns_file(folder / "wrong.conll", rows)
    write_columns_file(folder / "new.conll", sentences(9, seed=1))
    run("train", folder / "wrong.conll", "-m", folder / "tags.model", "--prior-variance", "1", "-q")
    return folder


def test_check_lists_the_wrong_label(folder):
    document = json.loads(
        run("check", folder / "wrong.conll", "--prior-variance", "1", "--folds", "3", "--json", "-q").stdout
    )
    first = document["findings"][0]
    assert (first["sequence"], first["position"]) == (3, 1)
    assert first["place"] == "line 20"
    assert document["n_known"] == 24 * 5


def test_check_takes_the_settings_of_a_model(folder):
    arguments = ["check", folder / "wrong.conll", "-m", folder / "tags.model", "--folds", "3", "--top", "2"]
    text = run(*arguments).stdout
    assert "(line 20)" in text
    trained = load_model(folder / "tags.model")
    read = trained.read(folder / "wrong.conll")
    expected = find_label_errors(trained.crf, read.X, read.y, cv=3, top=2)
    found = json.loads(run(*arguments, "--json", "-q").stdout)["findings"]
    assert [row["score"] for row in found] == pytest.approx([row.score for row in expected.rows], rel=1e-2)
    refused = run(*arguments, "--kernel", "rbf", code=2).stderr
    assert "leave out --kernel" in refused


def test_check_by_a_model_that_was_trained_elsewhere(folder, tmp_path):
    rows = sentences(9, seed=1)
    word, length, tag = rows[2][3]
    rows[2][3] = (word, length, "VERB" if tag != "VERB" else "DET")
    write_columns_file(tmp_path / "wrong.conll", rows)
    found = json.loads(
        run("check", tmp_path / "wrong.conll", "-m", folder / "tags.model", "--by-model", "--json", "-q").stdout
    )
    assert (found["findings"][0]["sequence"], found["findings"][0]["position"]) == (2, 3)
    own = run("check", folder / "wrong.conll", "-m", folder / "tags.model", "--by-model", code=2).stderr
    assert "100% of these items were in the fit" in own
    assert "--by-model needs the model" in run("check", folder / "wrong.conll", "--by-model", code=2).stderr


def test_rank_is_that_of_the_library(folder):
    trained = load_model(folder / "tags.model")
    read = trained.read(folder / "new.conll")
    expected = rank_for_labelling(trained.crf, read.X, tokens=read.words)
    assert run("rank", folder / "tags.model", folder / "new.conll").stdout == f"{expected}\n"
    batch = rank_for_labelling(trained.crf, read.X, batch=3, positions=True)
    document = json.loads(
        run("rank", folder / "tags.model", folder / "new.conll", "--batch", "3", "--positions", "--json").stdout
    )
    assert [(row["sequence"], row["position"]) for row in document["order"]] == batch.order


def test_rank_of_what_is_unknown(folder, tmp_path):
    rows = [
        [(word, length, "?" if t == 2 else tag) for t, (word, length, tag) in enumerate(own)] for own in sentences(4)
    ]
    path = write_columns_file(tmp_path / "half.conll", rows)
    document = json.loads(run("rank", folder / "tags.model", path, "--known", "--positions", "--json").stdout)
    assert {row["position"] for row in document["order"]} == {2}
    assert "are for --known" in run("rank", folder / "tags.model", path, "--label-sets", "|", code=2).stderr
