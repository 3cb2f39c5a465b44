"""Tables of the weights of ChainCRF: the right weights with the right names, dense, sparse and of any number."""

import math
import re
from itertools import pairwise

import numpy as np
import pytest
from inspected_fields import (
    DICTS,
    LOOSE,
    NAMED,
    TAGS,
    WORDS,
    ChainCRF,
    Squares,
    X,
    fitted,
    make_dense,
    observed_words,
    words_field,
)
from sklearn.exceptions import NotFittedError

from kernelfields import EdgeCliques, EndCliques, NodeCliques, StartCliques
from kernelfields.estimators.inspecting.explanations import largest
from kernelfields.kernels import RBF, Linear


def rows_of(listed):
    return [(row.feature, row.weight) for row in listed.rows]


@pytest.mark.parametrize("count", [1, 3, 1000])
def test_tables_hold_the_largest_weights_of_each_label(count):
    crf = words_field()
    names, weights = crf._reader.rows.encoder.feature_names_, crf.coef_["node"]
    table = crf.weights(count)
    (node,) = table.sets
    assert [listed.label for listed in node.lists] == list(table.labels) == ["D", "N", "P", "V"]
    for label, listed in enumerate(node.lists):
        column = weights[:, label].tolist()
        ranked = sorted(range(len(names)), key=lambda row: -abs(column[row]))[:count]
        assert sorted(rows_of(listed)) == sorted((names[row], column[row]) for row in ranked if column[row])
        listed_weights = [row.weight for row in listed.rows]
        assert listed_weights == sorted(listed_weights, reverse=True)
        assert listed.more_positive == sum(weight > 0 for weight in column) - len(listed.positive)
        assert listed.more_negative == sum(weight < 0 for weight in column) - len(listed.negative)
    np.testing.assert_array_equal(table.transitions, crf.transitions_)
    assert table.forbidden is None


def test_positive_and_negative_weights_can_be_counted_apart():
    crf = words_field()
    names = crf._reader.rows.encoder.feature_names_
    table = crf.weights((2, 1), labels=["V"])
    (listed,) = table.sets[0].lists
    column = crf.coef_["node"][:, 3]
    order = np.argsort(-column, kind="stable")
    assert [row.feature for row in listed.positive] == [names[row] for row in order[:2]]
    assert [row.weight for row in listed.negative] == [column.min()]
    none_positive = crf.weights([0, 2]).sets[0].lists[0]
    assert (len(none_positive.positive), len(none_positive.negative)) == (0, 2)
    assert len(crf.weights(None).sets[0].lists[0].rows) == np.count_nonzero(crf.coef_["node"][:, 0])


def test_labels_keep_the_order_asked_for():
    crf = words_field(constraints=[("D", "V")])
    table = crf.weights(3, labels=["V", "D", "V"])
    assert table.labels == ("V", "D")
    assert [listed.label for listed in table.sets[0].lists] == ["V", "D"]
    np.testing.assert_array_equal(table.transitions, crf.transitions_[np.ix_([3, 0], [3, 0])])
    np.testing.assert_array_equal(table.forbidden, [[False, False], [True, False]])


def test_features_are_chosen_by_a_regular_expression():
    crf = words_field(window=3)
    table = crf.weights(None, feature_re=r"^\[-1\] w:")
    names = {row.feature for listed in table.sets[0].lists for row in listed.rows}
    assert names == {"[-1] w:the", "[-1] w:cat", "[-1] w:dog", "[-1] w:sat"}  # no word ever follows "down"
    compiled = crf.weights(None, feature_re=re.compile("W:CAT", re.IGNORECASE))
    assert {row.feature for row in compiled.sets[0].lists[0].rows} == {"[-1] w:cat", "w:cat", "[+1] w:cat"}
    nothing = crf.weights(feature_re="unicorn")
    assert all(listed.rows == () for listed in nothing.sets[0].lists)
    assert "no weight other than zero" in str(nothing)


def test_names_of_features():
    crf = ChainCRF("linear", window=(1, 0), **LOOSE).fit(X, NAMED)
    names = {row.feature for row in crf.weights(None).sets[0].lists[0].rows}
    assert names == {"[-1] x0", "[-1] x1", "[-1] x2", "x0", "x1", "x2"}
    given = crf.weights(None, feature_names=np.array(["u", "v", "w"]), feature_re="v")
    weights = {row.feature: row.weight for row in given.sets[0].lists[1].rows}
    assert weights == {"[-1] v": crf.coef_["node"][1, 1], "v": crf.coef_["node"][4, 1]}
    explained = crf.explain(X[0], feature_names=["u", "v", "w"], top=100).positions[1]
    assert {"[-1] u", "u"} < {term.name for term in explained.contributions}
    mixed = fitted(NodeCliques(2.0 * Linear() + 1.0 + Squares()), EdgeCliques())
    table = mixed.weights(None)
    weights = {row.feature: row.weight for row in table.sets[0].lists[2].rows}
    expected = dict(
        zip(
            ["x0", "x1", "x2", "constant", "Squares[0]", "Squares[1]", "Squares[2]"],
            mixed.coef_["node"][:, 2].tolist(),
            strict=True,
        )
    )
    assert weights == expected


def test_sets_without_weights_per_feature_say_so():
    crf = fitted(NodeCliques("linear"), NodeCliques(RBF(0.2), rank=6), EdgeCliques(), StartCliques(), EndCliques())
    table = crf.weights()
    assert [each.note for each in table.sets] == ["", "6 pivots of RBF, no weights per feature"]
    assert "node_2: 6 pivots of RBF, no weights per feature" in str(table)
    assert "node_2: 6 pivots of RBF, no weights per feature" in table._repr_html_()
    for name in ("start", "end"):
        np.testing.assert_array_equal(table.scores[name], crf.coef_[name][0])
    shown = crf.weights(labels=["verb"])
    np.testing.assert_array_equal(shown.scores["end"], crf.coef_["end"][0, [2]])


def test_transitions_by_feature_are_one_list_over_pairs():
    crf = ChainCRF("linear", edges=EdgeCliques("linear"), **LOOSE).fit(X, NAMED)
    weights = crf.coef_["edge"].reshape(3, 3, 3)
    table = crf.weights(4)
    assert table.transitions is None
    (listed,) = table.sets[1].lists
    largest_sizes = np.sort(np.abs(weights).ravel())[::-1][:4]
    np.testing.assert_array_equal(sorted([abs(row.weight) for row in listed.rows], reverse=True), largest_sizes)
    for row in listed.rows:
        first, second = (crf.classes_.tolist().index(label) for label in (row.previous, row.label))
        assert row.weight == weights[int(row.feature[1]), first, second]
    assert listed.more_positive + listed.more_negative == np.count_nonzero(weights) - 4
    among = crf.weights(None, labels=["verb", "adj"], feature_re="x1").sets[1].lists[0]
    found = {(row.previous, row.label): row.weight for row in among.rows}
    assert found == {
        (a, b): weights[1, first, second]
        for a, first in (("verb", 2), ("adj", 0))
        for b, second in (("verb", 2), ("adj", 0))
    }
    assert f"{listed.rows[0].previous} -> {listed.rows[0].label}, {listed.rows[0].feature}" in str(table)


@pytest.mark.parametrize("edge_kernel", [None, "linear"])
def test_sparse_weights_give_the_same_tables(edge_kernel):
    crf = observed_words(edge_kernel)
    sparse_table = crf.weights(5, feature_re="w|len")
    make_dense(crf)
    dense_table = crf.weights(5, feature_re="w|len")
    assert sparse_table.sets == dense_table.sets
    if edge_kernel is None:
        absent = crf.coef_["edge"].reshape(4, 4) == 0
        assert 0 < absent.sum() < 16
        np.testing.assert_array_equal(np.isnan(sparse_table.transitions), absent)
        np.testing.assert_array_equal(np.nan_to_num(sparse_table.transitions), dense_table.transitions)
        assert ". = no weight" in str(sparse_table)


def test_pairs_that_were_not_observed_have_no_weight():
    cliques = [NodeCliques("linear", support="observed"), EdgeCliques(support="observed")]
    crf = fitted(*cliques, StartCliques(support="observed"), X=DICTS, y=TAGS)
    table = crf.weights(None)
    steps = {(a, b) for tags in TAGS for a, b in pairwise(tags)}
    known = {
        (a, b): not math.isnan(table.transitions[i, j]) for i, a in enumerate("DNPV") for j, b in enumerate("DNPV")
    }
    assert {step for step, seen in known.items() if seen} == steps
    np.testing.assert_array_equal(np.isnan(table.scores["start"]), [False, True, True, False])
    seen = {
        (tag, f"w:{word}")
        for words, tags in zip(WORDS, TAGS, strict=True)
        for word, tag in zip(words, tags, strict=True)
    }
    listed = {(row.label, row.feature) for each in table.sets[0].lists for row in each.rows if row.feature[:2] == "w:"}
    assert listed == seen
    assert {row["label"] for row in table.to_rows() if row["set"] == "start"} == {"D", "V"}


def test_the_largest_of_many_equals_come_in_order():
    values = np.array([0.0, 1.0, -1.0, 1.0, 3.0, -2.0, 0.0])
    assert [each.tolist() for each in largest(values, None)] == [[4, 1, 3], [5, 2]]
    assert [each.tolist() for each in largest(values, 2)] == [[4], [5]]
    assert [each.tolist() for each in largest(values, (2, 0))] == [[4, 1], []]
    assert [each.tolist() for each in largest(np.zeros(3), 2)] == [[], []]


def test_only_fitted_fields_have_weights():
    with pytest.raises(NotFittedError):
        ChainCRF().weights()


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"top": 0}, ValueError, "top must be a whole number of at least 1"),
        ({"top": True}, ValueError, "got True"),
        ({"top": 2.5}, ValueError, "got 2.5"),
        ({"top": (0, 0)}, ValueError, "not both 0"),
        ({"top": (1, 2, 3)}, ValueError, "a pair"),
        ({"labels": ["noun", "pronoun"]}, ValueError, "unknown label 'pronoun': known are 'adj', 'noun', 'verb'"),
        ({"labels": "noun"}, TypeError, r"labels must be a list of labels, got 'noun': write \['noun'\]"),
        ({"labels": []}, ValueError, "labels is empty"),
        ({"feature_re": "("}, ValueError, r"feature_re '\(' is not a regular expression"),
        ({"feature_re": 3}, ValueError, "feature_re 3 is not a regular expression"),
        ({"feature_re": b"x"}, ValueError, "leave out the b"),
        ({"feature_names": ["a", "b"]}, ValueError, "has 2 names, but the inputs have 3 features"),
        ({"feature_names": "abc"}, TypeError, "feature_names must be a list of 3 names, got 'abc'"),
    ],
)
def test_unusable_arguments_of_weights(arguments, error, words):
    crf = fitted(NodeCliques("linear"), EdgeCliques())
    with pytest.raises(error, match=words):
        crf.weights(**arguments)
