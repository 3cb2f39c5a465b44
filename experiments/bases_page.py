"""The page docs/results/bases.md, from experiments/results/bases.json alone."""

from __future__ import annotations

import numpy as np

from benchmarks.result_files import EXPERIMENTS, read_results
from experiments.pictures import rank_plot
from experiments.result_pages import ResultPage, percent, points

NAMES = {
    "random-cholesky": "random",
    "greedy-cholesky": "greedy",
    "uniform": "uniform",
    "gradient": "gradient",
}


def write_page() -> None:
    """Write the page and its pictures."""
    rows = read_results("bases.json", EXPERIMENTS)
    page = ResultPage(
        "bases",
        "Bases",
        command="kernelfields reproduce bases",
        seconds=sum(row.get("total_seconds", row["seconds"]) for row in rows),
        machine="one core (processor time of all runs together)",
    )
    page.text(
        "Four ways of choosing the pivots of an RBF field, at equal rank. *Random* is randomly pivoted "
        "Cholesky, the default; *greedy* takes the largest residual next, as in the paper; *uniform* draws "
        "inputs; *gradient* grows in rounds of fitting, where the bound of Corollary 10 is largest. Fields are "
        "solved by L-BFGS to a relative gap of 1e-4 within their span, rounds of the gradient basis too. The "
        "field on all training inputs solves the problem in the whole RKHS, and its lower bound is what "
        "objectives are measured from: *above the minimum* is what the restriction to a basis costs. *Residual* "
        "is the share of the trace of the kernel matrix outside the span."
    )
    page.text(
        "Kernel scale and prior variance were chosen once, by 3-fold cross-validation of the log-likelihood "
        "inside the training data, with randomly pivoted columns at one rank, and then kept for all bases and "
        "ranks. That choice may favour the basis it was made with. Figures of bases that draw are means "
        "over seeds, with the lowest and the highest in brackets; the test sequences are the same for all."
    )
    for name in dict.fromkeys(row["set"] for row in rows):
        section(page, name, [row for row in rows if row["set"] == name], every_rank(rows))
    page.write()


def every_rank(rows: list[dict]) -> set[int]:
    """Return the ranks that were tried on any set."""
    return {row["rank"] for row in rows if row["part"] == "fit"}


def section(page: ResultPage, name: str, rows: list[dict], tried: set[int]) -> None:
    """Add what was found on one data set; ``tried`` are the ranks tried on any."""
    fits = [row for row in rows if row["part"] == "fit"]
    chosen = next(row for row in rows if row["part"] == "choice")
    whole = next((row for row in rows if row["part"] == "all"), None)
    if not fits or whole is None:
        return
    page.heading(name[0].upper() + name[1:])
    page.text(choice_words(chosen, whole))
    groups: dict[tuple[int, str], list[dict]] = {}
    for row in fits:
        groups.setdefault((row["rank"], row["basis"]), []).append(row)
    # A run that was cut short may have left a rank without all of its bases.
    complete = {rank for rank, _ in groups if all((rank, basis) in groups for basis in NAMES)}
    groups = {key: found for key, found in groups.items() if key[0] in complete}
    order = sorted(groups, key=lambda key: (key[0], list(NAMES).index(key[1])))
    page.table(
        [
            "rank",
            "basis",
            "objective",
            "above the minimum",
            "residual",
            "test accuracy",
            "against random",
            "basis s",
            "fit s",
        ],
        [line(rank, basis, groups[rank, basis], whole) for rank, basis in order],
    )
    page.text(
        "*Against random* is the difference of test accuracies in percentage points, seed 0 of both, with a 95 "
        "% interval from resampling test sequences in pairs. *Basis s* are seconds before the first iteration, "
        "*fit s* those of the whole fit; the gradient basis grows during the fit, certificates of the whole "
        "RKHS included. " + reached_words(groups)
    )
    ranks = sorted(complete)
    if missing := sorted(tried - complete):
        listed = ", ".join(f"{rank:,}" for rank in missing)
        page.text(f"Not all bases have been run on this set at these ranks, which are left out: {listed}.")
    accuracy, gap = (
        {
            label: [spread([measure(row, whole) for row in groups[rank, basis]]) for rank in ranks]
            for basis, label in NAMES.items()
        }
        for measure in (lambda row, _: row["accuracy"]["value"], above)
    )
    page.picture(
        name.split()[0].lower(),
        rank_plot(ranks, accuracy, gap, name="test accuracy"),
        f"{name}: test accuracy, and objective above the minimum over the whole RKHS (relative); whiskers are the "
        "lowest and the highest of the seeds",
    )
    page.text("\n".join(words_of_rank(rank, groups, whole) for rank in ranks))
    page.text(equal_seconds_words(ranks, groups, whole))


def above(row: dict, whole: dict) -> float:
    """Return the objective above the lower bound over the whole RKHS, relative to that."""
    return (row["value"] - whole["lower_bound"]) / whole["lower_bound"]


def spread(values: list[float]) -> dict:
    several = len(values) > 1
    return {
        "value": float(np.mean(values)),
        "low": min(values) if several else None,
        "high": max(values) if several else None,
    }


def ranged(values: list[float], form: str = ".1f") -> str:
    """Return the mean in per cent, with the lowest and highest if there are several."""
    text = f"{100 * np.mean(values):{form}} %"
    return text if len(values) == 1 else f"{text} [{100 * min(values):{form}}, {100 * max(values):{form}}]"


def line(rank: int, basis: str, rows: list[dict], whole: dict) -> list[str]:
    before = [row["basis_seconds"] for row in rows]
    return [
        f"{rank:,}",
        NAMES[basis],
        f"{np.mean([row['value'] for row in rows]):,.1f}",
        ranged([above(row, whole) for row in rows]),
        ranged([row["residual"] for row in rows], ".2f"),
        ranged([row["accuracy"]["value"] for row in rows], ".2f"),
        points(rows[0]["against_random"]) if "against_random" in rows[0] else "",
        "–" if None in before else f"{np.mean(before):.2f}",
        f"{np.mean([row['seconds'] for row in rows]):.2f}",
    ]


def choice_words(chosen: dict, whole: dict) -> str:
    edges = [
        what
        for what, value, grid in (
            ("gamma", chosen["gamma"], chosen["gammas"]),
            ("prior variance", chosen["prior_variance"], chosen["prior_variances"]),
        )
        if value in (min(grid), max(grid))
    ]
    at_edge = f" The {' and the '.join(edges)} chosen lies at an end of its grid." if edges else ""
    interval = whole["accuracy"]["low"], whole["accuracy"]["high"]
    return (
        f"{chosen['n_train'][0]:,} sequences ({chosen['n_train'][1]:,} positions) to train on, "
        f"{chosen['n_test'][0]:,} ({chosen['n_test'][1]:,}) to test on. Chosen at rank {chosen['rank']:,} in "
        f"{chosen['seconds']:.0f} seconds: gamma {chosen['gamma']:g} of "
        f"{', '.join(f'{each:g}' for each in chosen['gammas'])}, prior variance {chosen['prior_variance']:g} of "
        f"{', '.join(f'{each:g}' for each in chosen['prior_variances'])}.{at_edge} The field on all training "
        f"inputs has rank {whole['rank_reached']:,}, an objective of {whole['value']:,.1f} and a test accuracy "
        f"of {percent(whole['accuracy']['value'], interval)}, and takes {whole['seconds']:.0f} seconds."
    )


def reached_words(groups: dict) -> str:
    short = sorted(
        (rank, row["rank_reached"]) for (rank, _), rows in groups.items() for row in rows if row["rank_reached"] < rank
    )
    seeds = ", ".join(
        f"{len(rows)} at rank {rank:,}" for (rank, basis), rows in sorted(groups.items()) if basis == "gradient"
    )
    if not short:
        return f"Seeds: {seeds}. Every field used its whole rank."
    listed = ", ".join(f"{got} of {rank}" for rank, got in short)
    return f"Seeds: {seeds}. Ranks reached below those allowed: {listed}."


def words_of_rank(rank: int, groups: dict, whole: dict) -> str:
    """Say which basis came out best at a rank by each measure."""
    found = {basis: groups[rank, basis] for basis in NAMES}

    def best(measure, sign: int = 1) -> tuple[str, float]:
        means = {basis: float(np.mean([measure(row) for row in rows])) for basis, rows in found.items()}
        winner = min(means, key=lambda basis: sign * means[basis])
        return NAMES[winner], means[winner]

    objective, excess = best(lambda row: above(row, whole))
    accurate, accuracy = best(lambda row: row["accuracy"]["value"], -1)
    residual, left = best(lambda row: row["residual"])
    quick, seconds = best(lambda row: row["seconds"])
    return (
        f"* Rank {rank:,}: lowest objective {objective} ({100 * excess:.1f} % above the minimum), highest "
        f"accuracy {accurate} ({percent(accuracy)}), smallest residual {residual} ({percent(left)}), quickest "
        f"fit {quick} ({seconds:.2f} s)."
    )


def equal_seconds_words(ranks: list[int], groups: dict, whole: dict) -> str:
    """Say what random pivots of a higher rank reach in the seconds that a gradient basis takes."""

    def mean(rank: int, basis: str, measure) -> float:
        return float(np.mean([measure(row) for row in groups[rank, basis]]))

    lines = []
    for rank in ranks:
        seconds = mean(rank, "gradient", lambda row: row["seconds"])
        own = mean(rank, "gradient", lambda row: above(row, whole))
        taken = {each: mean(each, "random-cholesky", lambda row: row["seconds"]) for each in ranks}
        line = f"* Gradient, rank {rank:,}: {100 * own:.1f} % above the minimum in {seconds:.1f} s; random pivots "
        affordable = [each for each in ranks if taken[each] <= seconds]
        if affordable:
            best = max(affordable)
            other = mean(best, "random-cholesky", lambda row: above(row, whole))
            line += f"at rank {best:,} {100 * other:.1f} % in {taken[best]:.1f} s."
        else:
            line += "took longer at every rank."
        lines.append(line)
    return "The gradient basis, and the highest rank of random pivots that took no longer:\n\n" + "\n".join(lines)
