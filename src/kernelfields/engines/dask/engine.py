"""The Dask engine: a joint fit of all workers of a cluster, each with its part of the data.

A cluster can be used with a client that is open, workers in processes of their own, and the same version of the package
and of torch, by which they add up, on all of them. Workers that keep their parts on devices need one each.
"""

from __future__ import annotations

import importlib.metadata
import logging
import os
import socket
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kernelfields.engines.dask.launch import Lost, launch
from kernelfields.engines.engine import Engine, PackedData, Sample, SampleSettings
from kernelfields.engines.threads import Threads
from kernelfields.engines.together.placing import DataInParts, place_part
from kernelfields.engines.torch.engine import Torch, device_count, visible_devices
from kernelfields.inference.choice import FamilySpec
from kernelfields.numerics.containers import count_rows
from kernelfields.numerics.group import ALONE, RUNNING, Value
from kernelfields.numerics.parameters import check_count
from kernelfields.numerics.registry import SETTINGS
from kernelfields.numerics.version import VERSION

if TYPE_CHECKING:
    from distributed import Client


_START = "start one with distributed.Client(), or distributed.Client(address) of a running cluster"


@SETTINGS.register("dask")
class Dask(Engine):
    """Fit on all workers of a Dask cluster together, each with its part of the data.

    It needs ``pip install "kernelfields[dask]"``. A fit runs on the workers alone; the client starts it, sees its
    iterations, and has it start again if a worker has died. Workers are processes of their own, with the same versions
    of the package and of torch.

    Parameters
    ----------
    client : distributed.Client, optional
        The client of the cluster; by default the one that was made last.
    workers : Threads or Torch, optional
        The engine of each worker; by default its threads. With ``Torch("cuda")`` it keeps its share on the device that
        it sees first: give each worker one of its own, as :meth:`local_devices` and dask-cuda do.

    See Also
    --------
    Threads : Fits with the threads of this process.
    Torch : Fits on a device of PyTorch.

    Examples
    --------
    >>> from kernelfields.engines import Dask, Threads
    >>> engine = Dask(workers=Threads(memory="2GB"))  # of the cluster whose client was made last
    >>> engine.workers.budget()
    2000000000
    """

    name = "dask"

    def __init__(self, client: Client | None = None, workers: Engine | None = None):
        self.client = client
        self.workers = workers

    @classmethod
    def local_devices(cls, n_devices: int | None = None, device: str = "cuda") -> Dask:
        """Start a cluster of the devices of this machine, with a worker for each.

        The cluster ends with this process, with :meth:`close`, or as a context.

        Parameters
        ----------
        n_devices : int, optional
            The number of devices; by default all of CUDA.
        device : str, default "cuda"
            The kind of the devices.

        Returns
        -------
        Dask
            The engine.

        Raises
        ------
        ValueError
            If there are fewer devices.
        """
        Torch(device).check()
        n_devices = device_count(device) if n_devices is None else n_devices
        check_count(n_devices, "n_devices")
        seen = visible_devices(device, n_devices)
        import dask
        from distributed import Client, Nanny, Scheduler, SpecCluster

        n_threads = max(1, (os.cpu_count() or 1) // n_devices)
        options = {"nthreads": n_threads, "memory_limit": 0, "dashboard": False, "silence_logs": logging.WARNING}
        # Dask looks at the stacks of its threads every 10 ms, and takes Python's lock for it.
        unprofiled = {"distributed": {"worker": {"profile": {"enabled": False}}}}
        config = dask.config.merge(dask.config.config, unprofiled)
        specs = {
            number: {"cls": Nanny, "options": {**options, "config": config, "env": {"CUDA_VISIBLE_DEVICES": own}}}
            for number, own in enumerate(seen)
        }
        here = {"cls": Scheduler, "options": {"dashboard": False, "dashboard_address": None, "host": "127.0.0.1"}}
        cluster = SpecCluster(workers=specs, scheduler=here, name="devices", silence_logs=logging.WARNING)
        return cls(Client(cluster, set_as_default=False), Torch(device))

    def close(self) -> None:
        """End the client and, if it started one, its cluster."""
        if self.client is not None:
            cluster = self.client.cluster
            self.client.close()
            if cluster is not None:
                cluster.close()

    def __enter__(self) -> Dask:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        # A client stays where it is; on the workers none is needed.
        return {"client": None, "workers": self.workers}

    @property
    def alone(self) -> Engine:
        """The engine of a worker by itself."""
        return self.workers or Threads()

    @property
    def call_engine(self) -> Dask | None:
        """This engine; None on its workers."""
        return self if RUNNING.get() is None else None

    def check(self) -> None:
        """Raise an error unless all workers of a cluster have this version of the package, and their devices.

        Raises
        ------
        ImportError
            If Dask is not installed.
        TypeError
            If the client or the engine of the workers is of another type.
        ValueError
            If there is no client, or no worker.
        RuntimeError
            If the workers have other versions, miss a device, or share a process.
        """
        if self.workers is not None and not isinstance(self.workers, Threads | Torch):
            raise TypeError(f"workers must be None, Torch(...) or Threads(...), got {self.workers!r}")
        if RUNNING.get() is None:
            _check_workers(get_connected_client(self.client), self.workers)

    def check_scoring(self) -> None:
        """Accept: this process, or the workers of a collection, score new data without a cluster."""

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
        return (RUNNING.get() or ALONE).gather(value)[0]

    def place(self, data: PackedData | DataInParts, spec: FamilySpec, settings: SampleSettings) -> Sample:
        """Return this worker's part of the labelled data of a joint fit.

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
            The part of this worker.
        """
        group = RUNNING.get()
        if group is None:
            raise RuntimeError("engine='dask' places data in fits that its workers run, and none is running here")
        return place_part(self.workers or Threads(), data, spec, settings, group)

    def run(
        self,
        program: Callable[..., Any],
        common: object,
        collections: Sequence[Sequence[Any]],
        n_parts: int,
        watch: Callable[[Any], str],
        *,
        waits: bool = False,
    ) -> Any:
        """Run a program on all workers.

        Parameters
        ----------
        program : callable
            It is called as ``program(run, common, *partitions)``.
        common : object
            What all workers get.
        collections : sequence of sequences
            Lists of ``n_parts`` partitions, of which each worker has a run of consecutive ones.
        n_parts : int
            The number of partitions; without collections, the number of workers that can have a part of ``common``.
        watch : callable
            It gets what workers report, and returns text by which they go on or end.
        waits : bool, default False
            Whether workers wait for the answer of ``watch``.

        Returns
        -------
        object
            What the program returns on the first worker.
        """
        self.check()
        from dask import is_dask_collection

        client = get_connected_client(self.client)
        compute = partial(client.compute, allow_other_workers=True)

        def parts(addresses: list[str], wait: Callable[[list[Any]], None]) -> list[tuple]:
            # To one, from which the others take it: copies for a worker that has just died would be tried for ever.
            whole = client.scatter([common], workers=addresses[:1], hash=False)[0]
            if not collections:
                return [(whole, [])] * len(addresses)
            places = [addresses[number * len(addresses) // n_parts] for number in range(n_parts)]
            made = [
                [compute(value, workers=[place]) if is_dask_collection(value) else value for value, place in each]
                for each in (zip(own, places, strict=True) for own in collections)
            ]
            try:
                wait([value for own in made for value in own])
            except Lost:
                # Dask heeds the places of tasks that it does not know: those that wait for a worker have to go first.
                for future, value in zip(chain(*made), chain(*collections), strict=True):
                    if future is not value:
                        future.release()
                raise
            sizes = client.gather([client.submit(_n_items, value, pure=False) for value in made[0]])
            # A worker without items could not tell what the data are like.
            some = [number for number, size in enumerate(sizes) if size] or list(range(n_parts))
            runs = np.array_split(some, min(len(addresses), len(some) if any(sizes) else 1))
            return [(whole, run.tolist(), *([own[number] for number in run] for own in made)) for run in runs]

        return launch(client, self.workers or Threads(), program, parts, n_parts, watch, waits=waits)


def _n_items(partition: Any) -> int:
    """Return the number of items of a partition; one if it has no length."""
    return count_rows(partition) if hasattr(partition, "__len__") else 1


def get_connected_client(client: Client | None = None) -> Client:
    """Return ``client``, or the current one for None, if it is connected; raise an error otherwise."""
    try:
        import distributed
    except ImportError as error:
        raise ImportError(
            "engine='dask' needs Dask and distributed: pip install 'kernelfields[dask]', or use engine='threads'"
        ) from error
    if client is None:
        try:
            client = distributed.default_client()
        except ValueError as error:
            raise ValueError(f"engine='dask' found no distributed.Client: {_START}") from error
    if not isinstance(client, distributed.Client):
        raise TypeError(f"client must be a distributed.Client, got {type(client).__name__}: {_START}")
    if client.asynchronous:
        raise ValueError("engine='dask' cannot wait for an asynchronous client: use Client(asynchronous=False)")
    if client.status != "running":
        raise ValueError(f"the distributed.Client is {client.status}: {_START}")
    if not client.nthreads():
        raise ValueError(
            "the Dask cluster has no workers: add some (cluster.scale(2), or the command dask worker) and wait "
            "for them with client.wait_for_workers(1)"
        )
    return client


def worker_threads() -> int:
    """Return the number of threads of this worker."""
    from distributed import get_worker

    return get_worker().state.nthreads


class Worker(NamedTuple):
    """The versions and the process of a worker."""

    package: str
    torch: str
    process: tuple[str, int]


def describe_worker(engine: Engine | None) -> Worker:
    """Return the description of this worker; an error without torch or its device."""
    Torch("cpu").check()
    if engine is not None:
        engine.check()
    return Worker(VERSION, importlib.metadata.version("torch"), (socket.gethostname(), os.getpid()))


def _check_workers(client: Client, engine: Engine | None) -> None:
    """Raise unless all workers have equal versions of package and torch, their device, and a process each."""
    found = client.run(describe_worker, engine, on_error="return")
    described: dict[str, Worker] = {}
    for address, worker in found.items():
        if isinstance(worker, OSError):
            continue  # one that has just died, which other workers outlive
        if isinstance(worker, Exception):
            missing = "No module named 'kernelfields" in str(worker)
            what = "has no kernelfields" if missing else f"cannot take part in a fit: {worker}"
            raise RuntimeError(f"Dask worker {address} {what}")
        if worker.package != VERSION:
            raise RuntimeError(
                f"Dask workers have another version of the package: worker {address} has kernelfields "
                f"{worker.package}, the client has {VERSION}. Install the same version on all of them."
            )
        described[address] = worker
    versions = sorted({worker.torch for worker in described.values()})
    if len(versions) > 1:
        address = next(address for address, worker in described.items() if worker.torch == versions[0])
        raise RuntimeError(
            f"Dask workers have different versions of torch, {', '.join(versions)}: worker {address} has "
            f"{versions[0]}. Install the same version on all of them."
        )
    if len({worker.process for worker in described.values()}) < len(described):
        raise RuntimeError(
            "Dask workers share a process, and a fit needs one for each: start them with processes=True, or one worker"
        )
