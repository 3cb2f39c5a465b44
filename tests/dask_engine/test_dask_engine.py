"""A cluster answers what threads answer: values, gradients, Hessian products, curvature, bounds, to rounding."""

import numpy as np
import pytest
import scipy.sparse
from dask_fits import on_cluster, on_threads, posterior, sequences

from kernelfields import ChainCRF
from kernelfields.data import EdgeCliques, EndCliques, NodeCliques, SkipCliques, StartCliques
from kernelfields.kernels import RBF, Columns, Linear, Polynomial

pytest.importorskip("distributed")

SHARED = {"rank": 30, "random_state": 3, "dtype": "float64"}


def rare_columns(X):
    """Sparse inputs of which the last columns occur in one half of the sequences only, or nowhere.

    No two rows are equal: k(x, x) - ||z(x)||^2 of a copy of a pivot is all rounding, and its square root is not small.
    """
    wide = []
    for index, x in enumerate(X):
        extra = np.zeros((len(x), 4))
        extra[:, 0] = index < 5
        extra[:, 1] = index > len(X) - 5
        wide.append(scipy.sparse.csr_array(np.hstack([np.where(np.abs(x) > 0.5, x, 0.0), extra])))
    return wide


def words(X):
    """Feature dicts, some of which occur in a few sequences only."""
    return [
        [{"bias": 1.0, "first": f"{int(row[0])}", f"only{index % 7}": True} for row in x] for index, x in enumerate(X)
    ]


FIELDS = {
    "rbf": (ChainCRF("rbf", **SHARED), None),
    "window": (ChainCRF(RBF("scale"), window=3, **SHARED), None),
    "some columns": (ChainCRF(Columns(RBF("scale"), 1, 3), **SHARED), None),
    "edge kernel": (ChainCRF("rbf", edges=EdgeCliques(RBF(0.3)), **SHARED), None),
    "sparse sum": (
        ChainCRF(Linear() + Polynomial(4, gamma="scale"), prior_variance=(2.0, 0.5), **SHARED),
        rare_columns,
    ),
    "raw inputs": (ChainCRF("linear", **SHARED), None),
    "observed": (ChainCRF("linear", support=2.0, **SHARED), words),
    "constraints": (ChainCRF("rbf", constraints=[(2, 0)], **SHARED), None),
    "ends": (
        ChainCRF(cliques=[NodeCliques("rbf", rank=20), EdgeCliques(), StartCliques("linear"), EndCliques()], **SHARED),
        None,
    ),
    "long": (ChainCRF(cliques=[NodeCliques("rbf", rank=20), EdgeCliques(), SkipCliques(lag=2)], **SHARED), None),
}


def close(left, right, what):
    np.testing.assert_allclose(left, right, rtol=1e-10, atol=1e-10 * max(1.0, np.abs(right).max()), err_msg=what)


@pytest.mark.parametrize("name", FIELDS)
def test_a_cluster_answers_as_threads_do(client, name):
    crf, inputs_of = FIELDS[name]
    X, y = sequences()
    X = X if inputs_of is None else inputs_of(X)
    weights = np.random.default_rng(0).random(len(X)) if name == "rbf" else None
    here, there = posterior(*on_threads(crf, X, y, weights)), posterior(*on_cluster(crf, X, y, client, weights))
    assert len(there.datafit.group) == 2
    assert [block.shape for block in here.blocks] == [block.shape for block in there.blocks]
    random = np.random.default_rng(1)
    theta, direction = random.normal(size=(2, here.size))
    expected, found = here.at(theta), there.at(theta)
    close(found.value, expected.value, "value")
    close(found.gradient, expected.gradient, "gradient")
    close(there.value_at_zero, here.value_at_zero, "value at zero")
    close(there.metric, here.metric, "metric")
    close(there.metric_at(found), here.metric_at(expected), "metric at a point")
    close(there.hessian_product(found, direction)[0], here.hessian_product(expected, direction)[0], "Hessian product")
    for index in range(len(here.blocks)):
        close(there.curvature_block(found, index), here.curvature_block(expected, index), f"curvature block {index}")
        close(
            there.datafit.outside_bound(found.evaluation.residual, index),
            here.datafit.outside_bound(expected.evaluation.residual, index),
            f"bound outside the span {index}",
        )
    assert there.passes == pytest.approx(here.passes)
    assert (there.raw, there.dtype, there.sparse_values) == (here.raw, here.dtype, here.sparse_values)
    for mine, theirs in zip(there.expanded(theta), here.expanded(theta), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_lines_and_sums_of_potentials_agree(client):
    crf, _ = FIELDS["rbf"]
    X, y = sequences()
    here, there = posterior(*on_threads(crf, X, y)), posterior(*on_cluster(crf, X, y, client))
    theta, direction = 0.1 * np.random.default_rng(1).normal(size=(2, here.size))
    results = []
    for each in (here, there):
        point, along, other = each.at(theta), each.potentials(direction), each.potentials(theta, only=(0,))
        along.scale(0.5)
        along.add(2.0, other)
        line = each.along(point, type("Straight", (), {"theta": direction, "potentials": None}))
        value, slope = line(0.7)
        results.append([along.largest, along.dot(other), line.reach, value, slope, line.point(0.7).gradient.sum()])
        assert line(1e200)[0] == np.inf
    close(results[1], results[0], "line")
    assert not there.potentials(np.full(there.size, np.inf)).finite


def test_a_step_of_a_line_search_is_one_round_trip(client):
    crf, _ = FIELDS["rbf"]
    there = posterior(*on_cluster(crf, *sequences(), client))
    point = there.at(np.zeros(there.size))
    line = there.along(point, type("Straight", (), {"theta": -point.gradient, "potentials": None}))
    before = there.datafit.group.round_trips
    line(0.01)
    assert there.datafit.group.round_trips == before + 1
    line.point(0.01)
    assert there.datafit.group.round_trips == before + 2
    there.hessian_product(point, point.gradient)
    # The beliefs of the point are still there: the product is one round trip as well.
    assert there.datafit.group.round_trips == before + 3


def test_float32_features_are_rounded_by_what_threads_say(client):
    crf = ChainCRF("rbf", rank=30, random_state=3, dtype="float32")
    X, y = sequences(150)
    results = []
    for each in (posterior(*on_threads(crf, X, y)), posterior(*on_cluster(crf, X, y, client))):
        point = each.at(np.random.default_rng(0).normal(size=each.size))
        part = each.split(point.theta)[0]
        results.append([point.value, each.datafit.feature_rounding(point.evaluation.residual, 0, part)])
    assert results[0][1] != 0.0
    np.testing.assert_allclose(results[0], results[1], rtol=1e-4, atol=1e-4)


def test_exact_certificates_are_refused(client):
    there = posterior(*on_cluster(FIELDS["rbf"][0], *sequences(), client))
    point = there.at(np.zeros(there.size))
    with pytest.raises(ValueError, match="engine='threads'"):
        there.datafit.outside_gradient(point.evaluation.residual, 0)
