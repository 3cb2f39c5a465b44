"""Answers do not depend on the batches into which new inputs are cut."""

import numpy as np
import pytest

from kernelfields import ChainCRF, EdgeCliques
from kernelfields.kernels import RBF
from kernelfields.numerics import Workers
from tests.samples import labelled_sequences

X, y = labelled_sequences()


@pytest.mark.parametrize("edges", [EdgeCliques(), EdgeCliques(RBF(gamma=0.1))], ids=["tied", "edge kernel"])
def test_batches_do_not_change_answers(edges):
    crf = ChainCRF(RBF(gamma=0.3), edges=edges, rank=15, random_state=0).fit(X, y)
    batches = list(crf.field_.batches(crf._reader.read(X), 9))
    assert len(batches) > 3
    answers = [crf.field_.answers(batch, Workers(1)) for batch in batches]
    marginals = np.concatenate([each.marginals for each in answers])
    np.testing.assert_allclose(marginals, np.concatenate(crf.predict_marginals(X)), atol=1e-10)
    np.testing.assert_allclose(np.concatenate([each.entropies() for each in answers]), crf.entropy(X), atol=1e-10)
    best = np.concatenate([each.best_labels() for each in answers])
    np.testing.assert_array_equal(crf.classes_[best], np.concatenate(crf.predict(X, decode="viterbi")))
