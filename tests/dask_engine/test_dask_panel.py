"""Pivots chosen over shards are those of one machine, given the seed."""

import numpy as np
import pytest
from dask_fits import on_cluster, on_threads, sequences

from kernelfields import ChainCRF
from kernelfields.basis import GreedyCholesky, RandomCholesky, Uniform
from kernelfields.data import EdgeCliques, NodeCliques
from kernelfields.kernels import RBF, CallableKernel, Polynomial

pytest.importorskip("distributed")


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("basis", [RandomCholesky(), RandomCholesky(tol=0.05), GreedyCholesky(), Uniform()], ids=repr)
def test_the_seed_decides_the_pivots_wherever_the_rows_are(client, basis, dtype):
    crf = ChainCRF("rbf", basis=basis, rank=60, random_state=5, dtype=dtype)
    X, y = sequences(60)
    here, there = on_threads(crf, X, y)[2][0], on_cluster(crf, X, y, client)[2][0]
    np.testing.assert_array_equal(there.term.subspace.indices, here.term.subspace.indices)
    tolerance = 1e-10 if dtype == "float64" else 1e-5
    np.testing.assert_allclose(there.term.subspace.factor, here.term.subspace.factor, atol=tolerance)
    np.testing.assert_array_equal(there.term.subspace.pivots, here.term.subspace.pivots)
    assert there.term.subspace.kernel.gamma == pytest.approx(here.term.subspace.kernel.gamma, rel=1e-13)


def test_duplicates_and_low_rank_end_with_fewer_pivots(client):
    X, y = sequences(30, n_features=2)
    X = [np.round(x) for x in X]
    crf = ChainCRF(Polynomial(2, gamma=1.0), rank=50, random_state=0, dtype="float64")
    here, there = on_threads(crf, X, y)[2][0], on_cluster(crf, X, y, client)[2][0]
    assert here.term.subspace.rank == there.term.subspace.rank == 6
    np.testing.assert_array_equal(there.term.subspace.indices, here.term.subspace.indices)


def test_a_shard_without_cliques_of_a_set_takes_part(client):
    X, y = sequences(40)
    X = [x[:1] if index < 30 else x for index, x in enumerate(X)]
    y = [labels[:1] if index < 30 else labels for index, labels in enumerate(y)]
    cliques = [NodeCliques("rbf", rank=20), EdgeCliques(RBF(0.5), rank=20)]
    crf = ChainCRF(cliques=cliques, random_state=0, dtype="float64")
    here, there = on_threads(crf, X, y)[2], on_cluster(crf, X, y, client)[2]
    for mine, theirs in zip(there, here, strict=True):
        np.testing.assert_array_equal(mine.term.subspace.indices, theirs.term.subspace.indices)


def test_the_generator_ends_where_it_does_on_one_machine(client):
    X, y = sequences()
    here, there = np.random.default_rng(7), np.random.default_rng(7)
    on_threads(ChainCRF("rbf", rank=20, random_state=here), X, y)
    on_cluster(ChainCRF("rbf", rank=20, random_state=there), X, y, client)
    assert here.random() == there.random()


def test_what_is_no_kernel_is_found_out(client):
    crooked = CallableKernel(lambda X, Z: -(X @ Z.T), name="crooked")
    with pytest.raises(ValueError, match="positive semi-definite"):
        on_cluster(ChainCRF(crooked, random_state=0), *sequences(), client)
