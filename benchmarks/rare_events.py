"""Rare events: changes of occupancy, and walking among activities, by the most probable labels and by thresholds.

    python -m benchmarks.rare_events [--sets occupancy rfid nab]

One fit a set, ``ChainCRF(decode="f1")`` on columns of windows, for NAB on the series as they are: its most probable
labels (``decode="posterior"``) are those of the default. A random forest on columns of windows stands beside it, as it
is and with balanced classes.
Occupancy: temperature, humidity and CO2 of the training file, without the light, which gives presence away; a minute is
an event if somebody comes or the last one leaves within two minutes of it; the second test file. RFID: every second
trial to learn from, the others to test; the event is walking. NAB: every second series to learn from; the event is an
anomaly. Printed are F1, precision and recall of the event, and the accuracy; they go to
benchmarks/results/rare_events.json.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import accuracy_score, precision_recall_fscore_support

from benchmarks.first_try import rfid_trials
from benchmarks.result_files import merge_results
from benchmarks.shared_data import data_file
from kernelfields import ChainCRF, WindowFeatures

#: Inputs and labels of training sequences and of test sequences, and the event.
Task = tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray], list[np.ndarray], str]
_NEAR = 2
_ACTIVITIES = ("sitting on bed", "sitting on chair", "lying", "walking")


def occupancy() -> Task:
    """Return minutes around changes of occupancy."""
    with np.load(data_file("occupancy", "occupancy.npz"), allow_pickle=False) as archive:
        names = archive["feature_names"].tolist()
        columns = [place for place, name in enumerate(names) if name != "Light"]
        parts = [(archive[f"x_{part}"][:, columns].astype(float), archive[f"y_{part}"]) for part in ("train", "test2")]
    X, y = [], []
    for rows, present in parts:
        changed = np.concatenate([[False], present[1:] != present[:-1]])
        near = np.convolve(changed, np.ones(2 * _NEAR + 1), mode="same") > 0
        X.append(rows)
        y.append(np.where(near, "change", "same"))
    return X[:1], y[:1], X[1:], y[1:], "change"


def rfid() -> Task:
    """Return activities of older people, of whom few walk at a time."""
    X, y = rfid_trials()
    named = [np.array(_ACTIVITIES)[labels.astype(int) - 1] for labels in y]
    return X[::2], named[::2], X[1::2], named[1::2], "walking"


def nab() -> Task:
    """Return series of cloud monitors and traffic, with windows around anomalies."""
    with np.load(data_file("first-try-4", "nab.npz"), allow_pickle=False) as archive:
        ends = np.cumsum(archive["lengths"])[:-1]
        X, y = np.split(archive["x"].astype(float), ends), np.split(archive["y"], ends)
    return X[::2], y[::2], X[1::2], y[1::2], "anomaly"


SETS: dict[str, Callable[[], Task]] = {"occupancy": occupancy, "rfid": rfid, "nab": nab}
#: Sets on which the field sees the series as they are.
AS_THEY_ARE = ("nab",)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    for name in parser.parse_args().sets:
        X, y, X_test, y_test, event = SETS[name]()
        windows = WindowFeatures().fit(X)
        joined, joined_test = windows.transform(X), windows.transform(X_test)
        seen, seen_test = (X, X_test) if name in AS_THEY_ARE else (joined, joined_test)
        crf = ChainCRF(decode="f1", random_state=0).fit(seen, y)
        found = {
            "most probable": np.concatenate(crf.predict(seen_test, decode="posterior")),
            "thresholds": np.concatenate(crf.predict(seen_test)),
        }
        for weight in (None, "balanced"):
            forest = RandomForestClassifier(200, class_weight=weight, random_state=0, n_jobs=1)
            forest.fit(np.vstack(joined), np.concatenate(y))
            found[f"forest, {weight or 'as it is'}"] = forest.predict(np.vstack(joined_test))
        true = np.concatenate(y_test)
        print(f"{name}: {np.mean(true == event):.1%} of the test positions, {crf.choices_.chosen}")
        for row, labels in found.items():
            scores = precision_recall_fscore_support(true, labels, labels=[event], zero_division=0.0)
            precision, recall, f1 = (float(score[0]) for score in scores[:3])
            figures = {"f1": f1, "precision": precision, "recall": recall, "accuracy": accuracy_score(true, labels)}
            rounded = {measure: round(value, 4) for measure, value in figures.items()}
            print(f"  {row:18} {rounded}", flush=True)
            merge_results("rare_events.json", [{"set": name, "row": row, **rounded}], ("set", "row"))


if __name__ == "__main__":
    main()
