"""kernelfields train: from a file to a model that can be used, and to settings that repeat the run."""

import json
import os
import tomllib

import numpy as np
import pytest
from command_files import run, sentences, write_columns_file, write_csv_file

from kernelfields import ChainCRF
from kernelfields.cli.models import load_model
from kernelfields.cli.settings import read_settings
from kernelfields.kernels import RBF, Linear


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder to stand in, with a training file of each format."""
    monkeypatch.chdir(tmp_path)
    write_columns_file(tmp_path / "train.conll")
    write_columns_file(tmp_path / "dev.conll", sentences(8, seed=1))
    write_csv_file(tmp_path / "train.csv")
    return tmp_path


def same_coefficients(one, other):
    for first, second in zip(ChainCRF.load(one).field_.terms, ChainCRF.load(other).field_.terms, strict=True):
        np.testing.assert_array_equal(first.coefficients, second.coefficients)


def test_a_file_becomes_a_model_and_settings(folder):
    result = run("train", "train.conll", "-m", "tags.safetensors")
    assert result.stdout == ""
    assert "train.conll: 20 sequences, 100 words, 3 labels" in result.stderr
    assert "no --template: text features of words in column 0 and tags in column 1, 47 template lines" in result.stderr
    assert "--template FILE replaces them" in result.stderr
    assert "wrote tags.safetensors, tags.toml" in result.stderr
    crf = ChainCRF.load("tags.safetensors")
    assert crf.classes_.tolist() == ["DET", "NOUN", "VERB"]
    assert crf.solution_.converged
    settings = tomllib.loads((folder / "tags.toml").read_text())
    assert settings["data"]["train"] == "train.conll"
    assert settings["field"]["kernel"] == "linear"


@pytest.mark.parametrize(
    "arguments",
    [
        ["train.conll", "--support", "observed", "--prior-variance", "1", "--l1", "0.1"],
        ["train.conll", "--kernel", "linear+rbf", "--gamma", "0.3", "--rank", "12", "--prior-variance", "1,0.1"],
        ["train.csv", "--sequence-column", "day", "--window", "2,0", "--rank", "20", "--standardize", "--seed", "3"],
        ["train.csv", "--sequence-column", "day", "--kernel", "poly", "--degree", "2", "--rank", "9"],
        ["train.conll", "--dev", "dev.conll", "--prior-variance", "100"],
    ],
)
def test_the_settings_repeat_the_run_exactly(folder, arguments):
    run("train", *arguments, "-m", "first.safetensors", "-q")
    run("train", "--config", "first.toml", "-m", "second.safetensors", "-q")
    same_coefficients("first.safetensors", "second.safetensors")
    (folder / "second.toml").write_text((folder / "second.toml").read_text().replace("second", "third"))
    run("train", "-c", "second.toml", "-q")
    same_coefficients("first.safetensors", "third.safetensors")


def test_options_win_over_the_settings(folder):
    run("train", "train.conll", "-m", "first.safetensors", "-q")
    run("train", "--config", "first.toml", "--prior-variance", "0.1", "-m", "second.safetensors", "-q")
    second = load_model("second.safetensors")
    assert second.settings.prior_variance == 0.1
    assert second.crf.prior_variance == 0.1
    assert load_model("first.safetensors").crf.prior_variance == "auto"
    assert (
        load_model("first.safetensors").settings.prior_variance == load_model("first.safetensors").crf.prior_variance_
    )


def test_a_file_that_has_changed_since_the_settings_were_written_is_named(folder):
    run("train", "train.conll", "-q")
    write_columns_file(folder / "train.conll", sentences(21))
    result = run("train", "--config", "model.toml", "-q")
    assert result.stderr == "warning: train.conll has changed since model.toml was written\n"


def test_options_become_parameters(folder):
    run(
        "train", "train.csv", "--sequence-column", "day", "-q", "-k", "rbf", "--gamma", "0.1", "--window", "3",
        "--rank", "7",
        "--basis", "uniform",
        "--prior-variance", "2", "--edge-prior-variance", "3", "--edge-kernel", "linear", "--solver", "newton-cg",
        "--tol", "0.01", "--max-iter", "50", "--seed", "5", "--dtype", "float64", "-j", "1",
    )  # fmt: skip
    crf = ChainCRF.load("model.safetensors")
    assert crf.kernel == RBF(0.1)
    assert crf.edges.kernel == Linear()
    assert (crf.window, crf.rank, crf.basis_["node"].rank) == (3, 7, 7)
    assert (crf.prior_variance, crf.edges.prior_variance) == (2.0, 3.0)
    assert (crf.solver, crf.tol, crf.max_iter, crf.random_state) == ("newton-cg", 0.01, 50, 5)
    # Files of the same fit are the same, however many threads made them.
    assert (crf.dtype, crf.n_jobs, crf.verbose, crf.warm_start) == ("float64", None, "auto", False)


def test_constraints_and_templates(folder):
    (folder / "t").write_text("U00:%x[0,0]\nU01:%x[-1,0]/%x[0,0]\n")
    run("train", "train.conll", "-t", "t", "-q")
    assert [each.name for each in ChainCRF.load("model.safetensors").field_.terms] == ["node"]
    text = "".join(f"w{i % 5}\t{label}\n" for i, label in enumerate(["B-X", "I-X", "O", "O", "B-X", "O"] * 4))
    (folder / "bio.conll").write_text(text)
    run("train", "bio.conll", "--constraints", "bio", "-q")
    crf = ChainCRF.load("model.safetensors")
    assert np.isneginf(crf.field_.spec.masks.edge[crf.classes_.tolist().index("O"), 1])


def test_labels_are_allowed_by_a_feature(folder):
    run("train", "train.conll", "--allowed-by", "word=", "--allowed-min-count", 1, "-q")
    crf = ChainCRF.load("model.safetensors")
    assert crf.classes_[crf.allowed_.labels_of("word=the")].tolist() == ["DET"]
    assert len(crf.allowed_.labels_of("word=unheard")) == 3
    settings, _ = read_settings("model.toml")
    assert (settings.allowed_by, settings.allowed_min_count) == ("word=", 1)
    run("train", "train.csv", "--sequence-column", "day", "--allowed-by", "0", "-q")
    assert ChainCRF.load("model.safetensors").allowed_.feature == 0
    for options, message in (
        (("--allowed-by", "form="), "no position has the feature 'form='"),
        (("--allowed-min-count", 2), "--allowed-min-count is for --allowed-by"),
        (("--allowed-by", "word=", "--allowed-min-count", 0), "--allowed-min-count must be at least 1"),
    ):
        assert message in run("train", "train.conll", *options, "-q", code=2).stderr


def test_the_result_as_json(folder):
    document = json.loads(run("train", "train.conll", "-q", "--json", "--dev", "dev.conll").stdout)
    crf = ChainCRF.load(document["model"])
    assert document["objective"] == crf.solution_.value
    assert document["labels"] == ["DET", "NOUN", "VERB"]
    assert (document["n_sequences"], document["n_positions"]) == (20, 100)
    assert 0.5 < document["dev_accuracy"] <= 1.0
    assert document["reason"] in ("gap", "early")


def test_quiet_says_nothing_and_verbose_every_iteration(folder):
    assert run("train", "train.conll", "-q").output == ""
    loud = run("train", "train.conll", "-v", "--tol", "1e-6").stderr
    iterations = ChainCRF.load("model.safetensors").solution_.iterations
    assert sum(line.startswith("iteration") for line in loud.splitlines()) == iterations + 1
    assert ":suffix3=%suffix3[0,0]" in loud
    assert "--quiet and --verbose cannot go together" in run("train", "train.conll", "-q", "-v", code=2).stderr


def test_steps_are_counted_and_the_end_has_a_held_out_score_the_labels_and_the_next_command(folder):
    said = run("train", "train.conll", "--dev", "dev.conll", "-m", "my tags.safetensors").stderr.splitlines()
    crf, file = ChainCRF.load("my tags.safetensors"), load_model("my tags.safetensors").read("dev.conll")
    assert [line for line in said if line.startswith("[")] == ["[1/2] fitting", "[2/2] writing"]
    assert not any("lower bound" in line for line in said)
    assert said[-5:] == [
        f"dev.conll: accuracy {crf.score(file.X, file.y):.4f}",
        "3 labels: DET, NOUN, VERB",
        "wrote my tags.safetensors, my tags.toml",
        "next: kernelfields evaluate 'my tags.safetensors' TEST_FILE",
        "      kernelfields predict 'my tags.safetensors' FILE",
    ]
    write_columns_file(folder / "more.conll", sentences(80))
    result = run("train", "more.conll", "--json")
    steps = [line for line in result.stderr.splitlines() if line.startswith("[")]
    assert steps == ["[1/3] choosing settings", "[2/3] fitting", "[3/3] writing"]
    choices = ChainCRF.load("model.safetensors").choices_
    best = min((t for t in choices.trials if t.log_loss is not None), key=lambda trial: trial.log_loss)
    assert json.loads(result.stdout)["held_out_accuracy"] == best.accuracy
    assert f"accuracy {best.accuracy:.4f}" in result.stderr


def test_a_fit_that_ends_short_of_its_tolerance_writes_its_model_and_says_so(folder):
    result = run("train", "train.conll", "--tol", "1e-9", "--max-iter", "2", "-q", code=1)
    assert result.stderr.startswith("warning: solver")
    assert "raise max_iter or tol" in result.stderr
    assert ChainCRF.load("model.safetensors").solution_.iterations == 2


def test_uneven_columns_get_a_hint(folder):
    numbers = ["train", "train.csv", "--sequence-column", "day", "--kernel", "rbf", "--gamma", "0.5"]
    assert "--standardize brings them to one scale" in run(*numbers).stderr
    assert "--standardize" not in run(*numbers, "--standardize").stderr


def test_what_was_chosen_is_said_and_kept(folder):
    said = run("train", "train.csv", "--sequence-column", "day").stderr
    settings = load_model("model.safetensors").settings
    chosen = f"kernel {settings.kernel}, scale {settings.standardize}, prior variance {settings.prior_variance:g}"
    assert f"chosen: {chosen}" in said
    again = run("train", "--config", "model.toml", "-m", "again.safetensors").stderr
    assert "chosen:" not in again


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "which file?"),
        (["absent.conll"], "absent.conll: No such file or directory"),
        (["train.conll", "--engine", "gpu"], "engine must be one of"),
        (["train.conll", "--prior-variance", "much"], "--prior-variance takes numbers"),
        (["train.conll", "--window", "wide"], "window must be 'auto', 'statistics', an odd number"),
        (["train.conll", "--window", "2"], "window"),
        (["train.conll", "--gamma", "1"], "--gamma has no meaning for --kernel linear"),
        (["train.conll", "--solver", "magic"], "solver must be 'auto' or one of"),
        (["train.conll", "--tol", "0"], "tol must be a positive relative gap"),
        (["train.conll", "--constraints", "iob9"], "iob9"),
        (["train.conll", "-m", "-"], "a model is written to a file"),
        (["train.conll", "-m", "a.toml"], "use .safetensors"),
        (["train.conll", "-m", "absent/m"], "there is no folder"),
        (["train.conll", "-m", "."], "it is a folder"),
        (["train.conll", "--report", "absent/r.html"], "there is no folder"),
        (["--config", "absent.toml"], "absent.toml: No such file or directory"),
        (["empty.conll"], "empty.conll"),
        (["ragged.conll"], "ragged.conll, line 2"),
        (["latin.conll"], "latin.conll, line 1"),
        (
            ["train.conll", "--dev", "other.conll"],
            "line 2, column 2 (from 0): the label NEW was never seen in training",
        ),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2_and_nothing_is_written(folder, arguments, message):
    (folder / "empty.conll").write_text("")
    (folder / "ragged.conll").write_text("a\tb\tX\nc\tY\n")
    (folder / "latin.conll").write_bytes(b"caf\xe9\tb\tX\n")
    (folder / "other.conll").write_text("the\t3\tDET\ncat\t3\tNEW\n")
    before = sorted(os.listdir(folder))
    result = run("train", *arguments, "-q", code=2)
    assert message in result.stderr
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert sorted(os.listdir(folder)) == before


def test_verbose_shows_where_an_error_came_from(folder):
    assert "Traceback" in run("train", "train.conll", "--tol", "0", "-v", code=2).stderr


def test_labels_that_break_their_scheme_are_mended_unless_they_must_not(tmp_path):
    rows = [[("we", "O"), ("saw", "O"), ("Rome", "I-city")], [("Lima", "B-city"), ("was", "O"), ("far", "O")]] * 5
    lines = ["".join("\t".join(row) + "\n" for row in sentence) for sentence in rows]
    (tmp_path / "names.conll").write_text("\n".join(lines))
    arguments = ("train", tmp_path / "names.conll", "-m", tmp_path / "m.model", "--prior-variance", 1)
    said = run(*arguments, "--constraints", "bio").stderr
    assert "warning: 5 labels of y break the scheme 'bio' and are mended, the first at sequence 0, position 2" in said
    assert load_model(tmp_path / "m.model").crf.classes_.tolist() == ["B-city", "O"]
    refused = run(*arguments, "--constraints", "bio", "--strict-labels", code=2).stderr
    assert "label 'I-city' is forbidden after 'O' by the scheme 'bio'" in refused
    assert "--strict-labels is for --constraints" in run(*arguments, "--strict-labels", code=2).stderr
