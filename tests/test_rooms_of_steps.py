"""What happens around a solve has a room of its own; the files elsewhere that name it are listed, and may get fewer."""

import re
from pathlib import Path

import pytest

from benchmarks.house import STEPS, sources, words_in_code

PACKAGE = Path(__file__).parents[1] / "src" / "kernelfields"
#: Who names a step in the words of users: the door, commands, refusals, fitted attributes for checkers of types.
ELSEWHERE = {
    # The door, every kind of model that a file may hold, and the refusal of labels of several annotators.
    "annotators": {"__init__.pyi", "files.py", "evaluation/model_evaluation.py"},
    # The labelled file of ``kernelfields train --dev``.
    "development": {"cli/training_run.py"},
    "checkpoint": {"estimators/__init__.pyi"},
    # The basis of a design asks for the step, in whatever fit it is.
    "growing": {"models/fit.py"},
    # The fitted attribute ``evidence_path_``, and the number that ``laplace`` returns.
    "evidence": {"estimators/__init__.pyi", "estimators/kept_field.py", "estimators/answers.py"},
}


@pytest.mark.slow
def test_no_other_file_names_a_step_of_a_fit():
    files = {path.relative_to(PACKAGE).as_posix(): path for path in sources(PACKAGE)}
    words = {place: words_in_code(path.read_text(encoding="utf-8")) for place, path in files.items()}
    for step, room in STEPS.items():
        named = {place for place, own in words.items() if {step, f"{step}s"} & own and not re.search(room, place)}
        assert named <= ELSEWHERE[step], step
