"""Log partition functions and scores of labellings as functions of tensors, for every family of labellings.

    log p(y; u) = <Phi(y), u> - g(u),        d g / d u = E Phi,        d <Phi(y), u> / d u = Phi(y)

The gradient of g is the mean of the family, computed at the cost of g, and the gradient of the mean is a covariance
product: autograd records no recursion, and functions can be differentiated twice. Inference runs on the device for
families of a device (``TorchFamily``), else in the compiled passes of the host, with as many threads as PyTorch uses
and copies of tensors in both directions.

Potentials: float64 tensors, one for each group of cliques in the order of ``family.groups``, with the shapes of
inference/family.py. Cost: that of one pass, forward and back. If the gradients of the items differ, the pass is
repeated with these weights. Raises ValueError naming the item whose labellings are all forbidden.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch
from torch.autograd.function import once_differentiable

from kernelfields.engines.torch.chains import TorchPotentials
from kernelfields.engines.torch.family import TorchFamily
from kernelfields.inference.family import LabelFamily, Member
from kernelfields.inference.potentials import Potentials
from kernelfields.numerics.threads import Workers


def log_partition(family: LabelFamily, *potentials: torch.Tensor) -> torch.Tensor:
    """Compute the log partition function of each item; its gradient is the marginals of cliques.

    Parameters
    ----------
    family : LabelFamily
        The labellings of packed items, such as ``ChainFamily(offsets, n_labels)``.
    *potentials : tensor
        A float64 tensor for each of ``family.groups``; minus infinity forbids.

    Returns
    -------
    tensor (S,)
        The logarithm for each item, float64.

    Raises
    ------
    ValueError
        If there are too few tensors, or if all labellings of an item are forbidden.

    See Also
    --------
    label_scores : Scores labellings.
    ChainField : A layer for chains.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from kernelfields.inference import ChainFamily
    >>> from kernelfields.layers import log_partition
    >>> node, edge = torch.zeros(3, 2, requires_grad=True), torch.zeros(1, 2, 2)
    >>> total = log_partition(ChainFamily(np.array([0, 3]), 2), node, edge)  # a sequence of three positions
    >>> total.sum().backward()
    >>> total.exp().round().tolist(), node.grad[0].tolist()
    ([8.0], [0.5, 0.5])
    """
    _check_groups(family, potentials)
    return _LogPartition.apply(family, *(to_family_device(family, array) for array in potentials))


def label_scores(family: LabelFamily, labels: np.ndarray, *potentials: torch.Tensor) -> torch.Tensor:
    """Compute the score of a labelling of each item, without the base measure.

    Parameters
    ----------
    family : LabelFamily
        The labellings of packed items.
    labels : array (N,)
        Numbers of labels of all positions.
    *potentials : tensor
        A float64 tensor for each of ``family.groups``.

    Returns
    -------
    tensor (S,)
        The score of each item, float64.

    Raises
    ------
    ValueError
        If there are too few tensors.

    See Also
    --------
    log_partition : The logarithm of the sum over labellings.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from kernelfields.inference import ChainFamily
    >>> from kernelfields.layers import label_scores
    >>> node, edge = torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.tensor([[[0.0, 0.5], [0.0, 0.0]]])
    >>> label_scores(ChainFamily(np.array([0, 2]), 2), np.array([0, 1]), node, edge).tolist()
    [3.5]
    """
    _check_groups(family, potentials)
    observed, total = family.observed(labels), None
    for group, given in zip(family.groups, potentials, strict=True):
        rows, labellings, items = observed[group.name]
        table = to_family_device(family, given)
        flat = labellings if group.tied else rows * group.size + labellings
        scores = table.reshape(-1)[_to_tensor(flat, table)]
        total = table.new_zeros(family.n_items) if total is None else total
        total = total.index_add(0, _to_tensor(items, table), scores)
    assert total is not None
    return total


def to_family_device(family: LabelFamily, array: torch.Tensor) -> torch.Tensor:
    """Convert a tensor to float64 on the device of the family."""
    device = family.device if isinstance(family, TorchFamily) else torch.device("cpu")
    # In two steps: some devices have no float64.
    return array.to(device).to(torch.float64).contiguous()


def to_potentials(family: LabelFamily, arrays: tuple[torch.Tensor, ...]) -> Potentials:
    """Convert tensors to potentials of the family."""
    names = [group.name for group in family.groups[1:]]
    on_device = isinstance(family, TorchFamily)
    node, *tables = (array.detach() if on_device else array.detach().numpy() for array in arrays)
    kind = TorchPotentials if on_device else Potentials
    return kind(node, dict(zip(names, tables, strict=True)))  # type: ignore[arg-type]


@cache
def _make_pool(n_threads: int) -> Workers:
    return Workers(n_threads)


def workers() -> Workers:
    """Return a pool with as many threads as PyTorch uses."""
    return _make_pool(torch.get_num_threads())


def _to_tensor(array: np.ndarray, like: torch.Tensor) -> torch.Tensor:
    return torch.as_tensor(array, device=like.device)


def _check_groups(family: LabelFamily, potentials: tuple[torch.Tensor, ...]) -> None:
    names = [group.name or "node" for group in family.groups]
    if len(names) != len(potentials):
        raise ValueError(f"the family has potentials of {', '.join(names)}: got {len(potentials)} tensors")


class _LogPartition(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, family: LabelFamily, *arrays: torch.Tensor) -> torch.Tensor:
        member = family.distribution(to_potentials(family, arrays), None, workers())
        ctx.inferred = family, member
        ctx.save_for_backward(*arrays)
        return torch.as_tensor(member.log_partition)

    @staticmethod
    def backward(ctx: Any, weights: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return None, *_WeightedMean.apply(*ctx.inferred, weights, *ctx.saved_tensors)


class _WeightedMean(torch.autograd.Function):
    """An autograd function of sum_s weights_s E_s Phi, whose gradient is a covariance product."""

    @staticmethod
    def forward(
        ctx: Any, family: LabelFamily, member: Member, weights: torch.Tensor, *arrays: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        factor, highest = torch.stack([weights.min(), weights.max()]).tolist()
        if factor != highest:
            own, factor = weights.detach().contiguous(), 1.0
            on_device = isinstance(family, TorchFamily)
            member = family.distribution(to_potentials(family, arrays), own if on_device else own.numpy(), workers())
        ctx.inferred = family, member, factor
        return _to_tensors(member.mean(), factor)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *directions: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        family, member, factor = ctx.inferred
        slopes = None
        if ctx.needs_input_grad[2]:
            slopes = directions[0].new_zeros(family.n_items)
            for group, direction in zip(family.groups, directions, strict=True):
                rows = torch.as_tensor(member.marginals(group.name)) * direction
                slopes.index_add_(0, _to_tensor(group.items, rows), rows.reshape(len(rows), group.size).sum(dim=1))
        moved = to_potentials(family, tuple(direction.contiguous() for direction in directions))
        return None, None, slopes, *_to_tensors(member.covariance_product(moved), factor)


def _to_tensors(potentials: Potentials, factor: float) -> tuple[torch.Tensor, ...]:
    """Scale potentials, possibly in place, and return one tensor for each group."""
    if factor != 1.0:
        potentials.scale(factor)
    return tuple(torch.as_tensor(array) for array in potentials.arrays)
