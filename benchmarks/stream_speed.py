"""Streams: positions a second and memory, at a hundred thousand and at a million positions, with the scores given.

    python -m benchmarks.stream_speed [--sizes 100000 1000000] [--labels 26] [--block 1000]

Random potentials of 26 labels are pushed in blocks, by ``ChainStream``; "every" says how many positions are answered
by one pass back. Seconds are of the processor, which a machine with other things to do does not stretch. Memory is
what the stream's own rows take, and by how much the largest memory of the process grew while it ran. Blocks of one row
show what a call costs.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np

from benchmarks.result_files import write_results
from kernelfields.inference.chain.streaming import ChainStream

#: (lag, every, jointly, block or None for the one that was asked for)
SETTINGS = [
    (0, 1, False, None),
    (5, 1, False, None),
    (10, 1, False, None),
    (20, 1, False, None),
    (20, 20, False, None),
    (100, 100, False, None),
    (5, 1, True, None),
    (20, 1, True, None),
    (5, 1, False, 1),
    (5, 1, False, 100),
]


def measure(size: int, n_labels: int, lag: int, every: int, jointly: bool, block: int) -> dict:
    """Push ``size`` positions in blocks; return speed and memory."""
    random = np.random.default_rng(0)
    node, edge = 2.0 * random.normal(size=(4 * block, n_labels)), random.normal(size=(n_labels, n_labels))
    ChainStream(n_labels, edge, lag=lag, every=every, jointly=jointly).push(node)  # compiles
    stream = ChainStream(n_labels, edge, lag=lag, every=every, jointly=jointly)
    before, count = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, 0
    begin, wall = time.process_time(), time.perf_counter()
    for number in range(size // block):
        at = number % 4 * block
        count += len(stream.push(node[at : at + block])[0])
    count += len(stream.end()[0])
    seconds, elapsed = time.process_time() - begin, time.perf_counter() - wall
    assert count == size // block * block
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return {
        "positions": size,
        "labels": n_labels,
        "lag": lag,
        "every": every,
        "decode": "viterbi" if jointly else "posterior",
        "block": block,
        "positions_per_second": count / seconds,
        "wall_seconds": elapsed,
        "stream_bytes": stream.n_bytes,
        "process_grew_kilobytes": grown,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", type=int, default=[100_000, 1_000_000])
    parser.add_argument("--labels", type=int, default=26)
    parser.add_argument("--block", type=int, default=1000)
    arguments = parser.parse_args()
    rows = []
    for size in arguments.sizes:
        for lag, every, jointly, block in SETTINGS:
            n_positions = min(size, 100_000) if block == 1 else size  # a million calls say nothing more
            row = measure(n_positions, arguments.labels, lag, every, jointly, block or arguments.block)
            rows.append(row)
            print(
                f"{n_positions:>9,} positions, lag {lag:>3}, every {every:>3}, {row['decode']:<9}, blocks of "
                f"{row['block']:>4}: {row['positions_per_second']:>9,.0f} positions/s, stream "
                f"{row['stream_bytes'] / 1e6:.1f} MB, process grew {row['process_grew_kilobytes'] / 1e3:.1f} MB",
                flush=True,
            )
    write_results("stream_speed.json", rows)


if __name__ == "__main__":
    main()
