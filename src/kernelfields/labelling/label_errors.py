"""Suspicious labels, found by fields that were fitted without the item of the label.

    print(find_label_errors(ChainCRF(), X, y, cv=5, tokens=words, top=20))      fields of five folds
    print(find_label_errors(fitted, X_new, y_new, cv=None))                     a field that was fitted to other items

hypotheses.py computes the scores. Findings do not overlap: among hypotheses that change the same label, the one with
the largest sum of scores over its labels is selected. If more than half of the labels of an item would change, one
finding proposes all of the changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from kernelfields.data.chains import Chains
from kernelfields.data.partial_labels import SoftTargets, replace_unseen
from kernelfields.data.reading import Seed, is_unknown, listed, plain_label, random_generator
from kernelfields.estimators.answering.formats import Tokens, get_answer_format
from kernelfields.estimators.questions import LabelField
from kernelfields.inference.answers import Answers
from kernelfields.labelling.hypotheses import (
    BOUNDARY,
    POSITION,
    Given,
    Hypotheses,
    SegmentLabels,
    compute_gains,
    find_runs,
    independent_scores,
    marginals_without_neighbours,
    propose_corrections,
    score,
)
from kernelfields.numerics.containers import count_rows
from kernelfields.numerics.parameters import check_count
from kernelfields.reports.labelling import LabelError, LabelErrors
from kernelfields.selection.held_out import (
    HeldOutAnswers,
    LabelledItems,
    iterate_answers,
    refuse_items_of_fit,
    unwrap_fitted_field,
    unwrap_frame,
)

# Items of fewer labels have no finding for all of them.
_FEWEST_FOR_WHOLE = 3


def find_label_errors(
    estimator: BaseEstimator,
    X: Any,
    y: Any,
    *,
    cv: Any = 5,
    groups: Sequence | None = None,
    top: int | None = None,
    tokens: Tokens | None = None,
    random_state: Seed = 0,
) -> LabelErrors:
    """List the most suspicious labels, with proposals.

    Each item is judged by a field that was fitted without it.

    Parameters
    ----------
    estimator : estimator, Pipeline or search
        An estimator of labels, which is cloned and fitted for each fold; with ``cv=None`` a fitted one.
    X : list of arrays, or any other form that ``fit`` takes
        The inputs.
    y : list of arrays, or any other form that ``fit`` takes
        The labels to check. Positions whose label is not known are skipped; what is known of the others is used.
    cv : int, splitter, list of (train, test) indices or None, default 5
        Folds of whole sequences, graphs, instances or samples; items with rare labels are spread over them. With a list
        of splits, such as a single held-out one, the labels of test items are checked. With None all are judged by the
        fitted ``estimator``, which other items were fitted to; labels that it never saw come first.
    groups : sequence, optional
        An entry for each item; items of one group are held out together.
    top : int, optional
        The largest number of findings; by default all with a positive score are listed.
    tokens : list of lists, optional
        What to show for each position of each item, such as its word; for single labels an entry for each item.
    random_state : int, Generator, RandomState or None, default 0
        The seed of the folds if ``cv`` is a number.

    Returns
    -------
    LabelErrors
        Findings by decreasing score, in nats for each label that is changed; for a stretch of labels that only support
        each other, times the square root of its length. The kind of a finding is "position" (one label), "boundary" (a
        segment begins or ends elsewhere), "entity" ("segment" if labels follow no scheme: of another type, none, or
        missing, or a stretch), or the whole sequence. ``position_scores`` and ``item_scores`` have the scores of all
        labels and items.

    Raises
    ------
    ValueError
        If no label of y is known, or if ``cv=None`` and the estimator was fitted to these items.
    NotFittedError
        If ``cv=None`` and the estimator is not fitted.

    See Also
    --------
    rank_for_labelling : Chooses what to label next.

    Examples
    --------
    >>> from kernelfields import ChainCRF, find_label_errors
    >>> words = [["Ann", "saw", "Bob"], ["Bob", "met", "Ann"], ["Tim", "saw", "Ann"], ["Ann", "met", "Tim"]]
    >>> X = [[{"word": word, "capital": word.istitle()} for word in sentence] for sentence in words]
    >>> y = [["NAME", "VERB", "NAME"] for _ in words]
    >>> y[2][2] = "VERB"  # an error
    >>> errors = find_label_errors(ChainCRF("linear", prior_variance=1.0), X, y, cv=2, tokens=words)
    >>> [(error.sequence, error.position, error.token, error.proposed) for error in errors.rows]
    [(2, 2, 'Ann', ('NAME',))]
    """
    if top is not None:
        check_count(top, "top", " or None")
    strange: dict[int, dict[int, Any]] = {}
    if cv is None:
        n_items, batches = _fold_answers(estimator, X, y, strange)
    else:
        estimator, X, y = unwrap_frame(estimator, X, y)
        items = LabelledItems(X, y)
        folds = items.folds(cv, groups, random_generator(random_state))
        n_items, batches = items.n_items, items.held_out(estimator, folds)
    findings: list[LabelError] = []
    scores: list[np.ndarray] = [np.zeros(0)] * n_items
    nouns = ("sequence", "position")
    for held_out in batches:
        nouns = get_answer_format(held_out.field).headings
        findings += _list_findings(held_out, scores, tokens, strange)
    flat = np.concatenate([np.zeros(0), *scores])
    if not (n_known := int(np.isfinite(flat).sum())):
        raise ValueError("y has no label that is known: there is nothing to check")
    largest = np.array([np.max(own, initial=-np.inf, where=~np.isnan(own)) for own in scores])
    findings.sort(key=lambda finding: -finding.score)
    return LabelErrors(tuple(findings[:top]), scores, largest, len(findings), n_known, len(flat) - n_known, nouns)


def _fold_answers(
    estimator: BaseEstimator, X: Any, y: Any, strange: dict[int, dict[int, Any]]
) -> tuple[int, Iterator[HeldOutAnswers]]:
    """Return the number of items and the answers of a fitted estimator; unknown labels are added to ``strange``."""
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        raise NotFittedError(
            "cv=None judges labels by a fitted estimator, and this one is not: fit it to other items, or let cv=5 hold "
            "out each item in turn"
        ) from None
    advice = "it has learnt their labels. Judge others, or let folds (cv=5) fit without them"
    refuse_items_of_fit(estimator, X, advice)
    field, X, y = unwrap_fitted_field(estimator, X, y, labelled=True)
    if y is None or isinstance(y, SoftTargets):
        raise ValueError("y must hold labels, got " + ("None" if y is None else "SoftTargets"))
    seen, unseen = replace_unseen(y, field.classes_, None)
    for item, position, label in unseen:
        strange.setdefault(item, {})[position] = label
    single = get_answer_format(field).is_single
    if unseen and not any(not is_unknown(label) for own in seen for label in ([own] if single else own or [])):
        raise ValueError(f"the estimator never saw a label of y: it saw {listed(field.classes_)}")
    n_items = count_rows(X)
    return n_items, iterate_answers(field, X, seen, np.arange(n_items))


def _list_findings(
    held_out: HeldOutAnswers, scores: list[np.ndarray], tokens: Tokens | None, strange: Mapping[int, Mapping[int, Any]]
) -> list[LabelError]:
    """List the findings in a batch of items, and set the scores of its positions.

    ``strange`` are labels that the field never saw, by item and position.
    """
    field, answers = held_out.field, held_out.answers
    items = held_out.items[np.asarray(answers.requested.lengths) > 0]
    if not len(items):
        return []
    own = answers.data.given
    labels, known = own.fill_unknown(answers), own.certain()
    given = Given(labels, known, answers.marginals, answers.best_labels())
    names = get_answer_format(field).labels(field).tolist()
    segments = SegmentLabels(names)
    tried, own_scores, shown = _score_hypotheses(answers, given, segments)
    largest = np.full(len(labels), -np.inf)
    np.maximum.at(largest, tried.rows, np.repeat(own_scores, tried.sizes))
    # Of a label that nothing speaks against, the marginal is one, and its score minus infinity: a number is wanted.
    largest = np.where(known, np.maximum(largest, np.finfo(np.float64).min), np.nan)
    offsets = answers.family.offsets
    for item, own in zip(items.tolist(), np.split(largest, offsets[1:-1]), strict=True):
        scores[item] = own
    chosen = [
        number
        for number in _select_disjoint(tried, own_scores, len(labels))
        if known[tried.get_change(number)[0]].all()
    ]
    words = {POSITION: "position", BOUNDARY: "boundary"}
    other = "segment" if segments.scheme is None else "entity"
    by_item: dict[int, list[int]] = {}
    for number in chosen:
        by_item.setdefault(int(answers.family.position_items[tried.get_change(number)[0][0]]), []).append(number)
    found: list[LabelError] = []
    for place, numbers in by_item.items():
        begin, end = int(offsets[place]), int(offsets[place + 1])
        n_known, n_changed = known[begin:end].sum(), sum(len(tried.get_change(number)[0]) for number in numbers)
        if n_known >= _FEWEST_FOR_WHOLE and n_changed > n_known / 2:
            cut_windows = [(begin, end, get_answer_format(field).headings[0], numbers)]
        else:
            bounds = [tried.get_change(number)[0][[0, -1]] + [0, 1] for number in numbers]
            kinds = [words.get(int(tried.kinds[number]), other) for number in numbers]
            cut_windows = [
                (int(first), int(last), kind, [number])
                for (first, last), kind, number in zip(bounds, kinds, numbers, strict=True)
            ]
        for first, last, kind, changes in cut_windows:
            proposed = labels[first:last].copy()
            for number in changes:
                rows, new = tried.get_change(number)
                proposed[rows - first] = new
            pair = _name_labels(names, labels[first:last]), _name_labels(names, proposed)
            largest_score = float(min(shown[changes].max(), np.finfo(np.float64).max))
            window = first - begin, last - begin
            found.append(_make_row(field, int(items[place]), window, kind, pair, largest_score, tokens))
    for item, begin in zip(items.tolist(), offsets.tolist(), strict=False):
        for position, label in strange.get(item, {}).items():
            scores[item][position] = np.finfo(np.float64).max
            pair, window = ((label,), _name_labels(names, labels[[begin + position]])), (position, position + 1)
            found.append(_make_row(field, item, window, "position", pair, float(scores[item][position]), tokens))
    return found


def _make_row(
    field: LabelField,
    item: int,
    window: tuple[int, int],
    kind: str,
    labels: tuple[tuple, tuple],
    score: float,
    tokens: Tokens | None,
) -> LabelError:
    """Make the row of a finding with the given and the proposed labels."""
    first, last = window
    if kind == get_answer_format(field).headings[0]:
        # All labels of an item: those of an instance have names, of which no single one is meant.
        return LabelError(item, 0, last, kind, None if tokens is None else _joined(tokens[item]), *labels, score)
    whole, part, token = get_answer_format(field).place(field, item, first, tokens)
    end = last if isinstance(part, int) else None
    if tokens is not None and end is not None and last - first > 1:
        token = _joined(tokens[item][first:last])
    return LabelError(whole, part, end, kind, token, *labels, score)


def _name_labels(names: list, labels: np.ndarray) -> tuple:
    return tuple(plain_label(names[label]) for label in labels)


def _joined(tokens: object) -> str:
    return " ".join(map(str, tokens)) if isinstance(tokens, list | tuple | np.ndarray) else str(tokens)


def _score_hypotheses(
    answers: Answers, given: Given, segments: SegmentLabels
) -> tuple[Hypotheses, np.ndarray, np.ndarray]:
    """Return hypotheses, their scores by label, and their scores as findings.

    They are windows, of runs of equal labels also stretches of positions whose scores alone are positive, and each
    position alone.
    """
    runs, rows = segments.scheme is None, np.arange(len(given.labels))
    likely = marginals_without_neighbours(answers, given.labels) if runs else given.marginals.copy()
    alone = np.where(given.known, independent_scores(likely, given.labels, runs), -np.inf)
    likely[rows, given.labels] = -1.0
    others = likely.argmax(axis=1)
    windows = tried = propose_corrections(answers, given, segments)
    if runs and isinstance(answers.data, Chains):
        tried = windows.append_runs(others, *find_runs(alone, answers.family.offsets))
    gained = compute_gains(answers, given.labels, tried)
    scores = np.full(len(tried), -np.inf)
    scores[: len(windows)] = score(windows, gained[: len(windows)])
    shown = scores
    if runs:
        means = tried.means(np.where(tried.labels == others[tried.rows], alone[tried.rows], -np.inf))
        means[np.isneginf(gained)] = -np.inf
        # A mean over many labels says more than one of them, as by its standard error.
        scores, shown = np.maximum(scores, means), np.maximum(scores, means * np.sqrt(tried.sizes))
    single = tried.append_runs(others, rows, rows + 1)
    return single, np.concatenate([scores, alone]), np.concatenate([shown, alone])


def _select_disjoint(tried: Hypotheses, scores: np.ndarray, n_positions: int) -> list[int]:
    """Select hypotheses with positive scores and disjoint positions, in descending order of gain."""
    taken, chosen = np.zeros(n_positions, dtype=bool), []
    likely = np.flatnonzero(scores > 0)
    for number in likely[np.argsort(-(scores * tried.sizes)[likely], kind="stable")].tolist():
        rows = tried.get_change(number)[0]
        if not taken[rows].any():
            taken[rows] = True
            chosen.append(number)
    return chosen
