"""Tables of positions: data frames with a column of sequence ids, and arrays with lengths, as lists of sequences.

    sentence  word  length  tag
    1         the   3       DET            X = [[{"word": "the", "length": 3}, {"word": "cat", ...}], ...]
    1         cat   3       NOUN    ->     y = [["DET", "NOUN"], ...]
    2         ...

pandas, polars and pyarrow tables, and what else narwhals reads. One row is one position. Numbers and booleans alone
become arrays (T, d) whose columns have names; with text or categories among the columns a position is a feature dict,
one-hot where it is text. Answers go the way back: one list or array per sequence becomes a column of the same library,
with the index and in the order of the rows of the table.

Columns are found by their names, in any order, and others are not looked at. Cost: a copy of the features, and a dict
per row where there is text. Raises ValueError or TypeError that names the column and its first row that is wrong.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from itertools import pairwise
from numbers import Real
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse

from kernelfields.data.column_roles import column_roles
from kernelfields.data.reading import is_sequence, listed, plain_label, rows_if_any
from kernelfields.data.time_columns import (
    TIME_FEATURES,
    Times,
    is_time,
    read_times,
    time_feature_names,
    time_features,
)
from kernelfields.numerics.containers import list_entries, n_dimensions
from kernelfields.numerics.sparse_rows import make_offsets
from kernelfields.numerics.user_warnings import warn_user

if TYPE_CHECKING:
    from narwhals.stable.v2 import DataFrame, Series

#: What a column of features holds.
NUMBER, TEXT = "number", "text"
_KINDS = {NUMBER: "numbers", TEXT: "text"}
_EXPECTED = "expected a table of pandas, polars or pyarrow with a row for each position"
_MISSING = "Fill it or drop the row."
_TAKE = "features=[...] takes those that you name, time_features=[...] makes numbers of times."
#: Columns of features by name: arrays of numbers and lists of strings.
FeatureColumns = Mapping[Hashable, np.ndarray | list[str]]


class NamedArray(np.ndarray):
    """An array (T, d) with names of columns; results of computations have no names."""

    columns: list[str] | None = None

    @classmethod
    def from_columns(cls, array: np.ndarray, columns: list[str]) -> NamedArray:
        """Return a view of an array with names for its columns."""
        named = array.view(cls)
        named.columns = columns
        return named


@dataclass(frozen=True, eq=False)
class RowGroups:
    """The rows of a table by sequence; ``ids`` are in the order of their first rows.

    ``rows`` (N,) numbers the rows of the table, sequence after sequence, each of which owns the entries
    ``offsets[i] .. offsets[i + 1] - 1``. ``codes`` (N,) holds the number of its sequence for each row of the table.
    """

    ids: list
    rows: np.ndarray
    offsets: np.ndarray
    codes: np.ndarray

    @classmethod
    def group_rows(cls, ids: Iterable[Hashable], ranks: np.ndarray | None = None) -> RowGroups:
        """Group rows by their ids, in the order of rows or of ``ranks`` (N,)."""
        seen: dict[Hashable, int] = {}
        codes = np.array([seen.setdefault(name, len(seen)) for name in ids], dtype=np.int64)
        rows = np.argsort(codes, kind="stable") if ranks is None else np.lexsort((ranks, codes))
        return cls(list(seen), rows, make_offsets(np.bincount(codes, minlength=len(seen))), codes)

    def first_return(self) -> int | None:
        """Return the first row whose sequence has already ended; None for contiguous sequences."""
        back = np.flatnonzero(np.diff(self.codes) < 0)
        return int(back[0]) + 1 if back.size else None

    def cut(self, values: list) -> list[list]:
        """Split a list of values of rows into one list per sequence."""
        ordered = [values[row] for row in self.rows.tolist()]
        return [ordered[first:last] for first, last in pairwise(self.offsets.tolist())]

    def inputs(self, columns: FeatureColumns) -> list:
        """Return the sequences of positions: arrays (T, d) with names of columns, or lists of feature dicts."""
        names = [str(name) for name in columns]
        if columns and all(isinstance(column, np.ndarray) for column in columns.values()):
            table = np.column_stack(list(columns.values()))[self.rows]
            return [
                NamedArray.from_columns(table[first:last], names) for first, last in pairwise(self.offsets.tolist())
            ]
        lists = [column.tolist() if isinstance(column, np.ndarray) else column for column in columns.values()]
        return self.cut([dict(zip(names, row, strict=True)) for row in zip(*lists, strict=True)])

    def in_order_of_rows(self, answers: Sequence[Sequence]) -> list:
        """Return values of the positions of sequences in the order of the rows of the table."""
        self.check_lengths(answers)
        values = np.empty(len(self.rows), dtype=object)
        values[self.rows] = [plain_label(value) for answer in answers for value in answer]
        return values.tolist()

    def check_lengths(self, answers: Sequence[Sequence]) -> None:
        """Raise ValueError unless there is an answer for each row of each sequence."""
        lengths = [len(answer) for answer in answers]
        if len(lengths) != len(self.ids):
            raise ValueError(f"the table has {len(self.ids)} sequences, but there are answers for {len(lengths)}")
        for name, expected, length in zip(self.ids, np.diff(self.offsets).tolist(), lengths, strict=True):
            if expected != length:
                raise ValueError(f"sequence {name!r} has {expected} rows, but {length} answers")


@dataclass(frozen=True, eq=False)
class FrameSequences:
    """The sequences of a table, and the conversion of answers to columns.

    Parameters
    ----------
    X : list
        The inputs of each sequence.
    y : list of lists, or None
        The labels, None if none were read.
    groups : RowGroups
        The rows of the table by sequence.
    table : DataFrame
        The table.

    See Also
    --------
    read_frame : Makes them.

    Examples
    --------
    >>> import pandas as pd
    >>> from kernelfields.features import read_frame
    >>> table = pd.DataFrame({"night": [1, 1, 2], "pulse": [60.0, 71.0, 58.0], "stage": ["deep", "wake", "deep"]})
    >>> sequences = read_frame(table, sequence="night", label="stage")
    >>> sequences.y
    [['deep', 'wake'], ['deep']]
    """

    X: list
    y: list[list] | None
    groups: RowGroups
    #: The table, as narwhals sees it.
    table: DataFrame

    @property
    def ids(self) -> list:
        """The ids of the sequences."""
        return self.groups.ids

    def column(self, answers: Sequence, name: str = "label") -> Any:
        """Return one value per position as a column with the index of the table.

        Parameters
        ----------
        answers : list of sequences
            The values, such as ``crf.predict(X)``.
        name : str, default "label"
            The name of the column.

        Returns
        -------
        Series
            The column, of the library of the table.
        """
        # Values one by one, as Python has them: the library of the table finds the type that it has for them.
        values = self.groups.in_order_of_rows(answers)
        return self._native(_narwhals().new_series(name, values, backend=self.table.implementation))

    def rows(self, answers: Sequence) -> np.ndarray:
        """Return values of each position in the order of the rows of the table.

        Parameters
        ----------
        answers : list of arrays
            The values, such as ``crf.predict_marginals(X)``.

        Returns
        -------
        array (n, ...)
            The values.
        """
        self.groups.check_lengths(answers)
        stacked = np.concatenate(list(answers))
        values = np.empty_like(stacked)
        values[self.groups.rows] = stacked
        return values

    def columns(self, answers: Sequence, names: Iterable) -> Any:
        """Return a row of values per position as a table with named columns.

        Parameters
        ----------
        answers : list of arrays
            The values, such as ``crf.predict_marginals(X)``.
        names : iterable
            The names of the columns.

        Returns
        -------
        DataFrame
            The table, of the library of the one that was read.
        """
        listed_names = list(names)
        values = self.rows(answers) if len(answers) else np.empty((0, len(listed_names)))
        columns = {str(plain_label(name)): column for name, column in zip(listed_names, values.T, strict=True)}
        return self._native(_narwhals().from_dict(columns, backend=self.table.implementation))

    def _native(self, answer: DataFrame | Series) -> Any:
        native, index = answer.to_native(), _narwhals().maybe_get_index(self.table)
        if index is not None:
            native.index = index
        return native


@dataclass(eq=False)
class FrameReader:
    """Reader of tables by the names of columns: of the sequence, of the label, and of features.

    ``features=None`` are all columns but those named otherwise. With ``sort=True`` rows of a sequence need not be
    together and are taken in their order; the name of a column sorts the rows of a sequence by its values.
    ``time_features`` are numbers made of the column of times.
    """

    sequence: Hashable = "sequence"
    label: Hashable | None = "label"
    features: Sequence[Hashable] | None = None
    sort: bool | Hashable = False
    time_features: Sequence[str] = ()
    #: What columns of features held in the table learnt from: "number" or "text".
    kinds: dict[Hashable, str] = field(default_factory=dict)
    #: Columns of that table that are no features, and the one of times, if there is one.
    left_out: list[Hashable] = field(default_factory=list)
    time: Hashable | None = None

    def learn(
        self, frame: object, y: object = None, *, partly: bool = False, after: FrameReader | None = None
    ) -> FrameSequences:
        """Return the sequences of a table and learn the kinds of its features.

        ``y`` holds a label per row; None takes those of the column ``label``, if there is to be one. With ``partly``
        labels may be missing, which is unknown. Features are to be those of the reader that it comes ``after``, in
        its order.
        """
        table = self._prepare_table(frame)
        if not len(table):
            raise ValueError(f"the table has no rows: {_EXPECTED}")
        features, groups = self._named_features(table), self._groups(table)
        if after is None:
            features = self._choose_features(table, features, groups)
            columns = {name: _feature_column(table, name) for name in features}
        else:
            self.left_out, self.time = after.left_out, after.time
            if self.features is None:
                features = [name for name in features if name not in after.left_out]
            if set(features) != set(after.kinds):
                raise ValueError(
                    f"warm_start=True goes on with the features of the fit, {listed(list(after.kinds))}, and they are "
                    f"now {listed(features)}: name them by features=[...], or set warm_start=False to start afresh"
                )
            columns = {name: _feature_column(table, name, kind) for name, kind in after.kinds.items()}
        self.kinds = {name: NUMBER if isinstance(column, np.ndarray) else TEXT for name, column in columns.items()}
        return self._sequences(table, columns, self._labels(table, y, partly), groups)

    def read(self, frame: object, y: object = None, *, labelled: bool = False, partly: bool = False) -> FrameSequences:
        """Return the sequences of a table with the learnt features; with y if ``labelled``."""
        table = self._prepare_table(frame)
        if missing := [name for name in self.kinds if name not in table.columns]:
            raise ValueError(
                f"the table lacks features of the fit: {listed(missing)}. Its columns are {listed(table.columns)}."
            )
        # Columns without rows are of no kind.
        kinds = self.kinds if len(table) else {}
        columns = {name: _feature_column(table, name, kind) for name, kind in kinds.items()}
        labels = self._labels(table, y, partly) if labelled else None
        return self._sequences(table, columns, labels, self._groups(table))

    @property
    def feature_names(self) -> list[str]:
        """Names of the columns of features."""
        return [*map(str, self.kinds), *time_feature_names(str(self.time), self.time_features)]

    def _choose_features(self, table: DataFrame, features: list, groups: RowGroups) -> list:
        """Return the features among columns; if features are not named, warn of the other columns in one line."""
        if wrong := [each for each in self.time_features if each not in TIME_FEATURES]:
            raise ValueError(f"time_features must be among {list(TIME_FEATURES)}, got {wrong[0]!r}")
        n_missing = {name: n for name in features if (n := _missing_rows(_column(table, name)).size)}
        deciding = {name: _find_deciding_values(table, name) for name in features}
        roles = column_roles(deciding, groups.codes, n_missing)
        self.time = roles.time
        if self.time is None and self._sorted_by is not None:
            self.time = self.sort
        if self.time_features and self.time is None:
            raise ValueError(
                f"time_features={list(self.time_features)} needs a column of date-times, and the table has none: its "
                f"columns are {listed(table.columns)}"
            )
        if self.features is not None or not roles.left_out:
            return features
        if not roles.features and not self.time_features:
            raise ValueError(f"the table has no columns of features. {roles.line(_TAKE)}")
        self.left_out = list(roles.left_out)
        warn_user(roles.line(_TAKE))
        return roles.features

    @property
    def _sorted_by(self) -> Hashable | None:
        """The column that rows are sorted by; None if they are not."""
        return None if isinstance(self.sort, bool) else self.sort

    def _make_time_columns(self, table: DataFrame, groups: RowGroups) -> dict[Hashable, np.ndarray]:
        """Return the columns that are made of columns of times."""
        if not self.time_features:
            return {}
        _need(table, self.time, "of times", "time_features=None")
        if (missing := _missing_rows(_column(table, self.time))).size:
            raise ValueError(
                f"column {self.time!r} is missing in row {missing[0]}, and time_features are made of it. {_MISSING}"
            )
        column = _find_deciding_values(table, self.time)
        times = None if column is None else read_times(column)
        if times is None:
            raise ValueError(
                f"column {self.time!r} holds no date-times that can be read: write them as 2024-05-31T13:00:00"
            )
        made = time_features(
            Times(times.wall[groups.rows], times.instants[groups.rows]),
            groups.codes[groups.rows],
            str(self.time),
            self.time_features,
        )
        back = np.argsort(groups.rows)
        return {name: column[back] for name, column in made.items()}

    def _prepare_table(self, frame: object) -> DataFrame:
        """Return a table of narwhals with checked columns of ids and order."""
        table = _opened_table(frame)
        _need(table, self.sequence, "of sequence ids", "sequence=...")
        if not isinstance(self.sort, bool):
            _need(table, self.sort, "to sort rows by", "sort=...")
        return table

    def _named_features(self, table: DataFrame) -> list:
        others = {self.sequence, self.label, *(() if isinstance(self.sort, bool) else [self.sort])}
        names: list[Hashable]
        if self.features is None:
            names = [name for name in table.columns if name not in others]
        elif isinstance(self.features, str) or not is_sequence(self.features):
            raise TypeError(f"features must be a list of names of columns, or None for all, got {self.features!r:.60}")
        else:
            names = list(self.features)
        if self.label in names:
            raise ValueError(f"column {self.label!r} holds the labels: it cannot be a feature as well")
        if not names:
            raise ValueError(f"the table has no columns of features: its columns are {listed(table.columns)}")
        for name in names:
            _need(table, name, "of features", "features=...")
        return names

    def _labels(self, table: DataFrame, y: object, partly: bool) -> list | None:
        if y is None:
            if self.label is None:
                return None
            _need(table, self.label, "of labels", "label=...")
            values, noun = _column(table, self.label).to_list(), f"column {self.label!r}"
        else:
            values, noun = _listed_labels(y, len(table)), "y"
        if partly:
            return [None if _is_missing(value) else _whole(value) for value in values]
        for row, value in enumerate(values):
            if _is_missing(value):
                raise ValueError(
                    f"{noun} has no label in row {row}: every position of a sequence needs one. Drop its sequence, "
                    "give it a label, or fit to gaps by FrameCRF(ChainCRF(partial_labels=PartialLabels()))."
                )
        _check_one_kind(values, noun)
        return values

    def _groups(self, table: DataFrame) -> RowGroups:
        """Return the rows of each sequence."""
        ids = _column(table, self.sequence).to_list()
        for row, name in enumerate(ids):
            if _is_missing(name):
                raise ValueError(f"column {self.sequence!r} has no sequence id in row {row}. {_MISSING}")
        groups = RowGroups.group_rows(ids, self._ranks(table))
        if self.sort is False and (back := groups.first_return()) is not None:
            raise ValueError(
                f"the rows of sequence {ids[back]!r} are not together: row {back} comes after rows of others. "
                "sort=True takes them as one sequence, in their order; where they are several, give them "
                "different ids."
            )
        return groups

    def _sequences(
        self, table: DataFrame, columns: FeatureColumns, labels: list | None, groups: RowGroups
    ) -> FrameSequences:
        columns = {**columns, **self._make_time_columns(table, groups)} if len(table) else columns
        return FrameSequences(groups.inputs(columns), None if labels is None else groups.cut(labels), groups, table)

    def _ranks(self, table: DataFrame) -> np.ndarray | None:
        """Return the ranks (N,) of rows by the column to sort by; None without one."""
        if isinstance(self.sort, bool):
            return None
        values = _column(table, self.sort)
        if (missing := _missing_rows(values)).size:
            raise ValueError(f"column {self.sort!r}, to sort rows by, is missing in row {missing[0]}. {_MISSING}")
        column = _find_deciding_values(table, self.sort)
        textual = column is not None and not isinstance(column, np.ndarray) and all(map(is_time, column))
        times = read_times(column) if textual else None  # type: ignore[arg-type]
        return np.unique(values.to_numpy() if times is None else times.instants, return_inverse=True)[1]


def read_frame(
    frame: object,
    *,
    sequence: Hashable = "sequence",
    label: Hashable | None = None,
    features: Sequence[Hashable] | None = None,
    sort: bool | Hashable = False,
    time_features: Sequence[str] | None = None,
) -> FrameSequences:
    """Read sequences from a table that has one row per position.

    Parameters
    ----------
    frame : DataFrame
        A table of pandas, polars, pyarrow or another library that narwhals reads.
    sequence : str, default "sequence"
        The column of sequence ids. Rows of a sequence are together, in the order of its positions.
    label : str, optional
        The column of labels; None for a table without.
    features : list of str, optional
        The columns of features. By default all others but date-times, ids and what is one value in each sequence, which
        a warning names. Numbers and booleans become arrays; text and categories become feature dicts.
    sort : bool or str, default False
        True for rows that are not together; the name of a column to sort the rows of a sequence by, such as a time.
    time_features : list of {"hour", "weekday", "step"}, optional
        Numbers made of the first column of date-times; ``step`` is the time since the row before.

    Returns
    -------
    FrameSequences
        ``X``, ``y``, and the way back to columns.

    See Also
    --------
    kernelfields.FrameCRF : Takes the table itself.

    Examples
    --------
    >>> import pandas as pd
    >>> from kernelfields.features import read_frame
    >>> table = pd.DataFrame({"night": [1, 1, 2], "pulse": [60.0, 71.0, 58.0]})
    >>> sequences = read_frame(table, sequence="night")
    >>> [rows.ravel().tolist() for rows in sequences.X]
    [[60.0, 71.0], [58.0]]
    >>> sequences.column([["deep", "wake"], ["deep"]]).tolist()  # answers, row by row
    ['deep', 'wake', 'deep']
    """
    return FrameReader(sequence, label, features, sort, tuple(time_features or ())).learn(frame)


def split_lengths(rows: Any, lengths: object) -> list:
    """Split one array, list or table of packed positions into sequences.

    Parameters
    ----------
    rows : array, list or DataFrame
        The positions.
    lengths : sequence of int
        The length of each sequence.

    Returns
    -------
    list
        The sequences.

    Examples
    --------
    >>> from kernelfields.features import split_lengths
    >>> split_lengths(["a", "b", "c"], [2, 1])
    [['a', 'b'], ['c']]
    """
    sizes = np.asarray(lengths)
    if sizes.ndim != 1 or sizes.dtype.kind not in "iu" or (sizes <= 0).any():
        raise ValueError(f"lengths must be a list of positive whole numbers, one per sequence, got {lengths!r:.60}")
    n_rows = rows_if_any(rows)
    if int(sizes.sum()) != n_rows:
        raise ValueError(f"lengths add up to {int(sizes.sum())}, but there are {n_rows} positions")
    rows = rows.tocsr() if scipy.sparse.issparse(rows) else rows
    return [rows[first:last] for first, last in pairwise(make_offsets(sizes).tolist())]


def convert_library(answer: Any, library: str) -> Any:
    """Convert a table or a column to "pandas" or "polars"; "default" keeps it."""
    if library == "default":
        return answer
    if library not in ("pandas", "polars"):
        raise ValueError(f"set_output takes 'default', 'pandas' or 'polars', got {library!r}")
    table = _narwhals().from_native(answer, allow_series=True)
    if str(table.implementation) == library:
        return answer
    return table.to_pandas() if library == "pandas" else table.to_polars()


def _narwhals() -> ModuleType:
    # Its stable face: what these names do will not change under it.
    import narwhals.stable.v2 as narwhals

    return narwhals


def _opened_table(frame: object) -> DataFrame:
    narwhals = _narwhals()
    try:
        table = narwhals.from_native(frame)
    except TypeError as error:
        kind = type(frame).__name__
        advice = " Pass the table itself, not its groups." if kind.endswith("GroupBy") else ""
        raise TypeError(f"{_EXPECTED}, got {kind}.{advice}") from error
    except narwhals.exceptions.DuplicateError as error:
        raise ValueError(f"names of columns must differ: {' '.join(str(error).split())}") from error
    if isinstance(table, narwhals.LazyFrame):
        raise TypeError(f"{_EXPECTED}, got a lazy one: collect() or compute() it first")
    return table


def _column(table: DataFrame, name: Hashable) -> Series:
    return table.get_column(name)  # type: ignore[arg-type]  # pandas has columns of any name


def _need(table: DataFrame, name: Hashable, what: str, parameter: str) -> None:
    if name in table.columns:
        return
    index = _narwhals().maybe_get_index(table)
    levels = [] if index is None else list(index.names)
    advice = "it is in the index, use df.reset_index()." if name in levels else f"name it with {parameter}"
    raise ValueError(f"the table has no column {name!r} {what}: {advice} Its columns are {listed(table.columns)}.")


def _find_deciding_values(table: DataFrame, name: Hashable) -> np.ndarray | list[str] | None:
    """Return the values that decide whether a column is a feature, or None without such values."""
    narwhals, column = _narwhals(), _column(table, name)
    if n_missing := _missing_rows(column).size:
        timed = (narwhals.Datetime, narwhals.Date, narwhals.String, narwhals.Categorical, narwhals.Enum)
        if n_missing == len(column) or column.dtype not in timed:
            return None
        # A column of times is no feature, whether or not one is missing: those around it decide.
        column = column.fill_null(strategy="forward").fill_null(strategy="backward")
    if column.dtype in (narwhals.Datetime, narwhals.Date):
        if getattr(column.dtype, "time_zone", None) is not None:
            return [each.isoformat() for each in column.to_list()]
        return column.cast(narwhals.Datetime("us")).to_numpy()
    if column.dtype in (narwhals.String, narwhals.Categorical, narwhals.Enum):
        return [str(value) for value in column.to_list()]
    if column.dtype.is_numeric():
        return column.to_numpy().astype(np.float64)
    if column.dtype == narwhals.Object:
        values = column.to_list()
        if all(isinstance(value, date) for value in values):
            return [value.isoformat() for value in values]
        return values if all(isinstance(value, str) for value in values) else None
    return None


def _feature_column(table: DataFrame, name: Hashable, expected: str | None = None) -> np.ndarray | list[str]:
    """Return the values of a column: an array of numbers or a list of strings."""
    column = _column(table, name)
    if (missing := _missing_rows(column)).size:
        raise ValueError(f"column {name!r} is missing in row {missing[0]}: features must be known. {_MISSING}")
    kind = _kind_of(column, name)
    if expected not in (None, kind):
        held = _KINDS[str(expected)]
        raise ValueError(f"column {name!r} holds {_KINDS[kind]}, but held {held} in the fit; make it what it was")
    if kind == TEXT:
        return [str(value) for value in column.to_list()]
    values = column.to_numpy()
    values = values if values.dtype == np.float32 else values.astype(np.float64)
    if (infinite := np.flatnonzero(np.isinf(values))).size:
        row = infinite[0]
        raise ValueError(f"column {name!r} holds {values[row]} in row {row}: features must be finite. {_MISSING}")
    return values


def _kind_of(column: Series, name: Hashable) -> str:
    narwhals, dtype = _narwhals(), column.dtype
    if dtype.is_numeric() or dtype == narwhals.Boolean:
        return NUMBER
    if dtype in (narwhals.String, narwhals.Categorical, narwhals.Enum):
        return TEXT
    if dtype == narwhals.Object:
        values = column.to_list()
        textual = _check_one_kind(values, f"column {name!r}")
        odd = next((row for row, value in enumerate(values) if not isinstance(value, str | Real | Decimal)), None)
        if odd is None:
            return TEXT if textual else NUMBER
        came = f"{values[odd]!r:.60} ({type(values[odd]).__name__}) in row {odd}"
    else:
        came = f"values of type {dtype}"
    raise ValueError(
        f"column {name!r} holds {came} where numbers, booleans or text are needed: make such columns of it, or leave "
        "it out by features=[...]"
    )


def _check_one_kind(values: list, noun: str) -> bool:
    """Return whether values are strings; ValueError for a mixture of strings and others."""
    plain = [(row, value) for row, value in enumerate(values) if not isinstance(value, set | frozenset | Mapping)]
    textual = isinstance(plain[0][1], str) if plain else False
    for row, value in plain:
        if isinstance(value, str) != textual:
            first, other = (f"{shown!r:.60} ({type(shown).__name__})" for shown in (plain[0][1], value))
            raise ValueError(
                f"{noun} mixes text with other values: row {plain[0][0]} holds {first}, row {row} {other}. Make all "
                "one kind, for example by astype(str)."
            )
    return textual


def _missing_rows(column: Series) -> np.ndarray:
    """Return the rows of a column that are null or NaN."""
    missing = column.is_null().to_numpy().astype(bool)
    if not missing.any() and column.dtype.is_float():
        missing = np.isnan(column.to_numpy().astype(np.float64))
    return np.flatnonzero(missing)


def _is_missing(value: object) -> bool:
    """Whether a single value is None, NaN, NaT or another that is not equal to itself."""
    equal = value == value  # of pandas, neither True nor False where it is missing
    return value is None or not isinstance(equal, bool | np.bool_) or not equal


def _whole(value: object) -> object:
    """Return a label as an integer if it is a float with an integer value."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _listed_labels(y: object, n_rows: int) -> list:
    if not is_sequence(y) or n_dimensions(y) != 1:
        raise TypeError(f"y must hold one label per row of the table, or be None, got {type(y).__name__}")
    if len(y) != n_rows:
        raise ValueError(f"y holds {len(y)} labels, but the table has {n_rows} rows")
    return list_entries(y)
