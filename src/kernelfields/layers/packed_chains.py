"""A batch of chains for layers: concatenated positions, with their family and the potentials of a layer.

    node(t, b) = scores(t, b) + start(b) at the first, + end(b) at the last position of a chain
    edge(a, b) = transitions(a, b), or transitions(a, b) + pair_scores(t, a, b) for the step into t

with minus infinity for forbidden entries. Positions excluded by a mask or by labels are removed from a chain, so that
the remaining ones become adjacent. Families are those of the host, or of a device with copies of lengths and labels on
the host.

Arrays: scores (B, T, L) or (N, L), node (N, L), edge (1, L, L) or (N, L, L), float64. Raises ValueError naming sequence
and position for labels that are forbidden or out of range, and for NaN among scores.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch

from kernelfields.data.constraints import ConstraintMasks
from kernelfields.engines.torch.family import TorchChainFamily, best_labels, build_chain_family
from kernelfields.inference.answers import Answers
from kernelfields.inference.packing import InfeasibleSequence, raise_if_infeasible
from kernelfields.layers.likelihood import label_scores, log_partition, to_family_device, to_potentials, workers
from kernelfields.layers.positions import Positions, read_positions
from kernelfields.layers.weighted_labels import weighted_losses

REDUCTIONS = "mean", "token_mean", "sum", "none"


class ChainRules(NamedTuple):
    """The label names, constraints, ignored label and label weights of a layer."""

    names: list
    masks: ConstraintMasks
    ignore_index: int | None
    weights: np.ndarray | None = None

    @property
    def forbidden(self) -> dict[str, np.ndarray]:
        """Forbidden steps (L, L), first labels and last labels (L,)."""
        masks = self.masks
        barred = masks.label < 0
        return {
            "steps": (masks.edge < 0) | barred,
            "start": (masks.start < 0) | barred,
            "end": masks.end < 0,
        }


class ChainTerms(NamedTuple):
    """The parameters of chains: steps (L, L), first and last labels (L,) or None, and their rules."""

    transitions: torch.Tensor
    start: torch.Tensor | None
    end: torch.Tensor | None
    rules: ChainRules
    forbidden: dict[str, torch.Tensor]


class PackedChains:
    """A batch of concatenated sequences with their family and potentials.

    ``labels`` may be None: nothing is known then.
    """

    def __init__(
        self,
        terms: ChainTerms,
        scores: Any,
        lengths: Any = None,
        mask: Any = None,
        *,
        labels: Any = None,
        pair_scores: torch.Tensor | None = None,
    ):
        self.terms, n_labels = terms, len(terms.rules.names)
        check_scores(scores, n_labels, terms.transitions)
        if scores.ndim == 2 and lengths is None:
            raise ValueError("scores of sequences end to end, (positions, labels), need lengths")
        check_labels(labels, scores, n_labels)
        check_mask(mask, scores)
        self._dtype, self._device = scores.dtype, scores.device
        self.positions = read_positions(scores.shape[:-1], lengths, mask, labels, terms.rules.ignore_index)
        offsets = self.positions.offsets
        tied = pair_scores is None
        self.family = build_chain_family(offsets, n_labels, tied, scores.device)
        node = to_family_device(self.family, self.positions.pack(scores, 1))
        edge = self._mask_parameter(terms.transitions, "steps")[None]
        if pair_scores is not None:
            check_pair_scores(pair_scores, scores)
            edge = edge + to_family_device(self.family, self.positions.pack(pair_scores, 2))
            edge[offsets[:-1]] = 0.0  # nothing steps into a start, whatever is there
        check_values({"scores": node, "transitions" if tied else "pair_scores": edge}, self.positions)
        for own, name, rows in ((terms.start, "start", offsets[:-1]), (terms.end, "end", offsets[1:] - 1)):
            if own is not None or terms.rules.masks.any:
                added = self._mask_parameter(0.0 if own is None else own, name)
                node = node.index_add(0, torch.as_tensor(rows, device=node.device), added.expand(len(rows), -1))
        self.node, self.edge = node, edge
        #: Numbers of labels (N,) if all are known, a mask of possible labels (N, L), or None.
        self.known = None if labels is None else read_labels(labels, self.positions, n_labels, terms.rules.ignore_index)

    def _mask_parameter(self, parameter: torch.Tensor | float, name: str) -> torch.Tensor:
        """Return a parameter, or a constant in its place, with minus infinity for forbidden entries."""
        if self.terms.rules.masks.any:
            parameter = torch.where(self.terms.forbidden[name], -torch.inf, parameter)
        assert isinstance(parameter, torch.Tensor)
        return to_family_device(self.family, parameter)

    def log_partition(self) -> torch.Tensor:
        """Compute the log partition function of each sequence, (S,), 0 for empty sequences."""
        return self.positions.by_sequence(self._compute_log_partition(self.node))

    def known_log_partition(self) -> torch.Tensor:
        """Compute the log sum over labellings consistent with the known labels, (S,)."""
        known = self.known
        assert known is not None
        if known.dtype == np.bool_:
            try:
                return self.positions.by_sequence(log_partition(self.family, self._restrict(known), self.edge))
            except InfeasibleSequence as error:
                raise self._no_labelling_error(error.sequence) from None
        if not self.positions.n_positions:
            return self.log_partition()
        scores = label_scores(self.family, known, self.node, self.edge)
        if bool(torch.isneginf(scores.detach()).any()):
            rules = self.terms.rules
            rules.masks.check_labels(known, self.positions.offsets, np.array(rules.names))
            raise self._no_labelling_error(int(torch.isneginf(scores.detach()).nonzero()[0]))
        return self.positions.by_sequence(scores)

    def losses(self) -> torch.Tensor:
        """Compute the negative log-likelihood of the labels of each sequence, (S,), at least zero."""
        if self.terms.rules.weights is not None and self.positions.n_positions:
            return self._compute_weighted_losses(self.terms.rules.weights)
        # The difference of two sums that are nearly equal may be below zero by their rounding.
        return (self.log_partition() - self.known_log_partition()).clamp_min(0.0)

    def loss(self, reduction: str) -> torch.Tensor:
        """Return losses (S,), their sum, or their mean over sequences with positions or over positions."""
        return self.restore(self.positions.reduce(self.losses(), reduction))

    def _compute_weighted_losses(self, weights: np.ndarray) -> torch.Tensor:
        known = self.known
        assert known is not None
        if known.dtype == np.bool_:
            raise ValueError("label_weights weigh labels that are known: leave out those that are not by ignore_index")
        self.known_log_partition()  # names labels that are forbidden
        labels, own = (torch.as_tensor(each, device=self.node.device) for each in (known, weights))
        losses = weighted_losses(self.node, self.edge, self.positions.offsets, labels, own)
        return self.positions.by_sequence(losses)

    def _compute_log_partition(self, node: torch.Tensor) -> torch.Tensor:
        if not self.positions.n_positions:
            return node.sum(dim=1)  # of no rows: gradients of zero
        try:
            return log_partition(self.family, node, self.edge)
        except InfeasibleSequence as error:
            raise InfeasibleSequence(self.positions.sequence(error.sequence)) from None

    def marginals(self) -> torch.Tensor:
        """Compute label probabilities conditioned on known labels, in the shape of the scores."""
        member = self.family.distribution(self.potentials(), None, workers())
        return self.positions.unpack(self.restore(torch.as_tensor(member.marginals())), 0)

    def best(self) -> torch.Tensor:
        """Return the most probable labellings, -1 at padded positions."""
        return self.positions.unpack(self._best_rows().to(self._device), -1)

    def best_lists(self) -> list[list[int]]:
        """Return the most probable labels of each sequence as lists."""
        labels = self._best_rows().tolist() if self.positions.n_positions else []
        return self.positions.lists(labels[first:last] for first, last in pairwise(self.positions.offsets.tolist()))

    def _best_rows(self) -> torch.Tensor:
        potentials = self.potentials()
        if isinstance(self.family, TorchChainFamily):
            node, edge = potentials.arrays
            found, values = best_labels(node, edge, self.family.steps)
            raise_if_infeasible(values.cpu().numpy())
            return found
        return torch.as_tensor(self.family.labellings(potentials, workers()).best()[0])

    def answers(self) -> Answers:
        """Return answers about all labels, conditioned on known labels, computed on the host."""
        if isinstance(self.family, TorchChainFamily):
            potentials = self.family.arrangement.host_potentials(self.potentials())
            return Answers(None, self.family.host, potentials, workers())
        return Answers(None, self.family, self.potentials(), workers())

    def potentials(self) -> Any:
        """Return potentials conditioned on known labels."""
        node = self.node if self.known is None else self._restrict(to_sets(self.known, len(self.terms.rules.names)))
        return to_potentials(self.family, (node, self.edge))

    def _restrict(self, allowed: np.ndarray) -> torch.Tensor:
        """Return node potentials (N, L) with minus infinity for excluded labels."""
        return self.node.masked_fill(torch.as_tensor(~allowed, device=self.node.device), -torch.inf)

    def _no_labelling_error(self, sequence: int) -> ValueError:
        return ValueError(
            f"sequence {self.positions.sequence(sequence)}: its labels are forbidden by the constraints, or by scores "
            "of minus infinity"
        )

    def restore(self, values: torch.Tensor) -> torch.Tensor:
        """Convert results to the device and the type of the scores; float32 for half precision."""
        return values.to(result_type(self._dtype)).to(self._device)


def result_type(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype of results for the dtype of scores."""
    return dtype if dtype in (torch.float32, torch.float64) else torch.float32


def check_scores(scores: Any, n_labels: int, transitions: torch.Tensor) -> None:
    """Raise unless scores are real numbers (B, T, L) or (N, L) on the device of the transitions."""
    if not isinstance(scores, torch.Tensor) or not scores.is_floating_point():
        raise TypeError(f"scores must be a tensor of real numbers, got {getattr(scores, 'dtype', type(scores))}")
    if scores.ndim not in (2, 3) or scores.shape[-1] != n_labels or scores.numel() == 0:
        raise ValueError(
            f"scores must have shape (batch, time, {n_labels}), or (positions, {n_labels}) with lengths, "
            f"got {tuple(scores.shape)}"
        )
    check_device("the parameters of the layer", transitions, scores)


def check_labels(labels: Any, scores: torch.Tensor, n_labels: int) -> None:
    """Raise unless labels are None, or a tensor of numbers or label sets with the shape of the scores."""
    if labels is None:
        return
    if not isinstance(labels, torch.Tensor) or labels.is_floating_point() or labels.is_complex():
        raise TypeError(
            "labels must be a tensor of whole numbers, -1 for unknown ones, or a bool mask of labels, "
            f"got {getattr(labels, 'dtype', type(labels))}"
        )
    wanted = (*scores.shape[:-1], n_labels) if labels.dtype == torch.bool else tuple(scores.shape[:-1])
    if tuple(labels.shape) != wanted:
        raise ValueError(f"labels must have shape {wanted}, as the scores, got {tuple(labels.shape)}")
    check_device("labels", labels, scores)


def check_mask(mask: Any, scores: torch.Tensor) -> None:
    """Raise ValueError if a tensor mask is on another device than the scores."""
    if isinstance(mask, torch.Tensor):
        check_device("mask", mask, scores)


def check_values(given: dict[str, torch.Tensor], positions: Positions) -> None:
    """Raise ValueError for scores of NaN or plus infinity; the check copies one number from the device."""
    values = [each.detach().amax() for each in given.values() if each.numel()]
    if not values or bool((torch.stack(values) < torch.inf).all()):
        return
    for name, own in given.items():
        wrong = ~(own.detach().reshape(len(own), -1) < torch.inf).all(dim=1)
        if bool(wrong.any()):
            where = f"{positions.place(int(wrong.nonzero()[0]))}: " if len(own) == positions.n_positions else ""
            raise ValueError(f"{where}{name} must be finite or -inf, got NaN or inf; try a lower learning rate")


def read_labels(labels: torch.Tensor, positions: Positions, n_labels: int, ignore_index: int | None) -> np.ndarray:
    """Return labels of positions: integers (N,) if all are known, else a mask of possible labels (N, L)."""

    def refuse(wrong: np.ndarray, reason: str) -> None:
        if wrong.any():
            row = int(wrong.argmax())
            got = f", got {own[row]}" if own.ndim == 1 else ""
            raise ValueError(f"{positions.place(row)}: {reason}{got}")

    own = positions.pack(labels.detach().cpu().numpy(), int(labels.dtype == torch.bool))
    if own.dtype == np.bool_:
        refuse(~own.any(axis=1), "no label is allowed: set all to True where a label is not known")
        return own
    others = ["-1 for unknown"] if ignore_index != -1 else []
    others += [] if ignore_index is None else [f"{ignore_index} to leave a position out"]
    refuse((own < -1) | (own >= n_labels), f"labels must be 0 to {n_labels - 1}, or {', '.join(others)}")
    own = own.astype(np.int64)
    unknown = own < 0
    return to_sets(own, n_labels) | unknown[:, None] if unknown.any() else own


def to_sets(known: np.ndarray, n_labels: int) -> np.ndarray:
    """Convert label numbers, or a mask, to a mask of possible labels, (N, L)."""
    return known if known.dtype == np.bool_ else known[:, None] == np.arange(n_labels)


def check_pair_scores(pair_scores: torch.Tensor, scores: torch.Tensor) -> None:
    """Raise unless pair scores have the shape and device of the scores."""
    wanted = (*scores.shape, scores.shape[-1])
    if tuple(pair_scores.shape) != wanted:
        raise ValueError(f"pair_scores must have shape {wanted}, as the scores, got {tuple(pair_scores.shape)}")
    check_device("pair_scores", pair_scores, scores)


def check_device(name: str, tensor: torch.Tensor, scores: torch.Tensor) -> None:
    """Raise ValueError if a tensor is on another device than the scores."""
    if tensor.device != scores.device:
        raise ValueError(f"{name} and scores must be on one device, got {tensor.device} and {scores.device}")
