"""What happens around a solve has a room of its own; the files elsewhere that name it are listed, and may get fewer."""

import re
from pathlib import Path

import pytest

from benchmarks.house import DOORS, STEPS, sources, words_in_code

PACKAGE = Path(__file__).parents[1] / "src" / "kernelfields"
#: Who names a step in the words of users: the door, commands, refusals, fitted attributes for checkers of types.
ELSEWHERE = {
    # The refusal of labels of several annotators; a set that has them; the page on which two of them are compared.
    "annotators": {"evaluation/model_evaluation.py", "datasets/items.py", "page/known_items.py"},
    # The basis of a design asks for the step, in whatever fit it is.
    "growing": {"models/fit.py"},
}


@pytest.mark.slow
def test_no_other_file_names_a_step_of_a_fit():
    files = {path.relative_to(PACKAGE).as_posix(): path for path in sources(PACKAGE)}
    words = {place: words_in_code(path.read_text(encoding="utf-8")) for place, path in files.items()}
    for step, room in STEPS.items():
        known = f"{room}|{DOORS}"
        named = {place for place, own in words.items() if {step, f"{step}s"} & own and not re.search(known, place)}
        assert named <= ELSEWHERE.get(step, set()), step
