"""Labels that are known when a field is asked: every answer against all labellings, one by one."""

import itertools

import numpy as np
import pytest

from kernelfields import ChainCRF, GraphCRF, KernelClassifier, MultiLabelCRF, SoftTargets
from kernelfields.data import EdgeCliques, NodeCliques, SkipCliques
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


def some_partial_labels(labels, classes, random):
    """Labels of which some are unknown, some one of a set, some weighted; all of them leave the true one possible."""
    entries = []
    for label in labels:
        kind, other = random.integers(4), random.choice(classes)
        weights = {str(each): float(w) for each, w in zip(classes, random.uniform(0.1, 1, len(classes)), strict=True)}
        entries.append([str(label), None, {str(label), str(other)}, weights][kind])
    return entries


class Labellings:
    """All labellings of one sequence or graph with their probabilities, by scores of nodes and of factors."""

    def __init__(self, node, factors, classes, known=None):
        n, self.classes = len(node), list(classes)
        self.rows = np.array(list(itertools.product(range(len(classes)), repeat=n)))
        scores = node[np.arange(n), self.rows].sum(axis=1)
        for members, table in factors:
            scores = scores + table[tuple(self.rows[:, list(members)].T)]
        weights = np.exp(scores)
        self.free = weights.sum()
        for t, entry in enumerate(known or []):
            weights = weights * np.array([weight(entry, self.classes[label]) for label in self.rows[:, t]])
        self.mass = weights.sum()
        self.p = weights / self.mass

    def marginals(self, *members):
        tables = np.zeros((len(self.classes),) * len(members))
        np.add.at(tables, tuple(self.rows[:, list(members)].T), self.p)
        return tables

    @property
    def entropy(self):
        p = self.p[self.p > 0]
        return -float(p @ np.log(p))

    @property
    def ranked(self):
        order = np.argsort(-self.p, kind="stable")
        return [(self.rows[i], np.log(self.p[i])) for i in order if self.p[i] > 0]


def chain_labellings(crf, X, known=None):
    """Enumerations of the sequences of X under a field whose neighbours meet."""
    (answers,) = crf.answers(X)
    potentials = answers.family.with_base(answers.potentials)
    nodes = answers.data.split(potentials.node)
    found = []
    for number, node in enumerate(nodes):
        pairs = [((t - 1, t), potentials.edge[0]) for t in range(1, len(node))]
        found.append(Labellings(node, pairs, crf.classes_.tolist(), None if known is None else known[number]))
    return found


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
    return crf, X, y, [some_partial_labels(labels, WORDS, random) for labels in y]


@pytest.fixture(scope="module", params=[None, BOUND], ids=["free", "bound"])
def tagger(request, sentences):
    return tagged(sentences, request.param)


def allowed(labels):
    return labels[0] != "noun" and ("verb", "adj") not in itertools.pairwise(labels)


def check_ranked(ranked, expected, classes, k):
    assert len(ranked) == min(k, len(expected))
    for (labels, logarithm), (row, truth) in zip(ranked, expected, strict=False):
        assert np.asarray(labels).tolist() == [classes[label] for label in row]
        assert logarithm == pytest.approx(truth, abs=1e-9)


def test_chains_given_what_is_known(tagger):
    crf, X, _, known = tagger
    oracles = chain_labellings(crf, X, known)
    marginals, pairs = crf.predict_marginals(X, cliques="edge", known=known)
    ranked = crf.predict_nbest(X, 4, known=known)
    best, likelihoods = crf.predict(X, "viterbi", known=known), crf.log_likelihood(X, known, per_item=True)
    for number, oracle in enumerate(oracles):
        n = len(X[number])
        np.testing.assert_allclose(marginals[number], [oracle.marginals(t) for t in range(n)], **EXACT)
        for t in range(1, n):
            np.testing.assert_allclose(pairs[number][t - 1], oracle.marginals(t - 1, t), **EXACT)
        check_ranked(ranked[number], oracle.ranked, WORDS, 4)
        assert best[number] == [WORDS[label] for label in oracle.ranked[0][0]]
        assert likelihoods[number] == pytest.approx(np.log(oracle.mass / oracle.free), abs=1e-9)
    np.testing.assert_allclose(crf.entropy(X, known=known), [oracle.entropy for oracle in oracles], **EXACT)
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


def test_all_known_comes_back_with_probability_one(tagger):
    crf, X, y, _ = tagger
    assert crf.predict(X, known=y) == y == crf.predict(X, "posterior", known=y)
    for marginals, labels in zip(crf.predict_marginals(X, known=y), y, strict=True):
        np.testing.assert_allclose(marginals, np.array(labels)[:, None] == np.array(WORDS), atol=1e-12)
    assert crf.log_likelihood(X, y, known=y) == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(crf.entropy(X, known=y), 0.0, atol=1e-12)
    assert [len(ranked) for ranked in crf.predict_nbest(X, 3, known=y)] == [1] * len(X)


def test_nothing_known_changes_nothing(tagger):
    crf, X, _, _ = tagger
    for plain, given in zip(crf.predict_marginals(X), crf.predict_marginals(X, known=[None] * len(X)), strict=True):
        np.testing.assert_array_equal(plain, given)
    assert crf.log_likelihood(X, [None] * len(X)) == pytest.approx(0.0, abs=1e-12)


def test_what_is_known_holds_in_every_batch(tagger, monkeypatch):
    crf, X, _, known = tagger
    together = crf.predict_marginals(X, known=known)
    monkeypatch.setattr("kernelfields.models.field._POSITIONS", 5)
    for one, other in zip(together, crf.predict_marginals(X, known=known), strict=True):
        np.testing.assert_allclose(one, other, **EXACT)


def test_labels_far_apart_given_what_is_known(sentences):
    X, y = sentences
    cliques = [NodeCliques("linear"), EdgeCliques(), SkipCliques(lag=2)]
    crf = ChainCRF(cliques=cliques, random_state=0).fit(X, y)
    random = np.random.default_rng(2)
    known = [some_partial_labels(labels, WORDS, random) for labels in y]
    (answers,) = crf.answers(X)
    tables = {group: table[0] for group, table in answers.potentials.tables.items()}
    marginals, pairs = crf.predict_marginals(X, cliques="edge", known=known)
    for number, node in enumerate(answers.data.split(answers.node)):
        factors = [
            ((t - lag, t), tables[name]) for lag, name in ((1, "edge"), (2, "lag2")) for t in range(lag, len(node))
        ]
        oracle = Labellings(node, factors, WORDS, known[number])
        np.testing.assert_allclose(marginals[number], [oracle.marginals(t) for t in range(len(node))], **EXACT)
        np.testing.assert_allclose(pairs[number][0], oracle.marginals(0, 1), **EXACT)
        check_ranked(crf.predict_nbest(X, 3, known=known)[number], oracle.ranked, WORDS, 3)


EDGES = {"tree": [(0, 1), (1, 2), (1, 3)], "circle": [(0, 1), (1, 2), (2, 3), (3, 0)]}


@pytest.fixture(scope="module", params=list(EDGES))
def graphs(request):
    random, edges = np.random.default_rng(7), EDGES[request.param]
    X = [(random.normal(size=(4, 2)), np.array(edges)) for _ in range(6)]
    y = [np.array(WORDS)[random.integers(3, size=4)].tolist() for _ in X]
    crf = GraphCRF("linear", prior_variance=1.0, random_state=0).fit(X, y)
    return crf, X, y, edges, [some_partial_labels(labels, WORDS, random) for labels in y]


def graph_labellings(crf, X, edges, known):
    (answers,) = crf.answers(X)
    (table,) = answers.potentials.tables.values()
    potentials = answers.family.with_base(answers.potentials)
    nodes = answers.data.split(potentials.node)
    return [
        Labellings(node, [(edge, table[0]) for edge in edges], WORDS, own)
        for node, own in zip(nodes, known, strict=True)
    ]


def test_graphs_given_what_is_known(graphs):
    crf, X, _, edges, known = graphs
    (name,) = crf.edge_scores_
    nodes, joint = crf.predict_marginals(X, name, known=known)
    ranked, likelihoods = crf.predict_nbest(X, 3, known=known), crf.log_likelihood(X, known, per_item=True)
    oracles = graph_labellings(crf, X, edges, known)
    for number, oracle in enumerate(oracles):
        np.testing.assert_allclose(nodes[number], [oracle.marginals(v) for v in range(4)], **EXACT)
        np.testing.assert_allclose(joint[number], [oracle.marginals(*edge) for edge in edges], **EXACT)
        check_ranked(ranked[number], oracle.ranked, WORDS, 3)
        assert likelihoods[number] == pytest.approx(np.log(oracle.mass / oracle.free), abs=1e-9)
        assert list(crf.predict(X, "viterbi", known=known)[number]) == [WORDS[each] for each in oracle.ranked[0][0]]
    np.testing.assert_allclose(crf.entropy(X, known=known), [oracle.entropy for oracle in oracles], **EXACT)
    for labels, entries in zip(crf.sample(X, 20, 0, known=known), known, strict=True):
        assert all(weight(entry, label) > 0 for drawn in labels for label, entry in zip(drawn, entries, strict=True))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("method", ["loopy", "trw", "mean-field"])
def test_approximate_inference_keeps_to_what_is_known(graphs, method):
    crf, X, y, edges, known = graphs
    asked = GraphCRF(inference=method)
    asked.__dict__.update({name: value for name, value in vars(crf).items() if name.endswith("_") or name == "_reader"})
    oracles = graph_labellings(crf, X, edges, known)
    for marginals, oracle, entries in zip(asked.predict_marginals(X, known=known), oracles, known, strict=True):
        np.testing.assert_allclose(marginals.sum(axis=1), 1.0, atol=1e-9)
        possible = np.array([[weight(entry, label) > 0 for label in WORDS] for entry in entries])
        assert np.all(marginals[~possible] == 0)
        np.testing.assert_allclose(marginals, [oracle.marginals(v) for v in range(4)], atol=0.15)
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
    (answers,) = crf.answers(X)
    pairs = [(crf.field_.spec.pairs[name], table[0]) for name, table in answers.potentials.tables.items()]
    nodes = answers.node.reshape(len(X), 3, 2)
    oracles = [Labellings(n, pairs, (0, 1), own) for n, own in zip(nodes, known.tolist(), strict=True)]
    chances = [[oracle.marginals(k)[1] for k in range(3)] for oracle in oracles]
    np.testing.assert_allclose(crf.predict_proba(X, known=known), chances, **EXACT)
    sets, probabilities = crf.predict_joint(X, known=known)
    assert sets.tolist() == [oracle.ranked[0][0].tolist() for oracle in oracles]
    np.testing.assert_allclose(probabilities, [np.exp(oracle.ranked[0][1]) for oracle in oracles], **EXACT)
    expected = [np.log(oracle.mass / oracle.free) for oracle in oracles]
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


def test_targets_are_not_partial_labels(sentences):
    X, y = sentences
    crf = ChainCRF("linear", prior_variance=1.0, random_state=0).fit(X, y)
    targets = SoftTargets(crf.predict_marginals(X), classes=crf.classes_)
    with pytest.raises(ValueError, match="known: SoftTargets are matched by a fit"):
        crf.predict(X, known=targets)
    with pytest.raises(ValueError, match="SoftTargets are matched by a fit"):
        crf.log_likelihood(X, targets)


def test_a_device_knows_what_is_known(sentences):
    pytest.importorskip("torch")
    from kernelfields.engines import Torch

    X, y = sentences
    crf = ChainCRF("rbf", prior_variance=1.0, constraints=BOUND, random_state=0)
    kept = [i for i in range(len(X)) if allowed(y[i])]
    X, y = [X[i] for i in kept], [y[i] for i in kept]
    crf.fit(X, y)
    random = np.random.default_rng(3)
    known = [some_partial_labels(labels, WORDS, random) for labels in y]
    here = crf.predict_marginals(X, known=known), crf.predict(X, known=known), crf.log_likelihood(X, known)
    nearly = crf.predict_nbest(X, 2, known=known)
    crf.set_params(engine=Torch("cpu"))
    for one, other in zip(here[0], crf.predict_marginals(X, known=known), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)
    assert crf.predict(X, known=known) == here[1]
    assert crf.predict(X, known=y) == y == crf.predict(X, "posterior", known=y)
    assert crf.log_likelihood(X, known) == pytest.approx(here[2], abs=1e-5)
    for one, other in zip(nearly, crf.predict_nbest(X, 2, known=known), strict=True):
        assert [labels.tolist() for labels, _ in one] == [labels.tolist() for labels, _ in other]
