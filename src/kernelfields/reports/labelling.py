"""Tables of labels that may be wrong, and of what to label next."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelfields.numerics.wording import counted
from kernelfields.reports.page import Shown
from kernelfields.reports.tables import PlainValues, Table, json_value


@dataclass(frozen=True)
class LabelError:
    """One finding: labels from ``position`` to before ``end``, as given and as proposed.

    ``sequence`` is the number of the item, whatever it is; ``position`` a position or node, the name of one of several
    labels, or "" of single labels; ``end`` is None for these two.
    """

    sequence: int
    position: Any
    end: int | None
    kind: str
    token: object
    given: tuple[object, ...]
    proposed: tuple[object, ...]
    score: float


@dataclass(frozen=True, eq=False)
class LabelErrors(Shown):
    """Labels that may be wrong, by decreasing score; ``nouns`` name a sequence and a position.

    sequence   position   kind       given       proposed    score
    1          0-2        entity     B-NP I-NP   B-VP I-VP   9.31
    0          7          position   O           B-PP        4.02

    Attributes
    ----------
    rows : findings of a positive score, ``top`` or all
    position_scores : list of (T,) arrays, one for each item: nats in favour of another label, NaN where none is given
    item_scores : (n,) the largest score of each item, minus infinity of items without labels
    n_findings, n_known, n_unknown : how many findings there are, and labels that were checked and that were not given
    """

    rows: tuple[LabelError, ...]
    position_scores: list[np.ndarray]
    item_scores: np.ndarray
    n_findings: int
    n_known: int
    n_unknown: int
    nouns: tuple[str, str] = ("sequence", "position")

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def heading(self) -> str:
        """Numbers of findings and labels."""
        unknown = f", {self.n_unknown:,} not given" if self.n_unknown else ""
        return f"{counted(self.n_findings, 'finding')} in {counted(self.n_known, 'label')}{unknown}"

    def parts(self) -> Iterator[str | Table]:
        """Yield the table; tokens and positions only where there are any."""
        whole, part = self.nouns
        names = [whole, part, "kind", "token", "given", "proposed", "score"]
        rows = []
        for row in self.rows:
            several = row.end is not None and row.end - row.position > 1
            place = f"{row.position}-{row.end - 1}" if several and row.end is not None else row.position
            words = [" ".join(map(str, labels)) for labels in (row.given, row.proposed)]
            score = row.score if row.score < sys.float_info.max else math.inf
            rows.append([row.sequence, place, row.kind, row.token, *words, score])
        yield Table(names, rows, self.heading, range(1, 6), {"score": ".2f"}, longest=40, optional=(part, "token"))

    def to_rows(self) -> list[PlainValues]:
        """Return one dict per finding, for ``csv.DictWriter`` or ``pandas.DataFrame``.

        Keys: the nouns for a sequence and a position, end, kind, token, given, proposed (labels from the position to
        before the end), score.
        """
        whole, part = self.nouns
        names = (whole, part or "position", "end", "kind", "token", "given", "proposed", "score")
        return [dict(zip(names, vars(row).values(), strict=True)) for row in self.rows]

    def to_dict(self) -> PlainValues:
        """Return plain values that JSON can hold."""
        counts = {name: getattr(self, name) for name in ("n_findings", "n_known", "n_unknown")}
        return {**counts, "findings": json_value(self.to_rows()), "item_scores": json_value(self.item_scores)}


@dataclass(frozen=True, eq=False, kw_only=True)
class LabellingOrder(Table):
    """Items, or positions, in the order in which to label them.

    Attributes
    ----------
    order : the items in their order; where positions are ranked, pairs of an item and a position
    scores : (n,) scores of all items, or a list of (T,) scores of their positions
    spread : whether a batch was spread by the kernel
    """

    order: list
    scores: np.ndarray | list[np.ndarray]
    spread: bool = False

    def to_dict(self) -> PlainValues:
        """Return plain values that JSON can hold."""
        return {"spread": self.spread, "order": json_value(self.to_rows())}
