"""What a new user waits for: import, the first fit with an empty numba cache, the first fit of a later process.

    python -m benchmarks.first_use

Each figure is the wall-clock of a fresh process (interpreter start included) on a small problem.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time

from benchmarks.result_files import write_results

IMPORT = "import kernelfields"
ESTIMATOR = "from kernelfields import ChainCRF"
FIT = """
import numpy as np
from kernelfields import ChainCRF
random = np.random.default_rng(0)
y = [random.integers(3, size=12) for _ in range(30)]
X = [np.eye(3)[labels] + random.normal(size=(12, 3)) for labels in y]
model = ChainCRF(rank=50, random_state=0).fit(X, y)
model.predict(X)
model.predict_marginals(X)
"""


def seconds(code: str, cache: str) -> float:
    """Return the wall-clock seconds of a fresh process that runs some code."""
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "NUMBA_CACHE_DIR": cache})
    return time.perf_counter() - begin


def main() -> None:
    with tempfile.TemporaryDirectory() as cache:
        row = {
            "interpreter": seconds("pass", cache),
            "import_scikit_learn": seconds("import sklearn.base", cache),
            "import": seconds(IMPORT, cache),
            "import_estimator": seconds(ESTIMATOR, cache),
            "first_fit": seconds(FIT, cache),
            "second_process": seconds(FIT, cache),
        }
    for name, value in row.items():
        print(f"{name:20s} {value:6.2f} s")
    write_results("first_use.json", row)


if __name__ == "__main__":
    main()
