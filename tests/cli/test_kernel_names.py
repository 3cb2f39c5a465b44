"""Kernels by name, with numbers for their parameters."""

import pytest

from kernelfields.cli.models import build_kernel, describe_kernel
from kernelfields.kernels import RBF, Laplacian, Linear, Matern, Polynomial


@pytest.mark.parametrize(
    ("text", "parameters", "kernel"),
    [
        ("rbf", {"gamma": 0.1}, RBF(0.1)),
        ("rbf", {"gamma": None}, RBF()),
        ("poly", {"degree": 2, "coef0": 0.5}, Polynomial(2, coef0=0.5)),
        ("matern", {"nu": 0.5, "length_scale": 3.0}, Matern(nu=0.5, length_scale=3.0)),
        ("linear + rbf", {"gamma": 0.1}, Linear() + RBF(0.1)),
        ("rbf+laplacian", {"gamma": 0.1}, RBF(0.1) + Laplacian(0.1)),
    ],
)
def test_names_and_numbers_make_kernels(text, parameters, kernel):
    assert build_kernel(text, parameters) == kernel


@pytest.mark.parametrize(
    ("text", "parameters", "message"),
    [
        ("rbf", {"length_scale": 1.0}, "--length-scale has no meaning for --kernel rbf"),
        ("linear", {"gamma": 1.0}, "--gamma has no meaning for --kernel linear"),
        ("rbf", {"gamma": -1.0}, "gamma"),
        ("bessel", {}, "unknown name 'bessel'"),
    ],
)
def test_what_cannot_be_is_named(text, parameters, message):
    with pytest.raises(ValueError, match=message):
        build_kernel(text, parameters)


@pytest.mark.parametrize(
    "kernel",
    [RBF(0.1), RBF(), Polynomial(2, gamma=0.5), Matern(nu=0.5), Linear(), Laplacian() + RBF(), Linear() + RBF(0.1)],
)
def test_settings_name_the_same_kernel(kernel):
    settings = describe_kernel(kernel)
    assert build_kernel(settings.pop("kernel"), settings) == kernel
