"""Probabilities of spans against enumeration of all labellings, by every road."""

import numpy as np
import pytest

from kernelfields import ChainCRF, EdgeCliques, LabelNgrams, NodeCliques, RingCRF, SegmentCRF, SkipCliques
from kernelfields.data import OrderCliques
from kernelfields.data.spans import find_spans
from kernelfields.evaluation.entities import span_rules
from kernelfields.inference.spans import boundary_probabilities, likely_spans, span_probabilities

SCHEMES = {
    "bio": ["B-a", "B-b", "I-a", "I-b", "O"],
    "bioes": ["B-a", "E-a", "I-a", "O", "S-a"],
    "runs": ["O", "x", "y"],
}


def fitted(kind, labels, **settings):
    random = np.random.default_rng(3)
    X = [random.normal(size=(length, 3)) for length in (3, 4, 1, 5, 4, 6)]
    y = [random.choice(labels, size=len(x)).tolist() for x in X]
    y[0][: len(labels[:3])] = labels[:3]
    y[5][: len(labels[3:])] = labels[3:]
    settings = {"kernel": "linear", "prior_variance": 3.0, "scale": False, "random_state": 0} | settings
    new = [random.normal(scale=2.0, size=(length, 3)) for length in (4, 1, 3)]
    return kind(**settings).fit(X, y), new


def enumerated(crf, x, rules, known):
    """Return the probability of every span, and of a beginning at every position, from all labellings."""
    spans, begins, whole = {}, np.zeros(len(x)), np.array([0, len(x)])
    every = crf.predict_nbest([x], 10_000, known=known)[0]
    assert sum(np.exp(log) for _, log in every) == pytest.approx(1.0)
    for labels, log in every:
        columns = find_spans(np.searchsorted(crf.classes_, labels), whole, rules)
        for span in zip(*(column.tolist() for column in columns), strict=True):
            spans[span] = spans.get(span, 0.0) + np.exp(log)
            begins[span[0]] += np.exp(log)
    return spans, begins


ROADS = {
    "chain": (ChainCRF, {}),
    "allowed": (ChainCRF, {}),
    "constraints": (ChainCRF, {"constraints": {"transitions": [("O", "I-a"), ("B-b", "I-a")]}}),
    "ngrams": (ChainCRF, {"cliques": [NodeCliques("linear"), LabelNgrams(n=3)]}),
    "skips": (ChainCRF, {"cliques": [NodeCliques("linear"), SkipCliques(lag=2)]}),
    "orders": (ChainCRF, {"cliques": [NodeCliques("linear"), OrderCliques("linear", order=2)]}),
    "ring": (RingCRF, {}),
    "skips in a ring": (RingCRF, {"cliques": [NodeCliques("linear"), EdgeCliques(), SkipCliques(lag=2)]}),
}


@pytest.mark.parametrize(
    ("road", "scheme"),
    [(road, scheme) for road in ROADS for scheme in SCHEMES if road != "constraints" or scheme == "bio"],
)
def test_spans_have_the_probability_of_enumeration(road, scheme):
    kind, settings = ROADS[road]
    labels = SCHEMES[scheme]
    crf, new = (fitted_within if road == "constraints" else fitted)(kind, labels, **settings)
    rules, _ = span_rules(crf.classes_)
    known = [[set(labels[:3])] * len(x) for x in new] if road == "allowed" else [None] * len(new)
    answers = next(crf.answers(new, known=known))
    found = likely_spans(answers, rules, 1e-4)
    first = 0
    for item, x in enumerate(new):
        truth, begins = enumerated(crf, x, rules, known[item : item + 1])
        own = {
            (int(start) - first, int(stop) - first, int(kind)): chance
            for start, stop, kind, chance in zip(*found, strict=True)
            if first <= start < first + len(x)
        }
        assert set(own) == {span for span, chance in truth.items() if chance >= 1e-4}
        np.testing.assert_allclose(boundary_probabilities(answers, rules)[first : first + len(x)], begins, atol=1e-9)
        for span, chance in own.items():
            assert chance == pytest.approx(truth[span], abs=1e-9), (item, span)
        columns = np.add(list(truth), [first, first, 0])
        np.testing.assert_allclose(span_probabilities(answers, rules, *columns.T), list(truth.values()), atol=1e-9)
        first += len(x)


def fitted_within(kind, labels, **settings):
    random = np.random.default_rng(5)
    X = [random.normal(size=(5, 3)) for _ in range(4)]
    y = [["B-a", "I-a", "O", "B-b", "I-b"], ["O", "B-a", "B-b", "O", "O"], ["I-b"] * 5, ["O"] * 5]
    crf = kind("linear", prior_variance=3.0, scale=False, random_state=0, **settings).fit(X, y)
    assert crf.classes_.tolist() == labels
    return crf, [random.normal(scale=2.0, size=(length, 3)) for length in (4, 1, 3)]


@pytest.mark.parametrize("repeats", [False, True])
def test_spans_of_segments_are_their_marginals(repeats):
    crf, new = fitted(SegmentCRF, ["O", "x", "y"], max_duration=4, repeats=repeats)
    rules, types = span_rules(crf.classes_)
    answers = next(crf.answers(new))
    found = likely_spans(answers, rules, 1e-6)
    ranked = crf.predict_nbest(new, 10_000, segments=True)
    truth, begins, first = {}, np.zeros(sum(map(len, new))), 0
    for x, every in zip(new, ranked, strict=True):
        assert sum(np.exp(log) for _, log in every) == pytest.approx(1.0)
        for segments, log in every:
            for begin, end, label in segments:
                if label != "O":
                    span = (begin + first, end + first, types.index(label))
                    truth[span] = truth.get(span, 0.0) + np.exp(log)
                    begins[begin + first] += np.exp(log)
        first += len(x)
    own = dict(zip(zip(*(column.tolist() for column in found[:3]), strict=True), found.probabilities, strict=True))
    assert {span for span, chance in truth.items() if chance >= 1e-6} == set(own)
    assert all(chance == pytest.approx(truth[span], abs=1e-10) for span, chance in own.items())
    np.testing.assert_allclose(boundary_probabilities(answers, rules), begins, atol=1e-10)


@pytest.mark.parametrize("road", ["chain", "ngrams", "skips", "ring"])
def test_potentials_of_hundreds_of_nats_and_blocks_of_sequences(road, monkeypatch):
    kind, settings = ROADS[road]
    crf, _ = fitted(kind, SCHEMES["bio"], **settings)
    new = [np.random.default_rng(1).normal(scale=100.0, size=(length, 3)) for length in (5, 2, 4)]
    rules, _ = span_rules(crf.classes_)
    answers = next(crf.answers(new))
    whole = likely_spans(answers, rules, 1e-3)
    truth = {
        (start + first, stop + first, kind): chance
        for first, x in zip(answers.family.offsets.tolist(), new, strict=False)
        for (start, stop, kind), chance in enumerated(crf, x, rules, None)[0].items()
        if chance >= 1e-3
    }
    assert set(zip(*(column.tolist() for column in whole[:3]), strict=True)) == set(truth)
    monkeypatch.setattr("kernelfields.inference.spans._PAIR_VALUES", 1)
    for one, other in zip(whole, likely_spans(answers, rules, 1e-3), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


def test_probabilities_at_the_end_of_the_range_of_doubles():
    """Labels of a probability of 1e-310 or less, whose inverse is beyond all numbers, leave spans as they are."""
    crf, _ = fitted(ChainCRF, SCHEMES["runs"])
    rules, types = span_rules(crf.classes_)
    direction = np.linalg.pinv(crf.coef_["node"].T)[:, 1]  # in which "x" gains one nat over the others
    new = [np.outer(np.full(3, size), direction) for size in np.linspace(690.0, 750.0, 61)]
    for entities in crf.predict_entities(new):
        assert [entity[:3] for entity in entities] == [("x", 0, 3)]
        assert entities[0].probability == pytest.approx(1.0)
    found = likely_spans(next(crf.answers(new)), rules, 1e-3)
    assert found.types.tolist() == [types.index("x")] * len(new)
    np.testing.assert_allclose(found.probabilities, 1.0)
