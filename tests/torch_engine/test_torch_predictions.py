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
