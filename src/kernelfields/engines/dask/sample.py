"""Labelled data in shards on the workers of a Dask cluster: views, panels, designs and their likelihood.

Rules such as gamma="scale" read the variance of the inputs. It is added up over the shards, column by column, and
the kernel is resolved on two rows that have the same means and variances. Pivots are chosen on a
:class:`~kernelfields.engines.dask.panel.DaskPanel`. Cost: two rounds for the moments where a rule needs them, one
for a sample that shows whether the kernel is one, two for each panel of pivots. Arrays with a row for each position
stay in the shards; answers hold a few numbers for each column.

Sequences, graphs and instances are cut between items, and the family of labellings of a shard is that of its items:
nothing here depends on which labels meet. Where some graphs need approximate inference all are inferred by it, as on
one machine. Clique sets that see no data, as durations do, have their basis on the client.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import getitem, methodcaller
from typing import Any

import numpy as np
import scipy.sparse

from kernelfields.basis.panel import PanelCholesky
from kernelfields.basis.selection import AllPoints, Basis, Gradient
from kernelfields.basis.subspace import ExplicitSubspace
from kernelfields.data.chains import Chains
from kernelfields.data.cliques import CliqueSet
from kernelfields.data.reading import Matrix
from kernelfields.engines.dask.datafit import DaskDatafit, RemoteDesign, called
from kernelfields.engines.dask.panel import DaskPanel
from kernelfields.engines.dask.shard_panel import stacked_rows
from kernelfields.engines.dask.shards import SHARD, Recipe, Shard, ShardGroup, Taken
from kernelfields.engines.engine import Engine, Sample, SampleSettings
from kernelfields.engines.threads import LocalSample, LocalView, Threads
from kernelfields.inference.choice import FamilySpec, family_of
from kernelfields.kernels.kernel import Kernel, check_positive_semidefinite
from kernelfields.objective.datafit import Datafit
from kernelfields.objective.designs.design import Design, LocalDesign
from kernelfields.objective.designs.memory import check_features_fit, feature_dtype
from kernelfields.objective.designs.pairs import Support
from kernelfields.objective.term import Term

# As many as check_positive_semidefinite looks at.
_SAMPLE = 200


class DaskSample:
    """Labelled data in the shards of a group."""

    def __init__(
        self,
        group: ShardGroup,
        n_positions: int,
        spec: FamilySpec,
        settings: SampleSettings,
        engine: Engine | None = None,
    ):
        self.group = group
        self.engine = engine or Threads()
        self.n_positions = n_positions
        self.spec = replace(spec, method=self._method(spec))
        self.settings = settings

    def _method(self, spec: FamilySpec) -> Any:
        """Return how labels are inferred: "auto", or the approximate method that some graphs need."""
        if spec.kind != "graph" or spec.method != "auto":
            return spec.method
        methods = self.group.ask(approximate_method, SHARD, spec)
        return next((method for method in methods if method is not None), "auto")

    def check_basis(self, name: str, basis: Basis) -> None:
        """Raise where pivots would need kernel values between all inputs."""
        if isinstance(basis, Gradient | AllPoints):
            kind = "all" if isinstance(basis, AllPoints) else "gradient"
            raise ValueError(
                f"basis={kind!r} of clique set {name!r} needs kernel values between all inputs, which "
                "engine='dask' does not bring together: use basis='random-cholesky', or engine='threads'"
            )

    def view(self, name: str, clique: CliqueSet) -> DaskView | LocalView:
        """Return what the cliques of a set see."""
        if clique.sees_data:
            return DaskView(self, name, clique)
        nothing = Chains(np.empty((0, 0)), np.zeros(1, dtype=np.int64))
        return LocalView(LocalSample(nothing, self.spec, self.settings), name, clique)

    def datafit(self, designs: Sequence[Design]) -> DaskDatafit:
        """Return the likelihood of the data in the coefficients of some terms."""
        remote = [design for design in designs if isinstance(design, RemoteDesign)]
        sample = self._in_shards(self.settings.dtype)
        recipe = self.group.recipe(shard_datafit, sample, *(design.recipe for design in remote))
        return DaskDatafit(self.group, recipe, remote)

    def design(
        self, term: Term, view: DaskView | LocalView | None = None, panel: DaskPanel | PanelCholesky | None = None
    ) -> RemoteDesign:
        """Return a term on the data; its features are those of ``panel`` where there is one."""
        group, n_labels = self.group, self.spec.n_labels
        if term.tied_everywhere:
            term = replace(term, support=self._support(term, None))
            recipe = group.recipe(called, "design", self._in_shards(self.settings.dtype), travelling(term))
            return RemoteDesign(term, n_labels, 1, np.dtype(np.float32), 0, recipe=recipe)
        view, rank = view or self.view(term.name, term.clique), term.subspace.rank
        if not isinstance(view, DaskView):
            wide, span = np.dtype(np.float64), replace(travelling(term), subspace=term.subspace)
            recipe, raw = group.recipe(called, "design", self._in_shards(wide), span), not term.has_pivots
            return RemoteDesign(term, n_labels, rank, wide, view.n_rows * rank, dense_inputs=raw, recipe=recipe)
        if isinstance(term.subspace, ExplicitSubspace):
            return self._explicit_design(term, view)
        if isinstance(panel, DaskPanel):
            dtype = panel.dtype
            recipe = group.recipe(called, "design", self._in_shards(dtype), travelling(term), None, panel.recipe)
        else:
            dtype = feature_dtype(self.settings.dtype, view.n_rows * rank, self.settings.tol)
            group.ask(check_room, view.recipe, term.name, rank, dtype)
            span = replace(travelling(term), subspace=term.subspace)
            recipe = group.recipe(called, "design", self._in_shards(dtype), span)
        return RemoteDesign(term, n_labels, rank, dtype, view.n_rows * rank, recipe=recipe)

    def share(self, designs: Sequence[Design], stride: int) -> None:
        """There is none: features stay in the shards where they were made."""

    def single_labels(self) -> None:
        """There are none: data stay in the shards as they are."""

    def shared(self, design: RemoteDesign, term: Term) -> RemoteDesign:
        """Return the features of a design for another term."""
        recipe = self.group.recipe(with_term, SHARD, design.recipe, travelling(term))
        return replace(design, term=term, recipe=recipe)

    def _in_shards(self, dtype: np.dtype | None) -> Recipe:
        """Return the recipe of the samples that shards make of their data, with features of one precision."""
        settings = replace(self.settings, dtype=dtype, every_column=True)
        return self.group.recipe(shard_sample, SHARD, self.engine, self.spec, settings)

    def _explicit_design(self, term: Term, view: DaskView) -> RemoteDesign:
        """Return a term whose features are explicit, of the columns that some shard has."""
        group, n_labels, dtype = self.group, self.spec.n_labels, self.settings.dtype
        dtype = view.first_row.dtype if dtype is None else dtype
        # Taken, so that shards keep no view or matrix that the next one has replaced.
        features = group.recipe(ExplicitSubspace.features, term.subspace, Taken(view.recipe), dtype)
        term = replace(term, support=self._support(term, features))
        kinds, rows, columns = zip(*group.ask(stored_columns, features), strict=True)
        sparse, stored = bool(kinds[0]), np.sum(columns, axis=0)
        occupied = np.flatnonzero(stored) if term.support is None and sparse and not np.all(stored) else None
        rank = term.subspace.rank if occupied is None else len(occupied)
        stored_values = int(stored.sum())
        return RemoteDesign(
            term,
            n_labels,
            rank,
            dtype,
            stored_values,
            density=stored_values / max(1, sum(rows) * rank) if sparse else 1.0,
            sparse=sparse,
            dense_inputs=not sparse,
            occupied=occupied,
            n_columns=term.subspace.rank,
            recipe=group.recipe(explicit_design, self._in_shards(dtype), Taken(features), travelling(term), occupied),
        )

    def _support(self, term: Term, features: Recipe | None) -> Support | None:
        """Return the pairs of features and labellings that get coefficients; None for all of them."""
        clique, n_labels = term.clique, self.spec.n_labels
        if term.support is not None or not clique.observed_only:
            return term.support
        answers = self.group.ask(observed_pairs, SHARD, features, _bare(clique), n_labels)
        widths, keys, totals = zip(*answers, strict=True)
        pairs, places = np.unique(np.concatenate(keys), return_inverse=True)
        if clique.least_weight > 0:
            pairs = pairs[np.bincount(places, weights=np.concatenate(totals)) >= clique.least_weight]
        n_outcomes = clique.n_configurations(n_labels)
        counts = np.bincount(pairs // n_outcomes, minlength=widths[0])
        begin = np.concatenate([[0], np.cumsum(counts)])
        return Support(begin.astype(np.int32), (pairs % n_outcomes).astype(np.int32), n_outcomes)


class DaskView:
    """Rows that the cliques of a set see, in the shards; ``recipe`` is that of each shard's own."""

    def __init__(self, sample: DaskSample, name: str, clique: CliqueSet):
        self._sample, self._name = sample, name
        self._clique = _bare(clique)
        self.recipe = sample.group.recipe(view_of, SHARD, self._clique)
        counts, firsts = zip(*sample.group.ask(size_and_first_row, self.recipe), strict=True)
        self._counts: tuple[int, ...] = counts
        self.n_rows = sum(counts)
        self.first_row = next((row for row in firsts if row.shape[0]), firsts[0])

    def resolved(self, kernel: Kernel) -> Kernel:
        """Return the kernel with rules that read the data turned into numbers."""
        parts = [kernel, *(value for value in kernel.get_params().values() if isinstance(value, Kernel))]
        if keeping := next((part for part in parts if part.keeps_rows), None):
            raise ValueError(
                f"{keeping!r} learns from all inputs of fit, which engine='dask' has in parts: give it what it learns "
                "from them, or use engine='threads'"
            )
        ask, width = self._sample.group.ask, self.first_row.shape[1]
        signs = np.array([[1.0], [-1.0]])
        guess = kernel.resolve(signs * np.ones(width))
        if guess == kernel.resolve(2.0 * signs * np.ones(width)):
            return guess
        _check_rules(parts)
        weights, sums, lows, highs = zip(*ask(column_sums, SHARD, self.recipe, self._clique), strict=True)
        weight, low, high = sum(weights), np.min(lows, axis=0), np.max(highs, axis=0)
        means = np.where(low == high, low, np.sum(sums, axis=0) / weight)
        squares = np.sum(ask(column_squares, SHARD, self.recipe, self._clique, means), axis=0)
        deviations = np.where(low == high, 0.0, np.sqrt(squares / weight))
        return kernel.resolve(means + signs * deviations)

    def check_kernel(self, kernel: Kernel, random: np.random.Generator) -> None:
        """Raise if the kernel is not positive semi-definite on a sample; ``random`` moves on as on one machine."""
        group, counts = self._sample.group, self._counts
        state, rows = group.client.submit(permuted_rows, random, sum(counts), _SAMPLE, pure=False).result()
        random.bit_generator.state = state
        ends = np.cumsum(counts)
        shard = np.searchsorted(ends, rows, side="right")
        begins = ends - np.asarray(counts)
        chosen = [rows[shard == number] - begins[number] for number in range(len(counts))]
        found: list[Matrix] = group.ask_each(
            getitem, [(self.recipe, numbers) if len(numbers) else None for numbers in chosen]
        )
        check_positive_semidefinite(kernel, stacked_rows(found))

    def panel(self, kernel: Kernel, capacity: int) -> DaskPanel:
        """Return a panel whose rows are in the shards; MemoryError if those of a shard cannot fit there."""
        group, settings = self._sample.group, self._sample.settings
        precision = feature_dtype(settings.dtype, self.n_rows * capacity, settings.tol)
        group.ask(check_room, self.recipe, self._name, capacity, precision)
        views = self.recipe
        if precision == np.float64:
            views = group.recipe(methodcaller("astype", np.float64, copy=False), Taken(views))
        return DaskPanel(group, views, kernel, capacity, precision, self._sample.engine)


def _bare(clique: CliqueSet) -> CliqueSet:
    """Return a clique set without what may be large or cannot travel: kernel, basis, label kernel."""
    left_out = {"kernel": None, "basis": "random-cholesky", "label_kernel": "delta"}
    return type(clique)(**{**clique.get_params(deep=False), **left_out})


def travelling(term: Term) -> Term:
    """Return a term without its subspace and what its clique set has of it; a constant one stays as it is."""
    subspace = term.subspace if term.tied_everywhere else None
    return replace(term, clique=_bare(term.clique), subspace=subspace, coefficients=None)  # type: ignore[arg-type]


def _check_rules(parts: Sequence[Kernel]) -> None:
    """Raise if a kernel that is not ours reads the data by a rule of its own."""
    for part in parts:
        if part.follows_data and not type(part).__module__.startswith("kernelfields."):
            raise ValueError(
                f"{part!r} reads its parameters off the data by a rule that engine='dask' does not have: give "
                "them as numbers"
            )


# What follows runs on the workers.


def view_of(shard: Shard, clique: CliqueSet) -> Matrix:
    """Return what the cliques see of the inputs, a row for each."""
    return clique.view(shard.data)


def size_and_first_row(inputs: Matrix) -> tuple[int, Matrix]:
    """Return the number of rows and the first of them, if there is one."""
    return inputs.shape[0], inputs[:1]


def check_room(inputs: Matrix, name: str, capacity: int, dtype: np.dtype) -> None:
    """Raise MemoryError if the features of this shard cannot fit in the memory of its machine."""
    check_features_fit(name, inputs.shape[0], capacity, dtype)


def permuted_rows(random: np.random.Generator, n_rows: int, size: int) -> tuple[Mapping[str, Any], np.ndarray]:
    """Return the state of a generator after a permutation of all rows, and its first rows, sorted."""
    rows = np.sort(random.permutation(n_rows)[:size])
    return random.bit_generator.state, rows


def row_weights(shard: Shard, inputs: Matrix, clique: CliqueSet) -> np.ndarray:
    """Return the weight of every row that the cliques of a set see, (n,)."""
    weights = clique.weights(shard.data)
    return np.ones(inputs.shape[0]) if weights is None else weights


def column_sums(shard: Shard, inputs: Matrix, clique: CliqueSet) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
    """Return the weight of all rows, weighted sums of the columns, their lowest and their highest values."""
    weights, width = row_weights(shard, inputs, clique), inputs.shape[1]
    if inputs.shape[0] == 0:
        return 0.0, np.zeros(width), np.full(width, np.inf), np.full(width, -np.inf)
    low, high = inputs.min(axis=0), inputs.max(axis=0)
    if scipy.sparse.issparse(inputs):
        low, high = low.toarray(), high.toarray()
    sums = np.asarray(inputs.T.astype(np.float64) @ weights)
    return float(weights.sum()), sums, np.ravel(low).astype(np.float64), np.ravel(high).astype(np.float64)


def column_squares(shard: Shard, inputs: Matrix, clique: CliqueSet, means: np.ndarray) -> np.ndarray:
    """Return weighted sums of squared differences from the means, column by column."""
    weights = row_weights(shard, inputs, clique)
    if isinstance(inputs, np.ndarray):
        return weights @ np.square(inputs - means)
    weight_of_value = np.repeat(weights, np.diff(inputs.indptr))
    squared = weight_of_value * np.square(inputs.data - means[inputs.indices])
    squares = np.bincount(inputs.indices, squared, minlength=inputs.shape[1])
    stored = np.bincount(inputs.indices, weight_of_value, minlength=inputs.shape[1])
    return squares + (weights.sum() - stored) * np.square(means)


def stored_columns(features: Matrix) -> tuple[bool, int, np.ndarray]:
    """Return whether features are sparse, the number of rows, and how many values each column stores."""
    n_rows, width = features.shape
    if isinstance(features, np.ndarray):
        return False, n_rows, np.full(width, n_rows)
    return True, n_rows, np.bincount(features.indices, minlength=width)


def observed_pairs(
    shard: Shard, features: Matrix | None, clique: CliqueSet, n_labels: int
) -> tuple[int, np.ndarray, np.ndarray]:
    """Return the number of features, the pairs seen as numbers f L^k + labelling, and the weight of each."""
    rows, labellings = clique.observed(shard.data, n_labels)
    n_outcomes = clique.n_configurations(n_labels)
    if features is None:
        keys, totals = np.unique(labellings, return_counts=True)
        return 1, keys, totals.astype(np.float64)
    stored = scipy.sparse.csr_array(features if rows is None else features[rows])
    pairs = stored.indices.astype(np.int64) * n_outcomes + np.repeat(labellings, np.diff(stored.indptr))
    keys, places = np.unique(pairs, return_inverse=True)
    return stored.shape[1], keys, np.bincount(places, weights=stored.data, minlength=len(keys))


def shard_sample(shard: Shard, engine: Engine, spec: FamilySpec, settings: SampleSettings) -> Sample:
    """Return the data of this shard as a sample, on the threads or the device of the worker."""
    return engine.place(shard.data, spec, replace(settings, workers=shard.workers))


def approximate_method(shard: Shard, spec: FamilySpec) -> str | None:
    """Return how the graphs of this shard are inferred if that is approximate; None if it is exact."""
    family = family_of(shard.data, (), spec)
    return None if family.exact else family.method


def with_term(shard: Shard, design: LocalDesign, term: Term) -> LocalDesign:
    """Return the features of a design for another term."""
    return replace(design, term=term, positions=term.clique.positions(shard.data))


class GivenFeatures:
    """Explicit features that are there already, as a subspace and as what its cliques see."""

    def __init__(self, inputs: Matrix):
        self.inputs = inputs

    def features(self, inputs: Matrix, dtype: np.dtype) -> Matrix:
        """Return the inputs, which are the features."""
        return inputs


def explicit_design(sample: LocalSample, features: Matrix, term: Term, occupied: np.ndarray | None) -> LocalDesign:
    """Return a term with explicit features, of the columns that some shard has."""
    given = GivenFeatures(features if occupied is None else features[:, occupied])
    return sample.design(replace(term, subspace=given), given)  # type: ignore[arg-type]


def shard_datafit(sample: Sample, *designs: LocalDesign) -> Datafit:
    """Return the likelihood of the data of this shard."""
    return sample.datafit(designs)
