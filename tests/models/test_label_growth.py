"""Terms, precisions and choices of a field that gets labels: old labellings keep theirs, others those of the prior."""

import itertools

import numpy as np
import pytest
import scipy.linalg

from kernelfields import EdgeCliques, NodeCliques, StartCliques
from kernelfields.basis import ConstantSubspace, PivotSubspace
from kernelfields.data import DurationCliques, GraphFactors, OrderCliques
from kernelfields.kernels import RBF, Constant
from kernelfields.models.build import resolve_clique
from kernelfields.models.choices import Choices
from kernelfields.models.continuation import Continuation
from kernelfields.models.label_growth import LabelGrowth, has_separate_coordinates
from kernelfields.objective.designs.pairs import EVERY_PAIR
from kernelfields.objective.term import Term, label_factor

#: Of labels b, d and e there come a and c.
GROWTH = LabelGrowth.between(np.array(["b", "d", "e"]), np.array(["a", "b", "c", "d", "e"]))
CONSTANT = {
    "starts": StartCliques(prior_variance=0.5),
    "transitions": EdgeCliques(prior_variance=0.5),
    "centred transitions": EdgeCliques(prior_variance=0.5, label_kernel="centred"),
    "three labels": OrderCliques(order=2, prior_variance=0.5),
    "without direction": GraphFactors(symmetric=True, prior_variance=0.5),
}


def fitted_term(clique, rank=1, seed=0):
    clique, random = resolve_clique(clique), np.random.default_rng(seed)
    subspace = ConstantSubspace(Constant(1.0))
    if rank > 1:
        subspace = PivotSubspace(RBF(1.0), random.normal(size=(rank, 2)), np.eye(rank), np.arange(rank))
    term = Term(clique, "set", subspace, label_factor(clique, 3, EVERY_PAIR))
    width = 3**clique.labels_per_clique if term.label_factor is None else term.label_factor.shape[1]
    return term.fitted(random.normal(size=(rank, width)))


@pytest.mark.parametrize("clique", [*CONSTANT.values(), NodeCliques(RBF(1.0)), OrderCliques(RBF(1.0), order=2)])
def test_scores_of_old_labellings_stay_and_those_with_new_labels_are_zero(clique):
    term = fitted_term(clique, 1 if clique.kernel is None else 4)
    grown = GROWTH.term(term)
    k = term.labels_per_clique
    scores, before = grown.to_labellings(grown.known), term.to_labellings(term.known)
    for number, labelling in enumerate(itertools.product("abcde", repeat=k)):
        old = ["bde".find(label) for label in labelling]
        expected = before[:, np.ravel_multi_index(old, (3,) * k)] if min(old) >= 0 else 0.0
        np.testing.assert_allclose(scores[:, number], expected, atol=1e-12)
    # The prior finds them as likely as before.
    assert np.sum(grown.known**2) == pytest.approx(np.sum(term.known**2))


def test_one_table_of_all_labels_is_that_of_new_ones():
    term = fitted_term(DurationCliques(RBF(1.0), shared=True, max_duration=4), 4)
    grown = GROWTH.term(term)
    assert np.array_equal(grown.known, term.known)
    assert np.allclose(grown.to_labellings(grown.known), term.to_labellings(term.known)[:, :1])


@pytest.mark.parametrize("name", CONSTANT)
def test_precisions_measure_old_scores_as_before_and_new_ones_by_the_prior(name):
    term = fitted_term(CONSTANT[name])
    (first,) = Continuation.begin([term]).precisions
    random = np.random.default_rng(1)
    curvature = random.uniform(1.0, 9.0, 3**term.labels_per_clique)
    factor = np.eye(len(curvature)) if term.label_factor is None else term.label_factor
    learnt = factor.T @ np.diag(curvature) @ factor
    known = first + (np.diag(learnt) if first.ndim == 1 else learnt)
    grown = GROWTH.term(term)
    (found,) = GROWTH.precisions([term], [grown], [known])
    assert found.ndim == first.ndim
    whole = found if found.ndim == 2 else np.diag(found)
    own = known if known.ndim == 2 else np.diag(known)
    for _ in range(5):  # a square of scores of old labellings is what it was
        values = random.normal(size=term.known.shape)
        moved = GROWTH.term(term.fitted(values)).known
        assert (moved @ whole @ moved.T).item() == pytest.approx((values @ own @ values.T).item())
    inside = np.vstack([GROWTH.term(term.fitted(row[None])).known for row in np.eye(term.known.shape[1])])
    outside = scipy.linalg.null_space(inside)
    np.testing.assert_allclose(outside.T @ whole @ outside, np.eye(outside.shape[1]) / 0.5, atol=1e-9)
    np.testing.assert_allclose(inside @ whole @ outside, 0.0, atol=1e-9)


def test_diagonals_are_kept_where_labellings_have_coordinates_of_their_own():
    kept = {name: has_separate_coordinates(fitted_term(clique)) for name, clique in CONSTANT.items()}
    assert kept == {
        "starts": False,
        "transitions": True,
        "centred transitions": False,
        "three labels": True,
        "without direction": True,
    }


def test_precisions_of_older_files_were_diagonals():
    term = fitted_term(CONSTANT["starts"])
    described = {"precisions": [np.array([3.0, 4.0])], "settings": {}}
    assert np.array_equal(Continuation.rebuild(described, [term]).precisions[0], np.diag([3.0, 4.0]))
    with pytest.raises(ValueError, match="do not fit the terms"):
        Continuation.rebuild({"precisions": [np.array([3.0])], "settings": {}}, [term])


def test_thresholds_follow_their_labels():
    choices = Choices({"kernel": "rbf", "thresholds": [1.0, 0.2, 0.3]})
    assert choices.with_labels(GROWTH.places, 5).chosen["thresholds"] == [1.0, 1.0, 1.0, 0.2, 0.3]
    assert Choices({"kernel": "rbf"}).with_labels(GROWTH.places, 5).chosen == {"kernel": "rbf"}
