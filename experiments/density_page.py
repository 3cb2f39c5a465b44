"""docs/results/density.md, made from the JSON of experiments/density.py."""

from __future__ import annotations

import numpy as np

from benchmarks.result_files import EXPERIMENTS, read_results
from experiments.pictures import curves_plot, sizes_plot
from experiments.result_pages import ResultPage

METHODS = ("exponential family", "kernel density", "mixture")


def summary(rows: list[dict]) -> dict[str, dict[int, list[dict]]]:
    """Return the rows of known densities by name and size."""
    found: dict[str, dict[int, list[dict]]] = {}
    for row in rows:
        found.setdefault(row["name"], {}).setdefault(row["n"], []).append(row)
    return found


def slope(sizes: list[int], values: list[float]) -> float:
    """Return the slope of log KL in log n, by least squares."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def page() -> None:
    """Write docs/results/density.md from the JSON."""
    known, real = (read_results(f"density_{part}.json", EXPERIMENTS) for part in ("known", "real"))
    sheet = ResultPage(
        "density",
        "Densities from exponential families",
        command="kernelfields reproduce density",
        seconds=sum(row["seconds"] for row in [*known, *real]),
    )
    sheet.text(
        "`ExponentialFamilyDensity` ([how to use it](../density.md)) with an RBF kernel: p(z) = p0(z) exp(f(z) - "
        "g(f)) on a box. Kernel scale and prior variance are chosen by 3-fold cross-validation of the likelihood "
        "on the training sample. The grids were widened once, because cross-validation chose an end of the first "
        "ones in a trial on the density with two modes and on the wines; that trial had shown test figures of "
        "those two as well."
    )
    if known:
        _known(sheet, known)
    if real:
        _real(sheet, real)
    sheet.write()


def _known(sheet: ResultPage, rows: list[dict]) -> None:
    found = summary(rows)
    sheet.heading("Known densities (Proposition 3, empirically)")
    sheet.text(
        "Kullback-Leibler divergence KL(p, fit) in nats, the mean over repeated samples with the standard "
        "deviation between them. The kink is exp(-5 |x - 0.4|), up to a constant (exp(-4 |x - 0.4| - 4 |y - 0.5|) "
        "in two dimensions): continuous and positive, but its logarithm is in the RKHS of no RBF kernel."
    )
    for dimension in (1, 2):
        names = [name for name, sizes in found.items() if next(iter(sizes.values()))[0]["dimension"] == dimension]
        if not names:
            continue
        sizes = sorted(found[names[0]])
        means = {name: [_mean(found[name][n], "kl") for n in sizes] for name in names}
        sheet.table(
            ["density", *(f"n = {n:,}" for n in sizes), "slope"],
            [
                [
                    name,
                    *(
                        f"{value:.4f} ± {_deviation(found[name][n], 'kl'):.4f}"
                        for n, value in zip(sizes, means[name], strict=True)
                    ),
                    f"{slope(sizes, means[name]):.2f}",
                ]
                for name in names
            ],
        )
        falling = [name for name in names if all(np.diff(means[name]) < 0)]
        where = "line" if dimension == 1 else "square"
        sheet.text(
            f"On the unit {where} the mean KL falls with every step of n for {len(falling)} of {len(names)} "
            "densities. Slope is that of log KL in log n; -1 would be the rate of a parametric family. The "
            "largest absolute error of the density, whose mean is 1, goes from "
            + ", ".join(
                f"{_mean(found[name][sizes[0]], 'largest_error'):.2f} to "
                f"{_mean(found[name][sizes[-1]], 'largest_error'):.2f} ({name})"
                for name in names
            )
            + "."
        )
        sheet.picture(f"kl-{dimension}d", sizes_plot(sizes, means), f"KL on the unit {where} against n")
        if dimension == 1:
            for name in names:
                _fits(sheet, name, found[name])
    worst = max(rows, key=lambda row: abs(row["integral"] - 1))
    beyond = [row for row in rows if abs(row["integral"] - 1) > max(row["stated_error"], 1e-6)]
    sheet.heading("Integrals and choices")
    sheet.text(
        f"Of {len(rows)} fits, the integral over the cube by a fine midpoint rule is off from one by at most "
        f"{abs(worst['integral'] - 1):.1g}; the stated error of that fit is {worst['stated_error']:.1g}. In "
        f"{len(beyond)} of {len(rows)} fits the integral is further from one than the stated error (or 1e-6, "
        "which is about what the midpoint rule itself is good for). Scale or variance lie at an end of their "
        f"grids in {sum(row['at_an_end'] for row in rows)} of {len(rows)}."
    )


def _fits(sheet: ResultPage, name: str, sizes: dict[int, list[dict]]) -> None:
    shown = {n: next(row for row in rows if row["curve"])["curve"] for n, rows in sizes.items()}
    first, last = min(shown), max(shown)
    count = len(shown[first]["truth"])
    curves = {
        "truth": shown[first]["truth"],
        f"n = {first:,}": shown[first]["fit"],
        f"n = {last:,}": shown[last]["fit"],
    }
    places = ((np.arange(count) + 0.5) / count).tolist()
    slug = name.replace(" ", "-")
    sheet.picture(f"fit-{slug}", curves_plot(places, curves, name), f"{name[0].upper()}{name[1:]}: truth and fits")


def _real(sheet: ResultPage, rows: list[dict]) -> None:
    found: dict[str, list[dict]] = {}
    for row in rows:
        found.setdefault(row["name"], []).append(row)
    sheet.heading("Real data")
    sheet.text(
        f"Mean held-out log-likelihood, in nats per point, over {max(map(len, found.values()))} random splits "
        "into two thirds and one third, against scikit-learn's `KernelDensity` (Gaussian kernel, bandwidth from "
        "16 values) and `GaussianMixture` "
        "(full covariances, 1 to 8 components), both on standardised data and chosen by 3-fold cross-validation. "
        "The base measure is Gaussian, and the box is the range of the training points with half of it on either "
        "side. Differences are exponential family minus the other, with two standard errors: over the points of a "
        "test set, averaged over the splits, which overlap."
    )
    ordered = sorted(found, key=lambda name: (found[name][0]["dimension"], name))
    sheet.table(
        ["data", "points", *METHODS, "against kernel density", "against mixture"],
        [
            [
                f"{name} ({found[name][0]['dimension']}-D)",
                found[name][0]["n_train"] + found[name][0]["n_test"],
                *(f"{np.mean([row['scores'][each] for row in found[name]]):.3f}" for each in METHODS),
                *(_difference(found[name], each) for each in METHODS[1:]),
            ]
            for name in ordered
        ],
    )
    sheet.text("Sources: " + "; ".join(f"{name}: {found[name][0]['source']}" for name in ordered) + ".")
    verdicts = []
    for other in METHODS[1:]:
        values = {name: _judged(found[name], other) for name in ordered}
        better = [name for name, (mean, error) in values.items() if mean > 2 * error]
        worse = [name for name, (mean, error) in values.items() if mean < -2 * error]
        verdicts.append(
            f"Against the {other} it is better beyond two standard errors on {len(better)} of {len(ordered)} sets"
            + (f" ({', '.join(better)})" if better else "")
            + f" and worse on {len(worse)}"
            + (f" ({', '.join(worse)})." if worse else ".")
        )
    outside = sum(row["outside"] for row in rows)
    sheet.text(
        " ".join(verdicts) + f" {outside} test points lay outside their box. Frames of gestures follow each "
        "other, so that random splits put neighbours on both sides; this flatters all three alike."
    )
    edge = sum(row["at_an_end"] for row in rows)
    sheet.text(
        f"A choice lies at an end of its grid (scale or variance) in {edge} of {len(rows)} splits. Choosing and "
        f"fitting took {np.mean([row['our_seconds'] for row in rows]):.1f} seconds a split on average. The "
        f"largest stated error of a log partition is {max(row['stated_error'] for row in rows):.1g} nats."
    )
    for name in ordered:
        curves = next((row["curves"] for row in found[name] if row["curves"]), None)
        if curves:
            drawn = curves_plot(curves["x"], curves["densities"], name, curves["histogram"])
            caption = f"{name[0].upper()}{name[1:]}: histogram of the training points of one split, and three fits"
            sheet.picture(f"real-{name.replace(' ', '-')}", drawn, caption)


def _judged(rows: list[dict], other: str) -> tuple[float, float]:
    """Return the mean difference over splits and a mean standard error of one split."""
    values = np.array([row["differences"][other] for row in rows])
    return float(values[:, 0].mean()), float(values[:, 1].mean())


def _difference(rows: list[dict], other: str) -> str:
    mean, error = _judged(rows, other)
    return f"{mean:+.3f} ± {2 * error:.3f}"


def _mean(rows: list[dict], part: str) -> float:
    return float(np.mean([row[part] for row in rows]))


def _deviation(rows: list[dict], part: str) -> float:
    return float(np.std([row[part] for row in rows], ddof=1))
