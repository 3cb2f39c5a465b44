"""The report of a model: a section for each part that is given, self-contained, escaped."""

import numpy as np
import pytest
from parsed_pages import HOSTILE, ParsedPage
from test_model_summary import small_summary

from kernelfields.evaluation import evaluate
from kernelfields.reports import LabelledSequence, Markup, Table, WeightsTable, plot_heat_map, report_page
from kernelfields.reports.inspection import FeatureWeight, SetWeights, WeightList

TRUE = [["B-X", "I-X", "O"], ["O", "B-X"], ["O", "O", "B-Y"]]
PREDICTED = [["B-X", "I-X", "O"], ["O", "O"], ["O", "O", "B-Y"]]
CLASSES = ["B-X", "B-Y", "I-X", "O"]


def small_evaluation(**options):
    random = np.random.default_rng(0)
    marginals = [random.dirichlet(np.ones(4), size=len(labels)) for labels in TRUE]
    given = {"marginals": marginals, "classes": CLASSES, "log_likelihood": [-1.0, -2.0, -0.5], "scheme": "bio"}
    return evaluate(TRUE, PREDICTED, n_resamples=20, random_state=0, **{**given, **options})


def small_weights(name="word:cat"):
    listed = WeightList("N", (FeatureWeight(name, "N", 1.5),), ())
    return WeightsTable(("N", "V"), (SetWeights("node", (listed,)),), np.array([[0.125, 0.0], [0.0, 0.0]]))


def small_sequence(name="cat"):
    return LabelledSequence(["N"], [[0.75, 0.25]], ["N", "V"], tokens=[name], truth=["V"])


def headings(document):
    page = ParsedPage(document)
    page.assert_harmless()
    parts = document.split("<h2>")[1:]
    return page, [part.split("</h2>")[0] for part in parts]


@pytest.mark.slow
def test_every_part_has_its_section():
    document = report_page(
        "Chunks",
        model=small_summary(),
        evaluation=small_evaluation(),
        weights=small_weights(),
        sequences=[small_sequence(), Markup('<figure class="strip"></figure>')],
        sections={
            "Map": plot_heat_map([[1.0]], [0], [0]),
            "Own": Markup("<hr></hr>"),
            "Search": Table(("kernel", "score"), [("linear", "0.5"), ("rbf", "0.75")]),
        },
        footer="kernelfields train",
    )
    page, found = headings(document)
    assert found == [
        "How well does it do?",
        "Which labels are confused?",
        "Can its probabilities be trusted?",
        "The model",
        "How good is the fit?",
        "Which label follows which?",
        "Weights of features by label",
        "Sequences",
        "Map",
        "Own",
        "Search",
    ]
    for words in (
        "Entity F1 (bio)",
        "Entities in the scheme bio",
        "Brier score",
        "RBF(gamma=0.5)",
        "at most 0.33",
        "minimum is here",
        "word:cat",
        "✗ N",
        "linear 0.5",
        "kernelfields train",
    ):
        assert words in page.text
    assert len([each for tag, each in page.tags if tag == "svg" and each.get("role") == "img"]) == 5
    assert len(page.with_class("kf-sequence")) == 1
    assert len(page.with_class("strip")) == 1


def test_parts_that_are_not_given_have_no_section():
    assert headings(report_page("Empty", lead="Nothing yet."))[1] == []
    page, found = headings(report_page("Scores", evaluation=evaluate(TRUE, PREDICTED, scheme=None, n_resamples=0)))
    assert found == ["How well does it do?", "Which labels are confused?"]
    assert "8 positions." in page.text
    assert "Entities" not in page.text
    assert "resamples" not in page.text


def test_impossible_sequences_are_named():
    evaluation = small_evaluation(log_likelihood=[-1.0, -np.inf, -np.inf])
    page = ParsedPage(report_page("Scores", evaluation=evaluation))
    assert page.text.count("minus infinity: 2 sequences have probability zero") == 2


def test_transitions_are_shown_once():
    with_map = ParsedPage(report_page("t", model=small_summary(), weights=small_weights()))
    assert "+0.125" not in with_map.text
    without = ParsedPage(report_page("t", weights=small_weights()))
    assert "+0.125" in without.text


def test_a_fit_without_a_history_has_no_plot():
    summary = small_summary()
    summary.solution.history.clear()
    page = ParsedPage(report_page("t", model=summary))
    assert "negative log-posterior lies" in page.text
    assert "passes over the data" not in page.words


@pytest.mark.slow
def test_hostile_text_stays_text_everywhere():
    names = tuple(HOSTILE)
    true = [list(names), list(names[::-1])]
    document = report_page(
        names[0],
        lead=names[0],
        model=small_summary(name=names[0], labels=names, transitions=np.eye(6), parameters={names[0]: names[1]}),
        evaluation=evaluate(true, true, marginals=[np.eye(6), np.eye(6)[::-1]], classes=names, n_resamples=0),
        weights=small_weights(names[0]),
        sequences=[small_sequence(names[0])],
        sections={names[0]: plot_heat_map(np.eye(6), names, names), names[1]: Table((names[0],), [(names[1],)])},
        footer=names[0],
    )
    page = ParsedPage(document)
    page.assert_harmless()
    assert "alert" not in "".join(str(each) for tag, each in page.tags if tag == "img")
    assert page.words.count(names[0]) >= 10


def test_what_cannot_be_shown_is_named():
    with pytest.raises(ValueError, match="entry 1 of sequences is a list"):
        report_page("t", sequences=[small_sequence(), ["N"]])
    with pytest.raises(ValueError, match=r"must be what kernelfields.evaluate returns, got 0\.9"):
        report_page("t", evaluation=0.9)
