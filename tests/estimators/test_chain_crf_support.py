"""support="observed": weights for the pairs seen in training only, and what refuses or keeps them."""

import itertools
import pickle
from collections import Counter

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from kernelfields import ChainCRF, EdgeCliques, NodeCliques
from kernelfields.formats import ModelFileError, read_model, write_model
from kernelfields.kernels import RBF
from tests.samples import as_words, labelled_sequences

X, y = labelled_sequences(n_sequences=12)
STRINGS = [[["bias", f"a{round(row[0])}", f"b{round(row[1])}", f"c{round(row[2])}"] for row in x] for x in X]
WORDS = as_words(y)
EXACT = {"tol": 1e-10, "max_iter": 2000, "n_jobs": 1}


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
    node = crf.field_.terms[0].pairs
    edge = crf.field_.terms[1].pairs
    classes, names = crf.classes_.tolist(), crf.feature_names_in_.tolist()
    states = {(names[f], classes[b]) for f, b in zip(node.features, node.outcomes, strict=True)}
    steps = {(classes[p // len(classes)], classes[p % len(classes)]) for p in edge.outcomes}
    return states, steps


@pytest.mark.parametrize("support", ["observed", 2.0, 3.0, 5.0])
def test_the_weights_are_those_a_loop_over_the_data_counts(support):
    crf = fit(support=support)
    states, steps = counted(STRINGS, WORDS)
    least = 0.0 if support == "observed" else support
    expected = [{pair for pair, n in each.items() if n >= least} for each in (states, steps)]
    assert pairs_with_weights(crf) == tuple(expected)
    assert crf.solution_.theta.size == len(expected[0]) + len(expected[1])
    assert crf.coef_["node"].shape == (crf.n_features_in_, 3)


def test_unseen_pairs_are_the_only_difference():
    """With the weights of unseen pairs held at zero by force, the gradient vanishes in all the others."""
    crf = fit(prior_variance=0.5)
    gradient = crf.certify(STRINGS, WORDS, scope="span").parts
    assert sum(gradient.values()) < 1e-8 * crf.solution_.value
    every = fit(support="all", prior_variance=0.5)
    assert every.solution_.value < crf.solution_.value - 0.1
    mixed = fit(edges=EdgeCliques(support="all"), prior_variance=0.5)
    assert every.solution_.value <= mixed.solution_.value <= crf.solution_.value + 1e-9
    assert mixed.field_.terms[1].pairs.complete


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
    assert crf.field_.terms[1].pairs.size == 0
    np.testing.assert_array_equal(crf.transitions_, np.zeros((3, 3)))
    assert crf.certify([x[:1] for x in STRINGS], [each[:1] for each in WORDS]).relative_gap < 1e-8


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
        (
            {"cliques": [NodeCliques("linear", support="observed", label_kernel=np.eye(3) + 0.1)]},
            "they need label_kernel='delta'",
        ),
        (
            {"kernel": RBF(gamma=0.3)},
            r"support='observed' is about weights .* 'node' has none: use kernel='linear'",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        ChainCRF(**{"kernel": "linear", "support": "observed", **settings}).fit(X, y)
