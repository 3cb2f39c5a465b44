"""Answers about labels, given their potentials: partition functions, marginals, best labellings, draws, entropies.

One class answers for every family of labellings, and conditions it on what is known of labels. The distribution is
inferred when it is first needed.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from kernelfields.inference.family import LabelFamily, Member, Potentials, RankedLabellings, warn_of_inference
from kernelfields.numerics.threads import Workers


class Answers:
    """Packed ``data``, the family of their labellings, and potentials.

    ``known`` (N, L) is what the family was conditioned on, None for nothing. ``asked`` are the data that answers
    are for: those, and items without positions, which have one labelling, and no rows in any array.
    """

    def __init__(
        self,
        data: Any,
        family: LabelFamily,
        potentials: Potentials,
        workers: Workers,
        known: np.ndarray | None = None,
        asked: Any = None,
    ):
        self.data = data
        self.asked = data if asked is None else asked
        self.family = family
        self.potentials = potentials
        self.workers = workers
        self.known = known

    def given(self, log_weights: np.ndarray | None) -> Answers:
        """Return answers once more is known of the labels: log-weights (N, L), as in data/partial_labels.py."""
        if log_weights is None:
            return self
        known = log_weights if self.known is None else self.known + log_weights
        family = self.family.given(log_weights)
        return Answers(self.data, family, self.potentials, self.workers, known, self.asked)

    def log_probability(self, log_weights: np.ndarray) -> np.ndarray:
        """Return log p(what log-weights (N, L) leave of the labels | x, what is given), (S,).

        Minus infinity where no labelling is left.
        """
        return self.family.log_partition_given(log_weights, self.potentials, self.workers) - self.log_partition

    def by_item(self, values: Iterable[Any], nothing: object) -> list:
        """Return a value for each item that was asked for, ``nothing`` for those without positions."""
        found = iter(values)
        return [next(found) if length else nothing for length in self.asked.lengths.tolist()]

    @cached_property
    def member(self) -> Member:
        """The distribution of labellings, inferred when first needed; doubts of approximate inference are warnings."""
        member = self.family.at(self.potentials, workers=self.workers)
        warn_of_inference(member.warnings)
        return member

    @property
    def log_partition(self) -> np.ndarray:
        """Log Z of each item, (S,)."""
        return self.member.log_partition

    @property
    def node(self) -> np.ndarray:
        """Potentials of single labels, base measure included, (N, L)."""
        return self.family.with_base(self.potentials).node

    @property
    def marginals(self) -> np.ndarray:
        """p(y_v | x), (N, L)."""
        return self.member.marginals()

    def clique_marginals(self, group: str) -> list[np.ndarray]:
        """Return the marginals of the labels of each clique of a group, one array (m, L, .., L) for each item."""
        if not self.data.n_positions:  # nothing was inferred, and there are no groups
            return [np.zeros((0, self.family.n_labels, self.family.n_labels))] * len(self.asked.lengths)
        rows, items = self.member.marginals(group), self.family.group(group).items
        assert items is not None
        if (kept := self.family.clique_places(group)) is not None:
            rows, items = rows[kept], items[kept]
        ends = np.searchsorted(items, np.arange(self.family.n_items + 1))
        return self.by_item([rows[begin:end] for begin, end in pairwise(ends.tolist())], rows[:0])

    def likeliest_labels(self) -> np.ndarray:
        """Return the most probable label of each position, node or input by itself, (N,)."""
        return self.member.likeliest()

    def best_labels(self) -> np.ndarray:
        """Return the most probable labelling of each item, (N,)."""
        return self.family.best(self.potentials, self.workers)[0]

    def n_best(self, k: int) -> RankedLabellings:
        """Return the labels and scores of the k best labellings of each item."""
        return self.family.n_best(self.potentials, k, self.workers)

    def sample(self, n_samples: int, random: np.random.Generator, method: str = "auto") -> np.ndarray:
        """Draw labellings, (n_samples, N)."""
        return self.family.sample(self.potentials, n_samples, random, self.workers, method=method)

    def entropies(self) -> np.ndarray:
        """Return the entropy of each item, (S,)."""
        return self.member.entropy()

    def label_scores(self, labels: Any) -> np.ndarray:
        """Return the score of a labelling of each item, (S,); minus infinity where it is forbidden."""
        return self.family.label_scores(self.potentials, labels)
