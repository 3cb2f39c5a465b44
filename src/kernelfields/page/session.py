"""LabellingSession: items and a field, the queue, refits, and suspicious labels.

A random sample of the items is set aside: it is labelled as all others, never fitted to, and evaluates each refit. A
refit runs in the background, starts from the last estimate, and replaces the model unless it is clearly worse: unless
the interval of its score lies below the last score.
"""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from typing import Any

import numpy as np
from sklearn.base import clone

from kernelfields.data.reading import plain_label
from kernelfields.evaluation.model_evaluation import FittedModel
from kernelfields.labelling.label_errors import find_label_errors
from kernelfields.labelling.progress import forecast, span_score
from kernelfields.models.wrapped_field import unwrap_pipeline
from kernelfields.numerics.wording import inflect
from kernelfields.page.changes import ChangedItems
from kernelfields.page.fits import list_model_labels, prepare_for_fit
from kernelfields.page.items import Known
from kernelfields.page.time_lines import number_or_none
from kernelfields.reports.label_colours import label_colours

ORDERS = ("doubtful", "suspicious", "random", "given")
#: Items that are listed: all, those with labels to find, those that were flagged.
PARTS = ("all", "open", "flagged")
# The most characters of an item in the list.
_LONGEST_TEXT = 80
# Folds of a check for label errors.
_FOLDS = 5
# The most items whose predictions before and after a refit are compared, and the most places that are listed.
_COMPARED, _PLACES = 2000, 500
# Items in the list.
_IN_LIST = 200


class LabellingSession(ChangedItems):
    """Label items with the help of a field for unknown labels.

    It is what the page of :func:`serve` asks, and can be used without it. If a label is fixed, the rest of the item is
    predicted again at once, exactly, given the label, without a refit. A random sample of the items is set aside: it is
    never fitted to, and judges each refit.

    Parameters
    ----------
    X : list of arrays, or any other form that the estimator takes
        The sequences, graphs, instances or single inputs.
    y : list of lists, optional
        What is known of their labels: labels, None, sets of which one is right; nothing by default.
    estimator : estimator or Pipeline, optional
        An estimator of labels, fitted or not; by default a ChainCRF with defaults.
    classes : sequence, optional
        The labels there are, or the types of spans; by default those of the estimator and of y.
    scheme : str or None, default "auto"
        How labels write spans, "bio", "iob1", "bioes" or "bilou"; None if each position has a label of its own. "auto"
        goes by the form of the labels, "spans" as well, and is "bio" if nothing has a label yet.
    words : list of lists of str, optional
        What to show of each position, of instances and single inputs a text for each; by default the columns of X.
    columns : sequence of str, optional
        The names of the columns.
    names : sequence of str or None, optional
        The names of the items; by default those of the file, and numbers where there are none.
    file : LabelFile, optional
        The file that the items come from, which is written when they are saved.
    journal : path, optional
        The file that keeps all actions; by default there is none.
    guidelines : str, optional
        How to label, in Markdown, which the page shows beside the items.
    annotators : dict of str to list, optional
        The labels of two annotators by name. Without ``y``, labels of which they say the same are known; the others
        are decided one by one.
    random_state : int, default 0
        The seed of the sample that is set aside.

    Attributes
    ----------
    model : estimator or None
        The fitted model.
    classes : list
        The labels.
    curve : list of dict
        The scores of the refits.

    See Also
    --------
    serve : Opens the page.

    Examples
    --------
    >>> from kernelfields.page import LabellingSession
    >>> words = [["we", "saw", "Rome"], ["Lima", "was", "far"]]
    >>> session = LabellingSession(words, [["O", "O", "B-city"], None], words=words)
    >>> session.change(1, 0, [[0, ["B-city"]]])["left"]  # labels that are not known yet
    2
    >>> session.labels()
    [['O', 'O', 'B-city'], ['B-city', None, None]]
    """

    # ---- what to do next

    def queue(
        self, order: str = "given", item: int = 0, *, text: str = "", label: object = None, part: str = "all"
    ) -> list[dict[str, Any]]:
        """List items to check, finished items last.

        Parameters
        ----------
        order : {"given", "doubtful", "suspicious", "random"}, default "given"
            The order: as given, by how much the model doubts them, by the last check, or at random.
        item : int, default 0
            The item around which those in the given order are listed.
        text : str, default ""
            Text that items, or their names, hold.
        label : object, optional
            A label, or type of spans, that is known of the items.
        part : {"all", "open", "flagged"}, default "all"
            All items, those with labels to find, or those that were flagged.

        Returns
        -------
        list of dict
            For each item its number, name, length, score, text and flag, and how many labels are ``left`` to find.

        Raises
        ------
        ValueError
            If ``order`` or ``part`` is unknown.

        Examples
        --------
        >>> from kernelfields.page import LabellingSession
        >>> words = [["we", "saw", "Rome"], ["Lima", "was", "far"]]
        >>> session = LabellingSession(words, [["O", "O", "B-city"], None], words=words)
        >>> [entry["item"] for entry in session.queue(part="open")]
        [1]
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
                scores = self._score_items(order)
                numbers = np.argsort(-scores, kind="stable")
            if text or label is not None or part != "all":
                numbers = numbers[self._select_items(str(text).lower(), label, part)[numbers]]
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
                    "name": self.names[each],
                    "left": int(left[each]),
                    "length": self.lengths[each],
                    "score": number_or_none(scores[each]),
                    "text": self._describe_item(each, _LONGEST_TEXT),
                    "flag": self.journal.flags.get(each),
                }
                for each in listed.tolist()
            ]

    def _select_items(self, text: str, label: object, part: str) -> np.ndarray:
        """Return a mask (S,) of the items of a part that contain a text and a label."""
        chosen = np.ones(len(self.lengths), dtype=bool)
        if part == "open":
            chosen &= self.left > 0
        elif part == "flagged":
            chosen[:] = False
            chosen[list(self.journal.flags)] = True
        if label is not None:
            named = {label} if self.spans is None else set(self.spans.list_labels(str(label)))
            chosen &= [any(entry is not None and named & entry for entry in own) for own in self.known]
        if text:
            chosen &= [text in f"{name or ''} {self._describe_item(k)}".lower() for k, name in enumerate(self.names)]
        return chosen

    def _score_items(self, order: str) -> np.ndarray:
        """Return the mean entropy of positions, or the suspicion, of each item; zeros without a model."""
        if order == "doubtful":
            if self.model is None:
                return np.zeros(len(self.lengths))
            if self._doubts is None:
                field, X = unwrap_pipeline(self.model, self.items.X)
                self._doubts = np.asarray(field.entropy(X)) / np.maximum(self.lengths, 1)
            return self._doubts
        scores = np.full(len(self.lengths), -np.inf)
        for item, (version, score, _) in self._suspects.items():
            if version == self.versions[item]:  # what was changed since has been looked at
                scores[item] = score
        return scores

    def places(self, kind: str) -> list[dict[str, Any]]:
        """List places to review one by one.

        Parameters
        ----------
        kind : {"findings", "changed", "disagreements"}
            The findings of the last :meth:`check`, the predictions that the last :meth:`refit` changed, or where two
            annotators disagree and nothing is decided yet.

        Returns
        -------
        list of dict
            The item, its first position and the one after the last, its version, and a text for each place.

        Raises
        ------
        ValueError
            If the kind is unknown.

        Examples
        --------
        >>> from kernelfields.page import LabellingSession
        >>> words = [["we", "saw", "Rome"], ["Lima", "was", "far"]]
        >>> session = LabellingSession(words, [["O", "O", "B-city"], None], words=words)
        >>> session.places("findings")  # there was no check yet
        []
        """
        if kind not in ("findings", "changed", "disagreements"):
            raise ValueError(f"places are 'findings', 'changed' or 'disagreements', got {kind!r:.40}")
        with self._lock:
            if kind == "disagreements":
                return list(islice(self._find_disagreements(), _PLACES))
            found = self._findings if kind == "findings" else self._changed
            current = [own for own in found if own["version"] == self.versions[own["item"]]][:_PLACES]
            return [own | {"title": self.title(own["item"])} for own in current]

    def _find_disagreements(self) -> Iterator[dict[str, Any]]:
        """Yield the unlabelled places where two annotators differ, with the labels of both."""
        for item, sides in enumerate(zip(*self.sides.values(), strict=True)):
            both = enumerate(zip(*sides, self.known[item], strict=True))
            open_places = [t for t, (a, b, known) in both if known is None and None not in (a, b) and a != b]
            for begin, end in _consecutive_runs(open_places):
                told = zip(self.sides, self._describe_sides(item, sides, begin, end), strict=True)
                labels = [[sorted(entry or (), key=str) for entry in own[begin:end]] for own in sides]
                place = {"item": item, "begin": begin, "end": end, "version": self.versions[item]}
                text = ", ".join(f"{name}: {own}" for name, own in told)
                yield {**place, "text": text, "sides": labels, "title": self.title(item)}

    def _describe_sides(self, item: int, sides: Sequence[Sequence[Known]], begin: int, end: int) -> list[str]:
        """Describe the labels of each annotator at a place: labels, or spans with their texts."""
        if self.spans is None or self.items.words is None:
            return [
                ", ".join(dict.fromkeys("|".join(map(str, entry or ())) for entry in own[begin:end])) for own in sides
            ]
        spans = [
            self.spans.spans([next(iter(entry)) if entry and len(entry) == 1 else None for entry in own])
            for own in sides
        ]
        touching = [span for own in spans for span in own if span.begin < end and begin < span.end]
        first = min([begin, *(span.begin for span in touching)])
        last = max([end, *(span.end for span in touching)])
        return [
            ", ".join(
                f"[{self._join_words(item, span.begin, span.end)}] {span.kind}"
                for span in own
                if span.begin < last and first < span.end
            )
            or "no span"
            for own in spans
        ]

    def state(self) -> dict[str, Any]:
        """Return counts, progress, scores and status of the session for the page.

        Returns
        -------
        dict
            The labels and their counts, the progress, the scores of refits, and what can be undone.

        Examples
        --------
        >>> from kernelfields.page import LabellingSession
        >>> words = [["we", "saw", "Rome"], ["Lima", "was", "far"]]
        >>> session = LabellingSession(words, [["O", "O", "B-city"], None], words=words)
        >>> state = session.state()
        >>> state["items"], state["positions"], state["known"]
        (2, 6, 3)
        """
        with self._lock:
            labels: list = self.classes
            counts: Mapping = self.counts
            if self.spans is not None:
                labels, counts = self.spans.kinds(self.classes), self.spans.count_spans(self.counts)
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
                "shape": self.items.display,
                "columns": self.items.lines.drawn_columns,
                "axis": self.items.lines.axis,
                "model": self.model is not None,
                "status": self.status,
                "busy": self._working is not None,
                "measure": "share right" if self.spans is None else "F1",
                "curve": self.curve,
                "forecast": forecast(self.curve),
                "score": last.get("text"),
                "findings": len(self.places("findings")),
                "changed": len(self.places("changed")),
                "disagreements": len(self.places("disagreements")),
                "annotators": list(self.sides),
                "flagged": len(self.journal.flags),
                "undo": len(self.history.done),
                "redo": len(self.history.undone),
                "guidelines": bool(self.guidelines),
                "file": self.file is not None,
                "next": {} if self.file is None else self.file.commands(),
                "saved": not self.journal.actions,
            }

    # ---- fits beside the labelling

    def refit(self, *, wait: bool = False) -> str:
        """Fit to the known labels in the background.

        The new model takes the place of the old one, unless the sample set aside shows that it is worse.

        Parameters
        ----------
        wait : bool, default False
            Whether to return when the fit is done.

        Returns
        -------
        str
            What is done, or was done.

        Raises
        ------
        ValueError
            If no label is known, or if a fit or check is under way.

        Examples
        --------
        >>> from kernelfields.page import LabellingSession
        >>> words = [["we", "saw", "Rome"], ["Lima", "was", "far"]]
        >>> session = LabellingSession(words, [["O", "O", "B-city"], None], words=words)
        >>> session.refit(wait=True)
        'fitted to 1 item in ... s: the new model is in place'
        """
        with self._lock:
            train = [i for i, own in enumerate(self.known) if i not in self.aside and any(e is not None for e in own)]
            if not train:
                raise ValueError("no label of an item that may be trained on is known yet")
            judged = [i for i in sorted(self.aside) if self.known[i] and all(e and len(e) == 1 for e in self.known[i])]
            known, truth = ([list(self.known[i]) for i in items] for items in (train, judged))
            parts = [self.items.select_inputs(items) for items in (train, judged)]  # words may be cut during the fit
            new = copy.deepcopy(self.model) if self.model is not None else clone(self._unfitted)
        status = f"fitting to {inflect(len(train), 'item')}"
        return self._run_in_background(status, wait, self._fit, new, parts, known, truth)

    def check(self, *, wait: bool = False) -> str:
        """Search for suspicious labels in the background, by fields fitted to other items.

        Parameters
        ----------
        wait : bool, default False
            Whether to return when the check is done.

        Returns
        -------
        str
            What is done, or was done; :meth:`places` lists the findings.

        Raises
        ------
        ValueError
            If fewer than five items have labels, or if a fit or check is under way.

        Examples
        --------
        >>> from kernelfields import ChainCRF
        >>> from kernelfields.page import LabellingSession
        >>> words = [["Ann", "saw", "Bob"], ["Bob", "met", "Ann"], ["Tim", "saw", "Ann"], ["Ann", "met", "Tim"]] * 2
        >>> y = [["NAME", "VERB", "NAME"] for _ in words]
        >>> session = LabellingSession(words, y, ChainCRF("linear", prior_variance=1.0), words=words)
        >>> session.check(wait=True)
        'checked 8 items: labels may be wrong at 0 places'
        """
        with self._lock:
            items = [i for i, own in enumerate(self.known) if any(e is not None for e in own)]
            if len(items) < _FOLDS:
                raise ValueError(f"label errors are found among {_FOLDS} labelled items or more, got {len(items)}")
            known, versions = [list(self.known[i]) for i in items], [self.versions[i] for i in items]
            part = self.items.select_inputs(items)
            new = clone(self._unfitted if self.model is None else self.model)
        status = f"checking {inflect(len(items), 'item')}"
        return self._run_in_background(status, wait, self._check, new, part, items, known, versions)

    def _run_in_background(self, status: str, wait: bool, work: Callable[..., str], *arguments: Any) -> str:
        """Run a function in a thread; its result or error becomes the status."""

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

    def _fit(self, new: Any, parts: list, known: list, truth: list) -> str:
        begin = time.perf_counter()
        old, (train, judged) = self.model, parts
        fitted = prepare_for_fit(new, known).fit(train, self.items.format_labels(known))
        score = span_score(self._count_matches(fitted, judged, truth))
        point: dict[str, Any] = {
            "known": sum(e is not None for own in known for e in own),
            "items": len(known),
            "right": None,
        }
        if score is not None:
            point |= {"right": score.value, "low": score.low, "high": score.high}
            point["text"] = score.text("F1" if self.spans is not None else "share right")
        last = self.curve[-1]["right"] if self.curve else None
        # A few items cannot tell that a model is worse.
        worse = score is not None and score.high is not None and last is not None and score.high < last
        changed = [] if worse or old is None else self._compare_predictions(old, fitted)
        point["seconds"] = round(time.perf_counter() - begin, 2)
        with self._lock:
            if not worse:
                self.model, self._doubts, self._changed = fitted, None, changed
                self._answers.clear()
                self.classes += [label for label in list_model_labels(fitted) if label not in self.classes]
            self.curve.append(point)
        judged_by = "" if score is None else f", {point['text']}"
        kept = "the old model stays" if worse else "the new model is in place"
        looked = f". {inflect(len(changed), 'prediction')} changed" if changed else ""
        return f"fitted to {inflect(len(known), 'item')} in {point['seconds']} s{judged_by}: {kept}{looked}"

    def _count_matches(self, model: FittedModel, judged: Any, truth: list) -> np.ndarray:
        """Return the counts (S, 3) of right, predicted and true spans, or positions, of each held-out item."""
        if not truth:
            return np.zeros((0, 3))
        rows = []
        for true, labels in zip(truth, self.items.convert_labels(model.predict(judged)), strict=True):
            if self.spans is None:
                rows.append((sum(a == b for a, b in zip(true, labels, strict=True)), len(true), len(true)))
            else:
                a, b = ({*self.spans.spans([next(iter(e or ())) for e in own])} for own in (labels, true))
                rows.append((len(a & b), len(a), len(b)))
        return np.array(rows, dtype=np.float64)

    def _compare_predictions(self, old: FittedModel, new: FittedModel) -> list[dict[str, Any]]:
        """Return the places where the predictions of two models differ, in the first unfinished items."""
        with self._lock:
            items = np.flatnonzero(self.left > 0)[:_COMPARED].tolist()
            if not items:
                return []
            part, versions = self.items.select_inputs(items), [self.versions[item] for item in items]
            known = [list(self.known[item]) for item in items]
        both = (self.items.convert_labels(model.predict(part)) for model in (old, new))
        found = []
        for item, version, own, before, after in zip(items, versions, known, *both, strict=True):
            pairs = [*zip(before, after, own, strict=True)]
            differ = [t for t, (a, b, known) in enumerate(pairs) if a != b and known is None]
            for begin, end in _consecutive_runs(differ):
                names = [
                    self._describe_labels([next(iter(own[t])) for t in range(begin, end)]) for own in (before, after)
                ]
                place = {"item": item, "begin": begin, "end": end, "version": version}
                found.append({**place, "text": f"was {names[0]}, now {names[1]}"})
        return found

    def _check(self, new: Any, part: Any, items: list[int], known: list, versions: list[int]) -> str:
        found = find_label_errors(prepare_for_fit(new, known), part, self.items.format_labels(known), cv=_FOLDS)
        places: list[dict[int, Any]] = [{} for _ in items]
        findings = []
        for row in found.rows:
            first = self.items.find_position(row.position)
            proposed = [plain_label(label) for label in row.proposed]
            for position, label in enumerate(proposed, start=first):
                places[row.sequence].setdefault(position, label)
            share = 1.0 / (1.0 + np.exp(-row.score))
            given, model = (self._describe_labels(labels) for labels in (row.given, proposed))
            told = f"given {given}, the model says {model} ({share:.2f})"
            place = {"item": items[row.sequence], "begin": first, "end": first + len(proposed)}
            findings.append({**place, "version": versions[row.sequence], "text": told, "labels": proposed})
        scored = zip(items, versions, found.item_scores.tolist(), places, strict=True)
        with self._lock:
            self._suspects = {item: (version, score, own) for item, version, score, own in scored}
            self._findings = findings
        return f"checked {inflect(len(items), 'item')}: labels may be wrong at {inflect(found.n_findings, 'place')}"


def _consecutive_runs(positions: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the bounds of runs of consecutive positions."""
    for _, run in groupby(enumerate(positions), key=lambda pair: pair[1] - pair[0]):
        own = [position for _, position in run]
        yield own[0], own[-1] + 1
