"""Labelled data on a device of PyTorch: features, inference and sums.

theta, gradients and all that solvers do with them stay on the host: coefficients (r, q) travel to the device and
gradients back. Potentials and beliefs do not where the device infers the family: chains whose neighbours meet, single
labels, several labels of instances in a tree or a table, and loopy belief propagation on graphs. Of all other
families scores (n, q) come back, threads of this process infer, and residuals (n, q) travel. Features of observed
pairs alone, and lists of allowed labels, are for compiled loops: they stay here, with inference.

How features are stored, unless ``dtype`` of the fit is float32 or float64:

    CUDA        float16, columns scaled by powers of two: 11 significant bits, half the traffic of TF32. Products
                keep 22 bits of coefficients and residuals, summed in float32 and float64 (tables.py)
    elsewhere   float32; float64 where the tolerance needs it

Features that the device has no room for are kept elsewhere, or nowhere (memory.py). Inference is float64 everywhere.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch

from kernelfields.basis.panel import PanelCholesky
from kernelfields.data.chains import Items
from kernelfields.data.cliques import CliqueSet
from kernelfields.data.partial_labels import SoftRows
from kernelfields.engines.engine import PackedData, SampleSettings
from kernelfields.engines.threads import LocalSample
from kernelfields.engines.torch.family import TorchChainFamily, TorchFamily
from kernelfields.engines.torch.graphs import ONE_GRAPH, OneGraphFamily
from kernelfields.engines.torch.loopy import TorchLoopyFamily
from kernelfields.engines.torch.memory import DevicePlan, PartPanel, device_budget, fit_bytes, plan_on_device
from kernelfields.engines.torch.panel import TorchPanel
from kernelfields.engines.torch.rows import SubspaceRows, name_memory_errors
from kernelfields.engines.torch.step_pairs import room_for_steps
from kernelfields.engines.torch.steps import DeviceSteps
from kernelfields.engines.torch.tables import (
    STORAGES,
    DeviceTable,
    TorchHostTable,
    TorchRecomputedTable,
    TorchSparseTable,
    TorchTable,
)
from kernelfields.engines.view import LocalView
from kernelfields.inference.approximate.belief_propagation import PropagationFamily
from kernelfields.inference.chain.step_passes import StepOrder
from kernelfields.inference.choice import FamilySpec, choose_family, has_long_reach
from kernelfields.inference.potentials import EDGE, Potentials
from kernelfields.kernels.kernel import Kernel
from kernelfields.numerics.group import Group
from kernelfields.numerics.threads import Workers
from kernelfields.objective.datafit import Datafit, check_tables_fit, choose_objective
from kernelfields.objective.designs.design import Design, FeatureOrigin, LocalDesign
from kernelfields.objective.designs.tables import DenseTable, SparseTable
from kernelfields.objective.likelihoods.likelihood import Evaluation, Objective
from kernelfields.objective.term import Term


class TorchSample(LocalSample):
    """Labelled data with features on a device."""

    def __init__(
        self,
        data: PackedData,
        spec: FamilySpec,
        settings: SampleSettings,
        device: torch.device,
        memory: int | None = None,
    ):
        super().__init__(data, spec, settings)
        self.device = device
        #: Bytes that features and all that a fit needs beside them may take on the device; None for what is free.
        self._memory = memory

    def panel(self, name: str, clique: CliqueSet, kernel: Kernel, inputs: Any, capacity: int) -> TorchPanel:
        """Return a panel of inputs with columns on the device."""
        inputs, precision = self.precise(inputs, capacity)
        plan = self._plan(inputs, capacity, precision)
        if plan.keep == "panel":
            return TorchPanel(kernel, inputs, capacity, precision, self.device)
        return PartPanel(kernel, inputs, capacity, precision, self.device, plan.part)

    def _plan(self, inputs: Any, rank: int, precision: np.dtype) -> DevicePlan:
        """Return the storage of the features of inputs."""
        n_rows, n_columns = inputs.shape
        rank = min(rank, n_rows)
        values = n_rows * n_columns if isinstance(inputs, np.ndarray) else 2 * inputs.nnz
        other = fit_bytes(self.data.n_positions, self.spec.n_labels, rank, values * inputs.dtype.itemsize)
        stored = STORAGES[self._storage(precision == np.float64)].itemsize
        sizes = {"panel_bytes": precision.itemsize, "stored_bytes": stored, "other_bytes": other}
        plan = plan_on_device(n_rows, rank, **sizes, budget=self._budget_of_a_term())
        if plan.keep != "panel" and self._memory is None:
            gc.collect()  # what an earlier fit has left may be in circles
            plan = plan_on_device(n_rows, rank, **sizes, budget=self._budget_of_a_term())
        return plan

    def _budget_of_a_term(self) -> int | None:
        budget = device_budget(self.device) if self._memory is None else self._memory
        return None if budget is None else budget // self.settings.n_terms

    def _storage(self, double: bool) -> str:
        """Return the storage of features that are computed in float64, or in float32."""
        if double:
            return "float64"
        # What a user sets is float32, not what fits matrix units.
        return "half" if self.settings.dtype is None and self.device.type == "cuda" else "float32"

    def design(self, term: Term, view: LocalView | None = None, panel: PanelCholesky | None = None) -> LocalDesign:
        """Return the design of a term, with its table on the device unless it has a support."""
        if isinstance(panel, PartPanel):
            return self._design_of_part(term, view, panel)
        design = super().design(term, view, panel)
        own: TorchTable | TorchSparseTable | None = None
        if isinstance(design.table, SparseTable):
            own = TorchSparseTable(design.table.features, self.device)
        elif isinstance(design.table, DenseTable):
            features = design.table.features
            own = TorchTable(features, str(features.dtype), self.device, matrix_units=False)
        if own is None:
            return design
        # Terms of one subspace share the table on the device.
        return self.keep(replace(design, table=own))

    def _design_of_part(self, term: Term, view: LocalView | None, panel: PartPanel) -> LocalDesign:
        """Return the design of a term with pivots chosen by a panel of some inputs."""
        panel.release()
        design = self.design(term, view)
        assert design.origin is not None
        design.origin.residual_diagonal[panel.part_rows[panel.pivots]] = 0.0
        return design

    def _features(self, term: Term, inputs: Any) -> tuple[Any, FeatureOrigin | None]:
        if not term.has_pivots:
            return super()._features(term, inputs)
        inputs, precision = self.precise(inputs, term.subspace.rank)
        plan = self._plan(inputs, term.subspace.rank, precision)
        storage, units = self._storage(precision == np.float64), False if self.settings.dtype is not None else None
        with name_memory_errors(f"features of {inputs.shape[0]:,} inputs at rank {term.subspace.rank:,}", self.device):
            rows = SubspaceRows(term.span, inputs, self.device, precision)
            table = self._make_table(rows, plan.keep, storage, units)
        if isinstance(table, TorchRecomputedTable):
            table.mean_square()  # a pass, in which all rows are read
        return table, FeatureOrigin(term.subspace.kernel, term.span.pivots, inputs, rows.left)

    def _make_table(
        self, rows: SubspaceRows, keep: str, storage: str, units: bool | None
    ) -> TorchTable | TorchRecomputedTable:
        """Return the table of computed features; a recomputed one if the host cannot pin memory for it."""
        if keep in ("panel", "device"):
            return TorchTable(rows, storage, self.device, matrix_units=units)
        if keep == "host":
            try:
                return TorchHostTable(rows, storage, matrix_units=units)
            except MemoryError:
                return TorchRecomputedTable(rows)
        return TorchRecomputedTable(rows)

    def _panel_features(self, panel: PanelCholesky) -> Any:
        """Return the table of the features of a panel on the device; see the module for its storage."""
        features: torch.Tensor = panel.features
        storage = self._storage(features.dtype == torch.float64)
        return TorchTable(features, storage, matrix_units=None if self.settings.dtype is None else False)

    @cached_property
    def _steps(self) -> DeviceSteps:
        return DeviceSteps(StepOrder(self.data.offsets), self.device)

    def datafit(self, designs: Sequence[Design]) -> Datafit:
        """Return the likelihood of the data in the coefficients of some terms, inferred on the device if possible."""
        local = [design for design in designs if isinstance(design, LocalDesign)]
        family = self._device_family(local)
        if family is not None:
            check_tables_fit(family)
            likelihood = choose_objective(family, self.data, Workers(1))
            return TorchDatafit(likelihood, local, self.device, self.settings.group)
        hosted = self.host_designs(local)
        datafit = super().datafit(hosted)
        if not any(isinstance(each.table, DeviceTable) for each in hosted):
            return datafit
        return TorchDatafit(datafit.likelihood, hosted, self.device, self.settings.group)

    def part(
        self,
        designs: Sequence[Design],
        items: Items,
        times: int = 1,
        dtype: object = None,
        longest: int | None = None,
    ) -> None:
        """Return None: on a device a second metric costs more passes than it saves."""

    def on_host(self) -> LocalSample:
        """Return the same data with features in host memory."""
        return LocalSample(self.data, self.spec, self.settings)

    def host_designs(self, designs: Sequence[Design]) -> list[LocalDesign]:
        """Return designs with scores in host memory; designs with a common table still share it."""
        local = super().host_designs(designs)
        tables: dict[int, Any] = {id(each.table): each.table for each in local}
        kept: dict[int, Any] = {
            key: table.read_back() for key, table in tables.items() if isinstance(table, DeviceTable)
        }
        return [replace(each, table=kept.get(id(each.table), each.table)) for each in local]

    def _one_graph_family(self, designs: Sequence[LocalDesign]) -> OneGraphFamily | None:
        """Return the family of single labels, or of several labels in a tree or a table."""
        family = choose_family(self.data, designs, self.spec)
        kind = ONE_GRAPH.get(type(family))
        # Labels that meet no others are separate items where some are not known, and so is what is soft.
        apart = self.spec.kind == "instances" and (len(family.groups) == 1 or isinstance(self.data.partial, SoftRows))
        return None if kind is None or apart else kind.from_host(family, self.device)

    def _loopy_family(self, designs: Sequence[LocalDesign]) -> TorchLoopyFamily | None:
        """Return the family of graphs if it is loopy belief propagation."""
        family = choose_family(self.data, designs, self.spec, planned=self._planned)
        loopy = isinstance(family, PropagationFamily) and not family.reweighted
        return TorchLoopyFamily.from_host(family, self.device) if loopy else None

    def _device_family(self, designs: Sequence[LocalDesign]) -> TorchFamily | None:
        """Return the family of the data if the device infers it, else None."""
        if any(design.pair_table for design in designs):
            return None
        if self.spec.kind in ("single", "instances"):
            return self._one_graph_family(designs)
        if self.spec.kind == "graph":
            return self._loopy_family(designs)
        if self.spec.kind != "chain" or has_long_reach(designs):
            return None
        base = self.spec.base_measure(self.data)
        if base.lists is not None:
            return None
        tied = all(design.is_constant for design in designs if design.group == EDGE)
        return TorchChainFamily(self.data.offsets, self.spec.n_labels, tied=tied, base=base, steps=self._steps)


class TorchDatafit(Datafit):
    """Sums over labelled data with features on a device."""

    is_local = False

    def __init__(self, likelihood: Objective, designs: Sequence[LocalDesign], device: torch.device, group: Group):
        super().__init__(likelihood, designs)
        self.device = device
        self.step_room = partial(room_for_steps, self.designs, device, group)

    def evaluate(self, potentials: Potentials) -> Evaluation:
        """Return value, residual and beliefs at the given potentials; MemoryError if memory runs out."""
        with self._room():
            return super().evaluate(potentials)

    def hessian_response(self, evaluation: Evaluation, direction: Potentials) -> Potentials:
        """Return the Hessian of the likelihood in the potentials times a direction."""
        with self._room():
            return super().hessian_response(evaluation, direction)

    def _room(self) -> AbstractContextManager[None]:
        family = self.likelihood.family
        return name_memory_errors(
            f"inference of {family.n_positions:,} positions with {family.n_labels} labels", self.device
        )
