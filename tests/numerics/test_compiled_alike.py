"""Compiled functions round alike, whether a process compiles them or loads them from a cache."""

import ast
import importlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba.core.dispatcher import Dispatcher

import kernelfields
from kernelfields.numerics.compiled import REORDER, njit

SOURCE = Path(kernelfields.__file__).parent


@pytest.fixture(scope="module")
def functions():
    """All compiled functions by their names."""
    paths = [path for path in SOURCE.rglob("*.py") if "@njit" in path.read_text()]
    modules = [
        importlib.import_module(".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)) for path in paths
    ]
    found = [value for module in modules for value in vars(module).values() if isinstance(value, Dispatcher)]
    return {f"{each.py_func.__module__}.{each.py_func.__name__}": each for each in found}


def called_by(function):
    names = function.py_func.__code__.co_names
    values = [function.py_func.__globals__.get(name) for name in names]
    return {f"{each.py_func.__module__}.{each.py_func.__name__}" for each in values if isinstance(each, Dispatcher)}


def test_functions_take_no_flags_from_their_callers(functions):
    assert len(functions) > 100
    for name, function in functions.items():
        assert {"fastmath", "error_model", "forceinline"} <= function.targetoptions.keys(), name


def test_what_reorders_sums_is_a_part_of_its_callers(functions):
    calls = {name: called_by(function) for name, function in functions.items()}
    reordering = {name for name, function in functions.items() if function.targetoptions["fastmath"]}
    while grown := {name for name, own in calls.items() if own & reordering} - reordering:
        reordering |= grown
    for name in reordering & set().union(*calls.values()):
        options = functions[name].targetoptions
        assert options["forceinline"] or options.get("inline") == "always", name


class PythonNames(ast.NodeVisitor):
    """Names that are used outside of compiled functions, but for their definitions."""

    def __init__(self):
        self.found = set()

    def visit_FunctionDef(self, node):
        decorators = (each.func if isinstance(each, ast.Call) else each for each in node.decorator_list)
        if not any(isinstance(each, ast.Name) and each.id == "njit" for each in decorators):
            self.generic_visit(node)

    def visit_Name(self, node):
        self.found.add(node.id)


def test_python_calls_no_function_without_a_wrapper(functions):
    """Such a call would end the process."""
    bare = {name for name, function in functions.items() if function.targetoptions.get("no_cpython_wrapper")}
    assert len(bare) > 20
    for path in SOURCE.rglob("*.py"):
        tree, names = ast.parse(path.read_text()), PythonNames()
        module = ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)
        imported = [
            (node.module, each) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for each in node.names
        ]
        own = {each.asname or each.name for home, each in imported if f"{home}.{each.name}" in bare}
        own |= {name.rpartition(".")[2] for name in bare if name.rpartition(".")[0] == module}
        names.visit(tree)
        assert not own & names.found, path


def test_a_caller_that_reorders_sums_leaves_others_in_order():
    @njit()
    def lost(large, small):
        return ((large + small) - large) - small

    @njit(fastmath=REORDER)
    def caller(large, small):
        return lost(large, small)

    assert caller(1e16, 1.0) == lost.py_func(1e16, 1.0) == -1.0


FIT = """
import sys
import numpy as np
from kernelfields import ChainCRF
random = np.random.default_rng(0)
y = [random.integers(23, size=30) for _ in range(80)]
X = [[{"w": f"{(label * 7 + random.integers(20)) % 90}"} for label in labels] for labels in y]
crf = ChainCRF(prior_variance=1.0, random_state=0, n_jobs=1, solver=sys.argv[1], max_iter=20).fit(X, y)
sys.stdout.buffer.write(b"".join(np.ascontiguousarray(term.coefficients).tobytes() for term in crf.field_.terms))
"""


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["lbfgs", "sgd+lbfgs"])
def test_coefficients_are_those_of_a_fresh_cache(solver, tmp_path):
    """A fit with nothing cached, with all, and with the inner functions alone."""

    def coefficients():
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONWARNINGS": "ignore"}
        run = subprocess.run(
            [sys.executable, "-c", FIT, solver], env=environment, capture_output=True, timeout=600, check=True
        )
        return np.frombuffer(run.stdout)

    fresh = coefficients()
    assert len(fresh) > 23 * 23
    np.testing.assert_array_equal(coefficients(), fresh)
    outer = [*tmp_path.glob("*/*.forward_backward-*"), *tmp_path.glob("*/*cend-*")]
    assert outer
    for path in outer:
        path.unlink()
    np.testing.assert_array_equal(coefficients(), fresh)
