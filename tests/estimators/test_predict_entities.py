"""Entities as answers: their labels, places, probabilities and alternatives, from every estimator of sequences."""

import numpy as np
import pandas as pd
import pytest

from kernelfields import ChainCRF, ChainCRFCV, FrameCRF, GraphCRF, SegmentCRF
from kernelfields.compat import CRF
from kernelfields.evaluation import entity_spans

LABELS = np.array(["B-a", "I-a", "O"])


def sentences(count=12, length=6):
    random, X, y = np.random.default_rng(0), [], []
    for _ in range(count):
        labels = ["B-a", "I-a", "O", "O", "B-a", "O"][:length]
        shift = int(random.integers(length))
        labels = labels[shift:] + labels[:shift]
        labels = [
            "B-a" if label == "I-a" and before in ("O", "") else label
            for label, before in zip(labels, ["", *labels[:-1]], strict=True)
        ]
        X.append((LABELS[:, None] == labels).T + 0.6 * random.normal(size=(length, 3)))
        y.append(labels)
    return X, y


@pytest.fixture(scope="module")
def crf():
    return ChainCRF("linear", prior_variance=1.0, constraints="bio", random_state=0).fit(*sentences())


def test_entities_are_those_of_predict(crf):
    X, _ = sentences(5)
    found = crf.predict_entities([*X, np.empty((0, 3))])
    assert found[-1] == []
    for x, entities in zip(X, found, strict=False):
        assert [entity[:3] for entity in entities] == [tuple(span) for span in entity_spans(crf.predict([x])[0])]
        for entity in entities:
            assert 0.0 < entity.probability <= 1.0
            assert all(other.begin < entity.end and entity.begin < other.end for other in entity.alternatives)
            chances = [other.probability for other in entity.alternatives]
            assert chances == sorted(chances, reverse=True)
            assert min(chances, default=1.0) >= 0.05
            assert entity[:3] not in [other[:3] for other in entity.alternatives]
    begins = crf.predict_boundaries(X)
    assert [len(own) for own in begins] == [len(x) for x in X]
    assert crf.predict_boundaries([np.empty((0, 3))])[0].shape == (0,)


def test_what_is_known_changes_the_probability(crf):
    X, _ = sentences(3)
    free, entities = crf.predict_entities(X), crf.predict(X)
    fixed = crf.predict_entities(X, known=[labels.tolist() for labels in map(np.asarray, entities)])
    assert all(one.probability == pytest.approx(1.0) for own in fixed for one in own)
    assert any(one.probability < 0.99 for own in free for one in own)


def test_runs_of_a_label_are_entities_where_there_is_no_scheme(crf):
    X, y = sentences()
    plain = [["a" if label != "O" else "O" for label in own] for own in y]
    chain = ChainCRF("linear", prior_variance=1.0, random_state=0).fit(X, plain)
    found, labels = chain.predict_entities(X[:1])[0], chain.predict(X[:1])[0]
    assert {entity.label for entity in found} == {"a"}
    covered = {t for entity in found for t in range(entity.begin, entity.end)}
    assert covered == {t for t, label in enumerate(labels) if label == "a"}
    segments = SegmentCRF("linear", prior_variance=1.0, random_state=0).fit(X, plain)
    cut = [(s.label, s.begin, s.end) for s in segments.predict_segments(X[:1])[0] if s.label != "O"]
    assert [entity[:3] for entity in segments.predict_entities(X[:1])[0]] == cut
    # Every label is a type where a scheme is set aside.
    assert {entity.label for entity in crf.predict_entities(X, scheme=None)[0]} <= {"B-a", "I-a"}


def test_tables_searches_and_other_faces_answer_alike(crf):
    X, y = sentences()
    expected = crf.predict_entities(X[:2])
    settings = {"prior_variance": 1.0, "constraints": "bio", "random_state": 0}
    frame = pd.DataFrame(np.concatenate(X)).rename(columns=str)
    frame["sequence"], frame["label"] = np.repeat(range(len(X)), 6), np.concatenate(y)
    table = FrameCRF(ChainCRF("linear", **settings)).fit(frame)
    assert [[e[:3] for e in own] for own in table.predict_entities(frame[:12])] == [
        [e[:3] for e in own] for own in expected
    ]
    search = ChainCRFCV(ChainCRF("linear", **settings), prior_variances=[0.1, 1.0], cv=2).fit(X, y)
    assert len(search.predict_entities(X[:2])) == 2
    face = CRF(c2=1.0).fit([[{"w": str(np.argmax(row))} for row in x] for x in X], y)
    assert {entity.label for entity in face.predict_entities([[{"w": "0"}, {"w": "1"}]])[0]} == {"a"}


def test_segments_are_entities_of_their_labels_whatever_these_are_called():
    """Labels of a scheme are labels of segments as others are: an entity has the probability of its segment."""
    X, y = sentences()
    segments = SegmentCRF("linear", prior_variance=1.0, random_state=0).fit(X, y)
    for own, entities in zip(segments.predict_segments(X), segments.predict_entities(X), strict=True):
        expected = [(s.label, s.begin, s.end, s.probability) for s in own if s.label != "O"]
        assert [(entity[:4]) for entity in entities] == [(*span[:3], pytest.approx(span[3])) for span in expected]
    with pytest.raises(ValueError, match="scheme='bio' is for labels of positions, and segments are entities as they"):
        segments.predict_entities(X, scheme="bio")


def test_bad_input(crf):
    X, _ = sentences(1)
    with pytest.raises(ValueError, match="least must be above 0 and at most 1"):
        crf.predict_entities(X, least=0.0)
    with pytest.raises(ValueError, match="unknown scheme"):
        crf.predict_entities(X, scheme="bix")
    assert not hasattr(GraphCRF(), "predict_entities")
