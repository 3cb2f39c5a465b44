"""MultiLabelCRF(label_graph="learn"): which labels should meet, found on the training instances (Remark 11).

The search begins with independent labels, bounds what each pair could bring, adds the best and fits again; pairs
that do not raise the likelihood of held-out instances are taken back. Pairs are judged by their tables alone; with
an edge kernel the fit that follows gives the chosen ones functions of the inputs, too.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kernelfields.estimators.fitted_sets import FittedSet
from kernelfields.estimators.fitting import FittedField
from kernelfields.estimators.graph_model import refuse_approximate
from kernelfields.estimators.multilabel_field import MultiLabelField
from kernelfields.estimators.multilabel_graphs import Edge, given_edges
from kernelfields.estimators.multilabel_model import MultiLabelModel
from kernelfields.estimators.spaces import CliqueSpace
from kernelfields.inference.workers import Workers
from kernelfields.structure import StructurePath, StructureSearch, learn_structure
from kernelfields.structure.bounds import place

# Labels up to which all pairs are judged by one table of all labellings.
_JUDGED_TOGETHER = 14


def resolve_label_search(label_graph: Any) -> StructureSearch | None:
    """Return the search that the parameter asks for, None if it asks for none."""
    if isinstance(label_graph, str) and label_graph == "learn":
        return StructureSearch(max_additions=1000)
    if isinstance(label_graph, StructureSearch):
        label_graph.check()
        return label_graph
    return None


def learn_label_edges(
    search: StructureSearch,
    make_field: Callable[[np.ndarray], MultiLabelField],
    inputs: Any,
    labels: np.ndarray,
    names: Sequence[Any],
    *,
    random: np.random.Generator,
    workers: Workers,
    say: Callable[[str], None],
) -> tuple[list[Edge], StructurePath]:
    """Return the pairs of labels that a search chose, and its path; ``make_field`` is for some of the rows."""
    n_labels = labels.shape[1]
    edges = (
        list(itertools.combinations(range(n_labels), 2))
        if search.candidates is None
        else given_edges(search.candidates, list(names))
    )
    train, held = _split(len(labels), search.validation, random)
    field = make_field(train)
    pairs = field.pairs_of(edges)
    tables = [space for space in field.pair_spaces(edges) if space.name in pairs]

    def score(spaces: Sequence[CliqueSpace], fitted: FittedField) -> float:
        sets = [
            FittedSet(space.clique, space.name, space.subspace, space.label_factor, coefficients)
            for space, coefficients in zip(spaces, fitted.coefficients, strict=True)
        ]
        met = {space.name: pairs[space.name] for space in spaces if space.name in pairs}
        model = MultiLabelModel(sets, n_labels, met, field.settings.inference)
        total = 0.0
        for instances in model.batches(inputs[held], labels[held]):
            scored = model.scored(instances, workers)
            refuse_approximate(scored.inference, "a search for the graph of labels")
            total += float((scored.label_scores(scored.graphs.labels) - scored.beliefs.log_partition).sum())
        return total

    path, _, _ = learn_structure(
        field.label_spaces(),
        tables,
        fit=field.fit,
        engine_of=field.engine_of,
        n_labels=2,
        search=search,
        score=score if len(held) else None,
        together=(lambda each: 0) if n_labels <= _JUDGED_TOGETHER else place,
        say=say,
    )
    return sorted(pairs[name] for name in path.added), path


def _split(count: int, share: float, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows to fit and, at random, those held out."""
    held = round(share * count)
    if share > 0 and not 0 < held < count:
        raise ValueError(
            f"{count} instances cannot be split to hold out a share of {share:g}: pass more of them, or "
            "StructureSearch(validation=0)"
        )
    order = random.permutation(count)
    return np.sort(order[held:]), np.sort(order[:held])
