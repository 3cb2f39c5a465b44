"""warm_start=True: the next fit begins where the last one ended, in the same basis."""

import numpy as np
import pytest

from kernelfields import ChainCRF, EdgeCliques, NodeCliques, StartCliques
from kernelfields.kernels import RBF
from tests.samples import as_words, labelled_sequences

X, y = labelled_sequences()


def marginals(crf, X=X):
    return np.concatenate(crf.predict_marginals(X))


@pytest.mark.parametrize("kernel", ["linear", RBF(gamma=0.3)])
@pytest.mark.parametrize("edge_kernel", [None, "linear", RBF(gamma=0.1)])
def test_the_second_fit_starts_from_the_first(kernel, edge_kernel):
    crf = ChainCRF(
        kernel, edges=EdgeCliques(edge_kernel), rank=15, random_state=0, tol=1e-9, max_iter=500, warm_start=True
    )
    first = crf.fit(X, y).solution_
    before = marginals(crf)
    second = crf.fit(X, y).solution_
    assert second.passes < first.passes / 4
    assert second.iterations <= 1
    assert second.value == pytest.approx(first.value, rel=1e-9)
    np.testing.assert_allclose(marginals(crf), before, atol=1e-5)


def test_a_path_of_priors_ends_in_the_optimum_of_the_last_one():
    settings = {"kernel": RBF(gamma=0.3), "rank": 20, "random_state": 0, "tol": 1e-10, "max_iter": 500}
    crf = ChainCRF(prior_variance=0.3, warm_start=True, **settings).fit(X, y)
    crf.set_params(prior_variance=1.0).fit(X, y)
    afresh = ChainCRF(prior_variance=1.0, **settings).fit(X, y)
    assert crf.solution_.value == pytest.approx(afresh.solution_.value, rel=1e-9)
    np.testing.assert_allclose(marginals(crf), marginals(afresh), atol=1e-5)
    assert crf.certify(X, y, scope="span").relative_gap < 1e-9


def test_new_sequences_and_fewer_labels():
    crf = ChainCRF(rank=15, random_state=0, warm_start=True).fit(X, as_words(y))
    basis = crf.basis_["node"]
    keep = [i for i in range(len(X)) if not np.any(y[i] == 2)] + [2]
    crf.fit([X[i][:2] for i in keep], [["adj"] * 2 for _ in keep])
    np.testing.assert_array_equal(crf.classes_, ["adj", "noun", "verb"])
    assert crf.basis_["node"] is basis
    with pytest.raises(ValueError, match="unknown label 'adverb'"):
        crf.fit(X[:1], [["adverb"] * len(X[0])])
    # Chains of length one have no edge cliques, which is no reason to fail.
    linked = ChainCRF(edges=EdgeCliques("linear"), random_state=0, warm_start=True).fit(X, y)
    assert linked.fit([x[:1] for x in X], [each[:1] for each in y]).solution_.converged


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kernel": "linear"}, "kernel of 'node'"),
        ({"kernel": RBF(gamma=0.4)}, "kernel of 'node'"),
        ({"kernel__gamma": 0.4}, "kernel of 'node'"),
        ({"edges": EdgeCliques("linear")}, "kernel of 'edge' was None"),
        ({"window": 3}, "window was 'auto' in its fit and is now 3"),
        ({"rank": 9}, "rank of 'node' was 8 and is now 9"),
        ({"basis": "uniform"}, "basis of 'node'"),
        ({"cliques": [NodeCliques(RBF(gamma=0.3), rank=8)]}, "'edge'"),
        ({"cliques": [NodeCliques(RBF(gamma=0.3), rank=8), EdgeCliques(rank=8), StartCliques()]}, "'start'"),
    ],
)
def test_changed_cliques_are_refused(change, words):
    crf = ChainCRF(RBF(gamma=0.3), rank=8, random_state=0, warm_start=True).fit(X, y)
    before = marginals(crf)
    crf.set_params(**change)
    with pytest.raises(ValueError, match="warm_start=False to start afresh") as error:
        crf.fit(X, y)
    assert words in str(error.value)
    np.testing.assert_array_equal(marginals(crf), before)
    assert crf.set_params(warm_start=False).fit(X, y).solution_.converged


def test_a_spelled_out_field_is_compared_by_value():
    cliques = [NodeCliques(RBF(gamma=0.3), rank=8), EdgeCliques()]
    crf = ChainCRF(cliques=cliques, random_state=0, warm_start=True).fit(X, y)
    crf.set_params(cliques=[NodeCliques(RBF(gamma=0.3), rank=8, prior_variance=2.0), EdgeCliques()]).fit(X, y)
    # The user's own objects are not those of the field: changing them later is seen.
    crf.cliques[0].rank = 9
    with pytest.raises(ValueError, match="rank of 'node' was 8 and is now 9"):
        crf.fit(X, y)


def by_product(a, b):
    return a @ b.T


def test_functions_as_kernels_are_compared_by_identity():
    crf = ChainCRF(by_product, random_state=0, warm_start=True).fit(X, y)
    assert crf.fit(X, y).solution_.iterations <= 1
    with pytest.raises(ValueError, match="kernel of 'node'"):
        crf.set_params(kernel=lambda a, b: a @ b.T).fit(X, y)
