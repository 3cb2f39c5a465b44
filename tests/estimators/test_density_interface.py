"""ExponentialFamilyDensity: scikit-learn's manners, model files, and what it refuses."""

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import check_estimator

from kernelfields import ExponentialFamilyDensity
from kernelfields.kernels import RBF, CallableKernel, Linear, Precomputed

X = np.random.default_rng(0).beta(2, 4, size=(80, 1))
UNIT = [[0.0, 1.0]]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the log partition may be wrong")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learns_checks_pass():
    check_estimator(ExponentialFamilyDensity(rank=20, quadrature="sobol", n_nodes=128))


@pytest.mark.slow
def test_a_search_has_a_best_density_though_held_out_points_lie_outside_the_box():
    search = GridSearchCV(ExponentialFamilyDensity(rank=5, margin=0.0), {"prior_variance": [1e-6, 1.0]}, cv=3)
    with pytest.warns(UserWarning, match=r"2 of 26 points lie outside the box of the fit.*one in n \+ 1 of the mass"):
        search.fit(X)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    box = [[X.min(), X.max()]]
    given = GridSearchCV(ExponentialFamilyDensity(rank=5, box=box), {"prior_variance": [1e-6, 1.0]}, cv=3).fit(X)
    assert search.best_params_ == given.best_params_


def test_points_beyond_a_chosen_box_count_as_one_in_n_plus_one(tmp_path):
    density = ExponentialFamilyDensity(rank=5).fit(X)
    density.save(tmp_path / "density")
    outside = X.max() + 1.0
    low, high = density.box_[0]
    for model in (density, ExponentialFamilyDensity.load(tmp_path / "density")):
        with pytest.warns(UserWarning, match="1 of 2 points lie outside"):
            score = model.score([[X.mean()], [outside]])
        inside = model.score_samples([[X.mean()]])[0]
        assert score == pytest.approx((inside - np.log(len(X) + 1) - np.log(high - low)) / 2)
        assert model.score_samples([[outside]])[0] == -np.inf


def test_equal_seeds_give_equal_densities():
    Z = np.random.default_rng(1).random((100, 4))
    options = {"rank": 20, "quadrature_tol": 1.0, "basis": "random-cholesky"}
    first, second = (ExponentialFamilyDensity(random_state=3, **options).fit(Z) for _ in range(2))
    np.testing.assert_array_equal(first.score_samples(Z), second.score_samples(Z))


def squared_exponential(A, B):
    return np.exp(-5.0 * ((A[:, None] - B[None]) ** 2).sum(axis=2))


@pytest.mark.parametrize(
    ("kernel", "base_measure"),
    [
        (RBF(), "uniform"),
        ("rbf", "gaussian"),
        (Linear(), "gaussian"),
        (CallableKernel(squared_exponential), "uniform"),
    ],
)
def test_a_file_keeps_the_density(tmp_path, kernel, base_measure):
    fitted = ExponentialFamilyDensity(kernel, base_measure=base_measure, rank=20).fit(X)
    fitted.save(tmp_path / "density.safetensors")
    functions = {"squared_exponential": squared_exponential}
    read = ExponentialFamilyDensity.load(tmp_path / "density.safetensors", callables=functions)
    np.testing.assert_array_equal(read.score_samples(X), fitted.score_samples(X))
    np.testing.assert_array_equal(read.mean(), fitted.mean())
    assert read.certificate_ == fitted.certificate_
    assert read.quadrature_ == fitted.quadrature_
    np.testing.assert_allclose(read.fit(X).score_samples(X), fitted.score_samples(X), atol=1e-6)


def test_points_outside_the_box_are_named():
    points = X.copy()
    points[7] = 1.5
    with pytest.raises(ValueError, match=r"sample 7 lies outside the box: its feature 0 is 1\.5"):
        ExponentialFamilyDensity(box=UNIT).fit(points)
    fitted = ExponentialFamilyDensity(box=UNIT).fit(X)
    with pytest.raises(ValueError, match="sample 7 lies outside"):
        fitted.certify(points)


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (np.ones((5, 1)), {}, "feature 0 is constant"),
        (np.column_stack([X, np.ones(80)]), {}, "feature 1 is constant"),
        (X, {"box": [[1.0, 0.0]]}, "positive width"),
        (X, {"box": [[0.0, np.inf]]}, "finite ends"),
        (X, {"box": [[0.0, 1.0], [0.0, 1.0]]}, r"shape \(1, 2\)"),
        (X, {"box": "data"}, "'auto'"),
        (X, {"box": b"data"}, r"box must be 'auto' or an array of lows and highs, .*got b'data': could not convert"),
        (X, {"box": object}, "box must be 'auto' or an array of lows and highs, .*got <class 'object'>"),
        (X, {"base_measure": object}, "base_measure must be .*got <class 'object'>"),
        (X, {"base_measure": lambda Z: -Z[:, 0]}, "base_measure must be one of 'uniform', 'gaussian', got <function"),
        (np.full((4, 1), 0.5), {"box": UNIT, "base_measure": "gaussian"}, "feature 0 is constant"),
        (X, {"base_measure": "cauchy"}, "base_measure must be"),
        (X, {"prior_variance": 0.0}, "prior_variance"),
        (X, {"prior_variance": np.inf}, "prior_variance"),
        (X, {"margin": -0.1}, "margin"),
        (X, {"quadrature": "simpson"}, "quadrature must be"),
        (X, {"quadrature": "sobol", "n_nodes": 100}, "power of two"),
        (X, {"n_nodes": 0}, "n_nodes"),
        (X, {"kernel": Precomputed(np.eye(80))}, "whole box"),
        (np.random.default_rng(0).random((9, 4)), {"quadrature": "gauss-legendre"}, "needs n_nodes"),
        (np.array([[0.1], [np.nan]]), {}, "NaN"),
    ],
)
def test_what_cannot_be_fitted_is_refused(data, options, message):
    with pytest.raises(ValueError, match=message):
        ExponentialFamilyDensity(**options).fit(data)


def test_few_points_and_a_point_repeated_are_enough():
    few = ExponentialFamilyDensity(rank=200, box=UNIT).fit(X[:3])
    same = ExponentialFamilyDensity(RBF(5.0), box=UNIT).fit(np.full((4, 1), 0.5))
    assert np.isfinite(few.score(X))
    assert same.score([[0.5]]) > same.score([[0.1]])


def test_a_log_partition_that_is_not_good_enough_is_warned_of():
    with pytest.warns(UserWarning, match="log partition may be wrong"):
        ExponentialFamilyDensity(RBF(2000.0), prior_variance=100.0, n_nodes=8, box=UNIT).fit(X)
