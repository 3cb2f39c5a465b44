"""NETtalk: letters of English words to phonemes and stress marks, a chain over the letters of a word.

    python -m experiments.nettalk [--protocols common more] [--targets phoneme stress] [--page]

*common*: train on the 1,000 common words, as the original study did, and test on all other words. *more*: train
on the common words and on 4,000 others, drawn with a seed, and test on the rest. No spelling is on both sides.

A letter is described by itself and three neighbours on either side, one indicator for each place and letter or end
of the word; indicators at distance d are scaled by fading^d and rows to norm one. Fading, kernel scale and prior
variance are chosen by 3-fold cross-validation of the likelihood on the common words alone, at a lower rank, for
both protocols. Transitions have a prior variance of 3. A word with several pronunciations counts as often as it is
listed.
"""

from __future__ import annotations

import argparse

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
    measure,
    paired,
    total_seconds,
    unpack_right,
    verdict,
)
from experiments.result_pages import ResultPage, percent, points
from kernelfields import ChainCRF
from kernelfields.kernels import RBF, Linear, Polynomial

RESULTS = "nettalk.json"
FILE = ("nettalk", "nettalk.tsv.gz")
ALPHABET = "abcdefghijklmnopqrstuvwxyz"
END = len(ALPHABET)
REACH = 3
MORE_SPELLINGS = 4000
FADING = (1.0, 0.8, 0.6)
SELECTION_RANK = 300
PROTOCOLS = {"common": "the common words", "more": "the common words and some others"}
RANK = 1500
TARGETS = {"phoneme": 1, "stress": 2}
FAMILIES = [
    Family("linear", 1, [Linear()], [10.0, 30.0, 100.0]),
    Family("degree 2", 2, [Polynomial(2, gamma=g) for g in (1.0, 3.0)], [3.0, 10.0, 30.0]),
    Family("degree 3", 3, [Polynomial(3, gamma=g) for g in (0.5, 1.0)], [3.0, 10.0, 30.0]),
    Family("RBF", "RBF", [RBF(g) for g in (0.5, 1.0)], [10.0, 30.0, 100.0]),
]
#: Bakiri and Dietterich, "Converting English text to speech" (1991), abstract: words whose phonemes and stresses
#: are all as in the dictionary, learnt from 19,002 words and tested on 1,000 others.
PUBLISHED_WORDS, PUBLISHED_TRAINING = 0.648, 19_002


def letter_windows(word: str, fading: float = 1.0) -> scipy.sparse.csr_array:
    """Return (T, 7 * 27): an indicator for each place of the window and each letter or end, rows of norm one."""
    codes = [END] * REACH + [ALPHABET.index(letter) for letter in word] + [END] * REACH
    width = 2 * REACH + 1
    columns = np.lib.stride_tricks.sliding_window_view(codes, width) + (END + 1) * np.arange(width)
    weights = fading ** np.abs(np.arange(-REACH, REACH + 1.0))
    values = np.tile(weights / np.linalg.norm(weights), len(word))
    starts = np.arange(0, columns.size + 1, width)
    return scipy.sparse.csr_array((values, columns.ravel(), starts), shape=(len(word), width * (END + 1)))


def draw_spellings(spellings: list[str], count: int, seed: int = 0) -> set[str]:
    """Return ``count`` of the distinct spellings, drawn with a seed."""
    distinct = sorted(set(spellings))
    return {distinct[i] for i in np.random.default_rng(seed).permutation(len(distinct))[:count]}


def entries() -> tuple[list[str], list[list[list[str]]], np.ndarray, np.ndarray]:
    """Return spellings, columns, whether a word is common, and whether the larger protocol learns from it."""
    words = token_columns(*FILE)
    common = np.array([name.endswith("common=1") for name in sequence_identifiers(*FILE)])
    spellings = ["".join(row[0] for row in word) for word in words]
    known = {spelling for spelling, is_common in zip(spellings, common, strict=True) if is_common}
    learnt = known | draw_spellings([each for each in spellings if each not in known], MORE_SPELLINGS)
    return spellings, words, common, np.array([each in learnt for each in spellings])


def select(target: str, family: Family) -> dict:
    """Choose fading, kernel and prior variance on the common words."""
    spellings, words, common, _ = entries()
    chosen = np.flatnonzero(common)
    views = {f"fading {f:g}": [letter_windows(spellings[i], f) for i in chosen] for f in FADING}
    y = [[row[TARGETS[target]] for row in words[i]] for i in chosen]
    estimator = ChainCRF(rank=SELECTION_RANK, edge_prior_variance=3.0, tol=1e-2, max_iter=300, random_state=0)
    choice = choose(family, views, y, estimator, halving=True, min_sequences=len(chosen) // 5)
    # The parts are what the other protocol needs to build the same field.
    return {**choice.row(), "parameters": choice.estimator.kernel.get_params()}


def run(protocol: str, target: str, family: Family) -> dict:
    """Choose, or take the choice from the results of the other protocol; fit and test."""
    known = [
        row
        for row in read_results(RESULTS, EXPERIMENTS)
        if (row["target"], row["family"]) == (target, family.name) and row["protocol"] != protocol
    ]
    names = ("view", "kernel", "prior_variance", "cv_score", "at_edge", "n_candidates", "parameters")
    found = (
        {**{name: known[0][name] for name in names}, "selection_seconds": 0.0} if known else select(target, family)
    )
    spellings, words, common, more = entries()
    fading = float(found["view"].removeprefix("fading "))
    is_train = common if protocol == "common" else more
    train, test = (
        (
            [letter_windows(spellings[i], fading).astype(np.float32) for i in np.flatnonzero(chosen)],
            [[row[TARGETS[target]] for row in words[i]] for i in np.flatnonzero(chosen)],
        )
        for chosen in (is_train, ~is_train)
    )
    model = ChainCRF(
        clone(family.kernels[0]).set_params(**found["parameters"]),
        prior_variance=found["prior_variance"],
        edge_prior_variance=3.0,
        rank=RANK,
        tol=1e-2,
        max_iter=300,
        dtype="float32",
        random_state=0,
    )
    return {
        "protocol": protocol,
        "target": target,
        "family": family.name,
        "n_train": len(train[0]),
        "n_train_letters": sum(map(len, train[1])),
        **found,
        **fit_row(model, *train),
        "n_classes": len(model.classes_),
        **measure(model, *test, labels=False),
    }


def page() -> None:
    """Write docs/results/nettalk.md from the JSON."""
    rows = read_results(RESULTS, EXPERIMENTS)
    table = {(row["protocol"], row["target"], row["family"]): row for row in rows}
    sheet = ResultPage("nettalk", "NETtalk", command="kernelfields reproduce nettalk", seconds=total_seconds(rows))
    sheet.text(
        "English words, letter by letter, to phonemes (a silent letter has one of its own) and to stress marks. "
        f"Each letter is seen with {REACH} neighbours on either side. Everything is chosen by cross-validation on "
        "the common words. Letters are decoded one by one, whole words by their most probable labelling. "
        "Intervals are 95 %, from resampled words; differences are paired."
    )
    curves: dict[str, dict] = {}
    for protocol, words in PROTOCOLS.items():
        shown = [f.name for f in FAMILIES if (protocol, "phoneme", f.name) in table]
        if "linear" in shown:
            _protocol_section(sheet, protocol, words, shown, table, curves)
    if not curves:
        print("no page yet: it begins with the linear field's phonemes")
        return
    sheet.heading("Kernels")
    sheet.picture("kernels", family_plot(FAMILIES, curves, "letters with the right phoneme"), "Accuracy by kernel")
    sheet.table(
        ["kernel", "target", "fading", "chosen", "prior variance", "log-likelihood a letter"],
        [
            [
                r["family"],
                r["target"],
                r["view"].removeprefix("fading "),
                f"`{r['kernel']}`",
                f"{r['prior_variance']:g}",
                f"{r['cv_score']:.3f}",
            ]
            for r in sorted(rows, key=lambda r: (r["target"], [f.name for f in FAMILIES].index(r["family"])))
            if r["selection_seconds"] > 0
        ],
    )
    selected = [row for row in rows if row["selection_seconds"] > 0]
    sheet.text(
        f"{sum(row['at_edge'] for row in selected)} of {len(selected)} choices have a prior variance at an end of "
        f"its grid. The smaller fading is, the less distant letters count; {min(FADING):g} is the least that was "
        f"tried, and {sum(row['view'] == f'fading {min(FADING):g}' for row in selected)} choices have it. Both "
        "protocols use what was chosen on the common words, so the larger one is not tuned to its own size."
    )
    sheet.write()


def _protocol_section(
    sheet: ResultPage, protocol: str, words: str, shown: list, table: dict, curves: dict
) -> None:
    """Add the figures of one protocol to the page, and its curve to the picture."""
    phoneme = {name: table[protocol, "phoneme", name] for name in shown}
    first = phoneme[shown[0]]
    letters = {name: unpack_right(row["right"]) for name, row in phoneme.items()}
    whole = {name: unpack_right(row["right_viterbi"]) for name, row in phoneme.items()}
    both = {
        name: both_right(whole[name], unpack_right(table[protocol, "stress", name]["right_viterbi"]))
        for name in shown
        if (protocol, "stress", name) in table
    }
    curves[f"from {words}"] = {name: row["accuracy"] for name, row in phoneme.items()}
    sheet.heading(f"Trained on {words}")
    sheet.text(
        f"{first['n_train']:,} entries with {first['n_train_letters']:,} letters to learn from, "
        f"{first['n_sequences']:,} entries with {first['n_positions']:,} letters to test on, "
        f"{first['n_classes']} phonemes seen in training; a letter whose phoneme was not seen counts as wrong."
    )
    rows = []
    for name in shown:
        against = paired(letters[name] if name == "linear" else letters["linear"], letters[name])["accuracy"]
        stress = table.get((protocol, "stress", name))
        rows.append(
            [
                name,
                _cell(phoneme[name]["accuracy"]),
                "" if name == "linear" else points(against),
                _cell(phoneme[name]["sequence_accuracy"]),
                _cell(stress["accuracy"]) if stress else "",
                _cell(accuracy_of(both[name])["sequence_accuracy"]) if name in both else "",
                phoneme[name]["rank"],
                f"{phoneme[name]['fit_seconds']:.0f}",
            ]
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
        rows,
    )
    others = [name for name in shown if name != "linear"]
    steps = [
        f"{second} against {first}: {verdict(paired(letters[first], letters[second])['accuracy'])}"
        for first, second in zip(["linear", *others[:-1]], others, strict=True)
    ]
    sheet.text("Step by step, phonemes of letters: " + "; ".join(steps) + ".")
    words_right = {name: accuracy_of(each)["sequence_accuracy"]["value"] for name, each in both.items()}
    if words_right and protocol == "more":
        sheet.text(
            f"For comparison: Bakiri and Dietterich (1991) report {percent(PUBLISHED_WORDS)} of words with all "
            f"phonemes and stresses right, learnt from {PUBLISHED_TRAINING:,} words with error-correcting output "
            f"codes and tested on other words than here; from {first['n_train']:,} entries it is "
            f"{percent(max(words_right.values()))} here ({max(words_right, key=lambda name: words_right[name])})."
        )


def _cell(figure: dict) -> str:
    return percent(figure["value"], (figure["low"], figure["high"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--protocols", nargs="+", default=list(PROTOCOLS), choices=list(PROTOCOLS))
    parser.add_argument("--targets", nargs="+", default=list(TARGETS), choices=list(TARGETS))
    parser.add_argument(
        "--families", nargs="+", default=[f.name for f in FAMILIES], choices=[f.name for f in FAMILIES]
    )
    parser.add_argument("--page", action="store_true", help="only write the page from the results")
    arguments = parser.parse_args()
    wanted = [
        (protocol, target, family)
        for protocol in arguments.protocols
        for target in arguments.targets
        for family in FAMILIES
        if family.name in arguments.families and not arguments.page
    ]
    for protocol, target, family in wanted:
        row = run(protocol, target, family)
        merge_results(RESULTS, [row], ("protocol", "target", "family"), EXPERIMENTS)
        print(
            f"{protocol} {target} {family.name}: letters {percent(row['accuracy']['value'])}, words "
            f"{percent(row['sequence_accuracy']['value'])}, {row['view']}, {row['kernel']} "
            f"s={row['prior_variance']:g}, selection {row['selection_seconds']:.0f} s, "
            f"fit {row['fit_seconds']:.1f} s, {row['passes']:.0f} passes",
            flush=True,
        )
    page()


if __name__ == "__main__":
    main()
