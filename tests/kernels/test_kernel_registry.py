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
    ScikitLearnKernel,
    Tanimoto,
    resolve_kernel,
)
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
    assert resolve_kernel(gp.RBF(2.0)) == ScikitLearnKernel(gp.RBF(2.0))
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
    ScikitLearnKernel(gp.RBF([1.0, 2.0]) + gp.ConstantKernel(0.1, "fixed")),
    ScikitLearnKernel(2.0 * gp.Matern(0.3, (1e-3, 1e3), nu=math.inf) ** 2),
    ScikitLearnKernel(gp.RBF(np.array([1.0, 2.0]), np.array([[0.1, 1.0], [0.2, 2.0]]))),
    ScikitLearnKernel(gp.PairwiseKernel(metric="poly", pairwise_kernels_kwargs={"degree": 2})),
    ScikitLearnKernel(gp.DotProduct() * gp.ExpSineSquared() + gp.RationalQuadratic()),
]


def test_noise_that_files_hold_is_read_as_the_zero_it_counted_as():
    spec = ScikitLearnKernel(gp.RBF(0.7) + gp.WhiteKernel(0.1)).spec()
    X = np.random.default_rng(0).standard_normal((5, 2))
    np.testing.assert_array_equal(kernel_from_spec(spec).resolve(X)(X), gp.RBF(0.7)(X))


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
    assert loaded == 1 + CallableKernel(product, name="product")
    with pytest.raises(ValueError, match=r"Pass callables=\{'product': function\}; given were \['other'\]"):
        kernel_from_spec(spec, callables={"other": product})
    assert CallableKernel(product, name="mine").spec()["name"] == "mine"


def nested(levels):
    spec = {"kind": "linear"}
    for _ in range(levels):
        spec = {"kind": "normalized", "kernel": spec}
    return spec


def nested_scikit_learn(levels):
    inner = {"class": "DotProduct", "parameters": {"sigma_0": 1.0, "sigma_0_bounds": "fixed"}}
    for _ in range(levels):
        inner = {"class": "Exponentiation", "parameters": {"kernel": inner, "exponent": 1.0}}
    return {"kind": "scikit-learn", "kernel": inner}


def scikit_learn(name, **parameters):
    return {"kind": "scikit-learn", "kernel": {"class": name, "parameters": parameters}}


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
        (nested(500), "nested deeper than 200"),
        (nested_scikit_learn(300), "nested deeper than 100"),
        ({"kind": "scikit-learn", "kernel": "RBF"}, "'class' and 'parameters', got 'RBF'"),
        (scikit_learn("clone"), "unknown scikit-learn kernel 'clone'"),
        (scikit_learn("CompoundKernel", kernels=[]), "unknown scikit-learn kernel"),
        (scikit_learn("RBF", length_scale=1.0), "takes length_scale, length_scale_bounds"),
        (scikit_learn("RBF", length_scale="x", length_scale_bounds="fixed"), "must be a number, got 'x'"),
        (scikit_learn("RBF", length_scale=1.0, length_scale_bounds=[1, "x"]), "must be a number, got 'x'"),
        (scikit_learn("Sum", k1=1.0, k2=2.0), "'class' and 'parameters', got 1.0"),
    ],
)
def test_wrong_descriptions_are_refused(spec, message):
    with pytest.raises(ValueError, match=message):
        kernel_from_spec(spec)


@pytest.mark.parametrize(("describe", "deepest"), [(nested, 200), (nested_scikit_learn, 100)])
def test_kernels_inside_each_other_go_as_deep_as_the_message_says(describe, deepest):
    spec = describe(deepest)
    assert kernel_from_spec(spec).spec() == spec
    with pytest.raises(ValueError, match=f"nested deeper than {deepest}"):
        kernel_from_spec(describe(deepest + 1))


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


def test_a_metric_of_unknown_name_is_refused():
    spec = ScikitLearnKernel(gp.PairwiseKernel(metric="rbf")).spec()
    spec["kernel"]["parameters"]["metric"] = "precomputed"
    with pytest.raises(ValueError, match="metric of a scikit-learn kernel"):
        kernel_from_spec(spec)


def test_what_cannot_be_written_says_so():
    class Own(gp.RBF):
        pass

    with pytest.raises(ValueError, match="class Own cannot be written to a file"):
        ScikitLearnKernel(gp.DotProduct() + Own()).spec()
    with pytest.raises(ValueError, match="cannot be written to a file"):
        ScikitLearnKernel(gp.PairwiseKernel(metric=product)).spec()
