"""Label errors put into chunks, activities and proteins, and how many of them are found.

    python -m experiments.label_errors [chunks] [stretches]

chunks: 3 % of errors are put into the first 2,000 training sentences of CoNLL-2000: single labels drawn at random,
types of whole chunks, boundaries moved by one word (labels stay valid), boundaries of which one label alone changes,
and chunks dropped. stretches: 3 % of single labels, and stretches of ten labels over 5 % of the positions, in
activities and proteins. Positions are ranked out of fold (4 folds of items) by ``find_label_errors``, by marginals
p(y | x), and by conditionals p(y_t | x, all other given labels) of the same fields.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from sklearn.metrics import average_precision_score, roc_auc_score

from benchmarks.first_try import labelled, rfid_trials
from benchmarks.result_files import EXPERIMENTS, merge_results, read_results
from benchmarks.shared_data import token_columns
from benchmarks.templates import chunking
from experiments.result_pages import duration, table, write_page
from kernelfields import ChainCRF, find_label_errors
from kernelfields.evaluation import Span, entity_spans
from kernelfields.selection.held_out import LabelledItems

RESULTS = "label_errors.json"
SHARE, N_SENTENCES, N_FOLDS = 0.03, 2000, 4
KINDS = ("single labels", "types of chunks", "boundaries", "boundaries, one label", "dropped chunks")
TARGETS = dict(zip(KINDS, (0.97, 0.80, 0.58, 0.58, 0.58), strict=True))
METHODS = ("find_label_errors", "marginals", "conditionals")
STRETCH, STRETCHED = 10, 0.05
FIELD = ChainCRF("linear", support="observed", prior_variance=0.5, tol=1e-3, n_jobs=1, random_state=0)


def _moved(labels: list[str], span: Span, alone: bool, random: np.random.Generator) -> None:
    """Move one end of a chunk by one word, in place; ``alone``: change the label of that word and no other."""
    start, stop, kind = span.start, span.stop, span.type
    moves = (["end in", "start in"] if stop - start > 1 else []) + (["end out"] if stop < len(labels) else [])
    moves += ["start out"] if start else []
    if not moves:
        return
    move = moves[random.integers(len(moves))]
    if move == "end in":
        labels[stop - 1] = "O"
    elif move == "start in":
        labels[start] = "O"
        if not alone:
            labels[start + 1] = f"B-{kind}"
    elif move == "end out":
        labels[stop] = f"I-{kind}"
        if not alone and stop + 1 < len(labels) and labels[stop + 1].startswith("I-"):
            labels[stop + 1] = "B-" + labels[stop + 1][2:]
    else:
        labels[start - 1] = f"B-{kind}"
        if not alone:
            labels[start] = f"I-{kind}"


def put_errors(y: list[list[str]], kind: str, random: np.random.Generator) -> list[list[str]]:
    """Return labels with errors of a kind at a share of the positions, or of the chunks."""
    classes = sorted({label for labels in y for label in labels})
    types = sorted({label[2:] for label in classes} - {""})
    changed = [list(labels) for labels in y]
    for labels, own in zip(y, changed, strict=True):
        if kind == "single labels":
            for t in np.flatnonzero(random.random(len(own)) < SHARE):
                own[t] = str(random.choice([label for label in classes if label != own[t]]))
            continue
        for span in entity_spans(labels):
            if random.random() >= SHARE:
                continue
            length = span.stop - span.start
            if kind == "types of chunks":
                other = random.choice([name for name in types if name != span.type])
                own[span.start : span.stop] = [f"B-{other}"] + [f"I-{other}"] * (length - 1)
            elif kind == "dropped chunks":
                own[span.start : span.stop] = ["O"] * length
            else:
                _moved(own, span, kind == "boundaries, one label", random)
    return changed


def put_stretches(y: list[list[str]], random: np.random.Generator) -> list[list[str]]:
    """Return labels with stretches of ten, each of one label that none of the ten positions has."""
    classes, lengths = sorted({label for labels in y for label in labels}), np.array([len(labels) for labels in y])
    changed, free = [list(labels) for labels in y], [np.ones(len(labels), dtype=bool) for labels in y]
    for _ in range(round(STRETCHED * lengths.sum() / STRETCH)):
        item, first, others = 0, 0, list[str]()
        while not others:
            item = int(random.choice(len(y), p=lengths / lengths.sum()))
            first = int(random.integers(max(lengths[item] - STRETCH + 1, 1)))
            window = slice(first, first + STRETCH)
            if lengths[item] >= STRETCH and free[item][max(first - 3, 0) : first + STRETCH + 3].all():
                others = [label for label in classes if label not in y[item][window]]
        changed[item][window], free[item][window] = [str(random.choice(others))] * STRETCH, False
    return changed


def baselines(X: list, y: list, field: ChainCRF = FIELD) -> dict[str, np.ndarray]:
    """Return minus log marginals and conditionals of given labels, out of fold."""
    items = LabelledItems(X, y)
    folds = list(items.folds(N_FOLDS, None, np.random.default_rng(0)))
    found: dict[str, list] = {name: [np.zeros(0)] * len(y) for name in ("marginals", "conditionals")}
    for held_out in items.held_out(field, folds):
        answers = held_out.answers
        labels, rows, starts = answers.data.labels, np.arange(answers.data.n_positions), answers.family.offsets[:-1]
        node, edge = answers.node.copy(), answers.potentials.edge[0]
        inner = np.setdiff1d(rows, starts)
        node[inner] += edge[labels[inner - 1]]
        node[inner - 1] += edge[:, labels[inner]].T
        node -= node.max(axis=1, keepdims=True)
        given = np.exp(node[rows, labels]) / np.exp(node).sum(axis=1)
        for name, likely in (("marginals", answers.marginals[rows, labels]), ("conditionals", given)):
            values = np.split(-np.log(np.maximum(likely, 1e-300)), starts[1:])
            for item, own in zip(held_out.items.tolist(), values, strict=True):
                found[name][item] = own
    return {name: np.concatenate(values) for name, values in found.items()}


def run_chunks() -> None:
    """Put errors of each kind into sentences, find them, and keep the average precisions."""
    X, y = (values[:N_SENTENCES] for values in chunking("train"))
    for kind in KINDS:
        given = put_errors(y, kind, np.random.default_rng(1))
        wrong = np.concatenate([np.array(a) != np.array(b) for a, b in zip(given, y, strict=True)])
        start = time.perf_counter()
        errors = find_label_errors(FIELD, X, given, cv=N_FOLDS)
        seconds = time.perf_counter() - start
        scores = {"find_label_errors": np.concatenate(errors.position_scores), **baselines(X, given)}
        row: dict[str, Any] = {"part": "chunks", "kind": kind, "share": float(wrong.mean()), "seconds": seconds}
        row |= {name: float(average_precision_score(wrong, own)) for name, own in scores.items()}
        true = [
            any(wrong_of[first:last])
            for wrong_of, first, last in (
                ([a != b for a, b in zip(given[e.sequence], y[e.sequence], strict=True)], e.position, e.end)
                for e in errors.rows[:100]
            )
        ]
        row["first hundred"] = int(sum(true))
        merge_results(RESULTS, [row], ("part", "kind"), EXPERIMENTS)
        print(row, flush=True)


def run_stretches() -> None:
    """Put single labels and stretches of ten into activities and proteins, and find them."""
    readings, activities = (values[1::3] for values in rfid_trials())
    proteins = labelled(token_columns("first-try", "qian-sejnowski-train.tsv.gz"), 6)
    sensor = ChainCRF(rank=200, prior_variance=1.0, l1=0.0, tol=1e-3, n_jobs=1, random_state=0)
    sets = {
        "activities": (sensor, [x[:400] for x in readings], [labels[:400].tolist() for labels in activities]),
        "proteins": (FIELD, *proteins),
    }
    for name, (field, X, y) in sets.items():
        for kind in (KINDS[0], "stretches of ten"):
            random = np.random.default_rng(1)
            given = put_errors(y, kind, random) if kind == KINDS[0] else put_stretches(y, random)
            wrong = np.concatenate([np.array(a) != np.array(b) for a, b in zip(given, y, strict=True)])
            start = time.perf_counter()
            errors = find_label_errors(field, X, given, cv=N_FOLDS)
            seconds = time.perf_counter() - start
            scores = {"find_label_errors": np.concatenate(errors.position_scores), **baselines(X, given, field)}
            row: dict[str, Any] = {"part": "stretches", "kind": f"{name}, {kind}", "seconds": seconds}
            row["positions"], row["share"] = len(wrong), float(wrong.mean())
            for method, own in scores.items():
                first = np.argsort(-own, kind="stable")[: wrong.sum()]
                row[method] = {"AUC": float(roc_auc_score(wrong, own)), "first": float(wrong[first].mean())}
            merge_results(RESULTS, [row], ("part", "kind"), EXPERIMENTS)
            print(row, flush=True)


# ---- blocks of docs/results/label_errors.md


def _rows(part: str) -> list[dict]:
    return [row for row in read_results(RESULTS, EXPERIMENTS) if row["part"] == part]


def took() -> str:
    """Say how long finding took."""
    seconds = sum(row["seconds"] for row in _rows("chunks") + _rows("stretches"))
    return duration(seconds, "one core, the baselines not counted")


def chunks() -> str:
    """Return average precisions of errors in chunks."""
    own = {row["kind"]: row for row in _rows("chunks")}
    return table(
        ["errors", "positions", "target", *METHODS, "of the first 100"],
        [
            [kind, f"{100 * row['share']:.1f} %", f"{TARGETS[kind]:.2f}"]
            + [f"{row[name]:.3f}" for name in METHODS]
            + [row["first hundred"]]
            for kind in KINDS
            if (row := own.get(kind)) is not None
        ],
    )


def stretches() -> str:
    """Return AUC, and the share of wrong positions among the first, of single labels and stretches."""
    return table(
        ["set, errors", "positions", *METHODS],
        [
            [row["kind"], f"{row['positions']:,}"]
            + [f"{row[name]['AUC']:.3f} ({row[name]['first']:.2f})" for name in METHODS]
            for row in _rows("stretches")
        ],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=["chunks", "stretches"])
    for part in parser.parse_args().parts:
        {"chunks": run_chunks, "stretches": run_stretches}[part]()
    write_page("label_errors")


if __name__ == "__main__":
    main()
