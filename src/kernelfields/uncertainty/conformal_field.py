"""Prediction sets with a guarantee, around any estimator of labels.

    sets = ConformalField(ChainCRF(), confidence_level=0.9).fit(X_train, y_train).conformalize(X_held, y_held)
    sets.predict_set(X_new)             # for each sequence, at each position the labels that may be right

With m_t(y) the marginals, p(span) the probabilities of entities and p(y | x) that of a labelling, a set holds

    positions    at each position the labels with m_t(y) >= lambda    controlled: share of positions missed
                 and the likeliest one
    labellings   the labellings with -log p(y | x) <= lambda          controlled: whether the true one is missed
    entities     the spans with p(span) >= lambda                     controlled: share of true entities missed

for each item, in expectation over items that are exchangeable with those of the calibration (conformal.py). events.py
computes the scores.

Cost: that of the answers of the estimator for the calibration items. Raises TypeError for other estimators than those
of labels, ValueError for unsuitable calibration data.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from kernelfields.data.reading import plain_label, random_generator
from kernelfields.estimators.answering.formats import AnswerFormat, get_answer_format
from kernelfields.estimators.answering.lengths import cut_by_lengths
from kernelfields.estimators.base import FieldEstimator
from kernelfields.estimators.chain_crf import ChainCRF
from kernelfields.estimators.frame_crf import FrameCRF
from kernelfields.estimators.pipelines import describe_model, rebuild_model
from kernelfields.estimators.questions import LabelField
from kernelfields.estimators.sequence_classifier import SequenceClassifier
from kernelfields.inference.answers import Answers
from kernelfields.inference.choice import refuse_approximate
from kernelfields.inference.spans import likely_spans
from kernelfields.models.documents import describe_parameters, rebuild_estimator
from kernelfields.models.model_file import Document
from kernelfields.models.stored import Functions, StoredEstimator
from kernelfields.models.wrapped_field import (
    FITTED,
    OF_LABELS,
    OF_PROBABILITIES,
    OF_THE_FIT,
    WrappedField,
    besides,
    copy_nested,
    forward_questions,
    refuse_questions,
)
from kernelfields.numerics.parameters import (
    attribute,
    check_count,
    check_declared,
    check_one,
    declares_parameters,
    is_real,
    parameter,
)
from kernelfields.numerics.user_warnings import warn_user
from kernelfields.reports.page import Shown
from kernelfields.reports.tables import Table
from kernelfields.selection.held_out import LabelledItems, refuse_items_of_fit, unwrap_frame
from kernelfields.uncertainty.conformal import event_threshold, least_items, round_scores, score_quantile
from kernelfields.uncertainty.events import (
    ENTITIES,
    LABELLINGS,
    LEAST_SPAN,
    POSITIONS,
    Events,
    compute_events,
    concatenate_events,
    find_answers,
    find_events,
    find_labelled_answers,
    find_true_parts,
    get_span_reader,
    list_kinds,
)

# So much less than a threshold is looked for, before scores are compared.
_LESS = 1e-8
#: Quarters of the lengths of calibration items.
_QUARTERS = 4
_ALL: Hashable = "all"
_OF_THE_FIT = "sets would miss more than they promise. Calibrate on items that were held out, or use cv='cross'"
#: Mean number of labellings in a set above which a warning follows; maximal number of labels in a message.
_MANY, _NAMED = 100, 3


def _check_level(value: object, name: str) -> None:
    if not is_real(value) or not 0.0 < value < 1.0:
        raise ValueError(f"{name} must lie between 0 and 1, such as 0.9, got {value!r}")


def _check_cv(value: object, name: str) -> None:
    if isinstance(value, bool | float) or (isinstance(value, str) and value != "cross"):
        raise ValueError(f"{name} must be None, 'cross', a number of folds or a splitter, got {value!r}")


class LabellingSet(NamedTuple):
    """Labellings of one item with their probabilities, the best first.

    Parameters
    ----------
    labellings : list of (labels, float)
        The labellings and their probabilities.
    everything : bool
        Whether more than are listed belong to the set, which is best taken for all labellings.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import ChainCRF, ConformalField
    >>> random = np.random.default_rng(0)
    >>> y = [random.integers(2, size=5) for _ in range(90)]
    >>> X = [labels[:, None] + random.normal(size=(5, 1)) for labels in y]
    >>> crf = ChainCRF("linear", prior_variance=1.0).fit(X[:30], y[:30])
    >>> sets = ConformalField(crf, target="labellings").conformalize(X[30:], y[30:])
    >>> found = sets.predict_set([[[-2.0], [3.0]]])[0]
    >>> found.labellings[0][0], found.everything
    (array([0, 1]), False)
    """

    labellings: list[tuple[Any, float]]
    everything: bool


class SpanSet(NamedTuple):
    """Spans of one sequence with their probabilities.

    Parameters
    ----------
    spans : list of (label, int, int, float)
        The label, the first position, the position after the last, and the probability of each span.
    everything : bool
        Whether more than are listed belong to the set, which is best taken for all spans.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import ChainCRF, ConformalField
    >>> random = np.random.default_rng(0)
    >>> y = [random.integers(2, size=5) for _ in range(90)]
    >>> X = [labels[:, None] + random.normal(size=(5, 1)) for labels in y]
    >>> crf = ChainCRF("linear", prior_variance=1.0).fit(X[:30], y[:30])
    >>> sets = ConformalField(crf, target="entities").conformalize(X[30:], y[30:])
    >>> sets.predict_set([[[-2.0], [3.0]]])[0].everything
    False
    """

    spans: list[tuple[Any, int, int, float]]
    everything: bool


@dataclass(frozen=True)
class Coverage(Shown):
    """The coverage and sizes of prediction sets.

    Parameters
    ----------
    coverage : float
        The share of what is controlled that sets hold, mean over items.
    size : float
        The mean size of a set.
    by_label : dict
        The share for each label or type.
    by_length : dict
        The share for items by quarters of the calibration's lengths, such as "9 to 12", the shortest first; those
        without items are left out.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import ChainCRF, ConformalField
    >>> random = np.random.default_rng(0)
    >>> y = [random.integers(2, size=5) for _ in range(90)]
    >>> X = [labels[:, None] + random.normal(size=(5, 1)) for labels in y]
    >>> crf = ChainCRF("linear", prior_variance=1.0).fit(X[:30], y[:30])
    >>> found = ConformalField(crf).conformalize(X[30:60], y[30:60]).coverage(X[60:], y[60:])
    >>> {label: round(share, 2) for label, share in found.by_label.items()}
    {0: 0.91, 1: 0.98}
    """

    coverage: float
    size: float
    by_label: dict[Any, float]
    by_length: dict[str, float]

    def parts(self) -> list[str | Table]:
        """Yield the figures of all items, and a table by label and length.

        Returns
        -------
        list of Table
            What is printed.
        """
        rows = [(str(label), share) for label, share in self.by_label.items()]
        rows += [(f"length {length}", share) for length, share in self.by_length.items()]
        whole = f"coverage {self.coverage:.3f}, mean size of a set {self.size:.2f}"
        return [Table(("of", "coverage"), rows, whole, formats={"coverage": ".3f"})]


@refuse_questions(laplace="it changes the estimator. Ask estimator_ for it")
@forward_questions(*OF_LABELS, *OF_PROBABILITIES, *OF_THE_FIT, *besides(FITTED, "thresholds_"), like=(ChainCRF,))
@declares_parameters
class ConformalField(WrappedField, StoredEstimator):
    """Predict sets that contain the true labels with a stated probability, by an estimator of labels.

    Other questions, such as ``predict``, are answered by the fitted estimator. After :meth:`partial_fit` sets hold
    everything until they are calibrated again.

    Parameters
    ----------
    estimator : estimator or Pipeline
        An estimator of labels; fitted, or to be fitted by :meth:`fit`.
    confidence_level : float, default 0.9
        The share of the positions (labellings, entities) of a new item that its set holds at least, in expectation.
    target : {"positions", "labellings", "entities"}, default "positions"
        What sets hold: labels at each position, whole labellings, or spans.
    groups : {"label", "length"}, optional
        Hold the level within groups: of positions with the same true label (or entities of a type), or of items by
        quarters of length. A group needs enough calibration items.
    cv : "cross", int or splitter, optional
        Calibrate by fields of other folds ("cross": 5 of them) in :meth:`fit`, for little data: all items train and
        calibrate. The level then holds as well as these fields stand for the one that predicts, without proof.
    limit : int, default 1000
        The largest number of labellings of a set; a larger set lists its best ones, with ``everything`` True.
    scheme : str or None, default "auto"
        How labels write entities, as in :meth:`ChainCRF.predict_entities`.
    allow_empty : bool, default False
        Whether the set of a position may be empty if no label is likely enough. Otherwise it holds the most probable
        one, by which coverage can only rise.
    random_state : int, Generator, RandomState or None, default None
        The seed of folds.

    Attributes
    ----------
    estimator_ : estimator
        The fitted estimator.
    thresholds_ : dict
        The threshold of each group; infinite if there are too few items.
    n_items_ : dict
        The number of calibration items of each group.

    See Also
    --------
    kernelfields.uncertainty.calibrate : Calibrates probabilities.

    References
    ----------
    Vovk, Gammerman and Shafer (2005), Algorithmic learning in a random world.
    Angelopoulos, Bates, Fisch, Lei and Schuster (2024), Conformal risk control.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import ChainCRF, ConformalField
    >>> random = np.random.default_rng(0)
    >>> y = [random.integers(2, size=5) for _ in range(90)]
    >>> X = [labels[:, None] + random.normal(size=(5, 1)) for labels in y]
    >>> sets = ConformalField(ChainCRF("linear", prior_variance=1.0), confidence_level=0.9)
    >>> sets = sets.fit(X[:30], y[:30]).conformalize(X[30:60], y[30:60])
    >>> sets.predict_set([[[-1.0], [0.5], [2.0]]])
    [[(0, 1), (1, 0), (1,)]]
    """

    _kind = "ConformalField"

    estimator: BaseEstimator | None = parameter(None, first=True)
    confidence_level: float = parameter(0.9, _check_level)
    target: str = parameter(POSITIONS, check_one(POSITIONS, LABELLINGS, ENTITIES))
    groups: str | None = parameter(None, check_one(None, "label", "length"))
    cv: Any = parameter(None, _check_cv)
    limit: int = parameter(1000, check_count)
    scheme: str | None = parameter("auto")
    allow_empty: bool = parameter(False)
    random_state: Any = parameter(None)

    estimator_: Any = attribute()
    thresholds_: dict[Hashable, float] = attribute()
    n_items_: dict[Hashable, int] = attribute()

    # ---- fit and calibration

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        groups: Sequence | None = None,
        lengths: ArrayLike | None = None,
        **settings: Any,
    ) -> Self:
        """Fit the estimator and, with ``cv``, calibrate.

        Parameters
        ----------
        X : list of arrays, or any other form that the estimator takes
            The items.
        y : list of arrays
            Their labels.
        groups : sequence, optional
            An entry for each item; the folds of ``cv`` keep items of one group together.
        lengths : array (n_items,) or mask (n_items, T), optional
            The lengths of sequences in one array.
        **settings : object
            Keyword arguments of the estimator's ``fit``.

        Returns
        -------
        ConformalField
            The fitted estimator itself.

        Raises
        ------
        ValueError
            If there are ``settings`` that ``cv`` cannot cut between folds.
        """
        self._check()
        if self.cv is not None and settings:
            raise ValueError(f"cv cannot cut {', '.join(settings)} between folds: leave them out, or use cv=None")
        if lengths is not None:
            X, y = cut_by_lengths(_find_answer_format(self.estimator), X, y, lengths)
        self.estimator_ = clone(self.estimator).fit(X, y, **settings)
        for name in ("thresholds_", "n_items_"):
            self.__dict__.pop(name, None)
        if self.cv is None:
            return self
        estimator, X, y = unwrap_frame(self.estimator, X, y)
        items = LabelledItems(X, y)
        n_folds = 5 if isinstance(self.cv, str) else self.cv
        folds = items.folds(n_folds, groups, random_generator(self.random_state))
        names, parts = list[Any](), []
        for _, field, answers in items.held_out(estimator, folds):
            events = compute_events(field, answers, self.target, self.scheme)
            if events is not None:
                parts.append(events)
                # Fields of all folds have all labels.
                names = list_kinds(field, self.target, self.scheme)
        return self._calibrate(concatenate_events(parts), names)

    def partial_fit(self, X: Any, y: Any = None, **settings: Any) -> Self:
        """Fit the estimator to a further batch of items; calibration is discarded.

        ``estimator`` stays as it is. Sets hold everything, with a warning, until :meth:`conformalize` is called again.

        Parameters
        ----------
        X : list of arrays, or any other form that the estimator takes
            The items.
        y : list of arrays, optional
            Their labels; left out if they are a column of X.
        **settings : object
            Keyword arguments of the estimator's ``partial_fit``.

        Returns
        -------
        ConformalField
            The fitted estimator itself.
        """
        self._check()
        present = self._get_fitted_estimator()
        own = clone(self.estimator) if present is None else copy_nested(present)
        self.estimator_ = own.partial_fit(X, y, **settings)
        if "thresholds_" in vars(self):
            self.thresholds_, self.n_items_ = {}, {}
        return self

    def conformalize(self, X: Any, y: Any = None, *, lengths: ArrayLike | None = None) -> Self:
        """Choose the thresholds from labelled items outside the fit.

        Parameters
        ----------
        X : list of arrays, or any other form that the estimator takes
            The held-out items.
        y : list of arrays, optional
            Their labels; left out if they are a column of X. Positions whose label is not known (None, sets, weights)
            do not count; the targets "labellings" and "entities" need all of them. Labels that the fit never saw count
            as missed.
        lengths : array (n_items,) or mask (n_items, T), optional
            The lengths of sequences in one array.

        Returns
        -------
        ConformalField
            The fitted estimator itself.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If there are fewer than two items, or if the estimator was fitted to them.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import ChainCRF, ConformalField
        >>> random = np.random.default_rng(0)
        >>> y = [random.integers(2, size=5) for _ in range(60)]
        >>> X = [labels[:, None] + random.normal(size=(5, 1)) for labels in y]
        >>> crf = ChainCRF("linear", prior_variance=1.0).fit(X[:30], y[:30])
        >>> sets = ConformalField(crf).conformalize(X[30:], y[30:])
        >>> {group: round(threshold, 2) for group, threshold in sets.thresholds_.items()}
        {'all': 0.33}
        """
        self._check()
        present = self._get_fitted_estimator()
        if present is None:
            raise NotFittedError(
                "the estimator is not fitted: call fit(X_train, y_train) before conformalize, or pass a fitted one"
            )
        self.estimator_ = present
        if lengths is not None:
            X, y = cut_by_lengths(_find_answer_format(present), X, y, lengths)
        refuse_items_of_fit(self.estimator_, X, _OF_THE_FIT)
        return self._calibrate(*find_events(self.estimator_, X, y, self.target, self.scheme))

    def _get_fitted_estimator(self) -> Any:
        """Return the fitted estimator, or the given one if it is fitted; else None."""
        if self.__sklearn_is_fitted__():
            return self.estimator_
        try:
            check_is_fitted(self.estimator)
        except NotFittedError:
            return None
        return self.estimator

    def _check(self) -> None:
        check_declared(self)
        if self.estimator is None:
            raise TypeError("estimator must be an estimator of labels, such as ChainCRF(), got None")
        if self.groups == "label" and self.target == LABELLINGS:
            raise ValueError("groups='label' is for positions and entities: a labelling has many labels")

    def _calibrate(self, events: Events, names: list) -> Self:
        events = events._replace(scores=round_scores(events.scores))
        risk, n_items = 1.0 - self.confidence_level, len(events.lengths)
        if n_items < 2:
            raise ValueError(
                f"calibration needs items that can differ, and there is {n_items}: positions of one sequence or graph "
                f"are not exchangeable. A level of {self.confidence_level} needs {least_items(risk)} items or more"
            )
        self._quarters = np.quantile(events.lengths, np.arange(1, _QUARTERS) / _QUARTERS)
        by_kind = self.groups == "label"
        amounts = events.increments(by_kind)
        cells = np.empty(0) if by_kind else self._item_groups(events.lengths)
        self.thresholds_, self.n_items_ = {}, {}
        for number, name in enumerate(names if by_kind else sorted(set(cells.tolist()), key=str)):
            own = events.kinds == number if by_kind else cells[events.items] == name
            self.n_items_[name] = len(np.unique(events.items[own])) if by_kind else int((cells == name).sum())
            if self.target == LABELLINGS:
                self.thresholds_[name] = score_quantile(events.scores[own], risk)
            else:
                self.thresholds_[name] = event_threshold(events.scores[own], amounts[own], self.n_items_[name], risk)
        if few := [name for name, count in self.n_items_.items() if count < least_items(risk)]:
            where = "" if few == [_ALL] else f" of {', '.join(map(repr, few))}"
            warn_user(
                f"a level of {self.confidence_level} needs {least_items(risk)} calibration items{where}, and there are "
                f"{min(self.n_items_[name] for name in few)}: sets hold everything there",
                UserWarning,
            )
        elif self.target == POSITIONS and not by_kind and not self.allow_empty:
            levels = np.array([self.thresholds_[cell] for cell in cells.tolist()])
            self._warn_of_uneven_coverage(events, levels[events.items], names)
        return self

    def _warn_of_uneven_coverage(self, events: Events, levels: np.ndarray, names: list) -> None:
        """Warn if sets miss the level for some labels although it is reachable for them."""
        assert events.likeliest is not None
        accuracy = np.bincount(events.items, events.likeliest * events.increments()).mean()
        if accuracy < self.confidence_level:
            return
        held = events.likeliest | (events.scores >= levels)
        own = [(name, held[events.kinds == number]) for number, name in enumerate(names)]
        missed = sorted((hits.mean(), str(name)) for name, hits in own if len(hits))
        missed = [(share, name) for share, name in missed if share < self.confidence_level]
        if missed:
            named = ", ".join(f"{name} {share:.0%}" for share, name in missed[:_NAMED])
            warn_user(
                f"the likeliest label is right at {accuracy:.1%} of the positions, and a level of "
                f"{self.confidence_level} asks for no more: sets hold it alone, and of some labels fewer: {named}. "
                "groups='label' holds the level for each of them",
                UserWarning,
            )

    def _item_groups(self, lengths: np.ndarray) -> np.ndarray:
        """Return the calibration group of each item, (n,)."""
        if self.groups == "length":
            return np.searchsorted(self._quarters, lengths, side="left").astype(object)
        return np.full(len(lengths), _ALL, dtype=object)

    def _item_thresholds(self, lengths: np.ndarray) -> np.ndarray:
        """Return the threshold of each item, (n,); infinite for groups without calibration items."""
        cells = self._item_groups(lengths).tolist()
        new = sorted({str(cell) for cell in cells if cell not in self.thresholds_})
        if new and self.thresholds_:
            warn_user(
                f"no calibration item belongs to {', '.join(new)}: the answer there is the safe one, everything",
                UserWarning,
            )
        return round_scores(np.array([self.thresholds_.get(cell, self._trivial_threshold) for cell in cells]))

    @property
    def _trivial_threshold(self) -> float:
        """The threshold at which sets contain everything."""
        return math.inf if self.target == LABELLINGS else -math.inf

    def _kind_thresholds(self, names: list) -> np.ndarray:
        """Return the rounded threshold of each label or entity type."""
        return round_scores(np.array([self.thresholds_.get(name, self._trivial_threshold) for name in names]))

    # ---- answers

    def predict_set(self, X: Any, *, lengths: ArrayLike | None = None) -> list:
        """Predict the set of each item.

        Parameters
        ----------
        X : list of arrays, or any other form that the estimator takes
            The items.
        lengths : array (n_items,) or mask (n_items, T), optional
            The lengths of sequences in one array; the answer has an entry for each sequence.

        Returns
        -------
        list
            For positions a list with a tuple of labels for each, the most probable first (for single labels one tuple);
            for labellings a LabellingSet with ``labellings`` and ``everything``; for entities a SpanSet with ``spans``
            (label, begin, end, probability) and ``everything``.

        Raises
        ------
        NotFittedError
            If there are no thresholds yet.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import ChainCRF, ConformalField
        >>> random = np.random.default_rng(0)
        >>> y = [random.integers(2, size=5) for _ in range(60)]
        >>> X = [labels[:, None] + random.normal(size=(5, 1)) for labels in y]
        >>> crf = ChainCRF("linear", prior_variance=1.0).fit(X[:30], y[:30])
        >>> sets = ConformalField(crf, target="labellings").conformalize(X[30:], y[30:])
        >>> [labels.tolist() for labels, probability in sets.predict_set([[[-2.0], [3.0]]])[0].labellings]
        [[0, 1], [1, 1], [0, 0]]
        """
        self._check_calibrated()
        if lengths is not None:
            X, _ = cut_by_lengths(_find_answer_format(self.estimator_), X, None, lengths)
        field, batches = find_answers(self.estimator_, X)
        find = {POSITIONS: self._label_sets, LABELLINGS: self._labelling_sets}.get(self.target, self._span_sets)
        found: list = []
        for batch in batches:
            found += find(field, batch)
        if self.target == LABELLINGS and found:
            size = float(np.mean([len(own.labellings) for own in found]))
            if size > _MANY:
                warn_user(
                    f"sets hold {size:,.0f} labellings on average: the field is too unsure of whole ones for a level "
                    f"of {self.confidence_level}. Ask for a lower one, or for sets of labels by target='positions'",
                    UserWarning,
                )
        return found

    def _check_calibrated(self) -> None:
        if "thresholds_" in vars(self) and not self.thresholds_:
            warn_user(
                "the estimator has learnt since the calibration: sets hold everything until conformalize is called",
                UserWarning,
            )
        if "thresholds_" not in vars(self):  # the field inside may have thresholds of its own
            raise NotFittedError(
                "this ConformalField has no thresholds yet: call conformalize(X_held, y_held) with items that the "
                "estimator was not fitted to, or fit with cv='cross'"
            )

    def _label_sets(self, field: LabelField, answers: Answers) -> list:
        marginals, lengths = round_scores(answers.marginals), np.diff(answers.family.offsets)
        names = [plain_label(label) for label in get_answer_format(field).labels(field)]
        if self.groups == "label":
            mask = marginals >= self._kind_thresholds(names)
        else:
            mask = marginals >= np.repeat(self._item_thresholds(lengths), lengths)[:, None]
        if not self.allow_empty and len(mask):
            mask |= marginals == marginals.max(axis=1, keepdims=True)
        order = np.argsort(-marginals, axis=1, kind="stable")
        sets = [
            tuple(names[label] for label in row if own[label])
            for row, own in zip(order.tolist(), mask.tolist(), strict=True)
        ]
        if get_answer_format(field).is_single:
            return sets
        return answers.by_item([sets[begin:end] for begin, end in pairwise(answers.family.offsets.tolist())], [])

    def _labelling_sets(self, field: LabelField, answers: Answers) -> list[LabellingSet]:
        refuse_approximate(answers.family, "a set of labellings")
        levels = self._item_thresholds(np.diff(answers.family.offsets)).tolist()
        form, names = get_answer_format(field), get_answer_format(field).labels(field)
        count, more = 1, True
        while more:
            ranked, scores = answers.n_best(count)
            logs = [own - total for own, total in zip(scores, answers.log_partition, strict=True)]
            shown = [round_scores(-own) for own in logs]
            full = [len(own) == count and own[-1] <= level for own, level in zip(shown, levels, strict=True)]
            more = count < self.limit and any(full)
            count = min(4 * count, self.limit)
        sets = [
            LabellingSet(
                [
                    (form.labelling(names[row]), math.exp(log))
                    for row, log, score in zip(rows, own.tolist(), scores.tolist(), strict=True)
                    if score <= level
                ],
                bool(beyond),
            )
            for rows, own, scores, level, beyond in zip(ranked, logs, shown, levels, full, strict=True)
        ]
        return answers.by_item(sets, LabellingSet([], False))

    def _span_sets(self, field: LabelField, answers: Answers) -> list[SpanSet]:
        if not answers.data.n_positions:
            return [SpanSet([], False) for _ in answers.requested.lengths]
        rules, types = get_span_reader(field).rules(field.classes_, self.scheme)
        offsets = answers.family.offsets
        if self.groups == "label":
            limits = np.tile(self._kind_thresholds(types), (len(offsets) - 1, 1))
        else:
            limits = np.tile(self._item_thresholds(np.diff(offsets))[:, None], (1, len(types)))
        found = likely_spans(answers, rules, max(LEAST_SPAN, float(limits.min(initial=1.0)) - _LESS))
        items = np.searchsorted(offsets, found.starts, side="right") - 1
        kept = round_scores(found.probabilities) >= limits[items, found.types]
        # Spans below LEAST_SPAN are too many to be listed: a set that holds them is taken for all.
        every = np.any(limits < LEAST_SPAN, axis=1)
        sets: list[list] = [[] for _ in every]
        columns = (column[kept].tolist() for column in (items, *found))
        for item, start, stop, number, chance in zip(*columns, strict=True):
            first = int(offsets[item])
            sets[item].append((types[number], start - first, stop - first, chance))
        return answers.by_item(map(SpanSet, sets, every.tolist()), SpanSet([], False))

    def coverage(self, X: Any, y: Any = None, *, lengths: ArrayLike | None = None) -> Coverage:
        """Measure coverage and size of the prediction sets of labelled items.

        Parameters
        ----------
        X : list of arrays, or any other form that the estimator takes
            Items that neither the fit nor the calibration has seen.
        y : list of arrays, optional
            Their labels; left out if they are a column of X.
        lengths : array (n_items,) or mask (n_items, T), optional
            The lengths of sequences in one array.

        Returns
        -------
        Coverage
            ``coverage``, a mean over items, ``size``, the mean size of a set, and coverage ``by_label`` and
            ``by_length``.

        Raises
        ------
        ValueError
            If no label is known.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import ChainCRF, ConformalField
        >>> random = np.random.default_rng(0)
        >>> y = [random.integers(2, size=5) for _ in range(90)]
        >>> X = [labels[:, None] + random.normal(size=(5, 1)) for labels in y]
        >>> crf = ChainCRF("linear", prior_variance=1.0).fit(X[:30], y[:30])
        >>> found = ConformalField(crf).conformalize(X[30:60], y[30:60]).coverage(X[60:], y[60:])
        >>> round(found.coverage, 2), round(found.size, 1)
        (0.95, 1.6)
        """
        if lengths is not None:
            X, y = cut_by_lengths(_find_answer_format(self.estimator_), X, y, lengths)
        sets = self.predict_set(X)
        field, batches, _ = find_labelled_answers(self.estimator_, X, y)
        members = [_list_members(own, self.target) for own in sets]
        shares, lengths, held, first = list[float](), list[int](), list[tuple[Any, bool]](), 0
        for batch, unseen in batches:
            for number, length, truths in find_true_parts(field, batch, self.target, self.scheme, unseen):
                listed, everything = members[first + number]
                right = [(kind, (everything and seen) or own in listed) for kind, own, seen in truths]
                held += right
                lengths.append(length)
                shares.append(float(np.mean([own for _, own in right])) if right else 1.0)
            first += len(batch.requested.lengths)
        if not shares:
            raise ValueError("no item has labels that are known: coverage has nothing to count")
        quarters = np.searchsorted(self._quarters, lengths, side="left")
        by_length = [np.array(shares)[quarters == quarter] for quarter in range(_QUARTERS)]
        by_kind = sorted({kind for kind, _ in held}, key=str) if self.target != LABELLINGS else []
        if self.target != POSITIONS:
            sets = [own[0] for own in sets]
        elif sets and not isinstance(sets[0], tuple):
            sets = [own for item in sets for own in item]
        return Coverage(
            float(np.mean(shares)),
            float(np.mean([len(own) for own in sets])),
            {kind: float(np.mean([own for other, own in held if other == kind])) for kind in by_kind},
            {name: float(own.mean()) for name, own in zip(self._quarter_names(), by_length, strict=True) if len(own)},
        )

    def _quarter_names(self) -> list[str]:
        ends = [int(end) for end in self._quarters]
        middle = [f"{before + 1} to {end}" for before, end in pairwise(ends)]
        return [f"up to {ends[0]}", *middle, f"more than {ends[-1]}"]

    # ---- files

    def _to_document(self) -> Document:
        """Describe the fitted estimator and its thresholds by plain values and arrays."""
        self._check_calibrated()
        kind, document = describe_model(self.estimator_, "the estimator")
        names = list(self.thresholds_)
        return {
            "parameters": describe_parameters(clone(self).set_params(estimator=None)),
            "model": {"kind": kind, "document": document},
            "groups": names,
            "thresholds": np.array([self.thresholds_[name] for name in names]),
            "n_items": np.array([self.n_items_[name] for name in names]),
            "quarters": self._quarters,
        }

    @classmethod
    def _from_document(cls, document: Document, callables: Functions | None = None) -> Self:
        """Rebuild the fitted estimator from its document; errors of any kind for an invalid one."""
        model = rebuild_estimator(cls, document["parameters"], callables or {})
        described = document["model"]
        model.estimator_ = rebuild_model(described["kind"], described["document"], callables)
        model.estimator = model.estimator_
        model._check()
        names, thresholds, counts = document["groups"], document["thresholds"], document["n_items"]
        if not len(names) == len(thresholds) == len(counts) or np.isnan(thresholds).any():
            raise ValueError("it must have a threshold for each group")
        model.thresholds_ = dict(zip(names, np.asarray(thresholds).tolist(), strict=True))
        model.n_items_ = dict(zip(names, np.asarray(counts).tolist(), strict=True))
        model._quarters = document["quarters"]
        return model


def _find_answer_format(model: object) -> AnswerFormat:
    """Return the answer format of an estimator, fitted or not; TypeError for estimators on tables."""
    inside: Any = model
    while not isinstance(inside, FieldEstimator | SequenceClassifier):
        if isinstance(inside, FrameCRF) or not isinstance(inside, BaseEstimator):
            raise TypeError(
                f"lengths= is for sequences in one array, which {type(model).__name__} does not take: leave it out"
            )
        if isinstance(inside, Pipeline):
            inside = inside[-1]
        else:
            inside = inside.to_be_fitted() if isinstance(inside, WrappedField) else inside.get_params().get("estimator")
    return get_answer_format(inside)


def _list_members(own: Any, target: str) -> tuple[set[Hashable], bool]:
    """Return the members of a prediction set, as :func:`find_true_parts` does, and whether it contains everything."""
    if target == POSITIONS:
        by_position = [own] if isinstance(own, tuple) else own
        return {(place, label) for place, labels in enumerate(by_position) for label in labels}, False
    if target == LABELLINGS:
        return {tuple(np.atleast_1d(labels).tolist()) for labels, _ in own.labellings}, own.everything
    return {span[:3] for span in own.spans}, own.everything
