"""A step answers for an item as it does among others, and its description makes the same step again."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

from kernelfields.inputs import ColumnSteps, InputStep, Layout, Neighbours, Scale, WindowStatistics, register_step
from kernelfields.inputs.steps import ASKING, KINDS, resolve_settings

RANDOM = np.random.default_rng(0)
LENGTHS = [1, 7, 50, 2]
ROWS = [RANDOM.normal(size=(length, 3)) * [1.0, 40.0, 1e6] for length in LENGTHS]
EDGES = [np.array([[a, a + 1] for a in range(length - 1)] or np.zeros((0, 2), int)) for length in LENGTHS]
STEPS = {
    "scale": Scale(np.array([1.0, 2.0, 0.0]), np.array([3.0, 0.7, 1.0])),
    "windows": WindowStatistics(),
    "windows beside own columns": WindowStatistics(own=(1,), categories=1),
    "neighbours": Neighbours(),
    "neighbours beside own columns": Neighbours(own=(0, 2)),
}


def layout_of(numbers):
    offsets = np.cumsum([0, *(LENGTHS[number] for number in numbers)])
    edges = [EDGES[number] + first for number, first in zip(numbers, offsets, strict=False)]
    return Layout(offsets, {"edge": np.concatenate(edges)})


@pytest.mark.parametrize("name", STEPS)
def test_an_item_alone_has_the_columns_that_it_has_among_others(name):
    step = STEPS[name]
    for order in ([0, 1, 2, 3], [3, 2, 1, 0], [2, 2, 1]):
        layout = layout_of(order)
        among = step(np.concatenate([ROWS[number] for number in order]), layout)
        for place, number in enumerate(order):
            alone = step(ROWS[number], layout_of([number]))
            np.testing.assert_array_equal(among[layout.offsets[place] : layout.offsets[place + 1]], alone)


@pytest.mark.parametrize("name", STEPS)
def test_a_description_makes_the_same_step(name):
    steps = ColumnSteps({None: [STEPS[name]]})
    described = {"n_features": 3, "categories": STEPS[name].categories, **steps.describe()}
    again = ColumnSteps.rebuild({None: described})
    rows, layout = np.concatenate(ROWS), layout_of(range(4))
    np.testing.assert_array_equal(again(rows, layout), steps(rows, layout))
    assert again.n_columns(3) == steps(rows, layout).shape[1]


@pytest.mark.parametrize("name", STEPS)
def test_columns_are_found_where_they_went(name):
    step = STEPS[name]
    kept = [place for place in range(3) if name != "scale" or step.spread[place] == 1.0]
    rows, layout = np.concatenate(ROWS), layout_of(range(4))
    np.testing.assert_array_equal(step(rows, layout)[:, step.columns(np.array(kept), 3)], rows[:, kept])


def test_each_kind_is_tried_here():
    assert {type(step).__name__: step.setting for step in STEPS.values()} == KINDS


def test_own_columns_of_a_file_that_are_none_are_refused():
    with pytest.raises(ValueError, match="columns that kernels read as they come are not among those of the inputs"):
        ColumnSteps.rebuild({None: {"n_features": 3, "windows": True, "own_columns": [3]}})


def test_no_steps_are_no_questions():
    steps = ColumnSteps()
    assert not steps
    assert steps.reach == (0, 0)
    assert steps.names(["a", "b"]) == ["a", "b"]
    assert steps.settings == {}


def test_steps_of_sequences_reach_as_far_as_their_windows():
    assert ColumnSteps({None: [STEPS["windows"], STEPS["scale"]]}).reach == (22, 22)


def test_a_step_of_ones_own_is_asked_for_by_its_setting_and_read_from_files(monkeypatch):
    monkeypatch.setattr("kernelfields.inputs.steps._REGISTERED", {})
    monkeypatch.setitem(ASKING, "window", [*ASKING["window"]])

    class Squares(InputStep):
        """Columns beside their squares."""

        entry = "squares of a test"
        setting: ClassVar[dict[str, object]] = {"window": "squares of a test"}

        def __call__(self, rows, layout):
            return np.hstack([rows, rows**2])

        def names(self, names):
            return [*names, *(f"{name}^2" for name in names)]

        def columns(self, chosen, n_columns):
            return chosen

        def describe(self):
            return {self.entry: True}

        @classmethod
        def rebuild(cls, described, n_columns):
            return cls()

    asked = {"window": "squares of a test", "scale": True}
    assert not resolve_settings(asked)
    assert register_step(Squares) is Squares
    steps = resolve_settings(asked)
    rows = np.concatenate(ROWS)
    np.testing.assert_array_equal(steps(rows, layout_of(range(4))), np.hstack([rows, rows**2]))
    scaled = steps.with_steps(ColumnSteps({None: [Scale(np.zeros(6), np.full(6, 2.0))]}))
    again = ColumnSteps.rebuild({None: {"n_features": 3, **scaled.describe()}})
    assert [type(step) for step in again.of_table()] == [Squares, Scale]
    assert again.names(["a", "b", "c"]) == ["a", "b", "c", "a^2", "b^2", "c^2"]
    assert "squares of a test" in ASKING["window"]
    with pytest.raises(ValueError, match="'scaling' is the entry of a step that is there already"):
        register_step(type("Other", (Squares,), {"entry": "scaling"}))
