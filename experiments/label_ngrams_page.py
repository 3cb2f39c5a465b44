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
    for part, write in PARTS.items():
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
    for order in orders:
        every = [row for row in rows if row["order"] == order]
        if len(every) > len(folds):
            errors = ", ".join(f"{row['error']:.2f}" for row in every)
            page.text(f"Order {order} on {len(every)} folds: {_mean(every, 'error'):.2f} % ({errors}).")


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
        f"fifth; {n_groups} groups, rank {rows[0]['rank']:,}. The error is that of all letters of the groups together; "
        "the difference to order 2, in points, is paired, its interval of 95 % from words resampled with all their "
        "samples. The prior variance of n-grams was chosen among 0.01, 0.1 and 1 on a third of the training words."
    )
    page.table(
        ["order", "error", "by group", "their prior variance", "more than order 2"],
        [
            [
                order,
                f"{100 * _wrong(some)[0].sum() / _wrong(some)[1].sum():.2f} %",
                ", ".join(f"{row['error']:.2f}" for row in some),
                _variances(some),
                _against(some, orders[2]) if order > 2 else "",
            ]
            for order, some in orders.items()
        ],
    )
    page.text(_verdict(orders))


def _wrong(rows: list[dict]) -> np.ndarray:
    """Return how many letters of each word are wrong, and how many there are, (2, words)."""
    return np.array([count for row in rows for _, count in sorted(row["by_word"].items())]).T


def _difference(some: list[dict], plain: list[dict], n_resamples: int = 10_000) -> np.ndarray:
    """Return the difference of two errors in per cent, and the ends of its interval over words."""
    (longer, letters), (shorter, _) = _wrong(some), _wrong(plain)
    drawn = np.random.default_rng(0).integers(len(letters), size=(n_resamples, len(letters)))
    resampled = (longer - shorter)[drawn].sum(axis=1) / letters[drawn].sum(axis=1)
    return 100 * np.array([(longer - shorter).sum() / letters.sum(), *np.quantile(resampled, [0.025, 0.975])])


def _against(some: list[dict], plain: list[dict]) -> str:
    value, low, high = _difference(some, plain)
    return f"{value:+.2f} [{low:+.2f}, {high:+.2f}]"


def _verdict(orders: dict[int, list[dict]]) -> str:
    better = [order for order, some in orders.items() if order > 2 and _difference(some, orders[2])[2] < 0]
    if better:
        return f"On new words, n-grams of {', '.join(map(str, better))} letters bring less error than pairs do."
    return (
        "On new words longer n-grams bring nothing that 55 words could tell from chance: what they bring above is the "
        f"dictionary. Of the runs of three letters in the words of a group, {100 * _new(orders[2], 3):.0f} % are in no "
        f"word of the others, of those of four {100 * _new(orders[2], 4):.0f} %."
    )


def _new(rows: list[dict], length: int) -> float:
    """Return the share of runs of letters in the words of each group that no word of the other groups has."""
    runs = [[word[i : i + length] for word in row["by_word"] for i in range(len(word) - length + 1)] for row in rows]
    known = [{run for other in runs if other is not some for run in other} for some in runs]
    new = sum(run not in seen for some, seen in zip(runs, known, strict=True) for run in some)
    return new / sum(map(len, runs))


def _tags(page: ResultPage, rows: list[dict]) -> None:
    row = rows[-1]
    n_train, n_dev, n_test = row["n_sentences"]
    page.heading("Tags of English words: second order against first")
    page.text(
        f"UD English EWT, {row['n_labels']} fine tags, the usual features of words; the first {n_train:,} sentences of "
        f"the training part ({row['n_train']:,} words), {n_test:,} sentences to test on. Second order adds a weight "
        "for each run of three tags that occurs twice or more in training. Prior variances were chosen on the first "
        f"{n_dev:,} sentences of the development part, with {row['n_selection']:,} to train on: "
        f"{row['variance']:g} for words and transitions, at first order, and {row['ngram_variance']:g} for runs of "
        "three. The interval of 95 % is from paired resamples of test sentences. Inference by "
        f"{row['description']}."
    )
    table = []
    for name, i in (("first", 0), ("second", 1)):
        gained = row["difference"]
        more = f"{gained['value']:+.2f} [{gained['low']:+.2f}, {gained['high']:+.2f}] points" if i else ""
        ngrams = f"{row['n_ngrams']:,}" if i else "0"
        gap, passes = f"{row['relative_gaps'][i]:.1e}", f"{row['passes'][i]:.0f}"
        table.append([name, f"{row['accuracies'][i]:.2f} %", more, ngrams, passes, gap])
    page.table(["order", "accuracy", "more than first", "n-grams of three", "passes", "relative gap"], table)
    if row["difference"]["low"] <= 0:
        page.text(
            "Label trigrams bring nothing here that could be told from chance. In the choice of variances the "
            f"development part has at best {max(row['selection_plain']):.2f} % without them and "
            f"{max(row['selection_longer']):.2f} % with them."
        )


def _speed(page: ResultPage, rows: list[dict]) -> None:
    page.heading("Time of a pass")
    page.text(
        "Value and gradient on the large protocol at rank 2,000: two products with the features, and inference; least "
        "of twenty, orders in turn, in seconds of processor time."
    )
    first = next((row for row in rows if row["order"] == 2), None)
    table = []
    for row in rows:
        whole = row["features_work"] + row["inference_work"]
        ratio = "" if first is None else f"{whole / (first['features_work'] + first['inference_work']):.2f}"
        figures = [f"{row[name]:.2f}" for name in ("features_work", "inference_work")]
        table.append([row["order"], *figures, f"{whole:.2f}", ratio, row.get("description", "forward and backward")])
    page.table(["order", "features", "inference", "together", "to order 2", "inference by"], table)


PARTS = {"small": _small, "large": _large, "words": _words, "tags": _tags, "speed": _speed}
