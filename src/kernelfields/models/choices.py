"""Settings of a fit that were chosen from the data, and all trials on held-out data.

Trials come from pilot fits (pilot_fit.py) and from comparisons of classifiers of sequences. A fit of given settings has
choices without any.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

#: The rank of pilot fits, and of a fit to all data where more than a pilot's does not help.
PILOT_RANK, MOST_RANK = 300, 500
#: The name of the rank of a pilot fit among its settings: it shows whether more would help, and is never chosen itself.
TRIED_RANK = "pilot_rank"
#: What is tried beside candidates and never chosen: the field without edges, and a classifier of single positions.
EDGES, PEER = "with_edges", "classifier"
#: The classifier that predicts the shares of the training labels, whatever the inputs.
SHARES = "shares of the labels"
# Other settings have to bring so many nats a position, or this share of the loss if it is less.
_TIE, _TIE_SHARE = 5e-3, 1e-2
# Probabilities whose best temperature is so many times one, or one so many times it, are worth calibrating.
_FAR_FROM_ONE = 1.5

#: Values of parameters, by name; those of a pilot fit are of the estimator but for "scale".
Settings: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True)
class Trial:
    """One candidate setting, and its loss on held-out positions.

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
    dropped : bool, default False
        Whether it was so far behind on some folds that the others were left out; then the log-loss is an estimate.

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
    dropped: bool = False

    def __str__(self) -> str:
        about = "about " if self.dropped else ""
        loss = "" if self.log_loss is None else f"log-loss {about}{self.log_loss:.4f}, "
        by_itself = ", each item held out by itself" if self.last else ""
        dropped = ", dropped after some folds" if self.dropped else ""
        return f"{loss}accuracy {self.accuracy:.3f}: {in_words(self.settings)}{by_itself}{dropped}"


@dataclass(frozen=True)
class Choices:
    """Chosen values of "auto" parameters, and all trials.

    Parameters
    ----------
    chosen : dict, optional
        The values in the fit.
    trials : tuple of Trial, default ()
        What was tried, the least loss first, those of a last round before the others; empty if there was too little to
        hold out, or nothing to choose between.
    n_pieces : int, default 0
        The number of pieces that one or two sequences were cut into, to hold out some; 0 if whole items were.

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
    n_pieces: int = 0

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
        """Return advice from the trials: settings without a gain, and settings better than the choice.

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
        best, lines = taken[0], self._why_not_least()
        if self.n_pieces:
            lines.append(
                f"fewer than three sequences were cut into {self.n_pieces} pieces to hold out some of them: pieces of "
                "one recording resemble each other, and new recordings may be predicted worse"
            )
        for own in judged:
            gain = taken[0].log_loss - (own.log_loss or 0.0)
            if own.settings.get(PEER) == SHARES:
                if gain > -least_gain(own.log_loss or 0.0):
                    lines.append(describe_failure(taken[0].log_loss, own.log_loss or 0.0))
                continue
            if own.settings.get(EDGES, True) is False and gain > -least_gain(taken[0].log_loss):
                lines.append(
                    f"edges bring nothing here: without them the log-loss is {own.log_loss:.4f}, and KernelClassifier "
                    "is such a field"
                )
            if PEER in own.settings and gain > least_gain(taken[0].log_loss):
                lines.append(
                    f"a {own.settings[PEER]} has the better log-loss here, {own.log_loss:.4f}: try it by itself, or in "
                    f"a field: {field_of_forest(own.settings[PEER])}"
                )
        if not 1.0 / _FAR_FROM_ONE <= best.temperature <= _FAR_FROM_ONE:
            amount = "more certain" if best.temperature > 1.0 else "less certain"
            lines.append(
                f"probabilities of items held out are {amount} than they should be, by a temperature of "
                f"{best.temperature:.2g}: kernelfields.uncertainty.calibrate mends them, by items that the "
                "fit has not seen"
            )
        return lines

    def _why_not_least(self) -> list[str]:
        """Return the reason for a choice other than the first trial; empty for the first trial."""
        judged = [own for own in self.trials if own.log_loss is not None]
        compared = [own for own in judged if not own.settings.keys() & {EDGES, PEER, TRIED_RANK}]
        rank = next((i for i, own in enumerate(compared) if own.settings.items() <= self.chosen.items()), 0)
        if not rank:
            return []
        ahead = "one setting has" if rank == 1 else f"{rank} settings have"
        gain = least_gain(compared[rank].log_loss or 0.0)
        return [
            f"{ahead} less loss than the choice: settings are tried from the simplest on, and one is left for another "
            f"that gains at least {gain:.1g}; of kernels that differ by less than held-out items do, a bounded one "
            "is taken, which falls back to the shares of the labels far from the training data"
        ]

    def with_labels(self, places: np.ndarray, n_labels: int) -> Choices:
        """Return the choices for a field with more labels.

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
        """Rebuild the choices from their description.

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
        from kernelfields.models.stored_values import record

        trials = tuple(record(Trial, each, "a trial") for each in described["trials"])
        n_pieces = described.get("n_pieces", 0)
        if type(n_pieces) is not int or n_pieces < 0:
            raise ValueError(f"n_pieces of choices is {n_pieces!r:.60}, not a number of pieces")
        return cls(dict(described["chosen"]), trials, n_pieces)


#: What a fit of given settings has.
NO_CHOICES = Choices()


def describe_failure(loss: float, loss_of_shares: float) -> str:
    """Return a sentence that says that the inputs do not help to predict new items."""
    return (
        f"no candidate predicts held-out items better than the shares of the labels: log-loss {loss:.4f} and "
        f"{loss_of_shares:.4f}. What these inputs say about the labels differs from item to item"
    )


def field_of_forest(forest: str) -> str:
    """Return the code of a field on the probabilities of a forest, which sees windows if its name says so."""
    windows = "WindowFeatures(), " if "windows" in forest else ""
    return f"make_pipeline({windows}OutOfFold(RandomForestClassifier()), ChainCRF())"


def in_words(settings: Settings) -> str:
    """Return settings as a line of text: "scale False, kernel rbf, prior variance 10"."""
    words = (f"{value:g}" if isinstance(value, float) else str(value) for value in settings.values())
    return ", ".join(f"{name.replace('_', ' ')} {word}" for name, word in zip(settings, words, strict=True))


def least_gain(loss: float) -> float:
    """Return the largest difference of losses that count as equal."""
    return min(_TIE, _TIE_SHARE * abs(loss))
