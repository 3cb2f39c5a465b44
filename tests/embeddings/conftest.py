"""A tiny encoder with random weights, for all tests of this folder."""

import pytest

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "un", "##like", "##ly", "a", "##s"]
LONGEST = 16


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """The folder of an encoder of two layers, with random weights, that takes sixteen subwords."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    place = tmp_path_factory.mktemp("encoder")
    (place / "vocab.txt").write_text("\n".join(PIECES))
    tokenizer = transformers.BertTokenizerFast(vocab=str(place / "vocab.txt"), model_max_length=LONGEST)
    tokenizer.save_pretrained(place)
    torch.manual_seed(0)
    shape = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    config = transformers.BertConfig(vocab_size=len(PIECES), max_position_embeddings=LONGEST, **shape)
    transformers.BertModel(config).save_pretrained(place)
    return place
