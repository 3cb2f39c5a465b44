"""Explanations of one sequence: at every position, the contributions for its label and against another.

    difference_t = sum of contributions_t = score(y) - score(y with another label at t)

so a difference is the logarithm of how many times more probable the labelling is than the one with the other label
at that position alone. Constraints are no part of it: they are named in the notes.

An :class:`Explanation` is plain data, names and numbers: ``str()`` for a terminal, ``_repr_html_`` for a notebook,
``to_dict`` for programs. All names are escaped. Cost: that of writing down what is in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kernelfields.reports.page import inspected, notebook
from kernelfields.reports.tables import Markup, Row, Table, element, largest_magnitude, list_table, shade, signed

_MEANING = (
    "Scores of labels over others, the labels of their neighbours held fixed,",
    "and what they are the sums of. Probabilities are given in brackets.",
)


@dataclass(frozen=True)
class Contribution:
    """One term of a difference of scores.

    ``kind`` is "feature", "transition" (without inputs), "constant" (of a label), "kernel" (a whole clique set) or
    "pivot" (one of the ``parts`` of a kernel's contribution; only the largest are listed). ``value`` is the value
    of the feature, or of the kernel between pivot and position.
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
        return self.name if self.value is None or self.value == 1.0 else f"{self.name} (value {self.value:.4g})"

    def to_dict(self) -> dict[str, Any]:
        """Return the contribution as plain values."""
        return {
            "kind": self.kind,
            "set": self.clique_set,
            "name": self.name,
            "amount": self.amount,
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
    notes: tuple[str, ...] = ()

    @property
    def heading(self) -> str:
        """Position, labels, probabilities and difference in one line."""
        token = "" if self.token is None else f" {self.token!r}"
        sides = f"{self.label} ({self.probability:.3f}) over {self.other} ({self.other_probability:.3f})"
        return f"{self.position}{token}: {sides}, {signed(self.difference)}"

    def lines(self) -> Iterator[tuple[float, str, bool]]:
        """Yield amounts, words, and whether the line is a part of the one above it."""
        for each in self.contributions:
            yield each.amount, each.words, False
            for part in each.parts:
                yield part.amount, part.words, True

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation of this position as plain values."""
        contributions = [each.to_dict() for each in self.contributions]
        return {**vars(self), "contributions": contributions, "notes": list(self.notes)}

    def table(self, largest: float = 1.0) -> Table:
        """Return the terms as a list, shaded by their share of ``largest``."""
        rows = [
            Row((signed(amount), words), amount / largest, "part" if part else "")
            for amount, words, part in self.lines()
        ]
        if self.more:
            left = f"({self.more:,} more feature{'s' if self.more > 1 else ''})"
            rows.append(Row((signed(self.more_amount), left), role="quiet"))
        return list_table(self.heading, [*rows, *(Row(("", note), role="quiet") for note in self.notes)])

    def __str__(self) -> str:
        return self.table().text()


@dataclass(frozen=True)
class Explanation:
    """The explanations of all positions of one sequence."""

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
        parts = [
            element("p", " ".join(_MEANING)),
            element("p", *tokens),
            element("div", *tables, class_="kf-beside"),
        ]
        return inspected(parts)

    def to_dict(self) -> dict[str, Any]:
        """Return all positions as plain values that JSON can hold."""
        return {"positions": [each.to_dict() for each in self.positions]}
