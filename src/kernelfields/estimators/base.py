"""The base class of all fields as scikit-learn estimators: how they are fitted.

    fit      learn the reader of the data -> place them -> terms on the sample -> fit_field -> fitted attributes

A derived class defines a few hooks: how data are read (``_learn``, ``read_data``), the family of its labellings
(``_family_spec``), its terms (``_designs``, by default those of ``clique_sets``), and the form of its answers
(``answer_format``). What happens around the solve are steps: parameters that are left to the data are chosen by that in
tuning.py, which a fit of given settings does not have.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from kernelfields.data.chains import Packed
from kernelfields.data.fingerprints import fingerprint
from kernelfields.data.given_labels import given_labels, stated_labels
from kernelfields.data.readers import read_labels
from kernelfields.data.reading import random_generator
from kernelfields.estimators import library
from kernelfields.estimators.answers import AnsweringField
from kernelfields.estimators.going_on import decides_as_fitted, described_parameters
from kernelfields.estimators.questions import Data, Reader
from kernelfields.estimators.workers import runs_on_workers
from kernelfields.inputs.steps import ColumnSteps
from kernelfields.numerics.parameters import check_callbacks
from kernelfields.numerics.threads import blas_threads

if TYPE_CHECKING:
    from kernelfields.engines.engine import Sample
    from kernelfields.estimators.beginning import Beginning
    from kernelfields.models.build import NamedCliques
    from kernelfields.models.choices import Settings
    from kernelfields.models.placed import FitStep, FittedField
    from kernelfields.numerics.group import Group
    from kernelfields.objective.designs.design import Design
    from kernelfields.solvers.loop import Iteration


class FieldEstimator(AnsweringField[Data, Reader]):
    """A field that can be fitted; see the module for the hooks of those that derive from it."""

    @abstractmethod
    def _learn(
        self, X: object, y: object, sample_weight: object, part_of: tuple[Reader, np.ndarray] | None = None
    ) -> tuple[Reader, Data, np.ndarray]:
        """Return reader, labelled data and sorted classes; ``part_of`` are reader and classes of data around these."""

    def _learn_again(
        self, X: object, y: object, sample_weight: object, *, further: bool = False
    ) -> tuple[Reader, Data, np.ndarray]:
        """Return what :meth:`_learn` does for a fit that goes on: data as the present reader reads them.

        Labels are to be what the present parameters allow. A dictionary of labels learns from ``further`` data beside
        those that it has seen.
        """
        model, classes = copy.copy(self), self._fitted_labels
        model.field_ = replace(self.field_, spec=self._spec_of_all(classes))
        return self._reader, model._read_fitted(X, y, sample_weight), classes

    @property
    def _fitted_labels(self) -> np.ndarray:
        """The labels of the fit, or of several labels their names."""
        return self.classes_

    def as_fitted(self) -> Self:
        """Return a copy of a fitted field in which the structure that its fit found is given by parameters.

        Returns
        -------
        Self
            The copy.
        """
        return copy.copy(self)

    def _family_spec(self, classes: np.ndarray, data: Data) -> library.FamilySpec:
        """Return what decides the family of labellings: which labels meet, and what they may be."""

        return library.FamilySpec(self._family_kind, len(classes))

    @abstractmethod
    def clique_sets(self, training: library.FitState[Data, Reader]) -> NamedCliques:
        """Return the named clique sets of the field.

        Parameters
        ----------
        training : FitState
            What the fit works on.

        Returns
        -------
        list of (str, CliqueSet)
            The clique sets.
        """

    def term_cliques(self, training: library.FitState[Data, Reader], cliques: NamedCliques) -> NamedCliques:
        """Return the clique set of each term, with its ties.

        Parameters
        ----------
        training : FitState
            What the fit works on.
        cliques : list of (str, CliqueSet)
            The clique sets of the field.

        Returns
        -------
        list of (str, CliqueSet)
            The clique sets.
        """

        if self.ties is None:
            return cliques
        return library.tied_cliques(cliques, self.ties, training.classes, training.reader.tied_columns)

    def _designs(self, training: library.FitState[Data, Reader], sample: Sample, cliques: NamedCliques) -> list[Design]:
        """Return the terms of the field on the sample, each with a basis."""

        options = training.run.options
        return library.build_designs(self.term_cliques(training, cliques), sample, options.random, options.report)

    def term_variances(self, training: library.FitState[Data, Reader]) -> list[float]:
        """Return the prior variance of each term.

        Parameters
        ----------
        training : FitState
            What the fit works on.

        Returns
        -------
        list of float
            The variances, in the order of the terms.
        """
        return [clique.prior_variance for _, clique in self.clique_sets(training)]

    @runs_on_workers
    def _fit(
        self,
        X: object,
        y: object,
        sample_weight: object = None,
        *,
        beginning: Beginning,
        steps: Sequence[FitStep] = (),
        groups: ArrayLike | None = None,
    ) -> Self:
        """Fit the field in ``steps`` around the solve; the frame that every ``fit`` shares."""
        self.check_parameters()
        steps = [*self._steps_of_callbacks(), *steps]
        steps = [*beginning.choosing(self, steps, groups), *steps]
        for step in [beginning, *steps]:
            step.check(self)
        settled = beginning.settled(self)
        with self._progress() as progress:
            training = settled.fit_state(X, y, sample_weight, progress, beginning, steps=steps)
            progress.choosing()
            with blas_threads(self.blas_limit(training.data.n_positions)):
                for step in [beginning, *training.run.steps]:
                    step.before(self, training)
                progress.fitting()
                chosen = training.estimator
                cliques = beginning.cliques(chosen, training)
                sample = training.place(training.data, cliques)
                designs, start = beginning.terms(chosen, training, sample, cliques)
                options = self._final_options(training, designs)
                # The beginning is innermost: the others see the field that it makes of what the solver finds.
                around = [*training.run.steps, beginning]
                fitted = library.fit_field(designs, sample, options, start=start, steps=around)
            self.set_fitted(training, fitted)
        for step in reversed(around):
            step.after(self)
        library.warn_of_fit(fitted, self.relative_tolerance)
        library.warn_of_inference(fitted.warnings)
        return self

    def _steps_of_callbacks(self) -> Sequence[FitStep]:
        """Return the steps that callbacks have."""

        return [each.step() for each in check_callbacks(self.callbacks) if isinstance(each, library.StepCallback)]

    def fit_state(
        self,
        X: object,
        y: object,
        sample_weight: object,
        progress: library.FitProgress | library.NoProgress,
        beginning: Beginning | None = None,
        *,
        steps: Sequence[FitStep] = (),
        every_item: bool = False,
    ) -> library.FitState[Data, Reader]:
        """Return what a fit works on: the data as they are read and scaled, where they go, and how they are fitted.

        Items of weight zero are left out: they lend a basis no pivot and a weight no support.

        Parameters
        ----------
        X : inputs
            The inputs, as for :meth:`fit`.
        y : labels
            The labels, as for :meth:`fit`.
        sample_weight : array (n_items,) or None
            One weight for each sequence, graph or row.
        progress : FitProgress or NoProgress
            What shows progress.
        beginning : Beginning or None, default None
            How the fit begins; None for nothing to go on from.
        steps : sequence of FitStep, default ()
            The steps around the solve.
        every_item : bool, default False
            Whether to keep items of weight zero, for whoever numbers the items.

        Returns
        -------
        FitState
            The state.
        """
        beginning = library.FROM_NOTHING if beginning is None else beginning
        reader, data, classes = beginning.read(self, X, y, sample_weight)
        for step in steps:
            data = step.prepare(self, reader, data)
        if not (every_item or any(step.every_item for step in steps)):
            data = data.weighty()
        spec, engine = self._family_spec(classes, data), self._engine(data)
        random = engine.same_random(random_generator(self.random_state))
        reader, data = library.rewritten(reader, data, beginning.scaling(self, reader, data))
        options = self._fit_options(data, progress, random)
        steps = [*steps, *stated_labels(self.partial_labels).steps(data, classes)]
        run = library.FitRun(engine, self._sample_settings(), options, steps)
        return library.FitState(library.with_usual_choices(self), reader, data, classes, spec, run)

    def _in_own_kind(self, reader: Reader, data: Data, among: Group) -> Data:
        """Return data dense or sparse by their numbers, those ``among`` others included, which the kernel follows."""
        return reader.in_own_kind(data, among)

    def learn_collection(self, X: object, y: object, sample_weight: object) -> tuple[Reader, Data, np.ndarray]:
        """Read the partitions of a collection that this process has in a fit of all.

        Parameters
        ----------
        X : object
            The inputs of the partitions.
        y : object
            Their labels.
        sample_weight : object
            The weights of their items, or None.

        Returns
        -------
        tuple
            The reader, the packed data and the sorted labels, as of data in this process.

        Raises
        ------
        ValueError
            If no workers fit together here.
        """
        group = library.RUNNING.get()
        if group is None:
            raise ValueError(f"X is a Dask collection: use engine='dask' or 'auto', got engine={self.engine!r}")
        return library.read_parts(group, self, X, y, sample_weight)  # type: ignore[arg-type, return-value]

    def _count_labels(self, y: Any, lengths: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the sorted labels that y names, however many, and what the positions of each weigh."""
        y = self._position_labels(self.training_labels(y, warn=True))
        # A part of the data may hold one class only.
        labels, partial, classes = read_labels(y, self._declared_classes, lengths, self.answer_format.items, fewest=1)
        rows = np.repeat(weights, lengths)
        return classes, given_labels(labels, partial).totals(rows, len(classes))

    def _reading(self, reader: Reader, classes: np.ndarray, spec: library.FamilySpec) -> Self:
        """Return a copy that reads data as those of a fit that is not over yet."""

        reading = copy.copy(self)
        reading._reader, reading.classes_, reading.n_features_in_ = reader, classes, reader.n_features
        if reader.names is not None:
            reading.feature_names_in_ = np.array(reader.names, dtype=object)
        reading.field_ = library.Field([], spec)
        return reading

    def _read_part(self, X: object, y: object, reader: Reader, classes: np.ndarray, class_weight: Any) -> Data:
        """Return a part of the data of a fit, as a reader of all of them reads it."""
        reading = self._reading(reader, classes, self._spec_of_all(classes))
        reading.class_weight = class_weight
        return reading._read_fitted(X, y, None)

    def _spec_of_all(self, classes: np.ndarray) -> library.FamilySpec:
        """Return the family of data that are elsewhere; ValueError where it depends on them."""
        return self._family_spec(classes, None)  # type: ignore[arg-type]

    def _fit_options(
        self, data: Data, progress: library.FitProgress | library.NoProgress, random: np.random.Generator
    ) -> library.FitOptions:
        """Return how data are fitted: the solver, when it ends, and who sees its iterations."""

        enough = 0.0
        if isinstance(self.tol, str):
            weights = data.position_weights
            enough = library.NATS_PER_POSITION * float(data.n_positions if weights is None else weights.sum())
        watch = self._watcher(progress)
        return library.FitOptions(
            self.solver, self.relative_tolerance, self.max_iter, watch, random, progress.announce, enough=enough
        )

    def item_labels(self, training: library.FitState[Data, Reader], y: object) -> list[np.ndarray]:
        """Return the numbers of the known labels of each item, to spread items over folds.

        Parameters
        ----------
        training : FitState
            What the fit works on.
        y : labels
            The labels, as for :meth:`fit`.

        Returns
        -------
        list of ndarray
            The numbers of each sequence, graph or instance.
        """
        data = training.data
        labels, decided = data.split(data.required_labels), data.split(data.given.learnable())
        return [own[known] for own, known in zip(labels, decided, strict=True)]

    def approximate_method(self, training: library.FitState[Data, Reader]) -> str | None:
        """Return the method by which labels are inferred if it is approximate.

        Parameters
        ----------
        training : FitState
            What the fit works on.

        Returns
        -------
        str or None
            The name; None if inference is exact, or not known yet.
        """
        return None

    def _watcher(self, progress: library.FitProgress | library.NoProgress) -> Callable[[Iteration], bool]:
        """Return a function that shows every iteration to the callbacks and to what shows progress."""
        watchers = [*(each for each in check_callbacks(self.callbacks) if each is not progress), progress]
        # A list, not a generator: every watcher sees every iteration, whatever the others return.
        return lambda iteration: True in [watcher(iteration) for watcher in watchers]

    @property
    def learns_structure(self) -> bool:
        """Whether a search chooses what the field is made of."""
        return False

    @property
    def _learns_in_pilot(self) -> bool:
        """Whether there is more to learn from a pilot fit than the kernel and the prior variance."""
        return False

    @property
    def _has_learnt_to_decide(self) -> bool:
        """Whether the last fit has learnt what the present way to decide labels needs."""
        return not self._learns_in_pilot or decides_as_fitted(self)

    @property
    def _first_variance(self) -> float:
        """The prior variance of clique sets that have none of their own: that of the kernel, or of its first part."""
        variances = self.prior_variance
        return variances[0] if isinstance(variances, list | tuple) else variances

    def _learn_scale(self, reader: Reader, data: Data, *, always: bool) -> ColumnSteps:
        """Return the steps that bring columns to one scale; none if they need none, unless ``always``."""
        return reader.learn_scale(data.own, always=always, ties=self.ties, among=data.processes)

    def _set_chosen(self, settings: Settings) -> None:
        """Take the values of parameters; what is no parameter, as the scale of the data, is elsewhere."""
        for name in settings.keys() & set(self._get_param_names()):
            setattr(self, name, settings[name])

    def _weight_candidates(
        self, training: library.FitState[Data, Reader], left: Mapping[str, Sequence]
    ) -> list[Settings]:
        """Return what may be chosen about the weights of features: first what the other choices are made with.

        ``left`` are the parameters that are left to the data, with the values that are tried.
        """
        return []

    def _names_cliques(self) -> bool:
        """Whether clique sets describe the field, so that kernel and prior variance are not used."""
        return False

    def for_pilot(self) -> Self:
        """Return a copy for short fits on a part of the data.

        Returns
        -------
        Self
            The copy.
        """

        piloted = copy.copy(self)
        piloted.rank = min(self._most_rank or library.PILOT_RANK, library.PILOT_RANK)
        piloted.basis = "random-cholesky"
        return piloted

    def _learn_from_pilot(
        self, training: library.FitState[Data, Reader], field: library.Field, held_out: Data
    ) -> library.Choices:
        """Return what else is chosen by what a field, fitted to a part of the data, predicts for a part held out."""

        return library.Choices()

    def _final_options(self, training: library.FitState[Data, Reader], designs: Sequence[Design]) -> library.FitOptions:
        """Return the options of the fit once its terms are known."""
        return training.run.options

    def read_beside_fit(self, training: library.FitState[Data, Reader], X: object, y: object) -> Data:
        """Return the data of a development set, read as those of a fit that is not over yet.

        Parameters
        ----------
        training : FitState
            What the fit works on.
        X : inputs
            The inputs of the development set.
        y : labels
            Its labels.

        Returns
        -------
        PackedData
            The data.

        Raises
        ------
        ValueError
            If the data do not fit those of the fit.
        """

        try:
            data = self._read_beside(training, X, self.training_labels(y))
        except (TypeError, ValueError) as error:
            raise type(error)(f"development set: {error}") from error
        library.check_labels(data, training.spec, training.classes)
        self._warn_of_repeated_labels(training.estimator._repeated, training.reader, data)
        return data

    def _read_beside(self, training: library.FitState[Data, Reader], X: object, y: object) -> Data:
        """Return labelled data beside those of a fit that is not over yet."""
        return self._reading(training.reader, training.classes, training.spec).read_data(X, y)

    def note_parameters(self) -> None:
        """Note the present parameters as those of the fit, which one that goes on is compared with."""
        self._fitted_with = described_parameters(self)

    def set_fitted(self, training: library.FitState[Data, Reader], fitted: FittedField) -> Self:
        """Set the fitted attributes from what a fit has found.

        Parameters
        ----------
        training : FitState
            What the fit works on.
        fitted : FittedField
            What the fit has found.

        Returns
        -------
        Self
            The fitted estimator.
        """
        certificates = (fitted.span, fitted.rkhs) if fitted.family.exact else None
        field, inference = library.Field(fitted.terms, training.spec), library.FittedBy.of(fitted.family)
        self._forget_findings()
        self.choices_, self._repeated = training.estimator.choices_, training.estimator._repeated
        self._fitted_items = fingerprint(training.data) if isinstance(training.data, Packed) else None
        self._lacks_features = False
        self.note_parameters()
        return self._set_field(training.reader, training.classes, field, inference, fitted.solution, certificates)
