"""Data of the comparison of calibrations: three training sets with their test sequences, and fields for them.

*prosody*: 300 English sentences of the Helsinki corpus for training, 700 others for the test, two labels, windows
of five words. *letters*: one fold of OCR letters for training, 1,500 words of the others for the test. *proteins*:
60 profiles of JPred4 for training, the blind set for the test, windows of 15 residues.
"""

from __future__ import annotations

import numpy as np

from benchmarks.shared_data import ocr_letters, protein_profiles
from experiments import prominence_features as features

RESULTS = "calibration.json"
MODELS = ("mode", "Laplace sampling", "Laplace probit", "temperature")
TITLES = {"prosody": "Helsinki prosody", "letters": "OCR letters, small", "proteins": "JPred4 profiles"}
#: Settings of the field, gammas and prior variances to choose from.
FIELDS = {
    "prosody": ({"window": 5, "rank": 300}, (0.0003, 0.001, 0.003, 0.01), (1.0, 3.0, 10.0, 30.0, 100.0)),
    "letters": ({"rank": 150}, (0.04, 0.06, 0.09), (20.0, 60.0, 200.0)),
    "proteins": ({"window": 15, "rank": 300}, (0.1, 0.3, 1.0), (1.0, 3.0, 10.0, 30.0)),
}

Sequences = tuple[list, list, list, list]


def data(name: str) -> Sequences:
    """Return training inputs and labels, test inputs and labels."""
    if name == "prosody":
        everything = features.english_sentences("dev")
        order = np.random.default_rng(1).permutation(len(everything))[:1000]
        known, held = ([everything[i] for i in part] for part in (order[:300], order[300:]))
        lexicon = features.Lexicon(known, features.ENGLISH, features.ENGLISH_ENDINGS)
        inputs = (
            [lexicon.describe(each, counted=True) for each in known],
            [lexicon.describe(each) for each in held],
        )
        labels = ([np.minimum(each.labels, 1) for each in part] for part in (known, held))
        train, test = zip(inputs, labels, strict=True)
        return *train, *test
    if name == "letters":
        X, y, fold = ocr_letters()
        train = np.flatnonzero(fold == 1)
        test = np.random.default_rng(0).choice(np.flatnonzero(fold != 1), 1500, replace=False)
        return [X[i] for i in train], [y[i] for i in train], [X[i] for i in test], [y[i] for i in test]
    scores, _, labels = protein_profiles("train")
    blind, _, truth = protein_profiles("blind")
    chosen = np.random.default_rng(0).choice(len(scores), 60, replace=False)
    return squashed([scores[i] for i in chosen]), [labels[i] for i in chosen], squashed(blind), truth


def squashed(scores: list) -> list:
    """Return log-odds scores through the logistic function, scaled for windows of 15."""
    return [((1 / (1 + np.exp(-each)) - 0.5) / np.sqrt(15)).astype(np.float32) for each in scores]


def held_out_third(X: list, y: list) -> Sequences:
    """Return two thirds of training sequences and the others, less those with labels unknown to the former."""
    order = np.random.default_rng(5).permutation(len(X))
    known, held = order[: 2 * len(X) // 3], order[2 * len(X) // 3 :]
    classes = np.unique(np.concatenate([y[i] for i in known]))
    held = [i for i in held if np.isin(y[i], classes).all()]
    return [X[i] for i in known], [y[i] for i in known], [X[i] for i in held], [y[i] for i in held]
