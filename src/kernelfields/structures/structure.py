"""Structures of labels: reading of items, cliques of labels, and their description in model files.

    parameters  ->  Structure(settings)             before a fit
    X, y        ->  learn                           reader, labelled data, sorted classes
                ->  with_reader(reader, ...)        the structure of a fit
    X           ->  read                            new items, for answers
    X, y        ->  read_training, learn_batch      the data of the fit once more, or others that it goes on with
                ->  describe, rebuild_spec          what decides the family, in a file and back

A structure is never changed. It holds the parameters of an estimator and, once they are there, what a fit has learnt of
labels, so that a batch with new labels is another structure.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from kernelfields.data.given_labels import resolve_partial_labels
from kernelfields.data.readers import InputReader
from kernelfields.data.reading import SEQUENCES, ItemNames
from kernelfields.inputs.steps import ASKING, ColumnSteps, OwnColumns, resolve_settings
from kernelfields.numerics.lazy import defer
from kernelfields.numerics.parameters import with_usual_values
from kernelfields.structures import library

if TYPE_CHECKING:
    from kernelfields.engines.engine import PackedData, Sample
    from kernelfields.models.model_file import Document
    from kernelfields.numerics.group import Group
    from kernelfields.objective.designs.design import Design
    from kernelfields.objective.term import Term
    from kernelfields.solvers.choice import FitOptions

# Values of parameters that bring no kernel.
_PLAIN = (str, int, float, type(None))
#: Packed data of a structure, and how it reads them.
Data = TypeVar("Data", bound="PackedData")
Reader = TypeVar("Reader", bound="InputReader")


@dataclass(frozen=True, eq=False)
class Structure(ABC, Generic[Data, Reader]):
    """The structure of the labels of an item; see the module.

    ``settings`` is the estimator whose parameters describe it. ``reader``, ``classes`` and ``spec`` are those of a fit,
    None before one.
    """

    settings: Any
    reader: Any = None
    classes: Any = None
    spec: Any = None

    #: The kind of the family of labellings.
    kind: ClassVar[str]
    #: The class of the readers of items.
    reads: ClassVar[type[InputReader]] = InputReader
    #: What messages call items and their positions.
    item_names: ClassVar[ItemNames] = SEQUENCES

    # ---- parameters

    @property
    def class_weight(self) -> Any:
        """The weights of classes, None for equal weights."""
        return None

    def with_class_weight(self, class_weight: Any) -> Self:
        """Return the structure with these weights of classes."""
        return self

    @property
    def declared_classes(self) -> Any:
        """All labels, if ``partial_labels`` names them."""
        return resolve_partial_labels(self.settings.partial_labels).classes

    @property
    def has_expected_shares(self) -> bool:
        """Whether a fit has expected shares of labels."""
        return resolve_partial_labels(self.settings.partial_labels).has_expected_shares

    @property
    def method(self) -> Any:
        """The inference method; None if there is only one."""
        return None

    @property
    def first_variance(self) -> float:
        """The default prior variance of clique sets: the variance of the kernel, or of its first part."""
        variances = self.settings.prior_variance
        return variances[0] if isinstance(variances, list | tuple) else variances

    @property
    def has_explicit_cliques(self) -> bool:
        """Whether clique sets describe the field, so that kernel and prior variance are not used."""
        return False

    @property
    def is_engine_free(self) -> bool:
        """Whether every engine can fit the field; if not, "auto" means threads."""
        return False

    def count_sequential_steps(self, data: Data) -> int:
        """Count the steps of a pass over data that a device takes one after the other; few without chains."""
        return 0

    def check(self) -> None:
        """Raise if parameters contradict each other."""

    def with_usual_values(self) -> Self:
        """Return the structure with default values of open parameters."""
        return replace(self, settings=with_usual_values(self.settings))

    # ---- the family

    @property
    def labels(self) -> np.ndarray:
        """The labels of the fit, or of several labels their names."""
        return self.classes

    def family(self, classes: np.ndarray, data: Data | None) -> library.FamilySpec:
        """Return the specification of the family of labellings; ValueError if it needs data of other processes."""
        constraints = self.settings.constraints
        masks = None if constraints is None else library.resolve_constraints(constraints, classes)
        return library.FamilySpec(self.kind, len(classes), masks)

    def with_reader(self, reader: Reader, classes: np.ndarray, spec: library.FamilySpec | None = None) -> Self:
        """Return the structure of a fit; without ``spec`` the present parameters decide the family."""
        spec = self.family(classes, None) if spec is None else spec
        return replace(self, reader=reader, classes=classes, spec=spec)

    # ---- the data of a fit

    def new_reader(self, X: object) -> Reader:
        """Return an unfitted reader of the kind of X."""
        parameters = self.settings.get_params(deep=False)
        objects = {name: value for name, value in parameters.items() if not isinstance(value, _PLAIN)}
        own = library.own_columns(objects) if objects else OwnColumns()
        asked = {name: value for name, value in parameters.items() if value in ASKING.get(name, ())}
        steps = resolve_settings(asked, own.rows) if asked else ColumnSteps()
        return self.reads(own=own, steps=steps)  # type: ignore[return-value]  # class variables cannot be generic

    @abstractmethod
    def learn(
        self, X: object, y: object, sample_weight: object, part_of: tuple[Reader, np.ndarray] | None = None
    ) -> tuple[Reader, Data, np.ndarray]:
        """Return reader, labelled data and sorted classes; ``part_of`` are reader and classes of all data."""

    def to_natural_sparsity(self, reader: Reader, data: Data, among: Group) -> Data:
        """Choose dense or sparse storage by the density of all data, ``among`` others included."""
        return reader.rows.to_natural_sparsity(data, among)

    def training_labels(self, y: Any, *, warn: bool = False) -> Any:
        """Return the labels of training data in the form of a fit; ``warn`` of changed labels."""
        return y

    def position_labels(self, y: Any) -> Any:
        """Return the labels of all positions, from labels in any form."""
        return y

    # ---- data that lie elsewhere

    learn_collection = defer(lambda: library.learn_collection)
    count_labels = defer(lambda: library.count_labels)
    read_part = defer(lambda: library.read_part)

    # ---- data after a fit

    @abstractmethod
    def read(self, X: object, y: object = None, sample_weight: object = None) -> Data:
        """Read new data by the reader of the fit, labelled if y is given."""

    def read_labelled(self, X: object, y: object, sample_weight: object = None) -> Data:
        """Read labelled data by the reader of the fit; forbidden labels are accepted."""
        return self.read(X, y, sample_weight)

    def read_training(self, X: object, y: object, sample_weight: object) -> Data:
        """Read the data of the fit again, with labels and weights."""
        data = self.read_labelled(X, self.training_labels(y), sample_weight)
        library.check_labels(data, self.spec, self.classes)
        return data

    def learn_batch(
        self, X: object, y: object, sample_weight: object, *, further: bool = False
    ) -> tuple[Reader, Data, np.ndarray]:
        """Read the data of a continued fit by the present reader, as :meth:`learn` does.

        Labels are to be what the present parameters allow. A dictionary of labels learns from ``further`` data beside
        those that it has seen.
        """
        again = self.with_reader(self.reader, self.labels)
        return self.reader, again.read_training(X, y, sample_weight), self.labels

    def all_classes(self, y: Any, classes: ArrayLike | None) -> np.ndarray:
        """Return the union of present classes, new labels and named labels."""
        return library.all_classes(self.classes, self.position_labels(self.training_labels(y)), classes)

    def with_classes(self, classes: np.ndarray) -> Self:
        """Return the structure with more classes."""
        places = library.LabelGrowth.between(self.classes, classes).places
        constraints = self.settings.constraints
        masks = None if constraints is None else library.resolve_constraints(constraints, classes)
        spec = replace(self.spec, n_labels=len(classes), masks=masks)
        limits = [limit.with_labels(places, len(classes)) for limit in self.reader.limits]
        return replace(self, reader=replace(self.reader, limits=limits), classes=classes, spec=spec)

    def item_labels(self, training: Any, y: object) -> list[np.ndarray]:
        """Return the numbers of the known labels of each item, to spread items over folds."""
        data = training.data
        labels, decided = data.split(data.required_labels), data.split(data.given.learnable())
        return [own[known] for own, known in zip(labels, decided, strict=True)]

    # ---- clique sets and terms of a fit; ``training`` is its FitState

    @abstractmethod
    def clique_sets(self, training: Any) -> library.NamedCliques:
        """Return the named clique sets of the field."""

    def term_cliques(self, training: Any, cliques: library.NamedCliques) -> library.NamedCliques:
        """Return the clique set of each term, with its ties."""
        ties = self.settings.ties
        if ties is None:
            return cliques
        return library.tied_cliques(cliques, ties, training.classes, training.reader.tied_columns)

    def term_variances(self, training: Any) -> list[float]:
        """Return the prior variance of each term."""
        return [clique.prior_variance for _, clique in self.clique_sets(training)]

    def designs(self, training: Any, sample: Sample, cliques: library.NamedCliques) -> list[Design]:
        """Return the terms of the field on the sample, each with a basis."""
        options = training.run.options
        return library.build_designs(self.term_cliques(training, cliques), sample, options.random, options.announce)

    def approximate_method(self, training: Any) -> str | None:
        """Return the approximate inference method; None for exact inference."""
        return None

    def final_options(self, training: Any, designs: Sequence[Design]) -> FitOptions:
        """Return the options of the fit once its terms are known."""
        return training.run.options

    # ---- what a fit has found

    def views(self, terms: Sequence[Term]) -> dict[str, Any]:
        """Return the fitted attributes for users by name, such as ``coef_``."""
        return {
            "basis_": {term.name: term.subspace for term in terms},
            "coef_": {term.name: term.label_coefficients for term in terms},
        }

    def continued_parameters(self) -> dict[str, Any]:
        """Return the parameters that a continued fit takes from the last fit."""
        return {}

    # ---- files

    def describe_classes(self) -> np.ndarray | list:
        """Return the classes for a model file."""
        return self.classes

    @classmethod
    def rebuild_classes(cls, described: Any) -> np.ndarray:
        """Return the described classes."""
        return library.check_classes(described)

    def describe(self) -> Document:
        """Return the description of the structure for a model file."""
        masks = self.spec.masks
        return {} if masks is None else {"masks": masks.describe()}

    @classmethod
    def rebuild_spec(cls, described: Mapping[str, Any], classes: np.ndarray) -> library.FamilySpec:
        """Rebuild the specification of the family from its description."""
        masks = None
        if "masks" in described:
            masks = library.ConstraintMasks(**described["masks"])
            masks.check(len(classes))
        return library.FamilySpec(cls.kind, len(classes), masks)

    @classmethod
    def check_terms(cls, terms: Sequence[Term], reader: Reader, spec: library.FamilySpec) -> None:
        """Raise unless terms, inputs and labels fit together, so that a loaded model can predict."""
