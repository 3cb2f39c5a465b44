import itertools
import json

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from kernelfields.data import Constraints, resolve_constraints
from kernelfields.data.constraints import ConstraintMasks

CLASSES = np.array(["B", "I", "O"])
BIO = Constraints(transitions=[("O", "I")], start=["I"])
OFFSETS = np.array([0, 3, 4])


@pytest.mark.parametrize(
    "form", [BIO, {"transitions": [["O", "I"]], "start": {"I"}}, Constraints.from_spec(BIO.spec())]
)
def test_forms_agree(form):
    masks, expected = resolve_constraints(form, CLASSES), resolve_constraints(BIO, CLASSES)
    for name in ("edge", "start", "end", "label"):
        np.testing.assert_array_equal(getattr(masks, name), getattr(expected, name))


@pytest.mark.parametrize("classes", [np.array([3, 5, 9]), np.array([False, True]), np.array([1.0, 2.0])])
def test_labels_of_other_types_survive_json(classes):
    constraints = Constraints([(classes[0], classes[1])], start=classes[:1])
    again = Constraints.from_spec(json.loads(json.dumps(constraints.spec())))
    assert again == constraints
    np.testing.assert_array_equal(np.argwhere(resolve_constraints(again, classes).edge), [[0, 1]])


def test_apply_adds_in_place():
    node = np.arange(12.0).reshape(4, 3)
    expected = node.copy()
    masks = resolve_constraints(Constraints(start=["I"], end=["B"], labels=["O"]), CLASSES)
    assert masks.apply(node, OFFSETS) is node
    expected[:, 2] = -np.inf
    expected[[0, 3], 1] = -np.inf
    expected[[2, 3], 0] = -np.inf
    np.testing.assert_array_equal(node, expected)


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_check_agrees_with_the_penalties(data):
    """Labels pass the check exactly when their penalised score is finite."""
    some = st.lists(st.sampled_from(CLASSES.tolist()), max_size=1)
    pairs = st.lists(st.sampled_from(list(itertools.product(CLASSES.tolist(), repeat=2))), max_size=2)
    constraints = Constraints(data.draw(pairs), data.draw(some), data.draw(some), data.draw(some))
    try:
        masks = resolve_constraints(constraints, CLASSES)
    except ValueError:
        reject()  # such a draw leaves no labelling at all, which other tests are about
    labels = np.array(data.draw(st.lists(st.integers(0, 2), min_size=4, max_size=4)))
    node = masks.apply(np.zeros((4, 3)), OFFSETS)
    score = node[np.arange(4), labels].sum() + masks.edge[labels[[0, 1]], labels[[1, 2]]].sum()
    if np.isfinite(score):
        masks.check_labels(labels, OFFSETS, CLASSES)
    else:
        with pytest.raises(ValueError, match="by the constraints"):
            masks.check_labels(labels, OFFSETS, CLASSES)


@pytest.mark.parametrize(
    ("constraints", "labels", "words"),
    [
        ([("O", "I")], [2, 1, 0, 0], "sequence 0, position 1: label 'I' is forbidden after 'O'"),
        (
            {"start": ["I"]},
            [0, 0, 0, 1],
            "sequence 1, position 0: label 'I' is forbidden at the first position",
        ),
        ({"end": ["B"]}, [1, 1, 0, 1], "sequence 0, position 2: label 'B' is forbidden at the last position"),
        ({"labels": ["O"]}, [1, 2, 2, 0], "sequence 0, position 1: label 'O' is forbidden everywhere"),
    ],
)
def test_broken_labels_are_located(constraints, labels, words):
    with pytest.raises(ValueError, match=words):
        resolve_constraints(constraints, CLASSES).check_labels(np.array(labels), OFFSETS, CLASSES)


@pytest.mark.parametrize(
    ("constraints", "error", "words"),
    [
        ([("O", "X")], ValueError, "unknown label 'X' in 'transitions': known are 'B', 'I', 'O'"),
        ({"start": ["Q"]}, ValueError, "unknown label 'Q' in 'start'"),
        ({"labels": ["B", "I", "O"]}, ValueError, "forbid every label"),
        ({"start": ["B", "I"], "labels": ["O"]}, ValueError, "no label to start"),
        ({"end": ["B", "I", "O"]}, ValueError, "no label to end"),
        (
            {"transitions": [("B", "I"), ("B", "O")], "start": ["I", "O"], "end": ["B"]},
            ValueError,
            "forbid every labelling",
        ),
        ({"starts": ["B"]}, ValueError, "unknown key 'starts': known are transitions, start, end, labels, scheme"),
        (["OI"], ValueError, r"pairs \(label, next label\), got 'OI'"),
        ([("O",)], ValueError, "pairs"),
        ({"start": "I-PER"}, TypeError, r"start must be a collection of labels.*write \['I-PER'\]"),
        ("OI", ValueError, "unknown scheme 'OI': known are 'bio', 'iob1', 'bioes', 'bilou'"),
        (3, TypeError, "collection of"),
    ],
)
def test_errors(constraints, error, words):
    with pytest.raises(error, match=words):
        resolve_constraints(constraints, CLASSES)


def test_many_classes_are_not_all_shown():
    with pytest.raises(ValueError, match="and 90 more"):
        resolve_constraints([(0, 1000)], np.arange(100))


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.data())
def test_lengths_pass_exactly_when_a_labelling_is_left(data):
    labels = range(4)
    forbidden = data.draw(st.sets(st.sampled_from(list(itertools.product(labels, repeat=2))), max_size=14))
    some = st.sets(st.sampled_from(labels), max_size=3)
    start, end, never = data.draw(some), data.draw(some), data.draw(some)
    edge = np.zeros((4, 4))
    for pair in forbidden:
        edge[pair] = -np.inf
    start, end, never = (np.where(np.isin(labels, list(each)), -np.inf, 0.0) for each in (start, end, never))
    masks = ConstraintMasks(edge, start, end, never)
    for length in range(1, 14):
        best = start + never  # the score of the best prefix that ends in each label, by plain dynamic programming
        for _ in range(length - 1):
            best = (best[:, None] + edge).max(axis=0) + never
        if np.max(best + end) == 0:
            masks.check_lengths(np.array([length]))
        else:
            with pytest.raises(ValueError, match=f"sequence 0: .* no labelling of its length, {length}"):
                masks.check_lengths(np.array([length]))


def test_a_length_that_fits_no_labelling_names_its_sequence_and_long_ones_are_quick():
    # a and b take turns, and a sequence begins with a and ends with b: even lengths only.
    masks = resolve_constraints(Constraints([("a", "a"), ("b", "b")], ["b"], ["a"]), np.array(["a", "b"]))
    masks.check_lengths(np.array([2, 10, 1_000_000_000]))
    with pytest.raises(ValueError, match=r"sequence 2: .* of its length, 999999999\. Drop the sequence"):
        masks.check_lengths(np.array([2, 10, 999_999_999, 3]))
