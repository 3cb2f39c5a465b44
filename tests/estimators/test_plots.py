"""Pictures of fitted fields by one call each, of which matplotlib is loaded by the first."""

import subprocess
import sys

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kernelfields import AnnotatedCRF, ChainCRF, ConformalField, FieldSearchCV, GraphCRF, KernelClassifier, evaluate
from kernelfields.reports import Estimate, plot_learning_curve

X = [["Ada", "Byron", "slept"], ["Bob", "met", "Ada"], ["Eve", "slept"]] * 3
Y = [["B-PER", "I-PER", "O"], ["B-PER", "O", "B-PER"], ["B-PER", "O"]] * 3


@pytest.fixture(scope="module")
def crf():
    return ChainCRF(prior_variance=1.0, random_state=0).fit(X, Y)


@pytest.mark.parametrize(
    ("name", "arguments", "panels"),
    [
        ("labels", (X[0], Y[0]), 1),
        ("transitions", (), 1),
        ("convergence", (), 2),
        ("calibration", (X, Y), 1),
        ("learning_curve", (X, Y, X, Y), 1),
    ],
)
def test_pictures_hold_axes_of_matplotlib_and_are_shown_by_notebooks(crf, name, arguments, panels):
    picture = getattr(crf.plot, name)(*arguments)
    assert isinstance(picture.figure, Figure)
    assert len(picture.axes) == panels
    assert all(isinstance(each, Axes) for each in picture.axes)
    assert "<svg" in picture._repr_html_()
    assert name in repr(crf.plot)


def test_pictures_are_drawn_into_axes_that_are_passed(crf):
    for name, arguments in (("labels", (X[0],)), ("transitions", ()), ("calibration", (X, Y))):
        ax = Figure().subplots()
        assert getattr(crf.plot, name)(*arguments, ax=ax).axes == (ax,)


def test_labels_of_a_graph_are_drawn_as_well():
    graphs = [(np.array([[1.0], [0.9], [0.0]]), [[0, 1], [1, 2]]), (np.array([[0.1], [1.1]]), [[0, 1]])]
    field = GraphCRF("rbf", prior_variance=10.0, random_state=0).fit(graphs, [["a", "a", "b"], ["b", "a"]])
    assert field.plot.labels(graphs[0], tokens=["u", "v", "w"]).axes[0].get_xticklabels()[1].get_text() == "v"


def test_rows_have_no_order_that_could_be_drawn():
    field = KernelClassifier("linear", prior_variance=1.0).fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(TypeError, match="a KernelClassifier labels rows, which have no order"):
        field.plot.labels([[0.0]])


def test_a_learning_curve_ends_at_the_score_of_a_fit_to_all_items(crf):
    curve = crf.plot.learning_curve(X[:6], Y[:6], X[6:], Y[6:], shares=(0.5, 1.0))
    (line,) = curve.axes[0].lines
    whole = ChainCRF(prior_variance=1.0, random_state=0).fit(X[:6], Y[:6])
    assert line.get_xdata().tolist() == [3, 6]
    assert line.get_ydata()[-1] == float(evaluate(whole, X[6:], Y[6:]).headline[1])
    assert curve.axes[0].get_ylabel() == "entity F1 (bio)"
    assert curve.axes[0].get_xlabel() == "training sequences"


@pytest.mark.parametrize("share", [0.0, 1.5, "half", np.nan])
def test_shares_are_parts_of_the_training_items(crf, share):
    with pytest.raises(ValueError, match="shares must be above 0 and at most 1"):
        crf.plot.learning_curve(X, Y, X, Y, shares=(share,))


def test_a_learning_curve_has_a_band_where_all_scores_have_intervals():
    with_intervals = plot_learning_curve([1, 2], [Estimate(0.5, 0.4, 0.6), Estimate(0.7, 0.6, 0.8)])
    assert len(with_intervals.axes[0].collections) == 1
    assert not plot_learning_curve([1, 2], [Estimate(0.5), Estimate(0.7, 0.6, 0.8)]).axes[0].collections
    with pytest.raises(ValueError, match="one score for each size, got 1 for 2"):
        plot_learning_curve([1, 2], [Estimate(0.5)])


def test_a_field_that_was_not_fitted_has_no_pictures():
    with pytest.raises(ValueError, match="not fitted"):
        ChainCRF().plot.transitions()


def test_asking_for_pictures_does_not_load_matplotlib():
    code = """
import sys
from kernelfields import ChainCRF
crf = ChainCRF(prior_variance=1.0).fit([["Ada", "slept"]], [["B-PER", "O"]])
assert "matplotlib" not in sys.modules
crf.plot
assert "matplotlib" not in sys.modules
crf.plot.transitions()
assert "matplotlib" in sys.modules
assert "matplotlib.pyplot" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_estimators_around_a_field_draw_its_pictures():
    said = [{"one": own, "other": own} for own in Y]
    for model in (
        AnnotatedCRF(ChainCRF("linear", prior_variance=1.0), cv=2).fit(X, said),
        FieldSearchCV(ChainCRF("linear"), prior_variances=[1.0], cv=2).fit(X, Y),
        ConformalField(ChainCRF("linear", prior_variance=1.0)).fit(X, Y),
    ):
        assert "probabilities" in repr(model.plot.labels(X[0]))
        assert model.plot.transitions().axes
