"""Chains: a label at each position of a sequence, with neighbouring labels in common cliques."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from kernelfields.data.chains import Chains
from kernelfields.data.cliques import USUAL, CliqueSet, EdgeCliques, NodeCliques
from kernelfields.data.readers import InputReader
from kernelfields.data.reading import has_words
from kernelfields.inputs.step import STATISTICS
from kernelfields.numerics.lazy import defer
from kernelfields.numerics.parameters import is_auto, resolve_open
from kernelfields.structures import library
from kernelfields.structures.structure import Structure

if TYPE_CHECKING:
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

    to_natural_sparsity = defer(lambda: library.separate_categories)

    def new_reader(self, X: object, part_of: PartOf | None = None) -> InputReader:
        """Return an unfitted reader for the kind of X, for a part of distributed data."""
        kernel, reader = self.settings.kernel, super().new_reader(X)
        reader.features = make_features(self.settings.features, X)
        reader.limits = [rule for rule in [self.settings.allowed] if rule is not None]
        if not isinstance(kernel, str) and library.has_named_kinds(kernel):
            reader.rows.apart = True if part_of is None else part_of[0].rows.numbers
        return reader

    def training_labels(self, y: Any, *, warn: bool = False) -> Any:
        constraints = self.settings.constraints
        return y if constraints is None else library.mend_labels(constraints, y, warn=warn)

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

    learn_batch = defer(lambda: library.learn_batch)

    # ---- clique sets

    def nodes_and_edges(self) -> list[CliqueSet]:
        """Return the clique sets of positions and of neighbours, completed by parameters of the estimator."""
        given = self.settings.get_params(deep=False)
        shared = {name: given[name] for name in USUAL.keys() & given.keys()} | {"window": self.window}
        edges = self.edges.with_defaults(**shared | {"prior_variance": self.first_variance})
        return [NodeCliques(self.settings.kernel, **shared), edges]

    beside_categories = defer(lambda: library.beside_categories)

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
        return self.settings.allowed is None and not any(clique.needs_threads for clique in self.described_cliques())

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
        return self.with_usual_values().nodes_and_edges()

    def learn(
        self, X: object, y: object, sample_weight: object, part_of: PartOf | None = None
    ) -> tuple[InputReader, Chains, np.ndarray]:
        y = self.training_labels(y, warn=part_of is None)
        reader = self.new_reader(X, part_of)
        seen = any(clique.observed_only for clique in self.described_cliques())
        known = self.declared_classes if part_of is None else part_of[1]
        chains, classes = reader.learn(X, y, sample_weight, keep_zeros=seen, classes=known)
        spec = self.family(classes, chains)
        if spec.has_forbidden_labellings(chains):
            library.check_labels(chains, spec, classes)
        return reader, chains, classes

    def clique_sets(self, training: Any) -> library.NamedCliques:
        cliques = self.described_cliques()
        return library.name_cliques(
            self.beside_categories(cliques, training.reader) if training.reader.rows.categories else cliques
        )
