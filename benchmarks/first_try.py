"""First tries: what a newcomer gets who has read the README and the quickstart, beside plain classifiers.

    python -m benchmarks.first_try [--tasks qian rfid ...] [--against OLD] [--limit 240] [--jobs 1]

Every task is fitted with the defaults of its estimator and the inputs as they come: residues as feature dicts of
their neighbours, sensor readings as columns, words as words. Where a classifier of scikit-learn sees the same inputs
(logistic regression, a random forest), it runs as well, and the ratio of CPU seconds is printed.

Each task runs in a process of its own, which is ended after ``--limit`` seconds. OLD is another checkout of this
project: every task runs with its package too, first, so that the two are measured in turn. Printed are the figures of
the test part, CPU seconds of all threads together (reading, fitting and predicting), the peak memory of the process,
and the settings that the fit chose. Compiled code is cached beside the package, and a first run compiles it: where OLD
has not run before, run a task twice. Results are shown in docs/results/first_try.md.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import groupby
from pathlib import Path

import numpy as np
import scipy.sparse
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction import DictVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, roc_auc_score
from sklearn.model_selection import KFold
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.result_files import CHECKOUT, RESULTS, merge_results, read_results
from benchmarks.shared_data import (
    SETTING,
    data_file,
    data_folder,
    gesture_phases,
    ocr_letters,
    protein_profiles,
    token_columns,
)
from experiments.result_pages import duration, table
from kernelfields import (
    ChainCRF,
    FrameCRF,
    GraphCRF,
    KernelClassifier,
    MultiLabelCRF,
    OutOfFold,
    TextFeatures,
    WindowFeatures,
)
from kernelfields.data import grid_edges
from kernelfields.evaluation import entity_f1_score, token_accuracy

RESULT = "first_try.json"
Figures = dict[str, float]
#: The name of a fit, its figures, and the estimator, None for peers.
Found = tuple[str, Figures, object]
#: Sequences, their labels, and which of them are learnt from and predicted, split by split.
Divided = tuple[Sequence[np.ndarray], Sequence[np.ndarray], Sequence[tuple[Sequence[int], Sequence[int]]]]
_AMINO_ACIDS = "ACDEFGHIKLMNPQRSTVWY"


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


def proteins(train: tuple[list, list], test: tuple[list, list]) -> Iterator[Found]:
    crf = ChainCRF().fit(*train)
    yield "first try", {"accuracy": crf.score(*test)}, crf
    flat, flat_test = ([position for sequence in part[0] for position in sequence] for part in (train, test))
    peer = make_pipeline(DictVectorizer(), LogisticRegression(max_iter=500)).fit(flat, np.concatenate(train[1]))
    yield "logistic regression", {"accuracy": peer.score(flat_test, np.concatenate(test[1]))}, None


def qian() -> Iterator[Found]:
    """Qian and Sejnowski's proteins, Q3."""
    train, test = (labelled(token_columns("first-try", f"qian-sejnowski-{part}.tsv.gz"), 6) for part in PARTS)
    return proteins(train, test)


def ts115() -> Iterator[Found]:
    """Proteins of TS115 after learning on CB513, Q3."""
    train = labelled(token_columns("cb513", "cb513_domains.tsv.gz"), 7)
    return proteins(train, labelled(token_columns("first-try", "ts115.tsv.gz"), 7))


def digits() -> Iterator[Found]:
    """Cells of scikit-learn's digits as 8 x 8 binary grids of which one in ten is flipped."""
    clean = (load_digits().images > 7).astype(int)
    random = np.random.default_rng(0)
    noisy = np.where(random.random(clean.shape) < 0.1, 1 - clean, clean)
    edges = grid_edges(8, 8)
    X = [(image.reshape(-1, 1).astype(float), edges) for image in noisy]
    y = [image.reshape(-1) for image in clean]
    crf = GraphCRF().fit(X[:500], y[:500])
    yield "first try", {"accuracy": crf.score(X[500:800], y[500:800])}, crf
    around = np.pad(noisy, ((0, 0), (1, 1), (1, 1)))
    seen = np.stack([around[:, i : i + 8, j : j + 8] for i in range(3) for j in range(3)], axis=-1).reshape(-1, 9)
    cells = clean.reshape(-1)
    peer = LogisticRegression().fit(seen[: 500 * 64], cells[: 500 * 64])
    accuracy = peer.score(seen[500 * 64 : 800 * 64], cells[500 * 64 : 800 * 64])
    yield "logistic regression", {"accuracy": accuracy}, None


def rfid_trials() -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return readings and activities, trial by trial."""
    with gzip.open(data_file("first-try", "rfid-s1.csv.gz"), "rt") as file:
        rows = list(csv.DictReader(file))
    X, y = [], []
    for _, trial in groupby(rows, key=lambda row: row["trial"]):
        readings = list(trial)
        X.append(np.array([[float(row[name]) for name in list(row)[1:-1]] for row in readings]))
        y.append(np.array([row["activity"] for row in readings]))
    return X, y


def rfid_folds() -> Divided:
    """Activities of older people from an RFID sensor, five folds over trials."""
    X, y = rfid_trials()
    return X, y, [*KFold(5, shuffle=True, random_state=0).split(X)]


def rfid() -> Iterator[Found]:
    """Activities of older people, predicted by a field, a forest and a field on the forest."""
    X, y, folds = rfid_folds()

    def forest(train: list[int], test: list[int]) -> list[np.ndarray]:
        model = RandomForestClassifier(200, random_state=0, n_jobs=-1)
        model.fit(np.vstack([X[i] for i in train]), np.concatenate([y[i] for i in train]))
        return [model.predict(X[i]) for i in test]

    def field(crf: ChainCRF | Pipeline) -> Callable:
        return lambda train, test: crf.fit([X[i] for i in train], [y[i] for i in train]).predict([X[i] for i in test])

    crf, inside = ChainCRF(), OutOfFold(RandomForestClassifier(200, random_state=0, n_jobs=-1))
    tries = {
        "first try": field(crf),
        "random forest": forest,
        "field on the forest": field(make_pipeline(inside, ChainCRF())),
    }
    for name, predict in tries.items():
        true, predicted = [], []
        for train, test in folds:
            predicted += [np.asarray(each) for each in predict(train.tolist(), test.tolist())]
            true += [np.asarray(y[i]) for i in test]
        true_all, predicted_all = np.concatenate(true), np.concatenate(predicted)
        macro = f1_score(true_all, predicted_all, average="macro")
        figures = {"accuracy": float((true_all == predicted_all).mean()), "macro F1": float(macro)}
        yield name, figures, crf if name == "first try" else None


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


def birds() -> Iterator[Found]:
    """Bird species in sound clips, several labels, five folds."""
    _, rows = read_arff("first-try", "birds.arff.gz")
    Y, X = rows[:, :19].astype(int), rows[:, 19:]
    tries: dict[str, Callable] = {
        "first try": MultiLabelCRF,
        "logistic regression": lambda: make_pipeline(
            StandardScaler(), MultiOutputClassifier(LogisticRegression(max_iter=2000))
        ),
    }
    for name, make in tries.items():
        predicted = np.zeros_like(Y)
        for train, test in KFold(5, shuffle=True, random_state=0).split(X):
            model = make().fit(X[train], Y[train])
            predicted[test] = model.predict(X[test])
        figures = {"micro F1": float(f1_score(Y, predicted, average="micro"))}
        yield name, figures, model if name == "first try" else None


def words_and_labels(*parts: str) -> tuple[list[list[str]], list[list[str]]]:
    """Return the words and the labels of the sentences of a file."""
    sequences = token_columns(*parts)
    return [[row[0] for row in rows] for rows in sequences], [[row[1] for row in rows] for rows in sequences]


def text(folder: str, name: str) -> tuple[list[list[str]], list, ChainCRF]:
    """Return the true labels of the test part, what a first try predicts for them, and the field of the first try."""
    train, test = (words_and_labels(folder, f"{name}-{part}.tsv.gz") for part in PARTS)
    model = make_pipeline(TextFeatures(), ChainCRF()).fit(*train)
    return test[1], model.predict(test[0]), model[-1]


def wnut() -> Iterator[Found]:
    """Entities of WNUT17 from words alone, F1."""
    true, predicted, crf = text("first-try", "wnut17")
    yield "first try", {"F1": entity_f1_score(true, predicted), "accuracy": token_accuracy(true, predicted)}, crf


def lener() -> Iterator[Found]:
    """Entities of Portuguese legal text from words alone, F1."""
    true, predicted, crf = text("first-try-2", "lener")
    yield "first try", {"F1": entity_f1_score(true, predicted)}, crf


def references() -> Iterator[Found]:
    """Parts of bibliographic references, F1."""
    true, predicted, crf = text("first-try-2", "references")
    yield "first try", {"F1": entity_f1_score(true, predicted)}, crf


def addresses() -> Iterator[Found]:
    """Parts of addresses; the test part lacks some labels, so the parts of street names also count as one."""
    true, predicted, crf = text("first-try-2", "addresses")

    def merged(labels: list) -> list[list[str]]:
        return [["StreetName" if label.startswith("StreetName") else str(label) for label in own] for own in labels]

    figures = {"accuracy": token_accuracy(true, predicted), "merged": token_accuracy(merged(true), merged(predicted))}
    yield "first try", figures, crf


def json_lines(*parts: str) -> list[dict]:
    with gzip.open(data_file(*parts), "rt") as file:
        return [json.loads(line) for line in file]


def events(song: dict) -> tuple[np.ndarray, list[str]]:
    """Return the pitch classes of each event of a chorale, its lowest note, accent and duration, and the chords."""
    rows = []
    for event in song["events"]:
        pitches = [note[0] for note in event["notes"]]
        sounding, lowest = np.bincount(np.array(pitches) % 12, minlength=12), np.eye(12)[min(pitches) % 12]
        rows.append([*sounding, *lowest, event["accent"], event["duration"]])
    return np.array(rows, dtype=float), [event["chord"] for event in song["events"]]


def chords() -> Iterator[Found]:
    """Chords of Bach's chorales, the first two of the authors' folds."""
    songs = {song["song"]: events(song) for song in json_lines("first-try-2", "bach-chords.jsonl.gz")}
    with open(data_file("first-try-2", "bach-folds.json")) as file:
        folds = json.load(file)[:2]
    shares = []
    for fold in folds:
        train, test = ([*zip(*[songs[name] for name in fold[part]], strict=True)] for part in PARTS)
        crf = ChainCRF(window=3).fit(*train)
        shares.append(crf.score(*test))
    yield "first try", {"accuracy": float(np.mean(shares))}, crf


def disorder() -> Iterator[Found]:
    """Disordered residues of proteins, 400 to learn from; scores above 900 are not known."""

    def read(part: str) -> tuple[list, list]:
        found = json_lines("first-try-2", f"disorder-{part}.jsonl.gz")
        X = [residues([[letter] for letter in each["sequence"]], 7) for each in found]
        return X, [[None if z > 900 else int(z < 8) for z in each["z"]] for each in found]

    train, test = read("train"), read("test")
    crf = ChainCRF().fit(train[0][:400], train[1][:400])
    true = np.array([label for own in test[1] for label in own], dtype=float)
    known = ~np.isnan(true)
    chances = np.concatenate(crf.predict_marginals(test[0]))[known, 1]
    figures = {"accuracy": crf.score(*test), "AUC": float(roc_auc_score(true[known], chances))}
    yield "first try", figures, crf


def citeseer() -> Iterator[Found]:
    """Papers of Citeseer: words as they are, and averaged over citations."""
    with np.load(data_file("first-try-2", "citeseer.npz"), allow_pickle=False) as archive:
        words = scipy.sparse.csr_array(tuple(archive[name] for name in ("data", "indices", "indptr")), archive["shape"])
        edges, labels, train, test = (archive[name] for name in ("edges", "label", "train", "test"))
    n_papers = words.shape[0]
    first = KernelClassifier().fit(words[train], labels[train])
    yield "words", {"accuracy": first.score(words[test], labels[test])}, first
    both = np.concatenate([edges, edges[:, ::-1]])
    ones = np.ones(len(both))
    graph = scipy.sparse.csr_array((ones, (both[:, 0], both[:, 1])), shape=(n_papers, n_papers))
    graph = scipy.sparse.csr_array(graph + scipy.sparse.eye_array(n_papers))
    mean = scipy.sparse.diags_array(1.0 / graph.sum(axis=1)) @ graph
    smooth = (mean @ (mean @ words)).toarray()
    dense = KernelClassifier().fit(smooth[train], labels[train])
    yield "smoothed words", {"accuracy": dense.score(smooth[test], labels[test])}, dense


def tolokers() -> Iterator[Found]:
    """Workers who were banned or not, in a dense graph of common tasks; labels of half of them are known."""
    with np.load(data_file("first-try-3", "tolokers.npz"), allow_pickle=False) as archive:
        x, edges, labels = (archive[name] for name in ("node_features", "edges", "node_labels"))
        train, test = (archive[name][0] for name in ("train_masks", "test_masks"))
    y = [[int(label) if known else None for label, known in zip(labels, train, strict=True)]]
    crf = GraphCRF(verbose=1).fit([(x, edges)], y)
    for how, known in (("GraphCRF", None), ("GraphCRF, known labels", y)):
        chances = crf.predict_marginals([(x, edges)], known=known)[0][test, 1]
        yield how, {"AUC": roc_auc_score(labels[test], chances)}, crf
    alone = KernelClassifier().fit(x[train], labels[train])
    yield "each by itself", {"AUC": roc_auc_score(labels[test], alone.predict_proba(x[test])[:, 1])}, alone


def membrane() -> Iterator[Found]:
    """Topology of membrane proteins, residue by residue; U is not known."""
    proteins = {each["id"]: each for each in json_lines("first-try-2", "membrane.jsonl.gz")}
    with open(data_file("first-try-2", "membrane-subset.json")) as file:
        subset = json.load(file)

    def read(part: str) -> tuple[list[np.ndarray], list[list[str | None]]]:
        found = [proteins[name] for name in subset[part]]
        letters = np.array(list(_AMINO_ACIDS))
        X = [(np.array(list(each["sequence"]))[:, None] == letters).astype(np.float32) for each in found]
        return X, [[None if letter == "U" else letter for letter in each["labels"].upper()] for each in found]

    train, test = read("train"), read("test")
    crf = ChainCRF(window=15).fit(*train)
    predicted = crf.predict(test[0])
    right = [spans(true) == spans(found, true) for true, found in zip(test[1], predicted, strict=True)]
    figures = {"accuracy": crf.score(*test), "right segments": float(np.mean(right))}
    yield "first try", figures, crf


def spans(labels: Sequence[str | None], true: Sequence[str | None] | None = None) -> list[str]:
    """Return the kinds of the segments H and B of a protein; those that share no residue with a true one as "?"."""
    kinds, begin = [], 0
    for label, run in groupby(labels):
        end = begin + len(list(run))
        if label in ("H", "B"):
            kinds.append(label if true is None or label in true[begin:end] else "?")
        begin = end
    return kinds


def sensors(read: Callable[[], Divided]) -> Iterator[Found]:
    """Compare first tries with a forest on windows: accuracy and log-loss of positions with labels that were learnt.

    The log-loss of the field is given, too, for marginals at the temperature of its held-out folds.
    """
    X, y, splits = read()
    crf, tempered = ChainCRF(random_state=0), []

    def forest(train: Sequence[int], test: Sequence[int]) -> tuple[list[np.ndarray], np.ndarray]:
        seen = WindowFeatures().fit_transform(X)
        model = RandomForestClassifier(300, min_samples_leaf=5, random_state=0, n_jobs=1)
        model.fit(np.vstack([seen[i] for i in train]), np.concatenate([y[i] for i in train]))
        return [model.predict_proba(seen[i]) for i in test], model.classes_

    def field(train: Sequence[int], test: Sequence[int]) -> tuple[list[np.ndarray], np.ndarray]:
        crf.fit([X[i] for i in train], [y[i] for i in train])
        return crf.predict_marginals([X[i] for i in test]), crf.classes_

    for name, answers in (("first try", field), ("forest on windows", forest)):
        rights, losses = [], []
        for train, test in splits:
            chances, classes = answers(train, test)
            table, true = np.vstack(chances), np.concatenate([y[i] for i in test])
            known = np.isin(true, classes)
            own = table[known, np.searchsorted(classes, true[known])]
            rights.append(classes[table.argmax(axis=1)] == true)
            losses.append(-np.log(np.maximum(own, 1e-6)))
            if answers is field:
                powers = np.maximum(table[known], 1e-6) ** (1.0 / held_out_temperature(crf))
                right = powers[np.arange(known.sum()), np.searchsorted(classes, true[known])]
                tempered.append(-np.log(right / powers.sum(axis=1)))
        figures = {"accuracy": float(np.concatenate(rights).mean()), "log loss": float(np.concatenate(losses).mean())}
        if answers is field:
            figures["log loss, tempered"] = float(np.concatenate(tempered).mean())
        yield name, figures, crf if name == "first try" else None


def held_out_temperature(crf: ChainCRF) -> float:
    """Return the best temperature of what short fits with the chosen settings predict for held-out folds."""
    trials, chosen = crf.choices_.trials, crf.choices_.chosen
    return next(
        (own.temperature for own in trials if own.log_loss is not None and own.settings.items() <= chosen.items()), 1.0
    )


def well_logs(*parts: str) -> list[dict[str, str]]:
    with gzip.open(data_file("first-try-3", *parts), "rt") as file:
        return list(csv.DictReader(file))


_LOGS = ("GR", "ILD_log10", "DeltaPHI", "PHIND", "PE", "NM_M", "RELPOS")


def wells() -> tuple[list[np.ndarray], list[np.ndarray], int]:
    """Return the logs and facies of each well, gaps filled by medians of training, and how many are for training."""
    train, blind = well_logs("facies-train.csv.gz"), well_logs("facies-blind-inputs.csv.gz")
    facies = {
        (row["WellName"], float(row["Depth.ft"])): int(row["LithCode"])
        for row in well_logs("facies-blind-labels.csv.gz")
    }
    blind = [row for row in blind if (row["Well Name"], float(row["Depth"])) in facies]
    for row in blind:
        row["Facies"] = str(facies[row["Well Name"], float(row["Depth"])])
    X, y = [], []
    for rows in (train, blind):
        for _, well in groupby(rows, key=lambda row: row["Well Name"]):
            readings = list(well)
            X.append(np.array([[float(row[name] or "nan") for name in _LOGS] for row in readings]))
            y.append(np.array([int(row["Facies"]) for row in readings]))
    n_train = len({row["Well Name"] for row in train})
    median = np.nanmedian(np.vstack(X[:n_train]), axis=0)
    return [np.where(np.isnan(x), median, x) for x in X], y, n_train


def facies() -> Divided:
    """Facies of two blind wells; nine rows have a class that training lacks."""
    X, y, n_train = wells()
    return X, y, [(range(n_train), range(n_train, len(X)))]


def facies_wells() -> Divided:
    """Facies of each well, learnt from the others."""
    X, y, n_train = wells()
    own = [i for i in range(n_train) if len(y[i]) > 100]
    return X, y, [([j for j in own if j != i], [i]) for i in own]


def facies_table() -> Iterator[Found]:
    """Facies of the blind wells as a table, with its column of text and without."""
    import pandas

    X, y, n_train = wells()
    train, blind = well_logs("facies-train.csv.gz"), well_logs("facies-blind-inputs.csv.gz")
    known = {(row["WellName"], float(row["Depth.ft"])) for row in well_logs("facies-blind-labels.csv.gz")}
    rows = [*train, *(row for row in blind if (row["Well Name"], float(row["Depth"])) in known)]
    table = pandas.DataFrame(np.vstack(X), columns=list(_LOGS))
    table["well"], table["formation"] = [row["Well Name"] for row in rows], [row["Formation"] for row in rows]
    table["facies"] = np.concatenate(y)
    n_rows = sum(map(len, y[:n_train]))
    for how, columns in (("first try", [*_LOGS, "formation"]), ("numbers alone", list(_LOGS))):
        crf = FrameCRF(ChainCRF(random_state=0), sequence="well", label="facies", features=columns)
        crf.fit(table[:n_rows])
        right = np.asarray(crf.predict(table[n_rows:])) == table["facies"][n_rows:].to_numpy()
        yield how, {"accuracy": float(right.mean())}, crf.estimator_


def gestures() -> Divided:
    """Phases of gestures in videos, three folds of videos."""
    positions, velocities, y, _ = gesture_phases()
    X = [np.hstack(pair).astype(float) for pair in zip(positions, velocities, strict=True)]
    return X, y, [*KFold(3, shuffle=True, random_state=0).split(X)]


def choosing() -> Iterator[Found]:
    """Settings chosen on 9,873 positions of 18 numbers in seven videos, and a fit with the same settings given.

    The ratio of CPU seconds is what choosing costs; the accuracy is that on the data of the fit.
    """
    positions, _, y, _ = gesture_phases()
    X = [each.astype(float) for each in positions]
    # Compiled code is loaded before time counts.
    ChainCRF(random_state=0).fit([each[:100] for each in X], [each[:100] for each in y])
    yield "loading", {}, None
    crf = ChainCRF(random_state=0).fit(X, y)
    yield "first try", {"accuracy": crf.score(X, y)}, crf
    names = ("scale", "window", "prior_variance", "rank")
    given = {name: crf.choices_.chosen[name] for name in names if name in crf.choices_.chosen}
    given["kernel"] = crf.field_.terms[0].clique.kernel
    yield "settings given", {"accuracy": ChainCRF(random_state=0, **given).fit(X, y).score(X, y)}, None


def occupancy() -> Divided:
    """Whether a room is occupied, from climate without light, day by day."""
    with np.load(data_file("occupancy", "occupancy.npz"), allow_pickle=False) as archive:
        parts = [
            (np.delete(archive[f"x_{p}"].astype(float), 2, 1), archive[f"y_{p}"]) for p in ("train", "test1", "test2")
        ]
    X, y, counts = [], [], []
    for rows, labels in parts:
        n_days = round(len(rows) / 1440)
        X += np.array_split(rows, n_days)
        y += np.array_split(labels.astype(int), n_days)
        counts.append(n_days)
    return X, y, [(range(counts[0]), range(counts[0], len(X)))]


def rooms() -> Divided:
    """The number of people in a room, from 16 sensors: four days to learn from, three new ones."""
    with np.load(data_file("first-try-4", "rooms.npz"), allow_pickle=False) as archive:
        ends = np.cumsum(archive["lengths"])[:-1]
        X, y = np.split(archive["x"].astype(float), ends), np.split(archive["y"], ends)
    return X, y, [(range(4), range(4, len(X)))]


def letter_words() -> Divided:
    """Handwritten words, one fold of ten to learn from."""
    X, y, fold = ocr_letters()
    return X, y, [(np.flatnonzero(fold == 0).tolist(), np.flatnonzero(fold > 0).tolist())]


def letters() -> Iterator[Found]:
    """Letters of handwritten words."""
    X, y, [(train, test)] = letter_words()
    crf = ChainCRF(random_state=0).fit([X[i] for i in train], [y[i] for i in train])
    yield "first try", {"accuracy": crf.score([X[i] for i in test], [y[i] for i in test])}, crf


def profiled_proteins() -> Divided:
    """Secondary structure from profiles of proteins, 200 to learn from."""
    (X, _, y), (X_test, _, y_test) = protein_profiles("train"), protein_profiles("blind")
    return X[:200] + X_test, y[:200] + y_test, [(range(200), range(200, 200 + len(y_test)))]


def profiles() -> Iterator[Found]:
    """Secondary structure from profiles of proteins, Q3."""
    X, y, [(train, test)] = profiled_proteins()
    crf = ChainCRF(random_state=0).fit([X[i] for i in train], [y[i] for i in train])
    yield "first try", {"accuracy": crf.score([X[i] for i in test], [y[i] for i in test])}, crf


def phonemes() -> Iterator[Found]:
    """Phonemes of the letters of English words, 1,000 to learn from."""
    order = np.random.default_rng(0).permutation(20_000)
    X, y = labelled(token_columns("nettalk", "nettalk.tsv.gz"), 3)
    train, test = order[:1000].tolist(), order[1000:4000].tolist()
    seen = {label for i in train for label in y[i]}
    test = [i for i in test if seen.issuperset(y[i])]
    crf = ChainCRF(random_state=0).fit([X[i] for i in train], [y[i] for i in train])
    yield "first try", {"accuracy": crf.score([X[i] for i in test], [y[i] for i in test])}, crf


def wisconsin() -> Iterator[Found]:
    """Web pages with links, words as dense and as sparse columns, ten masks."""
    with np.load(data_file("first-try-3", "wisconsin.npz"), allow_pickle=False) as archive:
        words, edges, labels = (archive[name] for name in ("node_features", "edges", "node_labels"))
        masks = [*zip(archive["train_masks"].astype(bool), archive["test_masks"].astype(bool), strict=True)]
    for how, x in (("first try", words.astype(float)), ("sparse", scipy.sparse.csr_array(words.astype(float)))):
        shares = []
        for train, test in masks:
            y = [[int(label) if known else None for label, known in zip(labels, train, strict=True)]]
            crf = GraphCRF(random_state=0).fit([(x, edges)], y)
            shares.append(float(np.mean(np.asarray(crf.predict([(x, edges)])[0])[test] == labels[test])))
        yield how, {"accuracy": float(np.mean(shares)), "first three masks": float(np.mean(shares[:3]))}, crf


PARTS = ("train", "test")
TASKS: dict[str, Callable[[], Iterator[Found]]] = {
    "addresses": addresses,
    "references": references,
    "wnut": wnut,
    "lener": lener,
    "rfid": rfid,
    "chords": chords,
    "qian": qian,
    "ts115": ts115,
    "disorder": disorder,
    "membrane": membrane,
    "digits": digits,
    "citeseer": citeseer,
    "tolokers": tolokers,
    "birds": birds,
    "facies": partial(sensors, facies),
    "facies_wells": partial(sensors, facies_wells),
    "facies_table": facies_table,
    "gestures": partial(sensors, gestures),
    "choosing": choosing,
    "occupancy": partial(sensors, occupancy),
    "rooms": partial(sensors, rooms),
    "letters": letters,
    "profiles": profiles,
    "phonemes": phonemes,
    "wisconsin": wisconsin,
}


def chosen(model: object) -> str:
    """Return the settings of the first function of the inputs in a fitted field, in words."""
    terms = getattr(getattr(model, "field_", None), "terms", ())
    term = next((term for term in terms if term.clique.kernel is not None), None)
    if term is None:
        return ""
    decided = getattr(getattr(model, "choices_", None), "chosen", {})
    clique = term.clique
    words = [decided.get("kernel", str(clique.kernel).split("(")[0].lower()), f"variance {clique.prior_variance:g}"]
    words += [f"rank {term.subspace.rank}"] if term.has_pivots else []
    words += [f"l1 {clique.l1:g}"] if clique.l1 else []
    words += [f"support {clique.support}"] if clique.support not in (None, "all") else []
    words += [f"{name} {decided[name]}" for name in ("scale", "window", "decode") if name in decided]
    return ", ".join(words)


def run_here(task: str) -> None:
    """Run one task in this process; print a line of JSON for each fit."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        begin, spent = time.perf_counter(), time.process_time()
        for how, figures, model in TASKS[task]():
            seconds, cpu = time.perf_counter() - begin, time.process_time() - spent
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            costs = {"seconds": round(seconds, 1), "cpu_seconds": round(cpu, 1), "peak_mb": round(peak / 1024)}
            row = {"task": task, "how": how, **costs, "chosen": chosen(model), "figures": figures}
            print(json.dumps(row), flush=True)
            begin, spent = time.perf_counter(), time.process_time()
    for text in sorted({str(each.message)[:200] for each in said}):
        print(json.dumps({"task": task, "warned": text}), flush=True)


def run_with(checkout: Path, task: str, limit: float) -> list[dict]:
    """Return what a task finds with the package of a checkout, in a process of its own."""
    paths = [str(checkout / "src"), str(CHECKOUT)]
    environment = {**os.environ, SETTING: str(data_folder()), "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-m", "benchmarks.first_try", "--here", "--tasks", task]
    try:
        ended = subprocess.run(command, cwd=CHECKOUT, env=environment, stdout=subprocess.PIPE, timeout=limit)
        lines, status = ended.stdout, f"exit status {ended.returncode}" if ended.returncode else ""
    except subprocess.TimeoutExpired as error:
        lines, status = error.stdout or b"", f"not done in {limit:g} s"
    rows = [json.loads(line) for line in lines.decode().splitlines()]
    return [*rows, {"task": task, "warned": status}] if status else rows


def took() -> str:
    """Say how long the runs took, for the page."""
    return duration(sum(row["cpu_seconds"] for row in read_results(RESULT)), "one core")


def tries() -> str:
    """Return the table of the page."""
    rows, lines = read_results(RESULT), []
    found = {(row["version"], row["task"], row["how"]): row for row in rows}
    for task, how in dict.fromkeys((row["task"], row["how"]) for row in rows):
        old, new = (found.get((version, task, how)) for version in ("old", "new"))
        for name in (new or old)["figures"]:
            lines.append(
                [
                    f"{task}, {how}" if how != "first try" else task,
                    name,
                    *(_shown(name, row["figures"][name]) if row else "" for row in (old, new)),
                    *(f"{row['cpu_seconds']:.0f}" if row else "" for row in (old, new)),
                    *(f"{row['peak_mb']:,}" if row else "" for row in (old, new)),
                    new["chosen"] if new else "",
                ]
            )
    columns = ["before", "now", "CPU s before", "now", "MB before", "now", "chosen now"]
    return table(["set", "measure", *columns], lines)


#: Sets of sensors, as docs/sensors.md names them.
SENSORS = {
    "occupancy": "occupancy of a room, new days",
    "rooms": "people in a room, new days",
    "gestures": "phases of gestures, new videos",
    "facies": "facies, two blind wells",
    "facies_wells": "facies, one well left out",
}


def beside_forests() -> str:
    """Return the table of docs/sensors.md: first tries beside a forest on windows."""
    found = {(row["task"], row["how"]): row["figures"] for row in read_results(RESULT) if row["version"] == "new"}
    lines = []
    for task, words in SENSORS.items():
        figures = [found[task, how] for how in ("first try", "forest on windows")]
        cells = (f"{100 * own['accuracy']:.1f} %, {own['log loss']:.2f}" for own in figures)
        lines.append([words, *cells])
    return table(["accuracy, log-loss", "`ChainCRF()`", "forest on windows"], lines)


def _shown(name: str, figure: float) -> str:
    return f"{figure:.3f}" if name.startswith("log loss") else f"{100 * figure:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--against", type=Path, metavar="OLD", help="another checkout, whose package runs by turns")
    parser.add_argument("--limit", type=float, default=240.0, help="seconds that a task may take")
    parser.add_argument("--jobs", type=int, default=1, help="tasks that run at a time, each on one thread if several")
    parser.add_argument("--out", type=Path, default=RESULTS, help="the folder of the result file")
    parser.add_argument("--here", action="store_true", help="run in this process and print JSON")
    given = parser.parse_args()
    versions = {"new": CHECKOUT} if given.against is None else {"old": given.against.resolve(), "new": CHECKOUT}
    if given.here:
        for task in given.tasks:
            run_here(task)
        return
    if given.jobs > 1:
        os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    runs = [(task, version, checkout) for task in given.tasks for version, checkout in versions.items()]
    with ThreadPoolExecutor(given.jobs) as pool:
        results = pool.map(lambda run: run_with(run[2], run[0], given.limit), runs)
        for (task, version, _), rows in zip(runs, results, strict=True):
            report(task, version, rows)
            found = [{"version": version, **row} for row in rows if "figures" in row]
            merge_results(RESULT, found, ("task", "how", "version"), given.out)


def report(task: str, version: str, rows: list[dict]) -> None:
    """Print what a task found."""
    first = next((row["cpu_seconds"] for row in rows if row.get("how") == "first try"), None)
    for row in rows:
        if "warned" in row:
            print(f"{task:11} {version:4} warned: {row['warned']}", flush=True)
            continue
        shown = "  ".join(f"{key} {value:.4f}" for key, value in row["figures"].items())
        costs = f"{row['cpu_seconds']:7.1f} s of CPU  {row['peak_mb']:6,} MB"
        if first and row["how"] != "first try":
            costs += f"  first try / this: {first / max(row['cpu_seconds'], 0.1):.2f}"
        print(f"{task:11} {version:4} {row['how']:20} {shown}  {costs}  {row['chosen']}", flush=True)


if __name__ == "__main__":
    main()
