"""A process that fits and predicts again and again holds no more for it; campaigns/steady.py does so for longer."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.campaigns import steady

# In processes of their own: threads and files that other tests have left behind may end while they are looked at.
REPEATED = """
import gc, json, warnings
from tests.campaigns import steady

warnings.simplefilter("ignore")
grown = {}
for name, (fit, ask) in steady.workloads().items():
    fitted = fit()
    ask(fitted)
    gc.freeze()  # all that is made once: neither looked at again nor counted
    for work, call in (("fits", fit), ("predictions", lambda: ask(fitted))):
        held = [each for _, each in steady.moments(call, 10, {1, 2, 10})]
        grown[f"{name} {work}"] = steady.too_much(steady.growth(held))
print(json.dumps(grown))
"""

KEPT = """
import json
from tests.campaigns import steady

kept = []
held = [each for _, each in steady.moments(lambda: kept.extend([] for _ in range(100)), 3)]
print(json.dumps(steady.too_much(steady.growth(held))))
"""

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="only Linux tells what a process holds")


def printed_by(program):
    """What a program prints in a process of its own."""
    checkout = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", program], cwd=checkout, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_repeated_fits_and_predictions_leave_nothing_behind():
    grown = printed_by(REPEATED)
    assert set(grown) == {f"{name} {work}" for name in steady.workloads() for work in ("fits", "predictions")}
    assert not any(grown.values()), grown


def test_what_is_kept_is_noticed():
    assert printed_by(KEPT) == ["objects"]
