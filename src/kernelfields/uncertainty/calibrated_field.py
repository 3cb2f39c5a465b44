"""Calibrated probabilities of labels, entities and whole labellings, from held-out items.

    calibrated = calibrate(crf, X_held, y_held)               # crf is fitted, to other items
    calibrated.predict_marginals(X), calibrated.predict_entities(X), calibrated.reliability(X_test, y_test)

Three kinds of probabilities have separate maps:

    positions    m_t(y)        that a label is right
    entities     p(span)       that an entity of the prediction is right: place, length and type
    labellings   p(y | x)      that all labels of an item are right

    "temperature"   one exponent 1 / T of all marginals; of the odds of entities and labellings also a factor; fitted by
                    least log-loss, which is convex in 1 / T
    "isotonic"      a nondecreasing map, fitted by least squares; marginals are then normalized

T > 1 softens, T < 1 sharpens; the most probable label does not change. Impossible labels keep the probability 0. Labels
that do not exclude each other, as in MultiLabelCRF, have a distribution (1 - p, p) each. Cost: that of the answers, and
some hundred passes over their probabilities. Raises the errors of the estimator, and ValueError for items without a
known label.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.optimize
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, clone
from sklearn.isotonic import IsotonicRegression
from sklearn.utils.validation import check_is_fitted

from kernelfields.data.ragged import Ragged
from kernelfields.engines.choice import refuse_collections
from kernelfields.estimators.answering.formats import get_answer_format
from kernelfields.estimators.chain_crf import ChainCRF
from kernelfields.estimators.pipelines import describe_model, rebuild_model
from kernelfields.inference.answers import Answers
from kernelfields.inference.spans import span_probabilities
from kernelfields.models.documents import describe_parameters, rebuild_estimator
from kernelfields.models.model_file import Document
from kernelfields.models.position_loss import position_loss
from kernelfields.models.stored import Functions, StoredEstimator
from kernelfields.models.wrapped_field import (
    CHANGING,
    FITTED,
    OF_LABELS,
    OF_THE_FIT,
    Question,
    WrappedField,
    forward_questions,
    refuse_questions,
    unwrap_field,
)
from kernelfields.numerics.parameters import attribute, check_declared, check_one, declares_parameters, parameter
from kernelfields.numerics.user_warnings import warn_user
from kernelfields.reports.tables import Result, Table
from kernelfields.selection.held_out import refuse_items_of_fit
from kernelfields.uncertainty.events import find_answers, find_known_positions

POSITIONS, ENTITIES, LABELLINGS = "positions", "entities", "labellings"
# Questions about the distribution of whole labellings as the field has it: no map of parts gives another one.
_OF_LABELLINGS = ("log_likelihood", "entropy", "sample", "predict_boundaries", "stream", "decision_function")
# Probabilities are kept so far from 0 and 1 that their log-odds exist.
_CLOSEST = 1e-9
# How strongly exponent and factor of the odds are pulled to 1 and 0, where they change nothing.
_PULL = 1.0


@dataclass(frozen=True, eq=False)
class Scaling:
    """An affine map of log-probabilities or log-odds: slope and bias, (1,) each."""

    slopes: np.ndarray
    biases: np.ndarray

    def rows(self, table: np.ndarray) -> np.ndarray:
        """Map probabilities (.., L) and normalize them; zero stays zero."""
        with np.errstate(divide="ignore"):
            logs = np.log(table)
        return softmax(self.slopes * logs + self.biases, axis=-1)

    def events(self, chances: np.ndarray) -> np.ndarray:
        """Map probabilities of events (M,)."""
        return expit(self.slopes * _log_odds(chances) + self.biases)


@dataclass(frozen=True, eq=False)
class Steps:
    """A nondecreasing map of probabilities through points (``places``, ``values``), (K,) each."""

    places: np.ndarray
    values: np.ndarray

    def rows(self, table: np.ndarray) -> np.ndarray:
        """Map probabilities (.., L) and normalize them; zero stays zero."""
        mapped = np.where(table > 0.0, np.interp(table, self.places, self.values), 0.0)
        sums = mapped.sum(axis=-1, keepdims=True)
        return np.where(sums > 0.0, mapped / np.maximum(sums, np.finfo(np.float64).tiny), table)

    def events(self, chances: np.ndarray) -> np.ndarray:
        """Map probabilities of events (M,)."""
        return np.interp(chances, self.places, self.values)


class HeldOutProbabilities:
    """Probabilities of a field for held-out items, with the true labels.

    ``table`` (N, L) and ``true`` (N,) of positions whose label is known; events by what they are of: probabilities, and
    whether they happened, (M,) each.
    """

    def __init__(self, model: object, X: Any, y: Any, scheme: str | None):
        field, batches = find_answers(model, X, y, labelled=True)
        spans = get_answer_format(field).spans
        rules = None if spans is None else spans.rules(field.classes_, scheme)[0]
        tables, trues = [np.empty((0, len(get_answer_format(field).labels(field))))], [np.empty(0, dtype=np.int64)]
        nothing = np.empty(0), np.empty(0, dtype=bool)
        events: dict[str, list] = {ENTITIES: [nothing], LABELLINGS: [nothing]}
        for batch in batches:
            if not batch.data.n_positions:
                continue
            labels, known = batch.data.labels, find_known_positions(batch)
            tables.append(batch.marginals[known])
            trues.append(labels[known])
            if len(known) < len(labels) or not batch.family.exact:
                continue
            events[LABELLINGS].append(_score_best_labellings(batch, labels))
            if spans is not None and rules is not None:
                found = spans.predicted(field, batch, rules)
                true = spans.labelled(batch, labels, rules)
                right = set(zip(*(column.tolist() for column in true), strict=True))
                happened = [span in right for span in zip(*(column.tolist() for column in found), strict=True)]
                events[ENTITIES].append((span_probabilities(batch, rules, *found), np.array(happened, dtype=bool)))
        self.table, self.true = np.concatenate(tables), np.concatenate(trues)
        if not len(self.true):
            raise ValueError("no label of these items is known: calibration needs labels")
        self.events = {
            name: tuple(np.concatenate(column) for column in zip(*parts, strict=True)) for name, parts in events.items()
        }


def _score_best_labellings(answers: Answers, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the probability of the best labelling of each item, and its correctness."""
    best, scores = answers.labellings.best()
    right = np.minimum.reduceat(best == labels, answers.family.offsets[:-1])
    return np.exp(np.minimum(scores - answers.log_partition, 0.0)), right.astype(bool)


@dataclass(frozen=True)
class Reliability(Result):
    """Calibration errors before and after calibration.

    Parameters
    ----------
    rows : list of (str, int, float, float)
        What the probabilities are of, their number, and the calibration errors before and after.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import ChainCRF
    >>> from kernelfields.uncertainty import calibrate
    >>> random = np.random.default_rng(0)
    >>> y = [random.integers(2, size=5) for _ in range(90)]
    >>> X = [labels[:, None] + random.normal(size=(5, 1)) for labels in y]
    >>> crf = ChainCRF("linear", prior_variance=1.0).fit(X[:30], y[:30])
    >>> found = calibrate(crf, X[30:60], y[30:60]).reliability(X[60:], y[60:])
    >>> found.rows[0][:2]
    ('positions', 150)
    """

    rows: list[tuple[str, int, float, float]]

    def __str__(self) -> str:
        columns = ("of", "number", "calibration error", "after")
        formats = {"number": ",", "calibration error": ".4f", "after": ".4f"}
        return Table(columns, self.rows, formats=formats).text()


@refuse_questions(**dict.fromkeys(_OF_LABELLINGS, "it concerns whole labellings of estimator_, and is not calibrated"))
@refuse_questions(plot="it draws probabilities of the field, which are not calibrated. Ask estimator_ for it")
@refuse_questions(**dict.fromkeys(CHANGING, "it changes the field. Ask estimator for it, then calibrate again"))
@forward_questions(*OF_LABELS, *OF_THE_FIT, *FITTED, like=(ChainCRF,))
@declares_parameters
class CalibratedField(WrappedField, StoredEstimator):
    """Calibrate the probabilities of a fitted estimator on held-out items.

    Probabilities of labels, entities, segments and the n best labellings are calibrated. Labels, as of ``predict``, and
    questions about the fit are answered by the estimator as it is; a question without a calibrated answer, such as
    ``entropy``, raises AttributeError. For items with one label, the n best have the probabilities of the label.
    :func:`calibrate` makes one in a line.

    Parameters
    ----------
    estimator : estimator or Pipeline
        A fitted estimator of labels.
    method : {"temperature", "isotonic"}, default "temperature"
        The form of the maps: an exponent for marginals, with a factor for the odds of entities and labellings; or any
        map that rises, which takes more data.
    scheme : str or None, default "auto"
        How labels write entities, as in :meth:`kernelfields.ChainCRF.predict_entities`.

    Attributes
    ----------
    estimator_ : estimator
        The estimator.
    maps_ : dict
        The maps of probabilities of "positions", "entities" and "labellings".

    See Also
    --------
    kernelfields.ConformalField : Returns sets of labels with a guarantee.

    References
    ----------
    Guo, Pleiss, Sun and Weinberger (2017), On calibration of modern neural networks.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import ChainCRF
    >>> from kernelfields.uncertainty import CalibratedField
    >>> random = np.random.default_rng(0)
    >>> y = [random.integers(2, size=5) for _ in range(90)]
    >>> X = [labels[:, None] + random.normal(size=(5, 1)) for labels in y]
    >>> crf = ChainCRF("linear", prior_variance=1.0).fit(X[:30], y[:30])
    >>> calibrated = CalibratedField(crf).fit(X[30:60], y[30:60])
    >>> calibrated.predict_marginals(X[60:])[0][:2].round(2)
    array([[0.38, 0.62],
           [0.72, 0.28]])
    """

    _kind = "CalibratedField"

    estimator: BaseEstimator | None = parameter(None, first=True)
    method: str = parameter("temperature", check_one("temperature", "isotonic"))
    scheme: str | None = parameter("auto")

    estimator_: Any = attribute()
    maps_: dict[str, Scaling | Steps] = attribute()

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the calibration maps to items outside the fit of the estimator.

        Parameters
        ----------
        X : list of arrays, or any other form that the estimator takes
            The held-out items.
        y : list of arrays, optional
            Their labels, which may be partly known; left out if they are a column of X.

        Returns
        -------
        CalibratedField
            The fitted estimator itself.

        Raises
        ------
        ValueError
            If no label is known, or if the estimator was fitted to these items.
        """
        check_declared(self)
        if self.estimator is None:
            raise TypeError("estimator must be a fitted estimator of labels, got None")
        check_is_fitted(self.estimator)
        self.estimator_ = self.estimator
        refuse_items_of_fit(self.estimator_, X, "its probabilities of them say nothing of others. Hold items out")
        judged = HeldOutProbabilities(self.estimator_, X, y, self.scheme)
        self.maps_ = {POSITIONS: _fit_rows(judged.table, judged.true, self.method)}
        for name, (chances, happened) in judged.events.items():
            if len(chances):
                self.maps_[name] = _fit_events(chances, happened, self.method)
        return self

    @Question
    def predict_marginals(self, X: Any, **settings: Any) -> Any:
        """Compute calibrated probabilities of the label at each position.

        Parameters
        ----------
        X : list of arrays, or any other form that the estimator takes
            The items.
        **settings : object
            Keyword arguments of the estimator's method.

        Returns
        -------
        list of arrays (T, n_labels)
            The probabilities, in the form of the estimator's.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import ChainCRF
        >>> from kernelfields.uncertainty import calibrate
        >>> random = np.random.default_rng(0)
        >>> y = [random.integers(2, size=5) for _ in range(60)]
        >>> X = [labels[:, None] + random.normal(size=(5, 1)) for labels in y]
        >>> crf = ChainCRF("linear", prior_variance=1.0).fit(X[:30], y[:30])
        >>> calibrate(crf, X[30:], y[30:], method="isotonic").predict_marginals([[[1.0]]])[0].round(1)
        array([[0.1, 0.9]])
        """
        _check_uncertainty(settings)
        if (face := self._calibrate_wrapper(X)) is not None:
            return face.predict_marginals(X, **settings)
        rows, found = self._get_map(POSITIONS).rows, self.ask("predict_marginals", X, **settings)
        if settings.get("cliques") is not None:
            warn_user("marginals of cliques are those of the estimator: positions are calibrated")
            return _map_marginals(found[0], rows), *found[1:]
        return _map_marginals(found, rows)

    @Question
    def predict_proba(self, X: Any, **settings: Any) -> Any:
        """Compute calibrated probabilities of single labels, of several labels, or of labels of sequences.

        Parameters
        ----------
        X : array (n, d), or any other form that the estimator takes
            The inputs.
        **settings : object
            Keyword arguments of the estimator's method.

        Returns
        -------
        array (n, n_labels) or list of arrays (T, n_labels)
            The probabilities.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import KernelClassifier
        >>> from kernelfields.uncertainty import calibrate
        >>> random = np.random.default_rng(0)
        >>> y = random.integers(2, size=90)
        >>> X = y[:, None] + random.normal(size=(90, 1))
        >>> classifier = KernelClassifier("linear", prior_variance=1.0).fit(X[:30], y[:30])
        >>> calibrate(classifier, X[30:], y[30:]).predict_proba([[0.0], [1.0]]).round(1)
        array([[0.5, 0.5],
               [0.3, 0.7]])
        """
        _check_uncertainty(settings)
        if (face := self._calibrate_wrapper(X)) is not None:
            return face.predict_proba(X, **settings)
        if get_answer_format(self).is_single:
            return self._get_map(POSITIONS).rows(self.ask("predict_proba", X, **settings))
        found = self.predict_marginals(X, **settings)
        return found if isinstance(found, list) else found[..., 1]

    @Question
    def predict_log_proba(self, X: Any, **settings: Any) -> np.ndarray:
        """Compute the logarithms of :meth:`predict_proba`.

        Parameters
        ----------
        X : array (n, d), or any other form that the estimator takes
            The inputs.
        **settings : object
            Keyword arguments of the estimator's method.

        Returns
        -------
        array (n, n_labels)
            The logarithms.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import KernelClassifier
        >>> from kernelfields.uncertainty import calibrate
        >>> random = np.random.default_rng(0)
        >>> y = random.integers(2, size=90)
        >>> X = y[:, None] + random.normal(size=(90, 1))
        >>> classifier = KernelClassifier("linear", prior_variance=1.0).fit(X[:30], y[:30])
        >>> calibrate(classifier, X[30:], y[30:]).predict_log_proba([[1.0]]).round(2)
        array([[-1.15, -0.38]])
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X, **settings))

    @Question
    def predict_entities(self, X: Any, **settings: Any) -> list[list]:
        """Predict entities with calibrated probabilities, their alternatives included.

        Parameters
        ----------
        X : list of arrays, or any other form that the estimator takes
            The items.
        **settings : object
            Keyword arguments of the estimator's method.

        Returns
        -------
        list of lists of Entity
            The entities of each item.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import ChainCRF
        >>> from kernelfields.uncertainty import calibrate
        >>> random = np.random.default_rng(0)
        >>> numbers = [random.integers(2, size=5) for _ in range(60)]
        >>> X = [own[:, None] + random.normal(size=(5, 1)) for own in numbers]
        >>> y = [np.where(own, "B-name", "O") for own in numbers]
        >>> crf = ChainCRF("linear", prior_variance=1.0).fit(X[:30], y[:30])
        >>> (entity,) = calibrate(crf, X[30:], y[30:]).predict_entities([[[-1.0], [3.0]]])[0]
        >>> entity.label, entity.begin, round(entity.probability, 1)
        ('name', 1, 1.0)
        """
        settings = {"scheme": self.scheme} | settings
        if (face := self._calibrate_wrapper(X)) is not None:
            return face.predict_entities(X, **settings)
        ways, found = self._get_map(ENTITIES), self.ask("predict_entities", X, **settings)

        def mapped(entity: Any) -> Any:
            chance = float(ways.events(np.array([entity.probability]))[0])
            return entity._replace(probability=chance, alternatives=tuple(map(mapped, entity.alternatives)))

        return [[mapped(entity) for entity in own] for own in found]

    @Question
    def predict_segments(self, X: Any, **settings: Any) -> list[list]:
        """Predict segments with calibrated probabilities: a segment is an entity.

        Parameters
        ----------
        X : list of arrays, or any other form that the estimator takes
            The items.
        **settings : object
            Keyword arguments of the estimator's method.

        Returns
        -------
        list of lists of Segment
            The segments of each item.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import SegmentCRF
        >>> from kernelfields.uncertainty import calibrate
        >>> random = np.random.default_rng(0)
        >>> y = [np.repeat(random.permutation(2), 3) for _ in range(60)]
        >>> X = [labels[:, None] + random.normal(size=(6, 1)) for labels in y]
        >>> crf = SegmentCRF("linear", prior_variance=1.0).fit(X[:30], y[:30])
        >>> segments = calibrate(crf, X[30:], y[30:]).predict_segments([[[0.0]] * 3 + [[2.0]] * 3])[0]
        >>> [(segment.label, segment.begin, segment.end) for segment in segments]
        [(0, 0, 3), (1, 3, 6)]
        """
        if (face := self._calibrate_wrapper(X)) is not None:
            return face.predict_segments(X, **settings)
        ways, found = self._get_map(ENTITIES), self.ask("predict_segments", X, **settings)
        chances = [ways.events(np.array([segment.probability for segment in own])).tolist() for own in found]
        return [
            [segment._replace(probability=chance) for segment, chance in zip(*pair, strict=True)]
            for pair in zip(found, chances, strict=True)
        ]

    @Question
    def predict_nbest(self, X: Any, k: int, **settings: Any) -> list[list[tuple[Any, float]]]:
        """Predict the k best labellings with calibrated probabilities.

        Parameters
        ----------
        X : list of arrays, or any other form that the estimator takes
            The items.
        k : int
            The number of labellings of each item.
        **settings : object
            Keyword arguments of the estimator's method.

        Returns
        -------
        list of lists of (labels, float)
            The labellings of each item with the logarithms of their probabilities, the best first.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import ChainCRF
        >>> from kernelfields.uncertainty import calibrate
        >>> random = np.random.default_rng(0)
        >>> y = [random.integers(2, size=5) for _ in range(60)]
        >>> X = [labels[:, None] + random.normal(size=(5, 1)) for labels in y]
        >>> crf = ChainCRF("linear", prior_variance=1.0).fit(X[:30], y[:30])
        >>> best = calibrate(crf, X[30:], y[30:]).predict_nbest([[[-1.0], [2.0]]], 2)[0]
        >>> [(labels.tolist(), round(float(np.exp(log)), 1)) for labels, log in best]
        [([0, 1], 0.7), ([1, 1], 0.3)]
        """
        if (face := self._calibrate_wrapper(X)) is not None:
            return face.predict_nbest(X, k, **settings)
        found = self.ask("predict_nbest", X, k, **settings)
        if get_answer_format(self).is_single:
            rows, ranked = self.predict_log_proba(X, **settings), [[label for label, _ in own] for own in found]
            logs = [row[np.searchsorted(self.classes_, own)] for row, own in zip(rows, ranked, strict=True)]
        else:
            ways = self._get_map(LABELLINGS)
            with np.errstate(divide="ignore"):
                logs = [np.log(ways.events(np.exp([log for _, log in own]))) for own in found]
        return [
            [(labels, log) for (labels, _), log in zip(own, new.tolist(), strict=True)]
            for own, new in zip(found, logs, strict=True)
        ]

    @Question
    def predict_joint(self, X: Any, **settings: Any) -> tuple[np.ndarray, np.ndarray]:
        """Predict the most probable set of labels of each instance, with its calibrated probability.

        Parameters
        ----------
        X : array (n, d), or any other form that the estimator takes
            The instances.
        **settings : object
            Keyword arguments of the estimator's method.

        Returns
        -------
        pair of arrays (n, n_labels) and (n,)
            The labels and their probabilities.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import MultiLabelCRF
        >>> from kernelfields.uncertainty import calibrate
        >>> random = np.random.default_rng(0)
        >>> y = np.repeat(random.integers(2, size=(90, 1)), 2, axis=1)
        >>> X = y + random.normal(size=(90, 2))
        >>> crf = MultiLabelCRF("linear", prior_variance=1.0).fit(X[:30], y[:30])
        >>> labels, probabilities = calibrate(crf, X[30:], y[30:]).predict_joint([[-1.0, 0.0], [2.0, 1.0]])
        >>> labels, probabilities.round(1)
        (array([[0, 0],
               [1, 1]]), array([0.7, 0.9]))
        """
        if (face := self._calibrate_wrapper(X)) is not None:
            return face.predict_joint(X, **settings)
        labels, chances = self.ask("predict_joint", X, **settings)
        return labels, self._get_map(LABELLINGS).events(chances)

    @Question
    def show(self, x: Any, *arguments: Any, **settings: Any) -> Any:
        """Draw one item with calibrated probabilities.

        Parameters
        ----------
        x : array, or any other form of an item
            The item.
        *arguments : object
            Arguments of the estimator's method.
        **settings : object
            Keyword arguments of the estimator's method.

        Returns
        -------
        picture
            What notebooks display, as HTML.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import ChainCRF
        >>> from kernelfields.uncertainty import calibrate
        >>> random = np.random.default_rng(0)
        >>> y = [random.integers(2, size=5) for _ in range(60)]
        >>> X = [labels[:, None] + random.normal(size=(5, 1)) for labels in y]
        >>> crf = ChainCRF("linear", prior_variance=1.0).fit(X[:30], y[:30])
        >>> shown = calibrate(crf, X[30:], y[30:]).show(X[0])
        >>> shown.marginals.shape
        (5, 2)
        """
        if (face := self._calibrate_wrapper(x)) is not None:
            return face.show(x, *arguments, **settings)
        shown = self.ask("show", x, *arguments, **settings)
        segments = shown.segments
        if segments is not None:
            chances = self._get_map(ENTITIES).events(np.array([own[3] for own in segments]))
            segments = [(*own[:3], chance) for own, chance in zip(segments, chances.tolist(), strict=True)]
        marginals = self._get_map(POSITIONS).rows(np.asarray(shown.marginals))
        return replace(shown, marginals=marginals, segments=segments)

    def _calibrate_wrapper(self, X: Any) -> Any:
        """Return the inner wrapper with a calibrated field; None for a plain field, or before the fit.

        Tables and dicts are then read and written by the class that has them.
        """
        check_is_fitted(self, "maps_")
        elsewhere = "probabilities are calibrated in this process: collect items in a list first, X.compute()"
        refuse_collections(X, error=TypeError(elsewhere))
        inside = self.get_fitted()
        return inside.around(self.around(inside.get_fitted())) if isinstance(inside, WrappedField) else None

    def prepare_evaluation(self, X: Any, y: Any, labelled: bool) -> tuple[Self, Any, Any]:
        """Return the calibrated field, with X and y in its form, for evaluations.

        Parameters
        ----------
        X : object
            The inputs, as this estimator takes them.
        y : object
            The labels, or None.
        labelled : bool
            Whether labels may be a part of X, such as a column of a table.

        Returns
        -------
        tuple
            The estimator, X and y.
        """
        field, X, y = unwrap_field(self.estimator_, X, y, labelled=labelled)
        return self if field is self.estimator_ else self.around(field), X, y

    def reliability(self, X: Any, y: Any = None) -> Reliability:
        """Measure calibration errors before and after calibration.

        Parameters
        ----------
        X : list of arrays, or any other form that the estimator takes
            Items that neither the fit nor the calibration has seen.
        y : list of arrays, optional
            Their labels; left out if they are a column of X.

        Returns
        -------
        Reliability
            A table whose ``rows`` have, for positions, entities and labellings, the number of probabilities and the
            expected calibration error over ten bins, before and after.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import ChainCRF
        >>> from kernelfields.uncertainty import calibrate
        >>> random = np.random.default_rng(0)
        >>> y = [random.integers(2, size=5) for _ in range(90)]
        >>> X = [labels[:, None] + random.normal(size=(5, 1)) for labels in y]
        >>> crf = ChainCRF("linear", prior_variance=1.0).fit(X[:30], y[:30])
        >>> calibrated = calibrate(crf, X[30:60], y[30:60])
        >>> [(what, number) for what, number, _, _ in calibrated.reliability(X[60:], y[60:]).rows]
        [('positions', 150), ('entities', 86), ('labellings', 30)]
        """
        check_is_fitted(self, "maps_")
        judged = HeldOutProbabilities(self.estimator_, X, y, self.scheme)
        before, after = (
            event_calibration_error(table.max(axis=1), table.argmax(axis=1) == judged.true)
            for table in (judged.table, self.maps_[POSITIONS].rows(judged.table))
        )
        rows = [(POSITIONS, len(judged.true), before, after)]
        for name, (chances, happened) in judged.events.items():
            if name in self.maps_ and len(chances):
                mapped = self.maps_[name].events(chances)
                before, after = (event_calibration_error(own, happened) for own in (chances, mapped))
                rows.append((name, len(chances), before, after))
        return Reliability(rows)

    def _get_map(self, what: str) -> Scaling | Steps:
        if what not in self.maps_:
            raise ValueError(
                f"the items of the calibration had no {what} with a probability: give it items with all labels"
            )
        return self.maps_[what]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "maps_")

    def _to_document(self) -> Document:
        """Describe the estimator and the maps by plain values and arrays."""
        kind, document = describe_model(self.estimator_, "the estimator")
        return {
            "parameters": describe_parameters(clone(self).set_params(estimator=None)),
            "model": {"kind": kind, "document": document},
            "maps": {name: {"steps": isinstance(own, Steps), **vars(own)} for name, own in self.maps_.items()},
        }

    @classmethod
    def _from_document(cls, document: Document, callables: Functions | None = None) -> Self:
        """Rebuild the fitted estimator from its document; errors of any kind for an invalid one."""
        model = rebuild_estimator(cls, document["parameters"], callables or {})
        described = document["model"]
        model.estimator = model.estimator_ = rebuild_model(described["kind"], described["document"], callables)
        check_declared(model)
        model.maps_ = {}
        for name, own in document["maps"].items():
            arrays = [np.asarray(own[key]) for key in (("places", "values") if own["steps"] else ("slopes", "biases"))]
            if len(arrays[0]) != len(arrays[1]) or not all(np.isfinite(array).all() for array in arrays):
                raise ValueError(f"the map of {name} must be two arrays of finite numbers, equally long")
            model.maps_[name] = (Steps if own["steps"] else Scaling)(*arrays)
        return model


def calibrate(
    estimator: BaseEstimator, X: Any, y: Any = None, *, method: str = "temperature", scheme: str | None = "auto"
) -> CalibratedField:
    """Calibrate the probabilities of a fitted estimator on items outside its fit.

    Parameters
    ----------
    estimator : estimator or Pipeline
        A fitted estimator of labels.
    X : list of arrays, or any other form that the estimator takes
        The held-out items.
    y : list of arrays, optional
        Their labels, which may be partly known; left out if they are a column of X.
    method : {"temperature", "isotonic"}, default "temperature"
        The form of the maps: one number, or any map that rises, which takes more data.
    scheme : str or None, default "auto"
        How labels write entities, as in :meth:`kernelfields.ChainCRF.predict_entities`.

    Returns
    -------
    CalibratedField
        The estimator with calibrated probabilities.

    Raises
    ------
    ValueError
        If no label is known, or if the estimator was fitted to these items.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import ChainCRF
    >>> from kernelfields.uncertainty import calibrate
    >>> random = np.random.default_rng(0)
    >>> y = [random.integers(2, size=5) for _ in range(60)]
    >>> X = [labels[:, None] + random.normal(size=(5, 1)) for labels in y]
    >>> crf = ChainCRF("linear", prior_variance=1.0).fit(X[:30], y[:30])
    >>> calibrated = calibrate(crf, X[30:], y[30:])
    >>> sorted(calibrated.maps_)
    ['entities', 'labellings', 'positions']
    """
    return CalibratedField(estimator, method=method, scheme=scheme).fit(X, y)


def _map_marginals(marginals: Any, rows: Any) -> Any:
    """Apply a map to the rows of marginals, of each item or in one array."""
    return rows(marginals) if isinstance(marginals, np.ndarray) else Ragged(rows(own) for own in marginals)


def _check_uncertainty(settings: Mapping[str, Any]) -> None:
    if settings.get("uncertainty"):
        raise ValueError(
            "uncertainty=True is another correction than calibration, fitted to marginals without it: ask estimator_"
        )


def _log_odds(chances: np.ndarray) -> np.ndarray:
    kept = np.clip(chances, _CLOSEST, 1.0 - _CLOSEST)
    return np.log(kept) - np.log1p(-kept)


def _fit_rows(table: np.ndarray, true: np.ndarray, method: str) -> Scaling | Steps:
    """Fit a map to marginals (N, L) with true columns ``true`` (N,)."""
    hits = np.zeros(table.shape, dtype=bool)
    hits[np.arange(len(true)), true] = True
    possible = (table > 0.0) | hits
    if method == "isotonic":
        return _fit_steps(table[possible], hits[possible].astype(np.float64))
    return Scaling(np.array([1.0 / position_loss(table, true, possible=possible).temperature]), np.zeros(1))


def _fit_events(chances: np.ndarray, happened: np.ndarray, method: str) -> Scaling | Steps:
    """Fit a map to probabilities (M,) of events and their outcomes."""
    if method == "isotonic":
        return _fit_steps(chances, happened.astype(np.float64))
    odds, signs, start = _log_odds(chances), np.where(happened, 1.0, -1.0), np.array([1.0, 0.0])

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
        scores, off = signs * (theta[0] * odds + theta[1]), theta - start
        weights = -signs * expit(-scores)
        gradient = np.array([weights @ odds, weights.sum()]) + _PULL * off
        return float(np.logaddexp(0.0, -scores).sum() + 0.5 * _PULL * off @ off), gradient

    bounds = [(1e-3, 1e3), (None, None)]
    slope, bias = scipy.optimize.minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    return Scaling(np.array([slope]), np.array([bias]))


def _fit_steps(chances: np.ndarray, happened: np.ndarray) -> Steps:
    """Fit a nondecreasing map by least squares, bounded away from 0 and 1."""
    least = 0.5 / (len(happened) + 1.0)
    found = IsotonicRegression(y_min=least, y_max=1.0 - least, out_of_bounds="clip").fit(chances, happened)
    return Steps(np.asarray(found.X_thresholds_), np.asarray(found.y_thresholds_))


def event_calibration_error(probabilities: np.ndarray, happened: np.ndarray, n_bins: int = 10) -> float:
    """Return the mean distance between probabilities and frequencies of events in bins of equal width."""
    cells = np.minimum((np.asarray(probabilities) * n_bins).astype(np.int64), n_bins - 1)
    excess = np.bincount(cells, np.asarray(probabilities) - np.asarray(happened, dtype=np.float64), minlength=n_bins)
    return float(np.abs(excess).sum() / max(len(cells), 1))
