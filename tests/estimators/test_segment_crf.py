"""SegmentCRF: the chain as its special case, labels written as segments, and what is refused."""

import numpy as np
import pytest

from kernelfields import ChainCRF, EdgeCliques, SegmentCRF
from kernelfields.data import DurationCliques
from kernelfields.data.segments import find_begins, read_segments
from kernelfields.models.build import name_cliques
from tests.samples import labelled_sequences

X, Y = labelled_sequences(n_sequences=12, longest=8, n_labels=2)
QUICK = {"prior_variance": 1.0, "random_state": 0, "dtype": "float64"}


@pytest.fixture(scope="module")
def fitted():
    """A field with one function of the duration for each label."""
    return SegmentCRF("rbf", tol=1e-6, **QUICK).fit(X, Y)


@pytest.mark.parametrize("edge_kernel", [None, "linear"])
def test_single_positions_without_durations_are_a_chain(edge_kernel):
    shared = {"edges": EdgeCliques(edge_kernel), "tol": 1e-8, **QUICK}
    chain = ChainCRF("rbf", **shared).fit(X, Y)
    model = SegmentCRF("rbf", max_duration=1, repeats=True, durations=None, **shared).fit(X, Y)
    np.testing.assert_allclose(model.solution_.value, chain.solution_.value, rtol=1e-7)
    np.testing.assert_allclose(model.log_likelihood(X, Y), chain.log_likelihood(X, Y), rtol=1e-4)
    for ours, theirs in zip(model.predict_marginals(X), chain.predict_marginals(X), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-3)


def test_labels_written_as_segments(fitted):
    written = [[tuple(each[:3]) for each in segments] for segments in fitted.predict_segments(X)]
    labels = fitted.predict(X)
    np.testing.assert_array_equal(np.concatenate(read_segments(written)[0]), np.concatenate(labels))
    np.testing.assert_allclose(fitted.log_likelihood(X, written), fitted.log_likelihood(X, labels))
    assert fitted.score(X, written) == 1.0
    again = SegmentCRF("rbf", tol=1e-6, **QUICK).fit(X, [_as_segments(y) for y in Y])
    np.testing.assert_allclose(again.solution_.value, fitted.solution_.value, rtol=1e-6)


def _as_segments(y):
    begins = np.flatnonzero(find_begins(y, np.array([0, len(y)]))).tolist()
    return [(b, e, int(y[b])) for b, e in zip(begins, [*begins[1:], len(y)], strict=True)]


def test_segments_of_one_label_may_follow_each_other():
    inputs, segments = [np.zeros((4, 1)), np.ones((3, 1))], [[(0, 2, "a"), (2, 4, "a")], [(0, 3, "b")]]
    with pytest.raises(ValueError, match="sequence 0, position 2: a segment of 'a' follows one of the same label"):
        SegmentCRF("rbf", **QUICK).fit(inputs, segments)
    model = SegmentCRF("rbf", repeats=True, max_duration=3, **QUICK).fit(inputs, segments)
    assert model.log_likelihood(inputs, segments) > model.log_likelihood(inputs, [["a"] * 4, ["b"] * 3])
    assert model.predict(inputs) == [["a"] * 4, ["b"] * 3]


def test_defaults_choose_durations_and_variance():
    inputs, labels = labelled_sequences(n_sequences=60, longest=9)
    model = SegmentCRF(random_state=0).fit(inputs, labels)
    assert model.max_duration_ == min(2 * longest_run(labels), max(map(len, labels)))
    assert model.durations_.shape == (model.max_duration_, 3)
    assert model.score(inputs, labels) > 0.6
    shown = [model.show(x, y, caption="one").segments for x, y in zip(inputs[:10], labels[:10], strict=True)]
    assert max(map(len, shown)) > 1


def longest_run(labels):
    """The longest run of equal labels."""
    return max(end - begin for y in labels for begin, end, _ in _as_segments(y))


def test_what_is_refused():
    with pytest.raises(ValueError, match="max_duration must be a whole number of at least 1"):
        SegmentCRF(max_duration=0).fit(X, Y)
    long = longest_run(Y)
    with pytest.raises(
        ValueError, match=rf"sequence \d+: the segment of \d from position \d+ on has \d+ .*use max_duration={long}"
    ):
        SegmentCRF(max_duration=1).fit(X, Y)
    with pytest.raises(ValueError, match="some labels of y are not known"):
        SegmentCRF().fit(X, [[None, *y[1:].tolist()] for y in Y])
    with pytest.raises(ValueError, match="the constraints"):
        SegmentCRF(constraints=[(0, 1), (1, 0)]).fit(X, Y)
    with pytest.raises(ValueError, match="must begin where the one before it ends, at 2"):
        read_segments([[(0, 2, "a"), (3, 4, "b")]])
    with pytest.raises(ValueError, match="leave support='all'"):
        name_cliques([DurationCliques(support="observed")])


def test_no_path_is_left():
    labels = [np.zeros(len(y), dtype=int) if i % 2 else np.ones(len(y), dtype=int) for i, y in enumerate(Y)]
    model = SegmentCRF("rbf", constraints=[(0, 1), (1, 0)], max_duration=8, **QUICK).fit(X, labels)
    with pytest.raises(ValueError, match="sequence 0: its 9 positions cannot be cut into segments of at most 8"):
        model.predict([np.zeros((9, 3))])
