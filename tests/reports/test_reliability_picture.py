"""The reliability diagram draws the bins that evaluation makes, and computes the error where none is given."""

from dataclasses import replace

import numpy as np
import pytest
from parsed_pages import texts

from kernelfields.evaluation import evaluate
from kernelfields.reports import plot_reliability

CLASSES = ["a", "b", "c"]


@pytest.fixture(scope="module")
def drawn_labels():
    """Marginals, and labels drawn from them: perfectly calibrated but for chance."""
    random = np.random.default_rng(0)
    marginals = [random.dirichlet(np.ones(3) / 2, size=30) for _ in range(20)]
    labels = [[CLASSES[random.choice(3, p=row)] for row in rows] for rows in marginals]
    return labels, marginals


def calibration(drawn_labels, n_bins=10):
    labels, marginals = drawn_labels
    return evaluate(labels, labels, marginals=marginals, classes=CLASSES, n_bins=n_bins, n_resamples=0).calibration


def parts(picture):
    """Marks with their whiskers, and the Axes of the counts."""
    (panel,) = picture.axes
    return panel.containers[0], panel.child_axes[-1]


def test_marks_are_at_confidence_and_accuracy(drawn_labels):
    curve = calibration(drawn_labels).curve
    filled = curve.counts > 0
    marks, _ = parts(plot_reliability(curve))
    np.testing.assert_allclose(marks.lines[0].get_xdata(), curve.confidence[filled])
    np.testing.assert_allclose(marks.lines[0].get_ydata(), curve.accuracy[filled])
    assert marks.lines[2] == ()  # a curve without intervals has no whiskers


def test_bars_are_as_high_and_as_wide_as_the_bins(drawn_labels):
    for n_bins in (5, 10):
        curve = calibration(drawn_labels, n_bins).curve
        _, counts = parts(plot_reliability(curve))
        assert [bar.get_height() for bar in counts.patches] == curve.counts.tolist()
        np.testing.assert_allclose([bar.get_width() for bar in counts.patches], np.diff(curve.edges))


def test_counts_are_written_where_they_fit(drawn_labels):
    few, many = (calibration(drawn_labels, n).curve for n in (10, 40))
    svg = plot_reliability(few).markup()
    assert {f"{count:,}" for count in few.counts if count} <= set(texts(svg))
    svg = plot_reliability(many).markup()
    assert not {f"{count:,}" for count in many.counts if count > 1} & set(texts(svg))


def test_the_error_is_that_of_evaluation(drawn_labels):
    found = calibration(drawn_labels)
    error, picture = found.expected_error.value, plot_reliability(found.curve)
    assert parts(picture)[1].get_title() == f"expected calibration error {error:.3f}"
    assert picture.description == f"reliability diagram, expected calibration error {error:.3f}"


def test_a_calibration_brings_its_intervals(drawn_labels):
    labels, marginals = drawn_labels
    found = evaluate(labels, labels, marginals=marginals, classes=CLASSES, n_resamples=50, random_state=0)
    curve = found.calibration.curve
    filled = curve.counts > 0
    picture = plot_reliability(found.calibration)
    marks, counts = parts(picture)
    ends = np.array([segment[:, 1] for segment in marks.lines[2][0].get_segments()])
    np.testing.assert_allclose(ends[:, 0], np.minimum(curve.accuracy_low, curve.accuracy)[filled], atol=1e-12)
    np.testing.assert_allclose(ends[:, 1], np.maximum(curve.accuracy_high, curve.accuracy)[filled], atol=1e-12)
    assert counts.get_title() == f"expected calibration error {found.calibration.expected_error:.3f}"


def test_what_is_missing_or_does_not_fit_is_named(drawn_labels):
    curve = calibration(drawn_labels).curve
    with pytest.raises(ValueError, match="counts are all zero"):
        plot_reliability(replace(curve, counts=np.zeros(10)))
    with pytest.raises(ValueError, match="expected a Calibration or ReliabilityCurve, got float"):
        plot_reliability(0.5)
