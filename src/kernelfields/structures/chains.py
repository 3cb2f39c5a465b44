"""Chains: a label at each position of a sequence, which meets those of its neighbours."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from sklearn.base import clone

from kernelfields import kernels
from kernelfields.data.chains import Chains
from kernelfields.data.cliques import CliqueSet, EdgeCliques, NodeCliques
from kernelfields.data.partial_labels import SoftTargets
from kernelfields.data.readers import InputReader, learn_limits
from kernelfields.data.reading import holds_words, is_sequence, readable_again
from kernelfields.numerics.parameters import check_window, is_auto, left_open, settled
from kernelfields.numerics.user_warnings import warn_user
from kernelfields.numerics.windows import STATISTICS
from kernelfields.numerics.wording import counted
from kernelfields.structures import library
from kernelfields.structures.structure import Structure

if TYPE_CHECKING:
    from kernelfields.data.label_dictionary import LabelDictionary
    from kernelfields.models.choices import Settings
    from kernelfields.numerics.group import Group
    from kernelfields.objective.term import Term

#: Reader and classes of all data, for a part of them.
PartOf: TypeAlias = tuple[InputReader, np.ndarray]
# Prior variances of categories beside numbers: first none of them, which is what the other choices are made with.
_OF_CATEGORIES = (0.0, 1.0, 0.1)


def features_for(features: Any, X: Any) -> Any:
    """Return the transformer that makes inputs of X, not fitted yet; None where they are taken as they come."""
    if is_auto(features) and holds_words(X):
        return library.features_of_words(X)
    if settled(features, None) is None:
        return None
    return library.resolve_features(features)


@dataclass(frozen=True, eq=False)
class SequenceStructure(Structure[Chains, InputReader]):
    """Labels of the positions of sequences: what chains and segments share."""

    @property
    def dictionary(self) -> LabelDictionary | None:
        """What limits the labels that positions may have; None if each may have all."""
        return self.settings.allowed

    @property
    def edges(self) -> CliqueSet:
        """The clique set of neighbouring labels."""
        return EdgeCliques() if self.settings.edges is None else self.settings.edges

    @property
    def window(self) -> int | tuple[int, int]:
        """The window of clique sets: one position where columns have statistics of windows, or it is open."""
        return 1 if isinstance(self.settings.window, str) else self.settings.window

    def check(self) -> None:
        if self.settings.window == STATISTICS:
            why = "ties move columns of inputs, and window='statistics' adds others: leave out one"
            library.resolve_ties(self.settings.ties).refuse(why)

    # ---- the data of a fit

    def new_reader(self, X: object, part_of: PartOf | None = None) -> InputReader:
        """Return a reader that is to learn the kind of X, a part of data that others have read."""
        apart: bool | Sequence[str] = library.has_named_kinds(self.settings.kernel)
        if apart and part_of is not None:
            apart = part_of[0].rows.numbers
        reader = super().new_reader(X)
        rows = replace(reader.rows, apart=apart)
        return replace(reader, features=features_for(self.settings.features, X), rows=rows)

    def in_own_kind(self, reader: InputReader, data: Chains, among: Group) -> Chains:
        """Return data dense or sparse by their numbers; of named ones, numbers and categories apart where few."""
        open_ones = {"support", "l1"} & set(self.settings.get_params(deep=False))
        free = open_ones <= set(left_open(self.settings))
        alone = check_window(self.window) == (0, 0)
        # Kernels name columns of their own by place, and categories would change places.
        few = free and alone and self.settings.ties is None and self.dictionary is None and not reader.own.rows
        if reader.rows.apart or (reader.rows.encoder is not None and few):
            return reader.rows.with_categories(data, among)
        return reader.rows.in_own_kind(data, among)

    def training_labels(self, y: Any, *, warn: bool = False) -> Any:
        if self.settings.constraints is None:
            return y
        constraints = library.Constraints.of(self.settings.constraints)
        if constraints.scheme is None or constraints.strict:
            return y
        y = readable_again(y)
        if isinstance(y, SoftTargets) or not is_sequence(y) or not all(item is None or is_sequence(item) for item in y):
            return y
        mended, changed = library.mended_labels(y, library.find_scheme(constraints.scheme))
        if not changed:
            return y
        if warn:
            first, several = changed[0], len(changed) > 1
            warn_user(
                f"{counted(len(changed), 'label')} of y break{'s' * (not several)} the scheme "
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
        """Return data as the reader of the fit reads them; fits and answers check them in ways of their own."""
        return self.reader.read(X, y, sample_weight, self.classes)

    def read(self, X: object, y: object = None, sample_weight: object = None) -> Chains:
        chains = self._read_items(X, y, sample_weight)
        if self.spec.restricts(chains):
            library.check_lengths(chains.filled, self.spec)
        return chains

    def read_labelled(self, X: object, y: object, sample_weight: object = None) -> Chains:
        # Labels of a fit may be what a dictionary does not allow: they are allowed where they stand.
        return self._read_items(X, y, sample_weight).for_fit()

    def learn_again(
        self, X: object, y: object, sample_weight: object, *, further: bool = False
    ) -> tuple[InputReader, Chains, np.ndarray]:
        X, y, classes = readable_again(X), self.training_labels(readable_again(y), warn=True), self.classes
        given = self.dictionary, X, self.position_labels(y), classes, sample_weight
        reader = replace(self.reader, limits=learn_limits(self.reader, *given, further=further))
        return reader, self.with_reader(reader, classes).read_training(X, y, sample_weight), classes

    # ---- clique sets

    def nodes_and_edges(self, **shared: Any) -> list[CliqueSet]:
        """Return the clique sets of positions and of neighbours; ``shared`` are parameters that both have."""
        return [
            NodeCliques(self.settings.kernel, prior_variance=self.settings.prior_variance, **shared),
            self.edges.filled(prior_variance=self.first_variance, **shared),
        ]

    def beside_categories(self, cliques: Sequence[CliqueSet], reader: InputReader) -> list[CliqueSet]:
        """Return clique sets in which that of positions sees columns of numbers, and another one categories."""
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

    def weight_candidates(self, training: Any, left: Mapping[str, Sequence]) -> list[Settings]:
        return [{"categories": variance} for variance in _OF_CATEGORIES] if training.reader.rows.categories else []

    # ---- fitted attributes

    def views(self, terms: Sequence[Term]) -> dict[str, Any]:
        tied = [
            term.tied_scores.reshape(self.spec.n_labels, -1)
            for term in terms
            if isinstance(term.clique, EdgeCliques) and term.tied_everywhere
        ]
        return {
            **super().views(terms),
            "transitions_": np.sum(tied, axis=0) if tied else None,
            "allowed_": next(iter(self.reader.limits), None),
            "features_": self.reader.features,
        }


@dataclass(frozen=True, eq=False)
class ChainStructure(SequenceStructure):
    """Labels of positions, of which neighbours meet, and what else clique sets say."""

    kind = "chain"
    unstored = ("structure_path_",)

    @property
    def learns_structure(self) -> bool:
        cliques = self.settings.cliques
        return cliques is not None and isinstance(cliques, library.StructureSearch)

    @property
    def names_cliques(self) -> bool:
        return self.settings.cliques is not None and not self.learns_structure

    @property
    def runs_anywhere(self) -> bool:
        chosen = self.dictionary is None and not self.learns_structure
        return chosen and not any(clique.needs_threads for clique in self.described_cliques())

    def check(self) -> None:
        cliques = self.settings.cliques
        if isinstance(cliques, str):
            raise ValueError(f"cliques must be a list of clique sets, a StructureSearch or None, got {cliques!r}")
        if self.learns_structure:
            why = "a StructureSearch judges sets whose labels share no weights: leave out ties, or name the sets"
            library.resolve_ties(self.settings.ties).refuse(why)
        if self.settings.decode == "f1" and self.names_cliques:
            raise ValueError(
                "decode='f1' chooses thresholds by short fits of the field that parameters describe: leave out cliques"
            )
        super().check()
        library.name_cliques(self.described_cliques())

    def described_cliques(self) -> Sequence[CliqueSet]:
        """Return the clique sets that the parameters describe, or those that were given."""
        cliques = self.settings.cliques
        if self.names_cliques:
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
        seen = any(clique.observed_only for _, clique in library.name_cliques(self.described_cliques()))
        known = self.declared_classes if part_of is None else part_of[1]
        chains, classes = reader.learn(X, y, sample_weight, keep_zeros=seen, classes=known, allowed=self.dictionary)
        spec = self.family(classes, chains)
        if spec.restricts(chains):
            library.check_labels(chains, spec, classes)
        return reader, chains, classes

    def clique_sets(self, training: Any) -> library.NamedCliques:
        training.estimator.structure_path_ = None
        described = self.beside_categories(self.described_cliques(), training.reader)
        if not self.learns_structure:
            return library.name_cliques(described)
        if not isinstance(training.data, Chains):
            raise ValueError(
                "a StructureSearch needs sequences of this process: learn on a part of the data, then name the sets"
            )
        run = training.run
        chosen, training.estimator.structure_path_ = self.settings.cliques.chain_cliques(
            described,
            training.data,
            run.held_out,
            place_chains=training.place,
            options=replace(run.options, watch=None),
            announce=run.options.report,
        )
        return chosen

    def findings(self, training: Any) -> dict[str, Any]:
        return {"structure_path_": training.estimator.structure_path_}

    def found(self) -> dict[str, Any]:
        if not self.learns_structure:
            return {}
        fitted = self.settings
        cliques = [(term.name, term.clique) for term in fitted.field_.terms]
        return {"cliques": library.FoundStructure(cliques, fitted.structure_path_)}

    def pilot_settings(self) -> dict[str, Any]:
        return {**super().pilot_settings(), "cliques": None}

    def weight_candidates(self, training: Any, left: Mapping[str, Sequence]) -> list[Settings]:
        if training.reader.rows.categories:
            return super().weight_candidates(training, left)
        given = self.settings
        free = given.solver in ("auto", "lbfgs", "sgd+lbfgs")
        if given.ties is not None or not (
            training.reader.rows.holds_features and training.data.given.complete and free
        ):
            return []
        if not library.resolve_kernel(given.kernel).has_feature_map or training.run.engine.alone.name != "threads":
            return []
        # Fits with the weights that were seen are the fastest: the path of variances is theirs.
        tried = {name: left[name] for name in ("support", "l1") if name in left}
        pairs = [dict(zip(tried, values, strict=True)) for values in itertools.product(*tried.values())]
        return [pairs[-1], *pairs[:-1]] if tried else []
