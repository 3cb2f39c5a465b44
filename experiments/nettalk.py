"""NETtalk: letters of English words to phonemes and stress marks, a chain over the letters of a word.

    python -m experiments.nettalk [--targets phoneme stress] [--families linear "degree 2" ...]

Train on the 1,000 common words, as the original study did, and test on all other words; no spelling is on both
sides. A letter is described by itself and three neighbours on either side, one indicator for each place and letter
or end of the word; indicators at distance d are scaled by fading^d and rows to norm one. Fading, kernel scale and
prior variance are chosen by 3-fold cross-validation of the likelihood on the common words, by halving, at a lower
rank. Transitions have a prior variance of 3. A word with several pronunciations counts as often as it is listed.
"""

from __future__ import annotations

import argparse
from itertools import product

import numpy as np
import scipy.sparse
from sklearn.base import clone

from benchmarks.result_files import EXPERIMENTS, merge_results, read_results
from benchmarks.shared_data import sequence_identifiers, token_columns
from experiments.kernel_families import (
    Family,
    accuracy_of,
    both_right,
    choose,
    family_plot,
    fit_row,
    grid_ends,
    measure,
    paired,
    total_seconds,
    unpack_right,
)
from experiments.result_pages import Drawing, duration, estimate, percent, points, table, write_page
from kernelfields import ChainCRF, EdgeCliques
from kernelfields.kernels import RBF, Linear, Polynomial

RESULTS = "nettalk.json"
FILE = ("nettalk", "nettalk.tsv.gz")
ALPHABET = "abcdefghijklmnopqrstuvwxyz"
END = len(ALPHABET)
REACH = 3
FADING = (1.0, 0.8, 0.6)
SELECTION_RANK = 300
RANK = 1500
TARGETS = {"phoneme": 1, "stress": 2}
FAMILIES = [
    Family("linear", 1, [Linear()], [10.0, 30.0, 100.0]),
    Family("degree 2", 2, [Polynomial(2, gamma=g) for g in (1.0, 3.0)], [3.0, 10.0, 30.0]),
    Family("degree 3", 3, [Polynomial(3, gamma=g) for g in (0.5, 1.0)], [3.0, 10.0, 30.0]),
    Family("RBF", "RBF", [RBF(g) for g in (0.5, 1.0)], [10.0, 30.0, 100.0]),
]


def letter_windows(word: str, fading: float = 1.0) -> scipy.sparse.csr_array:
    """Return (T, 7 * 27): an indicator for each place of the window and each letter or end, rows of norm one."""
    codes = [END] * REACH + [ALPHABET.index(letter) for letter in word] + [END] * REACH
    width = 2 * REACH + 1
    columns = np.lib.stride_tricks.sliding_window_view(codes, width) + (END + 1) * np.arange(width)
    weights = fading ** np.abs(np.arange(-REACH, REACH + 1.0))
    values = np.tile(weights / np.linalg.norm(weights), len(word))
    starts = np.arange(0, columns.size + 1, width)
    return scipy.sparse.csr_array((values, columns.ravel(), starts), shape=(len(word), width * (END + 1)))


def entries(target: str) -> tuple[list[str], list[list[str]], np.ndarray]:
    """Return the spelling and the labels of each entry, and whether its word is common."""
    words = token_columns(*FILE)
    common = np.array([name.endswith("common=1") for name in sequence_identifiers(*FILE)])
    spellings = ["".join(row[0] for row in word) for word in words]
    return spellings, [[row[TARGETS[target]] for row in word] for word in words], common


def run(target: str, family: Family) -> dict:
    """Choose and fit on the common words, test on the others."""
    spellings, labels, common = entries(target)
    train, test = np.flatnonzero(common), np.flatnonzero(~common)
    y = [labels[i] for i in train]
    choice = choose(
        family,
        {f"fading {fading:g}": [letter_windows(spellings[i], fading) for i in train] for fading in FADING},
        y,
        ChainCRF(
            decode="viterbi",
            rank=SELECTION_RANK,
            edges=EdgeCliques(prior_variance=3.0),
            tol=1e-2,
            max_iter=300,
            random_state=0,
        ),
        halving=True,
        min_items=len(train) // 5,
    )
    model = clone(choice.estimator).set_params(rank=RANK, dtype="float32")
    fading = float(choice.view.removeprefix("fading "))
    X, X_test = ([letter_windows(spellings[i], fading).astype(np.float32) for i in part] for part in (train, test))
    return {
        "target": target,
        "family": family.name,
        "n_train": len(y),
        "n_train_letters": sum(map(len, y)),
        **choice.row(),
        **fit_row(model, X, y),
        "n_classes": len(model.classes_),
        **measure(model, X_test, [labels[i] for i in test], labels=False),
    }


def rows_of(target: str) -> dict[str, dict]:
    found = {row["family"]: row for row in read_results(RESULTS, EXPERIMENTS) if row["target"] == target}
    return {family.name: found[family.name] for family in FAMILIES}


def took() -> str:
    return duration(total_seconds(read_results(RESULTS, EXPERIMENTS)))


def accuracy() -> str:
    phoneme, stress = map(rows_of, TARGETS)
    first = unpack_right(phoneme["linear"]["right"])
    lines = []
    for name, row in phoneme.items():
        whole = both_right(*(unpack_right(each[name]["right_viterbi"]) for each in (phoneme, stress)))
        lines.append(
            [
                name,
                estimate(row["accuracy"]),
                "" if name == "linear" else points(paired(first, unpack_right(row["right"]))["accuracy"]),
                estimate(row["sequence_accuracy"]),
                estimate(stress[name]["accuracy"]),
                estimate(accuracy_of(whole)["sequence_accuracy"]),
                row["rank"],
                f"{row['fit_seconds']:.0f}",
            ]
        )
    words = ["words, phonemes", "stress of letters", "words, phonemes and stress"]
    return table(["kernel", "phonemes of letters", "against linear, points", *words, "rank", "fit, seconds"], lines)


def picture() -> Drawing:
    curves = {target: {name: row["accuracy"] for name, row in rows_of(target).items()} for target in TARGETS}
    return Drawing("kernels", family_plot(FAMILIES, curves, "letters right"), "Accuracy by kernel")


def choices() -> str:
    header = ["kernel", "target", "fading", "chosen", "prior variance", "log-likelihood a letter"]
    return table(
        header,
        [
            [
                row["family"],
                row["target"],
                row["view"].removeprefix("fading "),
                f"`{row['kernel']}`",
                f"{row['prior_variance']:g}",
                f"{row['cv_score']:.3f}",
            ]
            for target in TARGETS
            for row in rows_of(target).values()
        ],
    )


def ends() -> str:
    rows = read_results(RESULTS, EXPERIMENTS)
    least = f"fading {min(FADING):g}"
    return (
        f"{grid_ends(FAMILIES, rows)} The smaller fading is, the less distant letters count; "
        f"{sum(row['view'] == least for row in rows)} choices have the least that was tried. Wider grids may do "
        f"better. Fits end at a relative gap of {max(row['relative_gap'] for row in rows):.1e} at most."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", nargs="+", default=list(TARGETS), choices=list(TARGETS))
    parser.add_argument("--families", nargs="+", default=[f.name for f in FAMILIES], choices=[f.name for f in FAMILIES])
    arguments = parser.parse_args()
    for target, family in product(arguments.targets, [f for f in FAMILIES if f.name in arguments.families]):
        row = run(target, family)
        merge_results(RESULTS, [row], ("target", "family"), EXPERIMENTS)
        print(
            f"{target} {family.name}: letters {percent(row['accuracy']['value'])}, words "
            f"{percent(row['sequence_accuracy']['value'])}, {row['view']}, {row['kernel']} "
            f"s={row['prior_variance']:g}, selection {row['selection_seconds']:.0f} s, "
            f"fit {row['fit_seconds']:.1f} s, {row['passes']:.0f} passes",
            flush=True,
        )
    write_page("nettalk")


if __name__ == "__main__":
    main()
