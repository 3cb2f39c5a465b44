"""Perfect sampling: independent draws from p(y) itself where two labels attract, or an error, never a biased draw."""

import copy

import numpy as np
import pytest

from kernelfields import GraphCRF
from kernelfields.data import grid_edges
from kernelfields.inference import plan_inference
from kernelfields.inference.approximate import perfect
from kernelfields.numerics.threads import Workers
from tests.arrays import graph_potentials
from tests.oracles.coupling import coupled_draw
from tests.oracles.graphs import GraphEnumeration


def draws(plan, node, tables, n_samples, random=0, workers=None, **options):
    labellings = plan.labellings(graph_potentials(plan, node, tables), workers)
    return labellings.sample(n_samples, random, **{"method": "perfect"} | options)


def ising(coupling):
    return coupling * np.array([[[1.0, -1.0], [-1.0, 1.0]]])


def chi_square(drawn, chances, least=5.0):
    """Return chi^2 per degree of freedom of labellings (n, N), rare ones taken together until so many are expected."""
    places = drawn @ 2 ** np.arange(drawn.shape[1])  # the labels of the first node change fastest
    order, expected = np.argsort(chances), np.sort(chances) * len(drawn)
    bins = np.minimum(np.cumsum(expected) // least, expected.sum() // least - 1).astype(int)
    expected = np.bincount(bins, expected)
    seen = np.bincount(bins[np.argsort(order)][places], minlength=len(expected))
    kept = expected > 0
    return float(np.sum((seen - expected)[kept] ** 2 / expected[kept]) / (kept.sum() - 1))


@pytest.mark.parametrize(
    ("side", "coupling", "seed"), [(3, 0.3, 0), (3, -0.5, 1), (3, 0.8, 2), (4, 0.3, 3), (4, 0.6, 4), (4, -0.5, 5)]
)
def test_draws_on_grids_have_the_frequencies_of_enumeration(side, coupling, seed):
    """Conditional fields, pairs that attract, and pairs that repel on a grid, whose labels are exchanged."""
    rng, n = np.random.default_rng(seed), side**2
    node, pairs = rng.normal(size=(n, 2)), grid_edges(side, side)
    tables = ising(coupling) + 0.2 * rng.normal(size=(len(pairs), 2, 1)) + 0.2 * rng.normal(size=(len(pairs), 1, 2))
    plan = plan_inference([0, n], [pairs], 2, "trw")
    [exact] = GraphEnumeration([0, n], [pairs], 2).infer(node, [tables]).items
    found = chi_square(draws(plan, node, [tables], 20_000, seed), exact.probabilities)
    assert 0.8 < found < 1.2


def kaufman_log_partition(side, coupling):
    """Return log Z of the Ising model on a square torus (Kaufman, 1949), spins -1 and 1, no field."""
    k = np.arange(2 * side)
    angle = np.cosh(2 * coupling) ** 2 / np.sinh(2 * coupling) - np.cos(np.pi * k / side)
    rate = np.arccosh(angle)
    rate[0] = 2 * coupling + np.log(np.tanh(coupling))  # negative below the critical coupling
    odd, even = side * rate[1::2] / 2, side * rate[0::2] / 2
    logs = [np.sum(np.logaddexp(odd, -odd)), np.sum(np.log(np.abs(2 * np.sinh(odd))))]
    logs += [np.sum(np.logaddexp(even, -even)), np.sum(np.log(np.abs(2 * np.sinh(even))))]
    signs = [1.0, 1.0, 1.0, np.sign(np.prod(np.sign(even)))]
    total = np.sum(np.array(signs) * np.exp(np.array(logs) - max(logs)))
    return side**2 / 2 * np.log(2 * np.sinh(2 * coupling)) - np.log(2) + max(logs) + np.log(total)


def test_the_known_partition_function_is_that_of_enumeration():
    nodes = np.arange(9).reshape(3, 3)
    pairs = np.concatenate([np.stack([nodes.ravel(), np.roll(nodes, -1, axis).ravel()], axis=1) for axis in (0, 1)])
    for coupling in (0.2, 0.44, 0.7):
        exact = GraphEnumeration([0, 9], [pairs], 2).infer(np.zeros((9, 2)), [ising(coupling)])
        assert kaufman_log_partition(3, coupling) == pytest.approx(exact.log_partition[0], rel=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize(("coupling", "sign"), [(0.2, 1), (0.35, 1), (0.35, -1), (0.4, 1)])
def test_the_energy_of_a_torus_of_900_nodes_is_the_known_one(coupling, sign):
    """Sums over pairs of y y' have mean d log Z / d coupling; with pairs that repel, the same but for the sign."""
    nodes = np.arange(900).reshape(30, 30)
    pairs = np.concatenate([np.stack([nodes.ravel(), np.roll(nodes, -1, axis).ravel()], axis=1) for axis in (0, 1)])
    plan = plan_inference([0, 900], [pairs], 2, "trw")
    spins = 2 * draws(plan, np.zeros((900, 2)), [sign * ising(coupling)], 60) - 1
    sums = sign * np.sum(spins[:, pairs[:, 0]] * spins[:, pairs[:, 1]], axis=1)
    known = (kaufman_log_partition(30, coupling + 1e-5) - kaufman_log_partition(30, coupling - 1e-5)) / 2e-5
    assert abs(sums.mean() - known) < 3 * sums.std() / np.sqrt(len(sums))
    assert abs(spins.mean()) < 3 * spins.mean(axis=1).std() / np.sqrt(len(spins))


def random_attracting(rng):
    """Graphs of random pairs in two groups that attract once the labels of a random half of the nodes are exchanged."""
    offsets, side = np.array([0, 5, 6, 13]), rng.random(13) < 0.5
    members = [
        np.array([[0, 1], [2, 1], [3, 4], [6, 7], [12, 8]]),
        np.array([[1, 0], [4, 2], [7, 8], [9, 10], [10, 6]]),
    ]
    tables = []
    for pairs in members:
        table = rng.normal(size=(len(pairs), 2, 2))
        table[:, 1, 1] += (
            rng.exponential(size=len(pairs)) - table[:, 0, 0] - table[:, 1, 1] + table[:, 0, 1] + table[:, 1, 0]
        )
        for m, pair in enumerate(pairs):
            for axis in range(2):
                if side[pair[axis]]:
                    table[m] = np.flip(table[m], axis)
        tables.append(table)
    return offsets, members, rng.normal(size=(13, 2)), tables


@pytest.mark.parametrize("seed", range(5))
def test_compiled_draws_are_those_of_the_plain_algorithm(seed):
    """Several graphs and groups, parallel pairs, isolated nodes; on any number of threads."""
    rng = np.random.default_rng(seed)
    offsets, members, node, tables = random_attracting(rng)
    node[2], node[7] = [0.0, -np.inf], [-np.inf, 0.0]
    plan = plan_inference(offsets, members, 2, "loopy")
    found = draws(plan, node, tables, 30, seed)
    assert np.all(found[:, 2] == 0)
    assert np.all(found[:, 7] == 1)
    np.testing.assert_array_equal(found, draws(plan, node, tables, 30, seed, Workers(3, least_work=1)))
    checked = plan.check_potentials(graph_potentials(plan, node, tables))
    couplings = perfect.find_couplings(offsets, members, checked)
    assert couplings.strength.min() >= 0
    seeds = np.random.default_rng(seed).integers(2**64, size=(30, 3), dtype=np.uint64)
    for g in range(3):
        nodes = slice(offsets[g], offsets[g + 1])
        plain = [coupled_draw(couplings, offsets[g], offsets[g + 1], int(row[g])) for row in seeds]
        np.testing.assert_array_equal(found[:, nodes] ^ couplings.exchanged[nodes], plain)


def test_couplings_are_the_log_odds_of_each_label():
    """field_v + sum of strengths is the difference of scores of y_v = 1 and 0, for exchanged labels, too."""
    offsets, members, node, tables = random_attracting(np.random.default_rng(7))
    plan = plan_inference(offsets, members, 2, "trw")
    couplings = perfect.find_couplings(offsets, members, plan.check_potentials(graph_potentials(plan, node, tables)))
    oracle = GraphEnumeration(offsets, members, 2)
    for labels in np.random.default_rng(0).integers(2, size=(10, 13)):
        states = labels ^ couplings.exchanged
        for v in range(13):
            scores = []
            for label in (0, 1):
                labels[v] = label ^ couplings.exchanged[v]
                rows = [labels[offsets[g] : offsets[g + 1]][None] for g in range(3)]
                scores.append(sum(float(each[0]) for each in oracle.compute_scores(rows, node, tables)))
            labels[v] = states[v] ^ couplings.exchanged[v]
            pairs = slice(couplings.start[v], couplings.start[v + 1])
            odds = couplings.field[v] + couplings.strength[pairs] @ states[couplings.neighbour[pairs]]
            assert odds == pytest.approx(scores[1] - scores[0], abs=1e-12)


TRIANGLE = [np.array([[0, 1], [1, 2], [2, 0]])]


@pytest.mark.parametrize(
    ("members", "n_labels", "tables", "said"),
    [
        (TRIANGLE, 3, np.zeros((1, 3, 3)), "perfect sampling needs two labels, and here are 3; draw by Gibbs"),
        (TRIANGLE, 2, -ising(0.1), "graph 0: perfect sampling needs pairs that attract, and some of these repel"),
        (TRIANGLE, 2, np.where(np.eye(2), -np.inf, 0.0)[None], "pairs that forbid nothing"),
        ([np.array([[0, 1, 2]])], 2, np.zeros((1, 2, 2, 2)), "needs pairs, and here are factors of 3 labels"),
    ],
)
def test_what_cannot_be_drawn_perfectly_is_refused(members, n_labels, tables, said):
    plan = plan_inference([0, 3], members, n_labels, "mean-field")
    with pytest.raises(ValueError, match=said) as caught:
        draws(plan, np.zeros((3, n_labels)), [tables], 2)
    assert 'method="auto"' in str(caught.value)
    assert "\n" not in str(caught.value)


def test_chains_that_do_not_meet_are_an_error_that_names_the_graph():
    pairs = grid_edges(8, 8)
    plan = plan_inference([0, 2, 66], [np.concatenate([[[0, 1]], pairs + 2])], 2, "trw")
    tables = np.concatenate([ising(0.1), np.repeat(ising(2.0), len(pairs), axis=0)])
    checked = plan.check_potentials(graph_potentials(plan, np.zeros((66, 2)), [tables]))
    with pytest.raises(ValueError, match="graph 1: the chains of perfect sampling have not met within 64 sweeps, so"):
        perfect.sample_perfectly(plan.offsets, plan.members, checked, 3, np.random.default_rng(0), Workers(1), 64)


def test_a_node_without_labels_is_named():
    plan = plan_inference([0, 2, 5], [np.array([[2, 3], [3, 4], [4, 2]])], 2, "trw")
    node = np.zeros((5, 2))
    node[3] = -np.inf
    with pytest.raises(ValueError, match="graph 1: no label is left to its node 1"):
        draws(plan, node, [ising(0.2)], 1)


@pytest.fixture(scope="module")
def wide():
    """A field of two labels on grids, inferred approximately, and a grid to ask it about."""
    rng, pairs = np.random.default_rng(0), grid_edges(5, 5)
    X = [{"x": rng.normal(size=(25, 2)), "edges": pairs} for _ in range(8)]
    y = [(each["x"].sum(axis=1) + rng.normal(size=25) > 0).astype(int) for each in X]
    return GraphCRF("linear", inference="trw", tol=1e-2, random_state=0).fit(X, y), X


def test_a_field_draws_independent_labellings_with_the_marginals_of_exact_inference(wide):
    crf, X = wide
    known = [np.array([1, *[None] * 24], dtype=object)] + [[None] * 25] * 7
    drawn = crf.sample(X, 400, 0, known=known, method="perfect")
    assert np.all(np.asarray(drawn[0])[:, 0] == 1)
    exact = copy.copy(crf).set_params(inference="junction")
    marginals = exact.predict_marginals(X, known=known)
    for rows, expected in zip(drawn, marginals, strict=True):
        chance = np.clip(expected[:, 1], 0, 1)
        apart = np.abs(np.asarray(rows).mean(axis=0) - chance)
        assert np.all(apart <= 4.5 * np.sqrt(chance * (1 - chance) / 400) + 1e-12)
    plainly, perfectly = (exact.sample(X, 3, 1, method=method) for method in ("auto", "perfect"))
    assert all(np.array_equal(*each) for each in zip(plainly, perfectly, strict=True))


def test_another_method_is_refused(wide):
    crf, X = wide
    with pytest.raises(ValueError, match="method must be one of 'auto', 'perfect', got 'exact'"):
        crf.sample(X, 3, method="exact")
