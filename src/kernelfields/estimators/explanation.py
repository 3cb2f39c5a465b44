"""Explanation of one sequence: the features, transitions and kernels that moved its labels.

At position t with label a, neighbours a' before and a'' after, and another label o,

    difference_t = node_t(a) - node_t(o) + edge_t(a', a) - edge_t(a', o) + edge_{t+1}(a, a'') - edge_{t+1}(o, a'')

is the log odds of the labelling against the one with o in place of a. Every potential is z(x)^T w, so the
difference falls apart into terms z_f (w_fa - w_fo), one per feature, and one term per clique set without inputs
or with a kernel; these add up exactly. For a set of pivots, f(x) = sum_b k(x, b) alpha_b gives a term per pivot.

Shapes: labels and others (T,) indices. Cost: that of the potentials, and O(non-zeros) for the terms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from kernelfields.basis.subspace import ConstantSubspace, ExplicitSubspace
from kernelfields.estimators.feature_weights import coordinate_names, largest, pivots_note
from kernelfields.fields.chains import Chains
from kernelfields.fields.constraints import ConstraintMasks
from kernelfields.models.field import Field
from kernelfields.objective.term import Term
from kernelfields.reports.explanations import Contribution, Explanation, PositionExplanation


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


def most_probable_others(marginals: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the most probable label other than the given one at each position, (T,)."""
    others = marginals.copy()
    others[np.arange(len(labels)), labels] = -1.0
    return others.argmax(axis=1)


def explain_chain(
    field: Field,
    coefficients: Mapping[str, Any],
    chains: Chains,
    labels: np.ndarray,
    others: np.ndarray,
    marginals: np.ndarray,
    *,
    classes: Sequence[Any],
    names: Sequence[str],
    tokens: Sequence[str] | None,
    top: int,
    pivots: int,
) -> Explanation:
    """Return what made ``labels`` (T,) better than ``others`` (T,) in chains of one sequence.

    ``coefficients`` maps names of sets to (r, L^k) weights, dense or CSR; ``marginals`` is (T, L).
    """
    n_positions = chains.n_positions
    features: list[list[Contribution]] = [[] for _ in range(n_positions)]
    wholes: list[list[Contribution]] = [[] for _ in range(n_positions)]
    for term in field.terms:
        exchanges = list(_exchanges(term, chains, labels, others, classes))
        if isinstance(term.subspace, ConstantSubspace):
            for exchange, whole in zip(exchanges, _constants(term, coefficients[term.name], exchanges), strict=True):
                wholes[exchange.position].append(whole)
        elif isinstance(term.subspace, ExplicitSubspace):
            found = _feature_terms(term, coefficients[term.name], chains, exchanges, names)
            for exchange, terms in zip(exchanges, found, strict=True):
                features[exchange.position] += terms
        else:
            for exchange, whole in zip(exchanges, _kernels(term, chains, exchanges, pivots), strict=True):
                wholes[exchange.position].append(whole)
    masks = field.structure.masks  # type: ignore[attr-defined]
    positions = []
    for t in range(n_positions):
        listed, left_out = _split(features[t], top)
        shown = sorted([*listed, *wholes[t]], key=lambda term: -term.amount)
        positions.append(
            PositionExplanation(
                t,
                None if tokens is None else tokens[t],
                classes[labels[t]],
                classes[others[t]],
                float(marginals[t, labels[t]]),
                float(marginals[t, others[t]]),
                sum(term.amount for term in [*shown, *left_out]),
                tuple(shown),
                len(left_out),
                sum(term.amount for term in left_out),
                tuple(_broken_rules(masks, labels, others, t, classes)),
            )
        )
    return Explanation(tuple(positions))


def _exchanges(
    term: Term, chains: Chains, labels: np.ndarray, others: np.ndarray, classes: Sequence[Any]
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


def _constants(term: Term, weights: Any, exchanges: Sequence[Exchange]) -> Iterator[Contribution]:
    row = _dense(weights)[0]
    own_name = term.name != term.clique.default_name
    for exchange in exchanges:
        amount = float(row[exchange.kept] - row[exchange.lost])
        if exchange.step:
            name = f"{exchange.step} ({term.name})" if own_name else exchange.step
            yield Contribution("transition", term.name, name, amount)
        else:
            yield Contribution("constant", term.name, term.name, amount)


def _feature_terms(
    term: Term, weights: Any, chains: Chains, exchanges: Sequence[Exchange], names: Sequence[str]
) -> Iterator[list[Contribution]]:
    """Yield the terms of all features that an exchange moves, those of zero left out."""
    features = scipy.sparse.csr_array(term.subspace.features(term.clique.view(chains)))
    labelled = coordinate_names(term, names)
    for exchange in exchanges:
        entries = slice(features.indptr[exchange.row], features.indptr[exchange.row + 1])
        columns, values = features.indices[entries], features.data[entries]
        # Sparse or dense, only the rows of features that occur are looked at.
        pair = _dense(weights[columns][:, [exchange.kept, exchange.lost]])
        amounts = values * (pair[:, 0] - pair[:, 1])
        suffix = f", {exchange.step}" if exchange.step else ""
        yield [
            Contribution("feature", term.name, labelled[int(columns[i])] + suffix, float(amounts[i]), float(values[i]))
            for i in np.flatnonzero(amounts)
        ]


def _kernels(term: Term, chains: Chains, exchanges: Sequence[Exchange], pivots: int) -> Iterator[Contribution]:
    """Yield the whole contribution of a set of kernel functions, with its ``pivots`` largest parts."""
    subspace, inputs = term.subspace, term.clique.view(chains)
    scores = term.in_labels(subspace.apply(inputs, term.known))
    if pivots:
        similar = subspace.kernel(inputs, subspace.pivots)
        dual = term.in_labels(subspace.dual_coefficients(term.known))
    name = f"{term.name}: {pivots_note(term)}"
    for exchange in exchanges:
        parts: list[Contribution] = []
        if pivots:
            values = similar[exchange.row]
            amounts = values * (dual[:, exchange.kept] - dual[:, exchange.lost])
            chosen = np.concatenate(largest(amounts, pivots))
            parts = [
                Contribution(
                    "pivot",
                    term.name,
                    f"pivot {i}, training input {subspace.indices[i]}",
                    float(amounts[i]),
                    float(values[i]),
                )
                for i in chosen[np.argsort(-amounts[chosen], kind="stable")].tolist()
            ]
        amount = float(scores[exchange.row, exchange.kept] - scores[exchange.row, exchange.lost])
        step = f", {exchange.step}" if exchange.step else ""
        yield Contribution("kernel", term.name, name + step, amount, parts=tuple(parts))


def _split(terms: list[Contribution], top: int) -> tuple[list[Contribution], list[Contribution]]:
    """Return the ``top`` largest terms by size, and the others."""
    ordered = sorted(terms, key=lambda term: -abs(term.amount))
    return ordered[:top], ordered[top:]


def _broken_rules(
    masks: ConstraintMasks, labels: np.ndarray, others: np.ndarray, t: int, classes: Sequence[Any]
) -> Iterator[str]:
    """Yield what the constraints say about the label at t and about its rival, given the neighbours."""
    last = len(labels) - 1
    for label in (labels[t], others[t]):
        rules = [
            (masks.label[label], "everywhere"),
            (t == 0 and masks.start[label], "at the first position"),
            (t == last and masks.end[label], "at the last position"),
            (t > 0 and masks.edge[labels[t - 1], label], f"after {classes[labels[t - 1]]}"),
            (
                t < last and masks.edge[label, labels[min(t + 1, last)]],
                f"before {classes[labels[min(t + 1, last)]]}",
            ),
        ]
        yield from (f"{classes[label]} is forbidden {where} by the constraints" for broken, where in rules if broken)


def _dense(weights: Any) -> np.ndarray:
    return weights.toarray() if scipy.sparse.issparse(weights) else np.asarray(weights)
