"""Best labellings on a torch device against the compiled ones of packed chains and against enumeration."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from kernelfields.engines.torch import decoding as torch_decoding  # noqa: E402
from kernelfields.engines.torch.decoding import step_viterbi  # noqa: E402
from kernelfields.engines.torch.steps import DeviceSteps, StepOrder  # noqa: E402
from kernelfields.inference.chain.decoding import viterbi  # noqa: E402
from tests.oracles.chains import enumerate_chain  # noqa: E402


def decoded(node, edge, offsets):
    """The labels and scores of step_viterbi in packed order."""
    order = StepOrder(offsets)
    edge = edge if edge.shape[0] == 1 else edge[order.permutation]
    labels, ranked = step_viterbi(torch.tensor(node[order.permutation]), torch.tensor(edge), DeviceSteps(order))
    scores = np.empty(order.n_sequences)
    scores[order.sequences] = ranked.numpy()
    return labels.numpy()[order.inverse], scores


def random_potentials(rng, lengths, n_labels, tied, values):
    """Potentials from a few values, so that ties abound."""
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    n_edges = 1 if tied else offsets[-1]
    return rng.choice(values, (offsets[-1], n_labels)), rng.choice(values, (n_edges, n_labels, n_labels)), offsets


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("n_labels", [1, 2, 4])
@pytest.mark.parametrize("values", [[0.0, 1.0], [-np.inf, 0.0, 0.5, 1.0], [-4000.0, 0.25, 3000.0]])
def test_ties_go_to_the_lowest_labels_as_in_enumeration(values, n_labels, tied):
    rng = np.random.default_rng(0)
    feasible = 0
    for _ in range(10):
        node, edge, offsets = random_potentials(rng, (3, 1, 4, 4, 2), n_labels, tied, values)
        try:
            oracle = enumerate_chain(node, edge, offsets)
        except ValueError as error:
            with pytest.raises(ValueError, match=str(error)):
                decoded(node, edge, offsets)
            continue
        feasible += 1
        labels, scores = decoded(node, edge, offsets)
        np.testing.assert_array_equal(labels, oracle.labels)
        np.testing.assert_allclose(scores, oracle.scores, rtol=1e-14)
    assert feasible or (n_labels < 4 and -np.inf in values)


@pytest.mark.parametrize("tied", [True, False])
def test_equal_to_the_compiled_pass_whatever_the_block(tied, monkeypatch):
    rng = np.random.default_rng(1)
    lengths = rng.integers(1, 50, size=120)
    node, edge, offsets = random_potentials(rng, lengths, 5, tied, [0.0, 1.0])
    node += rng.normal(size=node.shape)
    for most_entries in (1, 25 * 7, 1 << 26):
        monkeypatch.setattr(torch_decoding, "_MOST_ENTRIES", most_entries)
        for ours, theirs in zip(decoded(node, edge, offsets), viterbi(node, edge, offsets), strict=True):
            np.testing.assert_array_equal(ours, theirs)
