"""Attribution of kernel scores to training inputs: how much each contributes, and where it stands.

At its optimum a function of a kernel is a sum over the training data, one term for each clique t of the set,

    f(x, a) = s sum_t k(x, x_t) (1[y_t = a] - p(y_t = a | data)),      s the prior variance

in the subspace that the pivots span, with its kernel z(x)^T z(x_t) in the place of k. So an input contributes to the
score of its label, more the more similar it is and the less certain the field was of it. These terms are of ordinary
size, and the rest of their sum is the gap of the fit; they need the training data. Without these there are the pivots
b, a part of the training inputs, and

    f(x, a) = sum_b k(x, b) alpha_b(a)

whose terms may be large and cancel. Better readable are the most similar pivots, and the score of the label there.

Cost: with training data, one pass over them for p and the features of each set, O(N r); else O(r) per clique.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan

import numpy as np

from kernelfields.engines.engine import PackedData
from kernelfields.fields.chains import Chains
from kernelfields.fields.graphs import Graphs
from kernelfields.fields.label_cliques import LabelledInstances
from kernelfields.fields.reading import locate
from kernelfields.models.field import Field
from kernelfields.numerics.threads import Workers
from kernelfields.objective.likelihoods.likelihood import likelihood_of
from kernelfields.objective.term import Term
from kernelfields.reports.inspection import Contribution


@dataclass(frozen=True)
class Exchange:
    """One clique that changes when a position takes its other label.

    ``row`` counts the cliques of the set, ``kept`` and ``lost`` are the labellings of the clique before and after,
    ``step`` names the neighbours that take part, if any do.
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


@dataclass(frozen=True)
class Contributors:
    """Kernel values (n, N) between new cliques and training inputs, and the weights of these, (N, L^k).

    The term of training input t in the score of labelling y at new clique i is values[i, t] weights[t, y].
    """

    values: np.ndarray
    weights: np.ndarray


class TrainingInputs:
    """The training data of a fitted field, and what they contribute to its scores."""

    def __init__(self, field: Field, data: PackedData, classes: Sequence[object], workers: Workers):
        self._field, self._data, self._classes, self._workers = field, data, classes, workers
        self._residuals: dict[str, np.ndarray] = {}

    def contributors(self, term: Term, data: PackedData) -> Contributors:
        """Return kernel values and weights of all training inputs for the cliques of new data."""
        self._check_pivots(term)
        residuals = self._all_residuals()[term.name]
        weights = -term.prior_variance * term.in_labels(term.in_coordinates(residuals))
        subspace = term.subspace
        features = subspace.features(term.clique.view(self._data))
        return Contributors(subspace.features(term.clique.view(data)) @ features.T, weights)

    def words(self, term: Term, row: int) -> str:
        """Return what to call a training input: where it is, and its label."""
        data = self._data
        if isinstance(data, LabelledInstances):
            return f"training instance {row}"
        if isinstance(data, Graphs) and term.group is not None:
            graph, factor = locate(data.group(term.group).offsets, row)
            return f"{term.group} {factor} of training graph {graph}"
        positions = term.clique.positions(data)
        place = row if positions is None else int(positions[row])
        whole, part = locate(data.offsets, place)
        label = self._classes[data.required_labels[place]]
        names = ("sequence", "position") if isinstance(data, Chains) else ("graph", "node")
        return f"{names[1]} {part} of training {names[0]} {whole}, labelled {label}"

    def _all_residuals(self) -> dict[str, np.ndarray]:
        """Return marginals minus labels at the cliques of every term with pivots, (N, L^k) each."""
        if not self._residuals:
            field, data = self._field, self._data
            placements = [term.placement(data) for term in field.terms]
            likelihood = likelihood_of(data, placements, field.spec, self._workers)
            residual = likelihood.evaluate(field.potentials(data, likelihood.family, likelihood.workers)).residual
            self._residuals = {
                term.name: likelihood.family.clique_residuals(residual, placement)
                for term, placement in zip(field.terms, placements, strict=True)
                if term.has_pivots
            }
        return self._residuals

    def _check_pivots(self, term: Term) -> None:
        """Raise unless the pivots of a term are where it says in the training data."""
        inputs, subspace = term.clique.view(self._data), term.span
        known = int(subspace.indices.max(initial=0)) < inputs.shape[0]
        if known:
            known = float(abs(inputs[subspace.indices] - subspace.pivots).max()) == 0.0
        if not known:
            raise ValueError("training holds other inputs than the fit: pass the X and y that the model was fitted to")


def contributing_inputs(
    term: Term, contributors: Contributors, training: TrainingInputs, exchange: Exchange, count: int
) -> list[Contribution]:
    """Return the ``count`` training inputs whose terms are largest in an exchange of labels."""
    values = contributors.values[exchange.row]
    amounts = values * (contributors.weights[:, exchange.kept] - contributors.weights[:, exchange.lost])
    chosen = np.argsort(-np.abs(amounts), kind="stable")[:count]
    chosen = chosen[np.argsort(-amounts[chosen], kind="stable")].tolist()
    return [
        Contribution("training", term.name, training.words(term, i), float(amounts[i]), float(values[i]))
        for i in chosen
    ]


def similar_pivots(
    term: Term, values: np.ndarray, at_pivots: np.ndarray, exchange: Exchange, count: int
) -> list[Contribution]:
    """Return the most similar pivots, by kernel values (r,), and what the exchange would bring there; no amounts."""
    parts = []
    for i in np.argsort(-values, kind="stable")[:count].tolist():
        there = float(at_pivots[i, exchange.kept] - at_pivots[i, exchange.lost])
        name = f"like training input {term.span.indices[i]}, where it is {there:+.3f}"
        parts.append(Contribution("similar", term.name, name, nan, float(values[i])))
    return parts
