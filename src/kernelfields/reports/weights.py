"""Weights of a field as tables: the largest per label, and the transitions between labels.

A :class:`WeightsTable` is plain data, names and numbers, and can be read three ways: ``str()`` for a terminal, one
label below the other; ``_repr_html_`` for a notebook, labels side by side, shaded by sign and size; ``to_dict``
and ``to_rows`` for programs. All names are escaped. Cost: that of writing down what is in the table.

A NaN among transitions or scores means that the field has no such weight; ``forbidden`` marks transitions that
constraints rule out. Fails: ValueError when arrays do not fit the labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kernelfields.reports.page import inspected, notebook
from kernelfields.reports.tables import (
    ABSENT,
    TEXT_WIDTH,
    Markup,
    Row,
    Table,
    element,
    join,
    largest_magnitude,
    list_table,
    matrix_table,
    printable,
    signed,
)

_FORBIDDEN = "x"


@dataclass(frozen=True)
class FeatureWeight:
    """The weight of one feature, None for a constant, for a label or for the step from a previous label to it."""

    feature: str | None
    label: Any
    weight: float
    previous: Any = None


@dataclass(frozen=True)
class WeightList:
    """The largest positive weights, falling, the lowest negative ones, rising, and how many are not listed.

    ``label`` is None for a list over all pairs of labels.
    """

    label: Any
    positive: tuple[FeatureWeight, ...]
    negative: tuple[FeatureWeight, ...]
    more_positive: int = 0
    more_negative: int = 0

    @property
    def rows(self) -> tuple[FeatureWeight, ...]:
        """All listed weights in falling order."""
        return (*self.positive, *reversed(self.negative))

    def lines(self) -> Iterator[tuple[FeatureWeight | None, str]]:
        """Yield each row with its words, and None with a remark where rows are left out."""
        for row in self.rows[: len(self.positive)]:
            yield row, _words(row)
        if self.more_positive:
            yield None, f"{self.more_positive:,} more positive"
        if self.more_negative:
            yield None, f"{self.more_negative:,} more negative"
        for row in self.rows[len(self.positive) :]:
            yield row, _words(row)
        if not (self.rows or self.more_positive or self.more_negative):
            yield None, "no weight other than zero"


@dataclass(frozen=True)
class SetWeights:
    """The lists of one clique set; a set without weights per feature has a note instead."""

    name: str
    lists: tuple[WeightList, ...] = ()
    note: str = ""


@dataclass(frozen=True, eq=False)
class WeightsTable:
    """What a field has learnt: lists per clique set, transitions (L, L) from row to column, scores per label.

    ``scores`` maps the name of a clique set without inputs, such as the start of a sequence, to (L,) numbers.
    """

    labels: tuple[Any, ...]
    sets: tuple[SetWeights, ...] = ()
    transitions: np.ndarray | None = None
    forbidden: np.ndarray | None = None
    scores: Mapping[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        n_labels = len(self.labels)
        for name, matrix in (("transitions", self.transitions), ("forbidden", self.forbidden)):
            if matrix is not None and matrix.shape != (n_labels, n_labels):
                raise ValueError(f"{name} has shape {matrix.shape}, but there are {n_labels} labels")
        for name, values in self.scores.items():
            if values.shape != (n_labels,):
                raise ValueError(f"scores of {name!r} have shape {values.shape}, but there are {n_labels} labels")

    def __str__(self) -> str:
        parts = []
        for each in self.sets:
            if each.note:
                parts.append(printable(f"{each.name}: {each.note}"))
            parts += [table.text() for table in self._lists(each)]
        return "\n\n".join([*parts, *(table.text(TEXT_WIDTH) for table in self._matrices())])

    def _repr_html_(self) -> str:
        return notebook([self.markup()])

    def markup(self) -> Markup:
        """Return the tables for a page, labels side by side."""
        parts = []
        for each in self.sets:
            if each.note:
                parts.append(element("p", f"{each.name}: {each.note}"))
            if each.lists:
                tables = join(table.markup() for table in self._lists(each))
                parts.append(element("div", tables, class_="kf-beside"))
        return inspected([*parts, *(table.markup() for table in self._matrices())])

    def to_dict(self) -> dict[str, Any]:
        """Return the table as plain values that JSON can hold; None where the field has no weight."""
        return {
            "labels": list(self.labels),
            "sets": [
                {"name": each.name, "note": each.note, "lists": [_list_dict(listed) for listed in each.lists]}
                for each in self.sets
            ],
            "transitions": None if self.transitions is None else [_plain(row) for row in self.transitions],
            "forbidden": None if self.forbidden is None else self.forbidden.tolist(),
            "scores": {name: _plain(values) for name, values in self.scores.items()},
        }

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one dict per weight, for ``csv.DictWriter`` or ``pandas.DataFrame``.

        Keys: set, previous, label, feature, weight. Transitions and scores per label have no feature: None.
        Forbidden transitions are left out.
        """
        weights = [(each.name, row) for each in self.sets for listed in each.lists for row in listed.rows]
        if self.transitions is not None:
            allowed = self._allowed_transitions(self.transitions)
            for i, j in np.argwhere(~np.isnan(allowed)):
                step = FeatureWeight(None, self.labels[j], float(allowed[i, j]), self.labels[i])
                weights.append(("transitions", step))
        for name, values in self.scores.items():
            for i in np.flatnonzero(~np.isnan(values)):
                weights.append((name, FeatureWeight(None, self.labels[i], float(values[i]))))
        return [{"set": name, **_row_dict(weight)} for name, weight in weights]

    def _allowed_transitions(self, transitions: np.ndarray) -> np.ndarray:
        return transitions if self.forbidden is None else np.where(self.forbidden, np.nan, transitions)

    def _matrices(self) -> Iterator[Table]:
        """Yield the tables of transitions and of scores per label."""
        if self.transitions is not None:
            values = self._allowed_transitions(self.transitions)
            cells = [[signed(value) for value in row] for row in values.tolist()]
            if self.forbidden is not None:
                for i, j in np.argwhere(self.forbidden):
                    cells[i][j] = _FORBIDDEN
            caption = f"transitions, from row to column{_legend(cells)}"
            yield matrix_table(caption, self.labels, self.labels, cells, values.tolist())
        if self.scores:
            values = np.column_stack(list(self.scores.values()))
            cells = [[signed(value) for value in row] for row in values.tolist()]
            caption = f"scores per label{_legend(cells)}"
            yield matrix_table(caption, self.labels, list(self.scores), cells, values.tolist())

    def _lists(self, each: SetWeights) -> Iterator[Table]:
        """Yield the lists of a clique set as tables, shaded by their share of the largest weight of the set."""
        largest = largest_magnitude(row.weight for listed in each.lists for row in listed.rows)
        for listed in each.lists:
            rows = [
                Row(("...", words), role="quiet")
                if row is None
                else Row((signed(row.weight), words), row.weight / largest)
                for row, words in listed.lines()
            ]
            yield list_table(self._heading(each, listed), rows)

    def _heading(self, each: SetWeights, listed: WeightList) -> str:
        if listed.label is None:
            return f"{each.name}: transitions by feature"
        several = sum(bool(other.lists) for other in self.sets) > 1
        return f"{each.name}: label {listed.label}" if several else f"label {listed.label}"


def _words(row: FeatureWeight) -> str:
    return str(row.feature) if row.previous is None else f"{row.previous} -> {row.label}, {row.feature}"


def _legend(cells: Iterable[Iterable[str]]) -> str:
    seen = {text for line in cells for text in line}
    marks = ((_FORBIDDEN, "forbidden"), (ABSENT, "no weight"))
    notes = [f"{mark} = {meaning}" for mark, meaning in marks if mark in seen]
    return f" ({', '.join(notes)})" if notes else ""


def _plain(values: np.ndarray) -> list[float | None]:
    return [None if np.isnan(value) else float(value) for value in values]


def _row_dict(row: FeatureWeight) -> dict[str, Any]:
    return {"previous": row.previous, "label": row.label, "feature": row.feature, "weight": row.weight}


def _list_dict(listed: WeightList) -> dict[str, Any]:
    return {
        "label": listed.label,
        "positive": [_row_dict(row) for row in listed.positive],
        "negative": [_row_dict(row) for row in listed.negative],
        "more_positive": listed.more_positive,
        "more_negative": listed.more_negative,
    }
