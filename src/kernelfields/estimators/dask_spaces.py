"""From clique sets to finite coordinates on chains in shards: what spaces.py does on one machine.

Rules such as gamma="scale" read the variance of the inputs. It is added up over the shards, column by column, and
the kernel is resolved on two rows that have the same means and variances. Pivots are chosen on a
:class:`~kernelfields.basis.dask_panel.DaskPanel`. Cost: two rounds for the moments where a rule asks for them, one
for a sample that tells whether the kernel is one, two for each panel of pivots.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from kernelfields.basis import (
    AllPoints,
    ConstantSubspace,
    ExplicitSubspace,
    Gradient,
    Support,
    resolve_basis,
)
from kernelfields.basis.dask_panel import DaskPanel
from kernelfields.basis.dask_rows import stacked_rows
from kernelfields.engines.dask_cluster import connected_client
from kernelfields.engines.dask_engine import DaskEngine, RemoteSet
from kernelfields.engines.dask_group import Recipe, ShardGroup, Taken
from kernelfields.engines.feature_memory import feature_dtype
from kernelfields.estimators import dask_features as on_workers
from kernelfields.estimators.chain_cliques import chain_cliques
from kernelfields.estimators.chain_inputs import ChainInputs
from kernelfields.estimators.dask_data import training_shards
from kernelfields.estimators.dask_features import SetPlan
from kernelfields.estimators.parameters import resolve_dtype
from kernelfields.estimators.spaces import check_pivots_allowed, explicit_dtype, label_factor, name_cliques
from kernelfields.fields import CliqueSet, ConstraintMasks
from kernelfields.fields.randomness import random_generator
from kernelfields.kernels import Constant, Kernel, check_positive_semidefinite, resolve_kernel

# As many as check_positive_semidefinite looks at.
_SAMPLE = 200


@dataclass
class DaskSpace:
    """A clique set in finite coordinates on chains in shards; fields as in :class:`CliqueSpace`."""

    clique: CliqueSet
    name: str
    subspace: Any
    label_factor: np.ndarray | None
    remote: RemoteSet
    support: Support | None = None
    basis: Any = None

    def clique_features(self, n_labels: int) -> RemoteSet:
        """Return what an engine needs of this set."""
        return self.remote


def dask_fit_parts(
    crf: Any,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    client: Any = None,
    *,
    random: np.random.Generator | None = None,
    say: Callable[[str], None] | None = None,
) -> tuple[ChainInputs, np.ndarray, ConstraintMasks, list[DaskSpace], Callable[[Sequence[RemoteSet]], DaskEngine]]:
    """Return what a fit of a ChainCRF on a cluster needs: inputs, classes, masks, spaces, engine of their sets.

    ``client`` is a ``distributed.Client``, None for the present one; ``random`` None follows ``random_state``.
    """
    client = connected_client(client)
    if isinstance(crf.cliques, str):
        raise ValueError("cliques='learn' needs engine='threads': learn on a part of the data, then name the sets")
    if crf.warm_start and hasattr(crf, "model_"):
        raise ValueError("warm_start=True needs engine='threads': on a cluster every fit starts from zero")
    cliques = name_cliques(chain_cliques(crf))
    for name, clique in cliques:
        _check_basis(name, clique)  # before the data are read
    seen_counts = any(clique.support == "observed" for _, clique in cliques)
    data = training_shards(client, crf, X, y, sample_weight, keep_zeros=seen_counts)
    random = random_generator(crf.random_state) if random is None else random
    spaces = remote_spaces(
        data.group,
        len(data.classes),
        cliques,
        random=random,
        say=say or _say_nothing,
        tol=crf.tol,
        dtype=crf.dtype,
    )
    engine_of = partial(dask_engine, data.group, len(data.classes), data.masks)
    return data.inputs, data.classes, data.masks, spaces, engine_of


def _say_nothing(text: str) -> None:
    """Progress that nobody asked for."""


def remote_spaces(
    group: ShardGroup,
    n_labels: int,
    cliques: Sequence[tuple[str, CliqueSet]],
    *,
    random: np.random.Generator,
    say: Callable[[str], None],
    tol: float,
    dtype: Any,
) -> list[DaskSpace]:
    """Choose a basis for each named clique set and have the shards compute its features."""
    spaces = []
    for name, clique in cliques:
        if clique.kernel is not None:
            say(f"choosing a basis for {name} cliques on {len(group)} shards")
        spaces.append(remote_space(name, clique, group, n_labels, tol=tol, dtype=dtype, random=random))
    return spaces


def dask_engine(group: ShardGroup, n_labels: int, masks: ConstraintMasks, sets: Sequence[RemoteSet]) -> DaskEngine:
    """Return the sums over shards of clique sets."""
    recipe = group.recipe(on_workers.shard_engine, n_labels, masks, *(each.recipe for each in sets))
    return DaskEngine(group, recipe, sets)


def _check_basis(name: str, clique: CliqueSet) -> None:
    basis = resolve_basis(clique.basis)
    if isinstance(basis, Gradient | AllPoints) and clique.kernel is not None:
        kind = "all" if isinstance(basis, AllPoints) else "gradient"
        if not resolve_kernel(clique.kernel).has_feature_map:
            raise ValueError(
                f"basis={kind!r} of clique set {name!r} needs kernel values between all inputs, which "
                "engine='dask' does not bring together: use basis='random-cholesky', or engine='threads'"
            )


def remote_space(
    name: str,
    clique: CliqueSet,
    group: ShardGroup,
    n_labels: int,
    *,
    tol: float,
    dtype: Any,
    random: np.random.Generator,
) -> DaskSpace:
    """Choose a basis for one clique set and have the shards compute its features."""
    factor = label_factor(clique, n_labels)
    plan = SetPlan.of(name, clique, n_labels, factor)
    if clique.kernel is None:
        support = _support(group, None, plan)
        remote = _described(
            plan,
            group.recipe(on_workers.constant_set, plan, support),
            1,
            support=support,
            dtype=np.dtype(np.float32),
            stored_values=0,
        )
        return DaskSpace(clique, name, ConstantSubspace(Constant(1.0)), factor, remote, support)
    views = group.recipe(on_workers.view_of, plan)
    counts, firsts = zip(*group.ask(on_workers.size_and_first_row, views), strict=True)
    first = next((row for row in firsts if row.shape[0]), None)
    if first is None:
        raise ValueError(
            f"the training data hold no {name!r} cliques, all sequences have length one: there is nothing to "
            "choose a kernel basis from. Leave out the edge kernel."
        )
    kernel = _resolved_kernel(resolve_kernel(clique.kernel), group, views, plan, first.shape[1])
    explicit = kernel.feature_map(first)
    if explicit is not None:
        subspace = ExplicitSubspace(kernel, explicit.shape[1])
        remote = _explicit_set(group, views, plan, subspace, explicit_dtype(dtype, first))
        return DaskSpace(clique, name, subspace, factor, remote, remote.support)
    check_pivots_allowed(name, clique)
    check_positive_semidefinite(kernel, _sampled_rows(group, views, counts, random))
    basis = resolve_basis(clique.basis)
    capacity = basis.capacity(clique.rank, sum(counts))
    precision = feature_dtype(resolve_dtype(dtype), sum(counts) * capacity, tol)
    group.ask(on_workers.check_room, views, name, capacity, precision)
    if precision == np.float64:
        views = group.recipe(on_workers.as_float64, Taken(views))
    panel: Any = DaskPanel(group, views, kernel, capacity, precision)
    basis.select(panel, random)
    remote = _described(
        plan,
        group.recipe(on_workers.pivot_set, panel.recipe, plan),
        panel.rank,
        dtype=precision,
        stored_values=sum(counts) * panel.rank,
        origin=panel.subspace(),
    )
    return DaskSpace(clique, name, remote.origin, factor, remote, None, basis)


def _explicit_set(
    group: ShardGroup, views: Recipe, plan: SetPlan, subspace: ExplicitSubspace, dtype: np.dtype
) -> RemoteSet:
    """Return a set whose features are explicit."""
    # Taken, so that shards keep no view or matrix that the next one has replaced.
    features = group.recipe(on_workers.explicit_features, Taken(views), subspace, dtype)
    support = _support(group, features, plan)
    kinds, rows, columns = zip(*group.ask(on_workers.stored_columns, features), strict=True)
    sparse, stored = bool(kinds[0]), np.sum(columns, axis=0)
    occupied = np.flatnonzero(stored) if support is None and sparse and not np.all(stored) else None
    rank = subspace.rank if occupied is None else len(occupied)
    stored_values = int(stored.sum())
    return _described(
        plan,
        group.recipe(on_workers.explicit_set, Taken(features), plan, support, occupied),
        rank,
        support=support,
        dtype=dtype,
        stored_values=stored_values,
        whitened=False,
        dense_inputs=not sparse,
        density=stored_values / max(1, sum(rows) * rank) if sparse else 1.0,
        sparse=sparse,
        occupied=occupied,
        n_columns=subspace.rank,
    )


def _described(
    plan: SetPlan, recipe: Recipe, rank: int, *, support: Support | None = None, **known: Any
) -> RemoteSet:
    return RemoteSet(
        name=plan.name,
        recipe=recipe,
        shape=(rank, plan.n_outputs) if support is None else (support.size, 1),
        prior_variance=float(plan.clique.prior_variance),
        l1=float(plan.clique.l1),
        labels_per_clique=plan.clique.labels_per_clique,
        label_factor=plan.label_factor,
        support=support,
        **known,
    )


def _support(group: ShardGroup, features: Recipe | None, plan: SetPlan) -> Support | None:
    """Return the pairs of features and labellings that get coefficients; None for all of them."""
    if plan.clique.support == "all":
        return None
    widths, keys, totals = zip(*group.ask(on_workers.observed_pairs, features, plan), strict=True)
    pairs, places = np.unique(np.concatenate(keys), return_inverse=True)
    if plan.clique.min_freq > 0:
        pairs = pairs[np.bincount(places, weights=np.concatenate(totals)) >= plan.clique.min_freq]
    n_outcomes = plan.clique.n_configurations(plan.n_labels)
    counts = np.bincount(pairs // n_outcomes, minlength=widths[0])
    begin = np.concatenate([[0], np.cumsum(counts)])
    return Support(begin.astype(np.int32), (pairs % n_outcomes).astype(np.int32), n_outcomes)


def _resolved_kernel(kernel: Kernel, group: ShardGroup, views: Recipe, plan: SetPlan, width: int) -> Kernel:
    """Return the kernel with rules that read the data turned into numbers."""
    signs = np.array([[1.0], [-1.0]])
    guess = kernel.resolve(signs * np.ones(width))
    if guess == kernel.resolve(2.0 * signs * np.ones(width)):
        return guess
    _check_rules(kernel)
    sums = group.ask(on_workers.column_sums, views, plan)
    weight = sum(each[0] for each in sums)
    low, high = np.min([each[2] for each in sums], axis=0), np.max([each[3] for each in sums], axis=0)
    means = np.where(low == high, low, sum(each[1] for each in sums) / weight)
    squares = sum(group.ask(on_workers.column_squares, views, plan, means))
    deviations = np.where(low == high, 0.0, np.sqrt(squares / weight))
    return kernel.resolve(means + signs * deviations)


def _check_rules(kernel: Kernel) -> None:
    """Raise if a kernel that is not ours reads the data by a rule of its own."""
    for part in [kernel, *(each for each in kernel.get_params().values() if isinstance(each, Kernel))]:
        own = type(part)._from_data is not Kernel._from_data
        if own and not type(part).__module__.startswith("kernelfields."):
            raise ValueError(
                f"{part!r} reads its parameters off the data by a rule that engine='dask' does not know: give "
                "them as numbers"
            )


def _sampled_rows(group: ShardGroup, views: Recipe, counts: Sequence[int], random: np.random.Generator) -> Any:
    """Return the rows that a check of the kernel looks at; ``random`` moves on as it does on one machine."""
    state, rows = group.client.submit(on_workers.permuted_rows, random, sum(counts), _SAMPLE, pure=False).result()
    random.bit_generator.state = state
    ends = np.cumsum(counts)
    shard = np.searchsorted(ends, rows, side="right")
    begins = ends - np.asarray(counts)
    chosen = [rows[shard == number] - begins[number] for number in range(len(counts))]
    answers = group.ask_each(on_workers.rows_of_view, [(views, own) if len(own) else None for own in chosen])
    return stacked_rows([each for each in answers if each is not None])
