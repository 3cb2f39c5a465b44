"""Long chains in pieces: the digits of one pass from end to end, for any pieces, threads and forbidden labels."""

import numpy as np
import pytest

from kernelfields.inference import EDGE, ChainFamily, Potentials
from kernelfields.inference.chain import long, plain
from kernelfields.inference.packing import ScaledPasses, exponentials
from kernelfields.numerics import Workers

STRIDE = 16


def potentials(length, n_labels=4, tied=True, forbidden=0.0, stay=2.0, seed=0):
    random = np.random.default_rng(seed)
    node = random.normal(size=(length, n_labels))
    edge = random.normal(size=(1 if tied else length, n_labels, n_labels)) + stay * np.eye(n_labels)
    node[:, 1:][random.random((length, n_labels - 1)) < forbidden] = -np.inf
    edge[:, :, 1:][random.random(edge[:, :, 1:].shape) < forbidden] = -np.inf
    return node, edge


def passed(node, edge, n_pieces, n_threads=1):
    transfer, shift = exponentials(edge)
    if len(edge) > 1:
        transfer[0] = 0.0
    passes = ScaledPasses(transfer, shift, *(np.zeros(node.shape) for _ in range(3)))
    cuts = long.cut_chain(0, len(node), n_pieces, stride=STRIDE, least=2 * STRIDE)
    return long.pass_long_chain(cuts, node, passes, Workers(n_threads), STRIDE), passes


@pytest.mark.parametrize("forbidden", [0.0, 0.3])
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("length", [2500, 2511])
def test_pieces_have_the_digits_of_one_pass(length, tied, forbidden):
    given = potentials(length, tied=tied, forbidden=forbidden)
    whole, passes = passed(*given, 1)
    assert whole.fine
    beliefs = plain.infer(plain.Chains(*given, np.array([0, length])))
    np.testing.assert_allclose(whole.log_partition, beliefs.log_partition[0], rtol=1e-13)
    np.testing.assert_allclose(passes.marginals, beliefs.marginals, atol=1e-12)
    for n_pieces, n_threads in ((2, 1), (5, 3), (9, 2)):
        found, own = passed(*given, n_pieces, n_threads)
        assert found == whole
        for name in ("alpha", "inverse_predicted", "marginals"):
            np.testing.assert_array_equal(getattr(own, name), getattr(passes, name))


def two_worlds(length):
    """Labels 0, 1 and 2, 3 without a step between them: what the first position says is never forgotten."""
    node, edge = potentials(length, stay=0.0)
    edge[0, 2:, 2:], edge[0, :2, 2:], edge[0, 2:, :2] = edge[0, :2, :2], -np.inf, -np.inf
    node = np.tile(node[:, :2], 2)
    node[0, 2:] += 1.0
    return node, edge


def test_chains_that_do_not_forget_are_passed_from_end_to_end():
    given = two_worlds(600)
    whole, passes = passed(*given, 1)
    assert whole.fine
    beliefs = plain.infer(plain.Chains(*given, np.array([0, 600])))
    np.testing.assert_allclose(whole.log_partition, beliefs.log_partition[0], rtol=1e-13)
    found, own = passed(*given, 4, 2)
    assert whole.forgets
    assert not found.forgets
    assert found.log_partition == whole.log_partition
    np.testing.assert_array_equal(own.marginals, passes.marginals)


def test_a_piece_that_has_not_forgotten_is_repaired_and_so_are_those_after_it():
    # The second of four pieces keeps what it began with; the third and the fourth go on from it.
    node, edge = potentials(640, tied=False, stay=0.0)
    edge[160:320, :2, 2:] = edge[160:320, 2:, :2] = -np.inf
    whole, passes = passed(node, edge, 1)
    assert whole.fine
    found, own = passed(node, edge, 4, 2)
    assert found == whole
    np.testing.assert_array_equal(own.alpha, passes.alpha)
    np.testing.assert_array_equal(own.marginals, passes.marginals)


def test_what_doubles_do_not_hold_is_found_in_pieces_as_in_one():
    node, edge = potentials(640)
    edge[0, 0, 1:] = edge[0, 1:, 0] = -2000.0
    node[320:, 1:] += 30.0
    for n_pieces in (1, 4):
        assert not passed(node, edge, n_pieces)[0].fine
    node[400] = -np.inf
    for n_pieces in (1, 4):
        assert not passed(node, edge, n_pieces)[0].fine


@pytest.mark.parametrize("tied", [True, False])
def test_a_family_with_long_chains_answers_alike_on_any_number_of_threads(tied):
    lengths = [30, 20_000, 5, long.LONG + 1, 40]
    node, edge = potentials(sum(lengths), n_labels=3, tied=tied)
    offsets, weights = np.cumsum([0, *lengths]), np.array([1.0, 0.5, 2.0, 1.0, 3.0])
    found = []
    for n_threads, keep in ((1, True), (2, True), (2, False), (3, False)):
        family = ChainFamily(offsets, 3, tied=tied)
        member = family.distribution(Potentials(node, {EDGE: edge}), weights, Workers(n_threads), keep=keep)
        found.append((member.log_partition, member.marginals(), member.mean().edge))
    expected = plain.infer(plain.Chains(node, edge, offsets))
    np.testing.assert_allclose(found[0][0], expected.log_partition, rtol=1e-12)
    np.testing.assert_allclose(found[0][1], expected.marginals, atol=1e-11)
    for log_partition, marginals, steps in found[1:]:
        np.testing.assert_array_equal(log_partition, found[0][0])
        np.testing.assert_array_equal(marginals, found[0][1])
        np.testing.assert_allclose(steps, found[0][2], rtol=1e-11, atol=1e-12)


def test_a_family_whose_chains_do_not_forget_stops_cutting_them():
    node, edge = two_worlds(20_000)
    family, workers = ChainFamily(np.array([0, 20_000]), 4), Workers(2)
    first, second = (family.distribution(Potentials(node, {EDGE: edge}), workers=workers) for _ in range(2))
    assert family.layout.count_pieces(2).tolist() == [1]
    np.testing.assert_array_equal(first.marginals(), second.marginals())


def test_chains_are_cut_where_whole_ones_would_leave_threads_without_work():
    one, many = np.array([10**6]), np.full(40, 50_000)
    assert long.count_pieces(one, 1).tolist() == [1]
    assert long.count_pieces(one, 2).tolist() == [4]
    assert long.count_pieces(one, 16).tolist() == [32]
    assert set(long.count_pieces(many, 2)) == {1}
    assert long.count_pieces(np.array([10**6, 100, 10_000]), 2).tolist() == [4, 1, 1]
    assert long.cut_chain(10, 10 + 2**15, 16) == [10 + 2**12 * i for i in range(9)]
