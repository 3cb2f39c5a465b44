"""Labels that are known when a field is asked: every answer against all labellings, one by one."""

import itertools

import numpy as np
import pytest

from kernelfields import ChainCRF, GraphCRF, KernelClassifier, MultiLabelCRF, SoftTargets
from tests.oracles.labellings import Labellings, all_labellings
from tests.samples import as_words, labelled_sequences

WORDS = ("adj", "noun", "verb")
EXACT = {"rtol": 0, "atol": 1e-9}


def weight(entry, label):
    """What an entry of ``known`` says of a label, the largest weight one."""
    if entry is None or (isinstance(entry, float) and np.isnan(entry)):
        return 1.0
    if isinstance(entry, dict):
        return entry.get(label, 0.0) / max(entry.values())
    return float(label in entry if isinstance(entry, set) else label == entry)


def some_evidence(labels, classes, random):
    """Labels of which some are unknown, some one of a set, some weighted; all of them leave the true one possible."""
    entries = []
    for label in labels:
        kind, other = random.integers(4), random.choice(classes)
        weights = {str(each): float(w) for each, w in zip(classes, random.uniform(0.1, 1, len(classes)), strict=True)}
        entries.append([str(label), None, {str(label), str(other)}, weights][kind])
    return entries


def weights_of(known, classes):
    return np.array([[weight(entry, label) for label in classes] for entry in known])


def law(crf, x, classes=WORDS):
    """The distribution of the labellings of one item, by asking for the likelihood of each."""
    labellings = all_labellings(crf.predict_marginals([x])[0].shape[0], len(classes))
    logs = crf.log_likelihood([x] * len(labellings), np.array(classes)[labellings].tolist(), per_item=True)
    return Labellings(labellings, logs, len(classes))


@pytest.fixture(scope="module")
def sentences():
    X, y = labelled_sequences(8, longest=4, seed=3)
    return X, [each.tolist() for each in as_words(y)]


BOUND = {"transitions": [("verb", "adj")], "start": ["noun"]}


def tagged(sentences, constraints):
    X, y = sentences
    kept = [i for i in range(len(X)) if constraints is None or allowed(y[i])]
    X, y = [X[i] for i in kept], [y[i] for i in kept]
    crf = ChainCRF("linear", prior_variance=1.0, constraints=constraints, random_state=0).fit(X, y)
    random = np.random.default_rng(5)
    return crf, X, y, [some_evidence(labels, WORDS, random) for labels in y]


@pytest.fixture(scope="module", params=[None, BOUND], ids=["free", "bound"])
def tagger(request, sentences):
    return tagged(sentences, request.param)


EDGES = {"tree": [(0, 1), (1, 2), (1, 3)], "circle": [(0, 1), (1, 2), (2, 3), (3, 0)]}


def graphs_of(edges):
    random = np.random.default_rng(7)
    X = [(random.normal(size=(4, 2)), np.array(edges)) for _ in range(6)]
    y = [np.array(WORDS)[random.integers(3, size=4)].tolist() for _ in X]
    crf = GraphCRF("linear", prior_variance=1.0, random_state=0).fit(X, y)
    return crf, X, y, [some_evidence(labels, WORDS, random) for labels in y]


@pytest.fixture(scope="module", params=EDGES)
def graphs(request):
    return graphs_of(EDGES[request.param])


def allowed(labels):
    return labels[0] != "noun" and ("verb", "adj") not in itertools.pairwise(labels)


@pytest.mark.parametrize("name", ["free", "bound", *EDGES])
def test_answers_given_what_is_known(sentences, name):
    chain = name not in EDGES
    crf, X, _, known = tagged(sentences, BOUND if name == "bound" else None) if chain else graphs_of(EDGES[name])
    marginals, joints = crf.predict_marginals(X, cliques="edge", known=known)
    ranked, entropies = crf.predict_nbest(X, 4, known=known), crf.entropy(X, known=known)
    best, likelihoods = crf.predict(X, "viterbi", known=known), crf.log_likelihood(X, known, per_item=True)
    for number, (x, entries) in enumerate(zip(X, known, strict=True)):
        free = law(crf, x)
        truth = free.weighted(weights_of(entries, WORDS))
        pairs = [(t - 1, t) for t in range(1, len(x))] if chain else EDGES[name]
        np.testing.assert_allclose(marginals[number], truth.marginals, **EXACT)
        np.testing.assert_allclose(
            joints[number], np.reshape([truth.joint(pair) for pair in pairs], (-1, 3, 3)), **EXACT
        )
        np.testing.assert_allclose([log for _, log in ranked[number]], [log for _, log in truth.ranked(4)], **EXACT)
        assert np.asarray(ranked[number][0][0]).tolist() == list(best[number]) == np.array(WORDS)[truth.best].tolist()
        assert likelihoods[number] == pytest.approx(free.log_evidence(weights_of(entries, WORDS)), abs=1e-9)
        assert entropies[number] == pytest.approx(truth.entropy, abs=1e-9)
    assert crf.log_likelihood(X, known) == pytest.approx(likelihoods.sum())
    for labels, entries in zip(crf.sample(X, 20, 0, known=known), known, strict=True):
        assert all(weight(entry, label) > 0 for drawn in labels for label, entry in zip(drawn, entries, strict=True))


def test_the_chain_rule_of_what_is_known(tagger):
    """log p(y | known) + log p(known) = log p(y and known)."""
    crf, X, y, known = tagger
    given = crf.log_likelihood(X, y, per_item=True, known=known)
    weights = [
        sum(np.log(weight(e, label)) for e, label in zip(*pair, strict=True)) for pair in zip(known, y, strict=True)
    ]
    together = crf.log_likelihood(X, y, per_item=True) + weights
    np.testing.assert_allclose(given + crf.log_likelihood(X, known, per_item=True), together, **EXACT)
    half = [[entry if t % 2 else None for t, entry in enumerate(entries)] for entries in known]
    rest = [[None if t % 2 else entry for t, entry in enumerate(entries)] for entries in known]
    whole = crf.log_likelihood(X, rest, per_item=True, known=half) + crf.log_likelihood(X, half, per_item=True)
    np.testing.assert_allclose(whole, crf.log_likelihood(X, known, per_item=True), **EXACT)


def test_nothing_known_changes_nothing(tagger):
    crf, X, _, _ = tagger
    for plain, given in zip(crf.predict_marginals(X), crf.predict_marginals(X, known=[None] * len(X)), strict=True):
        np.testing.assert_array_equal(plain, given)
    assert crf.log_likelihood(X, [None] * len(X)) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("method", ["loopy", "trw", "mean-field"])
def test_approximate_inference_keeps_to_what_is_known(graphs, method):
    crf, X, y, known = graphs
    asked = GraphCRF(inference=method)
    asked.__dict__.update({name: value for name, value in vars(crf).items() if name.endswith("_") or name == "_reader"})
    for x, marginals, entries in zip(X, asked.predict_marginals(X, known=known), known, strict=True):
        np.testing.assert_allclose(marginals.sum(axis=1), 1.0, atol=1e-9)
        weights = weights_of(entries, WORDS)
        assert np.all(marginals[weights == 0] == 0)
        np.testing.assert_allclose(marginals, law(crf, x).weighted(weights).marginals, atol=0.15)
    for marginals, labels in zip(asked.predict_marginals(X, known=y), y, strict=True):
        np.testing.assert_allclose(marginals, np.array(labels)[:, None] == np.array(WORDS), atol=1e-12)
    for decode in ("viterbi", "posterior"):
        assert [list(each) for each in asked.predict(X, decode, known=y)] == y
    drawn = asked.sample(X, 3, 0, known=known)
    for labels, entries in zip(drawn, known, strict=True):
        assert all(weight(entry, label) > 0 for each in labels for label, entry in zip(each, entries, strict=True))
    with pytest.raises(ValueError, match="needs exact inference"):
        asked.log_likelihood(X, known)


@pytest.fixture(scope="module")
def instances():
    random = np.random.default_rng(4)
    X = random.normal(size=(30, 3))
    Y = (X + 0.7 * random.normal(size=X.shape) > 0).astype(float)
    crf = MultiLabelCRF("linear", prior_variance=1.0, label_graph="full", random_state=0).fit(X, Y)
    known = Y.copy()
    known[random.random(Y.shape) < 0.6] = np.nan
    return crf, X[:8], Y[:8], known[:8]


@pytest.mark.parametrize("method", ["table", "junction"])
def test_several_labels_given_some_of_them(instances, method):
    crf, X, Y, known = instances
    crf = crf.set_params(inference=method)
    labellings = all_labellings(3, 2)
    logs = [crf.log_likelihood(X, np.tile(row, (len(X), 1)), per_item=True) for row in labellings]
    laws = [Labellings(labellings, own, 2) for own in np.array(logs).T]
    weights = [weights_of(entries, (0, 1)) for entries in known.tolist()]
    truths = [own.weighted(table) for own, table in zip(laws, weights, strict=True)]
    np.testing.assert_allclose(crf.predict_proba(X, known=known), [truth.marginals[:, 1] for truth in truths], **EXACT)
    sets, probabilities = crf.predict_joint(X, known=known)
    assert sets.tolist() == [truth.best.tolist() for truth in truths]
    np.testing.assert_allclose(probabilities, [truth.probabilities.max() for truth in truths], **EXACT)
    expected = [own.log_evidence(table) for own, table in zip(laws, weights, strict=True)]
    np.testing.assert_allclose(crf.log_likelihood(X, known, per_item=True), expected, **EXACT)
    assert crf.log_likelihood(X, Y, known=Y) == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_array_equal(crf.predict(X, known=Y), Y)
    drawn = crf.sample(X, 10, 0, known=known)
    assert np.all((drawn == known) | np.isnan(known))


def test_a_classifier_given_sets_of_classes():
    random = np.random.default_rng(1)
    X, y = random.normal(size=(30, 2)), np.array(WORDS)[random.integers(3, size=30)]
    crf = KernelClassifier("linear", prior_variance=1.0, random_state=0).fit(X, y)
    known = [{"adj", "verb"}, None, "noun", {"adj": 2.0, "noun": 0.5}, *[None] * 26]
    weights = np.array([[weight(entry, label) for label in WORDS] for entry in known])
    expected = crf.predict_proba(X) * weights
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(crf.predict_proba(X, known=known), expected, **EXACT)
    assert crf.predict(X, known=known).tolist() == np.array(WORDS)[expected.argmax(axis=1)].tolist()
    assert crf.predict(X, known=y).tolist() == y.tolist()
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(crf.predict_log_proba(X, known=known), np.log(expected), **EXACT)
    crf.laplace(X, y, n_samples=5, random_state=0)
    shares = crf.predict_proba(X, uncertainty=True, known=known)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0, atol=1e-12)
    assert shares[2].tolist() == [0.0, 1.0, 0.0]
    assert shares[0, 1] == 0.0


def test_uncertainty_of_chains_given_what_is_known(sentences):
    X, y = sentences
    crf = ChainCRF("linear", prior_variance=1.0, random_state=0).fit(X, y)
    crf.laplace(X, y, n_samples=4, random_state=0)
    known = [[y[0][0], *[None] * (len(y[0]) - 1)]]
    shrunk = crf.predict_marginals(X[:1], uncertainty=True, known=known)[0]
    np.testing.assert_allclose(shrunk[0], np.array(WORDS) == y[0][0], atol=1e-12)
    np.testing.assert_allclose(shrunk.sum(axis=1), 1.0, atol=1e-12)


def test_what_cannot_be_known_is_said(tagger):
    crf, X, y, _ = tagger
    blank = [[None] * len(each) for each in y]
    for entry, message in (
        ("pronoun", "known: unknown label 'pronoun' at sequence 0, position 0: known are"),
        (set(), "known: the set of allowed labels at sequence 0, position 0 is empty"),
        ({"adj": 0.0}, "known: no label has a positive weight at sequence 0, position 0"),
        ({"adj": -1.0}, "known: the weight of 'adj' at sequence 0, position 0 is -1.0"),
    ):
        known = [[entry, *blank[0][1:]], *blank[1:]]
        with pytest.raises(ValueError, match=message):
            crf.predict(X, known=known)
    with pytest.raises(ValueError, match=r"known: X has . sequences but y has 1"):
        crf.predict_marginals(X, known=blank[:1])
    with pytest.raises(ValueError, match=r"known: sequence 0 has . rows in X but 9 labels in y"):
        crf.entropy(X, known=[[None] * 9, *blank[1:]])


def test_what_contradicts_the_constraints_is_said(sentences):
    crf, X, y, _ = tagged(sentences, BOUND)
    long = next(i for i, labels in enumerate(y) if len(labels) > 2)
    n = len(y[long])
    for entries, message in (
        ([None, "verb", "adj"], "position 2: what y allows up to here contradicts the constraints"),
        (["noun", None, None], "position 0: what y allows up to here contradicts the constraints"),
    ):
        known = [None] * len(X)
        known[long] = [*entries, *[None] * (n - 3)]
        with pytest.raises(ValueError, match=f"known: sequence {long}, {message}"):
            crf.predict(X, known=known)
        values = crf.log_likelihood(X, known, per_item=True)
        assert values[long] == -np.inf
        assert np.all(np.isfinite(np.delete(values, long)))
    wrong = [list(labels) for labels in y]
    wrong[long][0] = "noun"
    with pytest.raises(ValueError, match=f"known: sequence {long}, position 0: label 'noun' is forbidden"):
        crf.sample(X, known=wrong)


def test_labels_that_contradict_what_is_known_have_no_probability(tagger):
    crf, X, y, _ = tagger
    others = [[{each for each in WORDS if each != y[0][0]}, *[None] * (len(y[0]) - 1)]]
    assert crf.log_likelihood(X[:1], y[:1], known=others) == -np.inf
    assert crf.log_likelihood(X[:1], [[y[0][0], *[None] * (len(y[0]) - 1)]], known=others) == -np.inf


def test_dask_collections_take_no_known_labels(sentences):
    bag = pytest.importorskip("dask.bag")
    X, y = sentences
    crf = ChainCRF("linear", prior_variance=1.0, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="known labels cannot be dealt out to a Dask collection"):
        crf.predict(bag.from_sequence(X, npartitions=2), known=y)


def test_targets_are_not_evidence(sentences):
    X, y = sentences
    crf = ChainCRF("linear", prior_variance=1.0, random_state=0).fit(X, y)
    targets = SoftTargets(crf.predict_marginals(X), classes=crf.classes_)
    with pytest.raises(ValueError, match="known: SoftTargets are matched by a fit"):
        crf.predict(X, known=targets)
    with pytest.raises(ValueError, match="SoftTargets are matched by a fit"):
        crf.log_likelihood(X, targets)
