"""What was left to the data: the settings of a fit that were chosen, and all that were tried on held-out data.

Trials come from pilot fits (pilot_fit.py) and from comparisons of classifiers of sequences. A fit of given settings has
choices without any.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from kernelfields.models.stored_values import record

#: The rank of pilot fits, and of a fit to all data where more than a pilot's does not help.
PILOT_RANK, MOST_RANK = 300, 500
#: The name of the rank of a pilot fit among its settings: it shows whether more would help, and is never chosen itself.
TRIED_RANK = "pilot_rank"
#: What is tried beside candidates and never chosen: the field without edges, and a classifier of single positions.
EDGES, PEER = "with_edges", "classifier"
# Other settings have to bring so many nats a position, or this share of the loss if it is less.
_TIE, _TIE_SHARE = 5e-3, 1e-2
# Probabilities whose best temperature is so many times one, or one so many times it, are worth calibrating.
_FAR_FROM_ONE = 1.5

#: Values of parameters, by name; those of a pilot fit are of the estimator but for "scale".
Settings: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True)
class Trial:
    """One setting that was tried, and how well it predicted held-out positions.

    Parameters
    ----------
    settings : dict
        Values of parameters by name.
    accuracy : float
        The share of right labels on the folds that were tried.
    log_loss : float or None, default None
        The log-loss; None if the setting changes no probability.
    temperature : float, default 1.0
        The temperature at which the probabilities would be best.
    last : bool, default False
        Whether it was in the last round, in which each item was held out by itself.

    Examples
    --------
    >>> from kernelfields.models.choices import Trial
    >>> print(Trial({"prior_variance": 1.0}, accuracy=0.9, log_loss=0.25))
    log-loss 0.2500, accuracy 0.900: prior variance 1
    """

    settings: dict[str, Any]
    accuracy: float
    log_loss: float | None = None
    temperature: float = 1.0
    last: bool = False

    def __str__(self) -> str:
        loss = "" if self.log_loss is None else f"log-loss {self.log_loss:.4f}, "
        by_itself = ", each item held out by itself" if self.last else ""
        return f"{loss}accuracy {self.accuracy:.3f}: {in_words(self.settings)}{by_itself}"


@dataclass(frozen=True)
class Choices:
    """Parameters that were left to the data: what they are in the fit, and all that was tried.

    Parameters
    ----------
    chosen : dict, optional
        The values in the fit.
    trials : tuple of Trial, default ()
        What was tried, the least loss first, those of a last round before the others; empty if there was too little to
        hold out, or nothing to choose between.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import KernelClassifier
    >>> random = np.random.default_rng(0)
    >>> X = random.normal(size=(60, 2))
    >>> classifier = KernelClassifier("linear", random_state=0).fit(X, (X[:, 0] > 0).astype(int))
    >>> sorted(classifier.choices_.chosen)
    ['prior_variance']
    """

    chosen: dict[str, Any] = field(default_factory=dict)
    trials: tuple[Trial, ...] = ()

    def __post_init__(self) -> None:
        def order(trial: Trial) -> tuple[bool, float]:
            return not trial.last, np.inf if trial.log_loss is None else trial.log_loss

        object.__setattr__(self, "trials", tuple(sorted(self.trials, key=order)))

    def __str__(self) -> str:
        if not self.chosen:
            return "nothing was left to the data"
        if not self.trials:
            return f"chosen by rule: {in_words(self.chosen)}"
        lines = [f"chosen on held-out data: {in_words(self.chosen)}", *map(str, self.trials)]
        if any(TRIED_RANK in trial.settings for trial in self.trials):
            lines.append(
                f"the other pilot fits have rank {PILOT_RANK}: where twice that predicts no better, {MOST_RANK} is "
                "enough for all data"
            )
        return "\n".join([*lines, *self.advice()])

    def advice(self) -> list[str]:
        """Say what the trials show beside the choice: what brings nothing, and what predicts better.

        Returns
        -------
        list of str
            Sentences.
        """
        # Peers were tried in the first round alone.
        judged = [trial for trial in self.trials if trial.log_loss is not None and not trial.last]
        taken = [own for own in judged if own.settings.items() <= self.chosen.items()]
        if not taken or taken[0].log_loss is None:
            return []
        best, lines = taken[0], []
        for own in judged:
            gain = taken[0].log_loss - (own.log_loss or 0.0)
            if own.settings.get(EDGES, True) is False and gain > -least_gain(taken[0].log_loss):
                lines.append(
                    f"edges bring nothing here: without them the log-loss is {own.log_loss:.4f}, and KernelClassifier "
                    "is such a field"
                )
            if PEER in own.settings and gain > least_gain(taken[0].log_loss):
                windows = "WindowFeatures(), " if "windows" in own.settings[PEER] else ""
                lines.append(
                    f"a {own.settings[PEER]} has the better log-loss here, {own.log_loss:.4f}: try it by itself, or in "
                    f"a field: make_pipeline({windows}OutOfFold(RandomForestClassifier()), ChainCRF())"
                )
        if not 1.0 / _FAR_FROM_ONE <= best.temperature <= _FAR_FROM_ONE:
            amount = "more certain" if best.temperature > 1.0 else "less certain"
            lines.append(
                f"probabilities of items held out are {amount} than they should be, by a temperature of "
                f"{best.temperature:.2g}: kernelfields.uncertainty.calibrate mends them, by items that the "
                "fit has not seen"
            )
        return lines

    def with_labels(self, places: np.ndarray, n_labels: int) -> Choices:
        """Return the choices of a field that has more labels.

        Parameters
        ----------
        places : array
            The number of each old label now.
        n_labels : int
            The number of labels now.

        Returns
        -------
        Choices
            The choices.
        """
        if "thresholds" not in self.chosen:
            return self
        thresholds = np.ones(n_labels)
        thresholds[places] = self.chosen["thresholds"]
        return replace(self, chosen={**self.chosen, "thresholds": thresholds.tolist()})

    def describe(self) -> dict[str, Any]:
        """Return plain values for a model file.

        Returns
        -------
        dict
            The values.
        """
        return asdict(self)

    @classmethod
    def rebuild(cls, described: Mapping[str, Any] | None) -> Choices:
        """Return the choices that were described.

        Parameters
        ----------
        described : dict or None
            The description; None for no choices.

        Returns
        -------
        Choices
            The choices.
        """
        if described is None:
            return cls()
        trials = tuple(record(Trial, each, "a trial") for each in described["trials"])
        return cls(dict(described["chosen"]), trials)


#: What a fit of given settings has.
NO_CHOICES = Choices()


def in_words(settings: Settings) -> str:
    """Return settings as a line of text: "scale False, kernel rbf, prior variance 10"."""
    words = (f"{value:g}" if isinstance(value, float) else str(value) for value in settings.values())
    return ", ".join(f"{name.replace('_', ' ')} {word}" for name, word in zip(settings, words, strict=True))


def least_gain(loss: float) -> float:
    """Return by how much losses may differ that count as equal."""
    return min(_TIE, _TIE_SHARE * abs(loss))
