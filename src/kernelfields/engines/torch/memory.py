"""Storage of features on a device with little memory, and panels of a part of the inputs.

In the order in which they are tried, for n rows, rank r and b bytes a value (2 in half precision on CUDA, else 4 or 8):

    kept           bytes on the device                   a pass reads
    panel          n r (4 or 8), and n r b if they differ    n r b of the device
    device         n r b, and the panel of a part        n r b of the device
    host           two blocks, and the panel of a part   n r b of the host, copied while the last block is multiplied
    recomputed     a block, and the panel of a part      the kernel of n r pairs

But for the first way, pivots are chosen among a part of the inputs, drawn at random, whose panel fits; the features of
all inputs are then computed once, R^-1 k(B, x), in float64. What a fit needs beside features, potentials and inputs, is
counted from its sizes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import DTypeLike

from kernelfields.basis.subspace import PivotSubspace
from kernelfields.engines.torch.panel import TorchPanel
from kernelfields.kernels.kernel import Kernel
from kernelfields.numerics.memory import available_memory

# Inputs among which pivots are chosen where not all fit.
_MOST_CANDIDATES = 2**20
# Arrays of the shape of the potentials that a fit holds at once, and factors (r, r) in float64.
_POTENTIALS, _FACTORS = 14, 4
# The share of free memory of the host that features may take.
_HOST_SHARE = 0.7


@dataclass(frozen=True)
class DevicePlan:
    """The storage of features, and the number of inputs in the panel of a part."""

    keep: str
    part: int


def plan_on_device(
    n_rows: int, rank: int, *, panel_bytes: int, stored_bytes: int, other_bytes: int, budget: int | None
) -> DevicePlan:
    """Return the storage of features (n_rows, rank) within ``budget`` bytes of a device; None for no limit.

    ``panel_bytes`` and ``stored_bytes`` are those of a value while the basis grows and afterwards, ``other_bytes`` what
    is needed beside features, factors included.
    """
    values = n_rows * rank
    both = panel_bytes + (stored_bytes if stored_bytes != panel_bytes else 0)
    if budget is None or values * both + other_bytes <= budget:
        return DevicePlan("panel", n_rows)
    room = max(0, budget - other_bytes)
    part = int(np.clip(room // (2 * panel_bytes * max(1, rank)), min(n_rows, 2 * rank), min(n_rows, _MOST_CANDIDATES)))
    if values * stored_bytes <= room:
        return DevicePlan("device", part)
    free = available_memory()
    if free is None or values * stored_bytes <= _HOST_SHARE * free:
        return DevicePlan("host", part)
    return DevicePlan("recomputed", part)


def device_budget(device: torch.device) -> int | None:
    """Return the free memory of a CUDA device, PyTorch's reserve included; None for other devices."""
    if device.type != "cuda":
        return None
    free, _ = torch.cuda.mem_get_info(device)
    return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)


def fit_bytes(n_positions: int, n_labels: int, rank: int, input_bytes: int) -> int:
    """Estimate the bytes of a fit on a device without its features."""
    return 8 * (_POTENTIALS * n_positions * n_labels + _FACTORS * rank * rank) + input_bytes


class PartPanel(TorchPanel):
    """A panel of random inputs, for the choice of pivots for all inputs."""

    def __init__(self, kernel: Kernel, inputs: Any, capacity: int, dtype: DTypeLike, device: torch.device, part: int):
        #: The numbers of the inputs that are candidates, in order; always the same for the same sizes.
        self.part_rows = np.sort(np.random.default_rng(0).choice(inputs.shape[0], part, replace=False))
        self._all_inputs = inputs
        super().__init__(kernel, inputs[self.part_rows], capacity, dtype, device)

    def subspace(self) -> PivotSubspace:
        """Return the subspace of the pivots, numbered among all inputs."""
        return replace(super().subspace(), indices=self.number_rows(self.part_rows[self.pivots]))

    def release(self) -> None:
        """Free the columns: only the pivots are needed."""
        self._tensor = self._tensor[:0].clone()

    def candidate_scores(self, candidates: np.ndarray, residuals: np.ndarray | torch.Tensor) -> np.ndarray:
        """Raise: a basis that grows with the gradient needs the panel of all inputs."""
        raise MemoryError(
            f"basis='gradient' needs the features of all {self._all_inputs.shape[0]:,} inputs on {self.device}, which "
            "has no room for them. Use a smaller rank, fewer inputs, basis='random-cholesky', or engine='threads'."
        )
