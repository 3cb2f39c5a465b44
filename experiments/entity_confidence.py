"""How well probabilities of entities, positions and whole sentences are calibrated, before and after ``calibrate``.

    python -m experiments.entity_confidence [--sets chunks wnut] [--page]

Chunks of CoNLL-2000: a field is fitted to the first 6,000 training sentences and calibrated by the other 2,936.
Entities of WNUT17: fitted to its training part, calibrated by its development part, which is of other sources. Errors
are those of the test parts, in ten bins of equal width. ``--page`` only writes docs/results/entity_confidence.md.
"""

from __future__ import annotations

import argparse
import time

from sklearn.pipeline import make_pipeline

from benchmarks.result_files import EXPERIMENTS, merge_results, read_results
from benchmarks.shared_data import token_columns
from experiments.result_pages import ResultPage
from kernelfields import ChainCRF, TextFeatures, calibrate
from kernelfields.evaluation import entity_f1_score

RESULTS, N_FIT = "entity_confidence.json", 6000
METHODS = ("temperature", "labels", "isotonic")
Part = tuple[list, list]


def read(*parts: str) -> Part:
    """Return words, with their tags where there are any, and labels."""
    rows = token_columns(*parts)
    tagged = len(rows[0][0]) > 2
    words = [[(row[0], row[1]) if tagged else row[0] for row in own] for own in rows]
    return words, [[row[-1] for row in own] for own in rows]


def chunks() -> tuple[Part, Part, Part]:
    X, y = read("conll2000", "train.tsv.gz")
    return (X[:N_FIT], y[:N_FIT]), (X[N_FIT:], y[N_FIT:]), read("conll2000", "test.tsv.gz")


def wnut() -> tuple[Part, Part, Part]:
    train, dev, test = (read("first-try", f"wnut17-{part}.tsv.gz") for part in ("train", "dev", "test"))
    return train, dev, test


SETS = {"chunks": chunks, "wnut": wnut}


def known(part: Part, classes: list) -> Part:
    """Return the sentences whose labels the fit has seen."""
    kept = [(words, labels) for words, labels in zip(*part, strict=True) if set(labels) <= set(classes)]
    return [words for words, _ in kept], [labels for _, labels in kept]


def run(name: str) -> list[dict]:
    """Return a row for each method and what has a probability."""
    begin = time.perf_counter()
    train, held, test = SETS[name]()
    model = make_pipeline(TextFeatures(), ChainCRF(random_state=0)).fit(*train)
    classes = model[-1].classes_.tolist()
    held, test = known(held, classes), known(test, classes)
    f1 = entity_f1_score(test[1], model.predict(test[0]))
    rows = []
    for method in METHODS:
        for what, number, before, after in calibrate(model, *held, method=method).reliability(*test).rows:
            row = {"set": name, "method": method, "of": what, "number": number, "before": before, "after": after}
            rows.append({**row, "f1": f1, "seconds": time.perf_counter() - begin})
            print(
                f"{name}, {method}, {what}: {number:,}, error {before:.4f}, after {after:.4f}; F1 {f1:.4f}", flush=True
            )
    return rows


def write_page() -> None:
    """Write the page from the results."""
    rows = read_results(RESULTS, EXPERIMENTS)
    page = ResultPage(
        "entity_confidence",
        "Confidence of entities",
        command="python -m experiments.entity_confidence",
        seconds=sum(max(row["seconds"] for row in rows if row["set"] == name) for name in {row["set"] for row in rows}),
    )
    page.text(
        "Expected calibration error on the test parts: the mean distance, over ten bins, between the probability of "
        "the predicted label, entity or labelling and how often it is right. The fields are those of defaults on "
        "features of words (and tags, of chunks)."
    )
    names = {"chunks": "CoNLL-2000 chunks", "wnut": "WNUT17 entities"}
    page.table(
        ["set", "F1", "of", "number", "before", *METHODS],
        [
            [
                names[name],
                f"{own[0]['f1']:.4f}",
                what,
                f"{own[0]['number']:,}",
                f"{own[0]['before']:.4f}",
                *(f"{row['after']:.4f}" for method in METHODS for row in own if row["method"] == method),
            ]
            for name in SETS
            for what in ("positions", "entities", "labellings")
            if (own := [row for row in rows if (row["set"], row["of"]) == (name, what)])
        ],
    )
    page.text(
        "Held-out items must come from where the new ones come from: the development part of WNUT17 is of other "
        "sources than its test part, and so the calibration of its entities is that of other entities."
    )
    page.write()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="*", default=list(SETS), choices=list(SETS))
    parser.add_argument("--page", action="store_true", help="only write the page from the results")
    options = parser.parse_args()
    for name in () if options.page else options.sets:
        merge_results(RESULTS, run(name), ("set", "method", "of"), EXPERIMENTS)
    write_page()


if __name__ == "__main__":
    main()
