"""Paths of structure searches by matplotlib: the figures are the data, names are text."""

import io

import numpy as np
import pytest

from kernelfields import plots
from kernelfields.structure.search import StructurePath, StructureStep

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402


@pytest.fixture(autouse=True)
def _closed_figures():
    yield
    pyplot.close("all")


def path_of(scores=(None, None, None), names=("lag2", "$\\frac{$")):
    steps = [
        StructureStep(None, 100.0, 0.1, score=scores[0]),
        StructureStep(names[0], 80.0, 0.1, 50.0, 30.0, 20.0, {}, scores[1]),
        StructureStep(names[1], 79.0, 0.1, 40.0, 3.0, -1.0, {}, scores[2], False),
    ]
    return StructurePath(steps, {}, "costs $5")


def drawn(ax):
    ax.figure.savefig(io.BytesIO(), format="png")
    return ax


def test_two_panels_with_held_out_data():
    upper, lower = plots.plot_structure(path_of((-50.0, -40.0, -45.0)))
    drawn(upper)
    bound, estimate, gain = (line.get_ydata() for line in upper.lines)
    np.testing.assert_array_equal(bound, [50.0, 40.0])
    np.testing.assert_array_equal(estimate, [30.0, 3.0])
    np.testing.assert_array_equal(gain, [20.0, 3.0])  # what is not positive stands at the foot
    assert upper.get_yscale() == "log"
    line, back = lower.lines
    np.testing.assert_array_equal(line.get_xydata(), [[0, -50], [1, -40]])
    np.testing.assert_array_equal(back.get_xydata(), [[2, -45]])
    assert [each.get_text() for each in lower.get_xticklabels()] == ["(start)", "✓ lag2", "$\\frac{$"]


def test_one_panel_without():
    ax = drawn(plots.plot_structure(path_of()))
    assert [each.get_text() for each in ax.get_xticklabels()] == ["✓ lag2", "$\\frac{$"]
    assert [each.get_text() for each in ax.get_legend().get_texts()] == ["bound", "estimate", "gain"]


def test_axes_that_are_given_are_used():
    figure, axes = pyplot.subplots(2)
    assert plots.plot_structure(path_of((-5.0, -4.0, -6.0)), axes)[1] is axes[1]
    with pytest.raises(ValueError, match="axes must hold 2 Axes"):
        plots.plot_structure(path_of((-5.0, -4.0, -6.0)), axes[:1])
    assert plots.plot_structure(path_of(), axes[0]) is axes[0]
    assert figure.axes == list(axes)
