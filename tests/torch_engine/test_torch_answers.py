"""Labels of new chains, decoded on a torch device: those of the host, whatever is forbidden or large."""

import numpy as np
import pytest

from kernelfields import ChainCRF, EdgeCliques, NodeCliques, SkipCliques
from kernelfields.inference.chain.decoding import viterbi

torch = pytest.importorskip("torch")

from kernelfields.engines import Torch  # noqa: E402
from kernelfields.engines.torch import family  # noqa: E402
from kernelfields.engines.torch.steps import DeviceSteps  # noqa: E402
from kernelfields.inference.chain.step_passes import StepOrder  # noqa: E402

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
OFFSETS = np.array([0, 3, 4, 11, 12, 19, 24])


def on_device(node, edge, offsets, device, **options):
    steps = DeviceSteps(StepOrder(offsets), device)
    there = (torch.tensor(array, device=device) for array in (node, edge))
    labels, scores = family.best_labels(*there, steps, **options)
    return labels.cpu().numpy(), scores.cpu().numpy()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("table_values", [1, 20, 2**20])
@pytest.mark.parametrize("scale", [1.0, 1e4])
@pytest.mark.parametrize("tied", [True, False])
def test_best_labels_are_those_of_the_host(tied, scale, table_values, device):
    random = np.random.default_rng(int(scale) + tied)
    node = scale * random.normal(size=(24, 4))
    edge = scale * random.normal(size=(1 if tied else 24, 4, 4))
    edge[:, 1, 2] = -np.inf
    node[random.random(node.shape) < 0.2] = -np.inf
    node[:, 0] = np.where(np.isfinite(node[:, 0]), node[:, 0], 0.0)  # a way is left
    labels, scores = on_device(node, edge, OFFSETS, device, table_values=table_values)
    expected, best = viterbi(node, edge, OFFSETS)
    np.testing.assert_array_equal(labels, expected)
    np.testing.assert_allclose(scores, best, rtol=1e-13)


@pytest.mark.parametrize("device", DEVICES)
def test_a_sequence_without_a_labelling_has_no_score(device):
    node, edge = np.zeros((24, 3)), np.zeros((1, 3, 3))
    node[8] = -np.inf
    _, scores = on_device(node, edge, OFFSETS, device)
    np.testing.assert_array_equal(np.isneginf(scores), [False, False, True, False, False, False])


def sequences(seed):
    """Sequences whose labels never step from a to b, nor begin with c."""
    random = np.random.default_rng(seed)
    X = [random.normal(size=(length, 3)) for length in (4, 1, 7, 5, 6, 2)]
    y = []
    for rows in X:
        labels = []
        for row in rows:
            wanted = "b" if row[0] > 0.3 else "c" if row[1] > 0 else "a"
            before = labels[-1] if labels else None
            if (before, wanted) == ("a", "b") or (before is None and wanted == "c"):
                wanted = "a"
            labels.append(wanted)
        y.append(labels)
    return X, y


FIELDS = {
    "tied": {"cliques": [NodeCliques("rbf", rank=8), EdgeCliques()]},
    "steps by kernel": {"cliques": [NodeCliques("rbf", rank=8), EdgeCliques("rbf", rank=4)]},
    "constrained": {"kernel": "rbf", "rank": 8, "constraints": {"transitions": [("a", "b")], "start": ["c"]}},
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", FIELDS)
def test_a_field_answers_from_the_device_as_from_the_host(name, device):
    X, y = sequences(0)
    model = ChainCRF(**FIELDS[name], random_state=0).fit(X, y)
    new, labels = sequences(1)
    plain = {how: model.predict(new, decode=how) for how in ("viterbi", "posterior")}
    marginals, likelihood, entropy = model.predict_marginals(new), model.log_likelihood(new, labels), model.entropy(new)
    model.set_params(engine=Torch(device))
    (there,) = model.answers(new)
    assert isinstance(there.family, family.AnsweredChains)
    for how, expected in plain.items():
        assert [list(each) for each in model.predict(new, decode=how)] == [list(each) for each in expected]
    for ours, theirs in zip(model.predict_marginals(new), marginals, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-9)
    np.testing.assert_allclose(model.log_likelihood(new, labels), likelihood, rtol=1e-9)
    np.testing.assert_allclose(model.entropy(new), entropy, rtol=1e-8)
    pairs = np.concatenate(there.clique_marginals("edge"))
    assert len(pairs) == np.count_nonzero(~there.data.is_start)
    np.testing.assert_allclose(pairs.sum(axis=(1, 2)), 1.0)


def test_scores_stay_on_the_device_while_labels_are_decoded(monkeypatch):
    X, y = sequences(0)
    model = ChainCRF("rbf", rank=8, random_state=0, engine=Torch("cpu")).fit(X, y)
    monkeypatch.setattr(
        family.TorchArrangement, "host_potentials", lambda self, potentials: pytest.fail("scores were read back")
    )
    for how in ("viterbi", "posterior"):
        assert len(model.predict(X, decode=how)) == len(X)


@pytest.mark.parametrize(
    "engine",
    ["threads", pytest.param("torch", marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is a device"))],
)
def test_the_host_decodes_where_no_device_was_asked_for(engine):
    X, y = sequences(0)
    model = ChainCRF("rbf", rank=8, random_state=0, engine=engine).fit(X, y)
    (found,) = model.answers(X)
    assert not isinstance(found.family, family.AnsweredChains)


def test_fields_without_kernels_and_chains_of_long_reach_are_answered_on_the_host():
    X, y = sequences(0)
    linear = ChainCRF("linear", random_state=0).fit(X, y).set_params(engine=Torch("cpu"))
    far = ChainCRF(cliques=[NodeCliques("rbf", rank=6), SkipCliques()], random_state=0).fit(X, y)
    for model in (linear, far.set_params(engine=Torch("cpu"))):
        (found,) = model.answers(X)
        assert not isinstance(found.family, family.AnsweredChains)
