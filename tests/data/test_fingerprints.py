"""Items of a fit are recognised, whatever their form, and others are not."""

import numpy as np
import pytest
import scipy.sparse

import kernelfields
from kernelfields import (
    ChainCRF,
    GraphCRF,
    RingCRF,
    SegmentCRF,
    SequenceClassifier,
)
from kernelfields.data import Chains
from kernelfields.data.fingerprints import MOST, Fingerprint, fingerprint, mark_items
from kernelfields.estimators.probabilities import share_of_fit

LINEAR = {"kernel": "linear", "prior_variance": 1.0, "random_state": 0}


def sequences(count, seed, scale=1.0):
    random = np.random.default_rng(seed)
    X = [scale * random.normal(size=(int(random.integers(3, 9)), 3)) for _ in range(count)]
    return X, [np.where(x[:, 0] > 0, "a", "b").tolist() for x in X]


def packed(rows, length):
    """Chains of equal lengths."""
    inputs = np.asarray(rows, dtype=np.float64)
    return Chains(inputs, np.arange(0, len(inputs) + 1, length))


@pytest.mark.parametrize("kind", [ChainCRF, RingCRF, SegmentCRF, GraphCRF, SequenceClassifier])
@pytest.mark.parametrize("scale", [1.0, 1000.0])  # columns that a fit brings to one scale
def test_sequences_and_graphs(kind, scale):
    (X, y), (new, _) = sequences(20, 0, scale), sequences(20, 1, scale)
    settings = LINEAR | ({"max_duration": 9} if kind is SegmentCRF else {})
    if kind is GraphCRF:
        X, new = ([(x, np.array([[0, 1], [1, 2]])) for x in part] for part in (X, new))
    if kind is SequenceClassifier:
        y, settings = [labels[0] for labels in y], settings | {"n_states": 1}
    model = kind(**settings).fit(X, y)
    assert share_of_fit(model, X) == 1.0
    assert share_of_fit(model, new) == 0.0
    assert share_of_fit(model, [*X[:5], *new[:15]]) == 0.25


def test_zeros_that_are_stored_and_minus_zeros_do_not_count():
    rows = np.array([[0.0, 1.0], [2.0, 0.0], [0.0, 0.0]])
    stored = scipy.sparse.csr_array((np.array([0.0, 1.0, 2.0, -0.0]), [0, 1, 0, 1], [0, 2, 4, 4]), shape=(3, 2))
    offsets = np.arange(4)
    plain = mark_items(Chains(scipy.sparse.csr_array(rows), offsets))
    np.testing.assert_array_equal(mark_items(Chains(stored, offsets)), plain)
    np.testing.assert_array_equal(mark_items(Chains(rows, offsets)), plain)
    assert len(np.unique(plain)) == 3


def test_items_that_are_often_equal_say_nothing():
    """Of sixteen rows that are possible, new ones are among those of the fit, and must not be refused."""
    random = np.random.default_rng(0)
    kept = fingerprint(packed(random.integers(2, size=(300, 4)), 1))
    assert kept.twins == 1.0
    assert kept.share(packed(random.integers(2, size=(100, 4)), 1)) == 0.0
    half = np.vstack([random.normal(size=(150, 4)), np.ones((150, 4))])
    kept = fingerprint(packed(half, 1))
    assert kept.twins == 0.5
    assert kept.share(packed(half, 1)) == 1.0
    assert kept.share(packed(np.vstack([random.normal(size=(100, 4)), np.ones((100, 4))]), 1)) == 0.0


def test_of_many_items_a_few_marks_are_enough():
    random = np.random.default_rng(0)
    rows = random.normal(size=(10 * MOST, 3))
    kept = fingerprint(packed(rows, 1))
    assert len(kept.marks) == MOST
    assert kept.share(packed(rows[:500], 1)) == 1.0
    assert kept.share(packed(random.normal(size=(500, 3)), 1)) == 0.0
    mixed = kept.share(packed(np.vstack([rows[:5000], random.normal(size=(5000, 3))]), 1))
    assert mixed == pytest.approx(0.5, abs=0.06)
    parts = fingerprint(packed(rows[:MOST], 1)).with_items(packed(rows[MOST:], 1))
    np.testing.assert_array_equal(parts.marks, kept.marks)
    assert parts.n_items == kept.n_items


@pytest.mark.parametrize("scale", [False, True])
def test_items_that_were_cast_are_those_of_the_fit(scale):
    """Rounded inputs are nearly the same ones, and say as little of new items."""
    (X, y), (other, _) = sequences(60, 0), sequences(60, 1)
    model = ChainCRF("linear", prior_variance=1.0, scale=scale, random_state=0).fit(X, y)
    rounded = [x.astype(np.float32) for x in X]
    assert any((x != own).any() for x, own in zip(X, rounded, strict=True))
    assert share_of_fit(model, rounded) > 0.9
    assert share_of_fit(model, other) == 0.0


def test_single_numbers_meet_by_chance_and_chance_is_taken_off():
    random = np.random.default_rng(0)
    kept = fingerprint(packed(random.normal(size=(MOST, 1)), 1))
    assert kept.twins > 0.05
    assert kept.share(packed(random.normal(size=(MOST, 1)), 1)) < 0.05


def test_files_that_name_no_bits_count_all_of_them():
    (X, y), rounded = sequences(20, 0), [x.astype(np.float32) for x in sequences(20, 0)[0]]
    model = ChainCRF(**LINEAR).fit(X, y)
    kept = fingerprint(model.structure.read(X, y), 52)
    document = model._to_document()
    document["fitted_items"] = {name: value for name, value in kept._asdict().items() if name != "bits"}
    again = ChainCRF._from_document(document)
    assert share_of_fit(again, X) == 1.0
    assert share_of_fit(again, rounded) == 0.0


def test_items_without_labels_are_not_those_of_the_fit():
    (X, y), (unlabelled, _) = sequences(20, 0), sequences(20, 1)
    model = ChainCRF(**LINEAR).fit([*X, *unlabelled], [*y, *[None] * 20])
    assert share_of_fit(model, X) == 1.0
    assert share_of_fit(model, unlabelled) == 0.0


def test_files_keep_them(tmp_path):
    X, y = sequences(20, 0)
    model = ChainCRF(**LINEAR).fit(X, y)
    model.save(tmp_path / "field.kfm")
    again = kernelfields.load(tmp_path / "field.kfm")
    assert share_of_fit(again, X) == 1.0
    document = model._to_document()
    del document["fitted_items"]  # as in files of older releases
    assert share_of_fit(ChainCRF._from_document(document), X) == 0.0


@pytest.mark.parametrize(
    "change",
    [
        {"marks": np.array([2, 1], dtype=np.uint64)},
        {"marks": np.array([1.0, 2.0])},
        {"twins": np.nan},
        {"twins": 2.0},
        {"n_items": 1.5},
        {"bits": 60},
        {"bits": "all"},
    ],
)
def test_what_is_no_fingerprint_is_refused(change):
    described = {"marks": np.array([1, 2], dtype=np.uint64), "n_items": 2, "twins": 0.0}
    assert Fingerprint.rebuild(described).n_items == 2
    with pytest.raises(ValueError, match=r"the marks of (the items that it was fitted to are none|items count bits)"):
        Fingerprint.rebuild(described | change)
