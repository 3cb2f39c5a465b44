"""Processes of a joint fit: sums over all of them by torch.distributed, and the state for a restart.

    total, gathered            the sums and lists of numerics/group.py: gloo, NCCL for sums where every process has
                               a device of its own
    start, reached             coefficients of each solver that has run, so that a fit begins where it was
    passed_on                  a number of the first process for all others, with the next sum
    close                      leave the group; whoever waits for this process gets an error at once

Every process runs the same program on the same coefficients. All of them receive the same bits of a sum, and what
follows is computed from these alone, so that they take the same branches. With every sum they compare checksums of the
coefficients: where machines round differently, the fit ends with one line and does not hang.

Cost of a pass: one sum of as many doubles as there are coefficients, and one of a few numbers for each trial of a line
search. Every wait ends after ``timeout`` seconds. Raises :class:`Parted` where another process has gone.
"""

from __future__ import annotations

import os
import pickle
import socket
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import distributed

from kernelfields.engines.together.summed import SummedDatafit
from kernelfields.numerics.group import RUNNING, Group, Value

#: Seconds that a process waits for the others: as long as the slowest of them may take for its part of a pass.
LONGEST_WAIT = 600.0
#: Seconds until all processes of a group must be there.
LONGEST_START = 120.0
# Bytes that are gathered in one exchange, of which the first eight say how many there are.
_SMALL = 4096


class Parted(RuntimeError):
    """The loss of another process of the group, or no answer from it."""


class Collective(Group):
    """``size`` processes connected through a ``store``; this one has the number ``rank`` and the address ``host``.

    ``device`` is that of its part, None for threads. ``known`` are coefficients that the solvers of the program, which
    run one after the other, have reached before, by the number of the solver.
    """

    def __init__(
        self,
        store: distributed.Store,
        rank: int,
        size: int,
        *,
        device: torch.device | None = None,
        host: str = "127.0.0.1",
        timeout: float = LONGEST_WAIT,
        known: dict[int, np.ndarray] | None = None,
    ):
        self.rank, self.size = rank, size
        self.known = dict(known or {})
        self._solver = -1
        self._device, self._timeout = device, timeout
        self._group: Any = None
        self._sums: Any = None
        self._left = False
        # What rides along with sums: a checksum of the coefficients here, and a number for the others.
        self._checksum, self._number = 0, 0
        self._passed_on: int | None = None
        if size == 1:
            return
        with self._partings():
            _meet(store, rank, size)
            here = distributed.ProcessGroupGloo._Options()
            here._devices = [distributed.ProcessGroupGloo.create_device(hostname=host)]
            here._timeout = timedelta(seconds=timeout)
            self._group = distributed.ProcessGroupGloo(distributed.PrefixStore("gloo", store), rank, size, here)
        devices = self.gather(_identity(device))
        kinds = [kind for kind, _ in devices]
        if len(set(kinds)) > 1:
            other = next(number for number, kind in enumerate(kinds) if kind != kinds[0])
            raise RuntimeError(
                "devices that fit together must be of one kind, so that all compute the same: process 0 has "
                f"{kinds[0]}, process {other} has {kinds[other]}"
            )
        if devices[0][1] and len(set(devices)) == size and distributed.is_nccl_available():
            with self._partings():
                self._sums = nccl_group(store, rank, size, timeout)

    @contextmanager
    def _partings(self) -> Iterator[None]:
        if self._left:
            raise Parted("the fit was left")
        try:
            yield
        except RuntimeError as error:
            if isinstance(error, Parted):
                raise
            said = str(error).splitlines()[0]
            raise Parted(f"a process that fits together with this one has gone ({said:.200})") from error

    def total(self, values: Value) -> Value:
        """Return the sum over all processes; sums in double precision also carry checksums and numbers."""
        if self.size == 1:
            return values
        parts: Any = values if isinstance(values, list) else [values]
        if not parts:
            return values
        narrow = all(isinstance(part, np.ndarray) and part.dtype == np.float32 for part in parts)
        beside = np.zeros((0 if narrow else self.size, 2))
        beside[self.rank : self.rank + 1] = self._checksum, self._number
        arrays = [np.asarray(part, dtype=np.float32 if narrow else np.float64) for part in [*parts, beside]]
        flat = torch.from_numpy(np.concatenate([array.ravel() for array in arrays]))
        there = flat if self._sums is None else flat.to(self._device)
        with self._partings():
            if self._sums is None:
                self._group.allreduce([flat]).wait()
            else:
                self._wait_for(self._sums.allreduce([there]))
                flat = there.cpu()
        *found, beside = np.split(flat.numpy(), np.cumsum([array.size for array in arrays[:-1]]))
        if not narrow:
            self._compare(beside.reshape(self.size, 2))
        sums: Any = [
            own.reshape(array.shape) if isinstance(part, np.ndarray) else type(part)(own[0])
            for part, array, own in zip(parts, arrays, found, strict=False)
        ]
        return sums if isinstance(values, list) else sums[0]

    def _compare(self, beside: np.ndarray) -> None:
        """Read the checksums in a sum; RuntimeError unless all processes have the same coefficients."""
        checksums, self._passed_on = beside[:, 0], int(beside[0, 1])
        if np.any(checksums != checksums[0]):
            other = int(np.argmax(checksums != checksums[0]))
            raise RuntimeError(
                f"process {other} of the fit has other coefficients than process 0: their processors or libraries "
                "round differently. Use machines of one kind."
            )

    def _wait_for(self, work: Any) -> None:
        """Wait for a sum by NCCL with a check for lost processes."""
        end = time.monotonic() + self._timeout
        while not work.is_completed():
            if self._left:
                raise Parted("the fit was left")
            if time.monotonic() > end:
                raise Parted(f"another process has not answered for {self._timeout:.0f} seconds")
            time.sleep(1e-5)
        work.wait()

    def gather(self, value: Value) -> list[Value]:
        """Return the values of all processes, pickled: one exchange, two for large values."""
        if self.size == 1:
            return [value]
        data = pickle.dumps(value)
        own = np.frombuffer(len(data).to_bytes(8, "little") + data, dtype=np.uint8)
        rows = self._gather_rows(own[:_SMALL], _SMALL)
        ends = 8 + np.ascontiguousarray(rows[:, :8]).view("<i8").ravel()
        if ends.max() > _SMALL:
            rows = np.hstack([rows, self._gather_rows(own[_SMALL:], int(ends.max()) - _SMALL)])
        return [pickle.loads(row[8:end].tobytes()) for row, end in zip(rows, ends, strict=True)]

    def _gather_rows(self, data: np.ndarray, size: int) -> np.ndarray:
        """Return the bytes of all processes, padded with zeros to ``size``."""
        own = torch.zeros(size, dtype=torch.uint8)
        own.numpy()[: len(data)] = data
        rows = [torch.empty_like(own) for _ in range(self.size)]
        with self._partings():
            self._group.allgather([rows], [own]).wait()
        return np.stack([each.numpy() for each in rows])

    def sum_datafit(self, datafit: Any) -> Any:
        """Return the datafit of all data from the datafit of this process's part."""
        datafit.partners = [self]
        if self.size == 1:
            datafit.group = self
            return datafit
        return SummedDatafit(datafit, self)

    def total_on_device(self, matrix: torch.Tensor) -> torch.Tensor:
        """Return the sum over all processes of a tensor, in place, in float32."""
        if self.size > 1:
            matrix.copy_(torch.from_numpy(self.total(matrix.to(torch.float32).cpu().numpy())))
        return matrix

    def start(self, theta: np.ndarray | None, size: int) -> np.ndarray | None:
        """Return the initial coefficients: the coefficients before the loss of a process, else ``theta``."""
        self._solver += 1
        known = self.known.get(self._solver)
        return theta if known is None or len(known) != size else known

    def save_iteration(self, theta: np.ndarray) -> None:
        """Save the coefficients of an iteration; the next sum compares them between processes."""
        self.known[self._solver] = theta
        if self.size > 1:
            self._checksum = zlib.crc32(np.ascontiguousarray(theta).data)

    def sentences(self, own: Sequence[str]) -> list[str]:
        """Return the distinct sentences of all processes."""
        return list(dict.fromkeys(chain.from_iterable(self.gather(list(own)))))

    def broadcast(self, number: int) -> int:
        """Return a number of the first process to all.

        Where there was no sum since the last number, there is one now.
        """
        self._number = number
        if self.size == 1:
            return number
        if self._passed_on is None:
            self.total(0.0)
        found, self._passed_on = self._passed_on, None
        assert found is not None, "it came with a sum"
        return found

    def close(self) -> None:
        """Leave the group: a waiting process gets an error immediately."""
        self._left = True
        for group in (self._sums, self._group):
            if group is not None:
                group.abort()
        self._sums = self._group = None  # connections end with the last reference


def _meet(store: distributed.Store, rank: int, size: int) -> None:
    """Wait until all processes are present, with a time limit; raise if the fit has ended."""
    store.set(f"here-{rank}", "")
    end = time.monotonic() + LONGEST_START
    while not store.check([f"here-{other}" for other in range(size)]):
        if store.check(["left"]):
            raise Parted("the fit was left before all processes were there")
        if time.monotonic() > end:
            raise TimeoutError(
                f"process {rank} of a fit waited {LONGEST_START:.0f} seconds for the others: are their workers busy?"
            )
        time.sleep(0.01)


def nccl_group(store: distributed.Store, rank: int, size: int, timeout: float) -> Any:
    """Return the NCCL group of processes with a device each."""
    # By default a process whose sum fails is ended by a thread of NCCL's; here the fit ends with an error.
    os.environ.setdefault("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0")
    options = distributed.ProcessGroupNCCL.Options()
    options._timeout = timedelta(seconds=2 * timeout)
    return distributed.ProcessGroupNCCL(distributed.PrefixStore("nccl", store), rank, size, options)


def _identity(device: torch.device | None) -> tuple[str, str]:
    """Return the name and the unique identifier of a device."""
    if device is None or device.type != "cuda":
        return "a processor", ""
    properties = torch.cuda.get_device_properties(device)
    return properties.name, str(properties.uuid)


@contextmanager
def joined(collective: Collective) -> Iterator[Collective]:
    """Open a context with a group, and close the group at its end."""
    token = RUNNING.set(collective)
    try:
        yield collective
    finally:
        RUNNING.reset(token)
        collective.close()


def from_environment(device: torch.device | None = None) -> Group:
    """Return the group of the processes of ``torchrun``, made once; RuntimeError without one."""
    present = RUNNING.get()
    if present is None:
        if missing := [name for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT") if name not in os.environ]:
            raise RuntimeError(
                f'group="env" takes its processes from the environment, and {missing[0]} is not there: start them '
                "with torchrun"
            )
        store, rank, size = next(distributed.rendezvous("env://", timeout=timedelta(seconds=LONGEST_START)))
        # The address by which this machine reaches the first one.
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as route:
            route.connect((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])))
            host = route.getsockname()[0]
        present = Collective(store, rank, size, device=device, host=host)
        RUNNING.set(present)
    return present
