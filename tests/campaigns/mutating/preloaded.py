"""What the forking server imports once for all tests of mutants: packages of others, and a compiler that is warm."""

import contextlib
import importlib

import numba

for name in (
    *("pytest", "hypothesis.strategies", "rich.progress", "rich.table", "scipy.optimize", "scipy.sparse.linalg"),
    *("scipy.special", "sklearn.model_selection", "sklearn.preprocessing", "sklearn.utils.validation", "torch"),
):
    with contextlib.suppress(ImportError):  # tests of what is not installed are skipped
        importlib.import_module(name)

numba.njit(lambda x: x + 1.0)(1.0)
