"""The torch engine: one device of PyTorch, a GPU or the processor. PyTorch loads at the first fit."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from kernelfields.basis.subspace import Expansion
from kernelfields.data.reading import Matrix
from kernelfields.engines.engine import Engine, PackedData, Sample, SampleSettings
from kernelfields.inference.chain.family import ChainFamily
from kernelfields.inference.chain.list_family import ListFamily
from kernelfields.inference.choice import FamilySpec
from kernelfields.inference.family import LabelFamily
from kernelfields.kernels.kernel import Kernel
from kernelfields.numerics.group import Group, Value
from kernelfields.numerics.registry import SETTINGS
from kernelfields.objective.designs.budget import parse_memory
from kernelfields.objective.designs.design import kernel_quadratic_form

if TYPE_CHECKING:
    import torch

    from kernelfields.engines.torch.family import AnsweredChains


@SETTINGS.register("torch")
class Torch(Engine):
    """Fit on a device of PyTorch, or on several with the processes of ``torchrun``.

    It needs ``pip install "kernelfields[torch]"``. With ``group="env"`` all processes call ``fit`` with the same data,
    each keeps a part of it on a device of its own, and all of them have the fitted field.

    Parameters
    ----------
    device : str or torch.device, optional
        The device: "cuda", "cuda:1", "cpu"; by default CUDA if there is a device of it, else the processor.
    memory : float or str, optional
        The bytes, or text such as "40GB", that a fit may take of the device; by default what is free there. Features
        that do not fit are kept in the memory of the host, or recomputed.
    group : "env", optional
        The processes that fit together: those that ``torchrun`` has started; by default this one alone.

    See Also
    --------
    Threads : Fits with the threads of this process.
    Dask : Fits on the workers of a cluster.

    Examples
    --------
    >>> from kernelfields import ChainCRF
    >>> from kernelfields.engines import Torch
    >>> X, y = [[[0.0], [1.0]], [[1.0], [0.0]]], [["a", "b"], ["b", "a"]]
    >>> crf = ChainCRF("rbf", prior_variance=1.0, engine=Torch("cpu")).fit(X, y)
    >>> crf.predict([[[0.0], [1.0]]])
    [['a', 'b']]
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
        """Raise an error if fits cannot run on the device.

        Raises
        ------
        ImportError
            If PyTorch is not installed.
        ValueError
            If the name of the device, the budget or the group cannot be read.
        RuntimeError
            If there is no such device.
        """
        parse_memory(self.memory)
        if self.group not in (None, "env"):
            raise ValueError(f'group must be None, or "env" for the processes of torchrun, got {self.group!r}')
        self.resolve_device()
        if self.group is not None:
            self._processes()

    def resolve_device(self) -> torch.device:
        """Return the name of the device in PyTorch.

        Returns
        -------
        torch.device
            The device.

        Raises
        ------
        ImportError
            If PyTorch is not installed.
        ValueError
            If the name of the device cannot be read.
        RuntimeError
            If there is no such device.

        Examples
        --------
        >>> from kernelfields.engines import Torch
        >>> Torch("cpu").resolve_device()
        device(type='cpu')
        """
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
        """Return the device of this process under ``torchrun``, if every process has a device."""
        number = os.environ.get("LOCAL_RANK")
        if self.group is None or number is None or device.type != "cuda" or device.index is not None:
            return device
        import torch

        return torch.device("cuda", int(number) % max(1, torch.cuda.device_count()))

    def _processes(self) -> Group:
        """Return the processes of the joint fit."""
        from kernelfields.engines.together.collective import from_environment

        return from_environment(self.resolve_device())

    def broadcast(self, value: Value) -> Value:
        """Return the value of the first process of a joint fit.

        Parameters
        ----------
        value : object
            The value of this process.

        Returns
        -------
        object
            The value of the first process.
        """
        return value if self.group is None else self._processes().gather(value)[0]

    def place(self, data: PackedData, spec: FamilySpec, settings: SampleSettings) -> Sample:
        """Put labelled data, or this process's part of them, on the device.

        Parameters
        ----------
        data : Chains, Graphs or other packed data
            Labelled data.
        spec : FamilySpec
            The kind of the labels.
        settings : SampleSettings
            Precision, threads and memory.

        Returns
        -------
        Sample
            The data on the device.
        """
        if self.group is not None:
            from kernelfields.engines.together.placing import place_part

            return place_part(Torch(self.resolve_device(), self.memory), data, spec, settings, self._processes())
        from kernelfields.engines.torch.sample import TorchSample

        return TorchSample(data, spec, settings, self.resolve_device(), parse_memory(self.memory))

    def scores(self, expansion: Expansion, inputs: Matrix) -> np.ndarray:
        """Compute the scores k(x, B) alpha of new inputs on the device.

        Parameters
        ----------
        expansion : Expansion
            Pivots and coefficients; it keeps copies that are elsewhere.
        inputs : array or CSR matrix (n, d)
            The new inputs.

        Returns
        -------
        array (n, q)
            The scores, on the host.
        """
        from kernelfields.engines.torch.rows import device_expansion

        return device_expansion(expansion, self.resolve_device()).scores(inputs)

    def quadratic_form(self, kernel: Kernel, inputs: Matrix, residuals: np.ndarray) -> float:
        """Compute tr R^T K R for residuals R, with the kernel matrix K computed on the device.

        Parameters
        ----------
        kernel : Kernel
            The kernel.
        inputs : array or CSR matrix (N, d)
            The inputs.
        residuals : array (N, q)
            The residuals.

        Returns
        -------
        float
            The value.
        """
        from kernelfields.engines.torch.rows import DeviceRows
        from kernelfields.kernels.tensors import to_tensor

        device = self.resolve_device()

        def placed(rows: Matrix, own: np.ndarray) -> tuple:
            return DeviceRows(rows, device), to_tensor(own, device)

        return kernel_quadratic_form(kernel, inputs, residuals, placed)

    def device_inference(self, family: LabelFamily) -> AnsweredChains | None:
        """Return the family of chains with factors of neighbours on the device.

        Parameters
        ----------
        family : LabelFamily
            The family on the host.

        Returns
        -------
        DeviceFamily or None
            The family; None for other families, and if no device was named.
        """
        device = self.resolve_device()
        asked_for = device.type != "cpu" or self.device is not None
        if not asked_for or not isinstance(family, ChainFamily) or isinstance(family, ListFamily):
            return None
        from kernelfields.engines.torch.family import AnsweredChains

        return AnsweredChains(family.offsets, family.n_labels, tied=family.tied, base=family.base, device=device)


def device_count(device: str) -> int:
    """Return the number of devices of a kind in PyTorch; one for the processor."""
    import torch

    return torch.cuda.device_count() if torch.device(device).type == "cuda" else 1


def visible_devices(device: str, n_devices: int) -> list[str]:
    """Return the visible device for each of ``n_devices`` processes.

    Parameters
    ----------
    device : str
        The kind of the devices.
    n_devices : int
        The number of processes.

    Returns
    -------
    list of str
        Names for ``CUDA_VISIBLE_DEVICES``; processors are shared.

    Raises
    ------
    ValueError
        If there are fewer devices.
    """
    named = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    if device == "cpu":
        return [str(number) for number in range(n_devices)]
    if n_devices > device_count(device):
        raise ValueError(f"n_devices={n_devices} is more than the {device_count(device)} CUDA devices that are here")
    return [named[number] if any(named) else str(number) for number in range(n_devices)]


def has_cuda() -> bool:
    """Whether the installed PyTorch has a CUDA device."""
    import torch

    return torch.cuda.is_available()
