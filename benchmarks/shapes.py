"""Classes of whole sequences by local shapes, beside random convolutions of another library, on its data sets.

    python -m benchmarks.shapes [--sets OSULeaf ...] [--rows shapes ...]

Eight sets come with the package ``aeon`` (``pip install aeon``), with training and test parts. Rows are
``SequenceClassifier()`` with its defaults, the same with shapes alone, and ``RocketClassifier`` and
``MiniRocketClassifier`` of aeon with theirs, whose ridge regressions give no probabilities: they have zeros and ones,
and no log-loss. Nothing is chosen on test parts. Each row runs once before on a small set, so that compilation does not
count. Printed are the share of right sequences, the log-loss, CPU seconds of fit and prediction, and their ratio to
those of Rocket; they go to benchmarks/results/shapes.json.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from aeon.classification.convolution_based import MiniRocketClassifier, RocketClassifier
from aeon.datasets import load_classification
from sklearn.metrics import log_loss

from benchmarks.result_files import merge_results, read_results
from kernelfields import SequenceClassifier

SETS = (
    *("OSULeaf", "ItalyPowerDemand", "ACSF1", "ArrowHead", "BasicMotions", "GunPoint"),
    *("JapaneseVowels", "PickupGestureWiimoteZ"),
)
ROWS: dict[str, Callable[[], Any]] = {
    "Rocket": lambda: RocketClassifier(random_state=0, n_jobs=1),
    "MiniRocket": lambda: MiniRocketClassifier(random_state=0, n_jobs=1),
    "shapes": lambda: SequenceClassifier(n_states=0, whole="shapes", n_jobs=1, random_state=0),
    "default": lambda: SequenceClassifier(n_jobs=1, random_state=0),
}
_PEERS = ("Rocket", "MiniRocket")


def load(name: str, part: str) -> tuple[Any, np.ndarray]:
    """Return the series (channels, T) and the classes of a part of a set, as aeon has them."""
    X, y = load_classification(name, split=part)
    return X, np.asarray(y)


def in_positions(X: Any) -> list[np.ndarray]:
    """Return series (channels, T) as sequences (T, channels)."""
    return [np.ascontiguousarray(np.asarray(series, dtype=np.float64).T) for series in X]


def of_one_length(X: Any, length: int) -> np.ndarray:
    """Return series as an array (n, channels, length), cut, or with zeros behind them."""
    out = np.zeros((len(X), X[0].shape[0], length))
    for row, series in zip(out, X, strict=True):
        row[:, : series.shape[1]] = series[:, :length]
    return out


def measure(row: str, name: str) -> dict[str, Any]:
    """Return accuracy, log-loss and CPU seconds of a row on a set."""
    (X, y), (X_new, y_new) = load(name, "train"), load(name, "test")
    if row in _PEERS:
        lengths = [series.shape[1] for series in X]
        if len({*lengths, *(series.shape[1] for series in X_new)}) > 1:
            X, X_new = of_one_length(X, max(lengths)), of_one_length(X_new, max(lengths))
    else:
        X, X_new = in_positions(X), in_positions(X_new)
    begin = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = ROWS[row]().fit(X, y)
        answers = model.predict(X_new) if row in _PEERS else model.predict_proba(X_new)
    seconds = time.process_time() - begin
    found = {"row": row, "set": name}
    if row not in _PEERS:
        found["log_loss"] = round(float(log_loss(y_new, answers, labels=model.classes_)), 4)
        found["chosen"] = str(model.choices_.chosen)
        answers = model.classes_[answers.argmax(axis=1)]
    return {**found, "accuracy": round(float((answers == y_new).mean()), 4), "cpu_seconds": round(seconds, 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    parser.add_argument("--rows", nargs="+", default=list(ROWS), choices=list(ROWS))
    given, results = parser.parse_args(), []
    for row in given.rows:
        measure(row, "GunPoint")
    for name in given.sets:
        rows = [measure(row, name) for row in given.rows]
        known = [own for own in read_results("shapes.json") if own["set"] == name]
        peer = next((own["cpu_seconds"] for own in [*rows, *known] if own["row"] == "Rocket"), None)
        for own in rows:
            if peer:
                own["cpu_ratio"] = round(own["cpu_seconds"] / peer, 2)
            print(own, flush=True)
        merge_results("shapes.json", rows, ("row", "set"))
        results += rows
    for row in given.rows:
        own = [found for found in results if found["row"] == row]
        losses = [found["log_loss"] for found in own if "log_loss" in found]
        mean = f"accuracy {np.mean([found['accuracy'] for found in own]):.4f}"
        mean += f", log-loss {np.mean(losses):.4f}" if losses else ""
        print(f"{row}: {mean}, {sum(found['cpu_seconds'] for found in own):.1f} s of CPU")


if __name__ == "__main__":
    main()
