"""Ways to fit: all that minimise the same objective are compared with the fit by default."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from kernelfields import SkipCliques
from kernelfields.engines import Dask, Threads, Torch
from kernelfields.estimators import Checkpoint
from kernelfields.kernels import RBF, Forest
from kernelfields.selection import StructureSearch
from tests.campaigns.cells.data_forms import agree, answers
from tests.campaigns.cells.features import feature
from tests.campaigns.cells.subjects import Points, Searched, Subject, as_array
from tests.campaigns.cells.verdicts import check, close

_FITTING = "fitting"
SOLVERS = ("newton", "newton-cg", "block-jacobi", "subspace", "lbfgs", "sgd+lbfgs")


def _solved_by(solver: str) -> None:
    def ask(s: Subject) -> None:
        if s.name == "compat.CRF":
            agree(s, s.fit(algorithm={"lbfgs": "lbfgs", "sgd+lbfgs": "l2sgd"}.get(solver, solver)))
            return
        agree(s, s.fit(solver=solver))

    ask.__doc__ = f"Fit by {solver}."
    feature(_FITTING, f"solver={solver!r}")(ask)


for _solver in SOLVERS:
    _solved_by(_solver)


@feature(_FITTING, "defaults alone")
def defaults(s: Subject) -> None:
    """Fit with no parameter set, where nothing is chosen by the caller; answers are probabilities."""
    made: dict[str, Any] = {
        "FrameCRF": lambda: type(s.make())(),
        "AnnotatedCRF": lambda: type(s.make())(),
        "compat.CRF": lambda: type(s.make())(),
        "ChainCRFCV": lambda: type(s.make())(cv=2),
        "FieldSearchCV of rows": lambda: type(s.make())(s.kind(), cv=2),
    }
    estimator = made.get(s.name, s.kind)()
    model = s.fit_to(estimator, s.X, [item.labels for item in s.items], {})
    if isinstance(s, Points):
        check(np.isfinite(model.score_samples(s.X)).all(), "densities are not finite")
        return
    for table in s.marginals(model):
        close(table.sum(axis=-1), np.ones(len(table)), words="sums")


@feature(_FITTING, "prior_variance='auto'")
def auto_variance(s: Subject) -> None:
    """Leave the prior variance to the data: of few data, it is the usual one."""
    model = s.fit(prior_variance="auto")
    check(model.prior_variance_ > 0, "no prior variance")
    if s.labelled:
        agree(s, model)


@feature(_FITTING, "l1")
def l1(s: Subject) -> None:
    """Fit with an l1 penalty: some weights are zero, and the objective is lower than at the weights without it."""
    penalty = 1.0
    name = "c1" if s.name == "compat.CRF" else "l1"
    model = s.fit(**{name: penalty})

    def objective(own: Any) -> float:
        tables = [as_array(table) for name, table in s.field(own).coef_.items() if name.split()[0] in s.penalised]
        size = sum(np.abs(np.asarray(table)).sum() for table in tables)
        logs = sum(s.law(own, item).log_probability(s.numbers(item.labels)) for item in s.items)
        return s.squares(own) / 2 + penalty * size - logs

    check(objective(model) <= objective(s.model) + 1e-6, "the objective is not lower than without the penalty")
    zeros = [(as_array(table) == 0).any() for name, table in s.field(model).coef_.items()]
    check(any(zeros), "no weight is zero")


@feature(_FITTING, "warm_start")
def warm_start(s: Subject) -> None:
    """Fit twice: the second fit begins at the end of the first."""
    model = s.fit(warm_start=True)
    again = s.field(model) if isinstance(s, Searched) else model
    s.fit_to(again, s.X, [item.labels for item in s.items], {})
    agree(s, model)
    check(s.field(model).n_iter_ <= 2, f"{s.field(model).n_iter_} iterations from the optimum")


@feature(_FITTING, "partial_fit")
def partial_fit(s: Subject) -> None:
    """Fit one batch, which is a fit, and one more, which is near the fit to both."""
    kernel = {} if s.name == "compat.CRF" else {"kernel": RBF(0.5)}
    model = s.make(**kernel)
    model.partial_fit(s.X, s.y)
    agree(s, model, other=s.fit(**kernel))
    half = len(s.items) // 2
    model = s.make(**kernel)
    for items in (s.items[:half], s.items[half:]):
        model.partial_fit(s.pack(items), s.pack_labels([item.labels for item in items]))
    agree(s, model, other=s.fit(**kernel), tolerance=0.15)


@feature(_FITTING, "callbacks")
def callbacks(s: Subject) -> None:
    """Count iterations, and stop after three."""
    seen: list[Any] = []

    def watch(iteration: Any) -> bool:
        seen.append(iteration)
        return len(seen) >= 3

    s.fit(callbacks=[watch])
    check(len(seen) >= 3, f"{len(seen)} iterations were seen")


@feature(_FITTING, "Checkpoint")
def checkpoint(s: Subject) -> None:
    """Write the model at each step, and read it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        model = s.fit(callbacks=[Checkpoint(path, seconds=0.0)])
        check(path.exists(), "no file was written")
        loaded = s.kind.load(path)
    if type(loaded) is type(model):
        agree(s, loaded)


@feature(_FITTING, "development set")
def development(s: Subject) -> None:
    """Stop by a development set."""
    given = {"X_dev": s.X_new, "y_dev": s.truth(s.new)}
    model = s.fit(fitting=given)
    scores = s.field(model).dev_log_likelihoods_
    logs = [s.law(model, item).log_probability(s.numbers(item.labels)) for item in s.new]
    close(scores.max(), sum(logs), 1e-4, "log-likelihood of the development set")


@feature(_FITTING, "optimize='evidence'")
def evidence(s: Subject) -> None:
    """Choose prior variances by the evidence, which is no lower than at the first point."""
    model = s.fit(fitting={"optimize": "evidence"})
    steps = [step for step in s.field(model).evidence_path_.steps if np.isfinite(step.value)]
    check(len(steps) > 0, "no evidence")
    check(max(step.value for step in steps) >= steps[0].value, "the evidence fell")


@feature(_FITTING, "StructureSearch")
def learn(s: Subject) -> None:
    """Let a search choose which labels meet."""
    candidates = None if s.name == "MultiLabelCRF" else [SkipCliques(lag=2)]
    around = s.make()
    if s.name == "FrameCRF":
        around.estimator = StructureSearch(around.estimator, candidates)
    else:
        around = StructureSearch(around, candidates)
    model = s.fit_to(around, s.pack(s.items), [item.labels for item in s.items], {})
    search = s.field(model)
    own = search.best_params_.get("cliques", search.best_params_.get("label_graph"))
    check(len(search.structure_path_.steps) > 0, "no path")
    check(search.best_estimator_.get_params()[next(iter(search.best_params_))] is own, "another structure")
    sums = [table.sum(axis=-1) for table in s.marginals(model)]
    close(np.concatenate(sums), np.ones(sum(map(len, sums))), words="sums")


@feature(_FITTING, "basis='gradient'")
def gradient_basis(s: Subject) -> None:
    """Let the basis grow by the gradient; with all pivots it spans what every other does."""
    if isinstance(s, Points):
        s.fit(basis="gradient")
        return
    model, other = (s.fit(kernel=RBF(0.5), basis=basis, rank=None, tol=1e-6) for basis in ("gradient", "all"))
    close(answers(s, model), answers(s, other), 0.02, "answers")


@feature(_FITTING, "kernel='forest'")
def forest(s: Subject) -> None:
    """Grow the trees of a kernel on the labels; the same trees given beforehand make the same field."""
    settings: dict[str, Any] = {"rank": None, "tol": 1e-6}
    model = s.fit(kernel=Forest(n_trees=10, min_samples_leaf=1), **settings)
    grown = next(term.subspace.kernel for term in s.field(model).field_.terms if term.has_pivots)
    check(grown.trees is not None, "no trees")
    close(answers(s, model), answers(s, s.fit(kernel=grown, **settings)), 1e-4, "answers")


@feature(_FITTING, "engine=Torch()", quick=False)
def torch(s: Subject) -> None:
    """Fit by torch on the processor."""
    agree(s, s.fit(engine=Torch("cpu")))


@cache
def cluster() -> Any:
    """Return the client of a small cluster."""
    import distributed

    return distributed.Client(
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50)
    )


@feature(_FITTING, "engine=Dask()", quick=False)
def dask(s: Subject) -> None:
    """Fit on a small cluster."""
    agree(s, s.fit(engine=Dask(cluster())))


@feature(_FITTING, "memory limit")
def memory(s: Subject) -> None:
    """Keep features within some memory."""
    agree(s, s.fit(engine=Threads(memory="100MB")))
