"""NETtalk: letters of English words to phonemes and stress marks, a chain over the letters of a word.

    python -m experiments.nettalk [--targets phoneme stress] [--families linear "degree 2" ...] [--page]

Train on the 1,000 common words, as the original study did, and test on all other words; no spelling is on both
sides. A letter is described by itself and three neighbours on either side, one indicator for each place and letter
or end of the word; indicators at distance d are scaled by fading^d and rows to norm one. Fading, kernel scale and
prior variance are chosen by 3-fold cross-validation of the likelihood on the common words, by halving, at a lower
rank. Transitions have a prior variance of 3. A word with several pronunciations counts as often as it is listed.
"""

from __future__ import annotations

import argparse
from itertools import pairwise

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
    verdict,
)
from experiments.result_pages import ResultPage, percent, points
from kernelfields import ChainCRF, EdgeCliques
from kernelfields.kernels.dot_product import Linear, Polynomial
from kernelfields.kernels.stationary import RBF

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
        min_sequences=len(train) // 5,
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


def page() -> None:
    """Write docs/results/nettalk.md from the JSON."""
    rows = read_results(RESULTS, EXPERIMENTS)
    table = {(row["target"], row["family"]): row for row in rows}
    shown = [f.name for f in FAMILIES if all((target, f.name) in table for target in TARGETS)]
    if "linear" not in shown:
        print("no page yet: it begins with the linear field, phonemes and stress")
        return
    phoneme, stress = ({name: table[target, name] for name in shown} for target in TARGETS)
    letters = {name: unpack_right(row["right"]) for name, row in phoneme.items()}
    whole = {
        name: both_right(*(unpack_right(each[name]["right_viterbi"]) for each in (phoneme, stress))) for name in shown
    }
    first = phoneme["linear"]
    sheet = ResultPage("nettalk", "NETtalk", command="kernelfields reproduce nettalk", seconds=total_seconds(rows))
    sheet.text(
        "English words, letter by letter, to phonemes (a silent letter has one of its own) and to stress marks, "
        f"by two fields. Each letter is seen with {REACH} neighbours on either side. Learnt from the common words "
        f"({first['n_train']:,} entries, {first['n_train_letters']:,} letters), where everything is chosen by "
        f"cross-validation, and tested on all others ({first['n_sequences']:,} entries, {first['n_positions']:,} "
        f"letters). The common words show {first['n_classes']} of the phonemes; a letter with another one counts "
        "as wrong. Letters are decoded one by one, whole words by their most probable labelling."
    )
    sheet.table(
        [
            "kernel",
            "phonemes of letters",
            "against linear, points",
            "words, phonemes",
            "stress of letters",
            "words, phonemes and stress",
            "rank",
            "fit, seconds",
        ],
        [
            [
                name,
                _cell(phoneme[name]["accuracy"]),
                "" if name == "linear" else points(paired(letters["linear"], letters[name])["accuracy"]),
                _cell(phoneme[name]["sequence_accuracy"]),
                _cell(stress[name]["accuracy"]),
                _cell(accuracy_of(whole[name])["sequence_accuracy"]),
                phoneme[name]["rank"],
                f"{phoneme[name]['fit_seconds']:.0f}",
            ]
            for name in shown
        ],
    )
    steps = [
        f"{after} against {before}: {verdict(paired(letters[before], letters[after])['accuracy'])}"
        for before, after in pairwise(shown)
    ]
    sheet.text(
        "Intervals are 95 %, from resampled words; differences are paired. Step by step, phonemes of letters: "
        + "; ".join(steps)
        + ". There is no official split, and no published figure is set beside these."
    )
    curves = {"phoneme": phoneme, "stress": stress}
    figures = {target: {name: row["accuracy"] for name, row in each.items()} for target, each in curves.items()}
    sheet.picture("kernels", family_plot(FAMILIES, figures, "letters right"), "Accuracy by kernel")
    _choices(sheet, phoneme, stress)
    sheet.write()


def _choices(sheet: ResultPage, phoneme: dict, stress: dict) -> None:
    """Add what cross-validation chose, and how near to the ends of the grids."""
    selected = [*phoneme.values(), *stress.values()]
    sheet.heading("What was chosen")
    sheet.table(
        ["kernel", "target", "fading", "chosen", "prior variance", "log-likelihood a letter"],
        [
            [
                row["family"],
                row["target"],
                row["view"].removeprefix("fading "),
                f"`{row['kernel']}`",
                f"{row['prior_variance']:g}",
                f"{row['cv_score']:.3f}",
            ]
            for row in selected
        ],
    )
    least = f"fading {min(FADING):g}"
    sheet.text(
        grid_ends(FAMILIES, selected)
        + " The smaller fading is, the less distant letters count; "
        + f"{sum(row['view'] == least for row in selected)} choices have the least that was tried. Wider grids "
        + "may do better. Fits end at a relative gap of "
        + f"{max(row['relative_gap'] for row in selected):.1e} at most."
    )


def _cell(figure: dict) -> str:
    return percent(figure["value"], (figure["low"], figure["high"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", nargs="+", default=list(TARGETS), choices=list(TARGETS))
    parser.add_argument("--families", nargs="+", default=[f.name for f in FAMILIES], choices=[f.name for f in FAMILIES])
    parser.add_argument("--page", action="store_true", help="only write the page from the results")
    arguments = parser.parse_args()
    wanted = [
        (target, family)
        for target in arguments.targets
        for family in FAMILIES
        if family.name in arguments.families and not arguments.page
    ]
    for target, family in wanted:
        row = run(target, family)
        merge_results(RESULTS, [row], ("target", "family"), EXPERIMENTS)
        print(
            f"{target} {family.name}: letters {percent(row['accuracy']['value'])}, words "
            f"{percent(row['sequence_accuracy']['value'])}, {row['view']}, {row['kernel']} "
            f"s={row['prior_variance']:g}, selection {row['selection_seconds']:.0f} s, "
            f"fit {row['fit_seconds']:.1f} s, {row['passes']:.0f} passes",
            flush=True,
        )
    page()


if __name__ == "__main__":
    main()
