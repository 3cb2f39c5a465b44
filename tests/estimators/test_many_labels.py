"""Fields of which each position may have few labels: dictionaries of words, batches, errors."""

import numpy as np
import pytest

from kernelfields import (
    ChainCRF,
    LabelDictionary,
    RingCRF,
    SegmentCRF,
)
from kernelfields.data.label_dictionary import read_words
from kernelfields.estimators.kept_field import check_parameters
from kernelfields.inference.chain import lists as allowed_module
from kernelfields.inference.chain.scored_steps import should_list_steps
from kernelfields.numerics import Workers
from kernelfields.objective import LogPosterior
from kernelfields.objective.designs.supports import PairLayout, PairScorer
from kernelfields.objective.likelihoods.fused import choose_fused_passes
from kernelfields.objective.likelihoods.lists import ListPasses
from kernelfields.objective.stochastic import dual_ascent

SETTINGS = {"prior_variance": 1.0, "support": "observed", "random_state": 0}


@pytest.fixture(scope="module")
def tagged():
    """Words with two tags each, of twelve."""
    random = np.random.default_rng(0)
    tags = random.integers(12, size=(30, 2))
    X, y = [], []
    for _ in range(60):
        words = (30 * random.random(random.integers(2, 7)) ** 2).astype(int)
        places = (np.arange(len(words)) + random.integers(2)) % 2
        X.append([{"word": f"w{word}", "ending": f"e{word % 5}"} for word in words])
        y.append([f"t{tags[word, place]:02d}" for word, place in zip(words, places, strict=True)])
    return X, y


@pytest.fixture(scope="module")
def fitted(tagged):
    return ChainCRF("linear", allowed=LabelDictionary("word", min_count=2), **SETTINGS).fit(*tagged)


def always(monkeypatch, share):
    monkeypatch.setattr(allowed_module.should_use_lists, "__defaults__", (share,))


@pytest.mark.parametrize("support", ["observed", "all"])
def test_lists_and_masks_fit_and_predict_alike(tagged, support, monkeypatch):
    X, y = tagged
    found = []
    for share in (1.0, -1.0):
        always(monkeypatch, share)
        settings = {**SETTINGS, "support": support, "tol": 1e-6}
        crf = ChainCRF("linear", allowed=LabelDictionary("word", min_count=2), **settings).fit(X, y)
        answers = crf.predict_marginals(X), crf.predict(X, "viterbi"), crf.predict(X, "posterior")
        found.append((crf.solution_.value, *answers, crf.log_likelihood(X, y), crf.entropy(X)))
    (value, marginals, best, single, log, entropy), other = found
    assert value == pytest.approx(other[0], rel=1e-6)
    np.testing.assert_allclose(np.concatenate(marginals), np.concatenate(other[1]), atol=1e-4)
    assert (best, single) == (other[2], other[3])
    assert log == pytest.approx(other[4], rel=1e-4)
    np.testing.assert_allclose(entropy, other[5], atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("constraints", [None, [("t00", "t01"), ("t05", "t05")]])
@pytest.mark.parametrize("listed", [True, False])
def test_fused_passes_have_the_gradient_of_the_likelihood(tagged, constraints, listed, monkeypatch):
    X, y = tagged
    y = [["t02" if tag in ("t01", "t05") else tag for tag in tags] for tags in y] if constraints else y
    y = [["t01", *y[0][1:]], ["t05", *y[1][1:]], *y[2:]]
    if listed:
        monkeypatch.setattr(should_list_steps, "__defaults__", (1.0, 0))
    rule = LabelDictionary("word", min_count=2)
    fitted = ChainCRF("linear", allowed=rule, constraints=constraints, **SETTINGS).fit(X, y)
    tagged = X, y
    data = fitted.structure.read_training(*tagged, None)
    sample = fitted._engine(data).place(data, fitted.field_.spec, fitted._sample_settings(2))
    datafit = sample.datafit([sample.design(term) for term in fitted.field_.terms])
    passes = choose_fused_passes(datafit)
    assert isinstance(passes, ListPasses)
    assert (passes._steps.blocks is not None) == listed
    parts = [term.known for term in fitted.field_.terms]
    value, gradient = passes.value_and_gradient(parts)
    potentials = datafit.potentials(parts)
    evaluation = datafit.evaluate(potentials)
    assert value == pytest.approx(evaluation.value)
    for ours, theirs in zip(gradient, datafit.pull_back(evaluation.residual), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-10)
    diagonal = datafit.curvature.diagonal(evaluation, 0)
    np.testing.assert_allclose(passes.curvature_diagonal(parts), diagonal, atol=1e-10)
    assert 0 < passes.largest_potential(parts) <= potentials.largest * (1 + 1e-12)


def test_stochastic_starts_walk_allowed_labels(fitted, tagged):
    data = fitted.structure.read_training(*tagged, None)
    sample = fitted._engine(data).place(data, fitted.field_.spec, fitted._sample_settings(2))
    datafit = sample.datafit([sample.design(term) for term in fitted.field_.terms])
    assert dual_ascent(datafit.likelihood, datafit.designs, passes=1) is None
    ascent = dual_ascent(datafit.likelihood, datafit.designs, passes=144)
    posterior = LogPosterior(datafit)
    reached = posterior.make_point(posterior.blocks.flatten(ascent.run(np.random.default_rng(0)))).value
    assert ascent.value == pytest.approx(reached, rel=0.15)
    assert reached < 0.9 * posterior.datafit.likelihood.value_at_zero


def test_gathered_scores_are_those_of_all_labels(fitted, tagged):
    term = fitted.field_.terms[0]
    data = fitted.structure.read(tagged[0])
    every = term.scores(data, Workers(1))[data.allowed.rows, data.allowed.labels]
    for few, share in ((0, 2.0), (2, 2.0), (100, 2.0), (0, 0.25)):
        scorer = PairScorer(PairLayout(term.pairs, share, few), term.known)
        found = scorer.listed_scores(term.features(data), data.allowed, Workers(2, 1))
        np.testing.assert_allclose(found, every, atol=1e-13)


def test_labels_that_are_not_allowed_have_no_probability(fitted):
    other = next(tag for tag in fitted.classes_ if tag not in fitted.classes_[fitted.allowed_.labels_of("w0")])
    x = [{"word": "w0", "ending": "e0"}]
    assert fitted.log_likelihood([x], [[other]]) == -np.inf
    assert fitted.log_likelihood([x], [[{other}]]) == -np.inf
    values = fitted.log_likelihood([x + x, x + x], [[other, None], [None, None]], per_item=True)
    np.testing.assert_allclose(values, [-np.inf, 0.0], atol=1e-12)
    with pytest.raises(ValueError, match=f"known: sequence 0, position 0: label '{other}' is not among"):
        fitted.predict([x], known=[[other]])
    with pytest.raises(ValueError, match="known: sequence 0, position 0: the labels that are allowed and what y fixes"):
        fitted.predict([x, x], known=[[{other, "t99"} - {"t99"}], [None]])


class TestDictionary:
    def test_entries_and_open_classes(self, tagged):
        X, y = tagged
        rule = LabelDictionary(
            "word", min_count=10_000, unknown=["t01", "t03"], entries={"w0": ["t02"], "new": ["t05"]}
        )
        crf = ChainCRF("linear", allowed=rule, **SETTINGS, max_iter=1)
        check_parameters(crf)
        reader, chains, classes = crf.structure.learn(X, y, None)
        places = classes.tolist().index
        assert reader.limits[0].labels_of("w9").tolist() == [places("t01"), places("t03")]
        assert reader.limits[0].labels_of("new").tolist() == [places("t05")]
        assert places("t02") in reader.limits[0].labels_of("w0")
        assert chains.allowed.is_allowed(chains.labels).all()

    def test_feature_strings_and_columns(self):
        X = [[["word=a", "x"], ["y"]], [["word=b"]]]
        crf = ChainCRF("linear", allowed=LabelDictionary("word=", min_count=1), **SETTINGS, max_iter=1)
        _, chains, _ = crf.structure.learn(X, [["p", "q"], ["q"]], None)
        assert np.diff(chains.allowed.begin).tolist() == [1, 2, 1]
        assert read_words(X, chains, "word=") == ["word=a", None, "word=b"]
        arrays = [np.array([[1.0, 0.5], [2.0, 0.1]]), np.array([[1.0, 0.3]])]
        crf = ChainCRF("rbf", allowed=LabelDictionary(0, min_count=1), prior_variance=1.0)
        _, chains, _ = crf.structure.learn(arrays, [["p", "q"], ["p"]], None)
        assert np.diff(chains.allowed.begin).tolist() == [1, 1, 1]

    @pytest.mark.parametrize(
        ("rule", "message"),
        [
            (LabelDictionary("word", min_count=0), "min_count"),
            (LabelDictionary("word", unknown="some"), "unknown must be"),
            (LabelDictionary("word", entries=[("a", "b")]), "entries must be a dict"),
            (LabelDictionary("word", entries={"a": "t01"}), "needs a list of labels for 'a'"),
            (LabelDictionary("word", unknown=[]), "allows no label in unknown"),
            (LabelDictionary("word", unknown=["t01", "t99"]), "names .*'t99'.* in unknown"),
            (LabelDictionary("word", entries={"w0": ["t99"]}), "names .*'t99'.* for 'w0'"),
            (LabelDictionary("form"), "no position has the feature 'form'"),
            (LabelDictionary(99), "the number of one of"),
            ({"w0": ["t01"]}, "allowed must be a LabelDictionary"),
        ],
    )
    def test_errors_say_what_to_do(self, tagged, rule, message):
        with pytest.raises(ValueError, match=message):
            ChainCRF("linear", allowed=rule, **SETTINGS).fit(*tagged)


def test_no_path_names_sequence_and_position():
    X, y = [[{"word": "a"}, {"word": "b"}], [{"word": "b"}, {"word": "b"}]], [["p", "q"], ["q", "q"]]
    rule = LabelDictionary("word", min_count=1)
    crf = ChainCRF("linear", allowed=rule, constraints=[("q", "p")], **SETTINGS).fit(X, y)
    with pytest.raises(ValueError, match="sequence 1, position 1: the labels that are allowed up to here leave no"):
        crf.predict([X[0], [{"word": "b"}, {"word": "a"}]])


def test_labels_of_a_fit_without_a_path_are_refused():
    X, y = [[{"word": "a"}, {"word": "b"}]], [["p", "q"]]
    settings = {"allowed": LabelDictionary("word", min_count=1), **SETTINGS}
    with pytest.raises(ValueError, match="sequence 0, position 1: the labels that are allowed up to here leave no"):
        ChainCRF("linear", constraints=[("p", "q")], **settings).fit(X, y)


@pytest.mark.parametrize("kind", [ChainCRF, RingCRF, SegmentCRF])
class TestBatches:
    """Dictionaries in further fits: known words learn labels, others stay unknown, and new classes are admitted."""

    @staticmethod
    def batch(words, labels, seed=0):
        random = np.random.default_rng(seed)
        return [np.column_stack([words, random.normal(size=(len(words), 2))])], [np.array(labels)]

    def unfitted(self, kind, **settings):
        rule = LabelDictionary(0, min_count=1, **settings)
        return kind("rbf", rank=30, scale=False, allowed=rule, prior_variance=1.0, random_state=0)

    def begun(self, kind, **settings):
        return self.unfitted(kind, **settings).partial_fit(*self.batch([1, 2, 1, 3, 2, 3], [0, 1, 0, 1, 1, 0]))

    def test_known_words_may_have_the_labels_they_show_later(self, kind):
        crf = self.begun(kind)
        assert [crf.allowed_.labels_of(word).tolist() for word in (1, 2, 3, 9)] == [[0], [1], [0, 1], [0, 1]]
        crf.partial_fit(*self.batch([1, 9, 2, 9], [1, 0, 1, 0], seed=1))
        # A word of a later batch alone may have been too rare before: it stays unknown, and may have any label.
        assert [crf.allowed_.labels_of(word).tolist() for word in (1, 2, 3, 9)] == [[0, 1], [1], [0, 1], [0, 1]]

    def test_labels_that_become_allowed_are_predicted(self, kind):
        random = np.random.default_rng(2)
        words = [np.tile([1, 2], 4) for _ in range(6)]
        X = [np.column_stack([own, 3.0 * random.choice([-1.0, 1.0], len(own))]) for own in words]
        y = [np.where(x[:, 1] > 0, 0, 1) for x in X]
        before = [own - 1 for own in words]  # each word has one label in the first batch
        longest = {"max_duration": 8} if kind is SegmentCRF else {}
        crf = self.unfitted(kind).set_params(**longest).partial_fit(X, before).partial_fit(X * 8, y * 8)
        assert crf.score(X, y) > 0.9
        segments = [[(t, t + 1, int(label)) for t, label in enumerate(own)] for own in before]
        if kind is SegmentCRF:  # written as segments, the labels are the same
            written = self.unfitted(kind).partial_fit(X, segments)
            assert [own.tolist() for own in written.allowed_.sets] == [[0, 1], [0], [1]]

    def test_a_warm_fit_learns_the_dictionary_of_its_data(self, kind):
        crf = self.unfitted(kind).set_params(warm_start=True)
        crf.fit(*self.batch([1, 2, 1, 3, 2, 3], [0, 1, 0, 1, 1, 0]))
        crf.fit(*self.batch([1, 2, 2, 9, 4], [1, 0, 1, 0, 1], seed=1))
        assert [crf.allowed_.labels_of(word).tolist() for word in (1, 2, 3, 4)] == [[1], [0, 1], [0, 1], [1]]

    def test_labels_of_a_development_set_are_allowed_where_they_stand(self, kind):
        X, y = self.batch([1, 2, 1, 3, 2, 3], [0, 1, 0, 1, 1, 0])
        X_dev, y_dev = self.batch([1, 2, 3], [1, 0, 1], seed=1)
        crf = self.unfitted(kind).fit(X, y, X_dev=X_dev, y_dev=y_dev)
        # With scores of zero all labellings are alike: two labels at each position, those that stand there among them.
        assert crf.dev_log_likelihoods_[0] == pytest.approx(-3 * np.log(2))
        assert np.isfinite(crf.dev_log_likelihoods_).all()

    def test_a_new_class_is_admitted(self, kind):
        crf = self.begun(kind)
        X, y = self.batch([1, 9, 2, 3], [0, 2, 2, -5], seed=1)
        crf.partial_fit(X, y)
        assert crf.classes_.tolist() == [-5, 0, 1, 2]
        assert [crf.allowed_.labels_of(word).tolist() for word in (1, 2, 3, 9)] == [
            [1],
            [2, 3],
            [0, 1, 2],
            [0, 1, 2, 3],
        ]
        assert np.isfinite(crf.log_likelihood(X, y))
        # Unknown words with a list of their own keep it; the label that stands there is admitted in the fit alone.
        listed = self.begun(kind, unknown=[0]).partial_fit(X, y)
        assert listed.allowed_.labels_of(9).tolist() == [1]


@pytest.mark.parametrize("kind", [ChainCRF, SegmentCRF])
def test_labels_of_a_batch_are_allowed_where_the_list_leaves_no_others(kind):
    """Unknown words may be 0, which may not follow 1: a fit allows the labels that stand there all the same."""
    rule = LabelDictionary(0, min_count=1, unknown=[0])
    field = kind("rbf", scale=False, allowed=rule, constraints=[(1, 0)], prior_variance=1.0, random_state=0)
    field.partial_fit(*TestBatches.batch([1, 2, 2, 3], [0, 1, 1, 1]))
    field.partial_fit(*TestBatches.batch([1, 2, 9, 9], [0, 1, 1, 1], seed=1))
    assert field.allowed_.labels_of(9).tolist() == [0]
    with pytest.raises(ValueError, match=r"leave no labelling|cannot be cut into segments"):
        field.predict(TestBatches.batch([1, 2, 9, 9], [0, 1, 1, 1], seed=1)[0])
