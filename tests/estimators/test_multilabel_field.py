"""The parts of a multi-label field, as a search for edges uses them."""

import itertools

import numpy as np
import pytest

from benchmarks.fit_parts import parts_of_fit
from kernelfields import MultiLabelCRF
from kernelfields.kernels.stationary import RBF
from kernelfields.models.fit import FitOptions, fit_field
from kernelfields.structure.bounds import improvement_bounds
from kernelfields.structure.search import StructureSearch, learn_structure
from tests.samples import labelled_instances

X, Y = labelled_instances(150)
EDGES = list(itertools.combinations(range(4), 2))
OPTIONS = FitOptions("auto", tol=1e-7, max_iter=100)


def field():
    """The sample of a field in which all labels may meet, and what makes terms on it."""
    crf = MultiLabelCRF(RBF(0.3), prior_variance=1.0, tol=1e-7, rank=30, label_graph="full", random_state=0)
    training, sample, _ = parts_of_fit(crf, X, Y)
    return sample, crf._terms(sample, training)


def test_no_edge_brings_more_than_its_bound():
    sample, terms = field()
    base, candidates = terms.label_designs(), terms.pair_designs(EDGES)
    before = fit_field(base, sample, OPTIONS)
    bounds = improvement_bounds(base, before.coefficients, candidates, sample, lambda present, offered: [offered])
    one_by_one = improvement_bounds(base, before.coefficients, candidates, sample)
    assert [each.bound for each in bounds.values()] == pytest.approx(
        [each.bound for each in one_by_one.values()], rel=1e-9
    )
    gap = sum(before.solution.gap_parts.values())
    for candidate in candidates:
        start = [*before.coefficients, np.zeros((1, 1))]
        after = fit_field([*base, candidate], sample, OPTIONS, start=start)
        assert before.solution.value - after.solution.value <= bounds[candidate.name].bound + gap


def test_a_search_finds_the_pairs_that_depend_on_each_other():
    sample, terms = field()
    path, designs, fitted = learn_structure(
        terms.label_designs(),
        terms.pair_designs(EDGES),
        sample,
        StructureSearch(max_additions=2, threshold=1.0, validation=0.0),
        OPTIONS,
        batches=lambda present, offered: [offered],
    )
    assert set(path.added) == {"pair 0 ~ 1", "pair 2 ~ 3"}
    sample, terms = field()
    whole = fit_field(terms.designs([(0, 1), (2, 3)]), sample, OPTIONS)
    assert fitted.solution.value == pytest.approx(whole.solution.value, rel=1e-6)
    assert len(designs) == 4 + 4 + 2


def test_features_are_one_object_for_all_terms_that_share_them():
    designs = field()[1].designs(EDGES)
    features = {id(each.features) for each in designs if each.features is not None}
    assert len(features) == 1
    assert [each.name for each in designs][:5] == ["bias 0", "bias 1", "bias 2", "bias 3", "label 0"]
    np.testing.assert_array_equal(designs[6].positions, np.arange(2, 600, 4))
