"""Plots by matplotlib: what is drawn is the data, into the Axes that are given, whatever the labels are called."""

import io
import math
import subprocess
import sys

import numpy as np
import pytest

from kernelfields import plots
from kernelfields.evaluation.calibration import reliability_curve
from kernelfields.evaluation.evaluation import evaluate
from kernelfields.evaluation.resampling import Estimate
from kernelfields.reports.labelled_sequences import LabelledSequence
from kernelfields.solvers.loop import Iteration, Solution

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402
from matplotlib.colors import to_rgb  # noqa: E402

HOSTILE = ["$\\frac{$", "_hidden", "<script>", "a\nb", "x" * 100, "$ok$"]


@pytest.fixture(autouse=True)
def _closed_figures():
    yield
    pyplot.close("all")


def drawn(ax):
    """Draw the whole figure: this is where labels that are no formulas would fail."""
    ax.figure.savefig(io.BytesIO(), format="png")
    return ax


def solution_of(values, bounds):
    pairs = enumerate(zip(values, bounds, strict=True))
    history = [Iteration(i, i + 0.5, 0.1, value, bound, 1.0, 1.0) for i, (value, bound) in pairs]
    last = history[-1]
    return Solution(
        np.zeros(1), "newton", last.value, last.lower_bound, 1.0, len(values), last.passes, 0.1, "gap", history
    )


def test_convergence_draws_value_bound_and_the_band_between():
    values, bounds = [900.0, 400.0, 301.0, 300.1], [-math.inf, 200.0, 299.0, 300.0]
    ax = drawn(plots.plot_convergence(solution_of(values, bounds)))
    upper, lower = ax.lines
    np.testing.assert_array_equal(upper.get_ydata(), values)
    np.testing.assert_array_equal(lower.get_ydata(), bounds[1:])
    np.testing.assert_array_equal(lower.get_xdata(), [1.5, 2.5, 3.5])
    (band,) = ax.collections
    corners = band.get_paths()[0].vertices
    assert {(1.5, 200.0), (1.5, 400.0), (3.5, 300.0), (3.5, 300.1)} <= set(map(tuple, corners))
    assert ax.get_yscale() == "log"
    assert [each.get_text() for each in ax.get_legend().get_texts()] == [
        "value",
        "lower bound",
        "the minimum is here",
    ]


@pytest.mark.parametrize(
    ("values", "bounds"),
    [
        ([5.0], [-math.inf]),
        ([5.0], [5.0]),
        ([5.0, 3.0], [-1e300, -2.0]),
        ([5.0, 4.0], [-1e300, 3.9]),
        ([0.0, 0.0], [0.0, 0.0]),
        ([1e9, 1e-9], [-1e12, 1e-10]),
        (np.geomspace(1e6, 1e3, 300), np.linspace(-1e8, 999.0, 300)),
    ],
)
def test_degenerate_histories_are_drawn(values, bounds):
    low, high = drawn(plots.plot_convergence(solution_of(values, bounds))).get_ylim()
    assert np.isfinite([low, high]).all()
    assert low <= min(values)
    assert high >= max(values)


def test_the_band_reaches_the_floor_of_the_panel_however_low_the_bound():
    ax = plots.plot_convergence(solution_of([5.0, 4.0, 3.0], [-1e300, -1e20, -2.0]))
    ax.figure.canvas.draw()
    pixels = np.asarray(ax.figure.canvas.buffer_rgba())
    panel = ax.get_window_extent()
    column = int(ax.transData.transform((0.9, 4.0))[0])
    rows = pixels[len(pixels) - int(panel.y0 + 0.5 * panel.height) : len(pixels) - int(panel.y0) - 3, column, :3]
    assert len(np.unique(rows, axis=0)) == 1
    assert 150 < rows[0].min() < 250


def test_degrees_are_places_in_order_and_kernels_without_one_stand_alone():
    figures = [Estimate(0.5, 0.4, 0.6), Estimate(0.6, 0.5, 0.7), Estimate(0.9, 0.85, 0.95)]
    ax = drawn(plots.plot_degrees([1, 2, "RBF"], figures))
    assert [each.get_text() for each in ax.get_xticklabels()] == ["1", "2", "RBF"]
    marks = ax.containers[0]
    np.testing.assert_allclose(marks.lines[0].get_ydata(), [0.5, 0.6, 0.9])
    segments = marks.lines[2][0].get_segments()
    np.testing.assert_allclose([segment[:, 1] for segment in segments], [[0.4, 0.6], [0.5, 0.7], [0.85, 0.95]])
    lengths = [len(line.get_xdata()) for line in ax.lines if line.get_linestyle() == "-"]
    assert sorted(lengths) == [1, 2]


def test_several_curves_are_named():
    ax = drawn(plots.plot_degrees([1, 2], {"_a": [0.5, 0.6], "$\\frac{$": [0.6, 0.7]}))
    assert [each.get_text().lstrip("\u2060") for each in ax.get_legend().get_texts()] == ["_a", "$\\frac{$"]
    assert plots.plot_degrees([1], [0.5]).get_legend() is None


def test_rank_has_two_panels_on_logarithmic_axes():
    upper, lower = plots.plot_rank([1000, 10, 100], [0.9, 0.7, 0.8], [1e-3, 1e-1, 0.0])
    drawn(upper)
    np.testing.assert_array_equal(upper.containers[0].lines[0].get_xdata(), [10, 100, 1000])
    np.testing.assert_array_equal(upper.containers[0].lines[0].get_ydata(), [0.7, 0.8, 0.9])
    np.testing.assert_array_equal(lower.containers[0].lines[0].get_ydata(), [1e-1, 1e-16, 1e-3])
    assert (lower.get_xscale(), lower.get_yscale(), upper.get_yscale()) == ("log", "log", "linear")
    assert [each.get_text() for each in lower.get_xticklabels()] == ["10", "100", "1,000"]


def test_reliability_draws_the_bins_their_counts_and_the_error():
    random = np.random.default_rng(0)
    marginals = [random.dirichlet(np.ones(3), size=30) for _ in range(10)]
    labels = [["abc"[random.choice(3, p=row)] for row in rows] for rows in marginals]
    found = evaluate(labels, labels, marginals=marginals, classes=list("abc"), n_resamples=20, random_state=0)
    curve = found.calibration.curve
    filled = curve.counts > 0
    ax = drawn(plots.plot_reliability(found.calibration))
    marks = ax.containers[0]
    np.testing.assert_allclose(marks.lines[0].get_xdata(), curve.confidence[filled])
    np.testing.assert_allclose(marks.lines[0].get_ydata(), curve.accuracy[filled])
    ends = np.array([segment[:, 1] for segment in marks.lines[2][0].get_segments()])
    np.testing.assert_allclose(ends[:, 0], np.minimum(curve.accuracy_low, curve.accuracy)[filled], atol=1e-12)
    counts = ax.child_axes[-1]
    assert [bar.get_height() for bar in counts.patches] == curve.counts.tolist()
    assert counts.get_title() == f"expected calibration error {found.calibration.expected_error:.3f}"
    drawn(plots.plot_reliability(reliability_curve(labels, marginals, list("abc"), n_bins=40)))


def test_transitions_are_the_scores_with_crosses_where_forbidden():
    scores = np.array([[1.0, -2.0], [0.0, 3.0]])
    ax = drawn(plots.plot_transitions(scores, ["a", "b"], [[False, True], [False, False]]))
    (image,) = ax.images
    shown = image.get_array()
    assert shown.mask.tolist() == [[False, True], [False, False]]
    assert shown[1, 1] == 3.0
    assert image.get_clim() == (-3.0, 3.0)
    assert [each.get_text() for each in ax.texts] == ["×", "+1.00", "", "+3.00"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("to", "from")


def test_many_labels_are_drawn_without_numbers():
    ax = drawn(plots.plot_transitions(np.random.default_rng(0).normal(size=(60, 60)), range(60)))
    assert len(ax.texts) == 0
    assert ax.get_xlabel() == "to (the 50 labels with the strongest scores of 60)"


def test_a_sequence_is_stacks_that_add_up_to_one():
    marginals = np.random.default_rng(0).dirichlet(np.ones(20) / 5, size=6)
    classes = [f"L{index}" for index in range(20)]
    labels = [classes[index] for index in marginals.argmax(axis=1)]
    truth = ["L0", *labels[1:]]
    ax = drawn(plots.plot_sequence(LabelledSequence(labels, marginals, classes, list("abcdef"), truth)))
    heights = np.sum([[bar.get_height() for bar in stack] for stack in ax.containers], axis=0)
    np.testing.assert_allclose(heights, 1.0, atol=1e-9)
    assert [each.get_text() for each in ax.get_xticklabels()] == list("abcdef")
    named = [each.get_text() for each in ax.get_legend().get_texts()]
    assert set(labels) <= set(named)
    assert named[-1].endswith(" others")
    crosses = [each.get_text() for each in ax.texts if "✗" in each.get_text()]
    assert crosses == ([] if labels[0] == "L0" else [f"✗ {labels[0]} (L0)"])


def test_entity_types_share_a_hue_and_tags_can_be_told_apart():
    shown = LabelledSequence(["B-X", "I-X", "O"], np.eye(3), ["B-X", "I-X", "O"])
    colours = [to_rgb(stack.patches[0].get_facecolor()) for stack in plots.plot_sequence(shown).containers]
    assert len(set(colours)) == 3
    assert max(colours[2]) - min(colours[2]) < 0.1  # outside is grey
    for colour in colours[:2]:
        assert int(np.argmax(colour)) == 2


def test_long_sequences_are_drawn_without_words():
    shown = LabelledSequence(["a"] * 500, np.tile([0.75, 0.25], (500, 1)), ["a", "b"])
    assert len(drawn(plots.plot_sequence(shown)).texts) == 0


def test_labels_that_look_like_formulas_are_text():
    n = len(HOSTILE)
    drawn(plots.plot_transitions(np.eye(n), HOSTILE))
    drawn(plots.plot_degrees(HOSTILE, {name: [0.5] * n for name in HOSTILE}))
    ax = drawn(plots.plot_sequence(LabelledSequence(HOSTILE, np.eye(n), HOSTILE, HOSTILE, HOSTILE[::-1])))
    assert ax.get_xticklabels()[0].get_text() == HOSTILE[0]
    assert max(len(each.get_text()) for each in ax.get_xticklabels()) <= 24
    assert "a\\nb" in [each.get_text() for each in ax.get_xticklabels()]


def test_axes_that_are_given_are_used():
    figure, axes = pyplot.subplots(2, 3)
    shown = LabelledSequence(["a"], [[1.0]], ["a"])
    curve = reliability_curve([["a", "b"]], [[[0.75, 0.25], [0.5, 0.5]]], ["a", "b"])
    assert plots.plot_convergence(solution_of([5.0, 3.0], [1.0, 2.9]), axes[0, 0]) is axes[0, 0]
    assert plots.plot_degrees([1], [0.5], axes[0, 1]) is axes[0, 1]
    assert plots.plot_transitions(np.eye(2), "ab", ax=axes[0, 2]) is axes[0, 2]
    assert plots.plot_sequence(shown, axes[1, 0]) is axes[1, 0]
    assert plots.plot_reliability(curve, axes[1, 1]) is axes[1, 1]
    assert pyplot.get_fignums() == [figure.number]
    pair = pyplot.subplots(2)[1]
    assert plots.plot_rank([1], [0.5], [0.1], pair) is pair
    with pytest.raises(ValueError, match="axes must hold 2 Axes, one for each panel, got Axes"):
        plots.plot_rank([1], [0.5], [0.1], axes[0, 0])


def test_style_and_backend_are_left_alone():
    before = dict(matplotlib.rcParams)
    drawn(plots.plot_convergence(solution_of([5.0, 3.0], [1.0, 2.9])))
    assert dict(matplotlib.rcParams) == before


def test_what_cannot_be_drawn_is_named():
    with pytest.raises(TypeError, match=r"plot_sequence takes what show\(\) returns"):
        plots.plot_sequence([1, 2])
    with pytest.raises(ValueError, match="has no positions"):
        plots.plot_sequence(LabelledSequence([], np.zeros((0, 2)), ["a", "b"]))
    with pytest.raises(ValueError, match="degrees is empty"):
        plots.plot_degrees([], [])
    with pytest.raises(ValueError, match="no history with a finite value"):
        plots.plot_convergence(solution_of([math.nan], [-math.inf]))


def test_matplotlib_loads_on_the_first_plot_only():
    code = "import sys, kernelfields.plots; sys.exit('matplotlib' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
