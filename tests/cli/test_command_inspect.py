"""kernelfields inspect, and the reports of train and evaluate: for a screen, for machines, for a browser."""

import json
from html.parser import HTMLParser

import pytest
from command_files import run, sentences, write_columns_file, write_csv_file

from kernelfields.cli.models import load_model


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    write_columns_file(folder / "train.conll")
    write_columns_file(folder / "test.conll", sentences(8, seed=1))
    write_csv_file(folder / "train.csv")
    run("train", folder / "train.conll", "-m", folder / "words.model", "--report", folder / "train.html", "-q")
    run("train", folder / "train.csv", "--sequence-column", "day", "-m", folder / "rbf.model", "--rank", "8", "-q")
    return folder


class Words(HTMLParser):
    """The words of a page, and its tags."""

    def __init__(self, path):
        super().__init__()
        self.text, self.tags = "", []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_data(self, data):
        self.text += data + " "

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)


def test_a_model_fits_a_screen_unless_more_is_asked_for(models):
    for name in ("words.model", "rbf.model"):
        lines = run("inspect", models / name).stdout.splitlines()
        assert len(lines) <= 24
        assert max(map(len, lines)) <= 80
    text = run("inspect", models / "words.model").stdout
    assert text.startswith("ChainCRF: 3 labels")
    assert "within" in text
    assert "transitions: " in text
    assert all(any(line.startswith(f"{label} ") for line in text.splitlines()) for label in ("DET", "NOUN", "VERB"))
    crf = load_model(models / "words.model").crf
    full = run("inspect", models / "words.model", "--top", "4").stdout
    assert full == f"{crf.summary()}\n\n{crf.weights(top=4)}\n"
    document = json.loads(run("inspect", models / "words.model", "--json").stdout)
    assert document["weights"] == json.loads(json.dumps(crf.weights(top=10).to_dict()))


def test_labels_and_features_are_chosen(models):
    crf = load_model(models / "words.model").crf
    text = run("inspect", models / "words.model", "--label", "NOUN", "--features", "^word").stdout
    assert str(crf.weights(top=10, labels=["NOUN"], feature_re="^word")) in text
    assert "word=cat" in text
    assert "suffix" not in text


def test_why_a_sequence_is_labelled_as_it_is(models):
    trained = load_model(models / "words.model")
    file = trained.read(str(models / "test.conll"))
    words = [row[0] for row in file.sequences[2].rows]
    expected = trained.crf.explain(file.X[2], top=4, tokens=words)
    arguments = [
        "inspect",
        models / "words.model",
        "--explain",
        models / "test.conll",
        "--sequence",
        "2",
        "--top",
        "4",
    ]
    assert run(*arguments).stdout == f"{expected}\n"
    document = json.loads(run(*arguments, "--json").stdout)
    assert document["explanation"] == json.loads(json.dumps(expected.to_dict()))


def test_the_report_of_a_training_run(models):
    page = Words(models / "train.html")
    assert "script" not in page.tags
    for words in (
        "words.model, trained on",
        "How good is the fit?",
        "Which label follows which?",
        "Sequences",
        "cat",
    ):
        assert words in page.text


@pytest.mark.slow
def test_the_report_of_an_evaluation(models, tmp_path):
    arguments = ["evaluate", models / "words.model", models / "test.conll", "--resamples", "50"]
    result = run(*arguments, "--report", tmp_path / "test.html", "-q")
    page = Words(tmp_path / "test.html")
    assert "script" not in page.tags
    for words in ("How well does it do?", "Can its probabilities be trusted?", "Sequences"):
        assert words in page.text
    assert result.stdout == run(*arguments).stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["words.model", "--label", "ADJ"], "unknown label 'ADJ'"),
        (["words.model", "--explain", "test.conll", "--label", "DET"], "not for --explain"),
        (["words.model", "--features", "("], "is not a regular expression"),
        (["words.model", "--explain", "test.conll", "--sequence", "8"], "holds 8 sequences, 0 to 7: no 8"),
        (["absent.model"], "absent.model does not exist"),
    ],
)
def test_what_cannot_be_shown_is_named(models, monkeypatch, arguments, message):
    monkeypatch.chdir(models)
    assert message in run("inspect", *arguments, code=2).stderr
