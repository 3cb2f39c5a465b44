"""Tables of the largest weights of fitted fields, and their summaries.

What a clique set shows of its weights depends on its functions:

    explicit features    weights w (r, L) per label, (r, L^2) per pair of labels: a list each, or one for all pairs
    no inputs            scores (1, L) per label, (1, L^2) per pair of labels: transitions, or a table per type of edges
    pivots               f(x) = k(x, B) alpha has no weights per feature: a note instead

Weights are dense or CSR; a CSR matrix stores the pairs of feature and label that have a weight. Cost of a table: a
partial sort of each column, O(r L) dense and O(non-zeros) sparse; names are made for what is listed only, unless a
pattern has to be matched against all of them. A summary costs O(weights). Explanations are in explanations.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator

from kernelfields.data.segments import DURATION
from kernelfields.estimators.inspecting.explanations import (
    Top,
    Weights,
    coordinate_names,
    label_numbers,
    largest,
    pivots_note,
)
from kernelfields.inference.choice import FamilySpec
from kernelfields.inference.potentials import EDGE
from kernelfields.numerics.parameters import is_whole
from kernelfields.numerics.registry import parameter_defaults
from kernelfields.numerics.wording import inflect
from kernelfields.objective.term import Term
from kernelfields.reports.inspection import (
    FeatureWeight,
    SetSummary,
    SetWeights,
    WeightList,
    WeightsTable,
)

_LONGEST_VALUE = 200
_LONG_NUMBER = re.compile(r"\d+\.\d{7,}(e[+-]?\d+)?")


@dataclass
class _Listing:
    """Labels and features to list, their number, and the listed weights."""

    classes: list
    shown: list[int]
    top: Top
    pattern: re.Pattern[str] | None
    names_of: Callable[[Term], Sequence[str]]
    sets: list[SetWeights] = field(default_factory=list)
    #: By the name of a clique set without inputs: scores of labels (shown,), of pairs of them (shown, shown).
    scores: dict[str, np.ndarray] = field(default_factory=dict)
    tables: dict[str, np.ndarray] = field(default_factory=dict)

    @classmethod
    def resolve(
        cls, classes: list, top: object, labels: object, feature_re: object, names_of: Callable[[Term], Sequence[str]]
    ) -> _Listing:
        """Make a listing from checked settings."""
        return cls(classes, _label_indices(classes, labels), _checked_top(top), _compiled(feature_re), names_of)

    def take(self, term: Term, weights: Weights) -> None:
        """List the weights of one clique set of single labels or of pairs."""
        pairs = term.labels_per_clique == 2
        if term.has_pivots:
            self.sets.append(SetWeights(term.name, note=f"{pivots_note(term)}, no weights per feature"))
        elif not term.is_constant:
            named = coordinate_names(term, self.names_of(term))
            kept = _match_names(self.pattern, named)
            lists = tuple(_lists(weights, pairs, self.classes, self.shown, named, kept, self.top))
            self.sets.append(SetWeights(term.name, lists))
        elif pairs:
            table = _with_gaps(weights).reshape(len(self.classes), len(self.classes))
            self.tables[term.name] = table[np.ix_(self.shown, self.shown)]
        else:
            self.scores[term.name] = _with_gaps(weights)[self.shown]

    def take_durations(self, term: Term, scores: np.ndarray) -> None:
        """List the numbers of positions (D, L) with the largest scores for each label."""
        names = [inflect(d, "position") for d in range(1, len(scores) + 1)]
        kept = _match_names(self.pattern, names)
        lists = tuple(_lists(scores, False, self.classes, self.shown, names, kept, self.top))
        self.sets.append(SetWeights(term.name, lists))

    def take_ngrams(self, term: Term) -> None:
        """List the weights of the n-grams of one clique set whose labels are all listed."""
        assert term.outcomes is not None
        shape = (len(self.classes),) * term.labels_per_clique
        rows, weights = np.stack(np.unravel_index(term.outcomes, shape), axis=1), np.ravel(term.known)
        kept = np.isin(rows, self.shown).all(axis=1)
        names = [" ".join(str(self.classes[label]) for label in row) for row in rows.tolist()]
        matching = _match_names(self.pattern, names)
        places = np.flatnonzero(kept if matching is None else kept & matching)
        positive, negative = (
            tuple(
                FeatureWeight(names[i], self.classes[rows[i, -1]], float(weights[i]), self.classes[rows[i, -2]])
                for i in places[chosen].tolist()
            )
            for chosen in largest(weights[places], self.top)
        )
        n_positive, n_negative = int((weights[places] > 0).sum()), int((weights[places] < 0).sum())
        more = n_positive - len(positive), n_negative - len(negative)
        self.sets.append(SetWeights(term.name, (WeightList(None, positive, negative, *more),)))

    @property
    def labels(self) -> tuple:
        """The labels that are listed."""
        return tuple(self.classes[index] for index in self.shown)


def tabulate_weights(
    terms: Sequence[Term],
    spec: FamilySpec,
    classes: list,
    names_of: Callable[[Term], Sequence[str]],
    top: object,
    labels: object,
    feature_re: object,
) -> WeightsTable:
    """Return the largest weights per label, with transitions for sequences and a table per edge type for graphs."""
    listing = _Listing.resolve(classes, top, labels, feature_re, names_of)
    for term in terms:
        if term.group == DURATION:
            listing.take_durations(term, term.tied_scores)
        elif term.outcomes is not None:
            listing.take_ngrams(term)
        elif term.labels_per_clique <= 2 and not _has_far_labels(term, spec):
            listing.take(term, term.label_coefficients)
        else:
            many = term.clique.n_configurations(len(classes))
            back = term.reach
            apart = f"labels {back} steps apart" if _are_transitions(spec) else f"{term.labels_per_clique} labels"
            listing.sets.append(SetWeights(term.name, note=f"{many:,} scores of {apart}; see coef_[{term.name!r}]"))
    if not _are_transitions(spec):
        return WeightsTable(listing.labels, tuple(listing.sets), scores=listing.scores, tables=listing.tables)
    matrices, shown = list(listing.tables.values()), listing.shown
    gaps, forbidden = np.isnan(matrices).all(axis=0), np.isneginf(spec.step_penalties)[np.ix_(shown, shown)]
    return WeightsTable(
        listing.labels,
        tuple(listing.sets),
        np.where(gaps, np.nan, np.nansum(matrices, axis=0)) if matrices else None,
        forbidden if matrices and forbidden.any() else None,
        listing.scores,
    )


def _are_transitions(spec: FamilySpec) -> bool:
    """Whether pairs of labels are the transitions of sequences."""
    return spec.kind not in ("graph", "instances", "single")


def _has_far_labels(term: Term, spec: FamilySpec) -> bool:
    """Whether the labels of a set of sequences are more than one step apart."""
    return _are_transitions(spec) and term.group not in (None, EDGE)


def tabulate_label_weights(
    terms: Sequence[Term],
    pairs: Mapping[tuple[int, int], float],
    known: list,
    names_of: Callable[[Term], Sequence[str]],
    top: object,
    labels: object,
    feature_re: object,
) -> WeightsTable:
    """Return the largest weights of yes-or-no labels as log odds, biases, and log odds ratios of pairs of labels."""
    wanted, shown, pattern = _checked_top(top), _label_indices(known, labels), _compiled(feature_re)
    ratios = np.full((len(known), len(known)), np.nan)
    for (j, k), ratio in pairs.items():
        ratios[j, k] = ratios[k, j] = ratio
    sets, biases = {}, np.full(len(known), np.nan)
    for term in terms:
        if term.group is not None:
            continue
        label, kind = term.clique.label, term.name.removesuffix(f" {known[term.clique.label]}")
        if term.is_constant:
            biases[label] = term.known[0, 0]
        elif term.has_pivots:
            sets[kind] = SetWeights(kind, note=f"{pivots_note(term)}, no weights per feature")
        elif label in shown:
            columns = coordinate_names(term, names_of(term))
            listed = _lists(term.known, False, [known[label]], [0], columns, _match_names(pattern, columns), wanted)
            sets[kind] = SetWeights(kind, (*sets.get(kind, SetWeights(kind)).lists, *listed))
    chosen = tuple(known[index] for index in shown)
    scores = {} if np.isnan(biases).all() else {"bias": biases[shown]}
    tables = {"log odds ratios of pairs": ratios[np.ix_(shown, shown)]} if pairs else {}
    return WeightsTable(chosen, tuple(sets.values()), scores=scores, tables=tables)


def _match_names(pattern: re.Pattern[str] | None, names: Sequence[str]) -> np.ndarray | None:
    """Return a mask of the names that match a pattern; None without a pattern."""
    if pattern is None:
        return None
    return np.fromiter((pattern.search(name) is not None for name in names), bool, len(names))


def _lists(
    weights: Weights,
    pairs: bool,
    classes: Sequence[object],
    shown: Sequence[int],
    names: Sequence[str],
    kept: np.ndarray | None,
    top: Top,
) -> Iterator[WeightList]:
    """Yield the list of each label, or one list over all pairs of shown labels."""
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


def _column(
    weights: np.ndarray | scipy.sparse.csc_array, column: int, kept: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows and values of a column, the stored entries of a CSC one; ``kept`` (r,) masks rows."""
    if isinstance(weights, np.ndarray):
        rows, values = np.arange(len(weights)), weights[:, column]
    else:
        entries = slice(weights.indptr[column], weights.indptr[column + 1])
        rows, values = weights.indices[entries], weights.data[entries]
    return (rows, values) if kept is None else (rows[kept[rows]], values[kept[rows]])


def _with_gaps(weights: Weights) -> np.ndarray:
    """Return the only row of weights, NaN for entries that are not stored."""
    if not scipy.sparse.issparse(weights):
        return np.asarray(weights)[0]
    entries = scipy.sparse.coo_array(weights)
    row = np.full(weights.shape[1], np.nan)
    row[entries.col] = entries.data
    return row


def summarise_term(term: Term, part: str = "position") -> SetSummary:
    """Describe a clique set in words and numbers."""
    if term.is_constant:
        kernel, sees = "none", "labels only"
    else:
        before, after = term.clique.neighbours
        kernel = _LONG_NUMBER.sub(lambda found: f"{float(found[0]):.6g}", repr(term.subspace.kernel))
        # Cliques of a chain see its positions; factors of a graph have features of their own.
        seen = term.group if part == "node" and term.group is not None else part
        sees = f"one {seen}" if before == after == 0 else f"positions {-before:+d} to {after:+d}"
        if term.group == DURATION:
            sees = f"durations, 1 to {term.clique.max_duration}"
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


def describe_changed_parameters(estimator: BaseEstimator) -> dict[str, str]:
    """Return the parameters of an estimator that differ from their defaults, in words."""
    values, defaults = estimator.get_params(deep=False), parameter_defaults(type(estimator))
    return {name: _cut(repr(value)) for name, value in values.items() if repr(value) != repr(defaults[name])}


def _cut(words: str) -> str:
    return words if len(words) <= _LONGEST_VALUE else words[: _LONGEST_VALUE - 1] + "…"


def _label_indices(classes: list[object], labels: object) -> list[int]:
    if labels is None:
        return list(range(len(classes)))
    if isinstance(labels, str | bytes | Mapping) or not isinstance(labels, Iterable):
        raise TypeError(f"labels must be a list of labels, got {labels!r}: write [{labels!r}]")
    indices = list(dict.fromkeys(label_numbers(classes, labels, "labels")))
    if not indices:
        raise ValueError("labels is empty: name at least one label, or leave it out for all")
    return indices


def _checked_top(top: object) -> Top:
    if top is None or (is_whole(top) and top >= 1):
        return top
    if isinstance(top, tuple | list) and len(top) == 2 and all(is_whole(n) and n >= 0 for n in top) and any(top):
        return int(top[0]), int(top[1])
    raise ValueError(
        "top must be a whole number of at least 1, a pair (positive, negative) of them that are not both 0, "
        f"or None for all, got {top!r}"
    )


def _compiled(feature_re: object) -> re.Pattern[str] | None:
    if feature_re is None:
        return None
    try:
        pattern = re.compile(feature_re)  # type: ignore[call-overload]
    except (re.error, TypeError) as error:
        raise ValueError(f"feature_re {feature_re!r} is not a regular expression: {error}") from error
    if not isinstance(pattern.pattern, str):
        raise ValueError(f"feature_re must be a pattern of text, got {feature_re!r}: leave out the b")
    return pattern
