"""Explanations of one sequence as text, as HTML and as plain data."""

import json
import math
from xml.etree import ElementTree

from kernelfields.reports import Explanation
from kernelfields.reports.inspection import Contribution, PositionExplanation
from kernelfields.reports.tables import shade


def small_explanation():
    pivot = Contribution("similar", "node_2", "training input 17", 0.75, 0.5)
    first = PositionExplanation(
        0,
        "the",
        "D",
        "N",
        0.9,
        0.0625,
        3.0,
        (
            Contribution("feature", "node", "word:the", 2.0, 1.0),
            Contribution("feature", "node", "len", 1.5, 0.3),
            Contribution("kernel", "node_2", "node_2: 9 pivots of RBF", 0.5, parts=(pivot,)),
            Contribution("transition", "edge", "transition to N", -1.25),
        ),
        12,
        0.25,
    )
    second = PositionExplanation(
        1, "cat", "V", "N", 0.2, 0.7, -1.5, (Contribution("transition", "edge", "transition from D", -1.5),)
    )
    rule = Contribution("rule", "", "D is forbidden at the last position by the constraints", math.inf)
    step = Contribution("transition", "edge", "transition from V", -0.5)
    third = PositionExplanation(2, "sat", "N", "D", 0.8, 0.0, math.inf, (rule, step))
    return Explanation((first, second, third))


def parsed(explanation):
    return ElementTree.fromstring(explanation._repr_html_())


def test_text_lists_every_term_below_its_position():
    blocks = str(small_explanation()).split("\n\n")
    assert len(blocks) == 4
    assert blocks[1].splitlines() == [
        "0 'the': D (0.900) over N (0.062), +3.000",
        "    +2.000  word:the",
        "    +1.500  len (value 0.3)",
        "    +0.500  node_2: 9 pivots of RBF",
        "          +0.750  training input 17 (kernel value 0.5)",
        "    -1.250  transition to N",
        "    +0.250  (12 more features)",
    ]
    assert blocks[2].splitlines() == [
        "1 'cat': V (0.200) over N (0.700), -1.500",
        "    -1.500  transition from D",
    ]
    assert blocks[3].splitlines() == [
        "2 'sat': N (0.800) over D (0.000), +inf",
        "      +inf  D is forbidden at the last position by the constraints",
        "    -0.500  transition from V",
    ]


def test_html_colours_tokens_by_difference_and_rows_by_amount():
    tree = parsed(small_explanation())
    tokens = [(each.text, each.findtext("small"), each.get("style")) for each in tree.iter("span")]
    assert tokens == [("the", "D", shade(1.0)), ("cat", "V", shade(-0.5)), ("sat", "N", shade(1.0))]
    tables = list(tree.iter("table"))
    assert [table.findtext("caption") for table in tables] == [
        "0 'the': D (0.900) over N (0.062), +3.000",
        "1 'cat': V (0.200) over N (0.700), -1.500",
        "2 'sat': N (0.800) over D (0.000), +inf",
    ]
    rows = [(row[0].text, row[1].text, row.get("style")) for row in tables[0].iter("tr")]
    assert rows == [
        ("+2.000", "word:the", shade(2.0 / 2)),
        ("+1.500", "len (value 0.3)", shade(1.5 / 2)),
        ("+0.500", "node_2: 9 pivots of RBF", shade(0.5 / 2)),
        ("+0.750", "training input 17 (kernel value 0.5)", shade(0.75 / 2)),
        ("-1.250", "transition to N", shade(-1.25 / 2)),
        ("+0.250", "(12 more features)", None),
    ]
    rows = [(row[0].text, row[1].text, row.get("style")) for row in tables[2].iter("tr")]
    assert rows == [
        ("+inf", "D is forbidden at the last position by the constraints", shade(1.0)),
        ("-0.500", "transition from V", shade(-0.5 / 2)),
    ]


def test_rows_hold_every_contribution():
    rows = small_explanation().to_rows()
    assert len(rows) == 7
    assert rows[1] == {
        "position": 0,
        "token": "the",
        "label": "D",
        "other": "N",
        "kind": "feature",
        "set": "node",
        "name": "len",
        "amount": 1.5,
        "value": 0.3,
    }


def test_plain_data_goes_through_json():
    data = json.loads(json.dumps(small_explanation().to_dict(), allow_nan=False))
    first, second, third = data["positions"]
    assert first["contributions"][2]["parts"] == [
        {
            "kind": "similar",
            "set": "node_2",
            "name": "training input 17",
            "amount": 0.75,
            "value": 0.5,
            "parts": [],
        }
    ]
    listed = sum(each["amount"] for each in first["contributions"])
    assert listed + first["more_amount"] == first["difference"] == 3.0
    assert (first["more"], second["more"]) == (12, 0)
    assert third["difference"] is third["contributions"][0]["amount"] is None
    assert third["contributions"][0]["kind"] == "rule"
    assert (second["token"], second["label"], second["other"]) == ("cat", "V", "N")
