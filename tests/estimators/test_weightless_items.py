"""An item of weight zero is none, one of weight two counts as two: in bases, supports, dictionaries and batches."""

import numpy as np
import pytest
from sklearn.base import clone

from kernelfields import (
    ChainCRF,
    EdgeCliques,
    FieldSearchCV,
    GraphCRF,
    KernelClassifier,
    LabelDictionary,
    LabelNgrams,
    MultiLabelCRF,
    NodeCliques,
    RingCRF,
    SegmentCRF,
)
from kernelfields.annotators import AnnotatedCRF
from kernelfields.kernels import RBF
from tests.samples import labelled_instances, labelled_sequences

X, Y = labelled_sequences(14, seed=2)
# Items without weight are far from the others: a basis would take their inputs first.
OUT = np.array([1, 4, 9])
KEPT = np.setdiff1d(np.arange(14), OUT)
FAR = [x + 5.0 * (item in OUT) for item, x in enumerate(X)]
WEIGHTS = np.where(np.isin(np.arange(14), OUT), 0.0, 1.0)
USUAL = {
    "prior_variance": 2.0,
    "rank": 8,
    "basis": "greedy-cholesky",
    "tol": 1e-9,
    "dtype": "float64",
    "random_state": 0,
}
KERNEL = RBF(0.3)
TABLE, INDICATOR = labelled_instances(40)


def picked(values, items):
    return values[items] if isinstance(values, np.ndarray) else [values[item] for item in items]


def as_graphs(inputs):
    return [(x, [[t, t + 1] for t in range(len(x) - 1)]) for x in inputs]


FIELDS = {
    "chain": (ChainCRF(KERNEL, **USUAL), FAR, Y),
    "chain with kernels on edges": (ChainCRF(KERNEL, edges=EdgeCliques(RBF(0.1)), **USUAL), FAR, Y),
    "chain on one scale": (ChainCRF(KERNEL, scale=True, **USUAL), FAR, Y),
    "chain drawn": (ChainCRF(KERNEL, **{**USUAL, "basis": "random-cholesky"}), FAR, Y),
    "chain that grows": (ChainCRF(KERNEL, **{**USUAL, "basis": "gradient", "tol": 1e-3}), FAR, Y),
    "ring": (RingCRF(KERNEL, **USUAL), FAR, Y),
    "segments": (SegmentCRF(KERNEL, **USUAL), FAR, Y),
    "graph": (GraphCRF(KERNEL, **USUAL), as_graphs(FAR), Y),
    "rows": (KernelClassifier(KERNEL, **USUAL), np.vstack([x[:1] for x in FAR]), np.array([y[0] for y in Y])),
    "several labels": (
        MultiLabelCRF(KERNEL, label_graph="full", **USUAL),
        TABLE[:14] + 5.0 * (WEIGHTS[:, None] == 0),
        INDICATOR[:14],
    ),
}


def answers(field, inputs):
    found = field.predict_marginals(inputs)
    return np.asarray(found) if isinstance(found, np.ndarray) else np.concatenate(found)


@pytest.mark.parametrize("name", FIELDS)
def test_an_item_of_weight_zero_is_none(name):
    field, inputs, labels = FIELDS[name]
    weighed = clone(field).fit(inputs, labels, sample_weight=WEIGHTS)
    left_out = clone(field).fit(picked(inputs, KEPT), picked(labels, KEPT))
    for basis, expected in zip(weighed.basis_.values(), left_out.basis_.values(), strict=True):
        assert basis.rank == expected.rank
    np.testing.assert_allclose(answers(weighed, inputs), answers(left_out, inputs), atol=1e-7)


@pytest.mark.parametrize("name", ["chain", "segments", "graph", "rows", "several labels"])
def test_a_batch_takes_no_pivots_from_items_of_weight_zero(name):
    field, inputs, labels = FIELDS[name]
    first = (picked(inputs, KEPT[:6]), picked(labels, KEPT[:6]))
    rest = np.concatenate([KEPT[6:], OUT])
    weighed = clone(field).set_params(rank=30).partial_fit(*first)
    weighed.partial_fit(picked(inputs, rest), picked(labels, rest), sample_weight=WEIGHTS[rest])
    left_out = clone(field).set_params(rank=30).partial_fit(*first)
    left_out.partial_fit(picked(inputs, KEPT[6:]), picked(labels, KEPT[6:]))
    np.testing.assert_allclose(answers(weighed, inputs), answers(left_out, inputs), atol=1e-7)


def test_an_item_of_weight_zero_teaches_a_posterior_nothing():
    field, inputs, labels = FIELDS["chain"]
    weighed = clone(field).fit(inputs, labels, sample_weight=WEIGHTS)
    weighed.laplace(inputs, labels, sample_weight=WEIGHTS, n_samples=5)
    left_out = clone(field).fit(picked(inputs, KEPT), picked(labels, KEPT))
    left_out.laplace(picked(inputs, KEPT), picked(labels, KEPT), n_samples=5)
    found, expected = (np.concatenate(each.predict_variances(inputs)) for each in (weighed, left_out))
    np.testing.assert_allclose(found, expected, atol=1e-5)


def named(sequences):
    """Features of words whose names are those of signs of columns."""
    return [[{f"{column}{value > 0}": 1.0 for column, value in enumerate(row)} for row in x] for x in sequences]


@pytest.mark.parametrize("support", ["observed", 2.0, 2.5])
def test_weights_count_in_the_support(support):
    words, settings = named(X), {"kernel": "linear", "prior_variance": 1.0, "l1": 0.0, "tol": 1e-9}
    field = ChainCRF(**settings, support=support)
    weights = np.where(np.arange(14) % 3 == 0, 2.0, WEIGHTS)
    weighed = clone(field).fit(words, Y, sample_weight=weights)
    items = np.repeat(np.arange(14), weights.astype(int))
    repeated = clone(field).fit(picked(words, items), picked(Y, items))
    for term, expected in zip(weighed.field_.terms, repeated.field_.terms, strict=True):
        assert np.array_equal(term.pairs.begin, expected.pairs.begin)
        assert np.array_equal(term.pairs.outcomes, expected.pairs.outcomes)
    np.testing.assert_allclose(answers(weighed, words), answers(repeated, words), atol=1e-6)


def test_weights_count_in_n_grams():
    field = ChainCRF(
        cliques=[NodeCliques(KERNEL), EdgeCliques(), LabelNgrams(n=3, support=3.0)], tol=1e-6, random_state=0
    )
    weights = np.where(np.arange(14) % 2 == 0, 2.0, 1.0)
    items = np.repeat(np.arange(14), weights.astype(int))
    found, expected = (
        clone(field).fit(*data).field_.terms[-1].pairs.outcomes
        for data in ((X, Y, weights), (picked(X, items), picked(Y, items)))
    )
    alone = clone(field).fit(X, Y).field_.terms[-1].pairs.outcomes
    assert np.array_equal(found, expected)
    assert len(alone) < len(found)


@pytest.mark.parametrize("kind", [ChainCRF, SegmentCRF])
def test_a_dictionary_does_not_learn_from_items_of_weight_zero(kind):
    words = [np.column_stack([y % 2, x]) for x, y in zip(X, Y, strict=True)]
    wrong = [(y + 1) % 3 if item in OUT else y for item, y in enumerate(Y)]
    field = kind(KERNEL, allowed=LabelDictionary(0, min_count=1), scale=False, **USUAL)
    weighed = clone(field).fit(words, wrong, sample_weight=WEIGHTS)
    left_out = clone(field).fit(picked(words, KEPT), picked(Y, KEPT))
    assert [own.tolist() for own in weighed.allowed_.sets] == [own.tolist() for own in left_out.allowed_.sets]
    begun = clone(field).partial_fit(picked(words, KEPT), picked(Y, KEPT))
    begun.partial_fit(words, wrong, sample_weight=WEIGHTS)
    assert [own.tolist() for own in begun.allowed_.sets] == [own.tolist() for own in left_out.allowed_.sets]


def test_groups_are_those_of_the_items_that_were_given():
    rows, labels = labelled_instances(300)
    weights = np.where(np.arange(300) % 7 == 0, 0.0, 1.0)
    kept, groups = np.flatnonzero(weights), np.arange(300) % 5
    field = KernelClassifier(RBF(0.3), scale=False, random_state=0)
    weighed = clone(field).fit(rows, labels[:, 0], sample_weight=weights, groups=groups)
    left_out = clone(field).fit(rows[kept], labels[kept, 0], groups=groups[kept])
    assert weighed.choices_ == left_out.choices_
    with pytest.raises(ValueError, match=r"one value for each sample: 300, got \(299,\)"):
        clone(field).fit(rows, labels[:, 0], sample_weight=weights, groups=groups[1:])


@pytest.mark.parametrize("name", ["chain", "rows"])
def test_a_search_numbers_all_items(name):
    field, inputs, labels = FIELDS[name]
    search = FieldSearchCV(field, prior_variances=[1.0], cv=2, random_state=0).fit(inputs, labels, WEIGHTS)
    left_out = clone(search.best_estimator_).fit(picked(inputs, KEPT), picked(labels, KEPT))
    np.testing.assert_allclose(answers(search, inputs), answers(left_out, inputs), atol=1e-6)


def test_annotated_items_of_weight_zero_have_a_consensus():
    said = [{"first": y, "second": np.where(np.arange(len(y)) == 0, 0, y)} for y in Y]
    found = AnnotatedCRF(ChainCRF(KERNEL, **USUAL), max_steps=2, tol=1.0).fit(X, said, WEIGHTS)
    assert [len(own) for own in found.consensus_] == [len(y) for y in Y]
