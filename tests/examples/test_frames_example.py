"""The example of data frames runs, and its figures do not depend on the library of the table."""

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "frames.py"


@pytest.mark.slow
def test_the_example_of_data_frames_runs(capsys):
    pytest.importorskip("pandas")
    spec = importlib.util.spec_from_file_location("frames_example", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.main((24, 12))
    printed = capsys.readouterr().out
    assert "pandas: predict gives a Series, predict_marginals a DataFrame" in printed
    assert "GridSearchCV: {'estimator__prior_variance': " in printed
