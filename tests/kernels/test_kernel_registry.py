"""Kernels by name, and descriptions that survive a file."""

from __future__ import annotations

import json
import math
import re

import numpy as np
import pytest
from sklearn.gaussian_process import kernels as gp

from kernelfields.kernels import (
    RBF,
    CallableKernel,
    Constant,
    Cosine,
    Forest,
    Laplacian,
    Linear,
    Matern,
    Normalized,
    Polynomial,
    Precomputed,
    Tanimoto,
    resolve_kernel,
)
from kernelfields.kernels.kernel import KERNELS as KINDS
from kernelfields.kernels.registry import kernel_from_spec


def product(X, Z):
    return X @ Z.T


def test_names():
    expected = {
        "linear": Linear(),
        "poly": Polynomial(3),
        "polynomial": Polynomial(3),
        "rbf": RBF(),
        "laplacian": Laplacian(),
        "matern": Matern(),
        "cosine": Cosine(),
        "tanimoto": Tanimoto(),
        "forest": Forest(),
        "constant": Constant(),
    }
    for name, kernel in expected.items():
        assert resolve_kernel(name) == kernel
    assert resolve_kernel("linear + rbf+poly") == Linear() + RBF() + Polynomial(3)
    kernel = RBF(0.5)
    assert resolve_kernel(kernel) is kernel
    assert resolve_kernel(gp.RBF(2.0)) == CallableKernel(gp.RBF(2.0))
    assert resolve_kernel(product) == CallableKernel(product)


def test_unknown_kernels_list_the_options():
    with pytest.raises(ValueError, match=r"'linear', 'poly'.*unknown name 'gauss'"):
        resolve_kernel("gauss")
    with pytest.raises(ValueError, match=r"unknown name 'rbg': did you mean 'rbf'"):
        resolve_kernel("linear + rbg")
    for name, instead in (("cubic", "kernels.Polynomial(3)"), ("jaccard", "'tanimoto'")):
        with pytest.raises(ValueError, match=re.escape(f"unknown name '{name}': use {instead}")):
            resolve_kernel(name)
    with pytest.raises(TypeError, match=r"Expected a Kernel.* got 3"):
        resolve_kernel(3)
    with pytest.raises(TypeError, match=r"got the class RBF. Write RBF\(\)"):
        resolve_kernel(RBF)


KERNELS = [
    Linear(),
    Polynomial(2, "auto", 0.5),
    RBF(np.float64(0.25)),
    Laplacian(0.1),
    Matern(math.inf, 2.0),
    Matern(2.5),
    Cosine(),
    Tanimoto(),
    Constant(3),
    (2 * RBF(0.5) + 1) ** 3 * Normalized(Linear()),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: repr(kernel)[:60])
def test_round_trip_through_json(kernel):
    text = json.dumps(kernel.spec(), allow_nan=False)
    loaded = kernel_from_spec(json.loads(text))
    assert loaded == kernel
    assert loaded.spec() == kernel.spec()
    X = np.random.default_rng(0).standard_normal((5, 2))
    np.testing.assert_array_equal(loaded.resolve(X)(X), kernel.resolve(X)(X))


def test_round_trip_of_a_matrix():
    kernel = 2 * Precomputed([[2.0, 1.0], [1.0, 2.0]])
    spec = kernel.spec()
    assert isinstance(spec["kernel"]["matrix"], np.ndarray)
    assert kernel_from_spec(spec) == kernel


def test_functions_are_saved_by_name_and_passed_again():
    kernel = 1 + CallableKernel(product)
    spec = kernel.spec()
    assert spec["right"] == {"kind": "callable", "name": "product"}
    loaded = kernel_from_spec(spec, callables={"product": product})
    assert loaded == kernel
    with pytest.raises(ValueError, match=r"Pass callables=\{'product': function\}; given were \['other'\]"):
        kernel_from_spec(spec, callables={"other": product})
    assert CallableKernel(product, name="mine").spec()["name"] == "mine"


def nested(levels):
    spec = {"kind": "linear"}
    for _ in range(levels):
        spec = {"kind": "normalized", "kernel": spec}
    return spec


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (None, "a mapping with the key 'kind'"),
        ("rbf", "a mapping with the key 'kind'"),
        ({}, "unknown kind of kernel None; known are constant, sum, product"),
        ({"kind": "os.system"}, "unknown kind of kernel 'os.system'"),
        ({"kind": ["rbf"]}, "unknown kind"),
        ({"kind": "rbf"}, r"has the parameters \[gamma\], got \[\]"),
        ({"kind": "rbf", "gamma": 1.0, "degree": 2}, r"\[gamma\], got \[gamma, degree\]"),
        ({"kind": "rbf", "gamma": -1.0}, "gamma must be a positive"),
        ({"kind": "rbf", "gamma": "__import__('os')"}, "gamma must be a positive"),
        ({"kind": "rbf", "gamma": {"kind": "linear"}}, "gamma must be a positive"),
        ({"kind": "sum", "left": 1.0, "right": {"kind": "linear"}}, "left must be a Kernel"),
        ({"kind": "sum", "left": {"kind": "linear"}, "right": {"kind": "x"}}, "unknown kind"),
        ({"kind": "power", "kernel": {"kind": "linear"}, "exponent": 1.5}, "exponent must be a whole"),
        ({"kind": "precomputed", "matrix": "abc"}, "must hold real numbers"),
        ({"kind": "precomputed", "matrix": {"kind": "linear"}}, "must hold real numbers"),
        ({"kind": "callable", "name": 3}, "must be a string, got 3"),
        ({"kind": "scikit-learn", "kernel": {}}, "no longer has the kernel 'scikit-learn': fit again"),
    ],
)
def test_wrong_descriptions_are_refused(spec, message):
    with pytest.raises(ValueError, match=message):
        kernel_from_spec(spec)


def test_kernels_inside_each_other_go_as_deep_as_the_message_says():
    assert kernel_from_spec(nested(200)).spec() == nested(200)
    with pytest.raises(ValueError, match="nested deeper than 200"):
        kernel_from_spec(nested(201))


def test_a_description_may_name_a_thousand_kernels():
    def tree(count):
        """A sum made of ``count`` kernels, the sums within it included."""
        if count <= 2:
            return nested(count - 1)
        left = (count - 1) // 2
        return {"kind": "sum", "left": tree(left), "right": tree(count - 1 - left)}

    assert kernel_from_spec(tree(1000)).spec() == tree(1000)
    with pytest.raises(ValueError, match="a kernel made of more than 1000 others is refused"):
        kernel_from_spec(tree(1001))


def test_each_kind_is_registered_by_the_module_that_is_its_home():
    names = [*KINDS.homes]
    kinds = {name: KINDS.find(name) for name in names if KINDS.find(name) is not None}
    assert {name: kind.__module__ for name, kind in kinds.items()} == {name: KINDS.homes[name] for name in kinds}
    assert set(names) - set(kinds) == {"poly"}
    # Other tests may have registered kernels of their own, after which the package's keep their order.
    assert [name for name in KINDS.shorthands if name in names] == [name for name in names if name in KINDS.shorthands]
