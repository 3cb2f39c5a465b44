"""The page docs/results/optimisers.md, from experiments/results/optimisers.json alone."""

from __future__ import annotations

from benchmarks.result_files import EXPERIMENTS, read_results
from experiments.curvature_price import remaining
from experiments.pictures import gap_curves
from experiments.result_pages import ResultPage

SOLVERS = ("lbfgs", "newton-cg", "newton", "block-jacobi", "subspace")
SMALLEST = 1e-9
MISSING = ("dropped", "within", "across", "gradient_product", "random_product")


def write_page() -> None:
    """Write the page and its pictures."""
    rows = read_results("optimisers.json", EXPERIMENTS)
    solves = [row for row in rows if row["part"] == "solve"]
    points = [row for row in rows if row["part"] == "point"]
    pieces = [row for row in rows if row["part"] == "pieces"]
    seconds = sum(row.get("seconds", 0.0) + row.get("survey_seconds", 0.0) for row in rows)
    page = ResultPage(
        "optimisers",
        "Optimisers",
        command="kernelfields reproduce optimisers",
        seconds=seconds,
        machine="one core (processor time of all runs together)",
    )
    page.text(
        "Every solver starts from zero and stops at a relative duality gap (value minus lower bound, over the "
        "value). All share one loop, one line search and one certificate, and differ in the direction only. "
        "Everything runs on one thread; seconds are processor seconds of the solver, without the choice of a "
        "basis. Settings are fixed, near what cross-validation has chosen on these data elsewhere; nothing is "
        "scored here. Passes count products with the features. The matrices of block-Jacobi are not passes, nor "
        "are the factorisations of Newton and block-Jacobi: for these two only the seconds tell the whole cost."
    )
    for tol in (1e-3, 1e-6):
        solve_table(page, [row for row in solves if row["tol"] == tol], tol)
    page.text(solve_words(solves))
    page.heading("How the objective falls")
    for name in dict.fromkeys(row["problem"] for row in solves):
        curves(page, name, [row for row in solves if row["problem"] == name])
    if points:
        point_tables(page, points)
    if pieces:
        piece_table(page, pieces)
    page.write()


def names(rows: list[dict]) -> list[str]:
    """Return the problems, those that all solvers can do first."""
    count = {name: sum(row["problem"] == name for row in rows) for name in {row["problem"] for row in rows}}
    return sorted(count, key=lambda name: (-count[name], name))


def solve_table(page: ResultPage, rows: list[dict], tol: float) -> None:
    page.heading(f"To a relative gap of {tol:g}")
    found = {(row["problem"], row["solver"]): row for row in rows}
    lines = []
    for name in names(rows):
        size = next(row["size"] for row in rows if row["problem"] == name)
        lines.append([name, f"{size:,}", *(cell(found.get((name, solver))) for solver in SOLVERS)])
    page.table(["problem", "coefficients", *SOLVERS], lines)
    page.text(
        "Each cell: iterations / passes / seconds. A dash: the matrices would be too large to be worth trying. "
        + given_up_words([row for row in rows if row["reason"] != "gap"])
    )


def cell(row: dict | None) -> str:
    if row is None:
        return "–"
    text = f"{row['iterations']:,} / {row['passes']:,.0f} / {row['seconds']:.2f}"
    return text if row["reason"] == "gap" else f"not in {text}"


def given_up_words(rows: list[dict]) -> str:
    if not rows:
        return "All of these runs reached the gap."
    listed = "; ".join(
        f"{row['solver']} on {row['problem']} at {(row['value'] - row['lower_bound']) / row['value']:.1e}"
        for row in rows
    )
    return (
        f"Runs that did not get there were given up, at these gaps: {listed}. Bounds of several points are "
        "combined once the gap is near the one that is asked for: before that, a run to a smaller gap shows a "
        "larger one at the same point."
    )


def solve_words(rows: list[dict]) -> str:
    """Say which solver was quickest where, from the rows."""
    parts = []
    for tol in (1e-3, 1e-6):
        for name in names([row for row in rows if row["tol"] == tol]):
            done = [row for row in rows if row["tol"] == tol and row["problem"] == name and row["reason"] == "gap"]
            by_passes, by_seconds = (min(done, key=lambda row, key=key: row[key]) for key in ("passes", "seconds"))
            uncounted = ", its matrices not counted" if by_passes["solver"] == "block-jacobi" else ""
            parts.append(
                f"* {name}, {tol:g}: fewest passes {by_passes['solver']} ({by_passes['passes']:,.0f}{uncounted}), "
                f"fewest seconds {by_seconds['solver']} ({by_seconds['seconds']:.2f})."
            )
    return "\n".join(parts)


def curves(page: ResultPage, name: str, rows: list[dict]) -> None:
    """Draw value minus the best lower bound of any run, relative to it, against passes and seconds."""
    minimum = max(row["lower_bound"] for row in rows)
    finest = min(row["tol"] for row in rows)
    panels: dict[str, dict] = {"passes over the data": {}, "seconds": {}}
    for row in sorted((row for row in rows if row["tol"] == finest), key=lambda row: SOLVERS.index(row["solver"])):
        for panel, place in zip(panels, (0, 1), strict=True):
            panels[panel][row["solver"]] = [
                (each[place], max((each[2] - minimum) / minimum, SMALLEST))
                for each in row["history"]
                if each[place] > 0
            ]
    slug = "".join(letter if letter.isalnum() else "-" for letter in name.lower()).replace("--", "-")
    page.picture(
        slug,
        gap_curves(panels, tol=1e-3, name="distance to the minimum, relative"),
        f"{name}: objective above the best lower bound of any run, runs to a gap of {finest:g}",
    )


def point_tables(page: ResultPage, rows: list[dict]) -> None:
    page.heading("What block-Jacobi drops")
    page.text(
        "Block-Jacobi (eq. 30 of the paper) keeps covariances within cliques and drops those between cliques, "
        "as these were thought expensive. An exact Hessian product costs one pass. Here the exact Hessian H and "
        "block-Jacobi's B are compared at the same points, those of a Newton-CG fit. *Dropped* is the norm of H "
        "- B, relative to the likelihood's part of H, in the metric of the prior; *within* is the part from "
        "different cliques of one set, the long-range covariances; *across* that from different sets, labels "
        "against transitions. *Gradient* and *random* are relative errors of products, with the gradient and "
        "with draws from the prior. *Eigenvalues* are those of B⁻¹H, all one if nothing were dropped."
    )
    header = ["problem", "gap", "dropped", "within", "across", "gradient", "random", "eigenvalues", "ratio"]
    page.table(
        header,
        [
            [
                row["problem"],
                gap_name(row),
                *(f"{row[key]:.2f}" for key in ("dropped", "within", "across", "gradient_product", "random_product")),
                f"{row['smallest']:.2g} to {row['largest']:.3g}",
                rounded(ratio(row)),
            ]
            for row in in_order(rows)
        ],
    )
    page.text(
        "One step from each of these points, with the line search of the library: the share of the distance "
        "from the objective to its minimum that is left after a Newton step and after a block-Jacobi step. "
        "*Share* is what the best step along block-Jacobi's direction wins in the quadratic model, relative to "
        "Newton's step; *best step* is its length."
    )
    page.table(
        ["problem", "gap", "left after Newton", "left after block-Jacobi", "share", "best step"],
        [
            [
                row["problem"],
                gap_name(row),
                f"{remaining(row, 'after_newton'):.3g}",
                f"{remaining(row, 'after_jacobi'):.3g}",
                f"{row['share']:.3f}",
                f"{row['best_step']:.3g}",
            ]
            for row in in_order(rows)
        ],
    )
    page.text(
        "These are points of another solver's path. On its own path block-Jacobi meets what its last steps have "
        "left, in the directions of the smallest eigenvalues, and goes slower than one step from here suggests."
    )
    page.text(
        "Two things are dropped, and they can be told apart. With exact blocks H_c, one for each clique set, "
        "only covariances across sets are missing; and B against these blocks misses the long-range ones only. "
        "Ratios of the largest to the smallest eigenvalue at the last of the points above, about what limits "
        "the steps:"
    )
    last = [in_order([row for row in rows if row["problem"] == name])[-1] for name in problem_names(rows)]
    page.table(
        ["problem", "longest chain", "B⁻¹H, all", "across sets alone", "long range alone"],
        [
            [
                row["problem"],
                f"{(row['largest_possible'] + 1) // 2:,}",
                *(rounded(ratio(row, prefix)) for prefix in ("", "by_set_", "long_range_")),
            ]
            for row in last
        ],
    )
    page.text("\n".join(map(price_words, last)))


def price_words(row: dict) -> str:
    """Say which of the two costs more, and what a step is worth."""
    across, within = ratio(row, "by_set_"), ratio(row, "long_range_")
    more = "covariances across sets" if across > within else "long-range covariances"
    return (
        f"* {row['problem']}: dropping {more} costs more. One block-Jacobi step leaves "
        f"{100 * remaining(row, 'after_jacobi'):.2g} % of the distance to the minimum there, a Newton step "
        f"{100 * remaining(row, 'after_newton'):.2g} %."
    )


def rounded(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def problem_names(rows: list[dict]) -> list[str]:
    return list(dict.fromkeys(row["problem"] for row in in_order(rows)))


def ratio(row: dict, prefix: str = "") -> float:
    """Return the largest eigenvalue over the smallest."""
    return row[f"{prefix}largest"] / row[f"{prefix}smallest"]


def in_order(rows: list[dict]) -> list[dict]:
    return sorted(rows, key=lambda row: (row["problem"], -row["tol"]))


def gap_name(row: dict) -> str:
    return "start" if row["tol"] > 1e8 else f"{row['relative_gap']:.1e}"


def piece_table(page: ResultPage, rows: list[dict]) -> None:
    page.heading("The price by the length of chains")
    lengths = sorted({row["length"] for row in rows})
    found = {(row["length"], row["solver"]): row for row in rows}
    exact = [found[length, "newton-cg"] for length in lengths]
    jacobi = [found[length, "block-jacobi"] for length in lengths]
    page.text(
        "Gesture phases, linear, cut into pieces. In pieces of one position there is nothing to drop. "
        "Curvatures are compared where the Newton-CG fit ended. No eigenvalue can be above 2 T - 1, the number "
        "of cliques in a chain of T positions."
    )
    page.table(
        [
            "longest piece",
            "newton-cg: iterations / passes / seconds",
            "block-jacobi: iterations / passes / seconds",
            "dropped",
            "eigenvalues",
            "long range alone",
            "2 T - 1",
        ],
        [
            [
                f"{length:,}",
                cell(one),
                cell(other),
                f"{one['dropped']:.2f}",
                f"{one['smallest']:.3g} to {one['largest']:.3g}",
                f"{one['long_range_smallest']:.3g} to {one['long_range_largest']:.3g}",
                f"{one['largest_possible']:,}",
            ]
            for length, one, other in zip(lengths, exact, jacobi, strict=True)
        ],
    )
    page.picture(
        "pieces",
        gap_curves(
            {
                "longest piece": {
                    "newton-cg": [(row["length"], row["iterations"]) for row in exact],
                    "block-jacobi": [(row["length"], row["iterations"]) for row in jacobi],
                    "ratio of eigenvalues": [(row["length"], ratio(row)) for row in exact],
                }
            },
            name="iterations, ratio",
        ),
        "Iterations to a relative gap of 0.001 and the ratio of the eigenvalues, against the length of the pieces",
    )
    first, last = jacobi[0], jacobi[-1]
    given_up = "" if last["reason"] == "gap" else " (given up)"
    page.text(
        f"From pieces of {lengths[0]} to whole recordings the iterations of block-Jacobi go from "
        f"{first['iterations']} to {last['iterations']}{given_up}, those of Newton-CG from "
        f"{exact[0]['iterations']} to {exact[-1]['iterations']}. On whole recordings the largest eigenvalue is "
        f"{exact[-1]['largest']:.3g}, where {exact[-1]['largest_possible']:,} would be possible."
    )
