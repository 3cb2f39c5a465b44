"""Letters of a word as windows of indicators."""

import numpy as np
import pytest

from experiments.nettalk import ALPHABET, END, letter_windows

WIDTH = END + 1


def read_back(row):
    """Return what a row of indicators says, with a dot beyond the ends of the word."""
    return "".join((ALPHABET + ".")[column % WIDTH] for column in sorted(row.indices))


def test_a_row_holds_its_letter_and_three_neighbours_on_either_side():
    windows = letter_windows("talk")
    assert windows.shape == (4, 7 * WIDTH)
    shown = [read_back(windows[[t]]) for t in range(4)]
    assert shown == ["...talk", "..talk.", ".talk..", "talk..."]


def test_each_place_of_the_window_has_columns_of_its_own():
    places = letter_windows("aaaaaaa")[[3]].indices // WIDTH
    assert sorted(places) == list(range(7))


@pytest.mark.parametrize("fading", [1.0, 0.6])
def test_rows_have_norm_one_and_fade_with_distance(fading):
    windows = letter_windows("word", fading).toarray()
    np.testing.assert_allclose(np.linalg.norm(windows, axis=1), 1.0)
    by_place = windows[1].reshape(7, WIDTH).max(axis=1)
    np.testing.assert_allclose(by_place / by_place[3], fading ** np.array([3, 2, 1, 0, 1, 2, 3]))


def test_an_unknown_letter_is_refused():
    with pytest.raises(ValueError, match="not found"):
        letter_windows("naïve")
