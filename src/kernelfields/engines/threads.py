"""The threads engine: labelled data and features in this process, with an optional budget of memory."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from os import PathLike
from weakref import WeakValueDictionary

import numpy as np

from kernelfields.basis.panel import PanelCholesky
from kernelfields.basis.subspace import PivotSubspace
from kernelfields.data.chains import Chains, Items
from kernelfields.data.cliques import CliqueSet
from kernelfields.data.reading import Matrix
from kernelfields.engines.engine import Engine, PackedData, SampleSettings
from kernelfields.engines.view import LocalView
from kernelfields.inference.choice import FamilySpec, choose_family
from kernelfields.inference.family import LabelFamily
from kernelfields.kernels.kernel import Kernel
from kernelfields.numerics.memory import available_memory
from kernelfields.numerics.registry import SETTINGS
from kernelfields.numerics.sparse_rows import Rows, gather_entries
from kernelfields.objective import designs as designing
from kernelfields.objective.datafit import Datafit, choose_likelihood
from kernelfields.objective.designs.design import Design, FeatureOrigin, LocalDesign, residual_variance
from kernelfields.objective.designs.pairs import PairFinder, seen_pairs
from kernelfields.objective.term import Term

# Features this small are kept in float64 whatever the tolerance: precision is free there.
_SMALL_FEATURES = 16 * 2**20
# A sequence that is too long is cut into at least so many pieces.
_PIECES = 4
# Rounding of float32 products keeps relative gaps down to about 1e-6 meaningful; see docs/numerics.md.
_FLOAT32_TOLERANCE = 1e-5


@SETTINGS.register("threads")
class Threads(Engine):
    """Fit with the threads of this process, within an optional budget of memory.

    Parameters
    ----------
    memory : float or str, optional
        The bytes, or text such as "8GB", that a fit may add to the memory of the process, inputs aside; by default
        there is no limit.
    folder : path, optional
        The folder of the files of features that do not fit; by default that of temporary files.

    See Also
    --------
    Torch : Fits on a device of PyTorch.
    Dask : Fits on the workers of a cluster.

    Examples
    --------
    >>> from kernelfields import ChainCRF
    >>> from kernelfields.engines import Threads
    >>> X, y = [[[0.0], [1.0]], [[1.0], [0.0]]], [["a", "b"], ["b", "a"]]
    >>> crf = ChainCRF("rbf", prior_variance=1.0, engine=Threads(memory="1GB")).fit(X, y)
    >>> crf.predict([[[0.0], [1.0]]])
    [['a', 'b']]
    """

    name = "threads"

    def __init__(self, memory: str | float | None = None, folder: str | PathLike[str] | None = None):
        self.memory = memory
        self.folder = folder

    @property
    def fits_side_by_side(self) -> bool:
        """Whether fits may run side by side: without a budget, which would belong to one fit."""
        return self.memory is None

    def check(self) -> None:
        """Raise ValueError if the budget cannot be read."""
        if self.memory is not None:
            self.budget()

    def budget(self) -> int | None:
        """Return the memory in bytes that a fit may use.

        Returns
        -------
        int or None
            The number of bytes; None for no limit.

        Examples
        --------
        >>> from kernelfields.engines import Threads
        >>> Threads(memory="2GB").budget()
        2000000000
        """
        return None if self.memory is None else designing.budget.parse_memory(self.memory)

    def check_scoring(self) -> None:
        """Accept: the budget is for fits alone."""

    def place(self, data: PackedData, spec: FamilySpec, settings: SampleSettings) -> LocalSample:
        """Put labelled data in this process.

        Parameters
        ----------
        data : Chains, Graphs or other packed data
            Labelled data.
        spec : FamilySpec
            The kind of the labels.
        settings : SampleSettings
            Precision, threads and memory.

        Returns
        -------
        Sample
            The data in this process.
        """
        limit = None if self.memory is None else self.budget()
        return LocalSample(data, spec, settings, designing.budget.MemoryBudget(limit, self.folder) if limit else None)


class LocalSample:
    """Labelled data in this process; ``memory`` is the limit for the features of all samples together."""

    def __init__(
        self,
        data: PackedData,
        spec: FamilySpec,
        settings: SampleSettings,
        memory: designing.budget.MemoryBudget | None = None,
    ):
        self.data = data
        self.n_positions = data.n_positions
        self.spec = spec
        self.settings = settings
        #: Rows of a view in all processes; None where they are all here.
        self.rows_of_all: int | None = None
        #: Finds the pairs of features and labellings that occur.
        self.seen_pairs: PairFinder = seen_pairs
        self.memory = memory
        # Terms of one subspace share its features for as long as someone holds them.
        self._designs: WeakValueDictionary[int, LocalDesign] = WeakValueDictionary()

    def view(self, name: str, clique: CliqueSet) -> LocalView:
        """Return the inputs of the cliques."""
        return LocalView(self, name, clique)

    def datafit(self, designs: Sequence[Design]) -> Datafit:
        """Return the likelihood of the data in the coefficients of some terms."""
        local = LocalSample.host_designs(self, designs)
        planned = self._planned if self.spec.kind == "graph" else None
        likelihood = choose_likelihood(self.data, local, self.spec, self.settings.workers, planned)
        return Datafit(likelihood, local)

    def part(
        self,
        designs: Sequence[Design],
        items: Items,
        times: int = 1,
        dtype: np.dtype | None = None,
        longest: int | None = None,
    ) -> tuple[LocalSample, list[LocalDesign]] | None:
        """Return some sequences, with weights multiplied, and existing features converted to ``dtype``.

        None unless the data are chains whose features are in memory, dense, or those of plain transitions.
        """
        if self.memory is not None or not isinstance(self.data, Chains):
            return None
        whole = self.data if longest is None else self._cut(self.data, longest)
        data = whole.subset(items)
        rows, _ = gather_entries(whole.offsets, np.arange(whole.n_sequences)[items])
        chosen: list[LocalDesign] = []
        for design in designs:
            if not isinstance(design, LocalDesign) or design.panel is not None:
                return None
            if not design.term.is_constant and design.term.clique.sees_data:
                if design.positions is not None or not isinstance(design.features, np.ndarray):
                    return None
                features = design.features[rows].astype(dtype or design.features.dtype, copy=False)
                design = LocalDesign.from_features(design.term, features, design.n_labels, positions=None)
            chosen.append(replace(design, positions=design.term.clique.positions(data)))
        return LocalSample(replace(data, weights=times * data.weights), self.spec, self.settings), chosen

    def _cut(self, chains: Chains, longest: int) -> Chains:
        """Cut long chains where their labels may end and begin; return them whole if these are not all known."""
        masks, labels = self.spec.masks, chains.certain_labels
        if self.spec.kind != "chain" or (self.spec.is_constrained and labels is None):
            return chains
        may_begin = None
        if masks is not None and labels is not None:
            may_begin = (masks.start[labels] == 0.0) & (masks.end[np.roll(labels, 1)] == 0.0)
        return chains.cut(longest, max(1, longest // _PIECES), may_begin)

    def single_labels(self) -> LocalSample:
        """Return the same data with independent labels: without factors and constraints."""
        other = copy.copy(self)
        vars(other).pop("_planned", None)
        other.spec = replace(self.spec, masks=None)
        other.data = self.data.without_factors()
        return other

    def on_host(self) -> LocalSample:
        """Return the same data with features in host memory."""
        return self

    def host_designs(self, designs: Sequence[Design]) -> list[LocalDesign]:
        """Return designs with scores in host memory, for features anywhere."""
        return [design for design in designs if isinstance(design, LocalDesign)]

    @cached_property
    def _planned(self) -> LabelFamily | None:
        """A plan of inference on graphs, independent of the clique sets."""
        return choose_family(self.data, (), self.spec) if self.spec.kind == "graph" else None

    def design(self, term: Term, view: LocalView | None = None, panel: PanelCholesky | None = None) -> LocalDesign:
        """Return the design of a term, with the features of ``panel`` if it is given."""
        # A design that someone holds holds its subspace, whose id is that of no other one.
        known = self._designs.get(id(term.subspace))
        if panel is None and known is not None:
            return self.shared(known, term)
        if term.is_constant:
            return self._make_design(term, None)
        features: Rows
        if panel is not None:
            features = self._panel_features(panel)
            origin: FeatureOrigin | None = FeatureOrigin(panel.kernel, panel.pivot_inputs, panel.inputs, panel.residual)
        else:
            features, origin = self._features(term, term.clique.view(self.data) if view is None else view.inputs)
        return self.keep(self._make_design(term, features, origin))

    def _make_design(self, term: Term, features: Rows | None, origin: FeatureOrigin | None = None) -> LocalDesign:
        """Return the design of a term with features, and its pairs with coefficients."""
        n_labels, clique = self.spec.n_labels, term.clique
        term = replace(term, pairs=term.pairs.select_pairs(self.data, clique, n_labels, features, self.seen_pairs))
        positions, group = clique.positions(self.data), self.settings.group
        return LocalDesign.from_features(term, features, n_labels, positions=positions, origin=origin, group=group)

    def keep(self, design: LocalDesign) -> LocalDesign:
        """Store a design, whose features later terms of its subspace share; return it."""
        self._designs[id(design.term.subspace)] = design
        return design

    def has_features(self, term: Term) -> bool:
        """Whether a stored design shares the features of a term."""
        return id(term.subspace) in self._designs

    def shared(self, design: LocalDesign, term: Term) -> LocalDesign:
        """Return the features of a design for another term with the same rows."""
        return replace(design, term=term, positions=term.clique.positions(self.data))

    def _panel_features(self, panel: PanelCholesky) -> Rows:
        """Return the features of a panel in the form of a design."""
        return panel.features

    def precise(self, inputs: Matrix, rank: int) -> tuple[Matrix, np.dtype]:
        """Return inputs and the precision of their features; double precision needs kernel values in double."""
        n_rows = inputs.shape[0] if self.rows_of_all is None else self.rows_of_all
        precision = feature_dtype(self.settings.dtype, n_rows * rank, self.settings.tol)
        return inputs.astype(np.float64, copy=False) if precision == np.float64 else inputs, precision

    def _features(self, term: Term, inputs: Matrix) -> tuple[Rows, FeatureOrigin | None]:
        """Return the features of inputs in an existing subspace, and their source."""
        subspace, dtype = term.subspace, self.settings.dtype
        if not isinstance(subspace, PivotSubspace):
            return subspace.features(inputs, inputs.dtype if dtype is None else dtype), None
        inputs, precision = self.precise(inputs, subspace.rank)
        if self.memory is None:
            features = subspace.features(inputs, precision)
        else:
            features = self.memory.compute_features(self, term, inputs, precision)
        left = residual_variance(subspace, inputs, features)
        return features, FeatureOrigin(subspace.kernel, subspace.pivots, inputs, left)

    def panel(self, name: str, clique: CliqueSet, kernel: Kernel, inputs: Matrix, capacity: int) -> PanelCholesky:
        """Return a panel of inputs, its columns in memory or in a file; MemoryError if it cannot fit."""
        inputs, precision = self.precise(inputs, capacity)
        room = None
        if self.memory is not None:
            room = self.memory.room(self, name, clique, inputs.shape[0], capacity, precision)
        if room is None:
            check_features_fit(name, inputs.shape[0], capacity, precision)
        return PanelCholesky(kernel, inputs, capacity, precision, room, self.settings.workers)


def feature_dtype(dtype: np.dtype | None, n_values: int, tol: float) -> np.dtype:
    """Return ``dtype`` or, for None, float32 for large features unless the tolerance needs more."""
    if dtype is not None:
        return dtype
    small = 8 * n_values <= _SMALL_FEATURES
    return np.dtype(np.float64 if small or tol < _FLOAT32_TOLERANCE else np.float32)


def check_features_fit(name: str, n_rows: int, rank: int, dtype: np.dtype) -> None:
    """Raise MemoryError before a fit if the feature matrix cannot fit in memory."""
    needed = n_rows * rank * dtype.itemsize
    available = available_memory()
    if available is not None and needed > available:
        fitting = max(1, int(0.7 * available / (n_rows * dtype.itemsize)))
        raise MemoryError(
            f"clique set {name!r}: features of {n_rows:,} positions at rank {rank:,} need "
            f"{needed / 2**30:,.1f} GiB in {dtype}, but {available / 2**30:,.1f} GiB are free. "
            f"Use rank={fitting:,} or less, or dtype='float32'."
        )
