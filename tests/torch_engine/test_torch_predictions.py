"""Copies of kernel expansions on a device: made once for a fitted field, anew after a refit, with the plain answers."""

import pytest

from tests.models.small_fields import FIELDS, assert_plain

torch = pytest.importorskip("torch")
rows = pytest.importorskip("kernelfields.engines.torch.rows")
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", FIELDS)
def test_copies_on_a_device_are_kept_and_follow_a_refit(name, device, monkeypatch):
    from kernelfields.engines import Torch

    placed, plain = [], rows.DeviceExpansion.__init__

    def counted(self, expansion, device):
        placed.append(device)
        plain(self, expansion, device)

    monkeypatch.setattr(rows.DeviceExpansion, "__init__", counted)
    make, inputs, labels = FIELDS[name]
    model = make().fit(inputs, labels)
    n_subspaces = len({id(term.subspace) for term in model.field_.terms if term.has_pivots})
    for _ in range(2):
        assert_plain(model, inputs, place=Torch(device))
    assert len(placed) == n_subspaces
    model.predict(inputs)
    model.set_params(prior_variance=0.01).fit(inputs, labels)
    assert_plain(model, inputs, place=Torch(device))
    assert len(placed) == 2 * n_subspaces


def test_lists_of_allowed_labels_hold_in_answers_and_in_fits():
    import numpy as np

    from kernelfields import ChainCRF, LabelDictionary
    from kernelfields.engines import Torch

    draw = np.random.default_rng(0)
    X = [draw.integers(0, 3, (6, 1)).astype(float) for _ in range(8)]
    y = [[int(value) + int(draw.integers(2)) for value in x[:, 0]] for x in X]
    settings = {"allowed": LabelDictionary(0, min_count=1), "prior_variance": 1.0}
    crf = ChainCRF("linear", engine="threads", **settings).fit(X, y)
    host = crf.predict_marginals(X)
    crf.engine = Torch(device="cpu")
    for ours, theirs in zip(crf.predict_marginals(X), host, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-12)
        assert np.any(ours == 0.0)
    there = ChainCRF("linear", engine=Torch(device="cpu"), **settings).fit(X, y)
    for ours, theirs in zip(there.predict_marginals(X), host, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


FULL = "CUDA out of memory. Tried to allocate 1.00 GiB."


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("kernelfields.engines.torch.family.TorchChainMember", "inference of 48 positions with 2 labels"),
        ("kernelfields.engines.torch.sample.SubspaceRows", "features of 48 inputs at rank 8"),
        ("kernelfields.engines.torch.tables.csr_tensor", "48 sparse features"),
    ],
)
def test_a_device_without_memory_is_one_line(monkeypatch, place, message):
    import numpy as np
    from scipy.sparse import csr_array

    from kernelfields import ChainCRF
    from kernelfields.engines import Torch

    torch = pytest.importorskip("torch")

    def full(*arguments, **settings):
        raise torch.OutOfMemoryError(FULL)

    draw = np.random.default_rng(0)
    X, y = [draw.normal(size=(6, 1)) for _ in range(8)], [[0, 1] * 3 for _ in range(8)]
    crf = ChainCRF("rbf", rank=8, engine=Torch("cpu"), prior_variance=1.0, scale=False, random_state=0).fit(X, y)
    monkeypatch.setattr(place, full)
    if "sparse" in message:
        crf = ChainCRF("linear", engine=Torch("cpu"), prior_variance=1.0, support="all", scale=False)
        X = [csr_array(x) for x in X]
    with pytest.raises(MemoryError) as raised:
        crf.laplace(X, y) if "rank" in message else crf.fit(X, y)
    expected = f"no memory is left on cpu for {message}. Use fewer data, a smaller rank, dtype='float32', or engine="
    assert str(raised.value) == f"{expected}'threads'. PyTorch's message: {FULL}"
