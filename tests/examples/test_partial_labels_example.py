"""The example of partly known labels: a few answers are enough to fill in the rest, and the field knows how well."""

import runpy
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "partial_labels.py"


@pytest.mark.slow
def test_few_answers_fill_in_the_rest(capsys, tmp_path):
    picture = tmp_path / "day.svg"
    right, expected = runpy.run_path(str(SCRIPT))["main"](picture)
    assert right > 0.75
    assert abs(right - expected) < 0.1
    assert "filled in rightly" in capsys.readouterr().out
    assert picture.stat().st_size > 1000
