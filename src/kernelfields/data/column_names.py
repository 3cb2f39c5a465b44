"""Names of the columns of data frames, checked against those of the fit.

As in scikit-learn: names are strings, all of them or none. Tables without names pass, with a warning where others have
names. Cost: one comparison of names per table. Raises ValueError or TypeError that names the table and the columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kernelfields.data.reading import listed
from kernelfields.numerics.containers import find_column_names
from kernelfields.numerics.user_warnings import warn_user


def column_names(table: object) -> list[str] | None:
    """Return the names of the columns of a table; None without names, or with names that are no strings."""
    every = find_column_names(table)
    if every is None:
        return None
    names = [name for name in every if isinstance(name, str)]
    if 0 < len(names) < len(every):
        raise TypeError(
            "Feature names are only supported if all input features have string names, but these columns are named "
            f"by {', '.join(sorted({type(name).__name__ for name in every}))}: use table.columns.astype(str)"
        )
    return names or None


def shared_columns(tables: Iterable[object], noun: str) -> list[str] | None:
    """Return the common names of the columns of tables; None without names."""
    first, expected, unnamed = 0, None, False
    for number, names in enumerate(map(column_names, tables)):
        if names is None:
            unnamed = True
        elif expected is None:
            first, expected = number, names
        elif names != expected:
            raise ValueError(
                f"the columns of {noun} {number} are not those of {noun} {first}: {difference(names, expected)}"
            )
    if unnamed and expected is not None:
        warn_user(
            f"some {noun}s have names of columns, such as {noun} {first}, and others none: their columns are taken to "
            "be in the same order",
        )
    return expected


def check_columns(tables: Iterable[object], expected: list[str] | None, noun: str) -> None:
    """Raise or warn, as scikit-learn does, if tables have other columns than the fit ``expected``."""
    named = unnamed = False
    for number, names in enumerate(map(column_names, tables)):
        named, unnamed = named or names is not None, unnamed or names is None
        if names is not None and expected is not None and names != expected:
            raise ValueError(
                "The feature names should match those that were passed during fit. "
                f"{noun.capitalize()} {number}: {difference(names, expected)}"
            )
    if named and expected is None:
        warn_user("X has feature names, but this model was fitted without feature names")
    if unnamed and expected is not None:
        warn_user("X does not have valid feature names, but this model was fitted with feature names")


def difference(names: Sequence[str], expected: Sequence[str]) -> str:
    """Describe the difference between names of columns and the expected names."""
    parts = []
    if unseen := [name for name in names if name not in set(expected)]:
        parts.append(f"unseen at fit time: {listed(unseen)}")
    if missing := [name for name in expected if name not in set(names)]:
        parts.append(f"seen at fit time, yet now missing: {listed(missing)}")
    return "; ".join(parts) or f"they must be in the same order, {listed(expected)}, got {listed(names)}"
