"""Bytes of every way to keep features, counted by hand, and the very byte at which something no longer fits."""

import numpy as np
import pytest

from kernelfields.engines import threads
from kernelfields.engines.threads import check_features_fit, feature_dtype
from kernelfields.inference import ChainFamily, plan_inference
from kernelfields.objective import datafit
from kernelfields.objective.datafit import check_tables_fit
from kernelfields.objective.designs import budget as budgets
from kernelfields.objective.designs.budget import plan_features

MIB = 2**20
N_ROWS, RANK, OTHER = 50_000, 2000, 5_000_000
FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)


def ways(dtype, n_rows=N_ROWS, rank=RANK, other=OTHER, known=False):
    blank = budgets.FeaturePlan("memory", n_rows, rank, np.dtype(dtype), 0)
    return {plan.keep: plan for plan in budgets._plans(blank, other, known)}


@pytest.mark.parametrize("other", [OTHER, 10**8])
@pytest.mark.parametrize("itemsize", [4, 8])
def test_both_ways_count_factor_growth_and_what_is_beside_the_features(itemsize, other):
    """n r values in memory or in a file, R of r^2 / 2 doubles, and four (r, 256) arrays and 16 MiB while it grows."""
    plans = ways({4: FLOAT32, 8: FLOAT64}[itemsize], other=other)
    factor = 4 * RANK**2 + 4096 * RANK if itemsize == 4 else 8 * RANK**2
    growing = 4 * 8 * RANK * 256 + 16 * MIB
    assert plans["memory"].memory_bytes == itemsize * N_ROWS * RANK + factor + growing + other
    assert plans["file"].memory_bytes == factor + max(growing, other)
    assert [plan.disk_bytes for plan in plans.values()] == [0, itemsize * N_ROWS * RANK]


@pytest.mark.parametrize("other", [OTHER, 10**8])
@pytest.mark.parametrize("itemsize", [4, 8])
def test_a_basis_that_is_there_counts_rows_that_are_filled_at_once(itemsize, other):
    plans = ways({4: FLOAT32, 8: FLOAT64}[itemsize], other=other, known=True)
    assert plans["memory"].memory_bytes == itemsize * N_ROWS * RANK + 2 * 64 * MIB + other
    assert plans["file"].memory_bytes == max(3 * 4 * MIB, other)


def test_a_plan_fits_to_the_byte():
    least = {"other_bytes": OTHER}
    for plan in ways(FLOAT32).values():
        exact = plan_features("node", N_ROWS, RANK, FLOAT32, budget=plan.memory_bytes, **least)
        assert exact.memory_bytes <= plan.memory_bytes
    whole = ways(FLOAT32)["memory"].memory_bytes
    assert plan_features("node", N_ROWS, RANK, FLOAT32, budget=whole, **least).keep == "memory"
    assert plan_features("node", N_ROWS, RANK, FLOAT32, budget=whole - 1, **least).keep == "file"


def test_small_features_and_tight_tolerances_are_in_double_precision():
    small = 2 * MIB  # 16 MiB in float64
    assert feature_dtype(None, small, 1e-3) == FLOAT64
    assert feature_dtype(None, small + 1, 1e-3) == FLOAT32
    assert feature_dtype(None, small + 1, 1e-5) == FLOAT32
    assert feature_dtype(None, small + 1, 0.99e-5) == FLOAT64
    assert feature_dtype(FLOAT32, 1, 1e-12) == FLOAT32


def six_pairs_of_instances(n_instances):
    """Instances with four labels each, one of two, all pairs of which meet."""
    pairs = np.array([(j, k) for j in range(4) for k in range(j)])
    members = np.concatenate([pairs + 4 * instance for instance in range(n_instances)])
    return plan_inference(4 * np.arange(n_instances + 1), (members,), 2)


def with_free_memory(monkeypatch, free):
    for module in (threads, datafit):
        monkeypatch.setattr(module, "available_memory", lambda: free)


@pytest.mark.parametrize(
    ("check", "needed"),
    [
        (lambda: check_features_fit("node", 1000, 50, FLOAT64), 1000 * 50 * 8),
        (lambda: check_features_fit("node", 1000, 50, FLOAT32), 1000 * 50 * 4),
        # Seven tables of doubles: at a point, in a direction, at a trial, their residual, and three of inference.
        (lambda: check_tables_fit(ChainFamily([0, 1000], 6, tied=False)), 7 * 8 * 1000 * 36),
        (lambda: check_tables_fit(six_pairs_of_instances(1000)), 7 * 8 * 1000 * 6 * 4),
    ],
)
def test_what_takes_the_last_byte_fits_and_one_byte_more_does_not(monkeypatch, check, needed):
    with_free_memory(monkeypatch, needed)
    check()
    with_free_memory(monkeypatch, needed - 1)
    with pytest.raises(MemoryError):
        check()
    with_free_memory(monkeypatch, None)
    check()


def test_the_rank_that_a_refusal_advises_takes_seven_tenths_of_what_is_free(monkeypatch):
    with_free_memory(monkeypatch, 10**6)
    with pytest.raises(MemoryError, match="Use rank=87 or less"):
        check_features_fit("node", 1000, 200, FLOAT64)  # 0.7 * 10^6 / (8 * 1000) = 87.5
    with_free_memory(monkeypatch, 10)
    with pytest.raises(MemoryError, match="Use rank=1 or less"):
        check_features_fit("node", 1000, 200, FLOAT64)
