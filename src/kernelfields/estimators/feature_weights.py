"""From a fitted field to the names of its features and its largest weights.

    explicit features    weights w (r, L) per label, (r, L^2) per pair of labels: a list each, or one for all pairs
    no inputs            scores (1, L) per label, transitions (1, L^2)
    pivots               f(x) = k(x, B) alpha has no weights per feature: a note says so

Weights are dense or CSR; a CSR matrix stores the pairs of feature and label that have a weight. Cost: a partial
sort of each column, O(r L) dense and O(non-zeros) sparse; names are made for what is listed only, unless a pattern
has to be matched against all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse

from kernelfields.basis.subspace import ConstantSubspace, ExplicitSubspace
from kernelfields.fields.cliques import check_window
from kernelfields.kernels.dot_product import Linear
from kernelfields.kernels.kernel import Constant, Kernel, Scaled, Sum
from kernelfields.models.field import Field
from kernelfields.objective.term import Term
from kernelfields.reports.weights import FeatureWeight, SetWeights, WeightList, WeightsTable


class WindowNames(Sequence):
    """Names of the columns of a window: block j holds neighbour j - before, "[-1] name" for the one before."""

    def __init__(self, names: Sequence[str], window: Any):
        before, after = check_window(window)
        self._names = names
        self._prefixes = ["" if shift == 0 else f"[{shift:+d}] " for shift in range(-before, after + 1)]

    def __len__(self) -> int:
        return len(self._names) * len(self._prefixes)

    def __getitem__(self, column: Any) -> Any:
        if not 0 <= column < len(self):
            raise IndexError(column)
        block, place = divmod(column, len(self._names))
        return self._prefixes[block] + self._names[place]


def coordinate_names(term: Term, names: Sequence[str]) -> Sequence[str]:
    """Return the names of a set's explicit features, one per row of its weights; ``names`` are the inputs'."""
    return _mapped_names(term.subspace.kernel, WindowNames(names, term.clique.window))


def _mapped_names(kernel: Kernel, columns: Sequence[str]) -> Sequence[str]:
    if isinstance(kernel, Linear):
        return columns
    if isinstance(kernel, Scaled):
        return _mapped_names(kernel.kernel, columns)
    if isinstance(kernel, Constant):
        return ["constant"]
    if isinstance(kernel, Sum):
        return [*_mapped_names(kernel.left, columns), *_mapped_names(kernel.right, columns)]
    mapped: Any = kernel.feature_map(np.zeros((1, len(columns))))
    return [f"{type(kernel).__name__}[{index}]" for index in range(mapped.shape[1])]


def pivots_note(term: Term) -> str:
    """Say what a set of kernel functions consists of: "1,000 pivots of RBF"."""
    rank = term.subspace.rank
    return f"{rank:,} pivot{'s' if rank != 1 else ''} of {type(term.subspace.kernel).__name__}"


def tabulate(
    field: Field,
    coefficients: Mapping[str, Any],
    classes: Sequence[Any],
    names: Sequence[str],
    *,
    top: int | tuple[int, int] | None,
    shown: Sequence[int],
    pattern: re.Pattern[str] | None,
) -> WeightsTable:
    """Return the table of the largest weights.

    ``coefficients`` maps names of sets to (r, L^k) weights, dense or CSR; ``shown`` are the labels to list.
    """
    sets, scores, transitions = [], {}, None
    for term in field.terms:
        weights = coefficients[term.name]
        if not term.clique.neighbours_only:
            many = term.clique.n_configurations(len(classes))
            note = f"{many:,} scores of labels {term.clique.steps_back[0]} steps apart; see coef_[{term.name!r}]"
            sets.append(SetWeights(term.name, note=note))
            continue
        pairs = term.clique.labels_per_clique == 2
        if isinstance(term.subspace, ConstantSubspace):
            row = _with_gaps(weights)
            if pairs:
                matrix = row.reshape(len(classes), len(classes))[np.ix_(shown, shown)]
                transitions = matrix if transitions is None else _sum_with_gaps(transitions, matrix)
            else:
                scores[term.name] = row[list(shown)]
        elif isinstance(term.subspace, ExplicitSubspace):
            labelled = coordinate_names(term, names)
            kept = None if pattern is None else _matching(pattern, labelled)
            listing = _pair_lists if pairs else _label_lists
            sets.append(SetWeights(term.name, tuple(listing(weights, classes, shown, labelled, kept, top))))
        else:
            sets.append(SetWeights(term.name, note=f"{pivots_note(term)}, no weights per feature"))
    structure: Any = field.structure
    forbidden = structure.masks.edge[np.ix_(shown, shown)] != 0
    return WeightsTable(
        tuple(classes[index] for index in shown),
        tuple(sets),
        transitions,
        forbidden if transitions is not None and forbidden.any() else None,
        scores,
    )


def largest(values: np.ndarray, top: int | tuple[int, int] | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices of the largest positive values, falling, and of the lowest negative ones, rising.

    ``top`` is how many to return by size, or how many of each sign, or None for all. Zero is neither.
    """
    if isinstance(top, tuple):
        positive, negative = (_largest_of(sign * values, count) for sign, count in zip((1, -1), top, strict=True))
        return positive, negative
    chosen = _largest_of(np.abs(values), len(values) if top is None else top)
    return chosen[values[chosen] > 0], chosen[values[chosen] < 0]


def _largest_of(values: np.ndarray, count: int) -> np.ndarray:
    """Return the indices of the ``count`` largest values above zero, falling, the earlier first among equals."""
    above = np.flatnonzero(values > 0)
    if count < len(above):
        found = values[above]
        least = np.partition(found, -count)[-count] if count else np.inf
        larger, equal = above[found > least], above[found == least]
        above = np.concatenate([larger, equal[: count - len(larger)]])
    return above[np.lexsort((above, -values[above]))]


def _label_lists(
    weights: Any,
    classes: Sequence[Any],
    shown: Sequence[int],
    names: Sequence[str],
    kept: np.ndarray | None,
    top: int | tuple[int, int] | None,
) -> Iterator[WeightList]:
    """Yield the list of each label."""
    for label, (rows, values) in zip(shown, _columns(weights, shown, kept), strict=True):
        named = [
            [FeatureWeight(names[int(rows[i])], classes[label], float(values[i])) for i in chosen]
            for chosen in largest(values, top)
        ]
        yield _listed(classes[label], named, int((values > 0).sum()), int((values < 0).sum()))


def _pair_lists(
    weights: Any,
    classes: Sequence[Any],
    shown: Sequence[int],
    names: Sequence[str],
    kept: np.ndarray | None,
    top: int | tuple[int, int] | None,
) -> Iterator[WeightList]:
    """Yield one list over all pairs of shown labels: the largest of each pair compete."""
    pairs = [(first, second) for first in shown for second in shown]
    columns = [first * len(classes) + second for first, second in pairs]
    candidates: list[FeatureWeight] = []
    n_positive = n_negative = 0
    for (first, second), (rows, values) in zip(pairs, _columns(weights, columns, kept), strict=True):
        candidates += [
            FeatureWeight(names[int(rows[i])], classes[second], float(values[i]), classes[first])
            for i in np.concatenate(largest(values, top))
        ]
        n_positive += int((values > 0).sum())
        n_negative += int((values < 0).sum())
    amounts = np.array([candidate.weight for candidate in candidates])
    named = [[candidates[i] for i in chosen] for chosen in largest(amounts, top)]
    yield _listed(None, named, n_positive, n_negative)


def _listed(label: Any, named: Sequence[list[FeatureWeight]], n_positive: int, n_negative: int) -> WeightList:
    positive, negative = map(tuple, named)
    return WeightList(label, positive, negative, n_positive - len(positive), n_negative - len(negative))


def _columns(weights: Any, columns: Sequence[int], kept: np.ndarray | None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the rows and values of each column, stored entries of a sparse one; ``kept`` (r,) masks rows."""
    if scipy.sparse.issparse(weights):
        by_column = scipy.sparse.csc_array(weights)
        for column in columns:
            entries = slice(by_column.indptr[column], by_column.indptr[column + 1])
            rows, values = by_column.indices[entries], by_column.data[entries]
            yield (rows, values) if kept is None else (rows[kept[rows]], values[kept[rows]])
    else:
        rows = np.arange(weights.shape[0]) if kept is None else np.flatnonzero(kept)
        for column in columns:
            yield rows, weights[:, column] if kept is None else weights[rows, column]


def _matching(pattern: re.Pattern[str], names: Sequence[str]) -> np.ndarray:
    """Return which names the pattern is found in, (r,) bool."""
    return np.fromiter((pattern.search(name) is not None for name in names), bool, len(names))


def _with_gaps(weights: Any) -> np.ndarray:
    """Return the only row of weights, NaN where a sparse one stores none."""
    if not scipy.sparse.issparse(weights):
        return np.asarray(weights)[0]
    entries = scipy.sparse.coo_array(weights)
    row = np.full(weights.shape[1], np.nan)
    row[entries.col] = entries.data
    return row


def _sum_with_gaps(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    total = np.nan_to_num(one) + np.nan_to_num(other)
    return np.where(np.isnan(one) & np.isnan(other), np.nan, total)
