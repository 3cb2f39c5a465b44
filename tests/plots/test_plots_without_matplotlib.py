"""Without matplotlib, a plot says what to install."""

import sys

import pytest

from kernelfields import plots
from kernelfields.reports.labelled_sequences import LabelledSequence


@pytest.mark.parametrize(
    "draw",
    [
        lambda: plots.plot_degrees([1], [0.5]),
        lambda: plots.plot_rank([1], [0.5], [0.1]),
        lambda: plots.plot_transitions([[0.0]], ["a"]),
        lambda: plots.plot_sequence(LabelledSequence(["a"], [[1.0]], ["a"])),
    ],
)
def test_the_error_says_what_to_install(draw, monkeypatch):
    for name in [each for each in sys.modules if each.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install kernelfields\[plots\]"):
        draw()
