"""FieldClustering: clusters of single inputs, or of the positions of sequences, by information maximisation."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import entr
from sklearn.base import ClusterMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from kernelfields.engines.engine import Engine, Sample
from kernelfields.engines.threads import LocalSample
from kernelfields.estimators.auto_parameters import NoProgress, Training, input_candidates
from kernelfields.estimators.base import EngineLike, FieldEstimator, KernelLike, Start
from kernelfields.estimators.kernel_classifier import partly_labelled, single_nodes
from kernelfields.estimators.questions import ByItem
from kernelfields.features.readers import ChainReader, TableReader, is_feature_sequences
from kernelfields.fields.chains import Chains
from kernelfields.fields.cliques import EdgeCliques, GraphNodes, NodeCliques
from kernelfields.fields.graphs import Graphs
from kernelfields.fields.ragged import Ragged
from kernelfields.fields.reading import SAMPLES, SEQUENCES, Nouns, check_sample_weight, is_sequence, open_groups
from kernelfields.formats.model_file import Document
from kernelfields.inference.choice import FamilySpec
from kernelfields.models.build import NamedCliques, name_cliques
from kernelfields.models.clusters import STARTS, ClimbOptions, Clusters, find_clusters
from kernelfields.models.field import Field
from kernelfields.models.fit import FittedBy
from kernelfields.models.pilot_fit import Choices
from kernelfields.models.stored import Functions
from kernelfields.models.stream import LabelStream
from kernelfields.numerics.parameters import (
    attribute,
    check_callbacks,
    check_count,
    check_prior_variance,
    check_tolerance,
    count_or_none,
    declares_parameters,
    is_auto,
    one_of,
    parameter,
    variances_or_auto,
)
from kernelfields.numerics.threads import Workers, blas_threads
from kernelfields.numerics.windows import window_of_inputs
from kernelfields.objective.designs.design import Design

if TYPE_CHECKING:
    from kernelfields.reports.progress import FitProgress

ClusterTraining: TypeAlias = Training[Chains | Graphs, ChainReader | TableReader]
#: The prior variance of functions whose kernel has k(x, x) = 1, and of transitions.
USUAL_VARIANCE = 1000.0
# Information below this share of its largest possible value means that no clusters were found.
_NOTHING = 1e-3


@declares_parameters
class FieldClustering(ClusterMixin, FieldEstimator[Chains | Graphs, ChainReader | TableReader]):
    """Clusters by regularised information maximisation, of single inputs or of the positions of sequences.

    Maximises H(mean_t p_t) - mean_t H(p_t) - ||theta||^2 / (2 s): p_t, the probabilities of the clusters at t, are to
    be sure of themselves, all clusters are to be used, and the functions behind them are to be smooth (Gomes, Krause,
    Perona 2010). An array (n, d), dense or sparse, holds single inputs, and p_t is that of KernelClassifier; a list of
    arrays (T, d), of feature dicts or of feature strings holds sequences, and p_t are the marginals of the field of
    ChainCRF, so that what follows what is learnt beside what looks alike. The optimum is a local one; the best of
    ``n_init`` is kept. Clusters of about equal size are preferred, and a cluster may stay empty.

    Parameters
    ----------
    n_clusters : int, default 8
        The most clusters there can be.
    kernel : "auto", Kernel, str, callable or scikit-learn kernel, default "auto"
        "auto" is "linear" for feature dicts, strings and wide sparse inputs, else "rbf".
    window : odd int or (before, after), default 1
        How many positions of a sequence the kernel sees around each.
    rank : int or None, default 500
        Most basis functions of a kernel without explicit features; None for no limit.
    basis : str or Basis, default "random-cholesky"
    bias : bool, default True
        Whether clusters of single inputs have constants of their own.
    prior_variance : "auto", float or tuple, default "auto"
        The s above, for functions of the inputs; information is a mean over inputs, so s does not depend on their
        number. Smaller leaves inputs between clusters undecided, and clusters empty. "auto" is 1000 divided by the mean
        of k(x, x), which is 1 for "rbf". A sum of kernels may have one for each part.
    edge_prior_variance : float, default 1000.0
        That of the transitions between clusters; a tiny one clusters positions as if they were single inputs.
    scale : "auto", True or False, default "auto"
        Whether columns of numbers are brought to mean 0 and one spread, as in ChainCRF.
    init : "spectral", "kmeans" or "random", default "spectral"
        The partition of the features that a start begins with.
    n_init : int, default 5
        How many starts there are; the one that ends highest is kept.
    tol : float, default 1e-4
        How stationary a climb ends: at sum s ||gradient||^2 / 2 of tol times the objective.
    max_iter : int, default 300
        Most iterations of a climb.
    dtype, n_jobs, random_state : as in ChainCRF
    verbose : int, default 0
        1 shows where the search is, 2 every iteration.
    callbacks : callables that see each Iteration of each climb; returning True ends the climb. A ``Checkpoint``
        among them writes the model when the search ends.
    engine : "threads" or Threads, "torch" or Torch: where features are kept

    Attributes
    ----------
    labels_ : (n,) numbers of the clusters of single inputs; for sequences a list of arrays (T,)
    information_ : mutual information of clusters and inputs, in nats, at most log(n_clusters)
    objective_ : information_ less the penalty
    objectives_ : (starts,) the same at the end of each climb
    classes_ : (n_clusters,) the numbers of the clusters; n_features_in_, feature_names_in_ : as in every estimator
    basis_, coef_ : dicts, name of a clique set -> its subspace; its coefficients (rank, clusters)
    transitions_ : (n_clusters, n_clusters) scores of transitions of sequences; None for single inputs
    solution_ : Solution of the best climb; n_iter_ : its iterations
    """

    kind = "FieldClustering"
    solver = "auto"

    n_clusters: int = parameter(8, check_count, first=True)
    kernel: KernelLike = parameter("auto")
    window: int | tuple[int, int] = parameter(1, window_of_inputs)
    rank: int | None = parameter(500, count_or_none)
    bias: bool = parameter(True)
    prior_variance: float | str | Sequence[float] = parameter("auto", variances_or_auto)
    edge_prior_variance: float = parameter(USUAL_VARIANCE, check_prior_variance)
    init: str = parameter("spectral", one_of(*STARTS))
    n_init: int = parameter(5, check_count)
    tol: float = parameter(1e-4, lambda value, name: check_tolerance(value))
    max_iter: int = parameter(300, check_count)
    callbacks: Sequence[object] | None = parameter(None, lambda value, name: check_callbacks(value))
    engine: EngineLike = parameter("threads")

    labels_: ByItem = attribute()
    information_: float = attribute()
    objectives_: np.ndarray = attribute()
    transitions_: np.ndarray | None = attribute()

    def fit(self, X: object, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Find clusters of inputs X (n, d), or of the positions of sequences X; Ctrl-C keeps the best so far.

        y is not looked at; it is there for pipelines. ``sample_weight`` holds a weight of each input or sequence.
        """
        self._check_parameters()
        with self._checkpoints(), self._progress() as progress:
            training = self._training(X, None, sample_weight, progress)
            with blas_threads(self._blas_limit(training.data.n_positions)):
                found, designs = self._search(training, progress)
            self._set_clusters(training, designs, found)
        self._warn(found)
        return self

    def _search(self, training: ClusterTraining, progress: FitProgress | NoProgress) -> tuple[Clusters, list[Design]]:
        settled, usual = copy.copy(self), input_candidates(training, is_auto(self.kernel))[0]
        settled._take(usual)
        # Without labels there is nothing to judge a scale by.
        training.choices = Choices(usual)
        training.scale_columns(bool(usual.get("scale")))
        training.cliques = settled._cliques(training)
        sample = training.place(training.data, training.cliques)
        designs, _ = settled._designs(training, sample)
        options = ClimbOptions(
            self.init,
            self.n_init,
            self.tol,
            self.max_iter,
            training.options.random,
            progress.announce,
            training.options.watch,
        )
        assert isinstance(sample, LocalSample), "other engines are refused"
        here, workers = sample.inferred_here(designs), Workers(self.n_jobs)
        return find_clusters(here, training.data, training.spec, workers, options), designs

    def _designs(self, training: ClusterTraining, sample: Sample) -> Start:
        designs, _ = super()._designs(training, sample)
        if any(design.panel is not None for design in designs):
            raise ValueError("basis='gradient' grows by the gradient of a likelihood: choose another to find clusters")
        if is_auto(self.prior_variance):
            designs = [_at_usual_variance(design, training.data) for design in designs]
        return designs, None

    def _set_clusters(
        self,
        training: ClusterTraining,
        designs: Sequence[Design],
        found: Clusters,
    ) -> None:
        """Take what a search has found for the fitted attributes."""
        terms = [design.term.fitted(own) for design, own in zip(designs, found.coefficients, strict=True)]
        field = Field(terms, training.spec)
        inference = FittedBy.of(field.family(training.data))
        self._set_field(training.reader, training.classes, field, inference, found.solution, None)
        self.evidence_path_, self.choices_ = None, training.choices
        self.information_, self.objectives_ = found.information, np.array(found.objectives)
        labels = found.marginals.argmax(axis=1)
        self.labels_ = Ragged(training.data.split(labels)) if self._on_sequences else labels

    def _set_views(self) -> None:
        super()._set_views()
        edges = [term.tied_scores for term in self.field_.terms if isinstance(term.clique, EdgeCliques)]
        self.transitions_ = edges[0].reshape(len(self.classes_), -1) if edges else None

    def _warn(self, found: Clusters) -> None:
        solution, text = found.solution, None
        if solution.reason == "interrupted":
            text = f"the search was interrupted in start {len(found.objectives)}; the best clusters so far were kept"
        elif found.information < _NOTHING * np.log(self.n_clusters):
            text = "no clusters were found: all inputs are in all of them alike; raise prior_variance"
        elif solution.reason == "max_iter":
            text = f"the best climb was not over after max_iter={self.max_iter} iterations; raise max_iter or tol"
        if text is not None:
            warnings.warn(text, ConvergenceWarning, stacklevel=3)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.n_clusters < 2:
            raise ValueError("n_clusters=1 leaves nothing to separate: ask for at least 2")
        given = self.prior_variance if isinstance(self.prior_variance, list | tuple) else [self.prior_variance]
        if not all(is_auto(value) or np.isfinite(value) for value in (*given, self.edge_prior_variance)):
            raise ValueError("prior variances must be finite: without a prior, any partition is as good as any other")

    def _learn(
        self,
        X: object,
        y: object,
        sample_weight: object,
        part_of: tuple[ChainReader | TableReader, np.ndarray] | None = None,
    ) -> tuple[ChainReader | TableReader, Chains | Graphs, np.ndarray]:
        X, _ = open_groups(X)
        reader: ChainReader | TableReader
        if holds_sequences(X):
            reader = ChainReader()
            inputs, offsets = reader.learn_inputs(X)
            weights = check_sample_weight(sample_weight, len(offsets) - 1)
            data: Chains | Graphs = Chains(inputs, offsets, None, _shares(weights, np.diff(offsets)))
        else:
            _refuse_nothing(X)
            reader = TableReader()
            inputs = reader.learn(self, X)[0]
            weights = check_sample_weight(sample_weight, inputs.shape[0], SAMPLES)
            data = single_nodes(inputs, weights=_shares(weights, np.ones(len(weights))))
        if data.n_positions < self.n_clusters:
            part = "positions" if isinstance(data, Chains) else "samples"
            raise ValueError(
                f"n_clusters={self.n_clusters} is more than there are inputs: X has n_samples={data.n_positions} {part}"
            )
        return reader, data, np.arange(self.n_clusters)

    def _read(self, X: object, y: object = None, sample_weight: object = None) -> Chains | Graphs:
        X, y = open_groups(X, y, getattr(self._reader, "columns", None))
        if holds_sequences(X) != self._on_sequences:
            expected = "a list of sequences" if self._on_sequences else "a table (n, d) of single inputs"
            raise ValueError(f"these clusters were found in other inputs: X must be {expected}")
        if isinstance(self._reader, ChainReader):
            return self._reader.read(X, y, sample_weight, self.classes_)
        inputs = self._reader.read(self, X)[0]
        return single_nodes(inputs) if y is None else partly_labelled(inputs, y, sample_weight, self.classes_)[0]

    def _engine(self, data: Chains | Graphs) -> Engine:
        engine = super()._engine(data)
        if engine.name == "dask":
            raise ValueError("clusters are found in one process: use engine='threads' or 'torch', got 'dask'")
        return engine

    @property
    def _on_sequences(self) -> bool:
        return isinstance(self._reader, ChainReader)

    @property
    def _nouns(self) -> Nouns:  # type: ignore[override]  # they depend on the data here
        return SEQUENCES if self._on_sequences else SAMPLES

    @property
    def _places(self) -> tuple[str, str]:  # type: ignore[override]
        return ("sequence", "position") if self._on_sequences else ("sample", "")

    def _family_spec(self, classes: np.ndarray, data: Chains | Graphs) -> FamilySpec:
        return FamilySpec("chain" if isinstance(data, Chains) else "single", len(classes))

    def _cliques(self, training: ClusterTraining) -> NamedCliques:
        variance = USUAL_VARIANCE if is_auto(self.prior_variance) else self.prior_variance
        shared: dict[str, Any] = {"basis": self.basis, "rank": self.rank, "window": self.window}
        if isinstance(training.data, Chains):
            nodes = NodeCliques(self.kernel, prior_variance=variance, **shared)
            return name_cliques([nodes, EdgeCliques(None, prior_variance=self.edge_prior_variance)])
        cliques = [GraphNodes(self.kernel, prior_variance=variance, **shared)]
        if self.bias:
            first = variance[0] if isinstance(variance, list | tuple) else variance
            cliques.append(GraphNodes(None, name="bias", prior_variance=first))
        return name_cliques(cliques)

    @property
    def objective_(self) -> float:
        """The information less the penalty, at the best of the local optima."""
        check_is_fitted(self, "field_")
        return -self.solution_.value

    def predict_proba(self, X: object, *, known: object = None) -> np.ndarray:
        """Return the probabilities of the clusters of single inputs, (n, n_clusters), given what is ``known``."""
        check_is_fitted(self, "field_")
        if self._on_sequences:
            raise ValueError("these are clusters of sequences: predict_marginals(X) gives one array for each")
        return super().predict_marginals(X, known=known)

    def score(self, X: object, y: object = None, sample_weight: ArrayLike | None = None) -> float:
        """Return the mutual information of clusters and new inputs, in nats: H(mean of p_t) - mean of H(p_t)."""
        parts = list(self._answers(X))
        marginals = np.concatenate([answers.marginals for answers in parts])
        lengths = np.concatenate([answers.data.lengths for answers in parts])
        weights = np.repeat(_shares(check_sample_weight(sample_weight, len(lengths), self._nouns), lengths), lengths)
        return float(entr(weights @ marginals).sum() - weights @ entr(marginals).sum(axis=1))

    def stream(self, lag: float = 5, *, decode: str | None = None, every: int = 1) -> LabelStream:
        """Return a LabelStream of the positions of a sequence, as :meth:`ChainCRF.stream` does."""
        jointly = self._asked_jointly(decode)
        if not isinstance(self._reader, ChainReader):
            raise ValueError("these are clusters of single inputs, which come in no order: predict_proba(X)")
        return LabelStream(self._field(), self._reader, self.classes_, lag, every, jointly, self.n_jobs)

    def predict_marginals(
        self, X: object, cliques: str | None = None, *, uncertainty: bool | str = False, known: object = None
    ) -> ByItem:
        """Return the probabilities of the clusters at each position of sequences, (T, n_clusters) arrays."""
        check_is_fitted(self, "field_")
        if not self._on_sequences:
            raise ValueError("these are clusters of single inputs: predict_proba(X) gives their probabilities")
        return super().predict_marginals(X, cliques, uncertainty=uncertainty, known=known)

    def _certified(self) -> NoReturn:
        raise AttributeError("there is no certificate: information is not convex, and its optimum a local one")

    def certify(self, *arguments: object, **settings: object) -> NoReturn:
        """Raise: information is not convex, so that no gap is known."""
        self._certified()

    def laplace(self, *arguments: object, **settings: object) -> NoReturn:
        """Raise: clusters are no posterior of labels that were seen."""
        raise AttributeError("there is no posterior around clusters: no labels were seen")

    def to_document(self) -> Document:
        """Return the fitted estimator as plain values and arrays."""
        document = super().to_document()
        document["inputs"] = {**document["inputs"], "sequences": self._on_sequences}
        document["structure"] = {"sequences": self._on_sequences}
        labels = self.labels_ if self._on_sequences else [self.labels_]
        document["clusters"] = {
            "labels": np.concatenate(labels),
            "lengths": np.array([len(part) for part in labels], dtype=np.int64),
            "information": self.information_,
            "objectives": self.objectives_,
        }
        return document

    @classmethod
    def from_document(cls, document: Document, callables: Functions | None = None) -> Self:
        """Return the estimator that was described."""
        estimator = super().from_document(document, callables)
        found = document["clusters"]
        labels, lengths = np.asarray(found["labels"]), np.asarray(found["lengths"])
        if labels.ndim != 1 or lengths.sum() != len(labels) or not np.isin(labels, estimator.classes_).all():
            raise ValueError("the labels of the clusters do not fit together")
        parts = np.split(labels, np.cumsum(lengths)[:-1])
        estimator.labels_ = Ragged(parts) if estimator._on_sequences else labels
        estimator.information_ = float(found["information"])
        estimator.objectives_ = np.asarray(found["objectives"], dtype=np.float64)
        return estimator

    @classmethod
    def _rebuilt_reader(cls, described: Document) -> ChainReader | TableReader:
        kind = ChainReader if described["sequences"] else TableReader
        return kind.rebuild(dict(described))

    @classmethod
    def _rebuilt_spec(cls, described: Document, classes: np.ndarray) -> FamilySpec:
        return FamilySpec("chain" if described["sequences"] else "single", len(classes))


def holds_sequences(X: Any) -> bool:
    """Whether X are sequences, a table or a list of positions for each, and not one table of single inputs."""
    if getattr(X, "ndim", 1) > 1:
        return X.ndim == 3
    if not is_sequence(X) or not len(X) or hasattr(X, "columns"):
        return False
    if is_feature_sequences(X):
        return True
    first = X[0]
    if hasattr(first, "ndim"):
        return first.ndim == 2
    return is_sequence(first) and len(first) > 0 and (is_sequence(first[0]) or isinstance(first[0], Mapping))


def _refuse_nothing(X: object) -> None:
    if is_sequence(X) and not hasattr(X, "shape") and not len(X):
        raise ValueError("X is empty: pass a table (n, d) of single inputs, or a list of sequences")


def _shares(weights: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the weights of sequences or inputs, of some lengths, in a mean over all positions."""
    return weights / max(float(weights @ lengths), np.finfo(float).tiny)


def _at_usual_variance(design: Design, data: Chains | Graphs) -> Design:
    """Return a design whose functions have the usual variance at a training input, in the mean over them."""
    term = design.term
    if term.tied_everywhere:
        return design
    size = float(np.mean(term.subspace.kernel.diag(term.clique.view(data))))
    variance = USUAL_VARIANCE / size if size > 0 else USUAL_VARIANCE
    return design.with_clique(copy.copy(term.clique).set_params(prior_variance=variance))
