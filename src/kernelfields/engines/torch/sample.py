"""Labelled chains on a device of PyTorch: features, inference and sums.

On the device positions are in step-major order (steps.py), so that inference gathers nothing; features are put in
this order once, when they are stored. theta, gradients and all that solvers do with them stay on the host:
coefficients (r, q) travel to the device and gradients back, potentials and beliefs do not.

How features are stored, unless ``dtype`` of the fit is float32 or float64:

    CUDA        float16, columns scaled by powers of two: 11 significant bits, half the traffic of TF32. Products
                keep 22 bits of coefficients and residuals, summed in float32 and float64 (tables.py)
    elsewhere   float32; float64 where the tolerance needs it

Inference is float64 everywhere. Fails: ValueError for structures other than chains whose neighbours meet, and for
supports, which the device's products do not have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse
import torch

from kernelfields.basis.panel import PanelCholesky
from kernelfields.engines.engine import PackedData, SampleSettings
from kernelfields.engines.threads import LocalSample, LocalView
from kernelfields.engines.torch.family import TorchChainFamily
from kernelfields.engines.torch.panel import TorchPanel
from kernelfields.engines.torch.rows import subspace_features
from kernelfields.engines.torch.step_pairs import TorchCoordinates, TorchStepPairs
from kernelfields.engines.torch.steps import StepOrder
from kernelfields.engines.torch.tables import TorchSparseTable, TorchTable
from kernelfields.fields.chains import Chains
from kernelfields.fields.cliques import CliqueSet
from kernelfields.inference.choice import FamilySpec, reaches_far
from kernelfields.inference.family import EDGE, Potentials
from kernelfields.kernels.arrays import on_host
from kernelfields.kernels.kernel import Kernel
from kernelfields.numerics.threads import Workers
from kernelfields.objective.coordinates import DenseSet, stride_of
from kernelfields.objective.datafit import LocalDatafit
from kernelfields.objective.designs.design import Design, LocalDesign
from kernelfields.objective.designs.memory import check_tables_fit
from kernelfields.objective.likelihoods.likelihood import labelled_objective
from kernelfields.objective.term import Term


class TorchSample(LocalSample):
    """Labelled chains on a device."""

    data: Chains

    def __init__(self, data: PackedData, spec: FamilySpec, settings: SampleSettings, device: torch.device):
        if spec.kind != "chain":
            raise ValueError(
                "engine='torch' fits labels of open chains and single labels, whose passes a device has: use "
                "engine='threads'"
            )
        super().__init__(data, spec, settings)
        self.device = device

    @cached_property
    def order(self) -> StepOrder:
        """The order of positions on the device."""
        return StepOrder(self.data.offsets)

    def view(self, name: str, clique: CliqueSet) -> TorchView:
        """Return what the cliques of a set see."""
        return TorchView(self, name, clique)

    def design(self, term: Term, view: LocalView | None = None, panel: PanelCholesky | None = None) -> LocalDesign:
        """Return a term on the data, its table and its positions in the order of the device."""
        design = super().design(term, view, panel)
        if design.term.support is not None and design.table is not None:
            raise ValueError(
                f"clique set {term.name!r}: support='observed' is for engine='threads', whose loops skip what is "
                "not there; use support='all' with engine='torch'"
            )
        positions = design.positions
        places, rows = (None, self.order.permutation) if positions is None else self.order.places(positions)
        if design.table is None:
            return replace(design, positions=places)
        return replace(design, table=self._on_device(design.features, rows), positions=places, row_order=rows)

    def _features(self, term: Term, inputs: Any) -> tuple[Any, Any, Any]:
        if not term.has_pivots:
            return super()._features(term, inputs)
        inputs, precision = self.precise(inputs, term.subspace.rank)
        features = subspace_features(term.span, inputs, self.device, precision)
        inside = features.to(torch.float64).square().sum(dim=1).cpu().numpy()
        return inputs, _Features(features), np.maximum(term.subspace.kernel.diag(inputs) - inside, 0.0)

    def _features_of(self, panel: PanelCholesky) -> Any:
        return _Features(panel.features)

    def _on_device(self, features: Any, rows: np.ndarray) -> Any:
        """Return the table of features, an array, a CSR matrix or a tensor, with their rows in another order."""
        if scipy.sparse.issparse(features):
            return TorchSparseTable(features[rows], self.device)
        if isinstance(features, np.ndarray):
            storage = "float64" if features.dtype == np.float64 else "float32"
            return TorchTable(features, storage, self.device, order=rows, matrix_units=False)
        tensor, dtype = features.tensor, self.settings.dtype
        storage = "float64" if tensor.dtype == torch.float64 else "float32"
        if dtype is None and storage == "float32" and self.device.type == "cuda":
            storage = "half"
        exact = dtype is not None  # float32 where a user sets it, not what fits matrix units
        return TorchTable(tensor, storage, order=rows, matrix_units=False if exact else None)

    def datafit(self, designs: Sequence[Design]) -> TorchDatafit:
        """Return the likelihood of the chains in the coefficients of some terms."""
        local = [design for design in designs if isinstance(design, LocalDesign)]
        if reaches_far(local):
            raise ValueError(
                "engine='torch' fits neighbouring labels only: clique sets of longer reach need engine='threads'"
            )
        if self.data.allowed is not None:
            raise ValueError("allowed is for engine='threads', whose loops skip labels: leave it out or change engine")
        tied = all(design.tied_everywhere for design in local if design.group == EDGE)
        family = TorchChainFamily(
            self.data.offsets,
            self.spec.n_labels,
            tied=tied,
            base=self.spec.base_measure(self.data),
            device=self.device,
            order=self.order,
        )
        check_tables_fit(family)
        return TorchDatafit(labelled_objective(family, self.data, Workers(1)), local)


class _Features:
    """Features (n, r) as a tensor on the device, before they are stored as a table."""

    def __init__(self, tensor: torch.Tensor):
        self.tensor = tensor
        self.shape = tuple(tensor.shape)
        self.dtype = np.dtype(np.float64 if tensor.dtype == torch.float64 else np.float32)
        self.stored_values = tensor.numel()


class TorchView(LocalView):
    """Rows of inputs that the cliques of a set see; the panel of their basis grows on the device."""

    _sample: TorchSample

    def panel(self, kernel: Kernel, capacity: int) -> TorchPanel:
        """Return a panel whose columns grow on the device."""
        inputs, precision = self._sample.precise(self.inputs, capacity)
        return TorchPanel(kernel, inputs, capacity, precision, self._sample.device)


class TorchDatafit(LocalDatafit):
    """Sums over chains on a device; what leaves it does so in the order in which the chains were given."""

    likelihood: Any
    fused = None
    # On a device pairs cost nothing beside a pass: of 40 and 100, the latter took fewer iterations on an H200.
    usual_pairs = 100

    def stochastic_descent(self) -> None:
        """There is none: batches on a device are whole passes."""

    def step_pairs(self, limit: int, metric: np.ndarray, dense: Sequence[DenseSet]) -> TorchStepPairs:
        """Return room on the device for the steps that limited-memory BFGS remembers, in float64."""
        tables: list[Any] = [self.designs[each.index].table for each in dense]
        return TorchStepPairs(
            limit, len(metric), TorchCoordinates(metric, dense, tables, self.likelihood.family.device)
        )

    def feature_gram(self, index: int, stride: int | None = None) -> np.ndarray:
        """Return Z^T Z of a term with dense features, (r, r), estimated from every ``stride``-th row."""
        table: Any = self.designs[index].table
        return on_host(table.gram(stride or stride_of(*table.shape)))

    def label_residuals(self, residual: Potentials, index: int) -> np.ndarray:
        """Return the residuals of a term's cliques in label coordinates, (n, q), in the order given."""
        return self._in_given_order(super().label_residuals(residual, index), index)

    def residual_norms(self, residual: Potentials, index: int) -> np.ndarray:
        """Return the norms of these residuals, (n,), in the order given; the residuals stay on the device."""
        rows: Any = super().label_residuals(residual, index)
        return self._in_given_order(rows.square().sum(dim=1).sqrt(), index)

    def _in_given_order(self, rows: Any, index: int) -> np.ndarray:
        rows, order = on_host(rows), self.designs[index].row_order
        if order is None:
            return rows
        given = np.empty_like(rows)
        given[order] = rows
        return given

    def feature_rounding(self, residual: Potentials, index: int, coefficients: np.ndarray) -> float:
        """Return about how the value would change if a term's features were not rounded."""
        design = self.designs[index]
        if design.origin is None or design.row_order is None or design.dtype == np.float64:
            return 0.0
        stored = _InGivenOrder(design.table, design.row_order)
        residuals = _InGivenOrder(super().label_residuals(residual, index), design.row_order)
        dual = design.term.span.dual_coefficients(coefficients)
        return design.origin.rounding(stored, coefficients, dual, residuals)

    def curvature_block(self, evaluation: Any, index: int) -> np.ndarray:
        """Return eq. 30 without the prior for one term; products with the features are on the device."""
        design = self.designs[index]
        marginals: Any = self.likelihood.clique_marginals(evaluation, design)
        weights = self.likelihood.clique_weights(design)
        factor = marginals.new_tensor(
            np.eye(design.n_configurations) if design.term.label_factor is None else design.term.label_factor
        )
        means = marginals @ factor
        if design.tied_everywhere:
            spread = factor.T @ ((weights @ marginals)[:, None] * factor)
            return on_host(spread - (means * weights[:, None]).T @ means)
        table: Any = design.table
        outputs, size = factor.shape[1], design.shape[0] * design.shape[1]
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
