"""Labelled chains on a device of PyTorch: features, inference and sums.

theta, gradients and all that solvers do with them stay on the host: coefficients (r, q) travel to the device and
gradients back, potentials and beliefs do not.

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
import torch

from kernelfields.basis.panel import PanelCholesky
from kernelfields.engines.engine import PackedData, SampleSettings
from kernelfields.engines.threads import LocalSample, LocalView
from kernelfields.engines.torch.family import TorchChainFamily
from kernelfields.engines.torch.panel import TorchPanel
from kernelfields.engines.torch.rows import subspace_features
from kernelfields.engines.torch.step_pairs import TorchCoordinates, TorchStepPairs
from kernelfields.engines.torch.steps import DeviceSteps, StepOrder
from kernelfields.engines.torch.tables import TorchSparseTable, TorchTable
from kernelfields.fields.chains import Chains
from kernelfields.fields.cliques import CliqueSet
from kernelfields.inference.choice import FamilySpec, reaches_far
from kernelfields.inference.family import EDGE
from kernelfields.kernels.arrays import on_host
from kernelfields.kernels.kernel import Kernel
from kernelfields.numerics.threads import Workers
from kernelfields.objective.coordinates import DenseSet, stride_of
from kernelfields.objective.datafit import Datafit
from kernelfields.objective.designs.design import Design, FeatureOrigin, LocalDesign
from kernelfields.objective.designs.memory import check_tables_fit
from kernelfields.objective.designs.tables import DenseTable, SparseTable
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

    def panel(self, name: str, clique: CliqueSet, kernel: Kernel, inputs: Any, capacity: int) -> TorchPanel:
        """Return a panel of inputs whose columns grow on the device."""
        inputs, precision = self.precise(inputs, capacity)
        return TorchPanel(kernel, inputs, capacity, precision, self.device)

    def design(self, term: Term, view: LocalView | None = None, panel: PanelCholesky | None = None) -> LocalDesign:
        """Return a term on the data, its table on the device."""
        design = super().design(term, view, panel)
        if design.term.support is not None and design.table is not None:
            raise ValueError(
                f"clique set {term.name!r}: support='observed' is for engine='threads', whose loops skip what is "
                "not there; use support='all' with engine='torch'"
            )
        table = design.table
        if isinstance(table, SparseTable):
            return replace(design, table=TorchSparseTable(table.features, self.device))
        if isinstance(table, DenseTable):
            return replace(design, table=TorchTable(table.features, str(table.dtype), self.device, matrix_units=False))
        return design

    def _features(self, term: Term, inputs: Any) -> tuple[Any, FeatureOrigin | None]:
        if not term.has_pivots:
            return super()._features(term, inputs)
        inputs, precision = self.precise(inputs, term.subspace.rank)
        features = subspace_features(term.span, inputs, self.device, precision)
        inside = features.to(torch.float64).square().sum(dim=1).cpu().numpy()
        left = np.maximum(term.subspace.kernel.diag(inputs) - inside, 0.0)
        return self._stored(features), FeatureOrigin(term.subspace.kernel, term.span.pivots, inputs, left)

    def _features_of(self, panel: PanelCholesky) -> Any:
        return self._stored(panel.features)

    def _stored(self, features: torch.Tensor) -> TorchTable:
        """Return the table of features (n, r) on the device; see the module for how it is stored."""
        chosen = self.settings.dtype is not None  # float32 where a user sets it, not what fits matrix units
        storage = "float64" if features.dtype == torch.float64 else "float32"
        if not chosen and storage == "float32" and self.device.type == "cuda":
            storage = "half"
        return TorchTable(features, storage, matrix_units=False if chosen else None)

    @cached_property
    def _steps(self) -> DeviceSteps:
        return DeviceSteps(StepOrder(self.data.offsets), self.device)

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
            steps=self._steps,
        )
        check_tables_fit(family)
        return TorchDatafit(labelled_objective(family, self.data, Workers(1)), local)


class TorchDatafit(Datafit):
    """Sums over chains on a device."""

    likelihood: Any
    fused = None

    def stochastic_descent(self) -> None:
        """There is none: batches on a device are whole passes."""

    def step_pairs(self, limit: int, metric: np.ndarray, dense: Sequence[DenseSet]) -> TorchStepPairs:
        """Return room on the device for the steps that limited-memory BFGS remembers, in float64."""
        tables: list[Any] = [self.designs[own.index].table for own in dense]
        return TorchStepPairs(
            limit, len(metric), TorchCoordinates(metric, dense, tables, self.likelihood.family.device)
        )

    def feature_gram(self, index: int, stride: int | None = None) -> np.ndarray:
        """Return Z^T Z of a term with dense features, (r, r), estimated from every ``stride``-th row."""
        table: Any = self.designs[index].table
        return on_host(table.gram(stride or stride_of(*table.shape)))
