"""Explanations of ChainCRF: contributions add up to differences of scores, whatever the field consists of."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from inspected_fields import (
    DICTS,
    LOOSE,
    NAMED,
    STRINGS,
    TAGS,
    WORDS,
    ChainCRF,
    X,
    Y,
    fitted,
    make_dense,
    observed_words,
    words_field,
)
from sklearn.exceptions import NotFittedError

from kernelfields import Constraints, EdgeCliques, EndCliques, GraphCRF, MultiLabelCRF, NodeCliques, StartCliques
from kernelfields.data import resolve_constraints
from kernelfields.kernels import RBF
from kernelfields.numerics import Workers

FIELDS = {
    "dicts and a window": lambda: (words_field(window=3), DICTS[1]),
    "RBF": lambda: (ChainCRF(RBF(0.3), edges=EdgeCliques(RBF(0.1)), rank=8, window=3, **LOOSE).fit(X, NAMED), X[1]),
    "observed pairs": lambda: (
        fitted(
            NodeCliques("linear", window=3, support="observed"),
            EdgeCliques(support="observed"),
            EdgeCliques("linear", support="observed"),
            StartCliques(support="observed"),
            X=DICTS,
            y=TAGS,
        ),
        DICTS[1],
    ),
    "everything": lambda: (
        fitted(
            NodeCliques("linear", window=(1, 0)),
            NodeCliques(RBF(0.2), rank=6),
            EdgeCliques(),
            EdgeCliques("linear"),
            EdgeCliques(RBF(0.2), rank=5),
            StartCliques(),
            EndCliques("linear"),
            StartCliques(RBF(0.2), name="start kernel"),
        ),
        X[1],
    ),
    "constraints": lambda: (
        words_field(constraints=Constraints([("D", "V"), ("N", "N")], start=["P"], end=["D"])),
        DICTS[1],
    ),
}


def score_differences(crf, x, explanation):
    """node_t(a) - node_t(o) + the steps into and out of t, from the potentials."""
    chains = crf._reader.read([x])
    potentials = crf.field_.potentials(chains, crf.field_.family(chains), Workers(1))
    node, edge = potentials.node, potentials.edge
    edge = np.broadcast_to(edge, (len(node), *edge.shape[1:]))
    place = {label: index for index, label in enumerate(crf.classes_.tolist())}
    labels = [place[each.label] for each in explanation.positions]
    others = [place[each.other] for each in explanation.positions]
    differences = []
    for t, (label, other) in enumerate(zip(labels, others, strict=True)):
        difference = node[t, label] - node[t, other]
        if t > 0:
            difference += edge[t, labels[t - 1], label] - edge[t, labels[t - 1], other]
        if t + 1 < len(labels):
            difference += edge[t + 1, label, labels[t + 1]] - edge[t + 1, other, labels[t + 1]]
        differences.append(difference)
    return differences


def totals(explanation):
    """The sums of all contributions but those of rules, which are infinite."""
    return [
        math.fsum(term.amount for term in each.contributions if term.kind != "rule") + each.more_amount
        for each in explanation.positions
    ]


def rules_of(position):
    """The rules that forbid a labelling of a position, with what they contribute."""
    return [(term.name, term.amount) for term in position.contributions if term.kind == "rule"]


@pytest.mark.parametrize("name", FIELDS)
def test_contributions_add_up_to_differences_of_scores(name):
    crf, x = FIELDS[name]()
    predicted, marginals = crf.predict([x])[0], crf.predict_marginals([x])[0]
    for top in (1, 1000):
        explanation = crf.explain(x, top=top)
        expected = score_differences(crf, x, explanation)
        np.testing.assert_allclose(totals(explanation), expected, atol=1e-10)
        for each, difference in zip(explanation.positions, expected, strict=True):
            assert each.difference == pytest.approx(math.inf if rules_of(each) else difference, abs=1e-10)
        assert all(each.more == 0 for each in explanation.positions) or top == 1
    place = {label: index for index, label in enumerate(crf.classes_.tolist())}
    for t, each in enumerate(explanation.positions):
        assert each.label == predicted[t]
        order = np.argsort(-marginals[t])
        assert place[each.other] == next(index for index in order if index != place[each.label])
        assert each.probability == pytest.approx(marginals[t, place[each.label]], abs=1e-12)
        assert each.other_probability == pytest.approx(marginals[t, place[each.other]], abs=1e-12)


def test_features_contribute_value_times_difference_of_weights():
    crf = words_field(window=(1, 0))
    weights, names = crf.coef_["node"], crf._reader.rows.encoder.feature_names_
    transitions = crf.transitions_
    explanation = crf.explain(DICTS[1], ["D", "N", "V", "P"], top=100, against="V")
    noun, verb, det = (crf.classes_.tolist().index(label) for label in "NVD")
    terms = {term.name: term for term in explanation.positions[1].contributions}
    assert set(terms) == {
        *("w:dog", "last:g", "len", "[-1] w:the", "[-1] last:e", "[-1] len"),
        *("transition from D", "transition to V"),
    }
    for name, value in (("w:dog", 1.0), ("last:g", 1.0), ("len", 1.0)):
        row = len(names) + names.index(name)
        assert terms[name].amount == pytest.approx(value * (weights[row, noun] - weights[row, verb]), abs=1e-12)
    before = names.index("w:the")
    assert terms["[-1] w:the"].amount == pytest.approx(weights[before, noun] - weights[before, verb], abs=1e-12)
    step = transitions[det, noun] - transitions[det, verb]
    assert terms["transition from D"].amount == pytest.approx(step, abs=1e-12)
    step = transitions[noun, verb] - transitions[verb, verb]
    assert terms["transition to V"].amount == pytest.approx(step, abs=1e-12)
    kinds = {name: term.kind for name, term in terms.items()}
    assert (kinds["len"], kinds["transition to V"]) == ("feature", "transition")
    # "down" has four letters: the value of a feature is told where it is not one.
    down = {term.name: term for term in explanation.positions[3].contributions}
    assert down["len"].words == "len (value 1.333)"
    row = len(names) + names.index("len")
    change = weights[row, crf.classes_.tolist().index("P")] - weights[row, verb]
    assert down["len"].amount == pytest.approx(4 / 3 * change, abs=1e-12)


def test_by_default_a_kernel_names_the_training_inputs_that_are_near():
    crf = ChainCRF(RBF(0.3), rank=6, **LOOSE).fit(X, NAMED)
    subspace, scores = crf.basis_["node"], crf.field_.terms[0]
    place = {label: index for index, label in enumerate(crf.classes_.tolist())}
    explanation = crf.explain(X[1])
    at_pivots = scores.to_labellings(subspace.apply(subspace.pivots, scores.known))
    for t, each in enumerate(explanation.positions):
        (kernel,) = [term for term in each.contributions if term.kind == "kernel"]
        values = subspace.kernel(X[1][t : t + 1], subspace.pivots)[0]
        assert [part.value for part in kernel.parts] == pytest.approx(sorted(values, reverse=True)[:3], rel=1e-12)
        there = at_pivots[:, place[each.label]] - at_pivots[:, place[each.other]]
        nearest = int(values.argmax())
        row = subspace.indices[nearest]
        assert kernel.parts[0].name == f"like training input {row}, {there[nearest]:+.3f} there"
    assert json.loads(json.dumps(explanation.to_dict(), allow_nan=False))
    assert "nan" not in str(explanation)


def test_constraints_contribute_infinity_beside_finite_scores():
    rules = Constraints([("D", "V"), ("N", "N")], start=["N"], end=["D"])
    crf = words_field(constraints=rules)
    explanation = crf.explain(DICTS[1], TAGS[1], against=["N", "V", "N", "D"])
    assert [rules_of(each) for each in explanation.positions] == [
        [
            ("N is forbidden at the first position by the constraints", math.inf),
            ("N is forbidden before N by the constraints", math.inf),
        ],
        [("V is forbidden after D by the constraints", math.inf)],
        [("N is forbidden after N by the constraints", math.inf)],
        [("D is forbidden at the last position by the constraints", math.inf)],
    ]
    assert [each.difference for each in explanation.positions] == [math.inf] * 4
    np.testing.assert_allclose(totals(explanation), score_differences(crf, DICTS[1], explanation), atol=1e-10)
    assert "+inf  V is forbidden after D by the constraints" in str(explanation)
    assert json.loads(json.dumps(explanation.to_dict(), allow_nan=False))["positions"][0]["difference"] is None
    # A labelling that breaks the rules can be explained, too.
    broken = crf.explain(DICTS[1], ["N", "V", "V", "P"], against="P").positions[0]
    assert rules_of(broken) == [("N is forbidden at the first position by the constraints", -math.inf)]
    assert broken.probability == 0.0
    assert broken.difference == -math.inf
    # Of two labellings that are both forbidden neither is more probable.
    assert math.isnan(crf.explain(DICTS[1], ["N", "V", "V", "P"], against="D").positions[0].difference)
    masks = resolve_constraints({"labels": ["P"]}, crf.classes_)
    crf.field_ = replace(crf.field_, spec=replace(crf.field_.spec, masks=masks))
    last = crf.explain(DICTS[1], against="P").positions[3]
    assert rules_of(last) == [("P is forbidden everywhere by the constraints", math.inf)]
    assert rules_of(words_field().explain(DICTS[1]).positions[0]) == []


def test_labels_to_compare_with():
    crf = words_field()
    predicted = crf.predict([DICTS[1]])[0]
    single = crf.explain(DICTS[1], against="N").positions
    assert predicted.count("N") == 1
    runner_up = crf.explain(DICTS[1]).positions[predicted.index("N")].other
    assert [each.other for each in single] == ["N" if label != "N" else runner_up for label in predicted]
    several = crf.explain(DICTS[1], against=np.array(["V", "P", "D", "N"])).positions
    assert [each.other for each in several] == ["V", "P", "D", "N"]
    assert [each.label for each in crf.explain(DICTS[1], ["V", "V", "N", "N"]).positions] == ["V", "V", "N", "N"]
    numbered = ChainCRF("linear", **LOOSE).fit(X, Y)
    assert numbered.explain(X[1], Y[1], against=np.int64(2)).positions[0].label == Y[1][0]


def test_a_sequence_of_one_position_has_no_transitions():
    crf = words_field()
    (only,) = crf.explain(DICTS[1][:1]).positions
    assert {term.kind for term in only.contributions} == {"feature"}
    # Nothing known about the position either: there is nothing to tell.
    with pytest.warns(UserWarning, match="no feature of X is known to this model"):
        (unknown,) = crf.explain([{"w": "unicorn"}]).positions
    assert unknown.contributions == ()
    assert unknown.difference == 0.0


@pytest.mark.parametrize("edge_kernel", [None, "linear"])
def test_sparse_weights_explain_alike(edge_kernel):
    crf = observed_words(edge_kernel)
    explanation = crf.explain(DICTS[1], top=100)
    np.testing.assert_allclose(totals(explanation), score_differences(crf, DICTS[1], explanation), atol=1e-10)
    make_dense(crf)
    assert explanation == crf.explain(DICTS[1], top=100)


def test_tokens_are_shown():
    explanation = words_field().explain(DICTS[1], tokens=WORDS[1])
    assert [each.token for each in explanation.positions] == WORDS[1]
    assert "2 'sat': V (" in str(explanation)
    assert "<small>V</small>" in explanation._repr_html_()


def test_positions_choose_what_is_explained():
    """In a chain, a graph and an instance of several labels alike; each is explained as among all."""
    rows = np.concatenate(X)
    several = MultiLabelCRF("linear", label_graph="full", prior_variance=1.0, tol=0.1).fit(rows, (rows > 0).astype(int))
    graphs = [(x, np.column_stack([np.arange(len(x) - 1), np.arange(1, len(x))])) for x in X]
    asked = [
        (words_field(), DICTS[1], "position"),
        (GraphCRF("linear", prior_variance=1.0).fit(graphs, NAMED), graphs[1], "node"),
        (several, X[1][0], "label name"),
    ]
    for model, x, part in asked:
        every = model.explain(x).positions
        assert model.explain(x, positions=[2, np.int64(0)]).positions == (every[0], every[2])
        with pytest.raises(ValueError, match=f"positions names 99, and there are {part}s 0 to {len(every) - 1}"):
            model.explain(x, positions=[0, 99])
        with pytest.raises(TypeError, match=rf"positions must be a list of {part}s, such as \[0\], got 3"):
            model.explain(x, positions=3)


def test_only_fitted_fields_can_explain():
    with pytest.raises(NotFittedError):
        ChainCRF().explain(X[0])


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"x": X}, ValueError, "explain takes one sequence, got a list of 10 of them: pass one, such as X"),
        ({"x": X[:1]}, ValueError, "got a list of 1 of them"),
        ({"x": np.zeros((2, 4, 3))}, ValueError, "got a list of 2 of them"),
        ({"x": [x.tolist() for x in X]}, ValueError, "got a list of 10 of them"),
        ({"x": [sp.csr_array(x) for x in X]}, ValueError, "got a list of 10 of them"),
        ({"x": DICTS}, ValueError, "got a list of 3 of them"),
        ({"x": STRINGS}, ValueError, "got a list of 3 of them"),
        ({"x": np.zeros(3)}, ValueError, r"one sequence of shape \(positions, features\), got shape \(3,\)"),
        ({"x": [[1.0, 2.0, 3.0], [1.0]]}, ValueError, "different lengths"),
        ({"x": np.zeros((2, 4))}, ValueError, "fitted with 3"),
        ({"x": DICTS[0]}, ValueError, "fitted on numeric arrays"),
        ({"x": []}, ValueError, "explain takes a sequence with positions, got an empty one"),
        ({"x": X[0], "y": ["noun"]}, ValueError, "rows in X but 1 labels"),
        ({"x": X[0][:1], "y": ["pronoun"]}, ValueError, "unknown label 'pronoun'"),
        ({"x": X[0], "top": 0}, ValueError, "top must be a whole number of at least 1"),
        ({"x": X[0], "top": None}, ValueError, "top must be a whole number of at least 1"),
        ({"x": X[0], "neighbours": -1}, ValueError, "neighbours must be a whole number of at least 0"),
        ({"x": X[0], "against": "pronoun"}, ValueError, "against holds the unknown label 'pronoun'"),
        ({"x": X[0], "against": ["noun"]}, ValueError, "against holds 1 labels, but the sequence has"),
        ({"x": X[0], "feature_names": ["a"]}, ValueError, "has 1 names, but the inputs have 3 features"),
        ({"x": X[0], "tokens": ["a"]}, ValueError, "tokens has 1 entries"),
        ({"x": X[0], "tokens": "word"}, TypeError, "tokens must be a list"),
    ],
)
def test_unusable_arguments_of_explain(arguments, error, words):
    crf = fitted(NodeCliques("linear"), EdgeCliques())
    with pytest.raises(error, match=words):
        crf.explain(**arguments)


def test_a_field_of_feature_dicts_says_what_it_takes():
    crf = words_field()
    for many in (DICTS, STRINGS, DICTS[:1]):
        with pytest.raises(ValueError, match="explain takes one sequence"):
            crf.explain(many)
    with pytest.raises((TypeError, ValueError), match="fitted on feature dicts"):
        crf.explain(X[0])
