"""The base class of all fields as scikit-learn estimators: fitting, answers, uncertainty, certificates, files.

    fit      learn the reader of the data -> place them -> terms on the sample -> fit_field -> fitted attributes
    predict  read new data -> batches -> Field.answers, averaged over the posterior on request
    keep     get_params and the fitted field -> document -> model file, and back

A derived class defines a few hooks: how data are read (``_learn``, ``_read``), the family of its labellings
(``_family_spec``), its terms (``_designs``, by default those of ``_cliques``), and the form of its answers
(``_presented``). Questions about labels are answered here and in questions.py, for every family alike.
"""

from __future__ import annotations

import copy
import re
import warnings
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from kernelfields.data.chains import Packed, weigh_classes
from kernelfields.data.cliques import USUAL_RANK
from kernelfields.data.constraints import ConstraintMasks
from kernelfields.data.evidence import SoftRows, label_shares, read_labels, seen_labels, share_right
from kernelfields.data.fingerprints import Fingerprint, fingerprint
from kernelfields.data.label_dictionary import refuse_elsewhere
from kernelfields.data.ragged import Ragged
from kernelfields.data.readers import ChainReader, GraphReader, TableReader
from kernelfields.data.reading import (
    check_class_weight,
    is_empty,
    random_generator,
)
from kernelfields.data.ties import LabelSymmetry, read_ties
from kernelfields.engines.choice import answers_collections, is_collection, resolve_engine, scoring_engine
from kernelfields.estimators.questions import ByItem, Data, LabelQuestions, Reader, Seed
from kernelfields.models.stored import Functions, StoredEstimator
from kernelfields.numerics.parameters import (
    attribute,
    check_callbacks,
    check_choice,
    check_count,
    check_declared,
    check_penalty,
    check_tolerance,
    count_or_none,
    declares_parameters,
    is_auto,
    one_of,
    or_auto,
    parameter,
    resolve_dtype,
)
from kernelfields.numerics.threads import Workers, blas_threads

if TYPE_CHECKING:
    from kernelfields.basis.selection import Basis
    from kernelfields.engines.engine import Engine, PackedData, Sample, SampleSettings
    from kernelfields.estimators.auto_parameters import NoProgress, Parts, Training
    from kernelfields.estimators.inspecting.explanations import Compared, TrainingInputs
    from kernelfields.features.leakage import RepeatedLabels
    from kernelfields.inference.answers import Answers
    from kernelfields.inference.choice import FamilySpec
    from kernelfields.kernels.kernel import Kernel
    from kernelfields.kernels.labels import LabelKernel
    from kernelfields.models.build import NamedCliques
    from kernelfields.models.callbacks import Checkpoint
    from kernelfields.models.continuation import Continuation
    from kernelfields.models.field import Field
    from kernelfields.models.fit import FieldKeeper, FitOptions, FittedBy, FittedField
    from kernelfields.models.model_file import Document
    from kernelfields.models.partial import PartialLabels
    from kernelfields.models.pilot_fit import Choices, Settings, Stage
    from kernelfields.objective.bounds import Certificate
    from kernelfields.objective.designs.design import Design
    from kernelfields.objective.term import Term
    from kernelfields.posterior.evidence.settings import EvidencePath
    from kernelfields.posterior.laplace.laplace import Evidence
    from kernelfields.posterior.laplace.samples import LaplaceSamples
    from kernelfields.reports.graph_pictures import LabelledGraph
    from kernelfields.reports.inspection import Explanation, ModelSummary, WeightsTable
    from kernelfields.reports.progress import FitProgress
    from kernelfields.reports.sequences import LabelledSequence
    from kernelfields.solvers.loop import Iteration, Solution

#: What may be passed where a kernel, a basis, a label kernel, an engine, labels or seeds are expected.
KernelLike: TypeAlias = "Kernel | str | Callable[..., np.ndarray] | BaseEstimator"
BasisLike: TypeAlias = "Basis | str"
LabelKernelLike: TypeAlias = "LabelKernel | str | np.ndarray"
EngineLike: TypeAlias = "Engine | str"
TiesLike: TypeAlias = LabelSymmetry | Sequence[LabelSymmetry]

#: Terms on a sample, and the coefficients to start from, None for zero.
Start: TypeAlias = "tuple[list[Design], list[np.ndarray] | None]"

#: How labels are chosen: the best labelling as a whole, or the most probable label of each position.
DECODINGS = ("auto", "viterbi", "posterior")
# Parameters that may be others in the next batch of partial_fit: they do not describe the field.
_MAY_CHANGE = (
    *("solver", "tol", "max_iter", "dtype", "n_jobs", "engine", "random_state", "verbose", "callbacks"),
    *("class_weight", "warm_start", "partial_labels", "decode", "decision", "inference"),
)
# Held-out labels are certain where their loss, in nats a position, is below this.
_CERTAIN = 0.01
# The penalties of constraints that model files keep.
_MASKS = ("edge", "start", "end", "label")
# Below this many feature values, threads of BLAS wait for each other longer than they work.
_SMALL_PRODUCT = 1_000_000


def _check_solver(solver: object, name: str) -> None:
    from kernelfields.solvers.choice import check_solver

    check_solver(solver)


@declares_parameters
class FieldParameters(StoredEstimator):
    """The parameters that every field has, and estimators that are made of one."""

    rank: int | str | None = parameter("auto", or_auto(count_or_none))
    basis: BasisLike = parameter("random-cholesky")
    scale: bool | str = parameter("auto", one_of("auto", True, False))
    tol: float | str = parameter("auto", or_auto(lambda value, name: check_tolerance(value)))
    max_iter: int = parameter(1000, check_count)
    dtype: object = parameter("auto", lambda value, name: resolve_dtype(value))
    n_jobs: int | None = parameter(None)
    random_state: Seed = parameter(None)
    verbose: int = parameter(0)

    def _check_parameters(self) -> None:
        """Raise if a parameter cannot be used, before any work starts."""
        check_declared(self)

    @property
    def _tolerance(self) -> float:
        """The relative gap at which a fit ends, at the latest where ``tol`` is "auto"."""
        from kernelfields.models.partial import USUAL_TOLERANCE

        return USUAL_TOLERANCE if isinstance(self.tol, str) else self.tol

    def _training_labels(self, y: Any, *, warn: bool = False) -> Any:
        """Return labels of training data as the fit takes them; ``warn`` of what is not as it was given."""
        return y

    def _position_labels(self, y: Any) -> Any:
        """Return the labels of all positions, however they are written."""
        return y

    @property
    def _most_rank(self) -> int | None:
        """The most basis functions there can be; None for no limit."""
        return USUAL_RANK if isinstance(self.rank, str) else self.rank


@declares_parameters
class FieldEstimator(FieldParameters, LabelQuestions[Data], Generic[Data, Reader], metaclass=ABCMeta):
    """A field as a scikit-learn estimator; see the module for the hooks of those that derive from it."""

    #: How data are read, and the kind of the family of labellings.
    _reads: ClassVar[type[ChainReader | GraphReader | TableReader]]
    _family_kind: ClassVar[str]

    classes_: np.ndarray = attribute()
    n_features_in_: int = attribute()
    field_: Field = attribute()
    solution_: Solution = attribute()
    inference_: FittedBy | None = attribute()
    laplace_: LaplaceSamples = attribute()
    continuation_: Continuation = attribute()
    evidence_path_: EvidencePath | None = attribute()
    #: Log-likelihoods of the development set after each iteration, None without one; not kept in files.
    dev_log_likelihoods_: np.ndarray | None = attribute()
    choices_: Choices = attribute()
    feature_names_in_: np.ndarray = attribute()
    _reader: Reader = attribute()
    _certificates: tuple[Certificate, Certificate] | None = attribute()
    #: Columns of probabilities that repeat the labels of the fit; not kept in files.
    _repeated: RepeatedLabels | None = attribute()
    #: What items of the fit are recognised by; None where they were elsewhere.
    _fitted_items: Fingerprint | None = attribute()

    # Parameters of those estimators that have them.
    kernel: Any = attribute()
    prior_variance: Any = attribute()
    engine: Any = attribute()
    solver: object = attribute()
    callbacks: Any = attribute()
    class_weight: Any = attribute()
    inference: object = attribute()
    #: How labels are chosen by default, and how a fit treats labels that are partly known.
    decode: str = attribute()
    partial_labels: PartialLabels | None = attribute()

    # ---- hooks

    @abstractmethod
    def _learn(
        self, X: object, y: object, sample_weight: object, part_of: tuple[Reader, np.ndarray] | None = None
    ) -> tuple[Reader, Data, np.ndarray]:
        """Return reader, labelled data and sorted classes; ``part_of`` are reader and classes of data around these."""

    @abstractmethod
    def _read(self, X: object, y: object = None, sample_weight: object = None) -> Data:
        """Return new data like those of the fit, labelled if y is given."""

    def _read_fitted(self, X: object, y: object, sample_weight: object) -> Data:
        """Return the data of the fit once more, labelled and weighted as they were in it."""
        return weigh_classes(self._read(X, y, sample_weight), self.classes_, self.class_weight)

    def _learn_again(
        self, X: object, y: object, sample_weight: object, part_of: tuple[Reader, np.ndarray] | None = None
    ) -> tuple[Reader, Data, np.ndarray]:
        """Return what :meth:`_learn` does for a fit that goes on: data as the present reader reads them."""
        return self._reader, self._read_fitted(X, y, sample_weight), self.classes_

    def _family_spec(self, classes: np.ndarray, data: Data) -> FamilySpec:
        """Return what decides the family of labellings: which labels meet, and what they may be."""
        from kernelfields.inference.choice import FamilySpec

        return FamilySpec(self._family_kind, len(classes))

    @abstractmethod
    def _cliques(self, training: Training[Data, Reader]) -> NamedCliques:
        """Return the named clique sets of the field."""

    def _designs(self, training: Training[Data, Reader], sample: Sample) -> Start:
        """Return the terms of the field on the sample, and the coefficients to start from, None for zero."""
        from kernelfields.models.build import build_designs, continued_designs, tied_cliques

        if self._ties is not None:
            columns = training.reader.tied_columns
            training.cliques = tied_cliques(training.cliques, self._ties, training.classes, columns)
        if self._continues:
            designs = continued_designs(training.cliques, self.field_.terms, sample)
            return self._optimized(training, sample, designs, [term.known for term in self.field_.terms])
        designs = build_designs(training.cliques, sample, training.options.random, training.announce)
        return self._optimized(training, sample, designs, training.start_for(designs))

    def _term_variances(self, training: Training[Data, Reader]) -> list[float]:
        """Return the prior variance of each term, in the order of ``_designs``."""
        return [clique.prior_variance for _, clique in self._cliques(training)]

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._partial_settings()
        if self._ties is not None:
            read_ties(self._ties)

    @property
    def _ties(self) -> object:
        """Which labels share weights; None for none, and for estimators without such a parameter."""
        return self.__dict__.get("ties")

    def _partial_settings(self) -> PartialLabels:
        """Return how to fit to labels that are partly known; raise if the settings cannot be used."""
        from kernelfields.models.partial import resolve_partial_labels

        return resolve_partial_labels(getattr(self, "partial_labels", None))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

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
        from kernelfields.inference.family import warn_of_inference
        from kernelfields.models.fit import fit_field, warn_of_fit
        from kernelfields.posterior.evidence.settings import resolve_search

        self._check_parameters()
        search = None if optimize is None else resolve_search(optimize)
        if search is not None:
            if self._ties is not None:
                raise ValueError("optimize moves kernels and pivots of labels that share no weights: leave out ties")
            self._partial_settings().refuse_unlabelled("optimize", "choose prior variances by cross-validation")
        with self._checkpoints() as checkpoints, self._progress() as progress:
            training = self._training(X, y, sample_weight, progress)
            training.optimize = search

            def keep(present: Callable[[], FittedField]) -> None:
                for checkpoint in checkpoints:
                    checkpoint.keep(lambda: copy.copy(self)._set_fitted(training, present()))

            keeper: FieldKeeper | None = keep if checkpoints else None
            with blas_threads(self._blas_limit(training.data.n_positions)):
                training.held_out = held_out
                settled = self._settled(training)
                training.cliques = settled._cliques(training)
                beside = self._place_development(training)
                sample = training.place(training.data, training.cliques, beside)
                designs, start = settled._designs(training, sample)
                options = self._final_options(training, designs)
                fitted = fit_field(designs, sample, options, start=start, development=training.development, keep=keeper)
            self._set_fitted(training, fitted)
        warn_of_fit(fitted, self._tolerance, stacklevel=3)
        warn_of_inference(fitted.warnings, stacklevel=4)
        return self

    @contextmanager
    def _checkpoints(self) -> Iterator[list[Checkpoint]]:
        """Begin the checkpoints among the callbacks; each of them writes the model when a fit has ended."""
        from kernelfields.models.callbacks import Checkpoint

        checkpoints = [watcher for watcher in check_callbacks(self.callbacks) if isinstance(watcher, Checkpoint)]
        for checkpoint in checkpoints:
            checkpoint.begin()
        yield checkpoints
        for checkpoint in checkpoints:
            checkpoint.end(self)

    def _training(
        self,
        X: object,
        y: object,
        sample_weight: object,
        progress: FitProgress | NoProgress,
        part_of: tuple[Reader, np.ndarray] | None = None,
    ) -> Training[Data, Reader]:
        """Return what a fit works on: the data as they are read and scaled, where they go, and how they are fitted."""
        from kernelfields.estimators.auto_parameters import Training

        random = random_generator(self.random_state)
        if is_collection(X) or is_collection(y):
            reader, data, classes = self._learn_collection(X, y, sample_weight)
        else:
            learn = self._learn_again if self._continues and part_of is None else self._learn
            reader, data, classes = learn(X, y, sample_weight, part_of)
        spec, engine = self._family_spec(classes, data), self._engine(data)
        partial = self._partial_settings()
        criteria = partial.criteria(data, reader, classes)
        scaling: Reader | None = None
        if self._scales(data):
            # A fit that continues keeps the scale of its basis, which the reader has applied already.
            if not self._continues:
                scaling = reader.scaling_columns(data, self.scale is True)  # type: ignore[arg-type, assignment, type-var]
                if scaling is not None and self._ties is not None:
                    scaling = scaling.scaling_alike(self._ties)  # type: ignore[assignment]
        else:
            self._warn_of_uneven_columns(data)
        options = replace(self._fit_options(data, progress, random), partial=partial, criteria=criteria)
        settings = self._sample_settings()
        training = Training(reader, data, classes, spec, engine, options, progress.announce, settings, scaling=scaling)
        if self.scale is True:
            training.scale_columns(True)
        return training

    def _learn_collection(self, X: object, y: object, sample_weight: object) -> tuple[Reader, Data, np.ndarray]:
        """Return what :meth:`_learn` does, of Dask collections: data in shards, which have what a fit uses of data."""
        refuse_elsewhere(self.__dict__.get("allowed"))
        from kernelfields.engines.dask.data import read_collection
        from kernelfields.engines.dask.engine import connected_client

        client = connected_client(getattr(self.engine, "client", None))
        return read_collection(client, self._travelling(), X, y, sample_weight)  # type: ignore[return-value]

    def _count_labels(self, y: Any, lengths: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the sorted labels that y names, however many, and what the positions of each weigh."""
        y = self._position_labels(self._training_labels(y, warn=True))
        named: Any = self._partial_settings().classes
        if named is None:
            # Given as known, so that a part of the data may hold one class only.
            named = seen_labels(y, lengths, self._nouns)
        labels, evidence, classes = read_labels(y, named if len(named) else None, lengths, self._nouns)
        rows = np.repeat(weights, lengths)
        if evidence is not None:
            return classes, rows @ label_shares(evidence)
        return classes, np.bincount(labels, rows, minlength=len(classes))

    def _reading(self, reader: Reader, classes: np.ndarray, spec: FamilySpec) -> Self:
        """Return a copy that reads data as those of a fit that is not over yet."""
        from kernelfields.models.field import Field

        reading = copy.copy(self)
        reading._reader, reading.classes_, reading.n_features_in_ = reader, classes, reader.n_features
        if reader.names is not None:
            reading.feature_names_in_ = np.array(reader.names, dtype=object)
        reading.field_ = Field([], spec)
        return reading

    def _read_part(self, X: object, y: object, reader: Reader, classes: np.ndarray, class_weight: Any) -> Data:
        """Return a part of the data of a fit, as a reader of all of them reads it."""
        reading = self._reading(reader, classes, self._spec_of_all(classes))
        reading.class_weight = class_weight
        return reading._read_fitted(X, y, None)

    def _spec_of_all(self, classes: np.ndarray) -> FamilySpec:
        """Return the family of data that are elsewhere; ValueError where it depends on them."""
        return self._family_spec(classes, None)  # type: ignore[arg-type]

    def _fit_options(self, data: Data, progress: FitProgress | NoProgress, random: np.random.Generator) -> FitOptions:
        """Return how data are fitted: the solver, when it ends, and who sees its iterations."""
        from kernelfields.models.fit import FitOptions
        from kernelfields.models.partial import NATS_PER_POSITION

        enough = 0.0
        if isinstance(self.tol, str):
            weights = getattr(data, "position_weights", None)
            enough = NATS_PER_POSITION * float(data.n_positions if weights is None else weights.sum())
        watch = self._watcher(progress)
        return FitOptions(self.solver, self._tolerance, self.max_iter, watch, random, progress.announce, enough=enough)

    # ---- what a search by cross-validation needs, see selection/

    def _item_labels(self, training: Training[Data, Reader], y: object) -> list[np.ndarray]:
        """Return the numbers of the labels that are known of each sequence, graph or instance, to spread over folds."""
        data = training.data
        labels = data.split(data.required_labels)
        if not isinstance(data.evidence, np.ndarray):  # every label is known, or is the most probable one of its target
            return labels
        decided = data.split((data.evidence > -np.inf).sum(axis=1) == 1)
        return [own[known] for own, known in zip(labels, decided, strict=True)]

    def _approximate_method(self, training: Training[Data, Reader]) -> str | None:
        """Return the method by which labels are inferred if it is approximate; None if exact, or not known yet."""
        return None

    def _watcher(self, progress: FitProgress | NoProgress) -> Callable[[Iteration], bool]:
        """Return a function that shows every iteration to the callbacks and to what shows progress."""
        watchers = [*check_callbacks(self.callbacks), progress]
        # A list, not a generator: every watcher sees every iteration, whatever the others return.
        return lambda iteration: True in [watcher(iteration) for watcher in watchers]

    # ---- what is left to the data, see auto_parameters.py

    @property
    def _learns_in_pilot(self) -> bool:
        """Whether there is more to learn from a pilot fit than the kernel and the prior variance."""
        return False

    @property
    def _continues(self) -> bool:
        """Whether a fit goes on from the present coefficients."""
        return False

    @property
    def _first_variance(self) -> float:
        """The prior variance of clique sets that have none of their own: that of the kernel, or of its first part."""
        from kernelfields.models.pilot_fit import FALLBACK

        variances = FALLBACK if is_auto(self.prior_variance) else self.prior_variance
        return variances[0] if isinstance(variances, list | tuple) else variances

    def _scales(self, data: Data) -> bool:
        """Whether columns are brought to one scale, always or where they need it; not where data lie on a cluster."""
        from kernelfields.kernels.registry import has_no_scale

        if not hasattr(data, "inputs"):
            if self.scale is True:
                raise ValueError("scale=True is for data of this process: scale the partitions of a collection before")
            return False
        return has_no_scale(self.kernel) if is_auto(self.scale) else bool(self.scale)

    def _warn_of_uneven_columns(self, data: Data) -> None:
        """Warn where one column drowns the others in the distances of a kernel whose scale the user has chosen."""
        from kernelfields.data.scaling import uneven_spreads
        from kernelfields.kernels.registry import has_one_scale

        if not is_auto(self.scale) or not has_one_scale(self.kernel) or not hasattr(data, "inputs"):
            return
        uneven = uneven_spreads(data.inputs, data.position_weights[: data.inputs.shape[0]])
        if uneven is not None:
            warnings.warn(
                f"columns have very different spreads, {uneven[0]:.3g} is usual and {uneven[1]:.3g} the largest, and "
                f"{self.kernel!r} takes a difference of one to mean as much in each: scale=True brings them to one "
                "scale, scale=False confirms that this is meant",
                stacklevel=5,
            )

    def _find_repeated_labels(self, training: Training[Data, Reader]) -> RepeatedLabels | None:
        """Return columns that are probabilities and repeat the labels, where held-out labels are certain."""
        from kernelfields.features.leakage import columns_that_repeat

        scores = [trial.score for trial in training.choices.trials if trial.measure == "log-likelihood"]
        labels = getattr(training.data, "certain_labels", None)
        # Of several labels there are probabilities of each one: their columns have no sum to recognise them by.
        if not scores or max(scores) < -_CERTAIN or labels is None or labels.ndim != 1:
            return None
        return columns_that_repeat(training.reader.as_given(training.data.inputs), labels, len(training.classes))

    @staticmethod
    def _warn_of_repeated_labels(repeated: RepeatedLabels | None, reader: Reader, data: Data) -> None:
        """Warn where probabilities repeated the labels of the fit, and those of new data are less certain."""
        if repeated is None or not hasattr(data, "inputs"):
            return
        doubt = repeated.larger_doubt(reader.as_given(data.inputs))
        if doubt is not None:
            warnings.warn(
                f"columns {repeated.first} to {repeated.last - 1} are probabilities that repeat the labels of the fit, "
                f"with a mean of {1.0 - repeated.doubt:.3f} for the likeliest, and {1.0 - doubt:.3f} in these data: if "
                "a classifier made them for data that it was fitted to, the field trusts it far too much; "
                "OutOfFold(classifier) makes them from the other folds",
                stacklevel=4,
            )

    def _settled(self, training: Training[Data, Reader]) -> Self:
        """Return a copy in which what was left to the data is settled, and settle the scale of the data."""
        from kernelfields.estimators.auto_parameters import input_candidates
        from kernelfields.models.pilot_fit import FALLBACK, Choices, split

        settled = copy.copy(self)
        # What is taken where the data are too few to judge by.
        fallbacks = {"prior_variance": FALLBACK, "rank": USUAL_RANK, "support": "all", "l1": 0.0}
        left = [name for name in ("kernel", *fallbacks) if is_auto(getattr(self, name, None))]
        if self._continues:
            clique = next(term.clique for term in self.field_.terms if term.clique.kernel is not None)
            settled._take({name: getattr(clique, name) for name in left})
            training.choices = self.choices_
            return settled
        described = not self._names_cliques() and training.optimize is None
        path = described and "prior_variance" in left
        inputs = input_candidates(training, "kernel" in left, self._ties is not None)
        settled._take({name: fallbacks[name] for name in left if name in fallbacks} | inputs[0])
        if not described:
            inputs = input_candidates(training, False)
        choices = Choices(inputs[0] | ({"prior_variance": FALLBACK} if path else {}))
        wanted = path or len(inputs) > 1 or (described and self._learns_in_pilot)
        if wanted and (parts := split(training.data)) is not None:
            names = [*(inputs[0] if len(inputs) > 1 else ()), *(["prior_variance"] if path else ())]
            what = " and ".join(f"the {name.replace('_', ' ')}" for name in names) or "a threshold"
            training.announce(f"choosing {what} on a part of the data")
            first, *changes = (self._weight_candidates(training) if path else []) or [{}]
            inputs = [{**each, **first} for each in inputs]
            choices = settled._choose_by_pilot_fits(training, parts, inputs, path, changes, "rank" in left)
        settled._take(choices.chosen)
        training.choices = choices
        training.repeated = self._find_repeated_labels(training)
        training.scale_columns(bool(choices.chosen.get("scale")))
        return settled

    def _take(self, settings: Settings) -> None:
        """Take the values of parameters; what is no parameter, as the scale of the data, is elsewhere."""
        for name in settings.keys() & set(self._get_param_names()) - {"scale"}:
            setattr(self, name, settings[name])

    def _choose_by_pilot_fits(
        self,
        training: Training[Data, Reader],
        parts: Parts,
        inputs: Sequence[Settings],
        path: bool,
        changes: Sequence[Settings],
        rank_left: bool,
    ) -> Choices:
        """Return the settings under which held-out data are most likely, and all that were tried."""
        from kernelfields.estimators.auto_parameters import NoProgress, suits_windows, sums_of_kernels, windowed
        from kernelfields.features.window_features import WIDTHS
        from kernelfields.models.field import Field
        from kernelfields.models.pilot_fit import MOST_RANK, PILOT_RANK, Choices, Pilot, Stage

        scene = replace(training, announce=NoProgress().announce, development=None)
        scene.spec = self._for_pilot()._family_spec(training.classes, training.data)

        def stage_of(settings: Settings) -> Stage:
            piloted = self._for_pilot()
            piloted._take(settings)
            piloted.rank = settings.get(PILOT_RANK, piloted.rank)
            own = replace(scene, options=replace(training.options, random=np.random.default_rng(0)))
            own.cliques = piloted._cliques(own)
            scale = bool(settings.get("scale"))
            train, held_out = windowed(parts, scale) if "windows" in settings else own.on_scale(parts, scale)
            sample, beside = own.place(train, own.cliques), own.place(held_out, own.cliques, solved=False)

            def variances_of(variance: float) -> list[float]:
                varied = copy.copy(piloted)
                varied.prior_variance = variance
                return varied._term_variances(own)

            return Stage.build(sample, beside, piloted._designs(own, sample)[0], variances_of)

        pilot = Pilot(stage_of, parts[1].n_positions, training.announce)
        ranked = pilot.ranked(inputs, path)
        best = pilot.improved(pilot.improved(ranked[0], sums_of_kernels(ranked)), changes)
        training.piloted = pilot.terms(best)
        field, chosen = Field(training.piloted, scene.spec), dict(best)
        ranks = [term.subspace.rank for term in field.terms if term.has_pivots]
        usual = self.basis == "random-cholesky" and training.data.n_positions > 2 * USUAL_RANK
        if rank_left and usual and ranks:
            full = max(ranks) == MOST_RANK and pilot.gains({**best, PILOT_RANK: MOST_RANK // 2}, best)
            chosen["rank"] = USUAL_RANK if full else MOST_RANK
        held_out = training.on_scale(parts, bool(best.get("scale")))[1]
        learnt = self._learn_from_pilot(training, field, held_out)  # type: ignore[arg-type]
        advice = ""
        if "kernel" in best and suits_windows(parts) and self.__dict__.get("window", 1) == 1:
            around = {**best, "windows": ", ".join(map(str, WIDTHS))}
            if pilot.gains(best, around):
                gain = pilot.loss(best) - pilot.loss(around)
                advice = (
                    f"a pilot fit with WindowFeatures() in front has {gain:.4f} more: put it into a Pipeline before "
                    f"{type(self).__name__}"
                )
                training.announce(advice)
        return Choices(chosen | learnt.chosen, (*pilot.trials, *learnt.trials), advice)

    def _weight_candidates(self, training: Training[Data, Reader]) -> list[Settings]:
        """Return what may be chosen about the weights of features: first what the other choices are made with."""
        return []

    def _names_cliques(self) -> bool:
        """Whether clique sets describe the field, so that kernel and prior variance are not used."""
        return False

    def _for_pilot(self) -> Self:
        """Return a copy for short fits on a part of the data."""
        from kernelfields.models.pilot_fit import MOST_RANK

        piloted = copy.copy(self)
        piloted.rank = min(self._most_rank or MOST_RANK, MOST_RANK)
        piloted.basis = "random-cholesky"
        return piloted

    def _learn_from_pilot(self, training: Training[Data, Reader], field: Field, held_out: Data) -> Choices:
        """Return what else is chosen by what a field, fitted to a part of the data, predicts for a part held out."""
        from kernelfields.models.pilot_fit import Choices

        return Choices()

    @property
    def scale_(self) -> bool:
        """Whether columns of the inputs were brought to one scale."""
        check_is_fitted(self, "field_")
        return self._reader.is_scaled

    @property
    def prior_variance_(self) -> float:
        """The prior variance of the functions of the inputs, the first of them where there are several."""
        check_is_fitted(self, "field_")
        return next(term for term in self.field_.terms if term.clique.kernel is not None).prior_variance

    def _final_options(self, training: Training[Data, Reader], designs: Sequence[Design]) -> FitOptions:
        """Return the options of the fit once its terms are known."""
        return training.options

    def _held_out_data(self, training: Training[Data, Reader]) -> Data | None:
        """Return the development set, read as the data of the fit were; None if there is none."""
        X, y = training.held_out
        if (X is None) != (y is None):
            raise ValueError("a development set needs both X_dev and y_dev")
        if X is None:
            return None
        try:
            return self._read_beside(training, X, self._training_labels(y))
        except ValueError as error:
            raise ValueError(f"development set: {error}") from error

    def _read_beside(self, training: Training[Data, Reader], X: object, y: object) -> Data:
        """Return labelled data beside those of a fit that is not over yet."""
        return self._reading(training.reader, training.classes, training.spec)._read(X, y)

    def _place_development(self, training: Training[Data, Reader]) -> int:
        """Put a development set beside the training data, if there is one; return its number of positions."""
        from kernelfields.models.callbacks import patience_of
        from kernelfields.models.fit import DevelopmentSet

        data = self._held_out_data(training)
        if data is None:
            return 0
        self._warn_of_repeated_labels(training.repeated, training.reader, data)
        sample = training.place(data, training.cliques, training.data.n_positions, solved=False)
        training.development = DevelopmentSet(sample, patience_of(check_callbacks(self.callbacks)))
        return data.n_positions

    def _progress(self) -> FitProgress | NoProgress:
        """Return a context that shows the progress of a fit if ``verbose``."""
        from kernelfields.estimators.auto_parameters import NoProgress

        if not self.verbose:
            return NoProgress()
        from kernelfields.reports.progress import FitProgress

        return FitProgress(self.verbose, max_iter=self.max_iter)

    def _n_values(self, data: Data) -> int:
        """Return about how many values the features of data have, where these may be anywhere."""
        from kernelfields.estimators.auto_parameters import stays_sparse

        if not self._runs_anywhere() or stays_sparse(self.kernel, data):
            return 0
        return data.n_positions * min(self._most_rank or data.n_positions, data.n_positions)

    def _runs_anywhere(self) -> bool:
        """Whether every engine can fit such a field; for those of threads alone, "auto" considers no other."""
        return False

    def _engine(self, data: Data) -> Engine:
        """Return where a fit on such data runs; raise if it cannot run there."""
        local = self._partial_settings().ask_of_unlabelled
        return resolve_engine(self.engine, n_values=0 if local else self._n_values(data), data=data)

    def _travelling(self) -> Self:
        model = copy.copy(self)
        model.callbacks, model.engine, model.n_jobs = None, "threads", 1
        return model

    def _sample_settings(self, n_terms: int = 1) -> SampleSettings:
        from kernelfields.engines.engine import SampleSettings

        return SampleSettings(resolve_dtype(self.dtype), self._tolerance, Workers(self.n_jobs), n_terms)

    def _blas_limit(self, n_positions: int) -> int | None:
        """Return how many threads BLAS may use: ``n_jobs``; by default one for small products, else any number."""
        if self.n_jobs is not None:
            return Workers(self.n_jobs).n_threads
        small = n_positions * min(self._most_rank or n_positions, n_positions) < _SMALL_PRODUCT
        return 1 if small else None

    def _optimized(
        self, training: Training[Data, Reader], sample: Sample, designs: list[Design], start: list[np.ndarray] | None
    ) -> Start:
        """Return the designs of the largest evidence and where to start in them, if the fit optimizes it."""
        if training.optimize is None:
            return designs, start
        if start is not None:
            raise ValueError(
                "optimize chooses a field afresh, and warm_start=True continues the fitted one; leave out one"
            )
        from kernelfields.posterior.evidence.search import maximise_evidence

        random = training.options.random
        chosen = maximise_evidence(training.optimize, designs, sample, random=random, announce=training.announce)
        training.evidence_path = chosen.path
        return list(chosen.designs), chosen.start

    def _set_fitted(self, training: Training[Data, Reader], fitted: FittedField) -> Self:
        """Take what a fit has found for the fitted attributes."""
        from kernelfields.models.field import Field
        from kernelfields.models.fit import FittedBy

        certificates = (fitted.span, fitted.rkhs) if fitted.family.exact else None
        field, inference = Field(fitted.terms, training.spec), FittedBy.of(fitted.family)
        self.evidence_path_, self.choices_ = training.evidence_path, training.choices
        self._repeated = training.repeated
        self._fitted_items = fingerprint(training.data) if isinstance(training.data, Packed) else None
        development = training.development
        self.dev_log_likelihoods_ = None if development is None else np.array(development.scores)
        for later in ("laplace_", "continuation_"):
            self.__dict__.pop(later, None)
        return self._set_field(training.reader, training.classes, field, inference, fitted.solution, certificates)

    def _set_field(
        self,
        reader: Reader,
        classes: np.ndarray,
        field: Field,
        inference: FittedBy | None,
        solution: Solution,
        certificates: tuple[Certificate, Certificate] | None,
    ) -> Self:
        """Set the fitted attributes of a field that was fitted or read from a file."""
        self._reader, self.classes_, self.n_features_in_ = reader, classes, reader.n_features
        self.__dict__.pop("feature_names_in_", None)
        if reader.names is not None:
            self.feature_names_in_ = np.array(reader.names, dtype=object)
        self.field_, self.inference_, self.solution_ = field, inference, solution
        self._certificates = certificates
        self._set_views()
        return self

    # ---- answers

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "field_")

    @property
    def _single(self) -> bool:
        return self.field_.spec.kind == "single"

    def _field(self) -> Field:
        """Return the fitted field, inferred by the present ``inference``, which may change after a fit."""
        check_is_fitted(self, "field_")
        if "inference" not in self.__dict__:
            return self.field_
        return replace(self.field_, spec=replace(self.field_.spec, method=self.inference))

    def _share_of_fit(self, X: object) -> float:
        items = self.__dict__.get("_fitted_items")
        return 0.0 if items is None or self._reader.is_empty(X) else items.share(self._read(X))

    def _answers(self, X: object, y: object = None, known: object = None) -> Iterator[Answers]:
        field, workers = self._field(), Workers(self.n_jobs)
        if self._reader.is_empty(X) and (y is None or is_empty(y)):
            return
        data = self._read(X, y)
        self._warn_of_repeated_labels(self.__dict__.get("_repeated"), self._reader, data)
        evidence = None if known is None else self._known_evidence(known, data)
        place = scoring_engine(self.engine, n_values=self._n_values(data), data=data)
        begin = 0
        for batch in field.batches(data):
            end = begin + batch.n_positions
            yield field.answers(batch, workers, place).given(None if evidence is None else evidence[begin:end])
            begin = end

    @answers_collections
    def predict(self, X: object, decode: str | None = None, *, known: object = None) -> ByItem:
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
        self._asked_jointly(decode)
        labels = self._label_names()
        return self._presented(
            (answers.asked, labels[self._predicted_numbers(answers, decode)])
            for answers in self._answers(X, known=known)
        )

    def _asked_jointly(self, decode: str | None) -> bool:
        """Whether ``decode``, None for that of the estimator, means the best labelling as a whole."""
        check_is_fitted(self, "field_")
        chosen = getattr(self, "decode", "auto") if decode is None else decode
        check_choice(chosen, "decode", DECODINGS)
        return self._decodes_jointly() if is_auto(chosen) else chosen == "viterbi"

    def _decodes_jointly(self) -> bool:
        """Whether decode="auto" means the best labelling as a whole."""
        return False

    @answers_collections
    def predict_marginals(
        self, X: object, cliques: str | None = None, *, uncertainty: bool = False, known: object = None
    ) -> ByItem:
        """Return p(y_t | x) of each sequence or graph as (T, L) arrays, columns as in ``classes_``.

        Parameters
        ----------
        X : inputs, in a form that :meth:`fit` takes
        cliques : the name of a kind of cliques, or None
            Also return the joint marginals of their labels, (m, L, .., L) for each item: a tuple of two lists. "edge"
            are neighbouring labels of sequences; those of graphs are called as the types of their edges. Of n-grams
            that are listed because they were seen in training, (m, n-grams), in the order of ``coef_``.
        uncertainty : bool, default False
            After :meth:`laplace`, allow for doubt about the coefficients: log-odds shrink by their variance in the
            posterior around the fit, and the most probable labels stay (the probit correction).
        known : as in :meth:`predict`
        """
        check_is_fitted(self, "field_")
        if not isinstance(uncertainty, bool | np.bool_):
            raise ValueError(f"uncertainty must be True or False, got {uncertainty!r}")
        if uncertainty and cliques is not None:
            raise ValueError(
                "uncertainty=True is a correction of the marginals of single labels: ask for cliques without it"
            )
        nodes: list[tuple[Data, np.ndarray]] = []
        joints: list[np.ndarray] = []
        for answers in self._answers(X, known=known):
            nodes.append((answers.asked, self._doubting(answers) if uncertainty else answers.marginals))
            if cliques is not None:
                joints += answers.clique_marginals(cliques)
        marginals = self._presented(nodes)
        return marginals if cliques is None else (marginals, Ragged(joints))

    def _doubting(self, answers: Answers) -> np.ndarray:
        """Return marginals (n, L) that allow for doubt about the coefficients."""
        from kernelfields.posterior.laplace.samples import doubting_marginals

        return doubting_marginals(self._field(), answers, self._drawn(), Workers(self.n_jobs))

    @answers_collections
    def predict_variances(self, X: object) -> ByItem:
        """Return the posterior variances of the potentials of single labels, (T, L) arrays, after :meth:`laplace`."""
        return self._presented(self._variances(X))

    def _variances(self, X: object) -> Iterator[tuple[Data, np.ndarray]]:
        """Yield batches with the posterior variances of the potentials of single labels."""
        from kernelfields.posterior.laplace.samples import label_variances

        field, samples = self._field(), self._drawn()
        for batch in field.batches(self._read(X)) if not self._reader.is_empty(X) else ():
            rows = (
                label_variances(field, batch.filled, samples)
                if batch.n_positions
                else np.zeros((0, field.spec.n_labels))
            )
            yield batch, rows  # type: ignore[misc]  # batches of the same kind

    # ---- inspection

    def _feature_names(self, term: Term, given: object) -> Sequence[str]:
        """Return the names of the input columns that a term sees: those given, those of the fit, or "x0", "x1", .."""
        from kernelfields.estimators.inspecting.explanations import input_names

        return input_names(self._reader.names, self._reader.n_features, given)

    def weights(
        self,
        top: int | tuple[int, int] | None = 20,
        labels: Sequence[object] | None = None,
        feature_re: str | re.Pattern[str] | None = None,
        *,
        feature_names: object = None,
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
        explicit features, such as RBF, have no weights per feature, but a note. Transitions that depend on the
        inputs have one list for all pairs of labels. Weights are relative: adding a number to those of one feature for
        all labels changes no probability, so compare the labels of a feature. Where columns were brought to one scale,
        weights are those of the scaled columns.
        """
        from kernelfields.estimators.inspecting.weights import tabulate_weights

        field = self._field()
        classes, names_of = self.classes_.tolist(), lambda term: self._feature_names(term, feature_names)
        return tabulate_weights(field.terms, field.spec, classes, names_of, top, labels, feature_re)

    def _one_item(self, x: object, y: object, caller: str) -> Data:
        """Return one sequence, graph or instance as data, labelled if y is given."""
        from kernelfields.estimators.inspecting.explanations import check_one_sequence, one_row

        if isinstance(self._reader, TableReader):
            data = self._read(one_row(x), None if y is None else np.atleast_1d(np.asarray(y)))
            if len(data.lengths) != 1:
                raise ValueError(
                    f"{caller} takes one {self._places[0]}, got {len(data.lengths)}: pass one, such as X[:1]"
                )
            return data
        check_one_sequence(x, caller)
        data = self._read([x], None if y is None else [y])
        if not data.n_positions:
            raise ValueError(f"{caller} takes a {self._nouns.whole} with {self._nouns.part}s, got an empty one")
        return data

    def _predicted_numbers(self, answers: Answers, decode: str | None = None) -> np.ndarray:
        return answers.best_labels() if self._asked_jointly(decode) else answers.likeliest_labels()

    def _step_words(self, group: str, nodes: list[int], place: int, compared: Compared) -> str:
        """Return how an explanation calls the other labels of a clique when the one at ``place`` is exchanged."""
        from kernelfields.inference.family import EDGE

        classes, labels = compared.classes, compared.labels
        names = [
            f"[{classes[labels[v]]}]" if index == place else f"{classes[labels[v]]}" for index, v in enumerate(nodes)
        ]
        if group == EDGE:
            return f"transition from {names[0]}" if place == 1 else f"transition to {names[1]}"
        if group.startswith("order"):
            return f"{len(nodes)}-gram {' '.join(names)}"
        return f"{names[1 - place]} {group.removeprefix('lag')} steps {'before' if place else 'after'}"

    def explain(
        self,
        x: object,
        y: object = None,
        top: int = 5,
        against: object = None,
        *,
        feature_names: object = None,
        tokens: Sequence[object] | None = None,
        positions: Sequence[int] | None = None,
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
        positions : the positions to explain, such as [3]; None for all
        neighbours : how many training inputs to list for each kernel without explicit features: the most similar
        training : the pair (X, y) of the fit, to list those that contributed most, with their places and labels
        pivots : list so many terms k(x, b) alpha_b of the kernel expansion instead; they may be large and cancel
        """
        from kernelfields.estimators.inspecting.explanations import (
            Compared,
            ExplanationSettings,
            checked_places,
            checked_tokens,
            explain_labels,
            likeliest_others,
        )

        field = self._field()
        inputs = None if training is None else self._training_inputs(training)
        settings = ExplanationSettings(top, pivots, neighbours, inputs)
        settings.check()
        data = self._one_item(x, y, "explain")
        answers, classes = field.answers(data, Workers(1)), self._label_names().tolist()
        labels = self._predicted_numbers(answers) if y is None else data.required_labels
        others = likeliest_others(answers.marginals, labels, classes, against)
        words = checked_tokens(tokens, len(labels), *self._places) if tokens is not None else self._usual_tokens()
        places = checked_places(positions, len(labels), self._places[1])
        compared = Compared(labels, others, classes, words, places, unordered=self._nouns.part == "node")
        return explain_labels(
            field.terms,
            answers,
            compared,
            lambda term: self._feature_names(term, feature_names),
            lambda group, nodes, place: self._step_words(group, nodes, place, compared),
            settings,
        )

    def _usual_tokens(self) -> list[str] | None:
        """Return what explanations show for each position by default."""
        return None

    def _training_inputs(self, training: object) -> TrainingInputs:
        from kernelfields.estimators.inspecting.explanations import TrainingInputs

        if not isinstance(training, tuple | list) or len(training) not in (2, 3):
            raise ValueError("training must be the pair (X, y) that the model was fitted to, and weights if it had any")
        data = self._read_fitted(*training, *([None] * (3 - len(training))))
        return TrainingInputs(self._field(), data, self.classes_.tolist(), Workers(self.n_jobs))

    def summary(self) -> ModelSummary:
        """Return the fitted field at a glance, to be printed, shown by a notebook or put on a page of a report."""
        from kernelfields.estimators.inspecting.weights import changed_parameters, summarise_term
        from kernelfields.reports.inspection import ModelSummary

        field = self._field()
        forbidden = np.isneginf(field.spec.step_penalties)
        return ModelSummary(
            name=type(self).__name__,
            labels=tuple(self._label_names().tolist()),
            n_features=self._reader.n_features,
            sets=tuple(summarise_term(term, self._nouns.part) for term in field.terms),
            solution=self.solution_,
            # The free bound over the RKHS proves nothing unless nearly all inputs are pivots.
            certificates=tuple(
                own for own in self._certificates or () if own.scope == "span" or own.relative_gap < 1.0
            ),
            tol=self._tolerance,
            choices=str(self.choices_).splitlines() if self.choices_.chosen else (),
            parameters=changed_parameters(self),
            transitions=self._shown_transitions(),
            forbidden=forbidden if forbidden.any() else None,
        )

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
        self, x: object, y: Sequence | None = None, *, tokens: Sequence | None = None, caption: str = ""
    ) -> LabelledSequence | LabelledGraph:
        """Return one sequence as the field labels it, coloured, for a notebook or a page; without words a time line.

        Parameters
        ----------
        x : one sequence, in the form the model was fitted on
        y : its true labels, to mark those that are wrong; labels that were not in the fit are allowed
        tokens : what to show for each position, such as its word; None for a time line
        """
        from kernelfields.estimators.inspecting.explanations import check_one_sequence
        from kernelfields.reports.sequences import LabelledSequence

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
        """How far the fit can be from the best one in the whole RKHS; only for exact inference.

        It is exact for explicit features and ``basis="gradient"``. Else it is a bound that costs nothing, and its lower
        bound is zero unless nearly all inputs are pivots: :meth:`certify` is what to ask then.
        """
        return self._certified()[1]

    def _certified(self) -> tuple[Certificate, Certificate]:
        check_is_fitted(self, "field_")
        if self._certificates is None:
            method = None if self.inference_ is None else self.inference_.method
            raise AttributeError(f"no certificate: the labels were inferred by {method!r}, which is approximate")
        return self._certificates

    @property
    def stationarity_(self) -> float:
        """How flat the objective is at the fit: (s / 2) ||gradient||^2 over the value, summed over clique sets.

        Where labels are partly known the objective has several minima, and this measures whether one is reached.
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
        It is proved by the gradient at the fitted field alone; ``certificate_`` combines points and may be tighter.
        """
        fitted = self._field()
        self._partial_settings().refuse_unlabelled(
            "certify", "certificate_ and stationarity_ show how near the fit is to a minimum"
        )
        if scope not in ("rkhs", "span"):
            raise ValueError(f"scope must be 'rkhs' or 'span', got {scope!r}")
        data = self._read_fitted(X, y, sample_weight)
        place = scoring_engine(self.engine, n_values=self._n_values(data), data=data)
        with blas_threads(self._blas_limit(data.n_positions)):
            return fitted.certify(data, Workers(self.n_jobs), scope, place)

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
        random_state: Seed = None,
    ) -> Evidence:
        """Approximate the posterior on (X, y), the data of the fit, by a Gaussian; return the log evidence.

        Draws ``n_samples`` coefficients for variances and predictions with ``uncertainty``. method="exact" spells out
        the Hessian, "lanczos" works with ``steps`` of its products for each of ``probes`` estimates of the log
        determinant and for each sample, "auto" is exact for small fields. What the basis cannot express of an input
        keeps its prior variance, less the most that it leaves out of any training input. Warns where the posterior is
        no Gaussian around the mode.
        """
        from kernelfields.posterior.laplace.samples import draw_posterior

        for name, number in (("n_samples", n_samples), ("steps", steps), ("probes", probes)):
            check_count(number, name)
        terms = self._field().terms
        self._partial_settings().refuse_unlabelled("laplace", "fit without them for a posterior")
        data = self._read_fitted(X, y, sample_weight)
        settings = self._sample_settings(sum(not term.tied_everywhere for term in terms))
        sample = self._engine(data).place(data, self._field().spec, settings)
        with self._progress() as progress:
            self.laplace_ = draw_posterior(
                terms,
                sample,
                n_samples=n_samples,
                method=method,
                steps=steps,
                probes=probes,
                random=random_generator(random_state),
                # After batches there are no data of the fit that could be compared.
                fitted_value=None if hasattr(self, "continuation_") else self.solution_.value,
                announce=progress.announce,
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

    # ---- files

    def to_document(self) -> Document:
        """Return the fitted estimator as plain values and arrays."""
        from kernelfields.models.documents import describe_parameters, describe_solution, describe_terms

        check_is_fitted(self, "field_")
        certificates = self._certificates
        document = {
            "parameters": describe_parameters(self),
            "classes": self._described_classes(),
            "inputs": self._reader.describe(),
            "structure": self._describe_spec(),
            **describe_terms(self.field_.terms),
            "solution": describe_solution(self.solution_),
            "certificates": None if certificates is None else [asdict(certificate) for certificate in certificates],
        }
        if self.inference_ is not None:
            document["fitted_by"] = asdict(self.inference_)
        for name in ("laplace", "continuation"):
            if hasattr(self, f"{name}_"):
                document[name] = getattr(self, f"{name}_").describe()
        if self.choices_.chosen:
            document["choices"] = self.choices_.describe()
        if (items := self.__dict__.get("_fitted_items")) is not None:
            document["fitted_items"] = items._asdict()
        if self.evidence_path_ is not None:
            document["evidence_path"] = [asdict(step) for step in self.evidence_path_.steps]
        return document

    @classmethod
    def from_document(cls, document: Document, callables: Functions | None = None) -> Self:
        """Return the estimator that was described; errors of any kind if it is not sound."""
        from kernelfields.models.continuation import Continuation
        from kernelfields.models.documents import (
            check_widths,
            rebuild_certificate,
            rebuild_estimator,
            rebuild_solution,
            rebuild_terms,
        )
        from kernelfields.models.field import Field
        from kernelfields.models.fit import FittedBy
        from kernelfields.models.pilot_fit import Choices
        from kernelfields.models.stored_values import record
        from kernelfields.posterior.evidence.settings import EvidencePath
        from kernelfields.posterior.laplace.samples import LaplaceSamples

        functions = callables or {}
        classes = cls._rebuilt_classes(document["classes"])
        reader = cls._rebuilt_reader(document["inputs"])
        spec = cls._rebuilt_spec(document["structure"], classes)
        terms = rebuild_terms(document, spec.n_labels, functions)
        check_widths(terms, reader.width)
        estimator = rebuild_estimator(cls, document["parameters"], functions)
        estimator._check_parameters()
        cls._check_terms(terms, reader, spec)
        fitted_by, certificates = document.get("fitted_by"), document["certificates"]
        inference = None if fitted_by is None else record(FittedBy, fitted_by, "how it was fitted")
        if certificates is not None:
            span, rkhs = map(rebuild_certificate, certificates)
            certificates = span, rkhs
        solution = rebuild_solution(document["solution"], terms)
        steps, estimator.choices_ = document.get("evidence_path"), Choices.rebuild(document.get("choices"))
        estimator.evidence_path_ = None if steps is None else EvidencePath.rebuild(steps)
        estimator.dev_log_likelihoods_ = None
        if "laplace" in document:
            estimator.laplace_ = LaplaceSamples.rebuild(document["laplace"], terms)
        if "continuation" in document:
            estimator.continuation_ = Continuation.rebuild(document["continuation"], terms)
        if "fitted_items" in document:
            estimator._fitted_items = Fingerprint.rebuild(document["fitted_items"])
        return estimator._set_field(reader, classes, Field(terms, spec), inference, solution, certificates)

    def _described_classes(self) -> np.ndarray | list:
        return self.classes_

    @classmethod
    def _rebuilt_classes(cls, described: ArrayLike) -> np.ndarray:
        from kernelfields.models.documents import checked_classes

        return checked_classes(described)

    @classmethod
    def _rebuilt_reader(cls, described: Document) -> Reader:
        """Return the reader that was described."""
        return cls._reads.rebuild(dict(described))  # type: ignore[return-value]  # class variables cannot be generic

    def _describe_spec(self) -> Document:
        """Return what is to be kept of which labels meet."""
        masks = self.field_.spec.masks
        return {} if masks is None else {"masks": {name: getattr(masks, name) for name in _MASKS}}

    @classmethod
    def _rebuilt_spec(cls, described: Document, classes: np.ndarray) -> FamilySpec:
        """Return what decides the family of labellings, as it was described."""
        from kernelfields.inference.choice import FamilySpec

        masks = None
        if "masks" in described:
            masks = ConstraintMasks(**described["masks"])
            masks.check(len(classes))
        return FamilySpec(cls._family_kind, len(classes), masks)

    @classmethod
    def _check_terms(cls, terms: Sequence[Term], reader: Reader, spec: FamilySpec) -> None:
        """Raise unless terms, inputs and labels fit together, so that a model that loads can predict."""


@declares_parameters
class LabelledField(FieldEstimator[Data, Reader]):
    """A field that is fitted to labels: what those of sequences, graphs, instances and single inputs share."""

    solver: object = parameter("auto", _check_solver)
    engine: EngineLike = parameter("auto")
    callbacks: Sequence[object] | None = parameter(None, lambda value, name: check_callbacks(value))
    class_weight: Mapping[object, float] | str | None = parameter(None, lambda value, name: check_class_weight(value))
    l1: Any = parameter(0.0, check_penalty)
    warm_start: bool = parameter(False)
    partial_labels: PartialLabels | None = parameter(None)

    def fit(
        self,
        X: object,
        y: object,
        sample_weight: ArrayLike | None = None,
        *,
        X_dev: object = None,
        y_dev: object = None,
        X_unlabelled: object = None,
        optimize: object = None,
    ) -> Self:
        """Fit the field to inputs X and labels y; Ctrl-C keeps the best estimate so far and warns.

        Parameters
        ----------
        X : list of sequences, list of graphs, or table (n, d) of single inputs, dense or sparse
            See the package's quickstart for the accepted forms. Dask collections of sequences are fitted where they
            are, see docs/dask.md.
        y : the labels of each position or node, of single inputs (n,), of several labels (n, K) of 0 and 1
            Segments may also be written as lists of (begin, end, label) for each sequence. Labels may be partly known:
            None, or sets of allowed ones (NaN among 0 and 1); SegmentCRF then needs ``max_duration``.
        sample_weight : one weight for each sequence, graph or single input
        X_dev, y_dev : a development set
            The fit stops when it has not improved for 5 iterations (EarlyStopping among the callbacks sets another
            number), and keeps what was best there.
        X_unlabelled : inputs without labels, for the entropies and expectations of ``partial_labels``
        optimize : "evidence", an EvidenceSearch or None, default None
            Chooses prior variances and kernel parameters by the evidence.
        """
        if X_unlabelled is not None:
            X, y, sample_weight = self._with_unlabelled(X, y, sample_weight, X_unlabelled)
        return self._fit(X, y, sample_weight, optimize=optimize, held_out=(X_dev, y_dev))

    def _with_unlabelled(self, X: Any, y: Any, sample_weight: Any, unlabelled: Any) -> tuple[Any, Any, Any]:
        """Return inputs, labels and weights, with others appended of which no label is known."""
        from kernelfields.models.partial import with_unlabelled

        return with_unlabelled(X, y, sample_weight, unlabelled)

    @property
    def _continues(self) -> bool:
        return bool(self.warm_start) and hasattr(self, "field_")

    def score(
        self, X: object, y: object, sample_weight: ArrayLike | None = None, *, decode: str | None = None
    ) -> float:
        """Return the share of positions whose label is the predicted one.

        ``sample_weight`` holds one weight for each sequence or graph. Labels that were never learnt are errors;
        positions whose label is not known do not count.
        """
        check_is_fitted(self, "field_")
        lengths = self._read(X).lengths
        return share_right(y, self.classes_, lengths, lambda: self.predict(X, decode), sample_weight, self._nouns)

    # ---- batches, see docs/partial_fit.md

    def partial_fit(
        self, X: object, y: Any, classes: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit one more batch of items, the posterior of those before as its prior; see docs/partial_fit.md.

        An error leaves the estimator as it was. A Checkpoint among the callbacks is written after each batch, the
        curvature included.
        """
        changed = copy.copy(self)
        with self._checkpoints():
            if not hasattr(self, "field_"):
                changed._fit_first_batch(X, y, sample_weight)
                if classes is not None:
                    changed._admit(changed._all_classes(y, classes))
            else:
                self._check_continues()
                changed._admit(self._all_classes(y, classes))
                changed._fit_next_batch(X, y, sample_weight)
            self.__dict__.update(changed.__dict__)
            self.__dict__.pop("laplace_", None)
        return self

    def _all_classes(self, y: Any, classes: ArrayLike | None) -> np.ndarray:
        """Return the classes so far, those of new labels and those that are named."""
        from kernelfields.models.continuation import all_classes

        return all_classes(self.classes_, self._position_labels(self._training_labels(y)), classes)

    def _described(self) -> dict[str, str]:
        """Return what must not change from batch to batch."""
        own = self.get_params(deep=False)
        described = {name: repr(value) for name, value in own.items() if name not in _MAY_CHANGE}
        if isinstance(allowed := own.get("allowed"), BaseEstimator):
            # scikit-learn shortens the representation of a dictionary of many words.
            described["allowed"] = f"{type(allowed).__name__}({allowed.get_params(deep=False)})"
        return described

    def _fit_first_batch(self, X: object, y: object, sample_weight: object) -> None:
        from kernelfields.models.continuation import Continuation

        self._check_parameters()
        if self._ties is not None:
            raise ValueError("partial_fit keeps the curvature of labels that share no weights: leave out ties")
        for name in ("prior_variance", "edge_prior_variance", "bias_prior_variance"):
            given = getattr(self, name, None)
            if np.inf in (given if isinstance(given, list | tuple) else [given]):
                raise ValueError(f"partial_fit needs a Gaussian prior: {name} is infinite")
        self._fit(X, y, sample_weight)
        known = Continuation.begin(self.field_.terms)
        data = self._read_fitted(X, y, sample_weight)
        _refuse_unknown(data)
        self.continuation_ = known.learn(self.field_, data, Workers(self.n_jobs))
        self.continuation_.settings = self._described()

    def _check_continues(self) -> None:
        if not hasattr(self, "continuation_"):
            raise ValueError(
                "partial_fit goes on from batches that it fitted itself, whose curvature it keeps: begin with it, on a "
                "clone(estimator), instead of fit"
            )
        present = self._described()
        for name, before in self.continuation_.settings.items():
            if present[name] != before:
                raise ValueError(
                    f"{name} was {before:.200} in the first batch and is {present[name]:.200}: set it back, or fit "
                    "afresh"
                )

    def _admit(self, classes: np.ndarray) -> None:
        """Let the field have these classes, the old ones among them."""
        from kernelfields.models.continuation import with_labels
        from kernelfields.models.field import Field

        if len(classes) == len(self.classes_):
            return
        places, terms = np.searchsorted(classes, self.classes_), self.field_.terms
        grown = with_labels(terms, places, len(classes))
        self.continuation_ = self.continuation_.with_labels(grown, places, len(classes))
        if (rule := getattr(self._reader, "allowed", None)) is not None:
            self._reader = replace(self._reader, allowed=rule.with_labels(places, len(classes)))
        self.classes_ = classes
        self.field_ = Field(grown, self._spec_for(classes))
        self._set_views()

    def _spec_for(self, classes: np.ndarray) -> FamilySpec:
        """Return what decides the family of labellings of the fitted field, if it had these classes."""
        return replace(self.field_.spec, n_labels=len(classes))

    def _read_batch(self, X: object, y: object, sample_weight: object) -> Data:
        """Return the data of one more batch, as the field reads those of a fit."""
        return self._read_fitted(X, y, sample_weight)

    def _fit_next_batch(self, X: object, y: object, sample_weight: object) -> None:
        from kernelfields.models.continuation import fit_continued, with_pivots
        from kernelfields.models.field import Field
        from kernelfields.models.fit import warn_of_solution
        from kernelfields.objective.bounds import Certificate

        data = self._read_batch(X, y, sample_weight)
        _refuse_unknown(data)
        terms = with_pivots(self.field_.terms, data)
        known = self.continuation_.grown(terms)
        settings = self._sample_settings(sum(not term.tied_everywhere for term in terms))
        sample = self._engine(data).place(data, self.field_.spec, settings)
        random = random_generator(self.random_state)
        with self._progress() as progress:
            options = self._fit_options(data, progress, random)
            terms, solution = fit_continued(terms, known, sample, options)
        self.field_ = Field(terms, self.field_.spec)
        self.solution_ = solution
        # The bound holds for this batch after the posterior before it; of the rest of the RKHS nothing is known.
        span = Certificate("span", solution.value, solution.lower_bound, True, solution.gap_parts)
        rkhs = Certificate("rkhs", solution.value, 0.0, False, solution.gap_parts)
        self._certificates = None if self._certificates is None else (span, rkhs)
        self.continuation_ = known.learn(self.field_, data, Workers(self.n_jobs))
        if (items := self.__dict__.get("_fitted_items")) is not None:
            self._fitted_items = items.joined(fingerprint(data))
        self._set_views()
        warn_of_solution(solution, self._tolerance, stacklevel=3)


def _refuse_unknown(data: PackedData) -> None:
    if data.evidence is not None and not isinstance(data.evidence, SoftRows):
        raise ValueError("partial_fit needs labels that are all known, or SoftTargets; fit takes partly known ones")
