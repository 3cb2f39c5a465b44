"""Sums of kernels: several clique sets that together are the field of the sum, each with a prior of its own."""

import numpy as np
import pytest
import scipy.sparse as sp

from kernelfields import ChainCRF, EdgeCliques, NodeCliques
from kernelfields.kernels import RBF, Linear, Polynomial
from kernelfields.models.build import name_cliques, split_sum
from tests.samples import labelled_sequences

X, y = labelled_sequences(n_sequences=12)
STRINGS = [[[f"a{round(row[0])}", f"b{round(row[1])}"] for row in x] for x in X]
EXACT = {"basis": "all", "rank": None, "tol": 1e-9, "max_iter": 1000, "random_state": 0, "n_jobs": 1}
SUM = Linear() + RBF(gamma=0.3)


class Undivided(RBF):
    """Linear() + RBF as one kernel, which nothing can take apart."""

    kind = "undivided"

    def _block(self, X, Z):
        return super()._block(X, Z) + Linear()._block(X, Z)

    def _diagonal(self, X):
        return super()._diagonal(X) + Linear()._diagonal(X)


def fit(kernel, inputs=X, labels=y, **settings):
    return ChainCRF(kernel, **{**EXACT, **settings}).fit(inputs, labels)


def marginals(crf, inputs=X):
    return np.concatenate(crf.predict_marginals(inputs))


@pytest.mark.parametrize("prior_variance", [0.2, 1.0, 5.0])
def test_a_sum_taken_apart_is_the_field_of_the_sum(prior_variance):
    split, whole = (fit(kernel, prior_variance=prior_variance) for kernel in (SUM, Undivided(gamma=0.3)))
    assert [each.name for each in split.field_.terms] == ["node", "node_2", "edge"]
    assert [each.name for each in whole.field_.terms] == ["node", "edge"]
    assert split.solution_.value == pytest.approx(whole.solution_.value, rel=1e-8)
    np.testing.assert_allclose(marginals(split), marginals(whole), atol=1e-5)
    new, _ = labelled_sequences(n_sequences=5, seed=7)
    np.testing.assert_allclose(marginals(split, new), marginals(whole, new), atol=1e-5)
    # The order of the terms is no matter.
    swapped = fit(RBF(gamma=0.3) + Linear(), prior_variance=prior_variance)
    assert swapped.solution_.value == pytest.approx(whole.solution_.value, rel=1e-8)


def test_a_prior_variance_for_each_part_scales_its_kernel():
    apart = fit(SUM, prior_variance=(0.3, 4.0), edges=EdgeCliques(prior_variance=1.0))
    together = fit(0.3 * Linear() + 4.0 * RBF(gamma=0.3), prior_variance=1.0)
    assert apart.solution_.value == pytest.approx(together.solution_.value, rel=1e-8)
    np.testing.assert_allclose(marginals(apart), marginals(together), atol=1e-5)
    assert [each.clique.prior_variance for each in apart.field_.terms] == [0.3, 4.0, 1.0]
    # Without one of their own, transitions take that of the first part.
    assert fit(SUM, prior_variance=(0.3, 4.0)).field_.terms[2].clique.prior_variance == 0.3


def test_parts_with_features_stay_together_unless_told_apart():
    three = Linear() + Linear() * 2.0 + RBF(gamma=0.3)
    assert [repr(each) for each in three.summands] == [repr(Linear()), repr(2.0 * Linear()), repr(RBF(0.3))]
    assert RBF(gamma=0.3).summands == [RBF(gamma=0.3)]
    assert [name for name, _ in split_sum("node", NodeCliques(three))] == ["node", "node_2"]
    assert [name for name, _ in split_sum("node", NodeCliques(three, prior_variance=[1, 2, 3]))] == [
        "node",
        "node_2",
        "node_3",
    ]
    assert [name for name, _ in split_sum("node", NodeCliques(Linear() + 1.0))] == ["node"]
    assert [name for name, _ in split_sum("node", NodeCliques(RBF(gamma=0.3) + Polynomial(2)))] == ["node"]
    assert [name for name, _ in split_sum("node", NodeCliques(SUM * RBF(gamma=0.1)))] == ["node"], "a product"
    variance = fit(three, prior_variance=(0.1, 0.2, 0.3))
    scaled = fit(0.1 * Linear() + 0.4 * Linear() + 0.3 * RBF(gamma=0.3), edges=EdgeCliques(prior_variance=0.1))
    assert variance.solution_.value == pytest.approx(scaled.solution_.value, rel=1e-8)


def test_the_linear_part_of_a_sum_stays_sparse_and_exact():
    crf = ChainCRF(SUM, rank=5, support="observed", l1=0.05, tol=1e-4, max_iter=2000, random_state=0)
    crf.fit(STRINGS, y)
    linear, other = crf.field_.terms[:2]
    assert not linear.pairs.complete
    assert (linear.clique.support, linear.clique.l1) == ("observed", 0.05)
    assert (other.clique.support, other.clique.l1, other.clique.least_weight) == ("all", 0.0, 0.0)
    assert other.pairs.complete
    assert other.subspace.rank == 5
    assert sp.issparse(linear.features(crf._reader.read(STRINGS)))
    for scope in ("span", "rkhs"):
        certificate = crf.certify(STRINGS, y, scope=scope)
        assert certificate.value == pytest.approx(crf.solution_.value, rel=1e-9)
        assert set(certificate.parts) == {"node", "node_2", "edge"}


@pytest.mark.parametrize(
    ("kernel", "settings", "words"),
    [
        (SUM, {"prior_variance": (1.0,)}, r"'node' holds 1 numbers, but its kernel .* is a sum of 2: give one"),
        (SUM, {"prior_variance": (1.0, 2.0, 3.0)}, r"'node' holds 3 numbers, but its kernel .* is a sum of 2"),
        ("linear", {"prior_variance": (1.0, 2.0)}, r"'node' holds 2 numbers, but its kernel .* is a sum of 1"),
        (SUM, {"prior_variance": (1.0, -2.0)}, "prior_variance must be a positive number"),
        (SUM, {"prior_variance": (1.0, None)}, "prior_variance must be a positive number"),
        (
            SUM,
            {"edges": EdgeCliques(prior_variance=(1.0, 2.0))},
            "'edge' has no kernel: prior_variance must be one number",
        ),
        (RBF(0.3) + Polynomial(2), {"support": "observed"}, "support='observed' is about weights"),
    ],
)
def test_variances_that_do_not_match_the_sum_are_refused(kernel, settings, words):
    with pytest.raises(ValueError, match=words):
        ChainCRF(kernel, **settings).fit(X, y)


def test_names_of_parts_are_not_given_twice():
    named = name_cliques([NodeCliques(SUM), NodeCliques(RBF(gamma=1.0)), EdgeCliques()])
    assert [name for name, _ in named] == ["node", "node_2", "node_3", "edge"]
    assert [clique.name for _, clique in named] == ["node", "node_2", None, None]
    named = name_cliques([NodeCliques(SUM, name="words"), NodeCliques(SUM)])
    assert [name for name, _ in named] == ["words", "words_2", "node", "node_2"]
    for cliques in (
        [NodeCliques("rbf", name="a_2"), NodeCliques(SUM, name="a")],
        [NodeCliques(SUM, name="a"), NodeCliques("rbf", name="a_2")],
        [NodeCliques("rbf", name="node_2"), NodeCliques(SUM)],
    ):
        with pytest.raises(ValueError, match=r"two clique sets are named '(a|node)_2'.* give each a name of its own"):
            name_cliques(cliques)
