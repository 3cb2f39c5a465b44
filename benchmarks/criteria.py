"""What settings of linear fields on words are judged by: three criteria on held-out data, and what each chooses.

    python -m benchmarks.criteria [--sets lener references wnut conll2000 ud-english-ewt] [--jobs 1]

Twelve settings: weights of all pairs of features and labels or of those seen, l1 0 or 0.1, prior variance 1, 10 or 100.
Each is fitted to two thirds of 12,000 training positions, three times, and judged by the sentences left out: log-loss
of positions, the least of it over temperatures, and joint likelihood of labellings. A fit to all training data (3,000
sentences of the last two sets) gives the figure of the test part. Shown in docs/results/first_try.md.
"""

from __future__ import annotations

import argparse
import warnings
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from itertools import product
from multiprocessing import get_context

import numpy as np

from benchmarks.first_try import words_and_labels
from benchmarks.result_files import merge_results, read_results
from benchmarks.shared_data import token_columns
from experiments.result_pages import table
from kernelfields import ChainCRF, TextFeatures
from kernelfields.evaluation import entity_f1_score, token_accuracy
from kernelfields.models.position_loss import position_loss

RESULT = "criteria.json"
FIRST_TRIES = {"lener": "first-try-2", "references": "first-try-2", "wnut17": "first-try"}
#: The column of labels.
OTHERS = {"conll2000": 2, "ud-english-ewt": 1}
SETS = [*FIRST_TRIES, *OTHERS]
SETTINGS = [
    {"support": support, "l1": l1, "prior_variance": variance}
    for support, l1, variance in product(("all", "observed"), (0.0, 0.1), (1.0, 10.0, 100.0))
]
CRITERIA = {"log_loss": "log-loss", "tempered": "at its best temperature", "joint": "joint likelihood"}
N_POSITIONS, N_SENTENCES, N_FOLDS = 12_000, 3000, 3


@cache
def sentences(name: str, part: str) -> tuple[list, list]:
    """Return the words and labels of a part of a set."""
    if name in FIRST_TRIES:
        return words_and_labels(FIRST_TRIES[name], f"{name}-{part}.tsv.gz")
    rows = token_columns(name, f"{part}.tsv.gz")[: N_SENTENCES if part == "train" else None]
    return [[row[0] for row in each] for each in rows], [[row[OTHERS[name]] for row in each] for each in rows]


@cache
def features(name: str) -> tuple[list, list]:
    """Return the features of the training part and of the test part."""
    made = TextFeatures().fit(sentences(name, "train")[0])
    return tuple(made.transform(sentences(name, part)[0]) for part in ("train", "test"))


def judge(name: str, settings: dict) -> dict:
    """Return the three criteria of some settings, and the figure of the test part in percent."""
    warnings.simplefilter("ignore")
    (X, X_test), y, y_test = features(name), sentences(name, "train")[1], sentences(name, "test")[1]
    crf = ChainCRF("linear", n_jobs=1, random_state=0, **settings)
    order = np.random.default_rng(0).permutation(len(X))
    drawn = order[: int(np.searchsorted(np.cumsum([len(y[item]) for item in order]), N_POSITIONS)) + 1]
    sums = np.zeros(len(CRITERIA))
    weight = 0
    for fold in range(N_FOLDS):
        learnt, held_out = np.delete(drawn, np.s_[fold::N_FOLDS]), drawn[fold::N_FOLDS]
        crf.fit([X[item] for item in learnt], [y[item] for item in learnt])
        known = set(crf.classes_)
        judged = [item for item in held_out if known.issuperset(y[item])]
        own, true = [X[item] for item in judged], [y[item] for item in judged]
        labels, marginals = np.concatenate(true), np.concatenate(crf.predict_marginals(own))
        numbers = np.searchsorted(crf.classes_, labels)
        loss = position_loss(marginals, numbers)
        tempered = marginals ** (1.0 / loss.temperature)
        least = position_loss(tempered / tempered.sum(axis=1, keepdims=True), numbers).loss
        sums += [loss.loss * len(labels), least * len(labels), -float(np.sum(crf.log_likelihood(own, true)))]
        weight += len(labels)
    predicted = crf.fit(X, y).predict(X_test)
    score = token_accuracy if name == "ud-english-ewt" else entity_f1_score
    found = dict(zip(CRITERIA, (sums / weight).tolist(), strict=True))
    return {"set": name, **settings, **found, "test": 100 * score(y_test, predicted)}


def choices() -> str:
    """Return the table of the page."""
    lines = []
    for name in SETS:
        rows = [row for row in read_results(RESULT) if row["set"] == name]
        chosen = [min(rows, key=lambda row, by=criterion: row[by])["test"] for criterion in CRITERIA]
        lines.append([name, *(f"{figure:.1f}" for figure in [*chosen, max(row["test"] for row in rows)])])
    return table(["set", *CRITERIA.values(), "best of the twelve"], lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=SETS, choices=SETS)
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    pairs = [(name, settings) for name in given.sets for settings in SETTINGS]
    with ProcessPoolExecutor(given.jobs, get_context("spawn")) as pool:
        for row in pool.map(judge, *zip(*pairs, strict=True)):
            print(row, flush=True)
            merge_results(RESULT, [row], ("set", "support", "l1", "prior_variance"))


if __name__ == "__main__":
    main()
