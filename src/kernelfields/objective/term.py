"""Terms: the summands of a field, one function for each clique set.

    f(x, y) = z(x)^T V A^T e_y          z: features of a subspace, V (r, q): coefficients, A (L^k, q): label factor

A term is a clique set with the finite coordinates it is fitted in: a subspace of its RKHS, the factor of its label
kernel (None: the identity) and the pairs of features and labellings with coefficients: all of them, or P chosen ones,
V then being (P, 1).
``sample.design(term)`` puts it on labelled data, for fitting; ``term.scores(data)`` gives its scores of new data. Cost
of scores: that of the features and O(n r q).
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Protocol, TypeAlias

import numpy as np

from kernelfields.basis.subspace import ConstantSubspace, Expansion, PivotSubspace, Subspace
from kernelfields.data.chains import Packed
from kernelfields.data.cliques import CliqueSet
from kernelfields.inference import families
from kernelfields.inference.choice import FamilySpec
from kernelfields.inference.potentials import Array, Placement
from kernelfields.kernels.labels import Delta, resolve_label_kernel
from kernelfields.numerics.sparse_rows import Rows
from kernelfields.numerics.threads import Workers
from kernelfields.objective.designs.pairs import EVERY_PAIR, EveryPair, Pairs, QuadraticForm
from kernelfields.objective.designs.pairs import Scorer as PairScorer

#: Labelled or new data: packed sequences or graphs, or instances with several labels.
Data: TypeAlias = Packed


class Scorer(Protocol):
    """A provider, such as an engine, of scores of new inputs."""

    def scores(self, expansion: Expansion, inputs: Rows) -> Array:
        """Return k(x, B) alpha for each row of inputs, (n, q): an array, or a tensor for potentials of tensors."""


@dataclass(eq=False)
class Term:
    """A clique set in finite coordinates; ``coefficients`` V are None before the fit."""

    clique: CliqueSet
    name: str
    subspace: Subspace
    label_factor: np.ndarray | None = None
    pairs: Pairs = EVERY_PAIR
    coefficients: np.ndarray | None = None

    @property
    def has_shared_coefficients(self) -> bool:
        """Whether labels share coefficients, so that V has more entries than free coefficients."""
        return self.pairs.shared

    @property
    def has_all_pairs(self) -> bool:
        """Whether every feature has a free coefficient in every label coordinate."""
        return self.pairs.complete and not self.has_shared_coefficients

    def free_coefficients(self, table: np.ndarray) -> np.ndarray:
        """Return the free coefficients of a table V, or the gradient in them from one in V."""
        return self.pairs.free_coefficients(table)

    def quadratic_form(self, inputs: Rows, residuals: np.ndarray, form: QuadraticForm) -> float:
        """Return the squared norm of the likelihood's gradient in the RKHS for residuals (n, q) of cliques.

        ``form`` computes sum_tu k(x_t, x_u) <R_t, R_u>, which it is where labels share no coefficients.
        """
        assert isinstance(self.pairs, EveryPair), f"term {self.name!r} has chosen pairs, and pivots"
        return self.pairs.quadratic_form(self.clique, self.subspace.kernel, inputs, residuals, form)

    @property
    def labels_per_clique(self) -> int:
        """Number of labels of a clique."""
        return self.clique.labels_per_clique

    @property
    def reach(self) -> int:
        """Number of steps between the first label of a clique of a chain and its last."""
        return self.clique.reach

    @property
    def group(self) -> str | None:
        """Name of its group of factors; None for single labels."""
        return self.clique.group

    @property
    def prior_variance(self) -> float:
        """Variance of the Gaussian prior."""
        return float(self.clique.prior_variance)

    @property
    def l1(self) -> float:
        """Weight of the sum of absolute coefficients in the objective."""
        return float(self.clique.l1 or 0.0)

    @property
    def is_constant(self) -> bool:
        """Whether the potential does not depend on the inputs."""
        return isinstance(self.subspace, ConstantSubspace)

    @property
    def outcomes(self) -> np.ndarray | None:
        """The labellings with constant scores; None if all have one."""
        return self.pairs.listing

    @property
    def has_pivots(self) -> bool:
        """Whether pivots span the functions of the term, so that a part of the RKHS is outside."""
        return isinstance(self.subspace, PivotSubspace)

    @property
    def span(self) -> PivotSubspace:
        """The subspace of a term with pivots."""
        assert isinstance(self.subspace, PivotSubspace), f"no pivots span the functions of term {self.name!r}"
        return self.subspace

    def fitted(self, coefficients: np.ndarray) -> Term:
        """Return the term with coefficients."""
        return replace(self, coefficients=coefficients)

    def with_clique(self, clique: CliqueSet) -> Term:
        """Return the term with another clique set; with the kernel and the view of the subspace."""
        return replace(self, clique=clique)

    def placement(self, data: Data) -> Placement:
        """Return the places of the term's cliques in data."""
        clique = self.clique
        return Placement(
            clique.labels_per_clique,
            clique.group,
            clique.positions(data),
            self.is_constant,
            self.outcomes,
            clique.reach,
        )

    def to_labellings(self, values: Array) -> Array:
        """Map (n, q) values in label coordinates to (n, L^k) values per labelling; tensors to tensors."""
        factor = self.label_factor
        if factor is None:
            return values
        return values @ (factor if isinstance(values, np.ndarray) else values.new_tensor(factor)).T

    def to_coordinates(self, residuals: np.ndarray) -> np.ndarray:
        """Map (n, L^k) residuals per labelling to (n, q) label coordinates."""
        return residuals if self.label_factor is None else residuals @ self.label_factor

    @property
    def label_coefficients(self) -> Rows:
        """Coefficients per labelling, (r, L^k): V A^T; a sparse matrix if there is a support."""
        return self.to_labellings(self.pairs.matrix(self.known))

    def expand_labellings(self, coefficients: np.ndarray) -> np.ndarray:
        """Return some coefficients per labelling, (r, L^k); (1, P) for listed outcomes."""
        return self.to_labellings(self.pairs.dense(coefficients))

    @property
    def tied_scores(self) -> np.ndarray:
        """The potential of a term without inputs, (1, L^k); (1, P) for listed outcomes."""
        return self.compute_scores(None, self.known)

    def features(self, data: Data) -> Rows | None:
        """Return z(x) of the cliques of new data, (n, r); None for a constant."""
        return None if self.is_constant else self.subspace.features(self.clique.view(data))

    def compute_scores(self, features: Rows | None, coefficients: np.ndarray) -> np.ndarray:
        """Return the scores of cliques with known features, (n, L^k); one row for a constant term."""
        pairs = self.pairs
        return self.to_labellings(
            pairs.row(coefficients) if features is None else pairs.product(features, coefficients)
        )

    def scores(self, data: Data, workers: Workers) -> np.ndarray:
        """Return the potentials of the cliques of new data, (n, L^k); one row if all are equal."""
        if self.is_constant:
            return self.tied_scores
        return self.to_labellings(self.scorer.scores(self.clique.view(data), workers))

    def slope(self, data: Data, residuals: np.ndarray, workers: Workers) -> np.ndarray:
        """Return the gradient in the coefficients for residuals (n, q) of the cliques of new data; (1, q) if tied."""
        features = self.features(data)
        return self.pairs.pick(residuals) if features is None else self.pairs.slope(features, residuals, workers)

    @cached_property
    def scorer(self) -> PairScorer:
        """The coefficients, prepared for scores."""
        # Laid out once: labelling one short sequence costs less than the layout of a support.
        return self.pairs.scorer(self.subspace, self.known)

    @property
    def known(self) -> np.ndarray:
        """The coefficients of a fitted term."""
        assert self.coefficients is not None, f"term {self.name!r} is not fitted"
        return self.coefficients


class Expansions:
    """Kernel expansions and scores of steps of fitted terms, cached from their first use.

    Terms of one subspace are one expansion, their coefficients side by side. It is made anew when a term has another
    subspace or another array of coefficients. Copies and pickles of a field begin without any; threads that use
    one for the first time at once each make it, and one of them is kept.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[Expansion, list[np.ndarray]]] = {}
        self._steps: tuple[np.ndarray, families.StepTable, list[np.ndarray]] | None = None

    def __reduce__(self) -> tuple[type[Expansions], tuple[()]]:
        return Expansions, ()

    def scores(self, terms: Sequence[Term], data: Data, place: Scorer | None = None) -> list[Array]:
        """Return the potentials of the cliques of new data, (n, L^k), for each of the terms of one subspace.

        ``place`` computes kernels; None for this process.
        """
        expansion, inputs = self._of(terms), terms[0].clique.view(data)
        scores = expansion.scores(inputs) if place is None else place.scores(expansion, inputs)
        ends = np.cumsum([0, *(term.known.shape[1] for term in terms)]).tolist()
        parts = [scores[:, begin:end] for begin, end in pairwise(ends)]
        return [term.to_labellings(part) for term, part in zip(terms, parts, strict=True)]

    def steps(self, terms: Sequence[Term], spec: FamilySpec) -> tuple[np.ndarray, families.StepTable]:
        """Return the scores of all steps by tied terms, (1, L, L), and their table with the penalties of constraints.

        ValueError if they are not finite.
        """
        coefficients = [term.known for term in terms]
        known = self._steps
        if known is None or len(known[2]) != len(terms) or not all(map(operator.is_, known[2], coefficients)):
            edge = np.zeros((1, spec.n_labels, spec.n_labels))
            for term in terms:
                edge += term.tied_scores.reshape(edge.shape)
            if not np.isfinite(edge).all():
                raise ValueError("scores of steps are not finite: they are larger than numbers can be")
            table = families.StepTable(edge if spec.masks is None else edge + spec.masks.edge)
            known = self._steps = edge, table, coefficients
        return known[:2]

    def _of(self, terms: Sequence[Term]) -> Expansion:
        subspace, coefficients = terms[0].span, [term.known for term in terms]
        known = self._known.get(id(subspace))
        if known is not None:
            expansion, stacked = known
            same = len(stacked) == len(coefficients) and all(map(operator.is_, stacked, coefficients))
            if same and expansion.subspace is subspace:
                return expansion
        expansion = Expansion(subspace, coefficients[0] if len(terms) == 1 else np.hstack(coefficients))
        self._known[id(subspace)] = expansion, coefficients
        return expansion


def label_factor(clique: CliqueSet, n_labels: int, pairs: Pairs) -> np.ndarray | None:
    """Return A with A A^T the centred label kernel, or None for the identity.

    Pairs of labels with the delta kernel stay uncentred: one dimension in L^2 is not worth a product with a
    dense (L^2, L^2 - 1) matrix, and so do sets whose labels share coefficients, which are permuted. Pairs without a
    direction have the L (L + 1) / 2 symmetric tables.
    """
    kernel = resolve_label_kernel(clique.label_kernel)
    if clique.symmetric:
        return symmetric_tables(n_labels)
    if clique.one_table:
        return np.ones((n_labels, 1))
    singly = clique.has_single_labellings or pairs.shared
    if singly or (clique.labels_per_clique >= 2 and isinstance(kernel, Delta)):
        return None
    # In C order, as a model file gives it back: products round differently for another order.
    return np.ascontiguousarray(kernel.factor(clique.n_configurations(n_labels)))


def symmetric_tables(n_labels: int) -> np.ndarray:
    """Return an orthonormal basis of the symmetric (L, L) tables as columns, (L^2, L (L + 1) / 2)."""
    first, second = np.triu_indices(n_labels)
    tables = np.zeros((n_labels**2, len(first)))
    columns = np.arange(len(first))
    height = np.where(first == second, 1.0, np.sqrt(0.5))
    tables[first * n_labels + second, columns] = height
    tables[second * n_labels + first, columns] = height
    return tables
