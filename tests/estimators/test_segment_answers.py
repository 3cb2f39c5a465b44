"""SegmentCRF: its n best and tables, and labels that are partly known."""

import copy

import numpy as np
import pytest

from kernelfields import SegmentCRF, SoftTargets
from kernelfields.data.segments import read_segments
from tests.oracles.segments import Enumerated
from tests.samples import labelled_sequences

X, Y = labelled_sequences(n_sequences=12, longest=7, n_labels=3)
QUICK = {"prior_variance": 1.0, "random_state": 0, "dtype": "float64"}


@pytest.fixture(scope="module")
def fitted():
    """A field with functions of positions and of durations."""
    return SegmentCRF("rbf", tol=1e-6, **QUICK).fit(X, Y)


def enumerated(model, x):
    """What enumeration says of one sequence under a fitted field."""
    answers = next(model.answers([x]))
    potentials = answers.family.with_base(answers.potentials)
    return Enumerated(potentials.node, potentials.edge, potentials["duration"])


def segments_of(labels):
    """Runs of equal labels as (begin, end, label)."""
    begins = [t for t in range(len(labels)) if t == 0 or labels[t] != labels[t - 1]]
    return [(b, e, labels[b]) for b, e in zip(begins, [*begins[1:], len(labels)], strict=True)]


def test_the_n_best_as_labels_begin_with_the_best(fitted):
    both = fitted.predict_nbest(X, 2), fitted.predict_nbest(X, 2, segments=True)
    for labels, segments, best in zip(*both, fitted.predict(X), strict=True):
        np.testing.assert_array_equal(labels[0][0], best)
        for (row, chance), (written, other) in zip(labels, segments, strict=True):
            np.testing.assert_array_equal(row, read_segments([written])[0][0])
            assert chance == pytest.approx(other, abs=1e-12)
    with pytest.raises(ValueError, match="k must be"):
        fitted.predict_nbest(X, 0, segments=True)


def test_single_labels_of_segments_are_not_explained(fitted):
    with pytest.raises(ValueError, match=r"no explanations of single labels: weights\(\) lists its weights"):
        fitted.explain(X[1], positions=[2])


def test_tables_and_summaries_know_segments(fitted):
    table, summary = str(fitted.weights(top=3)), str(fitted.summary())
    for words in ("label 0", "positions", "x = forbidden"):
        assert words in table
    assert f"durations, 1 to {fitted.max_duration_}" in summary.replace("\n    ", " ")
    assert "SegmentCRF" in fitted._repr_html_()
    assert {row["set"] for row in fitted.weights().to_rows()} == {"duration", "transitions"}
    assert "5 positions" not in str(fitted.weights(feature_re="^[12] position"))


def test_partly_known_labels_are_fitted_by_what_is_known():
    known = [[None if t % 3 == 1 else int(label) for t, label in enumerate(y)] for y in Y]
    model = SegmentCRF("rbf", max_duration=7, tol=1e-5, **QUICK).fit(X, known)
    norms = sum(0.5 * float(np.vdot(term.known, term.known)) for term in model.field_.terms)
    np.testing.assert_allclose(model.solution_.value, norms - model.log_likelihood(X, known), rtol=1e-9)
    assert model.stationarity_ < 1e-3
    for x, row in zip(X[:3], known[:3], strict=True):
        chances = enumerated(model, x[:5]).probabilities.items()
        total = sum(chance for segments, chance in chances if _agrees(segments, row))
        assert model.log_likelihood([x[:5]], [row[:5]]) == pytest.approx(np.log(total), abs=1e-9)
    assert model.certify(X, known, scope="span").relative_gap < 0.05


def _agrees(segments, row):
    return all(row[t] in (None, label) for begin, end, label in segments for t in range(begin, end))


def test_known_labels_among_many():
    """Where evidence leaves few of many labels, durations count as before."""
    random = np.random.default_rng(0)
    inputs, labels = [random.normal(size=(3, 2)) for _ in range(12)], [random.integers(12, size=3) for _ in range(12)]
    labels[0], labels[1], labels[2], labels[3] = (np.arange(3) + 3 * i for i in range(4))
    model = SegmentCRF("rbf", max_duration=3, **QUICK).fit(inputs, labels)
    known = [{4, 5}, 7, {7, 8}]
    truth = enumerated(model, inputs[0])
    chances = np.zeros((3, 12))
    for segments, chance in truth.probabilities.items():
        row = read_segments([segments])[0][0]
        if row[0] in (4, 5) and row[1] == 7 and row[2] in (7, 8):
            chances[np.arange(3), row] += chance
    marginals = model.predict_marginals(inputs[:1], known=[known])[0]
    np.testing.assert_allclose(marginals, chances / chances.sum(axis=1, keepdims=True), atol=1e-9)


def test_what_is_refused_of_partly_known_labels():
    with pytest.raises(ValueError, match="nor how long segments are: give max_duration"):
        SegmentCRF().fit(X, [[None, *y[1:].tolist()] for y in Y])
    with pytest.raises(ValueError, match="position by position, not as segments"):
        SegmentCRF(max_duration=7).fit(X, [[(0, len(y), None)] for y in Y[:-1]] + [segments_of(Y[-1].tolist())])
    long = max(range(len(Y)), key=lambda i: len(Y[i]))
    known = [[0] * (len(y) - 1) + [None] if i == long else [None] * len(y) for i, y in enumerate(Y)]
    known[long - 1][:2] = [1, 2]
    with pytest.raises(ValueError, match=rf"sequence {long}: the labels that are known .* at most 2 positions"):
        SegmentCRF(max_duration=2).fit(X, known)
    targets = SoftTargets([np.full((len(y), 3), 1 / 3) for y in Y], classes=[0, 1, 2])
    with pytest.raises(ValueError, match="SoftTargets are for labels of positions"):
        SegmentCRF(max_duration=7, repeats=True).fit(X, targets)


def test_new_inputs_may_meet_kernels_on_a_device(fitted):
    pytest.importorskip("torch")
    there = copy.copy(fitted).set_params(engine="torch")
    for ours, here in zip(there.predict_marginals(X), fitted.predict_marginals(X), strict=True):
        np.testing.assert_allclose(ours, here, atol=1e-9)


def test_collections_are_labelled(fitted):
    dask = pytest.importorskip("dask")
    (labels,) = dask.compute(*fitted.predict([dask.delayed(X[:3])]), scheduler="synchronous")
    for ours, here in zip(labels, fitted.predict(X[:3]), strict=True):
        np.testing.assert_array_equal(ours, here)


@pytest.mark.parametrize("repeats", [False, True])
@pytest.mark.parametrize("decode", ["auto", "viterbi", "posterior"])
def test_entities_are_those_of_the_labels_that_are_predicted(decode, repeats):
    """A position is inside an entity of a type exactly if that is its predicted label."""
    random = np.random.default_rng(3)
    X = [random.normal(size=(6, 1)) for _ in range(60)]
    y = [np.where(x[:, 0] + 0.8 * random.normal(size=6) > 0, "X", "O").tolist() for x in X]
    settings = {"prior_variance": 1.0, "scale": False, "max_duration": 3 if repeats else 6, "random_state": 0}
    model = SegmentCRF("linear", decode=decode, repeats=repeats, **settings).fit(X[:12], y[:12])
    best = model.predict_segments(X)
    apart = 0
    for x, labels, entities, segments in zip(X, model.predict(X), model.predict_entities(X), best, strict=True):
        inside = ["O"] * len(x)
        for entity in entities:
            inside[entity.begin : entity.end] = [entity.label] * (entity.end - entity.begin)
            assert entity.end - entity.begin <= model.max_duration_
        assert inside == labels
        own, decoded = ({tuple(each)[:3] for each in found} for found in (segments, entities))
        apart += {(label, begin, end) for begin, end, label in own if label == "X"} != decoded
        chances = {(each.begin, each.end, each.label): each.probability for each in segments}
        for entity in entities:
            if (chance := chances.get((entity.begin, entity.end, entity.label))) is not None:
                assert entity.probability == pytest.approx(chance, abs=1e-9)
    assert (apart > 0) == (decode == "posterior")
