"""Options of a fit: all fields have the same defaults, and so has the loop of solvers."""

import inspect

import pytest

from kernelfields import ChainCRF, GraphCRF, MultiLabelCRF
from kernelfields.solvers.loop import minimize

DEFAULTS = {"solver": "auto", "tol": 1e-3, "max_iter": 100}


@pytest.mark.parametrize("estimator", [ChainCRF, GraphCRF, MultiLabelCRF])
def test_all_fields_have_the_same_defaults(estimator):
    parameters = estimator().get_params(deep=False)
    assert {name: parameters[name] for name in DEFAULTS} == DEFAULTS


def test_the_loop_has_the_same_defaults():
    parameters = inspect.signature(minimize).parameters
    assert {name: parameters[name].default for name in ("tol", "max_iter")} == {"tol": 1e-3, "max_iter": 100}
