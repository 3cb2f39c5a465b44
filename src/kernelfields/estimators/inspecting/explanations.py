"""Explanations of labels: what moved a label, and away from which other one, in chains, graphs and sets of labels.

An explanation compares the labels y of a sequence, a graph or an instance with y' that has another label o at one
place v, all others as they are:

    difference_v = score(y) - score(y') = sum over the cliques c that hold v of  f_c(y_c) - f_c(y'_c)

is the log odds of the labelling against the other one. In a chain these are the potential of the position and of the
steps to its neighbours; in a graph those of the node, its edges and larger factors. Every potential is z(x)^T w, so the
difference falls apart into terms z_f (w_fa - w_fo), one per feature, and one term per clique set without inputs or
with a kernel; these add up exactly. Which training inputs a kernel's term comes from is in training_inputs.py.

Cost: the potentials of the data and O(non-zeros) for the terms, O(pivots) kernel values per clique.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse

from kernelfields.estimators.inspecting.training_inputs import TrainingInputs, similar_parts, spoken_parts
from kernelfields.features.readers import is_feature_sequences
from kernelfields.fields.allowed import AllowedLabels
from kernelfields.fields.chains import Chains
from kernelfields.fields.cliques import check_window
from kernelfields.fields.constraints import ConstraintMasks
from kernelfields.fields.graphs import Factors, Graphs
from kernelfields.fields.label_cliques import LabelledInstances
from kernelfields.kernels.dot_product import Linear
from kernelfields.kernels.kernel import Constant, Kernel, Scaled, Sum
from kernelfields.numerics.parameters import check_count, is_whole
from kernelfields.numerics.threads import Workers
from kernelfields.objective.likelihoods.chain import only_ngrams, reaches_far
from kernelfields.objective.term import Term
from kernelfields.reports.inspection import Contribution, Explanation, PositionExplanation

#: How many weights to list by size, or how many of each sign, or None for all.
Top = int | tuple[int, int] | None
#: Weights (r, L^k) of a clique set, dense or CSR.
Weights = Any

_SHOWN_CLASSES = 10


@dataclass(frozen=True)
class Asked:
    """What an explanation is to hold: see :meth:`ChainCRF.explain`."""

    top: int = 5
    against: object = None
    feature_names: object = None
    pivots: int = 0
    neighbours: int = 3
    inputs: TrainingInputs | None = None

    @classmethod
    def of(
        cls, crf: Any, training: object, top: int, against: object, feature_names: object, pivots: int, neighbours: int
    ) -> Asked:
        """Check what is asked of a fitted estimator."""
        check_count(top, "top")
        for name, count in (("pivots", pivots), ("neighbours", neighbours)):
            if not is_whole(count) or count < 0:
                raise ValueError(f"{name} must be a whole number of at least 0, got {count!r}")
        inputs = None if training is None else TrainingInputs(crf, training)
        return cls(top, against, feature_names, pivots, neighbours, inputs)


def explain_sequence(crf: Any, x: object, y: object, tokens: object, asked: Asked) -> Explanation:
    """Return what moved the labels of one sequence; see :meth:`ChainCRF.explain`."""
    if reaches_far(crf.field_.terms) and not only_ngrams(crf.field_.terms):
        raise ValueError(
            "explain compares labels by what they meet at their neighbours and in n-grams, and this field has other "
            "cliques of longer reach: predict_marginals and coef_ have its figures"
        )
    check_one_sequence(x, "explain")
    chains = crf._reader.read([x], None if y is None else [y], None, crf.classes_)
    masks, classes = crf.field_.structure.masks, crf.classes_.tolist()
    masks.check_lengths(chains.lengths)
    answers = crf.field_.answers(chains, Workers(1))
    labels = _predicted(crf, x) if y is None else chains.labels
    others = _others(answers.marginals, labels, classes, asked.against)
    exchanges = partial(chain_exchanges, chains=chains, labels=labels, others=others, classes=classes)
    names = _by_group(feature_names(crf, asked.feature_names))
    moved = _moved(crf.field_.terms, chains, len(labels), exchanges, names, asked)
    for t, contributions in enumerate(moved):
        for own, sign in ((labels, -1.0), (others, 1.0)):
            rules = _broken_rules(masks, chains.allowed, labels, int(own[t]), t, classes)
            contributions += [broken_rule(words, sign) for words in rules]
    words = _checked_tokens(tokens, len(labels), "sequence", "positions")
    return _explanation(answers.marginals, labels, others, classes, words, moved, asked.top)


def explain_graph(crf: Any, x: object, y: object, names: object, asked: Asked) -> Explanation:
    """Return what moved the labels of one graph; see :meth:`GraphCRF.explain`."""
    classes, field = crf.classes_.tolist(), crf._field()
    graphs = crf._reader.read([x], None if y is None else [y], None, crf.classes_)
    answers = field.answers(graphs, Workers(1))
    labels = _predicted(crf, x) if y is None else graphs.labels
    others = _others(answers.marginals, labels, classes, asked.against)
    words = _checked_tokens(names, len(labels), "graph", "nodes")
    exchanges = partial(graph_exchanges, graphs=graphs, labels=labels, others=others, classes=classes, words=words)
    named = partial(graph_feature_names, crf, asked.feature_names)
    moved = _moved(field.terms, graphs, len(labels), exchanges, named, asked)
    return _explanation(answers.marginals, labels, others, classes, words, moved, asked.top)


def explain_instance(crf: Any, x: Any, y: object, asked: Asked) -> Explanation:
    """Return what moved the labels of one instance; see :meth:`MultiLabelCRF.explain`."""
    row = x[None] if isinstance(x, np.ndarray) and x.ndim == 1 else [x] if isinstance(x, list | tuple) else x
    labels_given = None if y is None else np.asarray(y).reshape(1, -1)
    field, data = crf._field(), crf._read(row, labels_given)
    if data.n_instances != 1:
        raise ValueError(f"explain takes one instance, got {data.n_instances}: pass one, such as X[:1]")
    answers = field.answers(data, Workers(1))
    labels = crf.predict(row)[0] if y is None else data.labels
    words = [str(name) for name in crf.label_names_.tolist()]
    pairs = {name: np.array([pair]) for name, pair in field.structure.pairs.items()}
    exchanges = partial(label_exchanges, data=data, pairs=pairs, labels=labels, words=words)
    names = _by_group(feature_names(crf, asked.feature_names))
    moved = _moved(field.terms, data, len(labels), exchanges, names, asked)
    return _explanation(answers.marginals, labels, 1 - labels, [0, 1], words, moved, asked.top)


def _predicted(crf: Any, x: object) -> np.ndarray:
    """Return the numbers of the labels that the estimator itself gives."""
    return np.searchsorted(crf.classes_, crf.predict([x])[0])


def _others(marginals: np.ndarray, labels: np.ndarray, classes: list, against: object) -> np.ndarray:
    """Return the label that each is compared with: the most probable besides it, or that of ``against``."""
    rest = marginals.copy()
    rest[np.arange(len(labels)), labels] = -1.0
    others = rest.argmax(axis=1)
    if against is None:
        return others
    rivals = _rivals(classes, against, len(labels))
    return np.where(rivals == labels, others, rivals)


def _moved(
    terms: Sequence[Term],
    data: Any,
    n_places: int,
    exchanges_of: Callable[[Term], Iterator[Exchange]],
    names_of: Callable[[Term], Sequence[str]],
    asked: Asked,
) -> list[list[Contribution]]:
    """Return the contributions of all terms at every place."""
    moved: list[list[Contribution]] = [[] for _ in range(n_places)]
    for term in terms:
        exchanges = list(exchanges_of(term))
        if term.has_pivots:
            found = _kernels(term, data, exchanges, asked)
        elif term.tied_everywhere:
            found = _constants(term, term.label_coefficients, exchanges)
        else:
            found = _features(term, term.label_coefficients, data, exchanges, coordinate_names(term, names_of(term)))
        for exchange, contributions in zip(exchanges, found, strict=True):
            moved[exchange.position] += contributions
    return moved


def _explanation(
    marginals: np.ndarray,
    labels: np.ndarray,
    others: np.ndarray,
    classes: Sequence[object],
    words: Sequence[str] | None,
    moved: Sequence[list[Contribution]],
    top: int,
) -> Explanation:
    """Put the contributions of every place in order, the largest features listed and the others summed up."""
    positions = []
    for t, (label, other) in enumerate(zip(labels, others, strict=True)):
        features = sorted((each for each in moved[t] if each.kind == "feature"), key=lambda each: -abs(each.amount))
        wholes = [each for each in moved[t] if each.kind != "feature"]
        shown, left_out = sorted([*features[:top], *wholes], key=lambda each: -each.amount), features[top:]
        positions.append(
            PositionExplanation(
                t,
                None if words is None else words[t],
                classes[label],
                classes[other],
                float(marginals[t, label]),
                float(marginals[t, other]),
                sum(each.amount for each in [*shown, *left_out]),
                tuple(shown),
                len(left_out),
                sum(each.amount for each in left_out),
            )
        )
    return Explanation(tuple(positions))


# ---- names of features


class WindowNames(Sequence[str]):
    """Names of the columns of a window: block j holds neighbour j - before, "[-1] name" for the one before."""

    def __init__(self, names: Sequence[str], window: int | tuple[int, int]):
        before, after = check_window(window)
        self._names = names
        self._prefixes = ["" if shift == 0 else f"[{shift:+d}] " for shift in range(-before, after + 1)]

    def __len__(self) -> int:
        return len(self._names) * len(self._prefixes)

    def __getitem__(self, column: int) -> str:  # type: ignore[override]
        if not 0 <= column < len(self):
            raise IndexError(column)
        block, place = divmod(column, len(self._names))
        return self._prefixes[block] + self._names[place]


def coordinate_names(term: Term, names: Sequence[str]) -> Sequence[str]:
    """Return the names of a set's explicit features, one per row of its weights; ``names`` are the inputs'."""
    return _mapped_names(term.subspace.kernel, WindowNames(names, term.clique.window))


def _mapped_names(kernel: Kernel, columns: Sequence[str]) -> Sequence[str]:
    if isinstance(kernel, Linear):
        return columns
    if isinstance(kernel, Scaled):
        return _mapped_names(kernel.kernel, columns)
    if isinstance(kernel, Constant):
        return ["constant"]
    if isinstance(kernel, Sum):
        return [*_mapped_names(kernel.left, columns), *_mapped_names(kernel.right, columns)]
    mapped: Any = kernel.feature_map(np.zeros((1, len(columns))))
    return [f"{type(kernel).__name__}[{index}]" for index in range(mapped.shape[1])]


def pivots_note(term: Term) -> str:
    """Say what a set of kernel functions consists of: "1,000 pivots of RBF"."""
    rank = term.subspace.rank
    return f"{rank:,} pivot{'s' if rank != 1 else ''} of {type(term.subspace.kernel).__name__}"


def _by_group(names: Sequence[str]) -> Callable[[Term], Sequence[str]]:
    """Return a function that names the inputs of every term alike."""
    return lambda term: names


def feature_names(crf: Any, given: Any) -> Sequence[str]:
    """Return the names of the inputs: those given, those of the fit, or "x0", "x1" and so on."""
    reader = crf._reader
    n_features, known = reader.n_features, reader.names if hasattr(reader, "names") else reader.feature_names
    if given is None:
        return [f"x{index}" for index in range(n_features)] if known is None else known
    if not _is_list(given):
        raise TypeError(f"feature_names must be a list of {n_features} names, got {given!r:.60}")
    if len(given) != n_features:
        raise ValueError(f"feature_names has {len(given)} names, but the inputs have {n_features} features")
    return [str(name) for name in given]


def graph_feature_names(crf: Any, given: Any, term: Term) -> Sequence[str]:
    """Return the names of what a term of a graph field sees: features of nodes, or of its type of edges.

    ``given`` are names for nodes, or a dict of them by type of edges, with those of nodes under "node".
    """
    reader, kind = crf._reader, term.group
    width = reader.width(term.clique) or 0
    own = given.get(kind or "node") if isinstance(given, Mapping) else given if kind is None else None
    if own is None:
        return reader.columns.get(kind) or [f"{'x' if kind is None else 'e'}{index}" for index in range(width)]
    if not _is_list(own) or len(own) != width:
        raise ValueError(f"feature_names of {kind or 'node'!r} must be a list of {width} names, got {own!r:.60}")
    return [str(name) for name in own]


def _is_list(given: object) -> bool:
    return hasattr(given, "__len__") and not isinstance(given, str | bytes | Mapping)


# ---- which cliques change with a label


@dataclass(frozen=True)
class Exchange:
    """One clique that changes when position t takes its other label.

    ``row`` counts the cliques of the set, ``kept`` and ``lost`` are the labellings of the clique before and after,
    ``step`` says which neighbour takes part, if one does.
    """

    position: int
    row: int
    kept: int
    lost: int
    step: str = ""

    @property
    def suffix(self) -> str:
        """What the step adds to a name."""
        return f", {self.step}" if self.step else ""


def chain_exchanges(
    term: Term, chains: Chains, labels: np.ndarray, others: np.ndarray, classes: Sequence[object]
) -> Iterator[Exchange]:
    """Yield the cliques of a set that change with each position's label."""
    positions = term.clique.positions(chains)
    placed = range(chains.n_positions) if positions is None else positions.tolist()
    for row, t in enumerate(placed):
        if term.clique.labels_per_clique == 1:
            yield Exchange(t, row, int(labels[t]), int(others[t]))
            continue
        if term.clique.labels_per_clique > 2:
            yield from _ngram_exchanges(t, row, term.clique.labels_per_clique, labels, others, classes)
            continue
        width = len(classes)
        before, after = int(labels[t - 1]), int(labels[t])
        kept = before * width + after
        yield Exchange(t, row, kept, before * width + int(others[t]), f"transition from {classes[before]}")
        yield Exchange(t - 1, row, kept, int(others[t - 1]) * width + after, f"transition to {classes[after]}")


def _ngram_exchanges(
    last: int, row: int, length: int, labels: np.ndarray, others: np.ndarray, classes: Sequence[object]
) -> Iterator[Exchange]:
    """Yield what changes in the n-gram that ends at a position when one of its labels does."""
    first, shape = last - length + 1, (len(classes),) * length
    kept = labels[first : last + 1].tolist()
    for t in range(first, last + 1):
        lost = [*kept[: t - first], int(others[t]), *kept[t - first + 1 :]]
        named = [f"[{classes[label]}]" if first + i == t else f"{classes[label]}" for i, label in enumerate(kept)]
        before, after = (int(np.ravel_multi_index(each, shape)) for each in (kept, lost))
        yield Exchange(t, row, before, after, f"{length}-gram {' '.join(named)}")


def graph_exchanges(
    term: Term,
    graphs: Graphs,
    labels: np.ndarray,
    others: np.ndarray,
    classes: Sequence[object],
    words: Sequence[str] | None,
) -> Iterator[Exchange]:
    """Yield the cliques of a set that change with each node's label."""
    if term.group is None:
        positions = term.clique.positions(graphs)
        placed = range(graphs.n_positions) if positions is None else positions.tolist()
        for row, v in enumerate(placed):
            yield Exchange(v, row, int(labels[v]), int(others[v]))
        return
    factors: Factors = graphs.group(term.group)

    def step(neighbours: list[int]) -> str:
        named = [f"{u if words is None else words[u]} ({classes[labels[u]]})" for u in neighbours]
        return f"{term.group} with {' and '.join(named)}"

    yield from _factor_exchanges(factors.members, labels, others, len(classes), step)


def label_exchanges(
    term: Term, data: LabelledInstances, pairs: Mapping[str, np.ndarray], labels: np.ndarray, words: Sequence[str]
) -> Iterator[Exchange]:
    """Yield the cliques of a set that change with each label of one instance."""
    if term.group is None:
        positions: Any = term.clique.positions(data)
        for row, v in enumerate(positions.tolist()):
            yield Exchange(v, row, int(labels[v]), 1 - int(labels[v]))
        return

    def step(neighbours: list[int]) -> str:
        (other,) = neighbours
        return f"{words[other]} is {'there' if labels[other] else 'not there'}"

    yield from _factor_exchanges(pairs[term.group], labels, 1 - labels, 2, step)


def _factor_exchanges(
    members: np.ndarray, labels: np.ndarray, others: np.ndarray, n_labels: int, step: Callable[[list[int]], str]
) -> Iterator[Exchange]:
    """Yield what changes in factors (M, k) when one of their labels does; ``step`` names the other nodes."""
    for row, nodes in enumerate(members.tolist()):
        kept = [int(labels[v]) for v in nodes]
        for place, v in enumerate(nodes):
            lost = [*kept[:place], int(others[v]), *kept[place + 1 :]]
            before, after = (int(np.ravel_multi_index(each, (n_labels,) * len(nodes))) for each in (kept, lost))
            yield Exchange(v, row, before, after, step(nodes[:place] + nodes[place + 1 :]))


# ---- what they contribute


def _constants(term: Term, weights: Weights, exchanges: Sequence[Exchange]) -> Iterator[list[Contribution]]:
    ngrams = term.outcomes is not None
    score = _listed_scores(term) if ngrams else _dense(weights)[0].__getitem__
    own_name = f" ({term.name})" if term.name != term.clique.default_name and not ngrams else ""
    for exchange in exchanges:
        kind, name = ("transition", exchange.step + own_name) if exchange.step else ("constant", term.name)
        amount = float(score(exchange.kept) - score(exchange.lost))
        # Most n-grams that a labelling has were never seen, nor those in their place.
        yield [] if ngrams and amount == 0.0 else [Contribution(kind, term.name, name, amount)]


def _listed_scores(term: Term) -> Callable[[int], float]:
    """Return the score of a labelling by its number, zero for those that are not listed."""
    assert term.outcomes is not None
    known = dict(zip(term.outcomes.tolist(), np.ravel(term.known).tolist(), strict=True))
    return lambda number: known.get(number, 0.0)


def _features(
    term: Term, weights: Weights, data: Any, exchanges: Sequence[Exchange], named: Sequence[str]
) -> Iterator[list[Contribution]]:
    """Yield the terms of all features that an exchange moves, those of zero left out."""
    features = scipy.sparse.csr_array(term.subspace.features(term.clique.view(data)))
    for exchange in exchanges:
        entries = slice(features.indptr[exchange.row], features.indptr[exchange.row + 1])
        columns, values = features.indices[entries], features.data[entries]
        # Sparse or dense, only the rows of features that occur are looked at.
        pair = _dense(weights[columns][:, [exchange.kept, exchange.lost]])
        amounts = values * (pair[:, 0] - pair[:, 1])
        yield [
            Contribution(
                "feature", term.name, named[int(columns[i])] + exchange.suffix, float(amounts[i]), float(values[i])
            )
            for i in np.flatnonzero(amounts)
        ]


def _kernels(term: Term, data: Any, exchanges: Sequence[Exchange], asked: Asked) -> Iterator[list[Contribution]]:
    """Yield the whole contribution of a set of kernel functions, with the parts of it that were asked for."""
    scores, parts_of = term.scores(data, Workers(1)), _parts(term, data, asked)
    for exchange in exchanges:
        amount = float(scores[exchange.row, exchange.kept] - scores[exchange.row, exchange.lost])
        parts, total = parts_of(exchange)
        if parts and total > len(parts) and parts[0].kind != "similar":
            left = total - len(parts)
            rest = amount - sum(part.amount for part in parts)
            parts.append(Contribution("rest", term.name, f"{left:,} other training input{'s' * (left > 1)}", rest))
        name = f"{term.name}: {pivots_note(term)}{exchange.suffix}"
        yield [Contribution("kernel", term.name, name, amount, parts=tuple(parts))]


def _parts(term: Term, data: Any, asked: Asked) -> Callable[[Exchange], tuple[list[Contribution], int]]:
    """Return what gives the parts of a kernel's contribution to an exchange, and how many there are in all."""
    if asked.pivots:
        return partial(_pivot_parts, term, *_dual(term, data), asked.pivots)
    if not asked.neighbours:
        return lambda exchange: ([], 0)
    if asked.inputs is not None:
        inputs = asked.inputs
        speakers = inputs.speakers(term, data)
        return lambda exchange: (
            spoken_parts(term, speakers, inputs, exchange, asked.neighbours),
            len(speakers.weights),
        )
    subspace = term.subspace
    similar = subspace.kernel(term.clique.view(data), subspace.pivots)
    at_pivots = term.in_labels(subspace.apply(subspace.pivots, term.known))
    return lambda exchange: (
        list(similar_parts(term, similar[exchange.row], at_pivots, exchange, asked.neighbours)),
        subspace.rank,
    )


def _dual(term: Term, data: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return kernel values to the pivots (n, r), and the coefficients of their kernel functions (r, L^k)."""
    similar = term.subspace.kernel(term.clique.view(data), term.subspace.pivots)
    return similar, term.in_labels(term.subspace.dual_coefficients(term.known))


def _pivot_parts(
    term: Term, similar: np.ndarray, dual: np.ndarray, count: int, exchange: Exchange
) -> tuple[list[Contribution], int]:
    """Return the terms of the kernel expansion that are largest, and how many terms it has."""
    values = similar[exchange.row]
    amounts = values * (dual[:, exchange.kept] - dual[:, exchange.lost])
    chosen = np.concatenate(largest(amounts, count))
    indices = term.subspace.indices
    parts = [
        Contribution("pivot", term.name, f"pivot {i}, training input {indices[i]}", float(amounts[i]), float(values[i]))
        for i in chosen[np.argsort(-amounts[chosen], kind="stable")].tolist()
    ]
    return parts, len(amounts)


def broken_rule(words: str, sign: float = 1.0) -> Contribution:
    """Return the contribution of a rule that forbids the other labelling or, with ``sign`` -1, the one explained."""
    return Contribution("rule", "", words, sign * np.inf)


def _broken_rules(
    masks: ConstraintMasks,
    allowed: AllowedLabels | None,
    labels: np.ndarray,
    label: int,
    t: int,
    classes: Sequence[object],
) -> Iterator[str]:
    """Yield the rules that a label at t breaks, given the labels of the neighbours."""
    last = len(labels) - 1
    before, after = labels[max(t - 1, 0)], labels[min(t + 1, last)]
    constraints = "by the constraints"
    rules = [
        (masks.label[label], f"everywhere {constraints}"),
        (t == 0 and masks.start[label], f"at the first position {constraints}"),
        (t == last and masks.end[label], f"at the last position {constraints}"),
        (t > 0 and masks.edge[before, label], f"after {classes[before]} {constraints}"),
        (t < last and masks.edge[label, after], f"before {classes[after]} {constraints}"),
        (allowed is not None and label not in allowed[t : t + 1].labels, "here: it is not among the allowed labels"),
    ]
    yield from (f"{classes[label]} is forbidden {where}" for broken, where in rules if broken)


def largest(values: np.ndarray, top: Top) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices of the largest positive values, falling, and of the lowest negative ones, rising.

    Zero is neither.
    """
    if isinstance(top, tuple):
        positive, negative = (_largest_of(sign * values, count) for sign, count in zip((1, -1), top, strict=True))
        return positive, negative
    chosen = _largest_of(np.abs(values), len(values) if top is None else top)
    return chosen[values[chosen] > 0], chosen[values[chosen] < 0]


def _largest_of(values: np.ndarray, count: int) -> np.ndarray:
    """Return the indices of the ``count`` largest values above zero, falling, the earlier first among equals."""
    above = np.flatnonzero(values > 0)
    if count < len(above):
        found = values[above]
        least = np.partition(found, -count)[-count] if count else np.inf
        larger, equal = above[found > least], above[found == least]
        above = np.concatenate([larger, equal[: count - len(larger)]])
    return above[np.lexsort((above, -values[above]))]


def _dense(weights: Weights) -> np.ndarray:
    return weights.toarray() if scipy.sparse.issparse(weights) else np.asarray(weights)


# ---- what is asked for


def _checked_tokens(tokens: Any, n_positions: int, whole: str, parts: str) -> list[str] | None:
    if tokens is None:
        return None
    if not _is_list(tokens):
        raise TypeError(f"tokens must be a list of {n_positions} words, got {tokens!r:.60}")
    if len(tokens) != n_positions:
        raise ValueError(f"tokens has {len(tokens)} entries, but the {whole} has {n_positions} {parts}")
    return [str(token) for token in tokens]


def label_index(classes: list[object], label: object, where: str) -> int:
    """Return the place of a label; ValueError saying where an unknown one was found."""
    plain = label.item() if isinstance(label, np.generic) else label
    if plain not in classes:
        shown = ", ".join(map(repr, classes[:_SHOWN_CLASSES]))
        more = f" and {len(classes) - _SHOWN_CLASSES} more" if len(classes) > _SHOWN_CLASSES else ""
        raise ValueError(f"{where} holds the unknown label {plain!r}: known are {shown}{more}")
    return classes.index(plain)


def _rivals(classes: list[object], against: object, n_positions: int) -> np.ndarray:
    """Return the index of the label to compare with at each position, (T,)."""
    if not isinstance(against, list | tuple | np.ndarray) or np.ndim(against) == 0:
        return np.full(n_positions, label_index(classes, against, "against"))
    if len(against) != n_positions:
        raise ValueError(
            f"against holds {len(against)} labels, but the sequence has {n_positions} positions: "
            "give one label, or one for each position"
        )
    return np.array([label_index(classes, label, "against") for label in against])


def check_one_sequence(x: Any, caller: str) -> None:
    """Raise, in the caller's name, unless x can be one sequence; what is in it is checked where it is read."""
    first = x[0] if isinstance(x, list | tuple | np.ndarray) and len(x) else None
    row = first[0] if isinstance(first, list | tuple) and len(first) else None
    table = scipy.sparse.issparse(first) or getattr(first, "ndim", 1) > 1 or isinstance(row, list | tuple | np.ndarray)
    if table or is_feature_sequences(x):
        raise ValueError(f"{caller} takes one sequence, got a list of {len(x)} of them: pass one, such as X[0]")
    if isinstance(x, np.ndarray) and x.dtype != object and x.ndim != 2:
        raise ValueError(f"{caller} takes one sequence of shape (positions, features), got shape {x.shape}")
