"""A quick slice of the matrix of estimators and features, and the judgement of its cells."""

import numpy as np
import pytest

from kernelfields import ChainCRF, KernelClassifier
from tests.campaigns.cells.features import OF_WORDS
from tests.campaigns.cells.meaningless import REASONS, reason_for
from tests.campaigns.cells.subjects import SUBJECTS
from tests.campaigns.cells.verdicts import NOTHING, REFUSED, UNCLEAR, WORKS, WRONG, check, close, judge
from tests.campaigns.matrix import ROWS, page, run_cell, table
from tests.oracles.labellings import Labellings

BY_NAME = {subject.name: subject for subject in SUBJECTS}
# What is asked here takes hundredths of a second once a model is fitted.
ASKED = (
    *("predict", "marginals", "predict_nbest", "entropy", "log_likelihood", "score", "known=", "explain", "weights"),
    *("summary", "evaluate", "ConformalField", "save, load", "clone", "one item", "partial_fit", "warm_start"),
    *("predict(decode=...)", "marginals of pairs", "sample", "certify", "float32", "sparse", "feature strings"),
    *("words", "StartCliques, EndCliques", "edges by features", "window", "basis='gradient'", "cross_val_score"),
)
QUICK = (
    *("ChainCRF", "SegmentCRF", "GraphCRF", "MultiLabelCRF", "KernelClassifier"),
    *("ExponentialFamilyDensity", "FrameCRF", "compat.CRF"),
)


def test_there_is_a_row_for_every_feature_and_a_column_for_every_estimator():
    assert len({row.name for row in ROWS}) == len(ROWS) >= 60
    assert len(BY_NAME) == len(SUBJECTS) >= 14
    known = {(row.name, subject.name) for row in ROWS for subject in SUBJECTS}
    assert not [entry for entry in REASONS if entry not in known]


@pytest.mark.parametrize("name", QUICK)
def test_quick_cells_work_or_are_refused_in_words(name):
    found = {row.name: run_cell(row, BY_NAME[name]) for row in ROWS if row.name in ASKED}
    assert not {feature: verdict.reason for feature, verdict in found.items() if verdict.kind in (UNCLEAR, WRONG)}
    refused = [feature for feature, verdict in found.items() if verdict.kind == REFUSED]
    expected = {"ExponentialFamilyDensity": ["sample", "partial_fit"], "SegmentCRF": ["explain"]}
    assert refused == expected.get(name, [])
    without_meaning = 19 if name == "ExponentialFamilyDensity" else 17  # words are no points of a density
    assert sum(verdict.kind == WORKS for verdict in found.values()) >= len(ASKED) - without_meaning


# Cells that were refused, unclear or wrong when the matrix was first run, beside those above.
MENDED = {
    "SegmentCRF": (
        "development set",
        "expected shares",
        "SoftTargets",
        "allowed: LabelDictionary",
    ),
    "GraphCRF": ("constraints", "development set"),
    "MultiLabelCRF": ("development set", "calibrate"),
    "KernelClassifier": ("development set", "calibrate", "load_chain (NumPy alone)"),
    "SequenceClassifier": (
        "log_likelihood",
        "entropy",
        "predict_nbest",
        "known=",
        "summary",
        "show",
        "explain",
    ),
    "ExponentialFamilyDensity": ("summary", "prior_variance='auto'"),
    "FrameCRF": ("sample", "show", "stream", "allowed: LabelDictionary", "development set", "SoftTargets"),
    "AnnotatedCRF": ("predict_nbest", "entropy", "explain", "summary", "defaults alone", "load_chain (NumPy alone)"),
    "compat.CRF": ("certify", "show"),
    "ChainCRFCV": ("save, load",),
}


@pytest.mark.parametrize("name", MENDED)
def test_what_was_mended_works(name):
    cells = {row.name: run_cell(row, BY_NAME[name]) for row in ROWS if row.name in MENDED[name]}
    assert {feature: (verdict.kind, verdict.reason) for feature, verdict in cells.items()} == dict.fromkeys(
        cells, (WORKS, "")
    )
    assert len(cells) == len(MENDED[name])


ABOUT_WORDS = ("marginals", "ConformalField", "rank_for_labelling", "explain", "show", "save, load", "GridSearchCV")


@pytest.mark.parametrize("name", ["ChainCRF", "SequenceClassifier"])
def test_questions_take_words(name):
    asked = [row for row in ROWS if row.name.removesuffix(OF_WORDS) in ABOUT_WORDS and row.name.endswith(OF_WORDS)]
    cells = {row.name: run_cell(row, BY_NAME[name]) for row in asked}
    assert {row: (verdict.kind, verdict.reason) for row, verdict in cells.items()} == dict.fromkeys(cells, (WORKS, ""))
    assert len(cells) == len(ABOUT_WORDS)


def test_cells_are_judged_by_what_they_raise():
    def raises(error):
        raise error

    refused = judge(lambda: ChainCRF(tol=-1.0).fit([np.zeros((2, 1))], [[0, 1]]))
    assert (refused.kind, "tol" in refused.reason) == (REFUSED, True)
    assert judge(lambda: KernelClassifier().no_such_question()).kind == UNCLEAR
    assert judge(lambda: KernelClassifier().no_such_question(), "no such thing").kind == NOTHING
    assert judge(lambda: np.zeros(2) + np.zeros(3)).kind == UNCLEAR
    assert judge(lambda: np.zeros(2) + np.zeros(3), "a reason is no excuse").kind == UNCLEAR
    assert judge(lambda: raises(ValueError("of nobody"))).kind == UNCLEAR
    assert judge(lambda: check(False, "other labels")).kind == WRONG
    assert judge(lambda: close([1.0], [2.0])).kind == WRONG
    assert judge(lambda: None).kind == WORKS
    assert reason_for("stream", "RingCRF") == "a ring has no first position"


def test_laws_are_those_of_plain_sums():
    random = np.random.default_rng(0)
    node, edge = random.normal(size=(2, 3)), random.normal(size=(3, 3))
    law = Labellings.of(node, [((0, 1), edge)])
    joint = np.exp(node[0][:, None] + node[1] + edge)
    joint /= joint.sum()
    np.testing.assert_allclose(law.joint((0, 1)), joint)
    np.testing.assert_allclose(law.marginals, [joint.sum(axis=1), joint.sum(axis=0)])
    assert law.entropy == pytest.approx(-(joint * np.log(joint)).sum())
    allowed = np.array([[1, 0, 0], [1, 1, 0]])
    assert law.log_evidence(allowed) == pytest.approx(np.log(joint[0, :2].sum()))
    np.testing.assert_allclose(law.weighted(allowed).marginals[1, :2], joint[0, :2] / joint[0, :2].sum())


def test_the_table_and_the_page_list_every_cell():
    features, subjects = [row for row in ROWS if row.name in ("predict", "stream")], [BY_NAME["KernelClassifier"]]
    cells = {(row.name, subject.name): run_cell(row, subject) for row in features for subject in subjects}
    assert [line.split()[-1] for line in table(cells, features, subjects).splitlines()[-2:]] == ["+", "."]
    text = page(cells, features, subjects)
    assert "| predict | `+` |" in text
    assert "* stream (KernelClassifier): rows have no order" in text
