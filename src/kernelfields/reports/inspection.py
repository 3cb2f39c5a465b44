"""Inspection of a fitted field, as tables: its size at a glance, its weights, explanations of labels.

    ModelSummary    labels, clique sets and their sizes, certificates, transitions
    WeightsTable    the largest weights per label, the transitions between labels, scores of clique sets without inputs
    Explanation     at every position, the contributions for its label and against another

Each is plain data, names and numbers, that an estimator fills in: ``str()`` for a terminal, ``_repr_html_`` for a
notebook, ``markup`` for a page, ``to_dict`` and ``to_rows`` for programs. All names are escaped.

A NaN among transitions or scores means that the field has no such weight; ``forbidden`` marks transitions that
constraints rule out. Of an explanation,

    difference_t = sum of contributions_t = score(y) - score(y with another label at t)

so a difference is the logarithm of how many times more probable the labelling is than the one with the other label
at that position alone. A rule that forbids the other labelling contributes infinity, one that forbids the labelling
itself minus infinity; where both are forbidden the difference is NaN.

Cost: that of writing the tables. Raises ValueError when arrays do not fit the labels.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kernelfields.numerics.wording import inflect
from kernelfields.reports.figures import Picture
from kernelfields.reports.heat_maps import MOST_LABELS, plot_transitions
from kernelfields.reports.markup import Markup, notebook, render
from kernelfields.reports.page import Part, Shown
from kernelfields.reports.tables import (
    ABSENT,
    TEXT_WIDTH,
    PlainValues,
    Result,
    Row,
    Table,
    json_value,
    largest_magnitude,
    list_table,
    matrix_table,
    printable,
    shade,
    signed,
)

if TYPE_CHECKING:
    from kernelfields.objective.bounds import Certificate
    from kernelfields.solvers import Solution

_SET_FORMATS = {
    "clique set": "",
    "kernel": "",
    "sees": "",
    "basis functions": ",",
    "weights": ",",
    "not zero": ",",
    "prior variance": "g",
    "l1": "g",
}
_SCOPES = {"span": "functions the basis spans", "rkhs": "all functions of the RKHS"}
_LISTED_LABELS = 12
_LABELS_OF_SMALL_MAP = 24
_FORBIDDEN = "x"
_MEANING = (
    "Scores of labels over others, the labels of their neighbours held fixed,\n"
    "and what they are the sums of. Probabilities are given in brackets."
)


@dataclass(frozen=True)
class SetSummary:
    """A clique set: its kernel, its inputs, and its numbers of basis functions and weights."""

    name: str
    kernel: str
    sees: str
    rank: int
    n_weights: int
    n_nonzero: int
    prior_variance: float
    l1: float = 0.0


@dataclass(frozen=True, eq=False)
class ModelSummary(Shown):
    """A summary of a fitted model without training data; ``summary()`` of an estimator returns it.

    Parameters
    ----------
    name : str
        The name of the estimator.
    labels : list
        The labels.
    n_features : int
        The number of columns of inputs.
    sets : list
        The clique sets.
    solution : Solution
        How the fit ended.
    certificates : list of Certificate, default ()
        How near it is to the best fit there is.
    choices : list of str, default ()
        What was chosen for parameters that were left to the data, then all that was tried.
    parameters : dict, optional
        The parameters that differ from their defaults, in words.
    transitions : array (L, L), optional
        Scores of neighbouring labels that do not depend on inputs.
    forbidden : array (L, L), optional
        What constraints rule out.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import ChainCRF
    >>> y = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]]
    >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])]
    >>> crf = ChainCRF("rbf", prior_variance=1.0, scale=True, window=1).fit(X, y)
    >>> summary = crf.summary()
    >>> summary.labels
    ('rain', 'sun')
    >>> print(summary)  # doctest: +ELLIPSIS
    ChainCRF...
    """

    name: str
    labels: Sequence[object]
    n_features: int
    sets: Sequence[SetSummary]
    solution: Solution
    certificates: Sequence[Certificate] = ()
    choices: Sequence[str] = ()
    parameters: Mapping[str, str] = field(default_factory=dict)
    transitions: np.ndarray | None = None
    forbidden: np.ndarray | None = None

    @property
    def n_weights(self) -> int:
        """Number of weights of all clique sets."""
        return sum(clique_set.n_weights for clique_set in self.sets)

    @property
    def tol(self) -> float | None:
        """The relative gap that ends the fit; None if another rule ends it."""
        return self.solution.history[-1].tol if self.solution.history else None

    @property
    def heading(self) -> str:
        """The name and the sizes in one line."""
        numbers = len(self.labels), self.n_features, len(self.sets), self.n_weights
        sizes = map(inflect, numbers, ("label", "input feature", "clique set", "weight"))
        return f"{self.name}: {', '.join(sizes)}"

    @property
    def first_labels(self) -> Sequence[object]:
        """The labels, or the first ones if there are many."""
        return self.labels[:_LISTED_LABELS]

    @property
    def more_labels(self) -> str:
        """A note on the labels that ``first_labels`` omits; empty if there are none."""
        more = len(self.labels) - _LISTED_LABELS
        return f" and {more:,} more" if more > 0 else ""

    @property
    def fit_words(self) -> str:
        """A sentence about the fit: solver, iterations and end."""
        fit = self.solution
        if fit.reason == "given":
            return fit.message
        return (
            f"{fit.solver}, {inflect(fit.iterations, 'iteration')}, {inflect(fit.passes, 'pass', ',.4g')} over the "
            f"data, {fit.seconds:,.3g} s; stopped because {fit.message}"
        )

    @property
    def sentences(self) -> list[str]:
        """A sentence about each certificate."""
        known = [certificate for certificate in self.certificates if certificate.relative_gap < 1.0]
        # Explicit features span their whole RKHS: what is proved for one holds for the other.
        same = len({certificate.lower_bound for certificate in known}) == 1
        return [f"the fit is {certificate.sentence}" for certificate in (known[-1:] if same else known)]

    @property
    def line(self) -> str:
        """The sizes and the relative gap in one line."""
        near = [known.nearness for known in self.certificates[:1] if known.relative_gap < 1.0]
        return ", ".join([inflect(len(self.labels), "label"), inflect(self.n_features, "feature"), *near])

    def fold(self) -> str:
        """Return the HTML of a line that expands to the summary, for a notebook.

        Returns
        -------
        str
            The HTML.
        """
        return notebook([render("folded.html", line=self.line, summary=self.markup())])

    @property
    def set_table(self) -> Table:
        """A table with a row for each clique set."""
        rows = [tuple(vars(clique_set).values()) for clique_set in self.sets]
        return Table(tuple(_SET_FORMATS), rows, words=(0, 1, 2), formats=_SET_FORMATS)

    @property
    def certificate_table(self) -> Table:
        """A table with a row for each certificate."""
        rows = [
            (
                _SCOPES.get(certificate.scope, str(certificate.scope)),
                certificate.value,
                certificate.lower_bound,
                f"{'' if certificate.exact else 'at most '}{certificate.relative_gap:.2g}",
            )
            for certificate in self.certificates
        ]
        columns = ("among", "value", "lower bound", "relative gap")
        return Table(columns, rows, formats={"value": ".6g", "lower bound": ".6g"})

    @property
    def parameter_table(self) -> Table:
        """A table with a row for each parameter that is not at its default."""
        return Table(("parameter", "value"), list(self.parameters.items()), words=(0, 1))

    def transition_picture(self, most: int = MOST_LABELS) -> Picture | None:
        """Return the heat map of the transitions.

        Parameters
        ----------
        most : int, default 50
            The most labels that are shown.

        Returns
        -------
        Picture or None
            The picture; None if there are no transitions.
        """
        if self.transitions is None:
            return None
        return plot_transitions(self.transitions, self.labels, self.forbidden, most=most)

    def parts(self) -> list[Table]:
        """Return the table of clique sets.

        Returns
        -------
        list of Table
            What is printed.
        """
        return [self.set_table]

    def __str__(self) -> str:
        words = ", ".join(printable(label) for label in self.first_labels)
        lines = [
            self.heading,
            f"labels: {words}{self.more_labels}",
            f"fit: {self.fit_words}",
            *self.sentences,
        ]
        for name, *cells in self.set_table.shown_rows():
            pairs = zip(self.set_table.columns[1:], cells, strict=True)
            lines.append(f"{name}: " + ", ".join(f"{column} {cell}" for column, cell in pairs))
        lines += [*self.choices, *(f"{name} = {value}" for name, value in self.parameters.items())]
        return "\n".join(
            textwrap.fill(printable(line, 10 * TEXT_WIDTH), TEXT_WIDTH, subsequent_indent="    ") for line in lines
        )

    def markup(self) -> Markup:
        """Return the summary as HTML for a page.

        Returns
        -------
        Markup
            The HTML.
        """
        return render("summary.html", model=self, picture=self.transition_picture(_LABELS_OF_SMALL_MAP))

    def to_dict(self) -> PlainValues:
        """Return plain values for JSON.

        Returns
        -------
        dict
            The values.
        """
        fit = ("solver", "iterations", "passes", "seconds", "reason", "converged")
        certificate = ("scope", "value", "lower_bound", "relative_gap", "exact")
        return {
            "name": self.name,
            "labels": json_value(self.labels),
            "n_features": self.n_features,
            "n_weights": self.n_weights,
            "sets": [json_value(asdict(clique_set)) for clique_set in self.sets],
            "fit": {name: getattr(self.solution, name) for name in fit},
            "tol": self.tol,
            "certificates": [
                {name: json_value(getattr(known, name)) for name in certificate} for known in self.certificates
            ],
            "choices": list(self.choices),
            "parameters": dict(self.parameters),
        }


@dataclass(frozen=True)
class FeatureWeight(Result):
    """The weight of a feature, or of a constant if ``feature`` is None, for a label or a pair of labels."""

    feature: str | None
    label: object
    weight: float
    previous: object = None

    @property
    def words(self) -> str:
        """The feature, with its pair of labels, as text."""
        return str(self.feature) if self.previous is None else f"{self.previous} -> {self.label}, {self.feature}"


@dataclass(frozen=True)
class WeightList(Result):
    """The largest positive and negative weights, sorted, and the number of omitted weights.

    ``label`` is None for a list over all pairs of labels.
    """

    label: object
    positive: tuple[FeatureWeight, ...]
    negative: tuple[FeatureWeight, ...]
    more_positive: int = 0
    more_negative: int = 0

    @property
    def rows(self) -> tuple[FeatureWeight, ...]:
        """The listed weights in descending order."""
        return (*self.positive, *reversed(self.negative))

    def table(self, caption: str, largest: float) -> Table:
        """Return the list as a table, shaded by the share of the largest weight, with a note on omitted weights."""
        remarks = [
            f"{more:,} more {sign}"
            for more, sign in ((self.more_positive, "positive"), (self.more_negative, "negative"))
            if more
        ]
        if not (self.rows or remarks):
            remarks = ["no weight other than zero"]
        positive, negative = (
            [Row((signed(entry.weight), entry.words), entry.weight / largest) for entry in entries]
            for entries in (self.positive, reversed(self.negative))
        )
        return list_table(caption, [*positive, *(Row(("...", words), role="quiet") for words in remarks), *negative])


@dataclass(frozen=True)
class SetWeights(Result):
    """The weight lists of a clique set, or a note if it has no weights of features."""

    name: str
    lists: tuple[WeightList, ...] = ()
    note: str = ""


@dataclass(frozen=True, eq=False)
class WeightsTable(Shown):
    """The weights of a fitted field; ``weights()`` of an estimator returns it.

    Parameters
    ----------
    labels : tuple
        The labels.
    sets : tuple, default ()
        The largest weights of each clique set.
    transitions : array (L, L), optional
        Scores from the label in the row to that in the column.
    forbidden : array (L, L), optional
        What constraints rule out.
    scores : dict, optional
        Scores (L,) by the name of a clique set without inputs, such as the start of a sequence.
    tables : dict, optional
        Scores (L, L) by the name of a type of edges.

    Examples
    --------
    >>> from kernelfields import ChainCRF
    >>> X = [[{"word": "Ann"}, {"word": "sings"}], [{"word": "Bob"}, {"word": "sings"}]]
    >>> crf = ChainCRF("linear", prior_variance=1.0).fit(X, [["NAME", "VERB"], ["NAME", "VERB"]])
    >>> rows = [row for row in crf.weights().to_rows() if row["feature"] == "word:sings"]
    >>> row = max(rows, key=lambda row: row["weight"])
    >>> row["feature"], row["label"]
    ('word:sings', 'VERB')
    """

    labels: tuple[object, ...]
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

    def parts(self) -> Iterator[str | Table | list[Table]]:
        """Yield notes and lists of the clique sets, labels side by side, and transitions.

        Yields
        ------
        str and Table
            What is printed.
        """
        several = sum(bool(clique_set.lists) for clique_set in self.sets) > 1
        for clique_set in self.sets:
            if clique_set.note:
                yield f"{clique_set.name}: {clique_set.note}"
            largest = largest_magnitude(entry.weight for listed in clique_set.lists for entry in listed.rows)
            prefix = f"{clique_set.name}: " if several else ""
            yield [
                listed.table(
                    f"{clique_set.name}: pairs of labels by feature"
                    if listed.label is None
                    else f"{prefix}label {listed.label}",
                    largest,
                )
                for listed in clique_set.lists
            ]
        for name, table in self._matrices().items():
            symmetric = np.array_equal(table, table.T, equal_nan=True) and name != "transitions"
            forbidden = self.forbidden if name == "transitions" else None
            yield self._matrix(name if symmetric else f"{name}, from row to column", self.labels, table, forbidden)
        if self.scores:
            yield self._matrix("scores per label", list(self.scores), np.column_stack(list(self.scores.values())))

    def to_rows(self) -> list[PlainValues]:
        """Return one dict per weight, for ``csv.DictWriter`` or ``pandas.DataFrame``.

        Returns
        -------
        list of dict
            Set, previous, label, feature and weight. Transitions and scores per label have no feature: None. Forbidden
            transitions are left out.
        """
        weights = [
            (clique_set.name, entry) for clique_set in self.sets for listed in clique_set.lists for entry in listed.rows
        ]
        for name, table in self._matrices().items():
            for i, j in np.argwhere(~np.isnan(table)):
                weights.append((name, FeatureWeight(None, self.labels[j], float(table[i, j]), self.labels[i])))
        for name, values in self.scores.items():
            for i in np.flatnonzero(~np.isnan(values)):
                weights.append((name, FeatureWeight(None, self.labels[i], float(values[i]))))
        keys = ("previous", "label", "feature", "weight")
        return [{"set": name, **{key: getattr(weight, key) for key in keys}} for name, weight in weights]

    def _matrices(self) -> dict[str, np.ndarray]:
        """Return the scores of pairs of labels by name, NaN for forbidden transitions."""
        if self.transitions is None:
            return dict(self.tables)
        forbidden = False if self.forbidden is None else self.forbidden
        return {"transitions": np.where(forbidden, np.nan, self.transitions), **self.tables}

    def _matrix(
        self, caption: str, columns: Sequence[object], values: np.ndarray, forbidden: np.ndarray | None = None
    ) -> Table:
        cells = [[signed(value) for value in row] for row in values.tolist()]
        for i, j in [] if forbidden is None else np.argwhere(forbidden):
            cells[i][j] = _FORBIDDEN
        seen, marks = {text for line in cells for text in line}, {_FORBIDDEN: "forbidden", ABSENT: "no weight"}
        notes = ", ".join(f"{mark} = {meaning}" for mark, meaning in marks.items() if mark in seen)
        return matrix_table(f"{caption} ({notes})" if notes else caption, self.labels, columns, cells, values.tolist())


@dataclass(frozen=True)
class Contribution(Result):
    """A term of a score difference.

    ``kind`` is "feature", "transition" (without inputs), "constant" (of a label), "kernel" (a whole clique set) or
    "rule" (a labelling is forbidden: the amount is infinite). The ``parts`` of a kernel's contribution are "similar"
    (a training input nearby, without an amount). ``value`` is the value of the feature, or of the kernel.
    """

    kind: str
    clique_set: str
    name: str
    amount: float
    value: float | None = None
    parts: tuple[Contribution, ...] = ()

    @property
    def words(self) -> str:
        """The name of the term, with its value unless that is one."""
        if self.kind == "similar":
            return f"{self.name} (kernel value {self.value:.4g})"
        return self.name if self.value is None or self.value == 1.0 else f"{self.name} (value {self.value:.4g})"

    def to_dict(self) -> PlainValues:
        """Return the contribution as plain values."""
        values = super().to_dict()
        return {"kind": values.pop("kind"), "set": values.pop("clique_set"), **values}


@dataclass(frozen=True)
class PositionExplanation(Result):
    """A position, its label, the alternative label, their probabilities, and terms of the score difference.

    ``contributions`` come in falling order; ``more`` features that are not listed add up to ``more_amount``.
    """

    position: int
    token: str | None
    label: object
    other: object
    probability: float
    other_probability: float
    difference: float
    contributions: tuple[Contribution, ...]
    more: int = 0
    more_amount: float = 0.0

    @property
    def heading(self) -> str:
        """Position, labels, probabilities and score difference in one line."""
        token = "" if self.token is None else f" {self.token!r}"
        sides = f"{self.label} ({self.probability:.3f}) over {self.other} ({self.other_probability:.3f})"
        return f"{self.position}{token}: {sides}, {signed(self.difference)}"

    def table(self, largest: float = 1.0) -> Table:
        """Return the terms as a list, shaded by their share of ``largest``."""
        rows = [
            Row((signed(term.amount), term.words), term.amount / largest, "part" if number else "")
            for contribution in self.contributions
            for number, term in enumerate((contribution, *contribution.parts))
        ]
        if self.more:
            left = f"({inflect(self.more, 'more feature')})"
            rows.append(Row((signed(self.more_amount), left), role="quiet"))
        return list_table(self.heading, rows)

    def __str__(self) -> str:
        return self.table().text()


class _ShadedTokens(NamedTuple):
    """The tokens of a sequence, shaded by score differences."""

    positions: tuple[PositionExplanation, ...]

    def markup(self) -> Markup:
        """Return the tokens as a paragraph for a page."""
        strongest = largest_magnitude(position.difference for position in self.positions)
        shades = [shade(position.difference / strongest) for position in self.positions]
        return render("tokens.html", tokens=zip(self.positions, shades, strict=True))


@dataclass(frozen=True)
class Explanation(Shown):
    """Score terms that favour labels over alternatives; ``explain()`` of an estimator returns it.

    Parameters
    ----------
    positions : tuple
        The label, the next best one and the terms of the difference of their scores, for each position.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import ChainCRF
    >>> y = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]]
    >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])]
    >>> crf = ChainCRF("rbf", prior_variance=1.0, scale=True, window=1).fit(X, y)
    >>> first = crf.explain(X[0]).positions[0]
    >>> first.label, first.other
    ('sun', 'rain')
    """

    positions: tuple[PositionExplanation, ...]

    def parts(self) -> Iterator[Part | list[Table]]:
        """Yield tokens shaded by score differences, and the terms of each position.

        Yields
        ------
        Markup and Table
            What is printed.
        """
        largest = largest_magnitude(term.amount for position in self.positions for term in position.contributions)
        yield _MEANING
        yield _ShadedTokens(self.positions)
        yield [position.table(largest) for position in self.positions]

    def to_rows(self) -> list[PlainValues]:
        """Return one dict per contribution, for ``csv.DictWriter`` or ``pandas.DataFrame``.

        Returns
        -------
        list of dict
            Position, token, label, other, kind, set, name, amount and value. Parts of contributions are left out.
        """
        place, term = ("position", "token", "label", "other"), ("kind", "clique_set", "name", "amount", "value")
        return [
            {name: getattr(position, name) for name in place}
            | {name.removeprefix("clique_"): getattr(contribution, name) for name in term}
            for position in self.positions
            for contribution in position.contributions
        ]
