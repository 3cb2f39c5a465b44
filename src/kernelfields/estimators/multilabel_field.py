"""The field of a multi-label problem: clique sets on one shared basis, engines, fits.

    log odds of label k         f_k(x) + b_k,      table  -1/2, +1/2  times it
    log odds ratio of a pair    w_jk (+ g_jk(x)),  table  +1/4, -1/4, -1/4, +1/4  times it

    p(y | x) ~ exp( sum_k (f_k(x) + b_k) s_k + sum_jk w_jk s_j s_k ),       s = y - 1/2

Neither the order of the labels nor which of their values is called 1 matters to the prior. Given the other
labels, w_jk is the log odds ratio of labels j and k. All f_k share one basis and one matrix of features, and so do
all g_jk.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kernelfields.engines import CliqueFeatures, GraphLikelihood, ThreadsEngine
from kernelfields.engines.feature_memory import available_memory
from kernelfields.estimators.fitting import FittedField, fit_field
from kernelfields.estimators.graph_model import refuse_without_value
from kernelfields.estimators.kernel_sums import split_sum
from kernelfields.estimators.multilabel_graphs import Edge, plan_instances
from kernelfields.estimators.spaces import CliqueSpace, build_space, resolved_clique
from kernelfields.fields import CliqueSet
from kernelfields.fields.label_cliques import LabelCliques, LabelledInstances, LabelPairs
from kernelfields.inference.workers import Workers
from kernelfields.solvers.loop import Watcher

#: Tables, as columns: of a label for a log odds of one, and of a pair for a log odds ratio of one.
LABEL_CONTRAST = np.array([[-0.5], [0.5]])
PAIR_CONTRAST = np.array([[0.25], [-0.25], [-0.25], [0.25]])
# Tables of pairs at a point, in a direction and at a trial, their residual, and three of inference.
_PAIR_ARRAYS = 7


class _Template:
    """Features that several sets share: laid out for the engine once, copied for every set."""

    def __init__(self) -> None:
        self._made: CliqueFeatures | None = None
        self._rank = -1

    def at(self, space: CliqueSpace, n_labels: int) -> CliqueFeatures:
        if self._made is None or self._rank != space.subspace.rank:  # a growing basis has new features
            self._made, self._rank = CliqueSpace.clique_features(space, n_labels), space.subspace.rank
        each = copy.copy(self._made)
        each.name, each.positions, each.group = space.name, space.positions, space.clique.group
        return each


@dataclass
class SharedSpace(CliqueSpace):
    """A clique set in finite coordinates that other sets have as well."""

    template: Any = None

    def clique_features(self, n_labels: int) -> CliqueFeatures:
        """Return what an engine needs of this set; the features are one object for all that share them."""
        return self.template.at(self, n_labels)


class MultiLabelField:
    """Training data of a multi-label field and the settings of its estimator: makes spaces, engines and fits.

    ``fit(spaces(edges))`` is all an estimator does. A search for edges begins with ``label_spaces()``, judges
    ``pair_spaces([edge])`` and fits again from the coefficients it has; ``engine_of`` reads from the sets which
    pairs of labels meet.
    """

    def __init__(
        self,
        settings: Any,
        inputs: Any,
        labels: np.ndarray,
        weights: np.ndarray,
        names: Sequence[Any],
        *,
        workers: Workers,
        random: np.random.Generator,
        say: Callable[[str], None] | None = None,
    ):
        self.settings = settings
        self.inputs = inputs
        self.labels = labels
        self.weights = weights
        self.names = list(names)
        self.workers = workers
        self.random = random
        self.say = say
        #: Of the engine made last: how labels are inferred, and what came of it.
        self.likelihood: GraphLikelihood | None = None
        self._pairs: dict[str, Edge] = {}
        self._pair_parts: list[CliqueSpace] | None = None

    def spaces(self, edges: Sequence[Edge]) -> list[CliqueSpace]:
        """Return all clique sets of a field whose labels meet along some edges."""
        return [*self.label_spaces(), *self.pair_spaces(edges)]

    def label_spaces(self) -> list[CliqueSpace]:
        """Return the clique sets of single labels: biases, and functions of the inputs on one basis."""
        settings, instances = self.settings, self._instances({})
        found: list[CliqueSpace] = []
        if settings.bias_prior_variance is not None:
            clique = LabelCliques(prior_variance=settings.bias_prior_variance)
            found += self._for_labels("bias", self._build("bias", clique, instances), instances)
        clique = LabelCliques(
            settings.kernel, prior_variance=settings.prior_variance, basis=settings.basis, rank=settings.rank
        )
        for name, part in split_sum("label", clique):
            found += self._for_labels(name, self._build(name, part, instances), instances)
        return found

    def pair_spaces(self, edges: Sequence[Edge]) -> list[CliqueSpace]:
        """Return the clique sets of pairs of labels: a table each, with an edge kernel functions too."""
        settings, names = self.settings, self.pairs_of(edges)
        self._pairs |= names
        clique = LabelPairs(prior_variance=settings.edge_prior_variance)
        tables = self._build("pair", clique, self._instances({}))
        found = [replace(tables, name=name, clique=_named(tables.clique, name, name)) for name in names]
        for part in self._pair_functions() if names else []:
            found += [
                replace(part, name=f"{name} {part.name}", clique=_named(part.clique, name, f"{name} {part.name}"))
                for name in names
            ]
        return found

    def pairs_of(self, edges: Sequence[Edge]) -> dict[str, Edge]:
        """Return edges by the names that their pairs of labels have."""
        return {f"pair {self.names[j]} ~ {self.names[k]}": (j, k) for j, k in edges}

    def _pair_functions(self) -> list[CliqueSpace]:
        """Return the spaces that functions of the inputs at pairs share, made once."""
        if self._pair_parts is None:
            settings, instances = self.settings, self._instances({})
            self._pair_parts = []
            if settings.edge_kernel is not None:
                clique = LabelPairs(
                    settings.edge_kernel,
                    prior_variance=settings.edge_prior_variance,
                    basis=settings.basis,
                    rank=settings.rank,
                )
                for name, part in split_sum("inputs", clique):
                    self._pair_parts.append(self._build(name, part, instances))
        return self._pair_parts

    def _build(self, name: str, clique: CliqueSet, instances: LabelledInstances) -> CliqueSpace:
        settings = self.settings
        space = build_space(
            name,
            resolved_clique(clique),
            instances,
            2,
            tol=settings.tol,
            dtype=settings.dtype,
            random=self.random,
        )
        contrast = LABEL_CONTRAST if clique.labels_per_clique == 1 else PAIR_CONTRAST
        return SharedSpace(**{**vars(space), "label_factor": contrast}, template=_Template())

    def _for_labels(self, kind: str, space: CliqueSpace, instances: LabelledInstances) -> list[CliqueSpace]:
        found = []
        for number, label in enumerate(self.names):
            clique = copy.copy(space.clique)
            clique.label, clique.name = number, f"{kind} {label}"
            found.append(replace(space, name=clique.name, clique=clique, positions=clique.positions(instances)))
        return found

    def _instances(self, pairs: dict[str, Edge]) -> LabelledInstances:
        return LabelledInstances.build(self.inputs, len(self.names), pairs, self.labels, self.weights)

    def engine_of(self, sets: Sequence[CliqueFeatures]) -> ThreadsEngine:
        """Return the engine of the training data for some sets; labels meet where a set scores their pair."""
        groups = list(dict.fromkeys(each.group for each in sets if each.group is not None))
        pairs = {name: self._pairs[name] for name in groups}
        tied = all(each.tied_everywhere for each in sets if each.group is not None)
        if not tied:
            _check_pairs_fit(len(self.labels), len(pairs))
        instances = self._instances(pairs)
        plan = plan_instances(instances, self.settings.inference, tied=tied)
        refuse_without_value(plan)
        if self.say is not None:
            self.say(plan.description)
        self.likelihood = GraphLikelihood(instances.graphs, 2, sets, plan, workers=self.workers)
        return ThreadsEngine(self.likelihood, sets)

    def fit(
        self, spaces: Sequence[CliqueSpace], start: list[np.ndarray] | None = None, watch: Watcher | None = None
    ) -> FittedField:
        """Fit a field from zero or from the coefficients of each set."""
        settings = self.settings
        return fit_field(
            spaces,
            self.engine_of,
            2,
            solver=settings.solver,
            tol=settings.tol,
            max_iter=settings.max_iter,
            watch=watch,
            random=self.random,
            start=start,
        )


def _named(clique: Any, group: str, name: str) -> Any:
    named = copy.copy(clique)
    named.group, named.name = group, name
    return named


def _check_pairs_fit(n_instances: int, n_pairs: int) -> None:
    """Raise MemoryError before the work starts if tables for every pair of every instance cannot fit in memory."""
    needed, available = _PAIR_ARRAYS * 8 * 4 * n_instances * n_pairs, available_memory()
    if available is not None and needed > available:
        raise MemoryError(
            f"pairs that depend on the inputs need a table for each of {n_pairs:,} pairs of {n_instances:,} "
            f"instances: {needed / 2**30:,.1f} GiB, but {available / 2**30:,.1f} GiB are free. Leave out the edge "
            "kernel, or use fewer edges."
        )
