"""The reliability diagram draws the bins that evaluation makes, and computes the error where none is given."""

import json
from dataclasses import replace

import numpy as np
import pytest
from parsed_pages import shapes, texts, titles

from kernelfields.evaluation.calibration import expected_calibration_error, reliability_curve
from kernelfields.evaluation.evaluation import evaluate
from kernelfields.reports.reliability import read_reliability, reliability_plot

CLASSES = ["a", "b", "c"]


@pytest.fixture(scope="module")
def drawn_labels():
    """Marginals, and labels drawn from them: perfectly calibrated but for chance."""
    random = np.random.default_rng(0)
    marginals = [random.dirichlet(np.ones(3) / 2, size=30) for _ in range(20)]
    labels = [[CLASSES[random.choice(3, p=row)] for row in rows] for rows in marginals]
    return labels, marginals


def test_marks_are_at_confidence_and_accuracy(drawn_labels):
    labels, marginals = drawn_labels
    curve = reliability_curve(labels, marginals, CLASSES)
    svg = reliability_plot(curve)
    marks = shapes(svg, "circle", "kf-mark")
    filled = curve.counts > 0
    assert len(marks) == filled.sum()
    x = np.array([float(each.get("cx")) for each in marks])
    y = np.array([float(each.get("cy")) for each in marks])
    (diagonal,) = shapes(svg, "line", "kf-tol")
    left, right, bottom, top = (float(diagonal.get(name)) for name in ("x1", "x2", "y1", "y2"))
    np.testing.assert_allclose((x - left) / (right - left), curve.confidence[filled], atol=0.001)
    np.testing.assert_allclose((bottom - y) / (bottom - top), curve.accuracy[filled], atol=0.001)


def test_bars_are_as_high_as_the_counts(drawn_labels):
    labels, marginals = drawn_labels
    curve = reliability_curve(labels, marginals, CLASSES)
    bars = shapes(reliability_plot(curve), "rect", "kf-bar")
    heights = np.array([float(each.get("height")) for each in bars])
    counts = curve.counts[curve.counts > 0]
    np.testing.assert_allclose(heights / heights.max(), counts / counts.max(), atol=0.001)
    for count in counts:
        assert f"{count:,}" in texts(reliability_plot(curve))
    many = reliability_curve(labels, marginals, CLASSES, n_bins=40)
    assert not {f"{count:,}" for count in many.counts if count > 1} & set(texts(reliability_plot(many)))
    assert any(f"{many.counts.max():,} positions" in each for each in titles(reliability_plot(many)))


def test_the_error_is_that_of_evaluation(drawn_labels):
    labels, marginals = drawn_labels
    error = expected_calibration_error(labels, marginals, CLASSES)
    own = read_reliability(reliability_curve(labels, marginals, CLASSES)).expected_error
    assert own[0] == pytest.approx(error, rel=1e-12)
    assert np.isnan(own[1:]).all()
    assert f"expected calibration error {error:.3f}" in texts(
        reliability_plot(reliability_curve(labels, marginals, CLASSES))
    )


def test_a_calibration_brings_its_intervals_also_through_json(drawn_labels):
    labels, marginals = drawn_labels
    found = evaluate(labels, labels, marginals=marginals, classes=CLASSES, n_resamples=50, random_state=0)
    svg = reliability_plot(found.calibration)
    error = found.calibration.expected_error
    assert f"expected calibration error {error:.3f}" in texts(svg)
    filled = np.isfinite(found.calibration.curve.accuracy)
    assert len(shapes(svg, "path", "kf-whisker")) == filled.sum()
    assert reliability_plot(json.loads(json.dumps(found.calibration.to_dict()))) == svg


def test_bins_of_unequal_width_keep_their_edges(drawn_labels):
    labels, marginals = drawn_labels
    curve = reliability_curve(labels, marginals, CLASSES, n_bins=5, strategy="quantile")
    bars = shapes(reliability_plot(curve), "rect", "kf-bar")
    widths = np.array([float(each.get("width")) for each in bars]) + 2
    np.testing.assert_allclose(widths / 560, np.diff(curve.edges)[curve.counts > 0], atol=0.001)


def test_what_is_missing_or_does_not_fit_is_named(drawn_labels):
    curve = reliability_curve(*drawn_labels, CLASSES)
    plain = curve.to_dict()
    with pytest.raises(ValueError, match="has no 'counts'"):
        reliability_plot({name: part for name, part in plain.items() if name != "counts"})
    with pytest.raises(ValueError, match="edges has 10 entries, but 10 bins need 11"):
        reliability_plot({**plain, "edges": plain["edges"][1:]})
    with pytest.raises(ValueError, match="counts are all zero"):
        reliability_plot(replace(curve, counts=np.zeros(10)))
    with pytest.raises(ValueError, match="between 0 and 1"):
        reliability_plot(replace(curve, accuracy=curve.accuracy + 1))
    with pytest.raises(ValueError, match="has no 'edges'"):
        reliability_plot(0.5)
