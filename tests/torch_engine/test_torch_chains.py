"""Chains on a torch device against the compiled passes on threads, and where doubles would fail."""

import numpy as np
import pytest

from tests.samples import chain_potentials, faint_chain

torch = pytest.importorskip("torch")

from kernelfields.engines.torch.chains import TorchPotentials  # noqa: E402
from kernelfields.engines.torch.family import TorchChainFamily  # noqa: E402
from kernelfields.inference import EDGE, Potentials  # noqa: E402
from kernelfields.kernels.tensors import on_host  # noqa: E402
from tests.arrays import infer_chains  # noqa: E402
from tests.oracles.chains import enumerate_chain  # noqa: E402


class OnDevice:
    """Chains inferred on a device, asked and answering with arrays."""

    def __init__(self, node, edge, offsets, weights=None, device="cpu", compiled=None):
        self.device = device
        self.family = TorchChainFamily(offsets, node.shape[1], tied=len(edge) == 1, device=device, compiled=compiled)
        self.member = self.family.distribution(self.put(node, edge), self.family.arrangement.place_array(weights))

    def put(self, node, edge):
        return self.family.arrangement.place_potentials(Potentials(node, {EDGE: edge}))

    @property
    def log_partition(self):
        return on_host(self.member.log_partition)

    @property
    def rescued(self):
        return [] if self.member.rescued is None else self.member.rescued.sequences.tolist()

    def marginals(self, group=None):
        return on_host(self.member.marginals(group))

    def gradient(self):
        return tuple(map(on_host, self.member.mean().arrays))

    def hessian_product(self, d_node, d_edge):
        return tuple(map(on_host, self.member.covariance_product(self.put(d_node, d_edge)).arrays))


def assert_same(ours, theirs, directions, atol=1e-10):
    """All that beliefs answer, of the device (ours) and of the threads (theirs)."""
    np.testing.assert_allclose(ours.log_partition, theirs.log_partition, rtol=1e-13, atol=atol)
    np.testing.assert_allclose(ours.marginals(), theirs.node_marginals, rtol=0, atol=atol)
    np.testing.assert_allclose(ours.marginals(EDGE), theirs.edge_marginals(), rtol=0, atol=atol)
    for mine, yours in zip(ours.gradient(), theirs.gradient(), strict=True):
        np.testing.assert_allclose(mine, yours, rtol=1e-12, atol=atol)
    products = ours.hessian_product(*directions), theirs.hessian_product(*directions)
    for mine, yours in zip(*products, strict=True):
        np.testing.assert_allclose(mine, yours, rtol=1e-10, atol=atol)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("constrained", [False, True])
def test_equal_to_threads_on_ragged_batches(tied, constrained):
    rng = np.random.default_rng(7)
    lengths = np.concatenate([rng.integers(1, 40, size=300), [1] * 5, [17] * 600])
    node, edge, offsets = chain_potentials(rng, 7, 3.0, tied=tied, lengths=rng.permutation(lengths))
    if constrained:
        edge[:, rng.random((7, 7)) < 0.3] = -np.inf
        edge[:, np.arange(7), np.arange(7)] = 0.0
        node[offsets[:-1], 2] = -np.inf
    weights = rng.uniform(0, 2, size=len(lengths))
    position_weights = np.repeat(weights, np.diff(offsets))
    directions = rng.normal(size=node.shape), rng.normal(size=edge.shape)
    ours = OnDevice(node, edge, offsets, weights)
    assert_same(ours, infer_chains(node, edge, offsets, position_weights=position_weights), directions, 2e-10)
    assert ours.rescued == []


def test_only_the_sequences_that_need_it_are_rescued():
    rng = np.random.default_rng(0)
    node, edge, offsets = chain_potentials(rng, 3)
    node[offsets[2] : offsets[3]] *= 2000
    assert OnDevice(node, edge, offsets).rescued == [2]


def test_evidence_that_turns_around_is_not_lost_to_underflow():
    # Half way the group that wins in the end is behind by e^-900: 0 in doubles, and no flag from a scale.
    node = np.zeros((61, 4))
    node[:30, :2] = 30.0
    node[30:60, :2] = -31.0
    node[:, 1] += 0.5
    edge = np.full((1, 4, 4), -np.inf)
    edge[0, :2, :2] = edge[0, 2:, 2:] = [[0.3, -0.2], [0.0, 0.1]]
    offsets = np.array([0, 60, 61])
    directions = np.random.default_rng(0).normal(size=node.shape), np.zeros(edge.shape)
    ours = OnDevice(node, edge, offsets)
    assert ours.rescued == [0]
    assert_same(ours, infer_chains(node, edge, offsets), directions)


def test_a_step_that_underflows_is_not_taken_for_a_forbidden_one():
    # The only way into label 1 costs 2000 nats, exp(-2000) = 0; evidence of 30 nats a step makes it worth it.
    node = np.zeros((110, 2))
    node[1:, 1] = 30.0
    node[0, 1] = -np.inf
    ours = OnDevice(node, np.array([[[0.0, -2000.0], [-2000.0, 0.0]]]), np.array([0, 110]))
    assert ours.rescued == [0]
    np.testing.assert_allclose(ours.log_partition, 109 * 30 - 2000, rtol=1e-14)
    np.testing.assert_allclose(ours.marginals()[1:, 1], 1.0, atol=1e-12)


def test_labels_that_the_future_all_but_excludes_do_not_spoil_derivatives():
    # Label 1 is as likely as label 0 until evidence of e^-715 arrives: its marginal is a subnormal number then,
    # while no filtered probability is that small.
    node = np.zeros((12, 2))
    node[5:7, 1] = -505.0, -210.0
    edge = np.array([[[0.0, -300.0], [-730.0, 0.0]]])
    offsets = np.array([0, 12])
    ours, theirs = OnDevice(node, edge, offsets), infer_chains(node, edge, offsets)
    assert ours.rescued == []
    assert 0.0 < theirs.node_marginals[:5, 1].max() < np.finfo(float).tiny
    directions = np.random.default_rng(1).normal(size=node.shape), np.ones(edge.shape)
    assert_same(ours, theirs, directions)


@pytest.mark.parametrize("garbage", [np.nan, np.inf, -np.inf, 1e300])
@pytest.mark.parametrize("spread", [1.0, 4000.0])
def test_edge_potentials_at_starts_are_never_read(garbage, spread):
    rng = np.random.default_rng(1)
    node, edge, offsets = chain_potentials(rng, 3, spread, tied=False)
    clean = edge.copy()
    clean[offsets[:-1]] = 0.0
    edge[offsets[:-1]] = garbage
    ours, theirs = OnDevice(node, edge, offsets), OnDevice(node, clean, offsets)
    directions = rng.normal(size=node.shape), rng.normal(size=edge.shape)
    np.testing.assert_array_equal(ours.log_partition, theirs.log_partition)
    for a, b in zip(ours.gradient(), theirs.gradient(), strict=True):
        np.testing.assert_array_equal(a, b)
    for a, b in zip(ours.hessian_product(*directions), theirs.hessian_product(*directions), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("tied", [True, False])
def test_the_first_infeasible_sequence_is_named_as_given(tied):
    node, edge, offsets = chain_potentials(np.random.default_rng(2), 2, tied=tied)
    node[offsets[3] + 1] = node[offsets[4] + 1] = -np.inf  # of lengths 3 and 5: sequence 4 is ranked first
    with pytest.raises(ValueError, match="sequence 3: every labelling is forbidden"):
        OnDevice(node, edge, offsets)


def test_inference_leaves_its_arguments_alone():
    rng = np.random.default_rng(3)
    node, edge, offsets = chain_potentials(rng, 3, 4000.0, tied=False)
    family = TorchChainFamily(offsets, 3, tied=False)
    here = family.arrangement.place_potentials(Potentials(node, {EDGE: edge}))
    along = family.arrangement.place_potentials(
        Potentials(rng.normal(size=node.shape), {EDGE: rng.normal(size=edge.shape)})
    )
    copies = [array.clone() for array in (*here.arrays, *along.arrays)]
    member = family.distribution(here)
    first = member.covariance_product(along)
    for tensor, copy in zip((*here.arrays, *along.arrays), copies, strict=True):
        assert torch.equal(tensor, copy)
    here.edge.zero_()  # potentials may be moved in place while the distribution is in use
    for one, other in zip(first.arrays, member.covariance_product(along).arrays, strict=True):
        assert torch.equal(one, other)


def test_arrays_that_do_not_fit_are_refused():
    node, edge, offsets = chain_potentials(np.random.default_rng(5), 3)
    node, edge = torch.tensor(node), torch.tensor(edge)

    def infer(node, edge, compiled=None):
        return TorchChainFamily(offsets, 3, compiled=compiled).distribution(TorchPotentials(node, {EDGE: edge}))

    with pytest.raises(ValueError, match=r"node potentials must have shape \(21, labels\).* got \(20, 3\)"):
        infer(node[1:], edge)
    with pytest.raises(ValueError, match=r"edge potentials must have shape .* got \(2, 3, 3\)"):
        infer(node, edge.repeat(2, 1, 1))
    with pytest.raises(TypeError, match=r"node potentials must be float64, got torch\.float32"):
        infer(node.float(), edge)
    with pytest.raises(ValueError, match="must be contiguous"):
        infer(node.T.contiguous().T, edge)
    with pytest.raises(ValueError, match=r"edge direction has shape \(3, 3\), expected \(1, 3, 3\)"):
        infer(node, edge).covariance_product(TorchPotentials(node, {EDGE: edge[0]}))
    with pytest.raises(ValueError, match="compiled passes are for one transition matrix"):
        infer(node, edge.repeat(21, 1, 1), compiled=True)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("n_labels", [1, 2, 7, 26, 33, 64])
@pytest.mark.parametrize("forbidden", [0.0, 0.1])
def test_compiled_kernels_equal_their_plain_twin(n_labels, forbidden):
    pytest.importorskip("triton")
    rng = np.random.default_rng(n_labels)
    lengths = np.concatenate([rng.integers(1, 60, size=200), [700]])
    node, edge, offsets = chain_potentials(rng, n_labels, 3.0, lengths=lengths)
    edge[:, rng.random((n_labels, n_labels)) < forbidden] = -np.inf
    edge[:, np.arange(n_labels), np.arange(n_labels)] = 0.0
    node[offsets[3] : offsets[4]] *= 2000
    weights = rng.uniform(0, 2, size=len(lengths))
    position_weights = np.repeat(weights, lengths)
    directions = rng.normal(size=node.shape), rng.normal(size=edge.shape)
    compiled = OnDevice(node, edge, offsets, weights, "cuda")
    assert compiled.member.compiled
    plain = OnDevice(node, edge, offsets, weights, "cuda", compiled=False)
    assert compiled.rescued == plain.rescued
    for ours in (compiled, plain):
        assert_same(ours, infer_chains(node, edge, offsets, position_weights=position_weights), directions, 1e-9)


@pytest.mark.parametrize("nats", range(10))
def test_labels_of_few_digits_are_inferred_in_logarithms(nats):
    node, edge, offsets = faint_chain(nats)
    found, exact = OnDevice(node, edge, offsets), enumerate_chain(node, edge, offsets)
    np.testing.assert_allclose(found.log_partition, exact.log_partition, rtol=1e-13)
    np.testing.assert_allclose(found.marginals(), exact.node_marginals, rtol=1e-12)
