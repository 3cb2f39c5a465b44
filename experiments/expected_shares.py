"""Few chunks are marked and nothing else: what does it bring to say how many tokens are in chunks?

    python -m experiments.expected_shares [--sentences 8936] [--page]

CoNLL-2000. One chunk in ten of the training sentences is marked, drawn at random, with its labels on all its tokens; of
every other token nothing is known, so that "O" is never seen, and all labels are declared. Two sparse linear fields see
these labels: one no more than them, and one the share of tokens that are in no chunk, too, as it is in the training
sentences: PartialLabels(expectations=[LabelShares({"O": share})]). How much the share counts is chosen on training
sentences: fitted on some, scored by entity F1 on others. Template and support are those of benchmarks/templates.py with
observed pairs, the prior variance is one, fits go to a relative gap of 1e-3.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from benchmarks.result_files import EXPERIMENTS, read_results, write_results
from benchmarks.templates import chunking
from experiments.result_pages import ResultPage, percent, points
from kernelfields import ChainCRF, LabelShares, PartialLabels
from kernelfields.evaluation.comparison import compare
from kernelfields.evaluation.entities import entity_f1_score

RESULTS = "expected_shares.json"
MARKED = 0.1
#: Sentences to fit to and to score on when the weight is chosen.
N_FIT, N_CHOOSE = 300, 300
#: What the share counts as, in labels for each token.
WEIGHTS = (0.01, 0.1, 1.0)


def marked(labels: list[str], random: np.random.Generator) -> list[str | None]:
    """Return the labels of some chunks, and None for all other tokens."""
    known: list[str | None] = []
    kept = False
    for label in labels:
        if not label.startswith("I-"):
            kept = label != "O" and random.random() < MARKED
        known.append(label if kept else None)
    return known


def fit(X: list, y: list, known: list, weight: float | None) -> tuple[ChainCRF, float]:
    """Fit to marked chunks, and the share of "O" in y if it has a weight; return field and processor seconds."""
    labels = np.concatenate(y)
    share = float(np.mean(labels == "O"))
    expected = [] if weight is None else [LabelShares({"O": share}, weight=weight * len(labels))]
    settings = PartialLabels(classes=np.unique(labels).tolist(), expectations=expected)
    begin = time.process_time()
    field = ChainCRF("linear", support="observed", prior_variance=1.0, partial_labels=settings, random_state=0)
    field.fit(X, known)
    return field, time.process_time() - begin


def choose(X: list, y: list, known: list) -> dict[str, float]:
    """Return entity F1 on training sentences that were not fitted to, for each weight."""
    held_out = slice(N_FIT, N_FIT + N_CHOOSE)
    scores = {}
    for weight in WEIGHTS:
        field, seconds = fit(X[:N_FIT], y[:N_FIT], known[:N_FIT], weight)
        scores[str(weight)] = float(entity_f1_score(y[held_out], field.predict(X[held_out])))
        print(f"  weight {weight:g} a token: F1 {100 * scores[str(weight)]:.1f}, {seconds:.0f} s", flush=True)
    return scores


def run(n_sentences: int) -> dict:
    """Choose the weight, fit both fields, and compare them on the test sentences."""
    begin = time.perf_counter()
    X, y = chunking("train")
    random = np.random.default_rng(0)
    known = [marked(labels, random) for labels in y]
    scores = choose(X, y, known)
    weight = float(max(scores, key=lambda each: scores[each]))
    X, y, known = X[:n_sentences], y[:n_sentences], known[:n_sentences]
    X_test, y_test = chunking("test")
    labels, fits = [], []
    for chosen in (None, weight):
        field, seconds = fit(X, y, known, chosen)
        labels.append(field.predict(X_test))
        outside = float(np.mean(np.concatenate(labels[-1]) == "O"))
        iterations = field.solution_.iterations
        fits.append({"weight": chosen, "seconds": seconds, "outside": outside, "iterations": iterations})
        print(f"  {fits[-1]}, F1 {100 * entity_f1_score(y_test, labels[-1]):.1f}", flush=True)
    return {
        "sentences": len(X),
        "tokens": sum(map(len, y)),
        "marked": float(np.mean([label is not None for each in known for label in each])),
        "share": float(np.mean(np.concatenate(y) == "O")),
        "test_share": float(np.mean(np.concatenate(y_test) == "O")),
        "scores": scores,
        "fits": fits,
        "comparison": compare(y_test, *labels, scheme="bio", random_state=0).to_dict(),
        "seconds": time.perf_counter() - begin,
    }


def write_page() -> None:
    """Write the page from the results."""
    (row,) = read_results(RESULTS, EXPERIMENTS)
    page = ResultPage(
        "expected_shares",
        "Expected shares of labels",
        command=f"kernelfields reproduce expected_shares -- --sentences {row['sentences']}",
        seconds=row["seconds"],
        machine="two cores that other work shared",
    )
    page.text((__doc__ or "").split("\n\n", 2)[2])
    page.text(
        f"Here {row['sentences']:,} training sentences were used, {row['tokens']:,} tokens, of which "
        f"{percent(row['marked'])} are marked and {percent(row['share'])} are in no chunk."
    )
    page.heading("The weight, on training sentences")
    page.text(f"Fitted to {N_FIT} sentences, scored on {N_CHOOSE} others.")
    page.table(["weight, in labels a token", "entity F1"], [[key, percent(f1)] for key, f1 in row["scores"].items()])
    page.heading("Test sentences")
    f1 = row["comparison"]["entity_f1"]
    page.table(
        ["field", "entity F1", 'predicted "O"', "processor seconds"],
        [
            [
                name,
                percent(f1[part]["value"], (f1[part]["low"], f1[part]["high"])),
                percent(each["outside"]),
                f"{each['seconds']:.0f}",
            ]
            for name, part, each in zip(
                ("marked chunks alone", "and the share of tokens in no chunk"),
                ("first", "second"),
                row["fits"],
                strict=True,
            )
        ],
    )
    page.text(
        f"The difference is {points(f1['difference'])} points of entity F1 (paired bootstrap over sentences). "
        f"{percent(row['test_share'])} of the test tokens are in no chunk."
    )
    page.write()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=8936, help="training sentences, all of them by default")
    parser.add_argument("--page", action="store_true", help="renew the page from the results that are there")
    arguments = parser.parse_args()
    if not arguments.page:
        write_results(RESULTS, [run(arguments.sentences)], EXPERIMENTS)
    write_page()


if __name__ == "__main__":
    main()
