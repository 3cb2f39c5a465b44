"""What settings are judged by: three criteria on held-out data, and what each chooses, on words and on numbers.

    python -m benchmarks.criteria [--sets lener gestures ...] [--jobs 1]

The criteria are the log-loss of positions, the least of it over temperatures, and the joint likelihood of labellings.

words    a linear field with one of twelve settings: weights of all pairs of features and labels or of those seen, l1 0
         or 0.1, prior variance 1, 10 or 100. Fitted to two thirds of 12,000 training positions, three times, and judged
         by the sentences left out. A fit to all training data (3,000 sentences of the last two sets) gives the figure
         of the test part.
numbers  a linear, RBF or Laplacian kernel, on columns alone or with statistics of windows, prior variance 0.01 to 10
         (letters: no windows, variances to 100), rank 300 where the default has up to 1,000. Of more than 5,000
         training positions as many are drawn, in pieces of about 100. Four folds of whole items judge, a fit to all
         that was drawn predicts new items, and where a set is divided in several ways each is a choice of its own.

Shown in docs/results/first_try.md.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from itertools import product
from multiprocessing import get_context
from typing import NamedTuple

import numpy as np

from benchmarks import first_try
from benchmarks.result_files import merge_results, read_results
from benchmarks.shared_data import token_columns
from experiments.result_pages import table
from kernelfields import ChainCRF, TextFeatures, WindowFeatures
from kernelfields.evaluation import entity_f1_score, token_accuracy
from kernelfields.models.position_loss import position_loss

RESULT = "criteria.json"
FIRST_TRIES = {"lener": "first-try-2", "references": "first-try-2", "wnut17": "first-try"}
#: The column of labels.
OTHERS = {"conll2000": 2, "ud-english-ewt": 1}
NUMBERS = {
    "facies": first_try.facies,
    "facies_wells": first_try.facies_wells,
    "gestures": first_try.gestures,
    "letters": first_try.letter_words,
    "occupancy": first_try.occupancy,
    "profiles": first_try.profiled_proteins,
    "rfid": first_try.rfid_folds,
}
SETS = [*FIRST_TRIES, *OTHERS, *NUMBERS]
#: In how many ways a set is divided into items to learn from and new ones, if not in one.
WAYS = {"facies_wells": 9, "gestures": 3, "rfid": 5}
CRITERIA = {"log_loss": "log-loss", "tempered": "at its best temperature", "joint": "joint likelihood"}


def candidates(name: str) -> list[dict]:
    """Return the settings that are tried on a set."""
    tried: dict[str, tuple] = {"support": ("all", "observed"), "l1": (0.0, 0.1), "prior_variance": (1.0, 10.0, 100.0)}
    if name in NUMBERS:
        tried = {"kernel": ("linear", "rbf", "laplacian"), "statistics": (False, True)}
        tried["prior_variance"] = (0.01, 0.1, 1.0, 10.0)
    if name == "letters":
        tried |= {"statistics": (False,), "prior_variance": (0.01, 0.1, 1.0, 10.0, 100.0)}
    return [dict(zip(tried, values, strict=True)) for values in product(*tried.values())]


class Task(NamedTuple):
    """Items to choose by and the fold of each, items of the fit to all, and new ones: inputs and labels."""

    drawn: tuple[list, list]
    folds: np.ndarray
    train: tuple[list, list]
    test: tuple[list, list]


@cache
def words(name: str) -> Task:
    """Return a set of sentences, as features of words."""
    parts = []
    for part in first_try.PARTS:
        if name in FIRST_TRIES:
            parts.append(first_try.words_and_labels(FIRST_TRIES[name], f"{name}-{part}.tsv.gz"))
        else:
            rows = token_columns(name, f"{part}.tsv.gz")[: 3000 if part == "train" else None]
            parts.append(tuple([[row[column] for row in each] for each in rows] for column in (0, OTHERS[name])))
    made = TextFeatures().fit(parts[0][0])
    train, test = ((made.transform(X), y) for X, y in parts)
    drawn = in_random_order([len(labels) for labels in train[1]], 12_000)
    return Task(subset(train, drawn), np.arange(len(drawn)) % 3, train, test)


@cache
def numbers(name: str, way: int, statistics: bool) -> Task:
    """Return a set of numbers, divided in one of the ways."""
    X, y, ways = NUMBERS[name]()
    X = WindowFeatures().fit_transform(X) if statistics else X
    own, new = ways[way]
    many = sum(len(y[item]) for item in own) > 5000
    cut = {item: max(1, round(len(y[item]) / 100)) if many else 1 for item in own}
    pieces = [(item, rows) for item in own for rows in np.array_split(np.arange(len(y[item])), cut[item])]
    drawn = [pieces[place] for place in in_random_order([len(rows) for _, rows in pieces], 5000)]
    train = [X[item][rows] for item, rows in drawn], [y[item][rows] for item, rows in drawn]
    items = [*dict.fromkeys(item for item, _ in drawn)]
    folds = np.array([items.index(item) % 4 for item, _ in drawn])
    return Task(train, folds, train, subset((X, y), new))


def in_random_order(lengths: list[int], n_positions: int) -> np.ndarray:
    """Return the places of items of about so many positions."""
    order = np.random.default_rng(0).permutation(len(lengths))
    return order[: int(np.searchsorted(np.cumsum(np.array(lengths)[order]), n_positions)) + 1]


def subset(data: tuple[Sequence, Sequence], items: Sequence[int] | np.ndarray) -> tuple[list, list]:
    return [data[0][item] for item in items], [data[1][item] for item in items]


def judge(name: str, way: int, settings: dict) -> dict:
    """Return the criteria of some settings, of each fold with its accuracy and temperature too, and the figures."""
    warnings.simplefilter("ignore")
    row = {"set": name, "way": way, "settings": ", ".join(f"{key} {settings[key]}" for key in settings)}
    given = {key: value for key, value in settings.items() if key != "statistics"}
    task = numbers(name, way, settings["statistics"]) if name in NUMBERS else words(name)
    fixed = {"rank": 300, "scale": True, "window": 1} if name in NUMBERS else {"kernel": "linear"}
    crf = ChainCRF(**fixed, **given, n_jobs=1, random_state=0)
    folds = []
    for fold in np.unique(task.folds):
        crf.fit(*subset(task.drawn, np.flatnonzero(task.folds != fold)))
        known = set(crf.classes_)
        held_out = [item for item in np.flatnonzero(task.folds == fold) if known.issuperset(task.drawn[1][item])]
        X, y = subset(task.drawn, held_out)
        marginals, places = np.concatenate(crf.predict_marginals(X)), np.searchsorted(crf.classes_, np.concatenate(y))
        loss = position_loss(marginals, places)
        tempered = marginals ** (1.0 / loss.temperature)
        least = position_loss(tempered / tempered.sum(axis=1, keepdims=True), places).loss
        joint = -float(np.sum(crf.log_likelihood(X, y))) / len(places)
        folds.append([loss.loss, least, joint, loss.accuracy, loss.temperature, len(places)])
    means = np.average(folds, axis=0, weights=[each[-1] for each in folds]).tolist()
    figures = on_new_items(name, crf.fit(*task.train), *task.test)
    return {**row, **dict(zip(CRITERIA, means, strict=False)), "folds": np.round(folds, 4).tolist(), **figures}


def on_new_items(name: str, crf: ChainCRF, X: list, y: list) -> dict[str, float]:
    """Return the figure of new items in percent; of numbers also the log-loss of positions with labels learnt."""
    if name not in NUMBERS:
        score = token_accuracy if name == "ud-english-ewt" else entity_f1_score
        return {"test": 100 * score(y, crf.predict(X))}
    marginals, true = np.concatenate(crf.predict_marginals(X)), np.concatenate(y)
    known = np.isin(true, crf.classes_)
    loss = position_loss(marginals[known], np.searchsorted(crf.classes_, true[known]))
    return {"test": 100 * loss.accuracy * float(known.mean()), "test_loss": loss.loss}


def chosen(name: str) -> tuple[list[list[dict]], float]:
    """Return what each criterion chooses on a set, in each way it is divided, and the best figure there was."""
    rows = [row for row in read_results(RESULT) if row["set"] == name]
    ways = [[row for row in rows if row["way"] == way] for way in range(WAYS.get(name, 1))]
    best = float(np.mean([max(row["test"] for row in own) for own in ways]))
    return [[min(own, key=lambda row, by=key: row[by]) for own in ways] for key in CRITERIA], best


def choices() -> str:
    """Return the table of words on the page."""
    lines = []
    for name in [*FIRST_TRIES, *OTHERS]:
        by_criterion, best = chosen(name)
        lines.append([name, *(f"{figure:.1f}" for figure in [*(row["test"] for (row,) in by_criterion), best])])
    return table(["set", *CRITERIA.values(), "best of the twelve"], lines)


def choices_of_numbers() -> str:
    """Return the table of numbers on the page, means over the ways of each set, and below them means over sets."""
    lines = {}
    for name in NUMBERS:
        by_criterion, best = chosen(name)
        figures = [np.mean([row[key] for row in own]) for own in by_criterion for key in ("test", "test_loss")]
        lines[name] = np.array([*figures, best])
    means = {
        "mean": np.mean([*lines.values()], axis=0),
        "mean without occupancy": np.mean([lines[name] for name in lines if name != "occupancy"], axis=0),
    }
    header = [column for by in CRITERIA.values() for column in (f"{by}: accuracy", "log-loss")]
    shown = [
        [name, *(f"{figure:.{3 if place % 2 else 1}f}" for place, figure in enumerate(line))]
        for name, line in {**lines, **means}.items()
    ]
    return table(["set", *header, "best accuracy"], shown)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=SETS, choices=SETS)
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    runs = [
        (name, way, settings)
        for name in given.sets
        for way in range(WAYS.get(name, 1))
        for settings in candidates(name)
    ]
    with ProcessPoolExecutor(given.jobs, get_context("spawn")) as pool:
        for row in pool.map(judge, *zip(*runs, strict=True)):
            print(row, flush=True)
            merge_results(RESULT, [row], ("set", "way", "settings"))


if __name__ == "__main__":
    main()
