"""Fields to be inspected: on feature dicts, feature strings and arrays, with every kind of clique set."""

from __future__ import annotations

from dataclasses import replace

from kernelfields import ChainCRF, EdgeCliques
from kernelfields.kernels import Kernel
from kernelfields.objective.designs.pairs import EVERY_PAIR
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


def observed_words(edge_kernel=None):
    """A field of words that has weights of observed pairs alone, kept sparse."""
    return words_field(edges=EdgeCliques(edge_kernel, support="observed"), support="observed", window=3)


def make_dense(crf):
    """Give the terms of a field of observed pairs weights of all pairs, zero where there were none."""
    for number, term in enumerate(crf.field_.terms):
        weights = term.label_coefficients.toarray()
        crf.field_.terms[number] = replace(term, coefficients=weights, label_factor=None, pairs=EVERY_PAIR)
        crf.coef_[term.name] = weights
