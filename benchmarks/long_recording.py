"""One long recording beside the same positions in short sequences: seconds of a fit and of inference.

    python -m benchmarks.long_recording [--positions 100000 1000000] [--labels 5] [--rank 100]

Labels stay for ten positions on average, and inputs are four normal numbers around a point for each label. A fit is one
of a kernel field with given settings, which stops where a field does; inference is log partition, marginals and
expected steps at random potentials. The peer of the recording is the field on sequences of 20 of its positions; seconds
on the wall and of all cores are printed, and their ratio. Of inference, one thread is compared with all. The fastest of
a few repetitions of inference counts, after one that is not counted; fits of 100 positions come first, for what
compiles.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from benchmarks.measuring import fastest, seconds
from benchmarks.result_files import write_results
from kernelfields import ChainCRF
from kernelfields.inference.chain.family import ChainFamily
from kernelfields.inference.potentials import EDGE, Potentials
from kernelfields.numerics.threads import Workers, available_cores

SHORT, STAYS, WIDTH = 20, 0.9, 4


def recording(n_positions: int, n_labels: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the inputs and labels of one sequence."""
    random = np.random.default_rng(0)
    moves = random.random(n_positions) >= STAYS
    moves[0] = True
    labels = random.integers(n_labels, size=n_positions)[
        np.maximum.accumulate(np.where(moves, np.arange(len(moves)), 0))
    ]
    places = random.normal(size=(n_labels, WIDTH))
    return places[labels] + random.normal(size=(n_positions, WIDTH)), labels


def fit_row(n_positions: int, n_labels: int, rank: int, length: int) -> dict:
    """Time a fit to the positions in sequences of a length."""
    X, y = recording(n_positions, n_labels)
    cuts = np.arange(length, n_positions, length)
    crf = ChainCRF("rbf", rank=rank, prior_variance=1.0, random_state=0)
    crf.fit([X[:100]], [y[:100]])
    items = np.split(X, cuts), np.split(y, cuts)
    begin = time.process_time()
    wall = seconds(lambda: crf.fit(*items))
    return {
        "positions": n_positions,
        "length": length,
        "seconds": wall,
        "core_seconds": time.process_time() - begin,
        "passes": crf.solution_.passes,
        "iterations": crf.solution_.iterations,
    }


def inference_row(n_positions: int, n_labels: int, length: int, n_threads: int) -> dict:
    """Time log partition, marginals and expected steps of chains of a length."""
    random = np.random.default_rng(0)
    node, edge = random.normal(size=(n_positions, n_labels)), random.normal(size=(1, n_labels, n_labels))
    family, workers = ChainFamily(np.arange(0, n_positions + 1, length), n_labels), Workers(n_threads)

    def infer() -> None:
        family.distribution(Potentials(node, {EDGE: edge}), workers=workers).mean()

    wall = fastest(infer, 3)
    core = min(seconds(infer, time.process_time) for _ in range(3))
    return {
        "positions": n_positions,
        "length": length,
        "threads": n_threads,
        "gradient": wall,
        "nanoseconds": 1e9 * core / n_positions,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--positions", type=int, nargs="+", default=[10**5, 10**6])
    parser.add_argument("--labels", type=int, default=5)
    parser.add_argument("--rank", type=int, default=100)
    given = parser.parse_args()
    rows = []
    for n_positions in given.positions:
        for n_threads in dict.fromkeys([1, available_cores()]):
            pair = [inference_row(n_positions, given.labels, length, n_threads) for length in (n_positions, SHORT)]
            ratio = pair[0]["nanoseconds"] / pair[1]["nanoseconds"]
            print(
                f"inference of {n_positions:,}, threads {n_threads}: {pair[0]['gradient']:.3f} s, "
                f"{pair[0]['nanoseconds']:.0f} ns of a core a position, {ratio:.2f} of those of sequences of {SHORT}"
            )
            rows += pair
        pair = [fit_row(n_positions, given.labels, given.rank, length) for length in (n_positions, SHORT)]
        ratio = pair[0]["core_seconds"] / pair[1]["core_seconds"]
        print(
            f"fit of {n_positions:,}: {pair[0]['seconds']:.1f} s, {pair[0]['core_seconds']:.1f} s of cores, "
            f"{pair[0]['passes']:.1f} passes; {ratio:.2f} of the cores' seconds for sequences of {SHORT}"
        )
        rows += pair
    write_results("long_recording.json", rows)


if __name__ == "__main__":
    main()
