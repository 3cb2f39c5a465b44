"""Certificates are true: the best value, found by a much tighter fit, lies where they say."""

import numpy as np
import pytest
from sklearn.base import clone

from kernelfields import ChainCRF, EdgeCliques, NodeCliques, StartCliques
from kernelfields.basis import Gradient
from kernelfields.kernels import RBF
from tests.samples import labelled_sequences

X, y = labelled_sequences(n_sequences=14)
N_POSITIONS = sum(map(len, X))
SPELLED = [
    NodeCliques(RBF(gamma=0.3), rank=10, prior_variance=2.0),
    NodeCliques("linear", prior_variance=0.2),
    StartCliques(prior_variance=0.5),
    EdgeCliques(),
    EdgeCliques(RBF(gamma=0.1), rank=6, prior_variance=0.4, name="edge_inputs"),
]
FIELDS = {
    "pivots": {"kernel": RBF(gamma=0.3), "rank": 10},
    "greedy": {"kernel": RBF(gamma=0.3), "rank": 10, "basis": "greedy-cholesky", "prior_variance": 5.0},
    "linear": {"kernel": "linear"},
    "edge kernel": {"kernel": RBF(gamma=0.3), "edges": EdgeCliques(RBF(gamma=0.1)), "rank": 10},
    "label matrix": {
        "cliques": [
            NodeCliques(RBF(gamma=0.3), rank=10, label_kernel=np.eye(3) + 0.5 * np.eye(3)[::-1]),
            EdgeCliques(),
        ]
    },
    "spelled out": {"cliques": SPELLED},
}


def fit(**settings):
    return ChainCRF(**{"random_state": 0, "max_iter": 2000, "n_jobs": 1, **settings}).fit(X, y)


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize("tol", [0.3, 1e-2, 1e-4])
def test_the_span_certificate_brackets_the_best_value(name, tol):
    crf = fit(tol=tol, **FIELDS[name])
    best = fit(tol=1e-11, **FIELDS[name]).solution_
    assert crf.certificate_.scope == "span"
    assert crf.certificate_.exact
    assert crf.certificate_.relative_gap <= tol
    slack = 1e-10 * best.value
    assert crf.certificate_.lower_bound <= best.value + slack
    assert best.lower_bound <= crf.certificate_.value + slack
    again = crf.certify(X, y, scope="span")
    assert again.value == pytest.approx(crf.certificate_.value, rel=1e-10)
    assert again.lower_bound <= best.value + slack
    # certify knows the last point only; the fit remembers cuts at earlier ones, and can only be tighter.
    assert again.lower_bound <= crf.certificate_.lower_bound + slack
    assert again.parts == pytest.approx(crf.certificate_.parts, rel=1e-5, abs=1e-9)


def test_a_summary_shows_the_free_certificate_where_it_proves_something():
    vacuous, exact = fit(kernel=RBF(gamma=3.0), rank=2, prior_variance=100.0), fit(kernel="linear")
    assert vacuous.rkhs_certificate_.lower_bound == 0.0
    assert [own.scope for own in vacuous.summary().certificates] == ["span"]
    assert [own.scope for own in exact.summary().certificates] == ["span", "rkhs"]


@pytest.mark.parametrize("name", FIELDS)
def test_the_rkhs_certificates_bound_the_best_of_all_functions(name):
    settings = FIELDS[name]
    crf = fit(tol=1e-6, **settings)
    if "cliques" in settings:
        everything = {"cliques": [clone(clique).set_params(basis="all") for clique in settings["cliques"]]}
    else:
        everything = {**settings, "basis": "all"}
    best = fit(tol=1e-11, **everything).solution_
    exact, free = crf.certify(X, y), crf.rkhs_certificate_
    slack = 1e-9 * best.value
    assert exact.scope == free.scope == "rkhs"
    assert exact.exact
    assert free.exact == (name == "linear")
    assert exact.value == pytest.approx(crf.solution_.value, rel=1e-10)
    assert free.lower_bound <= exact.lower_bound + slack
    assert exact.lower_bound <= best.value + slack
    assert best.value <= crf.solution_.value + slack
    assert set(exact.parts) == set(crf.coef_)


def test_certificates_of_a_constrained_field():
    labels = [each.copy() for each in y]
    for each in labels:
        for t in range(1, len(each)):
            if each[t - 1] == 0 and each[t] == 2:
                each[t] = 0
    settings = {"kernel": RBF(gamma=0.3), "random_state": 0, "max_iter": 2000, "constraints": [(0, 2)]}
    best = ChainCRF(basis="all", tol=1e-11, **settings).fit(X, labels).solution_.value
    crf = ChainCRF(rank=10, tol=1e-6, **settings).fit(X, labels)
    exact = crf.certify(X, labels)
    assert exact.value == pytest.approx(crf.solution_.value, rel=1e-10)
    assert crf.rkhs_certificate_.lower_bound <= exact.lower_bound <= best <= crf.solution_.value
    assert crf.certify(X, labels, scope="span").relative_gap < 1e-5


def test_the_rkhs_gap_closes_when_every_point_is_in_the_basis():
    crf = fit(kernel=RBF(gamma=0.3), basis="all", tol=1e-9)
    assert crf.certify(X, y).relative_gap < 1e-7
    assert crf.rkhs_certificate_.relative_gap < 1e-6


@pytest.mark.parametrize("tol", [3e-2, 1e-2])
def test_a_gradient_basis_grows_until_its_certificate_is_good(tol):
    """Corollary 10 as a stopping rule: the fit ends when no function at all can be much better."""
    basis = Gradient(initial=4)
    crf = fit(kernel=RBF(gamma=0.05), basis=basis, rank=None, tol=tol)
    best = fit(kernel=RBF(gamma=0.05), basis="all", tol=1e-11).solution_.value
    assert crf.rkhs_certificate_.exact
    assert crf.rkhs_certificate_.relative_gap <= tol
    assert crf.rkhs_certificate_.lower_bound <= best + 1e-9
    assert crf.solution_.value <= best * (1 + 2 * tol)
    assert 4 < crf.basis_["node"].rank < N_POSITIONS
    numbers = [each.iteration for each in crf.solution_.history]
    assert numbers == list(range(len(numbers)))
    assert np.all(np.diff([each.passes for each in crf.solution_.history]) >= 0)
    assert crf.certify(X, y).lower_bound == pytest.approx(crf.rkhs_certificate_.lower_bound, rel=1e-6)


def test_a_gradient_basis_stops_at_its_rank_and_says_how_far_it_got():
    crf = fit(kernel=RBF(gamma=0.3), basis=Gradient(initial=4), rank=12, tol=1e-3)
    assert crf.basis_["node"].rank == 12
    best = fit(kernel=RBF(gamma=0.3), basis="all", tol=1e-11).solution_.value
    assert crf.rkhs_certificate_.relative_gap > 1e-3
    assert crf.rkhs_certificate_.lower_bound <= best <= crf.solution_.value
    assert crf.certificate_.relative_gap <= 1e-3


def test_unknown_scope():
    with pytest.raises(ValueError, match="scope must be 'rkhs' or 'span', got 'all'"):
        fit().certify(X, y, scope="all")
