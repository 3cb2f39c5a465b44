"""Items with their known labels, and the predictions of a field for the other labels.

The other labels of an item are decoded exactly, conditioned on its known labels, without a refit. Every change is an
action of the journal, which is replayed when a labelling is opened. If labels follow a scheme of entities, spans are
shown (page/spans.py). A random sample of the items is set aside to evaluate refits.

The cost of an answer is that of inference for one item. Raises ValueError, with one sentence, for invalid requests.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from kernelfields.data.reading import plain_label
from kernelfields.estimators import SequenceClassifier
from kernelfields.estimators.answering.decisions import resolve_decision
from kernelfields.estimators.answering.formats import get_answer_format
from kernelfields.estimators.questions import LabelField
from kernelfields.formats.tokens import TokenizedText
from kernelfields.inference.answers import Answers
from kernelfields.models.wrapped_field import WrappedField, unwrap_field, unwrap_pipeline
from kernelfields.numerics.user_warnings import warn_user
from kernelfields.page.fits import get_if_fitted, list_model_labels, make_default_estimator, unwrap_estimator
from kernelfields.page.history import Changes, Cut, History, read_cut
from kernelfields.page.items import Known, resolve_items
from kernelfields.page.journal import Journal, JournalError, Split
from kernelfields.page.label_file import LabelFile
from kernelfields.page.spans import SpanView, choose_scheme
from kernelfields.selection.held_out import unwrap_frame

# The most positions of an answer, the likeliest labels of each, and the labellings to pick from.
WINDOW, _SHOWN, _BEST = 400, 9, 5
#: Share and most items of the sample that judges refits.
_ASIDE, _MOST_ASIDE = 0.1, 100
_ITEMS_AT_ONCE = 256
# The most characters of a label, and the most lines that a message lists.
_LONGEST, LISTED = 200, 5


class KnownItems:
    """Items with known labels, and a field that predicts the others; parameters as in LabellingSession."""

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
        names: Sequence[str | None] | None = None,
        file: LabelFile | None = None,
        journal: str | Path | None = None,
        guidelines: str | None = None,
        annotators: Mapping[str, Sequence] | None = None,
        random_state: int = 0,
    ):
        self.file, self.guidelines = file, guidelines
        if isinstance(unwrap_estimator(estimator), WrappedField):  # models on tables and of other forms
            check_is_fitted(estimator)
            labels = None if y is None else unwrap_frame(estimator, X, y)[2]
            estimator, X, _ = unwrap_field(estimator, X, None, labelled=False)
            y = labels
        #: Which inputs of the file the model gets, by name; None for others, whose words are fixed.
        self._inputs = None if file is None else "words" if X is file.words else "X" if X is file.X else None
        self.items = resolve_items(
            unwrap_estimator(estimator), X, y, words, columns, None if file is None else file.lines
        )
        self.lengths = self.items.lengths
        named = names if names is not None else () if file is None else file.names
        self.names = list(named) or [None] * len(self.lengths)
        if len(self.names) != len(self.lengths):
            raise ValueError(f"names are those of {len(self.names)} items, and there are {len(self.lengths)}")
        self.model = get_if_fitted(estimator)
        #: The labels of two annotators by name, whose differences are decided one by one.
        self.sides = {name: self.items.read_labels(own) for name, own in (annotators or {}).items()}
        if len(self.sides) not in (0, 2):
            raise ValueError(f"disagreements are those of two annotators, got {len(self.sides)}")
        self.given = self._merge_annotators() if y is None and self.sides else self.items.read_labels(y)
        #: How often each label is known.
        self.counts: Counter = Counter()
        for entry, count in Counter(entry for own in self.given for entry in own if entry is not None).items():
            self.counts.update(dict.fromkeys(entry, count if len(entry) == 1 else 0))
        of_model = [] if self.model is None else list_model_labels(self.model)
        found = choose_scheme(scheme, [*of_model, *self.counts], list(classes or []), self.given)
        self.spans = None if found is None else SpanView(found)
        if file is not None:
            self.file = file = replace(file, scheme=None if found is None else found.name)
        self._unfitted = estimator if estimator is not None else make_default_estimator(words is not None, found)
        self.classes = _merge_labels(
            self._expand_types(classes or ()), of_model, set(self.counts) | self._collect_annotator_labels()
        )
        self.known: list[list[Known]] = [list(own) for own in self.given]
        #: How many labels of each item are not known, (S,).
        self.left = np.array([own.count(None) for own in self.known], dtype=np.int64)
        self.versions = [0] * len(self.lengths)
        self._lock = threading.RLock()
        self._answers: dict[int, tuple[Any, Any, Answers]] = {}
        self._texts: dict[int, TokenizedText | None] = {}
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
        for label in self._expand_types(classes or ()):
            self._check_label(label)
        self.journal = Journal(
            None if journal is None else Path(journal),
            b"" if file is None else file.content,
            None if file is None else file.path,
        )
        try:
            if file is not None and file.read_content() != file.content:
                raise ValueError(f"{file.path.name} was changed while it was opened: open it again")
            self._replay()
            self._check_file()
            self._warn_of_skipped_actions()
        except BaseException:
            self.journal.close()
            raise

    def _merge_annotators(self) -> list[list[Known]]:
        """Merge the labels of two annotators; where they differ, the label is unknown."""
        one, other = self.sides.values()
        return [
            [b if a is None else a if b is None or a == b else None for a, b in zip(*own, strict=True)]
            for own in zip(one, other, strict=True)
        ]

    def _collect_annotator_labels(self) -> set:
        """Return the set of all labels of the annotators."""
        return {label for side in self.sides.values() for own in side for entry in own for label in entry or ()}

    def _expand_types(self, classes: Sequence) -> list:
        """Return given labels, with each type of spans replaced by its labels."""
        if self.spans is None:
            return list(classes)
        labels: dict[str, None] = {}
        for name in classes:
            own = [name] if self.spans.scheme.matches([name]) else self.spans.list_labels(str(name))
            labels |= dict.fromkeys(own)
        return list(labels)

    def _replay(self) -> None:
        """Apply the actions of the journal, and list the invalid ones."""
        left_out = self.journal.left_out
        for action in [*self.journal.history, *self.journal.actions]:
            if not 0 <= action.item < len(self.lengths):
                raise JournalError(f"the journal names item {action.item}, and there are {len(self.lengths)}")
        for item in [item for item in self.journal.flags if item >= len(self.lengths)]:
            left_out.append(f"the flag of item {item + 1}: there are {len(self.lengths)} items")
            del self.journal.flags[item]
        moved: set[int] = set()  # items whose later actions count other words
        for action in self.journal.actions:
            try:
                if action.item in moved:
                    raise ValueError("an action on words whose parts are not there")
                if isinstance(action, Split):
                    cut = read_cut(action)
                    self._apply_cut(cut, action.kind, self._replace_cut(cut, action.kind))
                else:
                    self._apply(action.item, self._checked(action.item, action.changes))
            except ValueError as error:  # such as labels that cannot be written: they would block every save
                left_out.append(f"{self.title(action.item)}: {error}")
                moved |= {action.item} if isinstance(action, Split) else set()
        self.history = History([*self.journal.history, *self.journal.actions])

    def _warn_of_skipped_actions(self) -> None:
        """Warn of invalid actions of the journal."""
        left_out = self.journal.left_out
        if left_out:
            assert self.journal.path is not None
            listed = "; ".join(left_out[:LISTED]) + ("; ..." if len(left_out) > LISTED else "")
            self.status = (
                f"lines of {self.journal.path.name} that cannot be used are left out ({len(left_out)}): {listed}"
            )
            warn_user(self.status)

    def _check_file(self) -> None:
        """Raise ValueError if the file cannot be saved; actions of the journal that prevent it are reverted."""
        if self.file is None:
            return
        try:
            self.file.with_labels(self.labels())
        except ValueError:
            for item in sorted({action.item for action in self.journal.actions}):
                try:
                    self._check_item(item, [])
                except ValueError as error:
                    self.journal.left_out.append(f"{self.title(item)}: {error}")
                    self._apply(item, [*enumerate(self.given[item])])
            try:
                self.file.with_labels(self.labels())
            except ValueError as error:
                raise ValueError(f"{self.file.path} is not opened, because it could not be saved: {error}") from error

    def _check_item(self, item: int, changes: Changes) -> None:
        """Raise ValueError if the file cannot hold changed labels of an item."""
        if self.file is not None:
            known = list(self.known[item])
            for position, labels in changes:
                known[position] = labels
            (labels,) = self.items.format_labels([known])
            self.file.check_item(item, labels)

    def title(self, item: int) -> str:
        """Return the name of an item, or its number, counted from 1.

        Parameters
        ----------
        item : int
            The number of the item, counted from 0.

        Returns
        -------
        str
            The name.

        Examples
        --------
        >>> from kernelfields.page import LabellingSession
        >>> words = [["we", "saw", "Rome"], ["Lima", "was", "far"]]
        >>> session = LabellingSession(words, None, words=words, names=["diary", None])
        >>> session.title(0), session.title(1)
        ('diary', 'item 2')
        """
        return self.names[item] or f"item {item + 1}"

    def labels(self) -> Any:
        """Return the known labels of all items, in the form of ``fit``.

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
        return self.items.format_labels(self.known)

    def _check_label(self, label: object) -> None:
        """Raise ValueError for a value that is no label, or that files cannot hold."""
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
                    f"{self.title(item)} has {self.lengths[item]} positions, and no position {position!r:.40}"
                )
            if labels is not None and not (isinstance(labels, list) and labels):
                raise ValueError("labels of a position must be a list of labels, or null to forget them")
            for label in labels or ():
                self._check_label(label)
            checked.append((position, None if labels is None else frozenset(labels)))
        return checked

    def _replace_cut(self, cut: Cut, kind: str) -> LabelFile:
        """Return the file after a cut or, by "undo", a join of words; ValueError if this is impossible."""
        text = self._get_text(cut.item)
        if text is None or self.file is None or self._inputs is None:
            raise ValueError("words are cut where they were read from a text, and the model reads words")
        if self.sides:
            raise ValueError("words stay as they are while the labels of two annotators are compared")
        return self.file.with_text(cut.item, cut.apply(text, kind))

    def _apply_cut(self, cut: Cut, kind: str, file: LabelFile) -> None:
        """Cut a word in two, or join its parts by "undo"; ``file`` is the changed file."""
        item, (here, new) = cut.item, cut.replacement(kind)
        old = self.known[item][here]
        self._update_counts(old, -1)
        self._update_counts(new, 1)
        given = self.given[item][here]
        self.given[item][here] = new if given == old else [None] * len(new)
        self.known[item][here] = new
        self.file = file
        self.items.X, self.items.words = file.words if self._inputs == "words" else file.X, file.words
        self.lengths[item] = len(self.known[item])
        self.left[item] = self.known[item].count(None)
        self.versions[item] += 1
        self._texts.pop(item, None)
        self._answers.pop(item, None)
        self._last = None

    def _update_counts(self, entries: Sequence[Known], by: int) -> None:
        """Add ``by`` to the counts of known labels."""
        for entry in entries:
            if entry is not None and len(entry) == 1:
                self.counts[next(iter(entry))] += by

    def _apply(self, item: int, changes: Changes) -> None:
        for position, labels in changes:
            old, self.known[item][position] = self.known[item][position], labels
            self._update_counts([old], -1)
            self._update_counts([labels], 1)
            self.classes += sorted(labels - set(self.classes), key=str) if labels else []
        self.left[item] = self.known[item].count(None)
        self.versions[item] += 1

    # ---- answers

    def _item(self, item: object) -> int:
        if not isinstance(item, int) or isinstance(item, bool) or not 0 <= item < len(self.lengths):
            raise ValueError(f"there are items 0 to {len(self.lengths) - 1}, and no item {item!r:.40}")
        return item

    def _unwrap_item(self, item: int) -> tuple[Any, Any]:
        return unwrap_pipeline(self.model, self.items.select_inputs([item]))

    def _format_known_labels(self, field: LabelField, known: Sequence[Known]) -> Any:
        """Return known labels of an item as the field accepts them; labels outside its classes become unknown."""
        seen = set(get_answer_format(field).labels(field).tolist())
        return self.items.format_labels([[None if own is None else own & seen or None for own in known]])

    def _decode_item(
        self, item: int, known: Sequence[Known] | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Return classes, labels (T,) and marginals (T, L) of an item given its known labels.

        None without a model, and where what is known breaks a rule of the field: given that, nothing has a probability.
        """
        if self.model is None or not self.lengths[item]:
            return None
        known = list(self.known[item] if known is None else known)
        if self._last is not None and self._last[:3] == (self.model, item, known):  # marking asks more than once
            return self._last[3]
        kept = self._answers.get(item)
        if kept is None or kept[0] is not self.model:
            field, x = self._unwrap_item(item)
            if len(self._answers) > _ITEMS_AT_ONCE:
                self._answers.clear()
            # Potentials do not depend on what is known: they are computed once for a model.
            kept = self._answers[item] = (self.model, field, next(iter(field.answers(x))))
        _, field, answers = kept
        given = self._format_known_labels(field, known)
        answers = answers.condition(get_answer_format(field).known_log_weights(field, given, answers.data))
        classes, found = get_answer_format(field).labels(field), None
        if not answers.family.impossible().any():
            found = classes, classes[resolve_decision(field).choose(answers)], answers.marginals
        self._last = (self.model, item, known, found)
        return found

    def _list_shown_labels(self, item: int, found: tuple | None = None) -> list:
        """Return the known or predicted label of each position, None without either."""
        found = self._decode_item(item) if found is None else found
        predicted = [None] * self.lengths[item] if found is None else map(plain_label, found[1])
        return [
            next(iter(known)) if known is not None and len(known) == 1 else label
            for known, label in zip(self.known[item], predicted, strict=True)
        ]

    def show(self, item: object, first: int = 0) -> dict[str, Any]:
        """Return the positions of an item for the page, from the position ``first``.

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
            found = self._decode_item(number)
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
                        entry["suspect"] = self._describe_labels([suspects[position]])
                positions.append(entry)
            if self.spans is not None:
                self._add_spans(positions, rows, self._list_shown_labels(number, found), found)
            shown: dict[str, Any] = {
                "item": number,
                "name": self.names[number],
                "version": self.versions[number],
                "length": length,
            }
            shown |= {"first": rows.start, "positions": positions, "aside": number in self.aside}
            shown |= {"flag": self.journal.flags.get(number), "left": int(self.left[number])}
            shown["broken"] = found is None and self.model is not None and length > 0
            if self.file is not None and self.items.display == "words":
                shown |= self.file.show_text(number, rows)
            return shown | self.items.show(number, rows)

    def _get_text(self, item: int) -> TokenizedText | None:
        """Return the text of an item; None if only words are given."""
        if self.file is None or self.items.display != "words":
            return None
        if item not in self._texts:
            self._texts[item] = self.file.text(item)
        return self._texts[item]

    def _join_words(self, item: int, begin: int, end: int) -> str:
        """Return the part of the text of an item from one word to another."""
        text = self._get_text(item)
        if text is not None:
            return " ".join(text.slice(begin, end).split())
        assert self.items.words is not None
        return " ".join(map(str, self.items.words[item][begin:end]))

    def _describe_item(self, item: int, most: int | None = None) -> str:
        """Describe an item in one line of at most ``most`` characters."""
        text = self._get_text(item)
        if text is None:
            return self.items.text(item, most)
        return " ".join(text.text[: None if most is None else 2 * most].split())[:most]

    def _add_spans(self, positions: list[dict], rows: slice, labels: list, found: tuple | None) -> None:
        """Add types of spans, their first positions and the likeliest types to positions of the page."""
        assert self.spans is not None
        for entry in positions:
            entry |= {"kind": None, "begins": False}
        for kind, begin, end in self.spans.spans(labels):
            for t in range(max(begin, rows.start), min(end, rows.stop)):
                positions[t - rows.start] |= {"kind": kind, "begins": t == begin}
        if found is not None:
            kinds, shares = self.spans.type_probabilities([str(name) for name in found[0]], found[2][rows])
            order = np.argsort(-shares, axis=1)[:, :_SHOWN].tolist()
            for entry, own, ranked in zip(positions, shares.tolist(), order, strict=True):
                entry["kinds"] = [[kinds[k], round(own[k], 4)] for k in ranked]
                if entry["p"] is not None and entry["kind"] in kinds:
                    entry["p"] = round(own[kinds.index(entry["kind"])], 4)

    def best(self, item: object) -> list[dict[str, Any]]:
        """Return the best labellings of an item given its known labels.

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
            field, x = self._unwrap_item(number)
            ranked = field.predict_nbest(x, _BEST, known=self._format_known_labels(field, self.known[number]))[0]
            found = []
            for own, log in ranked:
                labels = np.atleast_1d(own).tolist()
                entry = {"labels": labels, "p": round(float(np.exp(log)), 4)}
                if self.spans is not None and self.items.words is not None:
                    entry["spans"] = [[kind, self._join_words(number, a, b)] for kind, a, b in self.spans.spans(labels)]
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
            found, (field, x) = self._decode_item(number), self._unwrap_item(number)
            if found is None:
                raise ValueError("what is known of this item breaks a rule of the field: correct a label first")
            # The labels that the page shows, given what is known; of a whole sequence, the states are explained.
            labels = self.items.format_labels([[frozenset([plain_label(label)]) for label in found[1]]])
            shown = {} if isinstance(field, SequenceClassifier) else {"y": labels[0]}
            explained = field.explain(x[0], positions=[position], **shown).to_dict()
            own = explained["positions"][0]
            if self.spans is not None:
                own |= {name: self.spans.describe_label(own[name]) for name in ("label", "other") if own.get(name)}
            return {"position": position, **own}

    def _describe_labels(self, labels: Sequence) -> str:
        """Describe labels of neighbours by the types of their spans, or by the distinct labels."""
        if self.spans is None:
            return ", ".join(dict.fromkeys(map(str, labels)))
        return ", ".join(span.kind for span in self.spans.spans([str(label) for label in labels])) or "no span"


def _merge_labels(named: list, of_model: list, of_items: set) -> list:
    """Return the distinct labels of the settings, the model and the items, in this order."""
    found = list(dict.fromkeys([*named, *of_model]))
    return found + sorted(of_items - set(found), key=str)
