"""A classifier inside a field, on RFID readings of older people: five folds over trials.

    python -m experiments.classifier_inside [--folds 0 1 2 3 4] [--ways forest ...] [--page]

Each way turns readings into out-of-fold log-probabilities of a classifier, on which stands a ChainCRF with defaults.
Which way is taken in a fold is chosen by the log-likelihood that its field gives to the part of the training trials
that its pilot fits held out; no label of a test trial is read for it. Printed are accuracy and macro F1 of all folds
together, with intervals by drawing trials, the classifiers alone beside the fields. ``--page`` only writes
docs/results/classifier_inside.md from the results.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.metrics import confusion_matrix
from sklearn.model_selection import KFold

from benchmarks.first_try import rfid_trials
from benchmarks.result_files import EXPERIMENTS, merge_results, read_results
from experiments.result_pages import ResultPage
from kernelfields import ChainCRF, OutOfFold, WindowFeatures

RESULTS = "classifier_inside.json"
FOREST = RandomForestClassifier(200, random_state=0, n_jobs=-1)
EXTRA = ExtraTreesClassifier(200, random_state=0, n_jobs=-1)
#: Name, what comes before the classifier, and the classifier by positions.
WAYS: dict[str, tuple[BaseEstimator | None, OutOfFold]] = {
    "forest": (None, OutOfFold(FOREST)),
    "forest, five readings": (None, OutOfFold(FOREST, window=5)),
    "extra trees, five readings": (None, OutOfFold(EXTRA, window=5)),
    "forest, windows": (WindowFeatures(widths=(5, 15, 45)), OutOfFold(FOREST)),
}
CHOSEN = "chosen on training trials"
DRAWS = 1000


def run_fold(way: str, train: tuple[list, list], test: list[np.ndarray], true: list[np.ndarray]) -> dict[str, Any]:
    """Return how a way confuses the labels of each test trial, alone and by a field, and its score in training."""
    before, inside = WAYS[way]
    X, y = train
    if before is not None:
        before = clone(before).fit(X)
        X, test = before.transform(X), before.transform(test)
    inside = clone(inside)
    seen = inside.fit_transform(X, y)
    field = ChainCRF(random_state=0).fit(seen, y)
    chances = inside.transform(test)

    def confused(predicted: list) -> list:
        pairs = zip(true, predicted, strict=True)
        return [confusion_matrix(t, p, labels=inside.classes_).tolist() for t, p in pairs]

    return {
        "held_out": max(trial.score for trial in field.choices_.trials),
        "chosen": str(field.choices_).splitlines()[0],
        "alone": confused([inside.classes_[own.argmax(axis=1)] for own in chances]),
        "field": confused(field.predict(chances)),
    }


def figures(confusions: np.ndarray) -> list[float]:
    """Return accuracy and macro F1 in per cent, each with an interval by drawing trials, of confusions by trial."""

    def both(counts: np.ndarray) -> list[float]:
        right = np.diag(counts)
        f1 = 2 * right / (counts.sum(axis=0) + counts.sum(axis=1))
        return [100 * float(right.sum() / counts.sum()), 100 * float(f1.mean())]

    random, n_trials = np.random.default_rng(0), len(confusions)
    draws = np.array([both(confusions[random.integers(n_trials, size=n_trials)].sum(axis=0)) for _ in range(DRAWS)])
    whole = both(confusions.sum(axis=0))
    return [value for k in (0, 1) for value in (whole[k], *np.quantile(draws[:, k], [0.025, 0.975]))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folds", type=int, nargs="*", default=[0, 1, 2, 3, 4])
    parser.add_argument("--ways", nargs="*", default=list(WAYS))
    parser.add_argument("--page", action="store_true", help="only write the page from the results")
    options = parser.parse_args()
    if options.page:
        write_page()
        return
    X, y = rfid_trials()
    folds = list(KFold(5, shuffle=True, random_state=0).split(X))
    for fold in options.folds:
        train, test = folds[fold]
        for way in options.ways:
            parts = [X[i] for i in test], [y[i] for i in test]
            begin = time.perf_counter()
            made = run_fold(way, ([X[i] for i in train], [y[i] for i in train]), *parts)
            made["seconds"] = time.perf_counter() - begin
            merge_results(RESULTS, [{"way": way, "fold": fold, **made}], ("way", "fold"), EXPERIMENTS)
            print(f"fold {fold}, {way}: held-out log-likelihood {made['held_out']:.4f}, {made['chosen']}", flush=True)
    write_page()


def write_page() -> None:
    """Print the figures of every way that has all folds, and of the way chosen in each fold, and write the page."""
    rows = {(row["way"], row["fold"]): row for row in read_results(RESULTS, EXPERIMENTS)}
    whole = [way for way in WAYS if all((way, fold) in rows for fold in range(5))]
    if not whole:
        print("no way has all five folds yet")
        return
    best = [max(whole, key=lambda way, fold=fold: rows[way, fold]["held_out"]) for fold in range(5)]
    table = []
    for way in [*whole, CHOSEN]:
        taken = [rows[best[fold] if way == CHOSEN else way, fold] for fold in range(5)]
        both = (figures(np.array([own for row in taken for own in row[who]])) for who in ("alone", "field"))
        words = [f"{a:.1f} [{b:.1f}, {c:.1f}] / {d:.1f} [{e:.1f}, {f:.1f}]" for a, b, c, d, e, f in both]
        table.append([way, *words])
        print("   ".join(table[-1]))
    times = [row.get("seconds") for row in rows.values()]
    page = ResultPage(
        "classifier_inside",
        "A classifier inside a field",
        command="python -m experiments.classifier_inside",
        seconds=None if None in times else sum(times),
    )
    page.text(
        "RFID readings of older people in a room, 60 trials, 52,482 readings, four activities; five folds over trials. "
        "Per cent of readings that are right / macro F1, with intervals of 95 % by drawing trials. The field is a "
        "ChainCRF with defaults on out-of-fold log-probabilities of the classifier; alone, the classifier labels each "
        "reading by itself."
    )
    page.table(["way", "classifier alone", "field on it"], table)
    page.text(
        "The last row takes in each fold the way whose field gives the highest log-likelihood to training trials that "
        f"were held out of its pilot fits: {', '.join(best)}. Readings: five of them in a row; windows: running means, "
        "differences and ranges over 5, 15 and 45 readings (`WindowFeatures`). The ways themselves were laid down "
        "after figures of a forest on single readings and on five were known for these trials."
    )
    page.text(
        "Where a classifier sees five readings, the field on it is worse than the classifier alone, with wide "
        "intervals: a few trials make the difference. Why was not looked into; predictions of neighbours whose "
        "readings overlap err together, and a field takes them for independent."
    )
    page.write()


if __name__ == "__main__":
    main()
