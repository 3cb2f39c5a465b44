"""Chains: a label at each position of a sequence, with neighbouring labels in common cliques."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from sklearn.base import clone

from kernelfields import kernels
from kernelfields.data.chains import Chains
from kernelfields.data.cliques import CliqueSet, EdgeCliques, NodeCliques
from kernelfields.data.readers import InputReader, learn_limits
from kernelfields.data.reading import LabelForm, has_words, is_sequence, materialize_iterator
from kernelfields.inputs.step import STATISTICS
from kernelfields.numerics.parameters import check_window, get_open_parameters, is_auto, resolve_open
from kernelfields.numerics.user_warnings import warn_user
from kernelfields.numerics.wording import inflect
from kernelfields.structures import library
from kernelfields.structures.structure import Structure

if TYPE_CHECKING:
    from kernelfields.data.label_dictionary import LabelDictionary
    from kernelfields.numerics.group import Group
    from kernelfields.objective.term import Term

#: Reader and classes of all data, for a part of them.
PartOf: TypeAlias = tuple[InputReader, np.ndarray]


def make_features(features: Any, X: Any) -> Any:
    """Return the unfitted transformer of X to inputs; None for unchanged inputs."""
    if is_auto(features) and has_words(X):
        return library.features_of_words(X)
    if resolve_open(features, None) is None:
        return None
    return library.resolve_features(features)


@dataclass(frozen=True, eq=False)
class SequenceStructure(Structure[Chains, InputReader]):
    """Labels of the positions of sequences: the common part of chains and segments."""

    @property
    def dictionary(self) -> LabelDictionary | None:
        """The rule for allowed labels of positions; None without one."""
        return self.settings.allowed

    @property
    def edges(self) -> CliqueSet:
        """The clique set of neighbouring labels."""
        return EdgeCliques() if self.settings.edges is None else self.settings.edges

    @property
    def window(self) -> int | tuple[int, int]:
        """The window of clique sets: one position if windows are open, or summarised by statistics."""
        return 1 if isinstance(self.settings.window, str) else self.settings.window

    def check(self) -> None:
        if self.settings.window == STATISTICS:
            why = "ties move columns of inputs, and window='statistics' adds others: leave out one"
            library.resolve_ties(self.settings.ties).refuse(why)

    # ---- the data of a fit

    def new_reader(self, X: object, part_of: PartOf | None = None) -> InputReader:
        """Return an unfitted reader for the kind of X, for a part of distributed data."""
        apart: bool | Sequence[str] = library.has_named_kinds(self.settings.kernel)
        if apart and part_of is not None:
            apart = part_of[0].rows.numbers
        reader = super().new_reader(X)
        rows = replace(reader.rows, apart=apart)
        return replace(reader, features=make_features(self.settings.features, X), rows=rows)

    def to_natural_sparsity(self, reader: InputReader, data: Chains, among: Group) -> Chains:
        """Choose dense or sparse storage by the density of data; separate numbers and categories of few features."""
        open_ones = {"support", "l1"} & set(self.settings.get_params(deep=False))
        free = open_ones <= set(get_open_parameters(self.settings))
        alone = check_window(self.window) == (0, 0)
        # Kernels name columns of their own by place, and categories would change places.
        few = free and alone and self.settings.ties is None and self.dictionary is None and not reader.own.rows
        if reader.rows.apart or (reader.rows.encoder is not None and few):
            return reader.rows.with_categories(data, among)
        return reader.rows.to_natural_sparsity(data, among)

    def training_labels(self, y: Any, *, warn: bool = False) -> Any:
        if self.settings.constraints is None:
            return y
        constraints = library.Constraints.parse(self.settings.constraints)
        if constraints.scheme is None or constraints.strict:
            return y
        y = materialize_iterator(y)
        if isinstance(y, LabelForm) or not is_sequence(y) or not all(item is None or is_sequence(item) for item in y):
            return y
        mended, changed = library.rewrite_labels(y, library.find_scheme(constraints.scheme))
        if not changed:
            return y
        if warn:
            first, several = changed[0], len(changed) > 1
            warn_user(
                f"{inflect(len(changed), 'label')} of y break{'s' * (not several)} the scheme "
                f"{constraints.scheme!r} and {'are' if several else 'is'} mended, the first at sequence "
                f"{first.sequence}, position {first.position}: {first.label!r} is read as {first.new!r}. Constraints("
                f"scheme={constraints.scheme!r}, strict=True) makes this an error",
            )
        return mended

    def learn_collection(self, X: object, y: object, sample_weight: object) -> tuple[InputReader, Chains, np.ndarray]:
        if self.dictionary is not None:
            raise ValueError("allowed is for data of this process, and X is a Dask collection: leave it out")
        return super().learn_collection(X, y, sample_weight)

    # ---- data after a fit

    def _read_items(self, X: object, y: object, sample_weight: object) -> Chains:
        """Read data by the reader of the fit, without checks."""
        return self.reader.read(X, y, sample_weight, self.classes)

    def read(self, X: object, y: object = None, sample_weight: object = None) -> Chains:
        chains = self._read_items(X, y, sample_weight)
        if self.spec.has_forbidden_labellings(chains):
            library.check_lengths(chains.nonempty, self.spec)
        return chains

    def read_labelled(self, X: object, y: object, sample_weight: object = None) -> Chains:
        # Labels of a fit may be what a dictionary does not allow: they are allowed where they stand.
        return self._read_items(X, y, sample_weight).for_fit()

    def learn_batch(
        self, X: object, y: object, sample_weight: object, *, further: bool = False
    ) -> tuple[InputReader, Chains, np.ndarray]:
        X, y, classes = materialize_iterator(X), self.training_labels(materialize_iterator(y), warn=True), self.classes
        given = self.dictionary, X, self.position_labels(y), classes, sample_weight
        reader = replace(self.reader, limits=learn_limits(self.reader, *given, further=further))
        return reader, self.with_reader(reader, classes).read_training(X, y, sample_weight), classes

    # ---- clique sets

    def nodes_and_edges(self, **shared: Any) -> list[CliqueSet]:
        """Return the clique sets of positions and of neighbours, with ``shared`` parameters."""
        return [
            NodeCliques(self.settings.kernel, prior_variance=self.settings.prior_variance, **shared),
            self.edges.with_defaults(prior_variance=self.first_variance, **shared),
        ]

    def beside_categories(self, cliques: Sequence[CliqueSet], reader: InputReader) -> list[CliqueSet]:
        """Return clique sets with separate functions of numeric columns and of categories."""
        if not reader.rows.categories:
            return list(cliques)
        n_numbers = reader.n_columns - reader.rows.categories
        nodes, *others = cliques
        if library.has_named_kinds(nodes.kernel):
            return [clone(nodes).set_params(kernel=nodes.kernel.with_places(n_numbers)), *others]
        own = nodes.prior_variance if self.variance_of_categories is None else self.variance_of_categories
        kernel = library.resolve_kernel(nodes.kernel)
        if not isinstance(kernel, kernels.Columns):  # that of a field whose fit goes on
            nodes = clone(nodes).set_params(kernel=kernels.Columns(kernel, 0, n_numbers))
        linear = NodeCliques(kernels.Columns(kernels.Linear(), n_numbers), prior_variance=own, name="categories")
        return [nodes, linear, *others] if own else [nodes, *others]

    # ---- fitted attributes

    def views(self, terms: Sequence[Term]) -> dict[str, Any]:
        tied = [
            term.tied_scores.reshape(self.spec.n_labels, -1)
            for term in terms
            if isinstance(term.clique, EdgeCliques) and term.is_constant
        ]
        return {
            **super().views(terms),
            "transitions_": np.sum(tied, axis=0) if tied else None,
            "allowed_": next(iter(self.reader.limits), None),
            "features_": self.reader.features,
        }


@dataclass(frozen=True, eq=False)
class ChainStructure(SequenceStructure):
    """Labels of positions with cliques of neighbours and others."""

    kind = "chain"

    @property
    def has_explicit_cliques(self) -> bool:
        return self.settings.cliques is not None

    @property
    def is_engine_free(self) -> bool:
        return self.dictionary is None and not any(clique.needs_threads for clique in self.described_cliques())

    def count_sequential_steps(self, data: Chains) -> int:
        return int(data.own.lengths.max(initial=0))

    def check(self) -> None:
        super().check()
        library.name_cliques(self.described_cliques())

    def described_cliques(self) -> Sequence[CliqueSet]:
        """Return the clique sets of the parameters."""
        cliques = self.settings.cliques
        if cliques is not None:
            return [cliques] if isinstance(cliques, CliqueSet) else cliques
        usual = self.with_usual_values()
        given = usual.settings
        return usual.nodes_and_edges(
            window=usual.window, basis=given.basis, rank=given.rank, support=given.support, l1=given.l1
        )

    def learn(
        self, X: object, y: object, sample_weight: object, part_of: PartOf | None = None
    ) -> tuple[InputReader, Chains, np.ndarray]:
        y = self.training_labels(y, warn=part_of is None)
        reader = self.new_reader(X, part_of)
        seen = any(clique.observed_only for clique in self.described_cliques())
        known = self.declared_classes if part_of is None else part_of[1]
        chains, classes = reader.learn(X, y, sample_weight, keep_zeros=seen, classes=known, allowed=self.dictionary)
        spec = self.family(classes, chains)
        if spec.has_forbidden_labellings(chains):
            library.check_labels(chains, spec, classes)
        return reader, chains, classes

    def clique_sets(self, training: Any) -> library.NamedCliques:
        return library.name_cliques(self.beside_categories(self.described_cliques(), training.reader))
