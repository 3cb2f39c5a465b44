"""The labelling behind the page: decoding given what is known, versions, undo, queues, refits, files and journals."""

import json

import numpy as np
import pytest
from sentences import city_model, sentences, written
from sklearn.pipeline import make_pipeline

from kernelfields import ChainCRF, GraphCRF, TextFeatures
from kernelfields.page import LabellingSession
from kernelfields.page.changes import Conflict
from kernelfields.page.files import open_file
from kernelfields.page.journal import Journal, JournalError


@pytest.fixture(scope="module")
def model():
    return city_model()


def labelled(tmp_path, model=None, y=None, count=12):
    X, _ = sentences(count, seed=1)
    path = tmp_path / "new.conll"
    if not path.exists():
        path.write_text(written(X, y), encoding="utf-8")
    file = open_file(str(path))
    return LabellingSession(
        file.words, file.read.y, model, words=file.words, file=file, journal=tmp_path / "new.journal"
    )


def test_a_fixed_label_changes_the_rest_at_once(model):
    X, _ = sentences(12, seed=1)
    session = LabellingSession(X, None, model, words=X)
    item = next(i for i, words in enumerate(X) if "York" in words)
    place = X[item].index("York")
    before = session.show(item)["positions"]
    assert before[place]["label"] == "I-city"
    assert before[place]["from"] == "predicted"
    after = session.change(item, 0, [[place, ["O"]]])["positions"]
    assert (after[place]["label"], after[place]["from"]) == ("O", "fixed")
    field, x = model[-1], model[:-1].transform(X[item : item + 1])
    known = [[None if t != place else "O" for t in range(len(X[item]))]]
    assert [own["label"] for own in after] == list(field.predict(x, known=known)[0])
    marginals = field.predict_marginals(x, known=known)[0]
    assert after[place - 1]["top"][0][1] == pytest.approx(marginals[place - 1].max(), abs=1e-4)
    # One of two labels.
    session.change(item, 1, [[place, ["O", "I-city"]]])
    assert session.labels()[item][place] == {"O", "I-city"}
    assert session.change(item, 2, [[place, None]])["positions"] == before


def test_probabilities_of_nodes_are_given_what_was_fixed():
    """Nodes 0 and 1 are not joined, and both may be "a"; node 2, which meets them, may not."""
    random, edges = np.random.default_rng(0), np.array([[0, 2], [2, 1]])
    X = [(random.normal(size=(3, 2)), edges) for _ in range(6)]
    y = [["a", "a", "b"], ["b", "b", "a"], ["a", "c", "c"]] * 2
    graphs = GraphCRF("linear", constraints=[("a", "a")], prior_variance=1.0).fit(X, y)
    session = LabellingSession(X, None, graphs)
    shown = session.change(0, 0, [[0, ["a"]], [1, ["a"]]])["positions"]
    expected = graphs.predict_marginals(X[:1], known=[["a", "a", None]])[0]
    assert dict(shown[2]["top"]) == pytest.approx(dict(zip("abc", expected[2], strict=True)), abs=1e-4)
    assert dict(shown[2]["top"])["a"] == 0.0


def test_what_breaks_a_rule_is_shown_without_probabilities():
    """Given what cannot be, nothing has a probability; the item stays on the page, and can be corrected."""
    X, y = sentences(30)
    strict = make_pipeline(TextFeatures(), ChainCRF("linear", prior_variance=1.0, constraints="bio")).fit(X, y)
    session = LabellingSession(X, None, strict, words=X)
    before = session.show(0)
    assert not before["broken"]
    shown = session.change(0, 0, [[0, ["O"]], [1, ["I-city"]]])
    assert shown["broken"]
    assert [own["label"] for own in shown["positions"][:3]] == ["O", "I-city", None]
    assert all(own["p"] is None and own["top"] == [] for own in shown["positions"])
    with pytest.raises(ValueError, match="contradicts the constraints"):
        session.best(0)
    assert session.undo()["positions"] == before["positions"]


def test_older_versions_are_refused_and_undoing_is_a_change(model):
    X, _ = sentences(4, seed=1)
    session = LabellingSession(X, None, model, words=X)
    session.change(0, 0, [[0, ["O"]]])
    with pytest.raises(Conflict, match="item 1 was changed elsewhere: version 1, not 0"):
        session.change(0, 0, [[1, ["O"]]])
    session.change(0, 1, [[0, ["B-city"]], [1, ["I-city"]]])
    assert session.undo()["version"] == 3
    assert session.labels()[0][:2] == ["O", None]
    session.undo()
    assert session.labels()[0][0] is None
    with pytest.raises(ValueError, match="nothing to undo"):
        session.undo()


def test_from_nothing_to_a_model(tmp_path):
    X, y = sentences(60, seed=2)
    session = LabellingSession(X, None, None, words=X, classes=["B-city", "I-city", "O"])
    nothing = {"label": None, "from": "nothing", "p": None, "top": [], "kind": None, "begins": False}
    assert session.show(0)["positions"][0] == nothing
    with pytest.raises(ValueError, match="no model yet"):
        session.best(0)
    with pytest.raises(ValueError, match="no label of an item"):
        session.refit()
    for item in range(30):
        session.change(item, 0, [[t, [label]] for t, label in enumerate(y[item])])
    session.refit(wait=True)
    assert "the new model is in place" in session.status
    assert session.show(40)["positions"][0]["from"] == "predicted"
    for item in session.aside - set(range(30)):
        session.change(item, 0, [[t, [label]] for t, label in enumerate(y[item])])
    session.refit(wait=True)
    assert session.curve[-1]["right"] > 0.9
    doubtful = [own["item"] for own in session.queue("doubtful")]
    assert set(doubtful[: len(X) - 30 - len(session.aside)]).isdisjoint(range(30))
    assert len(session.queue("random")) == len(session.queue("given")) == len(session.queue("suspicious")) == 60
    assert len(session.best(45)) == 5
    assert session.explain(45, 0)["contributions"]
    # Partly known labels are enough for the next fit.
    session.change(50, 0, [[0, [y[50][0]]]])
    session.refit(wait=True)
    assert "failed" not in session.status


def test_a_refit_that_fails_leaves_the_model(model):
    X, _ = sentences(4, seed=1)
    session = LabellingSession(X, None, model, words=X)
    session.change(0, 0, [[0, ["O"]]])
    session.refit(wait=True)
    assert "failed, all is as it was: all labels that are known are the same" in session.status
    assert session.model is model


def test_labels_are_saved_and_nothing_else_changes(tmp_path, model):
    session = labelled(tmp_path, model)
    session.change(0, 0, [[0, ["O"]], [1, ["O", "B-city"]]])
    assert session.save() == "wrote new.conll"
    session.close()
    lines = (tmp_path / "new.conll").read_text().splitlines()
    assert lines[0].endswith("\tO")
    assert lines[1].endswith("\tB-city|O")
    assert lines[2].endswith("\t?")
    again = labelled(tmp_path, model)
    assert again.labels()[0][:3] == ["O", {"B-city", "O"}, None]
    again.change(1, 0, [[0, ["O"]]])
    again.save()
    assert len((tmp_path / "new.conll").read_text().splitlines()[0].split("\t")) == 2
    (tmp_path / "new.conll").write_text("other\n")
    with pytest.raises(ValueError, match="changed by another program: it is left as it is"):
        again.save()
    again.close()


def test_the_journal_brings_everything_back(tmp_path, model):
    session = labelled(tmp_path, model)
    session.change(0, 0, [[0, ["O"]]])
    with pytest.raises(ValueError, match="label 'new-label' does not fit the scheme 'bio'"):
        session.change(3, 0, [[1, ["new-label"]]])
    session.change(3, 0, [[1, ["B-river"]]])
    session.undo()
    expected = session.labels()
    session.close()
    again = labelled(tmp_path, model)
    assert again.labels() == expected
    again.change(0, again.versions[0], [[1, ["O"]]])
    again.close()
    assert labelled(tmp_path, model).labels()[0][1] == "O"


def test_killed_between_the_file_and_its_journal(tmp_path, model):
    session = labelled(tmp_path, model)
    session.change(0, 0, [[0, ["O"]]])
    content = session.file.with_labels(session.labels())
    session.journal.announce_save(content)
    session.file.save(content)  # and here the process ends
    session.close()
    again = labelled(tmp_path, model)
    assert again.labels()[0][0] == "O"


def test_other_files_and_damaged_journals_are_refused(tmp_path, model):
    session = labelled(tmp_path, model)
    session.change(0, 0, [[0, ["O"]]])
    session.close()
    (tmp_path / "new.conll").write_text("other\n\nwords\n")
    with pytest.raises(JournalError, match=r"the file has changed since new.journal was begun, and its 1 actions"):
        labelled(tmp_path, model)
    damaged = tmp_path / "damaged"
    damaged.write_text('not json\n{"journal": 1, "of": ""}\n')
    with pytest.raises(JournalError, match="no journal that can be read"):
        Journal(damaged, b"")
    lines = [json.dumps({"journal": 1, "of": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"})]
    lines.append(json.dumps({"item": 99, "version": 0, "changes": [[0, ["O"]]]}))
    damaged.write_text("\n".join(lines) + "\n")
    with pytest.raises(JournalError, match="names item 99"):
        LabellingSession([["a"]], None, words=[["a"]], journal=damaged)


def test_bad_input(model):
    X, _ = sentences(3, seed=1)
    session = LabellingSession(X, None, model, words=X)
    for item in (-1, 3, "0", 1.5, True, None):
        with pytest.raises(ValueError, match="there are items 0 to 2"):
            session.show(item)
    for changes in (
        None,
        [],
        [[0]],
        "x",
        [[0, "O"]],
        [[0, []]],
        [[0, [None]]],
        [[99, ["O"]]],
        [["0", ["O"]]],
        [[0, ["x" * 300]]],
        [[0, [""]]],
    ):
        with pytest.raises(ValueError, match=r"changes must be|labels of a position|a label is|no position"):
            session.change(0, 0, changes)
    with pytest.raises(ValueError, match="order must be one of"):
        session.queue("newest")
    with pytest.raises(ValueError, match="come from no file"):
        session.save()
    with pytest.raises(ValueError, match="y holds labels of 1 items"):
        LabellingSession(X, [["O"]], model, words=X)


def test_labels_of_two_annotators_are_known_where_they_agree():
    X = [["a", "b", "c"], ["d"]]
    sides = {"anna": [["x", "y", None], ["x"]], "ben": [["x", {"x", "z"}, "z"], None]}
    session = LabellingSession(X, None, words=X, scheme=None, annotators=sides)
    assert session.labels() == [["x", None, "z"], ["x"]]
    assert session.state()["labels"] == ["x", "y", "z"]
    (place,) = session.places("disagreements")
    assert (place["item"], place["begin"], place["end"]) == (0, 1, 2)
    assert place["sides"] == [[["y"]], [["x", "z"]]]
    assert place["text"] in ("anna: y, ben: x|z", "anna: y, ben: z|x")
    session.change(0, 0, [[1, ["y"]]])
    assert session.places("disagreements") == []
    decided = LabellingSession(X, [["x", "x", None], None], words=X, scheme=None, annotators=sides)
    assert decided.labels() == [["x", "x", None], [None]]
    with pytest.raises(ValueError, match="those of two annotators, got 1"):
        LabellingSession(X, None, words=X, annotators={"anna": sides["anna"]})
    with pytest.raises(ValueError, match="y holds labels of 1 items, and there are 2"):
        LabellingSession(X, None, words=X, annotators=sides | {"ben": [["x"]]})
