"""The kernel of a forest: grown on labelled inputs, the share of trees in which two of them fall into one leaf."""

import json

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier

from kernelfields import (
    ChainCRF,
    EdgeCliques,
    GraphCRF,
    KernelClassifier,
    MultiLabelCRF,
    NodeCliques,
    SegmentCRF,
)
from kernelfields.data import LabelSymmetry
from kernelfields.kernels import RBF, Columns, Forest, Sum, check_positive_semidefinite
from kernelfields.kernels.registry import kernel_from_spec
from kernelfields.serving import ServingError, load_chain, to_onnx
from tests.samples import labelled_sequences

X, Y = labelled_sequences(n_sequences=30, longest=8, n_labels=3)
ROWS, LABELS = np.vstack(X), np.concatenate(Y)
SMALL = Forest(n_trees=20, min_samples_leaf=3)
SEVERAL = np.column_stack([LABELS == 0, LABELS == 1]).astype(int)
FIXED = {"prior_variance": 10.0, "scale": False}


def test_values_are_shares_of_the_leaves_of_scikit_learn():
    kernel = SMALL.resolve(ROWS, labels=LABELS)
    trees = ExtraTreesClassifier(20, min_samples_leaf=3, random_state=0).fit(ROWS, LABELS)
    leaves, others = trees.apply(ROWS), trees.apply(ROWS[:7])
    expected = (leaves[:, None] == others).mean(axis=2)
    np.testing.assert_allclose(kernel(ROWS, ROWS[:7]), expected, atol=1e-15)
    np.testing.assert_array_equal(kernel(sp.csr_array(ROWS), ROWS[:7]), kernel(ROWS, ROWS[:7]))
    assert kernel(ROWS.astype(np.float32)).dtype == np.float32
    np.testing.assert_array_equal(kernel.diag(ROWS), np.ones(len(ROWS)))
    check_positive_semidefinite(kernel, ROWS)


def test_weights_of_rows_count_in_the_trees():
    weights = np.where(LABELS == 0, 1.0, 1e-9)
    assert SMALL.resolve(ROWS, weights, LABELS) != SMALL.resolve(ROWS, labels=LABELS)


def test_descriptions_hold_the_trees():
    kernel = SMALL.resolve(ROWS, labels=LABELS)
    again = kernel_from_spec(kernel.spec())
    np.testing.assert_array_equal(again(ROWS), kernel(ROWS))
    assert clone(kernel) == kernel
    assert kernel.resolve(ROWS) == kernel
    assert kernel_from_spec(json.loads(json.dumps(SMALL.spec()))) == SMALL


@pytest.mark.slow
def test_fields_of_all_kinds_take_it(tmp_path):
    chain = ChainCRF("forest", **FIXED).fit(X, Y)
    assert chain.score(X, Y) > ChainCRF("linear", **FIXED).fit(X, Y).score(X, Y)
    chain.save(tmp_path / "model")
    for read in (ChainCRF.load(tmp_path / "model"), load_chain(tmp_path / "model")):
        ours, theirs = (np.concatenate(model.predict_marginals(X)) for model in (read, chain))
        np.testing.assert_allclose(ours, theirs, atol=1e-12)
    for kernel in (Sum(RBF(), SMALL), Columns(SMALL, 0, 2), 2.0 * SMALL):
        assert ChainCRF(kernel, **FIXED).fit(X, Y).score(X, Y) > 0.5
    assert KernelClassifier(SMALL, **FIXED).fit(ROWS, LABELS).score(ROWS, LABELS) > 0.7
    several, straight = (MultiLabelCRF(kernel, **FIXED).fit(ROWS, SEVERAL) for kernel in (SMALL, "linear"))
    assert several.score(ROWS, SEVERAL) > straight.score(ROWS, SEVERAL)
    assert SegmentCRF(SMALL, **FIXED).fit(X, Y).score(X, Y) > 0.7
    graphs = [(x, np.column_stack([np.arange(len(x) - 1), np.arange(1, len(x))])) for x in X]
    assert GraphCRF(SMALL, **FIXED).fit(graphs, Y).score(graphs, Y) > 0.7
    pytest.importorskip("onnx")
    with pytest.raises(ServingError, match="the kernel 'forest' has no form in ONNX"):
        to_onnx(chain, tmp_path / "model.onnx")


def test_trees_grow_on_the_labels_that_are_known():
    some = np.where(np.arange(len(LABELS)) % 2, LABELS, -1)
    weights = np.linspace(1, 2, len(LABELS))
    found = SMALL.resolve(ROWS, weights, some).trees
    np.testing.assert_array_equal(found, SMALL.resolve(ROWS[1::2], weights[1::2], LABELS[1::2]).trees)
    gaps = [[None, *own[1:]] for own in Y]
    chain = ChainCRF(SMALL, **FIXED).fit(X, gaps)
    known = np.concatenate([np.arange(len(own)) > 0 for own in Y])
    grown = SMALL.resolve(ROWS[known], labels=LABELS[known]).trees
    np.testing.assert_array_equal(chain.field_.terms[0].subspace.kernel.trees, grown)


def test_where_single_labels_are_not_known_it_is_refused():
    message = "Forest: trees are grown on known labels of inputs"
    for fit in (
        lambda: ChainCRF(cliques=[NodeCliques("rbf"), EdgeCliques(SMALL)], scale=False).fit(X, Y),
        lambda: MultiLabelCRF("linear", edges=EdgeCliques(SMALL), **FIXED).fit(ROWS, SEVERAL),
        lambda: SMALL.resolve(ROWS),
        lambda: SMALL.resolve(ROWS, labels=np.full(len(ROWS), -1)),
    ):
        with pytest.raises(ValueError, match=message):
            fit()
    with pytest.raises(ValueError, match=r"Forest: call resolve\(X, labels=...\)"):
        SMALL(ROWS)


@pytest.mark.parametrize(
    ("trees", "message"),
    [
        ("oak", "trees must be an array of numbers"),
        ([[0.0, 1.0]], r"trees must be an array \(nodes, 4\)"),
        ([[0, np.nan, 1, 2]], "finite numbers"),
        ([[0, 0, 0, 0]], "two later nodes"),
        ([[0, 0, 1, 2], [-1, 0, 1, 1]], "two later nodes"),
        ([[0, 0, 1, 1], [-1, 0, 1, 1]], "two later nodes"),
        ([[-1, 0, 0, 5]], "two later nodes"),
        ([[9, 0, 1, 2], [-1, 0, 1, 1], [-1, 0, 2, 2]], "trees compare column 9"),
    ],
)
def test_trees_are_checked(trees, message):
    with pytest.raises(ValueError, match=message):
        Forest(trees=trees)(ROWS)


@pytest.mark.slow
def test_labels_that_share_weights_by_moved_columns_need_another_kernel():
    ties = LabelSymmetry({0: 1, 1: 0}, columns={0: 1, 1: 0})
    with pytest.raises(ValueError, match="changes when ties move the columns"):
        ChainCRF(SMALL, ties=ties, **FIXED).fit(X, Y)
    readings = [x * ([1.0, 1.0] + [100.0] * (x.shape[1] - 2)) for x in 3 * X]
    left = ChainCRF(ties=ties, tol=0.1).fit(readings, 3 * Y)
    tried = {trial.settings["kernel"] for trial in left.choices_.trials if "kernel" in trial.settings}
    assert tried == {"linear", "rbf", "laplacian"}
