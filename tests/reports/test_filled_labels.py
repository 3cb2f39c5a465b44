"""The table of what a field has filled in."""

import pytest

from kernelfields import ChainCRF
from tests.samples import as_words, labelled_sequences


@pytest.fixture(scope="module")
def tagger():
    X, y = labelled_sequences(6, longest=4, seed=2)
    y = [each.tolist() for each in as_words(y)]
    return ChainCRF("linear", prior_variance=1.0, random_state=0).fit(X, y), X, y


def test_the_least_sure_come_first_with_what_was_known(tagger):
    crf, X, y = tagger
    known = [[None, *labels[1:]] for labels in y]
    known[0][0] = {"adj", "verb"}
    known[1][0] = {"adj": 1.0, "noun": 0.25}
    table = crf.filled(X, known, tokens=[[f"w{t}" for t in range(len(labels))] for labels in y])
    rows = table.to_rows()
    assert sorted(row["sequence"] for row in rows) == list(range(6))
    chances = [row["probability"] for row in rows]
    assert chances == sorted(chances)
    marginals, labels = crf.predict_marginals(X, known=known), crf.predict(X, known=known)
    for row in rows:
        number, place = row["sequence"], row["position"]
        assert row["label"] == labels[number][place]
        assert row["token"] == f"w{place}"
        assert row["probability"] == pytest.approx(marginals[number][place][crf.classes_ == row["label"]].item())
    said = {row["sequence"]: row["known"] for row in rows}
    assert (said[0], said[1], said[2]) == ("adj, verb", "adj 1, noun 0.25", "")
    assert len(table) == 6
    assert table.caption == f"6 labels filled in, {sum(map(len, y)) - 6} known"
    assert [row["sequence"] for row in crf.filled(X, known, top=2).to_rows()] == [row["sequence"] for row in rows[:2]]


def test_it_is_shown_as_text_and_as_a_page(tagger):
    crf, X, y = tagger
    table = crf.filled(X, [[None, *labels[1:]] for labels in y])
    text = str(table)
    assert text.startswith(f"6 labels filled in, {sum(map(len, y)) - 6} known\nsequence   position   label")
    assert len(text.splitlines()) == 8
    assert "<table" in table._repr_html_()
    assert table.to_dict() == {"caption": table.caption, "rows": table.to_rows()}
    assert str(crf.filled(X, y)) == f"0 labels filled in, {sum(map(len, y))} known"
    assert len(crf.filled([], [])) == 0
    escaped = crf.filled(X[:1], [[None, *y[0][1:]]], tokens=[["<b>"] * len(y[0])])._repr_html_()
    assert "<b>" not in escaped
    assert "&lt;b&gt;" in escaped
