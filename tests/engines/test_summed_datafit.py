"""A datafit that adds up over processes answers every question itself: none is left to that of one process."""

import pytest

pytest.importorskip("torch")

from kernelfields.engines.together.summed import SummedDatafit
from kernelfields.objective import Datafit


def test_every_question_about_all_data_is_answered_by_all_processes():
    questions = {
        name for name, value in vars(Datafit).items() if name[0] != "_" and name not in ("group", "usual_pairs")
    }
    # The family of labellings is that of the likelihood of this process.
    assert questions - {"family"} <= set(vars(SummedDatafit))
