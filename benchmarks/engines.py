"""The engines of one machine side by side: our threads against torch on the processor, OCR letters (large).

    python -m benchmarks.engines [--rank 2000] [--repeats 5] [--device cpu]

One field (nine folds, 47,535 letters, cubic kernel), the same pivots, the same coefficients, float32 features.
Seconds of the basis, of the parts of one pass (potentials, value with marginals, pulled back), of a Hessian
response, and of a fit to a relative gap of 1e-2; medians, engine by engine within one run. The rule of
engine="auto" rests on this.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.fit_parts import parts_of_fit
from benchmarks.fit_speed import FIELDS, words
from benchmarks.result_files import merge_results
from kernelfields import ChainCRF
from kernelfields.engines import Threads, Torch
from kernelfields.numerics.threads import blas_threads


def median_seconds(call: Callable[[], Any], repeats: int) -> float:
    """Return the median time of a call, after one that is not counted."""
    call()
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return float(np.median(times))


def measure(engine: Any, X: list, y: list, rank: int, repeats: int) -> dict:
    """Return the seconds of the parts of a fit on one engine."""
    kernel, variance = FIELDS["cubic"]
    settings = {"prior_variance": variance, "rank": rank, "dtype": "float32", "random_state": 0}
    begin = time.perf_counter()
    _, sample, designs = parts_of_fit(ChainCRF(kernel, **settings), X, y, engine=engine)
    seconds = {"basis": time.perf_counter() - begin}
    sums = sample.datafit(designs)
    random = np.random.default_rng(1)
    coefficients = [0.1 * random.normal(size=design.shape) for design in designs]
    # Our products are cut into runs for our own threads, as in a fit; those of torch have threads of their own.
    with blas_threads(1 if isinstance(engine, Threads) else None):
        potentials = sums.potentials(coefficients)
        evaluation = sums.evaluate(potentials)
        seconds["potentials"] = median_seconds(lambda: sums.potentials(coefficients), repeats)
        seconds["value and marginals"] = median_seconds(lambda: sums.evaluate(potentials), repeats)
        seconds["pulled back"] = median_seconds(lambda: sums.pull_back(evaluation.residual), repeats)
        seconds["Hessian response"] = median_seconds(lambda: sums.hessian_response(evaluation, potentials), repeats)
    seconds["one pass"] = sum(seconds[part] for part in ("potentials", "value and marginals", "pulled back"))
    begin = time.perf_counter()
    crf = ChainCRF(kernel, engine=engine, tol=1e-2, max_iter=500, **settings).fit(X, y)
    seconds["fit"] = time.perf_counter() - begin
    return {"seconds": seconds, "value": evaluation.value, "passes": crf.solution_.passes}


def main() -> None:
    """Measure, print, write benchmarks/results/engines.json."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rank", type=int, default=2000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()
    X, y = words(list(range(1, 10)))
    rows = []
    for engine in (Threads(), Torch(arguments.device)):
        where = engine.name if isinstance(engine, Threads) else f"{engine.name}, {arguments.device}"
        found = measure(engine, X, y, arguments.rank, arguments.repeats)
        rows.append({"data": "OCR letters, large", "rank": arguments.rank, "engine": where, **found})
    print(f"{'seconds':<22}" + "".join(f"{row['engine']:>16}" for row in rows) + f"{'ratio':>10}")
    for part in rows[0]["seconds"]:
        ours, theirs = (row["seconds"][part] for row in rows)
        print(f"{part:<22}{ours:>16.3f}{theirs:>16.3f}{theirs / ours:>10.2f}")
    print(f"values {rows[0]['value']:.6f} and {rows[1]['value']:.6f}")
    merge_results("engines.json", rows, ("data", "rank", "engine"))


if __name__ == "__main__":
    main()
