"""Proteins once more, on a GPU: averages of many fields, and fields whose inputs are the marginals of others.

    python -m experiments.protein_stack --marginals FOLDER [--workers 14] [--first-seconds S] [--seconds S]
    python -m experiments.protein_stack --marginals FOLDER --choose

First pass: fields on weighted windows of the profile (experiments/protein_inputs.py), most of them with labels that
know where a segment begins and ends. Second pass: fields on windows of the mean marginals of the first beside the
profile. Each is fitted six times: to four of the five folds that come with the data, for its marginals on the fifth,
and to all training proteins; its marginals on blind proteins are the mean of the six. Several fits run side by side,
as one alone leaves the device idle most of the time; set OMP_NUM_THREADS=1, and start nvidia-cuda-mps-control -d so
that they share the device rather than take turns.

Windows, the weights in them and finer labels were tried on one fold before, with fields fitted to the other four.
Then fields are averaged: again and again the one is added, repeats allowed, that makes the accuracy of the average
over the five folds highest. What is best over the folds is marked as chosen; blind proteins choose nothing. What the
second pass is fitted to comes from fields that saw the fold it is tried on: its accuracies over the folds are not
quite clean, those on blind proteins are.

``--first-seconds`` and ``--seconds`` end the first pass and the run early, for devices that are lent; the fields that
were complete by then are what there is. Marginals are kept in FOLDER, and ``--choose`` only averages again.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import queue
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.result_files import EXPERIMENTS, read_results, write_results
from experiments.kernel_families import accuracy_of
from experiments.protein_fields import FIRST, SECOND, Field
from experiments.protein_inputs import Proteins, by_state, labels, read_proteins
from experiments.result_pages import estimate, percent, table

RESULTS = "protein_stack.json"
MARGINALS, SECONDS = "first.npz", "seconds.txt"
FIELDS_A_FILE = 10
AVERAGED = 30
FOLDS = range(5)


@dataclass(frozen=True)
class Job:
    """One fit of a field: to all folds but one, or to all."""

    name: str
    fold: int | None


@dataclass
class Outcome:
    """What a fit says of the residues that it did not see."""

    job: Job
    classes: np.ndarray
    held: np.ndarray | None
    blind: np.ndarray
    record: dict[str, Any]


def fields() -> dict[str, Field]:
    """Return the fields of both passes."""
    return {**FIRST, **SECOND}


def fit(job: Job, train: Proteins, blind: Proteins, given: argparse.Namespace) -> Outcome:
    """Fit a field and return its marginals on the fold that it did not see and on blind proteins."""
    field = fields()[job.name]
    first = None
    if field.passes == 2:
        with np.load(given.marginals / MARGINALS) as archive:
            first = {key: archive[key] for key in archive.files}
    X, X_blind = field.inputs(train, blind, first)
    y = labels(train, field.labels)
    rows = np.flatnonzero(train.fold != (-1 if job.fold is None else job.fold))
    begin = time.perf_counter()
    crf = field.crf(given.engine, seed=0 if job.fold is None else job.fold + 1)
    crf.fit([X[i] for i in rows], [y[i] for i in rows])
    held = None
    if job.fold is not None:
        unseen = [X[i] for i in np.flatnonzero(train.fold == job.fold)]
        held = np.concatenate(crf.predict_marginals(unseen)).astype(np.float16)
    return Outcome(
        job,
        crf.classes_,
        held,
        np.concatenate(crf.predict_marginals(X_blind)).astype(np.float16),
        {"seconds": time.perf_counter() - begin, "iterations": crf.solution_.iterations},
    )


def work(tasks: Any, outcomes: Any, given: argparse.Namespace) -> None:
    """Fit what is asked for until None comes; a fit that fails answers with what was wrong."""
    warnings.simplefilter("ignore")  # tolerances are coarse on purpose
    train, blind = read_proteins("train", given.proteins), read_proteins("blind")
    while (job := tasks.get()) is not None:
        try:
            outcomes.put(fit(job, train, blind, given))
        except (ArithmeticError, MemoryError, RuntimeError, ValueError) as error:  # others may well fit
            outcomes.put((job, f"{type(error).__name__}: {error}"))
        if given.engine == "torch":
            import torch

            torch.cuda.empty_cache()


class Collection:
    """Marginals of fields: of complete ones by state, on disk as they come in; while fits go on, of finer labels."""

    def __init__(self, folder: Path, train: Proteins, blind: Proteins):
        self.folder, self.train = folder, train
        self.shape = (FIELDS_A_FILE, len(train.states) + len(blind.states), 3)
        self.parts: dict[str, dict[int | None, Outcome]] = {}
        self.finer: dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}
        self.names: list[str] = []
        self._file: Any = None

    def add(self, outcome: Outcome) -> bool:
        """Take the outcome of a fit; True if it was the last of its field."""
        parts = self.parts.setdefault(outcome.job.name, {})
        parts[outcome.job.fold] = outcome
        if len(parts) < len(FOLDS) + 1:
            return False
        self._complete(outcome.job.name, self.parts.pop(outcome.job.name))
        return True

    def _complete(self, name: str, parts: dict[int | None, Outcome]) -> None:
        classes = next(iter(parts.values())).classes
        held = np.empty((len(self.train.states), len(classes)), dtype=np.float32)
        for number in FOLDS:
            held[self.train.fold_of_residues == number] = parts[number].held
        blind = np.mean([part.blind for part in parts.values()], axis=0, dtype=np.float32)
        self.finer[name] = classes, held, blind
        place = len(self.names) % FIELDS_A_FILE
        if place == 0:
            path = self.folder / f"marginals-{len(self.names) // FIELDS_A_FILE}.npy"
            self._file = np.lib.format.open_memmap(path, mode="w+", dtype=np.float16, shape=self.shape)
        self._file[place] = by_state(np.concatenate([held, blind]), classes)
        self._file.flush()
        self.names.append(name)
        (self.folder / "names.txt").write_text("\n".join(self.names) + "\n")

    def write_means(self) -> None:
        """Write what the second pass sees: means of the marginals of states, and of those of their ends."""
        means = {}
        states = [(by_state(held, classes), by_state(blind, classes)) for classes, held, blind in self.finer.values()]
        ends = [
            (held, blind) for name, (_, held, blind) in self.finer.items() if fields()[name].labels == "ends"
        ] or states
        for key, parts in (("states", states), ("ends", ends)):
            for part, arrays in zip(("train", "blind"), zip(*parts, strict=True), strict=True):
                means[f"{key}_{part}"] = np.mean(arrays, axis=0)
        np.savez(self.folder / MARGINALS, **means)


def run(given: argparse.Namespace) -> None:
    """Fit all fields, the first pass and then the second, a few at a time."""
    begin = time.perf_counter()
    train, blind = read_proteins("train", given.proteins), read_proteins("blind")
    collection = Collection(given.marginals, train, blind)
    context = multiprocessing.get_context("spawn")
    tasks, outcomes = context.Queue(), context.Queue()
    arguments = (tasks, outcomes, given)
    workers = [context.Process(target=work, args=arguments, daemon=True) for _ in range(given.workers)]
    for worker in workers:
        worker.start()
    waiting, idle, second = jobs_of(FIRST), given.workers, False
    while True:
        seconds = time.perf_counter() - begin
        if not second and (seconds > given.first_seconds or (not waiting and idle == given.workers)):
            print(f"{seconds:6.1f} s  first pass: {len(collection.names)} fields", flush=True)
            collection.write_means()
            started = [job for job in waiting if job.name in collection.parts]
            waiting, second = started + jobs_of(SECOND), True
        while idle and waiting:
            tasks.put(waiting.pop(0))
            idle -= 1
        if (idle == given.workers and second) or seconds > given.seconds:
            break
        try:
            outcome = outcomes.get(timeout=1.0)
        except queue.Empty:
            continue
        idle += 1
        report(time.perf_counter() - begin, collection, outcome, train)
    (given.marginals / SECONDS).write_text(f"{time.perf_counter() - begin:.1f}\n")
    for worker in workers:
        worker.kill()


def jobs_of(some: dict[str, Field]) -> list[Job]:
    """Return the six fits of each field."""
    return [Job(name, fold) for name in some for fold in (*FOLDS, None)]


def report(seconds: float, collection: Collection, outcome: Any, train: Proteins) -> None:
    """Take an outcome and print a line where a field is complete or a fit failed."""
    if not isinstance(outcome, Outcome):
        print(f"{seconds:6.1f} s  failed: {outcome}", flush=True)
    elif collection.add(outcome):
        name = outcome.job.name
        classes, held, _ = collection.finer[name]
        right = accuracy(by_state(held, classes), train.states)
        print(f"{seconds:6.1f} s  {name:44} folds {right:.4f}  last fit {outcome.record}", flush=True)


def accuracy(marginals: np.ndarray, states: np.ndarray) -> float:
    """Return the share of residues whose most probable state is right."""
    return float((marginals.argmax(axis=1) == states).mean())


def averaged(held: np.ndarray, states: np.ndarray) -> np.ndarray:
    """Return how often each field is taken into the best average found on the way."""
    total, taken, path = np.zeros(held.shape[1:], dtype=np.float32), [], []
    for _ in range(AVERAGED):
        rights = [accuracy(total + each, states) for each in held]
        taken.append(int(np.argmax(rights)))
        path.append(max(rights))
        total += held[taken[-1]]
    return np.bincount(taken[: int(np.argmax(path)) + 1], minlength=len(held))


def choose(folder: Path) -> None:
    """Average the fields by their accuracy over the folds; only then look at the blind proteins."""
    train, blind = read_proteins("train"), read_proteins("blind")
    names = (folder / "names.txt").read_text().splitlines()
    files = sorted(folder.glob("marginals-*.npy"))
    stored = np.concatenate([np.load(path) for path in files])[: len(names)].astype(np.float32)
    held, tested = stored[:, : len(train.states)], stored[:, len(train.states) :]
    passes = np.array([fields()[name].passes for name in names])
    rows = []

    def note(name: str, weights: np.ndarray, **more: Any) -> None:
        folds = accuracy(np.tensordot(weights, held, 1), train.states)
        right = np.tensordot(weights, tested, 1).argmax(axis=1) == blind.states
        figures = accuracy_of(blind.split(right.astype(int)))["accuracy"]
        rows.append({"field": name, "folds": folds, "blind": figures, **more})
        print(f"{name:48} folds {folds:.4f}   blind {estimate(figures)}")

    for number, name in enumerate(names):
        note(name, np.eye(len(names))[number], passes=int(passes[number]))
    for text, some in (("first pass", passes == 1), ("second pass", passes == 2), ("both passes", passes > 0)):
        if some.any():
            note(f"mean, {text}", some / some.sum(), of=int(some.sum()))
            weights = np.zeros(len(names))
            weights[some] = averaged(held[some], train.states)
            members = {name: int(weight) for name, weight in zip(names, weights, strict=True) if weight}
            note(f"chosen average, {text}", weights / weights.sum(), members=members)
    best = max(rows, key=lambda row: row["folds"])
    best.update(chosen=True, seconds=float((folder / SECONDS).read_text()))
    print(f"chosen over the folds: {best['field']}, blind Q3 {percent(best['blind']['value'])}")
    write_results(RESULTS, rows, EXPERIMENTS)


def fields_fitted() -> str:
    rows = read_results(RESULTS, EXPERIMENTS)
    seconds = next(row["seconds"] for row in rows if row.get("chosen"))
    return (
        f"`python -m experiments.protein_stack --marginals FOLDER` fits {sum('passes' in row for row in rows)} fields, "
        f"six times each, in {seconds / 60:.0f} minutes on one H200."
    )


def averages() -> str:
    rows = read_results(RESULTS, EXPERIMENTS)
    singles = [max((r for r in rows if r.get("passes") == n), key=lambda r: r["folds"]) for n in (1, 2)]
    shown = [{**row, "field": f"best single: {row['field']}"} for row in singles]
    shown += [row for row in rows if "passes" not in row]
    lines = [[row["field"], percent(row["folds"]), estimate(row["blind"])] for row in shown]
    return table(["field", "over the folds", "Q3 on the blind set"], lines)


def chosen() -> str:
    rows = read_results(RESULTS, EXPERIMENTS)
    best = next(row for row in rows if row.get("chosen"))
    singles = [row["blind"]["value"] for row in rows if "passes" in row]
    return (
        f'Over the folds, the best is "{best["field"]}", with a Q3 of {estimate(best["blind"])}. Single fields have '
        f"{percent(min(singles))} to {percent(max(singles))}."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--marginals", type=Path, required=True, help="folder for the marginals of the fields")
    parser.add_argument("--choose", action="store_true", help="only average what the folder holds")
    parser.add_argument("--engine", default="torch", choices=["torch", "threads"])
    parser.add_argument("--workers", type=int, default=14, help="fits at a time")
    parser.add_argument("--first-seconds", type=float, default=np.inf)
    parser.add_argument("--seconds", type=float, default=np.inf)
    parser.add_argument("--proteins", type=int, help="so many training proteins, to try the script")
    given = parser.parse_args()
    os.makedirs(given.marginals, exist_ok=True)
    if not given.choose:
        run(given)
    if not given.proteins:
        choose(given.marginals)


if __name__ == "__main__":
    main()
