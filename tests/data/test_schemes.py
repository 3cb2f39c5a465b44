"""Schemes: the labellings they allow are exactly those that write a set of entities."""

import itertools
import json

import numpy as np
import pytest

from kernelfields.data import Constraints, resolve_constraints
from kernelfields.data.constraints import find_scheme, guess_scheme
from kernelfields.data.spans import rewrite_labels, spans_of_scheme

TAGS = {"bio": "BI", "iob1": "BI", "bioes": "BIES", "bilou": "BILU"}


def classes_of(scheme, types):
    return np.array(sorted(["O", *(f"{tag}-{kind}".rstrip("-") for tag in TAGS[scheme] for kind in types)]))


def segmentations(length, types):
    """All ways to place typed entities in ``length`` positions: lists of (type or None, size)."""
    if length == 0:
        yield []
        return
    for rest in segmentations(length - 1, types):
        yield [(None, 1), *rest]
    for size in range(1, length + 1):
        for kind, rest in itertools.product(types, list(segmentations(length - size, types))):
            yield [(kind, size), *rest]


def written(scheme, segments):
    labels, previous = [], None
    for kind, size in segments:
        if kind is None:
            labels.append("O")
        else:
            begin = "I" if scheme == "iob1" and previous != kind else "B"
            tags = [begin, *"I" * (size - 1)]
            if scheme in ("bioes", "bilou"):
                single, last = ("S", "E") if scheme == "bioes" else ("U", "L")
                tags = [single] if size == 1 else ["B", *"I" * (size - 2), last]
            labels += [f"{tag}-{kind}".rstrip("-") for tag in tags]
        previous = kind
    return tuple(labels)


@pytest.mark.parametrize("scheme", TAGS)
@pytest.mark.parametrize("types", [["X", "Y"], [""]], ids=["two types", "no types"])
def test_allowed_labellings_are_those_that_write_entities(scheme, types):
    classes = classes_of(scheme, types)
    masks = resolve_constraints(scheme, classes)
    assert not masks.label.any()
    for length in (1, 2, 3, 4):
        codes = np.array(list(itertools.product(range(len(classes)), repeat=length)))
        score = masks.start[codes[:, 0]] + masks.end[codes[:, -1]]
        score += masks.edge[codes[:, :-1], codes[:, 1:]].sum(axis=1)
        allowed = set(map(tuple, classes[codes[score == 0]].tolist()))
        assert allowed == {written(scheme, segments) for segments in segmentations(length, types)}


def test_names():
    for name, canonical in [("IOB2", "bio"), ("iobes", "bioes"), ("BILUO", "bilou"), ("iob1", "iob1")]:
        assert find_scheme(name).name == canonical
        assert Constraints.parse(name) == Constraints(scheme=canonical)
    for unknown in ("iob", "", None, 3):
        with pytest.raises(ValueError, match=f"unknown scheme {unknown!r}: known are 'bio', 'iob1'"):
            find_scheme(unknown)
    with pytest.raises(ValueError, match="unknown scheme 'BIE'"):
        Constraints(scheme="BIE")


def test_types_may_hold_hyphens():
    assert find_scheme("bio").parse("I-LOC-city") == ("I", "LOC-city")
    masks = resolve_constraints("bio", np.array(["B-a", "B-a-b", "I-a", "I-a-b"]))
    assert masks.edge[1, 2] == -np.inf
    assert masks.edge[1, 3] == 0


@pytest.mark.parametrize(
    ("scheme", "label", "words"),
    [
        ("bio", "NP", "label 'NP' does not fit the scheme 'bio': expected 'O' or one of 'B-type', 'I-type'"),
        ("bio", "NP-B", "expected 'O' or one of 'B-type', 'I-type', the tag first: write 'B-NP'"),
        ("bio", "E-NP", "'E-NP' does not fit the scheme 'bio'"),
        ("bioes", "L-NP", "one of 'B-type', 'I-type', 'E-type', 'S-type'"),
        ("bilou", "S-NP", "one of 'B-type', 'I-type', 'L-type', 'U-type'"),
        ("bio", "B-", "'B-' does not fit"),
        ("bio", "-B", "'-B' does not fit"),
        ("bio", "O-NP", "'O-NP' does not fit"),
        ("bio", "", "'' does not fit"),
        ("bio", "b-NP", "'b-NP' does not fit"),
        ("bio", "BI-NP", "'BI-NP' does not fit"),
        ("bio", 3, "label 3 does not fit"),
    ],
)
def test_a_label_of_another_form_is_named(scheme, label, words):
    with pytest.raises(ValueError, match=words):
        resolve_constraints(scheme, np.array(["O", label], dtype=object))


@pytest.mark.parametrize(
    ("scheme", "classes", "words"),
    [
        (
            "bio",
            ["B-NP", "I-NP", "I-VP", "O"],
            "label 'I-VP' cannot occur in the scheme 'bio': it needs 'B-VP' before it, which is not among the "
            "labels. Correct the labels, or use 'iob1' if entities may begin with I.",
        ),
        ("bio", ["I", "O"], "it needs 'B' before it"),
        ("iob1", ["B-NP", "I-VP", "O"], "it needs 'I-NP' before it, .* or use 'bio' if entities begin with B"),
        ("bioes", ["B-NP", "I-NP", "O"], "label 'B-NP' .* it needs 'E-NP' after it.* or use 'bio' if the ends"),
        ("bioes", ["E-NP", "I-NP", "O"], "label 'E-NP' .* it needs 'B-NP' before it"),
        ("bilou", ["I-NP", "O"], "it needs 'B-NP' before it"),
        ("bilou", ["B-NP", "L-VP", "O"], "label 'L-VP' .* it needs 'B-VP' before it"),
    ],
)
def test_a_label_that_could_never_occur_is_refused(scheme, classes, words):
    with pytest.raises(ValueError, match=words):
        resolve_constraints(scheme, np.array(classes))


@pytest.mark.parametrize("scheme", TAGS)
@pytest.mark.parametrize("types", [["X", "Y"], [""]], ids=["two types", "no types"])
def test_mended_labels_write_the_same_entities_and_labels_that_fit_stay(scheme, types):
    classes = classes_of(scheme, types).tolist()
    for length in (1, 2, 3):
        given = [list(labels) for labels in itertools.product(classes, repeat=length)]
        allowed = {written(scheme, segments) for segments in segmentations(length, types)}
        found, changed = rewrite_labels(given, find_scheme(scheme))
        for before, after in zip(given, found, strict=True):
            assert tuple(after) in allowed
            assert (tuple(before) in allowed) == (after is before)
            assert spans_of_scheme(after, find_scheme(scheme)) == spans_of_scheme(before, find_scheme(scheme))
        told = [list(labels) for labels in given]
        for change in changed:
            assert told[change.sequence][change.position] == change.label != change.new
            told[change.sequence][change.position] = change.new
        assert told == found


@pytest.mark.parametrize("scheme", TAGS)
def test_beside_what_is_not_known_labels_are_mended_where_no_label_could_fit(scheme):
    """Labels stay where some completion fits; else those that are mended have one."""
    classes = classes_of(scheme, ["X", "Y"]).tolist()
    allowed = {written(scheme, segments) for segments in segmentations(3, ["X", "Y"])}

    def has_completion(entries):
        return any(all(e in (None, label) for e, label in zip(entries, labels, strict=True)) for labels in allowed)

    given = [list(entries) for entries in itertools.product([None, *classes], repeat=3)]
    found, _ = rewrite_labels(given, find_scheme(scheme))
    for before, after in zip(given, found, strict=True):
        assert [entry is None for entry in after] == [entry is None for entry in before]
        if has_completion(before):
            assert after is before
        elif None not in before[1:2]:  # a single unknown between two labels may have to be two things at once
            assert has_completion(after), (before, after)


def test_sets_numbers_and_other_forms_are_left_alone():
    bio = find_scheme("bio")
    for y in ([["O", {"I-X", "O"}, "I-X"], None], [[0, 1]], [["O", "I-X", "PER"]], [[float("nan"), "I-X"]]):
        found, changed = rewrite_labels(y, bio)
        assert changed == []
        assert all(after is before for after, before in zip(found, y, strict=True))
    found, changed = rewrite_labels([np.array(["O", "I-X"]), ("I", "I")], bio)
    assert found == [["O", "B-X"], ["B", "I"]]
    assert [tuple(change) for change in changed] == [(0, 1, "I-X", "B-X"), (1, 0, "I", "B")]


def test_further_constraints_join_a_scheme():
    classes = np.array(["B-NP", "B-VP", "I-NP", "O"])
    given = {"scheme": "bio", "transitions": [("B-NP", "B-NP")], "end": ["B-VP"]}
    both, scheme = resolve_constraints(given, classes), resolve_constraints("bio", classes)
    expected = scheme.edge.copy()
    expected[0, 0] = -np.inf
    np.testing.assert_array_equal(both.edge, expected)
    np.testing.assert_array_equal(both.start, scheme.start)
    np.testing.assert_array_equal(both.end, [0, -np.inf, 0, 0])


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (
            ["O", "I-NP", "O", "O"],
            "sequence 0, position 1: label 'I-NP' is forbidden after 'O' by the scheme 'bio'. Correct the label, "
            "or use 'iob1' if entities may begin with I.",
        ),
        (
            ["O", "O", "O", "I-NP"],
            "sequence 1, position 0: label 'I-NP' is forbidden at the first position by the",
        ),
        (
            ["B-NP", "B-NP", "O", "O"],
            "position 1: label 'B-NP' is forbidden after 'B-NP' by the constraints. Correct the label or drop",
        ),
        (
            ["O", "O", "B-VP", "O"],
            "position 2: label 'B-VP' is forbidden at the last position by the constraints.",
        ),
        (["O", "B-X", "O", "O"], "position 1: label 'B-X' is forbidden everywhere by the constraints."),
    ],
)
def test_broken_labels_name_the_scheme_or_the_constraints(labels, words):
    classes = np.array(["B-NP", "B-VP", "B-X", "I-NP", "O"])
    given = {"scheme": "bio", "transitions": [("B-NP", "B-NP")], "end": ["B-VP"], "labels": ["B-X"]}
    codes = np.searchsorted(classes, labels)
    with pytest.raises(ValueError, match="sequence") as error:
        resolve_constraints(given, classes).check_labels(codes, np.array([0, 3, 4]), classes)
    assert words in str(error.value)


def test_specs():
    given = Constraints(transitions=[("B", "B")], scheme="IOB2")
    again = Constraints.from_spec(json.loads(json.dumps(given.spec())))
    assert again == given
    assert again.scheme == "bio"
    strict = Constraints.parse({"scheme": "bio", "strict": True})
    assert Constraints.from_spec(json.loads(json.dumps(strict.spec()))) == strict != Constraints.parse("bio")
    with pytest.raises(ValueError, match="strict is True or False, and about a scheme"):
        Constraints(strict=True)
    assert Constraints.parse("bio").spec() == {
        "transitions": [],
        "start": [],
        "end": [],
        "labels": [],
        "scheme": "bio",
    }
    old = {"transitions": [["O", "I"]], "start": ["I"], "end": [], "labels": []}
    assert Constraints.from_spec(old).spec() == old


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["O", "B-X", "I-X"], "bio"),
        (["I-X", "O"], "bio"),
        (["O"], "bio"),
        (["B", "I"], "bio"),
        (["B", "I", "O"], "bio"),
        (["S-X", "O"], "bioes"),
        (["B", "E", "I", "S"], "bioes"),
        (["B-X", "L-X", "O"], "bilou"),
        (["U-X", "O"], "bilou"),
        (["S-X", "U-X"], None),
        (["O", "NP"], None),
        (["S", "E"], None),
        (["B", "O"], None),
        ([0, 1], None),
        ([], None),
    ],
)
def test_guesses(labels, expected):
    found = guess_scheme(labels)
    assert (found and found.name) == expected
