"""Optimisers: passes and seconds of the five solvers on real data, and what block-Jacobi drops.

    python -m experiments.optimisers [--parts solve points pieces] [--only NAME ...]

*solve*: every solver to relative gaps of 1e-3 and 1e-6, from zero. Newton with its Hessian spelled out and
block-Jacobi factor matrices, so they run where those are small; a run is given up after LIMIT seconds.
*points*: the exact Hessian and the curvature of block-Jacobi (eq. 30) at the same points of one fit.
*pieces*: gesture phases cut into pieces of 1, 3, 10, ... positions: the longer the chains, the more is dropped.

Everything runs on one thread, and seconds are processor seconds, so that what else the machine does counts little.
Settings are fixed: they are near what cross-validation has chosen on these data, and nothing is scored here.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks.result_files import EXPERIMENTS, merge_results, read_results
from benchmarks.shared_data import data_file, gpstruct_task, ocr_letters
from experiments.curvature_price import Surveyor, compare_curvatures, remaining
from experiments.pictures import gap_curves
from experiments.result_pages import Drawing, duration, table, write_page
from kernelfields import ChainCRF, EdgeCliques
from kernelfields.kernels import RBF, Polynomial
from kernelfields.objective.posterior import Direction, Point
from kernelfields.solvers import SOLVERS, DirectionRule, Iteration

KEYS = ("part", "problem", "solver", "tol")
LIMIT = 30.0
FIVE = ("lbfgs", "newton-cg", "newton", "block-jacobi", "subspace")
MATRIX_FREE = ("lbfgs", "newton-cg", "subspace")
PIECES = (1, 3, 10, 30, 100, 300, None)
# Relative gaps at which curvatures are compared, the first point aside.
GAPS = (10.0, 1.0, 0.1, 1e-2, 1e-4)
_MOST_POINTS = 60


def gesture_phases() -> tuple[list, list]:
    """Return the seven recordings of gesture phases, standardised: dense, correlated, few and long."""
    with np.load(data_file("gesture-phase", "gesture_phase.npz"), allow_pickle=False) as archive:
        inputs = np.hstack([archive["position"], archive["velocity"]]).astype(np.float64)
        labels, cuts = archive["label"].astype(int), archive["offsets"][1:-1]
    inputs = (inputs - inputs.mean(axis=0)) / inputs.std(axis=0)
    return np.split(inputs, cuts), np.split(labels, cuts)


def problems() -> dict[str, tuple[ChainCRF, tuple[list, list], tuple[str, ...], tuple[float, ...]]]:
    """Return named problems: field, data, solvers that can, relative gaps to reach."""
    X, y, split = gpstruct_task("basenp")
    sentences = [X[i] for i in split[0][:150]], [y[i] for i in split[0][:150]]
    pixels, letters, fold = ocr_letters()
    words = np.flatnonzero(fold == 0)
    one_fold = [pixels[i] for i in words], [letters[i] for i in words]
    few = one_fold[0][:100], one_fold[1][:100]
    cubic = Polynomial(3, gamma=0.06)
    both = (1e-3, 1e-6)
    return {
        "base NP, RBF, rank 100": (ChainCRF(RBF(0.05), rank=100, prior_variance=30.0), sentences, FIVE, both),
        "gesture phases, linear": (ChainCRF("linear", prior_variance=1.0), gesture_phases(), FIVE, both),
        "100 OCR words, cubic, rank 40": (ChainCRF(cubic, rank=40, prior_variance=3.0), few, FIVE, both),
        "base NP, linear": (
            ChainCRF("linear", prior_variance=1.0, edges=EdgeCliques(prior_variance=10.0)),
            sentences,
            MATRIX_FREE,
            both,
        ),
        "OCR fold, cubic, rank 2000": (
            ChainCRF(cubic, rank=2000, prior_variance=3.0),
            one_fold,
            MATRIX_FREE,
            (1e-3,),
        ),
    }


class Timed(DirectionRule):
    """A rule that is timed: notes the processor seconds at every iteration and gives up after a limit."""

    def __init__(self, rule: DirectionRule, limit: float):
        self.rule = rule
        self.limit = limit
        self.name = rule.name
        self.factors_matrices, self.slope_reduction = rule.factors_matrices, rule.slope_reduction
        self.seconds: list[float] = []

    def prepare(self, posterior: Any) -> None:
        self._begin = time.process_time()
        self.rule.prepare(posterior)

    def first_point(self, posterior: Any) -> np.ndarray:
        return self.rule.first_point(posterior)

    def direction(self, point: Point, relative_gap: float) -> Direction:
        return self.rule.direction(point, relative_gap)

    def advance(self, point: Point, direction: Direction) -> tuple[Point | None, float]:
        return self.rule.advance(point, direction)

    def watch(self, _: Iteration) -> bool:
        """Be called back after every iteration."""
        self.seconds.append(time.process_time() - self._begin)
        return self.seconds[-1] > self.limit


def solve(field: ChainCRF, data: tuple[list, list], rule: Any, tol: float, limit: float = LIMIT) -> dict:
    """Fit from zero on one thread; return what it took, with a history of about as many points as a plot shows."""
    timed = Timed(rule, limit)
    field.set_params(solver=timed, tol=tol, max_iter=20_000, random_state=0, n_jobs=1, callbacks=[timed.watch])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        field.fit(*data)
    solution = field.solution_
    last = len(solution.history) - 1
    shown = np.unique(np.r_[0, np.geomspace(1, max(1, last), _MOST_POINTS).astype(int)])
    return {
        "tol": tol,
        "size": int(solution.theta.size),
        "iterations": solution.iterations,
        "passes": solution.passes,
        "seconds": timed.seconds[-1],
        "value": solution.value,
        "lower_bound": solution.lower_bound,
        "reason": solution.reason,
        "history": [
            [solution.history[i].passes, timed.seconds[i], solution.history[i].value] for i in shown if i <= last
        ],
    }


def save(rows: list[dict]) -> None:
    merge_results("optimisers.json", rows, KEYS, EXPERIMENTS)


def run_solvers(name: str, field: ChainCRF, data: tuple[list, list], solvers: Any, tolerances: Any) -> None:
    for tol in tolerances:
        for solver in solvers:
            row = solve(field, data, SOLVERS[solver](), tol)
            save([{"part": "solve", "problem": name, "solver": solver, **row}])
            print(
                f"{name:30s} {tol:.0e} {solver:13s} {row['iterations']:6d} iterations {row['passes']:8.1f} passes "
                f"{row['seconds']:7.2f} s  {row['reason']}",
                flush=True,
            )


def survey_points(name: str, field: ChainCRF, data: tuple[list, list]) -> None:
    begin = time.process_time()
    surveyor = Surveyor(GAPS, max(map(len, data[1])))
    # Far enough that its value can stand for the minimum at the last of the points.
    outcome = solve(field, data, surveyor, 1e-9, limit=np.inf)
    rows = [
        {
            "part": "point",
            "problem": name,
            "solver": "newton-cg",
            "tol": gap,
            "minimum": outcome["lower_bound"],
            **row,
        }
        for gap, row in surveyor.rows
    ]
    rows[0]["seconds"] = time.process_time() - begin
    save(rows)
    for row in rows:
        print(
            f"{name:30s} gap {row['relative_gap']:8.1e}: dropped {row['dropped']:.2f} (within "
            f"{row['within']:.2f}), eigenvalues {row['smallest']:.3f} to {row['largest']:.1f}, share of Newton "
            f"{row['share']:.3f}",
            flush=True,
        )


def run_pieces(field: ChainCRF, data: tuple[list, list]) -> None:
    for length in PIECES:
        X, y = (cut(each, length) for each in data)
        name = f"gesture phases in pieces of {length}" if length else "gesture phases, whole"
        longest = max(map(len, y))
        surveyor = Surveyor()
        rows = {
            "newton-cg": solve(field, (X, y), surveyor, 1e-3),
            "block-jacobi": solve(field, (X, y), SOLVERS["block-jacobi"](), 1e-3),
        }
        begin = time.process_time()
        curvature = compare_curvatures(surveyor.last, longest)
        curvature["survey_seconds"] = time.process_time() - begin
        for solver, row in rows.items():
            row.pop("history")
            extra = curvature if solver == "newton-cg" else {}
            save([{"part": "pieces", "problem": name, "solver": solver, "length": longest, **row, **extra}])
        print(
            f"{name:34s} iterations {rows['newton-cg']['iterations']} and {rows['block-jacobi']['iterations']}, "
            f"seconds {rows['newton-cg']['seconds']:.1f} and {rows['block-jacobi']['seconds']:.1f}, dropped "
            f"{curvature['dropped']:.2f}, eigenvalues {curvature['smallest']:.3f} to {curvature['largest']:.1f}",
            flush=True,
        )


def cut(sequences: list, length: int | None) -> list:
    """Return sequences cut into pieces of ``length`` positions, the last of each shorter; None for no cut."""
    if length is None:
        return sequences
    return [each[begin : begin + length] for each in sequences for begin in range(0, len(each), length)]


def rows_of(part: str) -> list[dict]:
    return [row for row in read_results("optimisers.json", EXPERIMENTS) if row["part"] == part]


def took() -> str:
    rows = [row for part in ("solve", "point", "pieces") for row in rows_of(part)]
    seconds = sum(row.get("seconds", 0.0) + row.get("survey_seconds", 0.0) for row in rows)
    return duration(seconds, "one core (processor time of all runs together)")


def cell(row: dict | None) -> str:
    """Return iterations, passes and seconds; a dash for a solver that was not tried."""
    if row is None:
        return "–"
    text = f"{row['iterations']:,} / {row['passes']:,.0f} / {row['seconds']:.2f}"
    return text if row["reason"] == "gap" else f"not in {text}"


def solves(tol: str) -> str:
    rows = [row for row in rows_of("solve") if row["tol"] == float(tol)]
    found = {(row["problem"], row["solver"]): row for row in rows}
    names = [row["problem"] for row in rows if row["solver"] == "lbfgs"]
    # Problems that all solvers can do come first.
    names.sort(key=lambda name: (-sum((name, solver) in found for solver in FIVE), name))
    lines = [
        [name, f"{found[name, 'lbfgs']['size']:,}", *(cell(found.get((name, solver))) for solver in FIVE)]
        for name in names
    ]
    return table(["problem", "coefficients", *FIVE], lines)


def given_up(tol: str) -> str:
    rows = [row for row in rows_of("solve") if row["tol"] == float(tol) and row["reason"] != "gap"]
    found = [
        f"{row['solver']} on {row['problem']} at {(row['value'] - row['lower_bound']) / row['value']:.1e}"
        for row in rows
    ]
    return f"Some runs did not reach the gap and were stopped: {'; '.join(found)}."


def falling(slug: str) -> Drawing:
    """Draw value minus the best lower bound of any run, relative to it, against passes and seconds."""
    rows = [row for row in rows_of("solve") if slug_of(row["problem"]) == slug]
    minimum, finest = max(row["lower_bound"] for row in rows), min(row["tol"] for row in rows)
    histories = {row["solver"]: row["history"] for row in rows if row["tol"] == finest}
    charts: dict[str, dict] = {"passes over the data": {}, "seconds": {}}
    for place, curves in enumerate(charts.values()):
        for solver in (each for each in FIVE if each in histories):
            pairs = ((each[place], (each[2] - minimum) / minimum) for each in histories[solver])
            curves[solver] = [(where, max(gap, 1e-9)) for where, gap in pairs if where > 0]
    drawn = gap_curves(charts, "distance to the minimum, relative", tol=1e-3)
    what = f"objective above the best lower bound of any run, runs to a gap of {finest:g}"
    return Drawing(slug, drawn, f"{rows[0]['problem']}: {what}")


def slug_of(name: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in name.lower()).replace("--", "-")


def points() -> list[dict]:
    return sorted(rows_of("point"), key=lambda row: (row["problem"], -row["tol"]))


def gap_name(row: dict) -> str:
    return "start" if row["tol"] > 1e8 else f"{row['relative_gap']:.1e}"


def rounded(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def ratio(row: dict, prefix: str = "") -> float:
    """Return the largest eigenvalue over the smallest."""
    return row[f"{prefix}largest"] / row[f"{prefix}smallest"]


def dropped() -> str:
    parts = ("dropped", "within", "across", "gradient_product", "random_product")
    lines = [
        [
            row["problem"],
            gap_name(row),
            *(f"{row[part]:.2f}" for part in parts),
            f"{row['smallest']:.2g} to {row['largest']:.3g}",
            rounded(ratio(row)),
        ]
        for row in points()
    ]
    header = ["dropped", "within", "across", "gradient", "random", "eigenvalues", "ratio"]
    return table(["problem", "gap", *header], lines)


def steps() -> str:
    lines = [
        [
            row["problem"],
            gap_name(row),
            *(f"{remaining(row, after):.3g}" for after in ("after_newton", "after_jacobi")),
            f"{row['share']:.3f}",
            f"{row['best_step']:.3g}",
        ]
        for row in points()
    ]
    return table(["problem", "gap", "left after Newton", "left after block-Jacobi", "share", "best step"], lines)


def ratios() -> str:
    last = {row["problem"]: row for row in points()}
    lines = [
        [
            name,
            f"{(row['largest_possible'] + 1) // 2:,}",
            *(rounded(ratio(row, prefix)) for prefix in ("", "by_set_", "long_range_")),
        ]
        for name, row in last.items()
    ]
    return table(["problem", "longest chain", "B⁻¹H, all", "across sets alone", "long range alone"], lines)


def pieces() -> tuple[list[dict], list[dict]]:
    """Return the rows of Newton-CG and of block-Jacobi, by the length of the pieces."""
    rows = sorted(rows_of("pieces"), key=lambda row: row["length"])
    exact, jacobi = ([row for row in rows if row["solver"] == solver] for solver in ("newton-cg", "block-jacobi"))
    return exact, jacobi


def lengths() -> str:
    lines = [
        [
            f"{one['length']:,}",
            cell(one),
            cell(other),
            f"{one['dropped']:.2f}",
            f"{one['smallest']:.3g} to {one['largest']:.3g}",
            f"{one['long_range_smallest']:.3g} to {one['long_range_largest']:.3g}",
            f"{one['largest_possible']:,}",
        ]
        for one, other in zip(*pieces(), strict=True)
    ]
    solvers = [f"{name}: iterations / passes / seconds" for name in ("newton-cg", "block-jacobi")]
    return table(["longest piece", *solvers, "dropped", "eigenvalues", "long range alone", "2 T - 1"], lines)


def lengths_picture() -> Drawing:
    exact, jacobi = pieces()
    curves = {
        "newton-cg": [(row["length"], row["iterations"]) for row in exact],
        "block-jacobi": [(row["length"], row["iterations"]) for row in jacobi],
        "ratio of eigenvalues": [(row["length"], ratio(row)) for row in exact],
    }
    caption = "Iterations to a relative gap of 0.001 and the ratio of the eigenvalues, against the length of the pieces"
    return Drawing("pieces", gap_curves({"longest piece": curves}, "iterations, ratio"), caption)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", default=["solve", "points", "pieces"])
    parser.add_argument("--only", nargs="+", help="beginnings of names of problems, for solve and points")
    arguments = parser.parse_args()
    found = problems()
    chosen = [name for name in found if not arguments.only or name.startswith(tuple(arguments.only))]
    for solver in SOLVERS:  # so that no run pays for the compiler
        ChainCRF("linear", solver=solver, n_jobs=1).fit([np.eye(2), np.eye(2)], [[0, 1], [1, 0]])
    for name in chosen:
        field, data, solvers, tolerances = found[name]
        if "solve" in arguments.parts:
            run_solvers(name, field, data, solvers, tolerances)
        if "points" in arguments.parts and "newton" in solvers:
            survey_points(name, field, data)
    if "pieces" in arguments.parts:
        run_pieces(*found["gesture phases, linear"][:2])
    write_page("optimisers")


if __name__ == "__main__":
    main()
