"""The base class of all fields as scikit-learn estimators: fitting, answers, uncertainty, certificates, files.

    fit      learn the reader of the data -> place them -> terms on the sample -> fit_field -> fitted attributes
    ask      read new data -> batches -> Field.answers, averaged over the posterior if asked for
    keep     get_params and the fitted field -> document -> model file, and back

An estimator says what is its own in a few hooks: how data are read (``_learn``, ``_read``), which labels meet
(``_structure``), and which terms there are (``_designs``, by default those of ``_cliques``).
"""

from __future__ import annotations

import copy
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from kernelfields.basis.selection import Basis
from kernelfields.engines.choice import resolve_engine, scoring_engine
from kernelfields.engines.engine import Engine, Sample, SampleSettings
from kernelfields.estimators.habits import advised
from kernelfields.estimators.known import fill_in, known_evidence, log_likelihoods
from kernelfields.estimators.settling import Silence, Training, scales, settle, stays_sparse, warn_of_uneven_columns
from kernelfields.estimators.stored import StoredEstimator
from kernelfields.features.label_dictionary import LabelDictionary
from kernelfields.fields.evidence import read_labels
from kernelfields.fields.reading import SEQUENCES, Nouns, random_generator
from kernelfields.inference.answers import Answers, warn_of_doubts
from kernelfields.kernels.kernel import Kernel
from kernelfields.kernels.labels import LabelKernel
from kernelfields.models.build import NamedCliques, build_designs
from kernelfields.models.checkpoints import Checkpoint
from kernelfields.models.documents import SETTINGS
from kernelfields.models.expectations import LabelledFeature, LabelShares
from kernelfields.models.field import Field
from kernelfields.models.fit import (
    FieldKeeper,
    FitOptions,
    FittedField,
    fit_field,
    warn_of_fit,
)
from kernelfields.models.partial import PartialLabels, refuse_unlabelled, resolve_criteria, resolve_partial_labels
from kernelfields.models.rehearsal import MOST_RANK
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
from kernelfields.objective.likelihoods.likelihood import LabelStructure
from kernelfields.reports.filled import FilledLabels
from kernelfields.solvers.choice import check_solver
from kernelfields.solvers.loop import Iteration, Solution
from kernelfields.structure.search import StructureSearch
from kernelfields.uncertainty.evidence.settings import EvidencePath, resolve_search
from kernelfields.uncertainty.laplace.laplace import Evidence
from kernelfields.uncertainty.laplace.samples import (
    LaplaceSamples,
    draw_posterior,
    label_variances,
)

SETTINGS |= {"structure search": StructureSearch, "label dictionary": LabelDictionary}
SETTINGS |= {"partial labels": PartialLabels, "label shares": LabelShares, "labelled feature": LabelledFeature}

#: What may be passed where a kernel, a basis, a label kernel, an engine, labels or seeds are asked for.
KernelLike = Kernel | str | Callable[..., np.ndarray] | BaseEstimator
BasisLike = Basis | str
LabelKernelLike = LabelKernel | str | np.ndarray
EngineLike = Engine | str
Seed = int | np.random.Generator | np.random.RandomState | None

#: How labels are chosen; "viterbi" and "joint" are two words for the best labelling as a whole.
DECODINGS = ("auto", "viterbi", "joint", "posterior")
# Below this many feature values, threads of BLAS wait for each other longer than they work.
_SMALL_PRODUCT = 1_000_000


class FieldEstimator(StoredEstimator, BaseEstimator, metaclass=ABCMeta):
    """A field as a scikit-learn estimator; see the module for the hooks of those that derive from it."""

    #: The name of its kind in model files.
    kind: ClassVar[str]

    kernel: Any
    prior_variance: Any
    scale: Any
    decode: str
    rank: int | None
    basis: Any
    solver: Any
    tol: float
    max_iter: int
    dtype: Any
    n_jobs: int | None
    engine: Any
    random_state: Seed
    verbose: int
    callbacks: Any

    classes_: np.ndarray
    n_features_in_: int
    field_: Field
    solution_: Solution
    inference_: Any
    laplace_: LaplaceSamples
    evidence_path_: EvidencePath | None
    _reader: Any
    _certificates: tuple[Certificate, Certificate] | None

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
    def _structure(self, classes: np.ndarray, data: Any) -> LabelStructure:
        """Return which labels meet."""

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
        if self.rank is not None:
            check_count(self.rank, "rank", " (or None for no limit)")
        check_tolerance(self.tol)
        check_count(self.max_iter, "max_iter")
        check_choice(self.scale, "scale", ("auto", True, False))
        check_choice(getattr(self, "decode", "auto"), "decode", DECODINGS)
        check_solver(self.solver)
        check_callbacks(self.callbacks)
        resolve_dtype(self.dtype)
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
            refuse_unlabelled(self, "optimize", "choose prior variances by cross-validation")
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
        if fitted.doubts:
            warn_of_doubts(fitted.doubts, stacklevel=4)
        return self

    def _training(self, X: object, y: object, sample_weight: object, progress: Any, part_of: Any = None) -> Training:
        random = random_generator(self.random_state)
        reader, data, classes = self._learn(X, y, sample_weight, part_of)
        structure, engine = self._structure(classes, data), self._engine(data)
        partial = self._partial_settings()
        criteria = resolve_criteria(partial, engine, data, reader, classes)
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
        return Training(reader, data, classes, structure, engine, options, progress.say, settings)

    def _watcher(self, progress: Any) -> Callable[[Iteration], bool]:
        """Return a function that shows an iteration to all callbacks and to ``progress``; True stops the fit."""
        watchers = [*check_callbacks(self.callbacks), progress]
        # A list, not a generator: every watcher sees every iteration, whatever the others return.
        return lambda iteration: True in [watcher(iteration) for watcher in watchers]

    # ---- what is left to the data, see settling.py

    #: Whether there is more to learn from a rehearsal than the kernel and the prior variance.
    _learns_in_rehearsal = False
    #: Whether a fit goes on from the present coefficients.
    _continues = False

    def _spells_out(self) -> bool:
        """Whether the user says in clique sets what field it is, so that kernel and prior variance are not used."""
        return False

    def _for_rehearsal(self) -> Self:
        """Return a copy for short fits on a part of the data."""
        rehearsed = copy.copy(self)
        rehearsed.rank = MOST_RANK if self.rank is None else min(self.rank, MOST_RANK)
        rehearsed.basis = "random-cholesky"
        return rehearsed

    def _learn_from_rehearsal(self, training: Training, field: Field, held_out: Any) -> None:
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
            return Silence()
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
        self.field_ = Field(fitted.terms, training.structure)
        self.inference_ = fitted.inference
        self.solution_ = fitted.solution
        exact = fitted.inference is None or fitted.inference.exact
        self._certificates = (fitted.span, fitted.rkhs) if exact else None
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
        fitted, workers = self._field(), Workers(self.n_jobs)
        if y is None and self._reader.is_empty(X):
            return
        data = self._read(X, y)
        evidence = None if known is None else known_evidence(self, known, data)
        place = scoring_engine(self.engine, n_values=self._n_values(data), data=data)
        begin = 0
        for batch in fitted.batches(data):
            end = begin + batch.n_positions
            yield fitted.answers(batch, workers, place).given(None if evidence is None else evidence[begin:end])
            begin = end

    #: What messages call the items of data and their positions.
    _nouns: ClassVar[Nouns] = SEQUENCES

    def _read_known(self, known: object, data: Any) -> tuple[np.ndarray, np.ndarray | None]:
        """Return labels (N,) and, unless all of them are known, evidence (N, L)."""
        return read_labels(known, self.classes_, data.lengths, self._nouns)[:2]

    def _decoded(self, X: object, decode: str | None, known: object = None) -> Iterator[tuple[Any, np.ndarray]]:
        """Yield batches with the numbers of their labels, the best together or one by one."""
        jointly = self._asked_jointly(decode)
        for answers in self._answers(X, known=known):
            yield answers.data, answers.best_labels() if jointly else answers.likeliest_labels()

    def _asked_jointly(self, decode: str | None) -> bool:
        """Whether ``decode``, None for that of the estimator, asks for the best labelling as a whole."""
        chosen = self.decode if decode is None else decode
        check_choice(chosen, "decode", DECODINGS)
        return self._decodes_jointly() if is_auto(chosen) else chosen != "posterior"

    def _decodes_jointly(self) -> bool:
        """Whether decode="auto" asks for the best labelling as a whole."""
        return False

    def _averaged(
        self, X: object, kind: str | None, joint_of: Callable[[Any], np.ndarray] | None = None, known: object = None
    ) -> Iterator[tuple[Any, np.ndarray, Any]]:
        """Yield batches with their marginals and, if asked for, joint marginals, averaged over the posterior.

        ``kind`` is "probit", "sampling" or None for those of the fit itself.
        """
        if kind is None:
            for answers in self._answers(X, known=known):
                yield answers.data, answers.marginals, None if joint_of is None else joint_of(answers)
            return
        from kernelfields.uncertainty.laplace.probit import averaged_answers

        batches, workers = self._answers(X, known=known), Workers(self.n_jobs)
        yield from averaged_answers(kind, batches, self._field(), self._drawn(), workers, joint_of)

    def filled(self, X: object, y: object, *, tokens: Any = None, top: int | None = None) -> FilledLabels:
        """Return a table of the labels that a partly known y leaves open, as :meth:`predict` fills them in.

        The least sure come first, ``top`` of them or all; ``tokens`` holds what to show for each position of each
        sequence, such as its word.
        """
        return fill_in(self, X, y, tokens, top)

    #: What the table of :meth:`filled` calls the place of a label.
    _places: ClassVar[tuple[str, str]] = ("sequence", "position")

    def _label_names(self) -> np.ndarray:
        """Return what the columns of marginals stand for, (L,)."""
        return self.classes_

    def _place_names(self, whole: int, part: int, tokens: Any) -> tuple[int, Any, Any]:
        """Return the names of a place, and what there is to show there."""
        return whole, part, None if tokens is None or tokens[whole] is None else tokens[whole][part]

    def _variances(self, X: object) -> Iterator[tuple[Any, np.ndarray]]:
        """Yield batches with the posterior variances of the potentials of single labels."""
        fitted, samples = self._field(), self._drawn()
        for batch in fitted.batches(self._read(X)) if not self._reader.is_empty(X) else ():
            yield batch, label_variances(fitted, batch, samples)

    def _log_likelihoods(self, X: object, y: object, known: object = None) -> np.ndarray:
        """Return log p(y | x, known) of each sequence, graph or instance; ValueError if inference is approximate.

        Where y is partly known, the probability is that of what it tells.
        """
        return log_likelihoods(self._answers(X, y, known), self._contradicted)

    def _contradicted(self, data: Any, evidence: np.ndarray) -> np.ndarray:
        """Return a mask of the sequences, graphs or instances of which evidence (N, L) leaves no labelling, (S,)."""
        return np.logical_or.reduceat(np.isneginf(evidence).all(axis=1), data.starts)

    def _draws(
        self, X: object, n_samples: int | None, random_state: Seed, known: object = None
    ) -> Iterator[tuple[Any, np.ndarray]]:
        """Yield batches with labellings drawn from p(y | x), (n_samples or 1, N)."""
        if n_samples is not None:
            check_count(n_samples, "n_samples", " or None")
        random = random_generator(random_state)
        for answers in self._answers(X, known=known):
            yield answers.data, answers.sample(n_samples or 1, random)  # type: ignore[union-attr]

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
        refuse_unlabelled(self, "certify", "certificate_ and stationarity_ tell how near the fit is to a minimum")
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
        for name, count in (("n_samples", n_samples), ("steps", steps), ("probes", probes)):
            check_count(count, name)
        if not (isinstance(beyond_basis, bool | np.bool_) or beyond_basis == "auto"):
            raise ValueError(f"beyond_basis must be True, False or 'auto', got {beyond_basis!r}")
        terms = self._field().terms
        refuse_unlabelled(self, "laplace", "fit without them for a posterior")
        data = self._read_fitted(X, y, sample_weight)
        settings = self._sample_settings(sum(not term.tied_everywhere for term in terms))
        sample = self._engine(data).place(data, self._field().structure, settings)
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
