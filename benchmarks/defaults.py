"""Defaults on twelve data sets: those of version 0.1, those of today, and a search by cross-validation.

    python -m benchmarks.defaults [--sets letters gestures ...] [--no-search] [--page]

The defaults of 0.1 were an RBF kernel on everything, prior variance 1, columns as they come, Viterbi decoding and 100
iterations. Every set is cut to a few thousand positions, so that a search over kernels and prior variances by halving
takes minutes. It chooses on training data; all three are measured on the same test part. Accuracy of positions, micro
F1 for several labels, in per cent. --page only writes docs/results/defaults.md from what was found.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.metrics import f1_score
from sklearn.model_selection import train_test_split

from benchmarks.result_files import merge_results, read_results
from benchmarks.shared_data import (
    data_file,
    gesture_phases,
    multilabel_set,
    ocr_letters,
    protein_profiles,
    token_columns,
)
from experiments.result_pages import ResultPage
from kernelfields import (
    ChainCRF,
    FieldSearchCV,
    KernelClassifier,
    MultiLabelCRF,
    TextFeatures,
)

RESULT = "defaults.json"
Task = tuple[Any, Any, Any, Any]
OLD: dict[type, dict[str, Any]] = {
    ChainCRF: {"kernel": "rbf", "prior_variance": 1.0, "scale": False, "decode": "viterbi", "max_iter": 100},
    KernelClassifier: {"kernel": "rbf", "prior_variance": 1.0, "scale": False, "max_iter": 200},
    MultiLabelCRF: {
        "kernel": "rbf",
        "prior_variance": 1.0,
        "scale": False,
        "decision": "hamming",
        "max_iter": 100,
    },
}


def letters() -> Task:
    X, y, fold = ocr_letters()
    train, test = np.flatnonzero(fold == 0)[:400], np.flatnonzero(fold == 1)[:400]
    return [X[i] for i in train], [y[i] for i in train], [X[i] for i in test], [y[i] for i in test]


def gestures() -> Task:
    _, velocity, labels, _ = gesture_phases()
    return velocity[:4], labels[:4], velocity[4:6], labels[4:6]


def occupancy() -> Task:
    with np.load(data_file("occupancy", "occupancy.npz"), allow_pickle=False) as archive:
        columns = [name for name in archive["feature_names"].tolist() if "light" not in name.lower()]
        kept = [archive["feature_names"].tolist().index(name) for name in columns]
        parts = [(archive[f"x_{part}"][:, kept], archive[f"y_{part}"]) for part in ("train", "test1")]
    days = [(x[i : i + 500], y[i : i + 500]) for x, y in parts[:1] for i in range(0, len(x), 500)]
    return [x for x, _ in days], [y for _, y in days], [parts[1][0]], [parts[1][1]]


def proteins() -> Task:
    scores, _, labels = protein_profiles("train")
    blind, _, true = protein_profiles("blind")
    return scores[:40], labels[:40], blind[:40], true[:40]


def words(folder: str, label: int, n_sentences: int = 300) -> Task:
    parts = []
    for part in ("train", "test"):
        rows = token_columns(folder, f"{part}.tsv.gz")[:n_sentences]
        parts += [
            [[row[0] for row in sentence] for sentence in rows],
            [[row[label] for row in sentence] for sentence in rows],
        ]
    features = TextFeatures().fit(parts[0])
    return features.transform(parts[0]), parts[1], features.transform(parts[2]), parts[3]


def nettalk() -> Task:
    rows = token_columns("nettalk", "nettalk.tsv.gz")[:1500]
    X = [[{"letter": row[0], **_around(word, t)} for t, row in enumerate(word)] for word in rows]
    y = [[row[1] for row in word] for word in rows]
    return X[:1000], y[:1000], X[1000:], y[1000:]


def _around(word: list[list[str]], t: int) -> dict[str, str]:
    return {f"{step:+d}": word[t + step][0] for step in (-2, -1, 1, 2) if 0 <= t + step < len(word)}


def labels_of(name: str) -> Task:
    (X, Y), (X_test, Y_test), _ = multilabel_set(name)
    return X[:800], Y[:800], X_test[:800], Y_test[:800]


def table(load: Callable[..., Any]) -> Task:
    X, y = load(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, random_state=0, stratify=y)
    return X_train, y_train, X_test, y_test


SETS: dict[str, tuple[type, Callable[[], Task]]] = {
    "letters": (ChainCRF, letters),
    "gestures": (ChainCRF, gestures),
    "occupancy": (ChainCRF, occupancy),
    "proteins": (ChainCRF, proteins),
    "chunks": (ChainCRF, lambda: words("conll2000", 2)),
    "parts of speech": (ChainCRF, lambda: words("ud-english-ewt", 1)),
    "phonemes": (ChainCRF, nettalk),
    "emotions": (MultiLabelCRF, lambda: labels_of("emotions")),
    "yeast": (MultiLabelCRF, lambda: labels_of("yeast")),
    "digits": (KernelClassifier, lambda: table(load_digits)),
    "wine": (KernelClassifier, lambda: table(load_wine)),
    "breast cancer": (KernelClassifier, lambda: table(load_breast_cancer)),
}


def measured(model: Any, task: Task) -> float:
    X, y, X_test, y_test = task
    model.fit(X, y)
    if isinstance(y, np.ndarray) and y.ndim == 2:
        return float(f1_score(y_test, model.predict(X_test), average="micro"))
    return float(model.score(X_test, y_test))


def page() -> None:
    """Write docs/results/defaults.md."""
    rows = {row["set"]: row for row in read_results(RESULT)}
    shown = [rows[name] for name in SETS if name in rows]
    kinds = ("0.1", "today", "search")
    sheet = ResultPage(
        "defaults",
        "Defaults against a search",
        command="python -m benchmarks.defaults",
        seconds=sum(row.get(f"{kind} seconds", 0.0) for row in shown for kind in kinds),
        machine="one core for each set",
    )
    sheet.text(
        "Every estimator is fitted as it is made, `ChainCRF()` and no more: first as in version 0.1 (RBF kernel, prior "
        "variance 1, columns as they come, Viterbi), then as it is today (kernel by the kind of input, prior variance "
        "on a held-out part, columns scaled where their spreads differ, the most probable labels one by one), then as "
        "a search over kernels and prior variances finds it. All choices are made on training data of a few hundred "
        "sequences at most; figures are those of a test part, in per cent: accuracy of positions, micro F1 for "
        "emotions and yeast."
    )
    sheet.table(
        ["set", "estimator", *kinds, "seconds today", "seconds of the search"],
        [
            [
                row["set"],
                SETS[row["set"]][0].__name__,
                *(f"{100 * row[kind]:.1f}" if kind in row else "" for kind in kinds),
                row["today seconds"],
                row.get("search seconds", ""),
            ]
            for row in shown
        ],
    )
    ahead = max((row for row in shown if "search" in row), key=lambda row: row["search"] - row["today"])
    behind = [row["set"] for row in shown if row["today"] < row["0.1"]]
    sheet.text(
        f"The search is ahead by {100 * (ahead['search'] - ahead['today']):.1f} points at most ({ahead['set']}). "
        f"Below the defaults of 0.1: {', '.join(behind) or 'none'}. The test part of occupancy are other days than "
        "those to learn from: what is chosen on the one fits the other less well, and the search goes the same way."
    )
    sheet.write()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--no-search", action="store_true", help="defaults alone")
    parser.add_argument("--page", action="store_true", help="only write the page")
    given = parser.parse_args()
    if given.page:
        page()
        return
    warnings.simplefilter("ignore")
    print(f"{'set':16}{'0.1':>8}{'today':>8}{'search':>8}   seconds")
    for name in given.sets:
        kind, load = SETS[name]
        task = load()
        models = {"0.1": kind(random_state=0, **OLD[kind]), "today": kind(random_state=0)}
        if not given.no_search:
            models["search"] = FieldSearchCV(kind(random_state=0), random_state=0)
        row: dict[str, Any] = {"set": name}
        for how, model in models.items():
            begin = time.perf_counter()
            row[how] = measured(model, task)
            row[f"{how} seconds"] = round(time.perf_counter() - begin, 1)
        shown = "".join(f"{100 * row[how]:8.1f}" if how in row else f"{'':8}" for how in ("0.1", "today", "search"))
        print(f"{name:16}{shown}   {', '.join(str(row[f'{how} seconds']) for how in models)}", flush=True)
        merge_results(RESULT, [row], ("set",))


if __name__ == "__main__":
    main()
