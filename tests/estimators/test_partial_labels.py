"""Fits to labels that are partly known, through the doors a user has."""

from itertools import product

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

from kernelfields import (
    ChainCRF,
    EdgeCliques,
    GraphCRF,
    KernelClassifier,
    LabelNgrams,
    NodeCliques,
    PartialLabels,
    RingCRF,
    SegmentCRF,
    SkipCliques,
    SoftTargets,
)
from kernelfields.data import OrderCliques
from kernelfields.estimators import LabelShares
from tests.samples import labelled_sequences

X, Y = labelled_sequences(n_sequences=25, seed=3)
Y = [["abc"[label] for label in labels] for labels in Y]
CLASSES = sorted({label for labels in Y for label in labels})
TIGHT = {"prior_variance": 1.0, "tol": 1e-8, "max_iter": 2000, "random_state": 0, "rank": 40}


def with_gaps(y, share=0.5, seed=0):
    rng = np.random.default_rng(seed)
    return [[label if rng.random() < share else None for label in labels] for labels in y]


def values(crf):
    return np.array([each.value for each in crf.solution_.history])


FIELDS = {
    "rbf": {},
    "linear": {"kernel": "linear"},
    "sparse": {"kernel": "linear", "support": "observed"},
    "elastic net": {"kernel": "linear", "l1": 0.05},
    "transitions": {"edges": EdgeCliques("rbf")},
    "weighted": {"sample_weight": np.linspace(0.5, 2.0, len(X))},
}


@pytest.mark.parametrize("name", FIELDS)
def test_fits_go_down_to_a_stationary_point(name):
    settings = dict(FIELDS[name])
    weights = settings.pop("sample_weight", None)
    crf = ChainCRF(**{**TIGHT, **settings, "tol": 1e-5}).fit(X, with_gaps(Y), weights)
    assert np.all(np.diff(values(crf)) <= 1e-10)
    assert crf.solution_.reason == "stationary"
    assert crf.stationarity_ <= 5e-5
    assert crf.certificate_.completed
    assert "as it completes them" in crf.certificate_.sentence
    assert 0 <= crf.certificate_.gap <= 5e-5 * crf.solution_.value * 1.01


def test_sets_of_one_label_are_that_label_bit_for_bit():
    certain = [[{label: 2.0} if place % 2 else {label} for place, label in enumerate(labels)] for labels in Y]
    plain, told = (ChainCRF(**TIGHT).fit(X, y) for y in (Y, certain))
    np.testing.assert_array_equal(plain.coef_["node"], told.coef_["node"])
    assert not told.certificate_.completed


@pytest.mark.parametrize("solver", ["newton", "newton-cg", "block-jacobi"])
def test_solvers_that_need_a_hessian_are_refused(solver):
    with pytest.raises(ValueError, match="needs a convex objective, and with labels that are partly known it is not"):
        ChainCRF("linear", **TIGHT, solver=solver).fit(X, with_gaps(Y))


def test_labels_that_nobody_shows_can_be_declared():
    unseen = CLASSES[0]
    hidden = [[None if label == unseen else label for label in labels] for labels in Y]
    crf = ChainCRF(
        "linear", support="observed", **{**TIGHT, "tol": 1e-3}, partial_labels=PartialLabels(classes=CLASSES)
    )
    crf.fit(X, hidden)
    assert crf.classes_.tolist() == CLASSES
    with pytest.raises(ValueError, match=f"unknown label '{CLASSES[1]}' at sequence"):
        ChainCRF(partial_labels=PartialLabels(classes=[CLASSES[0], "other"])).fit(X, hidden)


def test_targets_of_a_field_give_the_field_back():
    teacher = ChainCRF("linear", **TIGHT).fit(X, Y)
    nodes, pairs = teacher.predict_marginals(X, cliques="edge")
    turned = teacher.classes_[::-1]
    targets = SoftTargets([p[:, ::-1] for p in nodes], [p[:, ::-1, ::-1] for p in pairs], classes=turned)
    pupil = ChainCRF("linear", **{**TIGHT, "prior_variance": 1e6}).fit(X, targets)
    assert not pupil.certificate_.completed
    for mine, theirs in zip(pupil.predict_marginals(X), nodes, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=2e-3)


def test_targets_that_are_labels_are_labels():
    one_hot = [np.eye(len(CLASSES))[[CLASSES.index(label) for label in labels]] for labels in Y]
    for settings in ({}, {"edges": EdgeCliques("rbf")}, {"kernel": "linear", "support": "observed"}):
        soft = ChainCRF(**{**TIGHT, **settings}).fit(X, SoftTargets(one_hot, classes=CLASSES))
        hard = ChainCRF(**{**TIGHT, **settings}).fit(X, Y)
        assert soft.solution_.value == pytest.approx(hard.solution_.value, rel=1e-7)
    rows, labels = np.vstack(X), np.concatenate(Y)
    soft = KernelClassifier(prior_variance=1.0, random_state=0).fit(
        rows, SoftTargets(np.vstack(one_hot), classes=CLASSES)
    )
    hard = KernelClassifier(prior_variance=1.0, random_state=0).fit(rows, labels)
    np.testing.assert_allclose(soft.predict_proba(rows), hard.predict_proba(rows), atol=1e-4)


NODES, EDGES = NodeCliques("linear"), EdgeCliques()
MEETING = {
    "n-grams": lambda: ChainCRF(cliques=[NODES, EDGES, LabelNgrams(n=3, support="all")], scale=False, **TIGHT),
    "skips": lambda: ChainCRF(cliques=[NODES, EDGES, SkipCliques(lag=2)], scale=False, **TIGHT),
    "orders": lambda: ChainCRF(cliques=[NODES, OrderCliques("linear", order=2)], scale=False, **TIGHT),
    "ring": lambda: RingCRF("linear", scale=False, **TIGHT),
    "graph": lambda: GraphCRF("linear", scale=False, **TIGHT),
}


@pytest.mark.parametrize("paired", [False, True], ids=["independent", "pairs"])
@pytest.mark.parametrize("name", MEETING)
def test_targets_of_labels_that_meet_farther_apart(name, paired):
    """The objective is the expected negative log-likelihood under the distribution that targets describe."""
    some = [x[:4] for x in X if len(x) >= 4][:6]
    teacher = ChainCRF("linear", prior_variance=1.0, scale=False).fit(X, Y)
    nodes, pairs = teacher.predict_marginals(some, cliques="edge")
    targets = SoftTargets(nodes, pairs if paired else None, classes=teacher.classes_)
    inputs = some if name != "graph" else [(x, np.array([[0, 1], [0, 2], [0, 3], [2, 3]])) for x in some]
    crf = MEETING[name]()
    if paired and name in ("ring", "graph"):
        with pytest.raises(ValueError, match="pairs of SoftTargets"):
            crf.fit(inputs, targets)
        return
    crf.fit(inputs, targets)
    value = sum(0.5 * np.sum(np.square(term.known)) / term.prior_variance for term in crf.field_.terms)
    for x, seen, node in zip(inputs, some, nodes, strict=True):
        labellings = [list(labels) for labels in product(CLASSES, repeat=4)]
        logs = crf.log_likelihood([x] * len(labellings), labellings, per_item=True)
        numbers = np.searchsorted(CLASSES, labellings)
        shares = node[np.arange(4), numbers].prod(axis=1)
        if paired:
            shares = np.exp(teacher.log_likelihood([seen] * len(labellings), labellings, per_item=True))
        assert shares.sum() == pytest.approx(1.0)
        value -= shares @ logs
    assert crf.solution_.value == pytest.approx(value, rel=1e-9)
    assert crf.solution_.converged
    assert not crf.certificate_.completed


def test_targets_of_what_a_ring_forbids_are_refused():
    some = [x[:3] for x in X if len(x) >= 3][:5]
    # The last label is followed by the first, which is forbidden in half of the cases.
    nodes = [np.array([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]), *[np.eye(3)[::-1]] * 4]
    with pytest.raises(ValueError, match="sequence or graph 0: targets give mass to labellings that are forbidden"):
        RingCRF("linear", constraints=[("a", "b")], prior_variance=1.0).fit(some, SoftTargets(nodes, classes=CLASSES))


def test_targets_in_searches_of_scikit_learn_and_in_batches():
    shares = [np.eye(3)[np.searchsorted(CLASSES, labels)] * 0.9 + 0.1 / 3 for labels in Y]
    targets = SoftTargets(shares, classes=CLASSES)
    search = GridSearchCV(ChainCRF("linear"), {"prior_variance": [0.01, 1.0]}, cv=2, error_score="raise").fit(
        X, targets
    )
    crf = ChainCRF("linear", prior_variance=1.0).fit(X, targets)
    right = [(np.asarray(own) == labels).mean() * len(labels) for own, labels in zip(crf.predict(X), Y, strict=True)]
    share = np.sum(right) / sum(map(len, Y))
    assert crf.score(X, targets) == pytest.approx(share * (0.9 + 0.1 / 3) + (1 - share) * 0.1 / 3)
    assert search.best_score_ > 0.5
    rows = SoftTargets(np.vstack(shares), classes=CLASSES)
    assert KernelClassifier("linear", prior_variance=1.0).fit(np.vstack(X), rows).score(np.vstack(X), rows) > 0.5
    soft, hard = (ChainCRF("rbf", prior_variance=1.0, rank=20, random_state=0) for _ in range(2))
    certain = SoftTargets([np.eye(3)[np.searchsorted(CLASSES, labels)] for labels in Y], classes=CLASSES)
    for part in (slice(0, 12), slice(12, 25)):
        soft.partial_fit(X[part], certain[part])
        hard.partial_fit(X[part], Y[part])
    assert soft.solution_.value == pytest.approx(hard.solution_.value, rel=1e-6)
    for gaps in (with_gaps(Y[:3]), [None, *Y[1:3]]):
        with pytest.raises(ValueError, match="partial_fit needs labels that are all known, or SoftTargets"):
            hard.partial_fit(X[:3], gaps)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["n-grams", "skips", "graph"])
def test_expected_shares_of_every_family(name):
    inputs, gaps = [x[:4] for x in X[:8]], [labels[:4] for labels in with_gaps(Y[:8], 0.7)]
    if name == "graph":
        inputs = [(x, np.column_stack([np.arange(len(x) - 1), np.arange(1, len(x))])) for x in inputs]
    asked = PartialLabels(expectations=[LabelShares({"a": 0.5, "b": 0.3, "c": 0.2})])
    crf = MEETING[name]().set_params(partial_labels=asked, tol=1e-6).fit(inputs, [*gaps[:6], None, None])
    assert crf.stationarity_ < 1e-5


def test_contradictions_are_listed_together():
    first, second = CLASSES[:2]
    gaps = [list(labels) for labels in with_gaps(Y, 0.0)]
    for number in (1, 4, 6, 7, 9, 12, 13):
        gaps[number][:2] = [first, second]
    gaps[0][0] = CLASSES[2]
    places = "; ".join(f"sequence {number}, position 1" for number in (1, 4, 6, 7, 9))
    with pytest.raises(ValueError, match=f"^{places}; and 2 more sequences: what y allows up to here contradicts"):
        ChainCRF(constraints=[(first, second)]).fit(X, gaps)
    with pytest.raises(ValueError, match=r"^sequence 1; sequence 4; sequence 6; sequence 7; sequence 9; and 2 more"):
        SegmentCRF(constraints=[(first, second)], max_duration=9).fit(X, gaps)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda nodes, pairs: (nodes[:-1], pairs), "X has 25 sequences but y has 24"),
        (lambda nodes, pairs: ([nodes[0][:-1], *nodes[1:]], None), r"sequence 0: targets have shape"),
        (
            lambda nodes, pairs: ([*nodes[:2], 2 * nodes[2], *nodes[3:]], None),
            "sequence 2, position 0: targets",
        ),
        (
            lambda nodes, pairs: (nodes, [*pairs[:3], pairs[3] * 0, *pairs[4:]]),
            "sequence 3: targets of the pair of",
        ),
    ],
)
def test_targets_that_do_not_add_up_are_named(change, words):
    nodes, pairs = ChainCRF("linear", prior_variance=1.0).fit(X, Y).predict_marginals(X, cliques="edge")
    with pytest.raises(ValueError, match=words):
        ChainCRF().fit(X, SoftTargets(*change(list(nodes), list(pairs)), classes=CLASSES))


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (set(), "the set of allowed labels at sequence 4, position 1 is empty"),
        ({"a": -1.0}, "the weight of 'a' at sequence 4, position 1 is -1.0"),
        ({"a": np.nan}, "the weight of 'a' at sequence 4, position 1 is nan"),
        ({"a": 0.0}, "no label has a positive weight at sequence 4, position 1"),
        ({3}, "labels mix strings with others"),
        (("a", "b"), r"the label \('a', 'b'\) \(tuple\) at sequence 4, position 1|mix strings"),
    ],
    ids=str,
)
def test_evidence_that_cannot_be_used_is_named(entry, words):
    spoilt = with_gaps(Y, 0.9)
    spoilt[4][1] = entry
    crf = ChainCRF(**TIGHT)
    with pytest.raises(ValueError, match=words):
        crf.fit(X, spoilt)
    assert not hasattr(crf, "field_")


def test_nothing_labelled_and_evidence_against_the_constraints():
    with pytest.raises(ValueError, match=r"no position of y is labelled.*expectations="):
        ChainCRF().fit(X, [None] * len(X))
    with pytest.raises(TypeError, match="partial_labels must be None or a PartialLabels"):
        ChainCRF(partial_labels="em").fit(X, Y)
    first, second = CLASSES[:2]
    gaps = [list(labels) for labels in with_gaps(Y, 0.0)]
    gaps[7][:2] = [first, {second}]
    with pytest.raises(ValueError, match="sequence 7, position 1: what y allows up to here contradicts"):
        ChainCRF(constraints=[(first, second)], partial_labels=PartialLabels(classes=CLASSES)).fit(X, gaps)
