"""LabellingSession of items with a field beside: what is known, what the field fills in given that, what to do next.

Known labels, given before or fixed now, stay: the rest of an item is decoded given them, exactly, before any
refit. Every change is an action of the journal; undoing and redoing are actions too. Items have versions, so that two
pages on one labelling cannot overwrite each other: a change that was made from an older version is refused. Where
labels follow a scheme of entities, what is marked and shown are spans (page/spans.py).

A random sample of the items is set aside: it is labelled as all others, never fitted to, and judges each refit. A refit
runs beside the labelling, from the last estimate, and takes the place of the old model unless it is clearly worse: the
interval of its score lies below the last score.

Cost of an answer: inference for one item. Fails: ValueError in one sentence for what the page must not do.
"""

from __future__ import annotations

import copy
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from kernelfields.data.constraints import Scheme, find_scheme, guess_scheme
from kernelfields.data.reading import plain_label
from kernelfields.estimators import SequenceClassifier
from kernelfields.estimators.questions import LabelQuestions
from kernelfields.evaluation.model_evaluation import FittedModel
from kernelfields.formats.annotated_texts import scheme_of
from kernelfields.inference.answers import Answers
from kernelfields.labelling.label_errors import find_label_errors
from kernelfields.labelling.progress import forecast, score_of
from kernelfields.models.wrapped_field import WrappedField, field_inside, opened
from kernelfields.numerics.wording import counted
from kernelfields.page.fits import classes_of, fitted_or_none, inner_estimator, prepared, usual_estimator
from kernelfields.page.history import Change, Changes, History, plain_changes
from kernelfields.page.items import Known, finite, items_of
from kernelfields.page.journal import Action, Flag, Journal, JournalError
from kernelfields.page.label_file import LabelFile
from kernelfields.page.spans import OUTSIDE, SpanView
from kernelfields.reports.label_colours import label_colours
from kernelfields.selection.held_out import unframed

ORDERS = ("doubtful", "suspicious", "random", "given")
#: Items that are listed: all, those with labels to find, those that were flagged.
PARTS = ("all", "open", "flagged")
# The most positions of an answer, the likeliest labels of each, and the labellings to pick from.
_WINDOW, _SHOWN, _BEST = 400, 9, 5
#: Share and most items of the sample that judges refits.
_ASIDE, _MOST_ASIDE = 0.1, 100
_ITEMS_AT_ONCE = 256
# The most characters of a label, of a note and of an item in the list, and the most lines that a message lists.
_LONGEST, _LONGEST_NOTE, _LONGEST_TEXT, _LISTED = 200, 1000, 80, 5
# Folds of a check for label errors.
_FOLDS = 5
# The most items whose predictions before and after a refit are compared, and the most places that are listed.
_COMPARED, _PLACES = 2000, 500
# Items whose labels show the scheme, and items in the list.
_LOOKED_AT, _IN_LIST = 2000, 200


class Conflict(ValueError):
    """A change that was made from an older version of an item."""


class LabellingSession:
    """Items, what is known of their labels, and a field that fills in the rest.

    Parameters
    ----------
    X : sequences, graphs, instances or single inputs, as the estimator takes them
    y : what is known of their labels, None for nothing: labels, None, sets of which one is right
    estimator : an estimator of labels, fitted or not, or a pipeline; None for a ChainCRF with defaults
    classes : the labels there are, or the types of spans; None for those of the estimator and of y
    scheme : "bio", "iob1", "bioes" or "bilou" if labels write spans, None if each position has a label of its own;
        "auto" goes by the form of the labels, "spans" as well, and is "bio" where nothing has a label yet
    words : what to show of each position, of instances and single inputs a text for each; None for the columns of X
    columns : names of columns
    file : the file the items come from, which is written when they are saved
    journal : where actions are kept; None for no journal
    """

    def __init__(
        self,
        X: Sequence,
        y: Sequence | None = None,
        estimator: BaseEstimator | None = None,
        *,
        classes: Sequence | None = None,
        scheme: str | None = "auto",
        words: Sequence | None = None,
        columns: Sequence[str] | None = None,
        file: LabelFile | None = None,
        journal: str | Path | None = None,
        random_state: int = 0,
    ):
        self.file = file
        if isinstance(inner_estimator(estimator), WrappedField):  # models on tables and of other forms
            check_is_fitted(estimator)
            labels = None if y is None else unframed(estimator, X, y)[2]
            estimator, X, _ = field_inside(estimator, X, None, labelled=False)
            y = labels
        self.items = items_of(inner_estimator(estimator), X, y, words, columns)
        self.lengths = self.items.lengths
        self.model = fitted_or_none(estimator)
        self.given = self.items.entries(y)
        #: How often each label is known.
        self.counts: Counter = Counter()
        for entry, count in Counter(entry for own in self.given for entry in own if entry is not None).items():
            self.counts.update(dict.fromkeys(entry, count if len(entry) == 1 else 0))
        of_model = [] if self.model is None else classes_of(self.model)
        found = _scheme(scheme, [*of_model, *self.counts], list(classes or []), self.given)
        self.spans = None if found is None else SpanView(found)
        self._unfitted = estimator if estimator is not None else usual_estimator(words is not None, found)
        self.classes = _labels(self._named(classes or ()), of_model, set(self.counts))
        self.known: list[list[Known]] = [list(own) for own in self.given]
        #: How many labels of each item are not known, (S,).
        self.left = np.array([own.count(None) for own in self.known], dtype=np.int64)
        self.versions = [0] * len(self.lengths)
        self._lock = threading.RLock()
        self._answers: dict[int, tuple[Any, Any, Answers]] = {}
        self._last: tuple[Any, int, list[Known], tuple | None] | None = None
        random = np.random.default_rng(random_state)
        self.order = random.permutation(len(self.lengths))
        n_aside = min(_MOST_ASIDE, int(_ASIDE * len(self.lengths)))
        self.aside = frozenset(self.order[:n_aside].tolist())
        self._doubts: np.ndarray | None = None
        #: Of items that were checked: the version then, their score, and labels that would fit by position.
        self._suspects: dict[int, tuple[int, float, dict[int, Any]]] = {}
        self._findings: list[dict[str, Any]] = []
        self._changed: list[dict[str, Any]] = []
        self.curve: list[dict[str, Any]] = []
        self.status = ""
        self._working: threading.Thread | None = None
        for label in self._named(classes or ()):
            self._check_label(label)
        self.journal = Journal(
            None if journal is None else Path(journal),
            b"" if file is None else file.content,
            None if file is None else file.path,
        )
        try:
            if file is not None and file.current() != file.content:
                raise ValueError(f"{file.path.name} was changed while it was opened: open it again")
            self._replay()
        except BaseException:
            self.journal.close()
            raise

    def _named(self, classes: Sequence) -> list:
        """Return labels that were named, of types of spans those that write them."""
        if self.spans is None:
            return list(classes)
        labels: dict[str, None] = {}
        for name in classes:
            own = [name] if self.spans.scheme.holds([name]) else self.spans.labels_of(str(name))
            labels |= dict.fromkeys(own)
        return list(labels)

    # ---- changes

    def _replay(self) -> None:
        """Apply the actions of the journal; warn of what cannot be."""
        left_out = self.journal.left_out
        for action in [*self.journal.history, *self.journal.actions]:
            if not 0 <= action.item < len(self.lengths):
                raise JournalError(f"the journal names item {action.item}, and there are {len(self.lengths)}")
        for action in self.journal.actions:
            try:
                self._apply(action.item, self._checked(action.item, action.changes))
            except ValueError as error:  # such as labels that cannot be written: they would block every save
                left_out.append(f"item {action.item + 1}: {error}")
        self.history = History([*self.journal.history, *self.journal.actions])
        if left_out:
            assert self.journal.path is not None
            listed = "; ".join(left_out[:_LISTED]) + ("; ..." if len(left_out) > _LISTED else "")
            self.status = (
                f"lines of {self.journal.path.name} that cannot be used are left out ({len(left_out)}): {listed}"
            )
            warnings.warn(self.status, stacklevel=3)

    def _check_label(self, label: object) -> None:
        """Raise ValueError for what is no label, or could not be written and read again."""
        if not (isinstance(label, str | int) and not isinstance(label, bool) and 0 < len(str(label)) <= _LONGEST):
            raise ValueError(f"a label is a text of 1 to {_LONGEST} characters or a whole number, got {label!r:.40}")
        if self.file is not None:
            self.file.check_label(str(label), new=label not in self.classes)
        if self.spans is not None:
            self.spans.scheme.parse(label)

    def _checked(self, item: int, changes: Sequence[tuple[int, list | None]]) -> Changes:
        checked: Changes = []
        for position, labels in changes:
            if not isinstance(position, int) or isinstance(position, bool) or not 0 <= position < self.lengths[item]:
                raise ValueError(
                    f"item {item + 1} has {self.lengths[item]} positions, and no position {position!r:.40}"
                )
            if labels is not None and not (isinstance(labels, list) and labels):
                raise ValueError("labels of a position must be a list of labels, or null to forget them")
            for label in labels or ():
                self._check_label(label)
            checked.append((position, None if labels is None else frozenset(labels)))
        return checked

    def _apply(self, item: int, changes: Changes) -> None:
        for position, labels in changes:
            old, self.known[item][position] = self.known[item][position], labels
            for entry, change in ((old, -1), (labels, 1)):
                if entry is not None and len(entry) == 1:
                    self.counts[next(iter(entry))] += change
            self.classes += sorted(labels - set(self.classes), key=str) if labels else []
        self.left[item] = self.known[item].count(None)
        self.versions[item] += 1

    def _write(self, item: int, changes: Changes, kind: str = "do", step: int | None = None) -> Change:
        """Keep changes in the journal, and make them."""
        before = [(position, self.known[item][position]) for position, _ in changes]
        both = plain_changes(changes), plain_changes(before)
        self.journal.append(Action(item, self.versions[item], *both, kind, step))
        self._apply(item, changes)
        return Change(item, before, changes)

    def _seen(self, item: object, version: object) -> int:
        """Return the number of an item; Conflict if it is not that version any more."""
        number = self._item(item)
        if version != self.versions[number]:
            raise Conflict(
                f"item {number + 1} was changed elsewhere: version {self.versions[number]}, not {version!r:.20}"
            )
        return number

    def change(self, item: object, version: object, changes: object, first: int = 0) -> dict[str, Any]:
        """Fix, or forget, labels of an item that was seen at a version; it is in the journal when this returns."""
        with self._lock:
            number = self._seen(item, version)
            pairs = isinstance(changes, list) and all(isinstance(one, list) and len(one) == 2 for one in changes)
            if not pairs or not changes:
                raise ValueError("changes must be a list of pairs [position, labels]")
            assert isinstance(changes, list)
            return self._do(number, self._checked(number, [(one[0], one[1]) for one in changes]), first)

    def _range(self, item: int, begin: object, end: object) -> tuple[int, int]:
        whole = all(isinstance(one, int) and not isinstance(one, bool) for one in (begin, end))
        if not whole or not 0 <= begin < end <= self.lengths[item]:  # type: ignore[operator]  # whole numbers
            raise ValueError(f"item {item + 1} has {self.lengths[item]} positions, and none from {begin!r} to {end!r}")
        return begin, end  # type: ignore[return-value]  # whole numbers

    def mark(
        self, item: object, version: object, begin: object, end: object, kind: object, first: int = 0
    ) -> dict[str, Any]:
        """Make positions a span of a type, None for outside of spans; without a scheme, each has the label ``kind``."""
        with self._lock:
            number = self._seen(item, version)
            start, stop = self._range(number, begin, end)
            if self.spans is None:
                labels = None if kind is None else [kind]
                return self._do(number, self._checked(number, [(t, labels) for t in range(start, stop)]), first)
            if kind is not None and not isinstance(kind, str):
                raise ValueError(f"the type of a span is a text, got {kind!r:.40}")
            return self._do(number, self._marked(number, start, stop, kind, self._labels_shown(number)), first)

    def _marked(
        self, item: int, begin: int, end: int, kind: str | None, shown: list, *, decode: bool = True
    ) -> Changes:
        """Return the changes that mark a span; a prediction that goes on beyond its end gets another label."""
        assert self.spans is not None
        known = [entry is not None and len(entry) == 1 for entry in self.known[item]]
        labels = self.spans.marked(shown, known, begin, end, kind)
        changes = self._checked(item, [(t, None if label is None else [label]) for t, label in labels.items()])
        if not decode or kind is None or end == self.lengths[item] or known[end]:
            return changes
        given = list(self.known[item])
        for position, entry in changes:
            given[position] = entry
        found = self._decoded(item, given)
        last = str(next(iter(given[end - 1] or ())))
        if found is not None and self.spans.goes_on(last, str(found[1][end])):
            names = [str(name) for name in found[0]]
            chances = np.where([self.spans.goes_on(last, name) for name in names], -1.0, found[2][end])
            changes.append((end, frozenset([names[int(np.argmax(chances))]])))
        return changes

    def accept(self, item: object, version: object, begin: object, end: object, first: int = 0) -> dict[str, Any]:
        """Fix what is predicted at positions, of spans that they touch all of it."""
        with self._lock:
            number = self._seen(item, version)
            start, stop = self._range(number, begin, end)
            shown = self._labels_shown(number)
            touched = [] if self.spans is None else self.spans.spans(shown)
            for span in touched:
                if span.begin < stop and start < span.end:
                    start, stop = min(start, span.begin), max(stop, span.end)
            return self._do(number, self._fixed(number, shown, range(start, stop)), first)

    def done(self, item: object, version: object, first: int = 0) -> dict[str, Any]:
        """Fix all that is shown of an item; where labels write spans, the rest is outside of them."""
        with self._lock:
            number = self._seen(item, version)
            shown = self._labels_shown(number)
            if self.model is not None and self.lengths[number] and self._decoded(number) is None:
                raise ValueError("what is known of this item breaks a rule of the field: correct a label first")
            if self.spans is not None:
                shown = self.spans.mended([OUTSIDE if label is None else label for label in shown])
            elif missing := shown.count(None):
                raise ValueError(f"{counted(missing, 'position')} of item {number + 1} have no label yet")
            return self._do(number, self._fixed(number, shown, range(self.lengths[number])), first)

    def _fixed(self, item: int, shown: Sequence, positions: Sequence[int]) -> Changes:
        """Return labels that are shown at positions, but for those that are known."""
        left = [t for t in positions if (entry := self.known[item][t]) is None or len(entry) > 1]
        return [(t, frozenset([shown[t]])) for t in left if shown[t] is not None]

    def _do(self, item: int, changes: Changes, first: int) -> dict[str, Any]:
        """Make changes, if there are any, as one step."""
        if changes:
            self.history.record(self._write(item, changes))
        return self.show(item, first)

    def undo(self, first: int = 0) -> dict[str, Any]:
        """Take back the last change; the item is as it was before it."""
        return self._turn("undo", first)

    def redo(self, first: int = 0) -> dict[str, Any]:
        """Make the change again that was undone last."""
        return self._turn("redo", first)

    def _turn(self, kind: str, first: int) -> dict[str, Any]:
        with self._lock:
            changes = self.history.next_step(kind)
            step = self.history.new_step() if len(changes) > 1 else None
            for item, before, after in reversed(changes) if kind == "undo" else changes:
                labels = plain_changes(before if kind == "undo" else after)
                self._write(item, self._checked(item, labels), kind, step)
            self.history.turned(kind)
            item, (position, _) = changes[0].item, changes[0].before[0]
            return self.show(item, max(min(first, position), position - _WINDOW + 1)) | {"at": position}

    def repeats(self, item: object, begin: object, end: object, kind: object, apply: object = False) -> dict[str, Any]:
        """Return where the words of a span occur without a label; with ``apply``, mark them all, as one step."""
        with self._lock:
            number = self._item(item)
            start, stop = self._range(number, begin, end)
            if self.spans is None or self.items.words is None or not isinstance(kind, str):
                raise ValueError("spans of words can be repeated, and of nothing else")
            words = [str(word) for word in self.items.words[number][start:stop]]
            places = [*self._places_of(words)]
            if apply is True and places:
                step = self.history.new_step()
                for number, (other, at) in enumerate(places):
                    shown = [next(iter(own)) if own and len(own) == 1 else None for own in self.known[other]]
                    marked = self._marked(other, at, at + len(words), kind, shown, decode=False)
                    self.history.record(self._write(other, marked, step=step), begins=number == 0)
            listed = [
                {"item": other, "text": " ".join(map(str, self.items.words[other][max(0, at - 4) : at + 6]))}
                for other, at in places[:_LISTED]
            ]
            return {"words": " ".join(words), "count": len(places), "places": listed}

    def _places_of(self, words: list[str]) -> Iterator[tuple[int, int]]:
        """Yield items and positions where these words stand and nothing is known of them."""
        assert self.items.words is not None
        for item, own in enumerate(self.items.words):
            at = 0
            while at + len(words) <= len(own):
                same = own[at] == words[0] and [str(word) for word in own[at : at + len(words)]] == words
                if same and all(entry is None for entry in self.known[item][at : at + len(words)]):
                    yield item, at
                    at += len(words)
                else:
                    at += 1

    def flag(self, item: object, note: object) -> dict[str, Any]:
        """Flag an item to come back to, with a note that may be empty; None takes the flag away."""
        with self._lock:
            number = self._item(item)
            if note is not None and not (isinstance(note, str) and len(note) <= _LONGEST_NOTE):
                raise ValueError(f"a note is a text of at most {_LONGEST_NOTE} characters")
            self.journal.flag(Flag(number, note))
            return {"item": number, "flag": note}

    def save(self) -> str:
        """Write the labels into the file; returns what was written. What was done can be undone all the same."""
        with self._lock:
            if self.file is None:
                raise ValueError("these items come from no file: take labels() in Python")
            if self.file.current() != self.file.content:
                raise ValueError(f"{self.file.path.name} was changed by another program: it is left as it is")
            content = self.file.written(self.labels())
            self.journal.saving(content)
            self.file.save(content)
            self.file = self.file.after(content)
            self.journal.saved(content)
            return f"wrote {self.file.path.name}"

    def close(self) -> None:
        """Let go of the file and its journal, so that another session can open them."""
        self.journal.close()

    def labels(self) -> Any:
        """Return what is known of all labels as a y: labels, None, and sets of which one is right."""
        return self.items.labels(self.known)

    # ---- answers

    def _item(self, item: object) -> int:
        if not isinstance(item, int) or isinstance(item, bool) or not 0 <= item < len(self.lengths):
            raise ValueError(f"there are items 0 to {len(self.lengths) - 1}, and no item {item!r:.40}")
        return item

    def _opened(self, item: int) -> tuple[Any, Any]:
        return opened(self.model, self.items.part([item]))

    def _known_labels(self, field: LabelQuestions, known: Sequence[Known]) -> Any:
        """Return what is known of an item as the field takes it; labels that it has not seen are left open."""
        seen = set(field.label_names().tolist())
        return self.items.labels([[None if own is None else own & seen or None for own in known]])

    def _decoded(
        self, item: int, known: Sequence[Known] | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Return classes, labels (T,) and marginals (T, L) of an item given what is known.

        None without a model, and where what is known breaks a rule of the field: given that, nothing has a probability.
        """
        if self.model is None or not self.lengths[item]:
            return None
        known = list(self.known[item] if known is None else known)
        if self._last is not None and self._last[:3] == (self.model, item, known):  # marking asks more than once
            return self._last[3]
        kept = self._answers.get(item)
        if kept is None or kept[0] is not self.model:
            field, x = self._opened(item)
            if len(self._answers) > _ITEMS_AT_ONCE:
                self._answers.clear()
            # Potentials do not depend on what is known: they are computed once for a model.
            kept = self._answers[item] = (self.model, field, next(iter(field.answers(x))))
        _, field, answers = kept
        given = self._known_labels(field, known)
        answers = answers.given(field.known_log_weights(given, answers.data, possible=False))
        classes, found = field.label_names(), None
        if not answers.family.impossible().any():
            found = classes, classes[field.decoded(answers)], answers.marginals
        self._last = (self.model, item, known, found)
        return found

    def _labels_shown(self, item: int, found: tuple | None = None) -> list:
        """Return the label of each position, known or predicted; None for nothing."""
        found = self._decoded(item) if found is None else found
        predicted = [None] * self.lengths[item] if found is None else map(plain_label, found[1])
        return [
            next(iter(known)) if known is not None and len(known) == 1 else label
            for known, label in zip(self.known[item], predicted, strict=True)
        ]

    def show(self, item: object, first: int = 0) -> dict[str, Any]:
        """Return an item for the page, from a position on: labels, where they come from, likeliest ones, inputs."""
        with self._lock:
            number = self._item(item)
            length = self.lengths[number]
            begin = min(max(int(first), 0), max(length - 1, 0))
            rows = slice(begin, min(begin + _WINDOW, length))
            found = self._decoded(number)
            positions = []
            version, _, suspects = self._suspects.get(number, (None, 0.0, {}))
            suspects = suspects if version == self.versions[number] else {}
            order = None if found is None else np.argsort(-found[2][rows], axis=1)[:, :_SHOWN]
            names = None if found is None else [plain_label(label) for label in found[0]]
            for place, position in enumerate(range(rows.start, rows.stop)):
                known, given = self.known[number][position], self.given[number][position]
                entry: dict[str, Any] = {"label": None, "from": "nothing", "p": None, "top": []}
                if found is not None and names is not None and order is not None:
                    chances = found[2][position]
                    entry["top"] = [[names[k], round(float(chances[k]), 4)] for k in order[place].tolist()]
                    label = plain_label(found[1][position])
                    entry |= {"label": label, "from": "predicted", "p": round(float(chances[names.index(label)]), 4)}
                if known is not None:
                    if len(known) == 1:
                        entry |= {"label": next(iter(known)), "p": None}
                    entry |= {"from": "given" if known == given else "fixed", "set": sorted(known, key=str)}
                    if position in suspects:
                        entry["suspect"] = self._told([suspects[position]])
                positions.append(entry)
            if self.spans is not None:
                self._add_spans(positions, rows, self._labels_shown(number, found), found)
            shown: dict[str, Any] = {"item": number, "version": self.versions[number], "length": length}
            shown |= {"first": rows.start, "positions": positions, "aside": number in self.aside}
            shown |= {"flag": self.journal.flags.get(number), "left": int(self.left[number])}
            shown["broken"] = found is None and self.model is not None and length > 0
            return shown | self.items.show(number, rows)

    def _add_spans(self, positions: list[dict], rows: slice, labels: list, found: tuple | None) -> None:
        """Add to positions the types of their spans, null outside, where these begin, and the likeliest types."""
        assert self.spans is not None
        for entry in positions:
            entry |= {"kind": None, "begins": False}
        for kind, begin, end in self.spans.spans(labels):
            for t in range(max(begin, rows.start), min(end, rows.stop)):
                positions[t - rows.start] |= {"kind": kind, "begins": t == begin}
        if found is not None:
            kinds, shares = self.spans.shares([str(name) for name in found[0]], found[2][rows])
            order = np.argsort(-shares, axis=1)[:, :_SHOWN].tolist()
            for entry, own, ranked in zip(positions, shares.tolist(), order, strict=True):
                entry["kinds"] = [[kinds[k], round(own[k], 4)] for k in ranked]
                if entry["p"] is not None and entry["kind"] in kinds:
                    entry["p"] = round(own[kinds.index(entry["kind"])], 4)

    def best(self, item: object) -> list[dict[str, Any]]:
        """Return the best labellings of an item given what is known, with their probabilities."""
        with self._lock:
            number = self._item(item)
            if self.model is None:
                raise ValueError("there is no model yet: label a few items and refit")
            field, x = self._opened(number)
            ranked = field.predict_nbest(x, _BEST, known=self._known_labels(field, self.known[number]))[0]
            found = []
            for own, log in ranked:
                labels = np.atleast_1d(own).tolist()
                entry = {"labels": labels, "p": round(float(np.exp(log)), 4)}
                if self.spans is not None and self.items.words is not None:
                    words = list(map(str, self.items.words[number]))
                    entry["spans"] = [[kind, " ".join(words[a:b])] for kind, a, b in self.spans.spans(labels)]
                found.append(entry)
            return found

    def explain(self, item: object, position: object) -> dict[str, Any]:
        """Return what moved the label of a position: features or training inputs, and their contributions."""
        with self._lock:
            number = self._item(item)
            self._checked(number, [(position, None)])  # type: ignore[list-item]  # checked there
            if self.model is None:
                raise ValueError("there is no model yet: label a few items and refit")
            found, (field, x) = self._decoded(number), self._opened(number)
            if found is None:
                raise ValueError("what is known of this item breaks a rule of the field: correct a label first")
            # The labels that the page shows, given what is known; of a whole sequence, the states are explained.
            labels = self.items.labels([[frozenset([plain_label(label)]) for label in found[1]]])
            shown = {} if isinstance(field, SequenceClassifier) else {"y": labels[0]}
            explained = field.explain(x[0], positions=[position], **shown).to_dict()
            own = explained["positions"][0]
            if self.spans is not None:
                own |= {name: self.spans.told(own[name]) for name in ("label", "other") if own.get(name)}
            return {"position": position, **own}

    # ---- what to do next

    def queue(
        self, order: str = "given", item: int = 0, *, text: str = "", label: object = None, part: str = "all"
    ) -> list[dict[str, Any]]:
        """Return items to look at, those with nothing left to do last; as given, those around an item.

        ``text`` is looked for in their words, ``label`` among what is known of them; ``part`` is one of ``PARTS``.
        """
        for value, name, known in ((order, "order", ORDERS), (part, "part", PARTS)):
            if value not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}, got {value!r:.40}")
        with self._lock:
            numbers, scores = np.arange(len(self.lengths)), np.zeros(len(self.lengths))
            left = self.left
            if order == "random":
                numbers = self.order
            elif order in ("doubtful", "suspicious"):
                scores = self._scores(order)
                numbers = np.argsort(-scores, kind="stable")
            if text or label is not None or part != "all":
                numbers = numbers[self._chosen(str(text).lower(), label, part)[numbers]]
            if order == "given":
                place = int(np.searchsorted(numbers, self._item(item)))
                first = max(0, min(place - _IN_LIST // 4, len(numbers) - _IN_LIST))
                listed = numbers[first : first + _IN_LIST]
            else:
                last = left[numbers] == 0
                listed = (numbers if order == "suspicious" else numbers[np.argsort(last, kind="stable")])[:_IN_LIST]
            return [
                {
                    "item": each,
                    "left": int(left[each]),
                    "length": self.lengths[each],
                    "score": finite(scores[each]),
                    "text": self.items.text(each, _LONGEST_TEXT),
                    "flag": self.journal.flags.get(each),
                }
                for each in listed.tolist()
            ]

    def _chosen(self, text: str, label: object, part: str) -> np.ndarray:
        """Return which items (S,) hold a text and a label, and belong to a part of them."""
        chosen = np.ones(len(self.lengths), dtype=bool)
        if part == "open":
            chosen &= self.left > 0
        elif part == "flagged":
            chosen[:] = False
            chosen[list(self.journal.flags)] = True
        if label is not None:
            named = {label} if self.spans is None else set(self.spans.labels_of(str(label)))
            chosen &= [any(entry is not None and named & entry for entry in own) for own in self.known]
        if text:
            chosen &= [text in self.items.text(item).lower() for item in range(len(chosen))]
        return chosen

    def _scores(self, order: str) -> np.ndarray:
        """Return how doubtful, per position, or suspicious items are; doubts are zero without a model."""
        if order == "doubtful":
            if self.model is None:
                return np.zeros(len(self.lengths))
            if self._doubts is None:
                field, X = opened(self.model, self.items.X)
                self._doubts = np.asarray(field.entropy(X)) / np.maximum(self.lengths, 1)
            return self._doubts
        scores = np.full(len(self.lengths), -np.inf)
        for item, (version, score, _) in self._suspects.items():
            if version == self.versions[item]:  # what was changed since has been looked at
                scores[item] = score
        return scores

    def places(self, kind: str) -> list[dict[str, Any]]:
        """Return places to look at one by one: "findings" of the last check, or what the last refit "changed"."""
        if kind not in ("findings", "changed"):
            raise ValueError(f"places are 'findings' or 'changed', got {kind!r:.40}")
        with self._lock:
            found = self._findings if kind == "findings" else self._changed
            return [own for own in found if own["version"] == self.versions[own["item"]]][:_PLACES]

    def state(self) -> dict[str, Any]:
        """Return what the page shows beside an item."""
        with self._lock:
            labels: list = self.classes
            counts: Mapping = self.counts
            if self.spans is not None:
                labels, counts = self.spans.kinds(self.classes), self.spans.counts(self.counts)
            open_items = np.flatnonzero(self.left > 0)
            last = self.curve[-1] if self.curve else {}
            return {
                "name": "items" if self.file is None else self.file.path.name,
                "items": len(self.lengths),
                "positions": int(sum(self.lengths)),
                "known": int(sum(self.lengths) - self.left.sum()),
                "done": len(self.lengths) - len(open_items),
                "first": int(open_items[0]) if len(open_items) else 0,
                "labels": labels,
                "counts": [int(counts[label]) for label in labels],
                "colours": label_colours(len(labels)),
                "spans": self.spans is not None,
                "shape": self.items.shape,
                "columns": self.items.columns,
                "model": self.model is not None,
                "status": self.status,
                "busy": self._working is not None,
                "measure": "share right" if self.spans is None else "F1",
                "curve": self.curve,
                "forecast": forecast(self.curve),
                "score": last.get("text"),
                "findings": len(self.places("findings")),
                "changed": len(self.places("changed")),
                "flagged": len(self.journal.flags),
                "undo": len(self.history.done),
                "redo": len(self.history.undone),
                "file": self.file is not None,
                "saved": not self.journal.actions,
            }

    # ---- fits beside the labelling

    def refit(self, *, wait: bool = False) -> str:
        """Fit to what is known, beside the labelling; the new model takes the place of the old if it is no worse."""
        with self._lock:
            train = [i for i, own in enumerate(self.known) if i not in self.aside and any(e is not None for e in own)]
            if not train:
                raise ValueError("no label of an item that may be trained on is known yet")
            judged = [i for i in sorted(self.aside) if self.known[i] and all(e and len(e) == 1 for e in self.known[i])]
            known, truth = ([list(self.known[i]) for i in items] for items in (train, judged))
            new = copy.deepcopy(self.model) if self.model is not None else clone(self._unfitted)
        status = f"fitting to {counted(len(train), 'item')}"
        return self._work(status, wait, self._fit, new, train, known, judged, truth)

    def check(self, *, wait: bool = False) -> str:
        """Look for labels that may be wrong, each by a field fitted without its item, beside the labelling."""
        with self._lock:
            items = [i for i, own in enumerate(self.known) if any(e is not None for e in own)]
            if len(items) < _FOLDS:
                raise ValueError(f"label errors are found among {_FOLDS} labelled items or more, got {len(items)}")
            known, versions = [list(self.known[i]) for i in items], [self.versions[i] for i in items]
            new = clone(self._unfitted if self.model is None else self.model)
        status = f"checking {counted(len(items), 'item')}"
        return self._work(status, wait, self._check, new, items, known, versions)

    def _work(self, status: str, wait: bool, work: Callable[..., str], *arguments: Any) -> str:
        """Work in a thread of its own, one at a time; what it returns, or raises, becomes the status."""

        def run() -> None:
            try:
                self.status = work(*arguments)
            except Exception as error:  # noqa: BLE001  # shown on the page: a thread has nobody to raise to
                self.status = f"{status} failed, all is as it was: {error}"
            finally:
                self._working = None

        with self._lock:
            if self._working is not None:
                raise ValueError("a refit or a check is under way")
            self.status = status
            self._working = thread = threading.Thread(target=run, daemon=True)
            thread.start()
        if wait:
            thread.join()
        return self.status

    def _fit(self, new: Any, train: list[int], known: list, judged: list[int], truth: list) -> str:
        begin = time.perf_counter()
        old = self.model
        fitted = prepared(new, known).fit(self.items.part(train), self.items.labels(known))
        score = score_of(self._right(fitted, judged, truth))
        point: dict[str, Any] = {
            "known": sum(e is not None for own in known for e in own),
            "items": len(train),
            "right": None,
        }
        if score is not None:
            point |= {"right": score.value, "low": score.low, "high": score.high}
            point["text"] = score.text("F1" if self.spans is not None else "share right")
        last = self.curve[-1]["right"] if self.curve else None
        # A few items cannot tell that a model is worse.
        worse = score is not None and score.high is not None and last is not None and score.high < last
        changed = [] if worse or old is None else self._differences(old, fitted)
        point["seconds"] = round(time.perf_counter() - begin, 2)
        with self._lock:
            if not worse:
                self.model, self._doubts, self._changed = fitted, None, changed
                self._answers.clear()
                self.classes += [label for label in classes_of(fitted) if label not in self.classes]
            self.curve.append(point)
        judged_by = "" if score is None else f", {point['text']}"
        kept = "the old model stays" if worse else "the new model is in place"
        looked = f". {counted(len(changed), 'prediction')} changed" if changed else ""
        return f"fitted to {counted(len(train), 'item')} in {point['seconds']} s{judged_by}: {kept}{looked}"

    def _right(self, model: FittedModel, judged: list[int], truth: list) -> np.ndarray:
        """Return of each item set aside how many spans, or positions, are right, predicted and true, (S, 3)."""
        if not judged:
            return np.zeros((0, 3))
        rows = []
        for true, labels in zip(truth, self.items.by_position(model.predict(self.items.part(judged))), strict=True):
            if self.spans is None:
                rows.append((sum(a == b for a, b in zip(true, labels, strict=True)), len(true), len(true)))
            else:
                a, b = ({*self.spans.spans([next(iter(e or ())) for e in own])} for own in (labels, true))
                rows.append((len(a & b), len(a), len(b)))
        return np.array(rows, dtype=np.float64)

    def _differences(self, old: FittedModel, new: FittedModel) -> list[dict[str, Any]]:
        """Return where two models predict other labels, in the first items that are not done."""
        items = np.flatnonzero(self.left > 0)[:_COMPARED].tolist()
        if not items:
            return []
        part = self.items.part(items)
        both = zip(items, *(self.items.by_position(model.predict(part)) for model in (old, new)), strict=True)
        found = []
        for item, before, after in both:
            pairs = [*zip(before, after, self.known[item], strict=True)]
            differ = [t for t, (a, b, known) in enumerate(pairs) if a != b and known is None]
            for begin, end in _runs(differ):
                names = [self._told([next(iter(own[t])) for t in range(begin, end)]) for own in (before, after)]
                place = {"item": item, "begin": begin, "end": end, "version": self.versions[item]}
                found.append({**place, "text": f"was {names[0]}, now {names[1]}"})
        return found

    def _told(self, labels: Sequence) -> str:
        """Return labels of neighbours in the words of the page: spans by their types, or each label once."""
        if self.spans is None:
            return ", ".join(dict.fromkeys(map(str, labels)))
        return ", ".join(span.kind for span in self.spans.spans([str(label) for label in labels])) or "no span"

    def _check(self, new: Any, items: list[int], known: list, versions: list[int]) -> str:
        found = find_label_errors(prepared(new, known), self.items.part(items), self.items.labels(known), cv=_FOLDS)
        places: list[dict[int, Any]] = [{} for _ in items]
        findings = []
        for row in found.rows:
            first = self.items.place(row.position)
            proposed = [plain_label(label) for label in row.proposed]
            for position, label in enumerate(proposed, start=first):
                places[row.sequence].setdefault(position, label)
            share = 1.0 / (1.0 + np.exp(-row.score))
            told = f"given {self._told(row.given)}, the model says {self._told(proposed)} ({share:.2f})"
            place = {"item": items[row.sequence], "begin": first, "end": first + len(proposed)}
            findings.append({**place, "version": versions[row.sequence], "text": told, "labels": proposed})
        scored = zip(items, versions, found.item_scores.tolist(), places, strict=True)
        with self._lock:
            self._suspects = {item: (version, score, own) for item, version, score, own in scored}
            self._findings = findings
        return f"checked {counted(len(items), 'item')}: labels may be wrong at {counted(found.n_findings, 'place')}"


def _scheme(asked: str | None, others: list, named: list, given: Sequence[Sequence[Known]]) -> Scheme | None:
    """Return the scheme that was asked for, or that labels show, of the model and the file, or else those named."""
    if asked is None:
        return None
    if asked not in ("auto", "spans"):
        return find_scheme(asked)
    labels = [label for label in others or named if isinstance(label, str)]
    found = guess_scheme(labels) if len(labels) == len(others or named) else None
    if found is None:
        return find_scheme("bio") if asked == "spans" and not others else None
    known = [[next(iter(e)) if e and len(e) == 1 else None for e in own] for own in given[:_LOOKED_AT]]
    return find_scheme("iob1") if found.name == "bio" and scheme_of(known) == "iob1" else found


def _runs(positions: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the first, and the one after the last, of positions that follow each other."""
    for _, run in groupby(enumerate(positions), key=lambda pair: pair[1] - pair[0]):
        own = [position for _, position in run]
        yield own[0], own[-1] + 1


def _labels(named: list, of_model: list, of_items: set) -> list:
    """Return all labels, each once, those that were named first."""
    found = list(dict.fromkeys([*named, *of_model]))
    return found + sorted(of_items - set(found), key=str)
