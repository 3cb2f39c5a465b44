"""Active learning: how many labels reach 95 % of the accuracy with all labels, in random order and ranked by entropy.

    python -m experiments.what_to_label [letters] [chunks] [proteins] [--seeds 10]

A pool of items has no labels: 1,000 words of OCR letters, 400 sentences of CoNLL-2000, 100 proteins. A few random
items are labelled first. Then a field is fitted, ``rank_for_labelling`` chooses further labels, and so on. A label
costs one, whether it comes with its whole item or alone. Accuracy is that of positions of test items, relative to the
same field fitted to all labels of the pool. The share of labels that reaches 95 % is interpolated between rounds, in
the logarithm of the share. Parameters of the fields are fixed and were not chosen on these data. Rows that the file of
results has are not run again.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone

from benchmarks.result_files import EXPERIMENTS, merge_results, read_results
from benchmarks.shared_data import ocr_letters, protein_profiles
from benchmarks.templates import chunking
from experiments.pictures import at_places
from experiments.result_pages import Drawing, duration, table, write_page
from kernelfields import ChainCRF, PartialLabels, rank_for_labelling
from kernelfields.kernels import RBF

RESULTS = "what_to_label.json"
SHARES = (0.03, 0.045, 0.065, 0.09, 0.13, 0.18, 0.25, 0.36, 0.5, 0.7)
ENOUGH, STOP = 0.95, 0.97
FIXED: dict[str, Any] = {"tol": 1e-2, "n_jobs": 1, "random_state": 0}
#: Arguments of ``rank_for_labelling`` for each order, None for a random one.
ORDERS: dict[str, dict[str, bool] | None] = {
    "random items": None,
    "entropy, items": {"positions": False, "spread": False},
    "entropy, items spread": {"positions": False, "spread": True},
    "random positions": None,
    "entropy, positions": {"positions": True, "spread": False},
    "entropy, positions spread": {"positions": True, "spread": True},
}
Sequences = tuple[list, list]


def letters(random: np.random.Generator) -> tuple[Sequences, Sequences, ChainCRF]:
    """Return words of nine folds, 300 of the tenth, and a field."""
    X, y, fold = ocr_letters()
    pool = random.permutation(np.flatnonzero(fold != 0))[:1000]
    test = random.permutation(np.flatnonzero(fold == 0))[:300]
    field = ChainCRF(RBF(0.02), rank=300, prior_variance=10.0, scale=False, l1=0.0, support="all", **FIXED)
    return _taken(X, y, pool), _taken(X, y, test), field


def chunks(random: np.random.Generator) -> tuple[Sequences, Sequences, ChainCRF]:
    """Return 400 training sentences, 300 others, and a linear field on words and tags."""
    X, y = chunking("train")
    order = random.permutation(len(X))
    field = ChainCRF("linear", support="observed", prior_variance=0.5, l1=0.0, **FIXED)
    return _taken(X, y, order[:400]), _taken(X, y, order[400:700]), field


def proteins(random: np.random.Generator) -> tuple[Sequences, Sequences, ChainCRF]:
    """Return 100 proteins, 60 others, and a linear field on windows of profiles."""
    X, _, y = protein_profiles("train")
    order = random.permutation(len(X))
    field = ChainCRF("linear", window=7, prior_variance=0.01, l1=0.0, support="all", **FIXED)
    return _taken(X, y, order[:100]), _taken(X, y, order[100:160]), field


def _taken(X: list, y: list, items: np.ndarray) -> Sequences:
    return [X[item] for item in items], [list(y[item]) for item in items]


TASKS: dict[str, Callable[[np.random.Generator], tuple[Sequences, Sequences, ChainCRF]]] = {
    "letters": letters,
    "chunks": chunks,
    "proteins": proteins,
}


def curve(name: str, pool: Sequences, test: Sequences, field: ChainCRF, full: float, seed: int) -> list[list[float]]:
    """Return shares of labels and accuracies relative to that of all labels, round by round."""
    X, y = pool
    random = np.random.default_rng(seed)
    lengths = np.array([len(labels) for labels in y])
    total, by_items = int(lengths.sum()), random.permutation(len(y)).tolist()
    known = [np.zeros(length, dtype=bool) for length in lengths]

    def n_known() -> int:
        return sum(int(own.sum()) for own in known)

    def buy(items: list[int], labels: float) -> None:
        for item in items:
            if n_known() >= labels:
                break
            known[item][:] = True

    buy(by_items, SHARES[0] * total)
    classes = sorted({label for labels in y for label in labels})
    model, found = clone(field).set_params(partial_labels=PartialLabels(classes=classes)), []
    for number in range(len(SHARES)):
        given = [
            [label if mine else None for label, mine in zip(labels, own, strict=True)]
            for labels, own in zip(y, known, strict=True)
        ]
        items = [item for item, own in enumerate(known) if own.any()]
        model.fit([X[item] for item in items], [given[item] for item in items])
        found.append([n_known() / total, float(model.score(*test)) / full])
        if found[-1][1] >= STOP or number + 1 == len(SHARES):
            break
        wanted = SHARES[number + 1] * total
        batch = int(wanted - n_known())
        if batch < 1:  # the last item was a long one
            continue
        ranking = ORDERS[name]
        if name == "random items":
            buy(by_items, wanted)
        elif ranking is None:
            places = [(item, int(part)) for item, own in enumerate(known) for part in np.flatnonzero(~own)]
            for index in random.permutation(len(places))[:batch]:
                known[places[index][0]][places[index][1]] = True
        elif ranking["positions"]:
            for item, part in rank_for_labelling(model, X, known=given, batch=batch, **ranking).order:
                known[item][part] = True
        else:
            n_items = int(np.ceil(1.5 * batch / lengths.mean()))
            buy(rank_for_labelling(model, X, known=given, batch=n_items, **ranking).order, wanted)
    return found


def needed(points: list[list[float]]) -> float:
    """Return the share of labels at which a curve reaches 95 %, interpolated; one where it does not."""
    shares, values = np.array(points).T
    above = np.flatnonzero(values >= ENOUGH)
    if not above.size or above[0] == 0:
        return float(shares[0]) if above.size else 1.0
    last = int(above[0])
    part = (ENOUGH - values[last - 1]) / (values[last] - values[last - 1])
    return float(np.exp(np.log(shares[last - 1]) * (1 - part) + np.log(shares[last]) * part))


def needed_table() -> str:
    """Return the share of labels that each order needs, with its ratio to that of random items."""
    rows = read_results(RESULTS, EXPERIMENTS)
    lines = []
    for order in ORDERS:
        cells = [order]
        for task in TASKS:
            own, base = (
                [row["needed"] for row in rows if (row["task"], row["order"]) == (task, name)]
                for name in (order, "random items")
            )
            ratio = np.mean(own) / np.mean(base)
            cells.append(f"{np.mean(own):.3f} [{min(own):.3f}, {max(own):.3f}] ({ratio:.2f})")
        lines.append(cells)
    return table(["order", *TASKS], lines)


def curves_of(task: str) -> dict[str, list[float]]:
    """Return the mean relative accuracy at each share of labels, by order; NaN where a seed has stopped before."""
    found = {}
    for order in ORDERS:
        rows = read_results(RESULTS, EXPERIMENTS)
        curves = [np.array(row["points"]) for row in rows if (row["task"], row["order"]) == (task, order)]
        found[order] = [
            float(np.mean([np.interp(share, *points.T) for points in curves]))
            if all(points[-1, 0] >= 0.99 * share for points in curves)
            else np.nan
            for share in SHARES
        ]
    return found


def time_taken() -> str:
    """Say how long all rows took."""
    return duration(sum(row["seconds"] for row in read_results(RESULTS, EXPERIMENTS)), "one core")


def few_labels_table() -> str:
    """Return relative accuracies of letters with few labels."""
    shares = [f"{100 * share:g} %" for share in SHARES[1:7]]
    lines = [[order, *(f"{each:.3f}" for each in means[1:7])] for order, means in curves_of("letters").items()]
    return table(["order", *shares], lines)


def drawing(task: str) -> Drawing:
    """Return the picture of a task."""
    shares = [round(100 * share, 1) for share in SHARES]
    figure = at_places(shares, curves_of(task), "accuracy relative to all labels", "labels, per cent of the pool")
    caption = f"{task}: mean accuracy against labels; a line ends where the first seed has reached 97 %"
    return Drawing(task, figure, caption)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", default=list(TASKS))
    parser.add_argument("--seeds", type=int, default=10)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    done = {(row["task"], row["seed"], row["order"]) for row in read_results(RESULTS, EXPERIMENTS)}
    for seed in range(options.seeds):
        for task in options.tasks:
            orders = [order for order in ORDERS if (task, seed, order) not in done]
            if not orders:
                continue
            pool, test, field = TASKS[task](np.random.default_rng(seed))
            full = float(clone(field).fit(*pool).score(*test))
            for order in orders:
                begin = time.process_time()
                points = curve(order, pool, test, field, full, seed)
                row = {"task": task, "seed": seed, "order": order, "full": full, "points": points}
                row |= {"needed": needed(points), "labels": sum(map(len, pool[1]))}
                row["seconds"] = time.process_time() - begin
                merge_results(RESULTS, [row], ("task", "seed", "order"), EXPERIMENTS)
                print(f"{task} {seed} {order}: {row['needed']:.3f}, {row['seconds']:.0f} s", flush=True)
    write_page("what_to_label")


if __name__ == "__main__":
    main()
