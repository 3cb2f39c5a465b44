"""Seconds of inference on chains: numba on threads beside torch on a device, in plain steps and in Triton kernels.

    python -m benchmarks.torch_inference [--device cuda] [--share 0.02] [--labels 26] [--write]

Two shapes, 50,000 sequences of 20 positions and 200 sequences of 5,000, their number times ``--share``, with
standard normal potentials and tied transitions. ``evaluate`` is value and residual, ``hessian`` a Hessian product;
the fastest of five counts, after one that is not counted. ``difference`` is the
largest of values (relative), residuals and responses from those of the first row. Triton kernels need a CUDA
device. With ``--write`` the rows go to results/torch_inference.json.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from benchmarks.result_files import merge_results
from kernelfields.engines.torch.chains import TorchPotentials
from kernelfields.engines.torch.family import TorchChainFamily
from kernelfields.fields.chains import Chains
from kernelfields.inference.chain.family import ChainFamily
from kernelfields.inference.family import EDGE, Potentials
from kernelfields.objective.likelihoods.likelihood import labelled_objective

SHAPES = [(50_000, 20), (200, 5_000)]
KEYS = ("sequences", "length", "labels", "where", "passes")


def fastest(action: Callable[[], object], wait: Callable[[], object], repetitions: int = 5) -> float:
    seconds = []
    for _ in range(repetitions + 1):
        wait()
        start = time.perf_counter()
        action()
        wait()
        seconds.append(time.perf_counter() - start)
    return min(seconds[1:])


def random_problem(n_sequences: int, length: int, n_labels: int) -> tuple[Chains, Potentials, Potentials]:
    rng = np.random.default_rng(0)
    n_positions = n_sequences * length
    labels = rng.integers(0, n_labels, size=n_positions)
    chains = Chains(np.zeros((n_positions, 1), dtype=np.float32), length * np.arange(n_sequences + 1), labels)
    here, direction = (
        Potentials(rng.normal(size=(n_positions, n_labels)), {EDGE: rng.normal(size=(1, n_labels, n_labels))})
        for _ in range(2)
    )
    return chains, here, direction


class OnThreads:
    """The likelihood on the threads of this process."""

    where, passes = "threads", "numba"

    def __init__(self, chains: Chains, n_labels: int):
        self.likelihood = labelled_objective(ChainFamily(chains.offsets, n_labels), chains)

    def put(self, given: Potentials) -> Any:
        return given

    def answer(self, given: Any) -> list[np.ndarray]:
        return [given.node, given.edge]

    def wait(self) -> None:
        """Threads are done when they return."""


class OnDevice:
    """The likelihood on a torch device; ``compiled`` for Triton kernels."""

    def __init__(self, chains: Chains, n_labels: int, device: str, compiled: bool):
        self.family = TorchChainFamily(chains.offsets, n_labels, device=device, compiled=compiled)
        self.likelihood = labelled_objective(self.family, chains)
        on_cuda = self.family.device.type == "cuda"
        self.where = torch.cuda.get_device_name(self.family.device) if on_cuda else "torch cpu"
        self.passes = "triton" if compiled else "steps"
        self.wait = torch.cuda.synchronize if on_cuda else lambda: None

    def put(self, given: Potentials) -> TorchPotentials:
        return self.family.placed(given)

    def answer(self, given: Any) -> list[np.ndarray]:
        return [given.node.cpu().numpy(), given.edge.cpu().numpy()]


def measure(place: Any, here: Potentials, direction: Potentials, reference: list) -> dict:
    """Return the seconds of one engine; ``reference`` is filled by the first and compared with by the others."""
    likelihood, at, along = place.likelihood, place.put(here), place.put(direction)
    evaluation = likelihood.evaluate(at)
    response = likelihood.hessian_response(evaluation, along)
    answers = [np.float64(evaluation.value), *place.answer(evaluation.residual), *place.answer(response)]
    if not reference:
        reference.extend([answers[0] / abs(answers[0]), *answers[1:], abs(answers[0])])
    answers[0] /= reference[-1]
    difference = max(float(np.abs(mine - theirs).max()) for mine, theirs in zip(answers, reference[:-1], strict=True))
    row = {"where": place.where, "passes": place.passes, "difference": difference}
    row["evaluate"] = fastest(lambda: likelihood.evaluate(at), place.wait)
    row["hessian"] = fastest(lambda: likelihood.hessian_response(evaluation, along), place.wait)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--share", type=float, default=1.0, help="of the sequences of each shape")
    parser.add_argument("--labels", type=int, default=26)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    print(f"{'sequences':>9s} {'length':>6s} {'where':22s} {'passes':7s} {'evaluate':>9s} {'hessian':>9s}", end="")
    print("   difference")
    rows = []
    for n_sequences, length in SHAPES:
        n_sequences = max(1, round(options.share * n_sequences))
        chains, here, direction = random_problem(n_sequences, length, options.labels)
        kinds = [False, True] if torch.device(options.device).type == "cuda" else [False]
        makers: list[Callable[[], Any]] = [lambda chains=chains: OnThreads(chains, options.labels)]
        for compiled in kinds:
            makers.append(
                lambda chains=chains, compiled=compiled: OnDevice(chains, options.labels, options.device, compiled)
            )
        reference: list = []
        for make in makers:
            row = {"sequences": n_sequences, "length": length, "labels": options.labels}
            row |= measure(make(), here, direction, reference)
            rows.append(row)
            print(
                f"{n_sequences:9d} {length:6d} {row['where'][:22]:22s} {row['passes']:7s} {row['evaluate']:9.4f} "
                f"{row['hessian']:9.4f}   {row['difference']:.1e}",
                flush=True,
            )
    if options.write:
        merge_results("torch_inference.json", rows, KEYS)


if __name__ == "__main__":
    main()
