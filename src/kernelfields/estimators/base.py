"""The base class of all fields as scikit-learn estimators: fitting, answers, uncertainty, certificates, files.

    fit      learn the reader of the data -> place them -> terms on the sample -> fit_field -> fitted attributes
    ask      read new data -> batches -> Field.answers, averaged over the posterior if asked for
    keep     get_params and the fitted field -> document -> model file, and back

An estimator says what is its own in a few hooks: how data are read (``_learn``, ``_read``), which family its
labellings are (``_family_spec``), which terms there are (``_designs``, by default those of ``_cliques``), and in which
form answers leave (``_presented``). All questions are answered here, for every family alike.
"""

from __future__ import annotations

import copy
import inspect
import re
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from kernelfields.basis.selection import Basis
from kernelfields.engines.choice import answers_collections, resolve_engine, scoring_engine
from kernelfields.engines.engine import Engine, Sample, SampleSettings
from kernelfields.estimators.auto_parameters import (
    NoProgress,
    Training,
    scales,
    settle,
    stays_sparse,
    warn_of_uneven_columns,
)
from kernelfields.estimators.conditioning import filled_labels, log_likelihoods, ranked_labellings
from kernelfields.estimators.declared import (
    attribute,
    check_declared,
    count,
    count_or_none,
    declares_parameters,
    one_of,
    parameter,
)
from kernelfields.estimators.hints import advised
from kernelfields.estimators.inspecting.attribution import TrainingInputs
from kernelfields.estimators.inspecting.explanations import (
    Compared,
    ExplanationSettings,
    check_one_sequence,
    checked_tokens,
    explain_labels,
    input_names,
    likeliest_others,
)
from kernelfields.estimators.inspecting.weights import changed_parameters, summarise_term, tabulate_weights
from kernelfields.estimators.stored import StoredEstimator
from kernelfields.fields.evidence import LabelEvidence, as_evidence, read_labels, share_right
from kernelfields.fields.ragged import Ragged, per_item, plain_strings
from kernelfields.fields.reading import SEQUENCES, Nouns, check_class_weight, random_generator
from kernelfields.inference.answers import Answers, warn_of_inference
from kernelfields.inference.choice import FamilySpec, refuse_approximate
from kernelfields.inference.potentials import EDGE
from kernelfields.kernels.kernel import Kernel
from kernelfields.kernels.labels import LabelKernel
from kernelfields.models.build import NamedCliques, build_designs
from kernelfields.models.callbacks import Checkpoint
from kernelfields.models.field import Field
from kernelfields.models.fit import (
    FieldKeeper,
    FitOptions,
    FittedBy,
    FittedField,
    fit_field,
    warn_of_fit,
)
from kernelfields.models.partial import PartialLabels, resolve_partial_labels
from kernelfields.models.pilot_fit import MOST_RANK
from kernelfields.numerics.parameters import (
    check_callbacks,
    check_choice,
    check_count,
    check_tolerance,
    is_auto,
    resolve_dtype,
)
from kernelfields.numerics.threads import Workers, blas_threads
from kernelfields.objective.bounds import Certificate
from kernelfields.objective.designs.design import Design
from kernelfields.objective.term import Term
from kernelfields.reports.graph_pictures import LabelledGraph
from kernelfields.reports.inspection import Explanation, FilledLabels, ModelSummary, WeightsTable
from kernelfields.reports.sequences import LabelledSequence
from kernelfields.solvers.choice import check_solver
from kernelfields.solvers.loop import Iteration, Solution
from kernelfields.uncertainty.evidence.settings import EvidencePath, resolve_search
from kernelfields.uncertainty.laplace.laplace import Evidence
from kernelfields.uncertainty.laplace.samples import (
    LaplaceSamples,
    draw_posterior,
    label_variances,
    resolve_uncertainty,
)

#: What may be passed where a kernel, a basis, a label kernel, an engine, labels or seeds are asked for.
KernelLike = Kernel | str | Callable[..., np.ndarray] | BaseEstimator
BasisLike = Basis | str
LabelKernelLike = LabelKernel | str | np.ndarray
EngineLike = Engine | str
Seed = int | np.random.Generator | np.random.RandomState | None

#: How labels are chosen: the best labelling as a whole, or the most probable label of each position.
DECODINGS = ("auto", "viterbi", "posterior")
# Below this many feature values, threads of BLAS wait for each other longer than they work.
_SMALL_PRODUCT = 1_000_000


@declares_parameters
class FieldEstimator(StoredEstimator, BaseEstimator, metaclass=ABCMeta):
    """A field as a scikit-learn estimator; see the module for the hooks of those that derive from it."""

    #: The name of its kind in model files.
    kind: ClassVar[str]

    rank: int | None = parameter(1000, count_or_none)
    basis: BasisLike = parameter("random-cholesky")
    scale: bool | str = parameter("auto", one_of("auto", True, False))
    tol: float = parameter(1e-3, lambda value, name: check_tolerance(value))
    max_iter: int = parameter(1000, count)
    dtype: object = parameter("auto", lambda value, name: resolve_dtype(value))
    n_jobs: int | None = parameter(None)
    random_state: Seed = parameter(None)
    verbose: int = parameter(0)

    classes_: np.ndarray = attribute()
    n_features_in_: int = attribute()
    field_: Field = attribute()
    solution_: Solution = attribute()
    inference_: FittedBy = attribute()
    laplace_: LaplaceSamples = attribute()
    evidence_path_: EvidencePath | None = attribute()
    _reader: Any = attribute()
    _certificates: tuple[Certificate, Certificate] | None = attribute()

    # Parameters of those estimators that have them.
    kernel: Any = attribute()
    prior_variance: Any = attribute()
    engine: Any = attribute()
    solver: Any = attribute()
    callbacks: Any = attribute()

    #: How labels are chosen where nobody says, and how a fit treats labels that are partly known.
    decode: Any = attribute()
    partial_labels: Any = attribute()

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        advised(cls)

    # ---- hooks

    @abstractmethod
    def _learn(self, X: object, y: object, sample_weight: object, part_of: Any = None) -> tuple[Any, Any, np.ndarray]:
        """Return reader, labelled data and sorted classes; ``part_of`` are reader and classes of data around these."""

    @abstractmethod
    def _read(self, X: object, y: object = None, sample_weight: object = None) -> Any:
        """Return new data like those of the fit, labelled if y is given."""

    def _read_fitted(self, X: object, y: object, sample_weight: object) -> Any:
        """Return the data of the fit once more, labelled and weighted as they were in it."""
        return self._read(X, y, sample_weight)

    @abstractmethod
    def _family_spec(self, classes: np.ndarray, data: Any) -> FamilySpec:
        """Return what decides the family of labellings: which labels meet, and what they may be."""

    @abstractmethod
    def _cliques(self, training: Training) -> NamedCliques:
        """Return the named clique sets of the field."""

    def _designs(self, training: Training, sample: Sample) -> tuple[list[Design], list[np.ndarray] | None]:
        """Return the terms of the field on the sample, and the coefficients to start from, None for zero."""
        designs = build_designs(training.cliques, sample, training.options.random, training.say)
        return self._optimized(training, sample, designs, None)

    def _term_variances(self, training: Training) -> list[float]:
        """Return the prior variance of each term, in the order of ``_designs``."""
        return [clique.prior_variance for _, clique in self._cliques(training)]

    def _check_parameters(self) -> None:
        """Raise if a parameter cannot be used, before any work starts."""
        check_declared(self)
        self._partial_settings()

    def _partial_settings(self) -> PartialLabels:
        """Return how to fit to labels that are partly known; raise if the settings cannot be used."""
        return resolve_partial_labels(getattr(self, "partial_labels", None))

    def _set_views(self) -> None:
        """Expose the fitted terms under the names a user looks for."""
        self.basis_ = {term.name: term.subspace for term in self.field_.terms}
        self.coef_ = {term.name: term.label_coefficients for term in self.field_.terms}

    # ---- fitting

    def _fit(
        self,
        X: object,
        y: object,
        sample_weight: object = None,
        *,
        optimize: object = None,
        held_out: tuple[object, object] = (None, None),
    ) -> Self:
        """Fit the field; the frame that every ``fit`` shares."""
        self._check_parameters()
        search = None if optimize is None else resolve_search(optimize)
        if search is not None:
            self._partial_settings().refuse_unlabelled("optimize", "choose prior variances by cross-validation")
        checkpoints = [each for each in check_callbacks(self.callbacks) if isinstance(each, Checkpoint)]
        for checkpoint in checkpoints:
            checkpoint.begin()
        with self._progress() as progress:
            training = self._training(X, y, sample_weight, progress)
            training.optimize = search

            def keep(present: Callable[[], FittedField]) -> None:
                for checkpoint in checkpoints:
                    checkpoint.keep(lambda: copy.copy(self)._set_fitted(training, present()))

            keeper: FieldKeeper | None = keep if checkpoints else None
            with blas_threads(self._blas_limit(training.data.n_positions)):
                training.held_out = held_out
                settled = settle(self, training)
                training.cliques = settled._cliques(training)
                beside = self._place_development(training)
                sample = training.place(training.data, training.cliques, beside)
                designs, start = settled._designs(training, sample)
                options = self._final_options(training, designs)
                fitted = fit_field(designs, sample, options, start=start, development=training.development, keep=keeper)
        self._set_fitted(training, fitted)
        for checkpoint in checkpoints:
            checkpoint.end(self)
        warn_of_fit(fitted, self.tol, stacklevel=3)
        warn_of_inference(fitted.warnings, stacklevel=4)
        return self

    def _training(self, X: object, y: object, sample_weight: object, progress: Any, part_of: Any = None) -> Training:
        random = random_generator(self.random_state)
        reader, data, classes = self._learn(X, y, sample_weight, part_of)
        spec, engine = self._family_spec(classes, data), self._engine(data)
        partial = self._partial_settings()
        criteria = partial.criteria(engine, data, reader, classes)
        if scales(self, data):
            # A fit that continues keeps the scale of its basis, which the reader has applied already.
            data = data if self._continues else reader.scale(data, always=self.scale is True)
        else:
            warn_of_uneven_columns(self, data)
        options = FitOptions(
            self.solver,
            self.tol,
            self.max_iter,
            self._watcher(progress),
            random,
            progress.say,
            partial,
            criteria,
        )
        settings = self._sample_settings()
        return Training(reader, data, classes, spec, engine, options, progress.say, settings)

    # ---- what a search by cross-validation needs, see selection/

    def _item_labels(self, training: Training, y: Any) -> list[np.ndarray]:
        """Return the numbers of the labels that are known of each sequence, graph or instance, to spread over folds."""
        data = training.data
        labels = data.split(data.labels)
        if not isinstance(data.evidence, np.ndarray):  # every label is known, or is the most probable one of its target
            return labels
        decided = data.split((data.evidence > -np.inf).sum(axis=1) == 1)
        return [own[known] for own, known in zip(labels, decided, strict=True)]

    def _approximate_method(self, training: Training) -> str | None:
        """Return the method by which labels are inferred if it is approximate; None if exact, or not known yet."""
        return None

    def _watcher(self, progress: Any) -> Callable[[Iteration], bool]:
        """Return a function that shows every iteration to the callbacks and to what shows progress."""
        watchers = [*check_callbacks(self.callbacks), progress]
        # A list, not a generator: every watcher sees every iteration, whatever the others return.
        return lambda iteration: True in [watcher(iteration) for watcher in watchers]

    # ---- what is left to the data, see auto_parameters.py

    #: Whether there is more to learn from a pilot fit than the kernel and the prior variance.
    _learns_in_pilot = False
    #: Whether a fit goes on from the present coefficients.
    _continues = False

    def _names_cliques(self) -> bool:
        """Whether the user says in clique sets what field it is, so that kernel and prior variance are not used."""
        return False

    def _for_pilot(self) -> Self:
        """Return a copy for short fits on a part of the data."""
        piloted = copy.copy(self)
        piloted.rank = MOST_RANK if self.rank is None else min(self.rank, MOST_RANK)
        piloted.basis = "random-cholesky"
        return piloted

    def _learn_from_pilot(self, training: Training, field: Field, held_out: Any) -> None:
        """Take note of what a field, fitted to a part of the data, says of a part that was held out."""

    @property
    def prior_variance_(self) -> float:
        """The prior variance of the functions of the inputs, the first of them where there are several."""
        check_is_fitted(self, "field_")
        return next(term for term in self.field_.terms if term.clique.kernel is not None).prior_variance

    def _final_options(self, training: Training, designs: Sequence[Design]) -> FitOptions:
        """Return the options of the fit once its terms are known."""
        return training.options

    def _place_development(self, training: Training) -> int:
        """Put a development set beside the training data, if there is one; return its number of positions."""
        return 0

    def _progress(self) -> Any:
        """Return a context that shows where a fit is, if it is asked for."""
        if not self.verbose:
            return NoProgress()
        from kernelfields.reports.progress import FitProgress

        return FitProgress(self.verbose, tol=self.tol, max_iter=self.max_iter)

    def _n_values(self, data: Any) -> int:
        """Return about how many values the features of data have, where these may be anywhere."""
        if not self._runs_anywhere() or stays_sparse(self.kernel, data):
            return 0
        return data.n_positions * (data.n_positions if self.rank is None else min(self.rank, data.n_positions))

    def _runs_anywhere(self) -> bool:
        """Whether every engine can fit such a field; for those that only threads know, "auto" looks no further."""
        return False

    def _engine(self, data: Any) -> Engine:
        """Return where a fit on such data runs; raise if it cannot run there."""
        local = self._partial_settings().ask_of_unlabelled
        return resolve_engine(self.engine, n_values=0 if local else self._n_values(data), data=data)

    def _travelling(self) -> Self:
        """Return a copy without what cannot leave this process; one thread of a worker is its share."""
        model = copy.copy(self)
        model.callbacks, model.engine, model.n_jobs = None, "threads", 1
        return model

    def _sample_settings(self, n_terms: int = 1) -> SampleSettings:
        return SampleSettings(resolve_dtype(self.dtype), self.tol, Workers(self.n_jobs), n_terms)

    def _blas_limit(self, n_positions: int) -> int | None:
        """Return how many threads BLAS may use: ``n_jobs``; by default one for small products, else any number."""
        if self.n_jobs is not None:
            return Workers(self.n_jobs).n_threads
        small = n_positions * min(self.rank or n_positions, n_positions) < _SMALL_PRODUCT
        return 1 if small else None

    def _optimized(
        self, training: Training, sample: Sample, designs: list[Design], start: list[np.ndarray] | None
    ) -> tuple[list[Design], list[np.ndarray] | None]:
        """Return the designs of the largest evidence and where to start in them, if that is asked for."""
        if training.optimize is None:
            return designs, start
        if start is not None:
            raise ValueError(
                "optimize chooses a field afresh, and warm_start=True continues the fitted one; leave out one"
            )
        from kernelfields.uncertainty.evidence.search import maximise_evidence

        random = training.options.random
        chosen = maximise_evidence(training.optimize, designs, sample, random=random, say=training.say)
        training.evidence_path = chosen.path
        return list(chosen.designs), chosen.start

    def _set_fitted(self, training: Training, fitted: FittedField) -> Self:
        """Take what a fit has found for the fitted attributes."""
        self._reader = training.reader
        self.classes_ = training.classes
        self.n_features_in_ = training.reader.n_features
        self.field_ = Field(fitted.terms, training.spec)
        self.inference_ = FittedBy.of(fitted.family)
        self.solution_ = fitted.solution
        self._certificates = (fitted.span, fitted.rkhs) if fitted.family.exact else None
        self.evidence_path_ = training.evidence_path
        for later in ("laplace_", "continuation_"):
            self.__dict__.pop(later, None)
        self._set_views()
        return self

    # ---- answers

    def _field(self) -> Field:
        """Return the fitted field, as it is to be inferred now."""
        check_is_fitted(self, "field_")
        return self.field_

    def _answers(self, X: object, y: object = None, known: object = None) -> Iterator[Answers]:
        """Yield batches of new data with what can be asked of them, given what is ``known`` of their labels."""
        field, workers = self._field(), Workers(self.n_jobs)
        if y is None and self._reader.is_empty(X):
            return
        data = self._read(X, y)
        evidence = None if known is None else self._known_evidence(known, data)
        place = scoring_engine(self.engine, n_values=self._n_values(data), data=data)
        begin = 0
        for batch in field.batches(data):
            end = begin + batch.n_positions
            yield field.answers(batch, workers, place).given(None if evidence is None else evidence[begin:end])
            begin = end

    #: What messages call the items of data and their positions.
    _nouns: ClassVar[Nouns] = SEQUENCES

    def _known_evidence(self, known: object, data: Any) -> np.ndarray:
        """Return what is known of the labels of data, as log-weights (N, L); errors say that ``known`` is meant."""
        try:
            labels, evidence = self._read_known(known, data)
            return as_evidence(labels, evidence, self._field().spec.n_labels)
        except (TypeError, ValueError) as error:
            raise type(error)(f"known: {error}") from error

    def _read_known(self, known: object, data: Any) -> tuple[np.ndarray, LabelEvidence | None]:
        """Return labels (N,) and, unless all of them are known, evidence (N, L)."""
        return read_labels(known, self.classes_, data.lengths, self._nouns)[:2]

    def _presented(self, parts: Iterable[tuple[Any, np.ndarray]]) -> Any:
        """Return rows (N, ..) of batches in the form in which answers leave: one array for each item."""
        return Ragged(piece for data, rows in parts for piece in plain_strings(data.split(rows)))

    def _presented_draws(self, parts: Iterable[tuple[Any, np.ndarray]], single: bool) -> Any:
        """Return draws (k, N) of batches in the form in which they leave: (T,) for each item, (k, T) unless single."""
        return Ragged(piece for data, drawn in parts for piece in per_item(data, self.classes_[drawn], single))

    def _labelling(self, labels: np.ndarray) -> Any:
        """Return the numbers of the labels of one item in the form in which they leave."""
        return self.classes_[labels]

    @answers_collections
    def predict(self, X: object, decode: str | None = None, *, known: object = None) -> Any:
        """Return the labels of each sequence or graph: a list of strings, or an array of numbers.

        Parameters
        ----------
        X : inputs, in a form that :meth:`fit` takes
        decode : "viterbi", "posterior" or None, default None
            The most probable labelling as a whole (a good one where inference is approximate), or the most probable
            label of each position, which maximises the expected share of right labels. None means ``decode`` of the
            estimator.
        known : what is known of the labels, in the form of a ``y`` of :meth:`fit`
            Labels, None, sets of allowed ones, dicts of weights. Answers, here and below, are given that it is so.
        """
        jointly = self._asked_jointly(decode)
        return self._presented(
            (answers.data, self.classes_[answers.best_labels() if jointly else answers.likeliest_labels()])
            for answers in self._answers(X, known=known)
        )

    def _asked_jointly(self, decode: str | None) -> bool:
        """Whether ``decode``, None for that of the estimator, asks for the best labelling as a whole."""
        check_is_fitted(self, "field_")
        chosen = getattr(self, "decode", "auto") if decode is None else decode
        check_choice(chosen, "decode", DECODINGS)
        return self._decodes_jointly() if is_auto(chosen) else chosen == "viterbi"

    def _decodes_jointly(self) -> bool:
        """Whether decode="auto" asks for the best labelling as a whole."""
        return False

    @answers_collections
    def predict_marginals(
        self, X: object, cliques: str | None = None, *, uncertainty: bool | str = False, known: object = None
    ) -> Any:
        """Return p(y_t | x) of each sequence or graph as (T, L) arrays, columns as in ``classes_``.

        Parameters
        ----------
        X : inputs, in a form that :meth:`fit` takes
        cliques : the name of a kind of cliques, or None
            Also return the joint marginals of their labels, (m, L, .., L) for each item: a tuple of two lists. "edge"
            are neighbouring labels of sequences; those of graphs are called as the types of their edges.
        uncertainty : bool, "probit" or "sampling", default False
            After :meth:`laplace`, average over the posterior around the fit: "probit" (or True) shrinks log-odds by
            their variance, which keeps the most probable labels; "sampling" is the mean over drawn coefficients.
        known : as in :meth:`predict`
        """
        check_is_fitted(self, "field_")
        kind = resolve_uncertainty(uncertainty, joint=cliques is not None)
        parts = list(self._averaged(X, kind, cliques, known))
        marginals = self._presented((data, rows) for data, rows, _ in parts)
        if cliques is None:
            return marginals
        return marginals, Ragged(joint for _, _, joints in parts for joint in joints or [])

    def _averaged(
        self, X: object, kind: str | None, group: str | None = None, known: object = None
    ) -> Iterator[tuple[Any, np.ndarray, list[np.ndarray] | None]]:
        """Yield batches with their marginals and those of a group of cliques, averaged over the posterior.

        ``kind`` is "probit", "sampling" or None for those of the fit itself.
        """
        batches = self._answers(X, known=known)
        if kind is None:
            for answers in batches:
                yield answers.data, answers.marginals, None if group is None else answers.clique_marginals(group)
            return
        from kernelfields.uncertainty.laplace.samples import averaged_answers

        yield from averaged_answers(kind, batches, self._field(), self._drawn(), Workers(self.n_jobs), group)

    @answers_collections
    def predict_variances(self, X: object) -> Any:
        """Return the posterior variances of the potentials of single labels, (T, L) arrays, after :meth:`laplace`."""
        return self._presented(self._variances(X))

    def _variances(self, X: object) -> Iterator[tuple[Any, np.ndarray]]:
        """Yield batches with the posterior variances of the potentials of single labels."""
        field, samples = self._field(), self._drawn()
        for batch in field.batches(self._read(X)) if not self._reader.is_empty(X) else ():
            yield batch, label_variances(field, batch, samples)

    @answers_collections
    def predict_nbest(self, X: object, k: int, *, known: object = None) -> list[list[tuple[Any, float]]]:
        """Return, for each item, its k most probable labellings with their log-probabilities.

        ValueError if inference is approximate.
        """
        check_is_fitted(self, "field_")
        return ranked_labellings(self._answers(X, known=known), self._labelling, k)

    def sample(
        self, X: object, n_samples: int | None = None, random_state: Seed = None, *, known: object = None
    ) -> Any:
        """Draw labellings from p(y | x): (T,) labels for each item, or (n_samples, T) if a number is given."""
        return self._presented_draws(self._draws(X, n_samples, random_state, known), n_samples is None)

    def _draws(
        self, X: object, n_samples: int | None, random_state: Seed, known: object = None
    ) -> Iterator[tuple[Any, np.ndarray]]:
        """Yield batches with labellings drawn from p(y | x), (n_samples or 1, N)."""
        if n_samples is not None:
            check_count(n_samples, "n_samples", " or None")
        random = random_generator(random_state)
        for answers in self._answers(X, known=known):
            yield answers.data, answers.sample(n_samples or 1, random)

    @answers_collections
    def entropy(self, X: object, *, known: object = None) -> np.ndarray:
        """Return the entropy of p(y | x) of each item, in nats; ValueError if inference is approximate."""
        parts = [np.empty(0)]
        for answers in self._answers(X, known=known):
            refuse_approximate(answers.family, "an entropy")
            parts.append(answers.entropies())
        return np.concatenate(parts)

    def log_likelihood(
        self, X: object, y: object, *, per_item: bool = False, known: object = None
    ) -> float | np.ndarray:
        """Return log p(y | x), summed over items or for each; minus infinity for what is forbidden.

        Of a y that is partly known, the probability of what is. ValueError if inference is approximate.
        """
        values = log_likelihoods(self._answers(X, y, known))
        return values if per_item else float(values.sum())

    def score(
        self, X: object, y: object, sample_weight: ArrayLike | None = None, *, decode: str | None = None
    ) -> float:
        """Return the share of positions whose label is the predicted one.

        ``sample_weight`` holds one weight for each sequence or graph. Labels that were never learnt are errors;
        positions whose label is not known do not count.
        """
        check_is_fitted(self, "field_")
        lengths = np.diff(self._read(X).offsets)
        return share_right(y, self.classes_, lengths, lambda: self.predict(X, decode), sample_weight, self._nouns)

    def filled(self, X: object, y: object, *, tokens: Any = None, top: int | None = None) -> FilledLabels:
        """Return a table of the labels that a partly known y leaves open, as :meth:`predict` fills them in.

        Sorted by increasing confidence, ``top`` rows or all; ``tokens`` holds what to show for each position of each
        sequence, such as its word.
        """
        if top is not None:
            check_count(top, "top", " or None")
        if y is None:
            raise ValueError("y is None: pass what is known of the labels, with None for each one that is not")
        answers, predicted = self._answers(X, known=y), lambda: self.predict(X, known=y)
        names = lambda whole, part: self._place_names(whole, part, tokens)  # noqa: E731
        return filled_labels(answers, predicted, self._label_names(), names, self._places, top)

    #: What the table of :meth:`filled` calls the place of a label.
    _places: ClassVar[tuple[str, str]] = ("sequence", "position")

    def _label_names(self) -> np.ndarray:
        """Return what the columns of marginals stand for, (L,)."""
        return self.classes_

    def _place_names(self, whole: int, part: int, tokens: Any) -> tuple[int, Any, Any]:
        """Return the names of a place, and what there is to show there."""
        return whole, part, None if tokens is None or tokens[whole] is None else tokens[whole][part]

    # ---- inspection

    def _feature_names(self, term: Term, given: Any) -> Sequence[str]:
        """Return the names of the input columns that a term sees: those given, those of the fit, or "x0", "x1", .."""
        return input_names(self._reader.names, self._reader.n_features, given)

    def weights(
        self,
        top: int | tuple[int, int] | None = 20,
        labels: Sequence[object] | None = None,
        feature_re: str | re.Pattern[str] | None = None,
        *,
        feature_names: Any = None,
    ) -> WeightsTable:
        """Return the largest weights per label, and scores of labels that meet; ``to_rows()`` is for pandas.

        Parameters
        ----------
        top : how many weights of each label, the largest by size; a pair for positive and negative ones; None for all
        labels : list of the labels to show, in this order; None for all. Transitions are those between them.
        feature_re : regular expression; features are listed if it is found in their names
        feature_names : names of the input features. By default those of the fit, "x0", "x1", ... for arrays. For
            graphs also a dict by type of edges, "node" for nodes.

        With a window, names of neighbours' features begin with their offset: "[-1] word:the". Kernels without
        explicit features, such as RBF, have no weights per feature; the table says so. Transitions that depend on the
        inputs have one list for all pairs of labels. Weights are relative: adding a number to those of one feature for
        all labels changes no probability, so compare the labels of a feature. Where columns were brought to one scale,
        weights are those of the scaled columns.
        """
        field = self._field()
        classes, names_of = self.classes_.tolist(), lambda term: self._feature_names(term, feature_names)
        return tabulate_weights(field.terms, field.spec, classes, names_of, top, labels, feature_re)

    def _one_item(self, x: Any, y: Any, caller: str) -> Any:
        """Return one sequence, graph or instance as data, labelled if y is given."""
        check_one_sequence(x, caller)
        return self._read([x], None if y is None else [y])

    def _predicted_numbers(self, answers: Answers) -> np.ndarray:
        """Return the numbers of the labels that :meth:`predict` gives, (N,)."""
        return answers.best_labels() if self._asked_jointly(None) else answers.likeliest_labels()

    def _step_words(self, group: str, nodes: list[int], place: int, compared: Compared) -> str:
        """Return how an explanation calls the other labels of a clique when the one at ``place`` is exchanged."""
        classes, labels = compared.classes, compared.labels
        names = [
            f"[{classes[labels[v]]}]" if index == place else f"{classes[labels[v]]}" for index, v in enumerate(nodes)
        ]
        if group == EDGE:
            return f"transition from {names[0]}" if place == 1 else f"transition to {names[1]}"
        if group.startswith("order"):
            return f"{len(nodes)}-gram {' '.join(names)}"
        other = nodes[1 - place]
        return f"{classes[labels[other]]} {abs(other - nodes[place])} steps {'before' if place else 'after'}"

    def explain(
        self,
        x: object,
        y: object = None,
        top: int = 5,
        against: object = None,
        *,
        feature_names: Any = None,
        tokens: Sequence[object] | None = None,
        pivots: int = 0,
        neighbours: int = 3,
        training: tuple[object, ...] | None = None,
    ) -> Explanation:
        """Return, for one sequence, graph or instance, what moved the label of each position, and away from which.

        The contributions at a position add up to log p(y | x) - log p(y with the other label there | x); labels that
        meet it are named by their positions. A labelling that constraints or ``allowed`` forbid has probability zero:
        each rule that it breaks contributes infinity.

        Parameters
        ----------
        x : one sequence, graph or instance, in the form the model was fitted on
        y : its labels; None for those that are predicted
        top : how many features to list at each position, the largest by size; transitions and kernels always are
        against : a label, or a list with one per position, to compare with; None for the most probable besides y
        feature_names : names of the input features, as in :meth:`weights`
        tokens : what to show for each position, such as its word or the name of a node
        neighbours : how many training inputs to list for each kernel without explicit features: the most similar
        training : the pair (X, y) of the fit, to list those that contributed most, with their places and labels
        pivots : list so many terms k(x, b) alpha_b of the kernel expansion instead; they may be large and cancel
        """
        field = self._field()
        inputs = None if training is None else self._training_inputs(training)
        settings = ExplanationSettings(top, pivots, neighbours, inputs)
        settings.check()
        data = self._one_item(x, y, "explain")
        answers, classes = field.answers(data, Workers(1)), self._explained_classes()
        labels = self._predicted_numbers(answers) if y is None else data.labels
        others = likeliest_others(answers.marginals, labels, classes, against)
        words = checked_tokens(tokens, len(labels), *self._places) if tokens is not None else self._usual_tokens()
        compared = Compared(labels, others, classes, words)
        return explain_labels(
            field.terms,
            answers,
            compared,
            lambda term: self._feature_names(term, feature_names),
            lambda group, nodes, place: self._step_words(group, nodes, place, compared),
            settings,
        )

    def _explained_classes(self) -> list:
        """Return the labels that positions may have."""
        return self.classes_.tolist()

    def _usual_tokens(self) -> list[str] | None:
        """Return what explanations show for each position where nothing is given."""
        return None

    def _training_inputs(self, training: Any) -> TrainingInputs:
        if not isinstance(training, tuple | list) or len(training) not in (2, 3):
            raise ValueError("training must be the pair (X, y) that the model was fitted to, and weights if it had any")
        data = self._read_fitted(*training, *([None] * (3 - len(training))))
        return TrainingInputs(self._field(), data, self.classes_.tolist(), Workers(self.n_jobs))

    def summary(self) -> ModelSummary:
        """Return the fitted field at a glance, to be printed, shown by a notebook or put on a page of a report."""
        field = self._field()
        forbidden = np.isneginf(field.spec.step_penalties)
        return ModelSummary(
            name=type(self).__name__,
            labels=tuple(self._label_names().tolist()),
            n_features=self._reader.n_features,
            sets=tuple(summarise_term(term, self._nouns.part) for term in field.terms),
            solution=self.solution_,
            certificates=self._certificates or (),
            tol=self.tol,
            parameters=changed_parameters(self.get_params(deep=False), self._default_parameters()),
            transitions=self._shown_transitions(),
            forbidden=forbidden if forbidden.any() else None,
        )

    @classmethod
    def _default_parameters(cls) -> dict[str, object]:
        return {name: each.default for name, each in inspect.signature(cls.__init__).parameters.items()}

    def _shown_transitions(self) -> np.ndarray | None:
        """Return the scores of neighbouring labels that do not depend on inputs, (L, L); None if there are none."""
        return getattr(self, "transitions_", None)

    def _repr_html_inner(self) -> str:
        """Return the HTML of scikit-learn's ``_repr_html_``: of a fitted estimator its summary."""
        return self.summary()._repr_html_() or "" if hasattr(self, "field_") else super()._repr_html_inner()

    def _repr_mimebundle_(self, **settings: object) -> dict[str, str]:
        """Return what a notebook shows, as scikit-learn does."""
        if hasattr(self, "field_") and get_config()["display"] == "diagram":
            return {"text/plain": repr(self), "text/html": self.summary()._repr_html_() or ""}
        return super()._repr_mimebundle_(**settings)

    def show(
        self, x: object, y: Any = None, *, tokens: Any = None, caption: str = ""
    ) -> LabelledSequence | LabelledGraph:
        """Return one sequence as the field labels it, coloured, for a notebook or a page; without words a time line.

        Parameters
        ----------
        x : one sequence, in the form the model was fitted on
        y : its true labels, to mark those that are wrong; labels the model does not know are allowed
        tokens : what to show for each position, such as its word; None for a time line
        """
        check_is_fitted(self, "field_")
        check_one_sequence(x, "show")
        labels, marginals = self.predict([x])[0], self.predict_marginals([x])[0]
        return LabelledSequence(labels, marginals, self.classes_.tolist(), tokens, y, caption)

    # ---- certificates

    @property
    def certificate_(self) -> Certificate:
        """How far the fit can be from the best one in the span of its basis; only for exact inference."""
        return self._certified()[0]

    @property
    def rkhs_certificate_(self) -> Certificate:
        """How far the fit can be from the best one in the whole RKHS; only for exact inference."""
        return self._certified()[1]

    def _certified(self) -> tuple[Certificate, Certificate]:
        check_is_fitted(self, "field_")
        if self._certificates is None:
            raise AttributeError(
                f"no certificate: the labels were inferred by {self.inference_.method!r}, which is approximate"
            )
        return self._certificates

    @property
    def stationarity_(self) -> float:
        """How flat the objective is at the fit: (s / 2) ||gradient||^2 over the value, summed over clique sets.

        Where labels are partly known the objective has several minima, and this is what tells that one is reached.
        """
        check_is_fitted(self, "field_")
        return sum(self.solution_.gap_parts.values()) / max(abs(self.solution_.value), np.finfo(float).tiny)

    @property
    def n_iter_(self) -> int:
        """Iterations of the solver."""
        check_is_fitted(self, "field_")
        return self.solution_.iterations

    def certify(
        self, X: object, y: object, *, scope: str = "rkhs", sample_weight: ArrayLike | None = None
    ) -> Certificate:
        """Return how far the fitted field can be from the best one on (X, y), the data of the fit.

        scope="rkhs": among all functions of the RKHS, O(N^2) kernel evaluations; scope="span": in that of the basis.
        """
        fitted = self._field()
        self._partial_settings().refuse_unlabelled(
            "certify", "certificate_ and stationarity_ tell how near the fit is to a minimum"
        )
        if scope not in ("rkhs", "span"):
            raise ValueError(f"scope must be 'rkhs' or 'span', got {scope!r}")
        data = self._read_fitted(X, y, sample_weight)
        with blas_threads(self._blas_limit(data.n_positions)):
            return fitted.certify(data, Workers(self.n_jobs), scope)

    # ---- uncertainty

    def laplace(
        self,
        X: object,
        y: object,
        sample_weight: ArrayLike | None = None,
        *,
        n_samples: int = 50,
        method: str = "auto",
        steps: int = 100,
        probes: int = 10,
        beyond_basis: bool | str = "auto",
        random_state: Seed = None,
    ) -> Evidence:
        """Approximate the posterior on (X, y), the data of the fit, by a Gaussian; return the log evidence.

        Draws ``n_samples`` coefficients for predictions with ``uncertainty``. method="exact" spells out the Hessian,
        "lanczos" works with ``steps`` of its products for each of ``probes`` estimates of the log determinant and for
        each sample, "auto" is exact for small fields. ``beyond_basis``: whether what the basis cannot express keeps
        its prior variance, which is too much where a low rank leaves out what the data could tell; "auto" counts what
        is left out beyond the most of any training input. Warns where the posterior is no Gaussian around the mode.
        """
        for name, number in (("n_samples", n_samples), ("steps", steps), ("probes", probes)):
            check_count(number, name)
        if not (isinstance(beyond_basis, bool | np.bool_) or beyond_basis == "auto"):
            raise ValueError(f"beyond_basis must be True, False or 'auto', got {beyond_basis!r}")
        terms = self._field().terms
        self._partial_settings().refuse_unlabelled("laplace", "fit without them for a posterior")
        data = self._read_fitted(X, y, sample_weight)
        settings = self._sample_settings(sum(not term.tied_everywhere for term in terms))
        sample = self._engine(data).place(data, self._field().spec, settings)
        self.laplace_ = draw_posterior(
            terms,
            sample,
            n_samples=n_samples,
            method=method,
            steps=steps,
            probes=probes,
            beyond_basis=beyond_basis,
            random=random_generator(random_state),
        )
        return self.laplace_.evidence

    def sample_coefficients(self) -> dict[str, np.ndarray]:
        """Return the coefficients drawn by :meth:`laplace`: name of a term -> (n_samples, rank, labellings).

        Of n-grams that were seen in training, (n_samples, 1, n-grams).
        """
        return {
            term.name: np.stack([term.per_labelling(row) for row in drawn])
            for term, drawn in zip(self._field().terms, self._drawn().samples, strict=True)
        }

    def _drawn(self) -> LaplaceSamples:
        if not hasattr(self, "laplace_"):
            raise ValueError("uncertainty needs the posterior around the fit: call laplace(X, y) on its data first")
        return self.laplace_


@declares_parameters
class LabelledField(FieldEstimator):
    """A field that is fitted to labels: what those of sequences, graphs, instances and single inputs share."""

    solver: object = parameter("auto", lambda value, name: check_solver(value))
    engine: EngineLike = parameter("auto")
    callbacks: Sequence[object] | None = parameter(None, lambda value, name: check_callbacks(value))
    class_weight: Mapping[object, float] | str | None = parameter(None, lambda value, name: check_class_weight(value))
