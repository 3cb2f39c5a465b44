"""Calibrated probabilities of positions, entities and labellings, by either method, for every estimator of labels."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

import kernelfields
from kernelfields import ChainCRF, KernelClassifier, MultiLabelCRF, WindowFeatures
from kernelfields.compat import CRF
from kernelfields.uncertainty import CalibratedField, calibrate
from kernelfields.uncertainty.calibrated_field import Scaling, Steps, event_calibration_error

LINEAR = {"kernel": "linear", "scale": False, "random_state": 0}
LABELS = np.array(["B-x", "I-x", "O"])
METHODS = ("temperature", "isotonic")


def draw(count, seed, length=5):
    random, X, y = np.random.default_rng(seed), [], []
    for _ in range(count):
        numbers = random.integers(3, size=length)
        X.append(np.eye(3)[numbers] + random.normal(size=(length, 3)))
        y.append(LABELS[numbers].tolist())
    return X, y


@pytest.fixture(scope="module")
def crf():
    """A field that believes too much: few sequences, and a weak prior."""
    return ChainCRF(prior_variance=1e4, **LINEAR).fit(*draw(12, 0))


@pytest.mark.parametrize("method", METHODS)
def test_errors_fall_for_positions_entities_and_labellings(crf, method, tmp_path):
    calibrated = calibrate(crf, *draw(400, 1), method=method)
    X, y = draw(600, 2)
    found = calibrated.reliability(X, y)
    assert [row[0] for row in found.rows] == ["positions", "entities", "labellings"]
    for _, number, before, after in found.rows:
        assert number >= 600
        assert after < 0.06 < before
    assert "positions" in str(found)
    for rows in calibrated.predict_marginals(X[:5]):
        np.testing.assert_allclose(rows.sum(axis=1), 1.0)
    plain, mapped = crf.predict_entities(X[:5]), calibrated.predict_entities(X[:5])
    assert [[one[:3] for one in own] for own in plain] == [[one[:3] for one in own] for own in mapped]
    assert any(
        a.probability > b.probability for p, m in zip(plain, mapped, strict=True) for a, b in zip(p, m, strict=True)
    )
    logs = [log for _, log in calibrated.predict_nbest(X[:1], 4)[0]]
    assert logs == sorted(logs, reverse=True)
    assert calibrated.predict(X[:1])[0] == crf.predict(X[:1])[0]
    calibrated.save(tmp_path / "model")
    again = kernelfields.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_marginals(X[:1])[0], calibrated.predict_marginals(X[:1])[0])
    assert again.predict_entities(X[:3]) == mapped[:3]


def test_no_other_temperature_has_a_smaller_loss(crf):
    X, y = draw(100, 1)
    slope = calibrate(crf, X, y).maps_["positions"].slopes
    logs = np.log(np.concatenate(crf.predict_marginals(X)))
    true = np.searchsorted(crf.classes_, np.concatenate(y))

    def loss(factor):
        scaled = factor * slope * logs
        return np.mean(np.logaddexp.reduce(scaled, axis=1) - scaled[np.arange(len(true)), true])

    assert all(loss(1.0) < loss(factor) for factor in (0.9, 0.99, 1.01, 1.1))


@pytest.mark.parametrize("temperature", [0.6, 2.5])
def test_the_temperature_that_labels_were_drawn_at_is_found(crf, temperature):
    random = np.random.default_rng(0)
    X, _ = draw(400, 1)
    powers = [rows ** (1 / temperature) for rows in crf.predict_marginals(X)]
    y = [[random.choice(crf.classes_, p=row / row.sum()) for row in rows] for rows in powers]
    assert 1 / calibrate(crf, X, y).maps_["positions"].slopes == pytest.approx(temperature, rel=0.1)


@pytest.mark.parametrize("method", METHODS)
def test_single_and_several_labels(method):
    random = np.random.default_rng(0)
    numbers = random.integers(3, size=700)
    X = np.eye(3)[numbers] + random.normal(size=(700, 3))
    single = KernelClassifier(prior_variance=1e4, **LINEAR).fit(X[:30], LABELS[numbers[:30]])
    calibrated = calibrate(single, X[30:300], LABELS[numbers[30:300]], method=method)
    np.testing.assert_allclose(calibrated.predict_proba(X[:4]).sum(axis=1), 1.0)
    assert calibrated.reliability(X[300:], LABELS[numbers[300:]]).rows[0][3] < 0.1
    Y = (numbers[:, None] == [0, 1]).astype(int)
    several = MultiLabelCRF(prior_variance=1e4, **LINEAR).fit(X[:30], Y[:30])
    both = calibrate(several, X[30:300], Y[30:300], method=method)
    assert both.reliability(X[300:], Y[300:]).rows[0][3] < 0.08


def test_pipelines_tables_and_other_faces(crf):
    X, y = draw(80, 1)
    inside = make_pipeline(WindowFeatures(widths=(3,)), ChainCRF(prior_variance=1.0, **LINEAR)).fit(*draw(30, 0))
    calibrated = calibrate(inside, X, y)
    np.testing.assert_allclose(calibrated.predict_marginals(X[:1])[0].sum(axis=1), 1.0)
    assert len(calibrated.predict_entities(X[:2])) == len(calibrated.predict_nbest(X[:2], 2)) == 2
    words = [[{"w": str(np.argmax(row))} for row in x] for x in X]
    face = calibrate(CRF(c2=1.0).fit(words[:40], y[:40]), words[40:], y[40:])
    assert sum(face.predict_marginals(words[:1])[0][0].values()) == pytest.approx(1.0)


def test_maps_keep_zeros_and_rise():
    table = np.array([[0.7, 0.3, 0.0], [0.2, 0.2, 0.6]])
    for way in (Scaling(np.array([0.5]), np.zeros(1)), Steps(np.array([0.0, 1.0]), np.array([0.1, 0.9]))):
        rows = way.rows(table)
        assert rows[0, 2] == 0.0
        np.testing.assert_allclose(rows.sum(axis=1), 1.0)
        assert (np.diff(way.events(np.linspace(0, 1, 9))) >= 0).all()
    assert event_calibration_error(np.array([0.9] * 10), np.array([1] * 9 + [0])) == pytest.approx(0.0)
    assert event_calibration_error(np.array([1.0, 0.0]), np.array([0, 1])) == 1.0


def test_partly_known_labels_calibrate_positions_only(crf):
    X, y = draw(60, 1)
    partly = [[*labels[:-1], None] for labels in y]
    calibrated = calibrate(crf, X, partly)
    assert set(calibrated.maps_) == {"positions"}
    with pytest.raises(ValueError, match="had no entities with a probability"):
        calibrated.predict_entities(X)


def test_bad_input(crf):
    X, y = draw(20, 1)
    with pytest.raises(ValueError, match="method must be one of"):
        calibrate(crf, X, y, method="platt")
    with pytest.raises(NotFittedError):
        calibrate(ChainCRF(), X, y)
    with pytest.raises(TypeError, match="estimator must be a fitted estimator"):
        CalibratedField().fit(X, y)
    with pytest.raises(ValueError, match="no label of these items is known"):
        calibrate(crf, X, [[None] * 5] * 20)
    with pytest.raises(ValueError, match="B-z"):
        calibrate(crf, X, [["B-z"] * 5] * 20)
