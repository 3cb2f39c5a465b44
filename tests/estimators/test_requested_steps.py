"""Steps of a fit: keywords ask for them, callbacks may be some, and nothing else asks whether there is one."""

import numpy as np
import pytest

from kernelfields import ChainCRF
from kernelfields.estimators.requested import requested_steps
from kernelfields.models.callbacks import StepCallback
from kernelfields.models.development import DevelopmentSet
from kernelfields.models.placed import FitStep
from kernelfields.posterior.evidence.step import LargestEvidence


@pytest.mark.parametrize(
    ("given", "steps"),
    [
        ({}, []),
        ({"optimize": "evidence"}, [LargestEvidence]),
        ({"X_dev": [], "y_dev": []}, [DevelopmentSet]),
        ({"y_dev": []}, [DevelopmentSet]),
        ({"X_dev": [], "y_dev": [], "optimize": "evidence"}, [LargestEvidence, DevelopmentSet]),
    ],
)
def test_keywords_ask_for_steps_the_search_around_the_development_set(given, steps):
    assert [type(step) for step in requested_steps(given)] == steps


class Notebook(StepCallback):
    """A callback that notes what it sees of a fit."""

    def __init__(self):
        self.seen = []

    def __call__(self, iteration):
        self.seen.append("iteration")

    def step(self):
        notebook = self

        class Noted(FitStep):
            def check(self, estimator):
                notebook.begin()

            def after(self, estimator):
                notebook.end(estimator)

        return Noted()

    def begin(self):
        self.seen.append("begin")

    def end(self, estimator):
        self.seen.append(estimator.classes_.tolist())

    def worker_callback(self, send):
        return self


def test_a_callback_that_is_a_step_sees_the_fit_from_its_check_to_its_end():
    random = np.random.default_rng(0)
    X, y = [random.normal(size=(4, 2)) for _ in range(3)], [[0, 1, 1, 0]] * 3
    notebook = Notebook()
    ChainCRF("linear", callbacks=[notebook]).fit(X, y)
    assert notebook.seen[0] == "begin"
    assert notebook.seen[-1] == [0, 1]
    assert set(notebook.seen[1:-1]) == {"iteration"}


def test_a_fit_forgets_what_the_steps_of_the_one_before_have_found():
    random = np.random.default_rng(0)
    X, y = [random.normal(size=(4, 2)) for _ in range(3)], [[0, 1, 1, 0]] * 3
    crf = ChainCRF("linear", prior_variance=1.0).fit(X, y, X_dev=X, y_dev=y)
    assert len(crf.dev_log_likelihoods_) == crf.n_iter_ + 1
    assert crf.fit(X, y).dev_log_likelihoods_ is None
