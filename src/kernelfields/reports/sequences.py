"""Labelled sequences: words in the colours of their labels, or a time line, with the probabilities of all labels.

    crf.show(x, tokens=words)          a LabelledSequence: print it, or let a notebook show it
    crf.show(x)                        without words, a time line (timeline.py)
    plot_sequence(crf.show(x))         the marginal probabilities as stacks of coloured bars, by matplotlib

A :class:`LabelledSequence` is plain data: ``str()`` for a terminal, ``_repr_html_`` for a notebook, ``markup`` for
a page, ``to_dict`` for programs. A thin bar below each label is its marginal probability, hovering tells those of
the other labels; a label that is not the true one has a cross, a frame and the true label. Lines wrap; very long
sequences of words are cut, and say so. Positions without words are listed by runs of the same label.

The label is written as well, so a colour (label_colours.py) only repeats what is said. Labels are told apart by
``str``, which is how they are shown.

Arrays: labels, tokens, truth (T,); marginals (T, L), columns as in classes (L,). Cost: O(T L).
Fails: ValueError naming the part whose length does not fit, the label that is not among the classes, or marginals
that are no probabilities. True labels may be any: one that the classes do not know has no probability.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelfields.reports.figures import Picture, hover, legend, note, panels, plain, tick_labels
from kernelfields.reports.label_colours import label_hues, label_tones, notable_labels, rgb_of, veil
from kernelfields.reports.page import LIGHT, notebook
from kernelfields.reports.tables import Markup, Table, element, printable
from kernelfields.reports.timeline import Timeline, runs

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_POSITIONS = 1000
_LISTED = 5
_SMALLEST_LISTED = 0.0005
_LONGEST_WORD = 30
_ROUNDING = 1e-6
_MOST_WORDS = 80
_INCHES_PER_POSITION = 0.45
# The height that a slanted letter takes, small above the bars and of usual size below them.
_INCHES_ABOVE, _INCHES_BELOW = 0.06, 0.08
_SLANT = 60


@dataclass(frozen=True, eq=False)
class LabelledSequence:
    """Labels of one sequence, the marginal probabilities of all labels, and if known its words and true labels."""

    labels: Sequence[Any]
    marginals: Any
    classes: Sequence[Any]
    tokens: Sequence[str] | None = None
    truth: Sequence[Any] | None = None
    caption: str = ""
    #: The segments behind the labels, (begin, end, label, probability) each, where a field has cut the sequence.
    segments: Sequence[Any] | None = None

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
        if self.tokens is None:
            return self._runs_text()
        wrong, probabilities = self.wrong, self.probabilities
        rows = [
            (
                self.word(t),
                self.labels[t],
                f"{probabilities[t]:.3f}",
                f"truth {printable(self.truth[t], _LONGEST_WORD)}" if self.truth and wrong[t] else "",
            )
            for t in range(min(len(self), _MOST_POSITIONS))
        ]
        table = Table((), rows, self.caption, words=(0, 1, 3), gap=2, longest=_LONGEST_WORD)
        return "\n".join(filter(None, [table.text(), self._remainder]))

    def _runs_text(self) -> str:
        """Return a line for every run of positions whose label, and true label, are the same."""
        wrong, probabilities, rows = self.wrong, self.probabilities, []
        pairs = list(zip(self.labels, self.labels if self.truth is None else self.truth, strict=True))
        stretches = runs(pairs)
        for begin, end in stretches[:_MOST_POSITIONS]:
            places = str(begin) if end - begin == 1 else f"{begin} to {end - 1}"
            truth = f"truth {printable(pairs[begin][1], _LONGEST_WORD)}" if wrong[begin] else ""
            rows.append((places, self.labels[begin], f"{probabilities[begin:end].mean():.3f}", truth))
        left = len(stretches) - _MOST_POSITIONS
        table = Table((), rows, self.caption, words=(0, 1, 3), gap=2, longest=_LONGEST_WORD)
        return "\n".join(filter(None, [table.text(), f"{left:,} more runs" if left > 0 else ""]))

    def _repr_html_(self) -> str:
        return notebook([self.markup()])

    def markup(self) -> Markup:
        """Return the sequence as a figure of words, or a time line, for a page, which has the style for it."""
        if self.tokens is None and len(self):
            return Timeline(self).markup()
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
        if self.truth is not None and self.labels[position] != self.truth[position]:
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
    return tuple(each.item() if isinstance(each, np.generic) else each for each in given)


def plot_sequence(sequence: LabelledSequence, ax: Any = None) -> Picture:
    """Plot what ``show()`` of a fitted estimator returns: at every position the marginals as a stack of bars.

    The labels that were chosen stand above the bars, wrong ones with a cross and the true label. Only labels that
    are probable somewhere have a colour of their own in the legend; the others share grey.
    """
    if not isinstance(sequence, LabelledSequence):
        raise TypeError(f"plot_sequence takes what show() returns, a LabelledSequence, got {type(sequence).__name__}")
    if not len(sequence):
        raise ValueError("the sequence has no positions: there is nothing to plot")
    n_positions = len(sequence)
    words = [plain(sequence.word(t)) for t in range(n_positions)]
    marks = [_mark(sequence, t) for t in range(n_positions)]
    description = f"marginal probabilities of {n_positions:,} positions {sequence.caption}".strip()
    with panels(ax, description, _size(words, marks)) as picture:
        (panel,) = picture.axes
        _draw_stacks(panel, sequence)
        if n_positions <= _MOST_WORDS:
            slanted = {"rotation": _SLANT, "rotation_mode": "anchor"}
            for t, (mark, wrong) in enumerate(zip(marks, sequence.wrong, strict=True)):
                colour = LIGHT["wrong" if wrong else "muted"]
                note(panel, t, 1.02, mark, color=colour, ha="left", va="bottom", **slanted)
            tick_labels(panel.xaxis, range(n_positions), words, ha="right", **slanted)
        panel.set(xlim=(-0.6, n_positions - 0.4), ylim=(0, 1), ylabel="marginal probability")
    return picture


def _draw_stacks(panel: Axes, sequence: LabelledSequence) -> None:
    places, bottom = np.arange(len(sequence)), np.zeros(len(sequence))
    named = notable_labels(sequence.marginals, sequence.classes, sequence.labels)
    shares = [(sequence.classes[column], sequence.marginals[:, column]) for column in named]
    colours: list[Any] = [rgb_of(*each) for each in label_tones(sequence.classes, named)]
    if len(named) < len(sequence.classes):
        rest = np.maximum(1.0 - sum(share for _, share in shares), 0.0)
        shares.append((f"{len(sequence.classes) - len(named)} others", rest))
        colours.append(LIGHT["line"])
    handles = []
    for (label, share), colour in zip(shares, colours, strict=True):
        bars = panel.bar(places, share, bottom=bottom, width=0.9, color=colour)
        for t, bar in enumerate(bars):
            hover(bar, [f"{t}: {sequence.word(t)}\n{label} {share[t]:.3f}"])
        handles.append(bars)
        bottom = bottom + share
    names = [label for label, _ in shares]
    legend(panel, handles, names, loc="center left", bbox_to_anchor=(1.0, 0.5), ncols=1, fontsize="small")


def _mark(sequence: LabelledSequence, position: int) -> str:
    """Return the label of a position, with a cross and the true label where it is wrong."""
    label = plain(sequence.labels[position])
    if sequence.truth is None or sequence.truth[position] == sequence.labels[position]:
        return label
    return f"✗ {label} ({plain(sequence.truth[position])})"


def _size(words: list[str], marks: list[str]) -> tuple[float, float]:
    """Return inches that leave room for the bars, the labels above them and the words below."""
    width = min(max(3.0 + _INCHES_PER_POSITION * len(words), 5.0), 16.0)
    if len(words) > _MOST_WORDS:
        return width, 3.2
    return width, 2.4 + _INCHES_ABOVE * max(map(len, marks)) + _INCHES_BELOW * max(map(len, words))
