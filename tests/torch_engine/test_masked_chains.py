"""Padded chains with masks on a device: against enumeration, and the kernel against the plain recursions."""

from itertools import pairwise, product

import pytest

torch = pytest.importorskip("torch")

from kernelfields.engines.torch.masked_chains import (  # noqa: E402
    MaskedChains,
    compute_gradients,
    compute_loss,
    sum_labellings,
)


def drawn(n_items, n_time, n_labels, *, pairs=False, sets=False, dtype=torch.float64, scale=1.0):
    """Random chains with gaps; of the second item nothing is inside, of the third one position."""
    torch.manual_seed(n_items * n_time + n_labels)
    scores = (scale * torch.randn(n_items, n_time, n_labels)).to(dtype)
    inside = torch.rand(n_items, n_time) < 0.7
    inside[0] = True
    if n_items > 3:
        inside[1:3] = False
        inside[2, n_time // 2] = True
    known = torch.randint(-1, n_labels, (n_items, n_time))
    if sets:
        known = torch.rand(n_items, n_time, n_labels) < 0.6
        known[..., 0] = True
    tables = (scale * torch.randn(n_items, n_time, n_labels, n_labels)).to(dtype) if pairs else None
    steps = scale * torch.randn(n_labels, n_labels)
    steps[0, n_labels - 1] = -torch.inf
    return MaskedChains(scores, inside, known, steps, torch.randn(n_labels), torch.randn(n_labels), tables)


@pytest.mark.parametrize("sets", [True, False])
@pytest.mark.parametrize("pairs", [True, False])
def test_sums_are_those_of_enumeration(pairs, sets):
    chains = drawn(5, 4, 3, pairs=pairs, sets=sets)
    sums = sum_labellings(chains, (0, 1))
    for kind, item in product(range(2), range(5)):
        places = chains.inside[item].nonzero()[:, 0].tolist()
        if not places:
            assert sums.log_partition[kind, item] == 0.0
            assert not sums.marginals[kind, item].any()
            continue
        found = []
        for labels in product(range(3), repeat=len(places)):
            own = zip(places, labels, strict=True)
            if kind and not all(
                chains.known[item, t, label] if sets else chains.known[item, t] in (-1, label) for t, label in own
            ):
                continue
            score = chains.start[labels[0]].double() + chains.end[labels[-1]]
            score = score + sum(chains.scores[item, t, label] for t, label in zip(places, labels, strict=True))
            for (before, after), t in zip(pairwise(labels), places[1:], strict=True):
                score = score + chains.steps[before, after]
                score = score + (chains.pairs[item, t, before, after] if pairs else 0.0)
            found.append((labels, score))
        total = torch.logsumexp(torch.stack([score for _, score in found]), dim=0)
        torch.testing.assert_close(sums.log_partition[kind, item], total, rtol=0, atol=1e-12)
        marginals, steps = torch.zeros(4, 3).double(), torch.zeros(4, 3, 3).double()
        for labels, score in found:
            share = (score - total).exp()
            marginals[places, labels] += share
            for (before, after), t in zip(pairwise(labels), places[1:], strict=True):
                steps[t, before, after] += share
        torch.testing.assert_close(sums.marginals[kind, item], marginals, rtol=0, atol=1e-12)
        wanted = steps if pairs else steps.sum(dim=0)
        torch.testing.assert_close(sums.steps[kind, item], wanted, rtol=0, atol=1e-12)


def test_scores_of_thousands_stay_in_range():
    chains = drawn(5, 30, 4, scale=3000.0)
    sums = sum_labellings(chains, (0,))
    assert torch.isfinite(sums.log_partition).all()
    torch.testing.assert_close(sums.marginals[0].sum(dim=2), chains.inside.double(), rtol=0, atol=1e-12)


CASES = {
    "numbers": {"n_items": 33, "n_time": 40, "n_labels": 22, "scale": 3.0},
    "sets": {"n_items": 5, "n_time": 7, "n_labels": 3, "sets": True},
    "pairs": {"n_items": 8, "n_time": 12, "n_labels": 17, "pairs": True, "sets": True, "dtype": torch.float16},
    "many labels": {"n_items": 16, "n_time": 20, "n_labels": 64, "dtype": torch.bfloat16},
    "large scores": {"n_items": 8, "n_time": 30, "n_labels": 22, "scale": 400.0, "dtype": torch.float32},
    "one": {"n_items": 1, "n_time": 1, "n_labels": 1},
}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="the kernel runs on CUDA devices")
@pytest.mark.parametrize("case", CASES)
def test_the_kernel_gives_the_sums_of_the_plain_recursions(case):
    chains = drawn(**CASES[case])
    there = MaskedChains(*(None if each is None else each.cuda() for each in chains))
    for kinds in ((0, 1), (0,), (1,)):
        wanted = sum_labellings(chains, kinds)
        for mine, theirs in zip(sum_labellings(there, kinds, compiled=True), wanted, strict=True):
            torch.testing.assert_close(mine.cpu(), theirs, rtol=1e-12, atol=1e-10)


LOSSES = {
    "mask": {},
    "ignored labels": {"ignored": 2},
    "lengths": {"inside": None, "lengths": torch.tensor([9, 0, 1, 4, 9, 7, 2, 8]), "ignored": 1},
}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="the kernel runs on CUDA devices")
@pytest.mark.parametrize("reduction", ["none", "mean", "token_mean", "sum"])
@pytest.mark.parametrize("scale", [3.0, 400.0])
@pytest.mark.parametrize("form", LOSSES)
def test_the_kernels_give_the_loss_and_the_gradients_of_the_plain_recursions(form, scale, reduction):
    chains = drawn(8, 9, 22, scale=scale)._replace(**LOSSES[form])
    there = MaskedChains(*(each.cuda() if isinstance(each, torch.Tensor) else each for each in chains))
    wanted = compute_loss(chains, reduction, torch.float64, compiled=False)
    found = compute_loss(there, reduction, torch.float64, compiled=True)
    for name in ("value", "weights", "totals", "report"):
        mine, theirs = getattr(found, name).cpu(), getattr(wanted, name)
        torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-10, equal_nan=True, msg=name)
    outer = torch.randn(wanted.value.shape, dtype=torch.float64)
    gradients = [
        compute_gradients(
            loss.marginals, loss.totals, loss.inside, loss.weights * outer.to(loss.weights.device), torch.float32, on
        )
        for loss, on in ((found, True), (wanted, False))
    ]
    for mine, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(mine.cpu(), theirs, rtol=1e-6, atol=1e-7)
