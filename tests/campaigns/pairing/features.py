"""The list of features that problems draw pairs and triples from, and what each changes of a plan.

A plan names labels by numbers, so that the same problem can be written with other names. What cannot go together is
drawn all the same: the package has to answer rightly or to refuse in words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler

from kernelfields import (
    Constraints,
    EdgeCliques,
    LabelDictionary,
    LabelNgrams,
    NodeCliques,
    PartialLabels,
    SkipCliques,
)
from kernelfields.data import DurationCliques, LabelSymmetry, OrderCliques
from kernelfields.kernels import RBF, Laplacian, Linear

CHAINS, SEQUENCES, STRUCTURED = ("chain", "ring"), ("chain", "ring", "segments"), ("chain", "ring", "segments", "graph")
KINDS = (*STRUCTURED, "single", "multi")
#: Labels in their order; the first is the newcomer, which later batches bring.
NAMES: dict[str, list] = {
    "letters": ["a", "b", "c", "d"],
    "numbers": [-4, 0, 3, 17],
    "entities": ["A", "B-X", "I-X", "O"],
    "outside": ["I", "O", "X", "Y"],
    "large": [5, 2**63 + 1, 2**63 + 2, 2**63 + 3],
}
FORMS = ("array", "csr", "dicts", "numbers", "frames")


@dataclass(frozen=True)
class Plan:
    """What a problem has; parameters of the estimator, and what follows for data and laws."""

    kind: str
    names: str = "letters"
    form: str = "array"
    settings: dict[str, Any] = field(default_factory=dict)
    #: Clique sets beside nodes and edges, made afresh for each estimator.
    more: tuple[Callable[[], Any], ...] = ()
    #: Numbers of labels: pairs and first labels that are forbidden.
    steps: frozenset = frozenset()
    starts: frozenset = frozenset()
    tied: bool = False
    listed: bool = False
    partial: bool = False
    weighted: bool = False
    #: Whether inputs are brought to mean 0 and deviation 1 by ``features=``.
    transformed: bool = False

    def named(self, number: int) -> Any:
        """Return the label of a number."""
        return NAMES[self.names][number]

    def having(self, **settings: Any) -> Plan:
        """Return the plan with other parameters of the estimator."""
        return replace(self, settings={**self.settings, **settings})

    def parameters(self, names: list) -> dict[str, Any]:
        """Return all parameters of the estimator, for labels of these names."""
        given = dict(self.settings)
        if self.more:
            kernel, variance = given.pop("kernel"), given["prior_variance"]
            variance = 1.0 if isinstance(variance, str) else variance
            given.pop("window")
            nodes = NodeCliques("linear" if kernel == "auto" else kernel, window=self.around, prior_variance=variance)
            given["cliques"] = [nodes, EdgeCliques(prior_variance=variance), *(make() for make in self.more)]
            given.pop("support", None)
            given.pop("l1", None)
        if self.steps or self.starts:
            steps, starts = (
                [(names[a], names[b]) for a, b in sorted(self.steps)],
                [names[a] for a in sorted(self.starts)],
            )
            of_edges = self.kind in ("ring", "graph")
            given["constraints"] = steps if of_edges else Constraints(transitions=steps, start=starts)
        if self.tied:
            given["ties"] = LabelSymmetry({names[1]: names[2], names[2]: names[1]})
        if self.listed:
            given["allowed"] = LabelDictionary({"dicts": "w", "frames": "w"}.get(self.form, 0), min_count=1)
        if self.partial:
            given["partial_labels"] = PartialLabels()
        if self.transformed:
            given["features"] = StandardScaler(with_mean=self.form != "csr")
        return given

    @property
    def around(self) -> Any:
        """The window of all clique sets together; those that are named have their own."""
        window = self.settings.get("window", 1)
        return 1 if self.more and isinstance(window, str) else window

    @property
    def chooses(self) -> bool:
        """Whether something is left to the data."""
        return any(isinstance(value, str) and value == "auto" for value in self.settings.values())

    @property
    def settled(self) -> bool:
        """Whether the fit is convex in coefficients of columns, so that equal data give equal answers."""
        linear = self.settings["kernel"] == "linear"
        return linear and not self.chooses and not self.partial


Change = Callable[[Plan, np.random.Generator], Plan]


def _one_of(*values: Any) -> Callable[[np.random.Generator], Any]:
    return lambda random: values[random.integers(len(values))]


def _setting(name: str, *values: Any) -> Change:
    return lambda plan, random: plan.having(**{name: _one_of(*values)(random)})


def _constraints(plan: Plan, random: np.random.Generator) -> Plan:
    pair = (int(random.integers(1, 4)), int(random.integers(1, 4)))
    starts = frozenset({2} if plan.kind in ("chain", "segments") and random.random() < 0.5 else ())
    return replace(plan, steps=frozenset({pair if pair[0] != pair[1] else (1, 2)}), starts=starts)


def _more(make: Callable[[np.random.Generator], Any]) -> Change:
    def change(plan: Plan, random: np.random.Generator) -> Plan:
        made = make(random)
        return replace(plan, more=(*plan.more, lambda: made.__class__(**made.get_params(deep=False))))

    return change


def _form(*forms: str) -> Change:
    return lambda plan, random: replace(plan, form=str(random.choice(forms)))


#: Feature -> which kinds of estimators have it, and how it changes a plan.
FEATURES: dict[str, tuple[tuple[str, ...], Change]] = {
    "constraints": (STRUCTURED, _constraints),
    "allowed": (SEQUENCES, lambda plan, random: with_words(replace(plan, listed=True))),
    "partial labels": (KINDS, lambda plan, random: replace(plan, partial=True)),
    "weights": (KINDS, lambda plan, random: replace(plan, weighted=True)),
    "support": (CHAINS, lambda plan, random: plan.having(kernel="linear", support=_one_of(2, "observed")(random))),
    "l1": (CHAINS, lambda plan, random: plan.having(kernel="linear", l1=_one_of(0.2, 1.0)(random))),
    "n-grams": (
        CHAINS,
        _more(lambda random: LabelNgrams(n=3, support=_one_of("all", "observed")(random), prior_variance=1.0)),
    ),
    "order": (CHAINS, _more(lambda random: OrderCliques(order=2, prior_variance=1.0))),
    "skips": (CHAINS, _more(lambda random: SkipCliques(lag=2, prior_variance=1.0))),
    "ties": (KINDS[:-1], lambda plan, random: replace(plan, tied=True)),
    "window": (SEQUENCES, _setting("window", 3, (1, 0), (0, 1))),
    "statistics": (SEQUENCES, _setting("window", "statistics")),
    "window auto": (SEQUENCES, _setting("window", "auto")),
    "edges by inputs": (SEQUENCES, lambda plan, random: plan.having(edges=EdgeCliques("linear", prior_variance=1.0))),
    "scale": (KINDS, _setting("scale", True, "auto")),
    "kernel auto": (KINDS, _setting("kernel", "auto")),
    "kernels": (KINDS, _setting("kernel", RBF(0.5), Laplacian(0.4), Linear() + RBF(0.7), "linear")),
    "rank": (KINDS, lambda plan, random: plan.having(kernel=RBF(0.5), rank=_one_of(3, None)(random))),
    "prior_variance auto": (KINDS, _setting("prior_variance", "auto")),
    "decode": (STRUCTURED, _setting("decode", "viterbi", "posterior")),
    "decode f1": (("chain",), _setting("decode", "f1")),
    "decision": (("multi",), _setting("decision", "hamming", "subset")),
    "label graph": (("multi",), _setting("label_graph", "none", "tree", "full")),
    "bias": (("single",), _setting("bias", True, False)),
    "durations": (
        ("segments",),
        lambda plan, random: plan.having(durations=_one_of(None, DurationCliques("rbf", shared=True))(random)),
    ),
    "repeats": (("segments",), _setting("repeats", True)),
    "least durations": (("segments",), _setting("min_duration", 2)),
    "neighbours": (("graph",), _setting("neighbours", True)),
    "feature dicts": (KINDS[:3], _form("numbers")),
    "categories": (KINDS[:3], _form("dicts")),
    "sparse": (("chain", "ring"), _form("csr")),
    "frames": (KINDS[:3], _form("frames")),
    "features=": (("chain", "segments", "ring"), lambda plan, random: replace(plan, transformed=True)),
    "names": (KINDS[:-1], lambda plan, random: replace(plan, names=str(random.choice(list(NAMES)[1:])))),
}


def with_words(plan: Plan) -> Plan:
    """Return a plan whose inputs have a word where labels are listed by it."""
    return replace(plan, form="dicts") if plan.listed and plan.form == "numbers" else plan


def first_plan(kind: str, random: np.random.Generator) -> Plan:
    """Return what every problem has: fits that are near the optimum, with a kernel of pivots or of columns."""
    settings: dict[str, Any] = {
        "kernel": "linear" if random.random() < 0.5 else RBF(0.5),
        "prior_variance": 1.0,
        "scale": False,
        "tol": 1e-9,
        "n_jobs": 1,
        "random_state": 0,
    }
    if kind in ("chain", "ring", "segments"):
        settings["window"] = 1
    if kind == "segments":
        settings["max_duration"] = int(random.choice([2, 4]))
    if kind == "graph":
        settings |= {"neighbours": False, "inference": "auto"}
    if kind == "single":
        settings["bias"] = True
    return Plan(kind, settings=settings)


def drawn_plan(kind: str, random: np.random.Generator) -> tuple[Plan, list[str]]:
    """Return a plan with a pair or a triple of features, and their names."""
    plan, names = first_plan(kind, random), [name for name, (kinds, _) in FEATURES.items() if kind in kinds]
    chosen = random.choice(names, size=int(random.choice([2, 3])), replace=False).tolist()
    for name in chosen:
        plan = with_words(FEATURES[name][1](plan, random))
    return plan, chosen
