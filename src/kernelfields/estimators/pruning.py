"""Pruning by a coarse field: labels that a cheaper field finds hopeless are not allowed (Weiss and Taskar 2010).

    kept labels of a position     those with p(y_t = b) >= threshold in the coarse field
    kept mass of a sequence       p(all labels are among those kept) in the coarse field, Z(kept) / Z

Inference in the fine field is exact on what is left, so its log partition is a lower bound on that of all labels.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from kernelfields.data.allowed import AllowedLabels
from kernelfields.data.chains import Chains
from kernelfields.data.label_dictionary import RULES
from kernelfields.data.reading import offsets_of
from kernelfields.estimators.chain_crf import ChainCRF
from kernelfields.estimators.ring_crf import RingCRF
from kernelfields.inference.answers import Answers
from kernelfields.inference.chain.family import ListFamily
from kernelfields.models.model_file import Document
from kernelfields.numerics.parameters import check_declared, declares_parameters, parameter
from kernelfields.numerics.registry import SETTINGS

_OTHER_LABELS = "the coarse field of PrunedBy has other labels than y: fit both to the same"


def _check_threshold(value: float, name: str) -> None:
    if not 0 < value <= 1:
        raise ValueError(f"{name} must be above 0 and at most 1, got {value!r}")


@SETTINGS.register("pruned by")
@declares_parameters
class PrunedBy(BaseEstimator):
    """Labels whose probability in a coarse field, fitted to the same labels, is at least ``threshold``.

    Parameters
    ----------
    coarse : fitted ChainCRF
        A field with the same labels and inputs of the same kind, such as one of fewer features or a coarser kernel.
    threshold : float, default 1e-3
        The least probability of a label that is kept. The likeliest label and the best labelling of the coarse field
        are always kept, and in the data of a fit the label that stands there.
    """

    coarse: ChainCRF | None = parameter(None, first=True)
    threshold: float = parameter(1e-3, _check_threshold)

    def __sklearn_clone__(self) -> PrunedBy:
        """Return a copy with the coarse field as it was fitted: it is a part of the description, not of the fit."""
        return PrunedBy(self.coarse, threshold=self.threshold)

    def check(self) -> None:
        """Raise if a parameter cannot be used."""
        check_declared(self)

    def learn(self, X: object, chains: Chains, classes: np.ndarray) -> FittedPruning:
        """Return what prunes chains of these classes."""
        self.check()
        if self.coarse is None or not hasattr(self.coarse, "predict_marginals"):
            raise ValueError(f"coarse must be a fitted ChainCRF, got {self.coarse!r:.60}")
        check_is_fitted(self.coarse, "field_")
        if not np.array_equal(self.coarse.classes_, classes):
            raise ValueError(_OTHER_LABELS)
        return FittedPruning(self.coarse, float(self.threshold))

    def learn_more(self, fitted: FittedPruning, X: object, chains: Chains) -> FittedPruning:
        """Return the pruning as it is: the coarse field has been fitted."""
        return fitted


class FittedPruning:
    """A coarse field and the threshold below which its labels are not allowed."""

    #: Whether what is allowed at a position depends on that position alone.
    by_position = False

    def __init__(self, coarse: ChainCRF, threshold: float):
        self.coarse = coarse
        self.threshold = threshold

    def lists(self, X: object, chains: Chains) -> AllowedLabels:
        """Return the labels that are kept at each position."""
        parts = [self._kept(answers)[0] for answers in self.coarse.answers(X)]
        sizes = np.concatenate([np.diff(lists.begin) for lists in parts])
        return AllowedLabels(offsets_of(sizes), np.concatenate([lists.labels for lists in parts]), parts[0].n_labels)

    def _kept(self, answers: Answers) -> tuple[AllowedLabels, Answers]:
        """Return the lists that are kept of a batch, and answers of the coarse field given that."""
        family = answers.family
        every = family.lists if isinstance(family, ListFamily) else AllowedLabels.of_mask(answers.node > -np.inf)
        values = every.taken(answers.marginals)
        peaks = np.repeat(np.maximum.reduceat(values, every.begin[:-1]), np.diff(every.begin))
        lists = every.kept((values >= self.threshold) | (values == peaks)).admitting(answers.best_labels())
        return lists, answers.given(lists.penalties())

    def with_labels(self, places: np.ndarray, n_labels: int) -> FittedPruning:
        """Raise: the coarse field has no others."""
        raise ValueError(_OTHER_LABELS)

    def report(self, X: object) -> dict[str, float]:
        """Return labels left per position, and the mass of a sequence that the coarse field keeps, mean and least."""
        entries, positions, masses = 0, 0, []
        for answers in self.coarse.answers(X):
            lists, left = self._kept(answers)
            entries, positions = entries + len(lists.labels), positions + lists.n_positions
            masses.append(np.exp(left.log_partition - answers.log_partition))
        mass = np.concatenate(masses)
        return {
            "labels_per_position": entries / max(1, positions),
            "mean_kept_mass": float(mass.mean()),
            "least_kept_mass": float(mass.min()),
        }

    def describe(self) -> Document:
        """Return plain values and arrays for a model file, the coarse field among them."""
        described = {"threshold": self.threshold, "coarse": self.coarse.to_document()}
        return {"kind": "pruned", "estimator": self.coarse.kind, **described}

    @classmethod
    def rebuild(cls, described: Mapping) -> FittedPruning:
        """Return the pruning that was described."""
        coarse = RingCRF if described.get("estimator") == RingCRF.kind else ChainCRF
        return cls(coarse.from_document(described["coarse"]), float(described["threshold"]))


RULES["pruned"] = FittedPruning.rebuild
