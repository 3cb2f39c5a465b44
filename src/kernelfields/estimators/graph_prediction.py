"""What a fitted graph field can be asked: labels, marginals, likelihoods, samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kernelfields.estimators.graph_inputs import GraphInputs
from kernelfields.estimators.graph_model import GraphModel, refuse_approximate
from kernelfields.estimators.laplace_probit import resolve_uncertainty, uncertain_marginals
from kernelfields.estimators.laplace_samples import LaplaceSamples, label_variances
from kernelfields.estimators.parameters import check_count
from kernelfields.estimators.scored_graphs import ScoredGraphs
from kernelfields.fields import Graphs
from kernelfields.fields.randomness import random_generator
from kernelfields.inference.workers import Workers


class GraphPrediction:
    """Prediction methods of graph estimators; expects ``model_``, ``classes_`` and fitted ``_inputs``."""

    model_: GraphModel
    classes_: np.ndarray
    n_jobs: int | None
    inference: Any
    _inputs: GraphInputs
    _drawn: Callable[[], LaplaceSamples]

    def predict(self, X: Any, decode: str = "joint") -> list[np.ndarray]:
        """Return the labels of each graph, in the order of its nodes.

        decode="joint": the most probable labelling as a whole, a good one where inference is approximate;
        decode="posterior": the most probable label of each node, which maximises expected node accuracy.
        """
        if decode not in ("joint", "posterior"):
            raise ValueError(f"decode must be 'joint' or 'posterior', got {decode!r}")
        predictions: list[np.ndarray] = []
        for scored in self._scored(X):
            labels = scored.best_labels() if decode == "joint" else scored.beliefs.node_marginals.argmax(axis=1)
            predictions += scored.graphs.split(self.classes_[labels])
        return predictions

    def predict_marginals(self, X: Any, factors: str | None = None, *, uncertainty: bool | str = False) -> Any:
        """Return p(y_v | x) of each graph as (n, L) arrays, columns as in ``classes_``.

        With the name of a type of edges (or larger factors) also the joint marginals of their labels, (m, L, L):
        a tuple of two lists. After :meth:`laplace`, uncertainty="probit" (or True) shrinks log-odds by their
        variance around the fit, which keeps the most probable labels; "sampling" is the mean over coefficients
        drawn around it, joint marginals too.
        """
        nodes: list[np.ndarray] = []
        joint: list[np.ndarray] = []
        kind = resolve_uncertainty(uncertainty, joint=factors is not None)
        for graphs, marginals, rows in self._beliefs(X, factors, kind):
            nodes += graphs.split(marginals)
            if factors is not None:
                joint += [rows[begin:end] for begin, end in pairwise(graphs.group(factors).offsets.tolist())]
        return nodes if factors is None else (nodes, joint)

    def predict_variances(self, X: Any) -> list[np.ndarray]:
        """Return the posterior variances of the potentials of nodes, (n, L) arrays, after :meth:`laplace`."""
        check_is_fitted(self, "model_")
        samples, sets, n_labels = self._drawn(), self.model_.sets, len(self.classes_)
        graphs = self._inputs.graphs(X, None, None, self.classes_)
        return [
            rows
            for batch in self.model_.batches(graphs)
            for rows in batch.split(label_variances(sets, batch, n_labels, samples))
        ]

    def log_likelihood(self, X: Any, y: Any, *, per_graph: bool = False) -> Any:
        """Return log p(y | x), summed over graphs or for each; ValueError if inference is approximate."""
        parts = []
        for scored in self._scored(X, y):
            refuse_approximate(scored.inference, "a log-likelihood")
            parts.append(scored.label_scores(scored.graphs.labels) - scored.beliefs.log_partition)
        each = np.concatenate(parts)
        return each if per_graph else float(each.sum())

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of nodes whose label in the best joint labelling is right.

        ``sample_weight`` holds one weight per graph.
        """
        check_is_fitted(self, "model_")
        graphs = self._inputs.graphs(X, y, sample_weight, self.classes_)
        right = np.concatenate(self.predict(X)) == self.classes_[graphs.labels]
        return float(np.average(right, weights=graphs.position_weights))

    def sample(self, X: Any, n_samples: int | None = None, random_state: Any = None) -> list[np.ndarray]:
        """Draw labellings from p(y | x): (n,) labels per graph, or (n_samples, n) if a number is given."""
        if n_samples is not None:
            check_count(n_samples, "n_samples", " or None")
        random = random_generator(random_state)
        draws: list[np.ndarray] = []
        for scored in self._scored(X):
            drawn = self.classes_[scored.sample(n_samples or 1, random)]
            for begin, end in pairwise(scored.graphs.offsets.tolist()):
                draws.append(drawn[0, begin:end] if n_samples is None else drawn[:, begin:end])
        return draws

    def entropy(self, X: Any) -> np.ndarray:
        """Return the entropy of p(y | x) of each graph, in nats; ValueError if inference is approximate."""
        parts = []
        for scored in self._scored(X):
            refuse_approximate(scored.inference, "an entropy")
            parts.append(scored.entropies())
        return np.concatenate(parts)

    def _beliefs(self, X: Any, factors: str | None, kind: str | None) -> Iterator[tuple[Graphs, Any, Any]]:
        """Yield batches of graphs with marginals of nodes and of a type of factors, by a kind of uncertainty."""
        check_is_fitted(self, "model_")
        samples = None if kind is None else self._drawn()
        model = replace(self.model_, inference=self.inference)
        for scored in self._scored(X):
            batch, joint = scored.graphs, np.zeros(())
            if kind is None or samples is None:
                rows = None if factors is None else scored.factor_marginals(factors)
                yield batch, scored.beliefs.node_marginals, rows
                continue
            if kind == "probit":
                refuse_approximate(scored.inference, "uncertainty='probit'")

            def marginals(drawn: LaplaceSamples, batch: Graphs = batch) -> Iterator[np.ndarray]:
                nonlocal joint
                for each in model.sampled(batch, drawn, Workers(self.n_jobs)):
                    joint = joint + each.factor_marginals(factors) / drawn.n_samples if factors else joint
                    yield each.beliefs.node_marginals

            nodes = uncertain_marginals(kind, scored.beliefs.node_marginals, samples, marginals)
            yield batch, nodes, joint

    def _scored(self, X: Any, y: Any = None) -> Iterator[ScoredGraphs]:
        """Yield batches of graphs with their potentials."""
        check_is_fitted(self, "model_")
        graphs = self._inputs.graphs(X, y, None, self.classes_)
        workers = Workers(self.n_jobs)
        for batch in self.model_.batches(graphs):
            yield replace(self.model_, inference=self.inference).scored(batch, workers)
