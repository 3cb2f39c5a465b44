"""The page of label n-grams, docs/results/label_ngrams.md, from experiments/results/label_ngrams.json."""

from __future__ import annotations

import numpy as np

from benchmarks.result_files import EXPERIMENTS, read_results
from experiments.result_pages import ResultPage

FILE = "label_ngrams.json"
INTRODUCTION = """
Handwritten words, one letter after the other, as in [OCR letters](ocr_letters.md), with fields that weigh label
n-grams: order 2 is the plain chain; order n adds a weight for every run of three to n letters that occurs in
training (`NgramCliques(order=n)`). Inference is exact. The kernel is the cubic one, its prior variance that of
the small protocol; the prior variance of n-grams was chosen on a third of the training words. Errors are shares
of wrong letters, posterior decoding.
"""
SHARED = """
**The folds share their words.** All 6,877 samples spell one of 55 words, and every word is in every fold: long
n-grams of letters are then a dictionary of the very words that are tested, and the errors below say how well a
field makes use of one. They do not say how it reads words that it has not seen; the split by words does.
"""


def write_page() -> None:
    """Write the page from all results that there are."""
    rows = read_results(FILE, EXPERIMENTS)
    if not rows:
        return
    seconds = sum(row.get("seconds", 0.0) for row in rows)
    page = ResultPage("label_ngrams", "Label n-grams", command="python -m experiments.label_ngrams", seconds=seconds)
    page.text(INTRODUCTION)
    page.text(SHARED)
    for part, write in {"small": _small, "large": _large, "words": _words, "speed": _speed}.items():
        some = sorted((row for row in rows if row["part"] == part), key=lambda row: (row["order"], row["fold"]))
        if some:
            write(page, some)
    page.write()


def _by_order(rows: list[dict]) -> dict[int, list[dict]]:
    """Return the rows of each order, of those folds alone that all orders have."""
    orders = sorted({row["order"] for row in rows})
    common = set.intersection(*({row["fold"] for row in rows if row["order"] == order} for order in orders))
    return {order: [row for row in rows if row["order"] == order and row["fold"] in common] for order in orders}


def _variances(rows: list[dict]) -> str:
    chosen = sorted({row["ngram_variance"] for row in rows if row["ngram_variance"] is not None})
    return ", ".join(f"{each:g}" for each in chosen)


def _mean(rows: list[dict], name: str) -> float:
    return float(np.mean([row[name] for row in rows]))


def _small(page: ResultPage, rows: list[dict]) -> None:
    orders = _by_order(rows)
    folds = [row["fold"] for row in next(iter(orders.values()))]
    page.heading("Small protocol: train on one fold, test on nine")
    page.text(
        f"Mean of training folds {', '.join(map(str, folds))}; rank {rows[0]['rank']:,}. "
        "A prior variance of 100 is the largest of the grid: wider ones were not tried."
    )
    header = ["order", "error", "by fold", "n-grams", "their prior variance", "passes", "relative gap"]
    page.table(
        header,
        [
            [
                order,
                f"{_mean(some, 'error'):.2f} %",
                ", ".join(f"{row['error']:.2f}" for row in some),
                f"{_mean(some, 'n_ngrams'):,.0f}",
                _variances(some),
                f"{_mean(some, 'passes'):.0f}",
                f"{max(row['relative_gap'] for row in some):.1e}",
            ]
            for order, some in orders.items()
        ],
    )


def _large(page: ResultPage, rows: list[dict]) -> None:
    page.heading("Large protocol: train on nine folds, test on the tenth")
    page.text(
        f"{rows[0]['n_train']:,} letters to train on, {rows[0]['n_test']:,} to test; rank {rows[0]['rank']:,}. In "
        "brackets a bootstrap interval over words."
    )
    table = []
    for row in rows:
        low, high = (100 * (1 - row["accuracy"][end]) for end in ("high", "low"))
        gap, variance = f"{row['relative_gap']:.1e}", _variances([row])
        error = f"{row['error']:.2f} % [{low:.2f}, {high:.2f}]"
        table.append([row["order"], error, f"{row['n_ngrams']:,}", variance, f"{row['passes']:.0f}", gap])
    page.table(["order", "error", "n-grams", "their prior variance", "passes", "relative gap"], table)


def _words(page: ResultPage, rows: list[dict]) -> None:
    orders = _by_order(rows)
    n_groups = len(next(iter(orders.values())))
    page.heading("Words that are not trained on")
    page.text(
        f"The words of one fold, dealt by their spelling into five groups of eleven: train on four, test on the "
        f"fifth; mean of {n_groups} groups, rank {rows[0]['rank']:,}."
    )
    page.table(
        ["order", "error", "by group", "their prior variance", "better than order 2 in"],
        [
            [
                order,
                f"{_mean(some, 'error'):.2f} %",
                ", ".join(f"{row['error']:.2f}" for row in some),
                _variances(some),
                f"{_better(some, orders[2])} of {n_groups}" if order > 2 else "",
            ]
            for order, some in orders.items()
        ],
    )


def _better(some: list[dict], plain: list[dict]) -> int:
    known = {row["fold"]: row["error"] for row in plain}
    return sum(row["error"] < known[row["fold"]] for row in some)


def _speed(page: ResultPage, rows: list[dict]) -> None:
    page.heading("Time of a pass")
    page.text(
        "Value and gradient on the large protocol at rank 2,000: two products with the features, and inference; least "
        "of seven, in seconds of processor time."
    )
    first = next((row for row in rows if row["order"] == 2), None)
    table = []
    for row in rows:
        whole = row["features_work"] + row["inference_work"]
        ratio = "" if first is None else f"{whole / (first['features_work'] + first['inference_work']):.2f}"
        figures = [f"{row[name]:.2f}" for name in ("features_work", "inference_work")]
        table.append([row["order"], *figures, f"{whole:.2f}", ratio, row.get("description", "forward and backward")])
    page.table(["order", "features", "inference", "together", "to order 2", "inference by"], table)
