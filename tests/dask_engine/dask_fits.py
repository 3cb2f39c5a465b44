"""Data and small helpers for the tests of this folder."""

from __future__ import annotations

import os
import signal
import time

import numpy as np


def sequences(n_sequences=40, n_features=4, n_labels=3, longest=9, seed=0):
    """Sticky labels, and inputs around a centre for each of them."""
    random = np.random.default_rng(seed)
    centres = 1.5 * random.normal(size=(n_labels, n_features))
    X, y = [], []
    for _ in range(n_sequences):
        labels = np.sort(random.integers(n_labels, size=int(random.integers(1, longest + 1))))
        X.append(centres[labels] + random.normal(size=(len(labels), n_features)))
        y.append(labels)
    return X, y


def wait_for_two(client):
    """Wait until two workers are there; where a nanny has given up, as on a busy machine, another worker starts."""
    try:
        client.wait_for_workers(2, timeout=60)
    except TimeoutError:
        client.cluster.scale(3)
        client.wait_for_workers(2, timeout=120)


def wait_until(true, seconds=30.0):
    """Wait until something is true; AssertionError if that takes too long."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


class Killer:
    """A callback that ends a worker after some iterations, once."""

    def __init__(self, client, when, which=0):
        self.client, self.when, self.which = client, when, which
        self.killed = []

    def __call__(self, iteration):
        """Kill, if it is time."""
        if iteration.iteration == self.when and not self.killed:
            pids = sorted(self.client.run(os.getpid).values())
            self.killed.append(pids[self.which % len(pids)])
            os.kill(self.killed[0], signal.SIGKILL)
