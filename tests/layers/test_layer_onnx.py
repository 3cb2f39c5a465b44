"""Layers as ONNX graphs answer as in torch, for any length, batch and mask."""

import json

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from kernelfields.layers import ChainField  # noqa: E402
from kernelfields.layers.compat import CRF  # noqa: E402
from kernelfields.serving import ServingError  # noqa: E402

TAGS = ["O", "B-X", "I-X", "B-Y", "I-Y"]


def drawn(seed=0, **options):
    torch.manual_seed(seed)
    layer = ChainField(TAGS, **options)
    with torch.no_grad():
        for own in layer.parameters():
            own.normal_()
    return layer


def session_of(path):
    return onnxruntime.InferenceSession(path.read_bytes())


def drawn_batch(n_sequences, longest, scale=3.0):
    """Scores, and masks with gaps, of which some select everything and some one position."""
    scores = scale * torch.randn(n_sequences, longest, len(TAGS))
    mask = torch.rand(n_sequences, longest) < torch.rand(n_sequences, 1)
    mask[torch.arange(n_sequences), torch.randint(longest, (n_sequences,))] = True
    return scores, mask


def assert_same(layer, found, scores, mask):
    labels, score, marginals = map(torch.as_tensor, found)
    assert torch.equal(labels, layer.decode(scores, mask=mask))
    torch.testing.assert_close(marginals, layer.marginals(scores, mask=mask), rtol=0, atol=1e-6)
    wanted = layer.log_likelihood(scores, labels.masked_fill(~mask, -100))
    torch.testing.assert_close(score, wanted.detach(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("options", [{}, {"constraints": "bio"}, {"ends": False}], ids=["plain", "bio", "no ends"])
def test_a_layer_alone_answers_as_in_torch(tmp_path, options):
    layer = drawn(**options)
    layer.to_onnx(tmp_path / "layer.onnx")
    session = session_of(tmp_path / "layer.onnx")
    assert json.loads(session.get_modelmeta().custom_metadata_map["labels"]) == TAGS
    for n_sequences, longest in ((40, 12), (30, 30), (1, 1), (5, 1), (1, 50), (20, 7)):
        scores, mask = drawn_batch(n_sequences, longest)
        assert_same(layer, session.run(None, {"scores": scores.numpy(), "mask": mask.numpy()}), scores, mask)


@pytest.mark.slow
def test_ten_thousand_sentences_are_the_same(tmp_path):
    layer = drawn(constraints="bio")
    layer.to_onnx(tmp_path / "layer.onnx")
    session = session_of(tmp_path / "layer.onnx")
    for batch in range(100):
        scores, mask = drawn_batch(100, 5 + batch % 40, scale=0.5 + batch % 7)
        assert_same(layer, session.run(None, {"scores": scores.numpy(), "mask": mask.numpy()}), scores, mask)


def test_a_sequence_without_positions_has_no_labels(tmp_path):
    drawn().to_onnx(tmp_path / "layer.onnx")
    scores, mask = drawn_batch(3, 4)
    mask[1] = False
    labels, score, marginals = session_of(tmp_path / "layer.onnx").run(
        None, {"scores": scores.numpy(), "mask": mask.numpy()}
    )
    assert (labels[1] == -1).all()
    assert (score[1], marginals[1].any()) == (0.0, False)


def test_scores_of_hundreds_stay_in_range(tmp_path):
    layer = drawn(constraints="bio")
    layer.to_onnx(tmp_path / "layer.onnx")
    scores, mask = drawn_batch(20, 30, scale=300.0)
    found = session_of(tmp_path / "layer.onnx").run(None, {"scores": scores.numpy(), "mask": mask.numpy()})
    assert_same(layer, found, scores, mask)


class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(30, 8)
        self.states = torch.nn.LSTM(8, 8, batch_first=True, bidirectional=True)
        self.linear = torch.nn.Linear(17, len(TAGS))
        self.dropout = torch.nn.Dropout(0.5)

    def forward(self, words, shape):
        return self.linear(torch.cat([self.dropout(self.states(self.words(words))[0]), shape[..., None]], dim=2))


def test_an_encoder_and_its_layer_are_one_graph(tmp_path):
    layer, encoder = drawn(constraints="bio"), Encoder()
    example = {"words": torch.randint(30, (2, 5)), "shape": torch.randn(2, 5)}
    layer.to_onnx(tmp_path / "tagger.onnx", encoder=encoder, inputs=example)
    assert encoder.training
    encoder.eval()
    session = session_of(tmp_path / "tagger.onnx")
    assert [each.name for each in session.get_inputs()] == ["words", "shape", "mask"]
    assert json.loads(session.get_modelmeta().custom_metadata_map["labels"]) == TAGS
    for n_sequences, longest in ((3, 9), (1, 4), (16, 21)):
        words, shape = torch.randint(30, (n_sequences, longest)), torch.randn(n_sequences, longest)
        _, mask = drawn_batch(n_sequences, longest)
        given = {"words": words.numpy(), "shape": shape.numpy(), "mask": mask.numpy()}
        with torch.no_grad():
            assert_same(layer, session.run(None, given), encoder(words, shape), mask)


def test_the_class_of_pytorch_crf_is_written_by_its_field(tmp_path):
    crf = CRF(len(TAGS), batch_first=True)
    crf.to_field().to_onnx(tmp_path / "crf.onnx")
    scores, mask = drawn_batch(6, 8)
    mask[:, 0] = True
    labels, *_ = session_of(tmp_path / "crf.onnx").run(None, {"scores": scores.numpy(), "mask": mask.numpy()})
    assert [row[row >= 0].tolist() for row in labels] == crf.decode(scores, mask)


def test_what_cannot_be_written_is_named(tmp_path):
    layer, encoder = drawn(), Encoder()
    with pytest.raises(TypeError, match="an encoder needs inputs: a dict of example tensors"):
        layer.to_onnx(tmp_path / "a.onnx", encoder=encoder, inputs=[torch.zeros(1)])
    example = {"mask": torch.randint(30, (2, 5)), "shape": torch.randn(2, 5)}
    with pytest.raises(ServingError, match="an input of the encoder is called 'mask'"):
        layer.to_onnx(tmp_path / "a.onnx", encoder=encoder, inputs=example)
    assert not list(tmp_path.iterdir())
