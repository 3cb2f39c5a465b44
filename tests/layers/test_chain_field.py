"""A chain as the last layer of a network: against enumeration, autograd of a plain recursion, and bad input."""

import copy
from itertools import product

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from kernelfields import ChainCRF  # noqa: E402
from kernelfields.engines.torch.family import TorchChainFamily  # noqa: E402
from kernelfields.layers import ChainField, device_chains, log_partition, packed_chains  # noqa: E402
from kernelfields.numerics import Workers  # noqa: E402
from tests.inference.family_cases import CASES, problem  # noqa: E402

BIO = ["O", "B-X", "I-X", "B-Y"]
LENGTHS = torch.tensor([4, 1, 3])


@pytest.fixture(params=["host", "device", "masked"])
def engine(request, monkeypatch):
    """Passes of the host, those of a device (on the processor), and losses of which nothing is read."""
    if request.param == "masked":
        monkeypatch.setattr(device_chains, "is_on_device", lambda scores: scores.ndim == 3)
    if request.param == "device":

        def on_device(offsets, n_labels, tied, device):
            return TorchChainFamily(offsets, n_labels, tied=tied, device=device)

        monkeypatch.setattr(packed_chains, "build_chain_family", on_device)


@pytest.fixture
def packed_engine(engine, request):
    """Passes whose errors name the position; those of losses that stay on a device are in test_device_chains.py."""
    if request.node.callspec.params["engine"] == "masked":
        pytest.skip("losses that stay on a device raise afterwards")


def drawn(labels=BIO, seed=0, dtype=torch.float64, pairs=False, **options):
    """A layer with random parameters, scores of three padded sequences and labels."""
    torch.manual_seed(seed)
    layer = ChainField(labels, dtype=dtype, **options)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_()
    n_labels = len(layer.labels)
    scores = torch.randn(3, 4, n_labels, dtype=dtype, requires_grad=True)
    pair_scores = torch.randn(3, 4, n_labels, n_labels, dtype=dtype, requires_grad=True) if pairs else None
    return layer, scores, torch.randint(n_labels, (3, 4)), pair_scores


def labellings(layer, scores, length, pair_scores=None):
    """All labellings of a sequence and their scores by the definition, minus infinity where one is forbidden."""
    n_labels = len(layer.labels)
    zero = torch.zeros(n_labels, dtype=scores.dtype)
    start, end = (zero if own is None else own for own in (layer.start, layer.end))
    start, end = (
        torch.where(forbidden, -torch.inf, own)
        for own, forbidden in ((start, layer.forbidden_start), (end, layer.forbidden_end))
    )
    steps = torch.where(layer.forbidden_steps, -torch.inf, layer.transitions)
    for labels in product(range(n_labels), repeat=int(length)):
        score = start[labels[0]] + end[labels[-1]] + sum(scores[t, label] for t, label in enumerate(labels))
        for t in range(1, int(length)):
            score = score + steps[labels[t - 1], labels[t]]
            if pair_scores is not None:
                score = score + pair_scores[t, labels[t - 1], labels[t]]
        yield labels, score


def enumerated(layer, scores, lengths, fits=None, pair_scores=None):
    """The log partition of each sequence over labellings that fit."""
    sums = []
    for i, length in enumerate(lengths):
        own = None if pair_scores is None else pair_scores[i]
        found = [
            score for labels, score in labellings(layer, scores[i], length, own) if fits is None or fits(i, labels)
        ]
        sums.append(torch.logsumexp(torch.stack(found), dim=0))
    return torch.stack(sums)


@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize("pairs", [True, False])
@pytest.mark.parametrize("constraints", [None, "bio"])
def test_values_are_those_of_enumeration(engine, ends, pairs, constraints):
    layer, scores, _, pair_scores = drawn(pairs=pairs, constraints=constraints, ends=ends)
    labels = torch.tensor([[1, 2, 0, 3], [3, 0, 0, 0], [0, 1, 2, 0]])
    wanted = enumerated(layer, scores, LENGTHS, pair_scores=pair_scores)
    found = layer.log_partition(scores, LENGTHS, pair_scores=pair_scores)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)
    chosen = enumerated(layer, scores, LENGTHS, lambda i, own: list(own) == labels[i, : len(own)].tolist(), pair_scores)
    losses = layer.loss(scores, labels, LENGTHS, pair_scores=pair_scores, reduction="none")
    torch.testing.assert_close(losses, wanted - chosen, rtol=0, atol=1e-12)
    for reduction, value in (("mean", losses.mean()), ("sum", losses.sum()), ("token_mean", losses.sum() / 8)):
        own = layer.loss(scores, labels, LENGTHS, pair_scores=pair_scores, reduction=reduction)
        torch.testing.assert_close(own, value)
    best = layer.decode(scores, LENGTHS, pair_scores=pair_scores)
    marginals = layer.marginals(scores, LENGTHS, pair_scores=pair_scores)
    for i, length in enumerate(LENGTHS.tolist()):
        own = None if pair_scores is None else pair_scores[i]
        every = list(labellings(layer, scores[i], length, own))
        assert best[i].tolist() == [*max(every, key=lambda pair: pair[1])[0], *[-1] * (4 - length)]
        shares = torch.zeros(4, 4, dtype=torch.float64)
        for own_labels, score in every:
            shares[range(length), own_labels] += (score - wanted[i]).exp().detach()
        torch.testing.assert_close(marginals[i], shares, rtol=0, atol=1e-12)


def recursion(layer, scores, lengths, pair_scores=None):
    """The log partition by a plain recursion of log-sum-exp, for autograd."""
    sums = []
    for i, length in enumerate(lengths.tolist()):
        alpha = layer.start + scores[i, 0]
        for t in range(1, length):
            step = layer.transitions if pair_scores is None else layer.transitions + pair_scores[i, t]
            alpha = torch.logsumexp(alpha[:, None] + step, dim=0) + scores[i, t]
        sums.append(torch.logsumexp(alpha + layer.end, dim=0))
    return torch.stack(sums)


@pytest.mark.parametrize("pairs", [True, False])
@pytest.mark.parametrize("weights", [(1.0, 1.0, 1.0), (0.0, 2.0, -0.7)])
def test_gradients_are_those_of_autograd(engine, pairs, weights):
    layer, scores, labels, pair_scores = drawn(7, pairs=pairs)
    own = torch.tensor(weights, dtype=torch.float64)
    inputs = [scores, *layer.parameters(), *([pair_scores] if pairs else [])]
    losses = layer.loss(scores, labels, LENGTHS, pair_scores=pair_scores, reduction="none")
    found = torch.autograd.grad((own * losses).sum(), inputs)
    path = torch.stack(
        [
            layer.start[y[0]]
            + layer.end[y[length - 1]]
            + sum(scores[i, t, y[t]] for t in range(length))
            + sum(layer.transitions[y[t - 1], y[t]] for t in range(1, length))
            + sum(pair_scores[i, t, y[t - 1], y[t]] for t in range(1, length) if pairs)
            for i, (y, length) in enumerate(zip(labels, LENGTHS.tolist(), strict=True))
        ]
    )
    wanted = torch.autograd.grad((own * (recursion(layer, scores, LENGTHS, pair_scores) - path)).sum(), inputs)
    for mine, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-10)


@pytest.mark.slow
def test_gradcheck_with_constraints_and_partial_labels(engine):
    layer, scores, _, pair_scores = drawn(pairs=True, constraints="bio")
    known = torch.tensor([[-1, 2, -1, 3], [-1, 0, 0, 0], [0, -1, 2, 0]])

    def losses(scores, pair_scores, *parameters):
        return layer.loss(scores, known, LENGTHS, pair_scores=pair_scores, reduction="none")

    assert torch.autograd.gradcheck(losses, (scores, pair_scores, *layer.parameters()))


def test_partial_labels_restrict_the_first_sum(engine):
    layer, scores, labels, _ = drawn()
    known = torch.tensor([[-1, 2, -1, 0], [-1, 9, 9, 9], [-1, -1, -1, 0]])
    wanted = enumerated(layer, scores, LENGTHS) - enumerated(
        layer,
        scores,
        LENGTHS,
        lambda i, own: all(known[i, t] in (-1, label) for t, label in enumerate(own)),
    )
    torch.testing.assert_close(layer.loss(scores, known, LENGTHS, reduction="none"), wanted, rtol=0, atol=1e-12)
    sets = torch.rand(3, 4, 4) < 0.5
    sets[:, :, 1] = True
    wanted = enumerated(layer, scores, LENGTHS) - enumerated(
        layer, scores, LENGTHS, lambda i, own: all(sets[i, t, label] for t, label in enumerate(own))
    )
    torch.testing.assert_close(layer.loss(scores, sets, LENGTHS, reduction="none"), wanted, rtol=0, atol=1e-12)
    best, shares = layer.decode(scores, LENGTHS, labels=known), layer.marginals(scores, LENGTHS, labels=known)
    assert best[0, 1] == 2
    assert best[0, 3] == 0
    assert shares[0, 1].tolist() == pytest.approx([0.0, 0.0, 1.0, 0.0])
    one_hot = torch.nn.functional.one_hot(labels, 4).bool()
    torch.testing.assert_close(layer.loss(scores, one_hot, LENGTHS), layer.loss(scores, labels, LENGTHS))


def test_forbidden_labels_have_no_gradient_and_no_nan(engine):
    layer, scores, _, _ = drawn(constraints={"scheme": "bio", "labels": ["B-Y"]})
    barred = scores.detach().clone()
    barred[0, 1, 1] = -torch.inf
    barred.requires_grad_()
    labels = torch.tensor([[1, 2, 2, 0], [0, 0, 0, 0], [0, 1, 2, 0]])
    loss = layer.loss(barred, labels, LENGTHS)
    loss.backward()
    assert torch.isfinite(loss)
    assert all(torch.isfinite(own.grad).all() for own in (barred, *layer.parameters()))
    assert barred.grad[0, 1, 1] == 0
    assert (barred.grad[..., 3] == 0).all()
    assert layer.transitions.grad[0, 2] == 0
    assert (barred.grad[1, 1:] == 0).all()  # padding
    assert (layer.marginals(barred, LENGTHS)[..., 3] == 0).all()


def test_padded_and_packed_scores_agree(engine):
    layer, scores, labels, pair_scores = drawn(pairs=True)
    inside = torch.arange(4) < LENGTHS[:, None]
    packed = scores[inside], labels[inside], pair_scores[inside]
    padded = layer.loss(scores, labels, mask=inside, pair_scores=pair_scores)
    torch.testing.assert_close(padded, layer.loss(scores, labels, LENGTHS, pair_scores=pair_scores))
    torch.testing.assert_close(padded, layer.loss(packed[0], packed[1], LENGTHS, pair_scores=packed[2]))
    best = layer.decode(scores, LENGTHS, pair_scores=pair_scores)
    assert best[inside].tolist() == layer.decode(packed[0], LENGTHS, pair_scores=packed[2]).tolist()
    full = layer.loss(scores, labels), layer.loss(scores, labels, [4, 4, 4])
    torch.testing.assert_close(*full)


GAPS = torch.tensor([[False, True, False, True], [True, False, True, True], [False, False, True, False]])


@pytest.mark.parametrize("pairs", [True, False])
def test_positions_in_gaps_are_no_part_of_a_sequence(engine, pairs):
    """As if each sequence had only the positions that are selected; nothing else is read."""
    layer, scores, labels, pair_scores = drawn(pairs=pairs, constraints=[("O", "I-X")])
    labels = torch.where(labels == 2, 1, labels)
    spoilt = torch.where(GAPS[..., None], scores.detach(), torch.nan).requires_grad_()
    known = torch.where(GAPS, labels, 77)
    options = {"pair_scores": pair_scores}
    packed = {"pair_scores": None if pair_scores is None else pair_scores[GAPS]}
    lengths = GAPS.sum(dim=1)
    found = layer.loss(spoilt, known, mask=GAPS, reduction="none", **options)
    wanted = layer.loss(scores[GAPS], labels[GAPS], lengths, reduction="none", **packed)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)
    by_label = layer.loss(spoilt, torch.where(GAPS, labels, -100), reduction="none", **options)
    torch.testing.assert_close(by_label, wanted, rtol=0, atol=1e-12)
    mine = torch.autograd.grad(found.square().sum(), [spoilt, *layer.parameters()])
    theirs = torch.autograd.grad(wanted.square().sum(), [scores, *layer.parameters()])
    for own, other in zip(mine, theirs, strict=True):
        torch.testing.assert_close(own, other, rtol=0, atol=1e-12)
    assert (mine[0][~GAPS] == 0).all()
    best = layer.decode(spoilt, mask=GAPS.to(torch.uint8), **options)
    assert (best[~GAPS] == -1).all()
    assert best[GAPS].tolist() == layer.decode(scores[GAPS], lengths, **packed).tolist()
    marginals = layer.marginals(spoilt, mask=GAPS, **options)
    assert (marginals[~GAPS] == 0).all()
    torch.testing.assert_close(marginals[GAPS], layer.marginals(scores[GAPS], lengths, **packed), rtol=0, atol=1e-12)


def test_labels_leave_positions_out_of_packed_sequences_too(engine):
    layer, scores, labels, _ = drawn()
    inside = torch.arange(4) < LENGTHS[:, None]
    labels = torch.where(GAPS, labels, -100)
    padded = layer.loss(scores, labels, mask=inside, reduction="none")
    packed = layer.loss(scores[inside], labels[inside], LENGTHS, reduction="none")
    torch.testing.assert_close(padded, packed, rtol=0, atol=1e-12)


def test_sequences_of_which_labels_leave_nothing_have_no_loss(engine):
    layer, scores, labels, _ = drawn()
    some = labels.clone()
    some[1] = -100
    losses = layer.loss(scores, some, reduction="none")
    assert losses[1] == 0.0
    torch.testing.assert_close(losses[[0, 2]], layer.loss(scores, labels, reduction="none")[[0, 2]])
    torch.testing.assert_close(layer.loss(scores, some), losses.sum() / 2)
    torch.testing.assert_close(layer.loss(scores, some, reduction="token_mean"), losses.sum() / 8)
    nothing = layer.loss(scores, torch.full_like(labels, -100))
    nothing.backward()
    assert nothing == 0.0
    assert not scores.grad.any()


def test_the_label_that_leaves_a_position_out_can_be_chosen(packed_engine):
    layer, scores, labels, _ = drawn(ignore_index=-7)
    assert layer.ignore_index == -7
    own, theirs = torch.where(GAPS, labels, -7), torch.where(GAPS, labels, -100)
    torch.testing.assert_close(layer.loss(scores, own), drawn()[0].loss(scores, theirs))
    with pytest.raises(ValueError, match="got -100"):
        layer.loss(scores, theirs)
    with pytest.raises(ValueError, match="got -100"):
        drawn(ignore_index=None)[0].loss(scores, theirs)
    for wrong in (-1, 2, "x", 1.5):
        with pytest.raises(ValueError, match="ignore_index must be None or a whole number that is no label"):
            ChainField(4, ignore_index=wrong)


def test_a_call_that_could_have_either_sign_is_refused():
    layer, scores, labels, _ = drawn()
    with pytest.raises(TypeError, match=r"layer.loss\(scores, labels\), which is minimised"):
        layer(scores, labels)
    own, theirs = layer.loss(scores, labels, reduction="none"), layer.log_likelihood(scores, labels)
    assert (own >= 0).all()
    assert torch.equal(own, -theirs)


def test_a_sure_labelling_has_no_loss_below_zero(engine):
    layer, scores, labels, _ = drawn()
    sure = 1e5 * torch.nn.functional.one_hot(labels, 4) + 1e3 * scores
    losses = layer.loss(sure, labels, reduction="none")
    assert (losses >= 0).all()
    losses.sum().backward()
    assert torch.isfinite(scores.grad).all()


def test_nothing_of_the_padding_is_read(engine):
    layer, scores, labels, pair_scores = drawn(pairs=True)
    wanted = layer.loss(scores, labels, LENGTHS, pair_scores=pair_scores)
    spoilt, spoilt_pairs, other = scores.detach().clone(), pair_scores.detach().clone(), labels.clone()
    spoilt[1, 1:], spoilt_pairs[1, 1:], other[1, 1:] = torch.nan, torch.nan, 77
    spoilt_pairs[:, 0] = torch.nan  # nothing steps into a start
    torch.testing.assert_close(layer.loss(spoilt, other, LENGTHS, pair_scores=spoilt_pairs), wanted)


def test_float32_scores_are_summed_in_doubles(engine):
    layer, scores, labels, _ = drawn()
    single = copy.deepcopy(layer).float()
    narrow = scores.detach().float().requires_grad_()
    loss = single.loss(narrow, labels, LENGTHS)
    loss.backward()
    wide = narrow.detach().double().requires_grad_()
    exact = single.double().loss(wide, labels, LENGTHS)
    exact.backward()
    assert loss.dtype == narrow.grad.dtype == torch.float32
    torch.testing.assert_close(loss.double(), exact, rtol=6e-8, atol=0)
    torch.testing.assert_close(narrow.grad.double(), wide.grad, rtol=6e-8, atol=1e-30)
    half = single.float().loss(narrow.detach().bfloat16(), labels, LENGTHS)
    assert half.dtype == torch.float32


def test_scores_of_hundreds_of_nats(engine):
    layer, scores, labels, _ = drawn()
    large = (400 * scores).detach().requires_grad_()
    layer.loss(large, labels, LENGTHS).backward()
    gradient = large.grad.clone()
    wanted = torch.autograd.grad((recursion(layer, large, LENGTHS)).mean(), large)[0]
    shares = layer.marginals(large, LENGTHS)
    torch.testing.assert_close(shares / 3, wanted, rtol=0, atol=1e-10)
    assert torch.isfinite(gradient).all()


def test_transitions_of_a_fitted_field_give_its_marginals():
    random = np.random.default_rng(0)
    y = [np.repeat(random.integers(2, size=3), 2) for _ in range(8)]
    X = [np.column_stack([labels, -labels]) + random.normal(size=(6, 2)) for labels in y]
    crf = ChainCRF("linear", prior_variance=1.0, scale=False).fit(X, y)
    layer = ChainField(crf.classes_, ends=False, dtype=torch.float64)
    layer.load_state_dict({"transitions": torch.as_tensor(crf.transitions_)})
    node = crf.field_.answers(crf.structure.read(X), Workers(1)).potentials.node
    marginals = layer.marginals(torch.as_tensor(node), [6] * 8)
    np.testing.assert_allclose(marginals, np.concatenate(crf.predict_marginals(X)), atol=1e-10)


LACKING = ("lists, packed", "chains in blocks", "answers of a device", "lists from partial labels")


@pytest.mark.parametrize("case", [case for case in CASES if case not in LACKING])
def test_any_family_can_be_a_layer(case):
    """Log partitions, their gradients and scores of labels, items weighted alike or not, against enumeration."""
    solved = problem(case, "plain")
    tensors = [torch.tensor(np.asarray(array), requires_grad=True) for array in solved.potentials.arrays]
    values = log_partition(solved.family, *tensors)
    np.testing.assert_allclose(values.detach(), solved.enumerated().log_partition, atol=1e-10)
    for weights in (None, solved.weights):
        own = torch.ones(len(values)) if weights is None else torch.tensor(weights)
        found = torch.autograd.grad((own * values).sum(), tensors, retain_graph=True)
        wanted = solved.enumerated(weights).mean()
        for gradient, table in zip(found, wanted.values(), strict=True):
            np.testing.assert_allclose(gradient.reshape(table.shape), table, rtol=0, atol=1e-10)


def test_families_have_a_tensor_for_each_group():
    family = problem("chains", "plain").family
    with pytest.raises(ValueError, match="potentials of node, edge: got 1 tensors"):
        log_partition(family, torch.zeros(10, 3))


@pytest.mark.parametrize("pairs", [True, False])
def test_second_derivatives_are_covariances(engine, pairs):
    layer, scores, _, pair_scores = drawn(3, pairs=pairs)
    inputs = [scores, *layer.parameters(), *([pair_scores] if pairs else [])]
    directions = [torch.randn_like(own) for own in inputs]
    found = []
    for values in (
        layer.log_partition(scores, LENGTHS, pair_scores=pair_scores),
        recursion(layer, scores, LENGTHS, pair_scores),
    ):
        # Weights of the items, 2 g, depend on the inputs as well.
        gradients = torch.autograd.grad(values.square().sum(), inputs, create_graph=True)
        slope = sum((own * direction).sum() for own, direction in zip(gradients, directions, strict=True))
        found.append(torch.autograd.grad(slope, inputs))
    for mine, theirs in zip(*found, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-10)


BAD = {
    "no tensor": (lambda s, y: (s.tolist(), y), {}, TypeError, "scores must be a tensor of real numbers"),
    "whole numbers": (lambda s, y: (s.long(), y), {}, TypeError, "real numbers, got torch.int64"),
    "labels of another shape": (lambda s, y: (s, y[:2]), {}, ValueError, r"labels must have shape \(3, 4\)"),
    "too many labels": (lambda s, y: (s, y + 3), {}, ValueError, "sequence 0, position 0: labels must be 0 to 3"),
    "labels as scores": (lambda s, y: (s, s), {}, TypeError, "labels must be a tensor of whole numbers"),
    "no label in a set": (
        lambda s, y: (s, torch.zeros(3, 4, 4, dtype=torch.bool)),
        {},
        ValueError,
        "sequence 0, position 0: no label is allowed",
    ),
    "another number of labels": (
        lambda s, y: (s[..., :3], y),
        {},
        ValueError,
        r"scores must have shape \(batch, time, 4",
    ),
    "packed without lengths": (lambda s, y: (s[0], y[0]), {}, ValueError, "need lengths"),
    "packed, other lengths": (lambda s, y: (s[0], y[0]), {"lengths": [1, 2]}, ValueError, "add up to 3, but .* 4 pos"),
    "too long": (lambda s, y: (s, y), {"lengths": [4, 5, 1]}, ValueError, "must not exceed the 4 positions"),
    "empty": (lambda s, y: (s, y), {"lengths": [4, 0, 1]}, ValueError, "sequence 1 is empty .its length is 0."),
    "too few lengths": (lambda s, y: (s, y), {"lengths": [4, 4]}, ValueError, "one for each of 3 sequences"),
    "mask of no position": (
        lambda s, y: (s, y),
        {"mask": [[True] * 4, [False] * 4, [True] * 4]},
        ValueError,
        "sequence 1 is empty .its mask is False everywhere.: leave sequences",
    ),
    "mask of numbers": (lambda s, y: (s, y), {"mask": torch.ones(3, 4)}, TypeError, "mask must be of booleans"),
    "mask of another shape": (
        lambda s, y: (s, y),
        {"mask": torch.ones(3, 3, dtype=torch.bool)},
        ValueError,
        r"mask must have shape \(3, 4\), as padded scores, got \(3, 3\)",
    ),
    "mask as lengths": (
        lambda s, y: (s, y),
        {"lengths": torch.ones(3, 4, dtype=torch.bool)},
        ValueError,
        "lengths must be one number for each sequence, got shape .3, 4.: write mask=",
    ),
    "labels elsewhere": (
        lambda s, y: (s, y.to("meta")),
        {},
        ValueError,
        "labels and scores must be on one device, got meta and cpu",
    ),
    "mask elsewhere": (
        lambda s, y: (s, y),
        {"mask": torch.ones(3, 4, dtype=torch.bool, device="meta")},
        ValueError,
        "mask and scores must be on one device, got meta and cpu",
    ),
    "scores elsewhere": (
        lambda s, y: (s.to("meta"), y.to("meta")),
        {},
        ValueError,
        "the parameters of the layer and scores must be on one device, got cpu and meta",
    ),
    "lengths and mask": (lambda s, y: (s, y), {"lengths": [4] * 3, "mask": [[True] * 4] * 3}, ValueError, "not both"),
    "reduction": (lambda s, y: (s, y), {"reduction": "max"}, ValueError, "reduction must be one of 'mean'"),
    "pairs": (lambda s, y: (s, y), {"pair_scores": torch.zeros(3, 3, 4, 4)}, ValueError, "pair_scores must have shape"),
    "NaN": (lambda s, y: (s * torch.nan, y), {}, ValueError, "sequence 0, position 0: scores must be finite or -inf"),
    "infinite pairs": (
        lambda s, y: (s, y),
        {"pair_scores": torch.full((3, 4, 4, 4), torch.inf)},
        ValueError,
        "sequence 0, position 1: pair_scores must be finite",
    ),
    "all forbidden": (lambda s, y: (s - torch.inf, y), {}, ValueError, "sequence 0: every labelling is forbidden"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_named(packed_engine, name):
    change, options, kind, message = BAD[name]
    layer, scores, labels, _ = drawn()
    scores, labels = change(scores.detach(), labels)
    with pytest.raises(kind, match=message):
        layer.loss(scores, labels, **options)


def test_labels_that_constraints_forbid_are_named(packed_engine):
    layer, scores, _, _ = drawn(constraints="bio")
    labels = torch.tensor([[0, 0, 0, 0], [0, 0, 0, 0], [0, 2, 0, 0]])
    with pytest.raises(
        ValueError, match="sequence 2, position 1: label 'I-X' is forbidden after 'O' by the scheme 'bio'"
    ):
        layer.loss(scores, labels)
    labels[2] = torch.tensor([0, -1, 1, 2])
    layer.loss(scores, labels)
    labels[2] = torch.tensor([0, 2, -1, 2])
    with pytest.raises(ValueError, match="sequence 2: its labels are forbidden by the constraints, or by scores"):
        layer.loss(scores, labels)
    with pytest.raises(ValueError, match="sequence 0: its labels are forbidden"):
        layer.loss(scores.detach().index_fill(2, torch.tensor([0]), -torch.inf), torch.zeros(3, 4, dtype=torch.int64))


@pytest.mark.parametrize(
    ("labels", "kind", "message"),
    [
        (0, ValueError, "labels must be a whole number of at least 1"),
        ("bio", TypeError, "labels must be their number or a sequence"),
        (["a", "a"], ValueError, "labels must be different names"),
        ([], ValueError, "at least one"),
    ],
)
def test_labels_are_a_number_or_names(labels, kind, message):
    with pytest.raises(kind, match=message):
        ChainField(labels)


@pytest.mark.parametrize("assign", [False, True])
def test_a_layer_of_the_meta_device_has_its_constraints(assign):
    right, scores, _, _ = drawn(BIO, constraints="bio")
    with torch.device("meta"):
        layer = ChainField(BIO, constraints="bio", dtype=torch.float64)
    if not assign:
        layer = layer.to_empty(device="cpu")
    layer.load_state_dict(right.state_dict(), assign=assign)
    for name in ("forbidden_steps", "forbidden_start", "forbidden_end"):
        assert torch.equal(getattr(layer, name), getattr(right, name))
    assert torch.equal(layer.log_partition(scores, LENGTHS), right.log_partition(scores, LENGTHS))
    layer.reset_parameters()
    assert not any(own.any() for own in layer.parameters())
    assert torch.equal(layer.forbidden_steps, right.forbidden_steps)


@pytest.mark.parametrize("pairs", [True, False])
def test_the_best_labellings_come_with_their_probabilities(engine, pairs):
    layer, scores, _, pair_scores = drawn(pairs=pairs, constraints="bio")
    found = layer.nbest(scores, 7, mask=GAPS if not pairs else None, pair_scores=pair_scores)
    lengths = GAPS.sum(dim=1) if not pairs else torch.tensor([4, 4, 4])
    for i, length in enumerate(lengths.tolist()):
        own = scores[i] if pairs else scores[i][GAPS[i]]
        every = sorted(
            labellings(layer, own, length, None if pair_scores is None else pair_scores[i]), key=lambda pair: -pair[1]
        )
        total = torch.logsumexp(torch.stack([score for _, score in every]), dim=0)
        possible = [(list(labels), (score - total).item()) for labels, score in every if torch.isfinite(score)][:7]
        assert [labels for labels, _ in found[i]] == [labels for labels, _ in possible]
        assert [chance for _, chance in found[i]] == pytest.approx([chance for _, chance in possible])


def test_entities_have_the_probability_of_the_whole_span(engine):
    layer, scores, _, _ = drawn(seed=3, constraints="bio")
    kept = torch.tensor([[True, True, True, True], [False, True, False, True], [True, True, True, False]])
    spans = layer.entities(5 * scores, mask=kept, least=1e-6)
    best = layer.decode(5 * scores, mask=kept)
    assert sum(map(len, spans)) > 0
    for i in range(3):
        own = (5 * scores.detach())[i][kept[i]]
        total, shares = 0.0, {}
        for labels, score in labellings(layer, own, len(own)):
            total += score.exp().item()
            names = [BIO[label] for label in labels]
            for begin in range(len(names)):
                if names[begin].startswith("B"):
                    end = begin + 1
                    while end < len(names) and names[end] == f"I-{names[begin][2:]}":
                        end += 1
                    key = names[begin][2:], begin, end
                    shares[key] = shares.get(key, 0.0) + score.exp().item()
        predicted = [BIO[label] for label in best[i][kept[i]].tolist()]
        assert [entity.begin for entity in spans[i]] == [
            at for at, name in enumerate(predicted) if name.startswith("B")
        ]
        for entity in spans[i]:
            for each in (entity, *entity.alternatives):
                assert each.probability == pytest.approx(shares[each[:3]] / total, abs=1e-12)
    with pytest.raises(ValueError, match="least must be above 0"):
        layer.entities(scores, least=0)


@pytest.mark.parametrize("pairs", [True, False])
def test_weights_of_labels_count_positions_given_those_before(engine, pairs):
    """The conditional probabilities are ratios of sums over labellings that begin alike."""
    weights = {"O": 0.5, "B-Y": 3.0}
    layer, scores, _, pair_scores = drawn(pairs=pairs, constraints="bio", label_weights=weights)
    plain = ChainField(BIO, constraints="bio", dtype=torch.float64)
    plain.load_state_dict(layer.state_dict())
    labels = torch.tensor([[1, 2, 0, 3], [3, 0, 0, 0], [0, 1, 2, 0]])
    wanted = []
    for i, length in enumerate(LENGTHS.tolist()):
        every = list(labellings(plain, scores[i], length, None if pair_scores is None else pair_scores[i]))
        sums = [
            torch.logsumexp(
                torch.stack([score for own, score in every if list(own[:t]) == labels[i, :t].tolist()]), dim=0
            )
            for t in range(length + 1)
        ]
        own = [weights.get(BIO[label], 1.0) for label in labels[i, :length].tolist()]
        wanted.append(sum(weight * (sums[t] - sums[t + 1]) for t, weight in enumerate(own)))
    found = layer.loss(scores, labels, LENGTHS, pair_scores=pair_scores, reduction="none")
    torch.testing.assert_close(found, torch.stack(wanted), rtol=0, atol=1e-12)
    inputs = [scores, layer.transitions, *([pair_scores] if pairs else [])]
    mine = torch.autograd.grad(found.sum(), inputs)
    others = [scores, plain.transitions, *([pair_scores] if pairs else [])]
    for own, other in zip(mine, torch.autograd.grad(torch.stack(wanted).sum(), others), strict=True):
        torch.testing.assert_close(own, other, rtol=0, atol=1e-10)
    ones = drawn(pairs=pairs, constraints="bio", label_weights=[1, 1, 1, 1])[0]
    torch.testing.assert_close(
        ones.loss(scores, labels, LENGTHS, pair_scores=pair_scores),
        plain.loss(scores, labels, LENGTHS, pair_scores=pair_scores),
    )
    with pytest.raises(ValueError, match="label_weights weigh labels that are known"):
        layer.loss(scores, labels.index_fill(1, torch.tensor(0), -1), LENGTHS)
    with pytest.raises(ValueError, match="sequence 0, position 0: label 'I-X' is forbidden"):
        layer.loss(scores, torch.full_like(labels, 2))


def test_weights_of_labels_are_read():
    assert ChainField(3).label_weights is None
    assert ChainField(["a", "b"], label_weights={"b": 2}).label_weights.tolist() == [1.0, 2.0]
    assert ChainField(2, label_weights=torch.tensor([0.0, 2.0])).label_weights.tolist() == [0.0, 2.0]
    with pytest.raises(ValueError, match="label_weights name the unknown label 'c'"):
        ChainField(["a", "b"], label_weights={"c": 2})
    for wrong in ([1.0], [1.0, -1.0], [1.0, np.nan]):
        with pytest.raises(ValueError, match="label_weights must be 2 finite numbers of at least 0"):
            ChainField(2, label_weights=wrong)
