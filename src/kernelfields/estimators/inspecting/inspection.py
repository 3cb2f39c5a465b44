"""Inspection of fitted fields: their largest weights, summaries, labelled sequences and graphs.

What a clique set shows of its weights depends on its functions:

    explicit features    weights w (r, L) per label, (r, L^2) per pair of labels: a list each, or one for all pairs
    no inputs            scores (1, L) per label, (1, L^2) per pair of labels: transitions, or a table per type of edges
    pivots               f(x) = k(x, B) alpha has no weights per feature: a note says so

Weights are dense or CSR; a CSR matrix stores the pairs of feature and label that have a weight. Cost of a table: a
partial sort of each column, O(r L) dense and O(non-zeros) sparse; names are made for what is listed only, unless a
pattern has to be matched against all of them. Showing a sequence or a graph costs two predictions of it, a summary
O(weights). Explanations of single labels are in explanations.py.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse
from sklearn import get_config

from kernelfields.basis.selection import resolve_basis
from kernelfields.estimators.inspecting.explanations import (
    Top,
    Weights,
    check_one_sequence,
    coordinate_names,
    feature_names,
    graph_feature_names,
    label_index,
    largest,
    pivots_note,
)
from kernelfields.fields.cliques import check_window
from kernelfields.fields.segments import DURATION, SEGMENT
from kernelfields.kernels.labels import resolve_label_kernel
from kernelfields.kernels.registry import resolve_kernel
from kernelfields.numerics.parameters import is_auto, is_whole
from kernelfields.objective.term import Term
from kernelfields.reports.graph_pictures import LabelledGraph
from kernelfields.reports.inspection import (
    FeatureWeight,
    ModelSummary,
    SetSummary,
    SetWeights,
    WeightList,
    WeightsTable,
)
from kernelfields.reports.sequences import LabelledSequence

_LONGEST_VALUE = 200
_LONG_NUMBER = re.compile(r"\d+\.\d{7,}(e[+-]?\d+)?")
# A model that was read from a file of 0.1.0 has objects where its parameters had names.
_RESOLVED = {"kernel": resolve_kernel, "basis": resolve_basis, "label_kernel": resolve_label_kernel}


@dataclass
class _Listing:
    """Which labels and features of a field are listed, how many of them, and what was found."""

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
    def of(cls, classes: list, top: object, labels: object, feature_re: Any, names_of: Any) -> _Listing:
        """Check what is asked for."""
        return cls(classes, _label_indices(classes, labels), _checked_top(top), _compiled(feature_re), names_of)

    def take(self, term: Term, weights: Weights) -> None:
        """List the weights of one clique set of single labels or of pairs."""
        pairs = term.labels_per_clique == 2
        if term.has_pivots:
            self.sets.append(SetWeights(term.name, note=f"{pivots_note(term)}, no weights per feature"))
        elif not term.tied_everywhere:
            named = coordinate_names(term, self.names_of(term))
            found = None if self.pattern is None else (self.pattern.search(name) is not None for name in named)
            kept = None if found is None else np.fromiter(found, bool, len(named))
            lists = tuple(_lists(weights, pairs, self.classes, self.shown, named, kept, self.top))
            self.sets.append(SetWeights(term.name, lists))
        elif pairs:
            table = _with_gaps(weights).reshape(len(self.classes), len(self.classes))
            self.tables[term.name] = table[np.ix_(self.shown, self.shown)]
        else:
            self.scores[term.name] = _with_gaps(weights)[self.shown]

    def take_durations(self, term: Term, scores: np.ndarray) -> None:
        """List the numbers of positions (D, L) with the largest scores for each label."""
        names = [f"{d} position{'s' * (d > 1)}" for d in range(1, len(scores) + 1)]
        kept = None
        if self.pattern is not None:
            kept = np.fromiter((self.pattern.search(name) is not None for name in names), bool, len(names))
        lists = tuple(_lists(scores, False, self.classes, self.shown, names, kept, self.top))
        self.sets.append(SetWeights(term.name, lists))

    def take_ngrams(self, term: Term) -> None:
        """List the weights of the n-grams of one clique set, those whose labels are all shown."""
        assert term.outcomes is not None
        shape = (len(self.classes),) * term.labels_per_clique
        rows, weights = np.stack(np.unravel_index(term.outcomes, shape), axis=1), np.ravel(term.known)
        kept = np.isin(rows, self.shown).all(axis=1)
        names = [" ".join(str(self.classes[label]) for label in row) for row in rows.tolist()]
        if self.pattern is not None:
            kept &= np.fromiter((self.pattern.search(name) is not None for name in names), bool, len(names))
        places = np.flatnonzero(kept)
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


class ShownBySummary:
    """A fitted estimator that notebooks show by its summary, in the place of scikit-learn's diagram."""

    summary: Any

    def _repr_html_inner(self) -> str:
        """Return the HTML of scikit-learn's ``_repr_html_``."""
        return self.summary()._repr_html_() if hasattr(self, "field_") else super()._repr_html_inner()  # type: ignore[misc]

    def _repr_mimebundle_(self, **kwargs: object) -> dict[str, str]:
        """Return what a notebook shows, as scikit-learn does."""
        if hasattr(self, "field_") and get_config()["display"] == "diagram":
            return {"text/plain": repr(self), "text/html": self.summary()._repr_html_()}
        return super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]


def tabulate_weights(crf: Any, top: object, labels: object, feature_re: Any, names: object) -> WeightsTable:
    """Return the largest weights per label of a fitted ChainCRF or SegmentCRF; see :meth:`ChainCRF.weights`."""
    known = feature_names(crf, names)
    listing = _Listing.of(crf.classes_.tolist(), top, labels, feature_re, lambda term: known)
    for term in crf.field_.terms:
        if term.group == DURATION:
            listing.take_durations(term, crf.durations_)
        elif term.clique.neighbours_only or term.group == SEGMENT:
            listing.take(term, crf.coef_[term.name])
        elif term.outcomes is not None:
            listing.take_ngrams(term)
        else:
            many = term.clique.n_configurations(len(crf.classes_))
            note = f"{many:,} scores of labels {term.clique.steps_back[0]} steps apart; see coef_[{term.name!r}]"
            listing.sets.append(SetWeights(term.name, note=note))
    matrices, shown = list(listing.tables.values()), listing.shown
    gaps, forbidden = np.isnan(matrices).all(axis=0), _forbidden_steps(crf)[np.ix_(shown, shown)]
    return WeightsTable(
        listing.labels,
        tuple(listing.sets),
        np.where(gaps, np.nan, np.nansum(matrices, axis=0)) if matrices else None,
        forbidden if matrices and forbidden.any() else None,
        listing.scores,
    )


def tabulate_graph_weights(crf: Any, top: object, labels: object, feature_re: Any, names: object) -> WeightsTable:
    """Return the largest weights per label of a fitted GraphCRF; see :meth:`GraphCRF.weights`."""
    known = partial(graph_feature_names, crf, names)
    listing = _Listing.of(crf.classes_.tolist(), top, labels, feature_re, known)
    for term in crf.field_.terms:
        if term.labels_per_clique <= 2:
            listing.take(term, crf.coef_[term.name])
        else:
            many = term.clique.n_configurations(len(crf.classes_))
            note = f"{many:,} scores of {term.labels_per_clique} labels; see coef_[{term.name!r}]"
            listing.sets.append(SetWeights(term.name, note=note))
    return WeightsTable(listing.labels, tuple(listing.sets), scores=listing.scores, tables=listing.tables)


def tabulate_label_weights(crf: Any, top: object, labels: object, feature_re: Any, names: object) -> WeightsTable:
    """Return the largest weights of every label of a fitted MultiLabelCRF; see :meth:`MultiLabelCRF.weights`."""
    known = crf.label_names_.tolist()
    named = feature_names(crf, names)
    wanted, shown, pattern = _checked_top(top), _label_indices(known, labels), _compiled(feature_re)
    ratios = np.full((len(known), len(known)), np.nan)
    for (j, k), ratio in zip(crf.field_.spec.pairs.values(), crf.edge_scores_.values(), strict=True):
        ratios[j, k] = ratios[k, j] = ratio
    sets, biases = {}, np.full(len(known), np.nan)
    for term in crf.field_.terms:
        if term.group is not None:
            continue
        label, kind = term.clique.label, term.name.removesuffix(f" {known[term.clique.label]}")
        if term.tied_everywhere:
            biases[label] = term.known[0, 0]
        elif term.has_pivots:
            sets[kind] = SetWeights(kind, note=f"{pivots_note(term)}, no weights per feature")
        elif label in shown:
            columns = coordinate_names(term, named)
            kept = None
            if pattern is not None:
                kept = np.fromiter((pattern.search(name) is not None for name in columns), bool, len(columns))
            listed = _lists(term.known, False, [known[label]], [0], columns, kept, wanted)
            sets[kind] = SetWeights(kind, (*sets.get(kind, SetWeights(kind)).lists, *listed))
    chosen = tuple(known[index] for index in shown)
    scores = {} if np.isnan(biases).all() else {"bias": biases[shown]}
    tables = {"log odds ratios of pairs": ratios[np.ix_(shown, shown)]} if crf.edge_scores_ else {}
    return WeightsTable(chosen, tuple(sets.values()), scores=scores, tables=tables)


def _forbidden_steps(crf: Any) -> np.ndarray:
    """Return which steps between labels are ruled out, (L, L): by constraints, and from a segment to its like."""
    return np.isneginf(crf.field_.spec.step_penalties)


def summarise(crf: Any) -> ModelSummary:
    """Return a fitted ChainCRF or SegmentCRF at a glance; see :meth:`ChainCRF.summary`."""
    forbidden = _forbidden_steps(crf)
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


def summarise_graphs(crf: Any) -> ModelSummary:
    """Return a fitted GraphCRF at a glance; see :meth:`GraphCRF.summary`."""
    pairs = [table for table in crf.edge_scores_.values() if table.ndim == 2]
    return ModelSummary(
        name=type(crf).__name__,
        labels=tuple(crf.classes_.tolist()),
        n_features=crf._reader.n_features,
        sets=tuple(_summarise(term, "node" if term.group is None else term.group) for term in crf.field_.terms),
        solution=crf.solution_,
        certificates=crf._certificates or (),
        tol=crf.tol,
        parameters=_changed_parameters(crf),
        transitions=pairs[0] if len(pairs) == 1 else None,
    )


def show_sequence(crf: Any, x: object, y: Any, tokens: Any, caption: str) -> LabelledSequence:
    """Return one sequence as a fitted ChainCRF labels it; see :meth:`ChainCRF.show`."""
    check_one_sequence(x, "show")
    labels, marginals = crf.predict([x])[0], crf.predict_marginals([x])[0]
    return LabelledSequence(labels, marginals, crf.classes_.tolist(), tokens, y, caption)


def show_graph(crf: Any, x: object, y: Any, names: Any, positions: Any, caption: str) -> LabelledGraph:
    """Return one graph as a fitted GraphCRF labels it; see :meth:`GraphCRF.show`."""
    graphs = crf._reader.read([x])
    labels, marginals = crf.predict([x])[0], crf.predict_marginals([x])[0]
    edges = {factors.name: factors.members for factors in graphs.factors}
    shown = (labels, marginals, crf.classes_.tolist(), names, y, caption)
    return LabelledGraph(*shown, edges=edges, positions=positions)


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


def _with_gaps(weights: Weights) -> np.ndarray:
    """Return the only row of weights, NaN where a sparse one stores none."""
    if not scipy.sparse.issparse(weights):
        return np.asarray(weights)[0]
    entries = scipy.sparse.coo_array(weights)
    row = np.full(weights.shape[1], np.nan)
    row[entries.col] = entries.data
    return row


def _summarise(term: Term, part: str = "position") -> SetSummary:
    """Return a clique set in words and numbers."""
    if term.tied_everywhere:
        kernel, sees = "none", "labels only"
    else:
        before, after = check_window(term.clique.window)
        kernel = _LONG_NUMBER.sub(lambda found: f"{float(found[0]):.6g}", repr(term.subspace.kernel))
        sees = f"one {part}" if before == after == 0 else f"positions {-before:+d} to {after:+d}"
        if term.group in (DURATION, SEGMENT):
            whole = term.group == DURATION
            sees = f"durations, 1 to {term.clique.max_duration}" if whole else f"means over segments, {sees}"
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
    resolved = {
        name: resolve(defaults[name])
        for name, resolve in _RESOLVED.items()
        if name in defaults and not is_auto(defaults[name])
    }
    return {
        name: _cut(repr(value))
        for name, value in estimator.get_params(deep=False).items()
        if repr(value) not in (repr(defaults[name]), repr(resolved.get(name, defaults[name])))
    }


def _cut(words: str) -> str:
    return words if len(words) <= _LONGEST_VALUE else words[: _LONGEST_VALUE - 1] + "…"


def _label_indices(classes: list[object], labels: Any) -> list[int]:
    if labels is None:
        return list(range(len(classes)))
    if isinstance(labels, str | bytes | Mapping) or not hasattr(labels, "__iter__"):
        raise TypeError(f"labels must be a list of labels, got {labels!r}: write [{labels!r}]")
    indices = list(dict.fromkeys(label_index(classes, label, "labels") for label in labels))
    if not indices:
        raise ValueError("labels is empty: name at least one label, or leave it out for all")
    return indices


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
