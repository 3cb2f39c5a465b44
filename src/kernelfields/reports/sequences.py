"""Labelled sequences: words in the colours of their labels, or a time line, with the probabilities of all labels.

    crf.show(x, tokens=words)          a LabelledSequence: print it, or let a notebook show it
    crf.show(x)                        without words, a time line
    plot_sequence(crf, x)              the marginal probabilities as stacks of coloured bars

    true         ████████▒▒▒▒▒▒▒▒▒▒████████
    wrong                ▌▌
    predicted    ██████████▒▒▒▒▒▒▒▒████████
    probability  stacked marginals of the labels, 1 in all
                 0        500      1000

Words of one entity are joined, with its type at the first. Words have a thin bar whose length is the marginal
probability of the label, and hover texts with the probabilities of the other labels; a wrong label has a cross, a
frame and the true label. Lines wrap; very long sequences of words are truncated, with the number of omitted words.
Positions without words are listed by runs of the same label in text. Labels are also written, so that colours
(label_colours.py) are not needed to read them. Labels are compared by ``str``, as they are shown.

In a time line, a run of positions with the same label is one band. If there are more positions than pixels,
probabilities are means over stretches of positions; if there are more runs, a band shows the most frequent label of
each stretch, and the legend mentions it. The size of the picture is bounded for every T: some 2,000
bands and 360 steps of each curve.

Arrays: labels, tokens, truth (T,); marginals (T, L), columns as in classes (L,). Cost: O(T L).
Raises ValueError naming the part whose length does not fit, the label that is not among the classes, or marginals
that are no probabilities. True labels may be any: one that is not among the classes has no probability.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelfields.numerics.wording import inflect
from kernelfields.reports.figures import Picture, legend, note, panels, set_tick_labels, short_label
from kernelfields.reports.label_colours import Palette, label_background, label_hues
from kernelfields.reports.markup import LIGHT, Markup, render
from kernelfields.reports.page import Shown
from kernelfields.reports.tables import PlainValues, Table, printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.patches import StepPatch

    from kernelfields.reports.figures import AxesOrNone

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
# Of a time line, in pixels of a page: its width, that of its bands, their heights and that of the curves.
_WIDTH, _BANDS_WIDTH = 960, 850.0
_BAND, _GAP, _MARKS, _CURVES, _AXIS = 22.0, 3.0, 6.0, 110.0, 40.0
_LETTER = 6.4
_MOST_RUNS, _MOST_STEPS = 2000, 360
_ENTITY_PREFIXES = ("B-", "I-", "E-", "L-", "S-", "U-")
# Dark on the colours of all labels, on light and dark screens.
_ON_BANDS = "#14181d"


@dataclass(frozen=True, eq=False)
class LabelledSequence(Shown):
    """The labels of one sequence with all marginals, for printing or display in a notebook.

    Parameters
    ----------
    labels : list
        The labels.
    marginals : array (T, L)
        The marginal probabilities.
    classes : list
        The L labels of their columns.
    tokens : list, optional
        The words.
    truth : list, optional
        The true labels.
    caption : str, default ""
        What it is called.
    segments : list, optional
        (begin, end, label, probability) of each segment.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import ChainCRF
    >>> y = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]]
    >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])]
    >>> crf = ChainCRF("rbf", prior_variance=1.0, scale=True, window=1).fit(X, y)
    >>> shown = crf.show(X[0])
    >>> [(row["label"], row["position"]) for row in shown.to_rows()][:2]
    [('sun', 0), ('sun', 1)]
    """

    labels: Sequence[object]
    marginals: np.ndarray
    classes: Sequence[object]
    tokens: Sequence[object] | None = None
    truth: Sequence[object] | None = None
    caption: str = ""
    #: The segments behind the labels, (begin, end, label, probability) each, where a field has cut the sequence.
    segments: Sequence[tuple[int, int, object, float]] | None = None

    def __post_init__(self) -> None:
        for name in ("labels", "classes", "tokens", "truth"):
            if (entries := getattr(self, name)) is not None:
                object.__setattr__(self, name, _plain(entries, name))
        object.__setattr__(self, "marginals", np.asarray(self.marginals, dtype=float))
        n_positions, n_classes = len(self.labels), len(self.classes)
        for name in ("tokens", "truth"):
            if (entries := getattr(self, name)) is not None and len(entries) != n_positions:
                raise ValueError(f"{name} has {len(entries)} entries, but there are {n_positions} labels")
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
        """The marginal probabilities of the labels, (T,)."""
        column_of = {label: column for column, label in enumerate(self.classes)}
        columns = np.array([column_of[label] for label in self.labels], dtype=np.intp)
        return self.marginals[np.arange(len(self)), columns]

    @property
    def wrong(self) -> np.ndarray:
        """A mask (T,) of wrong labels; all False without true labels."""
        truth = self.labels if self.truth is None else self.truth
        return np.array([label != true for label, true in zip(self.labels, truth, strict=True)], dtype=bool)

    def word(self, position: int) -> str:
        """Return the token at a position, or the number of the position.

        Parameters
        ----------
        position : int
            The position.

        Returns
        -------
        str
            The token.
        """
        return str(position) if self.tokens is None else str(self.tokens[position])

    def is_entity_begin(self, label: object) -> bool:
        """Whether a label begins an entity, even behind an entity of the same type.

        Parameters
        ----------
        label : object
            The label.

        Returns
        -------
        bool
            The answer.
        """
        named = [str(other) for other in self.classes]
        return str(label).startswith(("B-", "S-", "U-")) and any(each.startswith(("I-", "E-", "L-")) for each in named)

    def _entity_words(self) -> list[str] | None:
        """Return the type of the entity that begins at each position, "" if none; None without entities."""
        named = {str(label) for label in self.classes}
        if "O" not in named or not all(name == "O" or name[:2] in _ENTITY_PREFIXES for name in named):
            return None
        types = ["" if str(label) == "O" else str(label)[2:] for label in self.labels]
        return ["" if self._is_inside_entity(t) else name for t, name in enumerate(types)]

    def _kinds(self, position: int, is_wrong: bool, in_entities: bool) -> Iterator[str]:
        """Yield the CSS classes of a word: wrong, joined to the previous word, joined to the next."""
        if is_wrong:
            yield "kf-wrong"
        if in_entities and self._is_inside_entity(position):
            yield "kf-joins"
        if in_entities and position + 1 < len(self) and self._is_inside_entity(position + 1):
            yield "kf-goes-on"

    def _is_inside_entity(self, position: int) -> bool:
        """Whether the label of a position continues the entity of the previous position."""
        before, label = (str(self.labels[t]) for t in (max(position - 1, 0), position))
        same = position > 0 and label[2:] == before[2:]
        return same and label[:2] in ("I-", "E-", "L-") and before[:2] in ("B-", "I-")

    def parts(self) -> Iterable[Table]:
        """Yield a line for each word, or for each run of positions with equal labels.

        Yields
        ------
        Table
            The lines.
        """
        truth = self.labels if self.truth is None else self.truth
        pairs = list(zip(self.labels, truth, strict=True))
        begun = [self.is_entity_begin(label) or self.is_entity_begin(true) for label, true in pairs]
        stretches = [(t, t + 1) for t in range(len(self))] if self.tokens is not None else runs(pairs, begun)
        wrong, probabilities, rows = self.wrong, self.probabilities, []
        for begin, end in stretches[:_MOST_POSITIONS]:
            where = self.word(begin) if end - begin == 1 else f"{begin} to {end - 1}"
            true = f"truth {printable(truth[begin], _LONGEST_WORD)}" if wrong[begin] else ""
            rows.append((where, self.labels[begin], f"{probabilities[begin:end].mean():.3f}", true))
        remainder = _omitted_note(len(stretches), "run" if self.tokens is None else "position")
        yield Table((), rows, self.caption, words=(0, 1, 3), gap=2, longest=_LONGEST_WORD, note=remainder)

    def markup(self) -> Markup:
        """Return the sequence as a figure of words, or a time line, for an HTML page.

        Returns
        -------
        Markup
            The HTML.
        """
        if self.tokens is None and len(self):
            palette = Palette(self.marginals, self.classes, self.labels)
            picture, notes = _timeline(self, palette)
            return self._figure(picture, palette, notes)
        hues, probabilities, wrong = label_hues(self.classes), self.probabilities.tolist(), self.wrong
        entities = self._entity_words()
        items = [
            {
                "word": self.word(t),
                "label": self.labels[t] if entities is None or wrong[t] else entities[t],
                "kinds": " ".join(self._kinds(t, wrong[t], entities is not None)),
                "wrong": wrong[t],
                "truth": None if self.truth is None else self.truth[t],
                "width": f"{100 * min(probabilities[t], 1.0):.1f}",
                "style": label_background(hues[str(self.labels[t])], probabilities[t]),
                "title": self.hover(t),
            }
            for t in range(min(len(self), _MOST_POSITIONS))
        ]
        remainder = _omitted_note(len(self), "position")
        return render("words.html", caption=self.caption, items=items, remainder=remainder)

    def _figure(self, picture: Picture, palette: Palette, notes: Sequence[str]) -> Markup:
        """Return a picture with its caption and the legend of colours."""
        caption = f"{self.caption}: {self.heading}" if self.caption else self.heading
        entries = palette.legend(Counter(map(str, self.labels)))
        return render("figure.html", caption=caption, picture=picture.markup(), legend=entries, notes=notes)

    @property
    def heading(self) -> str:
        """The number of positions and, with true labels, the share of right labels, in one line."""
        right = "" if self.truth is None else f", {100 * (1 - self.wrong.mean()):.1f} % right"
        return f"{self._size}{right}"

    @property
    def _size(self) -> str:
        return inflect(len(self), "position")

    def to_rows(self) -> list[PlainValues]:
        """Return one dict for each position, for ``csv.DictWriter`` or ``pandas.DataFrame``.

        Returns
        -------
        list of dict
            Position, token, label, probability and truth; None for a token or a truth that is not known.
        """
        absent = [None] * len(self)
        columns = (
            range(len(self)),
            absent if self.tokens is None else self.tokens,
            self.labels,
            self.probabilities.tolist(),
            absent if self.truth is None else self.truth,
        )
        names = ("position", "token", "label", "probability", "truth")
        return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]

    def to_dict(self) -> PlainValues:
        """Return all positions as plain values for JSON.

        Returns
        -------
        dict
            The values.
        """
        positions = []
        for row in self.to_rows():
            marginals = self.marginals[row.pop("position")].tolist()
            positions.append({**row, "marginals": list(zip(self.classes, marginals, strict=True))})
        return {"caption": self.caption, "positions": positions}

    def hover(self, position: int) -> str:
        """Return the hover text of a word: the most probable labels, and a different true label.

        Parameters
        ----------
        position : int
            The position.

        Returns
        -------
        str
            The title.
        """
        row = self.marginals[position]
        order = [i for i in np.argsort(-row, kind="stable")[:_LISTED] if row[i] >= _SMALLEST_LISTED]
        lines = [f"{position}: {self.word(position)}", *(f"{self.classes[i]} {row[i]:.3f}" for i in order)]
        rest = len(row) - len(order)
        if rest and (left := 1.0 - float(row[order].sum())) >= _SMALLEST_LISTED:
            lines.append(f"{inflect(rest, 'other label')} {left:.3f}")
        if self.truth is not None and self.labels[position] != self.truth[position]:
            lines.append(f"truth {self.truth[position]}")
        return "\n".join(lines)


def _omitted_note(count: int, noun: str) -> str:
    """Return a note with the number of omitted entries; empty for zero."""
    left = count - _MOST_POSITIONS
    return inflect(left, f"more {noun}") if left > 0 else ""


def _plain(entries: object, name: str) -> tuple[object, ...]:
    """Convert a list to a tuple of Python values."""
    if (
        isinstance(entries, str | bytes | Mapping)
        or not isinstance(entries, Iterable)
        or not hasattr(entries, "__len__")
    ):
        raise TypeError(f"{name} must be a list with one entry for each position, got {entries!r:.60}")
    return tuple(entry.item() if isinstance(entry, np.generic) else entry for entry in entries)


def runs(values: Sequence[object], begun: Sequence[bool] | None = None) -> list[tuple[int, int]]:
    """Return begin and end of each run of equal values; a run also begins where ``begun`` is True."""
    ends = [t for t in range(1, len(values)) if values[t] != values[t - 1] or (begun is not None and begun[t])]
    return list(zip([0, *ends], [*ends, len(values)], strict=True)) if len(values) else []


# ---- pictures


def plot_sequence(
    sequence: Any,
    x: object = None,
    y: Sequence | None = None,
    *,
    tokens: Sequence | None = None,
    ax: AxesOrNone = None,
) -> Picture:
    """Plot the stacked marginals of the labels of a sequence by a fitted estimator.

    The predicted labels stand above the stacks, wrong ones with a cross and the true label. Only labels that are
    probable somewhere have a colour of their own in the legend; the others share grey.

    Parameters
    ----------
    sequence : LabelledSequence or fitted estimator
        The result of ``show()``, or an estimator.
    x : sequence, optional
        The sequence, for an estimator.
    y : list, optional
        Its true labels.
    tokens : list, optional
        Its words.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    Picture
        The drawing.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import ChainCRF
    >>> y = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]]
    >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])]
    >>> crf = ChainCRF("rbf", prior_variance=1.0, scale=True, window=1).fit(X, y)
    >>> from kernelfields.reports import plot_sequence
    >>> picture = plot_sequence(crf, X[0], y[0])
    >>> len(picture.axes)
    1
    """
    if x is not None and hasattr(sequence, "show"):
        sequence = sequence.show(x, y, tokens=tokens)
    if not isinstance(sequence, LabelledSequence):
        kind = type(sequence).__name__
        raise TypeError(f"plot_sequence takes a fitted estimator and a sequence, or what show() returns, got {kind}")
    if not len(sequence):
        raise ValueError("the sequence has no positions: there is nothing to plot")
    n_positions, truth = len(sequence), sequence.labels if sequence.truth is None else sequence.truth
    words = [short_label(sequence.word(t)) for t in range(n_positions)]
    marks = [
        f"✗ {short_label(label)} ({short_label(true)})" if label != true else short_label(label)
        for label, true in zip(sequence.labels, truth, strict=True)
    ]
    width, height = min(max(3.0 + _INCHES_PER_POSITION * n_positions, 5.0), 16.0), 3.2
    if n_positions <= _MOST_WORDS:
        height = 2.4 + _INCHES_ABOVE * max(map(len, marks)) + _INCHES_BELOW * max(map(len, words))
    description = f"marginal probabilities of {inflect(n_positions, 'position')} {sequence.caption}".strip()
    with panels(ax, description, (width, height)) as picture:
        (panel,) = picture.axes
        stacks = _draw_stacks(panel, sequence, Palette(sequence.marginals, sequence.classes, sequence.labels))
        beside = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5), "ncols": 1, "fontsize": "small"}
        legend(panel, list(stacks.values()), list(stacks), **beside)
        if n_positions <= _MOST_WORDS:
            slanted = {"rotation": _SLANT, "rotation_mode": "anchor"}
            for t, (mark, wrong) in enumerate(zip(marks, sequence.wrong, strict=True)):
                colour = LIGHT["wrong" if wrong else "muted"]
                note(panel, t, 1.02, mark, color=colour, ha="left", va="bottom", **slanted)
            set_tick_labels(panel.xaxis, range(n_positions), words, ha="right", **slanted)
            panel.vlines(np.arange(1, n_positions) - 0.5, 0, 1, colors=LIGHT["card"], linewidth=3)
        panel.set_ylabel("marginal probability")
    return picture


def _draw_stacks(panel: Axes, sequence: LabelledSequence, palette: Palette) -> dict[object, StepPatch]:
    """Draw stacked marginals; return the drawn labels."""
    length, stacks = len(sequence), {}
    edges = _edges(length, _MOST_STEPS)
    means = np.add.reduceat(sequence.marginals, edges[:-1], axis=0) / np.diff(edges)[:, None]
    below = np.zeros(len(means))
    for label, colour, share in palette.shares(means):
        above = np.minimum(below + share, 1.0)
        stacks[label] = panel.stairs(above, edges - 0.5, baseline=below, fill=True, color=colour, linewidth=0)
        below = above
    panel.set(ylim=(0, 1), xlim=(-0.5, length - 0.5))
    return stacks


def _draw_bars(
    panel: Axes,
    stretches: Sequence[tuple[int, int]],
    extent: tuple[float, float],
    colours: Sequence[object],
    narrowest: float = 0.0,
) -> None:
    """Draw stretches of positions as bars from height ``extent[0]``, ``extent[1]`` high."""
    spans = [(begin - 0.5, max(end - begin, narrowest)) for begin, end in stretches]
    panel.broken_barh(spans, extent, facecolors=colours, linewidth=0, clip_on=False)


def _timeline(sequence: LabelledSequence, palette: Palette) -> tuple[Picture, list[str]]:
    """Return bands of labels above stacked marginals, and notes on simplifications."""
    bands = {"predicted": (0.0, sequence.labels)}
    if sequence.truth is not None:
        bands["true"] = (_BAND + 2 * _GAP + _MARKS, sequence.truth)
    top = max(bottom for bottom, _ in bands.values()) + _BAND
    length, notes = len(sequence), []
    if length > _MOST_STEPS:
        notes.append(f"probabilities: means over {length / _MOST_STEPS:.1f} positions each")
    size = (_WIDTH / 96, (top + _CURVES + _AXIS) / 96)
    with panels(None, sequence.heading, size, (top, _CURVES)) as picture:
        upper, lower = picture.axes
        coarse = [_draw_band(upper, sequence, palette, name, *bands[name]) for name in reversed(bands)]
        ticks = {name: bottom + _BAND / 2 for name, (bottom, _) in bands.items()}
        if sequence.truth is not None:
            _draw_mistakes(upper, sequence.wrong)
            ticks["wrong"] = _BAND + _GAP + _MARKS / 2
        set_tick_labels(upper.yaxis, list(ticks.values()), list(ticks))
        upper.set_ylim(0, top)
        upper.tick_params(labelbottom=False)
        _draw_stacks(lower, sequence, palette)
        lower.set_ylabel("probability")
        lower.locator_params(axis="x", integer=True, steps=[1, 2, 5, 10])
        lower.xaxis.set_major_formatter("{x:,.0f}")
        lower.tick_params(axis="x", length=3)
        for panel in picture.axes:
            panel.grid(False)
            panel.spines[:].set_visible(False)
    return picture, [*notes, "bands: the most frequent label of each stretch"] if any(coarse) else notes


def _draw_band(
    panel: Axes, sequence: LabelledSequence, palette: Palette, name: str, bottom: float, labels: Sequence[object]
) -> bool:
    """Draw runs of labels, fainter for less probable segments.

    Return whether there are so many that each stretch has its most frequent label only.
    """
    names = [str(label) for label in labels]
    segments = (sequence.segments or ()) if name == "predicted" else ()
    chances = {begin: chance for begin, _, _, chance in segments}
    begun = [sequence.is_entity_begin(label) for label in names]
    stretches = [(begin, end) for begin, end, *_ in segments] or runs(names, begun)
    if coarse := len(stretches) > _MOST_RUNS:
        names, chances = list(_smooth_names(names)), {}
        stretches = runs(names)
    colours = []
    for begin, end in stretches:
        label, chance = names[begin], chances.get(begin)
        colours.append((palette[label], 1.0 if chance is None else 0.35 + 0.65 * chance))
        if (end - begin) * _BANDS_WIDTH / len(names) > _LETTER * len(label) + 8:
            style = {"ha": "center", "va": "center", "color": _ON_BANDS, "fontsize": "medium"}
            note(panel, (begin + end - 1) / 2, bottom + _BAND / 2, printable(label), **style)
    _draw_bars(panel, stretches, (bottom, _BAND), colours)
    return coarse


def _smooth_names(names: Sequence[str]) -> Iterator[str]:
    """Yield the most frequent name of each stretch for its positions."""
    for begin, end in pairwise(_edges(len(names), _WIDTH).tolist()):
        label, _ = Counter(names[begin:end]).most_common(1)[0]
        yield from [label] * (end - begin)


def _edges(length: int, most: int) -> np.ndarray:
    """Return the edges of at most ``most`` stretches of positions, of similar length."""
    return np.linspace(0, length, min(length, most) + 1).astype(int)


def _draw_mistakes(panel: Axes, wrong: np.ndarray) -> None:
    """Draw marks at wrong labels, fainter if few positions of a mark are wrong."""
    edges = _edges(len(wrong), _WIDTH)
    shares = (np.add.reduceat(wrong, edges[:-1], dtype=np.int64) / np.diff(edges)).tolist()
    marks = [(begin, end) for begin, end in runs(shares) if shares[begin] > 0]
    stretches = [(int(edges[begin]), int(edges[end])) for begin, end in marks]
    colours = [(LIGHT["wrong"], 0.25 + 0.75 * shares[begin]) for begin, _ in marks]
    _draw_bars(panel, stretches, (_BAND + _GAP, _MARKS), colours, len(wrong) / _BANDS_WIDTH)
