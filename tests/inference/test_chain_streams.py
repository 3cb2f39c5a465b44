"""Streams of chains: filtered, lagged and settled answers against enumeration and against passes over whole chains."""

import numpy as np
import pytest

from kernelfields.inference.chain import plain
from kernelfields.inference.chain.decoding import viterbi
from kernelfields.inference.chain.streaming import ChainStream
from tests.arrays import infer_chains
from tests.oracles.chains import enumerate_chain


def random_potentials(seed, n_positions, n_labels, *, tied=True, spread=1.0, forbidden=0.0):
    random = np.random.default_rng(seed)
    node = spread * random.normal(size=(n_positions, n_labels))
    edge = spread * random.normal(size=(1 if tied else n_positions, n_labels, n_labels))
    edge[random.random(edge.shape) < forbidden] = -np.inf
    edge[:, np.arange(n_labels), np.arange(n_labels)] = 0.0
    return node, edge


def marginals_of(node, edge):
    return infer_chains(node, edge, np.array([0, len(node)])).node_marginals


def opened(edge, **settings):
    return ChainStream(edge.shape[-1], edge[0] if len(edge) == 1 else None, **settings)


def streamed(stream, node, edge, sizes=(), last=None):
    """Push all rows, in blocks of these sizes and then one by one; return all labels and marginals."""
    answers, begin = [], 0
    for size in [*sizes, *[1] * len(node)]:
        rows = slice(begin, min(begin + size, len(node)))
        if rows.start < len(node):
            answers.append(stream.push(node[rows], None if len(edge) == 1 else edge[rows]))
        begin = rows.stop
    answers.append(stream.end(last=last))
    labels, marginals = zip(*answers, strict=True)
    return np.concatenate(labels), np.concatenate(marginals)


@pytest.mark.slow
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("lag", [0, 1, 2, 7, np.inf])
def test_answers_are_enumerated_probabilities_given_what_has_come(lag, tied):
    node, edge = random_potentials(1, 6, 3, tied=tied, forbidden=0.2)
    last = np.array([0.5, -np.inf, 1.0])
    labels, marginals = streamed(opened(edge, lag=lag), node, edge, last=last)
    for t in range(6):
        seen = int(min(t + lag + 1, 6))
        given = node[:seen].copy()
        if t + lag >= 6:  # answered by the end, which is known by then
            given[-1] += last
        exact = enumerate_chain(given, edge if tied else edge[:seen], np.array([0, seen]))
        assert np.allclose(marginals[t], exact.node_marginals[t], rtol=0, atol=1e-13)
    assert np.array_equal(labels, marginals.argmax(axis=1))


@pytest.mark.parametrize("every", [2, 3])
def test_groups_see_what_has_come_when_they_are_complete(every):
    node, edge = random_potentials(2, 11, 3)
    _, marginals = streamed(opened(edge, lag=2, every=every), node, edge)
    for t in range(11):
        seen = min(t // every * every + every + 2, 11)
        assert np.allclose(marginals[t], marginals_of(node[:seen], edge)[t], rtol=0, atol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("jointly", [False, True])
@pytest.mark.parametrize("lag", [0, 3, np.inf])
@pytest.mark.parametrize("every", [1, 4])
def test_blocks_make_no_difference(jointly, lag, every):
    node, edge = random_potentials(3, 200, 4, tied=False, forbidden=0.2)
    settings = {"lag": lag, "every": every, "jointly": jointly}
    one_by_one = streamed(opened(edge, **settings), node, edge)
    for sizes in ([200], [7] * 40, [150, 3, 40]):
        labels, marginals = streamed(opened(edge, **settings), node, edge, sizes)
        assert np.array_equal(labels, one_by_one[0])
        assert np.allclose(marginals, one_by_one[1], rtol=0, atol=1e-14)


@pytest.mark.parametrize("spread", [0.1, 1.0, 30.0, 800.0])
@pytest.mark.parametrize("tied", [True, False])
def test_without_a_limit_to_the_lag_answers_are_those_of_the_whole_chain(spread, tied):
    """Large spreads leave the range of doubles, and are taken in logarithms."""
    node, edge = random_potentials(4, 300, 5, tied=tied, spread=spread, forbidden=0.3)
    _, marginals = streamed(opened(edge, lag=np.inf), node, edge, [64] * 10)
    assert np.allclose(marginals, marginals_of(node, edge), rtol=0, atol=1e-12)
    labels, _ = streamed(opened(edge, lag=np.inf, jointly=True), node, edge, [64] * 10)
    assert np.array_equal(labels, viterbi(node, edge, np.array([0, 300]))[0])


def test_lagged_marginals_in_logarithms_are_those_of_the_chain_so_far():
    node, edge = random_potentials(5, 60, 4, spread=700.0, forbidden=0.3)
    _, marginals = streamed(opened(edge, lag=3), node, edge, [11] * 5)
    for t in range(60):
        seen = min(t + 4, 60)
        assert np.allclose(marginals[t], marginals_of(node[:seen], edge)[t], rtol=0, atol=1e-12)


def test_survivors_that_agree_are_answered_at_once():
    """Labels settled by a strong position are those of the whole; their marginals are given all that has come."""
    node = np.zeros((4, 2))
    node[1, 1] = 50.0
    edge = np.array([[[1.0, -np.inf], [0.0, 1.0]]])  # from 0 no way to 1
    stream = opened(edge, lag=np.inf, jointly=True)
    assert len(stream.push(node[:2])[0]) == 0
    labels, marginals = stream.push(node[2:3])
    assert labels.tolist() == [1, 1]
    assert np.allclose(marginals, marginals_of(node[:3], edge)[:2])
    assert stream.n_pending == 1


def test_survivors_that_disagree_wait_no_longer_than_the_lag():
    """Two labels that hardly ever change: the best survivor says the label, and may be another one the next time."""
    edge = np.array([[[0.0, -9.0], [-9.0, 0.0]]])
    node = np.random.default_rng(6).normal(size=(300, 2))
    for lag in (0, 2, 5):
        stream, labels = opened(edge, lag=lag, jointly=True), []
        for t in range(300):
            labels += stream.push(node[t : t + 1])[0].tolist()
            assert stream.n_pending <= lag
            if labels and len(labels) == t + 1 - lag:
                best = viterbi(node[: t + 1], edge, np.array([0, t + 1]))[0]
                assert labels[-1] == best[t - lag]
        assert len(set(labels)) == 2


@pytest.mark.parametrize("tied", [True, False])
def test_labels_given_out_too_early_are_followed_by_what_may_follow(tied):
    """However short the lag, no step is forbidden, nor is the last label."""
    node, edge = random_potentials(11, 400, 5, tied=tied, spread=2.0)
    edge[:, np.random.default_rng(0).random((5, 5)) < 0.5] = -np.inf
    edge[:, np.arange(5), (np.arange(5) + 1) % 5] = 0.0
    edge[:, np.arange(5), np.arange(5)] = -1.0
    last = np.array([-np.inf, 0.0, 0.0, 0.0, 0.0])
    for lag in (0, 1, 2):
        labels, _ = streamed(opened(edge, lag=lag, jointly=True), node, edge, [37] * 10, last=last if lag else None)
        assert len(labels) == 400
        assert (edge[0, labels[:-1], labels[1:]] > -np.inf).all()
        assert lag == 0 or labels[-1] != 0


def test_nothing_may_follow_a_label_given_out_too_early():
    """Label 0 is the better one until all but label 1 is forbidden, which may not follow it; a lag of one waits."""
    edge, node = np.array([[[0.0, -np.inf], [0.0, 0.0]]]), np.array([[1.0, 0.0], [-np.inf, 0.0]])
    stream = opened(edge, jointly=True)
    assert stream.push(node[:1])[0].tolist() == [0]
    for _ in range(2):
        with pytest.raises(ValueError, match=r"position 1 of the stream: .* contradicts labels that were given out"):
            stream.push(node[1:])
    assert streamed(opened(edge, lag=1, jointly=True), node, edge, [1, 1])[0].tolist() == [1, 1]


def test_memory_stays():
    node, edge = random_potentials(7, 100, 4)
    for jointly in (False, True):
        stream, sizes = opened(edge, lag=5, jointly=jointly), set()
        for _ in range(50):
            stream.push(node)
            sizes.add(stream.n_bytes)
        assert len(sizes) <= 2


def test_a_push_that_fails_changes_nothing():
    node, edge = random_potentials(8, 20, 3)
    impossible = np.full((3, 3), -np.inf)
    for jointly in (False, True):
        untouched, stream = (opened(edge, lag=2, jointly=jointly) for _ in range(2))
        for wrong, message in (
            (np.full((1, 3), np.nan), "must be finite or -inf"),
            (np.zeros((1, 4)), "must have shape"),
            (np.vstack([node[:2], impossible]), "position 2 of the stream: every labelling"),
        ):
            with pytest.raises(ValueError, match=message):
                stream.push(wrong)
        assert np.allclose(stream.push(node[:9])[1], untouched.push(node[:9])[1], rtol=0, atol=1e-14)
        with pytest.raises(ValueError, match="position 11 of the stream"):
            stream.push(np.vstack([node[:2], impossible]))
        with pytest.raises(ValueError, match=r"every labelling|no labelling"):
            stream.end(last=np.full(3, -np.inf))
        assert np.allclose(stream.push(node[9:])[1], untouched.push(node[9:])[1], rtol=0, atol=1e-14)
        assert np.allclose(stream.end()[1], untouched.end()[1], rtol=0, atol=1e-14)
        for call in (stream.end, lambda ended=stream: ended.push(node)):
            with pytest.raises(ValueError, match="has ended"):
                call()


def test_tables_of_steps_have_to_fit():
    node, edge = random_potentials(9, 4, 3, tied=False)
    with pytest.raises(ValueError, match="a table for each position"):
        opened(edge).push(node)
    with pytest.raises(ValueError, match="one table serves all"):
        opened(edge[:1]).push(node, edge)
    with pytest.raises(ValueError, match="edge potentials must have shape"):
        opened(edge).push(node, edge[1:])
    with pytest.raises(ValueError, match="edge potentials must have shape"):
        ChainStream(3, np.zeros((2, 2)))


def test_nothing_pushed_is_nothing_answered():
    stream = ChainStream(3, np.zeros((3, 3)), lag=1)
    assert [each.shape for each in stream.push(np.empty((0, 3)))] == [(0,), (0, 3)]
    assert [each.shape for each in stream.end()] == [(0,), (0, 3)]


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("split", [0, 1, 4])
def test_positions_that_come_with_the_end_are_answered_together(tied, split):
    """The last ones see the whole chain, whatever the lag."""
    node, edge = random_potentials(10, 6, 3, tied=tied)
    last = np.array([0.5, -np.inf, 1.0])
    whole = node.copy()
    whole[-1] += last
    for jointly in (False, True):
        stream = opened(edge, lag=0, jointly=jointly)
        stream.push(node[:split], None if tied else edge[:split])
        pending = stream.n_pending
        labels, marginals = stream.end(node[split:], None if tied else edge[split:], last=last)
        assert len(labels) == 6 - split + pending
        assert np.allclose(marginals, marginals_of(whole, edge)[split - pending :], rtol=0, atol=1e-13)
        if split == 0:
            assert np.array_equal(labels, (viterbi(whole, edge, np.array([0, 6]))[0], marginals.argmax(1))[not jointly])


# Found among thousands: steps that underflow stand in for what cannot be told, and have to have no say.
def in_logarithms(node, edge):
    """Marginals (T, L) of one chain in the log domain; None where every labelling is forbidden."""
    try:
        return plain.infer(plain.Chains(node, edge, np.array([0, len(node)]))).marginals
    except ValueError:
        return None


@pytest.mark.parametrize("seed", [468, 3391, *range(60)])
def test_hundreds_of_nats_and_forbidden_labels_leave_no_trace_of_rounding_in_a_stream(seed):
    """Filtered and lagged marginals are those of the chain so far in logarithms, or its first position says no."""
    rng = np.random.default_rng(seed)
    n_labels, length, tied = int(rng.integers(2, 6)), int(rng.integers(1, 8)), bool(rng.integers(2))
    scale, forbidden = rng.choice([1, 10, 100, 300, 400, 500, 700, 800]), rng.choice([0, 0.1, 0.3])
    node = scale * rng.normal(size=(length, n_labels))
    edge = scale * rng.normal(size=(1 if tied else length, n_labels, n_labels)) * rng.choice([0.1, 1, 1])
    node[rng.random(node.shape) < forbidden] = -np.inf
    edge[rng.random(edge.shape) < forbidden] = -np.inf
    so_far = [in_logarithms(node[:seen], edge if tied else edge[:seen]) for seen in range(1, length + 1)]
    possible = [exact is not None for exact in so_far]
    for lag in range(length + 1):
        stream = opened(edge, lag=lag)
        if not all(possible):
            with pytest.raises(ValueError, match=f"position {possible.index(False)} of the stream: every labelling"):
                streamed(stream, node, edge)
            continue
        _, marginals = streamed(stream, node, edge, sizes=[2] if seed % 2 else [])
        for t in range(length):
            exact = so_far[min(t + lag, length - 1)][t]
            np.testing.assert_allclose(marginals[t], exact, rtol=0, atol=1e-10)
