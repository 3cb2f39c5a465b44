"""The class of pytorch-crf by its own promises: against pytorch-crf, enumeration, and its documents."""

import copy
import itertools

import pytest

torch = pytest.importorskip("torch")

from kernelfields.layers.compat import CRF  # noqa: E402

DEPRECATED = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
THEIR_MASKS = pytest.mark.filterwarnings("ignore:where received a uint8 condition tensor:UserWarning")
REDUCTIONS = "none", "sum", "mean", "token_mean"


def batch(seed=0, batch_first=False, n_tags=5, lengths=(6, 1, 4), dtype=torch.float32):
    """Emissions, tags and a mask of padded sequences."""
    random = torch.Generator().manual_seed(seed)
    longest = max(lengths)
    emissions = torch.randn(len(lengths), longest, n_tags, generator=random, dtype=dtype)
    tags = torch.randint(n_tags, (len(lengths), longest), generator=random)
    mask = torch.arange(longest) < torch.tensor(lengths)[:, None]
    if batch_first:
        return emissions, tags, mask
    return emissions.transpose(0, 1), tags.T, mask.T


@pytest.fixture
def theirs():
    return pytest.importorskip("torchcrf").CRF


def pair(theirs, seed=1, **options):
    """Theirs and ours with the same parameters."""
    torch.manual_seed(seed)
    other = theirs(5, **options)
    own = CRF(5, **options)
    own.load_state_dict(other.state_dict())
    return other, own


@THEIR_MASKS
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("masked", [torch.bool, torch.uint8, None])
def test_values_and_gradients_are_those_of_pytorch_crf(theirs, batch_first, reduction, masked):
    other, own = pair(theirs, batch_first=batch_first)
    emissions, tags, mask = batch(batch_first=batch_first)
    mask = None if masked is None else mask.to(masked)
    found = []
    for crf in (other, own):
        given = emissions.clone().requires_grad_()
        value = crf(given, tags, mask=mask if crf is own or mask is None else mask.bool(), reduction=reduction)
        weights = torch.linspace(1, 2, value.numel()).reshape(value.shape)
        (weights * value).sum().backward()
        found.append([value.detach(), given.grad, *(each.grad for each in crf.parameters())])
    for mine, wanted in zip(*reversed(found), strict=True):
        assert mine.dtype == wanted.dtype
        torch.testing.assert_close(mine, wanted, rtol=2e-6, atol=2e-6)
    assert own.decode(emissions, mask) == other.decode(emissions, None if mask is None else mask.bool())


@THEIR_MASKS
def test_defaults_are_those_of_pytorch_crf(theirs):
    torch.manual_seed(0)
    other = theirs(7)
    torch.manual_seed(0)
    own = CRF(7)
    assert repr(own) == repr(other) == "CRF(num_tags=7)"
    assert (own.num_tags, own.batch_first) == (7, False)
    for (name, mine), (their_name, wanted) in zip(own.named_parameters(), other.named_parameters(), strict=True):
        assert name == their_name
        assert torch.equal(mine, wanted)
        assert mine.abs().max() <= 0.1
    other.load_state_dict(own.state_dict())
    emissions, tags, _ = batch(n_tags=7)
    torch.testing.assert_close(own(emissions, tags), other(emissions, tags))


BAD = {
    "dimensions": lambda e, y, m: (e[0], y, m),
    "number of tags": lambda e, y, m: (e[..., :3], y, m),
    "shape of tags": lambda e, y, m: (e, y[:, :1], m),
    "shape of the mask": lambda e, y, m: (e, y, m[:2]),
    "a mask that begins later": lambda e, y, m: (e, y, m.roll(1, dims=0)),
    "reduction": lambda e, y, m: (e, y, m, "max"),
}


@THEIR_MASKS
@pytest.mark.parametrize("name", BAD)
def test_errors_are_those_of_pytorch_crf(theirs, name):
    messages = []
    for crf in pair(theirs):
        with pytest.raises(ValueError) as raised:  # noqa: PT011  # the messages are compared
            crf(*BAD[name](*batch()))
        messages.append(str(raised.value))
    assert messages[0] == messages[1]


def test_no_tags_at_all_are_refused_as_in_pytorch_crf(theirs):
    for kind in (theirs, CRF):
        with pytest.raises(ValueError, match="invalid number of tags: 0"):
            kind(0)


@pytest.mark.parametrize("batch_first", [True, False])
def test_gaps_and_tags_of_minus_100_leave_positions_out(batch_first):
    """As if the sequences were made of the other positions alone."""
    crf = CRF(5, batch_first=batch_first)
    emissions, tags, mask = batch(batch_first=True, dtype=torch.float64)
    kept = mask & torch.tensor([[True, False, True, True, False, True]])
    gone = torch.where(kept, tags, -100)

    def turned(tensor):
        return tensor if batch_first else tensor.transpose(0, 1)

    wanted = []
    for i in range(3):
        own = emissions[i, kept[i]][None]
        wanted.append(crf(turned(own), turned(tags[i, kept[i]][None])))
        assert crf.decode(turned(own)) == [crf.decode(turned(emissions), turned(kept))[i]]
    for labels, chosen in ((tags, kept), (gone, mask), (gone, None), (gone.clamp_min(-1), mask)):
        found = crf(turned(emissions), turned(labels), None if chosen is None else turned(chosen), "none")
        torch.testing.assert_close(found, torch.stack(wanted), rtol=0, atol=1e-12)


@DEPRECATED
@pytest.mark.parametrize("batch_first", [True, False])
def test_scripts_give_the_same(batch_first):
    crf = CRF(5, batch_first=batch_first)
    script = torch.jit.script(crf)
    emissions, tags, mask = batch(batch_first=batch_first)
    tags = torch.where(tags == 3, -100, tags)
    tags[0, 0] = -100
    for reduction in REDUCTIONS:
        torch.testing.assert_close(script(emissions, tags, mask, reduction), crf(emissions, tags, mask, reduction))
    gaps = mask & (tags != 2)
    gaps[:, 0] = gaps[0] = True
    assert script.decode(emissions, gaps) == crf.decode(emissions, gaps)
    with pytest.raises(torch.jit.Error, match="mask of the first timestep must all be on"):
        script.decode(emissions, ~mask)


def test_bad_input_is_named():
    crf = CRF(5, batch_first=True)
    emissions, tags, mask = batch(batch_first=True)
    with pytest.raises(ValueError, match=r"sequence 0, position .: labels must be 0 to 4, or -1 to leave .*, got 5"):
        crf(emissions, tags + 1, mask)
    with pytest.raises(TypeError, match="labels must be a tensor of whole numbers"):
        crf(emissions, tags.float(), mask)
    for spoilt in (torch.nan, torch.inf):
        with pytest.raises(ValueError, match="sequence 2, position 3: scores must be finite or -inf"):
            crf(emissions.index_put((torch.tensor(2), torch.tensor(3), torch.tensor(1)), torch.tensor(spoilt)), tags)
    with pytest.raises(ValueError, match="labels and scores must be on one device, got meta and cpu"):
        crf(emissions, tags.to("meta"), mask)
    with pytest.raises(TypeError, match=r"scores must be a tensor of real numbers, got torch.int64"):
        crf(emissions.long(), tags, mask)
    with pytest.raises(ValueError, match="mask of the first timestep must all be on"):
        crf(emissions, tags, torch.zeros_like(mask))


def test_the_readme_of_pytorch_crf_runs():
    """Its steps, with the values that enumeration gives."""
    torch.manual_seed(0)
    num_tags, seq_length, batch_size = 5, 3, 2
    model = CRF(num_tags)
    emissions = torch.randn(seq_length, batch_size, num_tags)
    tags = torch.tensor([[0, 1], [2, 4], [3, 1]], dtype=torch.long)
    mask = torch.tensor([[1, 1], [1, 1], [1, 0]], dtype=torch.uint8)

    def score(i, own):
        total = model.start_transitions[own[0]] + model.end_transitions[own[-1]]
        total = total + sum(emissions[t, i, tag] for t, tag in enumerate(own))
        return total + sum(model.transitions[pair] for pair in itertools.pairwise(own))

    for own, lengths in ((None, (3, 3)), (mask, (3, 2))):
        wanted, best = torch.zeros(()), []
        for i, length in enumerate(lengths):
            every = list(itertools.product(range(num_tags), repeat=length))
            scores = torch.stack([score(i, each) for each in every])
            wanted = wanted + score(i, tuple(tags[:length, i].tolist())) - torch.logsumexp(scores, dim=0)
            best.append(list(every[int(scores.argmax())]))
        torch.testing.assert_close(model(emissions, tags, mask=own), wanted)
        assert model.decode(emissions, mask=own) == best


def test_a_field_shares_the_parameters():
    crf = CRF(3, batch_first=True)
    field = crf.to_field(["O", "B-X", "I-X"], constraints="bio")
    emissions, tags, mask = batch(batch_first=True, n_tags=3)
    plain = crf.to_field()
    torch.testing.assert_close(plain.loss(emissions, tags, mask=mask, reduction="sum"), -crf(emissions, tags, mask))
    assert field.transitions is crf.transitions
    assert field.marginals(emissions)[:, 0, 2].max() == 0
    with pytest.raises(ValueError, match="labels must be 3 names, got 2"):
        crf.to_field(["a", "b"])


def test_layers_are_copied_and_pickled():
    import io

    crf = CRF(3, batch_first=True)
    emissions, tags, mask = batch(batch_first=True, n_tags=3)
    wanted = crf(emissions, tags, mask)
    assert torch.equal(copy.deepcopy(crf)(emissions, tags, mask), wanted)
    file = io.BytesIO()
    torch.save(crf, file)
    file.seek(0)
    assert torch.equal(torch.load(file, weights_only=False)(emissions, tags, mask), wanted)
