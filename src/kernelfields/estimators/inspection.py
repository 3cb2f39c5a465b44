"""Inspection of fitted chain fields: their largest weights, explanations, summaries, labelled sequences.

What a clique set shows of its weights depends on its functions:

    explicit features    weights w (r, L) per label, (r, L^2) per pair of labels: a list each, or one for all pairs
    no inputs            scores (1, L) per label, transitions (1, L^2)
    pivots               f(x) = k(x, B) alpha has no weights per feature: a note says so

An explanation compares, at position t with label a, neighbours a' before and a'' after, with another label o:

    difference_t = node_t(a) - node_t(o) + edge_t(a', a) - edge_t(a', o) + edge_{t+1}(a, a'') - edge_{t+1}(o, a'')

is the log odds of the labelling against the one with o in place of a. Every potential is z(x)^T w, so the
difference falls apart into terms z_f (w_fa - w_fo), one per feature, and one term per clique set without inputs
or with a kernel; these add up exactly. For a set of pivots, f(x) = sum_b k(x, b) alpha_b gives a term per pivot.

Weights are dense or CSR; a CSR matrix stores the pairs of feature and label that have a weight. Cost of a table: a
partial sort of each column, O(r L) dense and O(non-zeros) sparse; names are made for what is listed only, unless a
pattern has to be matched against all of them. An explanation costs the potentials of its sequence and O(non-zeros)
for the terms, showing a sequence two predictions of it, a summary O(weights).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from kernelfields.basis.selection import resolve_basis
from kernelfields.features.readers import is_feature_sequences
from kernelfields.fields.chains import Chains
from kernelfields.fields.cliques import check_window
from kernelfields.fields.constraints import ConstraintMasks
from kernelfields.kernels.dot_product import Linear
from kernelfields.kernels.kernel import Constant, Kernel, Scaled, Sum
from kernelfields.kernels.labels import resolve_label_kernel
from kernelfields.kernels.registry import resolve_kernel
from kernelfields.numerics.parameters import check_count, is_whole
from kernelfields.numerics.threads import Workers
from kernelfields.objective.likelihoods.chain import reaches_far
from kernelfields.objective.term import Term
from kernelfields.reports.inspection import (
    Contribution,
    Explanation,
    FeatureWeight,
    ModelSummary,
    PositionExplanation,
    SetSummary,
    SetWeights,
    WeightList,
    WeightsTable,
)
from kernelfields.reports.sequences import LabelledSequence

#: How many weights to list by size, or how many of each sign, or None for all.
Top = int | tuple[int, int] | None
#: Weights (r, L^k) of a clique set, dense or CSR.
Weights = Any

_SHOWN_CLASSES = 10
_LONGEST_VALUE = 200
_LONG_NUMBER = re.compile(r"\d+\.\d{7,}(e[+-]?\d+)?")
# A model that was read from a file of 0.1.0 has objects where its parameters had names.
_RESOLVED = {"kernel": resolve_kernel, "basis": resolve_basis, "label_kernel": resolve_label_kernel}


def tabulate_weights(
    crf: Any, top: object, labels: object, feature_re: str | re.Pattern[str] | None, feature_names: object
) -> WeightsTable:
    """Return the largest weights per label of a fitted ChainCRF; see :meth:`ChainCRF.weights`."""
    classes, names, wanted = crf.classes_.tolist(), _feature_names(crf, feature_names), _checked_top(top)
    shown, pattern = _label_indices(classes, labels), _compiled(feature_re)
    sets, scores, matrices = [], {}, []
    for term in crf.field_.terms:
        weights = crf.coef_[term.name]
        pairs = term.clique.labels_per_clique == 2
        if not term.clique.neighbours_only:
            many = term.clique.n_configurations(len(classes))
            note = f"{many:,} scores of labels {term.clique.steps_back[0]} steps apart; see coef_[{term.name!r}]"
            sets.append(SetWeights(term.name, note=note))
        elif term.has_pivots:
            sets.append(SetWeights(term.name, note=f"{_pivots_note(term)}, no weights per feature"))
        elif not term.tied_everywhere:
            named = _coordinate_names(term, names)
            found = None if pattern is None else (pattern.search(name) is not None for name in named)
            kept = None if found is None else np.fromiter(found, bool, len(named))
            sets.append(SetWeights(term.name, tuple(_lists(weights, pairs, classes, shown, named, kept, wanted))))
        elif pairs:
            matrices.append(_with_gaps(weights).reshape(len(classes), len(classes))[np.ix_(shown, shown)])
        else:
            scores[term.name] = _with_gaps(weights)[shown]
    gaps, forbidden = np.isnan(matrices).all(axis=0), crf.field_.structure.masks.edge[np.ix_(shown, shown)] != 0
    return WeightsTable(
        tuple(classes[index] for index in shown),
        tuple(sets),
        np.where(gaps, np.nan, np.nansum(matrices, axis=0)) if matrices else None,
        forbidden if matrices and forbidden.any() else None,
        scores,
    )


def explain_sequence(
    crf: Any, x: object, y: object, top: int, against: object, feature_names: object, tokens: object, pivots: int
) -> Explanation:
    """Return what moved the labels of one sequence; see :meth:`ChainCRF.explain`."""
    check_count(top, "top")
    if not is_whole(pivots) or pivots < 0:
        raise ValueError(f"pivots must be a whole number of at least 0, got {pivots!r}")
    if reaches_far(crf.field_.terms):
        raise ValueError(
            "explain compares labels by what they meet at their neighbours, and this field has cliques of "
            "longer reach: predict_marginals and coef_ have its figures"
        )
    classes, names = crf.classes_.tolist(), _feature_names(crf, feature_names)
    _check_one_sequence(x, "explain")
    chains = crf._reader.read([x], None if y is None else [y], None, crf.classes_)
    masks = crf.field_.structure.masks
    masks.check_lengths(chains.lengths)
    answers = crf.field_.answers(chains, Workers(1))
    labels = answers.best_labels() if y is None else chains.labels
    rest = answers.marginals.copy()
    rest[np.arange(len(labels)), labels] = -1.0
    others = rest.argmax(axis=1)
    if against is not None:
        rivals = _rivals(classes, against, len(labels))
        others = np.where(rivals == labels, others, rivals)
    words = _checked_tokens(tokens, len(labels))
    moved: list[list[Contribution]] = [[] for _ in labels]
    for term in crf.field_.terms:
        exchanges = list(_exchanges(term, chains, labels, others, classes))
        if term.has_pivots:
            found = _kernels(term, chains, exchanges, int(pivots))
        elif term.tied_everywhere:
            found = _constants(term, crf.coef_[term.name], exchanges)
        else:
            found = _features(term, crf.coef_[term.name], chains, exchanges, names)
        for exchange, contributions in zip(exchanges, found, strict=True):
            moved[exchange.position] += contributions
    positions = []
    for t, (label, other) in enumerate(zip(labels, others, strict=True)):
        features = sorted((each for each in moved[t] if each.kind == "feature"), key=lambda each: -abs(each.amount))
        wholes = [each for each in moved[t] if each.kind != "feature"]
        shown, left_out = sorted([*features[:top], *wholes], key=lambda each: -each.amount), features[top:]
        positions.append(
            PositionExplanation(
                t,
                None if words is None else words[t],
                classes[label],
                classes[other],
                float(answers.marginals[t, label]),
                float(answers.marginals[t, other]),
                sum(each.amount for each in [*shown, *left_out]),
                tuple(shown),
                len(left_out),
                sum(each.amount for each in left_out),
                tuple(_broken_rules(masks, labels, others, t, classes)),
            )
        )
    return Explanation(tuple(positions))


def summarise(crf: Any) -> ModelSummary:
    """Return a fitted ChainCRF at a glance; see :meth:`ChainCRF.summary`."""
    forbidden = np.isneginf(crf.field_.structure.masks.edge)
    return ModelSummary(
        name=type(crf).__name__,
        labels=tuple(crf.classes_.tolist()),
        n_features=crf._reader.n_features,
        sets=tuple(_summarise(term) for term in crf.field_.terms),
        solution=crf.solution_,
        certificates=(crf.certificate_, crf.rkhs_certificate_),
        tol=crf.tol,
        parameters=_changed_parameters(crf),
        transitions=crf.transitions_,
        forbidden=forbidden if forbidden.any() else None,
    )


def show_sequence(crf: Any, x: object, y: Any, tokens: Any, caption: str) -> LabelledSequence:
    """Return one sequence as a fitted ChainCRF labels it; see :meth:`ChainCRF.show`."""
    _check_one_sequence(x, "show")
    labels, marginals = crf.predict([x])[0], crf.predict_marginals([x])[0]
    return LabelledSequence(labels, marginals, crf.classes_.tolist(), tokens, y, caption)


class WindowNames(Sequence[str]):
    """Names of the columns of a window: block j holds neighbour j - before, "[-1] name" for the one before."""

    def __init__(self, names: Sequence[str], window: int | tuple[int, int]):
        before, after = check_window(window)
        self._names = names
        self._prefixes = ["" if shift == 0 else f"[{shift:+d}] " for shift in range(-before, after + 1)]

    def __len__(self) -> int:
        return len(self._names) * len(self._prefixes)

    def __getitem__(self, column: int) -> str:  # type: ignore[override]
        if not 0 <= column < len(self):
            raise IndexError(column)
        block, place = divmod(column, len(self._names))
        return self._prefixes[block] + self._names[place]


def _coordinate_names(term: Term, names: Sequence[str]) -> Sequence[str]:
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


def _pivots_note(term: Term) -> str:
    """Say what a set of kernel functions consists of: "1,000 pivots of RBF"."""
    rank = term.subspace.rank
    return f"{rank:,} pivot{'s' if rank != 1 else ''} of {type(term.subspace.kernel).__name__}"


def largest(values: np.ndarray, top: Top) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices of the largest positive values, falling, and of the lowest negative ones, rising.

    Zero is neither.
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


def _lists(
    weights: Weights,
    pairs: bool,
    classes: Sequence[object],
    shown: Sequence[int],
    names: Sequence[str],
    kept: np.ndarray | None,
    top: Top,
) -> Iterator[WeightList]:
    """Yield the list of each label, or one over all pairs of shown labels, where the largest of each compete."""
    columns = scipy.sparse.csc_array(weights) if scipy.sparse.issparse(weights) else weights
    steps: list[tuple[int | None, int]] = [(first, second) for first in shown for second in shown]
    for label, its_steps in [(None, steps)] if pairs else [(classes[label], [(None, label)]) for label in shown]:
        candidates: list[FeatureWeight] = []
        n_positive = n_negative = 0
        for first, second in its_steps:
            rows, values = _column(columns, second if first is None else first * len(classes) + second, kept)
            previous = None if first is None else classes[first]
            candidates += [
                FeatureWeight(names[int(rows[i])], classes[second], float(values[i]), previous)
                for i in np.concatenate(largest(values, top))
            ]
            n_positive += int((values > 0).sum())
            n_negative += int((values < 0).sum())
        amounts = np.array([candidate.weight for candidate in candidates])
        positive, negative = (tuple(candidates[i] for i in chosen) for chosen in largest(amounts, top))
        yield WeightList(label, positive, negative, n_positive - len(positive), n_negative - len(negative))


def _column(weights: Any, column: int, kept: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows and values of a column, the stored entries of a CSC one; ``kept`` (r,) masks rows."""
    if scipy.sparse.issparse(weights):
        entries = slice(weights.indptr[column], weights.indptr[column + 1])
        rows, values = weights.indices[entries], weights.data[entries]
    else:
        rows, values = np.arange(len(weights)), weights[:, column]
    return (rows, values) if kept is None else (rows[kept[rows]], values[kept[rows]])


def _dense(weights: Weights) -> np.ndarray:
    return weights.toarray() if scipy.sparse.issparse(weights) else np.asarray(weights)


def _with_gaps(weights: Weights) -> np.ndarray:
    """Return the only row of weights, NaN where a sparse one stores none."""
    if not scipy.sparse.issparse(weights):
        return np.asarray(weights)[0]
    entries = scipy.sparse.coo_array(weights)
    row = np.full(weights.shape[1], np.nan)
    row[entries.col] = entries.data
    return row


@dataclass(frozen=True)
class Exchange:
    """One clique that changes when position t takes its other label.

    ``row`` counts the cliques of the set, ``kept`` and ``lost`` are the labellings of the clique before and after,
    ``step`` says which neighbour takes part, if one does.
    """

    position: int
    row: int
    kept: int
    lost: int
    step: str = ""

    @property
    def suffix(self) -> str:
        """What the step adds to a name."""
        return f", {self.step}" if self.step else ""


def _exchanges(
    term: Term, chains: Chains, labels: np.ndarray, others: np.ndarray, classes: Sequence[object]
) -> Iterator[Exchange]:
    """Yield the cliques of a set that change with each position's label."""
    positions = term.clique.positions(chains)
    placed = range(chains.n_positions) if positions is None else positions.tolist()
    for row, t in enumerate(placed):
        if term.clique.labels_per_clique == 1:
            yield Exchange(t, row, int(labels[t]), int(others[t]))
            continue
        width = len(classes)
        before, after = int(labels[t - 1]), int(labels[t])
        kept = before * width + after
        yield Exchange(t, row, kept, before * width + int(others[t]), f"transition from {classes[before]}")
        yield Exchange(t - 1, row, kept, int(others[t - 1]) * width + after, f"transition to {classes[after]}")


def _constants(term: Term, weights: Weights, exchanges: Sequence[Exchange]) -> Iterator[list[Contribution]]:
    row = _dense(weights)[0]
    own_name = f" ({term.name})" if term.name != term.clique.default_name else ""
    for exchange in exchanges:
        kind, name = ("transition", exchange.step + own_name) if exchange.step else ("constant", term.name)
        yield [Contribution(kind, term.name, name, float(row[exchange.kept] - row[exchange.lost]))]


def _features(
    term: Term, weights: Weights, chains: Chains, exchanges: Sequence[Exchange], names: Sequence[str]
) -> Iterator[list[Contribution]]:
    """Yield the terms of all features that an exchange moves, those of zero left out."""
    features = scipy.sparse.csr_array(term.subspace.features(term.clique.view(chains)))
    named = _coordinate_names(term, names)
    for exchange in exchanges:
        entries = slice(features.indptr[exchange.row], features.indptr[exchange.row + 1])
        columns, values = features.indices[entries], features.data[entries]
        # Sparse or dense, only the rows of features that occur are looked at.
        pair = _dense(weights[columns][:, [exchange.kept, exchange.lost]])
        amounts = values * (pair[:, 0] - pair[:, 1])
        yield [
            Contribution(
                "feature", term.name, named[int(columns[i])] + exchange.suffix, float(amounts[i]), float(values[i])
            )
            for i in np.flatnonzero(amounts)
        ]


def _kernels(term: Term, chains: Chains, exchanges: Sequence[Exchange], pivots: int) -> Iterator[list[Contribution]]:
    """Yield the whole contribution of a set of kernel functions, with its ``pivots`` largest parts."""
    subspace, scores = term.subspace, term.scores(chains, Workers(1))
    if pivots:
        similar = subspace.kernel(term.clique.view(chains), subspace.pivots)
        dual = term.in_labels(subspace.dual_coefficients(term.known))
    for exchange in exchanges:
        parts: list[Contribution] = []
        if pivots:
            values = similar[exchange.row]
            amounts = values * (dual[:, exchange.kept] - dual[:, exchange.lost])
            chosen = np.concatenate(largest(amounts, pivots))
            for i in chosen[np.argsort(-amounts[chosen], kind="stable")].tolist():
                pivot = f"pivot {i}, training input {subspace.indices[i]}"
                parts.append(Contribution("pivot", term.name, pivot, float(amounts[i]), float(values[i])))
        amount = float(scores[exchange.row, exchange.kept] - scores[exchange.row, exchange.lost])
        name = f"{term.name}: {_pivots_note(term)}{exchange.suffix}"
        yield [Contribution("kernel", term.name, name, amount, parts=tuple(parts))]


def _broken_rules(
    masks: ConstraintMasks, labels: np.ndarray, others: np.ndarray, t: int, classes: Sequence[object]
) -> Iterator[str]:
    """Yield what the constraints say about the label at t and about its rival, given the neighbours."""
    last = len(labels) - 1
    before, after = labels[max(t - 1, 0)], labels[min(t + 1, last)]
    for label in (labels[t], others[t]):
        rules = [
            (masks.label[label], "everywhere"),
            (t == 0 and masks.start[label], "at the first position"),
            (t == last and masks.end[label], "at the last position"),
            (t > 0 and masks.edge[before, label], f"after {classes[before]}"),
            (t < last and masks.edge[label, after], f"before {classes[after]}"),
        ]
        yield from (f"{classes[label]} is forbidden {where} by the constraints" for broken, where in rules if broken)


def _summarise(term: Term) -> SetSummary:
    """Return a clique set in words and numbers."""
    if term.tied_everywhere:
        kernel, sees = "none", "labels only"
    else:
        before, after = check_window(term.clique.window)
        kernel = _LONG_NUMBER.sub(lambda found: f"{float(found[0]):.6g}", repr(term.subspace.kernel))
        sees = "one position" if before == after == 0 else f"positions {-before:+d} to {after:+d}"
        sees = f"{sees}, {'pivots' if term.has_pivots else 'explicit features'}"
    return SetSummary(
        name=term.name,
        kernel=_cut(kernel),
        sees=sees,
        rank=int(term.subspace.rank),
        n_weights=int(term.known.size),
        n_nonzero=int(np.count_nonzero(term.known)),
        prior_variance=term.prior_variance,
        l1=term.l1,
    )


def _changed_parameters(estimator: Any) -> dict[str, str]:
    """Return the parameters that differ from their defaults, in words."""
    defaults = {name: each.default for name, each in inspect.signature(type(estimator).__init__).parameters.items()}
    resolved = {name: resolve(defaults[name]) for name, resolve in _RESOLVED.items() if name in defaults}
    return {
        name: _cut(repr(value))
        for name, value in estimator.get_params(deep=False).items()
        if repr(value) not in (repr(defaults[name]), repr(resolved.get(name, defaults[name])))
    }


def _cut(words: str) -> str:
    return words if len(words) <= _LONGEST_VALUE else words[: _LONGEST_VALUE - 1] + "…"


def _is_list(given: object) -> bool:
    return hasattr(given, "__len__") and not isinstance(given, str | bytes | Mapping)


def _feature_names(crf: Any, given: Any) -> Sequence[str]:
    n_features, known = crf._reader.n_features, crf._reader.names
    if given is None:
        return [f"x{index}" for index in range(n_features)] if known is None else known
    if not _is_list(given):
        raise TypeError(f"feature_names must be a list of {n_features} names, got {given!r:.60}")
    if len(given) != n_features:
        raise ValueError(f"feature_names has {len(given)} names, but the inputs have {n_features} features")
    return [str(name) for name in given]


def _checked_tokens(tokens: Any, n_positions: int) -> list[str] | None:
    if tokens is None:
        return None
    if not _is_list(tokens):
        raise TypeError(f"tokens must be a list of {n_positions} words, got {tokens!r:.60}")
    if len(tokens) != n_positions:
        raise ValueError(f"tokens has {len(tokens)} entries, but the sequence has {n_positions} positions")
    return [str(token) for token in tokens]


def _label_indices(classes: list[object], labels: Any) -> list[int]:
    if labels is None:
        return list(range(len(classes)))
    if isinstance(labels, str | bytes | Mapping) or not hasattr(labels, "__iter__"):
        raise TypeError(f"labels must be a list of labels, got {labels!r}: write [{labels!r}]")
    indices = list(dict.fromkeys(_label_index(classes, label, "labels") for label in labels))
    if not indices:
        raise ValueError("labels is empty: name at least one label, or leave it out for all")
    return indices


def _label_index(classes: list[object], label: object, where: str) -> int:
    plain = label.item() if isinstance(label, np.generic) else label
    if plain not in classes:
        shown = ", ".join(map(repr, classes[:_SHOWN_CLASSES]))
        more = f" and {len(classes) - _SHOWN_CLASSES} more" if len(classes) > _SHOWN_CLASSES else ""
        raise ValueError(f"{where} holds the unknown label {plain!r}: known are {shown}{more}")
    return classes.index(plain)


def _rivals(classes: list[object], against: object, n_positions: int) -> np.ndarray:
    """Return the index of the label to compare with at each position, (T,)."""
    if not isinstance(against, list | tuple | np.ndarray) or np.ndim(against) == 0:
        return np.full(n_positions, _label_index(classes, against, "against"))
    if len(against) != n_positions:
        raise ValueError(
            f"against holds {len(against)} labels, but the sequence has {n_positions} positions: "
            "give one label, or one for each position"
        )
    return np.array([_label_index(classes, label, "against") for label in against])


def _checked_top(top: Any) -> Top:
    if top is None or (is_whole(top) and top >= 1):
        return top
    pair = isinstance(top, tuple | list) and len(top) == 2 and all(is_whole(n) and n >= 0 for n in top)
    if pair and any(top):
        return int(top[0]), int(top[1])
    raise ValueError(
        "top must be a whole number of at least 1, a pair (positive, negative) of them that are not both 0, "
        f"or None for all, got {top!r}"
    )


def _compiled(feature_re: str | re.Pattern[str] | None) -> re.Pattern[str] | None:
    if feature_re is None:
        return None
    try:
        pattern = re.compile(feature_re)
    except (re.error, TypeError) as error:
        raise ValueError(f"feature_re {feature_re!r} is not a regular expression: {error}") from error
    if not isinstance(pattern.pattern, str):
        raise ValueError(f"feature_re must be a pattern of text, got {feature_re!r}: leave out the b")
    return pattern


def _check_one_sequence(x: Any, caller: str) -> None:
    """Raise, in the caller's name, unless x can be one sequence; what is in it is checked where it is read."""
    first = x[0] if isinstance(x, list | tuple | np.ndarray) and len(x) else None
    row = first[0] if isinstance(first, list | tuple) and len(first) else None
    table = scipy.sparse.issparse(first) or getattr(first, "ndim", 1) > 1 or isinstance(row, list | tuple | np.ndarray)
    if table or is_feature_sequences(x):
        raise ValueError(f"{caller} takes one sequence, got a list of {len(x)} of them: pass one, such as X[0]")
    if isinstance(x, np.ndarray) and x.dtype != object and x.ndim != 2:
        raise ValueError(f"{caller} takes one sequence of shape (positions, features), got shape {x.shape}")
