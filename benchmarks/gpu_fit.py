"""A large kernel field on one GPU: a million positions, and OCR letters at high rank.

    python -m benchmarks.gpu_fit [--device cuda] [--ranks 8192 1024 20000] [--sequences 50000] [--letters]

Synthetic: sequences of 20 positions, 128 binary features, 26 labels, cubic kernel, pivots drawn uniformly, solved
to a relative span gap of 1e-3. Labels are drawn from a teacher: linear and pairwise functions of the features, and
transitions. Each row is one whole fit, from arrays on the host to the fitted model, with its parts; a first small
fit is timed by itself, so that the start of CUDA is seen apart. After the fit one gradient is taken apart: the two
products with the features, forward-backward, the rest; rates are compared with a copy and a float16 product
measured in the same run.

--letters fits OCR letters (nine folds, cubic kernel) at rank 8000 and prints the error on the tenth.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from benchmarks.result_files import merge_results
from benchmarks.shared_data import ocr_letters
from kernelfields import ChainCRF
from kernelfields.basis.selection import Uniform
from kernelfields.engines.torch.engine import Torch
from kernelfields.engines.torch.sample import TorchSample
from kernelfields.kernels.dot_product import Polynomial

N_FEATURES, N_LABELS, LENGTH = 128, 26, 20
#: Fixed by hand: this measures speed. Letters: as in benchmarks/fit_speed.py.
KERNEL, VARIANCE = Polynomial(3, gamma=1.0 / N_FEATURES), 1.0
LETTERS = Polynomial(3, gamma=0.06), 3.0


def wait(device: torch.device) -> None:
    """Wait until the device is done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


class TimedTorch(Torch):
    """The torch engine with a clock on its parts."""

    def __init__(self, device: Any = None):
        super().__init__(device)
        self.seconds: dict[str, float] = {}
        self.last: Any = None

    def place(self, data: Any, structure: Any, settings: Any) -> TimedSample:
        """Return chains on the device, with the clock of this engine."""
        return TimedSample(self, data, structure, settings)

    def timed(self, part: str, call: Callable[[], Any]) -> Any:
        """Return what a call returns; its seconds are added to those of a part."""
        device = self.resolved_device()
        wait(device)
        begin = time.perf_counter()
        result = call()
        wait(device)
        self.seconds[part] = self.seconds.get(part, 0.0) + time.perf_counter() - begin
        return result


class TimedSample(TorchSample):
    """Chains on the device; the clock of the basis runs from a panel to its design."""

    def __init__(self, engine: TimedTorch, data: Any, structure: Any, settings: Any):
        super().__init__(data, structure, settings, engine.resolved_device())
        self.engine = engine

    def view(self, name: str, clique: Any) -> Any:
        view = super().view(name, clique)
        grown = view.panel

        def panel(kernel: Any, capacity: int) -> Any:
            made = self.engine.timed("inputs to the device", lambda: grown(kernel, capacity))
            self._basis_begin = time.perf_counter()
            return made

        view.panel = panel
        return view

    def design(self, term: Any, view: Any = None, panel: Any = None) -> Any:
        if panel is None:
            return super().design(term, view, panel)
        wait(self.device)
        self.engine.seconds["basis"] = time.perf_counter() - self._basis_begin
        return self.engine.timed("stored", lambda: super(TimedSample, self).design(term, view, panel))

    def datafit(self, designs: Any) -> Any:
        self.engine.last = self.engine.timed("likelihood", lambda: super(TimedSample, self).datafit(designs))
        return self.engine.last


def synthetic(n_sequences: int) -> tuple[np.ndarray, np.ndarray]:
    """Return features (S, 20, 128) float32 and labels (S, 20) of a teacher."""
    random = np.random.default_rng(0)
    X = (random.random((n_sequences, LENGTH, N_FEATURES), dtype=np.float32) < 0.2).astype(np.float32)
    linear = random.normal(size=(N_FEATURES, N_LABELS)).astype(np.float32)
    left, right = (random.normal(size=(N_FEATURES, 64)).astype(np.float32) for _ in range(2))
    mixed = random.normal(size=(64, N_LABELS)).astype(np.float32)
    steps = random.normal(size=(N_LABELS, N_LABELS))
    y = np.empty((n_sequences, LENGTH), dtype=np.int64)
    before = np.zeros((n_sequences, N_LABELS))
    for t in range(LENGTH):
        pairs = (X[:, t] @ left) * (X[:, t] @ right)
        scores = 0.5 * (X[:, t] @ linear) + 0.02 * (pairs @ mixed) + before
        y[:, t] = np.argmax(scores + random.gumbel(size=scores.shape), axis=1)
        before = steps[y[:, t]]
    return X, y


def median_ms(call: Callable[[], Any], device: torch.device, repeats: int = 5) -> float:
    """Return the median time of a call in milliseconds, after one that is not counted."""
    call()
    times = []
    for _ in range(repeats):
        wait(device)
        begin = time.perf_counter()
        call()
        wait(device)
        times.append(time.perf_counter() - begin)
    return 1e3 * float(np.median(times))


def ceilings(device: torch.device) -> dict:
    """Return what the device can do: bytes per second of a copy, float16 operations per second."""
    if device.type != "cuda":
        return {}
    source = torch.randn(2**30, device=device)
    target = torch.empty_like(source)
    copy = 2 * source.nbytes / (median_ms(lambda: target.copy_(source), device) / 1e3)
    matrix = torch.randn((8192, 8192), device=device).half()
    rate = 2 * 8192**3 / (median_ms(lambda: matrix @ matrix, device) / 1e3)
    return {"copy_bytes_per_second": copy, "half_flop_per_second": rate}


def one_gradient(engine: TimedTorch, crf: ChainCRF, device: torch.device) -> dict:
    """Return the milliseconds of the parts of a gradient at the estimate, and the bytes of the features."""
    sums = engine.last
    node = sums.designs[0]
    pairs = zip(sums.designs, crf.field_.terms, strict=True)
    coefficients = [design.compress(term.known) for design, term in pairs]
    potentials = sums.potentials(coefficients)
    evaluation = sums.evaluate(potentials)
    rows = node.in_coordinates(sums.clique_residuals(evaluation.residual, node))
    table = node.table
    parts = {
        "product": median_ms(lambda: table.product(coefficients[0]), device),
        "transposed product": median_ms(lambda: table.transposed_product(rows), device),
        "potentials": median_ms(lambda: sums.potentials(coefficients), device),
        "forward-backward and residual": median_ms(lambda: sums.evaluate(potentials), device),
        "pulled back": median_ms(lambda: sums.pull_back(evaluation.residual), device),
        "Hessian response": median_ms(lambda: sums.hessian_response(evaluation, potentials), device),
    }
    return {"milliseconds": parts, "feature_bytes": table.stored.nbytes}


def fit(X: Any, y: Any, kernel: Any, variance: float, rank: int, device: str) -> tuple[ChainCRF, TimedTorch, float]:
    """Return a fitted field, its engine, and the seconds the whole fit took."""
    engine = TimedTorch(device)
    crf = ChainCRF(
        kernel,
        prior_variance=variance,
        rank=rank,
        basis=Uniform(),
        engine=engine,
        tol=1e-3,
        max_iter=500,
        random_state=0,
    )
    begin = time.perf_counter()
    crf.fit(list(X), list(y))
    return crf, engine, time.perf_counter() - begin


def report(name: str, crf: ChainCRF, engine: TimedTorch, seconds: float, n_positions: int, limits: dict) -> dict:
    """Print one fit and return its row."""
    device = engine.resolved_device()
    gradient = one_gradient(engine, crf, device)
    solution = crf.solution_
    row = {
        "data": name,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "torch": torch.__version__,
        "n_positions": n_positions,
        "rank": crf.basis_["node"].rank,
        "seconds": seconds,
        "parts": {**engine.seconds, "solver": solution.seconds},
        "iterations": solution.iterations,
        "passes": solution.passes,
        "value": solution.value,
        "relative_gap": crf.certificate_.relative_gap,
        "gradient": gradient,
        "ceilings": limits,
        "peak_bytes": torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None,
    }
    print(
        f"\n{name}: {n_positions:,} positions, rank {row['rank']:,}: {seconds:.2f} s, "
        f"{solution.passes:g} passes, {solution.iterations} iterations, gap {row['relative_gap']:.2g}"
    )
    left = seconds - sum(row["parts"].values())
    for part, spent in {**row["parts"], "the rest": left}.items():
        print(f"  {part:<32}{spent:8.3f} s")
    for part, spent in gradient["milliseconds"].items():
        line = f"  one gradient: {part:<31}{spent:8.2f} ms"
        if "product" in part and limits:
            rate = gradient["feature_bytes"] / (spent / 1e3)
            line += f"   {rate / 1e12:.2f} TB/s read, {rate / limits['copy_bytes_per_second']:.0%} of a copy's traffic"
        print(line)
    return row


def main() -> None:
    """Fit, print, write benchmarks/results/gpu_fit.json."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--ranks", nargs="*", type=int, default=[8192, 1024, 20000])
    parser.add_argument("--sequences", type=int, default=50_000)
    parser.add_argument("--letters", action="store_true")
    parser.add_argument("--letters-rank", type=int, default=8000)
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    begin = time.perf_counter()
    small = synthetic(50)
    fit(*small, KERNEL, VARIANCE, 64, arguments.device)
    print(f"first fit, 1,000 positions, with the start of device and compiler: {time.perf_counter() - begin:.1f} s")
    limits = ceilings(device)
    print({name: f"{value / 1e12:.2f} T" for name, value in limits.items()})
    rows = []
    X, y = synthetic(arguments.sequences) if arguments.ranks else small
    for rank in arguments.ranks:
        if device.type == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats(device)
        crf, engine, seconds = fit(X, y, KERNEL, VARIANCE, rank, arguments.device)
        rows.append(report("synthetic", crf, engine, seconds, y.size, limits))
        del crf, engine
    if arguments.letters:
        words, letters, fold = ocr_letters()
        train, test = np.flatnonzero(fold != 0), np.flatnonzero(fold == 0)
        crf, engine, seconds = fit(
            [words[i] for i in train],
            [letters[i] for i in train],
            *LETTERS,
            arguments.letters_rank,
            arguments.device,
        )
        n_positions = sum(len(words[i]) for i in train)
        row = report("OCR letters, large", crf, engine, seconds, n_positions, limits)
        begin = time.perf_counter()
        row["test_error"] = 1.0 - crf.score([words[i] for i in test], [letters[i] for i in test])
        row["predict_seconds"] = time.perf_counter() - begin
        print(f"  test error {row['test_error']:.2%}, predicted in {row['predict_seconds']:.2f} s")
        rows.append(row)
    merge_results("gpu_fit.json", rows, ("data", "device", "n_positions", "rank"))


if __name__ == "__main__":
    main()
