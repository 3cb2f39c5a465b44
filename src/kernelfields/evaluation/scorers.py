"""Scorers of scikit-learn that count positions: of sequences and graphs, whose items have a label at each.

    score = metric(the labels of all positions, the labels or probabilities of all positions)

scikit-learn's scorer is applied to a classifier of positions that wraps the model: its inputs are the items, its
predictions those of all positions, concatenated. Positions with an unknown label are left out. Probabilities are
scored among all classes of the model, also if a class is not among the labels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import get_scorer

from kernelfields.data.partial_labels import SoftTargets, single_labels
from kernelfields.data.reading import is_sequence
from kernelfields.data.segments import are_segments, read_segments

# Scorers whose metric is undefined without all labels, which it takes by this name.
_NEED_LABELS = ("neg_log_loss", "d2_log_loss_score")


@dataclass(frozen=True)
class PositionScorer:
    """A scikit-learn scorer that counts positions of items; see ``position_scorer``.

    Parameters
    ----------
    scoring : str or scorer
        The name of a scorer of scikit-learn, or what ``make_scorer`` returns.

    Examples
    --------
    >>> from kernelfields.evaluation import PositionScorer
    >>> PositionScorer("f1_macro").__name__
    'f1_macro'
    """

    scoring: str | Callable[..., float]

    @property
    def __name__(self) -> str:
        """The name of the scorer."""
        return self.scoring if isinstance(self.scoring, str) else repr(self.scoring)

    def __call__(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the score of a fitted estimator; ``sample_weight`` has one weight for each item."""
        labels, known, lengths = _positions(y)
        given: dict[str, Any] = {}
        if sample_weight is not None:
            given["sample_weight"] = np.repeat(np.asarray(sample_weight, dtype=np.float64), lengths)[known]
        stands = _PositionClassifier(estimator, known)
        scorer = get_scorer(self.scoring)
        if self.scoring in _NEED_LABELS:
            with config_context(enable_metadata_routing=True):
                return float(scorer(stands, X, labels, labels=stands.classes_, **given))
        return float(scorer(stands, X, labels, **given))


class _PositionClassifier(ClassifierMixin, BaseEstimator):
    """The answers of a fitted model of items at ``known`` positions, as a classifier of positions."""

    def __init__(self, model: Any, known: np.ndarray):
        self.model = model
        self.known = known

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def fit(self, X: Any, y: Any) -> _PositionClassifier:
        """Return the classifier unchanged: its model is fitted already."""
        return self

    @property
    def classes_(self) -> np.ndarray:
        """The labels in the order of the columns of probabilities."""
        return np.asarray(self.model.classes_)

    def predict(self, X: Any) -> np.ndarray:
        """Return the labels of all positions."""
        return self._joined(self.model.predict(X))

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probabilities of the labels of all positions."""
        asked = getattr(self.model, "predict_proba", None) or self.model.predict_marginals
        return self._joined(asked(X))

    def _joined(self, answers: Any) -> np.ndarray:
        if isinstance(answers, np.ndarray) and answers.dtype != object:
            raise TypeError(
                f"position_scorer counts the positions of items, and {type(self.model).__name__} has one answer for "
                "each: pass the name of the scorer itself"
            )
        joined = np.concatenate(list(answers))
        if len(joined) != len(self.known):
            raise ValueError(f"y has {len(self.known)} labels, but X has {len(joined)} positions")
        return joined[self.known]


def position_scorer(scoring: str | Callable[..., float]) -> PositionScorer:
    """Return a scikit-learn scorer that counts the positions of sequences or graphs.

    ``cross_val_score``, ``GridSearchCV``, ``learning_curve`` and others take it as ``scoring``. By its name alone a
    scorer would compare whole items.

    Parameters
    ----------
    scoring : str or scorer
        The name of a scorer of scikit-learn, such as "f1_macro", "neg_log_loss" or "roc_auc_ovr", or what
        ``make_scorer`` returns.

    Returns
    -------
    PositionScorer
        The scorer: a function of a fitted estimator, inputs and labels.

    Raises
    ------
    ValueError
        If scikit-learn has no scorer of that name.

    See Also
    --------
    kernelfields.evaluate : Score labels, entities and probabilities, with intervals.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import ChainCRF
    >>> from kernelfields.evaluation import position_scorer
    >>> from sklearn.model_selection import cross_val_score
    >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])] * 4
    >>> y = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]] * 4
    >>> crf = ChainCRF("rbf", prior_variance=1.0, scale=True, random_state=0)
    >>> cross_val_score(crf, X, y, scoring=position_scorer("balanced_accuracy"), cv=2)
    array([1., 1.])
    """
    get_scorer(scoring)
    return PositionScorer(scoring)


def _positions(y: Any) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Return the known labels of positions, their mask (N,), and the lengths of items."""
    if isinstance(y, SoftTargets):
        raise TypeError("scores count labels, and y holds SoftTargets: log_likelihood(X, y) judges probabilities")
    listed = read_segments(y)[0] if are_segments(y) else y
    if not is_sequence(listed) or not len(listed) or not all(own is None or is_sequence(own) for own in listed):
        raise TypeError(
            "y must hold a list of labels for each item: for one label each, pass the name of the scorer itself"
        )
    if any(own is None for own in listed):
        raise ValueError("y is None for a whole item: leave out items without any label")
    items = [single_labels(own) for own in listed]
    known = np.array([label is not None for own in items for label in own], dtype=bool)
    labels = [label for own in items for label in own if label is not None]
    if not labels:
        raise ValueError("no label is known: there is no position to score")
    return np.array(labels), known, [len(own) for own in items]
