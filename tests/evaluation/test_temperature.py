"""Temperature scaling: the known temperature is found again, log-loss falls, decisions stay."""

import numpy as np
import pytest

from kernelfields.evaluation import Temperature, brier_score, fit_temperature, marginal_log_loss

CLASSES = ["a", "b", "c"]


def sampled(temperature, n_sequences=400, length=10, seed=0):
    """Marginals, and labels drawn from them at a temperature."""
    random = np.random.default_rng(seed)
    marginals, y = [], []
    for _ in range(n_sequences):
        logs = 2 * random.normal(size=(length, 3))
        stated = np.exp(logs - np.logaddexp.reduce(logs, axis=1)[:, None])
        actual = stated ** (1 / temperature)
        actual /= actual.sum(axis=1, keepdims=True)
        marginals.append(stated)
        y.append([CLASSES[random.choice(3, p=row)] for row in actual])
    return y, marginals


@pytest.mark.parametrize("temperature", [0.6, 1.0, 2.5])
def test_the_temperature_that_labels_were_drawn_at_is_found(temperature):
    y, marginals = sampled(temperature)
    found = fit_temperature(y, marginals, CLASSES)
    assert found.value == pytest.approx(temperature, rel=0.08)
    assert found.log_loss <= found.log_loss_before
    assert found.log_loss_before == pytest.approx(marginal_log_loss(y, marginals, CLASSES), rel=1e-12)
    assert found.log_loss == pytest.approx(marginal_log_loss(y, found(marginals), CLASSES), rel=1e-9)


def test_no_other_temperature_has_a_smaller_loss():
    y, marginals = sampled(1.7, n_sequences=50)
    found = fit_temperature(y, marginals, CLASSES)
    for factor in (0.9, 0.99, 1.01, 1.1):
        other = Temperature(found.value * factor, 0.0, 0.0)
        assert marginal_log_loss(y, other(marginals), CLASSES) > found.log_loss


def test_scaling_keeps_decisions_and_sums_to_one():
    _, marginals = sampled(1.0, n_sequences=5)
    marginals[0][0] = [0.0, 0.3, 0.7]
    for before, after in zip(marginals, Temperature(3.0, 0.0, 0.0)(marginals), strict=True):
        np.testing.assert_allclose(after.sum(axis=1), 1.0, rtol=1e-12)
        np.testing.assert_array_equal(before.argmax(axis=1), after.argmax(axis=1))
        assert (after.max(axis=1) <= before.max(axis=1) + 1e-12).all()
    assert Temperature(3.0, 0.0, 0.0)(marginals)[0][0, 0] == 0.0


def test_losses_of_sequences_add_up():
    y, marginals = sampled(1.0, n_sequences=7)
    y[2], marginals[2] = y[2][:3], marginals[2][:3]
    each = marginal_log_loss(y, marginals, CLASSES, per_sequence=True)
    assert each.shape == (7,)
    expected = -sum(np.log(marginals[2][t, CLASSES.index(label)]) for t, label in enumerate(y[2]))
    assert each[2] == pytest.approx(expected)
    assert each.sum() / 63 == pytest.approx(marginal_log_loss(y, marginals, CLASSES))


def test_perfect_and_impossible_predictions_stay_finite():
    certain = [np.array([[1.0, 0.0], [0.0, 1.0]])]
    found = fit_temperature([["a", "b"]], certain, ["a", "b"])
    assert found.log_loss == 0.0
    wrong = fit_temperature([["b", "a"]], certain, ["a", "b"])
    assert np.isfinite(wrong.log_loss)
    assert wrong.value > 50


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="the label 'd', which is not among the classes"):
        fit_temperature([["a", "d"]], [np.full((2, 3), 1 / 3)], CLASSES)
    with pytest.raises(ValueError, match="no probabilities that add up to 1"):
        fit_temperature([["a"]], [np.array([[0.5, 0.1, 0.1]])], CLASSES)


def test_positions_whose_label_is_not_known_do_not_count():
    y, marginals = sampled(2.0, n_sequences=30)
    gaps = [[None if (i + t) % 3 == 0 else label for t, label in enumerate(labels)] for i, labels in enumerate(y)]
    gaps[4] = None
    known = [[t for t, label in enumerate(labels or []) if label is not None] for labels in gaps]
    kept = [i for i, own in enumerate(known) if own]
    fewer = [[y[i][t] for t in known[i]] for i in kept]
    rows = [marginals[i][known[i]] for i in kept]
    assert fit_temperature(gaps, marginals, CLASSES) == fit_temperature(fewer, rows, CLASSES)
    assert brier_score(gaps, marginals, CLASSES) == brier_score(fewer, rows, CLASSES)
    each = marginal_log_loss(gaps, marginals, CLASSES, per_sequence=True)
    assert each[4] == 0.0
    np.testing.assert_allclose(each[kept], marginal_log_loss(fewer, rows, CLASSES, per_sequence=True))
    with pytest.raises(ValueError, match="y_true has 30 sequences but marginals has 29"):
        fit_temperature(gaps, marginals[:-1], CLASSES)
    with pytest.raises(ValueError, match="no label is known"):
        fit_temperature([None] * 30, marginals, CLASSES)
