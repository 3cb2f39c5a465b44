"""Tables of weights: text that fits a terminal, shaded HTML, plain data."""

import json
from xml.etree import ElementTree

import numpy as np
import pytest

from kernelfields.reports import WeightsTable
from kernelfields.reports.inspection import FeatureWeight, SetWeights, WeightList


def listed(label, positive, negative, **more):
    rows = [[FeatureWeight(name, label, weight) for name, weight in part] for part in (positive, negative)]
    return WeightList(label, tuple(rows[0]), tuple(rows[1]), **more)


def small_table(**changes):
    lists = (
        listed("N", [("word:cat", 2.0), ("word:dog", 1.0)], [("word:sat", -4.0), ("word:the", -0.5)], more_negative=3),
        listed("V", [("word:sat", 3.0)], [], more_positive=1200),
    )
    parts = {
        "labels": ("N", "V"),
        "sets": (SetWeights("node", lists),),
        "transitions": np.array([[0.5, -1.5], [np.nan, 0.0]]),
        "scores": {"start": np.array([0.25, -0.75])},
    }
    return WeightsTable(**{**parts, **changes})


def parsed(table):
    """The HTML as a tree: the fragments are well-formed XML, too."""
    return ElementTree.fromstring(table._repr_html_())


def rows_of(tree, caption):
    tables = [each for each in tree.iter("table") if (each.findtext("caption") or "").startswith(caption)]
    assert len(tables) == 1
    return [["".join(cell.itertext()) for cell in row] for row in tables[0].iter("tr")]


def test_text_has_one_label_after_the_other_in_falling_order():
    blocks = str(small_table()).split("\n\n")
    assert blocks[0].splitlines() == [
        "label N",
        "    +2.000  word:cat",
        "    +1.000  word:dog",
        "       ...  3 more negative",
        "    -0.500  word:the",
        "    -4.000  word:sat",
    ]
    assert blocks[1].splitlines() == ["label V", "    +3.000  word:sat", "       ...  1,200 more positive"]
    assert blocks[2].splitlines() == [
        "transitions, from row to column (. = no weight)",
        "        N       V",
        "N  +0.500  -1.500",
        "V       .  +0.000",
    ]
    assert blocks[3].splitlines() == ["scores per label", "    start", "N  +0.250", "V  -0.750"]


def test_forbidden_transitions_are_marked_and_not_listed():
    table = small_table(forbidden=np.array([[False, True], [False, False]]))
    assert "(x = forbidden, . = no weight)" in str(table)
    assert "N  +0.500       x" in str(table)
    steps = [(row["previous"], row["label"]) for row in table.to_rows() if row["set"] == "transitions"]
    assert steps == [("N", "N"), ("V", "V")]
    assert table.to_dict()["forbidden"] == [[False, True], [False, False]]
    assert rows_of(parsed(table), "transitions")[1] == ["N", "+0.500", "x"]


def test_html_has_the_same_rows_labels_side_by_side():
    tree = parsed(small_table())
    assert rows_of(tree, "label N") == [
        ["+2.000", "word:cat"],
        ["+1.000", "word:dog"],
        ["...", "3 more negative"],
        ["-0.500", "word:the"],
        ["-4.000", "word:sat"],
    ]
    assert rows_of(tree, "transitions") == [["", "N", "V"], ["N", "+0.500", "-1.500"], ["V", ".", "+0.000"]]
    assert rows_of(tree, "scores per label") == [["", "start"], ["N", "+0.250"], ["V", "-0.750"]]
    beside = [each for each in tree.iter("div") if each.get("class") == "kf-beside"]
    assert [len(list(each.iter("table"))) for each in beside] == [2]


def test_sets_are_named_where_several_have_lists():
    step = FeatureWeight("bias", "V", 1.0, "N")
    sets = (
        SetWeights("node", (listed("N", [("a", 1.0)], []),)),
        SetWeights("edge", (WeightList(None, (step,), ()),)),
        SetWeights("node_2", note="7 pivots of RBF, no weights per feature"),
    )
    table = WeightsTable(("N", "V"), sets)
    assert str(table).splitlines() == [
        "node: label N",
        "    +1.000  a",
        "",
        "edge: pairs of labels by feature",
        "    +1.000  N -> V, bias",
        "",
        "node_2: 7 pivots of RBF, no weights per feature",
    ]
    tree = parsed(table)
    assert rows_of(tree, "edge: pairs of labels by feature") == [["+1.000", "N -> V, bias"]]
    assert [each.text for each in tree.iter("p")] == ["node_2: 7 pivots of RBF, no weights per feature"]


def test_a_list_without_weights_says_so():
    table = small_table(sets=(SetWeights("node", (listed("N", [], []),)),))
    assert "label N\n       ...  no weight other than zero" in str(table)


def test_plain_data_round_trip_through_json():
    table = small_table()
    data = json.loads(json.dumps(table.to_dict()))
    assert data["labels"] == ["N", "V"]
    assert data["transitions"] == [[0.5, -1.5], [None, 0.0]]
    assert data["scores"] == {"start": [0.25, -0.75]}
    first = data["sets"][0]["lists"][0]
    assert first["more_negative"] == 3
    assert first["negative"][0] == {"previous": None, "label": "N", "feature": "word:sat", "weight": -4.0}


def test_rows_hold_every_weight_of_the_table():
    rows = small_table().to_rows()
    assert all(list(row) == ["set", "previous", "label", "feature", "weight"] for row in rows)
    assert [tuple(row.values()) for row in rows] == [
        ("node", None, "N", "word:cat", 2.0),
        ("node", None, "N", "word:dog", 1.0),
        ("node", None, "N", "word:the", -0.5),
        ("node", None, "N", "word:sat", -4.0),
        ("node", None, "V", "word:sat", 3.0),
        ("transitions", "N", "N", None, 0.5),
        ("transitions", "N", "V", None, -1.5),
        ("transitions", "V", "V", None, 0.0),
        ("start", None, "N", None, 0.25),
        ("start", None, "V", None, -0.75),
    ]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"transitions": np.zeros((2, 3))}, r"transitions has shape \(2, 3\), but there are 2 labels"),
        ({"forbidden": np.zeros((3, 3), bool)}, r"forbidden has shape \(3, 3\)"),
        ({"scores": {"end": np.zeros(3)}}, r"scores of 'end' have shape \(3,\)"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(changes, words):
    with pytest.raises(ValueError, match=words):
        small_table(**changes)
