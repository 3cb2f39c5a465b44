"""support="observed": weights for the pairs seen in training only, from fitting to model files."""

import itertools
import pickle
from collections import Counter

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from kernelfields import ChainCRF, EdgeCliques, EndCliques, NodeCliques
from kernelfields.kernels import RBF
from kernelfields.models.model_file import ModelFileError, read_model, write_model
from tests.oracles.chains import enumerate_chain
from tests.samples import as_words, labelled_sequences

X, y = labelled_sequences(n_sequences=12)
STRINGS = [[["bias", f"a{round(row[0])}", f"b{round(row[1])}", f"c{round(row[2])}"] for row in x] for x in X]
WORDS = as_words(y)
EXACT = {"tol": 1e-10, "max_iter": 2000, "n_jobs": 1}
SOLVERS = ["newton", "newton-cg", "block-jacobi", "subspace", "lbfgs", "sgd+lbfgs"]


def fit(inputs=STRINGS, labels=WORDS, sample_weight=None, **settings):
    crf = ChainCRF("linear", **{"support": "observed", "random_state": 0, **EXACT, **settings})
    return crf.fit(inputs, labels, sample_weight)


def counted(inputs, labels):
    """How often every (feature, label) and every (label, label) occurs, by a loop over feature strings."""
    states, steps = Counter(), Counter()
    for sequence, tags in zip(inputs, labels, strict=True):
        for features, tag in zip(sequence, tags, strict=True):
            states.update((feature, str(tag)) for feature in features)
        steps.update((str(a), str(b)) for a, b in itertools.pairwise(tags))
    return states, steps


def pairs_with_weights(crf):
    node = crf.field_.terms[0].support
    edge = crf.field_.terms[1].support
    classes, names = crf.classes_.tolist(), crf.feature_names_in_.tolist()
    states = {(names[f], classes[b]) for f, b in zip(node.features, node.outcomes, strict=True)}
    steps = {(classes[p // len(classes)], classes[p % len(classes)]) for p in edge.outcomes}
    return states, steps


def value_by_enumeration(crf, inputs, labels, weights=None):
    """The objective from the weights alone: scores by dense products, log Z by summing over all labellings."""
    node, edge = crf.coef_["node"].toarray(), crf.coef_["edge"].toarray()
    offsets = np.concatenate([[0], np.cumsum([len(x) for x in inputs])])
    rows = np.zeros((offsets[-1], len(node)))
    names = {name: column for column, name in enumerate(crf.feature_names_in_)}
    for t, features in enumerate(feature for x in inputs for feature in x):
        for feature in features:
            rows[t, names[feature]] += 1.0
    n_labels = len(crf.classes_)
    potentials, steps = rows @ node, edge.reshape(1, n_labels, n_labels)
    oracle = enumerate_chain(potentials, steps, offsets)
    value = 0.5 * (np.sum(node**2) + np.sum(edge**2)) / crf.prior_variance
    for i, tags in enumerate(labels):
        codes = np.searchsorted(crf.classes_, tags)
        score = potentials[np.arange(offsets[i], offsets[i + 1]), codes].sum() + steps[0, codes[:-1], codes[1:]].sum()
        value += (1.0 if weights is None else weights[i]) * (oracle.log_partition[i] - score)
    return value, oracle


@pytest.mark.parametrize("support", ["observed", 2.0, 3.0, 5.0])
def test_the_weights_are_those_a_loop_over_the_data_counts(support):
    crf = fit(support=support)
    states, steps = counted(STRINGS, WORDS)
    least = 0.0 if support == "observed" else support
    expected = [{pair for pair, n in each.items() if n >= least} for each in (states, steps)]
    assert pairs_with_weights(crf) == tuple(expected)
    assert crf.solution_.theta.size == len(expected[0]) + len(expected[1])
    assert crf.coef_["node"].shape == (crf.n_features_in_, 3)


@pytest.mark.parametrize("weighted", [False, True])
def test_value_and_marginals_by_enumeration(weighted):
    weights = np.random.default_rng(0).uniform(0.2, 3.0, size=len(X)) if weighted else None
    crf = fit(sample_weight=weights, prior_variance=0.7)
    value, oracle = value_by_enumeration(crf, STRINGS, WORDS, weights)
    assert crf.solution_.value == pytest.approx(value, rel=1e-11)
    np.testing.assert_allclose(np.concatenate(crf.predict_marginals(STRINGS)), oracle.node_marginals, atol=1e-11)
    assert crf.certify(STRINGS, WORDS, sample_weight=weights).value == pytest.approx(value, rel=1e-11)
    np.testing.assert_array_equal(crf.transitions_.ravel(), crf.coef_["edge"].toarray()[0])


def test_where_every_pair_is_seen_the_support_makes_no_difference():
    # Dense inputs have every feature everywhere; every step occurs in these labels, too.
    assert len({(a, b) for labels in y for a, b in itertools.pairwise(labels)}) == 9
    every, seen = (fit(X, y, support=support) for support in ("all", "observed"))
    assert seen.field_.terms[0].support.size == 9
    assert seen.solution_.value == pytest.approx(every.solution_.value, rel=1e-9)
    for one, two in zip(every.predict_marginals(X), seen.predict_marginals(X), strict=True):
        np.testing.assert_allclose(one, two, atol=1e-5)
    np.testing.assert_allclose(seen.coef_["node"].toarray(), every.coef_["node"], atol=1e-4)


def test_unseen_pairs_are_the_only_difference():
    """With the weights of unseen pairs held at zero by force, the gradient vanishes in all the others."""
    crf = fit(prior_variance=0.5)
    gradient = crf.certify(STRINGS, WORDS, scope="span").parts
    assert sum(gradient.values()) < 1e-8 * crf.solution_.value
    every = fit(support="all", prior_variance=0.5)
    assert every.solution_.value < crf.solution_.value - 0.1
    mixed = fit(edges=EdgeCliques(support="all"), prior_variance=0.5)
    assert every.solution_.value <= mixed.solution_.value <= crf.solution_.value + 1e-9
    assert mixed.field_.terms[1].support is None


@pytest.mark.slow
@pytest.mark.parametrize("solver", SOLVERS)
def test_every_solver_finds_the_same_optimum(solver):
    crf = fit(solver=solver, tol=1e-8)
    assert crf.solution_.converged
    assert crf.solution_.solver == solver
    assert crf.solution_.value == pytest.approx(fit(solver="newton").solution_.value, rel=1e-8)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"edges": EdgeCliques(support="all")},
        {"support": 3.0},
        {"window": 3},
        {"edges": EdgeCliques("linear"), "prior_variance": 0.3},
    ],
    ids=str,
)
@pytest.mark.parametrize("scope", ["span", "rkhs"])
def test_certificates_hold_the_best_value(scope, settings):
    best = fit(**settings).solution_.value
    for tol in (0.3, 0.03):
        crf = fit(**settings, tol=tol, solver="lbfgs")
        certificate = crf.certify(STRINGS, WORDS, scope=scope)
        assert certificate.value == pytest.approx(crf.solution_.value, rel=1e-10)
        assert certificate.lower_bound <= best * (1 + 1e-12)
        assert best <= certificate.value * (1 + 1e-12)
        assert certificate.lower_bound <= crf.certificate_.lower_bound + 1e-9
        assert crf.certificate_.lower_bound <= best * (1 + 1e-12)


@given(st.integers(0, 1000), st.sampled_from(["observed", 2.0]), st.floats(0.05, 5.0))
@settings(deadline=None, max_examples=15)
def test_certificates_of_random_problems(seed, support, prior_variance):
    random = np.random.default_rng(seed)
    labels = [random.integers(2, size=int(random.integers(1, 5))) for _ in range(4)]
    labels[0] = np.array([0, 1])
    inputs = [[[f"w{random.integers(4)}", f"{label}"] for label in tags] for tags in labels]
    crf = fit(inputs, labels, support=support, prior_variance=prior_variance, tol=0.1)
    best = fit(inputs, labels, support=support, prior_variance=prior_variance).solution_.value
    for scope in ("span", "rkhs"):
        certificate = crf.certify(inputs, labels, scope=scope)
        assert certificate.lower_bound <= best * (1 + 1e-12)
        assert best <= certificate.value * (1 + 1e-12)


def test_dense_sparse_and_single_precision_inputs_agree():
    spread = [np.where(np.abs(x) > 0.7, x, 0.0) for x in X]
    dense, sparse = fit(spread, y), fit([sp.csr_array(x) for x in spread], y)
    assert dense.field_.terms[0].support.size == sparse.field_.terms[0].support.size
    assert dense.solution_.value == pytest.approx(sparse.solution_.value, rel=1e-9)
    single = fit([sp.csr_array(x.astype(np.float32)) for x in spread], y, tol=1e-6)
    assert single.solution_.value == pytest.approx(sparse.solution_.value, rel=1e-5)
    two = fit([sp.csr_array(x) for x in spread], y, n_jobs=2)
    np.testing.assert_allclose(two.solution_.theta, sparse.solution_.theta, atol=1e-8)


def test_whole_weights_are_repetitions():
    weights = np.arange(len(X)) % 3 + 1
    repeated = [i for i, n in enumerate(weights) for _ in range(n)]
    weighed = fit(sample_weight=weights)
    again = fit([STRINGS[i] for i in repeated], [WORDS[i] for i in repeated])
    assert weighed.solution_.value == pytest.approx(again.solution_.value, rel=1e-9)
    # Features are numbered as they come, so weights are compared by name.
    order = [again.feature_names_in_.tolist().index(name) for name in weighed.feature_names_in_]
    np.testing.assert_allclose(weighed.coef_["node"].toarray(), again.coef_["node"].toarray()[order], atol=1e-4)


def test_a_frequency_that_nothing_reaches_leaves_the_uniform_field():
    crf = fit(support=1e9)
    assert crf.solution_.theta.size == 0
    assert crf.solution_.value == pytest.approx(sum(map(len, X)) * np.log(3), rel=1e-12)
    np.testing.assert_allclose(crf.predict_marginals(STRINGS[:1])[0], 1 / 3, rtol=1e-12)
    for solver in ("lbfgs", "sgd+lbfgs"):
        steps_alone = fit(support=1e9, edges=EdgeCliques(support="all"), solver=solver)
        assert steps_alone.solution_.converged
        assert steps_alone.coef_["node"].nnz == 0


def test_chains_of_length_one_have_no_steps_to_observe():
    crf = fit([x[:1] for x in STRINGS], [labels[:1] for labels in WORDS])
    assert crf.field_.terms[1].support.size == 0
    np.testing.assert_array_equal(crf.transitions_, np.zeros((3, 3)))
    assert crf.certify([x[:1] for x in STRINGS], [each[:1] for each in WORDS]).relative_gap < 1e-8


def test_features_not_seen_in_training_are_ignored():
    crf = fit()
    with_news = [[[*features, "news"] for features in x] for x in STRINGS]
    for one, two in zip(crf.predict_marginals(STRINGS), crf.predict_marginals(with_news), strict=True):
        np.testing.assert_array_equal(one, two)


def test_constraints_leave_a_support_as_it_is():
    kept = [i for i, tags in enumerate(WORDS) if ("adj", "verb") not in itertools.pairwise(tags)]
    inputs, labels = [STRINGS[i] for i in kept], [WORDS[i] for i in kept]
    crf = fit(inputs, labels, constraints=[("adj", "verb")], solver="sgd+lbfgs")
    assert crf.solution_.solver == "sgd+lbfgs"
    assert pairs_with_weights(crf) == pairs_with_weights(fit(inputs, labels))
    assert crf.certify(inputs, labels).relative_gap < 1e-8
    _, pairs = crf.predict_marginals(STRINGS, cliques="edge")
    assert max(each[:, 0, 2].max() for each in pairs) == 0.0


def test_every_kind_of_clique_may_have_a_support():
    crf = ChainCRF(
        cliques=[
            NodeCliques("linear", support=2.0),
            EdgeCliques("linear", support="observed", prior_variance=0.3),
            EndCliques(support="observed"),
        ],
        **EXACT,
    ).fit(STRINGS, WORDS)
    ends = crf.field_.terms[2].support
    assert set(crf.classes_[ends.outcomes]) == {labels[-1] for labels in WORDS}
    steps = {
        (feature, tags[t - 1], tags[t])
        for x, tags in zip(STRINGS, WORDS, strict=True)
        for t in range(1, len(tags))
        for feature in x[t]
    }
    assert crf.field_.terms[1].support.size == len(steps)
    assert crf.certify(STRINGS, WORDS).relative_gap < 1e-8


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"support": "all"}, "support of 'node' was 'observed' and is now 'all'"),
        ({"edges": EdgeCliques(support="all")}, "support of 'edge' was 'observed' and is now 'all'"),
        ({"support": 2.0}, "support of 'node' was 'observed' and is now 2.0"),
    ],
)
def test_a_warm_start_refuses_another_support(change, words):
    crf = fit(warm_start=True)
    with pytest.raises(ValueError, match="warm_start=False to start afresh") as error:
        crf.set_params(**change).fit(STRINGS, WORDS)
    assert words in str(error.value)


def test_a_warm_start_keeps_the_support():
    crf = fit(warm_start=True)
    before, value = crf.field_.terms[0].support, crf.solution_.value
    assert crf.fit(STRINGS, WORDS).solution_.iterations <= 1
    assert crf.solution_.value == pytest.approx(value, rel=1e-10)
    # New sequences, with pairs that were not seen then: they get no weight now.
    shuffled = [np.roll(labels, 1) for labels in WORDS]
    crf.fit(STRINGS, shuffled)
    assert crf.field_.terms[0].support is before
    assert crf.certificate_.relative_gap <= 1e-10
    crf.set_params(prior_variance=0.1).fit(STRINGS, WORDS)
    afresh = fit(prior_variance=0.1)
    assert crf.solution_.value == pytest.approx(afresh.solution_.value, rel=1e-9)


def assert_same_answers(one, other):
    for mine, theirs in zip(
        [*one.predict_marginals(STRINGS), *one.predict(STRINGS)],
        [*other.predict_marginals(STRINGS), *other.predict(STRINGS)],
        strict=True,
    ):
        np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_array_equal(one.feature_names_in_, other.feature_names_in_)
    for name in one.coef_:
        np.testing.assert_array_equal(*(sp.csr_array(each.coef_[name]).toarray() for each in (one, other)))
    assert one.certify(STRINGS, WORDS) == other.certify(STRINGS, WORDS)


def test_pickles_and_files_answer_bit_for_bit(tmp_path):
    crf = fit(support=2.0, edges=EdgeCliques(support="all"), l1=0.05, tol=1e-8)
    assert_same_answers(crf, pickle.loads(pickle.dumps(crf)))
    crf.save(tmp_path / "model")
    loaded = ChainCRF.load(tmp_path / "model")
    assert_same_answers(crf, loaded)
    for name in ("support", "l1"):
        assert getattr(loaded, name) == getattr(crf, name)
        assert getattr(loaded.edges, name) == getattr(crf.edges, name)
    again = loaded.set_params(warm_start=True, tol=1e-6).fit(STRINGS, WORDS)
    assert again.solution_.iterations == 0
    assert again.solution_.value == pytest.approx(crf.solution_.value, rel=1e-6)


def test_files_whose_pairs_do_not_fit_are_refused(tmp_path):
    crf = fit()
    crf.save(tmp_path / "sound")
    for spoil in (
        lambda pairs: pairs["outcomes"].__setitem__(0, 7),
        lambda pairs: pairs["begin"].__setitem__(-1, 3),
        lambda pairs: pairs.__setitem__("outcomes", pairs["outcomes"].astype(float)),
        lambda pairs: pairs["outcomes"].__setitem__(slice(0, 3), pairs["outcomes"][0]),
    ):
        document, tensors = read_model(tmp_path / "sound", "ChainCRF")
        pairs = document["terms"][0]["pairs"] = {k: v.copy() for k, v in document["terms"][0]["pairs"].items()}
        spoil(pairs)
        write_model(tmp_path / "spoilt", "ChainCRF", document, tensors)
        with pytest.raises(ModelFileError, match="not a sound ChainCRF model: the pairs"):
            ChainCRF.load(tmp_path / "spoilt")


def test_the_weights_shown_are_a_copy():
    crf = fit()
    before = crf.predict_marginals(STRINGS)
    for each in crf.coef_.values():
        each.data[:2] = 0.0
        each.eliminate_zeros()
    for one, two in zip(before, crf.predict_marginals(STRINGS), strict=True):
        np.testing.assert_array_equal(one, two)
    assert pickle.loads(pickle.dumps(crf)).certify(STRINGS, WORDS).relative_gap < 1e-8


def test_names_of_features():
    crf = fit()
    states, _ = counted(STRINGS, WORDS)
    assert set(crf.feature_names_in_) == {feature for feature, _ in states}
    assert len(crf.feature_names_in_) == crf.n_features_in_
    with pytest.raises(NotFittedError):
        _ = clone(crf).feature_names_in_
    assert not hasattr(fit(X, y), "feature_names_in_")
    with pytest.raises(AttributeError, match="fitted on arrays"):
        _ = fit(X, y).feature_names_in_


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"support": "seen"}, "support must be 'all', 'observed', or a number above zero, .* got 'seen'"),
        ({"edges": EdgeCliques(support=True)}, "clique set 'edge': support must be 'all', 'observed', or .* got True"),
        ({"support": 0.0}, "support must be 'all', 'observed', or a number above zero, .* got 0.0"),
        ({"support": -1.0}, "support must be 'all', 'observed', or a number above zero, .* got -1.0"),
        ({"support": np.nan}, "support must be 'all', 'observed', or a number above zero, .* got nan"),
        ({"label_kernel": np.eye(3) + 0.1}, "they need label_kernel='delta'"),
        (
            {"kernel": RBF(gamma=0.3)},
            r"support='observed' is about weights .* 'node' has none: use kernel='linear'",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        ChainCRF(**{"kernel": "linear", "support": "observed", **settings}).fit(X, y)
