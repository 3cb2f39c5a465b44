"""Fits to many positions begin with a fit to every fourth sequence: the end is the same, in fewer steps over all."""

from dataclasses import replace

import numpy as np
import pytest

from kernelfields import ChainCRF
from kernelfields.models import starts as module


@pytest.fixture
def words():
    random = np.random.default_rng(0)
    y = [random.integers(5, size=length) for length in random.integers(3, 12, size=240)]
    return [random.normal(size=(len(own), 6)) + np.eye(6)[own] for own in y], y


def fitted(words, monkeypatch, least, **settings):
    monkeypatch.setattr(module, "_LEAST_POSITIONS", least)
    settings = {"prior_variance": 3.0, "rank": 120, "tol": 1e-5, "random_state": 0, "solver": "auto", **settings}
    return ChainCRF("rbf", **settings).fit(*words)


def test_the_end_is_the_same_in_fewer_steps_over_all(words, monkeypatch):
    whole, shared = (fitted(words, monkeypatch, least) for least in (10**6, 100))
    assert shared.solution_.reason == whole.solution_.reason == "gap"
    assert shared.solution_.value == pytest.approx(whole.solution_.value, rel=2e-5)
    assert shared.solution_.iterations < whole.solution_.iterations
    assert 1.0 < shared.solution_.history[0].passes < shared.solution_.passes


def test_one_long_recording_is_fitted_to_its_pieces_first(monkeypatch):
    random = np.random.default_rng(1)
    y = random.integers(5, size=6000)
    recording = [random.normal(size=(len(y), 6)) + np.eye(6)[y]], [y]
    whole, shared = (fitted(recording, monkeypatch, least, tol=1e-3) for least in (10**6, 100))
    assert shared.solution_.reason == whole.solution_.reason == "gap"
    assert shared.solution_.value == pytest.approx(whole.solution_.value, rel=2e-3)
    assert shared.solution_.iterations < whole.solution_.iterations
    assert 1.0 < shared.solution_.history[0].passes < whole.solution_.passes / 2
    assert shared.solution_.passes < whole.solution_.passes


def test_other_solvers_begin_with_all_data(words, monkeypatch):
    with pytest.warns(UserWarning, match="max_iter"):
        crf = fitted(words, monkeypatch, 100, max_iter=2, solver="lbfgs")
    assert crf.solution_.history[0].passes <= 1.0


def test_an_interrupt_of_the_first_fit_ends_the_whole(words, monkeypatch):
    minimize, calls = module.FitOptions.minimize, []

    def interrupted(options, *given):
        calls.append(1)
        found = minimize(options, *given)
        return replace(found, reason="interrupted") if len(calls) == 1 else found

    monkeypatch.setattr(module.FitOptions, "minimize", interrupted)
    with pytest.warns(UserWarning, match="interrupted"):
        crf = fitted(words, monkeypatch, 100)
    assert crf.solution_.reason == "interrupted"
    assert crf.solution_.iterations == 0
