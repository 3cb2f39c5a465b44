"""Segments of at least so many positions: answers are those of all segmentations that are long enough."""

from itertools import pairwise

import numpy as np
import pytest

from kernelfields import FieldSearchCV, PartialLabels, SegmentCRF, load
from tests.oracles.labellings import all_segmentations

random = np.random.default_rng(0)
LEAST = {"a": 3, "b": 2}
Y = [list("aaabbb"), list("bbcaaaa"), list("cbbbaaaa"), list("bbbaaacc"), list("aaabbc")]
X = [random.normal(size=(len(labels), 2)) + np.array([[ord(label) - 98.0, 0.0] for label in labels]) for labels in Y]
SETTINGS = {"prior_variance": 1.0, "scale": False, "max_duration": 5, "random_state": 0}


def field(**settings):
    return SegmentCRF("linear", **{**SETTINGS, "min_duration": LEAST, **settings})


@pytest.mark.parametrize("repeats", [False, True])
def test_answers_are_those_of_all_segmentations_that_are_long_enough(repeats):
    crf = field(repeats=repeats).fit(X, Y)
    classes, x = crf.classes_.tolist(), X[0]
    ranked = crf.predict_nbest([x], 10_000, segments=True)[0]
    every = [
        tuple((begin, end, classes[label]) for begin, end, label in own)
        for own in all_segmentations(len(x), 3, 5, repeats=repeats)
    ]
    allowed = {own for own in every if all(end - begin >= LEAST.get(label, 1) for begin, end, label in own)}
    assert {tuple(segments) for segments, _ in ranked} == allowed
    chances = np.exp([log for _, log in ranked])
    assert chances.sum() == pytest.approx(1.0)
    marginals = np.zeros((len(x), 3))
    for (segments, _), chance in zip(ranked, chances, strict=True):
        for begin, end, label in segments:
            marginals[begin:end, classes.index(label)] += chance
    np.testing.assert_allclose(crf.predict_marginals([x])[0], marginals, atol=1e-12)
    assert crf.entropy([x])[0] == pytest.approx(-chances @ np.log(chances))
    best = crf.predict_segments([x])[0]
    assert [tuple(segment)[:3] for segment in best] == ranked[0][0]
    for drawn in crf.sample([x], 50, random_state=0)[0]:
        begins = [0, *(np.flatnonzero(drawn[1:] != drawn[:-1]) + 1).tolist(), len(x)]
        assert all(end - begin >= LEAST.get(str(drawn[begin]), 1) for begin, end in pairwise(begins))


def test_the_fit_is_that_of_the_segmentations_that_are_left():
    free, least = field(min_duration=None).fit(X, Y), field().fit(X, Y)
    # Fewer segmentations compete with the true one: it has a larger share at the same coefficients.
    assert least.log_likelihood(X, Y) > free.log_likelihood(X, Y)
    assert least.certificate_.relative_gap < 1e-2
    assert field(min_duration=1).fit(X, Y).log_likelihood(X, Y) == free.log_likelihood(X, Y)


def test_one_number_is_that_of_all_labels():
    labels = [["a"] * 3 + ["b"] * 4, ["b"] * 3 + ["a"] * 3]
    inputs = [random.normal(size=(len(own), 2)) for own in labels]
    crf = field(min_duration=3).fit(inputs, labels)
    for segments, _ in crf.predict_nbest(inputs[:1], 100, segments=True)[0]:
        assert all(end - begin >= 3 for begin, end, _ in segments)


def test_files_keep_least_durations(tmp_path):
    crf = field().fit(X, Y)
    crf.save(tmp_path / "model")
    read = load(tmp_path / "model")
    assert read.min_duration == LEAST
    for one, other in zip(read.predict_marginals(X), crf.predict_marginals(X), strict=True):
        np.testing.assert_array_equal(one, other)
    again = read.set_params(warm_start=True).fit(X, Y)
    assert again.log_likelihood(X, Y) == pytest.approx(crf.log_likelihood(X, Y), abs=0.05)


def test_partly_known_labels_count_the_segmentations_that_are_long_enough():
    partly = [[label if place % 2 else None for place, label in enumerate(own)] for own in Y]
    crf = field(partial_labels=PartialLabels(), solver="lbfgs").fit(X, partly)
    x, known = X[0], partly[0]
    ranked = crf.predict_nbest([x], 10_000)[0]
    fits = [log for labels, log in ranked if all(k in (None, label) for k, label in zip(known, labels, strict=True))]
    assert crf.log_likelihood([x], [known]) == pytest.approx(np.log(np.exp(fits).sum()))
    only = [[None, None, "b", *[None] * 3]]
    assert crf.predict([x], known=only)[0][1:4].count("b") >= 2


def test_long_runs_are_cut_into_pieces_that_are_long_enough():
    labels = [["a"] * 7 + ["b"] * 2, ["b"] * 3 + ["a"] * 6]
    inputs = [random.normal(size=(9, 2)) for _ in labels]
    crf = field(repeats=True).fit(inputs, labels)
    assert np.isfinite(crf.log_likelihood(inputs, labels))


def test_searches_and_batches_have_least_durations():
    search = FieldSearchCV(field(), prior_variances=[0.1, 1.0], cv=2, random_state=0).fit(X * 2, Y * 2)
    assert search.best_estimator_.min_duration == LEAST
    batches = SegmentCRF("rbf", **SETTINGS, min_duration=LEAST).partial_fit(X[:3], Y[:3]).partial_fit(X[3:], Y[3:])
    for segments, _ in batches.predict_nbest(X[:1], 20, segments=True)[0]:
        assert all(end - begin >= LEAST.get(label, 1) for begin, end, label in segments)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"min_duration": 0}, "min_duration must be a whole number of at least 1 position, a dict"),
        ({"min_duration": {"a": 1.5}}, "min_duration must be a whole number"),
        ({"min_duration": {"z": 2}}, "min_duration names the unknown label 'z': known are 'a', 'b', 'c'"),
        ({"min_duration": {"a": 6}}, "min_duration of 'a' is 6, more than max_duration=5"),
        ({"min_duration": {"c": 2}}, "segment of 'c' from position 2 on has 1 positions, fewer than its min_duration"),
    ],
)
def test_least_durations_that_cannot_be_are_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        field(**settings).fit(X, Y)


def test_sequences_that_are_too_short_are_named():
    labels = [["a"] * 3, ["b"] * 4]
    crf = field(min_duration=3).fit([np.ones((3, 1)), np.zeros((4, 1))], labels)
    with pytest.raises(ValueError, match="sequence 1: its 2 positions cannot be cut into segments"):
        crf.predict([np.ones((4, 1)), np.ones((2, 1))])
