"""How candidates and positions are shared out over the rungs of successive halving."""

import pytest

from kernelfields.selection.search import Rung, plan_rungs


def test_each_rung_has_fewer_candidates_on_more_positions():
    assert plan_rungs(25, 417, 4170, factor=3, smallest=20) == [Rung(25, 463), Rung(9, 1390), Rung(3, None)]
    assert plan_rungs(16, 100, 100, factor=2, smallest=1) == [Rung(16, 12), Rung(8, 25), Rung(4, 50), Rung(2, None)]


@pytest.mark.parametrize("n_candidates", [1, 3, 4, 25, 100])
@pytest.mark.parametrize("n_sequences", [2, 60, 1000])
@pytest.mark.parametrize("factor", [2, 3, 5])
def test_the_first_rung_is_large_enough_and_the_last_has_everything(n_candidates, n_sequences, factor):
    rungs = plan_rungs(n_candidates, n_sequences, 7 * n_sequences, factor=factor, smallest=20)
    assert rungs[0].n_candidates == n_candidates
    assert rungs[-1].n_positions is None
    assert all(rung.n_positions >= 7 * 20 for rung in rungs[:-1])
    sizes = [rung.n_positions for rung in rungs[:-1]]
    assert sizes == sorted(sizes)
    # As many rungs as the data allow, and no more than the candidates need.
    enough = rungs[-1].n_candidates <= factor
    assert enough or n_sequences // factor ** len(rungs) < 20
    assert len(rungs) == 1 or rungs[-2].n_candidates > factor


def test_one_rung_is_plain_cross_validation():
    assert plan_rungs(3, 1000, 1000, factor=3, smallest=20) == [Rung(3, None)]
    assert plan_rungs(100, 30, 300, factor=3, smallest=20) == [Rung(100, None)]
