"""A report with every picture the library draws, on data made from a seed, in a few seconds.

Names. Sentences are put together from patterns such as "PER flew from LOC to LOC"; some names, such as Jordan, are
of persons and of places. A linear field with BIO constraints labels the words.

Signs. Labels +1 and -1 follow a sticky chain, and inputs are points of the plane with x_1 x_2 of the sign of the
label, under noise. A linear kernel cannot see the product; a quadratic one can. Fields of degrees 1 to 3 and RBF
are compared, and RBF with bases of rising rank, each with its exact certificate over the RKHS.

Run: python examples/report_gallery.py [--output report-gallery.html] [--pictures FOLDER]
With --pictures the pictures are written as PNG, too.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kernelfields import ChainCRF
from kernelfields.evaluation import Evaluation, evaluate
from kernelfields.kernels import RBF, Linear, Polynomial
from kernelfields.reports import (
    Picture,
    Table,
    plot_convergence,
    plot_reliability,
    plot_sequence,
    plot_transitions,
    report_page,
)
from kernelfields.reports.figures import decade_axis, logarithmic, look, panels, tick_labels, whiskers

PERSONS = ["Ada Lovelace", "Jordan", "Emmy Noether", "Grace Hopper", "Paris", "Alan Turing", "Sofia", "Kurt"]
PLACES = ["London", "Jordan", "Paris", "New York", "Göttingen", "Sofia", "Cape Town", "Oslo"]
PATTERNS = [
    "PER flew from LOC to LOC .",
    "PER met PER in LOC",
    "LOC is far from LOC , said PER .",
    "yesterday PER wrote to PER .",
    "it rained in LOC",
    "PER of LOC and PER of LOC won the prize for a long paper on small matters .",
]
KERNELS: dict[Any, Any] = {1: Linear(), 2: Polynomial(2), 3: Polynomial(3), "RBF": RBF(0.5)}
RANKS = [4, 8, 16, 32, 64, 128]


def draw_sentences(n_sentences: int, random: np.random.Generator) -> tuple[list[list[str]], list[list[str]]]:
    """Return words and BIO labels of sentences."""
    sentences, labels = [], []
    for _ in range(n_sentences):
        words: list[str] = []
        tags: list[str] = []
        for part in str(random.choice(PATTERNS)).split():
            if part in ("PER", "LOC"):
                name = str(random.choice(PERSONS if part == "PER" else PLACES)).split()
                words += name
                tags += [f"B-{part}", *[f"I-{part}"] * (len(name) - 1)]
            else:
                words.append(part)
                tags.append("O")
        sentences.append(words)
        labels.append(tags)
    return sentences, labels


def word_features(words: Sequence[str]) -> list[dict[str, Any]]:
    """Return the features of each word: itself, its ending, a capital, and the word before it."""
    return [
        {"word": word, "ending": word[-2:], "capital": word[0].isupper(), "before": words[t - 1] if t else "<s>"}
        for t, word in enumerate(words)
    ]


def draw_signs(n_sequences: int, random: np.random.Generator) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return points of the plane whose product of coordinates has the sign of the label, under noise."""
    X, y = [], []
    for _ in range(n_sequences):
        flips = random.random(12) < 0.25
        labels = np.where(np.cumsum(flips) % 2 == 0, 1, -1) * random.choice([-1, 1])
        points = random.normal(size=(12, 2))
        points[:, 1] = np.abs(points[:, 1]) * np.sign(points[:, 0]) * labels
        X.append(points + 0.5 * random.normal(size=points.shape))
        y.append(labels)
    return X, y


def evaluated(field: ChainCRF, X: list, y: list, **options: Any) -> Evaluation:
    """Return all displays of a field on test sequences."""
    return evaluate(
        y,
        field.predict(X),
        marginals=field.predict_marginals(X),
        classes=field.classes_,
        log_likelihood=field.log_likelihood(X, y, per_item=True),
        n_resamples=300,
        random_state=0,
        **options,
    )


def study_degrees(train: tuple, test: tuple) -> list[Any]:
    """Return the token accuracy of each of KERNELS, with its interval."""
    fields = [ChainCRF(kernel, rank=100, n_jobs=1, random_state=0).fit(*train) for kernel in KERNELS.values()]
    return [evaluated(field, *test).accuracy for field in fields]


def study_ranks(train: tuple, test: tuple) -> tuple[list[Any], list[float]]:
    """Return token accuracy and relative gap over the RKHS of an RBF field for each of RANKS."""
    accuracies, gaps = [], []
    for rank in RANKS:
        field = ChainCRF(RBF(0.5), rank=rank, basis="greedy-cholesky", n_jobs=1, random_state=0).fit(*train)
        accuracies.append(evaluated(field, *test).accuracy)
        gaps.append(field.certify(*train).relative_gap)
    return accuracies, gaps


def draw_accuracies(panel: Any, places: Sequence[float], accuracies: Sequence[Any], **style: Any) -> None:
    """Draw accuracies with their intervals."""
    values, low, high = np.array([(each.value, each.low, each.high) for each in accuracies]).T
    whiskers(panel, places, values, (low, high), **{**look(0), **style})
    panel.set_ylabel("token accuracy")


def degree_picture(accuracies: Sequence[Any]) -> Picture:
    """Draw accuracy against degree: a picture of one's own, drawn by matplotlib in the style of the report."""
    with panels(None, "token accuracy against degree", (6.4, 3.2)) as picture:
        (panel,) = picture.axes
        draw_accuracies(panel, range(len(KERNELS)), accuracies, linestyle="none")
        tick_labels(panel.xaxis, range(len(KERNELS)), list(KERNELS))
        panel.set(xlim=(-0.5, len(KERNELS) - 0.5), xlabel="degree")
    return picture


def rank_picture(accuracies: Sequence[Any], gaps: Sequence[float]) -> Picture:
    """Draw accuracy and relative gap against rank."""
    with panels(None, "token accuracy and relative gap against rank", (6.4, 4.6), (1, 1)) as picture:
        upper, lower = picture.axes
        draw_accuracies(upper, RANKS, accuracies)
        lower.plot(RANKS, gaps, **look(0))
        decade_axis(lower, gaps)
        logarithmic(lower, "x", RANKS[0], RANKS[-1])
        tick_labels(lower.xaxis, RANKS, RANKS)
        lower.set(xlabel="rank", ylabel="relative gap")
    return picture


def main(arguments: Sequence[str] | None = None) -> None:
    """Fit, evaluate, write the report."""
    parser = argparse.ArgumentParser(description="A report with every picture the library draws.")
    parser.add_argument("--output", type=Path, default=Path("report-gallery.html"), help="where the report goes")
    parser.add_argument("--pictures", type=Path, help="also write the pictures as PNG into this folder")
    options = parser.parse_args(arguments)

    random = np.random.default_rng(0)
    (words, labels), (test_words, test_labels) = (draw_sentences(n, random) for n in (60, 80))
    field = ChainCRF("linear", constraints="bio", tol=1e-4, n_jobs=1)
    field.fit([word_features(each) for each in words], labels)
    X_test = [word_features(each) for each in test_words]
    evaluation = evaluated(field, X_test, test_labels, scheme="bio")
    sequences = [
        field.show(X_test[i], test_labels[i], tokens=test_words[i], caption=f"Sentence {i + 1}") for i in range(8)
    ]

    train, test = (draw_signs(n, random) for n in (40, 60))
    accuracies = study_degrees(train, test)
    degrees, ranks = degree_picture(accuracies), rank_picture(*study_ranks(train, test))
    report = report_page(
        "Names in sentences, and signs in the plane",
        model=field.summary(),
        evaluation=evaluation,
        weights=field.weights(top=6),
        sequences=sequences,
        sections={
            "Signs: what the degree of the kernel does": degrees,
            "Signs: what the rank of the basis does": ranks,
            "Signs: the same in numbers": Table(
                ("kernel", "token accuracy"),
                [(str(degree), f"{each:.3f}") for degree, each in zip(KERNELS, accuracies, strict=True)],
            ),
        },
        footer="Made by examples/report_gallery.py.",
    )
    options.output.write_text(report, encoding="utf-8")
    if options.pictures:
        drawn = {
            "convergence": plot_convergence(field.solution_, tol=1e-3),
            "transitions": plot_transitions(field.transitions_, field.classes_, field.summary().forbidden),
            "reliability": plot_reliability(evaluation.calibration),
            "sequence": plot_sequence(sequences[5]),
            "degrees": degrees,
            "ranks": ranks,
        }
        options.pictures.mkdir(parents=True, exist_ok=True)
        for name, picture in drawn.items():
            picture.savefig(options.pictures / f"{name}.png", dpi=150)
    print(f"Open in a browser: {options.output.resolve().as_uri()}")


if __name__ == "__main__":
    main()
