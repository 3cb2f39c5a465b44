"""Taggers as they are written around pytorch-crf: a small encoder, [CLS] and subwords, labels of -100 and -1.

Each class has the calls of code that is in use, and runs with either class of a layer.
"""

import pytest

torch = pytest.importorskip("torch")

from kernelfields.layers import compat  # noqa: E402

N_TAGS = 5


class Tagger(torch.nn.Module):
    """An encoder of pieces of words, and a layer on top."""

    def __init__(self, layer):
        super().__init__()
        self.embedding = torch.nn.Embedding(30, 12, padding_idx=0)
        block = torch.nn.TransformerEncoderLayer(12, 2, 16, dropout=0.0, batch_first=True)
        self.encoder = torch.nn.TransformerEncoder(block, 1, enable_nested_tensor=False)
        self.linear = torch.nn.Linear(12, N_TAGS)
        self.crf = layer(N_TAGS, batch_first=True)

    def logits(self, pieces, attention_mask):
        return self.linear(self.encoder(self.embedding(pieces), src_key_padding_mask=attention_mask == 0))


class FirstPieces(Tagger):
    """Sequences one by one, as those who know that pytorch-crf takes no gaps write it."""

    def forward(self, pieces, attention_mask, labels=None):
        logits, is_first = self.logits(pieces, attention_mask), self.first_pieces(pieces)
        if labels is None:
            return [self.crf.decode(each[own].unsqueeze(0))[0] for each, own in zip(logits, is_first, strict=True)]
        loss = 0
        for each, own_labels, own in zip(logits, labels, is_first, strict=True):
            loss -= self.crf(each[own].unsqueeze(0), own_labels[own].unsqueeze(0), reduction="token_mean")
        return loss / len(logits)

    @staticmethod
    def first_pieces(pieces):
        return (pieces > 2) & (pieces % 3 > 0)


class WithoutTheFirst(Tagger):
    """[CLS] cut off, and -100 replaced by a tag of its own, as pytorch-crf indexes with it otherwise."""

    def forward(self, pieces, attention_mask, labels=None):
        logits, mask = self.logits(pieces, attention_mask)[:, 1:], attention_mask[:, 1:].type(torch.bool)
        tags = self.crf.decode(logits, mask=mask)
        if labels is None:
            return tags
        own = labels[:, 1:]
        own = torch.where(own == -100, torch.tensor(N_TAGS - 1), own)
        return -self.crf(logits, own, mask=mask, reduction="token_mean")


class MaskOfLabels(Tagger):
    """The mask is where labels are, with [CLS] switched on by hand."""

    def forward(self, pieces, attention_mask, labels=None):
        logits = self.logits(pieces, attention_mask)
        if labels is None:
            return self.crf.decode(logits, mask=attention_mask.ne(0))
        mask = labels.ne(-100)
        mask[:, 0] = True
        return -self.crf(logits, labels, mask=mask, reduction="mean")


class AsTheyCome(Tagger):
    """Labels with -100 and the mask of the encoder, with which pytorch-crf fails."""

    def forward(self, pieces, attention_mask, labels=None):
        logits = self.logits(pieces, attention_mask)
        if labels is None:
            return self.crf.decode(logits, attention_mask.byte())
        return -self.crf(logits, labels, attention_mask.byte())


def batch():
    """Pieces with [CLS] (1) in front and [SEP] (2) behind, and labels of first pieces alone."""
    torch.manual_seed(0)
    pieces = torch.randint(3, 30, (4, 9))
    lengths = torch.tensor([9, 5, 7, 6])
    pieces[:, 0], pieces[torch.arange(4), lengths - 1] = 1, 2
    attention_mask = (torch.arange(9) < lengths[:, None]).long()
    pieces = pieces * attention_mask
    pieces[:, 1] = 4  # a first piece
    labels = torch.randint(N_TAGS, (4, 9)).masked_fill(~FirstPieces.first_pieces(pieces), -100)
    return pieces, attention_mask, labels


def made(kind, layer):
    torch.manual_seed(1)
    return kind(layer)


def loss_and_gradients(tagger, *given):
    loss = tagger(*given)
    loss.backward()
    return [loss.detach(), *(own.grad for own in tagger.parameters())]


@pytest.mark.parametrize("kind", [FirstPieces, WithoutTheFirst])
def test_taggers_train_and_predict_as_with_pytorch_crf(kind):
    theirs = pytest.importorskip("torchcrf").CRF
    own, other = made(kind, compat.CRF), made(kind, theirs)
    other.load_state_dict(own.state_dict())
    given = batch()
    for mine, wanted in zip(loss_and_gradients(own, *given), loss_and_gradients(other, *given), strict=True):
        torch.testing.assert_close(mine, wanted, rtol=1e-4, atol=1e-5)
    assert own(*given[:2]) == other(*given[:2])


@pytest.mark.parametrize("kind", [MaskOfLabels, AsTheyCome])
def test_pieces_without_a_label_are_no_part_of_a_sequence(kind):
    """The loss of the batch is that of the first pieces, sequence by sequence."""
    tagger, (pieces, attention_mask, labels) = made(kind, compat.CRF), batch()
    logits, is_first = tagger.logits(pieces, attention_mask), FirstPieces.first_pieces(pieces)
    alone = [tagger.crf(logits[i, is_first[i]][None], labels[i, is_first[i]][None]) for i in range(4)]
    wanted = -torch.stack(alone).sum() / (4 if kind is MaskOfLabels else 1)
    torch.testing.assert_close(tagger(pieces, attention_mask, labels), wanted)
    predicted = tagger(pieces, attention_mask)
    assert [len(each) for each in predicted] == attention_mask.sum(dim=1).tolist()


@pytest.mark.parametrize("kind", [FirstPieces, WithoutTheFirst, MaskOfLabels, AsTheyCome])
def test_taggers_learn(kind):
    tagger, given = made(kind, compat.CRF), batch()
    optimiser = torch.optim.Adam(tagger.parameters(), lr=0.02)
    losses = []
    for _ in range(30):
        optimiser.zero_grad()
        loss = tagger(*given)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 4
