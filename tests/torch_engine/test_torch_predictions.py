"""Copies of kernel expansions on a device: made once for a fitted field, anew after a refit, with the plain answers."""

import pytest

from tests.models.small_fields import FIELDS, assert_plain

torch = pytest.importorskip("torch")
rows = pytest.importorskip("kernelfields.engines.torch.rows")
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", FIELDS)
def test_copies_on_a_device_are_kept_and_follow_a_refit(name, device, monkeypatch):
    from kernelfields.engines.torch.engine import Torch

    placed, plain = [], rows.DeviceExpansion.__init__

    def counted(self, expansion, device):
        placed.append(device)
        plain(self, expansion, device)

    monkeypatch.setattr(rows.DeviceExpansion, "__init__", counted)
    make, inputs, labels, n_subspaces = FIELDS[name]
    model = make().fit(inputs, labels)
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
    from kernelfields.engines.torch.engine import Torch

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
