"""SegmentCRF: a semi-Markov kernel conditional random field on sequences, as a scikit-learn estimator."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from kernelfields.engines.choice import answers_collections, is_collection
from kernelfields.engines.engine import Engine
from kernelfields.estimators.base import BasisLike, EngineLike, FieldEstimator, KernelLike, LabelKernelLike, Seed
from kernelfields.estimators.inspecting.inspection import ShownBySummary, summarise, tabulate_weights
from kernelfields.estimators.inspecting.segments import explain_segments
from kernelfields.estimators.known import ranked_labellings
from kernelfields.estimators.settling import Training
from kernelfields.features.readers import ChainReader
from kernelfields.fields.chains import Chains, weigh_classes
from kernelfields.fields.cliques import CliqueSet, EdgeCliques, NodeCliques
from kernelfields.fields.constraints import ConstraintMasks, resolve_constraints
from kernelfields.fields.evidence import share_right
from kernelfields.fields.ragged import Ragged, per_item, plain_strings
from kernelfields.fields.reading import check_class_weight, plain_label, random_generator
from kernelfields.fields.segments import (
    DURATION,
    SEGMENT,
    DurationCliques,
    Segment,
    SegmentCliques,
    SegmentedChains,
    are_segments,
    begins_of,
    bounds_of,
    check_duration,
    read_segments,
)
from kernelfields.fields.soft_targets import SoftRows
from kernelfields.models.build import NamedCliques, name_cliques
from kernelfields.models.rehearsal import FALLBACK
from kernelfields.numerics.parameters import check_count, check_prior_variances, is_auto
from kernelfields.numerics.threads import Workers
from kernelfields.objective.likelihoods.segment import SegmentStructure
from kernelfields.objective.term import Term
from kernelfields.reports.inspection import Explanation, ModelSummary, WeightsTable
from kernelfields.reports.sequences import LabelledSequence
from kernelfields.uncertainty.laplace.probit import resolve_uncertainty


class SegmentCRF(ShownBySummary, FieldEstimator):
    """Conditional random field on segments of sequences, with potentials in reproducing kernel Hilbert spaces.

    A sequence is cut into segments (begin, end, label) of at most D positions:

    score = sum over segments [ sum_t f_node(x_t, y) + h(log(end - begin), y) + mean_t f_segment(x_t, y) ]
            + sum over neighbours f_edge(y, y')

    with Gaussian process priors on f_node, h, f_segment and f_edge. A run of equal labels in ``y`` is a segment; labels
    may also be written as lists of (begin, end, label). Inference is exact and takes O(N L^2 + N L D) time.

    Parameters
    ----------
    kernel, edge_kernel, window, rank, basis, label_kernel : as in ChainCRF
        Transitions are those between segments; with an edge_kernel they see the inputs where the second begins.
    duration_kernel : like kernel, or None, default "rbf"
        Kernel on the logarithm of the duration of a segment; None leaves durations out.
    segment_kernel : like kernel, or None, default None
        Kernel between segments as bags of inputs: the mean of k(x, x') over the inputs of both, their windows as in
        ``window``. It judges a segment by what its inputs are on average, however long it is; sums over its positions
        are those of ``kernel``. Passes then take an exponential for each segment, and about twice as long.
    shared_duration : bool, default False
        Whether one function of the duration serves all labels.
    max_duration : int or None
        D, the most positions of a segment. None for twice the longest segment of the training data, at most the
        longest sequence; ``max_duration_`` tells which.
    repeats : bool, default False
        Whether a segment may follow one of the same label. Then labels without (begin, end) are cut into runs, and
        runs longer than ``max_duration`` into pieces of that length.
    prior_variance : "auto", float or tuple, default "auto"
        As in ChainCRF.
    edge_prior_variance, duration_prior_variance, segment_prior_variance : float or None
        Those of transitions, durations and means over segments; None means ``prior_variance``.
    scale, solver, tol, max_iter, dtype, n_jobs, random_state, verbose, callbacks, class_weight : as in ChainCRF
    constraints : Constraints, dict, iterable of forbidden (label, label) pairs, or None
        What is forbidden between segments, at the ends of sequences, or everywhere.
    decode : "auto", "viterbi" or "posterior", default "auto"
        "auto" and "viterbi": the labels of the most probable segmentation; "posterior": the most probable label of each
        position, which are right more often one by one and may not fit together.
    engine : "auto", "threads" or Threads
        Segments are inferred by the threads of this process. Kernels of new data may be computed by another engine.

    Attributes
    ----------
    classes_, n_features_in_, basis_, coef_, solution_, certificate_, rkhs_certificate_ : as in ChainCRF
    max_duration_ : the most positions of a segment
    durations_ : (D, L) scores of durations, or None
    transitions_ : (L, L) scores of steps between segments that do not depend on inputs, or None
    """

    kind = "SegmentCRF"

    field_: Any
    durations_: np.ndarray | None
    transitions_: np.ndarray | None

    def __init__(
        self,
        kernel: KernelLike = "auto",
        *,
        edge_kernel: KernelLike | None = None,
        duration_kernel: KernelLike | None = "rbf",
        segment_kernel: KernelLike | None = None,
        shared_duration: bool = False,
        max_duration: int | None = None,
        repeats: bool = False,
        window: int | tuple[int, int] = 1,
        rank: int | None = 1000,
        basis: BasisLike = "random-cholesky",
        prior_variance: float | str | Sequence[float] = "auto",
        edge_prior_variance: float | None = None,
        duration_prior_variance: float | None = None,
        segment_prior_variance: float | None = None,
        scale: bool | str = "auto",
        label_kernel: LabelKernelLike = "delta",
        solver: object = "auto",
        tol: float = 1e-3,
        max_iter: int = 1000,
        constraints: object = None,
        decode: str = "auto",
        dtype: object = "auto",
        n_jobs: int | None = None,
        engine: EngineLike = "auto",
        random_state: Seed = None,
        verbose: int = 0,
        callbacks: Sequence[object] | None = None,
        class_weight: Mapping[object, float] | str | None = None,
    ):
        self.kernel = kernel
        self.edge_kernel = edge_kernel
        self.duration_kernel = duration_kernel
        self.segment_kernel = segment_kernel
        self.shared_duration = shared_duration
        self.max_duration = max_duration
        self.repeats = repeats
        self.window = window
        self.rank = rank
        self.basis = basis
        self.prior_variance = prior_variance
        self.edge_prior_variance = edge_prior_variance
        self.duration_prior_variance = duration_prior_variance
        self.segment_prior_variance = segment_prior_variance
        self.scale = scale
        self.label_kernel = label_kernel
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.constraints = constraints
        self.decode = decode
        self.dtype = dtype
        self.n_jobs = n_jobs
        self.engine = engine
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks
        self.class_weight = class_weight

    def fit(
        self, X: object, y: object, sample_weight: ArrayLike | None = None, *, optimize: object = None
    ) -> SegmentCRF:
        """Fit the field to sequences X and labels y: of positions, or lists of (begin, end, label) for each sequence.

        Labels of positions may be partly known, None or sets of allowed ones; then ``max_duration`` has to be given.
        ``sample_weight`` holds one weight per sequence; optimize="evidence" chooses parameters as in ChainCRF.
        """
        return self._fit(X, y, sample_weight, optimize=optimize)

    def _check_parameters(self) -> None:
        check_prior_variances(self.prior_variance, "prior_variance", auto=True)
        for name in ("edge_prior_variance", "duration_prior_variance", "segment_prior_variance"):
            if getattr(self, name) is not None:
                check_prior_variances(getattr(self, name), name)
        if self.max_duration is not None:
            check_duration(self.max_duration)
        check_class_weight(self.class_weight)
        super()._check_parameters()
        name_cliques(self._described_cliques(1))

    def _described_cliques(self, max_duration: int) -> list[CliqueSet]:
        """Return the clique sets that the parameters describe."""
        shared: dict[str, Any] = {"basis": self.basis, "rank": self.rank}
        own = FALLBACK if is_auto(self.prior_variance) else self.prior_variance
        first = own[0] if isinstance(own, list | tuple) else own
        edge, duration, segment = (
            first if variance is None else variance
            for variance in (self.edge_prior_variance, self.duration_prior_variance, self.segment_prior_variance)
        )
        kernel = "rbf" if is_auto(self.kernel) else self.kernel
        seen = {**shared, "window": self.window}
        cliques: list[CliqueSet] = [
            NodeCliques(kernel, label_kernel=self.label_kernel, prior_variance=own, **seen),
            EdgeCliques(self.edge_kernel, prior_variance=edge, **seen),
        ]
        if self.duration_kernel is not None:
            form: dict[str, Any] = {"max_duration": max_duration, "shared": self.shared_duration}
            cliques.append(DurationCliques(self.duration_kernel, prior_variance=duration, **form, **shared))
        if self.segment_kernel is not None:
            cliques.append(SegmentCliques(self.segment_kernel, prior_variance=segment, **seen))
        return cliques

    def _cliques(self, training: Training) -> NamedCliques:
        structure: Any = training.structure
        return name_cliques(self._described_cliques(structure.max_duration))

    def _engine(self, data: Any) -> Engine:
        if getattr(self.engine, "name", self.engine) not in ("auto", "threads"):
            raise ValueError(
                f"SegmentCRF is fitted by threads of this process: use engine='threads', got {self.engine!r}"
            )
        return super()._engine(data)

    # ---- data

    def _segmented(self, chains: Chains, begins: np.ndarray | None, longest: int | None) -> SegmentedChains:
        """Return chains with their segments, where they are labelled.

        Of labels that are partly known, one labelling stands for all, cut anyhow.
        """
        if chains.labels is None:
            return SegmentedChains.of(chains, None)
        if chains.evidence is not None and begins is not None:
            raise ValueError(
                "labels that are partly known are written position by position, not as segments (begin, end, label)"
            )
        if begins is None:
            cut = self.repeats or chains.evidence is not None
            begins = begins_of(chains.labels, chains.offsets, longest if cut else None)
        return SegmentedChains.of(chains, begins)

    def _learn(self, X: object, y: object, sample_weight: object, part_of: Any = None) -> tuple[Any, Any, np.ndarray]:
        if is_collection(X) or is_collection(y):
            raise ValueError(
                "SegmentCRF is fitted by threads of this process, engine='threads': X and y must be here, not in Dask "
                "collections; X.compute() brings them"
            )
        y, begins = _plain_labels(y)
        reader = ChainReader()
        known = None if part_of is None else part_of[1]
        chains, classes = reader.learn(X, y, sample_weight, classes=known)
        if isinstance(chains.evidence, SoftRows):
            raise ValueError(
                "SoftTargets are for single labels and for chains: fit segments to labels, or ChainCRF to these"
            )
        if chains.evidence is not None and self.max_duration is None:
            raise ValueError("some labels of y are not known, nor how long segments are: give max_duration")
        data = self._segmented(chains, begins, self.max_duration)
        self._structure(classes, data).check_labels(data, classes)
        return reader, weigh_classes(data, classes, self.class_weight, warn=True), classes

    def _read(self, X: object, y: object = None, sample_weight: object = None) -> SegmentedChains:
        y, begins = _plain_labels(y)
        chains = self._reader.read(X, y, sample_weight, self.classes_)
        data = self._segmented(chains, begins, self.max_duration_)
        self.field_.structure.check_lengths(data)
        return data

    def _read_fitted(self, X: object, y: object, sample_weight: object) -> SegmentedChains:
        data = self._read(X, y, sample_weight)
        self.field_.structure.check_labels(data, self.classes_)
        return weigh_classes(data, self.classes_, self.class_weight)

    def _contradicted(self, data: SegmentedChains, evidence: np.ndarray) -> np.ndarray:
        return self.field_.structure.impossible(data, evidence)

    def _structure(self, classes: np.ndarray, data: Any) -> SegmentStructure:
        longest = self.max_duration
        if longest is None:
            begins, ends, _ = data.segments
            longest = min(2 * int((ends - begins).max()), int(data.lengths.max()))
        masks = resolve_constraints(self.constraints, classes)
        return SegmentStructure(len(classes), masks, int(longest), bool(self.repeats))

    def _decodes_jointly(self) -> bool:
        return True

    @property
    def max_duration_(self) -> int:
        """The most positions of a segment."""
        check_is_fitted(self, "field_")
        return self.field_.structure.max_duration

    def _set_views(self) -> None:
        super()._set_views()
        tied = [
            term.tied_scores.reshape(len(self.classes_), -1)
            for term in self.field_.terms
            if isinstance(term.clique, EdgeCliques) and term.tied_everywhere
        ]
        self.transitions_ = np.sum(tied, axis=0) if tied else None
        durations = [term.scores(None, Workers(1)) for term in self.field_.terms if term.group == DURATION]
        self.durations_ = np.sum(durations, axis=0) if durations else None

    # ---- answers

    @answers_collections
    def predict(self, X: object, decode: str | None = None, *, known: object = None) -> list:
        """Return the labels of each sequence: a list of strings, or an array of numbers.

        ``decode`` as in the parameters; ``known``, here and below, is what is known of the labels of positions: labels,
        None, sets of allowed ones. Answers are then given that it is so.
        """
        decoded = self._decoded(X, decode, known)
        return Ragged(each for data, best in decoded for each in plain_strings(data.split(self.classes_[best])))

    def predict_segments(self, X: object, *, known: object = None) -> list[list[Segment]]:
        """Return the most probable segmentation of each sequence: (begin, end, label, probability) of each segment.

        The probability is that of a segment with this begin, end and label among all segmentations.
        """
        check_is_fitted(self, "field_")
        found: list[list[Segment]] = []
        answers: Any
        for answers in self._answers(X, known=known):
            labels, mask = answers.best()
            begins, ends = bounds_of(mask)
            chances = np.exp(np.minimum(answers.beliefs.segment_log_probabilities(begins, ends, labels[begins]), 0.0))
            places = iter(chances.tolist())
            for segments in self._written(answers.data, labels, mask):
                found.append([Segment(*segment, next(places)) for segment in segments])
        return found

    def _written(self, data: Any, labels: np.ndarray, mask: np.ndarray) -> list[list[tuple[int, int, Any]]]:
        """Return labels (N,) and a mask of where segments begin as (begin, end, label) for each sequence."""
        begins, ends = bounds_of(mask)
        names = [plain_label(each) for each in self.classes_[labels[begins]]]
        cuts = np.searchsorted(begins, data.offsets)
        return [
            list(zip((begins[a:b] - first).tolist(), (ends[a:b] - first).tolist(), names[a:b], strict=True))
            for first, a, b in zip(data.offsets[:-1], cuts[:-1], cuts[1:], strict=True)
        ]

    @answers_collections
    def predict_nbest(
        self, X: object, k: int, *, segments: bool = False, known: object = None
    ) -> list[list[tuple[Any, float]]]:
        """Return, for each sequence, its k most probable segmentations with their log-probabilities.

        As labels of positions or, with ``segments``, as lists of (begin, end, label). Where segments of one label may
        follow each other, several segmentations can have the same labels.
        """
        check_is_fitted(self, "field_")
        if not segments:
            return ranked_labellings(self._answers(X, known=known), self.classes_, k)
        check_count(k, "k")
        ranked: list[list[tuple[Any, float]]] = []
        batch: Any
        for batch in self._answers(X, known=known):
            labels, masks, scores = batch.k_best(int(k))
            written = [self._written(batch.data, *each) for each in zip(labels, masks, strict=True)]
            for sequence, total in enumerate(batch.log_partition):
                chances = scores[sequence] - total
                pairs = zip((each[sequence] for each in written), chances.tolist(), strict=True)
                ranked.append([pair for pair in pairs if pair[1] > -np.inf])
        return ranked

    @answers_collections
    def predict_marginals(
        self, X: object, *, uncertainty: bool | str = False, known: object = None
    ) -> list[np.ndarray]:
        """Return p(y_t | x) of each sequence as (T, L) arrays, columns as in ``classes_``.

        After :meth:`laplace`, uncertainty="probit" (or True) or "sampling" average over the posterior.
        """
        kind = resolve_uncertainty(uncertainty, joint=False) if uncertainty is not False else None
        averaged = self._averaged(X, kind, None, known)
        return Ragged(rows for chains, marginals, _ in averaged for rows in chains.split(marginals))

    @answers_collections
    def predict_variances(self, X: object) -> list[np.ndarray]:
        """Return the posterior variances of the potentials of positions, (T, L) arrays, after :meth:`laplace`."""
        return Ragged(rows for batch, variances in self._variances(X) for rows in batch.split(variances))

    def log_likelihood(
        self, X: object, y: object, *, per_sequence: bool = False, known: object = None
    ) -> float | np.ndarray:
        """Return log p(segments of y | x), summed or for each sequence; -inf for what is forbidden.

        Of labels that are partly known, the probability of what is.
        """
        values = self._log_likelihoods(X, y, known)
        return values if per_sequence else float(values.sum())

    def score(
        self, X: object, y: object, sample_weight: ArrayLike | None = None, *, decode: str | None = None
    ) -> float:
        """Return the share of positions whose label is what :meth:`predict` says."""
        check_is_fitted(self, "field_")
        lengths = np.diff(self._read(X).offsets)
        labels = _plain_labels(y)[0]
        return share_right(labels, self.classes_, lengths, lambda: self.predict(X, decode), sample_weight)

    def sample(
        self,
        X: object,
        n_samples: int | None = None,
        random_state: Seed = None,
        *,
        segments: bool = False,
        known: object = None,
    ) -> list:
        """Draw from p(y | x): (T,) labels per sequence, or (n_samples, T) if a number is given.

        With ``segments`` a list of (begin, end, label) per sequence, or n_samples of them.
        """
        if segments:
            return self._drawn_segments(X, n_samples, random_state, known)
        draws = self._draws(X, n_samples, random_state, known)
        return Ragged(
            each for chains, drawn in draws for each in per_item(chains, self.classes_[drawn], n_samples is None)
        )

    def _drawn_segments(self, X: object, n_samples: int | None, random_state: Seed, known: object) -> list:
        if n_samples is not None:
            check_count(n_samples, "n_samples", " or None")
        random, drawn = random_generator(random_state), list[Any]()
        batch: Any
        for batch in self._answers(X, known=known):
            draws = zip(*batch.sample_segments(n_samples or 1, random), strict=True)
            by_draw = [self._written(batch.data, *each) for each in draws]
            drawn += by_draw[0] if n_samples is None else [list(each) for each in zip(*by_draw, strict=True)]
        return drawn

    @answers_collections
    def entropy(self, X: object, *, known: object = None) -> np.ndarray:
        """Return the entropy of the segmentations of each sequence, in nats."""
        parts = (each.entropies() for each in self._answers(X, known=known))  # type: ignore[union-attr]
        return np.concatenate([np.empty(0), *parts])

    def show(self, x: object, y: Any = None, *, caption: str = "") -> LabelledSequence:
        """Return the segments of one sequence on a time axis, for a notebook or a page, true ones above them."""
        truth = None if y is None else _plain_labels([y])[0][0]
        segments, marginals = self.predict_segments([x])[0], self.predict_marginals([x])[0]
        labels = read_segments([segments])[0][0]
        return LabelledSequence(labels, marginals, self.classes_.tolist(), None, truth, caption, segments)

    def weights(
        self,
        top: int | tuple[int, int] | None = 20,
        labels: Sequence[object] | None = None,
        feature_re: str | re.Pattern[str] | None = None,
        *,
        feature_names: Sequence[str] | None = None,
    ) -> WeightsTable:
        """Return the largest weights per label and transitions between segments, as :meth:`ChainCRF.weights` does.

        Of durations, the numbers of positions with the largest scores; ``durations_`` has all of them.
        """
        check_is_fitted(self, "field_")
        return tabulate_weights(self, top, labels, feature_re, feature_names)

    def explain(
        self,
        x: object,
        y: Any = None,
        top: int = 5,
        against: object = None,
        *,
        feature_names: Sequence[str] | None = None,
        positions: int = 3,
    ) -> Explanation:
        """Return, for one sequence, what moved the label of each segment and away from which other label.

        A segment is compared with the segmentation in which its positions have the other label, and join the segments
        beside them that have it too. The contributions add up to the difference of their log-probabilities: those of
        positions and of their mean, of durations, and of transitions. Each rule that makes the other segmentation
        impossible contributes infinity.

        Parameters
        ----------
        x : one sequence, in the form the model was fitted on
        y : its labels or segments; None for the most probable segmentation
        top : how many features to list for each segment, the largest by size; others than features always are
        against : a label, or a list with one per segment, to compare with; None for the most probable besides y
        feature_names : names of the input features, as in :meth:`weights`
        positions : how many positions to list for each kernel without explicit features, the largest by size
        """
        check_is_fitted(self, "field_")
        return explain_segments(self, x, y, top, against, feature_names, positions)

    def summary(self) -> ModelSummary:
        """Return the fitted field at a glance, to be printed, shown by a notebook or put on a page of a report."""
        check_is_fitted(self, "field_")
        return summarise(self)

    # ---- files

    def _describe_structure(self) -> dict[str, Any]:
        structure = self.field_.structure
        masks = {name: getattr(structure.masks, name) for name in ("edge", "start", "end", "label")}
        return {"masks": masks, "max_duration": structure.max_duration, "repeats": structure.repeats}

    @classmethod
    def _rebuilt_reader(cls, described: Mapping[str, Any]) -> ChainReader:
        return ChainReader.rebuild(dict(described))

    @classmethod
    def _rebuilt_structure(cls, described: Mapping[str, Any], classes: np.ndarray) -> SegmentStructure:
        masks = ConstraintMasks(**described["masks"])
        masks.check(len(classes))
        check_duration(described["max_duration"])
        return SegmentStructure(len(classes), masks, int(described["max_duration"]), bool(described["repeats"]))

    @classmethod
    def _check_terms(cls, terms: Sequence[Term], reader: Any, structure: Any) -> None:
        for term in terms:
            if term.group == DURATION and term.clique.max_duration != structure.max_duration:
                raise ValueError("the durations of a set are not those of the field")
            if term.group not in (None, "lag1", DURATION, SEGMENT):
                raise ValueError(f"set {term.name!r} scores labels that do not meet in segments")


def _plain_labels(y: Any) -> tuple[Any, np.ndarray | None]:
    """Return labels of positions, and where segments begin if y is written as segments."""
    return read_segments(y) if are_segments(y) else (y, None)
