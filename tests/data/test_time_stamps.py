"""Columns of time stamps and ids are named, by every reader that has names, and others are left alone."""

from __future__ import annotations

import warnings
from datetime import datetime, timedelta

import numpy as np
import pytest

from kernelfields import ChainCRF, FrameCRF, GraphCRF, KernelClassifier
from kernelfields.data.readers import InputReader

N = 60
BEGIN = datetime(2024, 3, 1, 8, 30)
STAMPS = [BEGIN + timedelta(minutes=7 * t) for t in range(N)]
TIMES = {
    "iso": [str(each) for each in STAMPS],
    "with a zone": [each.isoformat() + "+01:00" for each in STAMPS],
    "american": [each.strftime("%m/%d/%Y %I:%M %p") for each in STAMPS],
    "german": [each.strftime("%d.%m.%Y %H:%M:%S") for each in STAMPS],
    "a few days": [f"2024-03-{1 + t % 7:02}" for t in range(N)],
    "clock": [each.strftime("%H:%M") for each in STAMPS],
}
RANDOM = np.random.default_rng(0)


def learnt(columns):
    """Learn sequences of six positions from columns of values by name."""
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    InputReader().learn_items([rows[begin : begin + 6] for begin in range(0, len(rows), 6)])


@pytest.mark.parametrize("name", TIMES)
def test_date_times_as_text_are_named(name):
    with pytest.warns(
        UserWarning, match=r"column 'when' holds date-times, \d+ of them, each of which becomes a feature"
    ):
        learnt({"when": TIMES[name], "kind": ["a", "b"] * (N // 2)})


def test_text_that_is_another_one_in_nearly_every_row_is_named():
    with pytest.warns(UserWarning, match=r"column 'id' holds 60 values in 60 rows, each of which becomes a feature"):
        learnt({"id": [f"row-{t}" for t in range(N)], "kind": ["a", "b"] * (N // 2)})


@pytest.mark.parametrize("values", [np.arange(N), RANDOM.permutation(10**6)[:N], 1.7e9 + 7 * np.arange(N)])
def test_whole_numbers_that_come_once_are_named_by_every_reader(values):
    pandas = pytest.importorskip("pandas")
    match = r"column 'when' holds another whole number in nearly every row"
    with pytest.warns(UserWarning, match=match):
        learnt({"when": values.tolist(), "kind": ["a", "b"] * (N // 2)})
    table = pandas.DataFrame({"level": RANDOM.normal(size=N), "when": values})
    labels = np.where(table["level"] > 0, "a", "b")
    fixed = {"prior_variance": 1.0, "scale": True, "max_iter": 3, "tol": 0.5}
    with pytest.warns(UserWarning, match=match):
        KernelClassifier("linear", **fixed).fit(table, labels)
    with pytest.warns(UserWarning, match=match):
        ChainCRF("linear", **fixed).fit([table[:30], table[30:]], [labels[:30], labels[30:]])
    with pytest.warns(UserWarning, match=match):
        GraphCRF("linear", neighbours=False, **fixed).fit([(table, np.array([[0, 1]]))], [labels])
    rows = table.assign(s=np.arange(N) // 6, y=labels)
    with pytest.warns(UserWarning, match=match):
        FrameCRF(ChainCRF("linear", **fixed), sequence="s", label="y", features=["level", "when"]).fit(rows)


def test_columns_that_new_rows_share_are_left_alone():
    """Readings, counts, words that come back, and hours."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learnt(
            {
                "reading": RANDOM.normal(size=N).tolist(),
                "count": RANDOM.integers(20, size=N).tolist(),
                "word": [f"w{t}" for t in RANDOM.integers(30, size=N)],
                "hour": [each.hour for each in STAMPS],
                "size": ["10-12", "12-14"] * (N // 2),
            }
        )
        InputReader().learn_items([np.arange(N, dtype=float)[:, None]])
