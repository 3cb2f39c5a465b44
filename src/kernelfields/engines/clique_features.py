"""Features of one clique set on the training chains, from coefficients to scores and back.

scores(V)       = Z V A^T        (n, L^k)
pull_back(R)    = Z^T R A        (r, q)
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import scipy.sparse

from kernelfields.basis import Support
from kernelfields.engines.feature_origin import FeatureOrigin
from kernelfields.engines.feature_tables import FeatureTable, SparseTable
from kernelfields.engines.pair_table import PairTable
from kernelfields.engines.stored_tables import table_of
from kernelfields.inference.workers import Workers

# Found by trying: benchmarks/start_scaling.py prints the passes for this and other values.
TIED_SHARE = 0.1


class CliqueFeatures:
    """Features of one clique set on the training chains.

    ``positions`` are the rows of the chain or graph that carry a clique (None: all), ``features`` the matching
    rows Z, an array, a CSR matrix or a FeatureTable (None: the constant 1), ``label_factor`` A (None: the
    identity), ``labels_per_clique`` 1, 2 or more, and ``group`` names the factors of a graph that the set scores
    (None: nodes). ``whitened`` is False for inputs used as they are, whose columns may be correlated and of any
    scale. With a ``support`` only its (feature, labelling) pairs have coefficients, (P, 1), and there is no label
    factor. ``l1`` is the weight of the sum of absolute coefficients in the objective, and ``origin`` the kernel
    and pivots behind the features, where there are any.

    Coefficients are arrays of NumPy; scores and residuals are what the table computes with, tensors on a device.
    """

    def __init__(
        self,
        name: str,
        features: Any,
        *,
        positions: np.ndarray | None,
        labels_per_clique: int,
        n_labels: int,
        group: str | None = None,
        prior_variance: float,
        label_factor: np.ndarray | None = None,
        whitened: bool = True,
        support: Support | None = None,
        l1: float = 0.0,
        origin: FeatureOrigin | None = None,
    ):
        self.name = name
        self.whitened = whitened
        self.positions = positions
        self.labels_per_clique = labels_per_clique
        self.group = group
        self.prior_variance = float(prior_variance)
        self.label_factor = label_factor
        self.support = support
        self.l1 = float(l1)
        self.origin = origin
        #: Which of the given rows stands in each row of the table; None where they are in order.
        self.row_order: np.ndarray | None = None
        self._device_factor: Any = None
        self.n_configurations = n_labels**labels_per_clique
        self.features = features
        self._n_columns = 0 if features is None else features.shape[1]
        self._occupied: np.ndarray | None = None
        self._table: FeatureTable | None = None
        if support is not None:
            self._table = None if features is None else PairTable(features, support)
        elif scipy.sparse.issparse(features):
            # A feature that no training input has keeps the coefficient zero: leave its column out.
            occupied = np.unique(features.indices)
            if len(occupied) < self._n_columns:
                self._occupied, self.features = occupied, features[:, occupied]
            self._table = SparseTable(self.features)
        elif features is not None:
            self._table = table_of(features)

    def moved(
        self, table: FeatureTable | None, positions: np.ndarray | None, row_order: np.ndarray | None
    ) -> CliqueFeatures:
        """Return this set with its rows somewhere else, in another order, scoring ``positions`` there."""
        moved = copy.copy(self)
        moved._table, moved.positions, moved.row_order = table, positions, row_order
        return moved

    @property
    def table(self) -> FeatureTable | None:
        """The features as they are multiplied; None for the constant 1."""
        return self._table

    def compress(self, coefficients: np.ndarray) -> np.ndarray:
        """Return the rows of full coefficients that belong to occupied columns."""
        return coefficients if self._occupied is None else coefficients[self._occupied]

    def expand(self, coefficients: np.ndarray) -> np.ndarray:
        """Return full coefficients, zero where no training input has the feature."""
        if self._occupied is None:
            return coefficients
        full = np.zeros((self._n_columns, coefficients.shape[1]))
        full[self._occupied] = coefficients
        return full

    @property
    def shape(self) -> tuple[int, int]:
        """Shape (r, q) of the coefficients; (P, 1) with a support."""
        if self.support is not None:
            return self.support.size, 1
        rank = 1 if self._table is None else self._table.shape[1]
        outputs = self.n_configurations if self.label_factor is None else self.label_factor.shape[1]
        return rank, outputs

    @property
    def dtype(self) -> np.dtype:
        """Precision of the features; a constant set does not lower or raise that of others."""
        return np.dtype(np.float32) if self._table is None else self._table.dtype

    @property
    def stored_values(self) -> int:
        """How many numbers a product reads."""
        return 0 if self._table is None else self._table.stored_values

    @property
    def pair_table(self) -> PairTable | None:
        """The features with their support, where there are both."""
        return self._table if isinstance(self._table, PairTable) else None

    @property
    def density(self) -> float:
        """Which share of the features is stored; 1 for dense ones and for none."""
        if not scipy.sparse.issparse(self.features):
            return 1.0
        return self.features.nnz / max(1, self.features.shape[0] * self.features.shape[1])

    @property
    def tied_everywhere(self) -> bool:
        """Whether the potential is one and the same at all its positions."""
        return self._table is None

    @property
    def dense_inputs(self) -> bool:
        """Whether dense inputs are the features as they are: expect bad conditioning."""
        return not self.whitened and isinstance(self.features, np.ndarray)

    def start_curvature(self, n_cliques: int) -> float:
        """Return the mean diagonal of the likelihood's Hessian in this set while all labels are equally likely.

        Of a set without features, ``TIED_SHARE`` of it. Nothing but the speed of L-BFGS depends on this scale.
        """
        labels = self.n_configurations
        share = 1.0 / labels
        if self.label_factor is not None:
            share = float(np.einsum("ij,ij->", self.label_factor, self.label_factor)) / (labels * self.shape[1])
        if self._table is None:
            return TIED_SHARE * n_cliques * share
        return self._table.mean_square() * share

    def scores(self, coefficients: np.ndarray, workers: Workers | None = None) -> Any:
        """Return Z V A^T, (n, L^k) float64; (1, L^k) for a constant set."""
        if self._table is not None:
            scores = self._table.product(coefficients, workers or Workers(1))
        else:
            scores = coefficients if self.support is None else self.support.row(coefficients)
        factor = self._factor_like(scores)
        return scores if factor is None else scores @ factor.T

    def pull_back(self, residual: Any, workers: Workers | None = None) -> np.ndarray:
        """Return Z^T residual A, (r, q) float64, for residual (n, L^k), or its (1, L^k) sum if constant."""
        rows = self.in_coordinates(residual)
        if self._table is not None:
            return self._table.transposed_product(rows, workers or Workers(1))
        rows = on_host(rows)
        return rows if self.support is None else rows[0, self.support.outcomes][:, None]

    def in_coordinates(self, residual: Any) -> Any:
        """Return residuals (n, L^k) in the label coordinates of the coefficients, (n, q)."""
        factor = self._factor_like(residual)
        return residual if factor is None else residual @ factor

    def squared_pull_back(self, variances: Any, workers: Workers) -> np.ndarray:
        """Return sum_t z_tf^2 variances_t A^2, (r, q), for variances (n, L^k) of a set with features."""
        factor = self._factor_like(variances)
        assert self._table is not None
        return self._table.squared().transposed_product(
            variances if factor is None else variances @ factor**2, workers
        )

    def _factor_like(self, rows: Any) -> Any:
        """Return the label factor as an array or, for tensors, a tensor on their device."""
        if self.label_factor is None or isinstance(rows, np.ndarray):
            return self.label_factor
        if self._device_factor is None:
            # Copied once: each copy would wait for all that the device has to do.
            self._device_factor = rows.new_tensor(self.label_factor)
        return self._device_factor


def on_host(values: Any) -> np.ndarray:
    """Return an array as it is, a tensor as an array of NumPy."""
    return values if isinstance(values, np.ndarray) else values.cpu().numpy()
