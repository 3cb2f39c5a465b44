"""Spans on the page: marked in every scheme, ended where they were marked, accepted, done, undone across saves."""

import numpy as np
import pytest
from sentences import city_model, sentences, written

from kernelfields.data.constraints import SCHEMES
from kernelfields.page import LabellingSession
from kernelfields.page.files import open_file
from kernelfields.page.journal import JournalError
from kernelfields.page.spans import SpanView, TypedSpan


def drawn_spans(random, length):
    found, at = [], 0
    while (begin := at + int(random.integers(3))) < length:
        end = min(length, begin + 1 + int(random.integers(3)))
        found.append(TypedSpan(str(random.choice(["x", "y"])), begin, end))
        at = end
    return found


def labels_of(view, spans, length):
    labels = ["O"] * length
    for kind, begin, end in spans:
        labels[begin:end] = view.write_labels(kind, end - begin, labels[begin - 1] if begin else None)
    return labels


@pytest.mark.parametrize("name", SCHEMES)
def test_what_is_marked_replaces_what_it_meets_in_every_scheme(name):
    view, random = SpanView(SCHEMES[name]), np.random.default_rng(0)
    for _ in range(300):
        length = int(random.integers(1, 9))
        spans = drawn_spans(random, length)
        labels = labels_of(view, spans, length)
        assert view.spans(labels) == spans
        begin = int(random.integers(length))
        end = int(random.integers(begin + 1, length + 1))
        kind = random.choice(["x", "y", None])
        for t, label in view.mark_span(labels, [True] * length, begin, end, kind).items():
            labels[t] = label
        left = [span for span in spans if span.end <= begin or span.begin >= end]
        assert view.spans(labels) == sorted(
            [*left, *([TypedSpan(kind, begin, end)] if kind else [])], key=lambda s: s[1]
        )
        assert view.rewrite(labels) == labels


def test_what_is_left_of_a_span_is_not_known_in_an_item_that_is_not_done():
    view = SpanView(SCHEMES["bio"])
    shown, known = ["B-x", "I-x", "I-x", None], [True, True, True, False]
    assert view.mark_span(shown, known, 1, 2, "y") == {0: None, 2: None, 1: "B-y"}
    assert view.mark_span(shown[:3], known[:3], 1, 2, "y") == {0: "O", 2: "O", 1: "B-y"}
    with pytest.raises(ValueError, match="'' cannot be the type of a span"):
        view.list_labels("")


def test_a_span_ends_where_it_was_marked():
    """The model would go on: York follows New."""
    X = [["we", "saw", "New", "York"], ["from", "Los", "Angeles", "to", "Rome"]]
    session = LabellingSession(X, None, city_model(), words=X)
    assert [own["kind"] for own in session.show(0)["positions"]] == [None, None, "city", "city"]
    shown = session.mark(0, 0, 2, 3, "city")["positions"]
    assert [own["begins"] for own in shown] == [False, False, True, shown[3]["kind"] is not None]
    assert session.labels()[0][3] in ("O", "B-city")
    # What is predicted is accepted span by span; the rest by Done.
    shown = session.accept(1, 0, 1, 2)
    assert session.labels()[1] == [None, "B-city", "I-city", None, None]
    session.done(1, shown["version"])
    assert session.labels()[1] == ["O", "B-city", "I-city", "O", "B-city"]
    assert session.state()["counts"] == [3 if session.labels()[0][3] == "O" else 4]
    for bad in ((0, 0), (3, 2), (0, 9), ("0", 1), (True, 2)):
        with pytest.raises(ValueError, match="item 1 has 4 positions, and none from"):
            session.mark(0, session.versions[0], *bad, "city")
    with pytest.raises(ValueError, match="the type of a span is a text"):
        session.mark(0, session.versions[0], 0, 1, 7)


def test_positions_without_a_label_are_not_done():
    session = LabellingSession([["a", "b"]], None, words=[["a", "b"]], classes=["N", "V"])
    session.mark(0, 0, 0, 1, "N")
    with pytest.raises(ValueError, match="1 position of item 1 have no label yet"):
        session.done(0, 1)
    session.mark(0, 1, 1, 2, "V")
    session.done(0, 2)
    assert session.labels() == [["N", "V"]]


def opened(tmp_path):
    path = tmp_path / "new.conll"
    if not path.exists():
        path.write_text(written(sentences(12, seed=1)[0]), encoding="utf-8")
    file = open_file(str(path))
    known = {"words": file.words, "file": file, "journal": tmp_path / "journal", "scheme": "bio"}
    return LabellingSession(file.words, file.y, **known)


def test_undo_and_redo_reach_across_saves_and_starts(tmp_path):
    session = opened(tmp_path)
    states = [session.labels()]
    for item in range(4):
        session.mark(item, 0, 0, 1 + item % 2, "city")
        states.append(session.labels())
        if item % 2:
            session.save()
    session.repeats(0, 0, 1, "city", True)
    states.append(session.labels())
    session.close()
    again = opened(tmp_path)
    assert again.labels() == states[-1]
    for expected in reversed(states[:-1]):
        again.undo()
        assert again.labels() == expected
    with pytest.raises(ValueError, match="nothing to undo"):
        again.undo()
    for expected in states[1:4]:
        again.redo()
        assert again.labels() == expected
    again.save()
    again.close()
    third = opened(tmp_path)
    third.redo()
    assert third.labels() == states[4]
    third.undo()
    third.undo()
    assert third.labels() == states[2]
    third.mark(5, 0, 0, 1, "river")
    with pytest.raises(ValueError, match="nothing to redo"):
        third.redo()
    third.close()


def test_a_file_that_another_program_has_changed_begins_anew_if_all_was_saved(tmp_path):
    session = opened(tmp_path)
    session.mark(0, 0, 0, 1, "city")
    session.flag(3, "two readings")
    session.save()
    session.close()
    flagged = opened(tmp_path)
    assert flagged.queue(part="flagged")[0]["flag"] == "two readings"
    flagged.close()
    path = tmp_path / "new.conll"
    path.write_text(path.read_text().replace("Rome", "Paris"))
    again = opened(tmp_path)
    with pytest.raises(ValueError, match="nothing to undo"):
        again.undo()
    again.mark(0, 0, 0, 1, "river")
    again.close()
    path.write_text(path.read_text().replace("Paris", "Rome"))
    with pytest.raises(JournalError, match="the file has changed since journal was begun, and its 1 actions"):
        opened(tmp_path)
