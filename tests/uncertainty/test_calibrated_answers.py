"""Every answer of a calibrated field: a distribution for each position, the same by every road, or a refusal."""

import itertools

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from kernelfields import (
    ChainCRF,
    ChainCRFCV,
    FrameCRF,
    GraphCRF,
    KernelClassifier,
    MultiLabelCRF,
    PartialLabels,
    RingCRF,
    SegmentCRF,
    SequenceClassifier,
    evaluate,
)
from kernelfields.compat import CRF
from kernelfields.models.position_loss import position_loss
from kernelfields.uncertainty import calibrate
from tests.uncertainty.two_labels import HELD, LABELS, LINEAR, NEW, X, Y, frame_of, same

METHODS = ("temperature", "isotonic")
ROWS, HELD_ROWS = np.concatenate(X), np.concatenate(HELD)
SEVERAL, HELD_SEVERAL = (np.column_stack([rows > 0, rows[:, :1] > 1]).astype(int) for rows in (ROWS, HELD_ROWS))
CLASSES, HELD_CLASSES = ([max(labels) for labels in y] for y in (Y, LABELS))
ALLOWED = {"a": {"a", "b"}, "b": {"b"}}


def graphs(X):
    return [(x, [[0, 1], [1, 2], [2, 3], [3, 0]]) for x in X]


FIELDS = {
    "chain": (ChainCRF(**LINEAR), (X, Y), (HELD, LABELS)),
    "ring": (RingCRF(**LINEAR), (X, Y), (HELD, LABELS)),
    "segments": (SegmentCRF(max_duration=4, **LINEAR), (X, Y), (HELD, LABELS)),
    "graphs": (GraphCRF(inference="junction", **LINEAR), (graphs(X), Y), (graphs(HELD), LABELS)),
    "several": (MultiLabelCRF(**LINEAR), (ROWS, SEVERAL), (HELD_ROWS, HELD_SEVERAL)),
    "single": (KernelClassifier(**LINEAR), (ROWS, np.concatenate(Y)), (HELD_ROWS, np.concatenate(LABELS))),
    "whole": (SequenceClassifier(n_states=1, **LINEAR), (X, CLASSES), (HELD, HELD_CLASSES)),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", FIELDS)
def test_answers_have_the_form_of_the_field_and_are_distributions(name, method):
    estimator, (X, y), (held, labels) = FIELDS[name]
    field = estimator.fit(X, y)
    model = calibrate(field, held, labels, method=method)
    rows = model.maps_["positions"].rows
    assert same(model.predict(held), field.predict(held))
    assert model.score(held, labels) == field.score(held, labels)
    if hasattr(field, "predict_marginals"):
        found, plain = model.predict_marginals(held), field.predict_marginals(held)
        assert type(found) is type(plain)
        for own, before in zip(found, plain, strict=True):
            np.testing.assert_allclose(np.sum(own, axis=-1), 1.0)
            np.testing.assert_allclose(own, rows(np.atleast_2d(before)).reshape(before.shape))
    if isinstance(field, ChainCRF | SegmentCRF | GraphCRF):
        assert same(model.predict_proba(held), model.predict_marginals(held))
    elif hasattr(field, "predict_proba"):
        chances = model.predict_proba(held)
        assert chances.shape == field.predict_proba(held).shape
        if name == "several":
            np.testing.assert_array_equal(chances, model.predict_marginals(held)[..., 1])
        else:
            np.testing.assert_allclose(chances.sum(axis=1), 1.0)
            np.testing.assert_allclose(np.exp(model.predict_log_proba(held)), chances)
            for own, ranked in zip(chances, model.predict_nbest(held, 2), strict=True):
                assert [np.exp(log) for _, log in ranked] == pytest.approx(sorted(own, reverse=True))


def test_segments_and_sets_of_labels_have_the_maps_of_entities_and_labellings():
    estimator, data, held = FIELDS["segments"]
    field = estimator.fit(*data)
    model = calibrate(field, *held)
    ways = model.maps_["entities"].events
    for own, before in zip(model.predict_segments(NEW), field.predict_segments(NEW), strict=True):
        assert [segment[:3] for segment in own] == [segment[:3] for segment in before]
        expected = ways(np.array([segment.probability for segment in before]))
        assert [segment.probability for segment in own] == pytest.approx(expected)
    shown = model.show(NEW[0])
    np.testing.assert_array_equal(shown.marginals, model.predict_marginals(NEW[:1])[0])
    assert [own[3] for own in shown.segments] == [own.probability for own in model.predict_segments(NEW[:1])[0]]
    estimator, data, held = FIELDS["several"]
    field = estimator.fit(*data)
    model = calibrate(field, *held)
    np.testing.assert_array_equal(model.predict_joint(ROWS)[0], field.predict_joint(ROWS)[0])
    expected = model.maps_["labellings"].events(field.predict_joint(ROWS)[1])
    np.testing.assert_array_equal(model.predict_joint(ROWS)[1], expected)


@pytest.mark.parametrize("method", METHODS)
def test_impossible_labels_stay_so_and_the_others_share_what_is_left(method):
    """Calibrated marginals are p^(1/T) over its sum, where that sum is over the possible labels alone."""
    random = np.random.default_rng(0)
    X = [random.normal(size=(4, 2)) for _ in range(40)]
    y = [random.choice(list("abc"), size=4).tolist() for _ in X]
    y[0] = list("abca")
    field = ChainCRF(constraints=[("a", "c")], **LINEAR | {"prior_variance": 9.0})
    field.set_params(partial_labels=PartialLabels(classes=["a", "b", "c"]))
    field.fit(X[:15], [[*labels[:1], None, None, labels[3]] for labels in y[:15]])
    mended = [[label if label != "c" else "b" for label in labels] for labels in y[15:]]
    model = calibrate(field, X[15:], mended, method=method)
    known = [["a", None, {"a", "b"}, None]]
    found, plain = (own.predict_marginals(X[:1], known=known)[0] for own in (model, field))
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(found == 0.0, plain == 0.0)
    if method == "temperature":
        powers = plain ** model.maps_["positions"].slopes
        np.testing.assert_allclose(found, powers / powers.sum(axis=1, keepdims=True))


def test_the_temperature_does_not_depend_on_labels_that_are_impossible():
    """A column of zeros beside two labels leaves their best temperature as it is."""
    random = np.random.default_rng(0)
    table = random.dirichlet([1.0, 1.0], size=200)
    true = (random.random(200) < 0.5).astype(int)
    wide = np.column_stack([table, np.zeros(200)])
    alone = position_loss(table, true).temperature
    assert alone > 1.5
    assert position_loss(wide, true, possible=wide > 0).temperature == pytest.approx(alone, rel=1e-4)


# ---- wrappers inside


def test_tables_are_calibrated_as_their_sequences_are():
    table, held, new = frame_of(X, Y), frame_of(HELD, LABELS), frame_of(NEW)
    frame, chain = FrameCRF(ChainCRF(**LINEAR)).fit(table), ChainCRF(**LINEAR).fit(X, Y)
    model, plain = calibrate(frame, held, held.label), calibrate(chain, HELD, LABELS)
    assert same(calibrate(frame, held, None).maps_["positions"].slopes, plain.maps_["positions"].slopes)
    assert same(calibrate(frame, held).predict_entities(new), plain.predict_entities(NEW))
    new["given"] = ["a", None, None, "b"] * len(NEW)
    known = [["a", None, None, "b"]] * len(NEW)
    marginals = model.predict_marginals(new, known="given")
    assert marginals.index.equals(new.index)
    np.testing.assert_array_equal(marginals, np.concatenate(plain.predict_marginals(NEW, known=known)))
    with pytest.warns(UserWarning, match="marginals of cliques are those of the estimator"):
        marginals, pairs = model.predict_marginals(new, cliques="edge")
    np.testing.assert_array_equal(marginals, np.concatenate(plain.predict_marginals(NEW)))
    assert same(list(pairs), list(chain.predict_marginals(NEW, cliques="edge")[1]))
    assert same(model.predict_nbest(new, 2), plain.predict_nbest(NEW, 2))
    first = new[new["sequence"] == 0]
    np.testing.assert_array_equal(model.show(first).marginals, plain.show(NEW[0]).marginals)
    np.testing.assert_array_equal(model.coef_["node"], chain.coef_["node"])
    assert model.reliability(held).rows == plain.reliability(HELD, LABELS).rows


def test_evaluations_judge_what_is_calibrated():
    table, held = frame_of(X, Y), frame_of(HELD, LABELS)
    frame, chain = FrameCRF(ChainCRF(**LINEAR)).fit(table), ChainCRF(**LINEAR).fit(X, Y)
    search = ChainCRFCV(ChainCRF("linear", scale=False), prior_variances=(1.0, 10.0), cv=2, random_state=0).fit(X, Y)
    errors = [
        evaluate(calibrate(model, *data), *asked).calibration.expected_error.value
        for model, data, asked in (
            (chain, (HELD, LABELS), (HELD, LABELS)),
            (frame, (held, held.label), (held,)),
            (search, (HELD, LABELS), (HELD, LABELS)),
            (search.best_estimator_, (HELD, LABELS), (HELD, LABELS)),
        )
    ]
    assert errors[0] == errors[1]
    assert errors[2] == errors[3]
    assert errors[0] != evaluate(chain, HELD, LABELS).calibration.expected_error.value


def test_the_face_of_sklearn_crfsuite_keeps_its_form():
    words, held = ([[{"w": f"{row[0]:.1f}"} for row in x] for x in items] for items in (X, HELD))
    face = CRF(c2=1.0).fit(words, Y)
    model = calibrate(face, held, LABELS)
    assert type(model.predict_marginals(words[:2])) is type(face.predict_marginals(words[:2]))
    for own in itertools.chain.from_iterable(model.predict_marginals(words[:2])):
        assert list(own) == ["a", "b"]
        assert sum(own.values()) == pytest.approx(1.0)


# ---- what has no calibrated answer


@pytest.mark.parametrize(
    "name", ["log_likelihood", "entropy", "sample", "predict_boundaries", "stream", "decision_function"]
)
def test_what_follows_from_whole_labellings_is_refused(name):
    model = calibrate(ChainCRF(**LINEAR).fit(X, Y), HELD, LABELS)
    assert not hasattr(model, name)
    with pytest.raises(AttributeError, match=f"CalibratedField has no {name}: it concerns whole labellings"):
        getattr(model, name)


@pytest.mark.parametrize("name", ["partial_fit", "laplace"])
def test_what_changes_the_field_is_refused(name):
    model = calibrate(ChainCRF(**LINEAR).fit(X, Y), HELD, LABELS)
    with pytest.raises(AttributeError, match=f"has no {name}: it changes the field. Ask estimator for it, then calib"):
        getattr(model, name)


def test_bad_questions_are_refused_in_one_line():
    field = ChainCRF(**LINEAR).fit(X, Y)
    model = calibrate(field, HELD, LABELS)
    with pytest.raises(ValueError, match="uncertainty=True is another correction than calibration"):
        model.predict_marginals(NEW, uncertainty=True)
    with pytest.raises(ValueError, match="y is None: calibration needs labels"):
        calibrate(field, HELD, None)
    with pytest.raises(AttributeError, match="ChainCRF has no predict_log_proba: take the logarithm"):
        model.predict_log_proba(NEW)
    with pytest.raises(NotFittedError):
        model.around(ChainCRF()).predict_marginals(NEW)
