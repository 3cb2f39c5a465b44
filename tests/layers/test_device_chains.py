"""Losses that stay on a device: what they say of bad input, and that a training step never waits for the device."""

import pytest

torch = pytest.importorskip("torch")

from kernelfields.layers import ChainField, device_chains  # noqa: E402
from kernelfields.layers.compat import CRF  # noqa: E402

CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
BIO = ["O", "B-X", "I-X", "B-Y"]


def batch(device="cpu"):
    """Scores, labels with -100 and unknown ones, and a mask with gaps."""
    torch.manual_seed(0)
    scores = torch.randn(6, 9, 4)
    mask = torch.rand(6, 9) < 0.7
    mask[:, 0] = True
    labels = torch.zeros(6, 9, dtype=torch.int64).masked_fill(torch.rand(6, 9) < 0.2, -1)
    labels[:, 3] = -100
    return scores.to(device).requires_grad_(), labels.to(device), mask.to(device)


@pytest.fixture
def masked(monkeypatch):
    """Losses of which nothing is read, on the processor."""
    monkeypatch.setattr(device_chains, "is_on_device", lambda scores: scores.ndim == 3)


def change(tensor, value):
    changed = tensor.detach().clone()
    changed[2, 1] = value
    return changed


WRONG = {
    "out of range": (lambda s, y: (s, change(y, 4)), {}, "its labels are out of range, or forbidden"),
    "below": (lambda s, y: (s, change(y, -5)), {}, "its labels are out of range, or forbidden"),
    "forbidden": (lambda s, y: (s, change(y, 2)), {}, "its labels are out of range, or forbidden"),
    "NaN": (lambda s, y: (change(s, torch.nan), y), {}, "its scores are NaN or infinite"),
    "infinity": (lambda s, y: (change(s, torch.inf), y), {}, "its scores are NaN or infinite"),
    "no position": (
        lambda s, y: (s, y),
        {"mask": torch.arange(6)[:, None].expand(6, 9) != 2},
        "it is empty: leave sequences without positions out",
    ),
}


def wrong_batch(name, device="cpu"):
    scores, labels, _ = batch()
    spoil, options, message = WRONG[name]
    given = [each.to(device) for each in spoil(scores.detach(), labels.clamp_min(0))]
    return given, {key: value.to(device) for key, value in options.items()}, message


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said_in_a_line(masked, name):
    given, options, message = wrong_batch(name)
    with pytest.raises(ValueError, match=f"^sequence 2: {message}"):
        ChainField(BIO, constraints="bio").loss(*given, **options)


def steps(device):
    """Losses of the layer and of pytorch-crf's class in every form, to be differentiated."""
    scores, labels, mask = batch(device)
    field, crf = ChainField(BIO, constraints="bio").to(device), CRF(4, batch_first=True).to(device)
    known, pairs = labels.clamp_min(0), torch.randn(6, 9, 4, 4).to(device).requires_grad_()
    lengths = torch.tensor([9, 1, 4, 9, 5, 2])
    return scores, {
        "gaps": lambda: field.loss(scores, labels, mask=mask),
        "lengths": lambda: field.loss(scores, labels, lengths, reduction="token_mean"),
        "pairs": lambda: field.loss(scores, labels, mask=mask, pair_scores=pairs, reduction="sum"),
        "half precision": lambda: field.loss(scores.bfloat16(), labels, mask=mask),
        "log partition": lambda: field.log_partition(scores, mask=mask).sum(),
        "crf": lambda: -crf(scores, known, mask),
        "crf, ignored": lambda: -crf(scores, labels, mask, reduction="token_mean"),
        "crf, bytes": lambda: -crf(scores, known, mask.to(torch.uint8), "mean"),
    }


def test_losses_that_stay_on_a_device_are_those_of_the_host(masked, monkeypatch):
    torch.manual_seed(1)
    scores, own = steps("cpu")
    found = {name: (loss().detach(), torch.autograd.grad(loss(), scores)[0]) for name, loss in own.items()}
    monkeypatch.undo()
    for name, loss in own.items():
        torch.testing.assert_close(found[name], (loss().detach(), torch.autograd.grad(loss(), scores)[0]), msg=name)


@CUDA
@pytest.mark.filterwarnings("ignore:Synchronization debug mode:UserWarning")
def test_a_training_step_never_waits_for_the_device():
    _, own = steps("cuda")
    for loss in own.values():
        loss().backward()  # kernels are compiled, and constraints copied
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for loss in own.values():
            loss().backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    device_chains.read_reports()


@CUDA
def test_losses_of_the_device_are_those_of_the_host():
    torch.manual_seed(1)
    scores, own = steps("cpu")
    torch.manual_seed(1)
    there, others = steps("cuda")
    for name, loss in own.items():
        wanted, found = (loss(), scores), (others[name](), there)
        torch.testing.assert_close(found[0].cpu(), wanted[0], rtol=1e-5, atol=1e-5, msg=name)
        mine, theirs = (torch.autograd.grad(*each)[0].cpu() for each in (found, wanted))
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-5, msg=name)


@CUDA
@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_raised_by_the_next_loss(name):
    given, options, message = wrong_batch(name, "cuda")
    field = ChainField(BIO, constraints="bio").to("cuda")
    assert not torch.isfinite(field.loss(*given, **options))
    torch.cuda.synchronize()
    scores, labels, mask = batch("cuda")
    with pytest.raises(ValueError, match=f"^sequence 2 of a batch before this one: {message}"):
        field.loss(scores, labels, mask=mask)
    assert torch.isfinite(field.loss(scores, labels, mask=mask))


@CUDA
def test_second_derivatives_of_a_device_are_those_of_the_host():
    curvatures = []
    for device in ("cpu", "cuda"):
        scores, labels, mask = batch(device)
        field = ChainField(BIO).to(device)
        (slope,) = torch.autograd.grad(field.loss(scores, labels, mask=mask), scores, create_graph=True)
        curvatures.append(torch.autograd.grad(slope.square().sum(), scores)[0].cpu())
    torch.testing.assert_close(*curvatures, rtol=1e-5, atol=1e-6)


@CUDA
def test_a_training_step_can_be_captured_in_a_graph():
    scores, labels, mask = batch("cuda")
    field = ChainField(BIO).to("cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        field.loss(scores, labels, mask=mask).backward()
    torch.cuda.current_stream().wait_stream(stream)
    wanted = scores.grad.clone()
    scores.grad = None
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        field.loss(scores, labels, mask=mask).backward()
    graph.replay()
    torch.testing.assert_close(scores.grad, wanted)
