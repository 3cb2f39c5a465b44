"""Labels that are whole numbers stay different labels, however large they are."""

from __future__ import annotations

import numpy as np
import pytest

from kernelfields import ChainCRF, GraphCRF, KernelClassifier, SegmentCRF, SequenceClassifier
from kernelfields.data.reading import encode_labels
from kernelfields.data.whole_numbers import concatenate_labels, convert_type, labels_as_array

HASHES = [2**63 + 1, 2**63 + 2, 5]
FIXED = {"kernel": "rbf", "prior_variance": 1.0, "random_state": 0}


def drawn(n=12, seed=0):
    """Sequences of three positions that show their labels, which are hashes."""
    random = np.random.default_rng(seed)
    numbers = [random.integers(3, size=3) for _ in range(n)]
    return [np.eye(3)[own] for own in numbers], [[HASHES[each] for each in own] for own in numbers]


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        ([1, 2, 3], "i"),
        ([1.0, 2.0], "f"),
        ([True, False], "b"),
        ([2**63 + 1, 5], "u"),
        ([2**53 + 1, 1.0], "i"),
        ([np.uint64(2**63 + 1), 5, np.int64(7)], "u"),
        ([-(2**63), 2**63 - 1], "i"),
    ],
)
def test_a_list_is_an_array_of_the_same_numbers(labels, kind):
    array = labels_as_array(labels)
    assert array.dtype.kind == kind
    assert [int(label) for label in array.tolist()] == [int(label) for label in labels]


def test_arrays_are_joined_as_whole_numbers_and_compared_as_such():
    small, large = np.array([3, 5]), np.array([2**63 + 1, 2**63 + 2], dtype=np.uint64)
    assert concatenate_labels([small, large]).tolist() == [3, 5, 2**63 + 1, 2**63 + 2]
    assert concatenate_labels([np.array([1.0, 2.0]), np.array([2**53 + 1])]).tolist() == [1, 2, 2**53 + 1]
    assert concatenate_labels([np.array([1.0]), small]).dtype.kind == "f"
    cast, fits = convert_type(large, np.array([-1, 5]))
    assert (cast.dtype, fits.tolist()) == (large.dtype, [False, True])
    with pytest.raises(ValueError, match=r"-1 and 9223372036854775810 are whole numbers that no type of 64 bits holds"):
        concatenate_labels([large, np.array([-1])])


@pytest.mark.parametrize("y", [[[2**63 + 1, 5], [-1, 5]], [[2**64, 5], [5, 5]]])
def test_numbers_of_no_common_type_are_refused_in_one_line(y):
    with pytest.raises(ValueError, match=r"no type of 64 bits holds together: pass strings, str\(label\)"):
        encode_labels(y)


def test_floats_that_may_be_several_numbers_are_refused():
    """float(2**53 + 1) is float(2**53): what the ids were cannot be known any more."""
    with pytest.raises(ValueError, match=r"label 9007199254740994 at sequence 1, position 0 is a float beyond 2\*\*53"):
        encode_labels([np.array([1.0, 2.0]), np.array([2.0**53 + 2])])
    assert encode_labels([[2.0**53, 1.0]])[1].tolist() == [1.0, 2.0**53]


@pytest.mark.parametrize("estimator", [ChainCRF(**FIXED), SegmentCRF(max_duration=3, **FIXED)])
def test_fields_on_sequences_learn_and_find_each_id(estimator, tmp_path):
    X, y = drawn()
    crf = estimator.fit(X, y)
    assert crf.classes_.tolist() == sorted(HASHES)
    assert [list(map(int, own)) for own in crf.predict(X)] == y
    assert crf.score(X, y) == 1.0
    crf.save(tmp_path / "model.kfm")
    read = type(crf).load(tmp_path / "model.kfm")
    assert read.classes_.tolist() == sorted(HASHES)
    assert read.score(X, y) == 1.0
    assert crf.score(X[:1], [[4, 4, 4]]) == 0.0


def test_partly_known_ones_and_batches_with_further_ones():
    X, y = drawn()
    partly = [[None, *own[1:]] if number else own for number, own in enumerate(y)]
    assert ChainCRF(**FIXED).fit(X, partly).classes_.tolist() == sorted(HASHES)
    small = [[int(label != 5) for label in own] for own in y]
    crf = ChainCRF(**FIXED).partial_fit(X, small).partial_fit(X, y)
    assert crf.classes_.tolist() == [0, 1, *sorted(HASHES)]


def test_samples_nodes_and_whole_sequences():
    X, y = drawn()
    rows, labels = np.vstack(X), [label for own in y for label in own]
    classifier = KernelClassifier(**FIXED).fit(rows, labels)
    assert (classifier.classes_.tolist(), classifier.score(rows, labels)) == (sorted(HASHES), 1.0)
    graphs = [(x, np.array([[0, 1], [1, 2]]).T) for x in X]
    assert GraphCRF(**FIXED).fit(graphs, y).classes_.tolist() == sorted(HASHES)
    whole = SequenceClassifier(**FIXED, n_states=1).fit(X, [own[0] for own in y])
    assert whole.classes_.tolist() == sorted(HASHES)
