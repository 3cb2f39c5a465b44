"""A budget of memory: what it may look like, which way of keeping features it leads to, and what cannot fit."""

import os
from collections import namedtuple

import numpy as np
import pytest

from kernelfields.basis import PanelCholesky, RandomCholesky
from kernelfields.kernels import RBF
from kernelfields.objective.designs import budget as plans
from kernelfields.objective.designs.budget import (
    parse_memory,
    plan_features,
)

N_ROWS, RANK = 50_000, 2000
VALUES = 4 * N_ROWS * RANK


def plan(budget, **options):
    return plan_features("node", N_ROWS, RANK, np.float32, budget=budget, **options)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("8GB", 8 * 10**9),
        ("500MB", 5 * 10**8),
        ("1.5 GiB", 3 * 2**29),
        (" 64kib ", 2**16),
        ("2TB", 2 * 10**12),
        ("123", 123),
        (4096, 4096),
        (np.int64(7), 7),
        (2e9, 2 * 10**9),
        (None, None),
    ],
)
def test_budgets_are_bytes_or_text_with_a_unit(text, size):
    assert parse_memory(text) == size


@pytest.mark.parametrize("wrong", ["", "GB", "8 gigs", "-1GB", "1e3MB", True, [8], float("nan"), float("inf"), b"8GB"])
def test_other_budgets_are_refused_by_name(wrong):
    with pytest.raises(ValueError, match="memory must be a number of bytes or text such as '8GB'"):
        parse_memory(wrong)


@pytest.mark.parametrize("small", [0, -5, "0MB", 0.5])
def test_a_budget_of_nothing_is_refused(small):
    with pytest.raises(ValueError, match="memory must be at least one byte"):
        parse_memory(small)


def test_the_fastest_way_that_fits_is_taken():
    assert plan(None).keep == "memory"
    assert plan(2 * VALUES).keep == "memory"
    assert plan(0.9 * VALUES).keep == "file"
    quarter = plan(VALUES // 4)
    assert quarter.keep == "file"
    assert quarter.disk_bytes == VALUES
    assert quarter.memory_bytes <= VALUES // 4


def test_what_a_fit_holds_beside_the_features_counts():
    assert plan(2 * VALUES, other_bytes=VALUES).keep == "file"
    with pytest.raises(MemoryError, match=r"potentials and the solver take 400 MB .* or fewer sequences"):
        plan(VALUES // 4, other_bytes=VALUES)


def test_the_last_bytes_of_a_disk_are_not_taken(monkeypatch, tmp_path):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(plans.shutil, "disk_usage", lambda folder: usage(10**9, 10**9, VALUES))
    with pytest.raises(MemoryError, match=r"'node'.*50,000 positions at rank 2,000.*folder on a disk with 420 MB free"):
        plan(VALUES // 4, folder=tmp_path)


@pytest.mark.parametrize("way", ["missing", "file", "tmpfs"])
def test_a_folder_that_cannot_take_files_is_named(way, tmp_path, monkeypatch):
    folder = tmp_path
    if way == "missing":
        folder = tmp_path / "missing"
    elif way == "file":
        folder = tmp_path / "file"
        folder.write_text("")
    else:
        monkeypatch.setattr(plans, "_is_in_memory", lambda folder: True)
    with pytest.raises(MemoryError, match=r"is not a folder|is not on a disk but in memory"):
        plan(1000, folder=folder)


def test_folders_in_memory_are_recognised(monkeypatch):
    lines = "/dev/sda / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n/dev/sdb /tmp/large ext4 rw 0 0\n"
    monkeypatch.setattr(plans.Path, "read_text", lambda path: lines)
    assert plans._is_in_memory("/tmp")
    assert plans._is_in_memory("/tmp/other")
    assert not plans._is_in_memory("/tmp/large/part")
    assert not plans._is_in_memory("/home")


def test_the_advice_of_a_refusal_works():
    with pytest.raises(MemoryError) as refused:
        plan(10**6, other_bytes=10**6)
    advised = str(refused.value).split("memory='")[1].split("'")[0]
    assert plan(parse_memory(advised), other_bytes=10**6).keep == "file"


def test_a_refusal_speaks_of_the_whole_budget_where_clique_sets_share_it():
    """A third of what is left by 2 MB of another sample: nothing of 1 MB, and advice in megabytes of the whole."""

    def share(budget):
        return (budget - 2 * 10**6) // 3

    with pytest.raises(MemoryError, match=r"into memory of 1 MB, of which 0 B are theirs\.") as refused:
        plan(10**6, share=share)
    advised = parse_memory(str(refused.value).split("memory='")[1].split("'")[0])
    assert plan(advised, share=share).keep == "file"
    with pytest.raises(MemoryError):
        plan(advised - 10**6, share=share)


@pytest.mark.parametrize("keep", ["memory", "file"])
def test_a_plan_makes_what_it_says(keep, tmp_path):
    X = np.random.default_rng(0).normal(size=(300, 4)).astype(np.float32)
    chosen = plans.FeaturePlan(keep, 300, 40, np.dtype(np.float32), 0, folder=os.fspath(tmp_path))
    panel = PanelCholesky(RBF(0.2), X, 40, np.float32, chosen.room())
    RandomCholesky().select(panel, np.random.default_rng(0))
    again = chosen.compute_features(panel.subspace(), X)
    exact = panel.subspace().features(X)
    np.testing.assert_allclose(panel.features, exact, atol=1e-5)
    np.testing.assert_allclose(again, exact, atol=1e-5)
    assert again.dtype == np.float32
