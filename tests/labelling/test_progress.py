"""Scores of a sample with their intervals, and how many more labelled items the next mark may take."""

import numpy as np
import pytest

from kernelfields.labelling.progress import forecast, span_score


def test_a_score_says_how_sure_it_is():
    assert span_score(np.zeros((0, 3))) is None
    few = span_score(np.array([[1.0, 2.0, 2.0], [2.0, 2.0, 2.0]]))
    assert few.value == pytest.approx(0.75)
    assert few.text("F1") == "F1 0.75 on 2 set aside (too few to tell)"
    random = np.random.default_rng(0)
    true = random.integers(1, 9, size=200)
    right = random.binomial(true, 0.8)
    score = span_score(np.column_stack([right, true, true]).astype(float))
    assert score.low < 0.8 < score.high
    assert score.high - score.low < 0.1
    assert span_score(np.zeros((20, 3))).value == 1.0  # nothing to find, and nothing was found


def curve(errors, counts, spread=0.01):
    values = [1 - error for error in errors]
    return [
        {"items": n, "right": value, "low": value - 2 * spread, "high": value + 2 * spread}
        for n, value in zip(counts, values, strict=True)
    ]


def test_the_next_mark_and_its_range():
    counts = np.array([20, 40, 80, 160])
    found = forecast(curve(0.6 * (counts / 20) ** -0.4, counts))
    truth = 20 * (0.6 / (1 - found["mark"])) ** 2.5 - 160
    assert found["low"] <= truth <= found["high"]
    assert found["more"] == pytest.approx(truth, rel=0.5)


def test_too_early_to_tell():
    assert forecast([]) is None
    assert forecast(curve([0.3, 0.3], [20, 40])) is None
    assert forecast(curve([0.2, 0.3, 0.4], [20, 40, 80])) is None  # it grows worse
    assert forecast([{"items": n, "right": 0.5, "low": None, "high": None} for n in (10, 20, 30)]) is None
    assert forecast(curve([0.02, 0.009, 0.001], [20, 40, 80])) is None  # no mark is left
