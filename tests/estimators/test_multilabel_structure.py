"""StructureSearch(MultiLabelCRF()): pairs that depend on each other are found; gains keep to their bounds."""

import itertools

import numpy as np
import pytest

from kernelfields import MultiLabelCRF
from kernelfields.inference.graph_families import has_exact_labels
from kernelfields.selection import StructureSearch


def dependent(seed=0, n_instances=400):
    """Five labels: 0 and 1 mostly alike, 2 and 3 mostly different, 4 by itself."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_instances, 3))
    Y = (X @ random.normal(size=(3, 5)) + random.logistic(size=(n_instances, 5)) > 0).astype(int)
    Y[:, 1] = np.where(random.random(n_instances) < 0.7, Y[:, 0], Y[:, 1])
    Y[:, 3] = np.where(random.random(n_instances) < 0.7, 1 - Y[:, 2], Y[:, 3])
    return X, Y


@pytest.mark.slow
def test_the_true_pairs_are_learnt():
    X, Y = dependent()
    crf = StructureSearch(MultiLabelCRF("linear", random_state=0)).fit(X[:300], Y[:300])
    assert {(0, 1), (2, 3)} <= set(crf.label_edges_)
    assert {crf.structure_path_.steps[1].added[0], crf.structure_path_.steps[2].added[0]} == {
        "pair 0 ~ 1",
        "pair 2 ~ 3",
    }
    assert crf.edge_scores_[(0, 1)] > 1.0
    assert crf.edge_scores_[(2, 3)] < -1.0
    alone = MultiLabelCRF("linear", label_graph="none", random_state=0).fit(X[:300], Y[:300])
    assert crf.log_likelihood(X[300:], Y[300:]) > alone.log_likelihood(X[300:], Y[300:]) + 10


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_no_pair_brings_more_than_its_bound(seed):
    X, Y = dependent(seed, 80)
    crf = MultiLabelCRF("rbf", rank=20, random_state=0)
    path = StructureSearch(crf, max_additions=10, threshold=0.0, validation=0.0).fit(X, Y).structure_path_
    assert len(path.added) == 10
    assert all(step.gain <= step.bound + 1e-9 for step in path.steps[1:])


def test_candidates_may_be_named_and_the_choice_is_saved(tmp_path):
    X, Y = dependent()
    crf = StructureSearch(MultiLabelCRF("linear", random_state=0), [(0, 1), (0, 4)], validation=0.3).fit(X, Y)
    assert (0, 1) in crf.label_edges_
    assert set(crf.label_edges_) <= {(0, 1), (0, 4)}
    crf.save(tmp_path / "model")
    loaded = MultiLabelCRF.load(tmp_path / "model")
    assert loaded.label_edges_ == crf.label_edges_
    assert loaded.log_likelihood(X, Y) == crf.log_likelihood(X, Y)


def test_what_was_added_at_once_is_taken_back_by_halves_and_printed():
    X, Y = dependent(0, 80)
    crf = MultiLabelCRF("rbf", rank=20, random_state=0)
    path = StructureSearch(crf, threshold=0.0, max_additions=10).fit(X, Y).structure_path_
    size = 1
    for step in path.steps[1:]:
        assert len(step.added) <= size
        size = 2 * len(step.added) if step.kept else max(1, len(step.added) // 2)
    several = next(step for step in path.steps if len(step.added) > 1)
    assert f"{several.added[0]}, {several.added[1]}" in str(path)
    assert path.to_dict()["steps"][path.steps.index(several)]["added"] == several.added
    left = set(path.left)
    assert not left & set(path.added)


def test_a_search_keeps_the_graph_of_many_labels_narrow():
    complete = list(itertools.combinations(range(14), 2))
    chain = [(k, k + 1) for k in range(29)]
    assert has_exact_labels(14, complete, "auto", n_instances=1000, tied=True)
    assert has_exact_labels(30, chain, "auto", n_instances=1000, tied=True)
    assert not has_exact_labels(30, complete, "auto", n_instances=1000, tied=True)
    assert not has_exact_labels(14, complete, "junction", n_instances=1000, tied=True)
    assert has_exact_labels(30, complete, "trw", n_instances=1000, tied=True)


def test_bad_searches_are_named():
    X, Y = dependent(0, 30)
    with pytest.raises(ValueError, match="cannot be split"):
        StructureSearch(MultiLabelCRF("linear"), validation=0.001).fit(X, Y)
    with pytest.raises(ValueError, match=r"candidates\[0\] joins label 1 with itself"):
        StructureSearch(MultiLabelCRF("linear"), [(1, 1)]).fit(X, Y)
    with pytest.raises(TypeError, match="candidates must be a list of pairs of labels"):
        StructureSearch(MultiLabelCRF("linear"), "all").fit(X, Y)
    with pytest.raises(ValueError, match=r"a list of pairs, such as .*StructureSearch chooses, got"):
        MultiLabelCRF("linear", label_graph="learn").fit(X, Y)
    with pytest.raises(ValueError, match="needs exact inference"):
        StructureSearch(MultiLabelCRF("linear", inference="trw", random_state=0)).fit(X, Y)
