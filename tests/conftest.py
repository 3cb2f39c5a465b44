"""Settings of all tests.

``--cores 16`` lets them believe in another number of cores than the machine has. ``--shuffle 7`` runs them in a random
order, that of the seed 7: files at random, and the tests of each at random, so that fixtures of a file are made once.

Otherwise the order keeps two processes busy from the first test to the last (Makefile: whole files go to processes, in
this order). The first file needs nearly all compiled passes. While one process compiles them, the other runs files that
need few, and finds them compiled later. Long files come next, so that none is left for the end.
"""

import os
import random
from collections import Counter

COMPILES_MOST = "inference/test_family_conformance.py"
COMPILE_LITTLE = ("formats", "features", "kernels", "fields", "numerics", "evaluation", "mutating", "experiments")
LONG = (
    "examples/test_gallery.py",
    "objective/test_likelihood_conformance.py",
    "cli/test_command_bad_input.py",
    "cli/test_command_streams.py",
    "estimators/test_chain_crf_l1.py",
    "estimators/test_chain_crf_interrupts.py",
    "test_architecture.py",
)


def place_in_order(path, n_tests):
    """Return what files are sorted by: those that compile most, little, the long ones, the others by their tests."""
    name = os.path.relpath(path, os.path.dirname(__file__)).replace(os.sep, "/")
    if name == COMPILES_MOST:
        return 0, 0
    if name.split("/")[0] in COMPILE_LITTLE:
        return 1, -n_tests
    return (2, LONG.index(name)) if name in LONG else (3, -n_tests)


def pytest_addoption(parser):
    parser.addoption("--cores", type=int, default=None, help="pretend that the process may use so many cores")
    parser.addoption("--shuffle", type=int, default=None, metavar="SEED", help="run files and their tests at random")


def pytest_configure(config):
    cores = config.getoption("--cores")
    if cores is not None:
        os.sched_getaffinity = lambda process: set(range(cores))
        os.cpu_count = lambda: cores


def pytest_collection_modifyitems(config, items):
    seed = config.getoption("--shuffle")
    if seed is None:
        counts = Counter(str(item.path) for item in items)
        items.sort(key=lambda item: place_in_order(str(item.path), counts[str(item.path)]))
    else:
        order = random.Random(seed)
        places = {path: order.random() for path in sorted({str(item.path) for item in items})}
        items.sort(key=lambda item: item.nodeid)  # the same order whatever was asked for on the command line
        items.sort(key=lambda item: (places[str(item.path)], order.random()))
