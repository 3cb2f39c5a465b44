"""Pairs of features, continued, saved and wrapped: a slice of ``python -m tests.campaigns.pairs``."""

import numpy as np
import pytest

from kernelfields import ChainCRF
from tests.campaigns.pairing.counting import Count, Refused
from tests.campaigns.pairing.features import FEATURES, KINDS, drawn_plan
from tests.campaigns.pairs import run, run_problem


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_answers_of_pairs_of_features_are_those_of_other_routes(kind):
    count = Count()
    for number in range(4):
        run_problem(count, kind, 0, number)
    assert not count.failures, "\n".join(count.failures)
    assert count.total > 1000


def test_problems_are_drawn_until_enough_numbers_were_compared():
    said = []
    count = run(200, kinds=["single"], announce=said.append)
    assert count.total >= 200
    assert count.problems == 1
    assert not said
    assert run(200, seconds=0.0, kinds=["single"]).total == 0


def test_a_problem_follows_from_seed_kind_and_number():
    first, second = Count(), Count()
    for count in (first, second):
        run_problem(count, "single", 3, 5)
    assert first.counts == second.counts
    assert first.where == second.where


def test_every_feature_is_drawn():
    random = np.random.default_rng(0)
    drawn = {(kind, name) for kind in KINDS for _ in range(400) for name in drawn_plan(kind, random)[1]}
    assert drawn == {(kind, name) for name, (kinds, _) in FEATURES.items() for kind in kinds}


def test_a_table_counts_its_entries_and_an_error_of_numpy_is_no_refusal():
    count = Count()
    count.near("table", np.ones((3, 4)), np.ones((3, 4)), 0.0)
    count.same("labels", ["a", "b"], ["a", "b"])
    assert count.total == 14
    with pytest.raises(Refused), count.trying("sum"):
        np.zeros(2) + np.zeros(3)
    assert len(count.failures) == 1
    with pytest.raises(Refused), count.trying("parameters"):
        ChainCRF("linear", prior_variance=-1.0).fit([np.zeros((2, 1))], [["a", "b"]])
    assert len(count.failures) == 1
    assert count.refusals.total() == 1


def test_wrong_marginals_are_found(monkeypatch):
    """Marginals that are off by a thousandth are those of no law."""
    plain = ChainCRF.predict_marginals

    def off(self, X, **settings):
        answer = plain(self, X, **settings)
        return answer if isinstance(answer, tuple) else [table + 1e-3 for table in answer]

    monkeypatch.setattr(ChainCRF, "predict_marginals", off)
    count = Count()
    run_problem(count, "chain", 0, 1)
    assert any(failure.startswith("law: marginals") for failure in count.failures)
