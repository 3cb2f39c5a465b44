"""Facies of two blind wells, everything chosen on the wells of training.

    python -m experiments.facies [--columns "narrow windows, formation" ...] [--classifiers forest "extra trees" ...]

Well logs of the contest of 2016 (SEG): seven logs and a formation for each half foot of ten wells, nine facies, and two
wells whose facies were kept back; the winner of the contest, boosted trees, labelled 63.9 % of these. Chosen in turn,
each by the log-loss of training wells that were left out (five folds of whole wells):

    columns       the logs alone, with those of neighbours and gradients, with statistics of windows of several widths;
                  each with the formation, numbered by depth, and without: by extra trees
    classifiers   forests, extra trees, histogram boosting and means of their probabilities, on these columns
    field         none, or none and means of neighbouring rows; a chain or segments on the log-probabilities that folds
                  have for their wells (as OutOfFold makes them), by prior variance; and the chain with a kernel on the
                  logs beside it

Printed are accuracy and log-loss of wells left out for all candidates, and of the two blind wells for the one that was
chosen at each stage: the blind wells choose nothing.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from scipy.ndimage import uniform_filter1d
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.model_selection import GroupKFold

from benchmarks.first_try import well_logs, wells
from kernelfields import ChainCRF, SegmentCRF, WindowFeatures

# The least probability of a facies: a tree may give it none.
LEAST = 1e-3
FOLDS = 5
CLASSIFIERS = {
    "extra trees": ExtraTreesClassifier(200, min_samples_leaf=5, random_state=0),
    "forest": RandomForestClassifier(200, min_samples_leaf=5, random_state=0),
    "boosting": HistGradientBoostingClassifier(
        learning_rate=0.05, max_iter=60, min_samples_leaf=30, l2_regularization=10.0, max_features=0.3, random_state=0
    ),
}
Tables = list[np.ndarray]


def formations() -> list[float]:
    """Return the number of the formation of each row, in the order in which wells go through them."""
    train, blind = well_logs("facies-train.csv.gz"), well_logs("facies-blind-inputs.csv.gz")
    known = {(row["WellName"], float(row["Depth.ft"])) for row in well_logs("facies-blind-labels.csv.gz")}
    rows = [*train, *(row for row in blind if (row["Well Name"], float(row["Depth"])) in known)]
    order = list(dict.fromkeys(row["Formation"] for row in train))
    return [float(order.index(row["Formation"])) for row in rows]


def neighbours(x: np.ndarray) -> np.ndarray:
    """Return the columns of a well beside those of the half foot above and below, and their gradients."""
    return np.hstack([x, np.vstack([x[:1], x[:-1]]), np.vstack([x[1:], x[-1:]]), np.gradient(x, axis=0)])


def column_sets(X: Tables) -> dict[str, Tables]:
    """Return the columns that are compared, by name."""
    around = {"windows": (5, 15, 45), "narrow windows": (3, 7, 15), "wide windows": (9, 27, 81)}
    made = {name: WindowFeatures(widths=widths).fit_transform(X) for name, widths in around.items()}
    return {"logs": X, "neighbours": [neighbours(x) for x in X], **made}


class Wells:
    """The wells: those of training first, then the blind ones, and the folds of training wells."""

    def __init__(self) -> None:
        self.X, self.y, self.n_train = wells()
        self.offsets = np.concatenate([[0], np.cumsum([len(own) for own in self.y])])
        self.labels = np.concatenate(self.y)
        self.classes = np.unique(np.concatenate(self.y[: self.n_train]))
        groups = np.repeat(np.arange(self.n_train), [len(own) for own in self.y[: self.n_train]])
        split = GroupKFold(FOLDS).split(groups, groups=groups)
        self.folds = [(np.unique(groups[train]), np.unique(groups[test])) for train, test in split]

    def cut(self, rows: np.ndarray) -> Tables:
        """Return rows of all wells as a table for each."""
        return np.split(rows, self.offsets[1:-1])

    def answers(self, fit: Callable[[Sequence[int]], Callable[[int], np.ndarray]]) -> Tables:
        """Return probabilities of each well: of training ones by what others of them teach, of blind ones by all."""
        made: dict[int, np.ndarray] = {}
        blind = range(self.n_train, len(self.X))
        for train, test in [*self.folds, (range(self.n_train), blind)]:
            answer = fit(train)
            made |= {well: answer(well) for well in test}
        return [made[well] for well in range(len(self.X))]

    def judged(self, tables: Tables, blind: bool = False) -> tuple[float, float]:
        """Return accuracy and log-loss of the training wells, or of the blind ones, whose ninth row may be new."""
        own = slice(self.n_train, None) if blind else slice(0, self.n_train)
        table, true = np.vstack(tables[own]), np.concatenate(self.y[own])
        known = np.isin(true, self.classes)
        right = self.classes[table.argmax(axis=1)] == true
        shares = table[known, np.searchsorted(self.classes, true[known])]
        return float(right.mean()), float(-np.log(np.maximum(shares, 1e-6)).mean())


def by_classifier(data: Wells, classifier: Any, inputs: Tables) -> Tables:
    """Return the probabilities of a classifier of rows."""

    def fit(train: Sequence[int]) -> Callable[[int], np.ndarray]:
        model = clone(classifier).fit(np.vstack([inputs[i] for i in train]), np.concatenate([data.y[i] for i in train]))
        places = np.searchsorted(data.classes, model.classes_)

        def answer(well: int) -> np.ndarray:
            table = np.full((len(inputs[well]), len(data.classes)), LEAST)
            table[:, places] = np.maximum(model.predict_proba(inputs[well]), LEAST)
            return table / table.sum(axis=1, keepdims=True)

        return answer

    return data.answers(fit)


def by_field(data: Wells, field: Any, inputs: Tables) -> Tables:
    """Return the marginals of a field."""

    def fit(train: Sequence[int]) -> Callable[[int], np.ndarray]:
        model = clone(field).fit([inputs[i] for i in train], [data.y[i] for i in train])
        places = np.searchsorted(data.classes, model.classes_)

        def answer(well: int) -> np.ndarray:
            table = np.full((len(inputs[well]), len(data.classes)), 1e-6)
            table[:, places] = model.predict_marginals([inputs[well]])[0]
            return table

        return answer

    return data.answers(fit)


def stage(data: Wells, name: str, candidates: Mapping[str, Callable[[], Tables]]) -> tuple[str, Tables]:
    """Print the candidates of a stage; return the one of the least log-loss on wells left out, and its tables."""
    found = []
    for candidate, make in candidates.items():
        tables = make()
        accuracy, loss = data.judged(tables)
        print(f"{name}: {candidate:32} wells left out {accuracy:.3f} / {loss:.3f}", flush=True)
        found.append((loss, candidate, tables))
    _, chosen, tables = min(found, key=lambda own: own[0])
    accuracy, loss = data.judged(tables, blind=True)
    print(f"{name}: {chosen} is chosen; blind wells {accuracy:.3f} / {loss:.3f}", flush=True)
    return chosen, tables


def smoothed(logs: np.ndarray, width: int) -> np.ndarray:
    """Return geometric means of the probabilities of neighbouring rows of a well."""
    table = np.exp(uniform_filter1d(logs, width, axis=0, mode="nearest"))
    return table / table.sum(axis=1, keepdims=True)


def mean(parts: Sequence[Tables]) -> Tables:
    return [np.mean(own, axis=0) for own in zip(*parts, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--columns", nargs="+", help="sets of columns that are compared; all by default")
    parser.add_argument("--classifiers", nargs="+", default=list(CLASSIFIERS), choices=list(CLASSIFIERS))
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    data = Wells()
    formation = data.cut(np.array(formations())[:, None])
    sets = column_sets(data.X)
    sets |= {
        f"{name}, formation": [np.hstack(own) for own in zip(tables, formation, strict=True)]
        for name, tables in sets.items()
    }
    compared = {name: own for name, own in sets.items() if given.columns is None or name in given.columns}
    trees = CLASSIFIERS["extra trees"]
    chosen, tables = stage(
        data, "columns", {name: lambda own=own: by_classifier(data, trees, own) for name, own in compared.items()}
    )
    found = {
        name: tables if name == "extra trees" else by_classifier(data, CLASSIFIERS[name], sets[chosen])
        for name in given.classifiers
    }
    groups = [group for size in range(1, len(found) + 1) for group in combinations(found, size)]
    means = {" and ".join(group): lambda own=group: mean([found[name] for name in own]) for group in groups}
    _, tables = stage(data, "classifiers", means)
    logs = [np.log(own) for own in tables]
    spreads = np.vstack(data.X[: data.n_train])
    scaled = [(x - spreads.mean(axis=0)) / spreads.std(axis=0) for x in data.X]
    both = [np.hstack(own) for own in zip(logs, scaled, strict=True)]
    fields: dict[str, Callable[[], Tables]] = {"none": lambda: tables}
    for width in (3, 7, 15):
        fields[f"none, means over {width} rows"] = lambda own=width: [smoothed(log, own) for log in logs]
    for variance in (0.001, 0.01, 0.1, 1.0):
        chain = ChainCRF("linear", prior_variance=variance, scale=False, random_state=0)
        fields[f"chain, variance {variance:g}"] = lambda own=chain: by_field(data, own, logs)
    for variance in (0.01, 0.1):
        segments = SegmentCRF(
            "linear", prior_variance=variance, scale=False, max_duration=40, repeats=True, random_state=0
        )
        fields[f"segments, variance {variance:g}"] = lambda own=segments: by_field(data, own, logs)
        smooth = ChainCRF("linear + laplacian", prior_variance=variance, scale=False, rank=300, random_state=0)
        fields[f"chain and logs, variance {variance:g}"] = lambda own=smooth: by_field(data, own, both)
    stage(data, "field", fields)


if __name__ == "__main__":
    main()
