"""The torch engine: one device of PyTorch, a GPU or the processor. PyTorch loads when a fit is placed there."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from kernelfields.basis.subspace import Expansion
from kernelfields.data.reading import Matrix
from kernelfields.engines.engine import Engine, PackedData, SampleSettings
from kernelfields.inference.chain.family import ChainFamily, ListFamily
from kernelfields.inference.choice import FamilySpec
from kernelfields.inference.family import LabelFamily
from kernelfields.kernels.kernel import Kernel
from kernelfields.numerics.group import Group
from kernelfields.numerics.registry import SETTINGS
from kernelfields.objective.designs.budget import parse_memory
from kernelfields.objective.designs.design import kernel_quadratic_form

if TYPE_CHECKING:
    import torch

    from kernelfields.engines.threads import LocalSample
    from kernelfields.engines.torch.family import AnsweredChains


@SETTINGS.register("torch")
class Torch(Engine):
    """A device of PyTorch: "cuda", "cuda:1", "cpu"; None for CUDA where there is one, else the processor.

    ``memory``, a number of bytes or text such as "40GB", is what a fit may take of the device, None for what is free
    there; features that do not fit are kept in the memory of the host, or recomputed (engines/torch/memory.py).

    With ``group="env"``, the processes that ``torchrun`` has started fit together: all of them call ``fit`` with the
    same data, each keeps a part of it on a device of its own, and all of them have the fitted field.
    """

    name = "torch"

    def __init__(
        self,
        device: str | torch.device | None = None,
        memory: str | float | None = None,
        group: str | None = None,
    ):
        self.device = device
        self.memory = memory
        self.group = group

    def check(self) -> None:
        """Raise if torch is not installed or has no such device, or if the budget cannot be read."""
        parse_memory(self.memory)
        if self.group not in (None, "env"):
            raise ValueError(f'group must be None, or "env" for the processes of torchrun, got {self.group!r}')
        self.resolved_device()
        if self.group is not None:
            self._processes()

    def resolved_device(self) -> torch.device:
        """Return the device, as PyTorch names it; ImportError, ValueError or RuntimeError where it cannot be had."""
        try:
            import torch
        except ImportError as error:
            raise ImportError("engine='torch' needs PyTorch: pip install 'kernelfields[torch]'") from error
        if self.device is None:
            device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
            return self._own_device(device)
        try:
            device = self._own_device(torch.device(self.device))
        except (RuntimeError, TypeError) as error:
            raise ValueError(f"device must be a name such as 'cuda', 'cuda:0' or 'cpu', got {self.device!r}") from error
        if device.type == "cuda":
            if torch.version.cuda is None:
                raise RuntimeError(
                    f"device={self.device!r}: this build of PyTorch ({torch.__version__}) has no CUDA. "
                    "Install one that does, or use device='cpu' or engine='threads'."
                )
            count = torch.cuda.device_count()
            if (device.index or 0) >= count:
                there = "no CUDA device is there" if count == 0 else f"there are CUDA devices 0 to {count - 1} only"
                raise RuntimeError(f"device={self.device!r}: {there}. Use device='cpu' or engine='threads'.")
        elif device.type != "cpu":
            raise ValueError(f"device={self.device!r}: inference needs float64, which 'cuda' and 'cpu' have")
        return device

    def _own_device(self, device: torch.device) -> torch.device:
        """Return the device of this process among those of ``torchrun``, where each has one."""
        number = os.environ.get("LOCAL_RANK")
        if self.group is None or number is None or device.type != "cuda" or device.index is not None:
            return device
        import torch

        return torch.device("cuda", int(number) % max(1, torch.cuda.device_count()))

    def _processes(self) -> Group:
        """Return the processes that fit together with this one."""
        from kernelfields.engines.together.collective import from_environment

        return from_environment(self.resolved_device())

    def same_random(self, random: np.random.Generator) -> np.random.Generator:
        """Return the generator of the first process that fits."""
        return random if self.group is None else self._processes().same_random(random)

    def place(self, data: PackedData, spec: FamilySpec, settings: SampleSettings) -> LocalSample:
        """Return labelled data on the device, or the part of them that this process has."""
        if self.group is not None:
            from kernelfields.engines.together.placing import place_part

            return place_part(Torch(self.resolved_device(), self.memory), data, spec, settings, self._processes())
        from kernelfields.engines.torch.sample import TorchSample

        return TorchSample(data, spec, settings, self.resolved_device(), parse_memory(self.memory))

    def scores(self, expansion: Expansion, inputs: Matrix) -> np.ndarray:
        """Return k(x, B) alpha for each row of inputs, (n, q), computed on the device."""
        from kernelfields.engines.torch.rows import device_expansion

        return device_expansion(expansion, self.resolved_device()).scores(inputs)

    def quadratic_form(self, kernel: Kernel, inputs: Matrix, residuals: np.ndarray) -> float:
        """Return tr R^T K R for residuals R (N, q), with the kernel matrix K of N inputs computed on the device."""
        from kernelfields.engines.torch.rows import DeviceRows
        from kernelfields.kernels.tensors import tensor_from

        device = self.resolved_device()

        def placed(rows: Matrix, own: np.ndarray) -> tuple:
            return DeviceRows(rows, device), tensor_from(own, device)

        return kernel_quadratic_form(kernel, inputs, residuals, placed)

    def device_inference(self, family: LabelFamily) -> AnsweredChains | None:
        """Return the family of chains whose neighbours meet; None for others, and if no device was named."""
        device = self.resolved_device()
        asked_for = device.type != "cpu" or self.device is not None
        if not asked_for or not isinstance(family, ChainFamily) or isinstance(family, ListFamily):
            return None
        from kernelfields.engines.torch.family import AnsweredChains

        return AnsweredChains(family.offsets, family.n_labels, tied=family.tied, base=family.base, device=device)


def device_count(device: str) -> int:
    """Return how many devices of a kind PyTorch, which is installed, sees: one processor."""
    import torch

    return torch.cuda.device_count() if torch.device(device).type == "cuda" else 1


def cuda_is_there() -> bool:
    """Whether PyTorch, which is installed, sees a CUDA device."""
    import torch

    return torch.cuda.is_available()
