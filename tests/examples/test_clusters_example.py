"""The example of clusters: sequences tell apart what single minutes confuse."""

import runpy
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "clusters.py"


@pytest.mark.slow
def test_sequences_tell_apart_what_single_minutes_confuse(capsys):
    single, sequences = runpy.run_path(str(SCRIPT))["main"](n_days=8)
    assert sequences > single + 0.15
    assert "adjusted Rand index: single minutes" in capsys.readouterr().out
