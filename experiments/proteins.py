"""Protein secondary structure from PSI-BLAST profiles: helix, strand or coil for every residue, blind test set.

    python -m experiments.proteins [--families linear "degree 2" ...] [--page]

Trained on 1,252 proteins of JPred4's training set, tested on 122 blind ones. A residue is described by the profile
columns of the 15 residues around it. Which profile (log-odds scores as they are, through the logistic function, or
these beside the observed shares), the kernel's scale and the prior variance are chosen by 3-fold cross-validation
of the likelihood on 300 training proteins, by halving, at a lower rank; then one fit to all training proteins.
Transitions do not see the profile and have a prior variance of 10.
"""

from __future__ import annotations

import argparse

import numpy as np
from sklearn.base import clone

from benchmarks.result_files import EXPERIMENTS, merge_results, read_results
from benchmarks.shared_data import protein_profiles
from experiments.kernel_families import (
    Family,
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
from kernelfields.kernels import RBF, Linear, Polynomial
from kernelfields.reports import plot_reliability

RESULTS, STACK_RESULTS = "proteins.json", "protein_stack.json"
WINDOW = 15
SELECTION_PROTEINS, SELECTION_RANK, RANK = 300, 400, 1500
NAMES = {"C": "coil", "E": "strand", "H": "helix"}
#: Q3 on the blind set, from the manuscript of the repository that the profiles come from (Tornisiello, 2020).
PUBLISHED, PUBLISHED_PROTEINS = {"RBF support vector machine": 0.687, "GOR": 0.643}, 117
FAMILIES = [
    Family("linear", 1, [Linear()], [0.3, 1.0, 3.0, 10.0]),
    Family("degree 2", 2, [Polynomial(2, gamma=g) for g in (0.3, 1.0)], [0.3, 1.0, 3.0, 10.0]),
    Family("RBF", "RBF", [RBF(g) for g in (0.1, 0.3, 1.0)], [1.0, 3.0, 10.0, 30.0]),
]


def profiles(part: str) -> tuple[dict[str, list[np.ndarray]], list[np.ndarray]]:
    """Return the profile in all views, before scaling, and the labels."""
    scores, observed, labels = protein_profiles(part)
    squashed = [1 / (1 + np.exp(-each)) for each in scores]
    return {
        "scores": scores,
        "logistic": squashed,
        "logistic and observed": [np.hstack(pair) for pair in zip(squashed, observed, strict=True)],
    }, labels


def scaling(train: list[np.ndarray]) -> tuple[np.ndarray, float]:
    """Return the mean of the columns and the factor that gives windows a mean squared norm of one."""
    rows = np.concatenate(train)
    centre = rows.mean(axis=0)
    return centre, float(1 / np.sqrt(WINDOW * ((rows - centre) ** 2).sum(axis=1).mean()))


def scaled(view: list[np.ndarray], centre: np.ndarray, factor: float) -> list[np.ndarray]:
    """Return the sequences with the scaling of the training proteins."""
    return [((each - centre) * factor).astype(np.float32) for each in view]


def run(family: Family) -> dict:
    """Choose on some training proteins, fit to all, test on the blind ones."""
    views, y = profiles("train")
    scales = {name: scaling(view) for name, view in views.items()}
    views = {name: scaled(view, *scales[name]) for name, view in views.items()}
    some = np.random.default_rng(0).permutation(len(y))[:SELECTION_PROTEINS]
    estimator = ChainCRF(
        decode="viterbi",
        window=WINDOW,
        edges=EdgeCliques(prior_variance=10.0),
        rank=SELECTION_RANK,
        tol=1e-2,
        max_iter=300,
        random_state=0,
    )
    choice = choose(
        family,
        {name: [view[i] for i in some] for name, view in views.items()},
        [y[i] for i in some],
        estimator,
        halving=True,
        min_sequences=SELECTION_PROTEINS // 15,
    )
    model = clone(choice.estimator).set_params(rank=RANK, tol=1e-3, max_iter=1000, dtype="float32")
    blind, y_blind = profiles("blind")
    return {
        "family": family.name,
        "n_train": len(y),
        "n_train_residues": sum(map(len, y)),
        **choice.row(),
        **fit_row(model, views[choice.view], y),
        **measure(model, scaled(blind[choice.view], *scales[choice.view]), y_blind),
    }


def page() -> None:
    """Write docs/results/proteins.md from the JSON."""
    found = {row["family"]: row for row in read_results(RESULTS, EXPERIMENTS)}
    rows = {family.name: found[family.name] for family in FAMILIES if family.name in found}
    if "linear" not in rows:
        print("no page yet: it begins with the linear field")
        return
    right = {name: unpack_right(row["right"]) for name, row in rows.items()}
    against = {name: paired(right["linear"], each)["accuracy"] for name, each in right.items() if name != "linear"}
    best = max(rows, key=lambda name: rows[name]["accuracy"]["value"])
    first = rows["linear"]
    sheet = ResultPage(
        "proteins",
        "Protein secondary structure",
        command="kernelfields reproduce proteins",
        seconds=total_seconds(list(rows.values())),
    )
    sheet.text(
        f"Helix, strand or coil for each residue of {first['n_sequences']} blind proteins "
        f"({first['n_positions']:,} residues), learnt from {first['n_train']:,} others "
        f"({first['n_train_residues']:,} residues). A residue is seen through the PSI-BLAST profile of the "
        f"{WINDOW} residues around it. All choices are made by cross-validation on {SELECTION_PROTEINS} training "
        "proteins. Q3 is the share of right residues."
    )
    sheet.table(
        ["kernel", "Q3", "against linear, points", "profile", "rank", "selection, seconds", "fit, seconds"],
        [
            [
                name,
                _cell(row["accuracy"]),
                points(against[name]) if name in against else "",
                row["view"],
                row["rank"],
                f"{row['selection_seconds']:.0f}",
                f"{row['fit_seconds']:.0f}",
            ]
            for name, row in rows.items()
        ]
        + [[f"{name}, published", percent(value), "", "observed", "", "", ""] for name, value in PUBLISHED.items()],
    )
    low, highest = rows[best]["accuracy"]["low"], max(PUBLISHED.values())
    sheet.text(
        "Intervals are 95 %, from resampled proteins, for differences the same ones for both fields. Against "
        + "linear: "
        + "; ".join(f"{name} is {verdict(each)}" for name, each in against.items())
        + f". The highest Q3 is that of {best}; its interval "
        + ("lies above" if low > highest else "does not lie above")
        + f" the published {percent(highest)} of the support vector machine. That one saw windows of 17 residues "
        + "of observed frequencies, without a chain, and was tested on "
        + f"{PUBLISHED_PROTEINS} of the blind proteins: the comparison is one of whole systems."
    )
    sheet.picture(
        "kernels",
        family_plot(FAMILIES, {"": {name: row["accuracy"] for name, row in rows.items()}}, "Q3 on the blind set"),
        "Q3 by kernel",
    )
    sheet.heading("Labels")
    sheet.table(
        [
            "kernel",
            *(f"{NAMES[each['label']]}, {part}" for each in first["labels"] for part in ("precision", "recall")),
        ],
        [
            [name, *(_cell(each[part]) for each in row["labels"] for part in ("precision", "recall"))]
            for name, row in rows.items()
        ],
    )
    sheet.heading("Probabilities")
    sheet.table(
        ["kernel", "expected calibration error", "Brier score"],
        [
            [name, *(f"{row['calibration'][part]['value']:.3f}" for part in ("expected_error", "brier"))]
            for name, row in rows.items()
        ],
    )
    sheet.picture("reliability", plot_reliability(rows[best]["calibration"]), f"Reliability on the blind set, {best}")
    sheet.heading("What was chosen")
    sheet.table(
        [
            "kernel",
            "profile",
            "chosen",
            "prior variance",
            "log-likelihood a residue",
            "candidates",
            "relative gap",
        ],
        [
            [
                name,
                row["view"],
                f"`{row['kernel']}`",
                f"{row['prior_variance']:g}",
                f"{row['cv_score']:.4f}",
                row["n_candidates"],
                f"{row['relative_gap']:.1e}",
            ]
            for name, row in rows.items()
        ],
    )
    sheet.text(
        grid_ends(FAMILIES, list(rows.values()))
        + f" The kernels were chosen at rank {SELECTION_RANK} and on a part of the proteins; the last fits have "
        + f"rank {RANK} at most, and no larger rank was tried."
    )
    _add_many_fields(sheet)
    sheet.write()


def _add_many_fields(sheet: ResultPage) -> None:
    """Add what experiments/protein_stack.py found, if it was run."""
    rows = read_results(STACK_RESULTS, EXPERIMENTS)
    if not rows:
        return
    fields = [row for row in rows if "passes" in row]
    singles = [max((row for row in fields if row["passes"] == number), key=_over_folds) for number in (1, 2)]
    chosen = next(row for row in rows if row.get("chosen"))
    sheet.heading("Many fields, two passes")
    sheet.text(
        f"`python -m experiments.protein_stack --marginals FOLDER` fits {len(fields)} fields, six times each, in "
        f"{chosen['seconds'] / 60:.0f} minutes on one H200. They see weighted windows and the protein's mean profile, "
        "and most have labels that tell the ends of helices and strands from what lies within, whose marginals are "
        "summed. A second pass sees the mean marginals of the first. Averages are grown field by field, by the "
        "accuracy over the five folds of the training proteins; inputs and labels were tried on one of these folds. "
        "A field's marginals on blind proteins are the mean of its six fits."
    )
    averages = [row for row in rows if "passes" not in row]
    sheet.table(
        ["field", "over the folds", "Q3 on the blind set"],
        [
            *([f"best single: {row['field']}", percent(row["folds"]), _cell(row["blind"])] for row in singles),
            *([row["field"], percent(row["folds"]), _cell(row["blind"])] for row in averages),
        ],
    )
    blind = [row["blind"]["value"] for row in fields]
    sheet.text(
        f"The highest over the folds is: {chosen['field']}, with a Q3 of {_cell(chosen['blind'])}. Single fields "
        f"reach from {percent(min(blind))} to {percent(max(blind))}."
    )


def _over_folds(row: dict) -> float:
    return row["folds"]


def _cell(figure: dict) -> str:
    return percent(figure["value"], (figure["low"], figure["high"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--families", nargs="+", default=[f.name for f in FAMILIES], choices=[f.name for f in FAMILIES])
    parser.add_argument("--page", action="store_true", help="only write the page from the results")
    arguments = parser.parse_args()
    for family in [] if arguments.page else [f for f in FAMILIES if f.name in arguments.families]:
        row = run(family)
        merge_results(RESULTS, [row], ("family",), EXPERIMENTS)
        print(
            f"{family.name}: Q3 {_cell(row['accuracy'])}, {row['view']}, {row['kernel']} "
            f"s={row['prior_variance']:g}, selection {row['selection_seconds']:.0f} s, "
            f"fit {row['fit_seconds']:.0f} s, rank {row['rank']}, gap {row['relative_gap']:.1e}",
            flush=True,
        )
    page()


if __name__ == "__main__":
    main()
