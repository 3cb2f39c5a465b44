"""Seconds and memory of work, here or in a process of its own.

fastest(lambda: crf.predict(X))                                    the least of five, after one that is not counted
in_process("benchmarks.fit_speed.memory_of_fit", "cubic", [1], 2000)     what the function returns, as JSON has it
"""

from __future__ import annotations

import gc
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.result_files import CHECKOUT
from benchmarks.shared_data import SETTING, data_folder

_CODE = """
import json, sys
from importlib import import_module
place, _, name = sys.argv[1].rpartition(".")
print(json.dumps(getattr(import_module(place), name)(*json.loads(sys.argv[2]))))
"""


def seconds(action: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the seconds of a call by a clock, that on the wall unless another is given."""
    begin = clock()
    action()
    return clock() - begin


def fastest(action: Callable[[], object], repeats: int = 5, wait: Callable[[], object] = lambda: None) -> float:
    """Return the least seconds of some calls, after one that is not counted; ``wait`` is for devices."""

    def finished() -> None:
        action()
        wait()

    finished()
    return min(seconds(finished) for _ in range(repeats))


def added_memory(action: Callable[[], object]) -> int:
    """Return the bytes by which a call raises the peak memory of this process beyond what it holds now; on Linux."""
    gc.collect()
    # The recorded peak of a process can be reset, so that what came before does not hide that of the call.
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmRSS")
    action()
    return _status("VmHWM") - before


def added_private_memory(action: Callable[[], object]) -> int:
    """Return the same without pages of mapped files, looked at every ten milliseconds."""
    gc.collect()
    before = peak = _status("RssAnon")
    done = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.01):
            peak = max(peak, _status("RssAnon"))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        action()
    finally:
        done.set()
        watcher.join()
    return peak - before


def _status(entry: str) -> int:
    found = re.search(entry + r":\s+(\d+)", Path("/proc/self/status").read_text())
    assert found is not None
    return 1024 * int(found[1])


def in_process(function: str, *arguments: Any, limit: float | None = None) -> Any:
    """Return what a function of this checkout returns in a process of its own; both ways as JSON."""
    paths = os.pathsep.join([str(CHECKOUT / "src"), str(CHECKOUT)])
    environment = {**os.environ, SETTING: str(data_folder()), "PYTHONPATH": paths}
    command = [sys.executable, "-c", _CODE, function, json.dumps(arguments)]
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True, timeout=limit)
    return json.loads(done.stdout.splitlines()[-1])
