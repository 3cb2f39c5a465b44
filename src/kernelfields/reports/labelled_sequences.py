"""One labelled sequence to look at: words in the colours of their labels, probabilities of all labels on hover.

A :class:`LabelledSequence` is plain data: ``str()`` for a terminal, ``_repr_html_`` for a notebook, ``strip`` for
a page, ``to_dict`` for programs. A thin bar below each label is its marginal probability; a label that is not the
true one has a cross, a frame and the true label. Lines wrap; very long sequences are cut, and say so.

Arrays: labels, tokens, truth (T,); marginals (T, L), columns as in classes (L,). Cost: O(T L).
Fails: ValueError naming the part whose length does not fit, the label that is not among the classes, or marginals
that are no probabilities. True labels may be any: one that the classes do not know has no probability.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelfields.reports.label_colours import label_hues, veil
from kernelfields.reports.markup import Markup, element
from kernelfields.reports.notebook import notebook
from kernelfields.reports.shaded_tables import printable

_MOST_POSITIONS = 1000
_LISTED = 5
_SMALLEST_LISTED = 0.0005
_LONGEST_WORD = 30
_ROUNDING = 1e-6


@dataclass(frozen=True, eq=False)
class LabelledSequence:
    """Labels of one sequence, the marginal probabilities of all labels, and if known its words and true labels."""

    labels: Sequence[Any]
    marginals: Any
    classes: Sequence[Any]
    tokens: Sequence[str] | None = None
    truth: Sequence[Any] | None = None
    caption: str = ""

    def __post_init__(self) -> None:
        for name in ("labels", "classes", "tokens", "truth"):
            if (given := getattr(self, name)) is not None:
                object.__setattr__(self, name, _plain(given, name))
        object.__setattr__(self, "marginals", np.asarray(self.marginals, dtype=float))
        n_positions, n_classes = len(self.labels), len(self.classes)
        for name in ("tokens", "truth"):
            if (given := getattr(self, name)) is not None and len(given) != n_positions:
                raise ValueError(f"{name} has {len(given)} entries, but there are {n_positions} labels")
        if self.marginals.shape != (n_positions, n_classes):
            raise ValueError(
                f"marginals have shape {self.marginals.shape}, but {n_positions} labels and {n_classes} classes "
                f"need {(n_positions, n_classes)}"
            )
        if not ((self.marginals >= -_ROUNDING) & (self.marginals <= 1 + _ROUNDING)).all():
            raise ValueError("marginals must lie between 0 and 1; pass what predict_marginals returns")
        if unknown := [label for label in self.labels if label not in self.classes]:
            raise ValueError(f"the label {unknown[0]!r} is not among the classes: {list(self.classes)[:10]!r}")

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def probabilities(self) -> np.ndarray:
        """The marginal probability of each label, (T,)."""
        place = {label: column for column, label in enumerate(self.classes)}
        columns = np.array([place[label] for label in self.labels], dtype=np.intp)
        return self.marginals[np.arange(len(self)), columns]

    @property
    def wrong(self) -> np.ndarray:
        """Which labels are not the true ones, (T,) bool; none where the truth is not known."""
        if self.truth is None:
            return np.zeros(len(self), dtype=bool)
        return np.array([label != true for label, true in zip(self.labels, self.truth, strict=True)], dtype=bool)

    def word(self, position: int) -> str:
        """Return what stands at a position: its token, or its number."""
        return str(position) if self.tokens is None else str(self.tokens[position])

    def __str__(self) -> str:
        shown = range(min(len(self), _MOST_POSITIONS))
        words = [printable(self.word(t), _LONGEST_WORD) for t in shown]
        labels = [printable(self.labels[t], _LONGEST_WORD) for t in shown]
        widths = [max(map(len, column), default=0) for column in (words, labels)]
        wrong, probabilities = self.wrong, self.probabilities
        lines = [printable(self.caption)] if self.caption else []
        for t, word, label in zip(shown, words, labels, strict=True):
            truth = f"  truth {printable(self.truth[t], _LONGEST_WORD)}" if self.truth and wrong[t] else ""
            lines.append(f"{word:<{widths[0]}}  {label:<{widths[1]}}  {probabilities[t]:.3f}{truth}")
        return "\n".join([*lines, *([self._remainder] if self._remainder else [])])

    def _repr_html_(self) -> str:
        return notebook([self.strip()])

    def strip(self) -> Markup:
        """Return the sequence as a figure of words for a page, which has the style for it."""
        hues, probabilities, wrong = label_hues(self.classes), self.probabilities, self.wrong
        items = [
            self._item(t, hues[str(self.labels[t])], float(probabilities[t]), bool(wrong[t]))
            for t in range(min(len(self), _MOST_POSITIONS))
        ]
        if self._remainder:
            items.append(element("li", self._remainder, class_="kf-more"))
        heading = [element("figcaption", element("bdi", self.caption))] if self.caption else []
        return element("figure", *heading, element("ol", *items), class_="kf-sequence")

    def to_dict(self) -> dict[str, Any]:
        """Return all positions as plain values that JSON can hold."""
        probabilities = self.probabilities.tolist()
        return {
            "caption": self.caption,
            "positions": [
                {
                    "token": None if self.tokens is None else self.tokens[t],
                    "label": self.labels[t],
                    "probability": probabilities[t],
                    "truth": None if self.truth is None else self.truth[t],
                    "marginals": list(zip(self.classes, self.marginals[t].tolist(), strict=True)),
                }
                for t in range(len(self))
            ],
        }

    def hover(self, position: int) -> str:
        """Return what hovering over a position shows: the most probable labels, and the truth if it is another."""
        row = self.marginals[position]
        order = [i for i in np.argsort(-row, kind="stable")[:_LISTED] if row[i] >= _SMALLEST_LISTED]
        lines = [f"{position}: {self.word(position)}", *(f"{self.classes[i]} {row[i]:.3f}" for i in order)]
        rest = len(row) - len(order)
        if rest and (left := 1.0 - float(row[order].sum())) >= _SMALLEST_LISTED:
            lines.append(f"{rest} other label{'s' if rest > 1 else ''} {left:.3f}")
        if self.truth is not None and self.truth[position] != self.labels[position]:
            lines.append(f"truth {self.truth[position]}")
        return "\n".join(lines)

    @property
    def _remainder(self) -> str:
        left = len(self) - _MOST_POSITIONS
        return f"{left:,} more position{'s' if left > 1 else ''}" if left > 0 else ""

    def _item(self, t: int, hue: float | None, probability: float, wrong: bool) -> Markup:
        # bdi keeps the direction of a word, or an override in it, from reaching its neighbours.
        label = element("small", "✗ " if wrong else "", element("bdi", self.labels[t]))
        bar = element("span", element("span", style=f"width:{100 * min(probability, 1.0):.1f}%"), class_="kf-sure")
        truth = []
        if wrong and self.truth is not None:
            truth.append(element("small", "truth ", element("bdi", self.truth[t]), class_="kf-truth"))
        return element(
            "li",
            element("bdi", self.word(t)),
            label,
            bar,
            *truth,
            class_="kf-wrong" if wrong else None,
            style=veil(hue, probability),
            title=self.hover(t),
        )


def _plain(given: Any, name: str) -> tuple:
    """Return a list as a tuple of plain values, NumPy's turned into Python's."""
    if isinstance(given, str | bytes | Mapping) or not hasattr(given, "__len__"):
        raise TypeError(f"{name} must be a list with one entry for each position, got {given!r:.60}")
    return tuple(given.tolist() if isinstance(given, np.ndarray) else (_item_of(each) for each in given))


def _item_of(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
