"""Pictures of experiments: marks where the figures are, whiskers where their intervals end, lines between numbers."""

import numpy as np

from experiments.pictures import at_places, by_rank, by_size, gap_curves, reliability, smooth


def marks(panel):
    """The points of each curve's marks."""
    return [container.lines[0].get_xydata() for container in panel.containers]


def joined(panel):
    """The points of lines that join marks."""
    lines = [line for line in panel.lines if line.get_marker() == "None" and line.get_linestyle() != "None"]
    return [line.get_xydata().tolist() for line in lines if len(line.get_xdata()) > 1]


def test_figures_and_intervals_are_where_they_belong():
    estimates = [{"value": v, "low": v - 0.1, "high": v + 0.2} for v in (0.5, 0.7)]
    (panel,) = at_places([1, 2, "RBF"], {"one": [*estimates, None]}, "accuracy").axes
    np.testing.assert_allclose(marks(panel)[0][:2], [(0, 0.5), (1, 0.7)])
    assert np.isnan(marks(panel)[0][2, 1])
    segments = panel.containers[0].lines[2][0].get_segments()
    np.testing.assert_allclose([each[:, 1] for each in segments[:2]], [(0.4, 0.7), (0.6, 0.9)])
    assert [each.get_text() for each in panel.get_xticklabels()] == ["1", "2", "RBF"]


def test_places_that_are_numbers_are_joined_and_names_stand_alone():
    (panel,) = at_places([1, 2, "RBF"], {"one": [0.5, 0.6, 0.7]}, "accuracy").axes
    assert joined(panel) == [[[0, 0.5], [1, 0.6]]]
    assert joined(at_places(["a", "b"], {"one": [1, 2]}, "error").axes[0]) == []


def test_several_curves_are_named_and_stand_beside_each_other():
    figure = at_places(["a", "b"], {"one": [1, 2], "two": [2, 3]}, "error")
    (legend,) = figure.legends
    assert [each.get_text() for each in legend.get_texts()] == ["one", "two"]
    left, right = marks(figure.axes[0])
    assert (left[:, 0] < right[:, 0]).all()
    assert not at_places(["a"], {"one": [1]}, "error").legends


def test_ranks_sizes_and_gaps_are_on_logarithmic_axes():
    upper, lower = by_rank([10, 100], {"a": [0.7, 0.8]}, {"a": [1e-1, 1e-3]}, "accuracy").axes
    assert (upper.get_yscale(), lower.get_xscale(), lower.get_yscale()) == ("linear", "log", "log")
    assert marks(lower)[0].tolist() == [[10, 1e-1], [100, 1e-3]]
    (panel,) = by_size([100, 1000], {"kink": [0.1, 0.01]}, "KL").axes
    assert (panel.get_xscale(), panel.get_yscale()) == ("log", "log")
    passes, seconds = gap_curves(
        {"passes": {"newton": [(1, 1.0), (9, 0.1)]}, "s": {"newton": [(2, 1.0)]}}, "gap", 0.5
    ).axes
    assert passes.lines[0].get_xydata().tolist() == [[1, 1.0], [9, 0.1]]
    assert list(passes.lines[1].get_ydata()) == [0.5, 0.5]
    assert seconds.get_xlabel() == "s"


def test_densities_stand_over_their_histogram_and_reliability_over_the_diagonal():
    histogram = {"edges": [0.0, 0.5, 1.0], "heights": [0.4, 1.6]}
    (panel,) = smooth([0.0, 1.0], {"truth": [1.0, 1.0], "fit": [0.5, 1.5]}, "wines", histogram).axes
    assert [list(line.get_ydata()) for line in panel.lines] == [[1.0, 1.0], [0.5, 1.5]]
    bins = {
        "confidence": [None, 0.6],
        "accuracy": [None, 0.5],
        "accuracy_low": [None, 0.4],
        "accuracy_high": [None, 0.7],
    }
    (panel,) = reliability({"curve": bins}).axes
    np.testing.assert_allclose(marks(panel)[0][1], (0.6, 0.5))
