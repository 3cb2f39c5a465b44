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
from kernelfields.engines.threads import ThreadsEngine
from kernelfields.fields import Chains, ConstraintMasks
from kernelfields.inference.workers import Workers


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
    """The threads of this process; features stay in its memory."""

    name = "threads"

    def __init__(self, memory: Any = None):
        self.memory = memory

    def panel(self, request: PanelRequest) -> PanelCholesky:
        """Return a panel in memory; MemoryError if it cannot fit."""
        n_rows, inputs = request.inputs.shape[0], request.inputs
        precision = feature_dtype(request.dtype, n_rows * request.capacity, request.tol)
        check_features_fit(request.name, n_rows, request.capacity, precision)
        if precision == np.float64:
            inputs = inputs.astype(np.float64, copy=False)  # else kernel values would be no better than float32
        return PanelCholesky(request.kernel, inputs, request.capacity, precision)

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
