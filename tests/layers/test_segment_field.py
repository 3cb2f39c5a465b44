"""Segments as the last layer of a network: against enumeration, autograd of the enumeration, and over many steps."""

from itertools import pairwise, product

import pytest

torch = pytest.importorskip("torch")

from kernelfields.layers import SegmentField  # noqa: E402

LENGTHS = torch.tensor([5, 1, 3])


def drawn(seed=0, dtype=torch.float64, **options):
    torch.manual_seed(seed)
    layer = SegmentField(["a", "b", "c"], max_duration=3, dtype=dtype, **options)
    with torch.no_grad():
        for own in layer.parameters():
            own.normal_()
    return layer, torch.randn(3, 5, 3, dtype=dtype, requires_grad=True)


def segmentations(layer, scores, length):
    """All segmentations, (labels of positions, where segments begin), with their scores by the definition."""
    for labels in product(range(3), repeat=length):
        for rest in product((True, False), repeat=length - 1):
            begins = (True, *rest)
            if any(not begins[t] and labels[t] != labels[t - 1] for t in range(length)):
                continue
            firsts = [t for t in range(length) if begins[t]]
            sizes = [b - a for a, b in zip(firsts, [*firsts[1:], length], strict=True)]
            own = [labels[t] for t in firsts]
            if max(sizes) > 3 or (not layer.touching and any(a == b for a, b in pairwise(own))):
                continue
            score = layer.start[own[0]] + layer.end[own[-1]]
            score = score + sum(scores[t, label] for t, label in enumerate(labels))
            score = score + sum(layer.durations[size - 1, label] for size, label in zip(sizes, own, strict=True))
            score = score + sum(layer.transitions[a, b] for a, b in pairwise(own))
            yield (labels, begins), score


@pytest.mark.parametrize("touching", [True, False])
def test_values_and_gradients_are_those_of_enumeration(touching):
    layer, scores = drawn(touching=touching)
    labels = torch.tensor([[0, 0, 1, 1, 2], [2, 0, 0, 0, 0], [1, 2, 2, 0, 0]])
    begins = torch.ones(3, 5, dtype=torch.bool) if touching else None
    every = [list(segmentations(layer, scores[i], length)) for i, length in enumerate(LENGTHS.tolist())]
    sums = torch.stack([torch.logsumexp(torch.stack([score for _, score in own]), dim=0) for own in every])
    torch.testing.assert_close(layer.log_partition(scores, LENGTHS), sums, rtol=0, atol=1e-12)
    chosen = []
    for i, own in enumerate(every):
        wanted = tuple(labels[i, : LENGTHS[i]].tolist())
        chosen += [score for (given, at), score in own if given == wanted and (not touching or all(at))]
    losses = layer.loss(scores, labels, LENGTHS, begins=begins, reduction="none")
    torch.testing.assert_close(losses, sums - torch.stack(chosen), rtol=0, atol=1e-12)
    torch.testing.assert_close(layer.log_likelihood(scores, labels, LENGTHS, begins=begins), -losses)
    for reduction, value in (("sum", losses.sum()), ("mean", losses.mean()), ("token_mean", losses.sum() / 9)):
        torch.testing.assert_close(layer.loss(scores, labels, LENGTHS, begins=begins, reduction=reduction), value)
    weights = torch.tensor([1.0, -0.5, 2.0], dtype=torch.float64)
    inputs = [scores, *layer.parameters()]
    mine = torch.autograd.grad((weights * losses).sum(), inputs)
    wanted = torch.autograd.grad((weights * (sums - torch.stack(chosen))).sum(), inputs)
    for own, other in zip(mine, wanted, strict=True):
        torch.testing.assert_close(own, other, rtol=0, atol=1e-10)
    best, segments = layer.decode(scores, LENGTHS), layer.segments(scores, LENGTHS)
    marginals = layer.marginals(scores, LENGTHS)
    for i, own in enumerate(every):
        (given, at), _ = max(own, key=lambda pair: pair[1].item())
        assert best[i].tolist() == [*given, *[-1] * (5 - len(given))]
        shares, chances = torch.zeros(5, 3, dtype=torch.float64), {}
        for (named, where), score in own:
            share = (score - sums[i]).exp().item()
            shares[range(len(named)), named] += share
            firsts = [t for t in range(len(named)) if where[t]]
            for a, b in zip(firsts, [*firsts[1:], len(named)], strict=True):
                chances[a, b, "abc"[named[a]]] = chances.get((a, b, "abc"[named[a]]), 0.0) + share
        torch.testing.assert_close(marginals[i], shares, rtol=0, atol=1e-12)
        assert [segment.begin for segment in segments[i]] == [t for t in range(len(given)) if at[t]]
        for segment in segments[i]:
            assert segment.probability == pytest.approx(chances[segment[:3]], abs=1e-12)


def test_labels_may_be_known_in_part():
    layer, scores = drawn()
    known = torch.tensor([[0, -1, 1, -1, 2], [-1, 0, 0, 0, 0], [1, -1, -1, 0, 0]])
    wanted = []
    for i, length in enumerate(LENGTHS.tolist()):
        every = list(segmentations(layer, scores[i], length))
        fits = [
            score for (labels, _), score in every if all(known[i, t] in (-1, label) for t, label in enumerate(labels))
        ]
        total = torch.logsumexp(torch.stack([score for _, score in every]), dim=0)
        wanted.append(total - torch.logsumexp(torch.stack(fits), dim=0))
    found = layer.loss(scores, known, LENGTHS, reduction="none")
    torch.testing.assert_close(found, torch.stack(wanted), rtol=0, atol=1e-12)


def test_gaps_and_ignored_labels_leave_positions_out():
    layer, scores = drawn()
    mask = torch.tensor([[1, 0, 1, 1, 0], [0, 0, 0, 1, 0], [1, 1, 0, 0, 1]]).bool()
    labels = torch.randint(3, (3, 5))
    lengths = mask.sum(dim=1)
    wanted = layer.loss(scores[mask], labels[mask], lengths, reduction="none")
    found = layer.loss(scores, labels, mask=mask, reduction="none")
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(layer.loss(scores, labels.masked_fill(~mask, -100), reduction="none"), wanted)
    assert layer.decode(scores, mask=mask)[mask].tolist() == layer.decode(scores[mask], lengths).tolist()


def test_forbidden_steps_have_no_probability():
    layer, scores = drawn(constraints=[("a", "b")])
    assert (torch.stack([own[0] for own in layer.decode(scores).split(1)]) >= 0).all()
    for sequence in layer.segments(100 * scores):
        names = [segment.label for segment in sequence]
        assert ("a", "b") not in list(pairwise(names))
    with pytest.raises(ValueError, match="sequence 0: its segments are forbidden by constraints or scores"):
        layer.loss(scores, torch.tensor([[0, 0, 1, 1, 1]] * 3))


def test_bad_input_is_named():
    layer, scores = drawn()
    labels = torch.zeros(3, 5, dtype=torch.int64)
    with pytest.raises(TypeError, match=r"layer.loss\(scores, labels\), which is minimised"):
        layer(scores, labels)
    with pytest.raises(ValueError, match="sequence 0, position 0: a segment of 5 positions is longer than max_dur"):
        layer.loss(scores, labels)
    with pytest.raises(ValueError, match="touching=False reads segments from labels alone"):
        layer.loss(scores, labels, begins=labels.bool())
    with pytest.raises(ValueError, match=r"sequence 0, position 0: labels must be 0 to 2, .* got 3"):
        layer.loss(scores, labels + 3)
    with pytest.raises(ValueError, match="sequence 0, position 0: scores must be finite or -inf"):
        layer.loss(scores * torch.nan, labels)
    touching, scores = drawn(touching=True)
    with pytest.raises(ValueError, match="touching=True needs begins, where segments begin"):
        touching.loss(scores, labels)
    with pytest.raises(ValueError, match="sequence 0, position 0: begins must be True where a sequence"):
        touching.loss(scores, labels, begins=labels.bool())
    with pytest.raises(ValueError, match="begins must be a bool tensor of shape"):
        touching.loss(scores, labels, begins=labels)
    with pytest.raises(ValueError, match="max_duration must be"):
        SegmentField(3, max_duration=0)


def definition(layer, scores, labels, sizes):
    """The score of the segments of some sizes, in float64."""
    ends = torch.tensor(sizes).cumsum(dim=0)
    own = labels[ends - 1]
    total = scores[torch.arange(int(ends[-1])), labels[: int(ends[-1])]].sum()
    total = total + layer.durations.double()[torch.tensor(sizes) - 1, own].sum()
    total = total + layer.transitions.double()[own[:-1], own[1:]].sum()
    return (total + layer.start[own[0]] + layer.end[own[-1]]).detach()


@pytest.mark.slow
def test_the_loss_is_never_negative_in_ten_thousand_steps():
    """Training until labels are certain, and on; the two sums differ by no more than their rounding."""
    torch.manual_seed(0)
    layer = SegmentField(4, max_duration=6)
    network = torch.nn.Linear(5, 4)
    words = torch.randn(3, 12, 5)
    runs = [[2, 3, 1, 6], [1, 1, 5, 2], [4, 4, 4]]
    lengths = torch.tensor([sum(each) for each in runs])
    labels = torch.zeros(3, 12, dtype=torch.int64)
    for i, each in enumerate(runs):
        own = torch.repeat_interleave(torch.arange(len(each)) % 4, torch.tensor(each))
        labels[i, : len(own)] = own
    optimiser = torch.optim.Adam([*layer.parameters(), *network.parameters()], lr=0.1)
    least, raw = torch.inf, torch.inf
    for step in range(10_000):
        optimiser.zero_grad()
        scores = network(words)
        losses = layer.loss(scores, labels, lengths, reduction="none")
        losses.sum().backward()
        optimiser.step()
        assert torch.isfinite(losses).all()
        least = min(least, losses.min().item())
        if step % 100 == 0:
            wide = scores.detach().double()
            total = layer.log_partition(wide, lengths)
            own = torch.stack([definition(layer, *each) for each in zip(wide, labels, runs, strict=True)])
            raw = min(raw, ((total - own) / total.abs()).min().item())
    assert least >= 0.0
    assert raw >= -1e-12
