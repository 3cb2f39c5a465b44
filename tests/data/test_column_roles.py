"""Columns that are no features: times, row numbers, ids and constants, in frames and in files, and numbers of times."""

from __future__ import annotations

import warnings
from datetime import datetime, timedelta

import numpy as np
import pytest

from kernelfields import ChainCRF, FrameCRF, load
from kernelfields.data.column_roles import column_roles
from kernelfields.data.time_columns import describe_order, read_times, time_features
from kernelfields.features import read_frame
from kernelfields.formats import read_table

pandas = pytest.importorskip("pandas")
N, LENGTH = 90, 30
CODES = np.repeat([0, 1, 2], LENGTH)
RANDOM = np.random.default_rng(0)
BEGIN = datetime(2026, 3, 1, 22, 30)
STAMPS = [BEGIN + timedelta(minutes=10 * (row % LENGTH), days=row // LENGTH) for row in range(N)]
READINGS = RANDOM.normal(size=(N, 2))
LABELS = np.where(READINGS[:, 0] > 0, "up", "down")


def table(**more):
    """A table of three sequences with two columns of numbers, a label, and further columns."""
    columns = {"night": CODES, "a": READINGS[:, 0], "b": READINGS[:, 1], "label": LABELS}
    return pandas.DataFrame({**columns, **more})


@pytest.mark.parametrize(
    ("name", "values", "reason"),
    [
        ("time", [str(stamp) for stamp in STAMPS], "date-times"),
        ("time", np.array(STAMPS, dtype="datetime64[us]"), "date-times"),
        ("t", np.tile(np.arange(LENGTH) * 0.02, 3), "values that only grow in 3 sequences"),
        ("left", np.tile(np.arange(LENGTH)[::-1] * 1.5, 3), "values that only fall in 3 sequences"),
        ("id", [f"row-{row}" for row in RANDOM.permutation(N)], "another value in nearly every row"),
        ("number", RANDOM.permutation(N).astype(float), "another value in nearly every row"),
        ("person", ["ann"] * LENGTH + ["bob"] * LENGTH + ["cem"] * LENGTH, "one value in each sequence"),
        ("age", np.repeat([31.0, 44.0, 27.0], LENGTH), "one value in each sequence"),
    ],
)
def test_columns_that_are_no_features_are_left_out_with_the_reason(name, values, reason):
    roles = column_roles({"a": READINGS[:, 0], name: values}, CODES)
    assert roles.left_out == {name: reason}
    assert roles.features == ["a"]


def test_columns_that_new_rows_share_are_features():
    """Readings, counts, words that come back, an hour, and anything in a table of few rows or of single rows."""
    shared = {
        "reading": READINGS[:, 0],
        "count": RANDOM.integers(20, size=N).astype(float),
        "word": [f"w{word}" for word in RANDOM.integers(30, size=N)],
        "hour": np.array([float(stamp.hour) for stamp in STAMPS]),
    }
    assert column_roles(shared, CODES).left_out == {}
    few = {"t": np.arange(9.0), "id": list("abcdefghi")}
    assert column_roles(few, np.repeat([0, 1, 2], 3)).left_out == {}
    assert column_roles({"x": READINGS[:, 0]}, np.arange(N)).left_out == {}


def test_rows_of_sequences_that_are_not_together_are_judged_alike():
    mixed = RANDOM.permutation(N)
    grows = np.tile(np.arange(LENGTH) * 0.02, 3)
    codes = np.sort(CODES)[mixed]
    in_turn = np.empty(N)
    for code in range(3):
        in_turn[codes == code] = grows[:LENGTH]
    assert "t" in column_roles({"t": in_turn}, codes).left_out


@pytest.mark.parametrize("kind", ["text", "datetimes", "zones", "numbers"])
def test_a_frame_with_times_is_fitted_as_one_without(kind):
    times = {
        "text": [str(stamp) for stamp in STAMPS],
        "datetimes": STAMPS,
        "zones": pandas.Series(STAMPS).dt.tz_localize("Europe/Berlin"),
        "numbers": np.tile(np.arange(LENGTH) * 0.5, 3),
    }[kind]
    field = ChainCRF("rbf", prior_variance=1.0, rank=10, random_state=0)
    plain = FrameCRF(field, sequence="night").fit(table())
    with pytest.warns(UserWarning, match=r"left out of the features: 'time' \("):
        timed = FrameCRF(field, sequence="night").fit(table(time=times))
    assert timed.feature_names_in_.tolist() == ["a", "b"]
    np.testing.assert_array_equal(timed.predict_marginals(table(time=times)), plain.predict_marginals(table()))
    np.testing.assert_array_equal(timed.predict(table()), plain.predict(table()))  # new rows may have no times


@pytest.mark.parametrize("kind", ["text", "datetimes"])
def test_a_time_that_is_missing_is_said_and_its_column_left_out(kind):
    times = pandas.Series(STAMPS if kind == "datetimes" else [str(stamp) for stamp in STAMPS])
    times[[0, 7]] = None
    field = ChainCRF("rbf", prior_variance=1.0, rank=10, random_state=0)
    with pytest.warns(UserWarning, match=r"'time' \(date-times\). 'time' is missing in 2 rows"):
        crf = FrameCRF(field, sequence="night").fit(table(time=times))
    assert crf.feature_names_in_.tolist() == ["a", "b"]
    with (
        pytest.warns(UserWarning, match="left out"),
        pytest.raises(ValueError, match="'time' is missing in row 0, and time_features are made of it"),
    ):
        FrameCRF(field, sequence="night", time_features=["hour"]).fit(table(time=times))


def test_a_column_that_is_named_is_taken():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sequences = read_frame(table(t=np.tile(np.arange(LENGTH) * 0.5, 3)), sequence="night", features=["a", "t"])
    assert sequences.X[0].shape == (LENGTH, 2)


def test_a_warm_start_leaves_the_same_columns_out():
    field = ChainCRF("rbf", prior_variance=1.0, rank=10, random_state=0, warm_start=True)
    crf = FrameCRF(field, sequence="night")
    rows = table(t=np.tile(np.arange(LENGTH) * 0.5, 3))
    with pytest.warns(UserWarning, match="left out"):
        crf.fit(rows)
    crf.fit(rows[:40])  # of so few rows nothing would be left out
    assert crf.feature_names_in_.tolist() == ["a", "b"]


def test_numbers_of_times_and_the_file_that_keeps_them(tmp_path):
    rows = table(time=[stamp.isoformat() for stamp in STAMPS])
    field = ChainCRF("rbf", prior_variance=1.0, rank=10, random_state=0)
    with pytest.warns(UserWarning, match="left out"):
        crf = FrameCRF(field, sequence="night", time_features=["hour", "step"]).fit(rows)
    assert crf.feature_names_in_.tolist() == ["a", "b", "time_hour_sin", "time_hour_cos", "time_step"]
    crf.save(tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(again.predict_marginals(rows), crf.predict_marginals(rows))
    with pytest.raises(ValueError, match="the table has no column 'time' of times"):
        again.predict(table())
    with pytest.raises(ValueError, match="needs a column of date-times, and the table has none"):
        FrameCRF(field, sequence="night", time_features=["hour"]).fit(table())
    with pytest.raises(ValueError, match="must be among"):
        FrameCRF(field, sequence="night", time_features=["minute"]).fit(rows)


def test_hour_weekday_and_step_by_hand():
    times = read_times(["2026-03-02T06:00:00+02:00", "2026-03-02T07:30:00+02:00", "2026-03-08T00:00:00+01:00"])
    made = time_features(times, np.array([0, 0, 1]), "time", ["hour", "weekday", "step"])
    np.testing.assert_allclose(made["time_hour_sin"], [1.0, np.sin(2 * np.pi * 7.5 / 24), 0.0], atol=1e-15)
    np.testing.assert_allclose(made["time_weekday_cos"], [1.0, 1.0, np.cos(2 * np.pi * 6 / 7)])  # Monday, Sunday
    np.testing.assert_allclose(made["time_step"], [0.0, np.log1p(5400.0), 0.0])


@pytest.mark.parametrize(
    ("texts", "first"),
    [
        (["31.12.2025 23:59", "01.01.2026 00:01"], "2025-12-31T23:59"),
        (["12/31/2025 11:59 PM", "01/01/2026 12:01 AM"], "2025-12-31T23:59"),
        (["31/12/2025", "01/01/2026"], "2025-12-31"),
        (["2025-12-31T23:59:00Z", "2026-01-01T01:01:00+01:00"], "2025-12-31T23:59"),
    ],
)
def test_usual_ways_to_write_times_are_read(texts, first):
    times = read_times(texts)
    assert times.instants[0] == np.datetime64(first)
    assert (np.diff(times.instants) > np.timedelta64(0)).all()


def test_times_that_may_be_two_things_are_not_read():
    assert read_times(["01/02/2026", "03/04/2026"]) is None
    assert read_times(["10:30", "10:31"]) is None
    with pytest.raises(ValueError, match=r"with and without a zone are mixed: row 0 .* row 1"):
        read_times(["2026-01-01T00:00:00Z", "2026-01-01T00:00:01"])


def test_steps_back_repeats_and_gaps_are_named_in_the_line():
    seconds = np.array([0, 1, 2, 3, 3, 4, 5, 100, 101, 50, 51, 52.0])
    times = read_times(np.datetime64("2026-01-01T00:00:00") + (1e6 * seconds).astype("timedelta64[us]"))
    back, again, gaps = describe_order(times, np.zeros(12, dtype=int))
    assert back == "goes back in 1 row, first in row 9: sort by it"
    assert again == "repeats in 1 row, first in row 4"
    assert gaps.startswith("has 1 gap of more than 10 times the usual 1 s, first before row 7")
    assert describe_order(times, np.array([0] * 9 + [1] * 3))[0].startswith("repeats")  # another sequence begins anew


def test_sorting_by_text_of_dates_follows_the_times():
    rows = pandas.DataFrame({"s": [1, 1, 1], "when": ["02.01.2026", "31.12.2025", "01.01.2026"], "x": [3.0, 1.0, 2.0]})
    assert read_frame(rows, sequence="s", features=["x"], sort="when").X[0].ravel().tolist() == [1.0, 2.0, 3.0]


def test_csv_files_leave_out_the_same_columns(tmp_path):
    path = tmp_path / "nights.csv"
    table(time=[str(stamp) for stamp in STAMPS]).to_csv(path, index=False)
    with pytest.warns(UserWarning, match=r"left out of the features: 'time' \(date-times\)\. .*--columns"):
        file = read_table(path, sequence="night", label="label")
    assert file.reading["features"] == ["a", "b"]
    with pytest.warns(UserWarning, match="left out"):
        timed = read_table(path, sequence="night", label="label", time_features=["hour"])
    assert timed.X[0].columns == ["a", "b", "time_hour_sin", "time_hour_cos"]
    options = {name: timed.reading[name] for name in ("features", "kinds", "time", "time_features")}
    again = read_table(path, sequence="night", label="label", **options)
    np.testing.assert_array_equal(again.X[2], timed.X[2])
    with pytest.raises(ValueError, match="features of times are hour, weekday, step"):
        read_table(path, sequence="night", label="label", features=["a"], time="time", time_features=["year"])
