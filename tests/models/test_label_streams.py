"""Streams of a fitted field: the answers of whole sequences, given what has come, whatever the form of the inputs."""

import warnings

import numpy as np
import pytest
import scipy.sparse

from kernelfields import ChainCRF, EdgeCliques, EndCliques, NodeCliques, SkipCliques, StartCliques
from kernelfields.data import OrderCliques
from kernelfields.kernels import RBF
from tests.arrays import infer_chains
from tests.samples import labelled_sequences, potentials_of

X, y = labelled_sequences()
LETTERS = [np.array(["b", "c", "d"])[each] for each in y]
LONG = np.random.default_rng(3).normal(size=(23, 3))
ENDS = [
    NodeCliques(RBF(gamma=0.3), rank=12, window=(2, 0)),
    NodeCliques("linear", window=(0, 2), name="ahead"),
    EdgeCliques("linear", window=3),
    EdgeCliques(name="steps"),
    StartCliques("linear", window=3),
    EndCliques("linear", window=(2, 1)),
    EndCliques(name="last"),
]
FIELDS = {
    "tied": ChainCRF(RBF(gamma=0.3), rank=15, prior_variance=0.5, random_state=0),
    "window": ChainCRF("linear", window=(1, 2), prior_variance=1.0, scale=True),
    "edge kernel": ChainCRF(
        RBF(gamma=0.3), edges=EdgeCliques(RBF(gamma=0.1)), rank=15, prior_variance=0.5, random_state=0
    ),
    "all sets": ChainCRF(cliques=ENDS, random_state=0),
    "no steps": ChainCRF(cliques=[NodeCliques("linear")]),
    "constrained": ChainCRF(
        "linear", prior_variance=1.0, constraints={"transitions": [("b", "d")], "start": ["d"], "end": ["b"]}
    ),
}


@pytest.fixture(scope="module", params=FIELDS)
def crf(request):
    labels = LETTERS
    if request.param == "constrained":
        labels = [np.where(each == "d", "c", each) for each in labels]
        labels[0][:2] = ["c", "d"]
        for each in labels:
            each[-1] = "c"
    return FIELDS[request.param].fit(X, labels)


def ahead(crf):
    return 2 if any(term.clique.window in ((1, 2), (0, 2)) for term in crf.field_.terms) else 0


def pushed(stream, rows, size=1):
    answers = [stream.push(rows[begin : begin + size]) for begin in range(0, len(rows), size)] + [stream.end()]
    return [label for each in answers for label in each.labels], np.concatenate([each.marginals for each in answers])


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 4, 23])
def test_without_a_limit_to_the_lag_answers_are_those_of_the_sequence(crf, size):
    for rows in (LONG, LONG[:1], LONG[:2]):
        _, marginals = pushed(crf.stream(lag=np.inf, decode="posterior"), rows, size)
        assert np.allclose(marginals, crf.predict_marginals([rows])[0], rtol=0, atol=1e-12)
        for decode in ("viterbi", "posterior", None):
            labels, _ = pushed(crf.stream(lag=np.inf, decode=decode), rows, size)
            assert labels == crf.predict([rows], decode)[0]


@pytest.mark.parametrize("more", [0, 1, 3])
def test_a_lag_counts_the_positions_that_windows_look_ahead(crf, more):
    stream = crf.stream(lag=ahead(crf) + more, decode="posterior")
    node, edge = potentials_of(crf, crf.structure.read([LONG]))
    marginals = np.concatenate([stream.push(row).marginals for row in LONG])
    assert len(marginals) == len(LONG) - ahead(crf) - more == len(LONG) - stream.n_pending
    for t, row in enumerate(marginals):
        seen = t + more + 1
        if seen < len(LONG):  # of the last position the sequence knows that it is the last
            steps = edge if len(edge) == 1 else edge[:seen]
            given = infer_chains(node[:seen], steps, np.array([0, seen])).node_marginals
            assert np.allclose(row, given[t], rtol=0, atol=1e-12)


@pytest.mark.parametrize("decode", ["viterbi", "posterior"])
def test_pushes_of_any_size_give_the_same_answers(crf, decode):
    lag = ahead(crf) + 1
    labels, marginals = pushed(crf.stream(lag=lag, decode=decode, every=3), LONG)
    for size in (2, 5, 23):
        again, same = pushed(crf.stream(lag=lag, decode=decode, every=3), LONG, size)
        assert again == labels
        assert np.allclose(same, marginals, rtol=0, atol=1e-12)


def test_labels_of_a_stream_fit_together():
    crf = ChainCRF("linear", prior_variance=1.0, constraints="bio").fit(
        X, [np.array(["O", "B-x", "I-x"])[np.where((each == 2) & (np.r_[0, each[:-1]] == 0), 1, each)] for each in y]
    )
    for lag in (0, 1, 4):
        labels, marginals = pushed(crf.stream(lag=lag), 3.0 * LONG)
        assert set(labels) == {"O", "B-x", "I-x"}
        assert not [pair for pair in zip(["O", *labels], labels, strict=False) if pair == ("O", "I-x")]
        assert np.allclose(marginals.sum(axis=1), 1.0)
        assert marginals[0, list(crf.classes_).index("I-x")] == 0.0


def test_positions_come_as_they_do_in_a_fit():
    words = [[{"word": word, "bias": 1.0} for word in ["the", "cat", "saw", "the", "dog"]]] * 2
    tags = [["D", "N", "V", "D", "N"]] * 2
    strings = [[[f"{name}={value}" for name, value in position.items()] for position in each] for each in words]
    sparse = [scipy.sparse.csr_array(np.eye(5))] * 2
    for inputs in (words, strings, sparse):
        crf = ChainCRF("linear", prior_variance=1.0, window=3).fit(inputs, tags)
        one_by_one, together = crf.stream(lag=2), crf.stream(lag=2)
        answers = [one_by_one.push(inputs[0][[t]] if inputs is sparse else inputs[0][t]) for t in range(5)]
        answers.append(one_by_one.end())
        assert [label for each in answers for label in each.labels] == crf.predict(inputs[:1])[0]
        first, rest = together.push(inputs[0]), together.end()
        marginals = np.concatenate([each.marginals for each in answers])
        assert np.allclose(np.concatenate([first.marginals, rest.marginals]), marginals, rtol=0, atol=1e-14)
    assert crf.stream().push([]).marginals.shape == (0, 3)


def test_lists_and_frames_are_rows():
    import pandas as pd

    frames = [pd.DataFrame(x, columns=["height", "width", "depth"]) for x in X]
    crf = ChainCRF("linear", prior_variance=1.0).fit(frames, y)
    stream = crf.stream(lag=0)
    expected = crf.stream(lag=0).push(pd.DataFrame(LONG, columns=frames[0].columns)).marginals
    assert np.allclose(stream.push(pd.DataFrame(LONG[:3], columns=frames[0].columns)).marginals, expected[:3])
    with pytest.warns(UserWarning, match="feature names"):
        assert np.allclose(stream.push(LONG[3].tolist()).marginals, expected[3:4])
    with pytest.warns(UserWarning, match="feature names"):
        assert np.allclose(stream.push(LONG[4:6].tolist()).marginals, expected[4:6])
    assert stream.push(pd.DataFrame(LONG[6:7], columns=frames[0].columns)).labels.dtype == crf.classes_.dtype


def test_a_push_that_fails_changes_nothing(crf):
    stream, untouched = crf.stream(lag=3), crf.stream(lag=3)
    stream.push(LONG[:7])
    untouched.push(LONG[:7])
    for wrong, message in (
        (np.zeros((2, 5)), "5 features per position, but this model was fitted with 3"),
        (np.zeros(4), "4 features per position"),
        (np.array([1.0, np.nan, 0.0]), "holds nan in row 0, column 1"),
        ([{"a": 1}], "numeric arrays"),
    ):
        with pytest.raises(ValueError, match=message):
            stream.push(wrong)
    for push in (lambda each: each.push(LONG[7:]), lambda each: each.end()):
        answers, expected = push(stream), push(untouched)
        assert answers.labels == expected.labels
        assert np.allclose(answers.marginals, expected.marginals, rtol=0, atol=1e-14)
    assert stream.n_positions == len(LONG)
    for call in (stream.end, lambda: stream.push(LONG)):
        with pytest.raises(ValueError, match="has ended: open another one"):
            call()


def test_a_stream_that_ends_before_it_begins_has_no_answers():
    assert FIELDS["tied"].fit(X, LETTERS).stream().end().labels == []


@pytest.mark.parametrize(("clique", "steps"), [(SkipCliques(lag=3), 3), (OrderCliques(), 2)])
def test_labels_that_meet_from_afar_are_refused(clique, steps):
    crf = ChainCRF(cliques=[NodeCliques("linear"), clique]).fit(X, y)
    with pytest.raises(ValueError, match=f"reaches {steps} steps: predict whole sequences"):
        crf.stream()


def test_settings_of_a_stream_are_checked():
    crf = ChainCRF("linear", window=5, prior_variance=1.0).fit(X, y)
    for settings, message in (
        ({"lag": 1}, "windows and features look 2 positions ahead"),
        ({"lag": -1}, "lag must be a whole number"),
        ({"lag": 2.5}, "lag must be a whole number"),
        ({"every": 0}, "every must be"),
        ({"decode": "best"}, "decode must be"),
    ):
        with pytest.raises(ValueError, match=message):
            crf.stream(**settings)


def test_a_position_without_any_known_feature_is_nothing_unusual_in_a_stream():
    crf = ChainCRF("linear", prior_variance=1.0).fit([[{"word": "a"}, {"word": "b"}]], [["A", "B"]])
    stream = crf.stream(lag=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(stream.push({"word": "unheard"}).labels) == 1
