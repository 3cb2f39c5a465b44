"""OCR letters: error of kernel chain fields by degree and by rank, small and large protocol.

    python -m experiments.ocr_letters                                    everything
    python -m experiments.ocr_letters small [--folds 0 1 ...] [--kernels linear cubic rbf ...]
    python -m experiments.ocr_letters large [--kernels linear cubic rbf ...]
    python -m experiments.ocr_letters small-ranks large-ranks [--ranks 100 200 ...]

*small*: train on one fold, test on the other nine. *large*: train on folds 1 to 9, test on fold 0. Scale and
prior variance are chosen by 3-fold cross-validation inside the training data alone, at a lower rank and a coarser
tolerance; the large protocol takes what was chosen on one of its nine training folds. Then one fit at full rank.
Other ranks use the parameters of their family and training data. Labels are posterior-decoded.

Polynomials of degree 2 and more are normalised, k(x, x) = 1, so that one grid serves all degrees. Their scale is
gamma = c / degree. What the grids were laid by is said on the page.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable
from statistics import mean, stdev

import numpy as np

from benchmarks.result_files import EXPERIMENTS, merge_results, read_results
from benchmarks.shared_data import ocr_letters
from experiments.pictures import at_places, by_rank
from experiments.result_pages import Drawing, duration, points, table, write_page
from kernelfields import ChainCRF
from kernelfields.evaluation import compare, evaluate
from kernelfields.kernels import RBF, Kernel, Linear, Normalized, Polynomial
from kernelfields.selection import ChainCRFCV

DEGREES = {"linear": 1, "quadratic": 2, "cubic": 3, "quartic": 4, "quintic": 5, "sextic": 6}
FAMILIES = [*DEGREES, "rbf"]
#: Which family a family is compared with: each degree with the one before, RBF with the cubic kernel.
REFERENCES = {"quadratic": "linear", "cubic": "quadratic", "quartic": "cubic", "quintic": "quartic"} | {
    "sextic": "quintic",
    "rbf": "cubic",
}
SCALES = dict.fromkeys(DEGREES, (0.1, 0.25, 0.6)) | {"linear": (1.0,), "rbf": (0.04, 0.06, 0.09)}
VARIANCES = dict.fromkeys(DEGREES, (5.0, 20.0, 80.0)) | {
    "linear": (0.03, 0.1, 0.3, 1.0, 3.0),
    "rbf": (20.0, 60.0, 200.0),
}
FOLDS = [0, 1, 2]
RANK = 2000
RANKS = [100, 200, 500, 1000, RANK, 4000]
RANK_FAMILIES = {"small": ["cubic", "rbf"], "large": ["cubic"]}
SELECTION_RANK, SELECTION_TOL = 300, 1e-2
#: The training fold that chooses for the large protocol.
SELECTION_FOLD = 1
# Rungs of halving start here: fewer words cannot tell prior variances apart.
SMALLEST_RUNG = 100
HELD_FOLD = 0


def kernel_of(family: str, scale: float) -> Kernel:
    """Return the kernel of a family at a scale."""
    if family == "rbf":
        return RBF(scale)
    degree = DEGREES[family]
    return Linear() if degree == 1 else Normalized(Polynomial(degree, gamma=scale / degree))


def select(family: str, X: list, y: list) -> dict:
    """Return scale and prior variance by cross-validation on X and y alone, and where they lie in their grids."""
    begin, begin_work = time.perf_counter(), time.process_time()
    scales = {kernel_of(family, scale): scale for scale in SCALES[family]}
    search = ChainCRFCV(
        ChainCRF(decode="viterbi", rank=SELECTION_RANK, tol=SELECTION_TOL, max_iter=500, random_state=0),
        kernels=list(scales),
        prior_variances=VARIANCES[family],
        scoring="accuracy",
        min_items=SMALLEST_RUNG,
        refit=False,
        random_state=0,
    ).fit(X, y)
    scale, variance = scales[search.best_params_["kernel"]], search.best_params_["prior_variance"]
    return {
        "scale": scale,
        "prior_variance": variance,
        "scale_at_edge": edge(scale, SCALES[family]),
        "variance_at_edge": edge(variance, VARIANCES[family]),
        "selection_error": 100 * (1 - search.best_score_),
        "selection_seconds": time.perf_counter() - begin,
        "selection_work": time.process_time() - begin_work,
    }


def edge(chosen: float, grid: tuple[float, ...]) -> str | None:
    """Say at which end of a grid a choice lies; None inside, and for a grid of one."""
    if len(grid) == 1 or min(grid) < chosen < max(grid):
        return None
    return "low" if chosen == min(grid) else "high"


def measure(
    family: str, chosen: dict, rank: int, train: tuple[list, list], test: tuple[list, list], *, certify: bool
) -> dict:
    """Fit on ``train`` with the chosen parameters, certify there if wanted, score on ``test``."""
    model = ChainCRF(
        kernel_of(family, chosen["scale"]),
        decode="viterbi",
        prior_variance=chosen["prior_variance"],
        rank=rank,
        tol=1e-3,
        max_iter=500,
        random_state=0,
    )
    begin, begin_work = time.perf_counter(), time.process_time()
    model.fit(*train)
    fitted, fitted_work = time.perf_counter(), time.process_time()
    predicted = model.predict(test[0], decode="posterior")
    scored = time.perf_counter()
    wrong = np.concatenate(predicted) != np.concatenate(test[1])
    return {
        "kernel": repr(model.kernel),
        "rank": rank,
        "basis_rank": int(model.basis_["node"].rank),
        "n_train": sum(map(len, train[1])),
        "n_test": len(wrong),
        "error": 100 * float(np.mean(wrong)),
        "objective": model.solution_.value,
        "relative_gap": model.solution_.relative_gap,
        "rkhs_gap": model.certify(*train).relative_gap if certify else None,
        "passes": model.solution_.passes,
        "solver": model.solution_.solver,
        "fit_seconds": fitted - begin,
        "fit_work": fitted_work - begin_work,
        "predict_seconds": scored - fitted,
        "certify_seconds": time.perf_counter() - scored,
        "measure_work": time.process_time() - begin_work,
        "predicted": " ".join("".join(letters) for letters in predicted),
    }


class Words:
    """All words, and the parts of them that the protocols use."""

    def __init__(self) -> None:
        self._X, self._y, self._fold = ocr_letters()

    def part(self, folds: list[int]) -> tuple[list, list]:
        """Return the words of some folds."""
        chosen = np.flatnonzero(np.isin(self._fold, folds))
        return [self._X[i] for i in chosen], [self._y[i] for i in chosen]

    def split(self, protocol: str, fold: int) -> tuple[tuple[list, list], tuple[list, list]]:
        """Return the words to train on and those to test on."""
        one, rest = self.part([fold]), self.part([other for other in range(10) if other != fold])
        return (one, rest) if protocol == "small" else (rest, one)


def run_families(words: Words, protocol: str, families: list[str], folds: list[int]) -> None:
    """Select, fit and score each family; rows are written as they come."""
    file = f"ocr_{protocol}.json"
    for fold in folds:
        train, test = words.split(protocol, fold)
        for family in families:
            chosen = select(family, *train) if protocol == "small" else chosen_before(words, family)
            row = {"family": family, "fold": fold, **chosen}
            row |= measure(family, chosen, RANK, train, test, certify=protocol == "small")
            row["work"] = row["selection_work"] + row["measure_work"]
            keep(file, row, ("family", "fold"), protocol, test[1])


def chosen_before(words: Words, family: str) -> dict:
    """Return what the small protocol chose on one training fold of the large one, at no cost if it is known."""
    for row in read_results("ocr_small.json", EXPERIMENTS):
        if (row["family"], row["fold"]) == (family, SELECTION_FOLD):
            names = ("scale", "prior_variance", "scale_at_edge", "variance_at_edge", "selection_error")
            return {name: row[name] for name in names} | {"selection_seconds": 0.0, "selection_work": 0.0}
    return select(family, *words.part([SELECTION_FOLD]))


def run_ranks(words: Words, protocol: str, families: list[str], folds: list[int], ranks: list[int]) -> None:
    """Fit and score each family at other ranks, with the parameters that were chosen for it."""
    known = {(row["family"], row["fold"]): row for row in read_results(f"ocr_{protocol}.json", EXPERIMENTS)}
    for fold in folds:
        train, test = words.split(protocol, fold)
        for family in families:
            # The rank of the families is measured already.
            for rank in (each for each in ranks if each != RANK):
                row = {"protocol": protocol, "family": family, "fold": fold, "rank": rank}
                if (family, fold) not in known:
                    raise SystemExit(f"{family} has no row for fold {fold} yet: run '{protocol}' first")
                chosen = {name: known[family, fold][name] for name in ("scale", "prior_variance")}
                row |= chosen | measure(family, chosen, rank, train, test, certify=protocol == "small")
                row["work"] = row["measure_work"]
                keep("ocr_ranks.json", row, ("protocol", "family", "fold", "rank"), protocol, test[1])


def keep(file: str, row: dict, keys: tuple[str, ...], protocol: str, y: list) -> None:
    """Write a row; of the large protocol with an interval, of its families with the words, for comparisons."""
    predicted = row.pop("predicted")
    if protocol == "large":
        letters = [list(word) for word in predicted.split(" ")]
        row["accuracy"] = evaluate(y, letters, random_state=0).accuracy.to_dict()
        if file == "ocr_large.json":
            row["predicted"] = predicted
    gap = "" if row["rkhs_gap"] is None else f", gap {row['rkhs_gap']:.3g} in the RKHS"
    print(
        f"{protocol} {row['family']:9s} fold {row['fold']} rank {row['rank']}: error {row['error']:5.2f} %  "
        f"scale {row['scale']:g} s {row['prior_variance']:g}  {row['passes']:.0f} passes, fit "
        f"{row['fit_seconds']:.1f} s, work {row['work']:.0f} s{gap}",
        flush=True,
    )
    merge_results(file, [row], keys, EXPERIMENTS)


def compare_large(words: Words) -> None:
    """Add paired differences of accuracy to the rows of the large protocol."""
    rows = {row["family"]: row for row in read_results("ocr_large.json", EXPERIMENTS)}
    if not rows:
        return
    y = words.part([HELD_FOLD])[1]
    letters = {name: [list(word) for word in row["predicted"].split(" ")] for name, row in rows.items()}
    for name, reference in REFERENCES.items():
        if name in rows and reference in rows:
            found = compare(y, letters[reference], letters[name], random_state=0).accuracy.difference
            rows[name]["difference"] = {"reference": reference, **found.to_dict()}
    merge_results("ocr_large.json", list(rows.values()), ("family", "fold"), EXPERIMENTS)


def read_parts() -> dict[str, list[dict]]:
    """Return the rows of both protocols and those of other ranks."""
    return {part: read_results(f"ocr_{part}.json", EXPERIMENTS) for part in ("small", "large", "ranks")}


def took() -> str:
    seconds = sum(row["work"] for rows in read_parts().values() for row in rows)
    return duration(seconds, "two cores, in processor seconds: the cores were shared with other work")


def spread(values: Iterable[float], sign: str = "") -> str:
    """Return mean and standard deviation in words."""
    found = list(values)
    return f"{mean(found):{sign}.2f}" + (f" ({stdev(found):.2f})" if len(found) > 1 else "")


def folds_of(family: str | None) -> dict[int, float]:
    """Return the errors of a family in the small protocol, by fold."""
    return {row["fold"]: row["error"] for row in read_parts()["small"] if row["family"] == family}


def degrees() -> str:
    large, lines = {row["family"]: row for row in read_parts()["large"]}, []
    for family in FAMILIES:
        own, other, row = folds_of(family), folds_of(REFERENCES.get(family)), large.get(family)
        line = [
            DEGREES.get(family, "RBF"),
            f"{spread(own.values())} %",
            spread((own[fold] - other[fold] for fold in own), "+") if other else "",
        ]
        if row is None:
            lines.append([*line, "", "", ""])
            continue
        low, high = (100 * (1 - row["accuracy"][end]) for end in ("high", "low"))
        errors = {"value": "value", "low": "high", "high": "low"}  # those of errors are minus those of accuracies
        difference = {end: -row["difference"][errors[end]] for end in errors} if "difference" in row else None
        line += [
            f"{row['error']:.2f} % [{low:.2f}, {high:.2f}]",
            "" if difference is None else points(difference),
            f"{row['fit_work']:.0f} s",
        ]
        lines.append(line)
    header = ["small: error (std over folds)", "small: difference (std)", "large: error", "large: difference"]
    return table(["degree", *header, "large: one fit"], lines)


def degrees_picture() -> Drawing:
    large = {row["family"]: row["accuracy"] for row in read_parts()["large"]}
    small = []
    for family in FAMILIES:
        accuracies = [1 - error / 100 for error in folds_of(family).values()]
        value, deviation = mean(accuracies), stdev(accuracies)
        small.append({"value": value, "low": value - deviation, "high": value + deviation})
    curves = {"small": small, "large": [large.get(family) for family in FAMILIES]}
    places = [DEGREES.get(family, "RBF") for family in FAMILIES]
    return Drawing(
        "degrees",
        at_places(places, curves, "letter accuracy", "degree"),
        "Accuracy against degree; whiskers are one standard deviation over training folds (small) and 95 % "
        "intervals (large)",
    )


def rows_by_rank() -> dict[str, dict[int, list[dict]]]:
    """Return the rows of each curve by rank, on the folds that have all ranks; the table of degrees has one of them."""
    parts, found = read_parts(), {}
    for protocol, family in (("small", "rbf"), ("small", "cubic"), ("large", "cubic")):
        own = [row for row in parts[protocol] if row["family"] == family]
        own += [row for row in parts["ranks"] if (row["protocol"], row["family"]) == (protocol, family)]
        shared = set.intersection(*({row["fold"] for row in own if row["rank"] == rank} for rank in RANKS))
        chosen = [row for row in own if row["fold"] in shared]
        name = f"{protocol}, {'RBF' if family == 'rbf' else family}"
        found[name] = {rank: [row for row in chosen if row["rank"] == rank] for rank in RANKS}
    return found


def ranks() -> str:
    lines = []
    for name, found in rows_by_rank().items():
        for rank, rows in found.items():
            gaps = [row["rkhs_gap"] for row in rows if row["rkhs_gap"] is not None]
            lines.append(
                [
                    name,
                    f"{rank:,}",
                    f"{spread(row['error'] for row in rows)} %",
                    f"{mean(gaps):.2g}" if gaps else "",
                    f"{max(row['relative_gap'] for row in rows):.1e}",
                    f"{mean(row['passes'] for row in rows):.0f}",
                    f"{mean(row['fit_work'] for row in rows):.1f}",
                ]
            )
    header = ["field", "rank", "error (std over folds)", "gap in the RKHS", "gap in the span", "passes", "seconds"]
    return table(header, lines)


def ranks_picture() -> Drawing:
    accuracies, gaps = {}, {}
    for name, found in rows_by_rank().items():
        accuracies[name] = [1 - mean(row["error"] for row in rows) / 100 for rows in found.values()]
        if name.startswith("small"):
            gaps[name] = [mean(row["rkhs_gap"] for row in rows) for rows in found.values()]
    drawn = by_rank(RANKS, accuracies, gaps, "letter accuracy")
    return Drawing("ranks", drawn, "Accuracy and relative gap in the RKHS against rank")


def ends() -> str:
    rows, found = read_parts()["small"], []
    for key, what in (("scale_at_edge", "scale"), ("variance_at_edge", "prior variance")):
        for end in ("low", "high"):
            own = [row["family"] for row in rows if row[key] == end]
            where = ", ".join(family.replace("rbf", "RBF") for family in FAMILIES if family in own)
            found += [f"{what} at the {end} end in {len(own)} ({where})"] if own else []
    return (
        f"Of {len(rows)} choices, these lie at the end of a grid, where a wider grid might do better: "
        f"{'; '.join(found)}."
    )


def work() -> str:
    parts = read_parts()
    for protocol in ("small", "large"):
        parts[f"{protocol}-ranks"] = [row for row in parts["ranks"] if row["protocol"] == protocol]
    del parts["ranks"]
    lines = []
    for name, rows in parts.items():
        seconds, selection = (sum(row.get(key, 0.0) for row in rows) for key in ("work", "selection_work"))
        lines.append([f"`python -m experiments.ocr_letters {name}`", len(rows), f"{seconds:,.0f}", f"{selection:,.0f}"])
    return table(["command", "fields", "processor seconds", "of which selection"], lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    every = ["small", "large", "small-ranks", "large-ranks"]
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"some of {', '.join(every)}; all by default")
    parser.add_argument("--folds", type=int, nargs="+", help="training folds of the small protocol; 0 to 2")
    parser.add_argument("--kernels", nargs="+", choices=FAMILIES, help="all, and for ranks cubic and rbf")
    parser.add_argument("--ranks", type=int, nargs="+", default=RANKS)
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - set(every):
        parser.error(f"unknown part {', '.join(sorted(unknown))}: choose among {', '.join(every)}")
    words = Words()
    for part in arguments.parts or every:
        protocol, _, other_ranks = part.partition("-")
        folds = (arguments.folds or FOLDS) if protocol == "small" else [HELD_FOLD]
        if other_ranks:
            run_ranks(words, protocol, arguments.kernels or RANK_FAMILIES[protocol], folds, arguments.ranks)
        else:
            run_families(words, protocol, arguments.kernels or FAMILIES, folds)
    compare_large(words)
    write_page("ocr_letters")


if __name__ == "__main__":
    main()
