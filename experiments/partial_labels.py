"""Labels that are partly known: letters and chunks with a share of their labels, against the runs that are known.

    python -m experiments.partial_labels letters [--folds 0 1 ...]     curves from 5 to 100 % of the letters
    python -m experiments.partial_labels chunks [--sentences N]        CoNLL-2000 with 30 % of the tokens labelled
    python -m experiments.partial_labels methods speed                 ways to fit, and their time against all labels
    python -m experiments.partial_labels --page                        the page alone, from the results

*Letters*: the small protocol, train on one fold and test on the other nine, with each letter of the training fold
labelled at random. Three fits: to the partly labelled words; to the runs of letters that are all labelled, cut out of
their words; and to all labels. The kernel is the cubic one of the small protocol; its prior variance is the same for
all three, and was not chosen by labels that a fit does not have. *Chunks*: each token of the training sentences
labelled at random; the usual template; the prior variance by the likelihood of what is known of a fifth of the
training sentences. Test labels serve for the figures alone.
"""

from __future__ import annotations

import argparse
import time
import warnings
from itertools import pairwise

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks.result_files import EXPERIMENTS, merge_results, read_results
from benchmarks.shared_data import ocr_letters
from benchmarks.templates import chunking
from experiments.pictures import shares_plot
from experiments.result_pages import ResultPage
from kernelfields import ChainCRF, PartialLabels
from kernelfields.evaluation.entities import entity_f1_score
from kernelfields.kernels.dot_product import Polynomial
from kernelfields.kernels.kernel import Normalized

SHARES = (0.05, 0.1, 0.2, 0.5, 1.0)
KERNEL = Normalized(Polynomial(3, gamma=0.25 / 3))
VARIANCE, RANK = 20.0, 1000
CHUNK_SHARE, CHUNK_VARIANCES = 0.3, (0.5, 1.5, 5.0)
FILE = "partial_labels.json"


def hide(y: list, share: float, seed: int) -> list[list]:
    """Return labels of which each is kept with the given probability, None in the place of the others."""
    random = np.random.default_rng(seed)
    return [[label if random.random() < share else None for label in labels] for labels in y]


def known_runs(X: list, y: list[list]) -> tuple[list, list]:
    """Return the runs of positions whose labels are all known, as sequences of their own."""
    inputs, labels = [], []
    for rows, partly in zip(X, y, strict=True):
        known = np.array([label is not None for label in partly])
        cuts = [0, *(np.flatnonzero(known[1:] != known[:-1]) + 1).tolist(), len(known)]
        for begin, end in pairwise(cuts):
            if known[begin]:
                inputs.append(rows[begin:end])
                labels.append(partly[begin:end])
    return inputs, labels


def letter_rows(folds: list[int]) -> list[dict]:
    """Return the errors of each fold and share."""
    X, y, fold = ocr_letters()
    rows = []
    for held in folds:
        train, test = np.flatnonzero(fold == held), np.flatnonzero(fold != held)
        X_train, X_test = [X[i] for i in train], [X[i] for i in test]
        y_train, y_test = [y[i].tolist() for i in train], [y[i] for i in test]
        for share in SHARES:
            partly = hide(y_train, share, seed=held)
            fits = {"partly": (X_train, partly)}
            if share < 1:
                fits["runs"] = known_runs(X_train, partly)
            row = {"part": "letters", "name": f"fold {held}", "share": share}
            for name, (inputs, labels) in fits.items():
                begin = time.perf_counter()
                crf = ChainCRF(KERNEL, rank=RANK, prior_variance=VARIANCE, random_state=0).fit(inputs, labels)
                row[f"{name}_seconds"] = time.perf_counter() - begin
                row[f"{name}_error"] = 1.0 - crf.score(X_test, y_test)
                row[f"{name}_stationarity"] = crf.stationarity_
            print(row, flush=True)
            rows.append(row)
    return rows


def chunk_rows(n_sentences: int | None) -> list[dict]:
    """Return F1 of chunks after a fit to a share of the tokens, the prior variance chosen by what is known of them."""
    (X, y), (X_test, y_test) = chunking("train"), chunking("test")
    X, y = X[:n_sentences], y[:n_sentences]
    partly = hide(y, CHUNK_SHARE, seed=0)
    held, classes = len(X) // 5, sorted({label for labels in y for label in labels})
    likelihoods = {}
    for variance in CHUNK_VARIANCES:
        judge = chunk_field(variance, 1e-2, classes)
        judge.fit(X[held:], partly[held:], X_dev=X[:held], y_dev=partly[:held])
        likelihoods[variance] = float(max(judge.dev_log_likelihoods_))
        print(f"prior variance {variance}: log-likelihood of what is known {likelihoods[variance]:.1f}", flush=True)
    chosen = max(likelihoods, key=likelihoods.__getitem__)
    rows = []
    for share, labels, variance in ((CHUNK_SHARE, partly, chosen), (1.0, y, chosen)):
        begin = time.perf_counter()
        crf = chunk_field(variance, classes=classes).fit(X, labels)
        seconds = time.perf_counter() - begin
        f1 = entity_f1_score(y_test, crf.predict(X_test))
        rows.append(
            {"part": "chunks", "name": f"{len(X)} sentences", "share": share, "f1": f1, "prior_variance": variance}
            | {"fit_seconds": seconds, "passes": crf.solution_.passes, "likelihoods": list(likelihoods.values())}
        )
        print(rows[-1], flush=True)
    return rows


def chunk_field(variance: float, tol: float = 1e-3, classes: list[str] | None = None) -> ChainCRF:
    """Return the usual field of chunks; ``classes`` are all labels, which a part of the labels may not show."""
    declared = PartialLabels(classes=classes)
    sparse = {"support": "observed", "decode": "viterbi", "random_state": 0}
    return ChainCRF("linear", prior_variance=variance, tol=tol, partial_labels=declared, **sparse)


def speed_rows() -> list[dict]:
    """Return seconds and passes of fits to partly known labels, by both methods, beside fits to all labels."""
    X, y, fold = ocr_letters()
    train = np.flatnonzero(fold == 0)
    letters = [X[i] for i in train], [y[i].tolist() for i in train]
    words = tuple(each[:2000] for each in chunking("train"))
    cases = {
        "letters, half of the labels": (
            letters,
            0.5,
            ChainCRF(KERNEL, rank=RANK, prior_variance=VARIANCE, random_state=0),
        ),
        "2,000 chunking sentences, 30 % of the labels": (words, CHUNK_SHARE, chunk_field(0.5)),
    }
    rows = []
    for name, ((inputs, labels), share, crf) in cases.items():
        partly = hide(labels, share, seed=0)
        for method, target in (("all labels", labels), ("direct", partly), ("em", partly)):
            seconds = []
            for _ in range(1 if method == "em" else 3):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    crf.set_params(partial_labels=PartialLabels("auto" if method == "all labels" else method))
                    begin = time.perf_counter()
                    crf.fit(inputs, target)
                    seconds.append(time.perf_counter() - begin)
            rows.append(
                {"part": "speed", "name": name, "share": method, "seconds": min(seconds)}
                | {"passes": crf.solution_.passes, "iterations": crf.n_iter_, "value": crf.solution_.value}
            )
            print(rows[-1], flush=True)
    return rows


def mean_figures(rows: list[dict], name: str) -> list[tuple[float, float, float] | None]:
    """Return mean, and mean less and plus two standard errors over folds, of a figure for each share."""
    figures: list = []
    for share in SHARES:
        values = np.array([row[name] for row in rows if row["share"] == share and name in row])
        spread = 2.0 * values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
        figures.append((values.mean(), values.mean() - spread, values.mean() + spread) if len(values) else None)
    return figures


def write_page() -> None:
    """Write the page from the results."""
    rows = read_results(FILE, EXPERIMENTS)
    letters = [row for row in rows if row["part"] == "letters"]
    seconds = sum(row.get("partly_seconds", 0) + row.get("runs_seconds", 0) + row.get("fit_seconds", 0) for row in rows)
    page = ResultPage(
        "partial_labels",
        "Labels that are partly known",
        command="python -m experiments.partial_labels",
        seconds=seconds,
    )
    page.text(
        "Each label of the training data is known with the probability named. Fitted to the partly labelled sequences, "
        "to the runs of labels that are all known, cut out as sequences of their own, and to all labels."
    )
    if letters:
        n_folds = len({row["name"] for row in letters})
        page.heading("Handwritten letters, small protocol")
        page.text(
            f"Train on one fold, test on the nine others; {n_folds} of ten training folds. Cubic kernel, rank {RANK}, "
            f"prior variance {VARIANCE:g} for all. The folds share their 55 words, so this is not how it would do on "
            "new words. Errors with two standard errors over folds; differences are paired."
        )
        body = []
        for share, partly, runs in zip(
            SHARES, mean_figures(letters, "partly_error"), mean_figures(letters, "runs_error"), strict=True
        ):
            both = [row for row in letters if row["share"] == share and "runs_error" in row]
            gains = np.array([row["runs_error"] - row["partly_error"] for row in both])
            spread = 2.0 * gains.std(ddof=1) / np.sqrt(len(gains)) if len(gains) > 1 else 0.0
            body.append(
                [
                    f"{share:.0%}",
                    shown(partly),
                    "" if runs is None else shown(runs),
                    gained(gains.mean(), spread) if len(gains) else "",
                    f"{(gains > 0).sum()} of {len(gains)}" if len(gains) else "",
                ]
            )
        page.table(
            ["letters labelled", "partly labelled words", "runs alone", "gain, points", "folds with a gain"], body
        )
        figures = {
            "partly labelled words": [as_figure(each) for each in mean_figures(letters, "partly_error")],
            "runs that are known": [as_figure(each) for each in mean_figures(letters, "runs_error")],
        }
        picture = shares_plot(SHARES, figures, name="letter error", axis="per cent of the letters labelled")
        page.picture("letters", picture, "Letter error against the share of letters that are labelled")
    chunks = [row for row in rows if row["part"] == "chunks"]
    if chunks:
        page.heading("CoNLL-2000 chunks")
        page.table(
            ["sentences", "tokens labelled", "F1", "prior variance", "passes", "fit, seconds"],
            [
                [
                    row["name"],
                    f"{row['share']:.0%}",
                    f"{100 * row['f1']:.2f}",
                    f"{row['prior_variance']:g}",
                    f"{row['passes']:.0f}",
                    f"{row['fit_seconds']:.0f}",
                ]
                for row in chunks
            ],
        )
        page.text(
            "The prior variance is the one under which what is known of a fifth of the training sentences is most "
            "likely."
        )
    speed = [row for row in rows if row["part"] == "speed"]
    if speed:
        page.heading("Ways to fit")
        whole = {row["name"]: row["seconds"] for row in speed if row["share"] == "all labels"}
        page.table(
            ["data", "fit", "seconds", "against all labels", "passes", "objective"],
            [
                [
                    row["name"],
                    row["share"],
                    f"{row['seconds']:.1f}",
                    f"{row['seconds'] / whole[row['name']]:.1f} x",
                    f"{row['passes']:.0f}",
                    f"{row['value']:.1f}",
                ]
                for row in speed
            ],
        )
        page.text(
            "Best of three, but for em. Direct is L-BFGS on the objective itself; em completes the labels and fits to "
            "them in turns."
        )
    page.write()


def shown(figure: tuple[float, float, float]) -> str:
    """Return an error with its interval, in per cent."""
    return f"{100 * figure[0]:.1f} % [{100 * figure[1]:.1f}, {100 * figure[2]:.1f}]"


def gained(mean: float, spread: float) -> str:
    """Return a gain with its interval, in points."""
    return f"{100 * mean:+.1f} [{100 * (mean - spread):+.1f}, {100 * (mean + spread):+.1f}]"


def as_figure(figure: tuple[float, float, float] | None) -> dict | None:
    """Return a figure as pictures take it."""
    return None if figure is None else {"value": figure[0], "low": figure[1], "high": figure[2]}


def main() -> None:
    """Run the parts that are asked for and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=["letters", "chunks", "speed"])
    parser.add_argument("--folds", nargs="+", type=int, default=list(range(10)))
    parser.add_argument("--sentences", type=int)
    parser.add_argument("--page", action="store_true", help="write the page alone")
    arguments = parser.parse_args()
    keys = ("part", "name", "share")
    if not arguments.page:
        for part in arguments.parts:
            rows = {
                "letters": lambda: letter_rows(arguments.folds),
                "chunks": lambda: chunk_rows(arguments.sentences),
                "speed": speed_rows,
            }[part]()
            merge_results(FILE, rows, keys, EXPERIMENTS)
    write_page()


if __name__ == "__main__":
    main()
