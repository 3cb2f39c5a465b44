"""Settings of all tests.

``--cores 16`` lets them believe in another number of cores than the machine has. ``--shuffle 7`` runs them in a random
order, that of the seed 7: files at random, and the tests of each at random, so that fixtures of a file are made once.
"""

import os
import random


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
    if seed is not None:
        order = random.Random(seed)
        places = {path: order.random() for path in sorted({str(item.path) for item in items})}
        items.sort(key=lambda item: item.nodeid)  # the same order whatever was asked for on the command line
        items.sort(key=lambda item: (places[str(item.path)], order.random()))
