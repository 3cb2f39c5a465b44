"""Sparse linear fields against CRFsuite: time to the same loss, tagging, memory, accuracy.

    python -m benchmarks.crfsuite_speed [--sets chunking tagging] [--l1] [--sentences N] [--candidates LOSS]

CRFsuite is trained first, to its own stop; our fit is stopped at the first iteration whose objective is within
0.01 % of its final loss. Both run on the same features in the same process, and both times are after ingest: for
us, the time of ``fit`` less that of the same ingest measured by itself. The features are those of templates.py:
CoNLL-2000 chunking (c2 = 1), UD English EWT part-of-speech tags. --l1 adds an elastic net (c1 = c2 = 0.1, the
values of sklearn-crfsuite's tutorial). --candidates compares ways to the same loss on chunking: plain L-BFGS,
Newton-CG, a stochastic start.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pycrfsuite
import scipy.sparse

from benchmarks.fit_parts import parts_of_fit
from benchmarks.measuring import added_memory, in_process
from benchmarks.result_files import merge_results
from benchmarks.templates import chunking, tagging
from kernelfields import ChainCRF
from kernelfields.data.readers import InputReader
from kernelfields.evaluation import entity_f1_score, token_accuracy
from kernelfields.objective.posterior import LogPosterior
from kernelfields.solvers.lbfgs import LBFGS, StochasticStart

WITHIN = 1e-4
SETS = {"chunking": chunking, "tagging": tagging}


def train_crfsuite(X: list, y: list, path: str, c1: float, c2: float, max_iterations: int | None = None) -> dict:
    """Train CRFsuite to its own stop; return seconds of ingest and of training, loss, iterations."""
    trainer = pycrfsuite.Trainer(verbose=False)
    begin = time.perf_counter()
    for inputs, labels in zip(X, y, strict=True):
        trainer.append(inputs, labels)
    ingested = time.perf_counter()
    trainer.set_params({"c1": c1, "c2": c2})
    if max_iterations is not None:
        trainer.set_params({"max_iterations": max_iterations})
    trainer.train(path)
    done = time.perf_counter()
    last = trainer.logparser.last_iteration
    return {
        "ingest": ingested - begin,
        "seconds": done - ingested,
        "loss": last["loss"],
        "iterations": last["num"],
        "active": last["active_features"],
    }


def field(c1: float, c2: float, **parameters: object) -> ChainCRF:
    """Return the estimator with CRFsuite's objective."""
    variance = 1.0 / (2.0 * c2) if c2 else np.inf
    settings = {"support": "observed", "tol": 1e-9, "max_iter": 2000, "random_state": 0, **parameters}
    return ChainCRF("linear", l1=c1, prior_variance=variance, **settings)


def count_weights(part: object) -> int:
    """Return how many coefficients are not zero, dense or sparse."""
    return int(np.count_nonzero(part.data if scipy.sparse.issparse(part) else part))


def fit_to_loss(X: list, y: list, loss: float, c1: float, c2: float, **parameters: object) -> dict:
    """Fit until the objective is within WITHIN of ``loss``; return seconds after ingest, passes, the estimator."""
    begin = time.perf_counter()
    InputReader().learn(X, y, keep_zeros=True)
    ingested = time.perf_counter()
    reached: list[float] = []

    def stop(iteration: object) -> bool:
        reached.append(iteration.value)
        return iteration.value <= loss * (1 + WITHIN)

    estimator = field(c1, c2, callbacks=[stop], **parameters)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator.fit(X, y)
    total = time.perf_counter() - ingested
    ingest = ingested - begin
    return {
        "ingest": ingest,
        "seconds": total - ingest,
        "loss": reached[-1],
        "reached": bool(reached[-1] <= loss * (1 + WITHIN)),
        "iterations": estimator.solution_.iterations,
        "passes": estimator.solution_.passes,
        "solver": estimator.solution_.solver,
        "active": sum(count_weights(part) for part in estimator.coef_.values()),
        "estimator": estimator,
    }


def same_objective(X: list, y: list, model: str, loss: float, c2: float) -> tuple[float, float]:
    """Return the relative difference of our objective at CRFsuite's weights, and the largest one of marginals."""
    tagger = pycrfsuite.Tagger()
    tagger.open(model)
    info = tagger.info()
    training, sample, designs = parts_of_fit(ChainCRF("linear", prior_variance=1.0 / (2.0 * c2)), X, y)
    # Weights for all pairs of features and labels, not for contrasts: what CRFsuite leaves out is zero there.
    designs = [sample.design(replace(design.term, label_factor=None)) for design in designs]
    chains, classes = training.data, training.classes
    places = {label: place for place, label in enumerate(classes.tolist())}
    columns = training.reader.rows.encoder.vocabulary_
    node, edge = np.zeros((len(columns), len(classes))), np.zeros((1, len(classes) ** 2))
    for (name, label), weight in info.state_features.items():
        node[columns[name], places[label]] = weight
    for (left, right), weight in info.transitions.items():
        edge[0, places[left] * len(classes) + places[right]] = weight
    posterior = LogPosterior(sample.datafit(designs))
    point = posterior.make_point(posterior.blocks.compress([node, edge]))
    marginals = point.evaluation.member.marginals()
    worst = 0.0
    for sequence in range(min(50, len(X))):
        tagger.set(X[sequence])
        begin = chains.offsets[sequence]
        for t in range(len(X[sequence])):
            theirs = [tagger.marginal(label, t) for label in classes.tolist()]
            worst = max(worst, float(np.abs(marginals[begin + t] - theirs).max()))
    return abs(point.value - loss) / loss, worst


def accuracy(name: str, y: list, predicted: list) -> float:
    """Return entity F1 (chunking) or token accuracy (tagging), in per cent."""
    return 100.0 * (entity_f1_score(y, predicted) if name == "chunking" else token_accuracy(y, predicted))


def tagging_speed(estimator: ChainCRF, model: str, X: list) -> tuple[float, float, list, list]:
    """Return tokens per second from lists of feature strings, ours and CRFsuite's, and both labellings."""
    tokens = sum(map(len, X))
    tagger = pycrfsuite.Tagger()
    tagger.open(model)
    ours, theirs = [], []
    estimator.predict(X[:10])
    for _ in range(5):
        begin = time.perf_counter()
        predicted = estimator.predict(X)
        middle = time.perf_counter()
        tagged = [tagger.tag(inputs) for inputs in X]
        ours.append(middle - begin)
        theirs.append(time.perf_counter() - middle)
    return tokens / np.median(ours), tokens / np.median(theirs), predicted, tagged


def memory_of_fit(name: str, loss: float, c1: float, c2: float) -> int:
    """Return the bytes that our fit adds to a process which holds the data."""
    X, y = SETS[name]("train")
    fit_to_loss(X[:200], y[:200], 1e300, c1, c2)  # compiles
    return added_memory(lambda: fit_to_loss(X, y, loss, c1, c2))


def memory_of_crfsuite(name: str, c1: float, c2: float) -> int:
    """Return the bytes that five iterations of CRFsuite add to a process which holds the data."""
    X, y = SETS[name]("train")
    return added_memory(lambda: train_crfsuite(X, y, "/dev/null", c1, c2, 5))


def compare(name: str, c1: float, c2: float, sentences: int | None = None) -> dict:
    """Compare on one data set, or on its first sentences; print and return the figures."""
    X, y = SETS[name]("train")
    X, y = X[:sentences], y[:sentences]
    row: dict = {"set": name, "c1": c1, "c2": c2, "sentences": len(X), "tokens": sum(map(len, X))}
    fit_to_loss(X[:200], y[:200], np.inf, c1, c2)  # compiles
    with tempfile.TemporaryDirectory() as folder:
        model = str(Path(folder) / "model")
        theirs = train_crfsuite(X, y, model, c1, c2)
        two = fit_to_loss(X, y, theirs["loss"], c1, c2)
        one = fit_to_loss(X, y, theirs["loss"], c1, c2, n_jobs=1)
        estimator = two.pop("estimator")
        one.pop("estimator")
        if not c1:
            row["objective_difference"], row["marginal_difference"] = same_objective(X, y, model, theirs["loss"], c2)
        X_test, y_test = SETS[name]("test")
        ours_rate, their_rate, predicted, tagged = tagging_speed(estimator, model, X_test)
    row |= {"crfsuite": theirs, "ours": two, "ours_one_thread": one}
    row["ratio"] = two["seconds"] / theirs["seconds"]
    row["ratio_one_thread"] = one["seconds"] / theirs["seconds"]
    row["ratio_with_ingest"] = (two["seconds"] + two["ingest"]) / (theirs["seconds"] + theirs["ingest"])
    row["tokens_per_second"] = {"ours": ours_rate, "crfsuite": their_rate, "ratio": ours_rate / their_rate}
    row["test"] = {"ours": accuracy(name, y_test, predicted), "crfsuite": accuracy(name, y_test, tagged)}
    if sentences is None and not c1 and sys.platform == "linux":
        ours = in_process("benchmarks.crfsuite_speed.memory_of_fit", name, theirs["loss"], c1, c2)
        other = in_process("benchmarks.crfsuite_speed.memory_of_crfsuite", name, c1, c2)
        row["peak_bytes"] = {"ours": ours, "crfsuite": other, "ratio": ours / other}
    show(row)
    return row


def show(row: dict) -> None:
    """Print one comparison."""
    theirs, ours, one = row["crfsuite"], row["ours"], row["ours_one_thread"]
    print(f"\n{row['set']}, c1 = {row['c1']:g}, c2 = {row['c2']:g}, {row['tokens']:,} tokens")
    print(
        f"  CRFsuite   {theirs['seconds']:7.1f} s  {theirs['iterations']:4d} iterations  loss {theirs['loss']:.2f}"
        f"  {theirs['active']:,} weights"
    )
    for who, each in (("ours", ours), ("one thread", one)):
        print(
            f"  {who:10s} {each['seconds']:7.1f} s  {each['iterations']:4d} iterations  loss {each['loss']:.2f}"
            f"  {each['active']:,} weights  ({each['solver']}, {each['passes']:.1f} passes)"
            + ("" if each["reached"] else "  NOT REACHED")
        )
    print(
        f"  ratio {row['ratio']:.3f}, one thread {row['ratio_one_thread']:.3f}, ingest included "
        f"{row['ratio_with_ingest']:.3f}"
    )
    if "objective_difference" in row:
        print(
            f"  our objective at CRFsuite's weights differs by {row['objective_difference']:.1e} relative, "
            f"marginals by {row['marginal_difference']:.1e}"
        )
    rates = row["tokens_per_second"]
    print(f"  tagging {rates['ours']:,.0f} tokens/s, CRFsuite {rates['crfsuite']:,.0f}: {rates['ratio']:.2f} times")
    print(f"  test {row['test']['ours']:.2f}, CRFsuite {row['test']['crfsuite']:.2f}")
    if "peak_bytes" in row:
        peak = row["peak_bytes"]
        print(
            f"  peak memory {peak['ours'] / 2**20:,.0f} MiB, CRFsuite {peak['crfsuite'] / 2**20:,.0f} MiB: "
            f"{peak['ratio']:.2f} times",
            flush=True,
        )


def candidates(loss: float) -> None:
    """Print ways to the same loss on chunking."""
    X, y = chunking("train")
    fit_to_loss(X[:200], y[:200], np.inf, 0.0, 1.0)
    rules = {
        "L-BFGS, 6 pairs": LBFGS(6),
        "L-BFGS, 20 pairs": LBFGS(20),
        "Newton-CG": "newton-cg",
        "ascent of the dual, L-BFGS 20": LBFGS(20, StochasticStart()),
    }
    print("\nways to the same loss on chunking")
    for name, rule in rules.items():
        each = fit_to_loss(X, y, loss, 0.0, 1.0, solver=rule)
        print(f"  {name:28s} {each['seconds']:7.1f} s {each['passes']:7.1f} passes", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="*", choices=sorted(SETS), default=sorted(SETS))
    parser.add_argument("--l1", action="store_true")
    parser.add_argument("--sentences", type=int, help="train on the first ones only")
    parser.add_argument("--candidates", type=float, metavar="LOSS")
    arguments = parser.parse_args()
    if arguments.candidates:
        candidates(arguments.candidates)
        return
    penalties = (0.1, 0.1) if arguments.l1 else (0.0, 1.0)
    for name in arguments.sets:
        row = compare(name, *penalties, arguments.sentences)
        merge_results("crfsuite_speed.json", [row], ("set", "c1", "c2"))


if __name__ == "__main__":
    main()
