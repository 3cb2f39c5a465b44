"""Families of labellings on a torch device: potentials, statistics and inference on tensors.

:class:`TorchFamily` holds what all of them share. Families of chains are here, the twins of inference/chain/family.py;
families of one graph for all items are in graphs.py. Potentials, means, marginals and weights are float64 tensors, with
rows in the order of the chains. In a fit only the value, and which sequences left the range of doubles, are read back
to the host. The potentials of new chains stay on the device as well, and labels come back instead of scores:

    best labelling    d_t(b) = u_t(b) + max_a (d_{t-1}(a) + w_t(a, b)), then the arg max is followed backwards
    single labels     arg max of the marginals, by the passes of chains.py

The best labelling is the twin of viterbi in inference/chain/decoding.py, for all sequences at once: every step is a few
operations on n_t rows. Scores are shifted to a maximum of zero at every position, so that potentials of any size, minus
infinity included, are safe. Other answers, such as draws and entropies, are computed on the host, to which the
potentials are copied.

Cost: O(N L^2) time, O(N L) memory and tables of some rows against all pairs of labels. Raises ValueError naming the
sequence when every labelling is forbidden.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import torch

from kernelfields.basis.subspace import Expansion
from kernelfields.data.reading import Matrix
from kernelfields.engines.engine import DeviceFamily
from kernelfields.engines.torch.chains import TorchChainMember, TorchPotentials, check_chain_arrays
from kernelfields.engines.torch.rows import device_expansion
from kernelfields.engines.torch.steps import DeviceSteps, shift_to_zero
from kernelfields.inference.base_measure import BaseMeasure
from kernelfields.inference.chain.family import ChainFamily, ChainLabellings
from kernelfields.inference.chain.step_passes import StepOrder
from kernelfields.inference.family import LabelFamily, Labellings, Member, RankedLabellings
from kernelfields.inference.packing import TIE, raise_if_infeasible
from kernelfields.inference.potentials import EDGE, Arrangement, Group, Observed, Placed, Potentials, Statistics
from kernelfields.kernels.arrays import on_host
from kernelfields.numerics.threads import Workers

# Values in a table of rows against pairs of labels: a quarter of a gigabyte.
_TABLE_VALUES = 2**25


class TorchArrangement(Arrangement):
    """Places of the cliques of sets in the potentials of a family, as float64 tensors of a device.

    Parameters
    ----------
    offsets : array (S + 1,)
        The position at which each item begins, and N.
    groups : sequence of Group
        The groups of cliques, that of single labels first.
    device : torch.device
        The device.
    """

    def __init__(self, offsets: np.ndarray, groups: Sequence[Group], device: torch.device):
        super().__init__(offsets, groups)
        self.device = device
        #: Indices on the device; the arrays are kept beside them, so that no other array can have their id.
        self._indices: dict[int, tuple[np.ndarray, torch.Tensor]] = {}

    def tensor(self, array: np.ndarray, dtype: torch.dtype = torch.float64) -> torch.Tensor:
        """Return an array as a tensor on the device."""
        return torch.tensor(array, dtype=dtype, device=self.device)

    def place_potentials(self, potentials: Potentials) -> TorchPotentials:
        """Return potentials, or targets, of the host as tensors of the device."""
        tables = {name: self.tensor(table) for name, table in potentials.tables.items()}
        return TorchPotentials(self.tensor(potentials.node), tables)

    def host_potentials(self, potentials: Potentials) -> Potentials:
        """Return potentials of the device on the host, without the base measure."""
        tables = {name: on_host(table) for name, table in potentials.tables.items()}
        return Potentials(on_host(potentials.node), tables)

    def place_array(self, array: np.ndarray | None) -> Any:
        """Return an array, such as weights of items (S,), on the device."""
        return None if array is None else self.tensor(array)

    def read_back(self, array: Any) -> np.ndarray:
        """Return a tensor of the family, or an array, as an array."""
        return on_host(array)

    def zeros(self) -> TorchPotentials:
        """Return potentials of zero."""
        node, *tables = (
            torch.zeros((1 if group.tied else group.n_rows, *group.row), dtype=torch.float64, device=self.device)
            for group in self.groups
        )
        return TorchPotentials(node, dict(zip([str(group.name) for group in self.groups[1:]], tables, strict=True)))

    def add_scores(self, potentials: Potentials, term: Placed, scores: Any) -> None:
        """Add the scores of a set's cliques, (n, L^k) or one row for all; arrays are copied to the device."""
        group = self.group(term.group)
        columns, table = self._columns(group, term), potentials[term.group].view(-1, group.size)
        scores = torch.as_tensor(scores, device=self.device).flatten(1)
        rows = None if group.tied else self._rows(group, term)
        # What is tied is added everywhere: nothing reads the steps into the start of a sequence.
        if rows is None or (term.is_constant and self._is_whole_group(group, rows)):
            table[:, columns] += scores
        elif isinstance(columns, slice):
            table.index_add_(0, rows, scores.expand(len(rows), group.size).to(table.dtype))
        else:
            table[rows[:, None], self.tensor(columns, torch.int64)] += scores

    def residuals(self, residual: Potentials, term: Placed) -> Any:
        """Return a gradient at the cliques of a set, (n, L^k), on the device; summed, and on the host, if tied."""
        rows = super().residuals(residual, term)
        return on_host(rows) if term.is_constant else rows

    def weights(self, weights: np.ndarray, term: Placed) -> Any:
        """Return the weight of every clique of a set, (n,), on the device."""
        return self.tensor(super().weights(weights, term))

    def count(self, observed: Mapping[str | None, Observed], weights: np.ndarray | None = None) -> Statistics:
        """Count observed cliques, weighted by items (S,), None for ones, on the device."""
        entries = super().count(observed, weights).entries
        return Statistics(
            {
                name: (self.tensor(places, torch.int64), own if isinstance(own, float) else self.tensor(own))
                for name, (places, own) in entries.items()
            }
        )

    def _rows(self, group: Group, term: Placed) -> Any:
        """Return the rows of a group that are the cliques of a set as an index on the device, copied once."""
        rows = super()._rows(group, term)
        if rows is None:
            return None
        if id(rows) not in self._indices:
            self._indices[id(rows)] = rows, self.tensor(rows, torch.int64)
        return self._indices[id(rows)][1]


class TorchFamily(LabelFamily):
    """The common part of families on a device: potentials, statistics and the base measure as float64 tensors.

    It comes before the family of the host that says which labellings there are.
    """

    arrangement: TorchArrangement

    @property
    def host(self) -> LabelFamily:
        """The same family on the host."""
        raise NotImplementedError(f"{type(self).__name__} must define host")

    @property
    def device(self) -> torch.device:
        """The device of the arrays."""
        return self.arrangement.device

    def log_labellings(self) -> np.ndarray:
        """Return the logarithm of the number of labellings of each item, weighted by p0, (S,)."""
        return self.host.log_labellings()

    def with_base(self, potentials: Potentials) -> Potentials:
        """Return potentials plus the logarithm of the base measure."""
        if self.base is None:
            return potentials
        node, tables, (position, step) = potentials.node, potentials.tables, self._log_base
        node = node if position is None else node + position
        return TorchPotentials(node, tables if step is None else {**tables, EDGE: tables[EDGE] + step})

    @cached_property
    def _log_base(self) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        """Log-weights of the labels of every position, (N, L), and of steps, (L, L), on the device."""
        assert self.base is not None
        placed = self.arrangement.place_array
        return placed(self.base.position), placed(self.base.step)

    def condition(self, log_weights: np.ndarray) -> Any:
        """Return the family with p0 multiplied by weights of labels (N, L); all labels are kept."""
        family = LabelFamily.condition(self, log_weights)
        family.__dict__.pop("_log_base", None)
        return family


class HostedLabellings(Labellings):
    """The best labellings at potentials of a device, and draws, by the same family on the host."""

    family: HostedFamily

    def _on_host(self) -> Labellings:
        return self.family.host.labellings(self.family.arrangement.host_potentials(self.without_base), self.workers)

    def best(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the most probable labelling (N,) and its score for each item, (S,)."""
        return self._on_host().best()

    def _n_best(self, k: int) -> RankedLabellings:
        return self._on_host().n_best(k)

    def _sample(self, n_samples: int, random: np.random.Generator) -> np.ndarray:
        return self._on_host().sample(n_samples, random)


class HostedFamily(TorchFamily):
    """A family of the host, of class ``host_kind``, copied to a device by ``from_host``."""

    host_kind: ClassVar[type[LabelFamily]]
    _labellings_type: type[Labellings] = HostedLabellings

    @classmethod
    def from_host(cls, host: LabelFamily, device: torch.device) -> Self:
        """Return the family of the host on a device."""
        family = cls.__new__(cls)
        family.__dict__.update(host.__dict__)
        family.arrangement = TorchArrangement(host.offsets, host.groups, torch.empty(0, device=device).device)
        return family

    @property
    def host(self) -> LabelFamily:
        """The same family on the host."""
        family = self.host_kind.__new__(self.host_kind)
        family.__dict__.update(self.__dict__)
        family.arrangement = Arrangement(self.offsets, self.groups)
        return family


class TorchChainLabellings(ChainLabellings):
    """The best labellings of chains, found on a device; draws are made on the host."""

    family: TorchChainFamily

    def best(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the most probable labelling (N,) and its score for each sequence, (S,), on the host."""
        node, edge = TorchFamily.with_base(self.family, self.without_base).arrays
        labels, by_sequence = map(on_host, best_labels(node, edge, self.family.steps))
        raise_if_infeasible(by_sequence)
        return labels, by_sequence


class TorchChainFamily(TorchFamily, ChainFamily):
    """Labellings of chains, inferred on a device.

    ``steps`` is the step-major order of these chains on the device where it is known already; ``compiled`` is that of
    :class:`TorchChainMember`.
    """

    _labellings_type: type[Labellings] = TorchChainLabellings

    def __init__(
        self,
        offsets: np.ndarray,
        n_labels: int,
        *,
        tied: bool = True,
        base: BaseMeasure | None = None,
        device: torch.device | str = "cpu",
        steps: DeviceSteps | None = None,
        compiled: bool | None = None,
    ):
        super().__init__(offsets, n_labels, tied=tied, base=base)
        self.steps = DeviceSteps(StepOrder(offsets), device) if steps is None else steps
        self.arrangement = TorchArrangement(self.offsets, self.groups, self.steps.device)
        self.compiled = compiled

    @property
    def host(self) -> ChainFamily:
        """The same family on the host."""
        return ChainFamily(self.offsets, self.n_labels, tied=self.tied, base=self.base)

    def distribution(
        self, potentials: Potentials, weights: Any = None, workers: Workers | None = None, *, keep: bool = True
    ) -> Member:
        """Return the distribution at potentials on the device, for ``weights`` from ``place_array``."""
        return TorchChainMember(self, self.with_base(potentials), self.steps, weights, self.compiled)


def best_labels(
    node: torch.Tensor, edge: torch.Tensor, steps: DeviceSteps, table_values: int = _TABLE_VALUES
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the best labelling (N,), and its score for each sequence, (S,), -inf without a possible labelling.

    ``table_values`` is how many sums of a label and the one before it are compared at once.
    """
    check_chain_arrays(node, edge, steps)
    n_labels, tied = node.shape[1], edge.shape[0] == 1
    at_once = max(1, table_values // n_labels**2)
    best, pointers = node[steps.permutation], torch.empty(node.shape, dtype=torch.int64, device=node.device)
    shifts, starts = node.new_empty(len(node)), slice(0, steps.order.n_sequences)
    shifts[starts] = shift_to_zero(best[starts])
    for here, before in steps.pairs:
        for begin in range(here.start, here.stop, at_once):
            rows = slice(begin, min(begin + at_once, here.stop))
            earlier = slice(before.start + rows.start - here.start, before.start + rows.stop - here.start)
            joint = best[earlier][:, :, None] + (edge if tied else edge[steps.permutation[rows]])
            highest, pointers[rows] = _first_largest(joint)
            best[rows] += highest
        shifts[here] = shift_to_zero(best[here])
    labels = torch.empty(len(node), dtype=torch.int64, device=node.device)
    labels[steps.ends] = _first_largest(best[steps.ends])[1]
    for here, before in reversed(steps.pairs):
        labels[before] = pointers[here].gather(1, labels[here][:, None])[:, 0]
    return labels[steps.inverse], steps.order.sums(shifts)[steps.sequence_ranks]


def _first_largest(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the maximum along the second axis, and its index: the lowest index up to rounding."""
    largest = values.amax(dim=1)
    # Of equal numbers a device may find any: one and zero, with the lowest place first.
    places = torch.arange(values.shape[1], 0, -1, device=values.device).view(-1, *(1,) * (values.ndim - 2))
    return largest, ((values >= largest.unsqueeze(1) - TIE) * places).argmax(dim=1)


class HostMember(Member):
    """The distribution of chains on a device, with answers on the host."""

    family: AnsweredChains

    def __init__(self, family: AnsweredChains, there: TorchChainMember, potentials: Potentials, workers: Workers):
        self.family, self.weights, self._there = family, None, there
        self._on_device, self._workers = potentials, workers

    @cached_property
    def log_partition(self) -> np.ndarray:  # type: ignore[override]
        """Log Z of each sequence, (S,)."""
        return on_host(self._there.log_partition)

    @cached_property
    def _node_marginals(self) -> np.ndarray:
        return on_host(self._there.marginals())

    def marginals(self, group: str | None = None) -> np.ndarray:
        """Return p(y_t), (N, L), or p(y_{t-1}, y_t), (N, L, L), zero at the start of each sequence."""
        return self._node_marginals if group is None else on_host(self._there.marginals(group))

    def likeliest(self) -> np.ndarray:
        """Return the label of largest marginal at each position, (N,)."""
        return on_host(_first_largest(self._there.marginals())[1])

    @cached_property
    def _on_host(self) -> Member:
        return self.family.host_distribution(self._on_device, self._workers)

    def mean(self) -> Potentials:
        """Return the marginals; marginals of tied transitions are summed."""
        return self._on_host.mean()

    def covariance_product(self, direction: Potentials) -> Potentials:
        """Return the Hessian of the log partition times the direction."""
        return self._on_host.covariance_product(direction)

    def entropy(self) -> np.ndarray:
        """Return the entropy of each sequence, (S,)."""
        return self._on_host.entropy()


def build_chain_family(offsets: np.ndarray, n_labels: int, tied: bool, device: torch.device) -> ChainFamily:
    """Return the family of chains on the device if it has compiled passes, else on the host."""
    if device.type == "cuda":
        return TorchChainFamily(offsets, n_labels, tied=tied, device=device)
    return ChainFamily(offsets, n_labels, tied=tied)


class AnsweredChains(TorchChainFamily, DeviceFamily):
    """Chains with inference on a device, and answers as arrays of the host.

    For other questions the potentials are copied to the host.
    """

    def host_distribution(self, potentials: Potentials, workers: Workers) -> Member:
        """Return the distribution at potentials, inferred on the host."""
        return self._infer(self.with_base(potentials), None, workers)

    def with_base(self, potentials: Potentials) -> Potentials:
        """Return potentials plus the logarithm of the base measure, on the host."""
        return ChainFamily.with_base(self, self.arrangement.host_potentials(potentials))

    def distribution(
        self, potentials: Potentials, weights: Any = None, workers: Workers | None = None, *, keep: bool = True
    ) -> Member:
        """Return the distribution at potentials, inferred on the device."""
        there = TorchChainMember(self, super().with_base(potentials), self.steps, compiled=self.compiled)
        return HostMember(self, there, potentials, workers or Workers(1))

    def label_scores(self, potentials: Potentials, labels: np.ndarray) -> np.ndarray:
        """Return the score of a labelling of each sequence, (S,), on the host."""
        return super().label_scores(self.arrangement.host_potentials(potentials), labels)

    def scores(self, expansion: Expansion, inputs: Matrix) -> torch.Tensor:
        """Return k(x, B) alpha for each row of inputs, (n, q), on the device."""
        return device_expansion(expansion, self.device).device_scores(inputs)
