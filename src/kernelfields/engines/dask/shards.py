"""Shards: partitions on the workers of a Dask cluster, and the client that calls them, also when workers die.

A *shard* holds the sequences, graphs or instances of one partition and entries: views, panels, features, potentials,
beliefs. It is the result of a task, so the scheduler makes it again from its partition when its worker dies. Everything
else in it is a cache, and that is why the state of a task's result may change here: each entry has a *recipe* on the
client, a function with its arguments, and a shard that lacks an entry is sent the recipe. Arrays with a row for each
position stay where they are; recipes and answers hold coefficients, pivots and sums.

    Recipe(function, arguments)     arguments: values, other recipes (needed), entries (used if at hand), ``SHARD``,
                                    ``Each`` for values of which every shard has its own
    group.ask(function, recipe)     function(entry) of every shard
    group.total(function, recipe)   their sum

A request goes to all shards at once, one round trip: the recipes they have not got, the function to call, the
entries that are not needed any more. Arrays that are summed over shards, such as gradients, are added up by the workers
in a tree, and the client gets one. Requests are bound to the worker that has the shard, or Dask might move the shard
to an idle one; while waiting, the client checks from time to time whether that worker is still there. A shard on a new
worker gets all recipes again. Fails: an exception on a worker is raised here as it is; a shard that gets lost again
and again, and a cluster without workers, are RuntimeErrors.
"""

from __future__ import annotations

import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from kernelfields.engines.engine import PackedData
from kernelfields.numerics.threads import Workers, blas_threads

if TYPE_CHECKING:
    from distributed import Client, Future

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Entry:
    """Stands for an entry of a shard among arguments.

    ``needed=False`` gives None where it is not at hand; ``taken`` takes it away, because the function changes it.
    """

    key: int
    needed: bool = True
    taken: bool = False


#: Stands for the shard itself among arguments: no recipe has its key.
SHARD = Entry(0)


@dataclass
class Request:
    """Recipes that a shard has not got, a function to call, entries to drop."""

    recipes: list[tuple[int, Callable, tuple, bool]]
    function: Callable
    arguments: tuple
    dropped: list[int] = field(default_factory=list)
    #: Whether to forget everything first: for the client the shard is new.
    fresh: bool = False


class Forgotten(Exception):
    """A shard has no recipe for an entry: it is not the one that had them before."""


class Shard:
    """The data of one partition, ``number`` of them all, and the entries computed from them; see the module."""

    def __init__(self, data: PackedData, number: int, n_threads: int = 1):
        self.data = data
        self.number = number
        self.n_threads = n_threads
        self._forget()

    def _forget(self) -> None:
        self.workers = Workers(self.n_threads)
        self._recipes: dict[int, tuple[Callable, tuple]] = {}
        self._values: dict[int, object] = {}
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, object]:
        # Entries do not travel: the client has their recipes.
        return {"data": self.data, "number": self.number, "n_threads": self.n_threads}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._forget()

    def __sizeof__(self) -> int:
        # What the scheduler takes into account: the bytes that would travel, not those of the entries.
        inputs = self.data.inputs
        parts = (inputs,) if isinstance(inputs, np.ndarray) else (inputs.data, inputs.indices, inputs.indptr)
        return sum(array.nbytes for array in (*parts, self.data.required_labels, self.data.offsets))

    def answer(self, request: Request) -> object:
        """Store new recipes, call the function, drop what is not needed."""
        with self._lock, blas_threads(1):
            if request.fresh:
                self._recipes, self._values = {}, {}
            for key, function, arguments, at_once in request.recipes:
                self._recipes[key] = (function, arguments)
                if at_once:
                    self.value(key)
            result = request.function(*self._resolved(request.arguments))
            for key in request.dropped:
                self._recipes.pop(key, None)
                self._values.pop(key, None)
            return result

    def value(self, key: int) -> object:
        """Return an entry, computed if it is not there; Forgotten without a recipe."""
        if key not in self._values:
            if key not in self._recipes:
                raise Forgotten
            function, arguments = self._recipes[key]
            self._values[key] = function(*self._resolved(arguments))
        return self._values[key]

    def _resolved(self, arguments: tuple) -> list[object]:
        return [self._entry(argument) if isinstance(argument, Entry) else argument for argument in arguments]

    def _entry(self, entry: Entry) -> object:
        if entry == SHARD:
            return self
        value = self.value(entry.key) if entry.needed else self._values.get(entry.key)
        if entry.taken:
            del self._values[entry.key]
        return value


def answer(shard: Shard, request: Request) -> tuple[bool, object]:
    """Task on a worker: return whether the shard had all recipes it needed, and its answer."""
    try:
        return True, shard.answer(request)
    except Forgotten:
        return False, None


def added(parts: Sequence[Any]) -> Any:
    """Return the sum of numbers, arrays or lists of them, one from each shard; None where none has one."""
    if isinstance(parts[0], list | tuple):
        return [added(each) for each in zip(*parts, strict=True)]
    there = [part for part in parts if part is not None]
    return sum(there[1:], start=there[0]) if there else None


def added_answers(answers: Sequence[tuple[bool, Any]]) -> tuple[bool, Any]:
    """Task on a worker: return whether all shards had the recipes they needed, and the sum of their answers."""
    if not all(known for known, _ in answers):
        return False, None
    return True, added([result for _, result in answers])


# How many answers are added up at a time, and by the client itself.
_BRANCHES = 4
# How often a request is repeated to a shard whose worker died.
_MOST_ATTEMPTS = 8
# Seconds after which to check whether the workers are still there.
_PATIENCE = 0.5
# Seconds for an answer that is there to arrive. Far more than it takes: a client of distributed that gives up on one
# before the fetch has begun, as it may on a busy machine, cannot fetch anything from then on.
_LONGEST_FETCH = 10.0
# Seconds to wait for a worker to come back when none is left.
_LONGEST_ABSENCE = 60.0
_DYING = (
    "{what} was lost again and again: workers die or run out of memory. Give them more memory, or cut the data "
    "into more partitions."
)


class Taken:
    """A recipe among arguments whose entry the function changes and returns as another."""

    def __init__(self, recipe: Recipe):
        self.recipe = recipe


class Each:
    """Arguments of which every shard has its own: arrays cut as the data are."""

    def __init__(self, values: Sequence[object]):
        self.values = values


class Recipe:
    """How shards compute an entry; entries live on the workers for as long as their recipe does here.

    With ``at_once`` shards compute it with the next request, whatever that is, while its hints are at hand.
    """

    def __init__(self, group: ShardGroup, function: Callable, arguments: tuple, at_once: bool = False):
        self.key = group.next_key()
        self.function = function
        plain = [argument.recipe if isinstance(argument, Taken) else argument for argument in arguments]
        self.needed = [argument for argument in plain if isinstance(argument, Recipe)]
        self.arguments = tuple(map(_entry_for, arguments))
        self.at_once = at_once
        weakref.finalize(self, group.let_go, self.key).atexit = False


class ShardGroup:
    """All shards of a fit on the client: ``futures`` in the order of the data."""

    def __init__(self, client: Client, futures: Sequence[Future]):
        self.client = client
        self.futures = list(futures)
        self.round_trips = 0
        self._last_key = 0
        self._holders: list[str | None] = [None] * len(self.futures)
        self._seen: list[set[int]] = [set() for _ in self.futures]
        self._dropped: list[list[int]] = [[] for _ in self.futures]
        self._eager: weakref.WeakValueDictionary[int, Recipe] = weakref.WeakValueDictionary()

    def __len__(self) -> int:
        return len(self.futures)

    def next_key(self) -> int:
        """Return a number no other recipe has; later ones have larger numbers."""
        self._last_key += 1
        return self._last_key

    def let_go(self, key: int) -> None:
        """Have the shards drop an entry with the next request."""
        for dropped in self._dropped:
            dropped.append(key)

    def recipe(self, function: Callable, *arguments: object, at_once: bool = False) -> Recipe:
        """Return how to compute an entry of every shard: ``function(*arguments)``."""
        recipe = Recipe(self, function, arguments, at_once)
        if at_once:
            self._eager[recipe.key] = recipe
        return recipe

    def successor(self, changed: Recipe, function: Callable, *arguments: object) -> Recipe:
        """Return the recipe of an entry that ``function(entry, *arguments)`` changes in place and returns."""
        return self.recipe(function, Taken(changed), *arguments, at_once=True)

    def ask(self, function: Callable[..., Answer], *arguments: object) -> list[Answer]:
        """Return ``function(*arguments)`` of every shard; recipes among arguments become their entries."""
        return self.ask_each(function, [arguments] * len(self))

    def total(self, function: Callable[..., Any], *arguments: object) -> Any:
        """Return the sum of ``function(*arguments)`` over all shards, added up on the workers in a tree."""
        if len(self) > _BRANCHES:
            self._find_holders(range(len(self)))
            sent = {index: self._submit(index, function, arguments) for index in range(len(self))}
            level = list(sent.values())
            while len(level) > _BRANCHES:
                level = [
                    self.client.submit(added_answers, level[first : first + _BRANCHES], pure=False)
                    for first in range(0, len(level), _BRANCHES)
                ]
            known, total = self._sum(self.client.submit(added_answers, level, pure=False), sent)
            if known:
                self.round_trips += 1
                return total
        # A shard had to be made again: its recipes travel with the next request, which is for each by itself.
        return added(self.ask(function, *arguments))

    def _sum(self, root: Future, sent: dict[int, Future]) -> tuple[bool, Any]:
        """Wait for the sum of answers; False where a worker has gone."""
        from distributed.scheduler import KilledWorker

        while not root.done():
            with suppress(TimeoutError):
                wait_for([root])
            if not root.done() and self._moved(sent):
                return False, None
        try:
            return root.result(timeout=_LONGEST_FETCH)
        except TimeoutError:
            if root.status == "error":
                raise
        except (KilledWorker, CancelledError):
            pass
        return False, None

    def ask_each(self, function: Callable[..., Answer], arguments: Sequence[tuple | None]) -> list[Answer]:
        """Return the same with arguments for each shard of its own; shards with None are left out."""
        self.round_trips += 1
        answers: dict[int, Answer] = {}
        waiting = {index: 0 for index, own in enumerate(arguments) if own is not None}
        while waiting:
            self._find_holders(list(waiting))
            sent = {index: self._submit(index, function, arguments[index] or ()) for index in waiting}
            for index, (known, result) in self._results(sent).items():
                if known:
                    answers[index] = result
                    del waiting[index]
                else:
                    self._restart(index)
            for index in waiting:
                waiting[index] += 1
                if waiting[index] >= _MOST_ATTEMPTS:
                    raise RuntimeError(_DYING.format(what=f"shard {index} of {len(self)}"))
        return [answers[index] for index in sorted(answers)]

    def _submit(self, index: int, function: Callable, arguments: tuple) -> Future:
        needed = _closure([argument for argument in arguments if isinstance(argument, Recipe)])
        for eager in list(self._eager.values()):
            if eager.key not in self._seen[index]:
                needed.update(_closure([eager]))
        seen, fresh = self._seen[index], not self._seen[index]
        new = [needed[key] for key in sorted(needed) if key not in seen]
        dropped, self._dropped[index] = self._dropped[index], []
        request = Request(
            [(recipe.key, recipe.function, _own(recipe.arguments, index), recipe.at_once) for recipe in new],
            function,
            _own(tuple(map(_entry_for, arguments)), index),
            dropped,
            fresh,
        )
        seen.update(recipe.key for recipe in new)
        seen.difference_update(dropped)
        with warnings.catch_warnings():
            # Pivots and coefficients may be tens of megabytes; there is no better way for them to travel.
            warnings.filterwarnings("ignore", message="Sending large graph", category=UserWarning)
            return self.client.submit(answer, self.futures[index], request, pure=False, workers=[self._holders[index]])

    def _results(self, sent: dict[int, Future]) -> dict[int, tuple[bool, Any]]:
        """Wait for answers; those of shards whose worker has gone are left out."""
        from distributed.scheduler import KilledWorker

        pending, results = dict(sent), {}
        while pending:
            with suppress(TimeoutError):
                wait_for(list(pending.values()))
            for index, future in list(pending.items()):
                if not future.done():
                    continue
                try:
                    results[index] = future.result(timeout=_LONGEST_FETCH)
                except TimeoutError:
                    if future.status == "error":
                        raise
                    continue  # its worker may have died with the answer: nobody would compute it again
                except (KilledWorker, CancelledError):
                    self._lose(index)
                del pending[index]
            for index in self._moved(pending) if pending else ():
                pending.pop(index).release()
        return results

    def _moved(self, pending: dict[int, Future]) -> list[int]:
        """Return the shards that are no longer on the worker that a request went to."""
        found = self.client.who_has([self.futures[index] for index in pending])
        moved = [index for index in pending if self._holders[index] not in found.get(self.futures[index].key, ())]
        for index in moved:
            self._lose(index)
        return moved

    def _lose(self, index: int) -> None:
        self._holders[index] = None
        self._restart(index)

    def _restart(self, index: int) -> None:
        """Take a shard for new: send it all its recipes again."""
        self._seen[index] = set()

    def _find_holders(self, indices: Iterable[int]) -> None:
        """Find the workers that have the shards, once these are there."""
        unknown = [index for index in indices if self._holders[index] is None]
        while unknown:
            self._wait_for([self.futures[index] for index in unknown])
            found = self.client.who_has([self.futures[index] for index in unknown])
            for index in unknown:
                holders = found.get(self.futures[index].key) or (None,)
                self._holders[index] = holders[0]
            # A worker was preferred, so that shards are dealt out evenly. After a moment without any worker, Dask would
            # make a lost shard nowhere else: from here on any will do.
            found_here = [self.futures[index].key for index in unknown if self._holders[index] is not None]
            anywhere: dict[str, list[str]] = {str(key): [] for key in found_here}
            self.client.sync(self.client.scheduler.set_restrictions, worker=anywhere)
            unknown = [index for index in unknown if self._holders[index] is None]

    def _wait_for(self, futures: Sequence[Future]) -> None:
        """Wait until shards are there; raise what went wrong in making them."""
        from distributed.scheduler import KilledWorker

        absent = 0.0
        while True:
            try:
                wait_for(futures)
                break
            except TimeoutError:
                absent = 0.0 if self.client.nthreads() else absent + _PATIENCE
                if absent >= _LONGEST_ABSENCE:
                    raise RuntimeError(
                        "no worker of the Dask cluster is left, and none came back within "
                        f"{_LONGEST_ABSENCE:.0f} seconds: the fit cannot go on. Start workers and fit again."
                    ) from None
        for future in futures:
            if future.status == "error":
                error = future.exception()
                if isinstance(error, KilledWorker):
                    raise RuntimeError(_DYING.format(what="a shard")) from error
                raise error
            if future.status in ("cancelled", "lost"):
                raise RuntimeError(
                    "the Dask cluster has let go of the data of this fit: was the client closed or restarted? "
                    "Connect a new Client and fit again."
                )


def wait_for(futures: Sequence[Future]) -> None:
    """Wait until futures are done, whichever way; TimeoutError after a moment.

    Each asks the client it belongs to: ``distributed.wait`` asks the default one, which may be another or not exist.
    """
    end = time.monotonic() + _PATIENCE
    for future in futures:
        if not future.done():
            future.exception(timeout=max(end - time.monotonic(), 0.0))


def _entry_for(argument: object) -> object:
    """Return the entry of a recipe on the workers; other arguments as they are."""
    if isinstance(argument, Taken):
        return Entry(argument.recipe.key, taken=True)
    return Entry(argument.key) if isinstance(argument, Recipe) else argument


def _own(arguments: tuple, index: int) -> tuple:
    """Return the arguments of one shard."""
    return tuple(argument.values[index] if isinstance(argument, Each) else argument for argument in arguments)


def _closure(recipes: Sequence[Recipe]) -> dict[int, Recipe]:
    """Return recipes and all that they need, by key."""
    found: dict[int, Recipe] = {}
    waiting = list(recipes)
    while waiting:
        recipe = waiting.pop()
        if recipe.key not in found:
            found[recipe.key] = recipe
            waiting += recipe.needed
    return found
