"""The form of answers about labels: by sequence or graph, or by row; for several labels see instances.py.

    rows of batches (N, ..)  ->  a list of arrays (T, ..)     labels of the positions of each item
                             ->  one array (n, ..)            one label for each item
                             ->  one array (n, K, ..)         several yes-or-no labels for each item

A form holds nothing of a fit, so that an estimator has one before it is fitted; what depends on labels takes the model
that has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar

import numpy as np

from kernelfields.data import label_forms
from kernelfields.data.ragged import Ragged, plain_strings
from kernelfields.data.readers import read_labels
from kernelfields.data.reading import SEQUENCES, ItemNames
from kernelfields.data.whole_numbers import labels_as_array

if TYPE_CHECKING:
    from kernelfields.estimators.answering.spans import SpanReading
    from kernelfields.inference.choice import FamilySpec

#: Answers with one entry for each item: a list of arrays, or one array, as the estimator has it.
ByItem: TypeAlias = Any
#: What to show for each position of each item, such as its word; of single labels, for each item.
Tokens: TypeAlias = Sequence[Any]
#: Rows of each batch, beside its packed data.
Parts: TypeAlias = Iterable[tuple[Any, np.ndarray]]


class Labelled(Protocol):
    """A fitted model with classes."""

    classes_: np.ndarray


Model = TypeVar("Model", bound=Labelled, contravariant=True)


@dataclass(frozen=True)
class AnswerFormat(Generic[Model]):
    """The form of answers for items with several positions: a list with an array for each item.

    Parameters
    ----------
    items : ItemNames, default SEQUENCES
        The names of items and their positions in messages.
    headings : pair of str, default ("sequence", "position")
        The names of items and their positions in tables.
    spans : SpanReading or None, default None
        How labels write spans; None for items that have none.
    """

    items: ItemNames = SEQUENCES
    headings: tuple[str, str] = ("sequence", "position")
    spans: SpanReading | None = None

    #: Whether every item has one label.
    is_single: ClassVar[bool] = False

    def labels(self, model: Model) -> np.ndarray:
        """Return the labels of the columns of marginals."""
        return model.classes_

    def arrange(self, parts: Parts) -> ByItem:
        """Join rows (N, ..) of batches."""
        return Ragged(piece for data, rows in parts for piece in data.split(rows))

    def arrange_labels(self, parts: Parts) -> ByItem:
        """Join labels (N,) of batches, strings as lists."""
        return Ragged(piece for data, labels in parts for piece in plain_strings(data.split(labels)))

    def arrange_draws(self, parts: Parts, labels: np.ndarray, single: bool) -> ByItem:
        """Join draws (k, N) of batches, as class numbers; ``single`` for one draw without an axis."""
        pieces = (piece for data, drawn in parts for piece in data.split(labels[drawn].T))
        return Ragged(piece[:, 0] if single else piece.T for piece in pieces)

    def arrange_variances(self, parts: Parts) -> ByItem:
        """Join the variances of potentials (N, L) of batches."""
        return self.arrange(parts)

    def labelling(self, labels: np.ndarray) -> object:
        """Return the labels (T,) of one item."""
        return labels

    def place(self, model: Model, whole: int, part: int, tokens: Tokens | None) -> tuple[int, object, object]:
        """Return the names of an item and a position, and the token there; None without tokens."""
        return whole, part, None if tokens is None else tokens[whole][part]

    def read_known(self, model: Model, known: object, data: Any) -> tuple[np.ndarray, label_forms.LabelWeights | None]:
        """Return known labels (N,) and, unless all are known, log-weights (N, L)."""
        return read_labels(known, model.classes_, data.lengths, self.items)[:2]

    def score(self, model: Any, X: object, y: Any, sample_weight: object, decode: str | None) -> float:
        """Return the share of positions whose label is the predicted one."""
        lengths, y = model.structure.read(X).lengths, model.structure.position_labels(y)
        return label_forms.share_right(
            y, model.classes_, lengths, lambda: model.predict(X, decode), sample_weight, self.items
        )

    def known_log_weights(self, model: Model, known: object, data: Any, spec: FamilySpec | None = None) -> np.ndarray:
        """Return the log-weights (N, L) of known labels, minus infinity for impossible labels.

        They are in the form of a ``y`` of ``fit``. ValueError if they do not fit the data, or break a rule of ``spec``.
        """
        try:
            labels, partial = self.read_known(model, known, data)
            n_labels = len(self.labels(model))
            log_weights = label_forms.as_log_weights(labels, partial, n_labels)
            if spec is not None:
                from kernelfields.inference.checks import check_labels

                check_labels(data.with_known(labels, partial, n_labels).nonempty, spec, model.classes_)
            return log_weights
        except (TypeError, ValueError) as error:
            raise type(error)(f"known: {error}") from error


def get_answer_format(model: Any) -> AnswerFormat[Any]:
    """Return the form of the answers of an estimator."""
    return model._answer_format


@dataclass(frozen=True)
class SingleFormat(AnswerFormat[Labelled]):
    """The form of answers for items with one label each: one array of all."""

    is_single: ClassVar[bool] = True

    def arrange(self, parts: Parts) -> np.ndarray:
        """Join rows (n, ..) of batches."""
        return np.concatenate([rows for _, rows in parts])

    def arrange_labels(self, parts: Parts) -> np.ndarray:
        """Join labels (n,) of batches."""
        return self.arrange(parts)

    def arrange_draws(self, parts: Parts, labels: np.ndarray, single: bool) -> np.ndarray:
        """Join draws (k, n) of batches."""
        drawn = labels[np.concatenate([rows for _, rows in parts], axis=1)]
        return drawn[0] if single else drawn

    def labelling(self, labels: np.ndarray) -> object:
        """Return the label of one item."""
        return labels[0]

    def place(self, model: Labelled, whole: int, part: int, tokens: Tokens | None) -> tuple[int, object, object]:
        """Return the name of an item, an empty position, and the token of the item."""
        return whole, "", None if tokens is None else tokens[whole]

    def score(self, model: Any, X: object, y: Any, sample_weight: object, decode: str | None) -> float:
        """Return the share of items whose label is the predicted one."""
        if label_forms.are_partly_known(y):
            return super().score(model, X, y, sample_weight, decode)
        from sklearn.metrics import accuracy_score

        # Whole numbers in a list stay such, where scikit-learn would make floats of them.
        true = labels_as_array(y) if isinstance(y, list | tuple) else y
        return float(accuracy_score(true, model.predict(X), sample_weight=sample_weight))
