"""Training ends where CRFsuite's own trainer would end it."""

import numpy as np
import pytest
from tagged_sentences import tagged_data

from kernelfields.compat import CRF
from kernelfields.compat.training import CRFsuiteStopping
from kernelfields.solvers import Iteration


def at(number, loss, gradient_norm=1.0, coefficient_norm=1.0):
    return Iteration(
        iteration=number,
        passes=float(number),
        seconds=0.1 * number,
        value=loss,
        lower_bound=-np.inf,
        gradient_norm=gradient_norm,
        step=1.0,
        coefficient_norm=coefficient_norm,
    )


def ended(stopping, iterations):
    """The number of the iteration at which a rule ends training, and why."""
    for iteration in iterations:
        if stopping(iteration):
            return iteration.iteration, stopping.reason
    return None, None


def test_epsilon_compares_the_gradient_with_the_weights():
    small = CRFsuiteStopping(epsilon=0.1, period=0, delta=0.0, max_iterations=0)
    assert ended(small, [at(0, 9.0, 1.0, 0.0), at(1, 8.0, 0.11, 0.5), at(2, 7.0, 0.1, 0.5)]) == (2, "epsilon")
    large = CRFsuiteStopping(epsilon=0.1, period=0, delta=0.0, max_iterations=0)
    assert ended(large, [at(0, 9.0, 1.0, 0.0), at(1, 8.0, 1.0, 9.0), at(2, 7.0, 1.0, 11.0)]) == (2, "epsilon")


def test_delta_looks_back_over_a_period():
    losses = [100.0, 50.0, 49.0, 48.5, 48.4, 48.39, 48.385]
    history = [at(number, loss) for number, loss in enumerate(losses)]
    assert ended(CRFsuiteStopping(0.0, 2, 0.01, 0), history) == (5, "delta")  # (48.5 - 48.39) / 48.39 < 0.01
    assert ended(CRFsuiteStopping(0.0, 3, 0.05, 0), history) == (4, "delta")
    assert ended(CRFsuiteStopping(0.0, 6, 0.05, 0), history) == (None, None)
    assert ended(CRFsuiteStopping(0.0, 0, 0.05, 0), history) == (None, None)


def test_iterations_are_limited_on_request():
    history = [at(number, 10.0 - number) for number in range(8)]
    assert ended(CRFsuiteStopping(0.0, 0, 0.0, 3), history) == (3, "max_iterations")
    assert ended(CRFsuiteStopping(0.0, 0, 0.0, 0), history) == (None, None)


@pytest.mark.parametrize(
    "parameters",
    [
        {"c2": 0.1},
        {"c2": 0.1, "delta": 1e-3, "period": 4},
        {"c2": 1.0, "delta": 1e-12, "epsilon": 1e-3},
        {"c1": 0.5, "c2": 0.01},
        {"c1": 0.5, "c2": 0.01, "delta": 1e-12, "epsilon": 1e-2},
        {"c2": 0.01, "max_iterations": 7},
    ],
)
def test_the_rules_end_the_logs_of_crfsuite_where_they_end(parameters, tmp_path):
    pycrfsuite = pytest.importorskip("pycrfsuite")
    X, y = tagged_data(30)
    trainer = pycrfsuite.Trainer(verbose=False)
    trainer.set_params(parameters)
    for sequence, labels in zip(X, y, strict=True):
        trainer.append(sequence, labels)
    trainer.train(str(tmp_path / "model"))
    log = trainer.logparser.iterations
    labels = {label for sequence in y for label in sequence}
    start = at(0, sum(map(len, y)) * np.log(len(labels)), np.inf, 0.0)
    history = [at(each["num"], each["loss"], each["error_norm"], each["feature_norm"]) for each in log]
    defaults = {"epsilon": 1e-5, "period": 10, "delta": 1e-5, "max_iterations": 0}
    rule = CRFsuiteStopping(**{name: parameters.get(name, default) for name, default in defaults.items()})
    assert ended(rule, [start, *history])[0] == log[-1]["num"]


def test_a_fit_says_which_rule_ended_it():
    X, y = tagged_data(20)
    assert CRF(c2=0.1).fit(X, y).training_log_.reason in ("epsilon", "delta")
    assert CRF(c2=0.1, delta=0.0).fit(X, y).training_log_.reason == "epsilon"
    assert CRF(c2=0.1, epsilon=0.0, delta=1e-3, period=3).fit(X, y).training_log_.reason == "delta"
    limited = CRF(c2=0.01, max_iterations=3).fit(X, y).training_log_
    assert limited.reason == "max_iterations"
    assert "max_iterations" in limited.message
    assert limited.last_iteration["num"] == 3
    assert len(CRF(algorithm="l2sgd", c2=0.1, max_iterations=4).fit(X, y).training_log_.iterations) == 4
