"""The torch engine: features, inference and sums on one device of PyTorch, a GPU or the processor.

On the device positions stand in step-major order (inference/step_order.py), so that inference gathers nothing;
features are put in this order once, when they are stored. theta, gradients and all that solvers do with them stay
on the host: coefficients (r, q) travel to the device and gradients back, potentials and beliefs do not.

How features are stored, unless ``dtype`` of the fit says float32 or float64:

    CUDA        float16, columns scaled by powers of two: 11 significant bits, half the traffic of TF32. Products
                keep 22 bits of coefficients and residuals, summed in float32 and float64 (torch_tables.py)
    elsewhere   float32; float64 where the tolerance asks for it

Inference is float64 everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.sparse

from kernelfields.engines.clique_features import CliqueFeatures, on_host
from kernelfields.engines.engine import Engine, PanelRequest
from kernelfields.engines.feature_memory import feature_dtype
from kernelfields.engines.potentials import Potentials
from kernelfields.engines.threads import ThreadsEngine
from kernelfields.fields import Chains, ConstraintMasks
from kernelfields.inference.step_order import StepOrder
from kernelfields.inference.workers import Workers


class Torch(Engine):
    """A device of PyTorch: "cuda", "cuda:1", "cpu"; None for CUDA where there is one, else the processor."""

    name = "torch"

    def __init__(self, device: Any = None):
        self.device = device

    def check(self) -> None:
        """Raise if torch is not installed or has no such device."""
        self._resolved_device()

    def _resolved_device(self) -> Any:
        try:
            import torch
        except ImportError as error:
            raise ImportError("engine='torch' needs PyTorch: pip install 'kernelfields[torch]'") from error
        if self.device is None:
            return torch.device("cuda" if torch.cuda.is_available() else "cpu")
        try:
            device = torch.device(self.device)
        except (RuntimeError, TypeError) as error:
            raise ValueError(
                f"device must be a name such as 'cuda', 'cuda:0' or 'cpu', got {self.device!r}"
            ) from error
        if device.type == "cuda":
            if torch.version.cuda is None:
                raise RuntimeError(
                    f"device={self.device!r}: this build of PyTorch ({torch.__version__}) knows no CUDA. "
                    "Install one that does, or use device='cpu' or engine='threads'."
                )
            count = torch.cuda.device_count()
            if (device.index or 0) >= count:
                there = (
                    "no CUDA device is there" if count == 0 else f"there are CUDA devices 0 to {count - 1} only"
                )
                raise RuntimeError(f"device={self.device!r}: {there}. Use device='cpu' or engine='threads'.")
        elif device.type != "cpu":
            raise ValueError(f"device={self.device!r}: inference needs float64, which 'cuda' and 'cpu' have")
        return device

    def _storage(self, dtype: np.dtype | None, device: Any) -> str:
        return "half" if dtype is None and device.type == "cuda" else "float32"

    def panel(self, request: PanelRequest) -> Any:
        """Return a panel whose columns grow on the device."""
        from kernelfields.basis.torch_panel import TorchPanel

        n_rows, device = request.inputs.shape[0], self._resolved_device()
        precision = feature_dtype(request.dtype, n_rows * request.capacity, request.tol)
        inputs = request.inputs
        if precision == np.float64:
            inputs = inputs.astype(np.float64, copy=False)  # else kernel values would be no better than float32
        return TorchPanel(request.kernel, inputs, request.capacity, precision, device)

    def features(self, request: PanelRequest, panel: Any) -> Any:
        """Return the features of a panel as a table in the order of the device."""
        from kernelfields.engines.torch_tables import TorchTable

        storage = "float64" if panel.dtype == np.float64 else self._storage(request.dtype, panel.device)
        _, order = placed(_step_order(request.fields), request.positions)
        exact = request.dtype is not None  # float32 where a user asks for it, not what fits matrix units
        return TorchTable(panel.features, storage, order=order, matrix_units=False if exact else None)

    def chain_sums(
        self,
        chains: Chains,
        sets: Sequence[CliqueFeatures],
        n_labels: int,
        *,
        masks: ConstraintMasks | None,
        workers: Workers | None,
    ) -> TorchShard:
        """Return the sums over labelled chains whose neighbours meet."""
        from kernelfields.engines.torch_likelihood import TorchChainLikelihood

        device = self._resolved_device()
        tied = all(each.tied_everywhere for each in sets if each.labels_per_clique == 2)
        order = _step_order(chains)
        likelihood = TorchChainLikelihood(chains, n_labels, tied=tied, masks=masks, device=device, order=order)
        return TorchShard(likelihood, [_on_device(each, order, device) for each in sets])

    def scores(self, subspace: Any, inputs: Any, coefficients: np.ndarray) -> np.ndarray:
        """Return z(x)^T coefficients for each row of inputs, (n, q), computed on the device."""
        from kernelfields.basis.torch_rows import expansion_values

        if not hasattr(subspace, "pivots"):
            return subspace.apply(inputs, coefficients)
        dual = subspace.dual_coefficients(coefficients)
        return expansion_values(subspace.kernel, subspace.pivots, dual, inputs, self._resolved_device())


class TorchShard(ThreadsEngine):
    """The sums over chains on a device; what leaves it does so in the order in which the chains were given."""

    fused = None
    # On a device pairs cost nothing beside a pass: of 40 and 100, the latter took fewer iterations on an H200.
    usual_pairs = 100

    def stochastic_descent(self) -> None:
        """There is none: batches on a device are whole passes."""

    def step_pairs(self, limit: int, metric: np.ndarray, dtype: np.dtype) -> Any:
        """Return room on the device for the steps that limited-memory BFGS remembers, in float64."""
        from kernelfields.engines.torch_pairs import TorchStepPairs

        likelihood: Any = self.likelihood
        return TorchStepPairs(limit, metric, likelihood.device)

    def label_residuals(self, residual: Potentials, index: int) -> np.ndarray:
        """Return the residuals of a set's cliques in label coordinates, (n, q), in the order given."""
        return self._in_given_order(super().label_residuals(residual, index), index)

    def residual_norms(self, residual: Potentials, index: int) -> np.ndarray:
        """Return the norms of these residuals, (n,), in the order given; the residuals stay on the device."""
        rows: Any = super().label_residuals(residual, index)
        return self._in_given_order(rows.square().sum(dim=1).sqrt(), index)

    def _in_given_order(self, rows: Any, index: int) -> np.ndarray:
        rows, order = on_host(rows), self.sets[index].row_order
        if order is None:
            return rows
        given = np.empty_like(rows)
        given[order] = rows
        return given

    def feature_rounding(self, residual: Potentials, index: int, coefficients: np.ndarray) -> float:
        """Return about how the value would change if a set's features were not rounded."""
        each = self.sets[index]
        if each.origin is None or each.row_order is None or each.dtype == np.float64:
            return 0.0
        stored = _InGivenOrder(each.table, each.row_order)
        residuals = _InGivenOrder(super().label_residuals(residual, index), each.row_order)
        return each.origin.rounding(stored, coefficients, residuals)

    def curvature_block(self, evaluation: Any, index: int) -> np.ndarray:
        """Return eq. 30 without the prior for one set; products with the features are on the device."""
        each = self.sets[index]
        marginals: Any = self.likelihood.clique_marginals(evaluation, each)
        weights = self.likelihood.clique_weights(each)
        factor = marginals.new_tensor(
            np.eye(each.n_configurations) if each.label_factor is None else each.label_factor
        )
        means = marginals @ factor
        if each.tied_everywhere:
            spread = factor.T @ ((weights @ marginals)[:, None] * factor)
            return on_host(spread - (means * weights[:, None]).T @ means)
        table: Any = each.table
        outputs, size = factor.shape[1], each.shape[0] * each.shape[1]
        block = np.zeros((size, size))
        for i in range(outputs):
            for j in range(i + 1):
                covariance = marginals @ (factor[:, i] * factor[:, j]) - means[:, i] * means[:, j]
                product = table.weighted_gram(covariance * weights)
                block[i::outputs, j::outputs] = product
                block[j::outputs, i::outputs] = product.T
        return block


class _InGivenOrder:
    """Rows of a table or tensor on the device, counted in the order in which they were given."""

    def __init__(self, rows: Any, order: np.ndarray):
        self._rows = rows
        self._places = np.empty_like(order)
        self._places[order] = np.arange(len(order))

    def __getitem__(self, rows: np.ndarray) -> np.ndarray:
        return on_host(self._rows[self._places[rows]])


def placed(order: StepOrder, positions: np.ndarray | None) -> tuple[np.ndarray | None, np.ndarray]:
    """Return where a set's cliques stand on the device (None: everywhere) and the order of its rows there."""
    return (None, order.permutation) if positions is None else order.places(positions)


def _step_order(chains: Any) -> StepOrder:
    return _cached_order(chains.offsets.tobytes())


@lru_cache(maxsize=2)
def _cached_order(offsets: bytes) -> StepOrder:
    return StepOrder(np.frombuffer(offsets, dtype=np.int64))


def _on_device(each: CliqueFeatures, order: StepOrder, device: Any) -> CliqueFeatures:
    """Return a clique set with its table on the device."""
    from kernelfields.engines.torch_tables import TorchSparseTable, TorchTable

    if each.support is not None and each.features is not None:
        raise ValueError(
            f"clique set {each.name!r}: support='observed' is for engine='threads', whose loops skip what is not "
            "there; use support='all' with engine='torch'"
        )
    positions, rows = placed(order, each.positions)
    if each.features is None:
        return each.moved(None, positions, None)
    table = each.features
    if scipy.sparse.issparse(table):
        table = TorchSparseTable(table[rows], device)
    elif isinstance(table, np.ndarray):
        storage = "float64" if table.dtype == np.float64 else "float32"
        table = TorchTable(table, storage, device, order=rows, matrix_units=False)
    return each.moved(table, positions, rows)
