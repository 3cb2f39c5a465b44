"""A datafit that adds up over processes answers every question itself: none is left to that of one process."""

import pytest

pytest.importorskip("torch")

from kernelfields.engines.together.summed import SummedDatafit
from kernelfields.objective import Datafit


def test_every_question_about_all_data_is_answered_by_all_processes():
    # What a datafit is given: its processes, room for steps, and passes, which are for data of one process.
    given = {"group", "partners", "usual_pairs", "step_room", "fused"}
    questions = {name for name in vars(Datafit) if name[0] != "_"} - given
    # The family of labellings is that of the likelihood of this process.
    assert questions - {"family"} <= set(vars(SummedDatafit))
