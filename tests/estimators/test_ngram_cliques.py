"""LabelNgrams in ChainCRF: against junction trees, which see the same field as a graph, and what else fields do."""

import numpy as np
import pytest
from sklearn.base import clone

from kernelfields import ChainCRF, EdgeCliques, EndCliques, LabelNgrams, NodeCliques, SkipCliques
from kernelfields.data import OrderCliques
from kernelfields.kernels import RBF
from tests.oracles.labellings import all_labellings
from tests.samples import labelled_sequences

X, y = labelled_sequences(n_sequences=14, longest=6)
y = [np.array(["a", "b", "c"])[labels] for labels in y]
WEIGHTS = np.linspace(0.5, 1.5, len(X))
NGRAMS = LabelNgrams(n=4, prior_variance=[2.0, 0.5])
TIGHT = {"tol": 1e-9, "max_iter": 2000, "n_jobs": 1, "random_state": 0}


def field(*cliques, **options):
    return ChainCRF(cliques=[NodeCliques("linear"), EdgeCliques(), *cliques], **(TIGHT | options))


def by_junction_trees(monkeypatch):
    """From now on chains with n-grams are seen as graphs."""
    monkeypatch.setattr("kernelfields.inference.far_labels.has_only_ngrams", lambda placed: False)


@pytest.fixture(scope="module")
def crf():
    return field(NGRAMS).fit(X, y, sample_weight=WEIGHTS)


def assert_same_answers(one, other, atol=1e-6):
    for left, right in zip(
        one.predict_marginals(X, cliques="edge"), other.predict_marginals(X, cliques="edge"), strict=True
    ):
        for some, same in zip(left, right, strict=True):
            np.testing.assert_allclose(some, same, atol=atol)
    np.testing.assert_allclose(one.entropy(X), other.entropy(X), atol=atol)
    np.testing.assert_allclose(
        one.log_likelihood(X, y, per_item=True), other.log_likelihood(X, y, per_item=True), atol=atol
    )
    for some, same in zip(one.predict(X, decode="viterbi"), other.predict(X, decode="viterbi"), strict=True):
        assert list(some) == list(same)


@pytest.mark.parametrize(
    "cliques",
    [
        [NGRAMS],
        [OrderCliques(order=2), EndCliques()],
        [OrderCliques(order=3, support="observed"), OrderCliques(order=2, prior_variance=0.3)],
        [LabelNgrams(n=3, support="all"), LabelNgrams(n=3, name="again", support=2.0)],
        [NGRAMS, EdgeCliques("linear", prior_variance=0.5, name="seeing")],
    ],
)
def test_the_field_is_that_of_junction_trees(cliques, monkeypatch):
    # By name, the solver begins at zero in both.
    fitted = field(*cliques, solver="lbfgs").fit(X, y, sample_weight=WEIGHTS)
    assert fitted.inference_.method == "n-grams"
    by_junction_trees(monkeypatch)
    known = field(*cliques, solver="lbfgs").fit(X, y, sample_weight=WEIGHTS)
    assert known.inference_.method == "junction"
    assert fitted.solution_.value == pytest.approx(known.solution_.value, rel=1e-8)
    assert fitted.certify(X, y, sample_weight=WEIGHTS).relative_gap < 1e-8
    assert_same_answers(fitted, known)


def test_fits_begin_with_the_field_without_ngrams(crf, capsys):
    begun, plain = field(NGRAMS, verbose=1), field(NGRAMS, solver="lbfgs", verbose=1)
    assert "without its n-grams" in (begun.fit(X, y, sample_weight=WEIGHTS), capsys.readouterr())[1].err
    assert "without its n-grams" not in (plain.fit(X, y, sample_weight=WEIGHTS), capsys.readouterr())[1].err
    assert_same_answers(begun, plain, atol=3e-5)
    steps = begun.solution_.history
    assert steps[0].passes > 1.0, "the passes of the simpler field count"
    assert [step.iteration for step in steps] == sorted(step.iteration for step in steps)


def test_lengths_have_prior_variances_and_names_of_their_own(crf):
    terms = {term.name: term for term in crf.field_.terms}
    assert list(terms) == ["node", "edge", "3-grams", "4-grams"]
    assert [terms[name].prior_variance for name in ("3-grams", "4-grams")] == [2.0, 0.5]
    seen = {"".join(labels[t : t + 3]) for labels in y for t in range(len(labels) - 2)}
    assert terms["3-grams"].known.shape == (len(seen), 1)
    assert crf.coef_["3-grams"].nnz == len(seen)


def test_a_least_count_leaves_out_what_is_rare():
    many, few = (field(LabelNgrams(n=3, support=support), tol=1e-2).fit(X, y) for support in ("observed", 3.0))
    counts = np.unique(
        [" ".join(labels[t : t + 3]) for labels in y for t in range(len(labels) - 2)], return_counts=True
    )[1]
    assert many.field_.terms[2].known.size == len(counts)
    assert few.field_.terms[2].known.size == (counts >= 3).sum()


def test_weights_and_explanations_name_ngrams(crf):
    table = crf.weights(top=2)
    listed = {each.name: each for each in table.sets}
    names = [row.feature for row in listed["4-grams"].lists[0].rows]
    assert len(names) == 4 or all(len(name.split()) == 4 for name in names)
    assert all(row.feature.endswith("a") for row in crf.weights(feature_re=" a$").sets[1].lists[0].rows)
    explained = crf.explain(X[0], y[0])
    assert "3-gram" in str(explained)
    position = explained.positions[1]
    labels, other = list(y[0]), list(y[0])
    other[1] = position.other
    difference = crf.log_likelihood([X[0]], [labels]) - crf.log_likelihood([X[0]], [other])
    assert position.difference == pytest.approx(difference, abs=1e-9)


def test_long_ngrams_of_many_labels_need_no_tables():
    """Eight of thirty labels in a row: 30^8 labellings, of which some hundred have weights."""
    random = np.random.default_rng(0)
    labels = [np.array([f"{label:02d}" for label in (np.arange(10) + random.integers(30)) % 30]) for _ in range(20)]
    inputs = [random.normal(size=(10, 2)) for _ in labels]
    crf = ChainCRF(cliques=[NodeCliques("linear"), LabelNgrams(n=8)], tol=1e-2, random_state=0).fit(inputs, labels)
    assert crf.score(inputs, labels) > 0.2
    assert "arcs" in crf.inference_.description


def test_lengths_of_which_no_ngram_was_seen_have_no_weights():
    """No sequence has four labels: there are 3-grams and no 4-grams."""
    short = [x[:3] for x in X], [labels[:3] for labels in y]
    crf, fewer = (field(LabelNgrams(n=order)).fit(*short) for order in (4, 3))
    assert crf.coef_["4-grams"].nnz == 0
    assert_same_answers(crf, fewer)


def test_marginals_of_listed_ngrams_follow_their_weights(crf):
    """Those that were seen in training, in the order of ``coef_``."""
    _, listed = crf.predict_marginals([X[2]], cliques="order2")
    labellings = all_labellings(len(X[2]), 3)
    logs = crf.log_likelihood([X[2]] * len(labellings), list(crf.classes_[labellings]), per_item=True)
    numbers = np.array([np.ravel_multi_index(labellings[:, t - 2 : t + 1].T, (3, 3, 3)) for t in range(2, len(X[2]))])
    expected = [np.bincount(row, np.exp(logs), 27)[crf.coef_["3-grams"].indices] for row in numbers]
    np.testing.assert_allclose(listed[0], expected, atol=1e-9)


def test_with_a_kernel_they_see_the_inputs_at_their_last_label():
    given, meant = (
        field(own, tol=1e-6).fit(X, y) for own in (LabelNgrams("linear", n=3), OrderCliques("linear", order=2))
    )
    np.testing.assert_allclose(given.solution_.value, meant.solution_.value, rtol=1e-9)
    assert set(given.coef_) == {"node", "edge", "3-grams"}


@pytest.mark.parametrize(
    ("cliques", "message"),
    [
        (LabelNgrams(n=2), "at least 3"),
        (LabelNgrams(n=4, prior_variance=[1.0]), "holds 1 numbers for n-grams of 2 lengths"),
        (LabelNgrams(RBF(1.0), n=4, prior_variance=[1.0, 2.0]), "holds 2 numbers for n-grams of 1 lengths"),
        (LabelNgrams(n=50), "too many to be numbered"),
    ],
)
def test_what_cannot_be_is_refused(cliques, message):
    with pytest.raises(ValueError, match=message):
        field(cliques).fit(X, y)


def test_too_many_ngrams_are_refused_by_their_number():
    with pytest.raises(MemoryError, match="arcs"):
        field(LabelNgrams(n=18, support="all")).fit(X, y)


def test_draws_of_the_posterior(crf):
    crf = clone(crf).fit(X, y)
    crf.laplace(X, y, n_samples=3, random_state=0)
    assert crf.sample_coefficients()["4-grams"].shape == (3, 1, crf.field_.terms[3].known.size)
    assert np.isfinite(crf.predict_marginals(X[:1])[0]).all()


def test_other_cliques_of_long_reach_need_junction_trees():
    crf = field(LabelNgrams(n=3), SkipCliques(lag=2), tol=1e-2).fit(X, y)
    assert crf.inference_.method == "junction"
    explained = crf.explain(X[2], y[2])
    for position, explanation in enumerate(explained.positions):
        other = [*y[2][:position], explanation.other, *y[2][position + 1 :]]
        difference = crf.log_likelihood([X[2]], [y[2]]) - crf.log_likelihood([X[2]], [other])
        assert explanation.difference == pytest.approx(difference, abs=1e-9)
