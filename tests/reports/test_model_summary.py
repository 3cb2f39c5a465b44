"""A summary of a model: sizes, certificates and labels, as text, HTML and plain values."""

import json
import math

import numpy as np
from parsed_pages import ParsedPage

from kernelfields.objective import Certificate
from kernelfields.reports import ModelSummary
from kernelfields.reports.inspection import SetSummary
from kernelfields.solvers import Iteration, Solution


def small_summary(**changes):
    history = [Iteration(i, i + 0.5, 0.1, 9.0 / (i + 1), 2.0 - 1 / (i + 1), 1.0, 1.0) for i in range(4)]
    parts = {
        "name": "ChainCRF",
        "labels": ("N", "V"),
        "n_features": 1200,
        "sets": (
            SetSummary("node", "RBF(gamma=0.5)", "one position, pivots", 300, 600, 580, 2.5),
            SetSummary("edge", "none", "labels only", 1, 4, 4, 1.0, 0.25),
        ),
        "solution": Solution(np.zeros(1), "newton", 2.25, 1.75, 1.0, 3, 3.5, 0.25, "max_iter", history),
        "certificates": (Certificate("span", 2.25, 1.75), Certificate("rkhs", 2.25, 1.5, exact=False)),
        "parameters": {"rank": "300"},
        "transitions": np.array([[1.0, -1.0], [0.5, 0.0]]),
    }
    return ModelSummary(**{**parts, **changes})


def test_text_names_sizes_certificates_and_parameters():
    text = str(small_summary())
    assert max(map(len, text.splitlines())) <= 80
    flat = " ".join(text.split())
    for words in (
        "ChainCRF: 2 labels, 1,200 input features, 2 clique sets, 604 weights",
        "labels: N, V",
        "newton, 3 iterations, 3.5 passes over the data",
        "max_iter iterations were made before the gap fell below tol",
        "within 22 % of the best field that its basis spans; more iterations would bring at most 0.5 nats",
        "within 33 % of the best field in the whole RKHS; more rank or iterations would bring at most 0.75 nats",
        "node: kernel RBF(gamma=0.5)",
        "l1 0.25",
        "rank = 300",
    ):
        assert words in flat


def test_html_has_the_sets_the_certificates_and_the_map():
    page = ParsedPage(small_summary()._repr_html_())
    page.assert_harmless()
    for words in ("ChainCRF: 2 labels", "RBF(gamma=0.5)", "580", "at most 0.33", "+1.00", "-1.00", "rank 300"):
        assert words in page.text
    assert [tag for tag, _ in page.tags].count("svg") == 1
    without = ParsedPage(small_summary(transitions=None)._repr_html_())
    assert "svg" not in {tag for tag, _ in without.tags}


def test_a_map_of_many_labels_is_cut_in_a_notebook_and_says_so():
    labels = tuple(range(40))
    page = ParsedPage(small_summary(labels=labels, transitions=np.ones((40, 40)))._repr_html_())
    assert "the 24 labels with the strongest scores of 40" in page.text


def test_forbidden_steps_are_crossed_out():
    page = ParsedPage(small_summary(forbidden=np.array([[False, True], [False, False]]))._repr_html_())
    assert "×" in page.text
    assert "-1.00" not in page.text


def test_rows_hold_the_clique_sets():
    node, edge = small_summary().to_rows()
    assert list(node.values()) == ["node", "RBF(gamma=0.5)", "one position, pivots", 300, 600, 580, 2.5, 0.0]
    assert (edge["clique set"], edge["l1"]) == ("edge", 0.25)


def test_plain_values_go_through_json():
    summary = small_summary(certificates=(Certificate("span", 2.25, -math.inf),))
    data = json.loads(json.dumps(summary.to_dict(), allow_nan=False))
    assert data["labels"] == ["N", "V"]
    assert data["sets"][0]["n_nonzero"] == 580
    assert data["fit"]["converged"] is False
    assert data["certificates"][0]["lower_bound"] is None
    assert data["n_weights"] == 604
