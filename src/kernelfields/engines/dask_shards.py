"""Shards: partitions on the workers of a Dask cluster, with what was computed from them.

A *shard* holds the chains of one partition and entries: views, panels, features, potentials, beliefs. It is the
result of a task, so the scheduler makes it again from its partition when its worker dies. Everything else in it is
a cache, and that is why the state of a task's result may change here: each entry has a *recipe* on the client, a
function with its arguments, and a shard that lacks an entry is sent the recipe (dask_group.py). Arrays with a row
for each position stay where they are; recipes and answers hold coefficients, pivots and sums.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import scipy.sparse

from kernelfields.engines.blas_threads import blas_threads
from kernelfields.fields import Chains
from kernelfields.inference.workers import Workers


@dataclass(frozen=True)
class Entry:
    """Stands for an entry of a shard among arguments.

    ``needed=False`` gives None where it is not at hand; ``taken`` takes it away, because the function changes it.
    """

    key: int
    needed: bool = True
    taken: bool = False


@dataclass
class Request:
    """What a shard is asked: recipes it has not seen, a call to answer, entries to let go of."""

    recipes: list[tuple[int, Callable, tuple, bool]]
    function: Callable
    arguments: tuple
    dropped: list[int] = field(default_factory=list)
    #: Whether to forget everything first: the client knows the shard to be new.
    fresh: bool = False


class Forgotten(Exception):
    """A shard has no recipe for an entry: it is not the one that was asked before."""


class Shard:
    """The chains of one partition, ``number`` of them all, and the entries computed from them; see the module."""

    def __init__(self, chains: Chains, number: int, n_threads: int = 1):
        self.chains = chains
        self.number = number
        self.n_threads = n_threads
        self._forget()

    def _forget(self) -> None:
        self.workers = Workers(self.n_threads)
        self._recipes: dict[int, tuple[Callable, tuple]] = {}
        self._values: dict[int, Any] = {}
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        # Entries do not travel: whoever needs them has their recipes.
        return {"chains": self.chains, "number": self.number, "n_threads": self.n_threads}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    def __sizeof__(self) -> int:
        # What the scheduler takes into account: the bytes that would travel, not those of the entries.
        inputs = self.chains.inputs
        parts = (inputs.data, inputs.indices, inputs.indptr) if scipy.sparse.issparse(inputs) else (inputs,)
        return sum(each.nbytes for each in (*parts, self.chains.labels, self.chains.offsets))

    def answer(self, request: Request) -> Any:
        """Take note of new recipes, call the function, let go of what is not needed."""
        with self._lock, blas_threads(1):
            if request.fresh:
                self._recipes, self._values = {}, {}
            for key, function, arguments, at_once in request.recipes:
                self._recipes[key] = (function, arguments)
                if at_once:
                    self.value(key)
            result = request.function(self, *self._resolved(request.arguments))
            for key in request.dropped:
                self._recipes.pop(key, None)
                self._values.pop(key, None)
            return result

    def value(self, key: int) -> Any:
        """Return an entry, computed if it is not there; Forgotten without a recipe."""
        if key not in self._values:
            if key not in self._recipes:
                raise Forgotten
            function, arguments = self._recipes[key]
            self._values[key] = function(self, *self._resolved(arguments))
        return self._values[key]

    def _resolved(self, arguments: tuple) -> list[Any]:
        return [self._entry(each) if isinstance(each, Entry) else each for each in arguments]

    def _entry(self, entry: Entry) -> Any:
        value = self.value(entry.key) if entry.needed else self._values.get(entry.key)
        if entry.taken:
            del self._values[entry.key]
        return value


def answer(shard: Shard, request: Request) -> tuple[bool, Any]:
    """Task on a worker: return whether the shard knew all it needed, and its answer."""
    try:
        return True, shard.answer(request)
    except Forgotten:
        return False, None
