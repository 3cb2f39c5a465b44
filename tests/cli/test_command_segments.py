"""``--segments``: the command trains a SegmentCRF, and its other parts answer by it or refuse in one line."""

import json

import numpy as np
import pytest
from command_files import run

from kernelfields import SegmentCRF
from kernelfields.cli.models import load_model

FIT = ("--prior-variance", "1", "-j", "1", "-q")


def labels_of_a_day(random):
    """Rests of one to three positions and moves of three to five, in turns."""
    durations = [("rest", random.integers(1, 4)), ("move", random.integers(3, 6))] * 2
    return [label for label, duration in durations for _ in range(duration)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Numbers and words with the same kind of labels, a model of segments of each, and a chain."""
    place, random = tmp_path_factory.mktemp("segments"), np.random.default_rng(0)
    days = [labels_of_a_day(random) for _ in range(8)]
    rows = [f"{day},{(label == 'move') + random.normal():.4f},{label}" for day, own in enumerate(days) for label in own]
    (place / "room.csv").write_text("\n".join(["day,speed,label", *rows]) + "\n")
    words = {"rest": ("sit", "lie"), "move": ("run", "lie")}
    blocks = ["".join(f"{random.choice(words[label])}\t{label}\n" for label in own) for own in days]
    (place / "words.conll").write_text("\n".join(blocks))
    (place / "half.conll").write_text("\n".join(blocks).replace("lie\trest", "lie\t?").replace("lie\tmove", "lie\t?"))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        run("train", "room.csv", "--sequence-column", "day", "--segments", "-m", "room.model", *FIT)
        run("train", "words.conll", "--segments", "-m", "words.model", *FIT)
        run("train", "words.conll", "-m", "chain.model", *FIT)
    return place


@pytest.fixture
def inside(folder, monkeypatch):
    monkeypatch.chdir(folder)
    return folder


def refused(*arguments):
    """Return the one line that a command ends with."""
    *_, last = run(*arguments, code=2).stderr.splitlines()
    assert last.startswith("error: ")
    return last


def test_options_become_parameters_and_the_settings_repeat_the_run(inside, tmp_path):
    first, second = tmp_path / "first.model", tmp_path / "second.model"
    options = ("--max-duration", "4", "--repeats", "--duration-prior-variance", "0.5")
    run("train", "words.conll", "--segments", *options, "--dev", "words.conll", "--window", "2,0", "-m", first, *FIT)
    run("train", "--config", tmp_path / "first.toml", "-m", second, "-q")
    crf, again = SegmentCRF.load(first), SegmentCRF.load(second)
    assert (crf.max_duration, crf.repeats, crf.durations.prior_variance, crf.window) == (4, True, 0.5, (2, 0))
    assert [term.name for term in crf.field_.terms] == ["node", "edge", "duration"]
    for one, other in zip(crf.field_.terms, again.field_.terms, strict=True):
        np.testing.assert_array_equal(one.coefficients, other.coefficients)


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["predict", "words.model", "words.conll", "--nbest", "2", "-q"], "# 1 0."),
        (["predict", "words.model", "words.conll", "--marginals", "-q"], "rest/"),
        (["predict", "words.model", "words.conll", "--decode", "posterior", "--json", "-q"], '{"labels": ["rest"'),
        (["evaluate", "words.model", "words.conll", "--resamples", "0"], "log-likelihood per sequence"),
        (["evaluate", "words.model", "words.conll", "--against", "chain.model"], "second: chain.model"),
        (["inspect", "words.model", "--label", "rest"], "duration: kernel RBF"),
        (["certify", "words.model", "words.conll", "--limit", "0.1"], "within the limit of 0.1"),
    ],
    ids=lambda each: " ".join(each[0:1] + each[3:4]) if isinstance(each, list) else "",
)
def test_every_command_answers_by_segments(inside, arguments, shown):
    assert shown in run(*arguments).stdout


TRAINING = [
    (["--support", "observed"], "--support is for chains, and --segments trains a SegmentCRF"),
    (["--constraints", "bilou"], "--constraints bilou forbids B-X after B-X, and a SegmentCRF may have both"),
    (["--max-duration", "0"], "--max-duration must be at least 1"),
    (["--max-duration", "2"], "more than max_duration=2"),
]


@pytest.mark.parametrize(("options", "message"), TRAINING, ids=[" ".join(each) for each, _ in TRAINING])
def test_what_segments_cannot_be_trained_by_is_one_line(inside, tmp_path, options, message):
    assert message in refused("train", "words.conll", "--segments", *options, "-m", tmp_path / "no.model")
    assert not list(tmp_path.iterdir())


def test_options_of_segments_are_for_segments(inside):
    for options in (["--max-duration", "3"], ["--repeats"]):
        assert f"{options[0]} is for --segments, which is not set" in refused("train", "words.conll", *options)


def test_segments_have_transitions(inside, tmp_path):
    (tmp_path / "t").write_text("U00:%x[0,0]\n")
    arguments = ("train", "words.conll", "--segments", "-t", tmp_path / "t", "-m", tmp_path / "no.model")
    assert "the template has no B line, and --segments has transitions" in refused(*arguments)


def test_labels_that_are_partly_known_need_a_duration(inside, tmp_path):
    arguments = ("train", "half.conll", "--segments", "--unknown-label", "?", "-m", tmp_path / "half.model", *FIT)
    assert "a SegmentCRF needs --max-duration then" in refused(*arguments)
    run(*arguments, "--max-duration", "10")
    assert SegmentCRF.load(tmp_path / "half.model").max_duration_ == 10


def test_what_a_model_of_segments_cannot_do_is_one_line(inside, tmp_path):
    assert "a model of the kind 'SegmentCRF' cannot be served" in refused("export", "words.model", tmp_path / "o.onnx")
    SegmentCRF.load("words.model").save(tmp_path / "python.model")
    assert "was written by SegmentCRF.save" in refused("predict", tmp_path / "python.model", "words.conll")


def test_labels_of_entities_are_taken_as_they_are(tmp_path):
    sentence = [("Ann", "B-P"), ("Lee", "I-P"), ("Roe", "I-P"), ("Bob", "B-P"), ("Sue", "B-P"), ("left", "O")]
    (tmp_path / "names.conll").write_text(("\n".join("\t".join(row) for row in sentence) + "\n\n") * 4)
    model = tmp_path / "names.model"
    options = ("--segments", "--constraints", "bio", "--prior-variance", "10", "-m", model)
    result = run("train", tmp_path / "names.conll", *options)
    assert "labels write entities, and runs of equal labels are segments" in result.stderr
    found = json.loads(run("predict", model, tmp_path / "names.conll", "--entities", "-q").stdout.splitlines()[0])
    assert [(one["begin"], one["end"]) for one in found["entities"]] == [(0, 1), (1, 3), (3, 5)]
    assert "entity F1 (bio)" in run("evaluate", model, tmp_path / "names.conll", "--resamples", "0").stdout


@pytest.mark.parametrize("model", ["words.model", "chain.model"])
def test_entities_are_documents_with_their_alternatives(inside, model):
    trained = load_model(model, 1)
    expected = trained.crf.predict_entities(trained.read("words.conll").X)
    lines = run("predict", model, "words.conll", "--entities", "-q").stdout.splitlines()
    assert len(lines) == len(expected)
    for line, found in zip(lines, expected, strict=True):
        written = json.loads(line)["entities"]
        assert [(one["label"], one["begin"], one["end"]) for one in written] == [one[:3] for one in found]
        assert [len(one["alternatives"]) for one in written] == [len(one.alternatives) for one in found]
    assert "leave out --nbest" in refused("predict", model, "words.conll", "--entities", "--nbest", "2")
