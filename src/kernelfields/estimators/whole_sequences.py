"""Classes of whole sequences without hidden states: what they are seen by, and how settings are compared.

    "summaries"   level, spread, extremes and slopes of columns (features/sequence_summaries.py)
    "shapes"      maxima and shares of random convolutions (features/local_shapes.py)

Both make one row of each sequence, without labels, so that they are computed once for all folds. Settings on rows are
judged by all sequences, or by many of them. Hidden states take a fit of all positions: they are judged by as many
sequences as have some thousand positions, beside the best settings on rows, and their loss is taken to be as much above
that of these on all sequences as on those. Where they are far behind on the first folds, there is no fit on others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import StratifiedKFold

from kernelfields.features.local_shapes import LocalShapes
from kernelfields.features.sequence_summaries import SequenceSummaries
from kernelfields.features.sequencewise import SequenceTransformer
from kernelfields.models.choices import Trial
from kernelfields.models.position_loss import position_loss

# Settings are compared by so many folds: of sequences of about so many positions with hidden states, of so many
# sequences without.
_FOLDS, _MOST_POSITIONS, _MOST_SEQUENCES = 3, 10_000, 1000
# Hidden states have no fits on further folds where their loss is so many times that of the best, and so many nats, as
# other pilot fits have none.
_BEHIND, _LITTLE = 1.15, 0.01


class Rows(NamedTuple):
    """A way to make a row of each sequence, and the kernels and prior variances that suit the rows.

    The first kernel is the usual one, and so is the prior variance in the middle.
    """

    transformer: Callable[[Any], SequenceTransformer]
    kernels: tuple[str, ...]
    variances: tuple[float, ...]
    usual_variance: float


#: Ways to make rows of sequences by their names, the usual one first. A class has one score, not one for each position:
#: its prior variance is large for summaries. Shapes are a thousand columns, in a linear kernel: it is small for them.
ROWS: Mapping[str, Rows] = {
    "summaries": Rows(lambda seed: SequenceSummaries(as_sequences=True), ("rbf", "laplacian"), (1.0, 10.0, 100.0), 1.0),
    "shapes": Rows(lambda seed: LocalShapes(as_sequences=True, random_state=seed), ("linear",), (0.01, 0.1, 1.0), 0.1),
}

#: Probabilities of classes (n, L) of some sequences after a fit to others, by their numbers.
Predict = Callable[[np.ndarray, np.ndarray], np.ndarray]


class _Judged(NamedTuple):
    """Held-out probabilities of classes (n, L), and the drawn sequences with probabilities."""

    table: np.ndarray
    held_out: np.ndarray


class HeldOut(NamedTuple):
    """Sequences by which settings are compared: their numbers, classes and weights, and folds of them."""

    drawn: np.ndarray
    classes: np.ndarray
    weights: np.ndarray
    folds: list[tuple[np.ndarray, np.ndarray]]

    @classmethod
    def draw(cls, drawn: np.ndarray, classes: np.ndarray, weights: np.ndarray) -> HeldOut:
        """Return the folds of the sequences that are drawn among all."""
        own = classes[drawn]
        n_folds = min(_FOLDS, max(2, int(np.bincount(own)[np.unique(own)].min())))
        folds = [*StratifiedKFold(n_folds, shuffle=True, random_state=0).split(drawn, own)]
        return cls(drawn, own, weights[drawn], folds)

    def judge(self, predict: Predict, ahead: np.ndarray | None = None) -> _Judged:
        """Return held-out probabilities, up to the fold where the probabilities ``ahead`` are far better."""
        tables, held_out = [], np.zeros(0, dtype=np.int64)
        for train, test in self.folds:
            tables.append(predict(self.drawn[train], self.drawn[test]))
            held_out = np.append(held_out, test)
            judged = _Judged(np.concatenate(tables)[np.argsort(held_out)], np.sort(held_out))
            if ahead is not None:
                best = _Judged(ahead[judged.held_out], judged.held_out)
                if self.loss(judged).log_loss > _BEHIND * self.loss(best).log_loss + _LITTLE:
                    break
        return judged

    def loss(self, judged: _Judged, settings: Mapping[str, Any] | None = None, rest: float = 0.0) -> Any:
        """Return the losses of probabilities as a trial."""
        numbers, weights = self.classes[judged.held_out], self.weights[judged.held_out]
        found = position_loss(judged.table, numbers, weights)
        return Trial(dict(settings or {}), found.accuracy, found.loss + rest, found.temperature)


def draw_sequences(lengths: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Draw the sequences for the comparison of settings on rows, and a part of them for hidden states."""
    order = np.random.default_rng(0).permutation(len(lengths))
    n_few = int(np.searchsorted(np.cumsum(np.array(lengths)[order]), _MOST_POSITIONS)) + 1
    return np.sort(order[: max(n_few, _MOST_SEQUENCES)]), np.sort(order[:n_few])


def compare(
    on_rows: Sequence[tuple[Mapping[str, Any], Predict]],
    with_states: Sequence[tuple[Mapping[str, Any], Predict]],
    drawn: tuple[np.ndarray, np.ndarray],
    classes: np.ndarray,
    weights: np.ndarray,
) -> list[Trial]:
    """Return a trial of each of the settings, settings on rows first, for ``drawn`` from ``draw_sequences``."""
    many = HeldOut.draw(drawn[0], classes, weights)
    judged = [many.judge(predict) for _, predict in on_rows]
    trials = [many.loss(own, settings) for own, (settings, _) in zip(judged, on_rows, strict=True)]
    if not with_states:
        return trials
    first = min(range(len(trials)), key=lambda number: trials[number].log_loss)
    few, best = many, judged[first]
    if len(drawn[1]) < len(drawn[0]):
        few = HeldOut.draw(drawn[1], classes, weights)
        best = few.judge(on_rows[first][1])
    for settings, predict in with_states:
        own = few.judge(predict, best.table)
        beside = few.loss(_Judged(best.table[own.held_out], own.held_out)).log_loss
        trials.append(few.loss(own, settings, trials[first].log_loss - beside))
    return trials
