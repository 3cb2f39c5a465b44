"""The Dask engine: the workers of a cluster, each with a share of the sequences. Dask loads when a fit is placed there.

A cluster can be used with a client that is open, workers, and the same version of the package on all of them.
"""

from __future__ import annotations

import importlib.metadata
from typing import TYPE_CHECKING

from kernelfields.engines.engine import Engine, PackedData, SampleSettings
from kernelfields.inference.choice import FamilySpec
from kernelfields.numerics.registry import SETTINGS

if TYPE_CHECKING:
    from distributed import Client

    from kernelfields.engines.dask.data import ShardedChains
    from kernelfields.engines.dask.sample import DaskSample

_START = "start one with distributed.Client(), or distributed.Client(address) of a running cluster"


@SETTINGS.register("dask")
class Dask(Engine):
    """The workers of a Dask cluster; ``client`` is a ``distributed.Client``, None for the present one."""

    name = "dask"

    def __init__(self, client: Client | None = None):
        self.client = client

    def check(self) -> None:
        """Raise unless there is a cluster with workers that have this version of the package."""
        connected_client(self.client)

    def check_scoring(self) -> None:
        """New data are scored in this process, or with the collection they are in: no cluster is needed."""

    def place(self, data: PackedData | ShardedChains, spec: FamilySpec, settings: SampleSettings) -> DaskSample:
        """Return labelled data in shards on the workers: those of a collection, or cut from data given here."""
        from kernelfields.engines.dask.data import ShardedChains, shards_of
        from kernelfields.engines.dask.sample import DaskSample

        if isinstance(data, ShardedChains):
            return DaskSample(data.group, data.n_positions, spec, settings)
        group = shards_of(connected_client(self.client), data)
        return DaskSample(group, data.n_positions, spec, settings)


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


def _check_versions(client: Client) -> None:
    own = importlib.metadata.version("kernelfields")
    found = client.run(importlib.metadata.version, "kernelfields", on_error="return")
    others = {
        address: "no kernelfields" if isinstance(version, Exception) else f"kernelfields {version}"
        for address, version in found.items()
        if version != own
    }
    if others:
        address, version = next(iter(others.items()))
        raise RuntimeError(
            f"{len(others)} of {len(found)} Dask workers have another version of the package: worker {address} "
            f"has {version}, the client has {own}. Install the same version on all of them."
        )
