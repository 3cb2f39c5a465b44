"""Items with their known labels, and the predictions of a field for the other labels.

Known labels, given before or fixed now, stay: the rest of an item is decoded given them, exactly, before any refit.
Every change is an action of the journal, which is made again when a labelling is opened. Where labels follow a scheme
of entities, what is shown are spans (page/spans.py). A random sample of the items is set aside to judge refits.

Cost of an answer: inference for one item. Fails: ValueError in one sentence for what the page must not do.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from kernelfields.data.constraints import Scheme, find_scheme, guess_scheme
from kernelfields.data.reading import plain_label
from kernelfields.estimators import SequenceClassifier
from kernelfields.estimators.questions import LabelField
from kernelfields.formats.annotated_texts import detect_scheme
from kernelfields.inference.answers import Answers
from kernelfields.models.wrapped_field import WrappedField, field_inside, opened
from kernelfields.numerics.user_warnings import warn_user
from kernelfields.page.fits import classes_of, fitted_or_none, inner_estimator, usual_estimator
from kernelfields.page.history import Changes, History
from kernelfields.page.items import Known, items_of
from kernelfields.page.journal import Journal, JournalError
from kernelfields.page.label_file import LabelFile
from kernelfields.page.spans import SpanView
from kernelfields.selection.held_out import unwrap_frame

# The most positions of an answer, the likeliest labels of each, and the labellings to pick from.
WINDOW, _SHOWN, _BEST = 400, 9, 5
#: Share and most items of the sample that judges refits.
_ASIDE, _MOST_ASIDE = 0.1, 100
_ITEMS_AT_ONCE = 256
# The most characters of a label, and the most lines that a message lists.
_LONGEST, LISTED = 200, 5
# Items whose labels show the scheme.
_LOOKED_AT = 2000


class KnownItems:
    """Items, what is known of their labels, and a field that fills in the rest; parameters as in LabellingSession."""

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
            labels = None if y is None else unwrap_frame(estimator, X, y)[2]
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
        if file is not None:
            self.file = file = replace(file, scheme=None if found is None else found.name)
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
            self._check_file()
            self._warn_of_skipped_actions()
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

    def _replay(self) -> None:
        """Apply the actions of the journal, and list actions that cannot be applied."""
        left_out = self.journal.left_out
        for action in [*self.journal.history, *self.journal.actions]:
            if not 0 <= action.item < len(self.lengths):
                raise JournalError(f"the journal names item {action.item}, and there are {len(self.lengths)}")
        for item in [item for item in self.journal.flags if item >= len(self.lengths)]:
            left_out.append(f"the flag of item {item + 1}: there are {len(self.lengths)} items")
            del self.journal.flags[item]
        for action in self.journal.actions:
            try:
                self._apply(action.item, self._checked(action.item, action.changes))
            except ValueError as error:  # such as labels that cannot be written: they would block every save
                left_out.append(f"item {action.item + 1}: {error}")
        self.history = History([*self.journal.history, *self.journal.actions])

    def _warn_of_skipped_actions(self) -> None:
        """Warn of actions of the journal that were not applied."""
        left_out = self.journal.left_out
        if left_out:
            assert self.journal.path is not None
            listed = "; ".join(left_out[:LISTED]) + ("; ..." if len(left_out) > LISTED else "")
            self.status = (
                f"lines of {self.journal.path.name} that cannot be used are left out ({len(left_out)}): {listed}"
            )
            warn_user(self.status)

    def _check_file(self) -> None:
        """Raise ValueError where the file could not be saved; items whose journal is the reason are as they were."""
        if self.file is None:
            return
        try:
            self.file.written(self.labels())
        except ValueError:
            for item in sorted({action.item for action in self.journal.actions}):
                try:
                    self._check_item(item, [])
                except ValueError as error:
                    self.journal.left_out.append(f"item {item + 1}: {error}")
                    self._apply(item, [*enumerate(self.given[item])])
            try:
                self.file.written(self.labels())
            except ValueError as error:
                raise ValueError(f"{self.file.path} is not opened, because it could not be saved: {error}") from error

    def _check_item(self, item: int, changes: Changes) -> None:
        """Raise ValueError if changes of an item cannot be saved."""
        if self.file is not None:
            known = list(self.known[item])
            for position, labels in changes:
                known[position] = labels
            (labels,) = self.items.labels([known])
            self.file.check_item(item, labels)

    def labels(self) -> Any:
        """Return what is known of all labels, as ``fit`` takes it.

        Returns
        -------
        list or array
            Labels, None, and sets of which one is right.

        Examples
        --------
        >>> from kernelfields.page import LabellingSession
        >>> words = [["we", "saw", "Rome"], ["Lima", "was", "far"]]
        >>> session = LabellingSession(words, [["O", "O", "B-city"], None], words=words)
        >>> session.labels()
        [['O', 'O', 'B-city'], [None, None, None]]
        """
        return self.items.labels(self.known)

    def _check_label(self, label: object) -> None:
        """Raise ValueError for a value that is not a label, or cannot be written and read again."""
        if not (isinstance(label, str | int) and not isinstance(label, bool) and 0 < len(str(label)) <= _LONGEST):
            raise ValueError(f"a label is a text of 1 to {_LONGEST} characters or a whole number, got {label!r:.40}")
        if self.file is not None:
            if not isinstance(label, str):
                raise ValueError(f"labels of files are texts, got {label!r:.40}")
            self.file.check_label(label, new=label not in self.classes)
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

    # ---- answers

    def _item(self, item: object) -> int:
        if not isinstance(item, int) or isinstance(item, bool) or not 0 <= item < len(self.lengths):
            raise ValueError(f"there are items 0 to {len(self.lengths) - 1}, and no item {item!r:.40}")
        return item

    def _opened(self, item: int) -> tuple[Any, Any]:
        return opened(self.model, self.items.part([item]))

    def _known_labels(self, field: LabelField, known: Sequence[Known]) -> Any:
        """Return what is known of an item as the field takes it; labels that it has not seen are left open."""
        seen = set(field.answer_format.labels(field).tolist())
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
        answers = answers.given(field.answer_format.known_log_weights(field, given, answers.data))
        classes, found = field.answer_format.labels(field), None
        if not answers.family.impossible().any():
            found = classes, classes[field.decision_rule.decision(field, None).choose(answers)], answers.marginals
        self._last = (self.model, item, known, found)
        return found

    def _labels_shown(self, item: int, found: tuple | None = None) -> list:
        """Return the known or predicted label of each position, or None without one."""
        found = self._decoded(item) if found is None else found
        predicted = [None] * self.lengths[item] if found is None else map(plain_label, found[1])
        return [
            next(iter(known)) if known is not None and len(known) == 1 else label
            for known, label in zip(self.known[item], predicted, strict=True)
        ]

    def show(self, item: object, first: int = 0) -> dict[str, Any]:
        """Return an item for the page, from a position on.

        Parameters
        ----------
        item : int
            The number of the item.
        first : int, default 0
            The position from which on the item is shown.

        Returns
        -------
        dict
            The item's version, length, and how many labels are ``left`` to find; for each of its ``positions`` the
            label, where it comes ``from`` ("given", "fixed", "predicted", "nothing"), its probability ``p``, and the
            likeliest labels.

        Raises
        ------
        ValueError
            If there is no such item.

        Examples
        --------
        >>> from kernelfields import ChainCRF
        >>> from kernelfields.page import LabellingSession
        >>> words = [["we", "saw", "Rome"], ["they", "saw", "Lima"]]
        >>> y = [["O", "O", "city"], ["O", "O", "city"]]
        >>> crf = ChainCRF("linear", prior_variance=10.0).fit(words, y)
        >>> session = LabellingSession(words, None, crf, scheme=None, words=words)
        >>> [(entry["label"], entry["from"]) for entry in session.show(1)["positions"]]
        [('O', 'predicted'), ('O', 'predicted'), ('city', 'predicted')]
        """
        with self._lock:
            number = self._item(item)
            length = self.lengths[number]
            begin = min(max(int(first), 0), max(length - 1, 0))
            rows = slice(begin, min(begin + WINDOW, length))
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
                        entry["suspect"] = self._labels_in_words([suspects[position]])
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
        """Return the best labellings of an item given what is known.

        Parameters
        ----------
        item : int
            The number of the item.

        Returns
        -------
        list of dict
            The labels and the probability ``p`` of each labelling, the best first.

        Raises
        ------
        ValueError
            If there is no model yet.

        Examples
        --------
        >>> from kernelfields import ChainCRF
        >>> from kernelfields.page import LabellingSession
        >>> words = [["we", "saw", "Rome"], ["they", "saw", "Lima"]]
        >>> y = [["O", "O", "city"], ["O", "O", "city"]]
        >>> crf = ChainCRF("linear", prior_variance=10.0).fit(words, y)
        >>> session = LabellingSession(words, None, crf, scheme=None, words=words)
        >>> session.best(1)[0]["labels"]
        ['O', 'O', 'city']
        """
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
        """Explain the label of a position by contributions of features or training inputs.

        Parameters
        ----------
        item : int
            The number of the item.
        position : int
            The position.

        Returns
        -------
        dict
            The label, the label that comes next, and the contributions that make the difference.

        Raises
        ------
        ValueError
            If there is no model yet, or if what is known of the item breaks a rule of the field.

        Examples
        --------
        >>> from kernelfields import ChainCRF
        >>> from kernelfields.page import LabellingSession
        >>> words = [["we", "saw", "Rome"], ["they", "saw", "Lima"]]
        >>> y = [["O", "O", "city"], ["O", "O", "city"]]
        >>> crf = ChainCRF("linear", prior_variance=10.0).fit(words, y)
        >>> session = LabellingSession(words, None, crf, scheme=None, words=words)
        >>> explained = session.explain(1, 2)
        >>> explained["label"], explained["other"]
        ('city', 'O')
        """
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
                own |= {name: self.spans.in_words(own[name]) for name in ("label", "other") if own.get(name)}
            return {"position": position, **own}

    def _labels_in_words(self, labels: Sequence) -> str:
        """Return labels of neighbours in the words of the page: spans by their types, or each label once."""
        if self.spans is None:
            return ", ".join(dict.fromkeys(map(str, labels)))
        return ", ".join(span.kind for span in self.spans.spans([str(label) for label in labels])) or "no span"


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
    return find_scheme("iob1") if found.name == "bio" and detect_scheme(known) == "iob1" else found


def _labels(named: list, of_model: list, of_items: set) -> list:
    """Return all labels, each once, those that were named first."""
    found = list(dict.fromkeys([*named, *of_model]))
    return found + sorted(of_items - set(found), key=str)
