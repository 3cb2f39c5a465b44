"""Memory that a fit frees is kept for its next vectors, where the environment has it given back at once."""

import platform
import subprocess
import sys

import pytest

PROGRAM = """
import resource
import numpy as np
from kernelfields.engines.together.memory import keep_memory

def faults():
    vector = np.ones(100_000)
    for number in range(60):
        if number == 10:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        vector = vector + 1.0
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

outside = faults()
with keep_memory():
    inside = faults()
print(outside > 1000, inside < 100, faults() > 1000)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other libraries are left alone")
@pytest.mark.parametrize("variable", [{"MALLOC_TRIM_THRESHOLD_": "65536"}, {}])
def test_pages_of_freed_vectors_are_used_again(variable, monkeypatch):
    monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_", raising=False)
    for name, value in variable.items():
        monkeypatch.setenv(name, value)
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=True)
    assert run.stdout.split() == (["True"] * 3 if variable else ["False", "True", "False"])
