"""Encoders tuned on labels fold by fold: no leakage, the cache, interrupts, pipelines, files, bad input."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GroupKFold
from sklearn.pipeline import make_pipeline

import kernelfields
from kernelfields import ChainCRF, TextFeatures
from kernelfields.features import SequenceUnion, TunedEncoder

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from kernelfields.features import encoder_tuning  # noqa: E402
from kernelfields.features.encoders import Encoder  # noqa: E402

TAGS = {"the": "DET", "a": "DET", "cat": "NOUN", "cats": "NOUN", "sat": "VERB", "unlikely": "ADJ"}
SENTENCES = [
    ["the", "cat", "sat"],
    ["a", "unlikely", "cat", "sat"],
    ["cats", "sat"],
    ["the", "unlikely", "cats", "sat"],
    ["a", "cat", "sat"],
    ["the", "cats", "sat"],
] * 2
LABELS = [[TAGS[word] for word in words] for words in SENTENCES]
FAST = {"cv": 3, "epochs": 4, "batch_size": 4, "learning_rate": 0.01, "dropout": 0.0, "device": "cpu"}


@pytest.fixture(scope="module")
def tuned(folder):
    """A fitted transformer and its outputs out of fold."""
    encoder = TunedEncoder(folder, **FAST)
    return encoder, encoder.fit_transform(SENTENCES, LABELS)


def spy(monkeypatch):
    """Count the tunings, and keep the sentences and labels of each."""
    calls, tune = [], encoder_tuning.tune

    def counted(encoder, sequences, known, *more):
        calls.append((sequences, known))
        return tune(encoder, sequences, known, *more)

    monkeypatch.setattr(encoder_tuning, "tune", counted)
    return calls


def test_outputs_have_a_column_for_each_label(tuned):
    encoder, outputs = tuned
    assert encoder.classes_.tolist() == ["ADJ", "DET", "NOUN", "VERB"]
    assert [rows.shape for rows in outputs] == [(len(words), 4) for words in SENTENCES]
    assert encoder.get_feature_names_out().tolist()[0] == "logit of ADJ"
    assert encoder.folds_.tolist().count(0) == 4
    # Words decide labels here, and a few steps are enough to learn that.
    assert encoder.fold_accuracy_.mean() > 0.6
    again = TunedEncoder(encoder.model, **FAST).fit_transform(SENTENCES, LABELS)
    np.testing.assert_array_equal(np.concatenate(again), np.concatenate(outputs))


def test_no_sequence_is_described_by_an_encoder_that_saw_its_labels(tuned, monkeypatch):
    encoder, outputs = tuned
    calls = spy(monkeypatch)
    wrong = [list(labels) for labels in LABELS]
    wrong[0] = ["VERB", "VERB", "DET"]
    other = TunedEncoder(encoder.model, **FAST)
    made = other.fit_transform(SENTENCES, wrong)
    np.testing.assert_array_equal(made[0], outputs[0])
    elsewhere = int(np.flatnonzero(other.folds_ != other.folds_[0])[0])
    assert not np.array_equal(made[elsewhere], outputs[elsewhere])
    for fold, (sequences, _) in enumerate(calls):
        assert len(sequences) == (other.folds_ != fold).sum()


def test_new_words_get_the_mean_of_all_folds(tuned):
    encoder, _ = tuned
    new = [["a", "cat"], ["cats"], ["the"] * 20]  # longer than the encoder takes
    found = encoder.transform(new)
    assert [rows.shape for rows in found] == [(2, 4), (1, 4), (20, 4)]
    loaded = Encoder(encoder.model, device="cpu")
    each = []
    for member in encoder._members:
        loaded.set_weights(member.encoder)
        states = dict(loaded.words(new, (1, 2), 8))
        each.append(states[0] @ member.weight.T + member.bias)
    np.testing.assert_allclose(found[0], np.mean(each, axis=0), atol=1e-5)
    assert encoder.transform([]) == []


def test_outputs_of_tuned_networks_are_those_of_the_trained_ones(folder):
    """Pooling before and after the last layer, in training and prediction, is the same."""
    encoder = Encoder(folder, device="cpu")
    head = encoder_tuning.Head(np.random.default_rng(0).normal(size=(3, 16)).astype(np.float32), np.ones(3, np.float32))
    cut = encoder.cut(SENTENCES[:2])
    with torch.no_grad():
        pooled = encoder.pool_subwords(
            [[i for word in words for i in word] for words in cut], [[*map(len, words)] for words in cut], (1, 2)
        )
    found = np.concatenate(encoder_tuning.compute_tuned_outputs(encoder, head, SENTENCES[:2]))
    np.testing.assert_allclose(found, pooled.numpy() @ head.weight.T + head.bias, atol=1e-5)


def test_groups_stay_together(folder):
    by_function = TunedEncoder(folder, groups=len, **FAST).fit(SENTENCES, LABELS)
    lengths = np.array([len(words) for words in SENTENCES])
    assert all(len(set(by_function.folds_[lengths == length])) == 1 for length in set(lengths))
    splitter = TunedEncoder(folder, groups=len, **{**FAST, "cv": GroupKFold(2)}).fit(SENTENCES, LABELS)
    assert splitter.folds_.max() == 1


def test_a_cache_goes_on_where_a_fit_was_interrupted(folder, tmp_path, monkeypatch, capsys):
    calls, tune = [], encoder_tuning.tune

    def interrupted(*arguments):
        calls.append(arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return tune(*arguments)

    monkeypatch.setattr(encoder_tuning, "tune", interrupted)
    encoder = TunedEncoder(folder, cache=tmp_path / "cache", verbose=1, **FAST)
    with pytest.raises(KeyboardInterrupt):
        encoder.fit(SENTENCES, LABELS)
    assert not hasattr(encoder, "classes_")
    outputs = encoder.fit_transform(SENTENCES, LABELS)
    assert len(calls) == 4
    assert "fold 2 of 3: from the cache" in capsys.readouterr().err
    again = clone(encoder)
    np.testing.assert_array_equal(np.concatenate(again.fit_transform(SENTENCES, LABELS)), np.concatenate(outputs))
    assert len(calls) == 4
    plain = TunedEncoder(folder, **FAST).fit(SENTENCES, LABELS).transform(SENTENCES[:2])
    for _ in range(2):  # computed, and from the cache
        np.testing.assert_allclose(np.concatenate(again.transform(SENTENCES[:2])), np.concatenate(plain), atol=1e-6)
    before = len(calls)
    again.set_params(epochs=1).fit(SENTENCES, LABELS)
    assert len(calls) == before + 3


def test_random_numbers_of_the_process_are_left_alone(folder):
    torch.manual_seed(5)
    wanted = torch.rand(3)
    torch.manual_seed(5)
    TunedEncoder(folder, **{**FAST, "cv": 2, "epochs": 1, "dropout": 0.1}).fit(SENTENCES, LABELS)
    torch.testing.assert_close(torch.rand(3), wanted, rtol=0, atol=0)


@pytest.mark.slow
def test_beside_text_features_in_a_pipeline(folder):
    rows = [[(word, word[0]) for word in words] for words in SENTENCES]
    union = SequenceUnion([("tuned", TunedEncoder(folder, **FAST)), ("text", TextFeatures())])
    model = make_pipeline(union, ChainCRF("linear", prior_variance=1.0)).fit(rows, LABELS)
    assert model[0].columns_["tuned"] == (0, 4)
    assert model.predict(rows[:2]) == LABELS[:2]
    copy = pickle.loads(pickle.dumps(model))
    assert copy.predict(rows[:2]) == LABELS[:2]


def test_model_files_refuse_it_and_its_folder_keeps_it(tuned, tmp_path):
    encoder, _ = tuned
    short = clone(encoder).set_params(epochs=1, cv=2)
    for step in (short, SequenceUnion([("tuned", short)])):
        model = make_pipeline(step, ChainCRF("linear", prior_variance=1.0)).fit(SENTENCES, LABELS)
        with pytest.raises(TypeError, match=r"a TunedEncoder, which a file of data cannot hold.*save"):
            kernelfields.save(model, tmp_path / "model.kfm")
    assert not (tmp_path / "model.kfm").exists()
    encoder.save(tmp_path / "tuned")
    again = TunedEncoder.load(tmp_path / "tuned")
    np.testing.assert_allclose(
        np.concatenate(again.transform(SENTENCES)), np.concatenate(encoder.transform(SENTENCES)), atol=1e-6
    )
    assert again.classes_.tolist() == encoder.classes_.tolist()
    assert {path.suffix for path in (tmp_path / "tuned").rglob("*") if path.is_file()} <= {
        ".json",
        ".safetensors",
        ".txt",
    }
    with pytest.raises(ValueError, match="is there already"):
        encoder.save(tmp_path / "tuned")
    with pytest.raises(ValueError, match="give a folder that TunedEncoder"):
        TunedEncoder.load(tmp_path)


BAD = {
    "no folder": ({"model": "no/such/folder"}, SENTENCES, LABELS, ValueError, "no folder 'no/such/folder'"),
    "no path": ({"model": 3}, SENTENCES, LABELS, TypeError, "model must be the path of a model folder"),
    "fewer than folds": ({}, SENTENCES[:2], LABELS[:2], ValueError, "cv=3 folds of 2 sequences"),
    "one fold": ({"cv": 1}, SENTENCES, LABELS, ValueError, "use at least 2 folds"),
    "one class": ({}, SENTENCES, [["X"] * len(y) for y in LABELS], ValueError, "one class only, .*'X'"),
    "nothing known": ({}, SENTENCES, [["X"], *[None] * 11], ValueError, "1 labels|one class only"),
    "a fold without labels": (
        {"cv": 12},
        SENTENCES,
        [LABELS[0], *[None] * 11],
        ValueError,
        "of 12: no label is known among its training rows",
    ),
    "epochs": ({"epochs": 0}, SENTENCES, LABELS, ValueError, "epochs must be a whole number of at least 1"),
    "dropout": ({"dropout": 1.0}, SENTENCES, LABELS, ValueError, "dropout must be a number between 0 and 1"),
    "empty sequence": ({}, [*SENTENCES, []], [*LABELS, []], ValueError, "sequence 12 has no words"),
    "numbers": ({}, [[1, 2], *SENTENCES[1:]], LABELS, TypeError, "is no word, expected a string"),
    "other lengths": ({}, SENTENCES, [LABELS[1], *LABELS[1:]], ValueError, "sequence 0"),
    "column": ({"word_column": 4}, [[("the", "D")]] * 12, [["D"]] * 12, ValueError, "has no column 4"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_named_before_anything_is_tuned(folder, monkeypatch, name):
    calls = spy(monkeypatch)
    options, X, y, kind, message = BAD[name]
    encoder = TunedEncoder(**{"model": folder, **FAST, **options})
    with pytest.raises(kind, match=message):
        encoder.fit(X, y)
    assert not calls
    assert not hasattr(encoder, "classes_")
