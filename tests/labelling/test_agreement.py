"""How far annotators agree, in Python and in the terminal."""

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from kernelfields.labelling import agreement


def test_kappa_is_that_of_scikit_learn_and_f1_that_of_entities():
    random = np.random.default_rng(0)
    one = [random.choice(["a", "b", "c"], size=9).tolist() for _ in range(20)]
    other = [[label if random.random() < 0.7 else "b" for label in own] for own in one]
    other[3][2], other[4] = None, None
    table = agreement({"anna": one, "ben": other, "carl": one})
    pairs = [(x, z) for a, b in zip(one, other, strict=True) for x, z in zip(a, b or [], strict=False) if z is not None]
    names, count, same, kappa, f1 = table.rows[0]
    assert names == "anna, ben"
    assert count == len(pairs)
    assert same == pytest.approx(np.mean([x == z for x, z in pairs]))
    assert kappa == pytest.approx(cohen_kappa_score(*zip(*pairs, strict=True)))
    assert f1 is None
    assert [row[0] for row in table.rows] == ["anna, ben", "anna, carl", "ben, carl"]
    assert table.rows[1][2:4] == [1.0, 1.0]
    spans = agreement({"a": [["B-x", "I-x", "O"], ["O", None]], "b": [["B-x", "O", "B-x"], ["O", "O"]]})
    assert spans.rows[0][4] == 0.0
    assert "F1" in str(spans)
    assert "F1" not in str(table)


def test_bad_input():
    with pytest.raises(ValueError, match="two annotators or more, got 1"):
        agreement({"a": [["x"]]})
    with pytest.raises(ValueError, match="a and b have labelled 1 and 2 sequences"):
        agreement({"a": [["x"]], "b": [["x"], ["y"]]})
    with pytest.raises(ValueError, match="sequence 0 has 1 and 2 labels"):
        agreement({"a": [["x"]], "b": [["x", "y"]]})
    assert agreement({"a": [[None]], "b": [["x"]]}).rows[0][1:] == [0, None, None, None]
