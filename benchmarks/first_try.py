"""First tries: what a newcomer gets who knows the README and the quickstart, beside someone who knows the library.

    python -m benchmarks.first_try [--tasks qian rfid ...] [--knowing]

Every task is fitted with the defaults of its estimator and the inputs as they come: residues as feature dicts of
their neighbours, sensor readings as columns, words as words. ``--knowing`` also fits with settings that were found by a
search on the training part. Figures are accuracies, F1 where the table says so, in per cent; the column of peers holds
what others reached on the same parts (logistic regression and a random forest of scikit-learn, fitted here).
"""

from __future__ import annotations

import argparse
import csv
import gzip
import time
import warnings
from collections.abc import Callable, Iterator
from itertools import groupby

import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction import DictVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.model_selection import KFold
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.result_files import write_results
from benchmarks.shared_data import data_file, token_columns
from kernelfields import ChainCRF, GraphCRF, MultiLabelCRF
from kernelfields.evaluation import entity_f1_score, token_accuracy
from kernelfields.fields import grid_edges

RESULT = "first_try.json"
Figures = dict[str, float]


def residues(rows: list[list[str]], reach: int) -> list[dict[str, bool]]:
    """Return the neighbours of each residue of a protein as feature dicts."""
    letters = [row[0] for row in rows]
    places = range(len(letters))
    return [
        {f"{step}:{letters[t + step]}": True for step in range(-reach, reach + 1) if 0 <= t + step < len(letters)}
        for t in places
    ]


def labelled(sequences: list, reach: int, column: int = 1) -> tuple[list, list[list[str]]]:
    return [residues(rows, reach) for rows in sequences], [[row[column] for row in rows] for rows in sequences]


def proteins(train: tuple[list, list], test: tuple[list, list], knowing: bool) -> Iterator[tuple[str, Figures]]:
    crf = ChainCRF().fit(*train)
    yield "first try", {"accuracy": crf.score(*test), "prior variance": crf.prior_variance_}
    if knowing:
        known = ChainCRF("linear", prior_variance=0.1, decode="posterior").fit(*train)
        yield "knowing", {"accuracy": known.score(*test)}
        flat = [position for sequence in train[0] for position in sequence]
        peer = make_pipeline(DictVectorizer(), LogisticRegression(max_iter=500))
        peer.fit(flat, np.concatenate(train[1]))
        right = peer.predict([position for sequence in test[0] for position in sequence]) == np.concatenate(test[1])
        yield "logistic regression", {"accuracy": float(right.mean())}


def qian(knowing: bool) -> Iterator[tuple[str, Figures]]:
    """Qian and Sejnowski's proteins, Q3."""
    train, test = (labelled(token_columns("first-try", f"qian-sejnowski-{part}.tsv.gz"), 6) for part in PARTS)
    return proteins(train, test, knowing)


def ts115(knowing: bool) -> Iterator[tuple[str, Figures]]:
    """Proteins of TS115 after learning on CB513, Q3."""
    train = labelled(token_columns("cb513", "cb513_domains.tsv.gz"), 7)
    return proteins(train, labelled(token_columns("first-try", "ts115.tsv.gz"), 7), knowing)


def digits(knowing: bool) -> Iterator[tuple[str, Figures]]:
    """Cells of scikit-learn's digits as 8 x 8 binary grids of which one in ten is flipped."""
    clean = (load_digits().images > 7).astype(int)
    random = np.random.default_rng(0)
    noisy = np.where(random.random(clean.shape) < 0.1, 1 - clean, clean)
    edges = grid_edges(8, 8)
    X = [(image.reshape(-1, 1).astype(float), edges) for image in noisy]
    y = [image.reshape(-1) for image in clean]
    crf = GraphCRF().fit(X[:500], y[:500])
    yield "first try", {"accuracy": crf.score(X[500:800], y[500:800]), "prior variance": crf.prior_variance_}
    if knowing:
        joint = crf.score(X[500:800], y[500:800], decode="viterbi")
        yield "joint decoding", {"accuracy": joint}
        around = np.pad(noisy, ((0, 0), (1, 1), (1, 1)))
        seen = np.stack([around[:, i : i + 8, j : j + 8] for i in range(3) for j in range(3)], axis=-1).reshape(-1, 9)
        cells = clean.reshape(-1)
        peer = LogisticRegression().fit(seen[: 500 * 64], cells[: 500 * 64])
        yield "logistic regression", {"accuracy": peer.score(seen[500 * 64 : 800 * 64], cells[500 * 64 : 800 * 64])}


def rfid(knowing: bool) -> Iterator[tuple[str, Figures]]:
    """Activities of older people from an RFID sensor, five folds over trials."""
    with gzip.open(data_file("first-try", "rfid-s1.csv.gz"), "rt") as file:
        rows = list(csv.DictReader(file))
    X, y = [], []
    for _, trial in groupby(rows, key=lambda row: row["trial"]):
        readings = list(trial)
        X.append(np.array([[float(row[name]) for name in list(row)[1:-1]] for row in readings]))
        y.append([row["activity"] for row in readings])

    def forest(train: list[int], test: list[int]) -> list[np.ndarray]:
        model = RandomForestClassifier(200, random_state=0, n_jobs=-1)
        model.fit(np.vstack([X[i] for i in train]), np.concatenate([y[i] for i in train]))
        return [model.predict(X[i]) for i in test]

    def field(crf: ChainCRF) -> Callable:
        return lambda train, test: crf.fit([X[i] for i in train], [y[i] for i in train]).predict([X[i] for i in test])

    tries = {"first try": field(ChainCRF())}
    if knowing:
        tries |= {"random forest": forest}
    for name, predict in tries.items():
        true, predicted = [], []
        for train, test in KFold(5, shuffle=True, random_state=0).split(X):
            predicted += [np.asarray(each) for each in predict(train.tolist(), test.tolist())]
            true += [np.asarray(y[i]) for i in test]
        true_all, predicted_all = np.concatenate(true), np.concatenate(predicted)
        macro = f1_score(true_all, predicted_all, average="macro")
        yield name, {"accuracy": float((true_all == predicted_all).mean()), "macro F1": float(macro)}


def wnut(knowing: bool) -> Iterator[tuple[str, Figures]]:
    """Entities of WNUT17 from words alone, F1."""
    from kernelfields.features import TextFeatures

    train, test = (
        [*zip(*[zip(*rows, strict=True) for rows in token_columns("first-try", f"wnut17-{part}.tsv.gz")], strict=True)]
        for part in PARTS
    )
    model = make_pipeline(TextFeatures(), ChainCRF())
    model.fit([list(words) for words in train[0]], [list(labels) for labels in train[1]])
    predicted = model.predict([list(words) for words in test[0]])
    true = [list(labels) for labels in test[1]]
    variance = model[-1].prior_variance_
    yield (
        "first try",
        {
            "F1": entity_f1_score(true, predicted),
            "accuracy": token_accuracy(true, predicted),
            "prior variance": variance,
        },
    )


def read_arff(*parts: str) -> tuple[list[str], np.ndarray]:
    """Return the names of the attributes and the rows of a file in ARFF, dense or sparse, numbers alone."""
    names: list[str] = []
    rows: list[np.ndarray] = []
    with gzip.open(data_file(*parts), "rt") as file:
        for line in map(str.strip, file):
            if line.lower().startswith("@attribute"):
                quote = line[11]
                names.append(line[12 : line.index(quote, 12)] if quote in "\"'" else line.split()[1])
            elif line.startswith("{"):
                row = np.zeros(len(names))
                for pair in filter(None, line.strip("{}").split(",")):
                    place, value = pair.split()
                    row[int(place)] = float(value)
                rows.append(row)
            elif line and line[0] not in "@%":
                rows.append(np.array(line.split(","), dtype=float))
    return names, np.array(rows)


def birds(knowing: bool) -> Iterator[tuple[str, Figures]]:
    """Bird species in sound clips, several labels, five folds."""
    _, rows = read_arff("first-try", "birds.arff.gz")
    Y, X = rows[:, :19].astype(int), rows[:, 19:]
    tries: dict[str, Callable] = {"first try": MultiLabelCRF}
    if knowing:
        tries |= {
            "knowing": lambda: make_pipeline(StandardScaler(), MultiLabelCRF("rbf", prior_variance=1000.0)),
            "logistic regression": lambda: make_pipeline(
                StandardScaler(), MultiOutputClassifier(LogisticRegression(max_iter=2000))
            ),
        }
    for name, make in tries.items():
        predicted = np.zeros_like(Y)
        for train, test in KFold(5, shuffle=True, random_state=0).split(X):
            predicted[test] = make().fit(X[train], Y[train]).predict(X[test])
        yield name, {"micro F1": float(f1_score(Y, predicted, average="micro"))}


PARTS = ("train", "test")
TASKS = {"qian": qian, "ts115": ts115, "digits": digits, "rfid": rfid, "wnut": wnut, "birds": birds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--knowing", action="store_true", help="peers and chosen settings too")
    given = parser.parse_args()
    results = []
    for task in given.tasks:
        begin = time.perf_counter()
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            for name, figures in TASKS[task](given.knowing):
                seconds, begin = time.perf_counter() - begin, time.perf_counter()
                results.append({"task": task, "how": name, "seconds": round(seconds, 1), **figures})
                shown = "  ".join(f"{key} {value:.4g}" for key, value in figures.items())
                print(f"{task:8} {name:22} {shown}   {seconds:.0f} s", flush=True)
        for text in sorted({str(each.message)[:200] for each in said}):
            print(f"{task:8} warned: {text}", flush=True)
    write_results(RESULT, results)


if __name__ == "__main__":
    main()
