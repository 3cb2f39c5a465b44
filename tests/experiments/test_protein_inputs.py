"""Windows, finer labels and averages of the protein experiment, on proteins of a few residues."""

import numpy as np
import pytest

from experiments.protein_inputs import Proteins, by_state, flanks, labels, normalised, whole, windows
from experiments.protein_stack import accuracy, averaged


def proteins(*states):
    lengths = [len(each) for each in states]
    n = sum(lengths)
    return Proteins(
        np.zeros((n, 20)),
        np.zeros((n, 20)),
        np.zeros(n, dtype=np.uint8),
        np.array(["CHE".index(state) for each in states for state in each]),
        np.concatenate([[0], np.cumsum(lengths)]),
        np.zeros(len(states), dtype=np.int8),
    )


@pytest.mark.parametrize(
    ("refinement", "expected"),
    [
        ("states", "C C H H H H H E E"),
        ("ends", "C C H+1 H H H H-1 E+1 E-1"),
        ("two ends", "C+1 C-1 H+1 H+2 H H-2 H-1 E+1 E-1"),
        ("three ends", "C+1 C-1 H+1 H+2 H+3 H-2 H-1 E+1 E-1"),
    ],
)
def test_labels_count_from_the_ends_of_segments(refinement, expected):
    found = labels(proteins("CCHHHHHEE", "E"), refinement)
    assert " ".join(found[0]) == expected
    # A segment does not reach into the next protein.
    assert found[1].tolist() == ["E" if refinement == "states" else "E+1"]


def test_marginals_of_finer_labels_add_up():
    classes = np.array(["C", "E", "E+1", "H", "H-1"])
    found = by_state(np.array([[0.1, 0.2, 0.3, 0.15, 0.25]]), classes)
    np.testing.assert_allclose(found, [[0.1, 0.4, 0.5]])


def test_windows_are_zero_beyond_the_chain_and_keep_norms():
    columns = np.arange(1.0, 5.0)[:, None]
    found = windows([columns], 3, 1e6)[0] * np.sqrt(3)
    np.testing.assert_allclose(found, [[0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 0]], rtol=1e-6)


def test_means_of_the_protein_and_of_its_flanks():
    columns = np.arange(5.0)[:, None]
    np.testing.assert_array_equal(whole([columns])[0], np.full((5, 1), 2.0))
    before_and_after = flanks([columns], 1, 2)[0]
    np.testing.assert_allclose(before_and_after, [[0, 1.5], [0, 2.5], [0.5, 3.5], [1.5, 4], [2.5, 0]])


def test_scaling_is_that_of_training_residues():
    train, blind = normalised(np.array([[1.0, 0.0], [3.0, 0.0]]), np.array([[2.0, 1.0]]))
    np.testing.assert_allclose(train, [[-1, 0], [1, 0]])
    np.testing.assert_allclose(blind, [[0, 1]])


def test_averages_take_the_fields_that_complete_each_other():
    states = np.array([0, 1, 2])
    sure, unsure = np.eye(3), np.full((3, 3), 1 / 3)
    first, second = sure.copy(), unsure.copy()
    first[2] = [0.5, 0.1, 0.4]
    second[2] = [0.1, 0.1, 0.8]
    weights = averaged(np.stack([first, second, unsure]).astype(np.float32), states)
    assert weights.tolist() == [1, 1, 0]
    assert accuracy(first + second, states) == 1.0
