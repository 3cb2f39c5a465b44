"""A process that fits and predicts again and again holds no more for it; benchmarks/steady.py does so for longer."""

import os

import pytest

from benchmarks import steady


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="only Linux tells what a process holds")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", steady.workloads())
def test_repeated_fits_and_predictions_leave_nothing_behind(name):
    fit, ask = steady.workloads()[name]
    fitted = fit()
    for work in (fit, lambda: ask(fitted)):
        held = [each for _, each in steady.moments(work, 20)]
        assert not steady.too_much(steady.growth(held)), held


def test_what_is_kept_is_noticed():
    kept = []
    held = [each for _, each in steady.moments(lambda: kept.extend([] for _ in range(100)), 20)]
    assert steady.too_much(steady.growth(held)) == ["objects"]
