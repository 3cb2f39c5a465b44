"""The Dask engine: the workers of a cluster, each with a share of the data. Dask loads when a fit is placed there.

A cluster can be used with a client that is open, workers, and the same version of the package on all of them. Workers
that keep their shares on devices need torch, of one version, and a device each.
"""

from __future__ import annotations

import importlib.metadata
import logging
import os
from typing import TYPE_CHECKING, Any

from kernelfields.engines.engine import Engine, PackedData, SampleSettings
from kernelfields.engines.threads import Threads
from kernelfields.engines.torch.engine import Torch, device_count
from kernelfields.inference.choice import FamilySpec
from kernelfields.numerics.parameters import check_count
from kernelfields.numerics.registry import SETTINGS

if TYPE_CHECKING:
    from distributed import Client

    from kernelfields.engines.dask.data import ShardedData
    from kernelfields.engines.dask.sample import DaskSample

_START = "start one with distributed.Client(), or distributed.Client(address) of a running cluster"


@SETTINGS.register("dask")
class Dask(Engine):
    """The workers of a Dask cluster; ``client`` is a ``distributed.Client``, None for the present one.

    ``workers`` is the engine of each worker, None for its threads. With ``Torch("cuda")`` it keeps its share on the
    device that it sees first: give each worker one of its own, as :meth:`local_devices` and dask-cuda do.
    """

    name = "dask"

    def __init__(self, client: Client | None = None, workers: Engine | None = None):
        self.client = client
        self.workers = workers

    @classmethod
    def local_devices(cls, n_devices: int | None = None, device: str = "cuda") -> Dask:
        """Return the devices of this machine as a cluster: a worker for each, which sees no other.

        ``n_devices`` None is for all of CUDA. The cluster ends with this process, with :meth:`close`, or as a context.
        """
        Torch(device).check()
        n_devices = device_count(device) if n_devices is None else n_devices
        check_count(n_devices, "n_devices")
        if device != "cpu" and n_devices > device_count(device):
            raise ValueError(
                f"n_devices={n_devices} is more than the {device_count(device)} CUDA devices that are here"
            )
        from distributed import Client, Nanny, Scheduler, SpecCluster

        n_threads = max(1, (os.cpu_count() or 1) // n_devices)
        options: dict[str, Any] = {"nthreads": n_threads, "memory_limit": 0, "dashboard": False}
        options["silence_logs"] = logging.WARNING
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
        seen = [visible[number] if any(visible) and device != "cpu" else str(number) for number in range(n_devices)]
        specs = {
            number: {"cls": Nanny, "options": {**options, "env": {"CUDA_VISIBLE_DEVICES": own}}}
            for number, own in enumerate(seen)
        }
        here = {"cls": Scheduler, "options": {"dashboard": False, "dashboard_address": None, "host": "127.0.0.1"}}
        cluster = SpecCluster(workers=specs, scheduler=here, name="devices", silence_logs=logging.WARNING)
        return cls(Client(cluster, set_as_default=False), Torch(device))

    def close(self) -> None:
        """End the client and, where it started one, its cluster."""
        if self.client is not None:
            cluster = self.client.cluster
            self.client.close()
            if cluster is not None:
                cluster.close()

    def __enter__(self) -> Dask:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def check(self) -> None:
        """Raise unless there is a cluster with workers that have this version of the package, and their devices."""
        if self.workers is not None and not isinstance(self.workers, Threads | Torch):
            raise TypeError(f"workers must be None, Torch(...) or Threads(...), got {self.workers!r}")
        client = connected_client(self.client)
        if isinstance(self.workers, Torch):
            _check_devices(client, self.workers)

    def check_scoring(self) -> None:
        """New data are scored in this process, or with the collection they are in: no cluster is needed."""

    def place(self, data: PackedData | ShardedData, spec: FamilySpec, settings: SampleSettings) -> DaskSample:
        """Return labelled data in shards on the workers: those of a collection, or cut from data given here."""
        from kernelfields.engines.dask.data import ShardedData, shards_of
        from kernelfields.engines.dask.sample import DaskSample

        if isinstance(data, ShardedData):
            return DaskSample(data.group, data.n_positions, spec, settings, self.workers)
        group = shards_of(connected_client(self.client), data)
        return DaskSample(group, data.n_positions, spec, settings, self.workers)


def connected_client(client: Client | None = None) -> Client:
    """Return ``client``, or the present one for None, if it can be used; raise an error otherwise."""
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
    _check_versions(client)
    return client


def _check_devices(client: Client, engine: Torch) -> None:
    """Raise unless all workers have one version of torch and the device."""
    found = client.run(torch_version, engine, on_error="return")
    for address, version in found.items():
        if isinstance(version, Exception):
            raise RuntimeError(f"Dask worker {address} cannot keep its share on a device: {version}")
    if len(versions := sorted(set(found.values()))) > 1:
        address = next(address for address, version in found.items() if version == versions[0])
        raise RuntimeError(
            f"Dask workers have different versions of torch, {', '.join(versions)}: worker {address} has "
            f"{versions[0]}. Install the same version on all of them."
        )


def torch_version(engine: Torch) -> str:
    """Return the version of torch of this process; an error where there is none, or no such device."""
    engine.check()
    return importlib.metadata.version("torch")


def _check_versions(client: Client) -> None:
    own = importlib.metadata.version("kernelfields")
    found = client.run(importlib.metadata.version, "kernelfields", on_error="return")
    others = {
        address: "no kernelfields" if isinstance(version, Exception) else f"kernelfields {version}"
        for address, version in found.items()
        if version != own and not isinstance(version, OSError)  # one that has just died, which other workers outlive
    }
    if others:
        address, version = next(iter(others.items()))
        raise RuntimeError(
            f"{len(others)} of {len(found)} Dask workers have another version of the package: worker {address} "
            f"has {version}, the client has {own}. Install the same version on all of them."
        )
