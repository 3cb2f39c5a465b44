"""What happens around a solve has a room of its own; the files elsewhere that name it are listed, and may get fewer."""

import re
from pathlib import Path

import pytest

from benchmarks.house import STEPS, sources, words_in_code

PACKAGE = Path(__file__).parents[1] / "src" / "kernelfields"
#: Where users ask for a step or see what it has found, and who serves several of them.
ELSEWHERE = {
    "annotators": {"__init__.pyi", "files.py", "evaluation/model_evaluation.py", "evaluation/packed_labels.py"},
    "development": {"cli/training_run.py", "estimators/labelled_field.py"},
    "checkpoint": {"cli/help.py", "estimators/__init__.pyi", "estimators/base.py", "estimators/on_cluster.py"},
    "growing": {"models/fit.py"},
    "evidence": {
        "estimators/__init__.pyi",
        "estimators/answers.py",
        "estimators/base.py",
        "estimators/kept_field.py",
        "estimators/labelled_field.py",
        "models/hints.py",
        "posterior/laplace/laplace.py",
        "posterior/laplace/samples.py",
    },
}


@pytest.mark.slow
def test_no_other_file_names_a_step_of_a_fit():
    files = {path.relative_to(PACKAGE).as_posix(): path for path in sources(PACKAGE)}
    words = {place: words_in_code(path.read_text(encoding="utf-8")) for place, path in files.items()}
    for step, room in STEPS.items():
        named = {place for place, own in words.items() if {step, f"{step}s"} & own and not re.search(room, place)}
        assert named <= ELSEWHERE[step], step
