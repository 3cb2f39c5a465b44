"""Answers about labels, given their potentials: partition functions, marginals, best labellings, draws, entropies.

    ChainAnswers        chains whose neighbours meet            node (N, L), edge (1 or N, L, L)
    AllowedAnswers      the same with lists of allowed labels   scores (A,), edge (1 or N, L, L)
    GraphAnswers        graphs, by a plan of inference           node (N, L), one table per group of factors
    LongChainAnswers    chains with cliques of longer reach, as graphs
    NgramAnswers        chains with n-grams that see no inputs   node (N, L), edge (1, L, L), n-grams (1, P) by length
    SingleAnswers       labels that meet no others               node (N, L)

What is forbidden is in the potentials, as minus infinity. Beliefs are computed when they are first asked for.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from kernelfields.fields.allowed import AllowedLabels
from kernelfields.fields.chains import Chains
from kernelfields.fields.graphs import Graphs
from kernelfields.inference.beliefs import GraphBeliefs, GraphInference
from kernelfields.inference.chain.allowed_steps import StepTable
from kernelfields.numerics.threads import Workers


class LabelAnswers:
    """What all answers have: ``data`` that the labels belong to, node potentials, and beliefs."""

    #: The plan of inference, where there is a choice of methods.
    inference: GraphInference | None = None
    #: What is known of the labels, as log-weights (N, L) that are among the potentials; None for nothing.
    evidence: np.ndarray | None = None

    def __init__(self, data: Any, node: np.ndarray):
        self.data = data
        self.node = node

    def given(self, evidence: np.ndarray | None) -> Self:
        """Return the same once more is known of the labels: log-weights (N, L), as in fields/evidence.py."""
        if evidence is None:
            return self
        answers = copy.copy(self)
        answers.__dict__.pop("beliefs", None)
        answers.node = self.node + evidence
        answers.evidence = evidence if self.evidence is None else self.evidence + evidence
        return answers

    @cached_property
    def beliefs(self) -> Any:
        """Marginals and log partition functions, computed when first asked for."""
        raise NotImplementedError

    @property
    def log_partition(self) -> np.ndarray:
        """Log Z of each sequence, graph or single label, (S,)."""
        return self.beliefs.log_partition

    @property
    def marginals(self) -> np.ndarray:
        """p(y_v | x), (N, L)."""
        return self.beliefs.node_marginals

    def likeliest_labels(self) -> np.ndarray:
        """Return the most probable label of each position, node or input by itself, (N,)."""
        return self.marginals.argmax(axis=1)


class ChainAnswers(LabelAnswers):
    """Chains with node and edge potentials, which are known to be sound."""

    def __init__(self, chains: Chains, node: np.ndarray, edge: np.ndarray, workers: Workers):
        super().__init__(chains, node)
        self.edge = edge
        self.workers = workers

    def given(self, evidence: np.ndarray | None) -> ChainAnswers:
        """Return the same once more is known of the labels; where few are left, passes walk those alone."""
        answers = super().given(evidence)
        if evidence is None or not np.isneginf(evidence.min()):
            return answers
        return _narrowed(answers)

    @cached_property
    def beliefs(self) -> Any:
        """Marginals and log partition functions."""
        from kernelfields.inference.chain.beliefs import infer_chains

        return infer_chains(*self._potentials, workers=self.workers, check=False)

    def pair_marginals(self) -> np.ndarray:
        """Return p(y_{t-1}, y_t | x), (N, L, L), zero at the start of each sequence."""
        return self.beliefs.edge_marginals()

    @property
    def _potentials(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.node, self.edge, self.data.offsets

    def best_labels(self) -> np.ndarray:
        """Return the most probable labelling of each sequence, (N,)."""
        return _decoding().viterbi(*self._potentials, self.workers)[0]

    def n_best(self, k: int) -> tuple[Any, Any]:
        """Return the labels and scores of the k best labellings of each sequence."""
        return _decoding().n_best(*self._potentials, k, self.workers)

    def sample(self, n_samples: int, random: np.random.Generator) -> np.ndarray:
        """Draw labellings, (n_samples, N)."""
        return _decoding().sample_chains(*self._potentials, n_samples, random, self.workers)

    def entropies(self) -> np.ndarray:
        """Return the entropy of each sequence, (S,)."""
        return _decoding().chain_entropy(*self._potentials, self.workers)

    def label_scores(self, labels: np.ndarray) -> np.ndarray:
        """Return the score of a labelling of each sequence, (S,)."""
        score = self.node[np.arange(len(labels)), labels]
        steps = np.flatnonzero(~self.data.is_start)
        where = steps if len(self.edge) > 1 else np.zeros_like(steps)
        score[steps] += self.edge[where, labels[steps - 1], labels[steps]]
        return np.add.reduceat(score, self.data.starts)


def _decoding() -> Any:
    # numba loads with this module; a program that never predicts does not pay for it.
    from kernelfields.inference.chain import decoding

    return decoding


class AllowedAnswers(ChainAnswers):
    """Chains with scores of allowed labels (A,) and edge potentials; tables of all labels are made if asked for."""

    def __init__(
        self,
        chains: Chains,
        allowed: AllowedLabels,
        scores: np.ndarray,
        steps: np.ndarray | StepTable,
        workers: Workers,
    ):
        self.data = chains
        self.allowed = allowed
        self.scores = scores
        self.steps = StepTable(steps) if isinstance(steps, np.ndarray) else steps
        self.edge = self.steps.edge
        self.workers = workers

    @cached_property
    def node(self) -> np.ndarray:  # type: ignore[override]
        """Node potentials (N, L), minus infinity where a label is not allowed."""
        return self.allowed.spread(self.scores, -np.inf)

    def given(self, evidence: np.ndarray | None) -> AllowedAnswers:
        """Return the same once more is known of the labels: log-weights (N, L)."""
        if evidence is None:
            return self
        known = evidence[self.allowed.rows, self.allowed.labels]
        kept = known > -np.inf
        allowed = self.allowed.kept(kept)
        answers = AllowedAnswers(self.data, allowed, (self.scores + known)[kept], self.steps, self.workers)
        answers.evidence = evidence if self.evidence is None else self.evidence + evidence
        return answers

    @cached_property
    def beliefs(self) -> Any:
        """Marginals and log partition functions."""
        potentials = self.scores, self.steps.values, self.data.offsets, self.allowed
        return _lists().infer_allowed(*potentials, listed=self.steps.listed, workers=self.workers, steps=False)

    def likeliest_labels(self) -> np.ndarray:
        """Return the most probable label of each position by itself, (N,)."""
        return _lists().likeliest(self.beliefs.entries, self.allowed)

    def best_labels(self) -> np.ndarray:
        """Return the most probable labelling of each sequence, (N,)."""
        return _lists().best_allowed(self.scores, self.edge, self.data.offsets, self.allowed, self.workers)[0]

    def best_with_each(self) -> np.ndarray:
        """Return max-marginals of allowed labels, (A,)."""
        return _lists().best_with_each(self.scores, self.edge, self.data.offsets, self.allowed, self.workers)

    def label_scores(self, labels: np.ndarray) -> np.ndarray:
        """Return the score of a labelling of each sequence, (S,); minus infinity where a label is not allowed."""
        places = self.allowed.places(labels)
        score = np.where(places >= 0, self.scores[places], -np.inf)
        steps = np.flatnonzero(~self.data.is_start)
        where = steps if len(self.edge) > 1 else np.zeros_like(steps)
        score[steps] += self.edge[where, labels[steps - 1], labels[steps]]
        return np.add.reduceat(score, self.data.starts)


def _narrowed(answers: ChainAnswers) -> Any:
    """Return answers that walk lists, where minus infinity in the node potentials leaves few labels; else the same."""
    allowed = AllowedLabels.of_mask(answers.node > -np.inf)
    if not _lists().worth_lists(allowed) or not np.diff(allowed.begin).all():
        return answers
    scores = answers.node[allowed.rows, allowed.labels]
    lists = AllowedAnswers(answers.data, allowed, scores, answers.edge, answers.workers)
    lists.evidence = answers.evidence
    return lists


def _lists() -> Any:
    from kernelfields.inference.chain import allowed

    return allowed


class GraphAnswers(LabelAnswers):
    """Graphs with potentials and the plan by which they are inferred; ``data`` is what the graphs stand for."""

    inference: GraphInference

    def __init__(
        self,
        data: Any,
        graphs: Graphs,
        node: np.ndarray,
        factors: Sequence[np.ndarray],
        inference: GraphInference,
        workers: Workers,
    ):
        super().__init__(data, node)
        self.graphs = graphs
        self.factors = list(factors)
        self.inference = inference
        self.workers = workers

    @cached_property
    def beliefs(self) -> GraphBeliefs:
        """Marginals and log partition functions."""
        beliefs = self.inference.infer(self.node, self.factors, workers=self.workers)
        warn_of_doubts(beliefs.diagnostics.get("warnings", ()), stacklevel=6)
        return beliefs

    def factor_marginals(self, name: str) -> np.ndarray:
        """Return the marginals of the labels at a group of factors, (M, L, .., L)."""
        return self.beliefs.factor_marginals([factors.name for factors in self.graphs.factors].index(name))

    def best_labels(self) -> np.ndarray:
        """Return the most probable labelling of each graph, (N,)."""
        return self.inference.decode(self.node, self.factors, workers=self.workers)[0]

    def n_best(self, k: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Return the labels and scores of the k best labellings of each graph, where inference is exact."""
        from kernelfields.inference.junction.n_best import n_best_labellings

        plan = self.inference
        if not plan.exact:
            raise ValueError(
                f"the n best labellings need exact inference, and these graphs are inferred by {plan.method!r}, which "
                f"is approximate ({plan.description}): use sample to draw labellings"
            )
        layout = plan.plan.layout if plan.method == "junction" else None  # type: ignore[attr-defined]
        return n_best_labellings(plan.offsets, plan.members, self.node, self.factors, k, layout=layout)

    def sample(self, n_samples: int, random: np.random.Generator) -> np.ndarray:
        """Draw labellings, (n_samples, N)."""
        return self.inference.sample(self.node, self.factors, n_samples, random)

    def entropies(self) -> np.ndarray:
        """Return the entropy of each graph, (S,): log Z minus the expected score."""
        expected = _expected(self.beliefs.node_marginals, self.node)
        factors = [_expected(self.beliefs.factor_marginals(index), table) for index, table in enumerate(self.factors)]
        return np.maximum(self.beliefs.log_partition - self._totals(expected, factors), 0.0)

    def label_scores(self, labels: np.ndarray) -> np.ndarray:
        """Return the score of a labelling of each graph, (S,); minus infinity where it is forbidden."""
        nodes = self.node[np.arange(len(labels)), labels]
        factors = []
        for group, table in zip(self.graphs.factors, self.factors, strict=True):
            rows = np.arange(len(table)) if len(table) == group.n_factors else np.zeros(1, dtype=np.int64)
            factors.append(table[(rows, *labels[group.members].T)])
        return self._totals(nodes, factors)

    def _totals(self, nodes: np.ndarray, factors: list[np.ndarray]) -> np.ndarray:
        """Add up figures of nodes and factors over each graph, (S,)."""
        totals = np.add.reduceat(nodes, self.graphs.starts)
        for group, parts in zip(self.graphs.factors, factors, strict=True):
            owners = np.repeat(np.arange(self.graphs.n_graphs), group.counts)
            totals += np.bincount(owners, parts, minlength=self.graphs.n_graphs)
        return totals


class LongChainAnswers(GraphAnswers):
    """Chains as graphs, with cliques of any reach; ``data`` are the chains."""

    def pair_marginals(self) -> np.ndarray:
        """Return p(y_{t-1}, y_t | x), (N, L, L), zero at the start of each sequence."""
        n_labels = self.marginals.shape[1]
        marginals = np.zeros((self.data.n_positions, n_labels, n_labels))
        marginals[~self.data.is_start] = self.factor_marginals("lag1")
        return marginals


class NgramAnswers(LabelAnswers):
    """Chains with n-grams and the automaton that infers them; ``names`` are those of edges and groups of n-grams."""

    inference: Any

    def __init__(
        self,
        chains: Chains,
        names: Sequence[str],
        node: np.ndarray,
        tables: Sequence[np.ndarray],
        inference: Any,
        workers: Workers,
    ):
        super().__init__(chains, node)
        self.names = list(names)
        self.tables = list(tables)
        self.inference = inference
        self.workers = workers

    @cached_property
    def beliefs(self) -> Any:
        """Marginals and log partition functions."""
        return self.inference.infer(self.node, self.tables, workers=self.workers)

    def pair_marginals(self) -> np.ndarray:
        """Return p(y_{t-1}, y_t | x), (N, L, L), zero at the start of each sequence."""
        n_labels = self.node.shape[1]
        marginals = np.zeros((self.data.n_positions, n_labels, n_labels))
        marginals[~self.data.is_start] = self.beliefs.factor_marginals(0)
        return marginals

    def factor_marginals(self, name: str) -> np.ndarray:
        """Return the probabilities of the n-grams of a group wherever one can stand, (M, P)."""
        return self.beliefs.factor_marginals(self.names.index(name))

    def best_labels(self) -> np.ndarray:
        """Return the most probable labelling of each sequence, (N,)."""
        return self.inference.decode(self.node, self.tables, workers=self.workers)[0]

    def n_best(self, k: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Return the labels and scores of the k best labellings of each sequence."""
        return self.inference.n_best(self.node, self.tables, k)

    def sample(self, n_samples: int, random: np.random.Generator) -> np.ndarray:
        """Draw labellings, (n_samples, N)."""
        return self.inference.sample(self.node, self.tables, n_samples, random)

    def entropies(self) -> np.ndarray:
        """Return the entropy of each sequence, (S,)."""
        return np.maximum(self.log_partition - self.beliefs.expected_scores(), 0.0)

    def label_scores(self, labels: np.ndarray) -> np.ndarray:
        """Return the score of a labelling of each sequence, (S,); minus infinity where it is forbidden."""
        return self.inference.label_scores(self.node, self.tables, labels)


@dataclass
class LabelBeliefs:
    """Probabilities of single labels, (n, L), and the log of their normaliser, (n,)."""

    log_partition: np.ndarray
    node_marginals: np.ndarray


def infer_labels(potentials: np.ndarray) -> LabelBeliefs:
    """Return the probabilities of single labels, (n, L) potentials."""
    top = potentials.max(axis=1, keepdims=True)
    marginals = np.exp(potentials - top)
    total = marginals.sum(axis=1, keepdims=True)
    marginals /= total
    return LabelBeliefs((top + np.log(total)).ravel(), marginals)


class SingleAnswers(LabelAnswers):
    """Labels that meet no others, with node potentials."""

    @cached_property
    def beliefs(self) -> LabelBeliefs:
        """Probabilities of the labels."""
        return infer_labels(self.node)

    def best_labels(self) -> np.ndarray:
        """Return the most probable label of each input, (n,)."""
        return self.node.argmax(axis=1)

    def label_scores(self, labels: np.ndarray) -> np.ndarray:
        """Return the score of a label of each input, (n,)."""
        return self.node[np.arange(len(labels)), labels]


Answers = ChainAnswers | GraphAnswers | NgramAnswers | SingleAnswers


def warn_of_doubts(doubts: Iterable[str], stacklevel: int) -> None:
    """Pass on what approximate inference said of its answer."""
    for doubt in doubts:
        warnings.warn(doubt, ConvergenceWarning, stacklevel=stacklevel)


def _expected(marginals: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Return the expected score of each row; what is forbidden has no share."""
    products = np.where(marginals > 0.0, marginals * np.where(np.isneginf(scores), 0.0, scores), 0.0)
    return products.sum(axis=tuple(range(1, products.ndim)))  # there may be no rows at all
