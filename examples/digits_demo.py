"""Handwritten digits in sequences: four kernel fields, side by side, in about a minute.

Data. The 8 x 8 digits that come with scikit-learn, grey levels in [0, 1], are set into sequences of 6 to 10. The
first label is uniform; then the labels follow a chain

    p(b | a) = 0.5 [b = a + 1] + 0.3 [b = a + 3] + 0.2 / 10        (digits modulo 10)

so that 0 is mostly followed by 1 or 3, and 9 by 0 or 2. A picture of the label is drawn at random, and Gaussian
noise of standard deviation 0.3 is added to every pixel. The pictures are divided first: no picture of the
training sequences is in a test sequence.

Fields. score(y | x) = sum_t f(x_t, y_t) + sum_t w(y_{t-1}, y_t) with a linear, quadratic, cubic or RBF kernel for
f. The prior variance and the scale of the kernel are chosen by 3-fold cross-validation on the training sequences.
For comparison the same is done with the pictures alone, cut into sequences of length one.

Run: python examples/digits_demo.py [--output demo-report.html]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from picture_strips import STRIP_STYLE, sequence_strip
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as TerminalTable
from scipy.special import softmax
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV

from kernelfields import ChainCRF, EdgeCliques
from kernelfields.kernels import RBF, Linear, Polynomial
from kernelfields.reports import (
    Picture,
    Table,
    plot_convergence,
    plot_heat_map,
)
from kernelfields.reports.figures import COLOURS, panels
from kernelfields.reports.markup import LIGHT
from kernelfields.reports.page import page, section, side_by_side
from kernelfields.reports.tables import Row

N_DIGITS = 10
NOISE = 0.3
SEARCH_TOL, FINAL_TOL = 1e-2, 1e-4
FIELDS: dict[str, tuple[Any, dict[str, list[float]]]] = {
    "linear": (Linear(), {"prior_variance": [0.1, 1.0, 10.0]}),
    "quadratic": (
        Polynomial(2),
        {"prior_variance": [0.1, 1.0, 10.0], "kernel__gamma": [0.1, 0.3]},
    ),
    "cubic": (
        Polynomial(3),
        {"prior_variance": [0.1, 1.0, 10.0], "kernel__gamma": [0.1, 0.3]},
    ),
    "rbf": (
        RBF(),
        {"prior_variance": [3.0, 30.0, 300.0], "kernel__gamma": [0.03, 0.1]},
    ),
}
COLUMNS = (
    "field",
    "with chain",
    "alone",
    "rank",
    "solver",
    "passes",
    "relative gap",
    "seconds",
    "chosen",
)


@dataclass(frozen=True)
class DigitChains:
    """Sequences of pictures (T, 64), their labels (T,), and which of scikit-learn's pictures they show."""

    pictures: list[np.ndarray]
    labels: list[np.ndarray]
    sources: list[np.ndarray]

    def alone(self) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Cut the sequences into sequences of length one."""
        return list(np.concatenate(self.pictures)[:, None]), list(
            np.concatenate(self.labels)[:, None]
        )


@dataclass(frozen=True)
class Result:
    """A fitted field and how it did on the test sequences."""

    name: str
    field: ChainCRF
    alone: ChainCRF
    accuracy: float
    alone_accuracy: float
    cross_validation: float
    seconds: float

    def cells(self) -> tuple[str, ...]:
        """Return one row under COLUMNS."""
        solution, kernel = (
            self.field.solution_,
            self.field.basis_["node"].kernel,
        )
        scale = f", γ = {kernel.gamma:g}" if hasattr(kernel, "gamma") else ""
        return (
            self.name,
            f"{100 * self.accuracy:.1f} %",
            f"{100 * self.alone_accuracy:.1f} %",
            str(self.field.basis_["node"].rank),
            solution.solver,
            f"{solution.passes:g}",
            f"{solution.relative_gap:.1e}",
            f"{self.seconds:.2f}",
            f"s = {self.field.prior_variance:g}{scale}",
        )


def transition_matrix() -> np.ndarray:
    """Return p(b | a) of the chain the labels follow, rows a."""
    digits = np.arange(N_DIGITS)
    matrix = np.full((N_DIGITS, N_DIGITS), 0.2 / N_DIGITS)
    matrix[digits, (digits + 1) % N_DIGITS] += 0.5
    matrix[digits, (digits + 3) % N_DIGITS] += 0.3
    return matrix


def digit_chains(
    n_train: int, n_test: int, seed: int = 0
) -> tuple[DigitChains, DigitChains]:
    """Return training and test sequences that share no picture."""
    digits = load_digits()
    random = np.random.default_rng(seed)
    halves = np.array_split(random.permutation(len(digits.target)), 2)
    train, test = (
        draw_chains(n, half, digits, random)
        for n, half in zip((n_train, n_test), halves, strict=True)
    )
    return train, test


def draw_chains(
    n_sequences: int,
    choice: np.ndarray,
    digits: Any,
    random: np.random.Generator,
) -> DigitChains:
    """Draw sequences whose pictures are among ``choice``."""
    steps = transition_matrix()
    of_digit = [
        choice[digits.target[choice] == digit] for digit in range(N_DIGITS)
    ]
    pictures, labels, sources = [], [], []
    for _ in range(n_sequences):
        label = [int(random.integers(N_DIGITS))]
        for _ in range(int(random.integers(6, 11)) - 1):
            label.append(int(random.choice(N_DIGITS, p=steps[label[-1]])))
        source = np.array([random.choice(of_digit[digit]) for digit in label])
        pictures.append(
            digits.data[source] / 16.0
            + NOISE * random.normal(size=(len(label), 64))
        )
        labels.append(np.array(label))
        sources.append(source)
    return DigitChains(pictures, labels, sources)


def fit_by_cross_validation(
    kernel: Any,
    grid: dict,
    rank: int,
    X: list[np.ndarray],
    y: list[np.ndarray],
) -> tuple[ChainCRF, float, float]:
    """Return the field with the best cross-validated accuracy, that accuracy, and the seconds of its last fit."""
    # Fits of a fraction of a second are fastest on one thread, above all on a machine that others use too.
    field = ChainCRF(
        kernel,
        rank=rank,
        edges=EdgeCliques(prior_variance=1.0),
        max_iter=500,
        n_jobs=1,
        random_state=0,
    )
    field.set_params(tol=SEARCH_TOL)
    search = GridSearchCV(field, grid, cv=3, refit=False).fit(X, y)
    field.set_params(**search.best_params_, tol=FINAL_TOL)
    begin = time.perf_counter()
    field.fit(X, y)
    return field, search.best_score_, time.perf_counter() - begin


def compare_fields(
    names: Sequence[str],
    train: DigitChains,
    test: DigitChains,
    rank: int,
    announce: Callable[[str], None] = print,
) -> list[Result]:
    """Fit the named fields with and without the chain."""
    results = []
    for name in names:
        kernel, grid = FIELDS[name]
        n_fits = 2 * (
            1 + 3 * int(np.prod([len(values) for values in grid.values()]))
        )
        announce(f"{name} field: {n_fits} fits")
        field, score, seconds = fit_by_cross_validation(
            kernel, grid, rank, train.pictures, train.labels
        )
        alone, _, _ = fit_by_cross_validation(
            kernel, grid, rank, *train.alone()
        )
        accuracy, alone_accuracy = (
            field.score(test.pictures, test.labels),
            alone.score(*test.alone()),
        )
        results.append(
            Result(
                name, field, alone, accuracy, alone_accuracy, score, seconds
            )
        )
    return results


def report(
    results: Sequence[Result],
    train: DigitChains,
    test: DigitChains,
    n_shown: int = 8,
) -> str:
    """Return the whole report as HTML; pictures come from the field that cross-validation prefers."""
    best = best_of(results)
    n_images = len(np.concatenate(test.labels))
    error = 100 * np.sqrt(best.accuracy * (1 - best.accuracy) / n_images)
    learnt = softmax(best.field.transitions_, axis=1)
    true = transition_matrix()[
        np.ix_(best.field.classes_, best.field.classes_)
    ]
    maps = {
        "largest": max(learnt.max(), true.max()),
        "row_name": "from digit",
        "column_name": "to digit",
    }
    digits = best.field.classes_
    return page(
        "Handwritten digits in sequences",
        f"Kernel conditional random fields read {len(test.labels)} sequences of noisy digits after learning from "
        f"{len(train.labels)}. After a digit d usually comes d + 1 (half of the time) or d + 3 (three times in "
        "ten), modulo 10; otherwise any digit. A field of pictures and transitions reads digits that the "
        "pictures alone leave open.",
        [
            section(
                "Digits, one by one and in sequence",
                f"The first {min(n_shown, len(test.labels))} test sequences, as the {best.name} field reads them. "
                "The bar is the marginal probability of the label; hover for the number. A wrong label has a "
                "cross, a red frame and the truth below it. “Alone” is what the picture by itself is read as, "
                "where that differs.",
                STRIP_STYLE,
                *strips(best, test, n_shown),
            ),
            section(
                "Alone and together",
                f"Share of the {n_images} test digits that the {best.name} field reads correctly: each picture by "
                f"itself, and all pictures of a sequence together. The standard error is about {error:.1f} points.",
                accuracy_bars(best),
            ),
            section(
                "All fields",
                "Shares of right digits. “Alone” is the same kernel fitted to single pictures. Cross-validation "
                "chose the prior variance s and the scale γ of the kernel for each; the last column shows those "
                "with the chain. Passes are sweeps over the training data, and seconds are those of the last fit. "
                "The bold row is the field that does best in cross-validation on the training sequences; this "
                "page shows it.",
                Table(
                    COLUMNS,
                    [
                        Row(each.cells(), role="best" if each is best else "")
                        for each in results
                    ],
                ),
            ),
            section(
                "How good is the fit?",
                f"The fit of the {best.name} field. Every step also gives a lower bound on the minimum. The "
                "fit ends when value and bound agree to the tolerance: no field in the span of this "
                "basis is better by more than that.",
                plot_convergence(best.field),
            ),
            section(
                "What was learnt about the order of digits",
                "The chain that made the labels, and the transition scores of the field, exponentiated and "
                "normalised by row; the prior draws them towards equal shares. Entries below 0.005 are blank.",
                side_by_side(
                    ("truth", plot_heat_map(true, digits, digits, **maps)),
                    (
                        f"learnt, {best.name} field",
                        plot_heat_map(learnt, digits, digits, **maps),
                    ),
                ),
            ),
        ],
        "Made by examples/digits_demo.py; the pictures are scikit-learn's load_digits with Gaussian noise "
        f"(standard deviation {NOISE}).",
    )


def accuracy_bars(result: Result) -> Picture:
    """Return the accuracy of single pictures and of sequences as two bars."""
    shares = {"alone": result.alone_accuracy, "together": result.accuracy}
    words = ", ".join(
        f"{name} {100 * share:.1f} %" for name, share in shares.items()
    )
    with panels(
        None, f"share of digits read correctly: {words}", (6.4, 1.5)
    ) as picture:
        (panel,) = picture.axes
        bars = panel.barh(
            list(shares),
            list(shares.values()),
            color=[LIGHT["muted"], COLOURS[0]],
        )
        panel.bar_label(
            bars,
            [f"{100 * share:.1f} %" for share in shares.values()],
            padding=4,
        )
        panel.set(xlim=(0, 1.1), xticks=[])
        panel.invert_yaxis()
        panel.grid(False)
        panel.spines[:].set_visible(False)
    return picture


def best_of(results: Sequence[Result]) -> Result:
    """Return the result with the best cross-validated accuracy; the test set is not used."""
    return max(results, key=lambda each: each.cross_validation)


def strips(best: Result, test: DigitChains, n_shown: int) -> list:
    """Return the first test sequences as pictures with their labels."""
    shown = test.pictures[:n_shown]
    drawn = []
    readings = zip(
        best.field.predict(shown),
        best.field.predict_marginals(shown),
        strict=True,
    )
    for index, (predicted, marginals) in enumerate(readings):
        truth = test.labels[index]
        alone = np.concatenate(best.alone.predict(list(shown[index][:, None])))
        columns = np.searchsorted(best.field.classes_, predicted)
        right = int(np.sum(predicted == truth))
        drawn.append(
            sequence_strip(
                shown[index].reshape(-1, 8, 8),
                predicted,
                marginals[np.arange(len(predicted)), columns],
                truth,
                caption=f"Sequence {index + 1}: {right} of {len(truth)} right",
                notes=[
                    f"alone {b}" if a != b else ""
                    for a, b in zip(predicted, alone, strict=True)
                ],
            )
        )
    return drawn


def main(arguments: Sequence[str] | None = None) -> None:
    """Fit, print the table, write the report."""
    parser = argparse.ArgumentParser(
        description="Kernel fields on sequences of handwritten digits."
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("demo-report.html"),
        help="where the report goes",
    )
    parser.add_argument(
        "--fields", nargs="+", choices=FIELDS, default=list(FIELDS)
    )
    parser.add_argument(
        "--train", type=int, default=80, help="number of training sequences"
    )
    parser.add_argument(
        "--test", type=int, default=100, help="number of test sequences"
    )
    parser.add_argument(
        "--rank",
        type=int,
        default=400,
        help="basis functions of a field without explicit features",
    )
    options = parser.parse_args(arguments)
    console = Console()
    begin = time.perf_counter()
    train, test = digit_chains(options.train, options.test)
    results = compare_fields(
        options.fields, train, test, options.rank, console.print
    )
    # The last column, the chosen parameters, is left to the report: 80 characters have no room for it.
    shown = TerminalTable(
        title="Test digits read correctly, and how the fields were fitted",
        box=SIMPLE_HEAD,
    )
    for index, column in enumerate(COLUMNS[:-1]):
        shown.add_column(
            column, justify="right" if index else "left", no_wrap=index == 0
        )
    for result in results:
        shown.add_row(*result.cells()[:-1])
    console.print(shown)
    options.output.write_text(report(results, train, test), encoding="utf-8")
    console.print(
        f"Done in {time.perf_counter() - begin:.0f} seconds. Open in a browser:"
    )
    console.print(options.output.resolve().as_uri(), soft_wrap=True)


if __name__ == "__main__":
    main()
