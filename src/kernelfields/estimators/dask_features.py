"""What shards compute of clique sets: views of the inputs, features, sets of them, engines. Runs on the workers.

Every function takes the shard first; see engines/dask_shards.py. Answers hold a few numbers for each column.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from kernelfields.basis import ExplicitSubspace, Support
from kernelfields.basis.dask_rows import ShardPanel
from kernelfields.engines import CliqueFeatures, FeatureOrigin, ThreadsEngine
from kernelfields.engines.dask_engine import PivotKernels
from kernelfields.engines.dask_shards import Shard
from kernelfields.engines.feature_memory import check_features_fit
from kernelfields.estimators.chain_engines import chain_engine
from kernelfields.estimators.spaces import viewed_inputs
from kernelfields.fields import CliqueSet, ConstraintMasks


@dataclass
class SetPlan:
    """What shards need to know of a clique set; ``clique`` comes without its kernel and basis."""

    name: str
    clique: CliqueSet
    n_labels: int
    label_factor: np.ndarray | None

    @classmethod
    def of(cls, name: str, clique: CliqueSet, n_labels: int, label_factor: np.ndarray | None) -> SetPlan:
        """Leave out what may be large or cannot travel."""
        left_out = {"kernel": None, "basis": "random-cholesky", "label_kernel": "delta"}
        return cls(name, type(clique)(**{**clique.get_params(deep=False), **left_out}), n_labels, label_factor)

    @property
    def n_outputs(self) -> int:
        """Number of coefficients of a feature."""
        if self.label_factor is not None:
            return self.label_factor.shape[1]
        return self.clique.n_configurations(self.n_labels)


def view_of(shard: Shard, plan: SetPlan) -> Any:
    """Return what the cliques see of the inputs, a row for each."""
    return viewed_inputs(plan.clique, shard.chains)


def as_float64(shard: Shard, inputs: Any) -> Any:
    """Return inputs in double precision."""
    return inputs.astype(np.float64, copy=False)


def size_and_first_row(shard: Shard, inputs: Any) -> tuple[int, Any]:
    """Return the number of rows and the first of them, if there is one."""
    return inputs.shape[0], inputs[:1]


def rows_of_view(shard: Shard, inputs: Any, rows: np.ndarray) -> Any:
    """Return some rows."""
    return inputs[rows]


def check_room(shard: Shard, inputs: Any, name: str, capacity: int, dtype: np.dtype) -> None:
    """Raise MemoryError if the features of this shard cannot fit in the memory of its machine."""
    check_features_fit(name, inputs.shape[0], capacity, dtype)


def permuted_rows(random: np.random.Generator, n_rows: int, size: int) -> tuple[Any, np.ndarray]:
    """Return the state of a generator after a permutation of all rows, and its first rows, sorted."""
    rows = np.sort(random.permutation(n_rows)[:size])
    return random.bit_generator.state, rows


def _clique_weights(shard: Shard, clique: CliqueSet) -> np.ndarray:
    weights, positions = shard.chains.position_weights, clique.positions(shard.chains)
    return weights if positions is None else weights[positions]


def column_sums(shard: Shard, inputs: Any, plan: SetPlan) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
    """Return the weight of all rows, weighted sums of the columns, their lowest and their highest values."""
    weights, width = _clique_weights(shard, plan.clique), inputs.shape[1]
    if inputs.shape[0] == 0:
        return 0.0, np.zeros(width), np.full(width, np.inf), np.full(width, -np.inf)
    low, high = inputs.min(axis=0), inputs.max(axis=0)
    if scipy.sparse.issparse(inputs):
        low, high = low.toarray(), high.toarray()
    sums = np.asarray(inputs.T.astype(np.float64) @ weights)
    return float(weights.sum()), sums, np.ravel(low).astype(np.float64), np.ravel(high).astype(np.float64)


def column_squares(shard: Shard, inputs: Any, plan: SetPlan, means: np.ndarray) -> np.ndarray:
    """Return weighted sums of squared differences from the means, column by column."""
    weights = _clique_weights(shard, plan.clique)
    if not scipy.sparse.issparse(inputs):
        return weights @ np.square(inputs - means)
    each = np.repeat(weights, np.diff(inputs.indptr))
    width = inputs.shape[1]
    squares = np.bincount(inputs.indices, each * np.square(inputs.data - means[inputs.indices]), minlength=width)
    stored = np.bincount(inputs.indices, each, minlength=width)
    return squares + (weights.sum() - stored) * np.square(means)


def explicit_features(shard: Shard, inputs: Any, subspace: ExplicitSubspace, dtype: np.dtype) -> Any:
    """Return phi(x), dense or CSR as the inputs are."""
    return subspace.features(inputs, dtype)


def stored_columns(shard: Shard, features: Any) -> tuple[bool, int, np.ndarray]:
    """Return whether features are sparse, the number of rows, and how many values each column stores."""
    n_rows, width = features.shape
    if not scipy.sparse.issparse(features):
        return False, n_rows, np.full(width, n_rows)
    return True, n_rows, np.bincount(features.indices, minlength=width)


def observed_pairs(shard: Shard, features: Any, plan: SetPlan) -> tuple[int, np.ndarray, np.ndarray]:
    """Return the number of features, the pairs seen as numbers f L^k + labelling, and the weight of each."""
    labellings = plan.clique.labellings(shard.chains, plan.n_labels)
    n_outcomes = plan.clique.n_configurations(plan.n_labels)
    if features is None:
        keys, totals = np.unique(labellings, return_counts=True)
        return 1, keys, totals.astype(np.float64)
    stored = scipy.sparse.csr_array(features)
    each = stored.indices.astype(np.int64) * n_outcomes + np.repeat(labellings, np.diff(stored.indptr))
    keys, places = np.unique(each, return_inverse=True)
    return stored.shape[1], keys, np.bincount(places, weights=stored.data, minlength=len(keys))


def constant_set(shard: Shard, plan: SetPlan, support: Support | None) -> CliqueFeatures:
    """Return a set whose potential is the same at all its cliques."""
    return _set(shard, plan, None, support=support)


def explicit_set(
    shard: Shard, features: Any, plan: SetPlan, support: Support | None, occupied: np.ndarray | None
) -> CliqueFeatures:
    """Return a set with explicit features, of the columns that some shard has."""
    features = features if occupied is None else features[:, occupied]
    return _set(shard, plan, features, support=support, whitened=False)


def pivot_set(shard: Shard, panel: ShardPanel, plan: SetPlan) -> CliqueFeatures:
    """Return a set whose features are the columns of a panel."""
    subspace: Any = PivotKernels(panel.kernel, panel.pivot_inputs)
    origin = FeatureOrigin(subspace, panel.inputs, panel.residual)
    return _set(shard, plan, panel.features, origin=origin)


def _set(shard: Shard, plan: SetPlan, features: Any, **settings: Any) -> CliqueFeatures:
    clique = plan.clique
    return CliqueFeatures(
        plan.name,
        features,
        positions=clique.positions(shard.chains),
        labels_per_clique=clique.labels_per_clique,
        n_labels=plan.n_labels,
        group=clique.group,
        prior_variance=clique.prior_variance,
        label_factor=plan.label_factor,
        l1=clique.l1,
        **settings,
    )


def shard_engine(shard: Shard, n_labels: int, masks: ConstraintMasks, *sets: CliqueFeatures) -> ThreadsEngine:
    """Return the sums over the chains of this shard."""
    return chain_engine(shard.chains, sets, n_labels=n_labels, masks=masks, workers=shard.workers)
