"""Actions that it takes to correct a file: with decoding after each fix, without it, and from nothing.

    python -m experiments.correcting [--sets chunks letters proteins] [--page]

A field is fitted to few items and predicts others. Who corrects reads an item from its beginning and fixes the first
label that is wrong. Without decoding every wrong label is an action; with it, the rest of the item is decoded again
given all labels that were fixed, and those before the place that was fixed, which were read and are right. From
nothing every label is an action. ``--page`` only writes docs/results/correcting.md.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from sklearn.pipeline import make_pipeline

from benchmarks.result_files import EXPERIMENTS, merge_results, read_results
from benchmarks.shared_data import ocr_letters, protein_profiles, token_columns
from experiments.calibration_data import squashed
from experiments.result_pages import ResultPage
from kernelfields import ChainCRF, TextFeatures
from kernelfields.evaluation.model_evaluation import opened

RESULTS = "correcting.json"
N_ITEMS = 300


def chunks() -> tuple[Any, list, list, list, list]:
    rows = token_columns("conll2000", "train.tsv.gz")
    X = [[(row[0], row[1]) for row in own] for own in rows]
    y = [[row[2] for row in own] for own in rows]
    model = make_pipeline(TextFeatures(), ChainCRF("linear", prior_variance=1.0, random_state=0))
    known = {label for own in y[:200] for label in own}
    others = [i for i in range(200, len(X)) if known.issuperset(y[i])][:N_ITEMS]
    return model, X[:200], y[:200], [X[i] for i in others], [y[i] for i in others]


def letters() -> tuple[Any, list, list, list, list]:
    X, y, fold = ocr_letters()
    train, others = np.flatnonzero(fold == 1)[:200], np.flatnonzero(fold == 2)
    known = {label for i in train for label in y[i]}
    others = [i for i in others if known.issuperset(y[i])][:N_ITEMS]
    model = ChainCRF("rbf", rank=300, random_state=0)
    return model, [X[i] for i in train], [y[i] for i in train], [X[i] for i in others], [y[i] for i in others]


def proteins() -> tuple[Any, list, list, list, list]:
    scores, _, labels = protein_profiles("train")
    X = squashed(scores)
    return ChainCRF("rbf", window=15, rank=300, random_state=0), X[:100], labels[:100], X[100:200], labels[100:200]


SETS = {"chunks": chunks, "letters": letters, "proteins": proteins}


def fixes(field: Any, x: Any, truth: list) -> int:
    """Return how many labels are fixed until all are right, the rest decoded after each."""
    known: list = [None] * len(truth)
    for count in range(len(truth) + 1):
        guess = list(field.predict(x, known=[known] if count else None)[0])
        wrong = next((t for t, pair in enumerate(zip(guess, truth, strict=True)) if pair[0] != pair[1]), None)
        if wrong is None:
            return count
        known[: wrong + 1] = truth[: wrong + 1]
    raise AssertionError("labels that are all known are right")


def run(name: str) -> dict:
    """Return the actions of one set."""
    begin = time.perf_counter()
    model, X, y, X_new, y_new = SETS[name]()
    field, inputs = opened(model.fit(X, y), X_new)
    predicted = field.predict(inputs)
    truth = [list(own) for own in y_new]
    without = sum(a != b for own, other in zip(predicted, truth, strict=True) for a, b in zip(own, other, strict=True))
    decoded = sum(fixes(field, inputs[i : i + 1], truth[i]) for i in range(len(truth)))
    row = {"set": name, "items": len(truth), "positions": sum(map(len, truth)), "without": int(without)}
    row |= {"decoded": decoded, "seconds": time.perf_counter() - begin}
    print(
        f"{name}: {row['positions']} labels, {without} wrong, {decoded} fixes: ratio {decoded / without:.2f}",
        flush=True,
    )
    return row


def write_page() -> None:
    """Write the page from the results."""
    rows = read_results(RESULTS, EXPERIMENTS)
    page = ResultPage(
        "correcting",
        "Correcting with decoding after each fix",
        command="python -m experiments.correcting",
        seconds=sum(row["seconds"] for row in rows),
    )
    page.text(
        "A field is fitted to 200 sentences of CoNLL-2000, 200 words of letters, 100 proteins, and others are "
        "corrected from left to right. Decoding again after each fix, given what was read so far, changes the rest."
    )
    page.table(
        ["set", "items", "labels, from nothing", "wrong: fixes without decoding", "fixes with decoding", "ratio"],
        [
            [
                row["set"],
                f"{row['items']:,}",
                f"{row['positions']:,}",
                f"{row['without']:,}",
                f"{row['decoded']:,}",
                f"{row['decoded'] / row['without']:.2f}",
            ]
            for row in rows
        ],
    )
    page.write()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="*", default=list(SETS), choices=list(SETS))
    parser.add_argument("--page", action="store_true", help="only write the page from the results")
    options = parser.parse_args()
    for name in () if options.page else options.sets:
        merge_results(RESULTS, [run(name)], ("set",), EXPERIMENTS)
    write_page()


if __name__ == "__main__":
    main()
