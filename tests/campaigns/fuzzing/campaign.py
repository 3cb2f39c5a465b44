"""A campaign: the cases of some targets, one after the other in a process of their own that may hang or die.

Case number n of a target is made from the seed, the name of the target and n alone, so that each can be run again.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import time
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tests.campaigns.fuzzing.verdicts import FAILED, PATIENCE, SECONDS, VALID, Case, Verdict, judge

# What a process may take beyond what it has when it begins, so that a case cannot take the machine with it.
_ROOM = 8 * 2**30
_START_SECONDS = 300.0


class Target(Protocol):
    """Something to be tried: how cases are made."""

    name: str

    def prepare(self) -> None:
        """Do what is done once, compilers included."""

    def case(self, random: np.random.Generator) -> Case:
        """Return a case."""


def make_case(target: Target, seed: int, number: int) -> Case:
    """Return a case of a prepared target."""
    return target.case(np.random.default_rng([seed, zlib.crc32(target.name.encode()), number]))


def run_target(
    make: Callable[[str], Target],
    name: str,
    n_cases: int,
    seconds: float,
    seed: int = 0,
    folder: Path | None = None,
    announce: Callable[[str], None] = print,
) -> Counter:
    """Run cases of a target until they, or the seconds, are used up; return how many came to what.

    Failing cases go to ``folder``: the file, and what was wrong with it.
    """
    counts: Counter = Counter()
    context, number, ends = multiprocessing.get_context("spawn"), 0, time.monotonic() + seconds
    while number < n_cases and time.monotonic() < ends:
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(make, name, seed, number, n_cases, theirs), daemon=True)
        process.start()
        theirs.close()
        try:
            if not _answers(ours, process.pid, _START_SECONDS):
                raise RuntimeError(f"{name} was not ready after {_START_SECONDS:g} s")
            ours.recv()
            while number < n_cases and time.monotonic() < ends:
                verdict, content = _next(ours, process.pid)
                counts[verdict.kind] += 1
                counts[VALID] += verdict.valid_checksum
                if verdict.kind == FAILED:
                    announce(f"  {name} {number}: {verdict.reason}")
                    if folder is not None:
                        _keep(folder, name, number, verdict, content)
                number += 1
                if content is None:
                    break
        finally:
            process.kill()
            process.join()
            ours.close()
    return counts


def _next(connection: Connection, process: int | None) -> tuple[Verdict, Any]:
    """Return the next verdict and, for a failure, note and file; the file is None where the process is lost."""
    try:
        # Twice the limit: a case that ends in between says for itself how long it took.
        if _answers(connection, process, 2 * SECONDS):
            return connection.recv()
    except EOFError:
        return Verdict(FAILED, "the process died"), None
    return Verdict(FAILED, f"no end after {2 * SECONDS:g} s of the processor or {2 * PATIENCE} s in all"), None


def _answers(connection: Connection, process: int | None, seconds: float) -> bool:
    """Whether a process says something within so many seconds of the processor, and its share of ``PATIENCE``."""
    started = _processor_seconds(process)
    # Counted, not read off a clock: who stops all processes for a while stops the count as well.
    for _ in range(round(PATIENCE * max(1.0, seconds / SECONDS))):
        if connection.poll(1.0):
            return True
        if _processor_seconds(process) - started > seconds:
            return False
    return False


def _processor_seconds(process: int | None) -> float:
    """Return the seconds that a process has had of the processor, 0 where nobody tells."""
    try:
        user, system = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13]
    except OSError:
        return 0.0
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _work(make: Callable[[str], Target], name: str, seed: int, first: int, last: int, connection: Connection) -> None:
    target = make(name)
    target.prepare()
    _limit_memory()
    connection.send("ready")
    for number in range(first, last):
        case = make_case(target, seed, number)
        verdict = replace(judge(case), valid_checksum=case.valid_checksum)
        connection.send((verdict, (case.note, case.suffix, case.content) if verdict.kind == FAILED else ("", "", b"")))


def _limit_memory() -> None:
    status = Path("/proc/self/statm")
    if status.exists():
        used = int(status.read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + _ROOM, resource.RLIM_INFINITY))


def _keep(folder: Path, name: str, number: int, verdict: Verdict, content: Any) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{name.replace(' ', '-')}-{number}"
    note, suffix, data = content or ("lost with its process; it can be made again", ".txt", b"")
    (folder / f"{stem}.why").write_text(f"{verdict.reason}\n{note}\n", encoding="utf-8")
    (folder / f"{stem}{suffix}").write_bytes(data)
