"""Where a fit runs: on the threads of this process, on a torch device, on a Dask cluster.

An :class:`Engine` is a choice with its settings, such as ``Threads()``. It makes the two things that hold the bulk
of a fit: the panel on which a basis grows its columns, and the sums over sequences that a posterior asks for.
Nothing above it knows where the arrays are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from kernelfields.basis import PanelCholesky
from kernelfields.engines.clique_features import CliqueFeatures
from kernelfields.engines.feature_memory import check_features_fit, feature_dtype
from kernelfields.engines.memory import FeaturePlan, parse_memory, plan_features, working_bytes
from kernelfields.engines.threads import ThreadsEngine
from kernelfields.fields import Chains, ConstraintMasks
from kernelfields.inference.workers import Workers

# Relative gaps that features of half precision can carry.
_HALF_TOLERANCE = 1e-4


@dataclass
class PanelRequest:
    """What a clique set asks of the panel of its basis.

    ``inputs`` (n, d) are what its cliques see, and ``positions`` (n,) where these stand in the chains or graphs
    ``fields`` (None: everywhere). ``dtype`` is None where the engine may choose the precision, for a fit to the
    relative gap ``tol``.
    """

    name: str
    kernel: Any
    inputs: Any
    capacity: int
    dtype: np.dtype | None
    tol: float
    fields: Any
    positions: np.ndarray | None
    n_labels: int = 1
    labels_per_clique: int = 1
    #: How many clique sets of the field share the memory.
    n_sharing: int = 1


class Engine(BaseEstimator):
    """A place where fits run, with its settings: :class:`Threads`, ``Torch`` or ``Dask``."""

    name: ClassVar[str] = ""

    def __sklearn_clone__(self) -> Engine:
        # A device or a cluster is shared by the clones of an estimator.
        return self

    def check(self) -> None:
        """Raise, before any work starts, if fits cannot run here."""

    def panel(self, request: PanelRequest) -> Any:
        """Return an empty panel for the columns of a basis."""
        raise NotImplementedError(f"{type(self).__name__} must define panel(request)")

    def features(self, request: PanelRequest, panel: Any) -> Any:
        """Return the features of a panel that is done growing, for now."""
        return panel.features

    def scores(self, subspace: Any, inputs: Any, coefficients: np.ndarray) -> np.ndarray:
        """Return z(x)^T coefficients of new inputs, (n, q), on the host."""
        return subspace.apply(inputs, coefficients)

    def chain_sums(
        self,
        chains: Chains,
        sets: Sequence[CliqueFeatures],
        n_labels: int,
        *,
        masks: ConstraintMasks | None,
        workers: Workers | None,
    ) -> Any:
        """Return the sums over labelled chains whose neighbours meet."""
        raise NotImplementedError(f"{type(self).__name__} must define chain_sums(chains, sets, ...)")


class Threads(Engine):
    """The threads of this process.

    ``memory``, a number of bytes or text such as "8GB", is what a fit may add to the memory of the process, inputs
    aside; features that do not fit are kept in half precision, in a file in ``folder`` (None: that of temporary
    files), or recomputed, see engines/memory.py. None leaves them in memory.
    """

    name = "threads"

    def __init__(self, memory: Any = None, folder: Any = None):
        self.memory = memory
        self.folder = folder

    def check(self) -> None:
        """Raise if the budget cannot be read."""
        parse_memory(self.memory)

    def panel(self, request: PanelRequest) -> PanelCholesky:
        """Return a panel in memory, or with its columns elsewhere; MemoryError if it cannot fit."""
        n_rows, inputs = request.inputs.shape[0], request.inputs
        precision = feature_dtype(request.dtype, n_rows * request.capacity, request.tol)
        plan = self._plan(request, precision)
        if plan is None or plan.keep == "memory":
            check_features_fit(request.name, n_rows, request.capacity, precision)
        if precision == np.float64:
            inputs = inputs.astype(np.float64, copy=False)  # else kernel values would be no better than float32
        columns = None if plan is None else plan.columns()
        return PanelCholesky(request.kernel, inputs, request.capacity, precision, columns)

    def _plan(self, request: PanelRequest, precision: np.dtype) -> FeaturePlan | None:
        """Return how to keep features within the budget; None without one."""
        budget = parse_memory(self.memory)
        if budget is None:
            return None
        n_threads = Workers().n_threads
        working = working_bytes(
            request.fields.n_positions,
            request.n_labels,
            request.capacity * request.n_labels**request.labels_per_clique,
            itemsize=precision.itemsize,
            tied=request.labels_per_clique == 1,
            n_threads=n_threads,
        )
        return plan_features(
            request.name,
            request.inputs.shape[0],
            request.capacity,
            precision,
            budget=budget // request.n_sharing,
            other_bytes=working,
            # Half precision rounds to 5e-4; what that does to the value is estimated after the fit.
            may_round=request.dtype is None and precision == np.float32 and request.tol >= _HALF_TOLERANCE,
            folder=self.folder,
            n_threads=n_threads,
        )

    def chain_sums(
        self,
        chains: Chains,
        sets: Sequence[CliqueFeatures],
        n_labels: int,
        *,
        masks: ConstraintMasks | None,
        workers: Workers | None,
    ) -> ThreadsEngine:
        """Return the sums over labelled chains whose neighbours meet."""
        return ThreadsEngine.for_chains(chains, sets, n_labels, masks=masks, workers=workers)
