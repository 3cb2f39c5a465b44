"""Families of chains with lists of allowed labels, which inference is limited to.

Where lists leave few labels, passes skip the others (lists.py). Covariance products, draws, entropies, n best
labellings and tables of pairs come from the dense passes with minus infinity elsewhere, their plain twin.

Arrays: entries (A,), one for each label of each list; edge (1 or N, L, L). Cost: sum_t |A_{t-1}| |A_t|.
Raises ValueError naming the sequence when every labelling is forbidden.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from kernelfields.data.allowed import AllowedLabels
from kernelfields.inference.base_measure import BaseMeasure
from kernelfields.inference.chain.family import ChainFamily, ChainLabellings
from kernelfields.inference.chain.lists import ListedSums, best_in_lists, infer_lists, likeliest, should_use_lists
from kernelfields.inference.chain.scored_steps import StepTable
from kernelfields.inference.family import Labellings, Member
from kernelfields.inference.packing import InfeasibleSequence
from kernelfields.inference.potentials import EDGE, Arrangement, Group, Potentials
from kernelfields.numerics.threads import Workers


class ListMember(Member):
    """Marginals of chains with lists of allowed labels."""

    family: ListFamily

    def __init__(
        self,
        family: ListFamily,
        scores: np.ndarray,
        steps: StepTable,
        weights: np.ndarray | None,
        workers: Workers,
        count_steps: bool,
    ):
        self.family, self.weights = family, weights
        self._scores, self._steps, self._workers = scores, steps, workers
        # Where expected steps are wanted, the table of all is as good as the list of those that have a score.
        self._sums = self._inferred(count_steps)
        self.log_partition, self.entries = self._sums.log_partition, self._sums.entries

    def _inferred(self, count_steps: bool) -> ListedSums:
        steps, family = self._steps, self.family
        edge, listed = (steps.edge, None) if count_steps else (steps.values, steps.listed)
        return infer_lists(
            self._scores,
            edge,
            family.offsets,
            family.lists,
            listed=listed,
            weights=self.weights,
            workers=self._workers,
            steps=count_steps,
        )

    @cached_property
    def potentials(self) -> Potentials:  # type: ignore[override]
        """Potentials of all labels, minus infinity for forbidden labels."""
        return Potentials(self.family.lists.scatter(self._scores, -np.inf), {EDGE: self._steps.edge})

    @cached_property
    def _dense(self) -> Member:
        """The distribution by passes over all labels, for quantities that lists do not store."""
        family = self.family
        whole = ChainFamily(family.offsets, family.n_labels, tied=len(self._steps.edge) == 1)
        return whole.distribution(self.potentials, self.weights, self._workers)

    def marginals(self, group: str | None = None) -> np.ndarray:
        """Return p(y_t), (N, L), or the joint marginals of neighbours, (N, L, L)."""
        return self._dense.marginals(EDGE) if group == EDGE else self._node_marginals

    @cached_property
    def _node_marginals(self) -> np.ndarray:
        return self.family.lists.scatter(self.entries)

    def likeliest(self) -> np.ndarray:
        """Return the label of largest marginal at each position, (N,)."""
        return likeliest(self.entries, self.family.lists)

    def mean(self) -> Potentials:
        """Return the weighted marginals, in the layout of the potentials."""
        sums, lists = self._sums if self._sums.steps is not None else self._inferred(True), self.family.lists
        entries = sums.entries
        if self.weights is not None:
            entries = entries * self.weights[self.family.position_items[lists.rows]]
        assert sums.steps is not None
        return Potentials(self.family.scatter(entries), {EDGE: sums.steps.copy()})

    def covariance_product(self, direction: Potentials) -> Potentials:
        """Return the Hessian of the weighted log partition times the direction, shaped like it."""
        family = self.family
        dense = Potentials(family.lists.scatter(family.select_entries(direction.node)), direction.tables)
        response = self._dense.covariance_product(dense)
        return Potentials(family.scatter(family.lists.gather(response.node)), response.tables)

    def entropy(self) -> np.ndarray:
        """Return the entropy of each sequence, (S,)."""
        return self._dense.entropy()


class ListLabellings(ChainLabellings):
    """The best labellings of chains with lists of allowed labels, and draws."""

    family: ListFamily

    def best(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the most probable labelling (N,), and its score for each sequence, (S,)."""
        return self.family._best_in_lists(self.without_base, self.workers)


class ListArrangement(Arrangement):
    """Potentials of single labels arranged by lists of allowed labels, (A,) instead of (N, L)."""

    def __init__(self, offsets: np.ndarray, groups: Sequence[Group], packed: AllowedLabels):
        super().__init__(offsets, groups)
        self._packed = packed

    def zeros(self) -> Potentials:
        """Return potentials of zero."""
        edge = self.group(EDGE)
        return Potentials(
            np.zeros(len(self._packed.labels)), {EDGE: np.zeros((1 if edge.tied else edge.n_rows, *edge.row))}
        )

    def cut(self, potentials: Potentials, first: int, last: int) -> Potentials:
        """Return the potentials of items first..last-1, as views if rows are in the order of the items."""
        cut = super().cut(potentials, first, last)
        cut.node = potentials.node[slice(*self._packed.begin[self.offsets[[first, last]]].tolist())]
        return cut


class ListFamily(ChainFamily):
    """Infer labellings of chains that lists allow, exactly.

    Parameters
    ----------
    offsets : array (S + 1,)
        The position at which each chain begins, and N.
    n_labels : int
        The number of labels.
    lists : AllowedLabels
        The labels that each position may have.
    tied : bool, default True
        Whether one table of transitions serves all positions.
    base : BaseMeasure, optional
        The labels that are allowed, and how much they count.
    packed : AllowedLabels, optional
        The lists, at least as long, by which node potentials are laid out; by default they are those of all labels.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields.data.allowed import AllowedLabels
    >>> from kernelfields.inference import ListFamily
    >>> lists = AllowedLabels(np.array([0, 1, 3]), np.array([1, 0, 1]), 2)  # label 1, then both
    >>> family = ListFamily(np.array([0, 2]), 2, lists)
    >>> family.labellings(family.zeros()).best()[0].tolist()
    [1, 0]
    """

    _labellings_type: type[Labellings] = ListLabellings

    def __init__(
        self,
        offsets: np.ndarray,
        n_labels: int,
        lists: AllowedLabels,
        *,
        tied: bool = True,
        base: BaseMeasure | None = None,
        packed: AllowedLabels | None = None,
    ):
        super().__init__(offsets, n_labels, tied=tied, base=base)
        self.lists = lists
        self.packed = packed
        if packed is not None:
            self.arrangement = ListArrangement(self.offsets, self.groups, packed)
        self._known_steps: tuple[np.ndarray, StepTable] | None = None

    @cached_property
    def _kept(self) -> np.ndarray | None:
        """A mask of the packed entries in the lists; None if all entries are."""
        if self.packed is None or self.packed is self.lists:
            return None
        return np.isin(self.packed.cells, self.lists.cells, assume_unique=True)

    def select_entries(self, node: np.ndarray) -> np.ndarray:
        """Return the entries of the lists among node potentials.

        Parameters
        ----------
        node : array
            The node potentials.

        Returns
        -------
        array (A,)
            The entries.
        """
        if self.packed is None:
            return self.lists.gather(node)
        return node if self._kept is None else node[self._kept]

    def scatter(self, entries: np.ndarray) -> np.ndarray:
        """Arrange numbers of entries as node potentials, zero for other labels.

        Parameters
        ----------
        entries : array (A,)
            The numbers.

        Returns
        -------
        array
            The node potentials.
        """
        if self.packed is None:
            return self.lists.scatter(entries)
        if self._kept is None:
            return np.array(entries)
        node = np.zeros(len(self._kept))
        node[self._kept] = entries
        return node

    def _entries(self, potentials: Potentials) -> np.ndarray:
        """Return the scores of allowed labels, base measure included, (A,)."""
        scores = self.select_entries(potentials.node)
        weights = None if self.base is None else self.base.log_weights
        return scores if weights is None else scores + self.lists.gather(weights)

    def _step_table(self, potentials: Potentials) -> StepTable:
        """Return the scores of steps, base measure included; the table of the last potentials is cached."""
        edge = potentials.edge
        if self._known_steps is None or self._known_steps[0] is not edge:
            step = None if self.base is None else self.base.step
            self._known_steps = edge, StepTable(edge if step is None else edge + step)
        return self._known_steps[1]

    def use_steps(self, edge: np.ndarray, table: StepTable) -> None:
        """Use a table of steps that exists for these edges.

        Parameters
        ----------
        edge : array (1 or N, L, L)
            The potentials of steps.
        table : StepTable
            The table, base measure included.
        """
        self._known_steps = edge, table

    def with_base(self, potentials: Potentials) -> Potentials:
        """Return potentials plus the logarithm of the base measure.

        Parameters
        ----------
        potentials : Potentials
            The potentials, base measure not included.

        Returns
        -------
        Potentials
            The sum.
        """
        node = self.lists.scatter(self._entries(potentials), -np.inf)
        return Potentials(node, {EDGE: self._step_table(potentials).edge})

    def distribution(
        self,
        potentials: Potentials,
        weights: np.ndarray | None = None,
        workers: Workers | None = None,
        *,
        keep: bool = True,
    ) -> ListMember:
        """Return the distribution at potentials.

        Parameters
        ----------
        potentials : Potentials
            The potentials, base measure not included.
        weights : array (S,), optional
            The weights of items in its mean and covariances; ones by default.
        workers : Workers, optional
            The threads; by default one.
        keep : bool, default True
            Whether to keep what questions beyond log partition and mean need; otherwise they infer again.

        Returns
        -------
        Member
            The distribution.

        Raises
        ------
        ValueError
            If all labellings of an item are forbidden; the message names it.
        """
        self._refuse_empty_lists()
        entries, steps = self._entries(potentials), self._step_table(potentials)
        return ListMember(self, entries, steps, weights, workers or Workers(1), not keep)

    def _best_in_lists(self, potentials: Potentials, workers: Workers) -> tuple[np.ndarray, np.ndarray]:
        """Return the most probable labelling (N,), and its score for each sequence, (S,)."""
        self._refuse_empty_lists()
        edge = self._step_table(potentials).edge
        return best_in_lists(self._entries(potentials), edge, self.offsets, self.lists, workers)

    @cached_property
    def _first_without_labels(self) -> int | None:
        """The first sequence that has a position without labels."""
        empty = np.flatnonzero(np.diff(self.lists.begin) == 0)
        return int(self.position_items[empty[0]]) if empty.size else None

    def _refuse_empty_lists(self) -> None:
        """Raise ValueError naming the first sequence that has a position without labels."""
        if self._first_without_labels is not None:
            raise InfeasibleSequence(self._first_without_labels)

    def label_scores(self, potentials: Potentials, labels: np.ndarray) -> np.ndarray:
        """Compute the score of a labelling of each item, base measure included.

        Parameters
        ----------
        potentials : Potentials
            The potentials, base measure not included.
        labels : array (N,)
            Numbers of labels.

        Returns
        -------
        array (S,)
            The scores; minus infinity if a labelling is forbidden.
        """
        places, steps = self.lists.places(labels), self.arrangement.followers
        scores = np.where(places >= 0, self._entries(potentials)[places], -np.inf)
        edge = self._step_table(potentials).edge
        scores[steps] += edge[steps if len(edge) > 1 else 0, labels[steps - 1], labels[steps]]
        return np.add.reduceat(scores, self.offsets[:-1])

    def condition(self, log_weights: np.ndarray) -> ListFamily:
        """Return the family with the base measure multiplied by weights of single labels.

        Parameters
        ----------
        log_weights : array (N, L)
            The logarithms of the weights of labels; minus infinity forbids.

        Returns
        -------
        LabelFamily
            The family.
        """
        base = (self.base or BaseMeasure(self.offsets, self.n_labels, allowed=self.lists)).multiply(log_weights)
        assert base.lists is not None
        return ListFamily(self.offsets, self.n_labels, base.lists, tied=self.tied, base=base, packed=self.packed)

    def part(self, first: int, last: int) -> ListFamily:
        """Return the family of items first..last-1.

        Parameters
        ----------
        first : int
            The first item.
        last : int
            The item after the last.

        Returns
        -------
        LabelFamily
            The family of the part.
        """
        rows = slice(int(self.offsets[first]), int(self.offsets[last]))
        offsets, lists = self.offsets[first : last + 1] - rows.start, self.lists[rows]
        base = self.base and self.base.part(first, last)
        packed = None if self.packed is None else lists if self._kept is None else self.packed[rows]
        return ListFamily(offsets, self.n_labels, lists, tied=self.tied, base=base, packed=packed)


def limit_chains(family: ChainFamily, base: BaseMeasure) -> ChainFamily | None:
    """Return chains limited to the lists of a base measure; None if lists cost more or a position has no label."""
    lists = base.lists
    if lists is None or not should_use_lists(lists) or not np.diff(lists.begin).all():
        return None
    return ListFamily(family.offsets, family.n_labels, lists, tied=family.tied, base=base)
