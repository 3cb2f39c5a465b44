"""Methods of estimators on a cluster: what is sent, observed and returned.

With engine=Dask(...), a method such as ``fit`` runs on all workers, each of which calls it on a copy of the estimator:
with all of X and y where these are lists, with its partitions where they are collections. Samples are placed in parts,
all else is computed by every worker alike. Callbacks and Ctrl-C stay with the client, which sees every iteration:

    fit on a worker    after each iteration asks what the client wants; all workers hear the same answer
    client             shows iterations to callbacks and progress, writes checkpoints, takes over the fitted attributes
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from kernelfields.data.reading import rows_if_any
from kernelfields.engines.choice import Partitions, is_collection
from kernelfields.engines.engine import Engine
from kernelfields.estimators.kept_field import check_parameters
from kernelfields.estimators.observers import get_progress
from kernelfields.models.callbacks import StepCallback
from kernelfields.numerics.group import RUNNING
from kernelfields.numerics.parameters import check_callbacks
from kernelfields.numerics.user_warnings import warn_user

if TYPE_CHECKING:
    from kernelfields.engines.dask.launch import Run
    from kernelfields.solvers.loop import Iteration


def run_elsewhere(method: Callable[..., Any], estimator: Any, arguments: tuple, settings: dict[str, Any]) -> Any:
    """Run a method on the workers of the cluster of an estimator; in this process if there is none."""
    cluster = get_cluster(estimator, *arguments[:2])
    if cluster is None:
        return method(estimator, *arguments, **settings)
    return run_on_workers(cluster, estimator, method.__name__, arguments, settings)


def get_cluster(estimator: Any, X: object, y: object = None) -> Any:
    """Return the cluster of an estimator; None for this process and for workers.

    This is where a fit learns that its data are Dask collections: workers get their partitions. ValueError for
    collections if the engine is not that of a cluster.
    """
    engine = getattr(estimator, "engine", None)
    has_collections = is_collection(X) or is_collection(y)
    if engine is None:
        nested = getattr(estimator, "estimator", None)
        # Estimators around a field read no collections, and refuse them in this process.
        return None if nested is None or has_collections else get_cluster(nested, X, y)
    if has_collections and getattr(engine, "name", engine) not in ("auto", "dask"):
        raise ValueError(
            f"X is a Dask collection: use engine='dask' or 'auto', or pass X.compute(), got engine={engine!r}"
        )
    if isinstance(engine, str) and (engine == "dask" or has_collections):
        from kernelfields.engines.dask.engine import Dask

        return Dask().call_engine
    return engine.call_engine if isinstance(engine, Engine) else None


def run_on_workers(cluster: Any, estimator: Any, method: str, arguments: tuple, settings: dict[str, Any]) -> Any:
    """Run a method of an estimator on all workers; copy the attributes it has set, and return its result."""
    if "callbacks" in estimator.get_params(deep=False):
        check_parameters(estimator)
    watchers = [watcher for each in _list_fields(estimator) for watcher in check_callbacks(each.callbacks)]
    keepers = [watcher for watcher in watchers if isinstance(watcher, StepCallback)]
    for keeper in keepers:
        keeper.begin()
    own = [watcher for watcher in watchers if not isinstance(watcher, StepCallback)]
    progress = get_progress(next(_list_fields(estimator)))
    with nullcontext() if progress is None else progress:
        shown = [watcher for watcher in own if watcher is not progress]
        if progress is not None:
            shown.append(progress)

        def watch(report: Any) -> str:
            if isinstance(report, tuple):
                place, model = report
                keepers[place].end(model)
                return ""
            try:
                # A list, not a generator: every watcher sees every iteration, whatever the others return.
                return "stop" if True in [watcher(report) for watcher in shown] else ""
            except KeyboardInterrupt:
                return "interrupt"

        sent, collections = _split_arguments(estimator, arguments, settings)
        common = make_travelling_copy(estimator, bool(own)), method, *sent
        n_parts = len(collections[0]) if collections else rows_if_any(arguments[0]) or 1
        found = cluster.run(call_method, common, collections, n_parts, watch, waits=bool(own))
    attributes, result, warned = found
    for message, category in warned:
        warn_user(message, category)
    given = next(_list_fields(estimator))
    for fitted in attributes.values():
        if isinstance(fitted, type(given)):
            fitted.callbacks, fitted.verbose = given.callbacks, given.verbose
    copy_fitted_attributes(estimator, attributes)
    for keeper in keepers:
        keeper.end(estimator)
    return estimator if result is None else result


def _list_fields(estimator: Any) -> Iterator[Any]:
    """Return the fields that a fit of an estimator fits."""
    if "callbacks" in estimator.get_params(deep=False):
        yield estimator
    else:
        yield from _list_fields(estimator.estimator)


def _split_arguments(estimator: Any, arguments: tuple, settings: dict[str, Any]) -> tuple[tuple, list[list[Any]]]:
    """Return arguments for the workers, with None for collections, and the partitions of collections."""
    noun = next(_list_fields(estimator))._answer_format.headings[0]
    for name, value in (*zip(("X", "y", "sample_weight"), arguments, strict=False), *settings.items()):
        _refuse_iterators(value, name, noun)
    if not any(map(is_collection, arguments)):
        return (arguments, settings), []
    from kernelfields.data.table_reader import TableReader
    from kernelfields.engines.dask.collections import PAIRED, partitions

    table = issubclass(estimator.structure.reads, TableReader)
    names = ("X", "y", "sample_weight")
    named = zip(names, arguments, strict=False)  # sample_weight may be left out
    found = [None if value is None else partitions(value, name, table) for name, value in named]
    lengths = [len(each) for each in found if each is not None]
    if len(set(lengths)) > 1:
        counts = ", ".join(f"{name} has {len(each or ())}" for name, each in zip(names, found, strict=False))
        raise ValueError(f"{PAIRED}: {counts}")
    return ((), settings), [[None] * lengths[0] if each is None else each for each in found]


def _refuse_iterators(value: Any, name: str, noun: str) -> None:
    """Raise for generators, alone or among the items: only one process can read them, and only once."""
    if isinstance(value, Iterator):
        raise TypeError(
            f"{name} is a {type(value).__name__}, which cannot be sent to the workers of a cluster. Collect the "
            f"{noun}s in a list first."
        )
    for item in value if isinstance(value, list | tuple) else ():
        if isinstance(item, Iterator):
            raise TypeError(
                f"{name} holds a {type(item).__name__}, which cannot be sent to the workers of a cluster. Collect its "
                "entries in a list first."
            )


def make_travelling_copy(estimator: Any, waits: bool) -> Any:
    """Return a copy for workers, with one reporting callback in place of all callbacks."""
    model = copy.copy(estimator)
    if "callbacks" in model.get_params(deep=False):
        given = check_callbacks(model.callbacks)
        keepers = [watcher for watcher in given if isinstance(watcher, StepCallback)]
        stand_ins = [each.worker_callback(partial(_send, place)) for place, each in enumerate(keepers)]
        model.callbacks = [Reporter(waits), *stand_ins]
        model.verbose = 0
    elif getattr(model, "estimator", None) is not None:
        model.estimator = make_travelling_copy(model.estimator, waits)
    return model


def copy_fitted_attributes(estimator: Any, attributes: dict[str, Any]) -> None:
    """Copy the attributes that a fit on workers has set; parameters are unchanged."""
    names = set(estimator.get_params(deep=False))
    for name in [name for name in vars(estimator) if name not in names and name not in attributes]:
        delattr(estimator, name)
    for name, value in attributes.items():
        setattr(estimator, name, value)


# ---- on the workers

#: The program that runs in this process, as its client sees it.
_RUN: list[Run] = []


def call_method(run: Run, common: tuple, numbers: list[int], *collections: Sequence[Any]) -> Any:
    """Call a method on the estimator of a worker; return attributes that it set, its result, and warnings."""
    from kernelfields.engines.dask.engine import worker_threads

    estimator, method, arguments, settings = common
    estimator = copy.copy(estimator)
    for each in _list_fields(estimator):
        each.n_jobs = worker_threads() if each.n_jobs is None else each.n_jobs
    parts = [None if any(part is None for part in each) else Partitions(numbers, list(each)) for each in collections]
    _RUN.append(run)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = getattr(estimator, method)(*arguments, *parts, **settings)
    finally:
        _RUN.remove(run)
    names = set(estimator.get_params(deep=False))
    attributes = {name: value for name, value in vars(estimator).items() if name not in names}
    warned = [(warning.message, warning.category) for warning in caught if issubclass(warning.category, UserWarning)]
    return attributes, None if result is estimator else result, warned


_WISHES = ("", "stop", "interrupt")


class Reporter:
    """A callback on a worker: the first worker reports iterations, and all follow the client."""

    def __init__(self, waits: bool):
        self.waits = waits

    def __call__(self, iteration: Iteration) -> bool:
        """Report an iteration; return True to stop, raise KeyboardInterrupt to end at once."""
        group = RUNNING.get()
        assert group is not None
        wish = group.first_calls(lambda: _RUN[-1].report(iteration, wait=self.waits, limit=300.0)) or ""
        # Who does not wait for the client hears of its wish an iteration later, at no cost.
        wish = group.gather(wish)[0] if self.waits else _WISHES[group.broadcast(_WISHES.index(wish))]
        if wish == "interrupt":
            raise KeyboardInterrupt
        return wish == "stop"


def _send(place: int, due: bool, snapshot: Callable[[], Any]) -> bool:
    """Send the model of ``snapshot()`` to a callback of the client if it is due; return whether it was."""
    group = RUNNING.get()
    assert group is not None
    if not group.gather(due)[0]:
        return False
    model = snapshot()
    model.callbacks = None
    group.first_calls(lambda: _RUN[-1].report((place, model), wait=False, limit=0.0))
    return True
