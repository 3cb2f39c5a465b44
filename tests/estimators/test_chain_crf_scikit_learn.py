"""ChainCRF keeps the contract of scikit-learn estimators, on lists of sequences."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from kernelfields import ChainCRF, EdgeCliques, NodeCliques
from kernelfields.basis import PivotSubspace
from kernelfields.kernels import RBF
from kernelfields.objective import Certificate
from kernelfields.solvers import Solution
from tests.samples import as_words, labelled_sequences

X, y = labelled_sequences()


def test_parameters_can_be_read_set_and_cloned():
    crf = ChainCRF(RBF(gamma=0.5), prior_variance=2.0, constraints=[(0, 2)])
    assert crf.get_params()["kernel__gamma"] == 0.5
    crf.set_params(kernel__gamma=0.25, prior_variance=3.0)
    copied = clone(crf)
    assert copied.get_params() == crf.get_params()
    assert copied.kernel is not crf.kernel
    assert not hasattr(clone(ChainCRF(random_state=0).fit(X, y)), "field_")
    with pytest.raises(ValueError, match="ChainCRF has no parameter 'gamma'"):
        crf.set_params(gamma=1.0)
    spelled = ChainCRF(cliques=[NodeCliques(RBF(gamma=0.1)), EdgeCliques()])
    assert clone(spelled).cliques[0].kernel == RBF(gamma=0.1)


def test_attributes_after_fit():
    crf = ChainCRF(rank=12, random_state=0).fit(X, as_words(y))
    np.testing.assert_array_equal(crf.classes_, ["adj", "noun", "verb"])
    assert crf.n_features_in_ == 3
    assert isinstance(crf.basis_["node"], PivotSubspace)
    assert crf.basis_["node"].rank == 12
    assert crf.coef_["node"].shape == (12, 3)
    assert crf.coef_["edge"].shape == (1, 9)
    assert crf.transitions_.shape == (3, 3)
    np.testing.assert_array_equal(crf.transitions_.ravel(), crf.coef_["edge"][0])
    assert isinstance(crf.solution_, Solution)
    assert isinstance(crf.certificate_, Certificate)
    assert crf.certificate_.scope == "span"
    assert crf.rkhs_certificate_.scope == "rkhs"
    # Lemma 13: at the optimum the delta kernel's coefficients sum to zero over labels.
    np.testing.assert_allclose(crf.coef_["node"].sum(axis=1), 0.0, atol=1e-12)
    assert ChainCRF(edges=EdgeCliques("linear"), random_state=0).fit(X, y).transitions_ is None


@pytest.mark.parametrize(
    "call",
    [
        lambda crf: crf.predict(X),
        lambda crf: crf.predict_marginals(X),
        lambda crf: crf.predict_nbest(X, 2),
        lambda crf: crf.log_likelihood(X, y),
        lambda crf: crf.score(X, y),
        lambda crf: crf.sample(X),
        lambda crf: crf.entropy(X),
        lambda crf: crf.certify(X, y),
        lambda crf: crf.save("never-written"),
    ],
)
def test_nothing_can_be_asked_before_fit(call):
    with pytest.raises(NotFittedError, match="Call 'fit'"):
        call(ChainCRF())
