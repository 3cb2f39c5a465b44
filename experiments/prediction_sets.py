"""Coverage and size of prediction sets over 200 random splits of seven data sets.

    python -m experiments.prediction_sets [--sets letters chunks ...] [--splits 200] [--page]

A field is fitted to one part of the items. The others, the pool, are split into halves at random, again and again:
thresholds come from one half, coverage and size from the other. Beside it stands the same field without any clique
that joins labels: what position by position would give. ``--page`` only writes docs/results/prediction_sets.md.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.stats import beta
from sklearn.pipeline import Pipeline, make_pipeline

from benchmarks.result_files import EXPERIMENTS, merge_results, read_results
from benchmarks.shared_data import gesture_phases, multilabel_set, ocr_letters, protein_profiles, token_columns
from experiments.calibration_data import squashed
from experiments.cora import read_papers
from experiments.gestures import frame_features
from experiments.pictures import curves_plot
from experiments.result_pages import ResultPage
from experiments.streams import occupancy
from kernelfields import ChainCRF, KernelClassifier, MultiLabelCRF, NodeCliques, TextFeatures
from kernelfields.evaluation.model_evaluation import opened
from kernelfields.uncertainty.conformal import event_threshold, score_quantile
from kernelfields.uncertainty.events import ENTITIES, LABELLINGS, POSITIONS, find_events

RESULTS, LEVELS, PIECE = "prediction_sets.json", (0.8, 0.9, 0.95), 60
RBF = {"kernel": "rbf", "rank": 300, "random_state": 0}
Task = tuple[
    Any, Any, Any, Any, Any, Any
]  # the field, its twin without joined labels, items of the fit and of the pool


def shuffled(X: list, y: list, n_fit: int, n_pool: int) -> tuple[list, list, list, list]:
    """Return items of the fit and of the pool, drawn at random."""
    order = np.random.default_rng(0).permutation(len(X))
    fit, pool = order[:n_fit].tolist(), order[n_fit : n_fit + n_pool].tolist()
    return [X[i] for i in fit], [y[i] for i in fit], [X[i] for i in pool], [y[i] for i in pool]


def pieces(X: list, y: list) -> tuple[list, list]:
    """Return sequences cut into pieces of equal length."""
    cuts = [range(PIECE, len(x), PIECE) for x in X]
    return (
        [piece for x, cut in zip(X, cuts, strict=True) for piece in np.split(x, cut)],
        [piece for labels, cut in zip(y, cuts, strict=True) for piece in np.split(np.asarray(labels), cut)],
    )


def chains(window: int = 1) -> tuple[ChainCRF, ChainCRF]:
    """Return a field, and one whose labels are independent."""
    alone = NodeCliques("rbf", window=window, rank=300)
    return ChainCRF(**RBF, window=window), ChainCRF(cliques=[alone], random_state=0)


def letters() -> Task:
    X, y, fold = ocr_letters()
    fit = np.flatnonzero(fold == 1).tolist()
    pool = np.random.default_rng(0).choice(np.flatnonzero(fold != 1), 1500, replace=False).tolist()
    return *chains(), [X[i] for i in fit], [y[i] for i in fit], [X[i] for i in pool], [y[i] for i in pool]


def chunks() -> Task:
    rows = token_columns("conll2000", "train.tsv.gz")[:5000]
    X = [[(row[0], row[1]) for row in own] for own in rows]
    y = [[row[2] for row in own] for own in rows]

    def made(**settings: Any) -> Pipeline:
        return make_pipeline(TextFeatures(), ChainCRF(prior_variance=1.0, random_state=0, **settings))

    parts = shuffled(X, y, 2500, 2500)
    known = {label for labels in parts[1] for label in labels}
    kept = [i for i, labels in enumerate(parts[3]) if known.issuperset(labels)]
    X_pool, y_pool = ([part[i] for i in kept] for part in parts[2:])
    return made(kernel="linear"), made(cliques=[NodeCliques("linear")]), *parts[:2], X_pool, y_pool


def proteins() -> Task:
    scores, _, labels = protein_profiles("train")
    return *chains(15), *shuffled(squashed(scores), labels, 150, 600)


def gestures() -> Task:
    positions, velocities, y, names = gesture_phases()
    videos = [frame_features(*pair) for pair in zip(positions, velocities, strict=True)]
    fit = [i for i, name in enumerate(names) if name[0] != "a"]
    pool = [i for i, name in enumerate(names) if name[0] == "a"]
    X, labels = pieces([videos[i] for i in pool], [y[i] for i in pool])
    return *chains(), [videos[i] for i in fit], [y[i] for i in fit], X, labels


def office() -> Task:
    ((_, X, y, X_pool, y_pool),) = occupancy()
    return *chains(), X, y, *pieces(X_pool, y_pool)


def emotions() -> Task:
    (X, Y), (X_pool, Y_pool), _ = multilabel_set("emotions")
    one = MultiLabelCRF(**RBF)
    return one, MultiLabelCRF(**RBF, label_graph=[]), X, Y, X_pool, Y_pool


def cora() -> Task:
    papers = read_papers()
    smooth = papers.citations @ (papers.citations @ papers.words)
    order = np.random.default_rng(0).permutation(len(papers.topics))
    fit, pool = order[:300], order[300:]
    topics = papers.topics
    field, alone = KernelClassifier("cosine", random_state=0), KernelClassifier("cosine", random_state=0)
    return field, (alone, papers.words[fit], papers.words[pool]), smooth[fit], topics[fit], smooth[pool], topics[pool]


TASKS: dict[str, Callable[[], Task]] = {
    "letters": letters,
    "chunks": chunks,
    "proteins": proteins,
    "gestures": gestures,
    "occupancy": office,
    "emotions": emotions,
    "Cora": cora,
}


class Pool:
    """Events and marginals of the pool, from which the sets of every split follow."""

    def __init__(self, model: Any, X: Any, y: Any, target: str):
        self.events, self.names = find_events(model, X, y, target, "auto", False)
        self.target, self.n_items = target, len(self.events.lengths)
        if target == POSITIONS:
            model, X = opened(model, X)
            tables = model.predict_proba(X) if isinstance(model, KernelClassifier) else model.predict_marginals(X)
            self.table = np.concatenate([np.atleast_2d(own) for own in tables])
            self.item = np.repeat(np.arange(self.n_items), self.events.lengths)

    def split(self, calibrated: np.ndarray, level: float) -> dict[str, Any]:
        """Return coverage of the other items, by label and by quarter of length, and the mean size of sets."""
        events, amounts = self.events, self.events.increments()
        own, n_calibrated = calibrated[events.items], int(calibrated.sum())
        if self.target == LABELLINGS:
            threshold = score_quantile(events.scores[own], 1 - level)
            lost = events.scores > threshold
        else:
            threshold = event_threshold(events.scores[own], amounts[own], n_calibrated, 1 - level)
            lost = events.scores < threshold
        losses = np.bincount(events.items, lost * amounts, minlength=self.n_items)
        quarters = np.searchsorted(np.quantile(events.lengths, [0.25, 0.5, 0.75]), events.lengths)
        new = ~calibrated
        found = {"coverage": 1 - losses[new].mean()}
        found["quarters"] = [1 - losses[new & (quarters == q)].mean() for q in np.unique(quarters)]
        kinds = events.kinds[~own]
        counts = np.bincount(kinds, minlength=len(self.names))
        with np.errstate(invalid="ignore"):
            found["labels"] = 1 - np.bincount(kinds, lost[~own], minlength=len(self.names)) / counts
        if self.target == POSITIONS:
            found["size"] = float((self.table[new[self.item]] >= threshold).sum(axis=1).mean())
        return found


def run(name: str, n_splits: int) -> list[dict]:
    """Return a row for each target and level."""
    field, alone, X, y, X_pool, y_pool = TASKS[name]()
    field.fit(X, y)
    targets = [POSITIONS, LABELLINGS] + ([ENTITIES] if name == "chunks" else [])
    pools = {target: Pool(field, X_pool, y_pool, target) for target in targets}
    if isinstance(alone, tuple):
        alone, X, X_pool = alone
    twin = Pool(alone.fit(X, y), X_pool, y_pool, POSITIONS)
    rows, random = [], np.random.default_rng(1)
    splits = []
    for _ in range(n_splits):
        calibrated = np.zeros(pools[POSITIONS].n_items, dtype=bool)
        calibrated[random.permutation(len(calibrated))[: len(calibrated) // 2]] = True
        splits.append(calibrated)
    for target, pool in pools.items():
        for level in LEVELS:
            found = [pool.split(calibrated, level) for calibrated in splits]
            row = {"set": name, "target": target, "level": level, "n_calibrated": int(splits[0].sum())}
            row["coverages"] = [own["coverage"] for own in found]
            row["worst_quarter"] = float(np.min(np.mean([own["quarters"] for own in found], axis=0)))
            if target != LABELLINGS:
                shares = np.array([own["labels"] for own in found])
                by_label = np.nanmean(shares[:, ~np.isnan(shares).all(axis=0)], axis=0)
                names = np.array(pool.names)[~np.isnan(shares).all(axis=0)]
                row["worst_label"] = [str(names[by_label.argmin()]), float(by_label.min())]
            if target == POSITIONS:
                row["size"] = float(np.mean([own["size"] for own in found]))
                row["size_alone"] = float(np.mean([twin.split(calibrated, level)["size"] for calibrated in splits]))
            rows.append(row)
    return rows


def band(row: dict) -> tuple[float, float]:
    """Return the ends of the Beta law's 95 % for the coverage of one split."""
    n = row["n_calibrated"]
    rank = int(np.ceil((n + 1) * row["level"] - 1e-9))
    low, high = beta(rank, n + 1 - rank).ppf([0.025, 0.975])
    return float(low), float(high)


def write_page() -> None:
    """Write the page from the results."""
    rows = read_results(RESULTS, EXPERIMENTS)
    page = ResultPage(
        "prediction_sets",
        "Prediction sets",
        command="python -m experiments.prediction_sets",
        seconds=sum({row["set"]: row["seconds"] for row in rows}.values()),
    )
    page.text(
        "Mean coverage over 200 random splits of the items that the field was not fitted to, half of them for the "
        "threshold. The band is the central 95 % of the Beta law of the coverage of one split. Gestures and occupancy "
        f"are few long recordings, cut into pieces of {PIECE} frames or minutes; papers of Cora are single items."
    )
    table = []
    for row in rows:
        low, high = band(row)
        coverage = float(np.mean(row["coverages"]))
        label = row.get("worst_label")
        ratio = row["size"] / row["size_alone"] if "size" in row else None
        table.append(
            [
                row["set"],
                row["target"],
                f"{row['level']:g}",
                f"{coverage:.4f}{'' if low <= coverage <= high else ' (outside)'}",
                f"{low:.3f} to {high:.3f}",
                f"{row['worst_quarter']:.3f}",
                "" if label is None else f"{label[0]}: {label[1]:.3f}",
                "" if ratio is None else f"{row['size']:.3f}",
                "" if ratio is None else f"{ratio:.2f}",
            ]
        )
    header = ["set", "of", "level", "coverage", "band", "worst quarter of lengths", "worst label", "size", "ratio"]
    page.table(header, table)
    page.text(
        "Size is the mean number of labels in the set of a position, ratio that size over the one of the same field "
        "without joined labels at the same level (of Cora: over words alone, without citations). Sets may be empty: "
        "where a field is right more often than the level asks for, sets of less than one label are enough."
    )
    shown = next(
        (row for row in rows if (row["set"], row["target"], row["level"]) == ("letters", LABELLINGS, 0.9)), None
    )
    if shown is not None:
        n = shown["n_calibrated"]
        rank = int(np.ceil((n + 1) * 0.9 - 1e-9))
        places = np.linspace(0.86, 0.94, 161)
        counts, edges = np.histogram(shown["coverages"], bins=20, range=(0.86, 0.94), density=True)
        curves = {"Beta law": beta(rank, n + 1 - rank).pdf(places).tolist()}
        histogram = {"edges": edges.tolist(), "heights": counts.tolist()}
        page.picture(
            "coverage",
            curves_plot(places.tolist(), curves, "coverage", histogram),
            "Coverage of whole words of letters at level 0.9 over 200 splits, and the Beta law.",
        )
    page.write()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="*", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--splits", type=int, default=200)
    parser.add_argument("--page", action="store_true", help="only write the page from the results")
    options = parser.parse_args()
    for name in () if options.page else options.sets:
        begin = time.perf_counter()
        rows = run(name, options.splits)
        for row in rows:
            row["seconds"] = time.perf_counter() - begin
            sizes = f", size {row['size']:.3f}, alone {row['size_alone']:.3f}" if "size" in row else ""
            print(f"{name} {row['target']} {row['level']}: coverage {np.mean(row['coverages']):.4f}{sizes}", flush=True)
        merge_results(RESULTS, rows, ("set", "target", "level"), EXPERIMENTS)
    write_page()


if __name__ == "__main__":
    main()
