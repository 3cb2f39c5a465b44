"""Answers that were found wrong from outside, D1 to D11: each test states the right one, by enumeration where it can.

Scores are added up from inputs and ``coef_`` alone, for every labelling that ``allowed`` leaves, so that no inference
of the package takes part. A test of a defect that is still there is marked ``xfail(strict=True)``: remove the mark
together with the defect.
"""

import math
import warnings
from dataclasses import dataclass, field, replace
from itertools import pairwise, product

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.base import clone

from kernelfields import (
    AnnotatedCRF,
    ChainCRF,
    Constraints,
    EdgeCliques,
    KernelClassifier,
    LabelDictionary,
    LabelNgrams,
    NodeCliques,
    SegmentCRF,
    SequenceClassifier,
    TextFeatures,
)
from kernelfields.data import OrderCliques
from kernelfields.estimators import Checkpoint
from tests.cli.command_files import run, sentences, write_columns_file
from tests.oracles.labellings import Labellings, compute_scores

TIGHT = {"tol": 1e-10, "max_iter": 2000, "n_jobs": 1, "random_state": 0}


# ---- sequences of words with few labels each, and fields of them by enumeration


@dataclass
class Tagged:
    """Sequences whose first column is the number of a word; a word has the labels of a list."""

    n_labels: int
    lists: list[list[int]]
    n_sequences: int = 30
    seed: int = 0
    X: list[np.ndarray] = field(init=False)
    y: list[np.ndarray] = field(init=False)

    def __post_init__(self):
        random = np.random.default_rng(self.seed)
        centres = random.normal(size=(self.n_labels, 2))
        self.X, self.y = [], []
        for index in range(self.n_sequences):
            words = random.integers(len(self.lists), size=random.integers(3, 6))
            words[0] = index % len(self.lists)
            labels = np.array([random.choice(self.lists[word]) for word in words])
            self.X.append(np.column_stack([words, centres[labels] + random.normal(size=(len(words), 2))]))
            self.y.append(labels)

    def labellings(self, x):
        """All labellings of a sequence that the lists of its words leave, (K, T)."""
        return np.array(list(product(*(self.lists[int(word)] for word in x[:, 0]))))


# Lists short enough to be walked, and lists that are not.
SHORT = Tagged(5, [[0, 1], [1, 2], [3, 4], [0, 4], [2]])
LONG = Tagged(3, [[0, 1, 2], [0, 1, 2], [1, 2], [0, 1, 2]])
DICTIONARY = LabelDictionary(0, min_count=1)


def labels_of_words(X, y):
    """The labels that every word of the data was seen with: what the dictionary learns."""
    seen = {}
    for x, labels in zip(X, y, strict=True):
        for word, label in zip(x[:, 0].astype(int).tolist(), labels.tolist(), strict=True):
            seen.setdefault(word, set()).add(label)
    return [sorted(seen[word]) for word in sorted(seen)]


def law(crf, x, labellings):
    """The distribution over some labellings (K, T) of one sequence, from the coefficients of a field alone."""
    n_labels = len(crf.classes_)
    total = compute_scores(labellings, x @ crf.coef_["node"])
    for name, table in crf.coef_.items():
        if name != "node":
            order = round(math.log(table.shape[1], n_labels))
            cube = np.reshape(table, (n_labels,) * order)
            for last in range(order, len(x) + 1):
                total = total + cube[tuple(labellings[:, last - order : last].T)]
    return Labellings(labellings, total, n_labels)


def expected_ngrams(own, order):
    """How often each of L^order labellings in a row is expected, (L^order,)."""
    places = range(order, own.labellings.shape[1] + 1)
    return sum((own.joint(range(last - order, last)).ravel() for last in places), np.zeros(own.n_labels**order))


def enumerated(crf, x, tagged):
    return law(crf, x, tagged.labellings(x))


def test_the_data_have_every_label_of_every_word():
    for tagged in (SHORT, LONG):
        assert labels_of_words(tagged.X, tagged.y) == tagged.lists


@pytest.mark.parametrize("tagged", [SHORT, LONG], ids=["walked", "not walked"])
def test_enumeration_agrees_where_neighbours_meet(tagged):
    """What the oracle below rests on, in a field that has always been right."""
    crf = ChainCRF("linear", prior_variance=2.0, scale=False, allowed=DICTIONARY, **TIGHT).fit(tagged.X, tagged.y)
    for x, marginals in zip(tagged.X, crf.predict_marginals(tagged.X), strict=True):
        np.testing.assert_allclose(marginals, enumerated(crf, x, tagged).marginals, atol=1e-9)


# ---- D1: allowed labels in fields of n-grams

NGRAMS = {
    "n-grams": LabelNgrams(n=3, support="all", prior_variance=2.0),
    "order": OrderCliques(order=2, prior_variance=2.0),
}


@pytest.fixture(scope="module", params=[(name, size) for name in NGRAMS for size in ("walked", "not walked")], ids=str)
def ngram_field(request):
    name, size = request.param
    tagged = SHORT if size == "walked" else LONG
    cliques = [NodeCliques("linear", prior_variance=2.0), EdgeCliques(prior_variance=2.0), NGRAMS[name]]
    return ChainCRF(cliques=cliques, scale=False, allowed=DICTIONARY, **TIGHT).fit(tagged.X, tagged.y), tagged


def test_d1_a_fit_with_n_grams_normalises_over_allowed_labels(ngram_field):
    crf, tagged = ngram_field
    value = sum(np.sum(table**2) / (2 * 2.0) for table in crf.coef_.values())
    slopes = {name: table / 2.0 for name, table in crf.coef_.items()}
    for x, labels in zip(tagged.X, tagged.y, strict=True):
        expected = enumerated(crf, x, tagged)
        observed = law(crf, x, labels[None])
        value -= expected.log_probability(labels)
        slopes["node"] += x.T @ (expected.marginals - observed.marginals)
        for name in slopes:
            if name != "node":
                order = round(math.log(slopes[name].size, tagged.n_labels))
                slopes[name] += (expected_ngrams(expected, order) - expected_ngrams(observed, order)).reshape(
                    slopes[name].shape
                )
    assert crf.solution_.value == pytest.approx(value, rel=1e-8)
    for slope in slopes.values():
        np.testing.assert_allclose(slope, 0.0, atol=1e-3)


def test_d1_answers_keep_n_grams_and_allowed_labels(ngram_field):
    crf, tagged = ngram_field
    marginals, best = crf.predict_marginals(tagged.X), crf.predict(tagged.X, decode="viterbi")
    logs = crf.log_likelihood(tagged.X, tagged.y, per_item=True)
    for x, labels, own, decoded, log in zip(tagged.X, tagged.y, marginals, best, logs, strict=True):
        expected = enumerated(crf, x, tagged)
        np.testing.assert_allclose(own, expected.marginals, atol=1e-9)
        np.testing.assert_array_equal(decoded, expected.best)
        assert log == pytest.approx(expected.log_probability(labels), abs=1e-9)


# ---- D2: allowed labels in streams


@pytest.fixture(scope="module")
def listed_chain():
    return ChainCRF("linear", prior_variance=2.0, scale=False, allowed=DICTIONARY, **TIGHT).fit(SHORT.X, SHORT.y)


@pytest.mark.parametrize("lag", [0, 1, np.inf])
@pytest.mark.parametrize("decode", ["posterior", "viterbi"])
def test_d2_streams_give_allowed_labels_and_their_probabilities(listed_chain, lag, decode):
    for x in SHORT.X[:10]:
        stream = listed_chain.stream(lag, decode=decode)
        answers = [stream.push(row) for row in x] + [stream.end()]
        labels = np.concatenate([answer.labels for answer in answers])
        marginals = np.concatenate([answer.marginals for answer in answers])
        # How many positions had been pushed when each was answered.
        seen = np.repeat([*range(1, len(x) + 1), len(x)], [len(answer.labels) for answer in answers])
        latest = np.minimum(np.arange(len(x)) + lag + 1, len(x))
        # What all best labellings have in common is answered sooner.
        assert (seen <= latest).all() if decode == "viterbi" else (seen == latest).all()
        for t, word in enumerate(x[:, 0].astype(int)):
            assert labels[t] in SHORT.lists[word]
            expected = enumerated(listed_chain, x[: seen[t]], SHORT)
            np.testing.assert_allclose(marginals[t], expected.marginals[t], atol=1e-9)
        if decode == "viterbi" and lag == np.inf:
            whole = enumerated(listed_chain, x, SHORT)
            np.testing.assert_array_equal(labels, whole.best)


# ---- D3: the best segmentations


def test_d3_the_best_segmentations_stay_within_their_sequences():
    random = np.random.default_rng(0)
    y = [np.repeat(np.arange(index, index + 4) % 2, 3) for index in range(8)]
    X = [labels[:, None] + 0.5 * random.normal(size=(12, 1)) for labels in y]
    crf = SegmentCRF("rbf", prior_variance=1.0, max_duration=6, random_state=0).fit(X, y)
    # Of one position there are two segmentations, of four more than k.
    new = [X[0][:4], X[1][:1], X[2][:4], X[3][:1]]
    found = crf.predict_nbest(new, 7, segments=True)
    for x, ranked in zip(new, found, strict=True):
        every = []
        for labels in product([0, 1], repeat=len(x)):
            cuts = [0, *(t for t in range(1, len(x)) if labels[t] != labels[t - 1]), len(x)]
            segments = [(a, b, labels[a]) for a, b in pairwise(cuts)]
            every.append((segments, crf.log_likelihood([x], [segments])))
        every.sort(key=lambda pair: -pair[1])
        assert [segments for segments, _ in ranked] == [segments for segments, _ in every[:7]]
        np.testing.assert_allclose([log for _, log in ranked], [log for _, log in every[:7]], atol=1e-9)


# ---- D4: annotators of chains with allowed labels


def said_of(tagged, seed=0):
    """What two annotators label: mostly the label, sometimes another of the same word, sometimes nothing."""
    random = np.random.default_rng(seed)
    said = {"anna": [], "ben": []}
    for name, errors in (("anna", 0.1), ("ben", 0.3)):
        for x, labels in zip(tagged.X, tagged.y, strict=True):
            others = [random.choice(tagged.lists[int(word)]) for word in x[:, 0]]
            words = np.where(random.random(len(x)) < errors, others, labels).tolist()
            said[name].append([None if random.random() < 0.2 else word for word in words])
    return said


@pytest.fixture(scope="module")
def annotated():
    field = ChainCRF("linear", prior_variance=2.0, scale=False, allowed=DICTIONARY, **(TIGHT | {"tol": 1e-6}))
    said = said_of(SHORT)
    return AnnotatedCRF(field, cv=2, max_steps=100).fit(SHORT.X, said), said


def given_annotators(model, said, index):
    """The labellings of one sequence and their log-weights by what annotators said of it."""
    expected = enumerated(model.estimator_, SHORT.X[index], SHORT)
    told = np.zeros(len(expected.labellings))
    for name, matrix in model.confusions_.items():
        for t, word in enumerate(said[name][index]):
            if word is not None:
                told += np.log(matrix[expected.labellings[:, t], word])
    return expected, told


def test_d4_the_consensus_is_given_what_annotators_said(annotated):
    model, said = annotated
    for index, marginals in enumerate(model.consensus_marginals(SHORT.X, said)):
        expected, told = given_annotators(model, said, index)
        given = replace(expected, scores=expected.scores + told)
        np.testing.assert_allclose(marginals, given.marginals, atol=1e-9)


def test_d4_the_likelihood_of_what_annotators_said(annotated):
    model, said = annotated
    for index, log in enumerate(model.log_likelihood(SHORT.X, said, per_item=True)):
        expected, told = given_annotators(model, said, index)
        assert log == pytest.approx(logsumexp(expected.scores + told) - expected.log_partition, abs=1e-9)


# ---- D5: a changed rule of allowed labels


def test_d5_a_warm_start_has_the_allowed_labels_of_now():
    crf = ChainCRF("linear", prior_variance=2.0, scale=False, warm_start=True, **TIGHT).fit(SHORT.X, SHORT.y)
    free = crf.solution_.value
    crf.set_params(allowed=DICTIONARY).fit(SHORT.X, SHORT.y)
    fresh = clone(crf).fit(SHORT.X, SHORT.y)
    assert crf.solution_.value == pytest.approx(fresh.solution_.value, rel=1e-8)
    for x, marginals in zip(SHORT.X, crf.predict_marginals(SHORT.X), strict=True):
        np.testing.assert_allclose(marginals, enumerated(crf, x, SHORT).marginals, atol=1e-9)
    crf.set_params(allowed=None).fit(SHORT.X, SHORT.y)
    assert crf.allowed_ is None
    assert crf.solution_.value == pytest.approx(free, rel=1e-8)


def test_d5_a_warm_start_learns_the_words_of_its_own_sequences():
    crf = ChainCRF("linear", prior_variance=2.0, scale=False, warm_start=True, allowed=DICTIONARY, **TIGHT)
    # Sequences in which the first word never has the second of its labels.
    few = [place for place, x in enumerate(SHORT.X) if not np.any((x[:, 0] == 0) & (SHORT.y[place] == 1))]
    X, y = [SHORT.X[place] for place in few], [SHORT.y[place] for place in few]
    assert labels_of_words(X, y) == [[0], *SHORT.lists[1:]]
    crf.fit(X, y).fit(SHORT.X, SHORT.y)
    assert crf.solution_.value == pytest.approx(clone(crf).fit(SHORT.X, SHORT.y).solution_.value, rel=1e-8)


def test_d5_batches_refuse_another_rule(tmp_path):
    # More entries than scikit-learn shows of a dict.
    entries = {word: [1] for word in range(100)}
    crf = ChainCRF("rbf", prior_variance=2.0, scale=False, rank=20, **TIGHT)
    crf.set_params(allowed=LabelDictionary(0, min_count=1, entries=entries)).partial_fit(SHORT.X[:25], SHORT.y[:25])
    crf.save(tmp_path / "first.safetensors")
    before = crf.coef_["node"].copy()
    others = entries | {99: [2]}
    for rule in (None, DICTIONARY, LabelDictionary(0, min_count=1, entries=others)):
        with pytest.raises(ValueError, match=r"allowed was LabelDictionary.* in the first batch and is "):
            crf.set_params(allowed=rule).partial_fit(SHORT.X[25:], SHORT.y[25:])
    np.testing.assert_array_equal(crf.coef_["node"], before)
    crf.set_params(allowed=LabelDictionary(0, min_count=1, entries=dict(entries)))
    for same in (crf, ChainCRF.load(tmp_path / "first.safetensors")):
        same.partial_fit(SHORT.X[25:], SHORT.y[25:])
        assert np.abs(same.coef_["node"] - before).max() > 1e-3


# ---- D6: numbers as words


def labels_allowed(crf, number):
    """The labels of probability above zero at a position whose word is a number."""
    (marginals,) = crf.predict_marginals([np.array([[number, 0.0]])])
    return crf.classes_[marginals[0] > 0].tolist()


def test_d6_large_numbers_are_words_of_their_own():
    codes = {1234567.0: "a", 1234568.0: "b", 0.1234567: "c", 0.1234568: "d"}
    X = [np.array([[code, 1.0]]) for code in codes]
    crf = ChainCRF("linear", scale=False, prior_variance=1.0, allowed=DICTIONARY)
    crf.fit(X, [[label] for label in codes.values()])
    for code, label in codes.items():
        assert labels_allowed(crf, code) == [label]


def test_d6_entries_are_numbers_of_the_column():
    X, y = [np.array([[0.0, 1.0]]), np.array([[1.0, 1.0]]), np.array([[2.5, 1.0]])], [["a"], ["b"], ["c"]]
    rule = LabelDictionary(0, min_count=100, unknown=["a"], entries={0.0: ["b"], 1: ["c"], np.float32(2.5): ["b"]})
    crf = ChainCRF("linear", scale=False, prior_variance=1.0, allowed=rule).fit(X, y)
    assert labels_allowed(crf, 0.0) == ["a", "b"]
    assert labels_allowed(crf, 1.0) == ["b", "c"]
    assert labels_allowed(crf, 2.5) == ["b", "c"]
    assert labels_allowed(crf, 3.0) == ["a"]


def test_a_warm_start_keeps_the_scale_of_columns():
    """Not among those that were found from outside: the basis is that of scaled columns, and so are new inputs."""
    X = [x * [1.0, 100.0, 10_000.0] for x in SHORT.X]
    for scale in ("auto", True):
        crf = ChainCRF("rbf", prior_variance=2.0, scale=scale, warm_start=True, **TIGHT).fit(X, SHORT.y)
        before = crf.predict_marginals(X)
        for some, same in zip(before, crf.fit(X, SHORT.y).predict_marginals(X), strict=True):
            np.testing.assert_allclose(some, same, atol=1e-3)


# ---- D7: the states of whole sequences


def test_d7_states_are_those_of_the_class_that_is_predicted():
    random = np.random.default_rng(0)
    y = random.integers(3, size=40)
    X = [random.normal(size=(4, 2)) + 0.5 * label for label in y]
    crf = SequenceClassifier("rbf", n_states=3, prior_variance=1.0, random_state=0).fit(X, y)
    chains, elsewhere = crf.estimator_, 0
    labellings = np.array(list(product(range(3), repeat=4)))
    for x, label, states in zip(X, crf.predict(X), crf.predict_states(X), strict=True):
        own = 3 * crf.classes_.tolist().index(label) + labellings
        logs = chains.log_likelihood([x] * len(own), list(own), per_item=True)
        np.testing.assert_array_equal(states, labellings[logs.argmax()])
        elsewhere += chains.predict([x], decode="viterbi")[0][0] // 3 != label
    assert elsewhere > 2, "the most probable states of all are those of another class at times"


# ---- D8: explanations against what is forbidden


def tag_words(**rules):
    """A field of three labels on words, and one sequence of it."""
    words = [["the", "cat", "sees", "the", "dog"], ["a", "dog", "sleeps"], ["the", "dog", "sees", "a", "cat"]]
    y = [["D", "N", "V", "D", "N"], ["D", "N", "V"], ["D", "N", "V", "D", "N"]]
    X = [[{"word": word} for word in sentence] for sentence in words]
    return ChainCRF("linear", prior_variance=1.0, random_state=0, **rules).fit(X, y), X[0], y[0]


@pytest.mark.parametrize(
    ("rules", "forbidden"),
    [
        ({"constraints": Constraints([("D", "V"), ("N", "N")], start=["N"], end=["D"])}, "by the constraints"),
        ({"allowed": LabelDictionary("word", min_count=1)}, "not among the allowed labels"),
    ],
    ids=["constraints", "allowed"],
)
def test_d8_a_difference_from_a_forbidden_labelling_is_infinite(rules, forbidden):
    crf, x, labels = tag_words(**rules)
    infinite = 0
    for against in crf.classes_:
        for t, explained in enumerate(crf.explain(x, labels, against=against, top=100).positions):
            other = [*labels[:t], explained.other, *labels[t + 1 :]]
            difference = crf.log_likelihood([x], [labels]) - crf.log_likelihood([x], [other])
            assert explained.difference == pytest.approx(difference, abs=1e-9)
            assert sum(each.amount for each in explained.contributions) == pytest.approx(difference, abs=1e-9)
            if math.isinf(difference):
                infinite += 1
                assert forbidden in explained.contributions[0].words
                assert "+inf" in str(explained)
    assert infinite > 4


# ---- D9: who watches a batch


def test_d9_callbacks_see_every_batch_and_may_stop_it(tmp_path):
    seen, stops = [], []

    def watch(iteration):
        seen.append(iteration.iteration)
        return bool(stops) and iteration.iteration >= stops[0]

    path = tmp_path / "batches.safetensors"
    crf = ChainCRF("rbf", prior_variance=2.0, scale=False, rank=20, callbacks=[watch, Checkpoint(path)], **TIGHT)
    crf.partial_fit(SHORT.X[:20], SHORT.y[:20])
    for begin in (20, 25):
        seen.clear()
        crf.partial_fit(SHORT.X[begin : begin + 5], SHORT.y[begin : begin + 5])
        assert seen == [iteration.iteration for iteration in crf.solution_.history]
        assert len(seen) > 2
        kept = ChainCRF.load(path)
        np.testing.assert_array_equal(kept.coef_["node"], crf.coef_["node"])
    stops.append(1)
    crf.partial_fit(SHORT.X[:20], SHORT.y[:20])
    assert crf.solution_.reason == "callback"
    kept.partial_fit(SHORT.X[:20], SHORT.y[:20])
    assert kept.solution_.converged


def test_d9_batches_show_where_they_are(capsys):
    crf = ChainCRF("rbf", prior_variance=2.0, scale=False, rank=20, verbose=2, **TIGHT)
    crf.partial_fit(SHORT.X[:25], SHORT.y[:25])
    capsys.readouterr()
    crf.partial_fit(SHORT.X[25:], SHORT.y[25:])
    shown = capsys.readouterr()
    assert "gap" in shown.out + shown.err


# ---- D10: features of the command and of Python


def test_d10_a_model_of_the_command_takes_the_features_of_python(tmp_path):
    rows, new = sentences(40), sentences(20, seed=1)
    train = write_columns_file(tmp_path / "train.conll", rows, columns=(0, 2))
    model = tmp_path / "tags.safetensors"
    run("train", train, "-m", model, "-q")
    crf = ChainCRF.load(model)
    words = [[word for word, _, _ in sentence] for sentence in new]
    predicted = crf.predict(TextFeatures().fit_transform(words))
    truth = [tag for sentence in new for _, _, tag in sentence]
    assert np.mean(np.concatenate(predicted) == truth) > 0.9
    direct = ChainCRF("linear", prior_variance=crf.prior_variance_, random_state=0)
    known = [[word for word, _, _ in sentence] for sentence in rows]
    direct.fit(TextFeatures().fit_transform(known), [[tag for _, _, tag in sentence] for sentence in rows])
    assert set(crf.feature_names_in_) == set(direct.feature_names_in_)


def test_d10_input_without_any_known_feature_warns():
    crf, x, _ = tag_words()
    with pytest.warns(UserWarning, match=r"no feature of X is known to this model.*'word:the'"):
        crf.predict([[{"form": "the"}, {"form": "cat"}]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        crf.predict([[{"form": "the"}, x[0]]])


def test_d10_words_are_told_to_become_features():
    crf, _, _ = tag_words()
    with pytest.raises(TypeError, match=r"position 0.*got '8128' \(str\)\. Words become features by .*TextFeatures"):
        crf.predict([["8128"]])
    words = [["the", "cat"], ["a", "dog"]]
    assert ChainCRF().fit(words, [["D", "N"], ["D", "N"]]).predict([["the", "dog"]]) == [["D", "N"]]


# ---- D11: scales of columns


def noisy_columns(n_samples=400, seed=0):
    """15 columns of spread 1 that hold three classes, and 1,000 columns of noise of spread 0.05."""
    random = np.random.default_rng(seed)
    labels = random.integers(3, size=n_samples)
    informative = 0.8 * random.normal(size=(3, 15))[labels] + random.normal(size=(n_samples, 15))
    noise = 0.05 * random.normal(size=(n_samples, 1000))
    return np.column_stack([informative, noise]), labels


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["classifier", "chains"])
def test_d11_noise_of_small_spread_does_not_drown_good_columns(kind):
    X, y = noisy_columns()
    if kind == "chains":
        X, y = np.split(X, 80), np.split(y, 80)
        model, half = ChainCRF(random_state=0), 40
    else:
        model, half = KernelClassifier(random_state=0), 200
    plain = clone(model).set_params(scale=False).fit(X[:half], y[:half]).score(X[half:], y[half:])
    chosen = model.fit(X[:half], y[:half]).score(X[half:], y[half:])
    assert plain > 0.8
    assert chosen > plain - 0.03
