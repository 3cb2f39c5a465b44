import gzip
import io
import os
import re
import sys
import zipfile
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from kernelfields.formats import SequenceFileError, read_arrays

DENSE = np.arange(12.0).reshape(6, 2)
OFFSETS = np.array([0, 2, 6])
SPARSE = {
    "data": np.array([1.0, 2.0, 3.0]),
    "indices": np.array([0, 4, 1]),
    "indptr": np.array([0, 1, 1, 2, 2, 2, 3]),
    "n_features": np.array(5),
}


@pytest.fixture
def save(tmp_path):
    def arrays(**arrays):
        np.savez(tmp_path / "data.npz", **arrays)
        return tmp_path / "data.npz"

    return arrays


def test_sparse_inputs_are_put_together_from_their_parts(save):
    whole = sp.csr_array((SPARSE["data"], SPARSE["indices"], SPARSE["indptr"]), shape=(6, 5)).toarray()
    found = read_arrays(save(**SPARSE, offsets=OFFSETS, y=np.arange(6), weights=np.array([1, 2])))
    assert np.array_equal(np.vstack([x.toarray() for x in found.X]), whole)
    assert [x.shape for x in found.X] == [(2, 5), (4, 5)]
    assert found.weights.tolist() == [1.0, 2.0]
    assert found.y[1].tolist() == [2, 3, 4, 5]


def test_other_names_are_told_by_a_mapping(save):
    path = save(position=DENSE, begin=OFFSETS, state=np.array([0, 1] * 3))
    found = read_arrays(path, names={"X": "position", "offsets": "begin", "y": "state"})
    assert np.array_equal(np.vstack(found.X), DENSE)
    assert found.y[0].tolist() == [0, 1]
    both = save(X=DENSE, offsets=OFFSETS, y=np.zeros(6, int), label=np.ones(6, int), **SPARSE)
    assert read_arrays(both, names={"y": "label", "X": "X"}).y[0].tolist() == [1, 1]


def changed(**arrays):
    return {"X": DENSE, "offsets": OFFSETS, "y": np.arange(6)} | arrays


def without(name):
    return {key: array for key, array in (SPARSE | {"offsets": OFFSETS}).items() if key != name}


@pytest.mark.parametrize(
    ("arrays", "names", "message"),
    [
        ({"X": DENSE}, None, "has no array 'offsets'; it holds X. If it is called otherwise, say so"),
        ({"offsets": OFFSETS, "pixels": DENSE}, None, "no array 'X'; it holds offsets, pixels"),
        (changed(), {"X": "pixels"}, "has no array 'pixels'; it holds X, offsets, y."),
        (changed(X=DENSE.ravel()), None, "array 'X' is float64 of shape (12,), expected numbers of shape"),
        (changed(X=DENSE.astype(str)), None, "array 'X' is <U32"),
        (changed(offsets=np.array([0.0, 6.0])), None, "array 'offsets' is float64 of shape (2,), expected a flat"),
        (changed(offsets=np.array([0, 5])), None, "array 'offsets' runs from 0 to 5, expected from 0 to 6"),
        (changed(offsets=np.array([1, 6])), None, "runs from 1 to 6"),
        (changed(offsets=np.array([], dtype=int)), None, "runs nowhere"),
        (changed(offsets=np.array([0, 2, 2, 6])), None, "leaves sequence 1 without rows"),
        (changed(offsets=np.array([0, 5, 2, 6], dtype=np.uint8)), None, "leaves sequence 1 without rows"),
        (changed(y=np.arange(5)), None, "array 'y' has shape (5,), expected (6,), one label per position"),
        (changed(y=np.full(6, 2**30, dtype=np.uint32).view("U1")), None, "array 'y' holds texts with characters"),
        (changed(weights=np.ones(3)), None, "array 'weights' has 3 entries, but there are 2 sequences"),
        (changed(weights=np.array(["a", "b"])), None, "array 'weights' is <U1"),
        (SPARSE | {"offsets": OFFSETS, "X": DENSE}, None, "holds both X and the parts of a CSR"),
        (without("indptr"), None, "no array 'indptr'"),
        (without("indices"), None, "no array 'indices'"),
        (without("n_features"), None, "no array 'n_features'"),
        (
            SPARSE | {"offsets": OFFSETS, "n_features": np.array([5, 6])},
            None,
            "array 'n_features' is int64 of shape",
        ),
        (SPARSE | {"offsets": OFFSETS, "n_features": np.array(4)}, None, "array 'indices' runs from 0 to 4"),
        (SPARSE | {"offsets": OFFSETS, "data": np.ones(2)}, None, "array 'data' has 2 entries"),
        (SPARSE | {"offsets": OFFSETS, "indptr": np.array([0, 2, 1])}, None, "array 'indptr' must begin with 0"),
        (SPARSE | {"offsets": OFFSETS, "indptr": np.array([0, 2])}, None, "array 'indptr' ends at 2"),
    ],
)
def test_arrays_that_do_not_fit_are_named(save, arrays, names, message):
    path = save(**arrays)
    with pytest.raises(SequenceFileError, match=re.escape(message)) as error:
        read_arrays(path, names=names)
    assert str(path) in str(error.value)


def test_parts_that_mean_nothing_are_refused(save):
    with pytest.raises(ValueError, match="names has the key 'pixels'"):
        read_arrays(save(X=DENSE, offsets=OFFSETS), names={"pixels": "X"})


def test_objects_are_never_loaded_and_other_files_refused(tmp_path, save):
    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "sprung"),)

    path = save(X=np.array([[Trap()]]), offsets=np.array([0, 1]))
    with pytest.raises(SequenceFileError, match=r"holds Python objects, which are never loaded \(.*allow_pickle"):
        read_arrays(path)
    assert not (tmp_path / "sprung").exists()
    content = save(X=DENSE, offsets=OFFSETS).read_bytes()
    buffer = io.BytesIO()
    np.save(buffer, DENSE)
    flipped = bytearray(content)
    flipped[content.index(DENSE.tobytes())] ^= 1
    for damaged in (content[:-30], content[:100], flipped):
        path.write_bytes(damaged)
        with pytest.raises(SequenceFileError, match="is damaged"):
            read_arrays(path)
    path.write_bytes(b"")
    with pytest.raises(SequenceFileError, match=r"is empty, expected an \.npz file"):
        read_arrays(path)
    for other in (b"text", buffer.getvalue()):
        path.write_bytes(other)
        with pytest.raises(SequenceFileError, match=r"is not an \.npz file"):
            read_arrays(path)
    path.write_bytes(gzip.compress(content))
    assert len(read_arrays(path).X) == 2
    path.write_bytes(gzip.compress(content)[:-10])
    with pytest.raises(SequenceFileError, match=r"data\.npz: the gzip data are damaged"):
        read_arrays(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("X", b"text")
    with pytest.raises(SequenceFileError, match="'X' is no array"):
        read_arrays(path)


def test_standard_input(monkeypatch):
    buffer = io.BytesIO()
    np.savez(buffer, X=DENSE, y=np.arange(6), offsets=np.array([0, 6]))
    content = io.BufferedReader(io.BytesIO(buffer.getvalue()))
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=content))
    assert np.array_equal(read_arrays("-").X[0], DENSE)
