"""Prediction sets that do not depend on how many items are asked at once, nor outlive the field they were made for."""

import numpy as np
import pytest

from kernelfields import ChainCRF, ConformalField, FrameCRF
from kernelfields.kernels import RBF
from tests.uncertainty.two_labels import HELD, LABELS, LINEAR, NEW, X, Y, draw, frame_of

TARGETS = ("positions", "labellings", "entities")
GROUPED = [*[(target, None) for target in TARGETS], ("positions", "label"), ("entities", "label")]


def coarse(count, seed):
    """Sequences whose inputs take few values, so that many marginals are those of the calibration."""
    random = np.random.default_rng(seed)
    X = [random.integers(-1, 2, size=(random.integers(2, 6), 2)).astype(float) for _ in range(count)]
    return X, [np.where(x[:, 0] + random.normal(size=len(x)) > 0, "a", "b").tolist() for x in X]


@pytest.mark.parametrize(("target", "groups"), GROUPED)
def test_sets_one_by_one_are_those_of_a_batch(target, groups):
    field = ChainCRF(RBF(0.5), rank=8, prior_variance=1.0, scale=False, random_state=0).fit(*coarse(40, 0))
    held, (new, _) = coarse(60, 1), coarse(15, 2)
    for level in (0.3,) if target == "labellings" else (0.6, 0.7):
        sets = ConformalField(field, confidence_level=level, target=target, groups=groups, allow_empty=True, limit=20)
        batch = sets.conformalize(*held).predict_set(new)
        for one, other in zip(batch, [sets.predict_set([x])[0] for x in new], strict=True):
            if target == "positions":
                assert one == other
                continue
            own, others = (
                {tuple(span[:3]) for span in found.spans}
                if target == "entities"
                else {tuple(labels) for labels, _ in found.labellings}
                for found in (one, other)
            )
            assert own == others
            assert one.everything == other.everything


@pytest.mark.parametrize(("target", "groups"), GROUPED)
def test_a_score_at_the_threshold_is_in_the_set_whatever_its_last_digit(target, groups):
    """Kernels of one row and of many differ in the last digit, and a score of the calibration is the threshold."""
    field = ChainCRF(**LINEAR).fit(X, Y)
    sets = ConformalField(field, target=target, allow_empty=True).conformalize(HELD, LABELS)
    sets.groups = groups
    scores = {
        "positions": field.predict_marginals(NEW[:1])[0][0, 0],
        "labellings": -field.predict_nbest(NEW[:1], 1)[0][0][1],
        "entities": next(own[0].probability for own in field.predict_entities(HELD) if own),
    }
    found = []
    for threshold in (scores[target], np.nextafter(scores[target], 0.0), np.nextafter(scores[target], 9.0)):
        sets.thresholds_ = dict.fromkeys(("all",) if groups is None else ("a", "b"), threshold)
        found.append(str(sets.predict_set([*NEW, *HELD])))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("target", TARGETS)
def test_a_batch_changes_the_field_and_takes_the_thresholds_with_it(target):
    """Sets of a field that has learnt since hold everything, as those without calibration items do."""
    field = ChainCRF(RBF(0.5), rank=8, prior_variance=1.0, scale=False, random_state=0).partial_fit(X[:15], Y[:15])
    before = field.predict_marginals(NEW)
    sets = ConformalField(field, confidence_level=0.6, target=target).conformalize(HELD, LABELS)
    assert sets.partial_fit(X[15:], Y[15:]) is sets
    np.testing.assert_array_equal(np.concatenate(field.predict_marginals(NEW)), np.concatenate(before))
    assert sets.thresholds_ == {}
    with pytest.warns(UserWarning, match="the estimator has learnt since the calibration: sets hold everything until"):
        found = sets.predict_set(NEW)
    assert all(
        sorted(map(len, own)) == [2] * 4 if target == "positions" else own.everything or len(own.labellings) == 16
        for own in found
    )
    afresh = ChainCRF(RBF(0.5), rank=8, prior_variance=1.0, scale=False, random_state=0)
    afresh.partial_fit(X[:15], Y[:15]).partial_fit(X[15:], Y[15:])
    expected = ConformalField(afresh, confidence_level=0.6, target=target).conformalize(HELD, LABELS)
    assert sets.conformalize(HELD, LABELS).thresholds_ == expected.thresholds_


def test_a_batch_reaches_tables_and_begins_a_fit():
    frame = FrameCRF(ChainCRF(RBF(0.5), rank=8, prior_variance=1.0, random_state=0)).partial_fit(frame_of(X, Y))
    before = frame.predict_marginals(frame_of(NEW))
    sets = ConformalField(frame).conformalize(frame_of(HELD, LABELS))
    by_rows = ConformalField(frame).conformalize(frame_of(HELD), frame_of(HELD, LABELS).label)
    assert sets.thresholds_ == by_rows.thresholds_
    assert sets.coverage(frame_of(HELD, LABELS)).coverage >= 0.9
    more, labels = draw(10, 5)
    sets.partial_fit(frame_of(more, labels))
    assert frame.predict_marginals(frame_of(NEW)).equals(before)
    assert not sets.predict_marginals(frame_of(NEW)).equals(before)
    passed = ConformalField(frame).partial_fit(frame_of(more, labels))
    assert passed.predict_marginals(frame_of(NEW)).equals(sets.predict_marginals(frame_of(NEW)))
    fresh = ConformalField(ChainCRF(RBF(0.5), rank=8, prior_variance=1.0, scale=False, random_state=0))
    assert fresh.partial_fit(X, Y).conformalize(HELD, LABELS).predict_set(NEW)


def test_the_posterior_around_a_fit_is_asked_of_the_estimator():
    sets = ConformalField(ChainCRF(**LINEAR).fit(X, Y)).conformalize(HELD, LABELS)
    with pytest.raises(AttributeError, match="ConformalField has no laplace: it changes the estim"):
        sets.laplace(X, Y)


def test_items_that_were_cast_are_refused_for_calibration():
    with pytest.raises(ValueError, match="100% of these items were in the fit"):
        ConformalField(ChainCRF(**LINEAR).fit(X, Y)).conformalize([x.astype(np.float32) for x in X], Y)


def test_a_calibration_needs_labels():
    with pytest.raises(ValueError, match="y is None: calibration needs labels"):
        ConformalField(ChainCRF(**LINEAR).fit(X, Y)).conformalize(HELD)
