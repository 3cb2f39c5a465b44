"""l1 and infinite prior variances: CRFsuite's elastic net, sparse weights, honest certificates."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from kernelfields import ChainCRF, EdgeCliques, NodeCliques
from kernelfields.kernels import RBF, Linear
from kernelfields.serving import load_chain
from tests.samples import as_words, labelled_sequences

X, y = labelled_sequences(n_sequences=14)
STRINGS = [[["bias", f"a{round(row[0])}", f"b{round(row[1])}", f"c{round(row[2])}"] for row in x] for x in X]
WORDS = as_words(y)


def fit(inputs=STRINGS, labels=WORDS, **settings):
    crf = ChainCRF("linear", **{"random_state": 0, "tol": 1e-6, "max_iter": 2000, "n_jobs": 1, **settings})
    with warnings.catch_warnings():
        # Without a Gaussian prior the gap cannot always be closed to the last digit.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return crf.fit(inputs, labels)


def dense(coefficients):
    return coefficients.toarray() if sp.issparse(coefficients) else np.asarray(coefficients)


def residual_sums(crf):
    """Expected minus observed counts of every (feature, label) and (label, label), with loops over the data."""
    names = {name: column for column, name in enumerate(crf.feature_names_in_)}
    node, edge = np.zeros((len(names), 3)), np.zeros((3, 3))
    marginals, pairs = crf.predict_marginals(STRINGS, cliques="edge")
    for x, tags, nodes, steps in zip(STRINGS, WORDS, marginals, pairs, strict=True):
        codes = np.searchsorted(crf.classes_, tags)
        for t, features in enumerate(x):
            for feature in features:
                node[names[feature]] += nodes[t]
                node[names[feature], codes[t]] -= 1.0
            if t > 0:
                edge[codes[t - 1], codes[t]] -= 1.0
        edge += steps.sum(axis=0)
    return node, edge


PENALTIES = {
    "elastic net": {"l1": 0.5},
    "observed": {"l1": 0.5, "support": "observed"},
    "strong": {"l1": 3.0},
    "edges free": {"l1": 0.7, "edges": EdgeCliques(l1=0.0)},
    "nodes free": {"l1": 0.0, "edges": EdgeCliques(l1=2.0)},
    "lasso": {"l1": 0.5, "prior_variance": np.inf, "support": "observed"},
    "lasso of nodes": {"l1": 1.0, "prior_variance": np.inf, "edges": EdgeCliques(l1=0.0, prior_variance=1.0)},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PENALTIES)
def test_the_optimum_satisfies_the_subgradient_conditions(name):
    settings = PENALTIES[name]
    crf = fit(**settings, tol=1e-8)
    l1, variance = settings["l1"], settings.get("prior_variance", 1.0)
    edges = settings.get("edges", EdgeCliques()).with_defaults(l1=l1, prior_variance=variance)
    penalties = {"node": (l1, variance), "edge": (edges.l1, edges.prior_variance)}
    zeros = {}
    for (key, (weight, s)), slopes, each in zip(penalties.items(), residual_sums(crf), crf.field_.terms, strict=True):
        weights = dense(crf.coef_[key])
        gradient = slopes.reshape(weights.shape) + weights / s
        if not each.pairs.complete:
            has_weight = dense(each.pairs.matrix(np.ones(each.pairs.size))) > 0
            assert not weights[~has_weight].any()
            weights, gradient = weights[has_weight], gradient[has_weight]
        at_zero = weights == 0.0
        assert np.all(np.abs(gradient[at_zero]) <= weight + 0.01)
        np.testing.assert_allclose(gradient[~at_zero], -weight * np.sign(weights[~at_zero]), atol=0.01)
        zeros[key] = int(at_zero.sum())
    assert sum(zeros.values()) > 0
    assert all(count == 0 for key, count in zeros.items() if penalties[key][0] == 0.0)


def test_more_l1_leaves_fewer_weights():
    counts = [np.count_nonzero(fit(l1=l1).solution_.theta) for l1 in (0.1, 0.5, 2.0, 8.0)]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > 2 * counts[-1]
    # Beyond the largest count of anything, nothing is left.
    crf = fit(l1=1e4)
    assert not crf.solution_.theta.any()
    assert crf.solution_.value == pytest.approx(sum(map(len, X)) * np.log(3), rel=1e-12)


def test_a_vanishing_l1_is_none():
    without, with_a_little = fit(), fit(l1=1e-9)
    assert with_a_little.solution_.value == pytest.approx(without.solution_.value, rel=1e-6)
    assert with_a_little.solution_.solver == "owl-qn"
    np.testing.assert_allclose(
        np.concatenate(with_a_little.predict_marginals(STRINGS)),
        np.concatenate(without.predict_marginals(STRINGS)),
        atol=1e-3,
    )


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["lbfgs", "sgd+lbfgs"])
@pytest.mark.parametrize(
    ("c1", "c2"), [(0.0, 1.0), (0.1, 0.1), (0.5, 0.05), (1.0, 1.0), (2.0, 0.0), (0.3, 0.0)], ids=str
)
@pytest.mark.parametrize("observed", [True, False])
def test_losses_are_those_of_crfsuite(c1, c2, observed, solver, tmp_path):
    pycrfsuite = pytest.importorskip("pycrfsuite")
    trainer = pycrfsuite.Trainer(verbose=False)
    trainer.set_params(
        {
            "c1": c1,
            "c2": c2,
            "epsilon": 1e-8,
            "delta": 0.0,
            "max_iterations": 3000,
            "feature.possible_states": not observed,
            "feature.possible_transitions": not observed,
        }
    )
    for x, tags in zip(STRINGS, WORDS, strict=True):
        trainer.append(x, tags)
    trainer.train(str(tmp_path / "model"))
    theirs = trainer.logparser.last_iteration["loss"]
    ours = fit(
        l1=c1,
        prior_variance=1.0 / (2.0 * c2) if c2 else np.inf,
        support="observed" if observed else "all",
        solver=solver,
    )
    assert ours.solution_.value == pytest.approx(theirs, rel=1e-5)
    assert ours.certificate_.lower_bound <= theirs * (1 + 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("inputs", [STRINGS, X, [sp.csr_array(x) for x in X]], ids=["strings", "dense", "sparse"])
@pytest.mark.parametrize("support", ["all", "observed"])
@pytest.mark.parametrize("solver", ["auto", "lbfgs", "sgd+lbfgs"])
def test_without_a_prior_the_certificate_is_honest(inputs, support, solver):
    """The gradient vanishes, but no bound other than zero can be known; and no NaN and no warning but the one."""
    crf = ChainCRF("linear", prior_variance=np.inf, support=support, solver=solver, max_iter=60, random_state=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        crf.fit(inputs, y)
    assert {each.category for each in caught} <= {ConvergenceWarning}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        certificate = crf.certify(inputs, y)
    for each in (certificate, crf.certificate_, crf.rkhs_certificate_):
        assert each.lower_bound == 0.0
        assert not np.isnan(each.relative_gap)
    assert certificate.value == pytest.approx(crf.solution_.value, rel=1e-9, abs=1e-9)
    assert np.isfinite(crf.solution_.theta).all()
    # More likely than under any prior.
    ridge = ChainCRF("linear", prior_variance=10.0, support=support, max_iter=1000).fit(inputs, y)
    assert crf.log_likelihood(inputs, y) > ridge.log_likelihood(inputs, y)


def test_without_a_prior_only_explicit_features_will_do():
    with pytest.raises(ValueError, match=r"prior_variance of clique set 'node' must be finite: without a prior"):
        ChainCRF(RBF(gamma=0.3), prior_variance=np.inf).fit(X, y)
    with pytest.raises(ValueError, match=r"prior_variance of clique set 'node_2' must be finite"):
        ChainCRF(Linear() + RBF(gamma=0.3), prior_variance=np.inf).fit(X, y)
    with pytest.raises(ValueError, match=r"solver='newton' needs a Gaussian prior"):
        ChainCRF("linear", prior_variance=np.inf, solver="newton").fit(X, y)
    for wrong in (0.0, -1.0, np.nan, -np.inf, "inf", True):
        with pytest.raises(ValueError, match="prior_variance must be a positive number"):
            ChainCRF("linear", prior_variance=wrong).fit(X, y)


def test_weights_of_single_labels_cannot_begin_from_contrasts():
    crf = fit(warm_start=True)
    with pytest.raises(ValueError, match=r"'node' was fitted without l1, in contrasts .* now has l1=0.5"):
        crf.set_params(l1=0.5).fit(STRINGS, WORDS)
    observed = fit(support="observed", warm_start=True)
    observed.set_params(l1=0.5).fit(STRINGS, WORDS)
    assert observed.solution_.value == pytest.approx(fit(support="observed", l1=0.5).solution_.value, rel=1e-6)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"l1": -1.0}, "l1 must be a finite number of at least 0, got -1.0"),
        ({"l1": np.inf}, "l1 must be a finite number"),
        ({"edges": EdgeCliques(l1="1")}, "clique set 'edge': l1 must be a finite number"),
        ({"cliques": [NodeCliques("linear", l1=0.1, label_kernel=np.eye(3) + 0.1)]}, "they need label_kernel='delta'"),
        ({"l1": 0.1, "kernel": RBF(gamma=0.3)}, r"l1 is about weights of single features"),
        ({"l1": 0.1, "solver": "newton"}, r"only solver='lbfgs' minimizes it; got 'newton'"),
    ],
)
def test_what_does_not_go_together_is_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        ChainCRF(**{"kernel": "linear", **settings}).fit(X, y)


@pytest.mark.parametrize("settings", [{"l1": 1.5}, {"l1": 1.5, "support": "observed"}, {"l1": 1e4}])
def test_a_file_is_the_field_with_names_that_have_no_weight(settings, tmp_path):
    crf = fit(**settings)
    crf.save(tmp_path / "sparse.safetensors")
    stored = ChainCRF.load(tmp_path / "sparse.safetensors")
    weights = dense(crf.coef_["node"])
    used = weights.any(axis=1)
    assert not used.all()
    assert stored.feature_names_in_.tolist() == crf.feature_names_in_.tolist()
    for mine, other in zip(crf.field_.terms, stored.field_.terms, strict=True):
        np.testing.assert_array_equal(mine.known, other.known)
        np.testing.assert_array_equal(dense(mine.label_coefficients), dense(other.label_coefficients))
        assert mine.pairs.complete == other.pairs.complete
    new = [[["a0", "b1", "never seen"], ["c0"], []], *STRINGS]
    for mine, other in zip(crf.predict_marginals(new), stored.predict_marginals(new), strict=True):
        np.testing.assert_array_equal(mine, other)
    stored.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == (tmp_path / "sparse.safetensors").read_bytes()
    # What only answers reads the names that have a weight; one that reads names has one.
    served = load_chain(tmp_path / "sparse.safetensors")
    assert served.n_features_in_ == max(1, np.count_nonzero(used))
    for mine, other in zip(crf.predict_marginals(STRINGS), served.predict_marginals(STRINGS), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-12)


BESIDE = NodeCliques(RBF(gamma=0.1), name="all features")


@pytest.mark.parametrize("settings", [{"l1": 1.5, "window": 3}, {"cliques": [NodeCliques("linear", l1=1.5), BESIDE]}])
def test_a_file_keeps_all_names_where_a_function_of_all_features_needs_them(settings, tmp_path):
    crf = fit(**settings)
    crf.save(tmp_path / "whole.safetensors")
    assert ChainCRF.load(tmp_path / "whole.safetensors").n_features_in_ == crf.n_features_in_
