"""What block-Jacobi drops, where it is known: nothing for single positions, something for chains."""

import numpy as np
import pytest

from experiments.curvature_price import Surveyor, compare_curvatures, remaining
from experiments.optimisers import cut, solve
from kernelfields import ChainCRF


def sticky_chains(length, n_chains=30):
    random = np.random.default_rng(0)
    y = [np.repeat(random.integers(2, size=length), 3)[:length] for _ in range(n_chains)]
    return [labels[:, None] + random.normal(size=(length, 3)) for labels in y], y


def survey(length):
    surveyor = Surveyor((1.0, 1e-2), length)
    outcome = solve(ChainCRF("linear"), sticky_chains(length), surveyor, 1e-6)
    return surveyor, outcome


def test_nothing_is_dropped_where_chains_have_one_position():
    surveyor, _ = survey(1)
    row = compare_curvatures(surveyor.last, 1)
    for name in ("dropped", "within", "across", "gradient_product", "random_product"):
        assert row[name] == pytest.approx(0.0, abs=1e-10)
    assert (row["smallest"], row["largest"], row["share"]) == pytest.approx((1.0, 1.0, 1.0))
    assert row["after_jacobi"] == pytest.approx(row["after_newton"], abs=1e-9)


def test_long_chains_lose_curvature_and_their_eigenvalues_keep_to_the_bound():
    surveyor, outcome = survey(8)
    gaps, rows = zip(*surveyor.rows, strict=True)
    assert list(gaps) == sorted(gaps, reverse=True)
    last = {**rows[-1], "minimum": outcome["lower_bound"]}
    assert last["dropped"] > 0.1
    assert last["dropped"] ** 2 == pytest.approx(last["within"] ** 2 + last["across"] ** 2)
    assert 0 < last["smallest"] < 1 < last["largest"] <= last["largest_possible"]
    assert 0 < last["share"] < 1
    assert remaining(last, "after_newton") < remaining(last, "after_jacobi") < 1


def test_a_run_that_takes_too_long_is_given_up():
    outcome = solve(ChainCRF("linear"), sticky_chains(8), Surveyor(), 1e-9, limit=0.0)
    assert outcome["reason"] == "callback"
    assert outcome["iterations"] == 0
    assert len(outcome["history"]) == 1


def test_pieces_hold_what_the_whole_held():
    sequence = np.arange(10)
    assert [len(piece) for piece in cut([sequence], 4)] == [4, 4, 2]
    np.testing.assert_array_equal(np.concatenate(cut([sequence], 4)), sequence)
    assert cut([sequence], None) == [sequence]
