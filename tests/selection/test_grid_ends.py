"""Where the best candidate lies at an end of its grid, the search looks further, or says so."""

import numpy as np
import pytest
from search_sequences import search_sequences

from kernelfields import ChainCRF, ChainCRFCV
from kernelfields.kernels import RBF, Linear, Matern
from kernelfields.selection.candidates import Candidate, grid_ends
from kernelfields.selection.search import MOST_STEPS

X, y = search_sequences(12)
CRF = ChainCRF(rank=6, max_iter=500)


def grid_of(kernels, variances, edges=(None,)):
    edge_part = [{} if edge is None else {"edges__prior_variance": edge} for edge in edges]
    return [
        Candidate({"kernel": kernel, "rank": 5, **edge, "prior_variance": variance})
        for kernel in kernels
        for edge in edge_part
        for variance in variances
    ]


def beyond(candidates, params):
    """Axis, side and parameters beyond, for the candidate with some parameters."""
    best = next(each for each in candidates if params.items() <= each.params.items())
    return {end.axis: (end.further > end.value, end.beyond) for end in grid_ends(best, candidates, candidates)}


def test_the_next_value_is_as_far_away_as_the_last_one():
    listed = grid_of([RBF(0.1), RBF(0.3), RBF(3.0)], [1.0, 0.01, 0.1])
    assert beyond(listed, {"kernel": RBF(0.3), "prior_variance": 0.1}) == {}
    highest, candidate = beyond(listed, {"kernel": RBF(0.3), "prior_variance": 1.0})["prior variance"]
    assert highest
    assert candidate.params == {"kernel": RBF(0.3), "rank": 5, "prior_variance": 10.0}
    assert candidate.path == listed[3].path
    ends = beyond(listed, {"kernel": RBF(3.0), "prior_variance": 0.01})
    assert set(ends) == {"prior variance", "gamma"}
    assert ends["prior variance"][1].params["prior_variance"] == 0.001
    assert ends["gamma"][1].params["kernel"] == RBF(30.0)
    # Another kernel has other features.
    assert ends["gamma"][1].path not in {each.path for each in listed}
    assert beyond(listed, {"kernel": RBF(0.1), "prior_variance": 0.1})["gamma"][1].params["kernel"] == RBF(0.0333333)


def test_axes_are_grids_of_two_numbers_or_more():
    assert beyond(grid_of([RBF(0.1)], [1.0]), {"prior_variance": 1.0}) == {}
    assert beyond(grid_of([Linear(), RBF(0.1)], [1.0]), {"kernel": RBF(0.1)}) == {}
    # Kernels of one kind that differ in more than their scale are no axis.
    assert beyond(grid_of([Matern(nu=1.5, length_scale=1.0), Matern(nu=2.5, length_scale=2.0)], [1.0]), {}) == {}
    smooth = grid_of([Matern(nu=1.5, length_scale=1.0), Matern(nu=1.5, length_scale=2.0)], [1.0])
    assert set(beyond(smooth, {})) == {"length scale"}
    assert beyond(grid_of([RBF("scale"), RBF(0.1)], [1.0]), {"kernel": RBF("scale")}) == {}
    # Nothing lies beyond infinity, and the parts of a sum have no order.
    assert beyond(grid_of([Linear()], [1.0, 10.0, np.inf]), {"prior_variance": np.inf}) == {}
    assert beyond(grid_of([Linear()], [(1.0, 2.0), (3.0, 4.0)]), {"prior_variance": (3.0, 4.0)}) == {}
    edges = grid_of([Linear()], [1.0], edges=[0.5, 5.0])
    further = beyond(edges, {"edges__prior_variance": 5.0})["edge prior variance"][1]
    assert further.params["edges__prior_variance"] == 50.0


def test_what_was_tried_is_no_end_any_more():
    listed = grid_of([Linear()], [1.0, 10.0])
    (end,) = grid_ends(listed[1], listed, listed)
    tried = [*listed, end.beyond]
    assert grid_ends(listed[1], listed, tried) == []
    (further,) = grid_ends(end.beyond, listed, tried)
    assert further.beyond.params["prior_variance"] == 1000.0


def preferring(wanted):
    """A score that is highest for one prior variance and gamma, whatever the data."""

    def score(estimator, X, y):
        return -abs(np.log10(estimator.prior_variance / wanted)) - abs(np.log10(estimator.kernel.gamma))

    return score


def search(wanted, **settings):
    found = ChainCRFCV(CRF, kernels=[RBF(0.1), RBF(1.0)], scoring=preferring(wanted), random_state=0, refit=False)
    return found.set_params(prior_variances=[0.1, 1.0], cv=2, **settings)


def test_the_grid_goes_on_until_the_best_lies_within(capfd):
    found = search(30.0, verbose=1).fit(X, y)
    # Prior variances 10 and 100, and gamma 10 beside the best of them.
    assert found.best_params_["prior_variance"] in (10.0, 100.0)
    tried = [(each["prior_variance"], each["kernel"].gamma) for each in found.cv_results_["params"][4:]]
    assert tried[0] == (10.0, 1.0)
    assert set(tried) >= {(10.0, 1.0), (100.0, 1.0)}
    assert found.cv_results_["iter"][-1] == found.cv_results_["iter"][0]
    assert "beyond the grid: prior variance 10, 100" in str(found.table())
    assert "of its grid" not in str(found.table())
    err = capfd.readouterr().err
    assert "the best prior variance, 1, is the largest of its grid: trying " in err
    assert f"{len(found.cv_results_['params']) * 2} of {len(found.cv_results_['params']) * 2} fits" in err


def test_it_goes_downward_as_well():
    found = search(0.003).fit(X, y)
    assert found.best_params_["prior_variance"] in (0.01, 0.001)


def test_it_does_not_go_on_for_ever():
    with pytest.warns(UserWarning, match=r"the best prior variance, 1000, is the largest of its grid, which was ext"):
        found = search(1e9).fit(X, y)
    assert found.best_params_["prior_variance"] == 10.0**MOST_STEPS
    assert "the best prior variance, 1000, is the largest of its grid" in str(found.table())


def test_without_extension_there_is_a_line_in_the_table():
    found = search(1e9, extend=False).fit(X, y)
    assert found.best_params_["prior_variance"] == 1.0
    assert len(found.cv_results_["params"]) == 4
    heading = str(found.table()).splitlines()[0]
    assert "the best prior variance, 1, is the largest of its grid: extend=True looks further" in heading
    assert "the best gamma, 1, is the largest of its grid" in heading


def test_an_interrupt_beyond_the_grid_keeps_what_is_there():
    calls = []

    def interrupted(estimator, X, y):
        calls.append(1)
        if len(calls) == 10:
            raise KeyboardInterrupt
        return preferring(1e9)(estimator, X, y)

    with pytest.warns(UserWarning, match="search was interrupted after 8 of 10 fits"):
        found = search(1.0, scoring=interrupted).fit(X, y)
    assert found.interrupted_
    assert found.best_params_["prior_variance"] == 1.0
