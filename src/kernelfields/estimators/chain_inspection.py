"""What a fitted chain field has learnt, and why it labels a sequence as it does."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.utils.validation import check_is_fitted

from kernelfields.estimators.chain_inputs import ChainInputs
from kernelfields.estimators.explanation import explain_chain, most_probable_others
from kernelfields.estimators.feature_weights import tabulate
from kernelfields.estimators.field_model import FieldModel
from kernelfields.estimators.parameters import check_count, is_whole
from kernelfields.features import is_feature_sequences
from kernelfields.inference.workers import Workers
from kernelfields.reports.explanations import Explanation
from kernelfields.reports.weights import WeightsTable

_SHOWN_CLASSES = 10


class ChainInspection:
    """Inspection of chain estimators; expects ``model_``, ``coef_``, ``classes_`` and fitted ``_inputs``."""

    model_: FieldModel
    classes_: np.ndarray
    coef_: dict[str, Any]
    _inputs: ChainInputs

    def weights(
        self,
        top: int | tuple[int, int] | None = 20,
        labels: Any = None,
        feature_re: str | re.Pattern[str] | None = None,
        *,
        feature_names: Any = None,
    ) -> WeightsTable:
        """Return the largest weights per label, the transitions, and scores of starts and ends, as a table.

        Print the table, or let a notebook show it; ``to_rows()`` gives its weights to csv and pandas.

        Parameters
        ----------
        top : how many weights of each label, the largest by size; a pair for so many positive and so many negative
            ones; None for all
        labels : list of the labels to show, in this order; None for all. Transitions are those between them.
        feature_re : regular expression; features are listed if it is found in their names
        feature_names : names of the input features. By default those of feature dicts, "x0", "x1", ... for arrays.

        With a window, names of neighbours' features begin with their offset: "[-1] word:the". Clique sets with a
        kernel that has no explicit features, such as RBF, have no weights per feature; the table says so.
        Transitions that depend on the inputs have one list for all pairs of labels.

        Weights are relative: adding a number to the weights of one feature for all labels changes no probability,
        so compare the labels of a feature. Where every label has a weight and there is no l1 penalty, the weights
        of a feature sum to zero over the labels. Weights of observed pairs alone, and transitions, need not.
        """
        check_is_fitted(self, "model_")
        return tabulate(
            self.model_,
            self.coef_,
            self.classes_.tolist(),
            self._feature_names(feature_names),
            top=_checked_top(top),
            shown=self._label_indices(labels),
            pattern=_compiled(feature_re),
        )

    def explain(
        self,
        x: Any,
        y: Any = None,
        top: int = 5,
        against: Any = None,
        *,
        feature_names: Any = None,
        tokens: Any = None,
        pivots: int = 0,
    ) -> Explanation:
        """Return, for one sequence, what moved the label at each position and away from which other label.

        The contributions at a position add up to the score of the labelling minus its score with the other label
        there: log p(y | x) - log p(y with the other label at t | x). Constraints are named beside them.

        Parameters
        ----------
        x : one sequence, in the form the model was fitted on: a list of feature dicts or of lists of feature
            strings, or an array (positions, features)
        y : labels of the sequence; None for the most probable labelling
        top : how many features to list at each position, the largest by size; what the others add up to is given.
            Transitions and kernels are always listed.
        against : a label, or a list with one per position, to compare with; None for the label of the largest
            marginal probability besides y. Where y is that label itself, the latter takes its place.
        feature_names : names of the input features, as in :meth:`weights`
        tokens : what to show for each position, such as its word
        pivots : how many training inputs to list for each kernel without explicit features: those whose kernel
            value times coefficient is largest
        """
        check_is_fitted(self, "model_")
        check_count(top, "top")
        if not is_whole(pivots) or pivots < 0:
            raise ValueError(f"pivots must be a whole number of at least 0, got {pivots!r}")
        if self.model_.reaches_far:
            raise ValueError(
                "explain compares labels by what they meet at their neighbours, and this field has cliques of "
                "longer reach: predict_marginals and coef_ have its figures"
            )
        names = self._feature_names(feature_names)
        check_one_sequence(x, "explain")
        chains, _ = self._inputs.chains([x], None if y is None else [y], None, self.classes_)
        self.model_.masks.check_lengths(chains.lengths)
        # numba loads with these modules; a program that never asks does not pay for it.
        from kernelfields.inference.chain import infer_chains
        from kernelfields.inference.chain_decoding import viterbi

        node, edge = self.model_.potentials(chains)
        workers = Workers(1)
        marginals = infer_chains(node, edge, chains.offsets, workers=workers).node_marginals
        labels = viterbi(node, edge, chains.offsets, workers=workers)[0] if y is None else chains.labels
        others = most_probable_others(marginals, labels)
        if against is not None:
            rivals = self._rivals(against, len(labels))
            others = np.where(rivals == labels, others, rivals)
        return explain_chain(
            self.model_,
            self.coef_,
            chains,
            labels,
            others,
            marginals,
            classes=self.classes_.tolist(),
            names=names,
            tokens=_checked_tokens(tokens, len(labels)),
            top=int(top),
            pivots=int(pivots),
        )

    def _feature_names(self, given: Any) -> Sequence[str]:
        n_features = self._inputs.n_features
        if given is None:
            encoder = self._inputs.encoder
            return [f"x{index}" for index in range(n_features)] if encoder is None else encoder.feature_names_
        if isinstance(given, str | bytes | Mapping) or not hasattr(given, "__len__"):
            raise TypeError(f"feature_names must be a list of {n_features} names, got {given!r:.60}")
        if len(given) != n_features:
            raise ValueError(f"feature_names has {len(given)} names, but the inputs have {n_features} features")
        return [str(name) for name in given]

    def _label_indices(self, labels: Any) -> list[int]:
        if labels is None:
            return list(range(len(self.classes_)))
        if isinstance(labels, str | bytes | Mapping) or not hasattr(labels, "__iter__"):
            raise TypeError(f"labels must be a list of labels, got {labels!r}: write [{labels!r}]")
        indices = list(dict.fromkeys(self._label_index(label, "labels") for label in labels))
        if not indices:
            raise ValueError("labels is empty: name at least one label, or leave it out for all")
        return indices

    def _label_index(self, label: Any, where: str) -> int:
        known = self.classes_.tolist()
        plain = label.item() if isinstance(label, np.generic) else label
        if plain not in known:
            shown = ", ".join(map(repr, known[:_SHOWN_CLASSES]))
            more = f" and {len(known) - _SHOWN_CLASSES} more" if len(known) > _SHOWN_CLASSES else ""
            raise ValueError(f"{where} holds the unknown label {plain!r}: known are {shown}{more}")
        return known.index(plain)

    def _rivals(self, against: Any, n_positions: int) -> np.ndarray:
        """Return the index of the label to compare with at each position, (T,)."""
        if not isinstance(against, list | tuple | np.ndarray) or np.ndim(against) == 0:
            return np.full(n_positions, self._label_index(against, "against"))
        if len(against) != n_positions:
            raise ValueError(
                f"against holds {len(against)} labels, but the sequence has {n_positions} positions: "
                "give one label, or one for each position"
            )
        return np.array([self._label_index(label, "against") for label in against])


def _checked_top(top: Any) -> int | tuple[int, int] | None:
    if top is None or (is_whole(top) and top >= 1):
        return top
    pair = isinstance(top, tuple | list) and len(top) == 2 and all(is_whole(n) and n >= 0 for n in top)
    if pair and any(top):
        return int(top[0]), int(top[1])
    raise ValueError(
        "top must be a whole number of at least 1, a pair (positive, negative) of them that are not both 0, "
        f"or None for all, got {top!r}"
    )


def _compiled(feature_re: Any) -> re.Pattern[str] | None:
    if feature_re is None:
        return None
    try:
        pattern = re.compile(feature_re)
    except (re.error, TypeError) as error:
        raise ValueError(f"feature_re {feature_re!r} is not a regular expression: {error}") from error
    if not isinstance(pattern.pattern, str):
        raise ValueError(f"feature_re must be a pattern of text, got {feature_re!r}: leave out the b")
    return pattern


def check_one_sequence(x: Any, caller: str) -> None:
    """Raise, in the caller's name, unless x can be one sequence; what is in it is checked where it is read."""
    first = x[0] if isinstance(x, list | tuple | np.ndarray) and len(x) else None
    row = first[0] if isinstance(first, list | tuple) and len(first) else None
    table = (
        scipy.sparse.issparse(first) or getattr(first, "ndim", 1) > 1 or isinstance(row, list | tuple | np.ndarray)
    )
    if table or is_feature_sequences(x):
        raise ValueError(f"{caller} takes one sequence, got a list of {len(x)} of them: pass one, such as X[0]")
    if isinstance(x, np.ndarray) and x.dtype != object and x.ndim != 2:
        raise ValueError(f"{caller} takes one sequence of shape (positions, features), got shape {x.shape}")


def _checked_tokens(tokens: Any, n_positions: int) -> list[str] | None:
    if tokens is None:
        return None
    if isinstance(tokens, str | bytes | Mapping) or not hasattr(tokens, "__len__"):
        raise TypeError(f"tokens must be a list of {n_positions} words, got {tokens!r:.60}")
    if len(tokens) != n_positions:
        raise ValueError(f"tokens has {len(tokens)} entries, but the sequence has {n_positions} positions")
    return [str(token) for token in tokens]
