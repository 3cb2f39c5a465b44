"""kernelfields evaluate and certify: the figures of the library, from files."""

import json
from dataclasses import replace

import pytest
from command_files import run, sentences, write_columns_file, write_csv_file

from kernelfields import ChainCRF
from kernelfields.cli.models import load_model
from kernelfields.evaluation import compare, evaluate

WORDS = ("sequence", "word")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    write_columns_file(folder / "train.conll")
    write_columns_file(folder / "test.conll", sentences(8, seed=1))
    write_csv_file(folder / "train.csv")
    (folder / "new.conll").write_text("the\t3\tDET\ncat\t3\tNEW\n")
    run("train", folder / "train.conll", "-m", folder / "one.model", "-q")
    run("train", folder / "train.conll", "-m", folder / "two.model", "--columns", "1", "--tol", "1e-6", "-q")
    run("train", folder / "train.csv", "--sequence-column", "day", "-m", folder / "rbf.model", "--rank", "8", "-q")
    return folder


def read(models, name="one.model", file="test.conll"):
    trained = load_model(models / name)
    return trained.crf, trained.read(str(models / file))


def test_every_figure_is_that_of_the_library(models):
    crf, file = read(models)
    expected = replace(evaluate(crf, file.X, file.y, n_resamples=200, random_state=0), nouns=WORDS)
    arguments = ["evaluate", models / "one.model", models / "test.conll", "--resamples", "200"]
    assert run(*arguments).stdout == f"{expected}\n"
    assert json.loads(run(*arguments, "--json").stdout) == json.loads(json.dumps(expected.to_dict()))


def test_figures_of_the_training_file_are_named_as_such(models):
    told = run("evaluate", models / "one.model", models / "train.conll", "--resamples", "0").stderr
    assert "one.model was trained on this very file: of new sequences its figures are lower" in told
    assert "very file" not in run("evaluate", models / "one.model", models / "test.conll", "--resamples", "0").stderr


def test_a_loss_that_rounds_to_zero_has_no_sign():
    shown = str(evaluate([["a", "b"]], [["a", "b"]], log_likelihood=[-1e-9], n_resamples=0))
    assert "0.0000" in shown
    assert "-0.0000" not in shown


def test_two_models_are_compared_each_with_its_own_features(models):
    one, file = read(models)
    two, other = read(models, "two.model")
    assert file.X != other.X
    expected = compare(
        file.y, one.predict(file.X), two.predict(other.X), scheme="auto", n_resamples=200, random_state=0
    )
    arguments = ["evaluate", models / "one.model", models / "test.conll", "--against", models / "two.model"]
    result = run(*arguments, "--resamples", "200", "--json")
    assert json.loads(result.stdout) == json.loads(json.dumps(replace(expected, nouns=WORDS).to_dict()))


def test_of_two_models_the_one_that_does_not_fit_is_named(models, tmp_path):
    write_columns_file(tmp_path / "words.conll", columns=(0, 2))
    run("train", tmp_path / "words.conll", "-m", tmp_path / "narrow.model", "-q")
    one, narrow = models / "one.model", tmp_path / "narrow.model"
    for first, second in ((one, narrow), (narrow, one)):
        result = run("evaluate", first, models / "test.conll", "--against", second, code=2)
        assert f"error: the model {narrow} does not fit: " in result.stderr
        assert "test.conll has 3 columns, expected 2 as in the training file" in result.stderr


def test_a_label_never_seen_in_training_is_an_error_and_named(models):
    assert (
        "labels that the fit never saw, counted as errors: 'NEW' (1)"
        in run("evaluate", models / "one.model", models / "new.conll").stdout
    )
    document = json.loads(run("evaluate", models / "one.model", models / "new.conll", "--json").stdout)
    crf, file = read(models, file="new.conll")
    assert document["accuracy"]["value"] == crf.score(file.X, file.y) <= 0.5
    assert document["unseen"] == [{"label": "NEW", "count": 1}]
    assert document["log_likelihood"]["n_impossible"] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["one.model", "test.conll", "--decode", "best"], "--decode must be viterbi or posterior, got 'best'"),
        (["one.model", "bare.conll"], "bare.conll"),
        (["one.model", "test.conll", "--scheme", "iob9"], "iob9"),
        (["one.model", "test.conll", "--confidence", "2"], "confidence"),
        (["one.model", "empty.conll"], "empty.conll holds no sequences"),
    ],
)
def test_what_cannot_be_evaluated_is_named(models, monkeypatch, arguments, message):
    monkeypatch.chdir(models)
    (models / "empty.conll").write_text("")
    write_columns_file(models / "bare.conll", columns=(0, 1))
    assert message in run("evaluate", *arguments, code=2).stderr


@pytest.mark.parametrize("scope", ["span", "rkhs"])
def test_certificates_are_those_of_the_library(models, scope):
    crf, file = read(models, "rbf.model", "train.csv")
    data = models / "train.csv"
    document = json.loads(run("certify", models / "rbf.model", data, "--scope", scope, "--json").stdout)
    expected = crf.certify(file.X, file.y, scope=scope)
    assert document["now"]["value"] == expected.value
    assert document["now"]["lower_bound"] == expected.lower_bound
    assert document["fit"]["value"] == crf.certificate_.value
    assert document["accepted"] is True


def test_a_gap_above_the_limit_is_exit_code_1(models):
    arguments = ["certify", models / "one.model", models / "train.conll", "--limit"]
    assert "above the limit of 1e-12" in run(*arguments, "1e-12", code=1).stdout
    assert "within the limit of 0.1" in run(*arguments, "0.1").stdout


def test_another_file_than_that_of_the_training_is_noticed(models):
    result = run("certify", models / "one.model", models / "test.conll")
    assert "is not the file that" in result.stderr
    value = ChainCRF.load(models / "one.model").solution_.value
    assert f"value {value:.6g}" not in result.stdout.splitlines()[0]


def test_certify_names_what_is_wrong(models):
    arguments = ["certify", models / "one.model", models / "train.conll"]
    assert "scope must be 'rkhs' or 'span'" in run(*arguments, "--scope", "all", code=2).stderr
    for limit in ("-1", "nan"):
        assert "--limit must be a relative gap of at least 0" in run(*arguments, "--limit", limit, code=2).stderr
    result = run("certify", models / "one.model", models / "new.conll", code=2)
    assert "new.conll, line 2, column 2 (from 0): the label NEW was never seen in training" in result.stderr
