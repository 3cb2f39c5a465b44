"""Sparse linear fields against CRFsuite (and Wapiti): time to the same loss, tagging, memory, accuracy.

    python -m benchmarks.crfsuite_speed [--sets chunking tagging] [--l1] [--sentences N] [--candidates LOSS]
                                        [--constraints] [--processor] [--wapiti PROGRAM]

CRFsuite is trained first, to its own stop; our fit is stopped at the first iteration whose objective is within
0.01 % of its final loss. Both run on the same features in the same process, and both times are after ingest: for
us, the time of ``fit`` less that of the same ingest measured by itself. The features are those of templates.py:
CoNLL-2000 chunking (c2 = 1), UD English EWT part-of-speech tags. --l1 adds an elastic net (c1 = c2 = 0.1, the
values of sklearn-crfsuite's tutorial). --candidates compares ways to the same loss: plain L-BFGS, Newton-CG,
stochastic starts of several lengths. --constraints fits the elastic net on chunking with constraints="bio", which
CRFsuite does not have, from a stochastic start to a relative gap of 1e-2, and from zero to the same loss. Wapiti has a
weight for every feature and label, so it is compared with ``support="all"``; it is a program of its own, given by its
path. --processor has the seconds of the processor on one thread, ingest included, on chunking: to CRFsuite's loss at
c2 = 1; and a default fit, which chooses its penalties, beside CRFsuite with c1 = c2 = 0.1 to its own stop and to 100
iterations.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pycrfsuite
import scipy.sparse

from benchmarks.fit_parts import parts_of_fit
from benchmarks.result_files import CHECKOUT, merge_results
from benchmarks.shared_data import DataMissing
from benchmarks.templates import chunking, tagging
from kernelfields import ChainCRF
from kernelfields.evaluation.entities import entity_f1_score
from kernelfields.evaluation.label_scores import token_accuracy
from kernelfields.features.readers import ChainReader
from kernelfields.objective.posterior import LogPosterior
from kernelfields.solvers.lbfgs import LBFGS, StochasticStart

WITHIN = 1e-4
SETS = {"chunking": chunking, "tagging": tagging}

MEMORY_PROBE = """
import gc, re, sys
sys.path.insert(0, {folder!r})
from benchmarks import crfsuite_speed
X, y = crfsuite_speed.SETS[{name!r}]("train")
gc.collect()
def status(name):
    return 1024 * int(re.search(name + r":\\s+(\\d+)", open("/proc/self/status").read())[1])
{prepare}
open("/proc/self/clear_refs", "w").write("5")
before = status("VmRSS")
{work}
print(status("VmHWM") - before)
"""


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
    ChainReader().learn(X, y, keep_zeros=True)
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
    columns = training.reader.encoder.vocabulary_
    node, edge = np.zeros((len(columns), len(classes))), np.zeros((1, len(classes) ** 2))
    for (name, label), weight in info.state_features.items():
        node[columns[name], places[label]] = weight
    for (left, right), weight in info.transitions.items():
        edge[0, places[left] * len(classes) + places[right]] = weight
    posterior = LogPosterior(sample.datafit(designs))
    point = posterior.at(posterior.compressed([node, edge]))
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


def peak_memory(name: str, work: str, prepare: str = "") -> int | None:
    """Return the peak of resident memory that some work adds to a process which holds the data; None off Linux."""
    if not Path("/proc/self/clear_refs").exists():
        return None
    probe = MEMORY_PROBE.format(folder=str(CHECKOUT), name=name, work=work, prepare=prepare)
    run = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    return int(run.stdout.split()[-1])


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
    if sentences is None and not c1:
        work = f"crfsuite_speed.fit_to_loss(X, y, {theirs['loss']!r}, {c1!r}, {c2!r})"
        compiled = "crfsuite_speed.fit_to_loss(X[:200], y[:200], 1e300, 0.0, 1.0)"
        peer = f"crfsuite_speed.train_crfsuite(X, y, {'/dev/null'!r}, {c1!r}, {c2!r}, 5)"
        ours, other = peak_memory(name, work, compiled), peak_memory(name, peer)
        if ours and other:
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


def candidates(loss: float) -> list[dict]:
    """Compare ways to the same loss on chunking."""
    X, y = chunking("train")
    fit_to_loss(X[:200], y[:200], np.inf, 0.0, 1.0)
    rules = {
        "L-BFGS, 6 pairs": LBFGS(6),
        "L-BFGS, 20 pairs": LBFGS(20),
        "Newton-CG": "newton-cg",
        "ascent of the dual, L-BFGS 20": LBFGS(20, StochasticStart()),
        **{f"SGD {epochs} epochs, L-BFGS 20": LBFGS(20, StochasticStart(epochs)) for epochs in (2, 4, 8)},
    }
    rows = []
    print("\nways to the same loss on chunking")
    for name, rule in rules.items():
        each = fit_to_loss(X, y, loss, 0.0, 1.0, solver=rule)
        rows.append({"way": name, **{key: each[key] for key in ("seconds", "passes", "iterations", "loss")}})
        print(f"  {name:28s} {each['seconds']:7.1f} s {each['passes']:7.1f} passes", flush=True)
    return rows


def constrained(sentences: int | None) -> list[dict]:
    """Compare starts of the elastic net on chunking under the constraints of its scheme."""
    X, y = chunking("train")
    X, y = X[:sentences], y[:sentences]
    c1 = c2 = 0.1
    fit_to_loss(X[:200], y[:200], np.inf, c1, c2, constraints="bio")  # compiles
    begin = time.process_time()
    ChainReader().learn(X, y, keep_zeros=True)
    ingest = time.process_time() - begin
    rows: list[dict] = []
    print(f"\nchunking with constraints, {len(X):,} sentences, c1 = {c1:g}, c2 = {c2:g}", flush=True)
    for name, solver in (("stochastic start", "sgd+lbfgs"), ("from zero", "lbfgs")):
        loss = rows[0]["loss"] if rows else 0.0
        begin, tol = time.process_time(), 1e-12 if rows else 1e-2
        each = fit_to_loss(X, y, loss, c1, c2, solver=solver, constraints="bio", tol=tol, n_jobs=1)
        # fit_to_loss ingests once more than the fit.
        seconds = each["processor_seconds"] = time.process_time() - begin - 2.0 * ingest
        history = each.pop("estimator").solution_.history
        each["passes_of_first_step"] = history[1].passes - history[0].passes
        rows.append({"way": name, **each})
        print(
            f"  {name:18s} {seconds:6.1f} s {each['passes']:6.1f} passes {each['iterations']:4d} iterations "
            f"({each['solver']}, first step {each['passes_of_first_step']:.1f} passes, loss {each['loss']:.2f})",
            flush=True,
        )
    ratios = [rows[0][name] / rows[1][name] for name in ("processor_seconds", "passes")]
    print(f"  with the start, {ratios[0]:.3f} of the seconds of the processor and {ratios[1]:.3f} of the passes")
    return rows


def processor_seconds(sentences: int | None) -> list[dict]:
    """Compare seconds of the processor on chunking, ingest included."""
    X, y = (each[:sentences] for each in chunking("train"))
    fit_to_loss(X[:200], y[:200], np.inf, 0.0, 1.0)  # compiles
    ChainCRF(random_state=0).fit(X[:300], y[:300])
    rows: list[dict] = []

    def spent(work: Callable[[], Any]) -> tuple[Any, float]:
        begin = time.process_time()
        found = work()
        return found, time.process_time() - begin

    def note(name: str, ours: float, theirs: float) -> None:
        print(f"{name}: {ours:.1f} s, CRFsuite {theirs:.1f} s, ratio {ours / theirs:.3f}", flush=True)
        rows.append({"fit": name, "sentences": len(X), "seconds": ours, "crfsuite": theirs})

    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = str(Path(folder) / "model")
        trained, theirs = spent(lambda: train_crfsuite(X, y, model, 0.0, 1.0))
        loss = trained["loss"] * (1 + WITHIN)
        crf = field(0.0, 1.0, callbacks=[lambda iteration: iteration.value <= loss], n_jobs=1)
        note("c2 = 1, to the same loss", spent(lambda: crf.fit(X, y))[1], theirs)
        ours = spent(lambda: ChainCRF(random_state=0, n_jobs=1).fit(X, y))[1]
        for most in (100, None):
            theirs = spent(lambda most=most: train_crfsuite(X, y, model, 0.1, 0.1, most))[1]
            note(f"default, beside {most or 'all'} iterations", ours, theirs)
    return rows


def compare_wapiti(program: str, name: str, rho2: float, sentences: int | None) -> dict:
    """Compare with Wapiti's L-BFGS on two threads, every feature with every label."""
    X, y = SETS[name]("train")
    X, y = X[:sentences], y[:sentences]
    fit_to_loss(X[:200], y[:200], np.inf, 0.0, 1.0, support="all")  # compiles
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "train"
        with data.open("w", encoding="utf-8") as out:
            for inputs, labels in zip(X, y, strict=True):
                for features, label in zip(inputs, labels, strict=True):
                    out.write(" ".join(["u" + feature for feature in features] + ["b", label]) + "\n")
                out.write("\n")
        command = [program, "train", "-a", "l-bfgs", "-1", "0", "-2", str(rho2), "-t", "2", "--histsz", "6"]
        run = subprocess.run(
            [*command, str(data), str(Path(folder) / "model")], capture_output=True, text=True, check=True
        )
    steps = re.findall(r"\[\s*(\d+)\]\s+obj=([\d.]+)\s+act=(\d+).*?time=[\d.]+s/([\d.]+)s", run.stdout + run.stderr)
    iterations, loss, active, seconds = steps[-1]
    ours = fit_to_loss(X, y, float(loss), 0.0, rho2 / 2.0, support="all")
    ours.pop("estimator")
    row = {
        "set": name,
        "sentences": len(X),
        "wapiti": {
            "seconds": float(seconds),
            "loss": float(loss),
            "iterations": int(iterations),
            "active": int(active),
        },
        "ours": ours,
        "ratio": ours["seconds"] / float(seconds),
    }
    print(
        f"\n{name}, every feature with every label\n  Wapiti {float(seconds):.1f} s, loss {loss} after "
        f"{iterations} iterations\n  ours   {ours['seconds']:.1f} s, loss {ours['loss']:.2f} after "
        f"{ours['iterations']}{'' if ours['reached'] else ' NOT REACHED'}\n  ratio  {row['ratio']:.3f}",
        flush=True,
    )
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="*", choices=sorted(SETS), default=sorted(SETS))
    parser.add_argument("--l1", action="store_true")
    parser.add_argument("--sentences", type=int, help="train on the first ones only")
    parser.add_argument("--candidates", type=float, metavar="LOSS")
    parser.add_argument("--constraints", action="store_true")
    parser.add_argument("--processor", action="store_true")
    parser.add_argument("--wapiti", metavar="PROGRAM")
    arguments = parser.parse_args()
    try:
        if arguments.constraints:
            merge_results("constrained_start.json", constrained(arguments.sentences), ("way",))
            return
        if arguments.processor:
            merge_results("crfsuite_processor.json", processor_seconds(arguments.sentences), ("fit", "sentences"))
            return
        for name in arguments.sets:
            if arguments.wapiti:
                merge_results(
                    "wapiti_speed.json",
                    [compare_wapiti(arguments.wapiti, name, 2.0, arguments.sentences)],
                    ("set",),
                )
            elif arguments.l1:
                row = compare(name, 0.1, 0.1, arguments.sentences)
                merge_results("crfsuite_speed.json", [row], ("set", "c1", "c2"))
            elif not arguments.candidates:
                row = compare(name, 0.0, 1.0, arguments.sentences)
                merge_results("crfsuite_speed.json", [row], ("set", "c1", "c2"))
        if arguments.candidates:
            merge_results("start_candidates.json", candidates(arguments.candidates), ("way",))
    except DataMissing as missing:
        print(f"skipped: {missing}")


if __name__ == "__main__":
    main()
