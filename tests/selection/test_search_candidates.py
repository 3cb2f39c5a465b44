"""Which candidates a search lists, and which of them share features."""

import numpy as np
import pytest
from search_sequences import search_sequences

from kernelfields import ChainCRF, EdgeCliques, FieldSearchCV, NodeCliques
from kernelfields.estimators.base import prepare_fit
from kernelfields.kernels import RBF, Cosine, Laplacian, Linear, Matern, Polynomial
from kernelfields.selection.candidates import SCALE_MULTIPLES, expand_kernel, list_candidates

X, y = search_sequences()
INPUTS = np.concatenate(X)


def candidates(estimator=None, **grids):
    estimator = estimator or ChainCRF("rbf")
    defaults = {"kernels": "rbf", "prior_variances": (1.0,), "ranks": None, "edge_prior_variances": None}
    return list_candidates(estimator, prepare_fit(estimator, X, y, None), **{**defaults, **grids})


def inputs():
    return INPUTS, np.ones(len(INPUTS))


def never():
    raise AssertionError("the inputs are not needed")


def test_names_stand_for_scales_around_that_of_the_data():
    scale = 1.0 / (INPUTS.shape[1] * INPUTS.var())
    gammas = [kernel.gamma for kernel in expand_kernel("rbf", inputs)]
    np.testing.assert_allclose(gammas, np.multiply(scale, SCALE_MULTIPLES), rtol=5e-3)
    # An inverse length goes with the square root of an inverse squared length, a length with its inverse.
    for name, kind, parameter, power in (
        ("laplacian", Laplacian, "gamma", 0.5),
        ("matern", Matern, "length_scale", -0.5),
    ):
        middle = getattr(kind().resolve(INPUTS), parameter)
        values = [getattr(kernel, parameter) for kernel in expand_kernel(name, inputs)]
        np.testing.assert_allclose(values, middle * np.power(SCALE_MULTIPLES, power), rtol=5e-3)


def test_degrees_single_kernels_and_objects():
    assert expand_kernel("poly", never) == [Polynomial(1), Polynomial(2), Polynomial(3)]
    assert expand_kernel("cosine", never) == [Cosine()]
    assert expand_kernel("linear", never) == [Linear()]
    assert expand_kernel(RBF(), never) == [RBF()]
    assert [each.params["kernel"] for each in candidates(kernels=[RBF(0.5), "cosine", RBF(0.5)])] == [
        RBF(0.5),
        Cosine(),
    ]


def test_scales_are_those_of_the_weighted_inputs_that_kernels_see():
    twice = [
        kernel.gamma for kernel in expand_kernel("rbf", lambda: (np.tile(INPUTS, (2, 1)), np.ones(2 * len(INPUTS))))
    ]
    assert twice == [kernel.gamma for kernel in expand_kernel("rbf", lambda: (INPUTS, np.full(len(INPUTS), 2.0)))]
    assert len(candidates()) == len(SCALE_MULTIPLES)
    wide = candidates(ChainCRF("rbf", window=3))
    assert wide[2].params["kernel"].gamma < candidates()[2].params["kernel"].gamma


def test_the_estimators_own_kernel_is_the_default():
    def tried(estimator):
        search = FieldSearchCV(estimator, prior_variances=[1.0], cv=2, halving=False, refit=False)
        return search.fit(X, y).cv_results_["params"]

    assert len(tried(ChainCRF("rbf", rank=5))) == len(SCALE_MULTIPLES)
    assert [each["kernel"] for each in tried(ChainCRF("poly", rank=5))] == expand_kernel("poly", never)
    assert tried(ChainCRF(RBF(2.0), rank=7)) == [{"kernel": RBF(2.0), "rank": 7, "prior_variance": 1.0}]


def test_paths_are_candidates_that_differ_in_prior_variances_only():
    listed = candidates(
        kernels=[RBF(1.0), RBF(2.0)], ranks=[5, 9], prior_variances=[1, 10], edge_prior_variances=[0.1, 1.0]
    )
    assert len(listed) == 16
    paths = {}
    for each in listed:
        paths.setdefault(each.path, []).append(each.params)
    assert [len(path) for path in paths.values()] == [4, 4, 4, 4]
    for path in paths.values():
        assert len({(each["kernel"], each["rank"]) for each in path}) == 1


def test_the_rank_counts_only_where_there_are_pivots():
    kernels = ["linear", RBF(1.0)]
    listed = candidates(kernels=kernels, ranks=[10, None])
    assert [(each.params["kernel"], each.params["rank"]) for each in listed] == [
        (Linear(), 10),
        (RBF(1.0), 10),
        (RBF(1.0), None),
    ]
    linked = candidates(ChainCRF(edges=EdgeCliques("rbf")), kernels="linear", ranks=[10, 20])
    assert len(linked) == 2


@pytest.mark.parametrize(
    ("grids", "error", "words"),
    [
        ({"kernels": []}, ValueError, "kernels is empty"),
        ({"kernels": "gaussian"}, ValueError, "unknown name 'gaussian'"),
        ({"kernels": RBF}, TypeError, r"Write RBF\(\) to make one"),
        ({"kernels": [RBF(-1.0)]}, ValueError, "gamma must be a positive finite number"),
        ({"prior_variances": ()}, ValueError, "prior_variances is empty"),
        ({"prior_variances": 1.0}, TypeError, "prior_variances must be a list of values"),
        ({"prior_variances": "1"}, TypeError, "prior_variances must be a list of values"),
        ({"prior_variances": [1.0, -2.0]}, ValueError, r"prior_variances\[1\] must be a positive number"),
        ({"prior_variances": [0.0]}, ValueError, r"prior_variances\[0\] must be a positive number"),
        ({"prior_variances": [float("nan")]}, ValueError, r"prior_variances\[0\] must be a positive number"),
        ({"prior_variances": [(1.0, 2.0)]}, ValueError, r"prior_variances\[0\] must be a positive number"),
        ({"prior_variances": [np.inf]}, ValueError, "must be finite: without a prior"),
        ({"edge_prior_variances": []}, ValueError, "edge_prior_variances is empty"),
        ({"edge_prior_variances": [True]}, ValueError, r"edge_prior_variances\[0\] must be a positive number"),
        ({"ranks": []}, ValueError, "ranks is empty"),
        ({"ranks": [0]}, ValueError, r"ranks\[0\] must be a whole number of at least 1"),
        ({"ranks": 100}, TypeError, "ranks must be a list of values"),
    ],
)
def test_grids_that_cannot_be_searched_are_refused(grids, error, words):
    with pytest.raises(error, match=words):
        candidates(**grids)


def test_a_field_that_is_spelled_out_has_nothing_to_choose():
    with pytest.raises(ValueError, match="leave out cliques, or search with scikit-learn's GridSearchCV"):
        candidates(ChainCRF(cliques=[NodeCliques("rbf")]))


def test_supports_that_pivots_cannot_have_are_refused_before_any_fit():
    with pytest.raises(ValueError, match="support='observed' is about weights of single features"):
        candidates(ChainCRF("linear", support="observed"), kernels=["linear", RBF(1.0)])
