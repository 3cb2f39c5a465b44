"""The accuracies that the README shows, one line for each experiment, read from their results.

A line appears when its experiment has run; a cell stays empty where a kernel was not tried.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import mean

from benchmarks.result_files import EXPERIMENTS, read_results
from experiments import prominence_page
from experiments.kernel_families import accuracy_of, unpack_right
from experiments.result_pages import percent

KERNELS = ("linear", "degree 2", "degree 3", "RBF")
#: How the experiments call these kernels.
_PROMINENCE = (prominence_page.FIRST, "degree 2", "degree 3", "RBF")
_LETTERS = ("linear", "quadratic", "cubic", "rbf")


def lines() -> Iterator[list[str]]:
    """Yield task, accuracies by kernel, what is published elsewhere, page."""
    yield from _prominence()
    yield from _letters()
    yield from _proteins()
    yield from _gestures()
    yield from _nettalk()


def _line(task: str, cells: list[str], elsewhere: str, page: str) -> Iterator[list[str]]:
    if any(cells):
        yield [task, *cells, elsewhere, f"[{page}](docs/results/{page}.md)"]


def _prominence() -> Iterator[list[str]]:
    rows = read_results("prominence.json", EXPERIMENTS)
    for part, task in (
        ("figure", "prominent words, 500 English sentences, 5-fold"),
        ("afrikaans", "prominent words, Afrikaans, 5-fold"),
    ):
        found = prominence_page.figures(rows, part, prominence_page.ORDER, prominence_page.FIRST)
        cells = [percent(found[name]["accuracy"]["value"]) if name in found else "" for name in _PROMINENCE]
        yield from _line(task, cells, "", "prominence")


def _letters() -> Iterator[list[str]]:
    for protocol in ("small", "large"):
        rows = read_results(f"ocr_{protocol}.json", EXPERIMENTS)
        cells = []
        for family in _LETTERS:
            errors = [row["error"] for row in rows if row["family"] == family]
            cells.append(percent(1 - mean(errors) / 100) if errors else "")
        yield from _line(f"handwritten letters, {protocol}", cells, "", "ocr_letters")


def _proteins() -> Iterator[list[str]]:
    found = {row["family"]: row for row in read_results("proteins.json", EXPERIMENTS)}
    cells = [percent(found[name]["accuracy"]["value"]) if name in found else "" for name in KERNELS]
    yield from _line("protein secondary structure, blind set", cells, "RBF-SVM 68.7 %", "proteins")


def _gestures() -> Iterator[list[str]]:
    rows = read_results("gestures.json", EXPERIMENTS)
    cells = []
    for family in KERNELS:
        own = [row for row in rows if row["family"] == family]
        right = [video for row in own for video in unpack_right(row["right"])]
        cells.append(percent(accuracy_of(right)["accuracy"]["value"]) if len(own) == 3 else "")
    yield from _line("gesture phases, a person left out", cells, "", "gestures")


def _nettalk() -> Iterator[list[str]]:
    rows = read_results("nettalk.json", EXPERIMENTS)
    found = {row["family"]: row for row in rows if row["target"] == "phoneme"}
    cells = [percent(found[name]["accuracy"]["value"]) if name in found else "" for name in KERNELS]
    yield from _line("letters to phonemes, 1,000 common words to learn from", cells, "", "nettalk")


def graph_lines() -> Iterator[list[str]]:
    """Yield task, field, accuracy and page of the experiments on graphs."""
    found = {row["model"]: row for row in read_results("snakes.json", EXPERIMENTS)}
    for model in ("no edges", "plain edges", "directional edges"):
        if model in found:
            cells = percent(found[model]["accuracy"]["value"])
            yield ["snakes on grids, cells right", model, cells, "[snakes](docs/results/snakes.md)"]
    for row in read_results("multilabel.json", EXPERIMENTS):
        if row["model"] in ("none", "tree", "full", "learn"):
            likelihood = mean(map(float, row["log_likelihoods"].split()))
            right = mean(map(int, row["right"]))
            yield [
                f"{row['set']}, all labels of an instance right; log-likelihood",
                {"none": "independent labels", "learn": "learnt graph"}.get(row["model"], f"{row['model']} graph"),
                f"{percent(right)}; {likelihood:.2f}",
                "[multilabel](docs/results/multilabel.md)",
            ]


def best_lines() -> Iterator[list[str]]:
    """Yield task, what was joined, result, what is published elsewhere, page, of the best that was chosen."""
    for row in read_results("protein_stack.json", EXPERIMENTS):
        if row.get("chosen"):
            yield [
                "protein secondary structure, blind set",
                "averaged fields, a second pass over marginals",
                percent(row["blind"]["value"]),
                "RBF-SVM 68.7 %",
                "[proteins](docs/results/proteins.md)",
            ]
    page = "[embeddings](docs/results/embeddings.md)"
    tested = [row for row in read_results("chunking_embeddings.json", EXPERIMENTS) if row["part"] == "test"]
    if tested:
        best = max(tested, key=lambda row: row["f1"])
        yield [
            "CoNLL-2000 chunks, F1",
            "usual template, outputs of a tuned encoder",
            f"{best['f1']:.1f}",
            "94.2 without a network",
            page,
        ]
    rows = read_results("prominence_embeddings.json", EXPERIMENTS)
    for labels, elsewhere in ((2, "CRF 81.8 %, BERT 83.2 %"), (3, "CRF 66.4 %, BERT 68.6 %")):
        name = "tuned, features, words"
        found = prominence_page.figures(rows, f"release {labels}", (name,), name)
        if name in found:
            yield [
                f"prominent English words, {labels} labels",
                "our features, words, outputs of a tuned encoder",
                percent(found[name]["accuracy"]["value"]),
                f"{elsewhere}, on twenty times as much",
                page,
            ]
