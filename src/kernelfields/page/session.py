"""LabellingSession of items with a field beside: what is known, what the field fills in given that, what to do next.

Known labels, given before or fixed now, stay: the rest of an item is decoded given them, exactly, before any
refit. Every change is an action of the journal; undoing is an action too. Items have versions, so that two pages on one
labelling cannot overwrite each other: a change that was made from an older version is refused.

A random sample of the items is set aside: it is labelled as all others, never fitted to, and judges each refit. A refit
runs beside the labelling, from the last estimate, and takes the place of the old model unless the sample likes it less.

Cost of an answer: inference for one item. Fails: ValueError in one sentence for what the page must not do.
"""

from __future__ import annotations

import copy
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils.validation import check_is_fitted

from kernelfields.data.reading import plain_label
from kernelfields.estimators import ChainCRF, MultiLabelCRF, SequenceClassifier
from kernelfields.estimators.questions import LabelQuestions
from kernelfields.evaluation.entities import find_entities
from kernelfields.evaluation.model_evaluation import FittedModel
from kernelfields.features.text import TextFeatures
from kernelfields.inference.answers import Answers
from kernelfields.labelling.label_errors import find_label_errors
from kernelfields.models.partial import PartialLabels
from kernelfields.models.wrapped_field import WrappedField, field_inside, opened
from kernelfields.numerics.wording import counted
from kernelfields.page.files import LabelFile
from kernelfields.page.items import Known, finite, items_of
from kernelfields.page.journal import Action, Journal, JournalError
from kernelfields.selection.field_search_cv import FieldSearchCV
from kernelfields.selection.held_out import parameter_named, unframed

ORDERS = ("doubtful", "suspicious", "random", "given")
# The most positions of an answer, the likeliest labels of each, and the labellings to pick from.
_WINDOW, _SHOWN, _BEST = 400, 9, 5
#: Share and most items of the sample that judges refits.
_ASIDE, _MOST_ASIDE = 0.1, 100
_ITEMS_AT_ONCE = 256
# The most characters of a label, and the most lines of a journal that a message lists.
_LONGEST, _LISTED = 200, 5
# Folds of a check for label errors.
_FOLDS = 5


class Conflict(ValueError):
    """A change that was made from an older version of an item."""


class LabellingSession:
    """Items, what is known of their labels, and a field that fills in the rest.

    Parameters
    ----------
    X : sequences, graphs, instances or single inputs, as the estimator takes them
    y : what is known of their labels, None for nothing: labels, None, sets of which one is right
    estimator : an estimator of labels, fitted or not, or a pipeline; None for a ChainCRF with defaults
    classes : the labels there are; None for those of the estimator and of y
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
        words: Sequence | None = None,
        columns: Sequence[str] | None = None,
        file: LabelFile | None = None,
        journal: str | Path | None = None,
        random_state: int = 0,
    ):
        self.file = file
        if isinstance(_inner(estimator), WrappedField):  # models on tables and of other forms have sequences inside
            check_is_fitted(estimator)
            labels = None if y is None else unframed(estimator, X, y)[2]
            estimator, X, _ = field_inside(estimator, X, None, labelled=False)
            y = labels
        self.items = items_of(_inner(estimator), X, y, words, columns)
        self.lengths = self.items.lengths
        self.model = _fitted_or_none(estimator)
        self._unfitted = estimator if estimator is not None else _usual(words is not None)
        self.given = self.items.entries(y)
        named = {label for own in self.given for entry in own if entry is not None for label in entry}
        of_model = [] if self.model is None else _classes_of(self.model)
        self.classes = _labels(list(classes or []), of_model, named)
        self.known: list[list[Known]] = [list(own) for own in self.given]
        #: How many labels of each item are not known, (S,).
        self.left = np.array([own.count(None) for own in self.known], dtype=np.int64)
        self.versions = [0] * len(self.lengths)
        self._done: list[tuple[int, list[tuple[int, Known]]]] = []
        self._lock = threading.RLock()
        self._answers: dict[int, tuple[Any, Any, Answers]] = {}
        random = np.random.default_rng(random_state)
        self.order = random.permutation(len(self.lengths))
        n_aside = min(_MOST_ASIDE, int(_ASIDE * len(self.lengths)))
        self.aside = frozenset(self.order[:n_aside].tolist())
        self._doubts: np.ndarray | None = None
        #: Of items that were checked: the version then, their score, and labels that would fit by position.
        self._suspects: dict[int, tuple[int, float, dict[int, Any]]] = {}
        self.curve: list[dict[str, float | None]] = []
        self.status = ""
        self._working: threading.Thread | None = None
        for label in classes or ():
            self._check_label(label)
        self.journal = Journal(
            None if journal is None else Path(journal),
            b"" if file is None else file.content,
            None if file is None else file.path,
        )
        try:
            if file is not None and file.path.read_bytes() != file.content:
                raise ValueError(f"{file.path.name} was changed while it was opened: open it again")
            self._replay()
        except BaseException:
            self.journal.close()
            raise

    # ---- changes

    def _replay(self) -> None:
        """Apply the actions of the journal; warn of what cannot be."""
        left_out = self.journal.left_out
        for action in self.journal.actions:
            if not 0 <= action.item < len(self.lengths):
                raise JournalError(f"the journal names item {action.item}, and there are {len(self.lengths)}")
            try:
                self._apply(action.item, self._checked(action.item, action.changes))
            except ValueError as error:  # such as labels that cannot be written: they would block every save
                left_out.append(f"item {action.item}: {error}")
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

    def _checked(self, item: int, changes: Sequence[tuple[int, list | None]]) -> list[tuple[int, Known]]:
        checked: list[tuple[int, Known]] = []
        for position, labels in changes:
            if not isinstance(position, int) or isinstance(position, bool) or not 0 <= position < self.lengths[item]:
                raise ValueError(f"item {item} has {self.lengths[item]} positions, and no position {position!r:.40}")
            if labels is not None and not (isinstance(labels, list) and labels):
                raise ValueError("labels of a position must be a list of labels, or null to forget them")
            for label in labels or ():
                self._check_label(label)
            checked.append((position, None if labels is None else frozenset(labels)))
        return checked

    def _apply(self, item: int, changes: list[tuple[int, Known]]) -> None:
        before = [(position, self.known[item][position]) for position, _ in changes]
        for position, labels in changes:
            self.known[item][position] = labels
            new = sorted(labels - set(self.classes), key=str) if labels else []
            self.classes += new
        self.left[item] = self.known[item].count(None)
        self._done.append((item, before))
        self.versions[item] += 1

    def change(self, item: object, version: object, changes: object, first: int = 0) -> dict[str, Any]:
        """Fix, or forget, labels of an item that was seen at a version; it is in the journal when this returns."""
        with self._lock:
            number = self._item(item)
            if version != self.versions[number]:
                raise Conflict(
                    f"item {number} was changed elsewhere: version {self.versions[number]}, not {version!r:.20}"
                )
            pairs = isinstance(changes, list) and all(isinstance(one, list) and len(one) == 2 for one in changes)
            if not pairs or not changes:
                raise ValueError("changes must be a list of pairs [position, labels]")
            assert isinstance(changes, list)
            checked = self._checked(number, [(one[0], one[1]) for one in changes])
            self._write(number, checked)
            return self.show(number, first)

    def undo(self, first: int = 0) -> dict[str, Any]:
        """Take back the last change; the item is as it was before it."""
        with self._lock:
            if not self._done:
                raise ValueError("there is nothing to undo")
            item, before = self._done[-1]
            self._write(item, before)
            del self._done[-2:]  # the change, and the undoing itself
            return self.show(item, first)

    def _write(self, item: int, changes: list[tuple[int, Known]]) -> None:
        plain = [(position, None if own is None else sorted(own, key=str)) for position, own in changes]
        self.journal.append(Action(item, self.versions[item], plain))
        self._apply(item, changes)

    def save(self) -> str:
        """Write the labels into the file and begin the journal anew; returns what was written."""
        with self._lock:
            if self.file is None:
                raise ValueError("these items come from no file: take labels() in Python")
            current = self.file.path.read_bytes() if self.file.path.exists() else None
            if current != self.file.content:
                raise ValueError(f"{self.file.path.name} was changed by another program: it is left as it is")
            content = self.file.written(self.labels())
            self.journal.saving(content)
            self.file.save(content)
            self.file = self.file.after(content)
            self.journal.begin_again(content)
            self._done.clear()
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

    def _known_labels(self, field: LabelQuestions, item: int) -> Any:
        """Return what is known of an item as the field takes it; labels that it has not seen are left open."""
        seen = set(field.label_names().tolist())
        return self.items.labels([[None if own is None else own & seen or None for own in self.known[item]]])

    def _decoded(self, item: int) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Return classes, labels (T,) and marginals (T, L) of an item given what is known.

        None without a model, and where what is known breaks a rule of the field: given that, nothing has a probability.
        """
        if self.model is None or not self.lengths[item]:
            return None
        kept = self._answers.get(item)
        if kept is None or kept[0] is not self.model:
            field, x = self._opened(item)
            if len(self._answers) > _ITEMS_AT_ONCE:
                self._answers.clear()
            # Potentials do not depend on what is known: they are computed once for a model.
            kept = self._answers[item] = (self.model, field, next(iter(field.answers(x))))
        _, field, answers = kept
        log_weights = field.known_log_weights(self._known_labels(field, item), answers.data, possible=False)
        answers = answers.given(log_weights)
        if answers.family.impossible().any():
            return None
        classes = field.label_names()
        return classes, classes[field.decoded(answers)], answers.marginals

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
                        entry["suspect"] = suspects[position]
                positions.append(entry)
            shown: dict[str, Any] = {"item": number, "version": self.versions[number], "length": length}
            shown |= {"first": rows.start, "positions": positions, "aside": number in self.aside}
            shown["broken"] = found is None and self.model is not None and length > 0
            return shown | self.items.show(number, rows)

    def best(self, item: object) -> list[dict[str, Any]]:
        """Return the best labellings of an item given what is known, with their probabilities."""
        with self._lock:
            number = self._item(item)
            if self.model is None:
                raise ValueError("there is no model yet: label a few items and refit")
            field, x = self._opened(number)
            ranked = field.predict_nbest(x, _BEST, known=self._known_labels(field, number))[0]
            return [{"labels": np.atleast_1d(own).tolist(), "p": round(float(np.exp(log)), 4)} for own, log in ranked]

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
            return {"position": position, **explained["positions"][0]}

    # ---- what to do next

    def queue(self, order: str = "given", item: int = 0, limit: int = 200) -> list[dict[str, Any]]:
        """Return items to look at, those with nothing left to do last; as given, those around an item."""
        if order not in ORDERS:
            raise ValueError(f"order must be one of {', '.join(ORDERS)}, got {order!r:.40}")
        with self._lock:
            numbers, scores = np.arange(len(self.lengths)), np.zeros(len(self.lengths))
            left = self.left
            if order == "random":
                numbers = self.order
            elif order in ("doubtful", "suspicious"):
                scores = self._scores(order)
                numbers = np.argsort(-scores, kind="stable")
            if order == "given":
                first = max(0, min(self._item(item) - limit // 4, len(numbers) - limit))
                listed = numbers[first : first + limit]
            else:
                last = left[numbers] == 0
                listed = (numbers if order == "suspicious" else numbers[np.argsort(last, kind="stable")])[:limit]
            return [
                {"item": each, "left": int(left[each]), "length": self.lengths[each], "score": finite(scores[each])}
                for each in listed.tolist()
            ]

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

    def state(self) -> dict[str, Any]:
        """Return what the page shows beside an item."""
        with self._lock:
            scheme = find_entities("auto", [label for label in self.classes if isinstance(label, str)] or ["-"])
            return {
                "name": "items" if self.file is None else self.file.path.name,
                "items": len(self.lengths),
                "positions": int(sum(self.lengths)),
                "known": int(sum(self.lengths) - self.left.sum()),
                "labels": self.classes,
                "scheme": None if scheme is None else scheme.scheme.name,
                "shape": self.items.shape,
                "model": self.model is not None,
                "status": self.status,
                "busy": self._working is not None,
                "curve": self.curve,
                "undo": len(self._done),
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
            thread = self._begin(
                f"fitting to {counted(len(train), 'item')}", self._fit, new, train, known, judged, truth
            )
        return self._begun(thread, wait)

    def check(self, *, wait: bool = False) -> str:
        """Look for labels that may be wrong, each by a field fitted without its item, beside the labelling."""
        with self._lock:
            items = [i for i, own in enumerate(self.known) if any(e is not None for e in own)]
            if len(items) < _FOLDS:
                raise ValueError(f"label errors are found among {_FOLDS} labelled items or more, got {len(items)}")
            known, versions = [list(self.known[i]) for i in items], [self.versions[i] for i in items]
            new = clone(self._unfitted if self.model is None else self.model)
            thread = self._begin(f"checking {counted(len(items), 'item')}", self._check, new, items, known, versions)
        return self._begun(thread, wait)

    def _begin(self, status: str, work: Callable[..., str], *arguments: Any) -> threading.Thread:
        """Begin work in a thread of its own, one at a time; what it returns, or raises, becomes the status."""
        if self._working is not None:
            raise ValueError("a refit or a check is under way")

        def run() -> None:
            try:
                self.status = work(*arguments)
            except Exception as error:  # noqa: BLE001  # shown on the page: a thread has nobody to raise to
                self.status = f"{status} failed, all is as it was: {error}"
            finally:
                self._working = None

        self.status = status
        self._working = thread = threading.Thread(target=run, daemon=True)
        return thread

    def _begun(self, thread: threading.Thread, wait: bool) -> str:
        thread.start()
        if wait:
            thread.join()
        return self.status

    def _fit(self, new: Any, train: list[int], known: list, judged: list[int], truth: list) -> str:
        begin = time.perf_counter()
        fitted = _prepared(new, known).fit(self.items.part(train), self.items.labels(known))
        share = self._share_right(fitted, judged, truth)
        with self._lock:
            last = self.curve[-1]["right"] if self.curve else None
            point = {"known": float(sum(e is not None for own in known for e in own)), "right": share}
            point["seconds"] = round(time.perf_counter() - begin, 2)
            worse = share is not None and last is not None and share < last - 0.02
            if not worse:
                self.model, self._doubts = fitted, None
                self._answers.clear()
            self.curve.append(point)
        judged_by = "" if share is None else f", {100 * share:.1f} % right on {counted(len(judged), 'item')} set aside"
        kept = "the old model stays" if worse else "the new model is in place"
        return f"fitted to {counted(len(train), 'item')} in {point['seconds']} s{judged_by}: {kept}"

    def _share_right(self, model: FittedModel, judged: list[int], truth: list) -> float | None:
        """Return the share of positions that are right among the items set aside; None where none is labelled."""
        if not judged:
            return None
        predicted = self.items.by_position(model.predict(self.items.part(judged)))
        hits = [a == b for own, labels in zip(truth, predicted, strict=True) for a, b in zip(own, labels, strict=True)]
        return float(np.mean(hits))

    def _check(self, new: Any, items: list[int], known: list, versions: list[int]) -> str:
        found = find_label_errors(_prepared(new, known), self.items.part(items), self.items.labels(known), cv=_FOLDS)
        places: list[dict[int, Any]] = [{} for _ in items]
        for row in found.rows:
            first = self.items.place(row.position)
            for position, label in enumerate(row.proposed, start=first):
                places[row.sequence].setdefault(position, plain_label(label))
        scored = zip(items, versions, found.item_scores.tolist(), places, strict=True)
        with self._lock:
            self._suspects = {item: (version, score, own) for item, version, score, own in scored}
        return f"checked {counted(len(items), 'item')}: labels may be wrong at {counted(found.n_findings, 'place')}"


def _inner(model: Any) -> Any:
    """Return the estimator of labels inside pipelines and searches, the fitted one where there is one."""
    if isinstance(model, Pipeline):
        return _inner(model[-1])
    if isinstance(model, FieldSearchCV | BaseSearchCV | FrozenEstimator):
        return _inner(vars(model).get("best_estimator_", model.estimator))
    return model


def _classes_of(model: BaseEstimator) -> list:
    """Return the labels that a position may have."""
    field = _inner(model)
    return [plain_label(label) for label in field.label_names()]


def _prepared(model: Any, known: list[list[Known]]) -> Any:
    """Return an estimator ready to be fitted to what is known: from its last estimate, with partly known labels."""
    field = _inner(model)
    named = {label for item in known for entry in item if entry is not None for label in entry}
    if len(named) < 2:
        raise ValueError("all labels that are known are the same: two different ones make a model")
    partly = any(entry is None or len(entry) > 1 for item in known for entry in item)
    if own := parameter_named(model, "partial_labels"):
        several = isinstance(field, MultiLabelCRF)
        partial = PartialLabels() if several else PartialLabels(classes=sorted(named, key=str))
        model.set_params(**{own: partial if partly else None})
    elif partly:
        raise ValueError(f"{type(field).__name__} needs all labels of the items that it is fitted to")
    if own := parameter_named(model, "warm_start"):
        old = set(_classes_of(field)) if hasattr(field, "classes_") else set()
        model.set_params(**{own: old == named})
    return model


def _usual(words: bool) -> Any:
    """Return the estimator for words, or for numbers."""
    return make_pipeline(TextFeatures(), ChainCRF(random_state=0)) if words else ChainCRF(random_state=0)


def _fitted_or_none(estimator: BaseEstimator | None) -> Any:
    if estimator is None:
        return None
    try:
        check_is_fitted(_inner(estimator))
    except NotFittedError:
        return None
    return estimator


def _labels(named: list, of_model: list, of_items: set) -> list:
    """Return all labels, each once, those that were named first."""
    found = list(dict.fromkeys([*named, *of_model]))
    return found + sorted(of_items - set(found), key=str)
