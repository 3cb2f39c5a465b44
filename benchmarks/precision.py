"""What float32 features cost: gaps that can be reached, and whether the reported bounds stay true.

    python -m benchmarks.precision

Features are computed once in float32; "float64" then means the same numbers in float64, so that both fits have
the same minimum P* and differ in the rounding of products alone. P* lies between the value and the lower bound of
a float64 fit to a relative gap of 1e-10, which is the yardstick:

    passes    over the features, each tolerance going on from the last
    reached   relative gap at which the fit stopped (of at most ``tol`` unless rounding ended it first)
    true gap  (P(theta) - P*) / P*, where P(theta) is computed in float64
    off       (reported value - P(theta)) / P(theta): rounding in the value itself
    slack     (P* - reported lower bound) / P*: negative would mean a bound that is not one

A second table compares fits through the estimator, basis included: the pivots are chosen in the precision of the
features, and the value is recomputed from the kernel itself, in float64 and without the factor.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from benchmarks.fit_parts import parts_of_fit
from benchmarks.result_files import write_results
from benchmarks.solvers import synthetic
from kernelfields import ChainCRF, EdgeCliques, NodeCliques
from kernelfields.kernels.stationary import RBF
from kernelfields.objective.designs.tables import DenseTable
from kernelfields.objective.posterior import LogPosterior
from kernelfields.solvers.choice import resolve_solver
from kernelfields.solvers.loop import minimize

N_SEQUENCES, N_LABELS, RANK = 800, 6, 500
VARIANCES = (1.0, 100.0)
FIT_VARIANCES = (1.0, 100.0, 10_000.0)
TOLERANCES = (1e-3, 1e-5, 1e-6, 1e-7, 1e-8)
YARDSTICK = 1e-10


def posteriors(X: list, y: list, variance: float) -> dict[str, LogPosterior]:
    """Return one objective twice: with float32 features, and with the same numbers in float64."""
    cliques = [NodeCliques(RBF(0.5), rank=RANK, prior_variance=variance), EdgeCliques()]
    crf = ChainCRF(cliques=cliques, dtype="float32", n_jobs=1, random_state=0)
    _, sample, (node, edge) = parts_of_fit(crf, X, y)
    wide = replace(node, table=DenseTable(node.features.astype(np.float64)))
    wide.dtype = np.dtype(np.float64)
    return {
        precision: LogPosterior(sample.datafit([design, edge]))
        for precision, design in (("float32", node), ("float64", wide))
    }


def compare_products(X: list, y: list, variance: float) -> list[dict]:
    """Return rows for every tolerance and precision on the same features."""
    objectives = posteriors(X, y, variance)
    exact = objectives["float64"]
    best = minimize(exact, resolve_solver("newton-cg", exact, YARDSTICK), tol=YARDSTICK, max_iter=200)
    rows = []
    for precision, posterior in objectives.items():
        theta, passes = None, 0.0
        for tol in TOLERANCES:
            rule = resolve_solver("lbfgs", posterior, tol)
            solution = minimize(posterior, rule, start=theta, tol=tol, max_iter=3000)
            theta, passes = solution.theta, passes + solution.passes
            value = exact.at(theta).value
            rows.append(
                {
                    "prior_variance": variance,
                    "tol": tol,
                    "dtype": precision,
                    "passes": passes,
                    "reason": solution.reason,
                    "reached": solution.relative_gap,
                    "true_gap": (value - best.value) / best.value,
                    "off": (solution.value - value) / value,
                    "slack": (best.value - solution.lower_bound) / best.value,
                }
            )
    return rows


def compare_fits(X: list, y: list, variance: float) -> list[dict]:
    """Return rows for whole fits, with the value recomputed from the kernel in float64."""
    rows = []
    for dtype in ("float32", "float64"):
        crf = ChainCRF(
            RBF(0.5),
            rank=RANK,
            prior_variance=variance,
            edges=EdgeCliques(prior_variance=1.0),
            dtype=dtype,
            tol=1e-3,
            max_iter=10_000,
            n_jobs=1,
            random_state=0,
        )
        crf.fit(X, y)
        exact = crf.certify(X, y)
        rows.append(
            {
                "prior_variance": variance,
                "dtype": dtype,
                "rank": crf.basis_["node"].rank,
                "value": crf.solution_.value,
                "off": (crf.solution_.value - exact.value) / exact.value,
                "reached": crf.certificate_.relative_gap,
            }
        )
    return rows


def main() -> None:
    X, y = synthetic(N_SEQUENCES, N_LABELS)
    print(f"{sum(map(len, X)):,} positions, {N_LABELS} labels, RBF kernel, rank {RANK}\n")
    products, fits = [], []
    print("      s    tol dtype     passes   reached  true gap       off     slack  stopped by")
    for variance in VARIANCES:
        for row in compare_products(X, y, variance):
            products.append(row)
            print(
                f"{row['prior_variance']:7g} {row['tol']:6.0e} {row['dtype']:8s} {row['passes']:7.1f} "
                f"{row['reached']:9.1e} {row['true_gap']:9.1e} {row['off']:9.1e} {row['slack']:9.1e}  "
                f"{row['reason']}",
                flush=True,
            )
    print("\n      s dtype     rank        value       off   reached")
    for variance in FIT_VARIANCES:
        for row in compare_fits(X, y, variance):
            fits.append(row)
            print(
                f"{row['prior_variance']:7g} {row['dtype']:8s} {row['rank']:5d} {row['value']:12.4f} "
                f"{row['off']:9.1e} {row['reached']:9.1e}",
                flush=True,
            )
    write_results("precision.json", {"products": products, "fits": fits})


if __name__ == "__main__":
    main()
