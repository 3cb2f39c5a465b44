"""GraphCRF: a kernel conditional random field on graphs, as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from kernelfields.data.cliques import USUAL, CliqueSet, EdgeCliques, NodeCliques
from kernelfields.data.graph_cliques import GraphFactors, GraphNodes
from kernelfields.data.graph_reader import GraphReader
from kernelfields.data.graph_reading import GRAPHS
from kernelfields.data.graphs import Factors, Graphs
from kernelfields.data.ties import resolve_ties
from kernelfields.estimators.answering.decisions import DECODINGS, ParameterRule
from kernelfields.estimators.answering.formats import AnswerFormat
from kernelfields.estimators.edges import EdgeParameters
from kernelfields.estimators.fit_state import FitState
from kernelfields.estimators.inspecting.explanations import Compared, input_names
from kernelfields.estimators.inspecting.inspection import Inspection
from kernelfields.estimators.kept_field import KernelLike, TiesLike
from kernelfields.estimators.labelled_field import LabelledField
from kernelfields.inference.checks import check_labels
from kernelfields.inference.choice import FamilySpec
from kernelfields.inference.graph_families import graph_family
from kernelfields.inference.graph_plans import check_method
from kernelfields.models.build import NamedCliques, name_cliques
from kernelfields.numerics.parameters import (
    attribute,
    declares_parameters,
    is_auto,
    one_of,
    parameter,
    variance_or_auto,
)
from kernelfields.objective.term import Term
from kernelfields.reports.graph_pictures import LabelledGraph

Value = TypeVar("Value")
EdgesLike: TypeAlias = GraphFactors | EdgeCliques


def _check_edges(edges: object, name: str) -> None:
    listed = list(edges.values()) if isinstance(edges, Mapping) else [] if edges is None else [edges]
    if not all(isinstance(clique, EdgesLike) for clique in listed):
        raise TypeError(f"{name} must be GraphFactors(...), EdgeCliques(...), a dict of them or None, got {edges!r}")


@dataclass(frozen=True)
class GraphInspection(Inspection):
    """The words of graphs."""

    def item(self, model: Any, x: object, y: object, caller: str) -> Graphs:
        """Return one graph as data, labelled if y is given."""
        return model.read_data([x], None if y is None else [y])

    def feature_names(self, model: Any, term: Term, given: object) -> Sequence[str]:
        """Return the names of the columns of nodes, or of a type of edges."""
        kind, reader = term.group, model._reader
        own = given.get(kind or "node") if isinstance(given, Mapping) else given if kind is None else None
        known, width = reader.columns_of(kind), reader.tied_columns(kind).count
        names = input_names(known or None, width, own, "x" if kind is None else "e", f" of {kind or 'node'!r}")
        return reader.steps.names(names, kind)

    def step_words(self, model: Any, term: Term, nodes: list[int], place: int, compared: Compared) -> str:
        """Return the type of an edge, and what is at its other nodes."""
        return f"{term.group} with {' and '.join(map(compared.beside, nodes[:place] + nodes[place + 1 :]))}"

    def transitions(self, model: Any) -> np.ndarray | None:
        """Return the table of scores of the one type of edges; None for several."""
        pairs = [table for table in model.edge_scores_.values() if table.ndim == 2]
        return pairs[0] if len(pairs) == 1 else None


@declares_parameters
class GraphCRF(EdgeParameters, LabelledField[Graphs, GraphReader]):
    """Conditional random field on graphs, with potentials in reproducing kernel Hilbert spaces.

        score(y | x) = sum_v f(x_v, y_v) + sum over edges f(x_e, y_v, y_w)

    and larger cliques likewise, with Gaussian process priors on f, fitted to the maximum a posteriori. An entry of X is
    ``(node_features, edges)``, ``(node_features, edges, edge_features)``, a dict of these parts ("x", "edges",
    "edge_features", "node_types") or a networkx graph. Edges and their features may be dicts by type; a type of three
    or more columns joins that many nodes. y holds one array of labels for each graph. docs/graphs.md.

    Parameters
    ----------
    kernel : "auto", str, Kernel, callable, scikit-learn kernel or dict, default "auto"
        The kernel on the features of nodes; a dict has one for each type of nodes. "auto" is "linear" for wide sparse
        features; for others held-out data decide.
    prior_variance : "auto" or float, default "auto"
        The variance of the Gaussian prior. "auto" chooses a power of ten by held-out graphs, or by held-out nodes of
        fewer than five graphs.
    decode : "auto", "viterbi" or "posterior", default "auto"
        How labels are chosen: "viterbi" takes the best labelling as a whole, "posterior" and "auto" the most probable
        label of each node.
    inference : str or object, default "auto"
        How labels are inferred: "tree", "junction" (exact), "trw", "loopy", "mean-field" (approximate) or an object
        with options. "auto" takes the first of "tree", "junction" and "trw" that the graphs allow, "mean-field" for
        larger cliques; it may change after a fit.
    solver : str, default "auto"
        The optimiser, as in :class:`ChainCRF`; with approximate inference only "lbfgs".
    constraints : Constraints, dict, iterable of label pairs or None, default None
        Labels that no node has, and pairs that the two nodes of an edge may not have, for edges of the usual type.
    edges : GraphFactors, EdgeCliques, dict or None, default None
        The scores of edges, a dict by their types. ``GraphFactors(kernel)`` is a function of the features of edges,
        ``GraphFactors()`` one table of scores; None adds a linear function of the features, where there are any, to the
        table. What a set leaves open is that of the estimator.
    cliques : list of clique sets or None, default None
        GraphNodes and GraphFactors that describe the field, in place of kernel, edges and prior variance.
    ties : LabelSymmetry, list of LabelSymmetry or None, default None
        Labels that share weights by a symmetry of labels and columns; its ``edge_columns`` move the features of edges.
    neighbours : "auto" or bool, default "auto"
        Whether the features of a node are joined with the means of those of its neighbours and log(1 + degree). "auto"
        decides by held-out nodes of fewer than five graphs, else it is False.

    Attributes
    ----------
    edge_scores_ : dict
        The table of scores that do not depend on features, for each type of edges.

    See Also
    --------
    ChainCRF : Fields on sequences.
    MultiLabelCRF : Several labels for each row.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import GraphCRF
    >>> X = [(np.array([[1.0], [0.9], [0.0]]), [[0, 1], [1, 2]]), (np.array([[0.1], [1.1]]), [[0, 1]])]
    >>> y = [np.array(["land", "land", "sea"]), np.array(["sea", "land"])]
    >>> crf = GraphCRF("rbf", prior_variance=10.0, random_state=0).fit(X, y)
    >>> crf.predict([(np.array([[0.1], [0.9]]), [[0, 1]])])
    [['sea', 'land']]
    >>> crf.inference_.method
    'tree'
    """

    kind = "GraphCRF"
    _reads = GraphReader
    _family_kind = "graph"
    answer_format = AnswerFormat(GRAPHS, ("graph", "node"))
    decision_rule = ParameterRule()
    inspection = GraphInspection()

    kernel: KernelLike | Mapping[str, KernelLike] = parameter("auto", first=True, usual="rbf")
    edges: EdgesLike | Mapping[str, EdgesLike] | None = parameter(None, _check_edges)
    prior_variance: float | str = parameter("auto", variance_or_auto, usual=USUAL["prior_variance"])
    cliques: Sequence[CliqueSet] | None = parameter(None)
    constraints: object = parameter(None)
    inference: object = parameter("auto", lambda value, name: check_method(value))
    decode: str = parameter("auto", one_of(*DECODINGS))
    ties: TiesLike | None = parameter(None, lambda value, name: resolve_ties(value))
    neighbours: bool | str = parameter("auto", one_of("auto", True, False), usual=False)

    edge_scores_: dict[str, np.ndarray] = attribute()

    def _learn(
        self, X: object, y: object, sample_weight: object, part_of: tuple[GraphReader, np.ndarray] | None = None
    ) -> tuple[GraphReader, Graphs, np.ndarray]:
        if self.neighbours is True:
            why = "ties move columns of nodes, and neighbours=True adds columns that they do not name"
            resolve_ties(self.ties).refuse(why)
        if part_of is not None:
            # The types of nodes and edges are those of all graphs, whichever the part holds.
            asked, classes = self._reader_for(X), part_of[1]
            reader = replace(part_of[0], steps=asked.steps, own=asked.own)
            graphs = reader.read(X, y, sample_weight, classes)
        else:
            if y is None:
                message = "GraphCRF requires y to be passed, but the target y is None: give an array for each graph"
                raise ValueError(message)
            reader, declared = self._reader_for(X), self._declared_classes
            graphs, classes = reader.learn(X, y, sample_weight, classes=declared)
        check_labels(graphs, self._family_spec(classes, graphs), classes)
        return reader, graphs, classes

    def read_data(self, X: object, y: object = None, sample_weight: object = None) -> Graphs:
        return self._reader.read(X, y, sample_weight, self.classes_)

    def _family_spec(self, classes: np.ndarray, data: Graphs) -> FamilySpec:
        return FamilySpec(self._family_kind, len(classes), self._masks(classes), method=self.inference)

    def clique_sets(self, training: FitState[Graphs, GraphReader]) -> NamedCliques:
        graphs = training.data.own  # which have the types of nodes and edges of all
        if self.cliques is not None:
            return name_cliques(_of_graphs(self.cliques))
        shared: dict[str, Any] = {"basis": self.basis, "rank": self.rank, "prior_variance": self.prior_variance}
        cliques: list = [
            GraphNodes(kernel, node_type=kind, name=_node_name(kind), **shared)
            for kind, kernel in _node_kernels(self.kernel, graphs)
        ]
        _check_types(self.edges, "edges", [factors.name for factors in graphs.factors])
        for factors in graphs.factors:
            edges = self._edges_of(factors).filled(**shared)
            if not is_auto(edges.kernel):
                cliques.append(edges)
                continue
            cliques.append(edges.filled().set_params(kernel=None))
            if factors.inputs is not None:
                cliques.append(edges.set_params(kernel="linear", name=f"{edges.name or factors.name} features"))
        return name_cliques(cliques)

    @staticmethod
    def _usual_edges() -> GraphFactors:
        return GraphFactors("auto")

    def _edges_of(self, factors: Factors) -> GraphFactors:
        """Return the clique set of one type of factors, as it was given for it or for all."""
        name, n_nodes = factors.name, factors.labels_per_clique
        edges = GraphFactors(**_of_type(self._edges, name, self._usual_edges()).get_params(deep=False))
        if edges.group not in ("edge", name) or edges.order not in (2, n_nodes):
            raise ValueError(
                f"edges has {edges!r} for factors named {name!r} of {n_nodes} nodes: leave out group and order, and "
                "name types as keys of a dict"
            )
        if edges.symmetric and n_nodes != 2:
            raise ValueError(f"symmetric is for pairs of labels, and factors named {name!r} join {n_nodes}")
        return edges.set_params(group=name, order=n_nodes)

    def set_params(self, **settings: object) -> Self:
        """Set parameters, as in scikit-learn.

        Those of ``edges``, where it is a dict, are set for all types that it names.

        Parameters
        ----------
        **settings : object
            Parameters by name, ``name__inner`` for those of a parameter.

        Returns
        -------
        Self
            The estimator.
        """
        if isinstance(self.edges, Mapping) and "edges" not in settings:
            nested = {name: value for name, value in settings.items() if name.startswith("edges__")}
            for edges in self.edges.values():
                edges.set_params(**{name.removeprefix("edges__"): value for name, value in nested.items()})
            settings = {name: value for name, value in settings.items() if name not in nested}
        return super().set_params(**settings)

    def _names_cliques(self) -> bool:
        return self.cliques is not None

    def approximate_method(self, training: FitState[Graphs, GraphReader]) -> str | None:
        family = graph_family(training.data, (), training.spec)
        return None if family.exact else family.method

    def _set_views(self) -> None:
        super()._set_views()
        n_labels = len(self.classes_)
        self.edge_scores_ = {
            term.group: term.tied_scores.reshape((n_labels,) * term.labels_per_clique)
            for term in self.field_.terms
            if term.group is not None and term.tied_everywhere
        }

    def show(
        self,
        x: object,
        y: Sequence | None = None,
        *,
        tokens: Sequence | None = None,
        positions: ArrayLike | None = None,
        caption: str = "",
    ) -> LabelledGraph:
        """Return one graph as the field labels it, in colours, for a notebook or a page.

        Grids whose nodes are numbered row by row are shown as images of cells.

        Parameters
        ----------
        x : graph
            One graph, in the form the model was fitted on.
        y : sequence of labels or None, default None
            Its true labels, to mark those that are wrong.
        tokens : sequence or None, default None
            The names of the nodes.
        positions : array (n, 2) or None, default None
            The places where to draw the nodes; None for a layout by distances along edges.
        caption : str, default ""
            A line above the picture.

        Returns
        -------
        LabelledGraph
            The labels with their probabilities, to be shown by a notebook or put on a page of a report.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import GraphCRF
        >>> X = [(np.array([[1.0], [0.9], [0.0]]), [[0, 1], [1, 2]]), (np.array([[0.1], [1.1]]), [[0, 1]])]
        >>> y = [np.array(["land", "land", "sea"]), np.array(["sea", "land"])]
        >>> crf = GraphCRF("rbf", prior_variance=10.0, random_state=0).fit(X, y)
        >>> crf.show(X[0], tokens=["a", "b", "c"]).labels
        ('land', 'land', 'sea')
        """
        check_is_fitted(self, "field_")
        graphs = self._reader.read([x])
        labels, marginals = self.predict([x])[0], self.predict_marginals([x])[0]
        edges = {factors.name: factors.members for factors in graphs.factors}
        classes = self.classes_.tolist()
        places = None if positions is None else np.asarray(positions, dtype=np.float64)
        return LabelledGraph(list(labels), marginals, classes, tokens, y, caption, edges=edges, positions=places)

    @classmethod
    def _check_terms(cls, terms: Sequence[Term], reader: GraphReader, spec: FamilySpec) -> None:
        bases = [id(term.subspace) for term in terms]
        if len(set(bases)) < len(bases):
            raise ValueError("two of its clique sets have one basis, which sees the inputs of one of them")
        for term in terms:
            if term.group is not None and term.group not in reader.factors:
                raise ValueError(f"set {term.name!r} scores factors of the unknown type {term.group!r}")
            kind = term.clique.node_type if isinstance(term.clique, GraphNodes) else None
            if kind is not None and kind not in (reader.node_types or ()):
                raise ValueError(f"set {term.name!r} scores nodes of the unknown type {kind!r}")


def _node_kernels(given: KernelLike | Mapping[str, KernelLike], graphs: Graphs) -> list[tuple[str | None, KernelLike]]:
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


def _of_graphs(cliques: Sequence[CliqueSet]) -> Sequence[CliqueSet]:
    """Return clique sets of graphs, those of a type of nodes named by it if they have no name.

    NodeCliques and EdgeCliques mean the same in graphs; other sets of sequences are refused.
    """
    if not isinstance(cliques, list | tuple):
        return cliques
    found: list[CliqueSet] = []
    for clique in cliques:
        if isinstance(clique, NodeCliques | EdgeCliques):
            kind = GraphNodes if isinstance(clique, NodeCliques) else GraphFactors
            clique = kind(**clique.get_params(deep=False))
        elif isinstance(clique, CliqueSet) and not isinstance(clique, GraphNodes | GraphFactors):
            raise TypeError(f"nodes of graphs have no order, and {clique!r} needs one: use GraphNodes and GraphFactors")
        if isinstance(clique, GraphNodes) and clique.name is None:
            clique = clone(clique).set_params(name=_node_name(clique.node_type))
        found.append(clique)
    return found


def _of_type(given: Value | Mapping[str, Value], name: str, default: Value) -> Value:
    """Return what is given for a type: by name, or the same for all."""
    return given.get(name, default) if isinstance(given, Mapping) else given


def _check_types(given: object, parameter: str, names: list[str], what: str = "edges") -> None:
    unknown = sorted(set(given) - set(names)) if isinstance(given, Mapping) else []
    if unknown:
        known = ", ".join(map(repr, names)) or "none"
        raise ValueError(f"{parameter} names the type {unknown[0]!r}, which no {what} have: there are {known}")
