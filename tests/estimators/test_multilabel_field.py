"""The parts of a multi-label field, as a search for edges uses them."""

import itertools

import numpy as np
import pytest
from labelled_instances import labelled_instances

from kernelfields import MultiLabelCRF
from kernelfields.estimators.multilabel_field import MultiLabelField
from kernelfields.inference.workers import Workers
from kernelfields.kernels import RBF
from kernelfields.structure import StructureSearch, improvement_bounds, learn_structure

X, Y = labelled_instances(150)
EDGES = list(itertools.combinations(range(4), 2))
SETTINGS = MultiLabelCRF(RBF(0.3), tol=1e-7, rank=30)


def field():
    random = np.random.default_rng(0)
    return MultiLabelField(SETTINGS, X, Y, np.ones(len(X)), range(4), workers=Workers(1), random=random)


def test_no_edge_brings_more_than_its_bound():
    problem = field()
    base = problem.label_spaces()
    candidates = problem.pair_spaces(EDGES)
    before = problem.fit(base)
    bounds = improvement_bounds(base, before.coefficients, candidates, problem.engine_of, 2, lambda each: 0)
    one_by_one = improvement_bounds(base, before.coefficients, candidates, problem.engine_of, 2)
    assert [each.bound for each in bounds.values()] == pytest.approx(
        [each.bound for each in one_by_one.values()], rel=1e-9
    )
    gap = sum(before.solution.gap_parts.values())
    for candidate in candidates:
        after = problem.fit([*base, candidate], [*before.coefficients, np.zeros((1, 1))])
        assert before.solution.value - after.solution.value <= bounds[candidate.name].bound + gap


def test_a_search_finds_the_pairs_that_depend_on_each_other():
    problem = field()
    path, spaces, fitted = learn_structure(
        problem.label_spaces(),
        problem.pair_spaces(EDGES),
        fit=problem.fit,
        engine_of=problem.engine_of,
        n_labels=2,
        search=StructureSearch(max_additions=2, threshold=1.0, validation=0.0),
        together=lambda each: 0,
    )
    assert set(path.added) == {"pair 0 ~ 1", "pair 2 ~ 3"}
    direct = field()
    whole = direct.fit(direct.spaces([(0, 1), (2, 3)]))
    assert fitted.solution.value == pytest.approx(whole.solution.value, rel=1e-6)
    assert len(spaces) == 4 + 4 + 2


def test_features_are_one_object_for_all_sets_that_share_them():
    problem = field()
    sets = [space.clique_features(2) for space in problem.spaces(EDGES)]
    features = {id(each.features) for each in sets if each.features is not None}
    assert len(features) == 1
    assert [each.name for each in sets][:5] == ["bias 0", "bias 1", "bias 2", "bias 3", "label 0"]
    np.testing.assert_array_equal(sets[6].positions, np.arange(2, 600, 4))
