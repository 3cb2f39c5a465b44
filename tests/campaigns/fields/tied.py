"""Chains and rings whose labels share weights, drawn, and the optimum of the fit on data moved by the whole group.

The fit to the items is that to every item moved by every element of the group, each with the weight 1 / |G|, without
ties. So the gradient of that objective vanishes, over the whole RKHS where all inputs are pivots: in the span of the
features z, and outside of it, where the kernel is k(x, x') - z(x)^T z(x'),

    ||V / s + Z^T R||^2 + sum_tu <R_t, R_u> (k(x_t, x_u) - z_t^T z_u),      R = weight (marginals - labels)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelfields import ChainCRF, EdgeCliques, RingCRF
from kernelfields.data import LabelSymmetry
from kernelfields.kernels import RBF, Linear, Polynomial
from tests.campaigns.fields.chains import Chain
from tests.campaigns.fields.drawn import LONGEST, NAMES, Redraw, sides_of, windowed
from tests.campaigns.fields.objective import Objective, check_objective
from tests.campaigns.fields.tally import NEAR, Tally
from tests.campaigns.fields.terms import kernel_values


class Tied(Chain):
    """ChainCRF or RingCRF with ties: all inputs are pivots, also of kernels of finite rank."""

    #: Its gradient is that of one number for each orbit.
    lacks = ("solution",)
    form, rule, extra, allowed = "array", None, None, None

    def __init__(self, random: np.random.Generator):
        self.ring = bool(random.random() < 0.3)
        n_labels, self.width = int(random.integers(2, 4)), int(random.integers(2, 4))
        self.masks = {"edge": set(), "start": set(), "end": set(), "label": set()}
        self.items = [self._draw_item(random, int(random.integers(1, LONGEST[n_labels] + 1))) for _ in range(5)]
        truths = [random.integers(n_labels, size=len(item)) for item in self.items]
        if len({int(label) for own in truths for label in own}) < n_labels:
            raise Redraw
        self.classes = NAMES[random.integers(3)][:n_labels]
        self._draw_weights(random)
        self._draw_targets(random, truths, False)
        generators = [
            (random.permutation(n_labels), random.permutation(self.width)) for _ in range(random.integers(1, 3))
        ]
        self.elements = group_of(generators)
        ties = [
            LabelSymmetry({self.classes[a]: self.classes[b] for a, b in enumerate(labels)}, columns)
            for labels, columns in generators
        ]
        inputs = max(map(len, self.items)) > 1 and random.random() < 0.3
        estimator = (RingCRF if self.ring else ChainCRF)(
            self._drawn_kernel(random),
            window=[1, 1, 3, (1, 0)][random.integers(4)],
            edges=EdgeCliques(self._drawn_kernel(random), basis="all") if inputs else None,
            basis="all",
            ties=ties if len(ties) > 1 else ties[0],
            prior_variance=float(random.choice([0.5, 2.0])),
            solver=str(random.choice(["auto", "newton", "newton-cg", "lbfgs"])),
            scale=False,
            tol=1e-10,
            max_iter=500,
            dtype="float64",
            random_state=0,
        )
        self.note = repr(estimator)
        self._fit(estimator, self.known_of([target.entry for target in self.targets]))
        self._draw_new(random, LONGEST[n_labels])

    @staticmethod
    def _drawn_kernel(random: np.random.Generator) -> Any:
        degrees = [Polynomial(degree=degree, gamma=0.4, coef0=0.5) for degree in (1, 2, 3)]
        kernels = [*degrees, "linear", RBF(gamma=0.7), Linear() + Polynomial(degree=2, gamma=0.4, coef0=0.5)]
        return kernels[random.integers(len(kernels))]

    def _draw_item(self, random: np.random.Generator, length: int, words: int = 4) -> np.ndarray:
        return np.round(random.normal(size=(length, self.width)), 3)


def group_of(generators: list[tuple[np.ndarray, np.ndarray]]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return all products of permutations of labels and columns."""
    labels, columns = (np.arange(len(each)) for each in generators[0])
    found = {(tuple(labels), tuple(columns)): (labels, columns)}
    waiting = [*found.values()]
    while waiting:
        labels, columns = waiting.pop()
        for other, places in generators:
            product = other[labels], places[columns]
            if found.setdefault((tuple(product[0]), tuple(product[1])), product) is product:
                waiting.append(product)
    return [*found.values()]


def moved(item: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return an item whose column j is now column ``columns[j]``."""
    there = np.empty_like(item)
    there[:, columns] = item
    return there


def tied_objective(tally: Tally, drawn: Tied) -> None:
    """Compare the objective of the fit, what is left to gain on data moved by the group, and answers about these."""
    objective = Objective(drawn)
    parts = [term.coefficients for term in objective.terms]
    value, _ = objective.at(parts)
    tally.near("objective of the fit", drawn.model.solution_.value, value, NEAR * (1.0 + abs(value)))
    tally.near("gain on moved data", largest_gain(drawn), 0.0, 1e-6 * (1.0 + abs(value)))
    here = np.concatenate(drawn.model.predict_marginals(drawn.new))
    for labels, columns in drawn.elements:
        there = np.concatenate(drawn.model.predict_marginals([moved(item, columns) for item in drawn.new]))
        tally.near("marginals of moved inputs", there[:, labels], here, NEAR)
    check_objective(tally, drawn, np.random.default_rng(0))


def largest_gain(drawn: Tied) -> float:
    """Return a bound on what a fit without ties to all moved items could gain, over the whole RKHS (Lemma 9)."""
    weights = np.ones(len(drawn.items)) if drawn.weights is None else drawn.weights
    gains = 0.0
    for number, (fitted, term) in enumerate(zip(drawn.fitted.field_.terms, drawn.terms, strict=True)):
        inputs, residuals = [], []
        for labels, columns in drawn.elements:
            for item, target, weight in zip(drawn.items, drawn.targets, weights, strict=True):
                there = moved(item, columns)
                whole = drawn.enumerated(there)
                right = whole.rows[number].counts[(whole.labellings == labels[target.labels]).all(axis=1)][0]
                residuals.append(weight / len(drawn.elements) * (whole.expected(number) - right))
                seen = windowed(there, sides_of(fitted.clique.window), drawn.ring)
                inputs += [seen[places[-1]] for places in whole.rows[number].members]
        rows = np.concatenate(residuals)
        table = np.reshape(inputs, (len(rows), -1))
        features = term.features_of(table)
        slope = term.coefficients / term.prior_variance + features.T @ rows
        kernel = fitted.subspace.kernel
        constant = type(kernel).__name__ == "Constant"
        values = np.ones((len(rows), len(rows))) if constant else kernel_values(kernel, table, table)
        outside = np.sum((rows @ rows.T) * (values - features @ features.T))
        gains += 0.5 * term.prior_variance * (float((slope**2).sum()) + max(float(outside), 0.0))
    return gains
