"""Toxicity of molecules (Tox21): twelve labels, many of them unknown, by a Tanimoto kernel on fingerprints; mean AUC.

    python -m experiments.tox21 [--fingerprints FILE] [--processes N] [--page]

Molecules are split at random, a fifth to test. Fingerprints, prior variances and whether labels meet are chosen by the
mean AUC on a fifth of the training molecules; the best is fitted to all of them and measured once. Fingerprints
need rdkit; they are computed once and kept in FILE (.npz), which another machine may read. ``--page`` only writes
docs/results/tox21.md.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import roc_auc_score

from benchmarks.result_files import EXPERIMENTS, merge_results, read_results
from benchmarks.shared_data import data_file
from experiments.result_pages import ResultPage
from kernelfields import MultiLabelCRF

RESULTS = "tox21.json"
RADII, VARIANCES = (1, 2, 3), (0.3, 1.0, 3.0)
CANDIDATES = [(radius, variance, graph) for radius in RADII for variance in VARIANCES for graph in ("auto", "none")]
FOREST = "forest"


def molecules() -> tuple[list[str], np.ndarray]:
    """Return SMILES and labels (n, 12), NaN where they are not known."""
    with gzip.open(data_file("first-try-2", "tox21.csv.gz"), "rt") as file:
        rows = list(csv.reader(file))[1:]
    return [row[-1] for row in rows], np.array([[float(own) if own else np.nan for own in row[:12]] for row in rows])


def write_fingerprints(path: Path) -> None:
    """Compute the Morgan fingerprints of all molecules, 2,048 bits for each radius, and their labels."""
    from rdkit import Chem
    from rdkit.Chem import rdFingerprintGenerator

    smiles, Y = molecules()
    found = [Chem.MolFromSmiles(own) for own in smiles]
    kept = [number for number, molecule in enumerate(found) if molecule is not None]
    arrays = {"labels": Y[kept]}
    for radius in RADII:
        make = rdFingerprintGenerator.GetMorganGenerator(radius=radius, fpSize=2048)
        bits = np.array([make.GetFingerprintAsNumPy(found[number]) for number in kept], dtype=np.uint8)
        arrays[f"radius{radius}"] = np.packbits(bits, axis=1)
    np.savez_compressed(path, **arrays)


def read(path: Path, radius: int) -> tuple[np.ndarray, np.ndarray]:
    """Return fingerprints (n, 2048) and labels."""
    with np.load(path, allow_pickle=False) as archive:
        return np.unpackbits(archive[f"radius{radius}"], axis=1).astype(np.float32), archive["labels"]


def parts(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the molecules of training and test."""
    order = np.random.default_rng(0).permutation(n)
    return order[n // 5 :], order[: n // 5]


def areas(Y: np.ndarray, chances: np.ndarray) -> list[float]:
    """Return the area under the curve of each label, where it is known."""
    known = ~np.isnan(Y)
    return [roc_auc_score(Y[own, label], chances[own, label]) for label, own in enumerate(known.T)]


def fitted(X: np.ndarray, Y: np.ndarray, new: np.ndarray, way: tuple) -> np.ndarray:
    """Return the probabilities of labels of new molecules."""
    if way[0] == FOREST:
        found = np.empty((len(new), Y.shape[1]))
        for label, own in enumerate(Y.T):
            known = ~np.isnan(own)
            forest = RandomForestClassifier(300, random_state=0, n_jobs=2).fit(X[known], own[known])
            found[:, label] = forest.predict_proba(new)[:, 1]
        return found
    _, variance, graph = way
    settings = {} if graph == "auto" else {"label_graph": []}
    model = MultiLabelCRF("tanimoto", prior_variance=variance, rank=1500, scale=False, random_state=0, **settings)
    return np.asarray(model.fit(X, Y).predict_proba(new))


def words_of(way: tuple) -> str:
    """Return what tables call a way."""
    if way[0] == FOREST:
        return "random forest, radius 2"
    radius, variance, graph = way
    joined = "labels meet" if graph == "auto" else "labels apart"
    return f"MultiLabelCRF, radius {radius}, prior variance {variance:g}, {joined}"


def judge(task: tuple) -> dict:
    """Return the mean AUC of a way, on held-out training molecules or on the test."""
    path, way, final = task
    X, Y = read(path, 2 if way[0] == FOREST else way[0])
    train, test = parts(len(Y))
    if not final:
        test, train = train[: len(train) // 5], train[len(train) // 5 :]
    begin = time.perf_counter()
    chances = fitted(X[train], Y[train], X[test], way)
    row = {
        "way": words_of(way),
        "part": "test" if final else "held out",
        "auc": float(np.mean(areas(Y[test], chances))),
    }
    if final:
        random = np.random.default_rng(0)
        draws = [random.integers(len(test), size=len(test)) for _ in range(200)]
        drawn = [float(np.mean(areas(Y[test][own], chances[own]))) for own in draws]
        row["interval"] = np.quantile(drawn, [0.025, 0.975]).tolist()
    row["seconds"] = time.perf_counter() - begin
    print(f"{way} {row['part']}: AUC {row['auc']:.4f} {row.get('interval', '')} in {row['seconds']:.0f} s", flush=True)
    return row


def write_page() -> None:
    """Write the page from the results."""
    rows = read_results(RESULTS, EXPERIMENTS)
    page = ResultPage(
        "tox21",
        "Toxicity of molecules",
        command="python -m experiments.tox21",
        seconds=sum(row["seconds"] for row in rows),
        machine="sixteen cores, the seconds of all fits added up",
    )
    page.text(
        "Tox21, twelve labels of which many are not known, a random fifth of the molecules to test; mean area under "
        "the curve over labels, intervals of 95 % by drawing molecules. Morgan fingerprints of 2,048 bits, Tanimoto "
        "kernel, rank 1500. Ways were compared on a fifth of the training molecules; the best one was measured once. "
        "The best radius and the best prior variance are the ends of their lists."
    )
    tested = {row["way"]: row for row in rows if row["part"] == "test"}
    table = []
    for row in sorted((row for row in rows if row["part"] != "test"), key=lambda row: -row["auc"]):
        final = tested.get(row["way"])
        cell = "" if final is None else "{:.4f} [{:.3f}, {:.3f}]".format(final["auc"], *final["interval"])
        table.append([row["way"], f"{row['auc']:.4f}", cell])
    page.table(["way", "AUC, held out", "AUC, test"], table)
    page.write()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fingerprints", type=Path, default=Path("tox21-fingerprints.npz"))
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--page", action="store_true", help="only write the page from the results")
    options = parser.parse_args()
    if not options.page:
        if not options.fingerprints.exists():
            write_fingerprints(options.fingerprints)
        tasks = [(options.fingerprints, way, False) for way in [*CANDIDATES, (FOREST,)]]
        with ProcessPoolExecutor(options.processes) as pool:
            rows = list(pool.map(judge, tasks))
            best = CANDIDATES[int(np.argmax([row["auc"] for row in rows[: len(CANDIDATES)]]))]
            rows += pool.map(judge, [(options.fingerprints, way, True) for way in (best, (FOREST,))])
        merge_results(RESULTS, rows, ("way", "part"), EXPERIMENTS)
    write_page()


if __name__ == "__main__":
    main()
