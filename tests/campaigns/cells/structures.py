"""Which labels meet, and which may stand where; marginals are compared with the law of the coefficients."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from kernelfields import (
    Constraints,
    EdgeCliques,
    EndCliques,
    LabelDictionary,
    LabelNgrams,
    NodeCliques,
    SkipCliques,
    StartCliques,
)
from kernelfields.data import LabelSymmetry, OrderCliques
from kernelfields.kernels import RBF
from tests.campaigns.cells.data_forms import agree
from tests.campaigns.cells.features import feature
from tests.campaigns.cells.subjects import Annotated, Item, Subject
from tests.campaigns.cells.verdicts import Inexpressible, close

_STRUCTURES = "structures"


def compare(s: Subject, model: Any, items: list[Item] | None = None, forbidden: tuple[int, int] | None = None) -> None:
    """Compare marginals of new items with the law of the coefficients, in which neighbours may not have two labels."""
    items = s.new if items is None else items
    for item, table in zip(items, s.marginals(model, s.pack(items)), strict=True):
        law = s.law(model, item)
        scores = law.scores.copy()
        for pair in s.pairs(item) if forbidden is not None else ():
            scores[(law.labellings[:, pair] == forbidden).all(axis=1)] = -np.inf
        close(table, replace(law, scores=scores).marginals, words="marginals")


@feature(_STRUCTURES, "constraints")
def constraints(s: Subject) -> None:
    """Forbid a step from b to a, of graphs an edge with these labels."""
    items = [item for item in s.items if ("b", "a") not in zip(item.labels, item.labels[1:], strict=False)]
    if s.name == "RingCRF":
        items = [item for item in items if (item.labels[-1], item.labels[0]) != ("b", "a")]
    compare(s, s.fit(items, constraints=Constraints(transitions=[("b", "a")])), forbidden=(1, 0))


def with_words(s: Subject, items: list[Item]) -> list[Item]:
    """Return items whose first column is a word: 1 for those that have the labels a and b, 2 for b and c."""
    changed = []
    for item in items:
        words = [1.0 if label == "a" or (label == "b" and t % 2) else 2.0 for t, label in enumerate(item.labels)]
        changed.append(replace(item, x=np.column_stack([words, item.x[:, 1:]])))
    return changed


@feature(_STRUCTURES, "allowed: LabelDictionary")
def allowed(s: Subject) -> None:
    """Allow the labels that a word was seen with."""
    feature_name: Any = "f0" if s.name in ("FrameCRF", "compat.CRF") else 0
    if s.rows or s.name == "SequenceClassifier":
        s.fit(allowed=LabelDictionary(0, min_count=1))
        return
    items, new = with_words(s, s.items), with_words(s, s.new)
    seen: dict[float, set] = {}
    for item in items:
        for word, label in zip(item.x[:, 0].tolist(), item.labels, strict=True):
            seen.setdefault(word, set()).add(label)
    model = s.fit(items, allowed=LabelDictionary(feature_name, min_count=1))
    if isinstance(s, Annotated):
        # What annotators said may be wrong: the dictionary has what the field takes for possible.
        learnt = s.field(model).allowed_
        seen = {word: {s.classes[number] for number in learnt.labels_of(word)} for word in seen}
    for item, table in zip(new, s.marginals(model, s.pack(new)), strict=True):
        limits = np.array([[label in seen[word] for label in s.classes] for word in item.x[:, 0].tolist()])
        close(table, s.law(model, item).weighted(limits).marginals, words="marginals")


def _with(s: Subject, *more: Any) -> Any:
    sets = [NodeCliques("linear", prior_variance=1.0), EdgeCliques(prior_variance=1.0), *more]
    return s.fit(cliques=sets)


@feature(_STRUCTURES, "LabelNgrams")
def ngrams(s: Subject) -> None:
    """Score three labels in a row."""
    compare(s, _with(s, LabelNgrams(n=3, support="all", prior_variance=1.0)))


@feature(_STRUCTURES, "OrderCliques")
def order(s: Subject) -> None:
    """Score three labels in a row."""
    compare(s, _with(s, OrderCliques(order=2, prior_variance=1.0)))


@feature(_STRUCTURES, "SkipCliques")
def skip(s: Subject) -> None:
    """Score labels two steps apart."""
    compare(s, _with(s, SkipCliques(lag=2, prior_variance=1.0)))


@feature(_STRUCTURES, "StartCliques, EndCliques")
def ends(s: Subject) -> None:
    """Score first and last labels."""
    compare(s, _with(s, StartCliques(prior_variance=1.0), EndCliques(prior_variance=1.0)))


@feature(_STRUCTURES, "edges by features")
def edges(s: Subject) -> None:
    """Let the scores of neighbours depend on inputs."""
    if s.name.startswith("GraphCRF"):

        def featured(items: list[Item]) -> list[Item]:
            return [replace(item, edge_inputs=item.x[item.edges[:, 0]]) for item in items]  # type: ignore[index]

        model = s.fit(featured(s.items), edges=EdgeCliques("linear"))
        model.coef_["edge features"] = model.coef_.pop("edge")
        compare(s, model, featured(s.new))
        return
    if s.name == "MultiLabelCRF":
        raise_if_equal(s, s.fit(edges=EdgeCliques("linear")))
        return
    compare(s, s.fit(edges=EdgeCliques("linear", prior_variance=1.0)))


def raise_if_equal(s: Subject, model: Any) -> None:
    """Raise unless a model answers otherwise than the one with fewer terms, in probabilities."""
    tables, before = np.concatenate(s.marginals(model)), np.concatenate(s.marginals(s.model))
    close(tables.sum(axis=-1), np.ones(tables.shape[:-1]), words="sums")
    if np.abs(tables - before).max() < 1e-6:
        raise Inexpressible("more terms change nothing")


@feature(_STRUCTURES, "window")
def window(s: Subject) -> None:
    """Let kernels see the neighbours: as inputs with the columns of neighbours beside their own."""
    if s.rows or s.name.startswith("GraphCRF"):
        s.fit(window=3)
        return
    model = s.fit(window=3)

    def wide(item: Item) -> Item:
        pad = np.vstack([item.x[:1] * 0, item.x, item.x[:1] * 0])
        if s.name == "RingCRF":
            pad = np.vstack([item.x[-1:], item.x, item.x[:1]])
        return replace(item, x=np.hstack([pad[:-2], pad[1:-1], pad[2:]]))

    for item, table in zip(s.new, s.marginals(model), strict=True):
        close(table, s.law(model, wide(item)).marginals, words="marginals")


@feature(_STRUCTURES, "neighbours of nodes")
def neighbours(s: Subject) -> None:
    """Let nodes see the means of their neighbours: as inputs with these columns beside their own."""
    model = s.fit(neighbours=True)

    def joined(item: Item) -> Item:
        meets = np.zeros((len(item.x), len(item.x)))
        for a, b in item.edges if item.edges is not None else ():
            meets[a, b] = meets[b, a] = 1.0
        degrees = meets.sum(axis=1, keepdims=True)
        means = np.where(degrees > 0, meets @ item.x / np.maximum(degrees, 1.0), item.x)
        return replace(item, x=np.hstack([item.x, means, np.log1p(degrees)]))

    for item, table in zip(s.new, s.marginals(model), strict=True):
        close(table, s.law(model, joined(item)).marginals, words="marginals")


@feature(_STRUCTURES, "label_kernel")
def label_kernel(s: Subject) -> None:
    """Let labels share strength; a table of delta is the default."""
    nodes = NodeCliques("linear", prior_variance=1.0, label_kernel=np.eye(len(s.classes)))
    agree(s, s.fit(cliques=[nodes, EdgeCliques(prior_variance=1.0)]))


@feature(_STRUCTURES, "ties")
def ties(s: Subject) -> None:
    """Let two labels share weights with two columns: where these change places, the probabilities do."""
    model = s.fit(ties=LabelSymmetry({"a": "b", "b": "a"}, {0: 1, 1: 0}))
    if s.name != "GraphCRF loopy":
        for item, table in zip(s.new, s.marginals(model), strict=True):
            close(table, s.law(model, item).marginals, words="marginals")
    moved = [replace(item, x=np.column_stack([item.x[:, 1], item.x[:, 0], item.x[:, 2:]])) for item in s.new]
    there = np.concatenate(s.marginals(model, s.pack(moved)))
    close(there[:, [1, 0, 2]], np.concatenate(s.marginals(model)), words="marginals of moved inputs")


@feature(_STRUCTURES, "a kernel without features")
def rbf(s: Subject) -> None:
    """Fit with an RBF kernel, and compare with the law of the scores of its expansion."""
    model = s.fit(kernel=RBF(0.5))
    if not s.labelled and s.rows and not hasattr(model, "field_"):
        close(model.score_samples(s.X_new) < np.inf, np.ones(len(s.new)))
        return
    basis = s.field(model).basis_
    for item, table in zip(s.new, s.marginals(model), strict=True):
        name = next(iter(basis)) if s.name == "MultiLabelCRF" else "node"
        if s.name == "MultiLabelCRF":
            close(table.sum(axis=1), np.ones(len(table)), words=name)
            continue
        wide = replace(item, x=np.asarray(basis[name].features(item.x)))
        close(table, s.law(model, wide).marginals, words="marginals")
