"""Sequences in CSV tables: a header, a row per position, and a column of sequence ids.

    recording,temperature,light,label
    monday,21.5,430,empty
    monday,21.7,431,occupied

Columns are chosen by name, and become sequences as those of data frames do (data/frames.py): dense float64 arrays
(T, d) with column names if all columns are numeric, else feature dicts {"name": number or text}. A column is numeric
if all of its values are numbers; ``kinds`` passes the kinds of the training file on to files for prediction, which may
differ by chance.

Rows of a sequence are adjacent. Memory: the table as text, and its inputs. Raises SequenceFileError with file, line and
column, also for missing values.
"""

from __future__ import annotations

import csv
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, isinf, nan

import numpy as np

from kernelfields.data.column_roles import column_roles
from kernelfields.data.frames import NUMBER, TEXT, FeatureColumns, RowGroups
from kernelfields.data.text_files import PathName, SequenceFileError, input_name, open_text_output, read_lines
from kernelfields.data.time_columns import TIME_FEATURES, read_times
from kernelfields.data.time_columns import time_features as features_of_times
from kernelfields.formats.sequence_file import Predictions, Reading, SequenceFile
from kernelfields.numerics.user_warnings import warn_user
from kernelfields.numerics.wording import inflect

_TAKE = "To take one as a feature, name it: --columns NAME,NAME of train, in Python features=[...]."
#: Usual texts for a number that is not known, in lower case.
_UNKNOWN = {"", "na", "n/a", "nan", "null", "none", "?", "-", ".", "missing"}


@dataclass(eq=False, kw_only=True)
class SequenceTable(SequenceFile):
    """The sequences of a CSV table, and its cells.

    ``header`` and ``rows`` are the table as text, in the order of the file, ``lines`` where the rows begin; ``groups``
    are the rows of every sequence.
    """

    header: list[str]
    rows: list[list[str]]
    groups: RowGroups
    lines: list[int]

    def place(self, sequence: int, position: int) -> str:
        """Return the line and column of the label of a position, for messages."""
        row = self.groups.rows[self.groups.offsets[sequence] + position]
        return f"line {self.lines[row]}, column {self.reading['label']!r}"

    def write_predictions(self, path: PathName, predictions: Predictions) -> None:
        """Write the table with additional columns: predicted, then probability, or p(B-NP), p(I-NP), ..."""
        shares = {"probability" if name is None else f"p({name})": cells for name, cells in predictions.shares()}
        write_table(path, self, {"predicted": predictions.texts(), **shares})


def read_table(
    path: PathName,
    *,
    sequence: str,
    label: str | None = None,
    labels_required: bool = True,
    features: Sequence[str] | None = None,
    kinds: Mapping[str, str] | None = None,
    delimiter: str = ",",
    time: str | None = None,
    time_features: Sequence[str] | None = None,
) -> SequenceTable:
    r"""Read sequences from a CSV table.

    Parameters
    ----------
    path : str or path
        The file; "-" is standard input, gzip is unpacked.
    sequence : str
        The column that says which sequence a row belongs to.
    label : str, optional
        The column of labels.
    labels_required : bool, default True
        Whether a table without that column is an error; else its labels are None.
    features : list of str, optional
        The columns of inputs. By default all others but date-times, ids and what is one value in each sequence, which
        a warning names.
    kinds : dict, optional
        "number" or "text" for columns by name, if that is not to be found out.
    delimiter : str, default ","
        What stands between cells.
    time : str, optional
        The column of date-times; the first one by default.
    time_features : list of {"hour", "weekday", "step"}, optional
        Numbers made of the column of date-times.

    Returns
    -------
    SequenceFile
        Inputs X and labels y.

    Examples
    --------
    >>> from pathlib import Path
    >>> from kernelfields.formats import read_table
    >>> n = Path("steps.csv").write_text("person,speed,label\n1,0.2,sit\n1,3.0,run\n2,2.8,run\n")
    >>> table = read_table("steps.csv", sequence="person", label="label")
    >>> table.y
    [['sit', 'run'], ['run']]
    """
    if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '"\r\n\0':
        raise ValueError(
            f"the separator of a CSV table is one character, such as ',' or ';', got {delimiter!r}: say which by "
            "--separator, in Python delimiter="
        )
    reader = _Reader(path, delimiter)
    named = label
    if label is not None and not labels_required and label not in reader.header:
        label = None
    found_here = features is None
    if features is None:
        features = [name for name in reader.header if name not in (sequence, label)]
    chosen = [sequence, *([] if label is None else [label]), *features]
    if len(set(chosen)) < len(chosen) or not features:
        raise ValueError("sequence, label and features must be different columns, at least one of them a feature")
    if strange := [name for name in kinds or {} if name not in features]:
        raise ValueError(f"kinds names the column {strange[0]!r}, which is not one of the features")
    reader.read(chosen, {sequence: "sequence", label: "label"}, may_be_empty=label)
    columns: FeatureColumns = {name: reader.feature(name, (kinds or {}).get(name)) for name in features}
    groups = reader.groups(sequence)
    if found_here:
        roles = column_roles(columns, groups.codes)
        time = roles.time if time is None else time  # type: ignore[assignment]  # columns of files are named by text
        if roles.left_out:
            if not roles.features and not time_features:
                raise ValueError(f"{reader.name} has no columns of features. {roles.line(_TAKE)}")
            warn_user(roles.line(_TAKE))
        columns = {name: columns[name] for name in roles.features}
    found = {str(name): NUMBER if isinstance(values, np.ndarray) else TEXT for name, values in columns.items()}
    names: Reading = {"sequence": sequence, "label": named, "delimiter": delimiter}
    if time_features:
        names |= {"time": time, "time_features": list(time_features)}
        columns = {**columns, **reader.make_time_columns(time, groups, time_features)}
    return SequenceTable(
        X=groups.inputs(columns),
        y=None if label is None else groups.cut(reader.cells(label)),
        reading={"format": "csv", **names, "features": list(found), "kinds": found},
        header=reader.header,
        rows=reader.rows,
        groups=groups,
        lines=reader.lines,
    )


def read_header(path: PathName, delimiter: str = ",") -> list[str]:
    """Return the column names of a table."""
    return _Reader(path, delimiter).header


def write_table(path: PathName, table: SequenceTable, appended: Mapping[str, Sequence[Sequence[str]]]) -> None:
    r"""Write a table with additional columns, rows in their original order.

    Parameters
    ----------
    path : str or path
        The file; "-" is standard output.
    table : SequenceFile
        What :func:`read_table` returned.
    appended : dict
        By the name of each column, for every sequence its cells.

    Examples
    --------
    >>> from pathlib import Path
    >>> from kernelfields.formats import read_table, write_table
    >>> n = Path("steps.csv").write_text("person,speed\n1,0.2\n1,3.0\n")
    >>> table = read_table("steps.csv", sequence="person", labels_required=False)
    >>> write_table("out.csv", table, {"predicted": [["sit", "run"]]})
    >>> print(Path("out.csv").read_text().strip())
    person,speed,predicted
    1,0.2,sit
    1,3.0,run
    """
    for name in appended:
        if name in table.header:
            raise ValueError(f"the table has a column {name!r} already: rename or remove it first")
    columns = [table.groups.in_order_of_rows(values) for values in appended.values()]
    with open_text_output(path) as file:
        writer = csv.writer(file, delimiter=table.reading["delimiter"], lineterminator="\n")
        writer.writerow([*table.header, *appended])
        writer.writerows([*row, *more] for row, *more in zip(table.rows, *columns, strict=True))


class _Reader:
    """The header and rows of a table, with the line of every row for messages."""

    def __init__(self, path: PathName, delimiter: str):
        self.name = input_name(path)
        self.delimiter = delimiter
        self.records = self._records(path)
        self.header = next(self.records, (0, []))[1]
        self.rows: list[list[str]] = []
        self.lines: list[int] = []
        if not self.header:
            raise SequenceFileError(f"{self.name} is empty, expected a header with the names of the columns")
        if twice := [name for index, name in enumerate(self.header) if name in self.header[:index]]:
            raise SequenceFileError(f"{self.name}, line 1: the header has the column {twice[0]!r} twice")

    def _records(self, path: PathName) -> Iterator[tuple[int, list[str]]]:
        """Yield the first line and the cells of each record; empty lines are skipped."""
        table = csv.reader((line + "\n" for line in read_lines(path)), delimiter=self.delimiter, strict=True)
        line = 1
        try:
            for cells in table:
                if cells:
                    yield line, cells
                line = table.line_num + 1
        except csv.Error as error:
            raise SequenceFileError(f"{self.name}, line {line}: {error}") from error

    def column(self, name: str, role: str = "") -> int:
        """Return the number of a column; ``role`` is its purpose in messages."""
        if name in self.header:
            return self.header.index(name)
        there = ", ".join(map(repr, self.header))
        advice = f" Say which one holds the {role}s: --{role}-column, in Python {role}=NAME." if role else ""
        if len(self.header) == 1:
            advice = " Is the separator another one?"
        raise SequenceFileError(f"{self.name}, line 1: no column {name!r}; there are {there}.{advice}")

    def read(self, names: list[str], roles: Mapping[str | None, str], may_be_empty: str | None = None) -> None:
        """Read the rows; named columns must have values, except the column ``may_be_empty``."""
        chosen = [(name, self.column(name, roles.get(name, ""))) for name in names]
        filled = [(name, column) for name, column in chosen if name != may_be_empty]
        for line, cells in self.records:
            if len(cells) != len(self.header):
                raise SequenceFileError(f"{self.name}, line {line}: {self._describe_wrong_row(cells)}")
            self.rows.append(cells)
            self.lines.append(line)
            for name, column in filled:
                if not cells[column].strip():
                    raise self.error(len(self.rows) - 1, name, "is empty. Fill it in, or remove the row.")
        if not self.rows:
            raise SequenceFileError(f"{self.name} has a header and no rows")

    def _describe_wrong_row(self, cells: list[str]) -> str:
        """Return the message for a row with a wrong number of cells."""
        found, expected = len(cells), len(self.header)
        if found < expected:
            problem = f"column {self.header[found]!r} is missing"
        else:
            problem = f"column {expected} (from 0), {cells[expected]!r:.40}, is one too many"
        return f"{problem}; found {inflect(found, 'column')}, expected {expected} as in the header"

    def error(self, row: int, name: str, problem: str) -> SequenceFileError:
        """Return an error with the place of a cell."""
        return SequenceFileError(f"{self.name}, line {self.lines[row]}: column {name!r} {problem}")

    def cells(self, name: str) -> list[str]:
        """Return the cells of a column."""
        column = self.column(name)
        return [cells[column] for cells in self.rows]

    def feature(self, name: str, kind: str | None) -> np.ndarray | list[str]:
        """Return the numbers or texts of a column; raise for a mixture of numbers and marks."""
        if kind not in (None, NUMBER, TEXT):
            raise ValueError(f"kinds[{name!r}] must be {NUMBER!r} or {TEXT!r}, got {kind!r}")
        cells = self.cells(name)
        if kind == TEXT:
            return cells
        numbers = list(map(_parse_number, cells))
        other = [row for row, number in enumerate(numbers) if not isfinite(number)]
        if not other:
            return np.array(numbers)
        first = f"holds {cells[other[0]]!r:.60}"
        if kind == NUMBER:
            raise self.error(other[0], name, f"{first}, expected a finite number")
        infinite = [isinf(numbers[row]) for row in other]
        unknown = [cells[row].strip().lower() in _UNKNOWN for row in other]
        if (len(other) < len(cells) or any(infinite)) and all(map(max, unknown, infinite)):
            advice = f"Fill it in, remove the row, or take the column as text: in Python, kinds={{{name!r}: {TEXT!r}}}."
            problem = ", which is not finite" if infinite[0] else " among numbers"
            raise self.error(other[0], name, f"{first}{problem}. {advice}")
        return cells

    def make_time_columns(
        self, name: str | None, groups: RowGroups, wanted: Sequence[str]
    ) -> dict[Hashable, np.ndarray]:
        """Return feature columns computed from a column of date-times."""
        if wrong := [each for each in wanted if each not in TIME_FEATURES]:
            raise ValueError(f"features of times are {', '.join(TIME_FEATURES)}, got {wrong[0]!r}")
        if name is None:
            raise SequenceFileError(f"{self.name} has no column of date-times to make {', '.join(wanted)} of")
        try:
            times = read_times(self.cells(name))
        except ValueError as error:
            raise SequenceFileError(f"{self.name}: column {name!r}: {error}") from error
        if times is None:
            raise SequenceFileError(
                f"{self.name}: column {name!r} holds no date-times that can be read: write them as 2024-05-31T13:00:00"
            )
        return dict(features_of_times(times, groups.codes, name, wanted).items())

    def groups(self, name: str) -> RowGroups:
        """Return the rows of each sequence by the ids in a column."""
        ids = self.cells(name)
        groups = RowGroups.group_rows(ids)
        if (row := groups.first_return()) is not None:
            end = max(before for before in range(row) if ids[before] == ids[row])
            problem = f"returns to {ids[row]!r:.60}, which ended in line {self.lines[end]}. Sort the rows."
            raise self.error(row, name, problem)
        return groups


def _parse_number(text: str) -> float:
    """Parse the number in a cell; NaN for other texts."""
    # float() also reads digits of other scripts and 1_000, which here are words.
    if not text.isascii() or "_" in text:
        return nan
    try:
        return float(text)
    except ValueError:
        return nan
