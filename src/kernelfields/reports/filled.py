"""What a field has filled in where labels were not known, and how sure it is of it.

sequence   position   token   known        label   probability
3          1          run                  NOUN    0.512
0          4          saw     NOUN, VERB   VERB    0.934

The least sure come first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from kernelfields.reports.page import inspected, notebook
from kernelfields.reports.tables import Markup, Row, Table, json_value


@dataclass(frozen=True)
class FilledLabel:
    """One label: where it is, what is there (None for nothing to show), what was known of it, and how likely it is."""

    whole: int
    part: Any
    token: Any
    known: str
    label: Any
    probability: float


@dataclass(frozen=True)
class FilledLabels:
    """Labels that were filled in, the least sure first; ``nouns`` are what a sequence and a position are called."""

    rows: tuple[FilledLabel, ...]
    n_known: int
    nouns: tuple[str, str] = ("sequence", "position")

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def heading(self) -> str:
        """How many there are."""
        return f"{len(self.rows):,} label{'' if len(self.rows) == 1 else 's'} filled in, {self.n_known:,} known"

    @property
    def _table(self) -> Table:
        shown = [name for name in ("token", "known") if any(getattr(row, name) not in (None, "") for row in self.rows)]
        rows = [
            Row(
                (
                    row.whole,
                    row.part,
                    *(_text(getattr(row, name)) for name in shown),
                    row.label,
                    f"{row.probability:.3f}",
                )
            )
            for row in self.rows
        ]
        columns = (*self.nouns, *shown, "label", "probability")
        return Table(columns, rows, self.heading, words=range(1, len(columns) - 1), longest=30)

    def __str__(self) -> str:
        return self._table.text() if self.rows else self.heading

    def markup(self) -> Markup:
        """Return the table for a page."""
        return inspected([self._table.markup()])

    def _repr_html_(self) -> str:
        return notebook([self.markup()])

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one dict per label, for ``csv.DictWriter`` or ``pandas.DataFrame``.

        Keys: the nouns for a sequence and a position, token, known, label, probability.
        """
        rows = []
        for row in self.rows:
            whole, part, *others = asdict(row).items()
            rows.append(dict(zip(self.nouns, (whole[1], part[1]), strict=True)) | dict(others))
        return rows

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return {"n_known": self.n_known, "filled": json_value(self.to_rows())}


def _text(value: object) -> str:
    return "" if value is None else str(value)


def words_for(weights: Sequence[float], labels: Sequence[Any]) -> str:
    """Say what is known of a label: the possible ones, with their weights if these differ; nothing if all are alike."""
    possible = [(label, weight) for label, weight in zip(labels, weights, strict=True) if weight > 0]
    if len({weight for _, weight in possible}) > 1:
        return ", ".join(f"{label} {weight:.3g}" for label, weight in possible)
    return "" if len(possible) == len(labels) else ", ".join(str(label) for label, _ in possible)
