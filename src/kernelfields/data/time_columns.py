"""Columns of date-times: their order within sequences, gaps in it, and the numbers that a field can learn from.

    hour      sin and cos of 2 pi h / 24 for the hour h with its fraction, as the clock on the wall shows it
    weekday   sin and cos of 2 pi d / 7 for Monday d = 0
    step      log(1 + seconds since the row before); 0 in the first row of a sequence

Text is read as ISO 8601, with days first where dots separate them, and with slashes where only one order of day and
month fits all rows. Cost: one pass over the rows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import numpy as np

from kernelfields.numerics.wording import inflect

_CLOCK = r"\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?(\s*[AaPp][Mm])?"
_DATE = r"(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4})"
_TIME = re.compile(rf"({_DATE}([T ,]+{_CLOCK}\s*(Z|[+-]\d{{2}}:?\d{{2}})?)?|{_CLOCK})")
_FORMATS = [
    f"{date}{clock}"
    for date in ("%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%Y/%m/%d", "%d-%m-%Y")
    for clock in ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p")
]
# A step of so many usual ones is a gap.
_GAP = 10
#: The numbers that are made of times, by name.
TIME_FEATURES = ("hour", "weekday", "step")


class Times(NamedTuple):
    """Date-times of rows as local clock times and as instants; datetime64 in microseconds."""

    wall: np.ndarray
    instants: np.ndarray


def is_time(text: str) -> bool:
    """Whether a text is a date, a time of day or both."""
    return _TIME.fullmatch(text.strip()) is not None


def read_times(values: np.ndarray | Sequence[str]) -> Times | None:
    """Read the times of rows.

    Parameters
    ----------
    values : array (N,) of datetime64, or sequence of str
        The values.

    Returns
    -------
    Times or None
        The times; None for times of day without a date, and for text whose format is not certain.

    Raises
    ------
    ValueError
        If some have a time zone and others not.
    """
    if isinstance(values, np.ndarray) and values.dtype.kind == "M":
        instants = values.astype("datetime64[us]")
        return Times(instants, instants)
    texts = [str(value).strip() for value in values]
    try:
        read = [datetime.fromisoformat(text) for text in texts]
    except ValueError:
        read = _read_by_format(texts)
    if not read:
        return None
    zoned = [each.tzinfo is not None for each in read]
    if any(zoned) and not all(zoned):
        first, other = zoned.index(zoned[0]), zoned.index(not zoned[0])
        raise ValueError(
            f"times with and without a zone are mixed: row {first} holds {texts[first]!r}, row {other} "
            f"{texts[other]!r}. Give all of them one"
        )
    wall = np.array([each.replace(tzinfo=None) for each in read], dtype="datetime64[us]")
    if not any(zoned):
        return Times(wall, wall)
    shifts = np.array([each.utcoffset() for each in read], dtype="timedelta64[us]")
    return Times(wall, wall - shifts)


def _read_by_format(texts: Sequence[str]) -> list[datetime]:
    """Return the times in the only usual format that fits all texts; None if no format, or several, fit."""
    found: list[list[datetime]] = []
    for layout in _FORMATS:
        try:
            found.append([datetime.strptime(text, layout) for text in texts])
        except ValueError:
            continue
    return found[0] if found and all(each == found[0] for each in found) else []


def describe_order(times: Times, codes: np.ndarray) -> list[str]:
    """Describe unusual orders of times within sequences.

    Parameters
    ----------
    times : Times
        The times of rows.
    codes : array (N,)
        The number of the sequence of each row.

    Returns
    -------
    list of str
        A clause for rows that go back, for rows that repeat a time, and for gaps; empty in the usual case.
    """
    same = codes[1:] == codes[:-1]
    steps = (np.diff(times.instants) / np.timedelta64(1, "us")) / 1e6
    back, again = np.flatnonzero(same & (steps < 0)), np.flatnonzero(same & (steps == 0))
    found = []
    if back.size:
        found.append(f"goes back in {inflect(back.size, 'row')}, first in row {back[0] + 1}: sort by it")
    if again.size:
        found.append(f"repeats in {inflect(again.size, 'row')}, first in row {again[0] + 1}")
    onward = steps[same & (steps > 0)]
    if onward.size:
        usual = float(np.median(onward))
        gaps = np.flatnonzero(same & (steps > _GAP * usual))
        if gaps.size:
            found.append(
                f"has {inflect(gaps.size, 'gap')} of more than {_GAP} times the usual {usual:.6g} s, first before row "
                f"{gaps[0] + 1}: what a gap separates may be sequences of their own"
            )
    return found


def time_feature_names(name: str, wanted: Sequence[str]) -> list[str]:
    """Return the names of the columns of :func:`time_features`."""
    parts = {"hour": ("hour_sin", "hour_cos"), "weekday": ("weekday_sin", "weekday_cos"), "step": ("step",)}
    return [f"{name}_{part}" for each in dict.fromkeys(wanted) for part in parts[each]]


def time_features(times: Times, codes: np.ndarray, name: str, wanted: Sequence[str]) -> dict[str, np.ndarray]:
    """Convert date-times to columns of numbers.

    Parameters
    ----------
    times : Times
        The times of rows.
    codes : array (N,)
        The number of the sequence of each row.
    name : str
        The name of the column of times.
    wanted : sequence of {"hour", "weekday", "step"}
        What to make.

    Returns
    -------
    dict of str to array (N,)
        Columns by name, such as ``time_hour_sin``.
    """
    days = times.wall.astype("datetime64[D]")
    columns: list[np.ndarray] = []
    for each in dict.fromkeys(wanted):
        if each == "step":
            seconds = np.diff(times.instants, prepend=times.instants[:1]) / np.timedelta64(1, "s")
            first = np.diff(codes, prepend=codes[:1] - 1) != 0
            columns.append(np.log1p(np.where(first, 0.0, np.maximum(seconds, 0.0))))
            continue
        if each == "hour":
            turns = ((times.wall - days) / np.timedelta64(1, "h")) / 24.0
        else:
            turns = ((days.astype(np.int64) + 3) % 7) / 7.0  # 1970 began on a Thursday
        columns += [np.sin(2.0 * np.pi * turns), np.cos(2.0 * np.pi * turns)]
    return dict(zip(time_feature_names(name, wanted), columns, strict=True))
