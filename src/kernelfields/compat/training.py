"""CRFsuite's training in this package: its parameters, stopping rules and log.

    loss = sum of negative log-likelihoods + c1 ||w||_1 + c2 ||w||^2:   l1 = c1,  prior variance s = 1 / (2 c2)

None means CRFsuite's default. Parameters without a counterpart raise an error. The stopping rules are a
callback of a fit: with loss f_k (regularisation included), gradient g_k (the pseudo-gradient under an L1 penalty)
and weights w_k after iteration k, training ends at the first k where

    ||g_k|| <= epsilon max(1, ||w_k||)               "epsilon"
    f_{k - period} - f_k < delta f_k,  k >= period    "delta"; a period of 0 leaves this rule out
    k = max_iterations                               "max_iterations"; 0 means no limit

A training run is reported in the words of python-crfsuite's log parser: ``TrainingLog.iterations`` is a list of
dicts, one per iteration, with the keys ``num``, ``loss``, ``feature_norm``, ``error_norm``, ``linesearch_step``,
``time`` and ``scores``, which is empty but for the last one of a training with held-out data.

Raises NotImplementedError for features of CRFsuite that this package lacks, ValueError for values that CRFsuite does
not accept either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from kernelfields.compat.feature_sequences import check_labelled, drop_empty
from kernelfields.data.cliques import EdgeCliques
from kernelfields.estimators.chain_crf import ChainCRF
from kernelfields.numerics.parameters import check_count, is_real
from kernelfields.solvers.lbfgs import LBFGS
from kernelfields.solvers.loop import REASONS, Iteration

#: Why training ended, in words.
MESSAGES = {
    "epsilon": "the gradient is small: its norm is at most epsilon times that of the weights",
    "delta": "the loss fell by less than a share delta over the last period iterations",
    "max_iterations": "max_iterations iterations were made before epsilon or delta ended training",
}
_OWN_LINE_SEARCH = "the line search here has no settings"
_NO_LEARNING_RATE = "training here has no learning rate to calibrate"
_NO_COUNTERPART = {
    "linesearch": _OWN_LINE_SEARCH,
    "max_linesearch": _OWN_LINE_SEARCH,
    "calibration_eta": _NO_LEARNING_RATE,
    "calibration_rate": _NO_LEARNING_RATE,
    "calibration_samples": _NO_LEARNING_RATE,
    "calibration_candidates": _NO_LEARNING_RATE,
    "calibration_max_trials": _NO_LEARNING_RATE,
    "pa_type": "there is no passive-aggressive training here",
    "c": "there is no passive-aggressive training here; regularisation is c1 and c2",
    "error_sensitive": "there is no passive-aggressive training here",
    "averaging": "there is no passive-aggressive training here",
    "variance": "there is no AROW training here",
    "gamma": "there is no AROW training here",
    "trainer_cls": "there is no trainer object; verbose=True shows progress, and training_log_ keeps it",
}
_ONLINE = ("ap", "averaged-perceptron", "pa", "passive-aggressive", "arow")
_NOT_OF_SGD = ("c1", "num_memories", "epsilon")
_SGD_EPOCHS = 1000
# The rules of CRFsuite end a fit; at such a gap there is nothing left to gain.
_NO_LIMIT = 2**31 - 1
_SMALLEST_GAP = 1e-12


@dataclass(frozen=True)
class Options:
    """Parameters of CRFsuite, checked, with its defaults."""

    min_freq: float
    all_possible_states: bool
    all_possible_transitions: bool
    c1: float
    c2: float
    max_iterations: int
    num_memories: int | None
    epsilon: float
    period: int
    delta: float

    def stopping(self) -> CRFsuiteStopping:
        """Return the stopping rule of a training."""
        return CRFsuiteStopping(self.epsilon, self.period, self.delta, self.max_iterations)

    def chain_crf(self, **others: Any) -> ChainCRF:
        """Return a ChainCRF with these options."""
        # A threshold on frequencies removes what was never observed, whatever the other parameters are.
        observed = self.min_freq or "observed"
        every = self.min_freq == 0
        return ChainCRF(
            "linear",
            support="all" if self.all_possible_states and every else observed,
            edges=EdgeCliques(support="all" if self.all_possible_transitions and every else observed),
            l1=self.c1,
            prior_variance=1.0 / (2.0 * self.c2) if self.c2 else np.inf,
            decode="viterbi",
            solver="auto" if self.num_memories is None else LBFGS(self.num_memories),
            tol=_SMALLEST_GAP,
            max_iter=_NO_LIMIT,
            **others,
        )


def train_chain(
    parameters: Mapping[str, Any], X: object, y: object, watchers: Iterable[Callable[[Iteration], object]] = ()
) -> tuple[ChainCRF, str]:
    """Fit a field to labelled sequences; return it with the reason for the end."""
    options = read_options(parameters)
    sequences, labels = check_labelled(X, y)
    stopping = options.stopping()
    chain = options.chain_crf(
        callbacks=[*map(_ignore_result, watchers), stopping],
        n_jobs=parameters["n_jobs"],
        # CRFsuite repeats itself, so that a fit that draws its start should too.
        random_state=0 if parameters["random_state"] is None else parameters["random_state"],
        verbose=int(bool(parameters["verbose"])),
    )
    with drop_empty(sequences) as filled:
        chain.fit([sequences[i] for i in filled], [labels[i] for i in filled])
    # What ended this fit must not end another, and the solver's memory is of no use any more.
    chain.set_params(callbacks=None, solver="auto")
    return chain, stopping.reason or chain.solution_.reason


def _ignore_result(watch: Callable[[Iteration], object]) -> Callable[[Iteration], None]:
    """Return a callback that calls another one, but never ends a fit."""

    def call(iteration: Iteration) -> None:
        watch(iteration)

    return call


@dataclass
class CRFsuiteStopping:
    """A callback with the stopping rules of CRFsuite; ``reason`` is the name of the rule that ended the fit."""

    epsilon: float
    period: int
    delta: float
    max_iterations: int
    reason: str | None = None
    _losses: list[float] = field(default_factory=list)

    def __call__(self, iteration: Iteration) -> bool:
        """Record an iteration; return whether to stop."""
        self._losses.append(iteration.value)
        loss = iteration.value
        if iteration.gradient_norm <= self.epsilon * max(1.0, iteration.coefficient_norm):
            self.reason = "epsilon"
        elif 0 < self.period < len(self._losses) and self._losses[-1 - self.period] - loss < self.delta * loss:
            self.reason = "delta"
        elif 0 < self.max_iterations <= iteration.iteration:
            self.reason = "max_iterations"
        return self.reason is not None


def read_options(parameters: Mapping[str, object]) -> Options:
    """Check the constructor's parameters and return them as options."""
    for name, reason in _NO_COUNTERPART.items():
        value = parameters[name]
        if value is not None:
            raise NotImplementedError(f"{name}={value!r} has no counterpart here: {reason}. Leave it out.")
    sgd = check_algorithm(parameters["algorithm"])
    if sgd:
        for name in _NOT_OF_SGD:
            if parameters[name] is not None:
                raise ValueError(
                    f"{name}={parameters[name]!r} is no parameter of algorithm='l2sgd'. Use algorithm='lbfgs', "
                    "which fits the same loss, or leave it out."
                )
    return Options(
        min_freq=_read_number(parameters, "min_freq", 0.0),
        all_possible_states=_read_flag(parameters, "all_possible_states"),
        all_possible_transitions=_read_flag(parameters, "all_possible_transitions"),
        c1=_read_number(parameters, "c1", 0.0),
        c2=_read_number(parameters, "c2", 1.0),
        max_iterations=_read_count(parameters, "max_iterations", _SGD_EPOCHS if sgd else 0, 0),
        num_memories=None if parameters["num_memories"] is None else _read_count(parameters, "num_memories", 1, 1),
        epsilon=_read_number(parameters, "epsilon", 1e-5),
        period=_read_count(parameters, "period", 10, 0),
        delta=_read_number(parameters, "delta", 1e-5),
    )


def check_algorithm(algorithm: object) -> bool:
    """Return whether an algorithm is SGD; raise for algorithms without a likelihood."""
    name = algorithm.lower() if isinstance(algorithm, str) else algorithm
    if name in _ONLINE:
        raise NotImplementedError(
            f"algorithm={algorithm!r} has no counterpart here: it is no fit of a likelihood, so it has neither a "
            "loss to compare nor probabilities. Use algorithm='lbfgs' with c1 and c2."
        )
    if name not in (None, "lbfgs", "l2sgd"):
        raise ValueError(f"algorithm must be 'lbfgs' or 'l2sgd', got {algorithm!r}")
    return name == "l2sgd"


def _read_number(parameters: Mapping[str, object], name: str, default: float) -> float:
    value = default if parameters[name] is None else parameters[name]
    if not is_real(value) or not 0 <= value < np.inf:
        raise ValueError(f"{name} must be a finite number that is not negative, or None, got {value!r}")
    return float(value)


def _read_count(parameters: Mapping[str, object], name: str, default: int, least: int) -> int:
    value = default if parameters[name] is None else parameters[name]
    check_count(value, name, ", or None", least=least)
    return int(value)  # type: ignore[call-overload]


def _read_flag(parameters: Mapping[str, object], name: str) -> bool:
    value = parameters[name] or False
    if not isinstance(value, bool | int | np.bool_ | np.integer) or value not in (0, 1):
        raise ValueError(f"{name} must be True, False or None, got {value!r}")
    return bool(value)


class TrainingLog:
    """The iterations of a fit, and the reason for its end.

    Parameters
    ----------
    reason : str
        "epsilon", "delta" or "max_iterations", or a reason of the solver's own.
    n_weights : int
        The number of weights.
    history : sequence of Iteration
        The iterations.

    Attributes
    ----------
    message : str
        The reason in a sentence.
    featgen_num_features : int
        The number of weights.
    training_seconds : float
        The time of the fit.
    iterations : list of dict
        The number, loss, norms and time of each iteration, under the names of sklearn-crfsuite.

    Examples
    --------
    >>> from kernelfields.compat import CRF
    >>> X = [[{"word": "Ann"}, {"word": "sings"}], [{"word": "Bob"}, {"word": "sings"}]]
    >>> log = CRF().fit(X, [["NAME", "VERB"], ["NAME", "VERB"]]).training_log_
    >>> log.reason in ("epsilon", "delta", "gap"), len(log.iterations) > 0
    (True, True)
    """

    def __init__(self, reason: str, n_weights: int, history: Sequence[Iteration]):
        self.reason = reason
        self.message = {**REASONS, **MESSAGES}[reason]
        self.featgen_num_features = n_weights
        self.training_seconds = history[-1].seconds if history else 0.0
        self.iterations: list[dict[str, object]] = [
            {
                "num": iteration.iteration,
                "loss": iteration.value,
                "feature_norm": iteration.coefficient_norm,
                "error_norm": iteration.gradient_norm,
                "linesearch_step": iteration.step,
                "time": iteration.seconds - before.seconds,
                "scores": {},
            }
            for before, iteration in pairwise(history)
        ]

    @property
    def last_iteration(self) -> dict[str, object] | None:
        """The last iteration, or None."""
        return self.iterations[-1] if self.iterations else None
