"""Whether a Dask cluster can be used: a client that is open, workers, the same version of the package on all."""

from __future__ import annotations

import importlib.metadata
from typing import Any

_START = "start one with distributed.Client(), or distributed.Client(address) of a running cluster"


def connected_client(client: Any = None) -> Any:
    """Return ``client``, or the present one for None, once it is known to serve; else say what is missing."""
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


def _check_versions(client: Any) -> None:
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
