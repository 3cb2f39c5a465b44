"""Designs: terms on the cliques of labelled data, maps from coefficients to scores and back.

    scores(V)       = Z V A^T        (n, L^k)
    pull_back(R)    = Z^T R A        (r, q)

Z (n, r) are the features of a term, multiplied by a *table* (tables.py, pairs.py).

Where pivots span the features, two questions need more than Z (:class:`FeatureOrigin`):

* how much gradient lies outside the span of the pivots, with R (n, q) the residuals in label coordinates and
  d = k(x, x) - ||z(x)||^2:

      tr R^T K R - ||Z^T R||^2                exact, O(n^2 (d + q)) time, streamed in blocks
      (sum_t ||R_t|| sqrt(d_t))^2             a bound, free; the sum runs over all processes before it is squared

* what rounding of stored features does to the value. A fit sees Z as it is stored; the fitted field answers with
  the kernel. To first order the value of the field itself differs from the one reported by

      sum_t <R_t, (z(x_t) - Z_t)^T V>         z(x) = R_B^-1 k(B, x) in float64

  estimated on at most 2,000 positions spread evenly over the data: O(2000 r (d + q)) time.

Designs next to each other whose features are one table are multiplied as one: Z (V_1 .. V_m) and
Z^T (R_1 A_1 .. R_m A_m). The labels of a multi-label field are such designs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_array

from kernelfields.basis.panel import PanelCholesky
from kernelfields.basis.subspace import PivotSubspace
from kernelfields.data.cliques import CliqueSet
from kernelfields.inference.potentials import Array
from kernelfields.kernels.arrays import namespace
from kernelfields.kernels.kernel import Kernel
from kernelfields.kernels.rows import row_blocks
from kernelfields.numerics.group import ALONE, Group
from kernelfields.numerics.sparse_rows import Rows, is_sparse
from kernelfields.numerics.threads import Workers
from kernelfields.objective.designs import pair_forms
from kernelfields.objective.designs.tables import FeatureTable, SparseTable
from kernelfields.objective.term import Term

# Fewest passes among the values tried (docs/finished_studies.md).
TIED_SHARE = 0.1
# Positions on which the rounding of features is estimated, and how many kernel rows are there at once: where memory
# is short, all of the sample would be too many.
_SAMPLE = 2000
_AT_ONCE = 250


def kernel_quadratic_form(
    kernel: Kernel, inputs: Rows, residuals: np.ndarray, placed: Callable[[Any, np.ndarray], tuple] | None = None
) -> float:
    """Return tr R^T K R for residuals R (N, q), streaming square blocks of the symmetric K.

    It is the squared norm of the likelihood's gradient in the whole RKHS. ``placed`` puts inputs and residuals where
    the kernel is computed; None for here.
    """
    n_rows = inputs.shape[0]
    active = np.flatnonzero(np.any(residuals != 0.0, axis=1))
    if len(active) == 0:
        return 0.0
    if len(active) < n_rows:
        inputs, residuals = inputs[active], residuals[active]
    blocks = row_blocks(len(active), min(len(active), 4096))
    total, (there, own) = 0.0, (inputs, residuals) if placed is None else placed(inputs, residuals)
    for i, rows in enumerate(blocks):
        for columns in blocks[i:]:
            product = namespace(own).asarray(kernel(there[rows], there[columns]), dtype=own.dtype)
            part = float((own[rows] * (product @ own[columns])).sum())
            total += part if rows == columns else 2.0 * part
    return max(total, 0.0)


@dataclass
class FeatureOrigin:
    """Kernel and pivots (r, d) of features, their inputs (n, d), and k(x, x) - ||z(x)||^2, (n,)."""

    kernel: Kernel
    pivots: Rows
    inputs: Rows
    residual_diagonal: np.ndarray

    def outside_bound(self, norms: np.ndarray) -> float:
        """Return sum_t ||R_t|| sqrt(d_t), a bound on the norm of the gradient outside the span, from ||R_t||."""
        return float(norms @ np.sqrt(np.maximum(self.residual_diagonal, 0.0)))

    def rounding(
        self,
        stored: Array,
        coefficients: np.ndarray,
        dual: np.ndarray,
        take_residuals: Callable[[np.ndarray], np.ndarray],
    ) -> float:
        """Estimate the change of the value for exact features from some rows of features and residuals.

        ``dual`` are the weights of the kernel functions at the pivots that belong to ``coefficients``.
        """
        n_rows = len(self.residual_diagonal)
        rows = np.linspace(0, n_rows - 1, min(n_rows, _SAMPLE)).astype(np.int64)
        total = 0.0
        for begin in range(0, len(rows), _AT_ONCE):
            some = rows[begin : begin + _AT_ONCE]
            exact = self.kernel(self.inputs[some], self.pivots) @ dual
            kept = np.asarray(stored[some], dtype=np.float64) @ coefficients
            total += float(np.vdot(take_residuals(some), exact - kept))
        return n_rows / max(1, len(rows)) * total


def residual_variance(subspace: PivotSubspace, inputs: Rows, features: np.ndarray) -> np.ndarray:
    """Return the residual variance k(x, x) - ||z(x)||^2 of each input outside the span, (n,)."""
    inside = np.einsum("ij,ij->i", features, features, dtype=np.float64)
    return np.maximum(subspace.kernel.diag(inputs) - inside, 0.0)


@dataclass(eq=False)
class Design:
    """A term on labelled data for a posterior: sizes, prior and precision; features may be on any device.

    Coefficients have ``rank`` rows: of sparse features only those columns that some input has, ``occupied`` among
    ``n_columns``. With ``dense_inputs``, dense inputs are the features as they are: expect bad conditioning. A design
    that may still grow keeps its ``panel``.
    """

    term: Term
    n_labels: int
    rank: int
    dtype: np.dtype
    stored_values: int
    density: float = 1.0
    sparse: bool = False
    dense_inputs: bool = False
    occupied: np.ndarray | None = None
    n_columns: int = 0
    panel: PanelCholesky | None = None
    #: Products with the features, where they are; designs of one and the same table see the same features.
    table: Any = None

    @property
    def name(self) -> str:
        """Name of the term."""
        return self.term.name

    @property
    def labels_per_clique(self) -> int:
        """Number of labels of a clique."""
        return self.term.labels_per_clique

    @property
    def reach(self) -> int:
        """Number of steps between the first label of a clique of a chain and its last."""
        return self.term.reach

    @property
    def group(self) -> str | None:
        """Name of its group of factors; None for single labels."""
        return self.term.group

    @property
    def is_constant(self) -> bool:
        """Whether the potential is the same at all positions of the term."""
        return self.term.is_constant

    @property
    def outcomes(self) -> np.ndarray | None:
        """The labellings with constant scores; None if all have one."""
        return self.term.outcomes

    @property
    def n_configurations(self) -> int:
        """Number of labellings of one clique, L^k."""
        return self.n_labels**self.labels_per_clique

    @property
    def label_share(self) -> float:
        """The mean variance of a label coordinate at equal probabilities of all labels."""
        labels, factor = self.n_configurations, self.term.label_factor
        if factor is None:
            return 1.0 / labels
        return float(np.einsum("ij,ij->", factor, factor)) / (labels * self.shape[1])

    @property
    def shape(self) -> tuple[int, int]:
        """Shape (r, q) of the coefficients; (P, 1) with a support."""
        factor = self.term.label_factor
        return self.term.pairs.shape(self.rank, self.n_configurations if factor is None else factor.shape[1])

    def compress(self, coefficients: np.ndarray) -> np.ndarray:
        """Return the rows of full coefficients in occupied columns."""
        return coefficients if self.occupied is None else coefficients[self.occupied]

    def expand(self, coefficients: np.ndarray) -> np.ndarray:
        """Return full coefficients, zero for features without training inputs."""
        if self.occupied is None:
            return coefficients
        full = np.zeros((self.n_columns, coefficients.shape[1]))
        full[self.occupied] = coefficients
        return full

    def with_clique(self, clique: CliqueSet) -> Self:
        """Return the same features with another prior."""
        return replace(self, term=self.term.with_clique(clique))


@dataclass(eq=False)
class LocalDesign(Design):
    """A design with features in this process or on its device.

    ``positions`` are the rows of the data that carry a clique (None: all), ``table`` the products with the matching
    rows Z (None: the constant 1), and ``origin`` the kernel and pivots behind the features, where there are any.

    Coefficients are arrays of NumPy; scores and residuals are what the table computes with, tensors on a device.
    """

    positions: np.ndarray | None = None
    origin: FeatureOrigin | None = None
    _device_factor: Array | None = field(default=None, init=False, repr=False)

    @classmethod
    def from_features(
        cls,
        term: Term,
        features: Rows | FeatureTable | None,
        n_labels: int,
        *,
        positions: np.ndarray | None = None,
        origin: FeatureOrigin | None = None,
        group: Group = ALONE,
    ) -> LocalDesign:
        """Return the design of features (n, r): an array, a CSR matrix, a table, or None for the constant 1.

        The rows of all processes of a ``group`` decide which columns of a CSR matrix have coefficients.
        """
        if features is None:
            # A constant does not lower or raise the precision of others.
            return cls(term, n_labels, 1, np.dtype(np.float32), 0, positions=positions)
        sparse, density, n_columns = is_sparse(features), 1.0, features.shape[1]
        occupied = term.pairs.find_occupied(features, group)
        if occupied is not None:
            features = csr_array(features)[:, occupied]
        if is_sparse(features):
            density = features.nnz / max(1, features.shape[0] * features.shape[1])
        table = term.pairs.table(features)
        return cls(
            term,
            n_labels,
            table.shape[1],
            table.dtype,
            table.stored_values,
            density=density,
            sparse=sparse,
            dense_inputs=not term.has_pivots and isinstance(features, np.ndarray),
            occupied=occupied,
            n_columns=n_columns,
            positions=positions,
            table=table,
            origin=origin,
        )

    @property
    def features(self) -> Any:
        """The features Z (n, r), an array or a CSR matrix, or their table."""
        return None if self.table is None else getattr(self.table, "features", self.table)

    @property
    def pair_table(self) -> pair_forms.PairTable | None:
        """The features with their chosen pairs, if there are both."""
        if self.term.has_all_pairs:
            return None
        return self.table if isinstance(self.table, pair_forms.PairTable) else None

    def start_curvature(self, n_cliques: float) -> float:
        """Return the mean diagonal of the likelihood's Hessian in this term at equal probabilities of all labels.

        Of a term without features, ``TIED_SHARE`` of it. Nothing but the speed of L-BFGS depends on this scale.
        """
        if self.table is None:
            return TIED_SHARE * n_cliques * self.label_share
        return self.table.mean_square() * self.label_share

    def scores(self, coefficients: np.ndarray, workers: Workers | None = None) -> Array:
        """Return Z V A^T, (n, L^k) float64; (1, L^k) for a constant term."""
        if self.table is None:
            return self.to_labellings(self.term.pairs.row(coefficients))
        return self.to_labellings(self.table.product(coefficients, workers or Workers(1)))

    def pull_back(self, residual: Array, workers: Workers | None = None) -> np.ndarray:
        """Return Z^T residual A, (r, q) float64, for residual (n, L^k), or its (1, L^k) sum if constant."""
        rows = self.to_coordinates(residual)
        if self.table is None:
            return self.term.pairs.pick(rows)
        return self.table.transposed_product(rows, workers or Workers(1))

    def to_labellings(self, values: Array) -> Array:
        """Map values (n, q) in label coordinates to values per labelling, (n, L^k)."""
        factor = self._factor_like(values)
        return values if factor is None else values @ factor.T

    def to_coordinates(self, residual: Array) -> Array:
        """Map residuals (n, L^k) per labelling to label coordinates, (n, q)."""
        factor = self._factor_like(residual)
        return residual if factor is None else residual @ factor

    def squared_pull_back(self, variances: Array, workers: Workers) -> np.ndarray:
        """Return sum_t z_tf^2 variances_t A^2, (r, q), for variances (n, L^k) of a term with sparse features."""
        factor = self._factor_like(variances)
        table: SparseTable | pair_forms.PairTable = self.table  # one with sparse features
        return table.square_entries().transposed_product(
            variances if factor is None else variances @ factor**2, workers
        )

    def labels_like(self, rows: Array) -> Array:
        """Return the label factor A (L^k, q), or the identity, as an array or a tensor like rows."""
        if self.term.label_factor is not None:
            return self._factor_like(rows)
        identity = np.eye(self.n_configurations)
        return identity if isinstance(rows, np.ndarray) else rows.new_tensor(identity)

    def _factor_like(self, rows: Array) -> Array | None:
        """Return the label factor as an array or, for tensors, a tensor on their device."""
        factor = self.term.label_factor
        if factor is None or isinstance(rows, np.ndarray):
            return factor
        if self._device_factor is None:
            # Copied once: each copy would wait for all that the device has to do.
            self._device_factor = rows.new_tensor(factor)
        return self._device_factor


def share_of_pass(designs: Sequence[Design], index: int) -> float:
    """Return the cost of a product with one design as a share of a pass over all features."""
    return designs[index].stored_values / max(1, sum(design.stored_values for design in designs))


def has_dense_features(design: Design) -> bool:
    """Whether a term has dense features with all coefficients free."""
    return design.stored_values > 0 and not design.sparse and design.term.has_all_pairs


def runs_of_one_table(designs: Sequence[tuple[int, LocalDesign]]) -> list[list[tuple[int, LocalDesign]]]:
    """Split a list of numbered designs into runs with one common feature table."""

    def key(numbered: tuple[int, LocalDesign]) -> object:
        design = numbered[1]
        return design if design.table is None else design.term.pairs.sharer(design.table)

    return [list(run) for _, run in groupby(designs, key)]


def shared_scores(run: Sequence[LocalDesign], coefficients: Sequence[np.ndarray], workers: Workers) -> list[np.ndarray]:
    """Return the scores Z V A^T, (n, L^k), of every design of a run."""
    table = run[0].table
    if len(run) == 1 or table is None:
        return [run[0].scores(coefficients[0], workers)]
    product = table.product(np.hstack(coefficients), workers)
    ends = np.cumsum([design.shape[1] for design in run])
    parts = [product[:, end - design.shape[1] : end] for design, end in zip(run, ends, strict=True)]
    return [design.to_labellings(part) for design, part in zip(run, parts, strict=True)]


def shared_pull_back(run: Sequence[LocalDesign], residuals: Sequence[np.ndarray], workers: Workers) -> list[np.ndarray]:
    """Return Z^T R A, (r, q), for the residuals R (n, L^k) of every design of a run."""
    table = run[0].table
    if len(run) == 1 or table is None:
        return [run[0].pull_back(residuals[0], workers)]
    rows = [design.to_coordinates(residual) for design, residual in zip(run, residuals, strict=True)]
    product = table.transposed_product(namespace(rows[0]).hstack(rows), workers)
    return np.split(product, np.cumsum([design.shape[1] for design in run])[:-1], axis=1)
