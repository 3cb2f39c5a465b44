"""Inspection of a fitted field, as tables: its size at a glance, its weights, what moved the labels of a sequence.

    ModelSummary    labels, clique sets and their sizes, certificates, transitions
    WeightsTable    the largest weights per label, the transitions between labels, scores of clique sets without inputs
    Explanation     at every position, the contributions for its label and against another

Each is plain data, names and numbers, that an estimator fills in: ``str()`` for a terminal, ``_repr_html_`` for a
notebook, ``markup`` for a page, ``to_dict`` for programs. All names are escaped. Certificates are objects with
scope, value, lower_bound, relative_gap, exact and a sentence.

A NaN among transitions or scores means that the field has no such weight; ``forbidden`` marks transitions that
constraints rule out. Of an explanation,

    difference_t = sum of contributions_t = score(y) - score(y with another label at t)

so a difference is the logarithm of how many times more probable the labelling is than the one with the other label
at that position alone. A rule that forbids the other labelling contributes infinity, one that forbids the labelling
itself minus infinity; where both are forbidden the difference is NaN.

Cost: that of writing down what is there. Fails: ValueError when arrays do not fit the labels.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelfields.reports.figures import Picture
from kernelfields.reports.heat_maps import MOST_LABELS, plot_transitions
from kernelfields.reports.page import inspected, notebook
from kernelfields.reports.tables import (
    ABSENT,
    TEXT_WIDTH,
    Markup,
    Row,
    Table,
    element,
    join,
    json_value,
    largest_magnitude,
    list_table,
    matrix_table,
    printable,
    shade,
    signed,
)

if TYPE_CHECKING:
    from kernelfields.solvers import Solution

SET_COLUMNS = ("clique set", "kernel", "sees", "basis functions", "weights", "not zero", "prior variance", "l1")
CERTIFICATE_COLUMNS = ("among", "value", "lower bound", "relative gap")
_SCOPES = {"span": "functions the basis spans", "rkhs": "all functions of the RKHS"}
_LISTED_LABELS = 12
_LABELS_OF_SMALL_MAP = 24
_FORBIDDEN = "x"
_MEANING = (
    "Scores of labels over others, the labels of their neighbours held fixed,",
    "and what they are the sums of. Probabilities are given in brackets.",
)


@dataclass(frozen=True)
class SetSummary:
    """One clique set: its kernel in words, what it sees, how many basis functions and weights it has."""

    name: str
    kernel: str
    sees: str
    rank: int
    n_weights: int
    n_nonzero: int
    prior_variance: float
    l1: float = 0.0

    def cells(self) -> tuple[str, ...]:
        """Return one row under SET_COLUMNS."""
        counts = (f"{self.rank:,}", f"{self.n_weights:,}", f"{self.n_nonzero:,}")
        return (self.name, self.kernel, self.sees, *counts, f"{self.prior_variance:g}", f"{self.l1:g}")


@dataclass(frozen=True, eq=False)
class ModelSummary:
    """What is known of a fitted model without its training data.

    ``parameters`` are those that differ from their defaults, in words; ``transitions`` (L, L) are scores that do
    not depend on inputs, None if there are none, and ``forbidden`` (L, L) what constraints rule out.
    """

    name: str
    labels: Sequence[Any]
    n_features: int
    sets: Sequence[SetSummary]
    solution: Solution
    certificates: Sequence[Any] = ()
    tol: float | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    transitions: np.ndarray | None = None
    forbidden: np.ndarray | None = None

    @property
    def n_weights(self) -> int:
        """Number of weights of all clique sets."""
        return sum(each.n_weights for each in self.sets)

    @property
    def heading(self) -> str:
        """Name and sizes in one line."""
        sets = f"{len(self.sets)} clique set{'s' if len(self.sets) != 1 else ''}"
        return (
            f"{self.name}: {len(self.labels):,} labels, {self.n_features:,} input features, {sets}, "
            f"{self.n_weights:,} weights"
        )

    def label_markup(self) -> Markup:
        """Return the labels, the first of them where there are many; none changes the direction of the others."""
        shown = [element("bdi", label) for label in self.labels[:_LISTED_LABELS]]
        return join([Markup(", ".join(shown)), self._more_labels])

    @property
    def _more_labels(self) -> str:
        more = len(self.labels) - _LISTED_LABELS
        return f" and {more:,} more" if more > 0 else ""

    @property
    def fit_words(self) -> str:
        """How the fit went, in a sentence."""
        fit = self.solution
        return (
            f"{fit.solver}, {fit.iterations:,} iterations, {fit.passes:,.4g} passes over the data, "
            f"{fit.seconds:,.3g} s; stopped because {fit.message}"
        )

    @property
    def sentences(self) -> list[str]:
        """What the certificates say in plain words."""
        return [f"the fit is {each.sentence}" for each in self.certificates if each.relative_gap < 1.0]

    def certificate_rows(self) -> list[tuple[str, ...]]:
        """Return one row under CERTIFICATE_COLUMNS for each certificate."""
        return [
            (
                _SCOPES.get(each.scope, str(each.scope)),
                f"{each.value:.6g}",
                f"{each.lower_bound:.6g}",
                f"{'' if each.exact else 'at most '}{each.relative_gap:.2g}",
            )
            for each in self.certificates
        ]

    def set_table(self) -> Table:
        """Return the clique sets, one in a row."""
        return Table(SET_COLUMNS, [each.cells() for each in self.sets], words=(0, 1, 2))

    def certificate_table(self) -> Table:
        """Return the certificates, one in a row."""
        return Table(CERTIFICATE_COLUMNS, self.certificate_rows())

    def parameter_table(self) -> Table:
        """Return the parameters that are not the default, one in a row."""
        return Table(("parameter", "value"), list(self.parameters.items()), words=(0, 1))

    def transition_picture(self, most: int = MOST_LABELS) -> Picture | None:
        """Return the heat map of the transitions, None if there are none."""
        if self.transitions is None:
            return None
        return plot_transitions(self.transitions, self.labels, self.forbidden, most=most)

    def __str__(self) -> str:
        words = ", ".join(printable(label) for label in self.labels[:_LISTED_LABELS])
        parts = [self.heading, f"labels: {words}{self._more_labels}", f"fit: {self.fit_words}", *self.sentences]
        for row in self.certificate_rows():
            parts.append(f"among {row[0]}: value {row[1]}, lower bound {row[2]}, relative gap {row[3]}")
        for each in self.sets:
            pairs = zip(SET_COLUMNS[1:], each.cells()[1:], strict=True)
            parts.append(f"{each.name}: " + ", ".join(f"{name} {cell}" for name, cell in pairs))
        parts += [f"{name} = {value}" for name, value in self.parameters.items()]
        return "\n".join(
            textwrap.fill(printable(part, 10 * TEXT_WIDTH), TEXT_WIDTH, subsequent_indent="    ") for part in parts
        )

    def _repr_html_(self) -> str:
        return notebook([self.markup()])

    def markup(self) -> Markup:
        """Return the summary as a notebook shows it, for a page."""
        parts: list[object] = [
            element("p", element("strong", self.heading)),
            element("p", "Labels: ", self.label_markup()),
            self.set_table().markup(),
            element("p", f"Fit: {self.fit_words}."),
        ]
        if self.certificates:
            parts += [element("p", f"{sentence[0].upper()}{sentence[1:]}.") for sentence in self.sentences]
            parts.append(self.certificate_table().markup())
        picture = self.transition_picture(_LABELS_OF_SMALL_MAP)
        if picture is not None:
            parts.append(_folded("Transition scores, from row to column", picture.markup(), opened=True))
        if self.parameters:
            parts.append(_folded("Parameters that are not the default", self.parameter_table().markup()))
        return inspected(parts)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        fit = ("solver", "iterations", "passes", "seconds", "reason", "converged")
        certificate = ("scope", "value", "lower_bound", "relative_gap", "exact")
        return {
            "name": self.name,
            "labels": json_value(self.labels),
            "n_features": self.n_features,
            "n_weights": self.n_weights,
            "sets": [json_value(asdict(each)) for each in self.sets],
            "fit": {name: getattr(self.solution, name) for name in fit},
            "tol": self.tol,
            "certificates": [
                {name: json_value(getattr(each, name)) for name in certificate} for each in self.certificates
            ],
            "parameters": dict(self.parameters),
        }


def _folded(heading: str, content: Markup, opened: bool = False) -> Markup:
    return element("details", element("summary", heading), content, open="open" if opened else None)


@dataclass(frozen=True)
class FeatureWeight:
    """The weight of one feature, None for a constant, for a label or for the step from a previous label to it."""

    feature: str | None
    label: Any
    weight: float
    previous: Any = None

    @property
    def words(self) -> str:
        """The feature, with the step that it weighs if there is one."""
        return str(self.feature) if self.previous is None else f"{self.previous} -> {self.label}, {self.feature}"


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
        yield from ((row, row.words) for row in self.positive)
        for more, sign in ((self.more_positive, "positive"), (self.more_negative, "negative")):
            if more:
                yield None, f"{more:,} more {sign}"
        yield from ((row, row.words) for row in reversed(self.negative))
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

    ``scores`` maps the name of a clique set without inputs, such as the start of a sequence, to (L,) numbers, and
    ``tables`` that of a type of edges to (L, L) scores, first node in the row and second in the column.
    """

    labels: tuple[Any, ...]
    sets: tuple[SetWeights, ...] = ()
    transitions: np.ndarray | None = None
    forbidden: np.ndarray | None = None
    scores: Mapping[str, np.ndarray] = field(default_factory=dict)
    tables: Mapping[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        n_labels = len(self.labels)
        matrices = {"transitions": self.transitions, "forbidden": self.forbidden}
        for name, matrix in (matrices | dict(self.tables)).items():
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
            "transitions": json_value(self.transitions),
            "forbidden": json_value(self.forbidden),
            "scores": {name: json_value(values) for name, values in self.scores.items()},
            "tables": {name: json_value(table) for name, table in self.tables.items()},
        }

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one dict per weight, for ``csv.DictWriter`` or ``pandas.DataFrame``.

        Keys: set, previous, label, feature, weight. Transitions and scores per label have no feature: None.
        Forbidden transitions are left out.
        """
        weights = [(each.name, row) for each in self.sets for listed in each.lists for row in listed.rows]
        tables = dict(self.tables)
        if self.transitions is not None:
            tables = {"transitions": self._allowed_transitions(self.transitions), **tables}
        for name, table in tables.items():
            for i, j in np.argwhere(~np.isnan(table)):
                step = FeatureWeight(None, self.labels[j], float(table[i, j]), self.labels[i])
                weights.append((name, step))
        for name, values in self.scores.items():
            for i in np.flatnonzero(~np.isnan(values)):
                weights.append((name, FeatureWeight(None, self.labels[i], float(values[i]))))
        return [{"set": name, **_row_dict(weight)} for name, weight in weights]

    def _allowed_transitions(self, transitions: np.ndarray) -> np.ndarray:
        return transitions if self.forbidden is None else np.where(self.forbidden, np.nan, transitions)

    def _matrices(self) -> Iterator[Table]:
        """Yield the tables of transitions and of scores per label."""
        if self.transitions is not None:
            allowed = self._allowed_transitions(self.transitions)
            yield self._matrix("transitions, from row to column", self.labels, allowed, self.forbidden)
        for name, table in self.tables.items():
            symmetric = np.array_equal(table, table.T, equal_nan=True)
            yield self._matrix(name if symmetric else f"{name}, from row to column", self.labels, table)
        if self.scores:
            yield self._matrix("scores per label", list(self.scores), np.column_stack(list(self.scores.values())))

    def _matrix(
        self, caption: str, columns: Sequence[Any], values: np.ndarray, forbidden: np.ndarray | None = None
    ) -> Table:
        cells = [[signed(value) for value in row] for row in values.tolist()]
        for i, j in [] if forbidden is None else np.argwhere(forbidden):
            cells[i][j] = _FORBIDDEN
        seen, marks = {text for line in cells for text in line}, {_FORBIDDEN: "forbidden", ABSENT: "no weight"}
        notes = ", ".join(f"{mark} = {meaning}" for mark, meaning in marks.items() if mark in seen)
        return matrix_table(f"{caption} ({notes})" if notes else caption, self.labels, columns, cells, values.tolist())

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
            return f"{each.name}: pairs of labels by feature"
        several = sum(bool(other.lists) for other in self.sets) > 1
        return f"{each.name}: label {listed.label}" if several else f"label {listed.label}"


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


@dataclass(frozen=True)
class Contribution:
    """One term of a difference of scores.

    ``kind`` is "feature", "transition" (without inputs), "constant" (of a label), "kernel" (a whole clique set) or
    "rule" (a labelling is forbidden: the amount is infinite). The ``parts`` of a kernel's contribution are "training"
    (what a training input contributed) or "pivot" (a term of the kernel expansion), with the "rest" of them summed up,
    or "similar" (a training input nearby, without an amount); of a segment "position". Segments also have "duration".
    ``value`` is the value of the feature, or of the kernel.
    """

    kind: str
    clique_set: str
    name: str
    amount: float
    value: float | None = None
    parts: tuple[Contribution, ...] = ()

    @property
    def words(self) -> str:
        """The name, with the value where it is not one."""
        if self.kind in ("pivot", "training", "similar"):
            return f"{self.name} (kernel value {self.value:.4g})"
        return self.name if self.value is None or self.value == 1.0 else f"{self.name} (value {self.value:.4g})"

    def to_dict(self) -> dict[str, Any]:
        """Return the contribution as plain values."""
        return {
            "kind": self.kind,
            "set": self.clique_set,
            "name": self.name,
            "amount": json_value(self.amount),
            "value": self.value,
            "parts": [part.to_dict() for part in self.parts],
        }


@dataclass(frozen=True)
class PositionExplanation:
    """One position: its label and the other one, their marginal probabilities, and the terms of the difference.

    ``contributions`` come in falling order; ``more`` features that are not listed add up to ``more_amount``.
    """

    position: int
    token: str | None
    label: Any
    other: Any
    probability: float
    other_probability: float
    difference: float
    contributions: tuple[Contribution, ...]
    more: int = 0
    more_amount: float = 0.0

    @property
    def heading(self) -> str:
        """Position, labels, probabilities and difference in one line."""
        token = "" if self.token is None else f" {self.token!r}"
        sides = f"{self.label} ({self.probability:.3f}) over {self.other} ({self.other_probability:.3f})"
        return f"{self._place}{token}: {sides}, {signed(self.difference)}"

    @property
    def _place(self) -> str:
        return str(self.position)

    def lines(self) -> Iterator[tuple[float, str, bool]]:
        """Yield amounts, words, and whether the line is a part of the one above it."""
        for each in self.contributions:
            yield each.amount, each.words, False
            for part in each.parts:
                yield part.amount, part.words, True

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation of this position as plain values, None for what is infinite."""
        return json_value(vars(self))

    def table(self, largest: float = 1.0) -> Table:
        """Return the terms as a list, shaded by their share of ``largest``."""
        rows = [
            Row((signed(amount), words), amount / largest, "part" if part else "")
            for amount, words, part in self.lines()
        ]
        if self.more:
            left = f"({self.more:,} more feature{'s' if self.more > 1 else ''})"
            rows.append(Row((signed(self.more_amount), left), role="quiet"))
        return list_table(self.heading, rows)

    def __str__(self) -> str:
        return self.table().text()


@dataclass(frozen=True)
class SegmentExplanation(PositionExplanation):
    """One segment, from ``position`` to before ``end``; probabilities are means over its positions."""

    end: int = 0

    @property
    def _place(self) -> str:
        last = self.end - 1
        return f"position {last}" if last == self.position else f"positions {self.position} to {last}"


@dataclass(frozen=True)
class Explanation:
    """The explanations of all positions, or segments, of one sequence."""

    positions: tuple[PositionExplanation, ...]

    def __str__(self) -> str:
        return "\n\n".join(["\n".join(_MEANING), *map(str, self.positions)])

    def _repr_html_(self) -> str:
        return notebook([self.markup()])

    def markup(self) -> Markup:
        """Return tokens shaded by their differences, and the terms of each position, for a page."""
        strongest = largest_magnitude(each.difference for each in self.positions)
        tokens = [
            element(
                "span",
                each.position if each.token is None else each.token,
                element("small", each.label),
                class_="kf-token",
                style=shade(each.difference / strongest),
                title=each.heading,
            )
            for each in self.positions
        ]
        largest = largest_magnitude(amount for each in self.positions for amount, _, part in each.lines() if not part)
        tables = [each.table(largest).markup() for each in self.positions]
        meaning = element("p", " ".join(_MEANING))
        return inspected([meaning, element("p", *tokens), element("div", *tables, class_="kf-beside")])

    def to_dict(self) -> dict[str, Any]:
        """Return all positions as plain values that JSON can hold."""
        return {"positions": [each.to_dict() for each in self.positions]}
