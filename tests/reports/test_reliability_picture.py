"""The reliability diagram draws the bins and the error that evaluation makes."""

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
    found = calibration(drawn_labels)
    curve, picture = found.curve, plot_reliability(found)
    filled = curve.counts > 0
    marks, counts = parts(picture)
    np.testing.assert_allclose(marks.lines[0].get_xdata(), curve.confidence[filled])
    np.testing.assert_allclose(marks.lines[0].get_ydata(), curve.accuracy[filled])
    assert marks.lines[2] == ()  # a curve without intervals has no whiskers
    error = found.expected_error.value
    assert counts.get_title() == f"expected calibration error {error:.3f}"
    assert picture.description == f"reliability diagram, expected calibration error {error:.3f}"


def test_bars_are_as_high_and_as_wide_as_the_bins(drawn_labels):
    for n_bins in (5, 10):
        found = calibration(drawn_labels, n_bins)
        _, counts = parts(plot_reliability(found))
        assert [bar.get_height() for bar in counts.patches] == found.curve.counts.tolist()
        np.testing.assert_allclose([bar.get_width() for bar in counts.patches], np.diff(found.curve.edges))


def test_counts_are_written_where_they_fit(drawn_labels):
    few, many = (calibration(drawn_labels, n) for n in (10, 40))
    svg = plot_reliability(few).markup()
    assert {f"{count:,}" for count in few.curve.counts if count} <= set(texts(svg))
    svg = plot_reliability(many).markup()
    assert not {f"{count:,}" for count in many.curve.counts if count > 1} & set(texts(svg))


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


def test_what_does_not_fit_is_named():
    with pytest.raises(ValueError, match="expected the calibration of an evaluation, got float"):
        plot_reliability(0.5)
