"""Programs on all workers of a Dask cluster: started together, watched, and restarted after the loss of a worker.

    client    picks workers, has the first open a meeting point, submits one task to each, looks at the first one's
              progress from time to time, and asks it to stop
    worker    joins the group (engines/together/collective.py), runs the program with its part, returns what it found

No number of the fit passes through the client or the scheduler. When a worker dies, the others get an error from the
group within seconds, and the program starts again on the workers that are there: every solver begins with the
coefficients that the client saw last. Partitions are results of tasks, which Dask makes again.

Every wait has a limit: workers that do not come within two minutes, a cluster without workers for a minute, workers
that die again and again without progress, and processes that do not answer for ten minutes are errors.
"""

from __future__ import annotations

import socket
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import urlsplit

import numpy as np

from kernelfields.engines.engine import Engine
from kernelfields.engines.torch.engine import Torch

if TYPE_CHECKING:
    from distributed import Client, Future

    #: Arguments of the first workers among some, given a function that waits for futures.
    Parts = Callable[[list[str], Callable[[list[Any]], None]], list[tuple]]

# Seconds between looks at a fit: at first, or where it waits for what its callbacks say, and later.
_SHORTLY, _PATIENCE = 0.01, 0.25
# Seconds between coefficients that the client receives, to go on from where a worker dies.
_BETWEEN_STARTS = 1.0
# Seconds until a worker must have reached the meeting point, which is there before.
_LONGEST_CONNECTION = 10.0
# Seconds until workers that fit together with one that has gone must have ended.
_LONGEST_END = 20.0
# Seconds to wait for a worker to come back when none is left.
_LONGEST_ABSENCE = 60.0
# How often a fit is started again without having got any further.
_MOST_ATTEMPTS = 8


# ---- on the workers


@dataclass
class Run:
    """A program in this process, with its reports and the client's requests."""

    reports: list[Any] = field(default_factory=list)
    #: What the client answers to the reports so far, and how many it has seen.
    wish: str = ""
    answered: int = 0
    #: When the client is to receive coefficients next.
    due: float = 0.0
    collective: Any = None
    store: Any = None

    def report(self, what: Any, *, wait: bool, limit: float) -> str:
        """Send a report; return the client's requests, after an acknowledgement if the program is to ``wait``."""
        self.reports.append(what)
        end = time.monotonic() + limit
        while wait and not self.wish and self.answered < len(self.reports):
            if time.monotonic() > end:
                raise RuntimeError(f"the client has not answered for {limit:.0f} seconds: is it gone?")
            time.sleep(0.002)
        return self.wish


_RUNS: dict[str, Run] = {}
_BUSY = threading.Lock()


def open_meeting(name: str, host: str) -> int:
    """Open the store at which the processes of a program meet; return its port."""
    from torch import distributed

    store = distributed.TCPStore(host, 0, is_master=True, wait_for_workers=False)
    _RUNS[name] = Run(store=store)
    return store.port


def talk(name: str, seen: int, wish: str, solver: int) -> tuple[list[Any], dict[int, np.ndarray]]:
    """Acknowledge reports of a program, pass requests to it, and return the new reports.

    With them comes where its solvers are, from some number on, if it is time.
    """
    run = _RUNS.get(name)
    if run is None or run.collective is None:
        return [], {}
    run.answered, run.wish = seen, wish or run.wish
    if time.monotonic() < run.due:
        return run.reports[seen:], {}
    run.due = time.monotonic() + _BETWEEN_STARTS
    known = dict(run.collective.known)
    return run.reports[seen:], {number: theta for number, theta in known.items() if number >= solver}


def leave(name: str) -> None:
    """Remove a process from a program that has ended elsewhere."""
    run = _RUNS.pop(name, None)
    if run is None:
        return
    run.wish = "interrupt"  # nobody answers any more
    if run.store is not None:
        run.store.set("left", "")
    if run.collective is not None:
        run.collective.close()


def take_part(
    name: str,
    rank: int,
    hosts: Sequence[str],
    port: int,
    engine: Engine,
    starts: dict[int, np.ndarray],
    program: Callable[..., Any],
    *part: Any,
) -> Any:
    """Run a program in this process, one of several; return Lost after the loss of another one.

    The first returns what the program returns, and its last reports, from the first that the client may not have.
    """
    from torch import distributed

    from kernelfields.engines.together.collective import LONGEST_START, Collective, Parted, joined
    from kernelfields.engines.together.memory import keep_memory

    if not _BUSY.acquire(timeout=LONGEST_START):
        raise RuntimeError("this process takes part in another fit: workers need a process each, and a fit at a time")
    try:
        store = distributed.TCPStore(hosts[0], port, is_master=False, timeout=timedelta(seconds=_LONGEST_CONNECTION))
        store.set_timeout(timedelta(seconds=LONGEST_START))
        device = engine.resolve_device() if isinstance(engine, Torch) else None
        group = Collective(store, rank, len(hosts), device=device, host=hosts[rank], known=starts)
        with joined(group), keep_memory():
            # The first process has been in it since it opened the meeting, unless it was told to leave meanwhile.
            run = _RUNS.get(name) if rank == 0 else _RUNS.setdefault(name, Run())
            if run is None:
                raise Parted("the fit was left")
            run.collective = group
            result = program(run, *part)
        return (result, run.answered, run.reports[run.answered :]) if rank == 0 else None
    except (Parted, distributed.DistNetworkError) as error:
        return Lost(str(error))
    finally:
        _BUSY.release()
        _RUNS.pop(name, None)


# ---- on the client


class Lost(Exception):
    """The loss of workers of a program."""


def get_host(address: str) -> str:
    """Return the host of a worker's address; the host of this process for its own workers."""
    host = urlsplit(address).hostname
    return host if host and not address.startswith("inproc") else socket.gethostbyname(socket.gethostname())


def launch(
    client: Client,
    engine: Engine,
    program: Callable[..., Any],
    parts: Parts,
    n_most: int,
    watch: Callable[[Any], str],
    *,
    waits: bool,
) -> Any:
    """Run ``program(run, *part)`` on all workers; return the result of the first.

    ``parts`` are their arguments; there can be ``n_most`` of them. ``watch(report)`` says what is wanted after a
    report, "" for nothing; with ``waits`` the program waits for that.
    """
    starts: dict[int, np.ndarray] = {}
    furthest, attempts = -1, 0
    while True:
        attempt = _Attempt(client, starts, watch, waits=waits)
        try:
            attempt.begin(engine, program, parts, n_most)
            return attempt.run()
        except Lost as lost:
            starts = attempt.starts
            if attempt.n_reports > furthest:
                furthest, attempts = attempt.n_reports, 0
            attempts += 1
            if attempts >= _MOST_ATTEMPTS:
                raise RuntimeError(
                    f"workers of the fit were lost {attempts} times without progress, they die or run out of memory: "
                    f"give them more memory, or use more of them ({lost})"
                ) from None
        finally:
            attempt.end()


class _Attempt:
    """One start of a program on the present workers."""

    def __init__(self, client: Client, starts: dict[int, np.ndarray], watch: Callable[[Any], str], *, waits: bool):
        self.client, self.watch = client, watch
        self.name, self.starts, self.n_reports, self._waits = uuid.uuid4().hex, dict(starts), 0, waits
        self._wish = ""
        self.futures: list[Future] = []
        self.addresses: list[str] = []

    def begin(self, engine: Engine, program: Callable[..., Any], parts: Parts, n_most: int) -> None:
        """Submit the program to the workers; Lost if one of them is lost."""
        from distributed.scheduler import KilledWorker

        self.addresses = self._present()[: max(1, n_most)]
        try:
            own = parts(self.addresses, self._wait_for)
        except (KilledWorker, CancelledError, TimeoutError, OSError, KeyError) as error:
            raise Lost(str(error)) from error
        self.addresses = self.addresses[: len(own)]
        hosts = [get_host(address) for address in self.addresses]
        port = self._ask(open_meeting, self.name, hosts[0])
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sending large graph", category=UserWarning)
            self.futures = [
                self.client.submit(
                    take_part,
                    *(self.name, rank, hosts, port, engine, self.starts, program, *part),
                    key=f"fit-{self.name}-{rank}",
                    workers=[address],
                )
                for rank, (address, part) in enumerate(zip(self.addresses, own, strict=True))
            ]

    def _wait_for(self, values: list[Any]) -> None:
        """Wait for partitions without a time limit, so that all workers begin together."""
        from distributed import Future

        waiting = [value for value in values if isinstance(value, Future)]
        while waiting := [future for future in waiting if not future.done()]:
            if set(self.addresses).isdisjoint(self._present()):
                # Dask leaves tasks that prefer a worker waiting for it, if none was there when it went.
                raise Lost("all workers that made partitions")
            time.sleep(_SHORTLY)

    def _addresses(self) -> list[str]:
        """Return the addresses of the workers, in order; RuntimeError if the scheduler is lost."""
        try:
            if self.client.status == "running":
                return sorted(self.client.nthreads())
        except (OSError, TimeoutError) as error:
            raise RuntimeError(f"the scheduler of the Dask cluster does not answer: {error}") from error
        # A client that finds its scheduler again has lost all tasks.
        raise RuntimeError(
            "the scheduler of the Dask cluster has gone, and the fit with it: start a cluster, fit again"
        )

    def _present(self) -> list[str]:
        """Return the addresses of present workers; RuntimeError if no worker returns."""
        end = time.monotonic() + _LONGEST_ABSENCE
        while not (addresses := self._addresses()):
            if time.monotonic() > end:
                raise RuntimeError(
                    "no worker of the Dask cluster is left, and none came back within "
                    f"{_LONGEST_ABSENCE:.0f} seconds: the fit cannot go on. Start workers and fit again."
                )
            time.sleep(_PATIENCE)
        return addresses

    def _ask(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return the result of a function on the first worker; Lost if it is lost."""
        address = self.addresses[0]
        try:
            found = self.client.run(function, *arguments, workers=[address], on_error="return")
        except (OSError, ValueError, KeyError, TimeoutError) as error:
            self._addresses()
            raise Lost(str(error)) from error
        result = found.get(address)
        if isinstance(result, OSError) or address not in found:
            raise Lost(str(result))
        if isinstance(result, Exception):
            raise result
        return result

    def run(self) -> Any:
        """Wait for the program and show its reports; return its result, or raise its error."""
        pause, ended = _SHORTLY, threading.Event()
        for future in self.futures:
            future.add_done_callback(lambda _: ended.set())
        while not all(future.done() for future in self.futures):
            ended.clear()
            try:
                self._exchange()
                if any(future.status == "error" for future in self.futures):
                    self._raise_error()
                if lost := set(self.addresses) - set(self._addresses()):
                    raise Lost(f"worker {min(lost)}")
                ended.wait(pause)
                pause = pause if self._waits else min(1.3 * pause, _PATIENCE)
            except KeyboardInterrupt:
                if self._wish == "interrupt":
                    raise
                self._wish = "interrupt"
        if any(future.status != "finished" for future in self.futures):
            self._raise_error()
        # Of workers on this machine, without a detour through the scheduler: a field is large.
        direct = True if get_host(self.addresses[0]) == "127.0.0.1" else None
        try:
            first, *others = self.client.gather(self.futures, direct=direct)
        except (CancelledError, TimeoutError, OSError) as error:
            raise Lost(str(error)) from error
        for result in (first, *others):
            if isinstance(result, Lost):
                raise result
        result, begin, reports = first
        self._show(reports[self.n_reports - begin :])
        self.addresses = []  # no worker runs the program any more
        return result

    def _exchange(self) -> None:
        """Show new reports and send requests to the program, at once if it waits."""
        reports: list[Any] = [None]
        while reports:
            solver = max(self.starts, default=0)
            reports, starts = self._ask(talk, self.name, self.n_reports, self._wish, solver)
            self.starts.update(starts)
            self._show(reports)
            if not self._waits:
                break

    def _show(self, reports: list[Any]) -> None:
        for report in reports:
            self.n_reports += 1
            self._wish = self.watch(report) or self._wish

    def _raise_error(self) -> NoReturn:
        """Raise the error of the program; Lost if only a worker is lost."""
        from distributed.scheduler import KilledWorker

        from kernelfields.engines.torch.rows import is_out_of_memory

        end = time.monotonic() + _LONGEST_END
        while time.monotonic() < end and not all(future.done() for future in self.futures):
            if set(self.addresses) - set(self._addresses()):
                break
            time.sleep(_PATIENCE / 5)
        for address, future in zip(self.addresses, self.futures, strict=True):
            if future.status != "error":
                continue
            error = future.exception(timeout=_LONGEST_END)
            if isinstance(error, MemoryError) or is_out_of_memory(error):
                raise MemoryError(f"worker {address}: {error}") from error
            if error is not None and not isinstance(error, KilledWorker | CancelledError):
                raise error
        raise Lost("a worker that the others waited for")

    def end(self) -> None:
        """Cancel the program on all workers."""
        if not self.addresses or self.client.status != "running":
            return
        with suppress(OSError, TimeoutError, RuntimeError):  # a cluster that has gone has nothing left to let go
            self.client.cancel([future for future in self.futures if not future.done()], force=True)
            if present := sorted(set(self.addresses) & set(self._addresses())):
                self.client.run(leave, self.name, workers=present, on_error="ignore")
