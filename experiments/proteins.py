"""Protein secondary structure from PSI-BLAST profiles: helix, strand or coil for every residue, blind test set.

    python -m experiments.proteins [--families linear "degree 2" ...]

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
)
from experiments.pictures import reliability
from experiments.result_pages import Drawing, duration, estimate, percent, points, table, write_page
from kernelfields import ChainCRF, EdgeCliques
from kernelfields.kernels import RBF, Linear, Polynomial

RESULTS = "proteins.json"
WINDOW = 15
SELECTION_PROTEINS, SELECTION_RANK, RANK = 300, 400, 1500
NAMES = {"C": "coil", "E": "strand", "H": "helix"}
#: Q3 on the blind set, from the manuscript of the repository that the profiles come from (Tornisiello, 2020).
PUBLISHED = {"RBF support vector machine": 0.687, "GOR": 0.643}
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
        min_items=SELECTION_PROTEINS // 15,
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


def rows_by_family() -> dict[str, dict]:
    found = {row["family"]: row for row in read_results(RESULTS, EXPERIMENTS)}
    return {family.name: found[family.name] for family in FAMILIES}


def took() -> str:
    return duration(total_seconds(read_results(RESULTS, EXPERIMENTS)))


def against_linear() -> dict[str, dict]:
    right = {name: unpack_right(row["right"]) for name, row in rows_by_family().items()}
    return {name: paired(right["linear"], each)["accuracy"] for name, each in right.items() if name != "linear"}


def accuracy() -> str:
    against = against_linear()
    lines = [
        [
            name,
            estimate(row["accuracy"]),
            points(against[name]) if name in against else "",
            row["view"],
            row["rank"],
            f"{row['selection_seconds']:.0f}",
            f"{row['fit_seconds']:.0f}",
        ]
        for name, row in rows_by_family().items()
    ]
    lines += [[f"{name}, published", percent(value), "", "observed", "", "", ""] for name, value in PUBLISHED.items()]
    header = ["kernel", "Q3", "against linear, points", "profile", "rank", "selection, seconds", "fit, seconds"]
    return table(header, lines)


def best_family() -> str:
    rows = rows_by_family()
    return max(rows, key=lambda name: rows[name]["accuracy"]["value"])


def kernels_picture() -> Drawing:
    curves = {"": {name: row["accuracy"] for name, row in rows_by_family().items()}}
    return Drawing("kernels", family_plot(FAMILIES, curves, "Q3 on the blind set"), "Q3 by kernel")


def labels() -> str:
    rows, parts = rows_by_family(), ("precision", "recall")
    header = [f"{NAMES[each['label']]}, {part}" for each in rows["linear"]["labels"] for part in parts]
    lines = [[name, *(estimate(each[part]) for each in row["labels"] for part in parts)] for name, row in rows.items()]
    return table(["kernel", *header], lines)


def calibration() -> str:
    lines = [
        [name, *(f"{row['calibration'][part]['value']:.3f}" for part in ("expected_error", "brier"))]
        for name, row in rows_by_family().items()
    ]
    return table(["kernel", "expected calibration error", "Brier score"], lines)


def reliability_picture() -> Drawing:
    best = best_family()
    drawn = reliability(rows_by_family()[best]["calibration"])
    return Drawing("reliability", drawn, f"Reliability on the blind set, {best}")


def choices() -> str:
    header = ["kernel", "profile", "chosen", "prior variance", "log-likelihood a residue", "candidates", "relative gap"]
    return table(
        header,
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
            for name, row in rows_by_family().items()
        ],
    )


def ends() -> str:
    return grid_ends(FAMILIES, list(rows_by_family().values()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--families", nargs="+", default=[f.name for f in FAMILIES], choices=[f.name for f in FAMILIES])
    for family in [f for f in FAMILIES if f.name in parser.parse_args().families]:
        row = run(family)
        merge_results(RESULTS, [row], ("family",), EXPERIMENTS)
        print(
            f"{family.name}: Q3 {estimate(row['accuracy'])}, {row['view']}, {row['kernel']} "
            f"s={row['prior_variance']:g}, selection {row['selection_seconds']:.0f} s, "
            f"fit {row['fit_seconds']:.0f} s, rank {row['rank']}, gap {row['relative_gap']:.1e}",
            flush=True,
        )
    write_page("proteins")


if __name__ == "__main__":
    main()
