"""Lists with one array, or one list of strings, per sequence or graph, which numpy joins.

    np.concatenate([answers of one fold, answers of another])

is how scikit-learn's ``cross_val_predict`` puts folds together. Of plain lists numpy makes a table first, which fails
where lengths differ. Here the items stay whole: they come back as an array of objects (S,), one for each sequence.
Where all are arrays of the same shape numpy does what it does with any list, and the result is a table (S, T).

Labels that are strings leave as lists of ``str``: seqeval takes no arrays, and neither does json.

Metrics of scikit-learn take one label an entry. Of two sequences of equal lengths they would make a table, and compare
whole rows of it: predictions have no shape to them, and say so. A scorer by name, as in ``scoring="accuracy"``, hands
the labels that a user passed to its metric as they are, and nothing of ours sees them: none can count positions.
Answers to such a scorer are refused by what ``error_score`` cannot turn into NaN. So are answers about several labels
of an instance to scorers of one label: log_loss would take their probabilities for a distribution.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any, NoReturn

import numpy as np

_PLAIN = np.empty(0)
# Where scikit-learn's scorers ask estimators, by the name of a function; and whose frames may lie between.
_SCORERS, _SCORING = "sklearn.metrics._scorer", "_score"
_BETWEEN = (
    *(
        "sklearn.",
        "kernelfields.models.wrapped_field",
        "kernelfields.engines.choice",
        "kernelfields.estimators.answers",
    ),
    *(
        "kernelfields.estimators.chain_crf",
        "kernelfields.estimators.graph_crf",
        "kernelfields.estimators.multilabel_crf",
        "kernelfields.estimators.answering",
        "kernelfields.compat",
        "kernelfields.uncertainty",
        "kernelfields.annotators",
    ),
)
# Where metrics of numbers are, which take any table of them.
_REGRESSION = "sklearn.metrics._regression"
# Metrics that take the indicators of several labels, (n, K).
_OF_SEVERAL_LABELS = {
    *("accuracy_score", "hamming_loss", "zero_one_loss", "f1_score", "fbeta_score", "precision_score", "recall_score"),
    *("jaccard_score", "roc_auc_score", "average_precision_score", "dcg_score", "ndcg_score", "coverage_error"),
    *("label_ranking_average_precision_score", "label_ranking_loss"),
}


# check_scoring and __sklearn_tags__ see a scorer without its estimator, or an estimator without its scorer: answers are
# the first place where both meet, and an Exception there is turned into NaN.
class ScoringRefused(BaseException):
    """A scorer of scikit-learn that counts items has asked for labels or probabilities of positions.

    No Exception: scikit-learn makes NaN of each, with a warning, and a search then takes any candidate for the best.
    """


def refuse_named_scorers() -> None:
    """Raise ScoringRefused if the caller is a scorer with a metric of scikit-learn."""
    if (metric := _find_metric()) is not None:
        raise ScoringRefused(
            f"{metric.__name__} counts items, and these have a label at each position: pass scoring="
            "position_scorer(name) of kernelfields.evaluation, such as position_scorer('f1_macro'), leave out "
            "scoring= for the share of right labels, or take a FrameCRF, whose items are positions"
        )


def refuse_scorers_of_one_label() -> None:
    """Raise ScoringRefused if the caller is a scorer with a metric that takes no indicators of several labels."""
    metric = _find_metric()
    if metric is None or metric.__name__ in _OF_SEVERAL_LABELS or metric.__module__ == _REGRESSION:
        return
    raise ScoringRefused(
        f"{metric.__name__} counts instances with one label each, and these have several: pass the name of a scorer of "
        "several labels, such as 'f1_macro', 'accuracy' (all labels of an instance right) or 'roc_auc', or "
        "scoring='log_likelihood' of FieldSearchCV for probabilities"
    )


def _find_metric() -> Callable | None:
    """Return scikit-learn's metric of the scorer that asks the estimator; None without one."""
    frame: Any = inspect.currentframe()
    frame = frame.f_back.f_back.f_back
    while frame is not None and frame.f_globals.get("__name__", "").startswith(_BETWEEN):
        if frame.f_globals["__name__"] == _SCORERS and frame.f_code.co_name == _SCORING:
            metric: Any = getattr(frame.f_locals.get("self"), "_score_func", None)
            return metric if getattr(metric, "__module__", "").startswith("sklearn.") else None
        frame = frame.f_back
    return None


class Ragged(list):
    """A list of arrays or lists that numpy concatenates by items."""

    def __array_function__(
        self, function: Callable, types: Iterable[type], arguments: tuple, settings: dict[str, object]
    ) -> object:
        """Join lists of lists, and arrays of different shapes; leave everything else to numpy."""
        if function is np.concatenate and not settings and len(arguments) == 1:
            parts = list(arguments[0])
            if all(isinstance(part, Ragged) for part in parts):
                items = list(chain.from_iterable(parts))
                if any(isinstance(item, list) for item in items) or len({item.shape for item in items}) > 1:
                    return array_of_objects(items)
        # Lists of this kind are among the arguments as lists: numpy needs no type of its own for them.
        return _PLAIN.__array_function__(function, (), arguments, settings)


class LabelLists(Ragged):
    """Predicted labels, one array or list per sequence or graph; metrics of scikit-learn refuse them."""

    @property
    def shape(self) -> NoReturn:
        """Raise TypeError: metrics of scikit-learn need one label per sample."""
        raise TypeError(
            "predictions are a list with the labels of each item, and metrics of scikit-learn count single labels: "
            "use score(X, y), leave out scoring=, or compare np.concatenate(y) with np.concatenate(predictions); "
            "list(predictions) is a plain list"
        )


def plain_strings(labellings: list[np.ndarray]) -> list:
    """Return arrays of strings as lists, arrays of numbers unchanged."""
    return [labels.tolist() if labels.dtype.kind == "U" else labels for labels in labellings]


def array_of_objects(items: list) -> np.ndarray:
    """Return an object array (S,) of items, also for lists of equal lengths."""
    joined = np.empty(len(items), dtype=object)
    for index, item in enumerate(items):
        joined[index] = item
    return joined
