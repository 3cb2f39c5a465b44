"""Inspection of fitted fields by structure: names of inputs, words for cliques, items, pictures.

There is one for sequences and one for rows; those of graphs, segments and instances are beside their estimators. What
depends on a fit takes the fitted model.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelfields.data.reading import has_words
from kernelfields.estimators import library

if TYPE_CHECKING:
    from kernelfields.objective.term import Term
    from kernelfields.reports.inspection import WeightsTable


@dataclass(frozen=True)
class Inspection(ABC):
    """Inspection of a fitted field: the base class for all structures."""

    @abstractmethod
    def item(self, model: Any, x: object, y: object, caller: str) -> Any:
        """Return one item as data, labelled if y is given."""

    @abstractmethod
    def step_words(self, model: Any, term: Term, nodes: list[int], place: int, compared: library.Compared) -> str:
        """Return the words for the other labels of a clique if the label at ``place`` changes."""

    def transitions(self, model: Any) -> np.ndarray | None:
        """Return the constant scores (L, L) of neighbouring labels; None without any."""
        return None

    @property
    def why_unexplained(self) -> str:
        """Reason why single labels have no explanations; empty if explanations exist."""
        return ""

    def tokens(self, model: Any, x: Any) -> list[str] | None:
        """Return the default tokens of positions: the words of x, None without words."""
        return [str(word) for word in x] if has_words([x]) else None

    def feature_names(self, model: Any, term: Term, given: object) -> Sequence[str]:
        """Return the names of the input columns of a term: given names, names of the fit, or "x0", "x1", .."""
        reader = model._reader
        return reader.steps.names(library.input_names(reader.rows.names, reader.rows.n_features, given))

    def weights(
        self,
        model: Any,
        top: int | tuple[int, int] | None,
        labels: Sequence[object] | None,
        feature_re: str | re.Pattern[str] | None,
        feature_names: object,
    ) -> WeightsTable:
        """Return the largest weights of every label, and the scores of pairs of labels."""
        field = model._field()
        classes, names_of = model.classes_.tolist(), lambda term: self.feature_names(model, term, feature_names)
        return library.tabulate_weights(field.terms, field.spec, classes, names_of, top, labels, feature_re)


@dataclass(frozen=True)
class SequenceInspection(Inspection):
    """Inspection of fields on sequences."""

    def item(self, model: Any, x: object, y: object, caller: str) -> Any:
        """Return one sequence as data, labelled if y is given."""
        library.check_one_sequence(x, caller)
        data = model.structure.read([x], None if y is None else [y])
        if not data.n_positions:
            names = model._answer_format.items
            raise ValueError(f"{caller} takes a {names.whole} with {names.part}s, got an empty one")
        return data

    def step_words(self, model: Any, term: Term, nodes: list[int], place: int, compared: library.Compared) -> str:
        """Return the words for the labels before and after."""
        classes, labels = compared.classes, compared.labels
        names = [
            f"[{classes[labels[v]]}]" if index == place else f"{classes[labels[v]]}" for index, v in enumerate(nodes)
        ]
        if term.reach == 1:
            return f"transition from {names[0]}" if place == 1 else f"transition to {names[1]}"
        if len(nodes) > 2:
            return f"{len(nodes)}-gram {' '.join(names)}"
        return f"{names[1 - place]} {term.reach} steps {'before' if place else 'after'}"

    def transitions(self, model: Any) -> np.ndarray | None:
        """Return the constant scores (L, L) of neighbouring labels; None without any."""
        return model.transitions_

    def picture(
        self, model: Any, x: object, y: Sequence | None, tokens: Sequence | None, caption: str
    ) -> library.LabelledSequence:
        """Return one sequence with its predicted labels, in colours."""
        library.check_one_sequence(x, "show")
        labels, marginals = model.predict([x])[0], model.predict_marginals([x])[0]
        tokens = self.tokens(model, x) if tokens is None else tokens
        return library.LabelledSequence(labels, marginals, model.classes_.tolist(), tokens, y, caption)


@dataclass(frozen=True)
class RowInspection(Inspection):
    """Inspection of fields on rows."""

    def item(self, model: Any, x: object, y: object, caller: str) -> Any:
        """Return one row as data, labelled if y is given."""
        data = model.structure.read(library.one_row(x), None if y is None else np.atleast_1d(np.asarray(y)))
        if len(data.lengths) != 1:
            noun = model._answer_format.headings[0]
            raise ValueError(f"{caller} takes one {noun}, got {len(data.lengths)}: pass one, such as X[:1]")
        return data

    def step_words(self, model: Any, term: Term, nodes: list[int], place: int, compared: library.Compared) -> str:
        """Return no words: rows have single labels."""
        return ""
