"""Options of a fit: where an estimator says nothing, they are the defaults of fields."""

import inspect

import pytest

from kernelfields import ChainCRF, GraphCRF, MultiLabelCRF
from kernelfields.models.fit import FitOptions
from kernelfields.solvers.loop import minimize


@pytest.mark.parametrize("name", ["solver", "tol", "max_iter"])
@pytest.mark.parametrize("estimator", [ChainCRF, GraphCRF, MultiLabelCRF])
def test_the_defaults_of_a_fit_are_those_of_fields(estimator, name):
    assert getattr(FitOptions(), name) == getattr(estimator(), name)


@pytest.mark.parametrize("name", ["tol", "max_iter"])
def test_the_loop_has_the_same_defaults(name):
    assert inspect.signature(minimize).parameters[name].default == getattr(FitOptions(), name)
