"""Calibration equals its definition, summed bin by bin and label by label."""

import numpy as np
import pytest
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss

from kernelfields.evaluation import evaluate

CLASSES = np.array(["a", "b", "c"])


def sequences(n_sequences=40, n_classes=3, sharpness=1.0, seed=0):
    """Marginals, and labels drawn from them: calibrated by construction."""
    random = np.random.default_rng(seed)
    lengths = random.integers(1, 7, size=n_sequences)
    marginals = [random.dirichlet(np.full(n_classes, sharpness), size=length) for length in lengths]
    labels = [CLASSES[[random.choice(n_classes, p=row) for row in rows]] for rows in marginals]
    return labels, marginals


Y, MARGINALS = sequences()
FLAT, TABLE = np.concatenate(Y), np.concatenate(MARGINALS)


def calibration(labels, marginals, classes=CLASSES, n_bins=10):
    found = evaluate(labels, labels, marginals=marginals, classes=classes, n_bins=n_bins, n_resamples=0)
    return found.calibration


def test_curve_and_error_are_sums_over_bins():
    n_bins = 5
    found = calibration(Y, MARGINALS, n_bins=n_bins)
    curve = found.curve
    confidence, right = TABLE.max(axis=1), CLASSES[TABLE.argmax(axis=1)] == FLAT
    error = 0.0
    assert len(curve.edges) == n_bins + 1
    for low, high, count, mean, share in zip(
        curve.edges[:-1], curve.edges[1:], curve.counts, curve.confidence, curve.accuracy, strict=True
    ):
        inside = (confidence > low) & (confidence <= high)
        assert count == inside.sum()
        if count:
            error += inside.mean() * abs(right[inside].mean() - confidence[inside].mean())
        else:
            assert np.isnan([mean, share]).all()
    assert found.expected_error.value == pytest.approx(error, rel=1e-12)
    assert (curve.counts == 0).any()
    shares, means = calibration_curve(right, confidence, n_bins=n_bins)
    np.testing.assert_allclose(curve.confidence[curve.counts > 0], means, rtol=1e-13)
    np.testing.assert_allclose(curve.accuracy[curve.counts > 0], shares, rtol=1e-13)


def test_brier_score_is_its_definition():
    truth = FLAT[:, None] == CLASSES
    expected = np.mean(np.sum((TABLE - truth) ** 2, axis=1))
    assert calibration(Y, MARGINALS).brier.value == pytest.approx(expected, rel=1e-13)
    labels, marginals = sequences(n_classes=2, seed=1)
    one = brier_score_loss(np.concatenate(labels) == "b", np.concatenate(marginals)[:, 1])
    assert calibration(labels, marginals, CLASSES[:2]).brier.value == pytest.approx(2 * one, rel=1e-13)


def test_labels_drawn_from_the_marginals_are_calibrated_and_shuffled_ones_are_not():
    labels, marginals = sequences(4000, sharpness=0.3, seed=2)
    assert calibration(labels, marginals).expected_error.value < 0.015
    backwards = [rows[:, ::-1] for rows in marginals]
    assert calibration(labels, backwards).expected_error.value > 0.3


def test_a_label_the_classes_do_not_know_has_probability_zero():
    marginals = [[[0.8, 0.2], [0.4, 0.6]]]
    found = evaluate([["new", "b"]], [["a", "b"]], marginals=marginals, classes=["a", "b"], n_resamples=0)
    expected = ((0.64 + 0.04 + 1) + (0.16 + 0.16)) / 2
    assert found.calibration.brier.value == pytest.approx(expected, rel=1e-14)
    assert found.calibration.curve.accuracy[7] == 0.0
    assert found.calibration.expected_error.value == pytest.approx((0.8 + 0.4) / 2, rel=1e-14)


@pytest.mark.parametrize(
    ("marginals", "classes", "words"),
    [
        (MARGINALS, None, "marginals need classes, .* pass classes=crf.classes_"),
        (MARGINALS[:-1], CLASSES, "for each of the 40 sequences, got 39"),
        (3, CLASSES, "for each of the 40 sequences, got int"),
        (MARGINALS, CLASSES[:2], r"marginals of sequence 0 have shape \(\d, 3\), expected \(\d, 2\)"),
        ([*MARGINALS[:5], MARGINALS[5][:-1], *MARGINALS[6:]], CLASSES, "marginals of sequence 5 have shape"),
        ([0.5] * 40, CLASSES, r"marginals of sequence 0 have shape \(\)"),
        ([*MARGINALS[:5], [["x"]], *MARGINALS[6:]], CLASSES, "sequence 5 are no table of numbers"),
        ([*MARGINALS[:5], 2 * MARGINALS[5], *MARGINALS[6:]], CLASSES, "sequence 5, position 0 are no probab"),
        ([*MARGINALS[:5], np.nan * MARGINALS[5], *MARGINALS[6:]], CLASSES, "sequence 5, position 0 are no probab"),
        (MARGINALS, ["a", "b", "b"], "classes must be a list of different labels"),
        (MARGINALS, "abc", "classes must be a list of different labels"),
        (MARGINALS, [0, 1, 2], "none of the labels of y_true is among the classes: 'a', but"),
    ],
)
def test_marginals_that_do_not_fit(marginals, classes, words):
    with pytest.raises(ValueError, match=words):
        calibration(Y, marginals, classes)


@pytest.mark.parametrize("n_bins", [0, 2.0])
def test_bins_are_checked(n_bins):
    with pytest.raises(ValueError, match=f"n_bins must be a whole number of at least 1, got {n_bins}"):
        calibration(Y, MARGINALS, n_bins=n_bins)
