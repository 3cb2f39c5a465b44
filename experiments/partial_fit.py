"""Batches one after the other, ``partial_fit``, beside fits to all of them at once: letters and occupancy.

    python -m experiments.partial_fit [letters] [occupancy] [--folds 0 1 2] [--page]

*Letters*: the words of one fold in random order, in ten batches; tested on the fold after it. The kernel is the cubic
one of the small protocol, of rank 500, prior variance 20, for both. *Occupancy*: minutes of an office without the
light, day by day; each day is predicted by what was learnt before it (prequential), then learnt. Beside it a fit to all
days before. RBF of rank 300, prior variance 1; the scale of the columns is that of the first day for the one and that
of all days before for the other. Nothing was chosen by test data.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from sklearn.base import clone

from benchmarks.result_files import EXPERIMENTS, merge_results, read_results
from benchmarks.shared_data import data_file, ocr_letters
from experiments.partial_labels import KERNEL, VARIANCE
from experiments.result_pages import ResultPage
from kernelfields import ChainCRF

FILE = "partial_fit.json"
N_BATCHES, LETTER_RANK, ROOM_RANK, DAY = 10, 500, 300, 1440


def letter_rows(folds: list[int]) -> list[dict]:
    """Return the accuracy after each batch, and that of a fit to all of them."""
    X, y, fold = ocr_letters()
    rows = []
    for number in folds:
        order = np.random.default_rng(number).permutation(np.flatnonzero(fold == number))
        test = np.flatnonzero(fold == (number + 1) % 10)
        X_test, y_test = [X[i] for i in test], [y[i] for i in test]
        crf = ChainCRF(KERNEL, rank=LETTER_RANK, prior_variance=VARIANCE, random_state=0)
        begin = time.perf_counter()
        whole = clone(crf).fit([X[i] for i in order], [y[i] for i in order])
        row = {"part": "letters", "name": f"fold {number}", "fit_seconds": time.perf_counter() - begin}
        row |= {"fit": whole.score(X_test, y_test), "batches": [], "seconds": 0.0}
        for batch in np.array_split(order, N_BATCHES):
            begin = time.perf_counter()
            crf.partial_fit([X[i] for i in batch], [y[i] for i in batch])
            row["seconds"] += time.perf_counter() - begin
            row["batches"].append(crf.score(X_test, y_test))
        print(row, flush=True)
        rows.append(row)
    return rows


def occupancy_rows() -> list[dict]:
    """Return how many minutes of each day are right, before it is learnt."""
    with np.load(data_file("occupancy", "occupancy.npz"), allow_pickle=False) as archive:
        kept = [i for i, name in enumerate(archive["feature_names"].tolist()) if "light" not in name.lower()]
        parts = sorted(("train", "test1", "test2"), key=lambda part: int(archive[f"time_{part}"][0]))
        days = [
            (archive[f"x_{part}"][begin : begin + DAY, kept].astype(np.float64), archive[f"y_{part}"][begin:][:DAY])
            for part in parts
            for begin in range(0, len(archive[f"y_{part}"]), DAY)
        ]
    settings = {"rank": ROOM_RANK, "prior_variance": 1.0, "scale": True, "random_state": 0}
    crf = ChainCRF("rbf", **settings).partial_fit([days[0][0]], [days[0][1]], classes=[0, 1])
    row: dict = {"part": "occupancy", "name": "days", "minutes": [], "partial_fit": [], "fit": [], "majority": []}
    row |= {"seconds": 0.0, "fit_seconds": 0.0}
    for number in range(1, len(days)):
        x, labels = days[number]
        begin = time.perf_counter()
        whole = ChainCRF("rbf", **settings).fit([day for day, _ in days[:number]], [day for _, day in days[:number]])
        row["fit_seconds"] += time.perf_counter() - begin
        row["minutes"].append(len(labels))
        row["partial_fit"].append(int((crf.predict([x])[0] == labels).sum()))
        row["fit"].append(int((whole.predict([x])[0] == labels).sum()))
        row["majority"].append(int((labels == 0).sum()))
        begin = time.perf_counter()
        crf.partial_fit([x], [labels])
        row["seconds"] += time.perf_counter() - begin
        print(number, {name: row[name][-1] for name in ("minutes", "partial_fit", "fit")}, flush=True)
    return [row]


def write_page() -> None:
    """Write the page from the results."""
    rows = read_results(FILE, EXPERIMENTS)
    seconds = sum(row["seconds"] + row["fit_seconds"] for row in rows)
    page = ResultPage(
        "partial_fit", "Batches one after the other", command="python -m experiments.partial_fit", seconds=seconds
    )
    letters = [row for row in rows if row["part"] == "letters"]
    if letters:
        page.heading(f"Handwritten letters, a fold in {N_BATCHES} batches")
        page.text(
            f"Per cent of the letters of the next fold that are right. Cubic kernel, rank {LETTER_RANK}; the folds "
            "share their words."
        )
        page.table(
            ["fold", *(f"{number + 1}" for number in range(N_BATCHES)), "all at once", "difference, points"],
            [
                [
                    row["name"],
                    *(f"{100 * share:.1f}" for share in row["batches"]),
                    f"{100 * row['fit']:.1f}",
                    f"{100 * (row['batches'][-1] - row['fit']):+.2f}",
                ]
                for row in letters
            ],
        )
        page.text(
            f"Mean difference {100 * np.mean([row['batches'][-1] - row['fit'] for row in letters]):+.2f} points. "
            f"Seconds: {np.mean([row['seconds'] for row in letters]):.1f} for all batches, "
            f"{np.mean([row['fit_seconds'] for row in letters]):.1f} for the fit at once."
        )
    for row in rows:
        if row["part"] == "occupancy":
            page.heading("Occupancy of an office, each day before it is learnt")
            names = {"partial_fit": "partial_fit", "fit": "fit to all days before", "majority": 'always "empty"'}
            total = sum(row["minutes"])
            page.table(
                ["", *(f"day {number + 1}" for number in range(1, len(row["minutes"]) + 1)), "all"],
                [
                    [
                        name,
                        *(f"{100 * a / b:.0f}" for a, b in zip(row[key], row["minutes"], strict=True)),
                        f"{100 * sum(row[key]) / total:.1f}",
                    ]
                    for key, name in names.items()
                ],
            )
            page.text(
                f"Per cent of {total:,} minutes. Seconds: {row['seconds']:.1f} for partial_fit, "
                f"{row['fit_seconds']:.1f} for the fits."
            )
    page.write()


def main() -> None:
    """Run the parts that are asked for and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=["letters", "occupancy"])
    parser.add_argument("--folds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--page", action="store_true", help="only write the page from the results")
    arguments = parser.parse_args()
    for part in [] if arguments.page else arguments.parts:
        rows = letter_rows(arguments.folds) if part == "letters" else occupancy_rows()
        merge_results(FILE, rows, ("part", "name"), EXPERIMENTS)
    write_page()


if __name__ == "__main__":
    main()
