"""Estimates of memory against the bytes of the arrays that are really allocated: never too low, nor far too high."""

import tracemalloc

import numpy as np
import pytest

from kernelfields.basis import PanelCholesky, RandomCholesky
from kernelfields.kernels import RBF
from kernelfields.numerics import Workers
from kernelfields.objective import LogPosterior
from kernelfields.objective.designs.budget import plan_features, potential_bytes, solver_bytes
from kernelfields.solvers import LBFGS, minimize
from tests.samples import chain_datafit, design_of, random_chains, steps_of


def peak_of(work):
    """Bytes that arrays take at the most while something is done for the second time, when all is compiled."""
    work()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        work()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.parametrize(("n_rows", "rank", "dtype"), [(20_000, 200, np.float64), (3000, 500, np.float32)])
def test_features_in_memory_take_what_their_plan_says(n_rows, rank, dtype):
    X = np.random.default_rng(0).normal(size=(n_rows, 3)).astype(dtype)
    plan = plan_features("node", n_rows, rank, dtype, budget=None)

    def build():
        panel = PanelCholesky(RBF(0.5), X, rank, dtype, plan.room())
        RandomCholesky().select(panel, np.random.default_rng(0))
        return panel.subspace(), panel.features

    peak = peak_of(build)
    assert n_rows * rank * np.dtype(dtype).itemsize < peak <= plan.memory_bytes
    # Temporaries are counted for the worst case, 64 MiB of them at the most.
    assert plan.memory_bytes < 2 * peak + 64 * 2**20


@pytest.mark.slow
@pytest.mark.parametrize(("n_labels", "tied"), [(5, True), (30, True), (8, False)])
def test_a_fit_takes_what_potentials_and_solver_are_said_to(n_labels, tied):
    chains = random_chains(lengths=(20,) * 300, n_labels=n_labels, n_features=4)
    steps = steps_of(chains)
    designs = [
        design_of("node", chains.inputs, n_labels=n_labels),
        design_of(
            "edge",
            None if tied else chains.inputs[steps],
            positions=steps,
            labels_per_clique=2,
            n_labels=n_labels,
        ),
    ]
    posterior = LogPosterior(chain_datafit(chains, designs, n_labels, workers=Workers(1)))
    peak = peak_of(lambda: minimize(posterior, LBFGS(), tol=1e-12, max_iter=12))
    said = potential_bytes(chains.n_positions, n_labels, tied=tied) + solver_bytes(4, posterior.size // 4, itemsize=8)
    # Long chains are inferred in blocks and keep no beliefs; other fields do.
    assert (0.4 if chains.n_positions * n_labels >= 2**16 else 0.6) * said < peak <= said
