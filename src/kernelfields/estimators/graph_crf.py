"""GraphCRF: a kernel conditional random field on graphs, as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from kernelfields.data import extras
from kernelfields.data.cliques import USUAL, CliqueSet, EdgeCliques
from kernelfields.data.graph_cliques import GraphFactors
from kernelfields.data.graph_reader import GraphReader
from kernelfields.data.graphs import Graphs
from kernelfields.estimators import library
from kernelfields.estimators.answering.decisions import DECODINGS, ParameterRule
from kernelfields.estimators.answering.formats import AnswerFormat, ByItem
from kernelfields.estimators.base import FieldEstimator
from kernelfields.estimators.inspecting.explanations import Compared, input_names
from kernelfields.estimators.inspecting.inspection import Inspection
from kernelfields.estimators.kept_field import KernelLike, TiesLike
from kernelfields.inference.graph_plans import check_method
from kernelfields.numerics.parameters import (
    attribute,
    check_one,
    declares_parameters,
    parameter,
    variance_or_auto,
)
from kernelfields.objective.term import Term
from kernelfields.reports.graph_pictures import LabelledGraph
from kernelfields.structures.graphs import GraphStructure, usual_edges

Value = TypeVar("Value")
EdgesLike: TypeAlias = GraphFactors | EdgeCliques


def _check_edges(edges: object, name: str) -> None:
    listed = list(edges.values()) if isinstance(edges, Mapping) else [] if edges is None else [edges]
    if not all(isinstance(clique, EdgesLike) for clique in listed):
        raise TypeError(f"{name} must be GraphFactors(...), EdgeCliques(...), a dict of them or None, got {edges!r}")


@dataclass(frozen=True)
class GraphInspection(Inspection):
    """Inspection of fields on graphs."""

    def item(self, model: Any, x: object, y: object, caller: str) -> Graphs:
        """Return one graph as data, labelled if y is given."""
        return model.structure.read([x], None if y is None else [y])

    def feature_names(self, model: Any, term: Term, given: object) -> Sequence[str]:
        """Return the names of the columns of nodes, or of a type of edges."""
        kind, reader = term.group, model._reader
        own = given.get(kind or "node") if isinstance(given, Mapping) else given if kind is None else None
        known, width = reader.column_names(kind), reader.tied_columns(kind).count
        names = input_names(known or None, width, own, "x" if kind is None else "e", f" of {kind or 'node'!r}")
        return reader.steps.names(names, kind)

    def step_words(self, model: Any, term: Term, nodes: list[int], place: int, compared: Compared) -> str:
        """Return the type of an edge, and the labels at its other nodes."""
        return f"{term.group} with {' and '.join(map(compared.describe_place, nodes[:place] + nodes[place + 1 :]))}"

    def transitions(self, model: Any) -> np.ndarray | None:
        """Return the table of scores of the only type of edges; None for several types."""
        pairs = [table for table in model.edge_scores_.values() if table.ndim == 2]
        return pairs[0] if len(pairs) == 1 else None


@declares_parameters
class GraphCRF(FieldEstimator[Graphs, GraphReader]):
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

    _kind = "GraphCRF"
    _structures = GraphStructure
    _answer_format = AnswerFormat(GraphStructure.item_names, ("graph", "node"))
    _decision_rule = ParameterRule()
    _inspection = GraphInspection()

    kernel: KernelLike | Mapping[str, KernelLike] = parameter("auto", first=True, usual="rbf")
    edges: EdgesLike | Mapping[str, EdgesLike] | None = parameter(None, _check_edges, nested=usual_edges)
    prior_variance: float | str = parameter("auto", variance_or_auto, usual=USUAL["prior_variance"])
    cliques: Sequence[CliqueSet] | None = parameter(None)
    constraints: object = parameter(None)
    inference: object = parameter("auto", lambda value, name: check_method(value))
    decode: str = parameter("auto", check_one(*DECODINGS))
    ties: TiesLike | None = parameter(None, lambda value, name: library.resolve_ties(value))
    neighbours: bool | str = parameter("auto", check_one("auto", True, False), usual=False)

    edge_scores_: dict[str, np.ndarray] = attribute()

    def predict_proba(self, X: object, *, known: object = None) -> ByItem:
        """Return the probabilities of labels, as :meth:`predict_marginals` does.

        Parameters
        ----------
        X : graphs
            Graphs, in a form that :meth:`fit` takes.
        known : labels or None, default None
            What is known of the labels, in the form of a ``y`` of :meth:`fit`; answers are given that it is so.

        Returns
        -------
        list of arrays (n, L)
            The marginals of each graph, columns as in ``classes_``.

        See Also
        --------
        predict_marginals : Return them, and those of cliques.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import GraphCRF
        >>> X = [(np.array([[1.0], [0.9], [0.0]]), [[0, 1], [1, 2]]), (np.array([[0.1], [1.1]]), [[0, 1]])]
        >>> y = [np.array(["land", "land", "sea"]), np.array(["sea", "land"])]
        >>> crf = GraphCRF("rbf", prior_variance=10.0, random_state=0).fit(X, y)
        >>> crf.predict_proba([(np.array([[0.1], [0.9]]), [[0, 1]])])[0].round()
        array([[0., 1.],
               [1., 0.]])
        """
        extras.refuse_named_scorers()
        return self.predict_marginals(X, known=known)

    def show(
        self,
        x: object,
        y: Sequence | None = None,
        *,
        tokens: Sequence | None = None,
        positions: ArrayLike | None = None,
        caption: str = "",
    ) -> LabelledGraph:
        """Return one graph with its predicted labels in colours, for a notebook or a page.

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
