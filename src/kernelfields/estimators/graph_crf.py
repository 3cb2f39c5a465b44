"""GraphCRF: a kernel conditional random field on graphs, as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from kernelfields.estimators.base import (
    BasisLike,
    EngineLike,
    FieldEstimator,
    KernelLike,
    LabelKernelLike,
    Seed,
)
from kernelfields.estimators.inspecting.explanations import Asked, explain_graph
from kernelfields.estimators.inspecting.inspection import show_graph, summarise_graphs, tabulate_graph_weights
from kernelfields.estimators.known import ranked_labellings
from kernelfields.estimators.settling import Training
from kernelfields.features.readers import GraphReader
from kernelfields.fields.chains import weigh_classes
from kernelfields.fields.cliques import CliqueSet
from kernelfields.fields.evidence import share_right
from kernelfields.fields.graph_cliques import GraphFactors, GraphNodes
from kernelfields.fields.graph_reading import GRAPHS
from kernelfields.fields.graphs import Graphs
from kernelfields.fields.ragged import Ragged, per_item
from kernelfields.fields.reading import check_class_weight
from kernelfields.inference.plan import check_method
from kernelfields.models.build import NamedCliques, name_cliques
from kernelfields.models.field import Field
from kernelfields.models.partial import PartialLabels
from kernelfields.models.unlabelled import with_unlabelled
from kernelfields.numerics.parameters import check_prior_variance, check_support
from kernelfields.objective.likelihoods.graph import GraphStructure, refuse_approximate
from kernelfields.objective.likelihoods.likelihood import LabelStructure
from kernelfields.objective.term import Term
from kernelfields.reports.graph_pictures import LabelledGraph
from kernelfields.reports.inspection import Explanation, ModelSummary, WeightsTable
from kernelfields.uncertainty.laplace.probit import resolve_uncertainty


class GraphCRF(FieldEstimator):
    """Conditional random field on graphs, with potentials in reproducing kernel Hilbert spaces.

    score(y | x) = sum_v f(x_v, y_v) + sum over edges f(x_e, y_v, y_w), larger cliques likewise, with Gaussian
    process priors on f, fitted to the maximum a posteriori. An entry of X is ``(node_features, edges)``,
    ``(node_features, edges, edge_features)``, a dict of these parts ("x", "edges", "edge_features") or a networkx
    graph. Edges and their features may be dicts by type, and a type of three or more columns joins that many
    nodes. The dict may also have "node_types": then each type of nodes has a potential of its own. y holds one
    array of labels per graph.

    Parameters
    ----------
    kernel : "auto", Kernel, str, callable or scikit-learn kernel, or dict of types, default "auto"
        Kernel on the features of nodes; a dict names one for each type of nodes. "auto" is "linear" for wide sparse
        features, else "rbf".
    edge_kernel : "auto", kernel, None, or dict of types, default "auto"
        Kernel on the features of edges. None for one table of scores for all edges of a type, whatever their
        features; "auto" adds to that table a linear function of the features where there are any.
    symmetric : bool or dict of types, default False
        Whether an edge has no direction: f(a, b) = f(b, a).
    rank, basis, support, label_kernel : as in ChainCRF
    prior_variance : "auto" or float, default "auto"
        "auto" chooses a power of ten by short fits on some of the graphs (1 for fewer than five graphs or 200 nodes).
    edge_prior_variance : float, dict of types, or None
        Prior variance of the scores of edges; None means ``prior_variance``.
    cliques : list of clique sets or None
        GraphNodes and GraphFactors that spell out the field; the parameters above are then not used.
    inference : str or object, default "auto"
        "tree", "junction" (exact), "trw", "loopy", "mean-field" (approximate), "gibbs" (for predictions alone), an
        object with options, or "auto": the first of "tree", "junction" and "trw" that these graphs allow,
        "mean-field" for larger cliques. May be changed between fit and predictions.
    decode : "auto", "joint" or "posterior", default "auto"
        Which labels :meth:`predict` and :meth:`score` take: those of the best labelling as a whole, or the most
        probable of each node. "auto" is "posterior".
    scale, solver, tol, max_iter, dtype, n_jobs, engine, random_state, verbose, callbacks : as in ChainCRF
        With approximate inference only solver="lbfgs", and ``tol`` is a relative gap of the approximate objective.
    class_weight : dict of labels, "balanced" or None
        A graph counts with the mean weight of its labels.
    partial_labels : PartialLabels or None
        How to fit where labels in y are partly known, see docs/partial_labels.md.

    Attributes
    ----------
    classes_, n_features_in_ : the sorted labels and the number of features of a node
    inference_ : how the fit was inferred: ``method``, ``exact`` and ``description`` say what was chosen
    basis_, coef_ : dicts, name of a clique set -> its subspace; its coefficients (rank, labellings of a clique)
    edge_scores_ : dict, type -> table of scores that do not depend on features
    solution_ : Solution; certificate_, rkhs_certificate_ : Certificates, only where inference is exact
    evidence_path_ : EvidencePath of optimize="evidence", else None; laplace_ : what :meth:`laplace` found
    """

    kind = "GraphCRF"

    def __init__(
        self,
        kernel: KernelLike | Mapping[str, KernelLike] = "auto",
        *,
        edge_kernel: KernelLike | Mapping[str, KernelLike | None] | None = "auto",
        symmetric: bool | Mapping[str, bool] = False,
        rank: int | None = 1000,
        basis: BasisLike = "random-cholesky",
        support: str = "all",
        prior_variance: float | str = "auto",
        edge_prior_variance: float | Mapping[str, float] | None = None,
        scale: bool | str = "auto",
        label_kernel: LabelKernelLike = "delta",
        cliques: Sequence[CliqueSet] | None = None,
        inference: object = "auto",
        decode: str = "auto",
        solver: object = "auto",
        tol: float = 1e-3,
        max_iter: int = 1000,
        dtype: object = "auto",
        n_jobs: int | None = None,
        engine: EngineLike = "auto",
        random_state: Seed = None,
        verbose: int = 0,
        callbacks: Sequence[object] | None = None,
        class_weight: Mapping[object, float] | str | None = None,
        partial_labels: PartialLabels | None = None,
    ):
        self.kernel = kernel
        self.edge_kernel = edge_kernel
        self.symmetric = symmetric
        self.rank = rank
        self.basis = basis
        self.support = support
        self.prior_variance = prior_variance
        self.edge_prior_variance = edge_prior_variance
        self.scale = scale
        self.label_kernel = label_kernel
        self.cliques = cliques
        self.inference = inference
        self.decode = decode
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.dtype = dtype
        self.n_jobs = n_jobs
        self.engine = engine
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks
        self.class_weight = class_weight
        self.partial_labels = partial_labels

    def fit(
        self,
        X: object,
        y: object,
        sample_weight: ArrayLike | None = None,
        *,
        X_unlabelled: object = None,
        optimize: object = None,
    ) -> GraphCRF:
        """Fit the field to graphs X and labels y; ``sample_weight`` holds one weight per graph.

        Ctrl-C ends the fit with the best estimate so far, and a warning. optimize="evidence", or an
        EvidenceSearch, chooses prior variances and kernel parameters by the evidence. ``X_unlabelled`` are graphs
        without labels, for what ``partial_labels`` ask of them.
        """
        if X_unlabelled is not None:
            X, y, sample_weight = with_unlabelled(X, y, sample_weight, X_unlabelled)
        return self._fit(X, y, sample_weight, optimize=optimize)

    def _check_parameters(self) -> None:
        check_support(self.support, "support")
        check_prior_variance(self.prior_variance, "prior_variance", auto=True)
        check_method(self.inference)
        check_class_weight(self.class_weight)
        super()._check_parameters()

    def _learn(self, X: object, y: object, sample_weight: object, part_of: Any = None) -> tuple[Any, Any, np.ndarray]:
        if part_of is not None:
            # The types of nodes and edges are those of all graphs, whichever the part holds.
            reader, classes = part_of
            graphs = reader.read(X, y, sample_weight, classes)
        else:
            reader, declared = GraphReader(), self._partial_settings().classes
            graphs, classes = reader.learn(X, y, sample_weight, declared)
        return reader, weigh_classes(graphs, classes, self.class_weight), classes

    def _read_fitted(self, X: object, y: object, sample_weight: object) -> Graphs:
        return weigh_classes(self._read(X, y, sample_weight), self.classes_, self.class_weight)

    def _read(self, X: object, y: object = None, sample_weight: object = None) -> Graphs:
        return self._reader.read(X, y, sample_weight, self.classes_)

    _nouns = GRAPHS
    _places = ("graph", "node")

    def _structure(self, classes: np.ndarray, data: Graphs) -> GraphStructure:
        return GraphStructure(len(classes), self.inference)

    def _field(self) -> Field:
        check_is_fitted(self, "field_")
        # How graphs are inferred may change after the fit.
        return replace(self.field_, structure=GraphStructure(len(self.classes_), self.inference))

    def _cliques(self, training: Training) -> NamedCliques:
        graphs = training.data
        if self.cliques is not None:
            return name_cliques(_named_by_type(self.cliques))
        shared = {"basis": self.basis, "rank": self.rank, "support": self.support}
        cliques: list = [
            GraphNodes(
                kernel,
                node_type=kind,
                name=_node_name(kind),
                label_kernel=self.label_kernel,
                prior_variance=self.prior_variance,
                **shared,
            )
            for kind, kernel in _node_kernels(self.kernel, graphs)
        ]
        names = [factors.name for factors in graphs.factors]
        for parameter in ("edge_kernel", "edge_prior_variance", "symmetric"):
            _check_types(getattr(self, parameter), parameter, names)
        for factors in graphs.factors:
            name = factors.name
            variance = _of_type(self.edge_prior_variance, name, None)
            settings = {
                "group": name,
                "order": factors.labels_per_clique,
                "symmetric": bool(_of_type(self.symmetric, name, False)),
                "prior_variance": self.prior_variance if variance is None else variance,
                **shared,
            }
            if settings["symmetric"] and factors.labels_per_clique != 2:
                raise ValueError(
                    f"symmetric is for pairs of labels, and factors named {name!r} join {factors.labels_per_clique}"
                )
            kernel = _of_type(self.edge_kernel, name, "auto")
            if isinstance(kernel, str) and kernel == "auto":
                cliques.append(GraphFactors(None, **settings))
                if factors.inputs is not None:
                    cliques.append(GraphFactors("linear", **settings, name=f"{name} features"))
            else:
                cliques.append(GraphFactors(kernel, **settings))
        return name_cliques(cliques)

    def _spells_out(self) -> bool:
        return self.cliques is not None

    def _approximate_method(self, training: Training) -> str | None:
        plan = training.structure.plan(training.data)
        return None if plan is None or plan.exact else plan.method

    def _set_views(self) -> None:
        super()._set_views()
        n_labels = len(self.classes_)
        self.edge_scores_ = {
            term.group: term.tied_scores.reshape((n_labels,) * term.labels_per_clique)
            for term in self.field_.terms
            if term.group is not None and term.tied_everywhere
        }

    def predict(self, X: object, decode: str | None = None, *, known: object = None) -> list[np.ndarray]:
        """Return the labels of each graph, in the order of its nodes.

        decode="joint": the most probable labelling as a whole, a good one where inference is approximate;
        decode="posterior": the most probable label of each node, which maximises expected node accuracy;
        None means ``decode`` of the estimator.

        ``known``, here and in the methods below, is what is known of the labels, in the form of a ``y`` of
        :meth:`fit`: labels, None, sets of allowed ones, dicts of weights. Answers are then given that it is so.
        """
        predictions = Ragged()
        for graphs, labels in self._decoded(X, decode, known):
            predictions += graphs.split(self.classes_[labels])
        return predictions

    def predict_marginals(
        self, X: object, factors: str | None = None, *, uncertainty: bool | str = False, known: object = None
    ) -> list[np.ndarray] | tuple[list[np.ndarray], list[np.ndarray]]:
        """Return p(y_v | x) of each graph as (n, L) arrays, columns as in ``classes_``.

        With the name of a type of edges (or larger factors) also the joint marginals of their labels, (m, L, L):
        a tuple of two lists. After :meth:`laplace`, uncertainty="probit" (or True) shrinks log-odds by their
        variance around the fit, which keeps the most probable labels; "sampling" is the mean over coefficients
        drawn around it, joint marginals too.
        """
        kind = resolve_uncertainty(uncertainty, joint=factors is not None)
        nodes, joint = Ragged(), Ragged()
        joint_of: Callable[[Any], np.ndarray] | None = None
        if factors is not None:
            joint_of = lambda answers: answers.factor_marginals(factors)  # noqa: E731
        for graphs, marginals, rows in self._averaged(X, kind, joint_of, known):
            nodes += graphs.split(marginals)
            if factors is not None:
                joint += [rows[begin:end] for begin, end in pairwise(graphs.group(factors).offsets.tolist())]
        return nodes if factors is None else (nodes, joint)

    def predict_variances(self, X: object) -> list[np.ndarray]:
        """Return the posterior variances of the potentials of nodes, (n, L) arrays, after :meth:`laplace`."""
        return Ragged(rows for batch, variances in self._variances(X) for rows in batch.split(variances))

    def log_likelihood(
        self, X: object, y: object, *, per_graph: bool = False, known: object = None
    ) -> float | np.ndarray:
        """Return log p(y | x), summed over graphs or for each; ValueError if inference is approximate.

        Of a y that is partly known, the probability of what it tells.
        """
        values = self._log_likelihoods(X, y, known)
        return values if per_graph else float(values.sum())

    def score(
        self, X: object, y: object, sample_weight: ArrayLike | None = None, *, decode: str | None = None
    ) -> float:
        """Return the share of nodes whose label is what :meth:`predict` says.

        ``sample_weight`` holds one weight per graph. Labels that were not there to be learnt count as errors, nodes
        whose label is not known do not count.
        """
        check_is_fitted(self, "field_")
        lengths = np.diff(self._read(X).offsets)
        return share_right(y, self.classes_, lengths, lambda: self.predict(X, decode), sample_weight, GRAPHS)

    def sample(
        self, X: object, n_samples: int | None = None, random_state: Seed = None, *, known: object = None
    ) -> list[np.ndarray]:
        """Draw labellings from p(y | x): (n,) labels per graph, or (n_samples, n) if a number is given."""
        draws = Ragged()
        for graphs, drawn in self._draws(X, n_samples, random_state, known):
            draws += per_item(graphs, self.classes_[drawn], n_samples is None)
        return draws

    def entropy(self, X: object, *, known: object = None) -> np.ndarray:
        """Return the entropy of p(y | x) of each graph, in nats; ValueError if inference is approximate."""
        parts = [np.empty(0)]
        for answers in self._answers(X, known=known):
            refuse_approximate(answers.inference, "an entropy")
            parts.append(answers.entropies())  # type: ignore[union-attr]
        return np.concatenate(parts)

    def predict_nbest(self, X: object, k: int, *, known: object = None) -> list[list[tuple[np.ndarray, float]]]:
        """Return, for each graph, its k most probable labellings with their log-probabilities.

        Exact, by lists of the k best along the junction tree; ValueError if inference is approximate.
        """
        check_is_fitted(self, "field_")
        return ranked_labellings(self._answers(X, known=known), self.classes_, k)

    def weights(
        self,
        top: int | tuple[int, int] | None = 20,
        labels: Sequence[object] | None = None,
        feature_re: Any = None,
        *,
        feature_names: object = None,
    ) -> WeightsTable:
        """Return the largest weights per label, and the scores of pairs of labels for every type of edges.

        Parameters as in :meth:`ChainCRF.weights`; ``feature_names`` may be a dict by type of edges, "node" for nodes.
        Features without names are "x0", "x1", ... at nodes and "e0", "e1", ... at edges.
        """
        check_is_fitted(self, "field_")
        return tabulate_graph_weights(self, top, labels, feature_re, feature_names)

    def explain(
        self,
        x: object,
        y: object = None,
        top: int = 5,
        against: object = None,
        *,
        feature_names: object = None,
        names: Sequence[object] | None = None,
        pivots: int = 0,
        neighbours: int = 3,
        training: tuple[object, object] | None = None,
    ) -> Explanation:
        """Return, for one graph, what moved the label of each node and away from which other label.

        The contributions at a node add up to the score of the labelling minus its score with the other label there,
        those of its edges and larger factors named by the nodes they lead to. Parameters as in
        :meth:`ChainCRF.explain`; ``names`` are those of the nodes.
        """
        check_is_fitted(self, "field_")
        asked = Asked.of(self, training, top, against, feature_names, pivots, neighbours)
        return explain_graph(self, x, y, names, asked)

    def summary(self) -> ModelSummary:
        """Return the fitted field at a glance: labels, clique sets, sizes, certificates, scores of edges."""
        check_is_fitted(self, "field_")
        return summarise_graphs(self)

    def show(
        self,
        x: object,
        y: object = None,
        *,
        names: Sequence[object] | None = None,
        positions: ArrayLike | None = None,
        caption: str = "",
    ) -> LabelledGraph:
        """Return one graph as the field labels it, for a notebook or a page: nodes in the colours of their labels.

        Grids numbered row by row are images of cells. ``y`` are the true labels, ``names`` those of the nodes, and
        ``positions`` (n, 2) say where to draw them; None for a layout by distances along edges.
        """
        check_is_fitted(self, "field_")
        return show_graph(self, x, y, names, positions, caption)

    @classmethod
    def _rebuilt_reader(cls, described: Mapping[str, Any]) -> GraphReader:
        return GraphReader.rebuild(dict(described))

    @classmethod
    def _rebuilt_structure(cls, described: Mapping[str, Any], classes: np.ndarray) -> GraphStructure:
        return GraphStructure(len(classes))

    @classmethod
    def _check_terms(cls, terms: Sequence[Term], reader: GraphReader, structure: LabelStructure) -> None:
        bases = [id(term.subspace) for term in terms]
        if len(set(bases)) < len(bases):
            raise ValueError("two of its clique sets have one basis, which sees the inputs of one of them")
        for term in terms:
            if term.group is not None and term.group not in reader.factors:
                raise ValueError(f"set {term.name!r} scores factors of the unknown type {term.group!r}")
            kind = getattr(term.clique, "node_type", None)
            if kind is not None and kind not in (reader.node_types or ()):
                raise ValueError(f"set {term.name!r} scores nodes of the unknown type {kind!r}")


def _node_kernels(given: Any, graphs: Graphs) -> list[tuple[str | None, Any]]:
    """Return the kernel on the nodes of each type; for nodes without types that of all, under None."""
    if graphs.node_types is None:
        if isinstance(given, Mapping):
            raise ValueError(
                "kernel is a dict by type of node, and the graphs have no types of nodes: pass dicts with 'x', "
                "'edges' and 'node_types', or set the attribute 'type' of networkx nodes"
            )
        return [(None, given)]
    names = graphs.node_types.names
    _check_types(given, "kernel", list(names), "nodes")
    if isinstance(given, Mapping) and (missing := [name for name in names if name not in given]):
        raise ValueError(f"kernel has no entry for nodes of the type {missing[0]!r}: name one for each type")
    return [(name, _of_type(given, name, None)) for name in names]


def _node_name(kind: str | None) -> str | None:
    return None if kind is None else f"node {kind}"


def _named_by_type(cliques: Any) -> Any:
    """Return clique sets as they are, those of a type of nodes named by it if they have no name."""
    if not isinstance(cliques, list | tuple):
        return cliques
    return [
        clone(each).set_params(name=_node_name(each.node_type))
        if isinstance(each, GraphNodes) and each.name is None
        else each
        for each in cliques
    ]


def _of_type(given: Any, name: str, default: Any) -> Any:
    """Return what is given for a type: by name, or the same for all."""
    return given.get(name, default) if isinstance(given, Mapping) else given


def _check_types(given: Any, parameter: str, names: list[str], what: str = "edges") -> None:
    unknown = sorted(set(given) - set(names)) if isinstance(given, Mapping) else []
    if unknown:
        known = ", ".join(map(repr, names)) or "none"
        raise ValueError(f"{parameter} names the type {unknown[0]!r}, which no {what} have: there are {known}")
