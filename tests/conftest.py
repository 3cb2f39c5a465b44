"""Settings of all tests.

``--cores 16`` lets them believe in another number of cores than the machine has. ``--shuffle 7`` runs them in a random
order, that of the seed 7: files at random, and the tests of each at random, so that fixtures of a file are made once.

Otherwise the order keeps two processes busy from the first test to the last. Whole files go to processes, in this
order, but for the conformance of families, which needs nearly all compiled passes: each kind of families goes to one
process, so that none compiles what another is compiling. All other files find the passes compiled, if those that
need all of them do not follow at once. Long ones come first, so that none is left for the end.
"""

import gc
import os
import random
from collections import Counter

import pytest

COMPILES_MOST = "inference/test_family_conformance.py"
# Kinds of families, in the order in which two processes take them, by what begins the names of their cases; all others
# are graphs.
KINDS = {
    "chains": ("chains", "lists", "single", "a device", "answers"),
    "graphs": ("chains of long reach",),
    "segments": ("segments",),
    "n-grams": ("listed", "all", "n-grams"),
}
LONG = (
    "examples/test_gallery.py",
    "engines/test_engine_conformance.py",
    "dask_engine/test_dask_fits.py",
    "cli/test_command_bad_input.py",
    "cli/test_command_streams.py",
    "cli/test_command_train.py",
    "estimators/test_neighbours.py",
    "test_architecture.py",
    "objective/test_likelihood_conformance.py",
)


def kind_of(nodeid):
    """Return the kind of families that a test of conformance is about; None for all other tests."""
    path, _, case = nodeid.partition("[")
    if COMPILES_MOST not in path:
        return None
    begins = [(begin, kind) for kind, every in KINDS.items() for begin in every if case.startswith(begin)]
    return max(begins, key=lambda pair: len(pair[0]))[1] if begins else "graphs"


def place_in_order(item, n_tests):
    """Return what tests are sorted by: those that compile most, long files, the others by their tests."""
    if (kind := kind_of(item.nodeid)) is not None:
        return 0, list(KINDS).index(kind)
    name = os.path.relpath(item.path, os.path.dirname(__file__)).replace(os.sep, "/")
    return (1, LONG.index(name)) if name in LONG else (2, -n_tests)


def pytest_addoption(parser):
    parser.addoption("--cores", type=int, default=None, help="pretend that the process may use so many cores")
    parser.addoption("--shuffle", type=int, default=None, metavar="SEED", help="run files and their tests at random")


def pytest_configure(config):
    cores = config.getoption("--cores")
    if cores is not None:
        os.sched_getaffinity = lambda process: set(range(cores))
        os.cpu_count = lambda: cores


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Keep the garbage collector from walking thousands of tests, while they are collected and while they run."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config, items):
    seed = config.getoption("--shuffle")
    if seed is None:
        counts = Counter(str(item.path) for item in items)
        items.sort(key=lambda item: place_in_order(item, counts[str(item.path)]))
    else:
        order = random.Random(seed)
        places = {path: order.random() for path in sorted({str(item.path) for item in items})}
        items.sort(key=lambda item: item.nodeid)  # the same order whatever was asked for on the command line
        items.sort(key=lambda item: (places[str(item.path)], order.random()))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    from xdist.scheduler import LoadFileScheduling

    class LoadFilesAndKinds(LoadFileScheduling):
        """Whole files go to processes, and of the conformance of families each kind."""

        def _split_scope(self, nodeid):
            return kind_of(nodeid) or super()._split_scope(nodeid)

    return LoadFilesAndKinds(config, log)
