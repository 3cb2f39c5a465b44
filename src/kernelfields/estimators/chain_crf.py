"""ChainCRF: a kernel conditional random field on sequences, as a scikit-learn estimator."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from kernelfields.engines.choice import answers_collections, is_collection
from kernelfields.engines.engine import Sample
from kernelfields.estimators.base import (
    BasisLike,
    EngineLike,
    FieldEstimator,
    KernelLike,
    LabelKernelLike,
    Seed,
)
from kernelfields.estimators.inspecting.explanations import Asked, explain_sequence
from kernelfields.estimators.inspecting.inspection import ShownBySummary, show_sequence, summarise, tabulate_weights
from kernelfields.estimators.known import ranked_labellings
from kernelfields.estimators.settling import Training, learnt_cliques
from kernelfields.estimators.stored import Functions
from kernelfields.features.label_dictionary import check_rule, readable_again, refuse_elsewhere
from kernelfields.features.readers import ChainReader
from kernelfields.fields.chains import Chains, weigh_classes
from kernelfields.fields.cliques import CliqueSet, EdgeCliques, NodeCliques
from kernelfields.fields.constraints import ConstraintMasks, guess_scheme, resolve_constraints
from kernelfields.fields.evidence import share_right
from kernelfields.fields.ragged import Ragged, per_item, plain_strings
from kernelfields.fields.reading import check_class_weight
from kernelfields.models.build import NamedCliques, continued_designs, name_cliques
from kernelfields.models.fit import DevelopmentSet, FittedField
from kernelfields.models.partial import PartialLabels
from kernelfields.models.rehearsal import FALLBACK
from kernelfields.models.unlabelled import with_unlabelled
from kernelfields.numerics.parameters import check_count, check_penalty, check_prior_variances, check_support, is_auto
from kernelfields.objective.designs.design import Design
from kernelfields.objective.likelihoods.chain import ChainStructure
from kernelfields.reports.inspection import Explanation, ModelSummary, WeightsTable
from kernelfields.reports.sequences import LabelledSequence
from kernelfields.structure.search import StructurePath, StructureSearch
from kernelfields.uncertainty.laplace.probit import resolve_uncertainty


class ChainCRF(ShownBySummary, FieldEstimator):
    """Conditional random field on sequences, with potentials in reproducing kernel Hilbert spaces.

    score(y | x) = sum_t f_node(x_t, y_t) + sum_t f_edge(y_{t-1}, y_t), with Gaussian process priors on f_node
    and f_edge, fitted to the maximum a posteriori with a certificate of optimality.

    Parameters
    ----------
    kernel : "auto", Kernel, str, callable or scikit-learn kernel, default "auto"
        Kernel on the inputs of the node cliques. "auto" is "linear" for feature dicts, strings and wide sparse inputs,
        and "rbf" for arrays of numbers. "linear" uses its explicit features; in a sum such as
        ``Linear() + Polynomial(2)`` the linear part stays exact and sparse, and only the rest gets a basis.
    edge_kernel : like kernel, or None
        None for one transition matrix; a kernel makes transitions depend on the inputs.
    window : odd int or (before, after), default 1; the positions around t that kernels see, those of edges included
    rank : int or None, default 1000; most basis functions of a kernel without explicit features, None for no limit
    basis : str or Basis, default "random-cholesky"
        "greedy-cholesky", "random-cholesky", "uniform", "gradient", "all", or an object.
    support : "all" or "observed", default "all"
        Which pairs of features and labels have a weight: all, or those seen in training, as in CRFsuite.
    edge_support : "all", "observed" or None, the same for transitions; None means ``support``
    min_freq : float, default 0.0; with observed support the least total weight of a pair in the training data
    l1 : float, default 0.0
        Weight of the sum of absolute weights in the objective, CRFsuite's c1; needs explicit features.
    edge_l1 : float or None, the same for transitions; None means ``l1``
    prior_variance : "auto", float or tuple, default "auto"
        Variance s of the Gaussian prior; infinity for none. The likelihood is a sum over sequences, so CRFsuite's
        c2 is 1 / (2 s). A sum of kernels may have one for each part. "auto" chooses a power of ten by short fits on a
        part of the data (1 for fewer than 200 positions); ``prior_variance_`` tells which.
    scale : "auto", True or False, default "auto"
        Whether columns of numbers are brought to mean 0 and one spread, here and in predictions. "auto" does so where
        spreads differ by more than a factor of ten and the kernel is given by its name.
    edge_prior_variance : float or None, the same for transitions; None means ``prior_variance``
    label_kernel : "delta", "centred" or (L, L) array whose rows follow the sorted classes: which labels share strength
    cliques : list of clique sets, "learn" or None
        A list spells out the field; kernel, edge_kernel, window, rank, basis, label_kernel and the prior variances
        above are then not used, nor are support, min_freq and l1. "learn" begins with the field that these
        describe and adds the clique sets among ``candidates`` that bring most (Remark 11).
    candidates : list of clique sets, StructureSearch or None
        What cliques="learn" chooses from; None for sets of its own proposal.
    solver : str, default "auto"
        "newton", "newton-cg", "block-jacobi", "subspace", "lbfgs", "sgd+lbfgs" or "auto".
    tol : float, default 1e-3, the relative duality gap at which to stop
    max_iter : int, default 1000
    constraints : str, Constraints, dict, iterable of forbidden (label, label) pairs, or None
        A string names a scheme of entity labels: "bio", "iob1", "bioes" or "bilou".
    decode : "auto", "viterbi" or "posterior", default "auto"
        Which labels :meth:`predict` and :meth:`score` take: those of the most probable labelling as a whole, or the
        most probable at each position, which are right more often one by one but may not fit together. "auto" is
        "viterbi" where labels have to fit, under constraints and for entity labels such as B-PER, else "posterior".
    dtype : "auto", "float32" or "float64"
        Precision of the stored features; inference is always float64. "auto" keeps the inputs' precision for
        explicit features, and otherwise takes float32 for large problems unless ``tol`` is below 1e-5.
    n_jobs : int or None, how many threads; None and -1 mean all cores
    engine : "auto", "threads", "torch", "dask" or an Engine, default "auto"
        Where the fit runs: ``Threads(memory="8GB")`` keeps features within so much memory, ``Torch("cuda:1")`` on a
        device, ``Dask(client)`` on a cluster (kernelfields.engines). "auto" takes a CUDA device if there is one and
        the problem is large, else threads.
    random_state : int, Generator, RandomState or None
    verbose : int, default 0; 1 shows where the fit is, 2 every iteration
    callbacks : callables that see each Iteration; returning True stops the fit. A ``Checkpoint`` among them
        writes the model to a file from time to time.
    class_weight : dict of labels, "balanced" or None
        A sequence counts with the mean weight of its labels; labels that are not named weigh 1. See docs/frames.md.
    patience : int, default 5; after so many iterations without a higher likelihood of a development set a fit stops
    warm_start : bool, default False
        Start the next fit from the present coefficients, in the present basis. Prior variances, sequences and
        solver settings may change from fit to fit, the clique sets may not.
    partial_labels : PartialLabels or None
        How to fit where labels in y are partly known: None for unknown, a set of allowed ones, a dict of weights.
    allowed : LabelDictionary, PrunedBy or None
        Which labels positions may have, in training and prediction; inference skips the others. docs/many_labels.md.

    Attributes
    ----------
    classes_, n_features_in_ : the sorted labels and the number of input features
    feature_names_in_ : (n_features_in_,) names of the features of dicts, strings or data frames
    basis_ : dict, name of a clique set -> its subspace
    coef_ : dict, name of a clique set -> coefficients (rank, labels or pairs of labels)
    transitions_ : (L, L) transition scores that do not depend on inputs, or None
    structure_path_ : StructurePath of cliques="learn", else None; allowed_ : the dictionary or pruning, or None
    dev_log_likelihoods_ : (iterations + 1,) log-likelihoods of the development set, or None
    evidence_path_ : EvidencePath of optimize="evidence", else None; laplace_ : what :meth:`laplace` found
    solution_ : Solution; certificate_ : Certificate (span); rkhs_certificate_ : free bound over the RKHS
    """

    kind = "ChainCRF"

    field_: Any
    structure_path_: StructurePath | None
    dev_log_likelihoods_: np.ndarray | None
    transitions_: np.ndarray | None

    def __init__(
        self,
        kernel: KernelLike = "auto",
        *,
        edge_kernel: KernelLike | None = None,
        window: int | tuple[int, int] = 1,
        rank: int | None = 1000,
        basis: BasisLike = "random-cholesky",
        support: str = "all",
        edge_support: str | None = None,
        min_freq: float = 0.0,
        l1: float = 0.0,
        edge_l1: float | None = None,
        prior_variance: float | str | Sequence[float] = "auto",
        edge_prior_variance: float | Sequence[float] | None = None,
        scale: bool | str = "auto",
        label_kernel: LabelKernelLike = "delta",
        cliques: Sequence[CliqueSet] | str | None = None,
        candidates: Sequence[CliqueSet] | StructureSearch | None = None,
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
        patience: int = 5,
        warm_start: bool = False,
        partial_labels: PartialLabels | None = None,
        allowed: object = None,
    ):
        self.kernel = kernel
        self.edge_kernel = edge_kernel
        self.window = window
        self.rank = rank
        self.basis = basis
        self.support = support
        self.edge_support = edge_support
        self.min_freq = min_freq
        self.l1 = l1
        self.edge_l1 = edge_l1
        self.prior_variance = prior_variance
        self.edge_prior_variance = edge_prior_variance
        self.scale = scale
        self.label_kernel = label_kernel
        self.cliques = cliques
        self.candidates = candidates
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
        self.patience = patience
        self.warm_start = warm_start
        self.partial_labels = partial_labels
        self.allowed = allowed

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
    ) -> ChainCRF:
        """Fit the field to sequences X (see the package's quickstart for the accepted forms) and labels y.

        ``sample_weight`` holds one weight per sequence. ``X_dev`` and ``y_dev`` are a development set: the fit
        stops when it has not improved for ``patience`` iterations, and keeps what was best there. Ctrl-C keeps
        the best estimate so far and warns. optimize="evidence", or an EvidenceSearch, chooses prior variances and
        kernel parameters by the evidence. ``X_unlabelled`` are sequences without labels, for what ``partial_labels``
        ask of them. Dask collections are fitted where they are, see docs/dask.md.
        """
        if X_unlabelled is not None:
            X, y, sample_weight = with_unlabelled(X, y, sample_weight, X_unlabelled)
        return self._fit(X, y, sample_weight, optimize=optimize, held_out=(X_dev, y_dev))

    def partial_fit(
        self, X: object, y: object, classes: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> ChainCRF:
        """Fit one more batch of sequences, the posterior of those before as its prior; see docs/partial_fit.md."""
        from kernelfields.models.batches.incremental import fit_batch

        fit_batch(self, X, y, classes, sample_weight)
        return self

    def _check_parameters(self) -> None:
        check_support(self.support, "support")
        check_penalty(self.l1, "l1")
        check_penalty(self.min_freq, "min_freq")
        if self.min_freq > 0 and "observed" not in (self.support, self.edge_support):
            raise ValueError("min_freq counts observed pairs of features and labels: it needs support='observed'")
        if self.edge_support is not None:
            check_support(self.edge_support, "edge_support")
        if self.edge_l1 is not None:
            check_penalty(self.edge_l1, "edge_l1")
        check_prior_variances(self.prior_variance, "prior_variance", auto=True)
        if self.edge_prior_variance is not None:
            check_prior_variances(self.edge_prior_variance, "edge_prior_variance")
        check_class_weight(self.class_weight)
        check_count(self.patience, "patience")
        if self.allowed is not None:
            check_rule(self.allowed)
        if isinstance(self.cliques, str) and self.cliques != "learn":
            raise ValueError(f"cliques must be a list of clique sets, 'learn' or None, got {self.cliques!r}")
        if self.candidates is not None and not isinstance(self.cliques, str):
            raise ValueError("candidates are for cliques='learn', which chooses among them; leave them out")
        super()._check_parameters()
        name_cliques(self._described_cliques())

    def _described_cliques(self) -> Any:
        """Return the clique sets that the parameters describe, or those that were given."""
        if self.cliques is not None and not isinstance(self.cliques, str):
            return self.cliques
        shared: dict[str, Any] = {"basis": self.basis, "rank": self.rank, "window": self.window}
        edge_support, variance = self.edge_support or self.support, self.edge_prior_variance
        own = FALLBACK if is_auto(self.prior_variance) else self.prior_variance
        if variance is None:
            # By default that of the nodes, or of their first part.
            variance = own[0] if isinstance(own, list | tuple) else own
        return [
            NodeCliques(
                "rbf" if is_auto(self.kernel) else self.kernel,
                label_kernel=self.label_kernel,
                prior_variance=own,
                support=self.support,
                min_freq=self.min_freq if self.support == "observed" else 0.0,
                l1=self.l1,
                **shared,
            ),
            EdgeCliques(
                self.edge_kernel,
                prior_variance=variance,
                support=edge_support,
                min_freq=self.min_freq if edge_support == "observed" else 0.0,
                l1=self.l1 if self.edge_l1 is None else self.edge_l1,
                **shared,
            ),
        ]

    def _runs_anywhere(self) -> bool:
        chosen = self.allowed is None and not isinstance(self.cliques, str)
        return chosen and not any(each.needs_threads for each in self._described_cliques())

    @property
    def _continues(self) -> bool:  # type: ignore[override]
        return bool(self.warm_start) and hasattr(self, "field_")

    def _learn(self, X: object, y: object, sample_weight: object, part_of: Any = None) -> tuple[Any, Any, np.ndarray]:
        if is_collection(X) or is_collection(y):
            refuse_elsewhere(self.allowed)
            from kernelfields.engines.dask.data import read_collection
            from kernelfields.engines.dask.engine import connected_client

            client = connected_client(getattr(self.engine, "client", None))
            settings = {"constraints": self.constraints, "class_weight": self.class_weight}
            return read_collection(client, X, y, sample_weight, **settings)
        if self._continues:
            X, y, classes = readable_again(X), readable_again(y), self.classes_
            reader = self._reader.with_rule(self.allowed, X, y, classes)
            chains = reader.read(X, y, sample_weight, classes).admitting_labels()
        else:
            reader = ChainReader()
            seen = any(clique.support == "observed" for _, clique in name_cliques(self._described_cliques()))
            known = self._partial_settings().classes if part_of is None else part_of[1]
            chains, classes = reader.learn(X, y, sample_weight, keep_zeros=seen, classes=known, allowed=self.allowed)
        self._structure(classes, chains).check_labels(chains, classes)
        return reader, weigh_classes(chains, classes, self.class_weight, warn=True), classes

    def _read(self, X: object, y: object = None, sample_weight: object = None) -> Chains:
        chains = self._reader.read(X, y, sample_weight, self.classes_)
        self.field_.structure.check_lengths(chains)
        return chains

    def _read_known(self, known: object, data: Chains) -> tuple[np.ndarray, np.ndarray | None]:
        labels, evidence = super()._read_known(known, data)
        self.field_.structure.check_labels(replace(data, labels=labels, evidence=evidence), self.classes_)
        return labels, evidence

    def _contradicted(self, data: Chains, evidence: np.ndarray) -> np.ndarray:
        return self.field_.structure.lost(data, evidence) >= 0

    def _read_fitted(self, X: object, y: object, sample_weight: object) -> Chains:
        chains = self._reader.read(X, y, sample_weight, self.classes_).admitting_labels()
        self.field_.structure.check_labels(chains, self.classes_)
        return weigh_classes(chains, self.classes_, self.class_weight)

    def _structure(self, classes: np.ndarray, data: Any) -> ChainStructure:
        return ChainStructure(len(classes), resolve_constraints(self.constraints, classes))

    def _development_chains(self, training: Training) -> Chains | None:
        X, y = training.held_out
        if (X is None) != (y is None):
            raise ValueError("a development set needs both X_dev and y_dev")
        if X is None:
            return None
        try:
            chains = training.reader.read(X, y, None, training.classes).admitting_labels()
        except ValueError as error:
            raise ValueError(f"development set: {error}") from error
        training.structure.check_labels(chains, training.classes)  # type: ignore[attr-defined]
        return chains

    def _place_development(self, training: Training) -> int:
        chains = self._development_chains(training)
        if chains is None:
            return 0
        sample = training.place(chains, training.cliques, training.data.n_positions, solved=False)
        training.development = DevelopmentSet(sample, self.patience)
        return chains.n_positions

    def _cliques(self, training: Training) -> NamedCliques:
        described = self._described_cliques()
        if not isinstance(self.cliques, str):
            return name_cliques(described)
        if self._continues:
            training.structure_path = self.structure_path_
            return [(term.name, term.clique) for term in self.field_.terms]
        return learnt_cliques(self, training, described, self._development_chains(training))

    def _spells_out(self) -> bool:
        return self.cliques is not None and not isinstance(self.cliques, str)

    def _for_rehearsal(self) -> ChainCRF:
        rehearsed = super()._for_rehearsal()
        rehearsed.cliques = None
        return rehearsed

    def _decodes_jointly(self) -> bool:
        structure: Any = self._field().structure
        return structure.masks.any or guess_scheme(self.classes_.tolist()) is not None

    def _designs(self, training: Training, sample: Sample) -> tuple[list[Design], list[np.ndarray] | None]:
        if not self._continues:
            return super()._designs(training, sample)
        designs = continued_designs(training.cliques, self.field_.terms, sample)
        return self._optimized(training, sample, designs, [term.known for term in self.field_.terms])

    def _set_fitted(self, training: Training, fitted: FittedField) -> ChainCRF:
        super()._set_fitted(training, fitted)
        self.structure_path_ = training.structure_path
        development = training.development
        self.dev_log_likelihoods_ = None if development is None else np.array(development.scores)
        return self

    def _set_views(self) -> None:
        super()._set_views()
        self.allowed_ = self._reader.allowed
        tied = [
            term.tied_scores.reshape(len(self.classes_), -1)
            for term in self.field_.terms
            if isinstance(term.clique, EdgeCliques) and term.tied_everywhere
        ]
        self.transitions_ = np.sum(tied, axis=0) if tied else None

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Names of the features; only for fields fitted on feature dicts, strings or data frames."""
        check_is_fitted(self, "field_")
        if self._reader.names is None:
            raise AttributeError("feature_names_in_: this field was fitted on arrays, whose columns have no names")
        return np.array(self._reader.names)

    @answers_collections
    def predict(self, X: object, decode: str | None = None, *, known: object = None) -> list:
        """Return the labels of each sequence: a list of strings, or an array of numbers.

        decode="viterbi": the most probable labelling as a whole; decode="posterior": the most probable label
        at each position, which maximises expected token accuracy; None means ``decode`` of the estimator.

        ``known``, here and below, is what is known of the labels, in the form of a ``y`` of :meth:`fit`: labels, None,
        sets of allowed ones, dicts of weights. Answers are then given that it is so.
        """
        decoded = self._decoded(X, decode, known)
        return Ragged(each for data, best in decoded for each in plain_strings(data.split(self.classes_[best])))

    @answers_collections
    def predict_marginals(
        self, X: object, pairs: bool = False, *, uncertainty: bool | str = False, known: object = None
    ) -> list[np.ndarray] | tuple[list[np.ndarray], list[np.ndarray]]:
        """Return p(y_t | x) of each sequence as (T, L) arrays, columns as in ``classes_``.

        With ``pairs=True`` also p(y_{t-1}, y_t | x) as (T - 1, L, L) arrays: a tuple of two lists. After
        :meth:`laplace`, uncertainty="probit" (or True) shrinks log-odds by their variance around the fit, which
        keeps the most probable labels; "sampling" is the mean over coefficients drawn around it, pairs too.
        """
        kind = resolve_uncertainty(uncertainty, joint=pairs) if uncertainty is not False else None
        nodes, edges = Ragged(), Ragged()
        joint_of = (lambda answers: answers.pair_marginals()) if pairs else None
        for chains, marginals, joint in self._averaged(X, kind, joint_of, known):
            nodes += chains.split(marginals)
            edges += [rows[1:] for rows in chains.split(joint)] if pairs else []
        return (nodes, edges) if pairs else nodes

    @answers_collections
    def predict_variances(self, X: object) -> list[np.ndarray]:
        """Return the posterior variances of the potentials of labels, (T, L) arrays, after :meth:`laplace`."""
        return Ragged(rows for batch, variances in self._variances(X) for rows in batch.split(variances))

    @answers_collections
    def predict_nbest(self, X: object, k: int, *, known: object = None) -> list[list[tuple[np.ndarray, float]]]:
        """Return, for each sequence, its k most probable labellings with their log-probabilities."""
        check_is_fitted(self, "field_")
        return ranked_labellings(self._answers(X, known=known), self.classes_, k)

    def stream(self, lag: float = 5, *, decode: str | None = None, every: int = 1) -> Any:
        """Return a LabelStream: ``push`` the positions of a sequence as they come, ``end`` it; see docs/streams.md."""
        from kernelfields.models.stream import LabelStream

        jointly = self._asked_jointly(decode)
        return LabelStream(self._field(), self._reader, self.classes_, lag, every, jointly, self.n_jobs)

    def log_likelihood(
        self, X: object, y: object, *, per_sequence: bool = False, known: object = None
    ) -> float | np.ndarray:
        """Return log p(y | x), or p of what a partly known y tells, summed or for each; -inf for what is forbidden."""
        values = self._log_likelihoods(X, y, known)
        return values if per_sequence else float(values.sum())

    def score(
        self, X: object, y: object, sample_weight: ArrayLike | None = None, *, decode: str | None = None
    ) -> float:
        """Return token accuracy: the share of positions whose label is what :meth:`predict` says.

        ``sample_weight`` holds one weight per sequence. Labels never learnt are errors; unknown ones do not count.
        """
        check_is_fitted(self, "field_")
        lengths = np.diff(self._read(X).offsets)
        return share_right(y, self.classes_, lengths, lambda: self.predict(X, decode), sample_weight)

    def sample(
        self, X: object, n_samples: int | None = None, random_state: Seed = None, *, known: object = None
    ) -> list[np.ndarray]:
        """Draw labellings from p(y | x): (T,) labels per sequence, or (n_samples, T) if a number is given."""
        draws = self._draws(X, n_samples, random_state, known)
        return Ragged(
            each for chains, drawn in draws for each in per_item(chains, self.classes_[drawn], n_samples is None)
        )

    @answers_collections
    def entropy(self, X: object, *, known: object = None) -> np.ndarray:
        """Return the entropy of p(y | x) of each sequence, in nats: how undecided the field is."""
        return np.concatenate([np.empty(0), *(each.entropies() for each in self._answers(X, known=known))])  # type: ignore[union-attr]

    def weights(
        self,
        top: int | tuple[int, int] | None = 20,
        labels: Sequence[object] | None = None,
        feature_re: str | re.Pattern[str] | None = None,
        *,
        feature_names: Sequence[str] | None = None,
    ) -> WeightsTable:
        """Return the largest weights per label, transitions, scores of starts and ends; ``to_rows()`` is for pandas.

        Parameters
        ----------
        top : how many weights of each label, the largest by size; a pair for positive and negative ones; None for all
        labels : list of the labels to show, in this order; None for all. Transitions are those between them.
        feature_re : regular expression; features are listed if it is found in their names
        feature_names : names of the input features. By default those of the fit, "x0", "x1", ... for arrays.

        With a window, names of neighbours' features begin with their offset: "[-1] word:the". Kernels without
        explicit features, such as RBF, have no weights per feature; the table says so. Transitions that depend on the
        inputs have one list for all pairs of labels. Weights are relative: adding a number to those of one feature for
        all labels changes no probability, so compare the labels of a feature. Where columns were brought to one scale,
        weights are those of the scaled columns.
        """
        check_is_fitted(self, "field_")
        return tabulate_weights(self, top, labels, feature_re, feature_names)

    def explain(
        self,
        x: object,
        y: object = None,
        top: int = 5,
        against: object = None,
        *,
        feature_names: Sequence[str] | None = None,
        tokens: Sequence[object] | None = None,
        pivots: int = 0,
        neighbours: int = 3,
        training: tuple[object, object] | None = None,
    ) -> Explanation:
        """Return, for one sequence, what moved the label at each position and away from which other label.

        The contributions at a position add up to log p(y | x) - log p(y with the other label at t | x). A labelling
        that constraints or ``allowed`` forbid has probability zero: each rule that it breaks contributes infinity.

        Parameters
        ----------
        x : one sequence, in the form the model was fitted on
        y : labels of the sequence; None for those that are predicted
        top : how many features to list at each position, the largest by size; transitions and kernels always are
        against : a label, or a list with one per position, to compare with; None for the most probable besides y
        feature_names : names of the input features, as in :meth:`weights`
        tokens : what to show for each position
        neighbours : how many training inputs to list for each kernel without explicit features: the most similar
        training : the pair (X, y) of the fit, to list those that contributed most, with their places and labels
        pivots : list so many terms k(x, b) alpha_b of the kernel expansion instead; they may be large and cancel
        """
        check_is_fitted(self, "field_")
        asked = Asked.of(self, training, top, against, feature_names, pivots, neighbours)
        return explain_sequence(self, x, y, tokens, asked)

    def summary(self) -> ModelSummary:
        """Return the fitted field at a glance, to be printed, shown by a notebook or put on a page of a report."""
        check_is_fitted(self, "field_")
        return summarise(self)

    def show(
        self, x: object, y: object = None, *, tokens: Sequence[object] | None = None, caption: str = ""
    ) -> LabelledSequence:
        """Return one sequence as the field labels it, coloured, for a notebook or a page; without words a time line.

        Parameters
        ----------
        x : one sequence, in the form the model was fitted on
        y : its true labels, to mark those that are wrong; labels the model does not know are allowed
        tokens : what to show for each position, such as its word; None for a time line
        """
        check_is_fitted(self, "field_")
        return show_sequence(self, x, y, tokens, caption)

    def _describe_structure(self) -> dict[str, Any]:
        masks = self.field_.structure.masks
        return {"masks": {"edge": masks.edge, "start": masks.start, "end": masks.end, "label": masks.label}}

    @classmethod
    def _rebuilt_reader(cls, described: Mapping[str, Any]) -> ChainReader:
        return ChainReader.rebuild(dict(described))

    @classmethod
    def _rebuilt_structure(cls, described: Mapping[str, Any], classes: np.ndarray) -> ChainStructure:
        masks = ConstraintMasks(**described["masks"])
        masks.check(len(classes))
        return ChainStructure(len(classes), masks)

    @classmethod
    def from_document(cls, document: Mapping[str, Any], callables: Functions | None = None) -> ChainCRF:
        """Return the estimator that was described."""
        estimator = super().from_document(document, callables)
        estimator.dev_log_likelihoods_, estimator.structure_path_ = None, None
        return estimator
