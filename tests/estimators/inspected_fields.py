"""Fields to be inspected: on feature dicts, feature strings and arrays, with every kind of clique set."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from kernelfields import ChainCRF
from kernelfields.kernels.kernel import Kernel
from tests.samples import as_words, labelled_sequences

X, Y = labelled_sequences()
NAMED = as_words(Y)
WORDS = [["the", "cat", "sat"], ["the", "dog", "sat", "down"], ["sat", "the", "cat"]]
TAGS = [["D", "N", "V"], ["D", "N", "V", "P"], ["V", "D", "N"]]
DICTS = [[{"w": word, "last": word[-1], "len": len(word) / 3} for word in words] for words in WORDS]
STRINGS = [[[f"w={word}", f"last={word[-1]}"] for word in words] for words in WORDS]
LOOSE = {"tol": 1e-2, "n_jobs": 1, "random_state": 0}


class Squares(Kernel):
    """A kernel of one's own with explicit features: x_j^2."""

    kind = "squares"

    def feature_map(self, X):
        return X * X


def fitted(*cliques, X=X, y=NAMED, **parameters):
    return ChainCRF(cliques=list(cliques), **{**LOOSE, **parameters}).fit(X, y)


def words_field(**parameters):
    return ChainCRF("linear", **{**LOOSE, **parameters}).fit(DICTS, TAGS)


def observed_only(crf, seed=0):
    """The same field with weights of half of the pairs only, kept sparse as observed support keeps them."""
    random = np.random.default_rng(seed)
    for each in crf.field_.terms:
        weights = crf.coef_[each.name] * (random.random(crf.coef_[each.name].shape) < 0.5)
        each.coefficients = crf.coef_[each.name] = sp.csr_array(weights)
        each.label_factor = None
    return crf
