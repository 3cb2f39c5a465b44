"""Gibbs sampling: draws follow the distribution and keep to hard constraints."""

import inspect

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from kernelfields import GraphCRF
from kernelfields.data import grid_edges
from kernelfields.inference import plan_inference
from kernelfields.inference.approximate.gibbs_compiled import largest_spread
from tests.arrays import decode_graphs, infer_graphs, sample_graphs
from tests.oracles.graphs import GraphEnumeration


@pytest.mark.parametrize("method", ["trw", "loopy", "mean-field"])
def test_samples_follow_the_distribution(method):
    rng = np.random.default_rng(5)
    offsets, members, node = [0, 3, 5], [np.array([[0, 1], [1, 2], [2, 0], [3, 4]])], rng.normal(size=(5, 2))
    factors = [rng.normal(size=(1, 2, 2))]
    plan = plan_inference(offsets, members, 2, method)
    drawn = sample_graphs(plan, node, factors, 4000, 0)
    assert drawn.shape == (4000, 5)
    exact = GraphEnumeration(offsets, members, 2).infer(node, factors)
    np.testing.assert_allclose((drawn[..., None] == np.arange(2)).mean(axis=0), exact.node_marginals, atol=0.04)
    np.testing.assert_array_equal(drawn, sample_graphs(plan, node, factors, 4000, 0))
    assert sample_graphs(plan, node, factors, 0).shape == (0, 5)
    with pytest.raises(ValueError, match="n_samples must be a whole number"):
        sample_graphs(plan, node, factors, 1.5)


@pytest.mark.parametrize("method", ["mean-field", "trw"])
def test_colourings_are_found_and_kept(method):
    """Neighbours of a ring of nine must differ, three colours: no step of marginals or samples breaks the rule."""
    ring = np.stack([np.arange(9), np.roll(np.arange(9), -1)], axis=1)
    table = np.where(np.eye(3), -np.inf, 0.0)[None]
    node = np.tile([2.0, 0.0, 0.0], (9, 1))
    plan = plan_inference([0, 9], [ring], 3, method)
    labels, scores = decode_graphs(plan, node, [table])
    assert np.all(labels != np.roll(labels, 1))
    assert scores[0] == pytest.approx(2.0 * np.sum(labels == 0))
    drawn = sample_graphs(plan, node, [table], 50, 1)
    assert np.all(drawn != np.roll(drawn, 1, axis=1))
    assert np.all(infer_graphs(plan, node, [table]).factor_marginals(0)[:, np.eye(3, dtype=bool)] == 0)


def test_a_graph_without_allowed_labelling_is_named():
    """A triangle cannot have two colours; the pair before it can."""
    table = np.where(np.eye(2), -np.inf, 0.0)[None]
    members = [np.array([[0, 1], [2, 3], [3, 4], [4, 2]])]
    plan, node = plan_inference([0, 2, 5], members, 2, "mean-field"), np.zeros((5, 2))
    with pytest.raises(ValueError, match="graph 1: no allowed labelling was found, so 'mean-field'"):
        infer_graphs(plan, node, [table])
    with pytest.raises(ValueError, match="graph 1: no allowed labelling was found, so 'sampling'"):
        sample_graphs(plan, node, [table], 1)


def test_a_decoded_score_of_minus_infinity_says_that_nothing_allowed_was_found():
    table = np.where(np.eye(2), -np.inf, 0.0)[None]
    plan = plan_inference([0, 3], [np.array([[0, 1], [1, 2], [2, 0]])], 2, "trw")
    assert np.isneginf(decode_graphs(plan, np.zeros((3, 2)), [table])[1][0])


def ising(coupling):
    return coupling * np.array([[[1.0, -1.0], [-1.0, 1.0]]])


def test_the_spread_of_chains_is_r_hat_by_its_definition():
    """R-hat^2 = ((n - 1) / n W + B) / W of the indicators of a label, B the variance of their means in each half."""
    rng, n = np.random.default_rng(0), 30
    labels = rng.integers(3, size=(8, n, 5))
    labels[0, :, 4] = 2
    counts = np.stack([(labels == b).sum(axis=1) for b in range(3)]).transpose(2, 0, 1).astype(np.int32)
    seen = labels[..., None] == np.arange(3)
    within = seen.var(axis=1, ddof=1).mean(axis=0)
    between = seen.mean(axis=1).var(axis=0, ddof=1)
    expected = np.sqrt((n - 1) / n + between / within)
    assert largest_spread(counts, n) == pytest.approx(expected.max())
    for node in range(5):
        own = max(1.0, expected[node].max())
        assert largest_spread(counts[node : node + 1], n) == pytest.approx(own)


def test_chains_that_never_move_have_no_finite_spread_unless_they_agree():
    counts = np.zeros((1, 2, 8), dtype=np.int32)
    counts[0, 0] = 50
    assert largest_spread(counts, 50) == 1.0
    counts[0, :, 3] = counts[0, ::-1, 3]
    assert largest_spread(counts, 50) == np.inf


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_chains_on_a_grid_beyond_the_critical_coupling_say_that_they_have_not_mixed(seed):
    """144 nodes, coupling .5: the spins of a chain hold together for hundreds of sweeps."""
    plan = plan_inference([0, 2, 146], [np.concatenate([[[0, 1]], grid_edges(12, 12) + 2])], 2, "trw")
    with pytest.warns(ConvergenceWarning, match=r"on 1 of 2 graphs, the worst is 1: R-hat of its 4 chains is 1\.\d\d "):
        sample_graphs(plan, np.zeros((146, 2)), [ising(0.5)], 4, seed)


def test_chains_mix_where_pairs_are_weak():
    """No warning, which would be an error."""
    plan = plan_inference([0, 144], [grid_edges(12, 12)], 2, "trw")
    drawn = sample_graphs(plan, np.zeros((144, 2)), [ising(0.2)], 40, 0)
    assert abs(2 * drawn.mean() - 1) < 0.1


def test_two_islands_are_reported_even_where_all_chains_could_start_on_one():
    """Chains start from either label at all nodes, so that the two labellings of strong pairs are both there."""
    plan = plan_inference([0, 9], [grid_edges(3, 3)], 2, "trw")
    for seed in range(5):
        with pytest.warns(ConvergenceWarning, match="R-hat of its 4 chains is inf after 1,600 sweeps"):
            sample_graphs(plan, np.zeros((9, 2)), [ising(20.0)], 1, seed)


def test_the_warning_of_a_field_names_the_line_that_drew():
    rng, pairs = np.random.default_rng(0), grid_edges(3, 3)
    X = [{"x": rng.normal(size=(9, 1)), "edges": pairs} for _ in range(30)]
    y = [np.repeat(rng.integers(2), 9) for _ in X]
    crf = GraphCRF("linear", inference="junction", prior_variance=100.0, tol=1e-2).fit(X, y)
    crf.set_params(inference="trw")
    with pytest.warns(ConvergenceWarning, match='use method="perfect"') as caught:
        crf.sample(X[:1], 2, 0)
    assert caught[0].filename == __file__
    assert caught[0].lineno == inspect.currentframe().f_lineno - 2
