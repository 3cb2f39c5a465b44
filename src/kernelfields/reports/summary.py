"""Summary of a fitted model: its labels, its clique sets and their sizes, its certificates, its transitions.

A :class:`ModelSummary` is plain data that an estimator fills in: ``str()`` for a terminal, ``_repr_html_`` for a
notebook, ``to_dict`` for programs; a report page takes it apart. Certificates are objects with scope, value,
lower_bound, relative_gap and exact. Cost: that of writing down what is in it.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelfields.reports.figures import Picture
from kernelfields.reports.heat_maps import plot_transitions
from kernelfields.reports.page import inspected, notebook
from kernelfields.reports.tables import TEXT_WIDTH, Markup, Table, element, join, printable

if TYPE_CHECKING:
    from kernelfields.solvers import Solution

SET_COLUMNS = ("clique set", "kernel", "sees", "basis functions", "weights", "not zero", "prior variance", "l1")
CERTIFICATE_COLUMNS = ("among", "value", "lower bound", "relative gap")
_SCOPES = {"span": "functions the basis spans", "rkhs": "all functions of the RKHS"}
_MOST_LABELS = 12
_LABELS_OF_SMALL_MAP = 24


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
        shown = [element("bdi", label) for label in self.labels[:_MOST_LABELS]]
        return join([Markup(", ".join(shown)), self._more_labels])

    @property
    def _more_labels(self) -> str:
        more = len(self.labels) - _MOST_LABELS
        return f" and {more:,} more" if more > 0 else ""

    @property
    def fit_words(self) -> str:
        """How the fit went, in a sentence."""
        fit = self.solution
        return (
            f"{fit.solver}, {fit.iterations:,} iterations, {fit.passes:,.4g} passes over the data, "
            f"{fit.seconds:,.3g} s; stopped because {fit.message}"
        )

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

    def transition_picture(self, most: int | None = None) -> Picture | None:
        """Return the heat map of the transitions, None if there are none."""
        if self.transitions is None:
            return None
        limit = {} if most is None else {"most": most}
        return plot_transitions(self.transitions, self.labels, self.forbidden, **limit)

    def __str__(self) -> str:
        words = ", ".join(printable(label) for label in self.labels[:_MOST_LABELS])
        parts = [self.heading, f"labels: {words}{self._more_labels}", f"fit: {self.fit_words}"]
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
            "labels": [each.item() if isinstance(each, np.generic) else each for each in self.labels],
            "n_features": self.n_features,
            "n_weights": self.n_weights,
            "sets": [{name: _finite(value) for name, value in asdict(each).items()} for each in self.sets],
            "fit": {name: getattr(self.solution, name) for name in fit},
            "tol": self.tol,
            "certificates": [
                {name: _finite(getattr(each, name)) for name in certificate} for each in self.certificates
            ],
            "parameters": dict(self.parameters),
        }


def _folded(heading: str, content: Markup, opened: bool = False) -> Markup:
    return element("details", element("summary", heading), content, open="open" if opened else None)


def _finite(value: Any) -> Any:
    """JSON has no infinity: None stands for it."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
