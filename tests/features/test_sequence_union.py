"""Several transformers side by side on sequences."""

import re

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from kernelfields import ChainCRF, NodeCliques
from kernelfields.features import Embeddings, SequenceUnion
from kernelfields.kernels import RBF, Columns, Linear

SENTENCES = [["the", "cat", "sat"], ["a", "dog"], ["the"]]
TAGS = [["D", "N", "V"], ["D", "N"], ["D"]]


def lengths(words):
    return np.array([[len(word), word.count("a")] for word in words])


def as_strings(sentences):
    return [[[f"word={word}", f"ends={word[-1]}"] for word in words] for words in sentences]


def union():
    return SequenceUnion([("vectors", Embeddings(lengths)), ("strings", FunctionTransformer(as_strings))])


def test_columns_of_all_parts_stand_side_by_side():
    joined = union().fit(SENTENCES)
    X = joined.transform([["the", "bat"]])
    assert joined.columns_ == {"vectors": (0, 2), "strings": (2, 2 + 9)}
    assert sp.issparse(X[0])
    np.testing.assert_array_equal(X[0][:, :2].toarray(), [[3, 0], [3, 1]])
    np.testing.assert_array_equal(X[0][:, 2:].sum(axis=1), [2, 1])
    for one, other in zip(joined.fit_transform(SENTENCES), joined.transform(SENTENCES), strict=True):
        np.testing.assert_array_equal(one.toarray(), other.toarray())


def test_kernels_see_their_part_in_a_pipeline():
    cliques = [NodeCliques(Columns(RBF(), 0, 2)), NodeCliques(Columns(Linear(), 2), name="strings")]
    model = make_pipeline(union(), ChainCRF(cliques=cliques, random_state=0)).fit(SENTENCES, TAGS)
    assert [list(labels) for labels in model.predict(SENTENCES)] == TAGS


@pytest.mark.parametrize(
    ("transformers", "error", "message"),
    [
        ([], ValueError, "must be a list of (name, transformer)"),
        (Embeddings(lengths), ValueError, "must be a list of (name, transformer)"),
        ([("a", "passthrough"), ("a", "passthrough")], ValueError, "each needs a name of its own"),
        ([("a", lengths)], TypeError, "'a' is function: give a transformer or 'passthrough'"),
        (
            [("a", Embeddings(lengths)), ("b", FunctionTransformer(lambda X: [np.ones((2, 1)) for _ in X]))],
            ValueError,
            "'b' made sequences of other lengths than 'a'",
        ),
    ],
)
def test_parts_that_do_not_fit_are_refused(transformers, error, message):
    with pytest.raises(error, match=re.escape(message)):
        SequenceUnion(transformers).fit(SENTENCES)


def test_another_width_than_that_of_the_fit_is_refused():
    joined = SequenceUnion([("numbers", "passthrough")]).fit([np.ones((2, 3))])
    with pytest.raises(
        ValueError, match="what 'numbers' made of X: X has 2 features per position, but this model was fitted with 3"
    ):
        joined.transform([np.ones((2, 2))])
