"""Constraints: what is forbidden has probability zero in every answer."""

import itertools

import numpy as np
import pytest

from kernelfields import ChainCRF, Constraints, EdgeCliques
from kernelfields.kernels import RBF
from tests.samples import enumerated, labelled_sequences

# B-I-O tags: I may follow B or I only, and may not begin a sequence.
RULES = {"transitions": [("O", "I")], "start": ["I"], "end": ["B"]}


def tagged(n_sequences=12, seed=0):
    X, y = labelled_sequences(n_sequences, longest=6, seed=seed)
    tags = []
    for labels in y:
        named = np.array(["B", "I", "O"])[labels]
        for t, tag in enumerate(named):
            if tag == "I" and (t == 0 or named[t - 1] == "O"):
                named[t] = "B"
        if named[-1] == "B":
            named[-1] = "O"
        tags.append(named)
    return X, tags


X, y = tagged()


def breaks_rules(labels):
    pairs = set(itertools.pairwise(labels))
    return ("O", "I") in pairs or labels[0] == "I" or labels[-1] == "B"


@pytest.fixture(scope="module", params=[None, RBF(gamma=0.1)], ids=["tied", "edge kernel"])
def crf(request):
    # A wide prior and new inputs, so that the field would break the rules if it could.
    return ChainCRF(RBF(gamma=0.5), edges=EdgeCliques(request.param), constraints=RULES, rank=20, random_state=0).fit(
        X, y
    )


@pytest.fixture(scope="module")
def new():
    random = np.random.default_rng(5)
    return [3.0 * random.normal(size=(length, 3)) for length in (1, 2, 3, 5, 8)]


def test_no_answer_holds_what_is_forbidden(crf, new):
    for labels in crf.predict(new):
        assert not breaks_rules(labels)
    for draws in crf.sample(new, 200, random_state=0):
        assert not any(map(breaks_rules, draws))
    for best in crf.predict_nbest(new, 50):
        assert best
        assert not any(breaks_rules(labels) for labels, _ in best)


def test_without_constraints_the_rules_would_be_broken(new):
    free = ChainCRF(RBF(gamma=0.5), rank=20, random_state=0).fit(X, y)
    assert any(breaks_rules(draw) for draws in free.sample(new, 200, random_state=0) for draw in draws)


def test_marginals_are_zero_where_forbidden(crf, new):
    nodes, edges = crf.predict_marginals(new, cliques="edge")
    for node, edge in zip(nodes, edges, strict=True):
        assert node[0, 1] == 0.0
        assert node[-1, 0] == 0.0
        np.testing.assert_array_equal(edge[:, 2, 1], 0.0)
        np.testing.assert_allclose(node.sum(axis=1), 1.0, atol=1e-12)


def test_likelihood_of_a_forbidden_labelling_is_minus_infinity(crf, new):
    assert crf.log_likelihood(new[2:3], [["B", "O", "I"]]) == -np.inf
    assert crf.log_likelihood(new[2:3], [["I", "I", "O"]]) == -np.inf
    assert crf.log_likelihood(new[2:3], [["O", "O", "B"]]) == -np.inf
    each = crf.log_likelihood([new[2]] * 2, [["B", "I", "O"], ["B", "O", "I"]], per_item=True)
    assert np.isfinite(each[0])
    assert each[1] == -np.inf
    labellings, probabilities = enumerated(crf, new[2])
    assert probabilities.sum() == pytest.approx(1.0, abs=1e-12)
    for labels, probability in zip(crf.classes_[labellings], probabilities, strict=True):
        assert (probability == 0.0) == breaks_rules(labels)


def test_the_fit_knows_the_constraints():
    """The likelihood is that of the constrained field: dropping them afterwards would be another model."""
    settings = {"kernel": "linear", "tol": 1e-10, "max_iter": 500}
    constrained = ChainCRF(constraints=RULES, **settings).fit(X, y)
    free = ChainCRF(**settings).fit(X, y)
    assert constrained.solution_.value < free.solution_.value
    assert constrained.certify(X, y).relative_gap < 1e-8


@pytest.mark.parametrize(
    "constraints",
    [
        [("O", "I")],
        {("O", "I")},
        np.array([["O", "I"]]),
        {"transitions": [("O", "I")]},
        Constraints(transitions=[("O", "I")]),
    ],
)
def test_forms_of_the_same_constraints(constraints):
    crf = ChainCRF("linear", constraints=constraints).fit(X, y)
    expected = np.zeros((3, 3))
    expected[2, 1] = -np.inf
    np.testing.assert_array_equal(crf.field_.spec.masks.edge, expected)


def test_labels_forbidden_everywhere():
    only = [np.where(tags == "I", "B", tags) for tags in y]
    only[0][0] = "I"
    with pytest.raises(ValueError, match="sequence 0, position 0: label 'I' is forbidden everywhere"):
        ChainCRF(constraints={"labels": ["I"]}).fit(X, only)


@pytest.mark.parametrize(
    ("constraints", "words"),
    [
        ([("B", "I")], "is forbidden after 'B' by the constraints. Correct the label or drop the constraint."),
        ({"start": ["O"]}, "label 'O' is forbidden at the first position"),
        ({"end": ["O"]}, "label 'O' is forbidden at the last position"),
        ([("B", "X")], "unknown label 'X' in 'transitions': known are 'B', 'I', 'O'"),
        ({"start": ["X"]}, "unknown label 'X' in 'start'"),
        ({"begin": ["B"]}, "unknown key 'begin': known are transitions, start, end, labels"),
        ({"start": ["B", "I", "O"]}, "leave no label to start a sequence with"),
        ([("B",)], "pairs"),
    ],
)
def test_constraints_that_cannot_be_met(constraints, words):
    with pytest.raises(ValueError) as error:  # noqa: PT011  the words are compared below, as they are
        ChainCRF(constraints=constraints).fit(X, y)
    assert words in str(error.value)
    if "forbidden" in words:
        assert str(error.value).startswith("sequence ")


def test_certify_refuses_labels_that_break_the_constraints():
    crf = ChainCRF("linear", constraints=RULES).fit(X, y)
    with pytest.raises(ValueError, match="sequence 0, position 0: label 'I' is forbidden at the first"):
        crf.certify(X[:1], [["I"] * len(X[0])])


def test_prediction_names_the_sequence_that_the_constraints_leave_no_labelling():
    inputs, labels = [np.eye(2)] * 6, [["a", "b"]] * 6
    crf = ChainCRF(constraints={"start": ["b"], "end": ["a"]}).fit(inputs, labels)
    assert len(crf.predict(inputs)) == 6
    with pytest.raises(ValueError, match="sequence 5: the constraints leave no labelling of its length, 1"):
        crf.predict([*inputs[:5], np.eye(2)[:1]])
