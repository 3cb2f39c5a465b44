"""Estimators with random parameters and data, some of them odd: clear errors or sound answers.

``python -m tests.campaigns.fuzz`` runs as many cases as there is time for.
"""

import pytest

from tests.campaigns.fuzz import make_target
from tests.campaigns.fuzzing import calls
from tests.campaigns.fuzzing.campaign import make_case
from tests.campaigns.fuzzing.verdicts import FAILED, SOUND, judge


@pytest.mark.parametrize("name", calls.NAMES)
def test_random_calls_are_refused_or_answered(name):
    target = make_target(name)
    for number in range(10):
        judge(make_case(target, 0, number))  # compilers take time and memory of their own
    verdicts = [judge(make_case(target, 0, number)) for number in range(10)]
    assert [each.reason for each in verdicts if each.kind == FAILED] == []
    assert SOUND in {each.kind for each in verdicts}
