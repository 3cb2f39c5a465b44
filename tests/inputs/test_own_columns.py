"""Columns that a kernel reads as they come: no step changes them, and all others are as without them."""

from __future__ import annotations

import numpy as np
import pytest

from kernelfields import ChainCRF, GraphCRF, KernelClassifier, load
from kernelfields.data import EdgeCliques, GraphFactors
from kernelfields.inputs import Layout, Neighbours, WindowStatistics
from kernelfields.inputs.scale import spreads
from kernelfields.kernels import RBF, Columns, Kernel, Linear, register
from kernelfields.serving import load_chain

FIXED = {"prior_variance": 1.0, "random_state": 0, "max_iter": 30, "tol": 1e-6}


@register("decay over time")
class Decay(Kernel):
    """k(x, z) = exp(-t(x)) exp(-t(z)): t is the time between two positions, or the value of the column itself."""

    def __init__(self, column=0, between=False):
        self.column = column
        self.between = between

    @property
    def own_columns(self):
        return (self.column,)

    def feature_map(self, X):
        seen = X if isinstance(X, np.ndarray) else X.toarray()
        times = seen[:, self.column :: seen.shape[1] // 2] if self.between else seen[:, [self.column]]
        return np.exp(-0.01 * np.abs(times[:, -1:] - times[:, :1] * self.between))

    def _block(self, X, Z):
        return self.feature_map(X) @ self.feature_map(X if Z is None else Z).T

    def _diagonal(self, X):
        return self.feature_map(X)[:, 0] ** 2


def timed(n=10, length=30):
    """Sequences with a column of times, and labels that keep to the one before after a short time alone."""
    X, y, random = [], [], np.random.default_rng(n)
    for _ in range(n):
        times = np.cumsum(random.exponential(100.0, size=length))
        labels = np.cumsum(random.random(length) < 0.3) % 2
        X.append(np.column_stack([times, labels + random.normal(size=length), 40.0 * random.normal(size=length)]))
        y.append(labels)
    return X, y


def scaled_by_hand(rows, kept=(0,)):
    """A function that brings columns to one scale, but for some."""
    centre, spread = spreads(rows, np.ones(len(rows)))
    centre[list(kept)], spread[list(kept)] = 0.0, 1.0
    return lambda own: (own - centre) / np.where(spread > 0, spread, 1.0)


def same_marginals(field, X, other, given):
    for own, expected in zip(field.predict_marginals(X), other.predict_marginals(given), strict=True):
        np.testing.assert_allclose(own, expected, atol=1e-9)


def chain(**settings):
    edges = EdgeCliques(Decay(0, between=True), window=(1, 0))
    return ChainCRF(Columns(Linear(), 1), edges=edges, **{"window": 1, **FIXED, **settings})


def test_a_scale_leaves_the_times_of_edges_as_they_come(tmp_path):
    X, y = timed()
    by_hand = [scaled_by_hand(np.vstack(X))(x) for x in X]
    field = chain(scale=True).fit(X, y)
    same_marginals(field, X, chain(scale=False).fit(by_hand, y), by_hand)
    field.save(tmp_path / "model.kf")
    for again in (load(tmp_path / "model.kf"), load_chain(tmp_path / "model.kf")):
        same_marginals(again, X, field, X)


def test_times_have_no_statistics_and_stay_beside_those_of_others(tmp_path):
    X, y = timed()
    joined = []
    for x in X:
        made = WindowStatistics()(x[:, 1:], Layout(np.array([0, len(x)])))
        joined.append(np.hstack([x, made[:, 2:]]))
    by_hand = [scaled_by_hand(np.vstack(joined))(x) for x in joined]
    field = chain(window="statistics", scale=True).fit(X, y)
    assert field.n_features_in_ == 3
    same_marginals(field, X, chain(scale=False).fit(by_hand, y), by_hand)
    edges = EdgeCliques(Decay(0, between=True), window=(1, 0))
    linear = ChainCRF("linear", edges=edges, window="statistics", scale=False, **FIXED).fit(X, y)
    seen = {row["feature"] for row in linear.weights(top=None).to_rows()} - {None}
    assert {"x0", "mean 5 of x1"} <= seen
    assert not any(" of x0" in name for name in seen)
    field.save(tmp_path / "model.kf")
    for again in (load(tmp_path / "model.kf"), load_chain(tmp_path / "model.kf")):
        same_marginals(again, X, field, X)


def test_columns_of_a_part_of_a_kernel_are_counted_from_its_first():
    assert (Columns(Decay(1), 2) + RBF() * Decay(0)).own_columns == (0, 3)
    assert RBF().own_columns == ()


def graphs(n=3, nodes=12):
    random = np.random.default_rng(n)
    edges = np.array([[i, i + 1] for i in range(nodes - 1)])
    X = [
        (np.column_stack([100.0 * random.random(nodes), random.normal(size=nodes)]), edges, random.normal(size=(11, 2)))
        for _ in range(n)
    ]
    return X, [(x[:, 1] > 0).astype(int) for x, *_ in X]


def test_nodes_and_factors_keep_columns_of_their_own(tmp_path):
    X, y = graphs()
    kernel, edges = Columns(Linear(), 1) + Decay(0), GraphFactors(kernel=Decay(1))
    field = GraphCRF(kernel, edges=edges, neighbours=True, scale=True, **FIXED).fit(X, y)
    of_nodes = scaled_by_hand(np.vstack([Neighbours(own=(0,))(x, _layout(x, e)) for x, e, _ in X]))
    of_edges = scaled_by_hand(np.vstack([e for *_, e in X]), kept=(1,))
    by_hand = [(of_nodes(Neighbours(own=(0,))(x, _layout(x, e))), e, of_edges(f)) for x, e, f in X]
    assert by_hand[0][0].shape[1] == 4  # two columns, one mean and the degree
    other = GraphCRF(kernel, edges=edges, neighbours=False, scale=False, **FIXED).fit(by_hand, y)
    same_marginals(field, X, other, by_hand)
    field.save(tmp_path / "model.kf")
    same_marginals(load(tmp_path / "model.kf"), X, field, X)


def _layout(nodes, edges):
    return Layout(np.array([0, len(nodes)]), {"edge": edges})


def test_rows_of_tables_keep_them_too():
    X, y = (np.concatenate(parts) for parts in timed(6))
    kernel = Columns(Linear(), 1) + Columns(Decay(0), 0, 1)
    field = KernelClassifier(kernel, scale=True, **FIXED).fit(X, y)
    by_hand = scaled_by_hand(X)(X)
    other = KernelClassifier(kernel, scale=False, **FIXED).fit(by_hand, y)
    np.testing.assert_allclose(field.predict_proba(X), other.predict_proba(by_hand), atol=1e-9)


def test_categories_do_not_change_places_with_them():
    X, y = timed(4)
    named = [[{"a": str(row[2] > 0), "b": row[0], "c": row[1]} for row in x] for x in X]
    edges = EdgeCliques(Decay(1, between=True), window=(1, 0))
    field = ChainCRF(edges=edges, prior_variance=1.0, random_state=0).fit(named, y)
    # Numbers would come first, were categories set apart.
    assert field.feature_names_in_[0].startswith("a:")


@pytest.mark.parametrize("column", [3, -1])
def test_columns_that_there_are_not_are_refused(column):
    X, y = timed(3)
    with pytest.raises(ValueError, match=f"own_columns of a kernel names column {column}, and X has 3 features"):
        ChainCRF(Decay(column), scale=True, **FIXED).fit(X, y)
