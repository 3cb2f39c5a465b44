"""Terms of a multi-label field: functions of the inputs for labels and for pairs of them, on shared bases.

    log odds of label k         f_k(x) + b_k,      table  -1/2, +1/2  times it
    log odds ratio of a pair    w_jk (+ g_jk(x)),  table  +1/4, -1/4, -1/4, +1/4  times it

    p(y | x) ~ exp( sum_k (f_k(x) + b_k) s_k + sum_jk w_jk s_j s_k ),       s = y - 1/2

Neither the order of the labels nor which of their values is called 1 matters to the prior. Given the other
labels, w_jk is the log odds ratio of labels j and k. All f_k share one basis and one matrix of features, and so do
all g_jk.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from kernelfields.data.cliques import CliqueSet
from kernelfields.data.label_cliques import LABEL_CONTRAST, PAIR_CONTRAST, LabelCliques, LabelPairs
from kernelfields.engines.engine import Sample
from kernelfields.models.build import NamedCliques, build_design, resolve_clique, split_sum
from kernelfields.objective.designs.design import Design

#: Two labels of an instance that meet, by their numbers.
Edge = tuple[int, int]


@dataclass
class InstanceTerms:
    """A maker of designs on a sample of instances, for labels with ``names``.

    ``labels`` and ``pairs`` describe what every label and every pair of labels has: clique sets, each with the name
    of its kind. A search for edges begins with ``label_designs()`` and judges ``pair_designs([edge])``.
    """

    sample: Sample
    names: Sequence[object]
    labels: Sequence[tuple[str, LabelCliques]]
    pairs: Sequence[tuple[str, LabelPairs]]
    random: np.random.Generator
    _pair_parts: dict[str, Design] = field(default_factory=dict)

    def designs(self, edges: Sequence[Edge]) -> list[Design]:
        """Return all terms of a field with the given edges between labels."""
        return [*self.label_designs(), *self.pair_designs(edges)]

    def label_designs(self) -> list[Design]:
        """Return the terms of single labels: biases, and functions of the inputs on one basis."""
        designs = []
        for kind, clique in self.labels:
            for name, part in split_sum(kind, clique):
                first = self._built(name, part, LABEL_CONTRAST)
                for number, label in enumerate(self.names):
                    designs.append(self._share_design(first, f"{name} {label}", label=number))
        return designs

    def pair_designs(self, edges: Sequence[Edge]) -> list[Design]:
        """Return the terms of pairs of labels: a table each, and functions with an edge kernel."""
        names = pair_names(edges, self.names)
        designs = []
        for kind, clique in self.pairs if names else ():
            for name, part in split_sum(kind, clique):
                if name not in self._pair_parts:
                    self._pair_parts[name] = self._built(name, part, PAIR_CONTRAST)
                tables = part.kernel is None
                designs += [
                    self._share_design(self._pair_parts[name], pair if tables else f"{pair} {name}", group=pair)
                    for pair in names
                ]
        return designs

    def _built(self, name: str, clique: CliqueSet, contrast: np.ndarray) -> Design:
        design = build_design(name, resolve_clique(clique), self.sample, self.random)
        return replace(design, term=replace(design.term, label_factor=contrast))

    def _share_design(self, design: Design, name: str, **own: object) -> Design:
        """Return the shared features for one label or one pair."""
        clique = copy.copy(design.term.clique).set_params(name=name, **own)
        return self.sample.shared(design, replace(design.term, clique=clique, name=name))


def named_cliques(
    names: Sequence[object], pairs: Iterable[str], of_labels: NamedCliques, of_pairs: NamedCliques
) -> NamedCliques:
    """Return the clique sets of all labels and all pairs, named by :class:`InstanceTerms`."""
    made: list[tuple[str, CliqueSet]] = []
    for kind, clique in of_labels:
        for part_name, part in split_sum(kind, clique):
            for number, label in enumerate(names):
                name = f"{part_name} {label}"
                made.append((name, resolve_clique(part).set_params(name=name, label=number)))
    for kind, clique in of_pairs:
        for part_name, part in split_sum(kind, clique):
            for pair in pairs:
                name = pair if part.kernel is None else f"{pair} {part_name}"
                made.append((name, resolve_clique(part).set_params(name=name, group=pair)))
    return made


def pair_names(edges: Sequence[Edge], names: Sequence[object]) -> dict[str, Edge]:
    """Return edges by the names of their pairs of labels."""
    return {f"pair {names[j]} ~ {names[k]}": (j, k) for j, k in edges}
