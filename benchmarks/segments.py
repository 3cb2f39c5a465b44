"""Time of semi-Markov passes: values and gradient, a Hessian product, the best segmentation and the five best.

The first two with means over segments as well. Seconds of this process's processors are for busy machines.

python -m benchmarks.segments [--positions 100000] [--durations 500] [--labels 10] [--sequences 2]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

from kernelfields.fields.segments import DURATION, SEGMENT
from kernelfields.inference.family import EDGE, Potentials
from kernelfields.inference.segments.family import SegmentFamily
from kernelfields.numerics.threads import Workers


def potentials(n_positions: int, n_durations: int, n_labels: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return smooth node scores, random steps without repeats, and durations that prefer a fifth of the longest."""
    random = np.random.default_rng(0)
    waves = np.sin(np.arange(n_positions)[:, None] / 40.0 + np.arange(n_labels))
    node = 2.0 * waves + random.normal(size=(n_positions, n_labels))
    edge = random.normal(size=(1, n_labels, n_labels)) - np.where(np.eye(n_labels), np.inf, 0.0)
    duration = -0.5 * np.square(np.log(np.arange(1, n_durations + 1) / (n_durations / 5)))
    return node, edge, np.repeat(duration[:, None], n_labels, axis=1)


def seconds(function: Callable[[], object]) -> tuple[float, float]:
    """Return the shortest of three times, by the clock and by processors, after one call that compiles."""
    function()
    times = []
    for _ in range(3):
        begin, work = time.perf_counter(), time.process_time()
        function()
        times.append((time.perf_counter() - begin, time.process_time() - work))
    return min(clock for clock, _ in times), min(work for _, work in times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("positions", 100_000), ("durations", 500), ("labels", 10), ("sequences", 2)):
        parser.add_argument(f"--{name}", type=int, default=default)
    asked = parser.parse_args()
    node, edge, duration = potentials(asked.positions, asked.durations, asked.labels)
    offsets = np.linspace(0, asked.positions, asked.sequences + 1).astype(np.int64)
    workers = Workers()
    mean = np.random.default_rng(1).normal(size=node.shape)
    plain = SegmentFamily(offsets, asked.labels, asked.durations)
    with_means = SegmentFamily(offsets, asked.labels, asked.durations, means=True)
    here, finite = (
        Potentials(node, {EDGE: table, DURATION: duration}) for table in (edge, np.where(np.isneginf(edge), 0.0, edge))
    )
    here_with_means, finite_with_means = (
        Potentials(node, {**potentials.tables, SEGMENT: mean}) for potentials in (here, finite)
    )
    member = plain.at(here, workers=workers)
    member_with_means = with_means.at(here_with_means, workers=workers)
    for what, function in {
        "values and gradient": lambda: plain.at(here, workers=workers),
        "Hessian product": lambda: member.covariance_product(finite),
        "best segmentation": lambda: plain.best(here, workers),
        "five best": lambda: plain.n_best(here, 5, workers),
        "values and gradient with means": lambda: with_means.at(here_with_means, workers=workers),
        "Hessian product with means": lambda: member_with_means.covariance_product(finite_with_means),
    }.items():
        clock, work = seconds(function)
        print(f"{what:31s} {clock:6.2f} s, {work:6.2f} s of processors", flush=True)


if __name__ == "__main__":
    main()
