"""Densities from exponential families: KL to known densities as samples grow, held-out likelihood on real data.

    python -m experiments.density [--only known real] [--names NAME ...]

Known densities on [0, 1] and [0, 1]^2: two modes, a truncated normal, a kink. Kernel scale and prior variance are
chosen by 3-fold cross-validation of the likelihood on the sample itself. Real data: five random splits into two
thirds and one third; kernel scale and prior variance, the bandwidth of scikit-learn's KernelDensity and the number
of components of its GaussianMixture are each chosen by 3-fold cross-validation inside the two thirds.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV, ShuffleSplit
from sklearn.neighbors import KernelDensity
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.result_files import EXPERIMENTS, merge_results, read_results
from benchmarks.shared_data import DataMissing, gesture_phases
from experiments.pictures import by_size, smooth
from experiments.result_pages import Drawing, duration, table, write_page
from kernelfields import ExponentialFamilyDensity
from kernelfields.kernels import RBF

KNOWN, REAL = "density_known.json", "density_real.json"
SIZES = {1: (100, 300, 1000, 3000, 10_000), 2: (100, 1000, 10_000)}
REPEATS = {1: 3, 2: 2}
RANK = {1: 200, 2: 100}
# Widened by the value 0.1, and the scales for real data in one dimension by 10, because cross-validation chose an
# end of the first grids in a trial on one density and one data set.
VARIANCES = (0.1, 1.0, 10.0, 100.0)
# Of the unit cube that the kernel sees; in the real data it holds the sample and half its range on either side.
GAMMAS = {1: (10.0, 40.0, 160.0), 2: (4.0, 16.0, 64.0)}
WIDE_GAMMAS = {1: (10.0, 40.0, 160.0, 640.0), 2: (10.0, 40.0, 160.0)}
WIDE_MARGIN = 0.5
N_SPLITS = 5
METHODS = ("exponential family", "kernel density", "mixture")
MOST_GESTURES = 2000


@dataclass(frozen=True)
class Known:
    """A density on the unit cube, up to a constant, and its largest value."""

    dimension: int
    density: Callable[[np.ndarray], np.ndarray]
    highest: float

    def sample(self, n: int, random: np.random.Generator) -> np.ndarray:
        """Draw by rejection from the cube."""
        kept = np.empty((0, self.dimension))
        while len(kept) < n:
            points = random.random((4 * n, self.dimension))
            kept = np.vstack([kept, points[random.random(4 * n) * self.highest < self.density(points)]])
        return kept[:n]

    def grid(self) -> np.ndarray:
        """Return midpoints of equal cells, 20,000 in one dimension and 400^2 in two."""
        count = {1: 20_000, 2: 400}[self.dimension]
        places = (np.arange(count) + 0.5) / count
        return np.stack(np.meshgrid(*[places] * self.dimension, indexing="ij"), axis=-1).reshape(-1, self.dimension)


def _bump(X: np.ndarray, centre: float | tuple, width: float) -> np.ndarray:
    return np.exp(-0.5 * np.square((X - centre) / width).sum(axis=1))


DENSITIES = {
    "two modes": Known(1, lambda X: 0.1 + _bump(X, 0.3, 0.06) + 0.6 * _bump(X, 0.7, 0.1), 1.2),
    "truncated normal": Known(1, lambda X: _bump(X, 0.35, 0.3), 1.0),
    "kink": Known(1, lambda X: np.exp(-5 * np.abs(X[:, 0] - 0.4)), 1.0),
    "two modes, 2-D": Known(2, lambda X: 0.1 + _bump(X, (0.3, 0.35), 0.1) + 0.6 * _bump(X, (0.7, 0.6), 0.12), 1.2),
    "truncated normal, 2-D": Known(2, lambda X: _bump(X, (0.35, 0.6), 0.3), 1.0),
    "kink, 2-D": Known(2, lambda X: np.exp(-4 * np.abs(X - (0.4, 0.5)).sum(axis=1)), 1.0),
}


def choose_density(X: np.ndarray, gammas: tuple, box: np.ndarray, base_measure: str) -> GridSearchCV:
    """Choose kernel scale and prior variance by 3-fold cross-validation."""
    model = ExponentialFamilyDensity(RBF(), box=box, base_measure=base_measure, rank=RANK[X.shape[1]], random_state=0)
    grid = {"kernel": [RBF(gamma) for gamma in gammas], "prior_variance": VARIANCES}
    return GridSearchCV(model, grid, cv=3).fit(X)


def _at_an_end(fitted: ExponentialFamilyDensity, gammas: tuple) -> bool:
    """Say whether the scale or the variance that was chosen is the first or the last of its grid."""
    return fitted.kernel.gamma in (gammas[0], gammas[-1]) or fitted.prior_variance in (VARIANCES[0], VARIANCES[-1])


def run_known(name: str) -> None:
    """Fit samples of growing size and measure how far each fit is from the truth."""
    known = DENSITIES[name]
    grid = known.grid()
    truth = known.density(grid)
    truth = truth / truth.mean()
    box = np.array([[0.0, 1.0]] * known.dimension)
    for n in SIZES[known.dimension]:
        rows = []
        for repeat in range(REPEATS[known.dimension]):
            X = known.sample(n, np.random.default_rng([n, repeat]))
            begin = time.perf_counter()
            search = choose_density(X, GAMMAS[known.dimension], box, "uniform")
            fitted = search.best_estimator_
            seconds = time.perf_counter() - begin
            logs = fitted.score_samples(grid)
            rows.append(
                {
                    "name": name,
                    "n": n,
                    "repeat": repeat,
                    "dimension": known.dimension,
                    "kl": float(np.mean(truth * (np.log(truth) - logs))),
                    "largest_error": float(np.abs(np.exp(logs) - truth).max()),
                    "gamma": fitted.kernel.gamma,
                    "prior_variance": fitted.prior_variance,
                    "at_an_end": _at_an_end(fitted, GAMMAS[known.dimension]),
                    "integral": float(np.exp(logs).mean()),
                    "stated_error": fitted.log_partition_error_,
                    "seconds": seconds,
                    "curve": _curve(np.exp(logs), truth, known.dimension) if repeat == 0 else None,
                }
            )
        merge_results(KNOWN, rows, ("name", "n", "repeat"), EXPERIMENTS)
        print(
            name,
            n,
            [f"{row['kl']:.2g}" for row in rows],
            f"{sum(row['seconds'] for row in rows):.1f} s",
            flush=True,
        )


def _curve(values: np.ndarray, truth: np.ndarray, dimension: int) -> dict | None:
    """Return fit and truth at a few hundred places, for the pictures."""
    if dimension == 2:
        return None
    step = len(values) // 200
    return {part: np.round(each[step // 2 :: step], 4).tolist() for part, each in (("fit", values), ("truth", truth))}


def real_data() -> dict[str, tuple[np.ndarray, str]]:
    """Return points (n, d) of each data set and what they are."""
    random = np.random.default_rng(0)
    cancer, wine, iris = load_breast_cancer(), load_wine(), load_iris()
    # Petals are measured to a millimetre: without this, ties would reward spikes.
    petals = iris.data[:, 2:] + random.uniform(-0.05, 0.05, (150, 2))
    found = {
        "tumour radius": (cancer.data[:, :1], "scikit-learn's breast cancer data, mean radius"),
        "alcohol of wines": (wine.data[:, :1], "scikit-learn's wine data, alcohol"),
        "tumour radius and texture": (cancer.data[:, :2], "scikit-learn's breast cancer data"),
        "petals": (petals, "scikit-learn's iris data, length and width, with their rounding undone at random"),
    }
    try:
        positions = np.vstack(gesture_phases()[0])
    except DataMissing as missing:
        print(missing)
        return found
    rows = random.choice(len(positions), MOST_GESTURES, replace=False)
    found["height of a hand"] = (positions[rows, 1:2], f"gesture phases, left hand, {MOST_GESTURES} frames")
    found["place of a hand"] = (positions[rows, :2], f"gesture phases, left hand, {MOST_GESTURES} frames")
    return found


def run_real(name: str) -> None:
    """Compare held-out likelihoods over five splits."""
    X, source = real_data()[name]
    gammas = WIDE_GAMMAS[X.shape[1]]
    rows = []
    for split, (train, test) in enumerate(ShuffleSplit(N_SPLITS, test_size=1 / 3, random_state=0).split(X)):
        low, high = X[train].min(axis=0), X[train].max(axis=0)
        box = np.column_stack([low - WIDE_MARGIN * (high - low), high + WIDE_MARGIN * (high - low)])
        begin = time.perf_counter()
        ours = choose_density(X[train], gammas, box, "gaussian").best_estimator_
        seconds = time.perf_counter() - begin
        kernels = _search(KernelDensity(), "kerneldensity__bandwidth", np.geomspace(0.03, 1.0, 16), X[train])
        mixture = _search(
            GaussianMixture(random_state=0, n_init=2, reg_covar=1e-4),
            "gaussianmixture__n_components",
            list(range(1, 9)),
            X[train],
        )
        logs = {
            "exponential family": ours.score_samples(X[test]),
            "kernel density": _log_densities(kernels, X[test]),
            "mixture": _log_densities(mixture, X[test]),
        }
        grid = np.linspace(*box[0], 400)[:, None] if X.shape[1] == 1 and split == 0 else None
        rows.append(
            {
                "name": name,
                "split": split,
                "source": source,
                "n_train": len(train),
                "n_test": len(test),
                "dimension": X.shape[1],
                "outside": int(np.isneginf(logs["exponential family"]).sum()),
                "scores": {each: float(values.mean()) for each, values in logs.items()},
                "differences": {
                    each: [
                        float(np.mean(logs["exponential family"] - logs[each])),
                        float(np.std(logs["exponential family"] - logs[each], ddof=1) / np.sqrt(len(test))),
                    ]
                    for each in ("kernel density", "mixture")
                },
                "gamma": ours.kernel.gamma,
                "prior_variance": ours.prior_variance,
                "bandwidth": float(kernels[-1].bandwidth),
                "at_an_end": _at_an_end(ours, gammas),
                "components": int(mixture[-1].n_components),
                "stated_error": ours.log_partition_error_,
                "seconds": time.perf_counter() - begin,
                "our_seconds": seconds,
                "curves": None if grid is None else _real_curves(grid, X[train], ours, kernels, mixture),
            }
        )
    merge_results(REAL, rows, ("name", "split"), EXPERIMENTS)
    print(name, [{k: f"{v:.3f}" for k, v in row["scores"].items()} for row in rows][:2], flush=True)


def _search(model, parameter: str, values, X: np.ndarray):
    """Return scaler and density with the value that cross-validation chooses."""
    search = GridSearchCV(make_pipeline(StandardScaler(), model), {parameter: values}, cv=3)
    return search.fit(X).best_estimator_


def _log_densities(pipeline, X: np.ndarray) -> np.ndarray:
    """Return log densities in the units of X: the scaler's Jacobian is added."""
    return pipeline.score_samples(X) - np.log(pipeline[0].scale_).sum()


def _real_curves(grid: np.ndarray, X: np.ndarray, ours, kernels, mixture) -> dict:
    heights, edges = np.histogram(X[:, 0], bins=30, density=True)
    logs = {
        "exponential family": ours.score_samples(grid),
        "kernel density": _log_densities(kernels, grid),
        "mixture": _log_densities(mixture, grid),
    }
    return {
        "x": np.round(grid[:, 0], 5).tolist(),
        "densities": {name: np.round(np.exp(each), 6).tolist() for name, each in logs.items()},
        "histogram": {"heights": heights.tolist(), "edges": edges.tolist()},
    }


def took() -> str:
    return duration(sum(row["seconds"] for file in (KNOWN, REAL) for row in read_results(file, EXPERIMENTS)))


def by_sizes(dimension: int) -> dict[str, dict[int, list[dict]]]:
    """Return the rows of the known densities of a dimension, by name and size."""
    rows = [row for row in read_results(KNOWN, EXPERIMENTS) if row["dimension"] == dimension]
    names, sizes = sorted({row["name"] for row in rows}), SIZES[dimension]
    return {name: {n: [row for row in rows if (row["name"], row["n"]) == (name, n)] for n in sizes} for name in names}


def means(sizes: dict[int, list[dict]], part: str = "kl") -> list[float]:
    return [float(np.mean([row[part] for row in rows])) for rows in sizes.values()]


def slope(sizes: list[int], values: list[float]) -> float:
    """Return the slope of log KL in log n, by least squares."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def divergences(dimension: str) -> str:
    lines = []
    for name, sizes in by_sizes(int(dimension)).items():
        spread = [np.std([row["kl"] for row in rows], ddof=1) for rows in sizes.values()]
        cells = [f"{value:.4f} ± {deviation:.4f}" for value, deviation in zip(means(sizes), spread, strict=True)]
        errors = means(sizes, "largest_error")
        lines.append([name, *cells, f"{slope(list(sizes), means(sizes)):.2f}", f"{errors[0]:.2f} to {errors[-1]:.2f}"])
    header = [f"n = {n:,}" for n in SIZES[int(dimension)]]
    return table(["density", *header, "slope", "largest error"], lines)


def divergences_picture(dimension: str) -> Drawing:
    curves = {name: means(sizes) for name, sizes in by_sizes(int(dimension)).items()}
    drawn = by_size(SIZES[int(dimension)], curves, "KL, nats")
    return Drawing(f"kl-{dimension}d", drawn, f"KL on the unit {'line' if dimension == '1' else 'square'} against n")


def fit_picture(slug: str) -> Drawing:
    name = slug.replace("-", " ")
    curves = {n: next(row["curve"] for row in rows if row["curve"]) for n, rows in by_sizes(1)[name].items()}
    first, last = min(curves), max(curves)
    x = (np.arange(len(curves[first]["truth"])) + 0.5) / len(curves[first]["truth"])
    shown = {"truth": curves[first]["truth"], **{f"n = {n:,}": curves[n]["fit"] for n in (first, last)}}
    return Drawing(f"fit-{slug}", smooth(x.tolist(), shown, name), f"{name.capitalize()}: truth and fits")


def integrals() -> str:
    rows = read_results(KNOWN, EXPERIMENTS)
    worst = max(rows, key=lambda row: abs(row["integral"] - 1))
    beyond = [row for row in rows if abs(row["integral"] - 1) > max(row["stated_error"], 1e-6)]
    return (
        f"Of {len(rows)} fits, the integral over the cube by a fine midpoint rule is off from one by at most "
        f"{abs(worst['integral'] - 1):.1g}; the stated error of that fit is {worst['stated_error']:.1g}. In "
        f"{len(beyond)} of {len(rows)} fits the integral is further from one than the stated error (or 1e-6, "
        "which is about what the midpoint rule itself is good for). Scale or variance lie at an end of their "
        f"grids in {sum(row['at_an_end'] for row in rows)} of {len(rows)}."
    )


def real_rows() -> dict[str, list[dict]]:
    """Return the rows of each real data set, those of one dimension first."""
    rows = read_results(REAL, EXPERIMENTS)
    names = sorted({(row["dimension"], row["name"]) for row in rows})
    return {name: [row for row in rows if row["name"] == name] for _, name in names}


def likelihoods() -> str:
    lines = []
    for name, rows in real_rows().items():
        scores = [f"{np.mean([row['scores'][each] for row in rows]):.3f}" for each in METHODS]
        against = [np.mean([row["differences"][each] for row in rows], axis=0) for each in METHODS[1:]]
        shown = [f"{mean:+.3f} ± {2 * error:.3f}" for mean, error in against]
        points = rows[0]["n_train"] + rows[0]["n_test"]
        lines.append([f"{name} ({rows[0]['dimension']}-D)", points, *scores, *shown])
    return table(["data", "points", *METHODS, "against kernel density", "against mixture"], lines)


def real_notes() -> str:
    rows = read_results(REAL, EXPERIMENTS)
    return (
        f"{sum(row['outside'] for row in rows)} test points lay outside their box. A choice lies at an end of its grid "
        f"(scale or variance) in {sum(row['at_an_end'] for row in rows)} of {len(rows)} splits. Choosing and "
        f"fitting took {np.mean([row['our_seconds'] for row in rows]):.1f} seconds a split on average. The largest "
        f"stated error of a log partition is {max(row['stated_error'] for row in rows):.1g} nats."
    )


def real_picture(slug: str) -> Drawing:
    name = slug.replace("-", " ")
    curves = next(row["curves"] for row in real_rows()[name] if row["curves"])
    drawn = smooth(curves["x"], curves["densities"], name, curves["histogram"])
    caption = f"{name.capitalize()}: histogram of the training points of one split, and three fits"
    return Drawing(f"real-{slug}", drawn, caption)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=["known", "real"], choices=["known", "real"])
    parser.add_argument("--names", nargs="+", help="densities or data sets; all by default")
    arguments = parser.parse_args()
    for part, names, run in (("known", DENSITIES, run_known), ("real", real_data(), run_real)):
        for name in names if part in arguments.only else ():
            if arguments.names is None or name in arguments.names:
                run(name)
    write_page("density")


if __name__ == "__main__":
    main()
