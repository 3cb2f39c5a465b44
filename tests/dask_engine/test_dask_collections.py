"""Dask collections fit like lists, and predictions for them are collections."""

import itertools

import numpy as np
import pytest
from dask_fits import sequences

from kernelfields import ChainCRF, LabelDictionary
from kernelfields.engines import Dask
from kernelfields.engines.choice import is_collection
from kernelfields.engines.dask.collections import sequences_of_frame, sequences_of_rows

pytest.importorskip("distributed")
dask = pytest.importorskip("dask")
bag = pytest.importorskip("dask.bag")


def delayed_parts(items, sizes):
    """Cut a list into Delayed lists of the given sizes."""
    ends = np.cumsum(sizes)
    return [dask.delayed(list)(items[end - size : end]) for size, end in zip(sizes, ends, strict=True)]


def as_dicts(X):
    """Feature dicts whose names differ from sequence to sequence."""
    return [[{"size": float(row[0]), f"name{index % 5}": True} for row in x] for index, x in enumerate(X)]


@pytest.mark.parametrize("kind", ["bags", "delayed", "futures", "dicts", "weights"])
def test_a_collection_is_fitted_like_the_list_of_its_sequences(client, kind):
    X, y = sequences(40)
    kernel = "linear" if kind == "dicts" else "rbf"
    X = as_dicts(X) if kind == "dicts" else X
    crf = ChainCRF(kernel, rank=20, random_state=0, tol=1e-6, dtype="float64", prior_variance=1.0).set_params(
        scale=False
    )
    weights = np.random.default_rng(0).random(len(X)) if kind == "weights" else None
    expected = crf.fit(X, y, weights).solution_.value
    pivots = getattr(crf.field_.terms[0].subspace, "indices", None)
    sizes = [15, 0, 22, 3]
    collections = [delayed_parts(items, sizes) for items in (X, y)]
    given = None if weights is None else delayed_parts(list(weights), sizes)
    if kind == "bags":
        collections = [bag.from_delayed(parts) for parts in collections]
    if kind == "futures":
        collections = [client.compute(parts) for parts in collections]
    assert all(map(is_collection, collections))
    crf.set_params(engine=Dask(client) if kind != "bags" else "auto").fit(*collections, given)
    assert crf.solution_.value == pytest.approx(expected, rel=2e-6)
    if kind != "dicts":
        np.testing.assert_array_equal(crf.field_.terms[0].subspace.indices, pivots)


def test_string_labels_of_which_a_partition_has_one_class(client):
    X, y = sequences(20)
    words = np.array(["a", "longer name", "b"])
    y = [words[labels] if index > 5 else np.repeat("a", len(labels)) for index, labels in enumerate(y)]
    crf = ChainCRF("rbf", rank=10, random_state=0)
    parts = [delayed_parts(items, [6, 14]) for items in (X, y)]
    crf.set_params(engine=Dask(client), prior_variance=1.0).fit(*parts)
    assert list(crf.classes_) == sorted(words)


def test_arrays_and_frames_become_bags_of_their_sequences(client):
    array, frame = pytest.importorskip("dask.array"), pytest.importorskip("dask.dataframe", exc_type=ImportError)
    pandas = pytest.importorskip("pandas")
    X, y = sequences(20)
    lengths = [len(x) for x in X]
    rows = array.from_array(np.concatenate(X), chunks=(17, 2))
    found = sequences_of_rows(rows, lengths, 3)
    assert found.npartitions == 3
    for mine, theirs in zip(found.compute(), X, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    labels = sequences_of_rows(array.from_array(np.concatenate(y), chunks=5), lengths, 3).compute()
    assert [list(each) for each in labels] == [list(each) for each in y]
    names = np.repeat([f"s{index:02}" for index in range(20)], lengths)
    table = pandas.DataFrame(np.concatenate(X), columns=list("abcd")).assign(name=names, label=np.concatenate(y))
    ends = np.cumsum(lengths)
    split = frame.concat([frame.from_pandas(each, npartitions=1) for each in (table[: ends[7]], table[ends[7] :])])
    inputs, classes = sequences_of_frame(split, "name", list("abcd"), "label")
    for mine, theirs in zip(inputs.compute(), X, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert [list(each) for each in classes.compute()] == [list(each) for each in y]
    with pytest.raises(ValueError, match="is cut between partitions"):
        sequences_of_frame(frame.from_pandas(table, npartitions=7, sort=False), "name", list("abcd"))
    with pytest.raises(ValueError, match="no column 'e'"):
        sequences_of_frame(split, "name", ["e"])
    with pytest.raises(ValueError, match="add up to"):
        sequences_of_rows(rows, lengths[1:])


def test_predictions_for_a_collection_are_one(client):
    X, y = sequences(30)
    crf = ChainCRF("rbf", rank=15, random_state=0).fit(X, y)
    parts = delayed_parts(X, [12, 0, 18])
    labels = crf.predict(bag.from_delayed(parts))
    assert isinstance(labels, bag.Bag)
    for mine, theirs in zip(labels.compute(), crf.predict(X), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    marginals = crf.predict_marginals(parts)
    assert [len(each) for each in dask.compute(*marginals)] == [12, 0, 18]
    for mine, theirs in zip(itertools.chain(*dask.compute(*marginals)), crf.predict_marginals(X), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12)
    best = crf.predict_nbest(bag.from_delayed(parts), k=2).compute()
    assert [len(each) for each in best] == [2] * 30
    with pytest.raises(ValueError, match="a partition of the collection at a time"):
        crf.predict_marginals(parts, cliques=["edge"])


def test_allowed_labels_hold_in_parts_of_lists_and_in_predictions_for_collections(client):
    X, y = sequences(8)
    X = [np.column_stack([np.round(x[:, 0]), x[:, 1:]]) for x in X]
    crf = ChainCRF("rbf", rank=5, allowed=LabelDictionary(0, min_count=1), prior_variance=1.0, random_state=0)
    crf.set_params(engine=Dask(client)).fit(X, y)
    there = crf.solution_.value
    crf.set_params(engine="threads").fit(X, y)
    assert there == pytest.approx(crf.solution_.value, rel=1e-6)
    found = crf.predict(bag.from_delayed(delayed_parts(X, [5, 3]))).compute()
    for ours, theirs in zip(found, crf.predict(X), strict=True):
        np.testing.assert_array_equal(ours, theirs)
