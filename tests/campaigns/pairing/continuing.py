"""What is done with a fitted model: a second fit, a warm one, batches, files, and files and on.

fit again               the model of a fresh estimator, to the last bit; a clone likewise, and its file
fit warm                the law of the new plan; where equal data give equal answers, those of a fresh fit
fit batches             the law after each batch, the newcomer included; with a file between, the same
through a file          the same answers to the last bit, and the same again after going on
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from kernelfields.kernels import RBF
from tests.campaigns.pairing.asking import FITTED, check_law, compare
from tests.campaigns.pairing.counting import Count
from tests.campaigns.pairing.features import Plan
from tests.campaigns.pairing.problems import Problem

Way = Callable[[Count, Problem, Any, np.random.Generator], None]


def through_file(count: Count, model: Any) -> Any:
    """Return the model read from its file; saving may be refused, what was saved must be read."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.kfm"
        with count.trying("save"):
            model.save(path)
        loaded = None
        with count.asking("load"):
            loaded = type(model).load(path)
        if loaded is not None:
            again = path.with_name("again.kfm")
            loaded.save(again)
            count.check("the file of a loaded model", path.read_bytes() == again.read_bytes(), "is another")
        return loaded


def fit_again(count: Count, problem: Problem, model: Any, random: np.random.Generator) -> None:
    """Fit to other data without warm_start: nothing of the first fit is left."""
    held = problem.second
    with count.trying("fresh"):
        fresh = problem.fit(problem.estimator(), problem.second)
    before = repr(model.get_params())
    with count.asking("fit"):
        twice = problem.fit(copy.deepcopy(model), problem.second)
        compare(count, problem, twice, fresh, held.items, held.labels)
        count.check("parameters after a fit", repr(twice.get_params()) == before, f"{twice.get_params()}")
        cloned = problem.fit(clone(twice), problem.second)
        compare(count, problem, cloned, fresh, held.items, held.labels)


def _changes(plan: Plan, random: np.random.Generator) -> Plan:
    """Return a plan with one parameter changed, or none."""
    changes: list[Callable[[], Plan]] = [lambda: plan, lambda: plan.having(prior_variance=0.3)]
    if plan.kind in ("chain", "ring", "segments", "graph"):
        changes.append(lambda: replace(plan, steps=plan.steps | {(2, 1)} if plan.steps != {(2, 1)} else frozenset()))
        ways = ["viterbi", "posterior", "f1"] if plan.kind == "chain" else ["viterbi", "posterior"]
        changes.append(lambda: plan.having(decode=str(random.choice(ways))))
    if plan.kind in ("chain", "ring", "segments"):
        changes += [
            lambda: plan.having(window=3 if plan.settings["window"] != 3 else 1),
            lambda: plan.having(window="statistics" if plan.settings["window"] != "statistics" else 1),
            lambda: replace(plan, transformed=not plan.transformed),
            lambda: replace(plan, listed=not plan.listed and plan.form != "numbers"),
        ]
    if plan.kind in ("chain", "segments"):
        changes.append(lambda: replace(plan, starts=frozenset({2}) if not plan.starts else frozenset()))
    if plan.kind == "segments":
        changes.append(lambda: plan.having(max_duration=4 if plan.settings["max_duration"] == 2 else 2))
        changes.append(lambda: plan.having(repeats=not plan.settings.get("repeats")))
    if plan.kind == "graph":
        changes.append(lambda: plan.having(neighbours=not plan.settings["neighbours"]))
    if plan.kind == "multi":
        changes.append(
            lambda: plan.having(label_graph="none" if plan.settings.get("label_graph") == "full" else "full")
        )
    changes.append(lambda: plan.having(scale=not plan.settings["scale"]))
    changes.append(lambda: plan.having(kernel=RBF(0.5) if plan.settings["kernel"] == "linear" else "linear"))
    return changes[random.integers(len(changes))]()


def fit_warm(count: Count, problem: Problem, model: Any, random: np.random.Generator) -> None:
    """Change a parameter, and go on with warm_start: obeyed, or refused."""
    plan = _changes(problem.plan, random)
    other = problem.changed(plan)
    # Data that the changed rules allow.
    batch = problem.second
    kept = [n for n, item in enumerate(batch.items) if plan is problem.plan or _allowed(other, item, batch.labels[n])]
    batch = batch.part(kept)
    if {int(label) for own in batch.labels for label in own} != set(problem.labels):
        return
    changed = {
        name: value for name, value in _parameters(other).items() if repr(value) != repr(_parameters(problem).get(name))
    }
    changed |= {
        name: None
        for name in ("constraints", "allowed", "ties")
        if name in _parameters(problem) and name not in _parameters(other)
    }
    if problem.plan.transformed and not plan.transformed:
        changed["features"] = "auto"
    count.where += f" [then {changed}]"
    with count.trying("fit of a fresh one"):
        fresh = other.fit(other.estimator(), batch)
    with count.trying(f"warm fit after another {', '.join(changed) or 'batch'}"):
        warm = other.fit(copy.deepcopy(model).set_params(warm_start=True, **changed), batch)
    # A scale and what features= has learnt are those of the first fit, where they are not new. Rules are of the last.
    before = problem.plan
    new = plan.settings["scale"] != before.settings["scale"], plan.transformed != before.transformed
    scaled = None if new[0] else problem.first
    if not plan.transformed or not plan.settings["scale"]:
        check_law(count, other, warm, [batch], random, scaled)
    fresh_data = not plan.settings["scale"] and not plan.transformed and plan.around != "auto"
    # A fit that goes on keeps the tree that the first labels gave, and the durations that were pivots.
    kept_tree = plan.settings.get("label_graph") == "tree"
    kept_pivots = "durations" in plan.settings and plan.settings["max_duration"] != before.settings["max_duration"]
    fresh_data = fresh_data and not kept_tree and not kept_pivots
    if plan.settled and fresh_data and not plan.more and "support" not in plan.settings:
        compare(count, other, warm, fresh, batch.items, batch.labels, FITTED, only=("marginals", "log-likelihoods"))
    if plan.settings.get("decode") == "f1":
        with count.asking("thresholds"):
            thresholds = [getattr(each, "thresholds_", None) for each in (warm, fresh)]
            count.check("thresholds", (thresholds[0] is None) == (thresholds[1] is None), f"{thresholds}")


def _parameters(problem: Problem) -> dict[str, Any]:
    return problem.plan.parameters(problem.names)


def _allowed(problem: Problem, item: Any, labels: np.ndarray) -> bool:
    tree = item[1].tolist() if isinstance(item, tuple) else []
    plan = problem.plan
    listed = not plan.listed or all(
        label in ([0, 1, 2], [1], [2, 3], [1, 3])[int(row[0])] for row, label in zip(item, labels, strict=True)
    )
    return listed and problem._obeys(labels, tree)


def fit_batches(count: Count, problem: Problem, model: Any, random: np.random.Generator) -> None:
    """Fit batch by batch; the third brings a label that sorts first; between them the model goes through a file."""
    told = problem.all_told()
    with count.trying("first batch"):
        going = told.go_on(told.estimator(), told.first)
    if told.first is problem.first or problem.first.told is None:
        compare(count, problem, going, model, told.second.items, told.second.labels)
    learnt = [told.first]
    stage = count.stage
    for batch, name in ((told.second, "second"), (told.third, "newcomer")):
        count.stage = f"{stage}, {name}"
        loaded = through_file(count, going) if random.random() < 0.6 else None
        with count.asking("batch"):
            with count.trying("batch"):
                going = told.go_on(copy.deepcopy(going), batch)
            learnt = [*learnt, batch]
            check_law(count, told, going, learnt, random)
            if loaded is not None:
                count.stage = f"{stage}, {name} after a file"
                compare(count, told, told.go_on(loaded, batch), going, batch.items, batch.labels)
    count.stage = f"{stage}, file at the end"
    if (loaded := through_file(count, going)) is not None:
        compare(count, told, loaded, going, told.third.items, told.third.labels)


def file_and_on(count: Count, problem: Problem, model: Any, random: np.random.Generator) -> None:
    """Save, load, ask; then go on with warm_start, or afresh."""
    loaded = through_file(count, model)
    if loaded is None:
        return
    own, batch, stage = problem.first, problem.second, count.stage
    compare(count, problem, loaded, model, own.items, own.labels)
    for warm in (True, False):
        count.stage = f"{stage}, fit with warm_start={warm}"
        with count.trying("without a file"):
            going = problem.fit(copy.deepcopy(model).set_params(warm_start=warm), batch)
        with count.asking("after a file"):
            again = problem.fit(copy.deepcopy(loaded).set_params(warm_start=warm), batch)
            compare(count, problem, again, going, batch.items, batch.labels)
            count.near("objective", again.solution_.value, going.solution_.value, 0.0)
    count.stage = f"{stage}, same fit"
    with count.asking("the same fit"):
        twin = problem.fit(problem.estimator(), own)
        with tempfile.TemporaryDirectory() as folder:
            paths = [Path(folder) / f"{number}.kfm" for number in range(2)]
            for each, path in zip((twin, model), paths, strict=True):
                each.save(path)
            count.check("file of the same fit", paths[0].read_bytes() == paths[1].read_bytes(), "files differ")
