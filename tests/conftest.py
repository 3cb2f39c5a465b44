"""Settings of all tests: ``--cores 16`` lets them believe in another number of cores than the machine has."""

import os


def pytest_addoption(parser):
    parser.addoption("--cores", type=int, default=None, help="pretend that the process may use so many cores")


def pytest_configure(config):
    cores = config.getoption("--cores")
    if cores is not None:
        os.sched_getaffinity = lambda process: set(range(cores))
        os.cpu_count = lambda: cores
