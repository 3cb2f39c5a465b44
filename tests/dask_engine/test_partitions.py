"""Partitions of collections without a cluster: empty ones, sequences that come back, and what no worker can read."""

import importlib.metadata
import itertools

import numpy as np
import pytest

import kernelfields
from kernelfields import ChainCRF, ChainCRFCV, KernelClassifier, MultiLabelCRF
from kernelfields.engines.dask.collections import sequences_of_frame
from kernelfields.engines.dask.engine import describe_worker
from kernelfields.estimators.on_cluster import run_on_workers

dask = pytest.importorskip("dask")
array = pytest.importorskip("dask.array")
pandas = pytest.importorskip("pandas")
frame = pytest.importorskip("dask.dataframe", exc_type=ImportError)


@pytest.fixture(autouse=True)
def here():
    with dask.config.set(scheduler="sync"):
        yield


def rows(n=20, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, 2))
    return X, np.where(X[:, 0] > 0, "a", "b")


@pytest.mark.parametrize("name", ["predict", "predict_proba"])
@pytest.mark.parametrize("empty", ["first", "last", "all"])
def test_answers_for_blocks_without_rows_have_the_shape_of_the_others(name, empty):
    X, y = rows()
    model = KernelClassifier("rbf", prior_variance=1.0).fit(X, y)
    kept = {"first": np.arange(20) > 7, "last": np.arange(20) < 12, "all": np.zeros(20, dtype=bool)}[empty]
    blocks = array.from_array(X, chunks=5)[array.from_array(kept, chunks=5)]
    expected = getattr(model, name)(X)[kept]
    found = getattr(model, name)(blocks).compute()
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_array_equal(found, expected) if name == "predict" else np.testing.assert_allclose(found, expected)


def test_so_do_those_for_frames_and_for_several_labels():
    X, y = rows()
    table = pandas.DataFrame(X, columns=["x", "z"])
    lazy = frame.from_pandas(table, npartitions=4)
    lazy = lazy[lazy["x"] > 10.0 * (lazy["z"] > 5.0)]
    model = MultiLabelCRF("rbf", prior_variance=1.0).fit(table, np.column_stack([y == "a", X[:, 1] > 0]).astype(int))
    chosen = table[table["x"] > 0.0]
    for name in ("predict", "predict_marginals"):
        np.testing.assert_allclose(getattr(model, name)(lazy).compute(), getattr(model, name)(chosen), atol=1e-12)


def cut(names, *ends):
    """A frame with the names of sequences, cut into partitions at these rows."""
    table = pandas.DataFrame({"s": names, "x": np.arange(len(names), dtype=float)})
    return frame.concat(
        [
            frame.from_pandas(table[begin:end], npartitions=1)
            for begin, end in itertools.pairwise([0, *ends, len(names)])
        ]
    )


@pytest.mark.parametrize("ends", [(), (2,), (1,), (2, 3), (1, 2, 3, 4)])
def test_a_sequence_lies_in_one_partition_and_its_rows_together(ends):
    with pytest.raises(ValueError, match=r"cut between partitions|do not stand together"):
        sequences_of_frame(cut([1, 1, 2, 1, 1], *ends), "s", ["x"]).compute()


def test_whole_sequences_are_taken_however_the_frame_is_cut():
    for ends in ((), (2,), (2, 3), (3,)):
        found = sequences_of_frame(cut([1, 1, 2, 3, 3], *ends), "s", ["x"]).compute()
        assert [each[:, 0].tolist() for each in found] == [[0.0, 1.0], [2.0], [3.0, 4.0]]


@pytest.mark.parametrize("names", [["a", None, None, "b"], [1.0, np.nan, 2.0, 2.0], [None] * 4])
def test_rows_without_the_name_of_a_sequence_are_named(names):
    with pytest.raises(ValueError, match=r"column 's' of partition 0 is missing in row \d: each row needs the name"):
        sequences_of_frame(cut(names), "s", ["x"])


@pytest.mark.parametrize(
    ("X", "y", "text"),
    [
        ((x for x in [[[0.0]]] * 4), [["a"]] * 4, "X is a generator"),
        ([[[0.0]]] * 4, (own for own in [["a"]] * 4), "y is a generator"),
        ([(x for x in [[0.0]])] * 4, [["a"]] * 4, "X holds a generator"),
    ],
)
@pytest.mark.parametrize("estimator", [ChainCRF(), ChainCRFCV(ChainCRF())])
def test_generators_are_refused_before_anything_is_sent(X, y, text, estimator):
    class Nothing:
        def run(self, *arguments, **settings):
            raise AssertionError("nothing is sent")

    with pytest.raises(TypeError, match=rf"{text}, which cannot be sent to the workers of a cluster\. Collect "):
        run_on_workers(Nothing(), estimator, "fit", (X, y, None), {})


def test_workers_say_their_version_where_the_package_is_not_installed(monkeypatch):
    """From a checkout on the path nothing but the source knows it."""
    given = importlib.metadata.version

    def version(name):
        if name == "kernelfields":
            raise importlib.metadata.PackageNotFoundError(name)
        return given(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    assert describe_worker(None).package == kernelfields.__version__
