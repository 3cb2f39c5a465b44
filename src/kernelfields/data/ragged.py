"""A list with one array, or one list of strings, per sequence or graph, whose parts numpy can join again.

    np.concatenate([answers of one fold, answers of another])

is how scikit-learn's ``cross_val_predict`` puts folds together. Of plain lists numpy makes a table first, which fails
where lengths differ. Here the items stay whole: they come back as an array of objects (S,), one for each sequence.
Where all are arrays of the same shape numpy does what it does with any list, and the result is a table (S, T).

Labels that are strings leave as lists of ``str``: seqeval takes no arrays, and neither does json.

Metrics of scikit-learn take one label an entry. Of two sequences of equal lengths they would make a table, and compare
whole rows of it: predictions have no shape to them, and say so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from typing import NoReturn

import numpy as np

_PLAIN = np.empty(0)


class Ragged(list):
    """A list of arrays or lists, the same as any other list but for the way in which numpy joins several."""

    def __array_function__(
        self, function: Callable, types: Iterable[type], arguments: tuple, settings: dict[str, object]
    ) -> object:
        """Join lists of lists, and of arrays of different shapes; leave everything else to numpy."""
        if function is np.concatenate and not settings and len(arguments) == 1:
            parts = list(arguments[0])
            if all(isinstance(part, Ragged) for part in parts):
                items = list(chain.from_iterable(parts))
                if any(isinstance(item, list) for item in items) or len({item.shape for item in items}) > 1:
                    return array_of_objects(items)
        # Lists of this kind are among the arguments as lists: numpy needs no type of its own for them.
        return _PLAIN.__array_function__(function, (), arguments, settings)


class LabelLists(Ragged):
    """Predicted labels, one array or list per sequence or graph, which metrics of scikit-learn refuse to compare."""

    @property
    def shape(self) -> NoReturn:
        """Raise TypeError: scikit-learn asks for it before it counts what a metric is to compare."""
        raise TypeError(
            "predictions are a list with the labels of each item, and metrics of scikit-learn count single labels: "
            "use score(X, y), leave out scoring=, or compare np.concatenate(y) with np.concatenate(predictions); "
            "list(predictions) is a plain list"
        )


def plain_strings(labellings: list[np.ndarray]) -> list:
    """Return arrays of strings as lists; those of numbers as they are."""
    return [labels.tolist() if labels.dtype.kind == "U" else labels for labels in labellings]


def array_of_objects(items: list) -> np.ndarray:
    """Return an array (S,) of the items themselves, lists of equal lengths too."""
    joined = np.empty(len(items), dtype=object)
    for index, item in enumerate(items):
        joined[index] = item
    return joined
