"""Labels that a field has filled in where they were not known, with their probabilities.

sequence   position   token   known        label   probability
3          1          run                  NOUN    0.512
0          4          saw     NOUN, VERB   VERB    0.934

Rows are sorted by increasing probability.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kernelfields.reports.page import Shown
from kernelfields.reports.tables import PlainValues, Table, json_value


@dataclass(frozen=True)
class FilledLabel:
    """One label: its sequence and position, the token (None for none), what was known of it, its probability."""

    whole: int
    part: object
    token: object
    known: str
    label: object
    probability: float


@dataclass(frozen=True)
class FilledLabels(Shown):
    """Labels that were filled in, by increasing probability; ``nouns`` name a sequence and a position."""

    rows: tuple[FilledLabel, ...]
    n_known: int
    nouns: tuple[str, str] = ("sequence", "position")

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def heading(self) -> str:
        """Numbers of labels that were filled in, and that were known."""
        return f"{len(self.rows):,} label{'' if len(self.rows) == 1 else 's'} filled in, {self.n_known:,} known"

    def parts(self) -> Iterable[str | Table]:
        """Yield the table; tokens and what was known only where there is any."""
        rows = self.to_rows()
        empty = [name for name in ("token", "known") if all(row[name] in (None, "") for row in rows)]
        shown = [{name: cell for name, cell in row.items() if name not in empty} for row in rows]
        columns = tuple(shown[0]) if shown else ()
        cells, words = [tuple(row.values()) for row in shown], range(1, len(columns) - 1)
        yield Table(columns, cells, self.heading, words, {"probability": ".3f"}, longest=30)

    def to_rows(self) -> list[PlainValues]:
        """Return one dict per label, for ``csv.DictWriter`` or ``pandas.DataFrame``.

        Keys: the nouns for a sequence and a position, token, known, label, probability.
        """
        names = (*self.nouns, "token", "known", "label", "probability")
        return [dict(zip(names, vars(row).values(), strict=True)) for row in self.rows]

    def to_dict(self) -> PlainValues:
        """Return plain values that JSON can hold."""
        return {"n_known": self.n_known, "filled": json_value(self.to_rows())}


def words_for(weights: Sequence[float], labels: Sequence[object]) -> str:
    """Return what is known of a label: the possible ones, with weights if these differ; empty if all are alike."""
    possible = [(label, weight) for label, weight in zip(labels, weights, strict=True) if weight > 0]
    if len({weight for _, weight in possible}) > 1:
        return ", ".join(f"{label} {weight:.3g}" for label, weight in possible)
    return "" if len(possible) == len(labels) else ", ".join(str(label) for label, _ in possible)
