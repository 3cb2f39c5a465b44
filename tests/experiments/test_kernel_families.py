"""Families of kernels: what is right survives the file, pairs are compared, the grid's ends are noticed."""

import numpy as np
import pytest

from experiments.gestures import neighbours
from experiments.kernel_families import (
    Family,
    accuracy_of,
    both_right,
    choose,
    grid_ends,
    pack_right,
    paired,
    unpack_right,
    verdict,
)
from kernelfields import ChainCRF
from kernelfields.kernels import RBF, Linear

TRUE = [["a", "b", "a"], ["b"], ["a", "a"]]
GUESSED = [["a", "b", "b"], ["b"], ["b", "b"]]


def test_right_positions_survive_packing():
    right = unpack_right(pack_right(TRUE, GUESSED))
    assert [each.tolist() for each in right] == [[1, 1, 0], [1], [0, 0]]


def test_accuracy_of_right_positions():
    figures = accuracy_of(unpack_right(pack_right(TRUE, GUESSED)))
    assert figures["accuracy"]["value"] == pytest.approx(3 / 6)
    assert figures["sequence_accuracy"]["value"] == pytest.approx(1 / 3)


def test_differences_are_second_minus_first():
    first, second = (unpack_right(pack_right(TRUE, each)) for each in (GUESSED, TRUE))
    found = paired(first, second)["accuracy"]
    assert found["value"] == pytest.approx(3 / 6)
    assert paired(second, first)["accuracy"]["value"] == pytest.approx(-3 / 6)
    assert paired(first, first)["accuracy"] == {"value": 0.0, "low": 0.0, "high": 0.0}


def test_two_labellings_are_both_right_where_each_is():
    assert [each.tolist() for each in both_right([np.array([1, 1, 0])], [np.array([1, 0, 0])])] == [[1, 0, 0]]


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [(0.01, 0.02, "better"), (-0.02, -0.01, "worse"), (-0.01, 0.01, "not distinguishable")],
)
def test_verdicts(low, high, said):
    assert verdict({"value": (low + high) / 2, "low": low, "high": high}) == said


def test_the_view_that_tells_labels_apart_is_chosen_and_a_variance_at_the_end_is_noticed():
    random = np.random.default_rng(0)
    y = [random.integers(2, size=8) for _ in range(12)]
    views = {
        "noise": [random.normal(size=(8, 1)) for _ in y],
        "signal": [labels[:, None] - 0.5 + 0.1 * random.normal(size=(8, 1)) for labels in y],
    }
    choice = choose(Family("linear", 1, [Linear()], [0.01, 0.1, 10.0]), views, y, ChainCRF(), cv=2)
    assert choice.view == "signal"
    assert choice.estimator.prior_variance == 10.0
    assert choice.at_edge
    assert choice.row()["n_candidates"] == 6


def test_neighbouring_frames_repeat_the_ends():
    frames = np.arange(4.0)[:, None]
    np.testing.assert_array_equal(neighbours(frames, (-2, 0, 1)), [[0, 0, 1], [0, 1, 2], [0, 2, 3], [1, 3, 3]])


def test_choices_at_the_ends_of_grids_are_counted():
    families = [Family("linear", 1, [Linear()], [1.0]), Family("RBF", "RBF", [RBF(g) for g in (1, 2, 3)], [1.0])]
    rows = [
        {"family": "linear", "kernel": repr(Linear()), "at_edge": True},
        {"family": "RBF", "kernel": repr(RBF(2)), "at_edge": False},
        {"family": "RBF", "kernel": repr(RBF(3)), "at_edge": False},
    ]
    said = grid_ends(families, rows)
    assert "1 of 3 choices have a prior variance" in said
    assert "1 of 2 have a kernel scale" in said
