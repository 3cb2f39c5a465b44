"""Explanations of labels: contributions to a label against another one, for every family of labellings.

An explanation compares the labels y of a sequence, a graph or an instance with y' that has another label o at one
place v, all others as they are:

    difference_v = score(y) - score(y') = sum over the cliques c that hold v of  f_c(y_c) - f_c(y'_c)

is the log odds of the labelling against the other one. In a chain these are the potential of the position and of the
steps to its neighbours; in a graph those of the node, its edges and larger factors. Every potential is z(x)^T w, so the
difference falls apart into terms z_f (w_fa - w_fo), one per feature, and one term per clique set without inputs or
with a kernel; these add up exactly. A rule that forbids one of the labellings contributes infinity.

A function of a kernel is a sum over its pivots, a part of the training inputs: the most similar ones are listed, and
the score of the label there.

Cost: the potentials of the data and O(non-zeros) for the terms, O(pivots) kernel values per clique.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from math import nan
from typing import Any, TypeAlias, TypeGuard

import numpy as np
import scipy.sparse

from kernelfields.data.chains import UNLISTED, Packed
from kernelfields.data.reading import find_place, is_feature_sequences, plain_label
from kernelfields.engines.engine import PackedData
from kernelfields.inference.answers import Answers
from kernelfields.inference.family import LabelFamily
from kernelfields.kernels.algebra import Scaled, Sum
from kernelfields.kernels.columns import Columns
from kernelfields.kernels.dot_product import Linear
from kernelfields.kernels.kernel import Constant, Kernel
from kernelfields.numerics.containers import n_dimensions
from kernelfields.numerics.parameters import check_count, is_whole
from kernelfields.numerics.threads import Workers
from kernelfields.numerics.wording import inflect
from kernelfields.objective.term import Term
from kernelfields.reports.inspection import Contribution, Explanation, PositionExplanation

#: How many weights to list by size, or how many of each sign, or None for all.
Top = int | tuple[int, int] | None
#: Weights (r, L^k) of a clique set, dense or CSR.
Weights: TypeAlias = np.ndarray | scipy.sparse.csr_array
#: Names the other labels of a clique: its group, its positions, and which of them is exchanged.
StepWords = Callable[[Term, list[int], int], str]


@dataclass(frozen=True)
class Exchange:
    """One clique whose label changes with the label of a position.

    ``row`` counts the cliques of the set, ``kept`` and ``lost`` are the labellings of the clique before and after,
    ``step`` names the neighbours that take part, if any do.
    """

    position: int
    row: int
    kept: int
    lost: int
    step: str = ""

    @property
    def suffix(self) -> str:
        """The suffix of the name of a contribution."""
        return f", {self.step}" if self.step else ""


@dataclass(frozen=True)
class ExplanationSettings:
    """Settings of an explanation; see :meth:`FieldEstimator.explain`."""

    top: int = 5
    neighbours: int = 3

    def check(self) -> None:
        """Raise ValueError if a number is invalid."""
        check_count(self.top, "top")
        if not is_whole(self.neighbours) or self.neighbours < 0:
            raise ValueError(f"neighbours must be a whole number of at least 0, got {self.neighbours!r}")


@dataclass(frozen=True)
class Compared:
    """Labels of one item (T,), the labels to compare with (T,), the classes, and the token of each place."""

    labels: np.ndarray
    others: np.ndarray
    classes: Sequence[object]
    words: Sequence[str] | None
    #: The places to explain, rising.
    places: Sequence[int]
    #: Whether places have no order, so that others are named by number or word beside their labels.
    unordered: bool = False

    def describe_place(self, place: int) -> str:
        """Return the description of a place that shares a clique with another one."""
        label = self.classes[self.labels[place]]
        if not self.unordered:
            return str(label)
        return f"{place if self.words is None else self.words[place]} ({label})"


def explain_labels(
    terms: Sequence[Term],
    answers: Answers,
    compared: Compared,
    names_of: Callable[[Term], Sequence[str]],
    step_words: StepWords,
    settings: ExplanationSettings,
) -> Explanation:
    """Explain the labels of one item by contributions; ``names_of`` names the input columns of a term."""
    settings.check()
    data, family = answers.data, answers.family
    labels, others = compared.labels, compared.others
    moved: dict[int, list[Contribution]] = {place: [] for place in compared.places}
    for term in terms:
        every = _exchanges(term, data, family, labels, others, step_words)
        exchanges = [exchange for exchange in every if exchange.position in moved]
        if term.has_pivots:
            found = _kernels(term, data, exchanges, settings)
        elif term.is_constant:
            found = _constants(term, term.label_coefficients, exchanges)
        else:
            found = _features(term, term.label_coefficients, data, exchanges, coordinate_names(term, names_of(term)))
        for exchange, contributions in zip(exchanges, found, strict=True):
            moved[exchange.position] += contributions
    if family.base is not None:
        for chosen, sign in ((labels, -1.0), (others, 1.0)):
            for t, rule in _broken_rules(family, data, compared, chosen):
                if t in moved:
                    moved[t].append(broken_rule(rule, sign))
    classes, words, rows = compared.classes, compared.words, np.arange(len(labels))
    chances = answers.marginals[rows, labels].tolist(), answers.marginals[rows, others].tolist()
    return Explanation(
        tuple(
            PositionExplanation(
                t,
                None if words is None else words[t],
                classes[labels[t]],
                classes[others[t]],
                chances[0][t],
                chances[1][t],
                *sum_contributions(contributions, settings.top),
            )
            for t, contributions in moved.items()
        )
    )


def broken_rule(words: str, sign: float = 1.0) -> Contribution:
    """Return the contribution of a rule that forbids the other labelling; with ``sign`` -1, this one."""
    return Contribution("rule", "", words, sign * np.inf)


def sum_contributions(moved: Sequence[Contribution], top: int) -> tuple[float, tuple[Contribution, ...], int, float]:
    """Return the sum of contributions, the largest in falling order, and number and sum of the others."""
    features = sorted((part for part in moved if part.kind == "feature"), key=lambda part: -abs(part.amount))
    wholes = [part for part in moved if part.kind != "feature"]
    shown, left_out = sorted([*features[:top], *wholes], key=lambda part: -part.amount), features[top:]
    total = sum(part.amount for part in [*shown, *left_out])
    return total, tuple(shown), len(left_out), sum(part.amount for part in left_out)


def likeliest_others(marginals: np.ndarray, labels: np.ndarray, classes: list, against: object) -> np.ndarray:
    """Return the label to compare with each label: the most probable other label, or the label of ``against``."""
    rest = marginals.copy()
    rest[np.arange(len(labels)), labels] = -1.0
    others = rest.argmax(axis=1)
    if against is None:
        return others
    tail = f"the sequence has {len(labels)} positions: give one label, or one for each position"
    rivals = np.array(rival_labels(classes, against, len(labels), tail))
    return np.where(rivals == labels, others, rivals)


# ---- names of features


class WindowNames(Sequence[str]):
    """Names of the columns of a window: block j holds neighbour j - before, "[-1] name" for the one before."""

    def __init__(self, names: Sequence[str], neighbours: tuple[int, int]):
        before, after = neighbours
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
    """Return the names of the explicit features of a set, one per row of weights, from ``names`` of inputs."""
    return _mapped_names(term.subspace.kernel, WindowNames(names, term.clique.neighbours))


def _mapped_names(kernel: Kernel, columns: Sequence[str]) -> Sequence[str]:
    if isinstance(kernel, Linear):
        return columns
    if isinstance(kernel, Scaled):
        return _mapped_names(kernel.kernel, columns)
    if isinstance(kernel, Columns):
        end = len(columns) if kernel.end is None else kernel.end
        return _mapped_names(kernel.kernel, [columns[place] for place in range(int(kernel.begin), end)])
    if isinstance(kernel, Constant):
        return ["constant"]
    if isinstance(kernel, Sum):
        return [*_mapped_names(kernel.left, columns), *_mapped_names(kernel.right, columns)]
    mapped: Any = kernel.feature_map(np.zeros((1, len(columns))))
    return [f"{type(kernel).__name__}[{index}]" for index in range(mapped.shape[1])]


def pivots_note(term: Term) -> str:
    """Return a description of kernel functions: "1,000 pivots of RBF"."""
    rank = term.subspace.rank
    return f"{inflect(rank, 'pivot')} of {type(term.subspace.kernel).__name__}"


def input_names(
    known: Sequence[str] | None, width: int, given: object, prefix: str = "x", what: str = ""
) -> Sequence[str]:
    """Return the names of input columns: given names, names of the fit, or "x0", "x1" and so on."""
    if given is None:
        return [f"{prefix}{index}" for index in range(width)] if known is None else known
    if not is_list(given):
        raise TypeError(f"feature_names{what} must be a list of {width} names, got {given!r:.60}")
    if len(given) != width:
        raise ValueError(f"feature_names{what} has {len(given)} names, but the inputs have {width} features")
    return [str(name) for name in given]


def is_list(given: object) -> TypeGuard[Sequence[object]]:
    """Whether a value is a list of names instead of text or a dict."""
    return isinstance(given, Sized) and not isinstance(given, str | bytes | Mapping)


# ---- which cliques change with a label


def _exchanges(
    term: Term, data: PackedData, family: LabelFamily, labels: np.ndarray, others: np.ndarray, step_words: StepWords
) -> Iterator[Exchange]:
    """Yield the cliques of a set that change with the label of each place."""
    if term.group is None:
        positions = term.clique.positions(data)
        placed = range(len(labels)) if positions is None else positions.tolist()
        for row, v in enumerate(placed):
            yield Exchange(v, row, int(labels[v]), int(others[v]))
        return
    for row, nodes in enumerate(family.clique_members(term.group).tolist()):
        shape, kept = (family.n_labels,) * len(nodes), [int(labels[v]) for v in nodes]
        for place, v in enumerate(nodes):
            lost = [*kept[:place], int(others[v]), *kept[place + 1 :]]
            before, after = (int(np.ravel_multi_index(numbers, shape)) for numbers in (kept, lost))
            yield Exchange(v, row, before, after, step_words(term, nodes, place))


# ---- what they contribute


def _constants(term: Term, weights: Weights, exchanges: Sequence[Exchange]) -> Iterator[list[Contribution]]:
    ngrams = term.outcomes is not None
    score = _listed_scores(term) if ngrams else dense(weights)[0].__getitem__
    own_name = f" ({term.name})" if term.name != term.clique.default_name and not ngrams else ""
    for exchange in exchanges:
        kind, name = ("transition", exchange.step + own_name) if exchange.step else ("constant", term.name)
        amount = float(score(exchange.kept) - score(exchange.lost))
        # Most n-grams that a labelling has were never seen, nor those in their place.
        yield [] if ngrams and amount == 0.0 else [Contribution(kind, term.name, name, amount)]


def _listed_scores(term: Term) -> Callable[[int], float]:
    """Return the score of a labelling by its number, zero for labellings without one."""
    assert term.outcomes is not None
    known = dict(zip(term.outcomes.tolist(), np.ravel(term.known).tolist(), strict=True))
    return lambda number: known.get(number, 0.0)


def _features(
    term: Term, weights: Weights, data: PackedData, exchanges: Sequence[Exchange], named: Sequence[str]
) -> Iterator[list[Contribution]]:
    """Yield the nonzero contributions of features in an exchange."""
    features = scipy.sparse.csr_array(term.subspace.features(term.clique.view(data)))
    for exchange in exchanges:
        entries = slice(features.indptr[exchange.row], features.indptr[exchange.row + 1])
        columns, values = features.indices[entries], features.data[entries]
        # Sparse or dense, only the rows of features that occur are looked at.
        pair = dense(weights[columns][:, [exchange.kept, exchange.lost]])
        amounts = values * (pair[:, 0] - pair[:, 1])
        yield [
            Contribution(
                "feature", term.name, named[int(columns[i])] + exchange.suffix, float(amounts[i]), float(values[i])
            )
            for i in np.flatnonzero(amounts)
        ]


def _kernels(
    term: Term, data: PackedData, exchanges: Sequence[Exchange], settings: ExplanationSettings
) -> Iterator[list[Contribution]]:
    """Yield the contribution of a set of kernel functions, with requested parts."""
    scores, subspace = term.scores(data, Workers(1)), term.span
    similar = subspace.kernel(term.clique.view(data), subspace.pivots)
    at_pivots = term.to_labellings(subspace.apply(subspace.pivots, term.known))
    for exchange in exchanges:
        amount = float(scores[exchange.row, exchange.kept] - scores[exchange.row, exchange.lost])
        parts = _similar_parts(term, similar[exchange.row], at_pivots, exchange, settings.neighbours)
        name = f"{term.name}: {pivots_note(term)}{exchange.suffix}"
        yield [Contribution("kernel", term.name, name, amount, parts=tuple(parts))]


def _similar_parts(
    term: Term, values: np.ndarray, at_pivots: np.ndarray, exchange: Exchange, count: int
) -> list[Contribution]:
    """Return the most similar pivots by kernel values (r,), with their scores in the exchange."""
    parts = []
    for i in np.argsort(-values, kind="stable")[:count].tolist():
        there = float(at_pivots[i, exchange.kept] - at_pivots[i, exchange.lost])
        name = f"like {term.span.origin(i)}, {there:+.3f} there"
        parts.append(Contribution("similar", term.name, name, nan, float(values[i])))
    return parts


def _broken_rules(
    family: LabelFamily, data: Packed, compared: Compared, chosen: np.ndarray
) -> Iterator[tuple[int, str]]:
    """Yield places and the rules that their chosen labels (T,) break, given all other labels."""
    base, classes, labels = family.base, compared.classes, compared.labels
    assert base is not None
    masks, barred, last = base.masks, data.find_forbidden(chosen), len(labels) - 1
    for t, label in enumerate(chosen.tolist()):
        rules = []
        if masks is not None:
            rules = [
                (masks.label[label], "everywhere by the constraints"),
                (t == 0 and masks.start[label], "at the first position by the constraints"),
                (t == last and masks.end[label], "at the last position by the constraints"),
            ]
        rules.append((barred[t], f"here: {UNLISTED}"))
        yield from ((t, f"{classes[label]} is forbidden {where}") for broken, where in rules if broken)
    if base.step is None:
        return
    first, second = family.step_pairs().T
    for own, other, word in ((second, first, "after"), (first, second, "before")):
        pair = (labels[other], chosen[own]) if word == "after" else (chosen[own], labels[other])
        for row in np.flatnonzero(base.step[pair]).tolist():
            where = f"{word} {compared.describe_place(int(other[row]))} by the constraints"
            yield int(own[row]), f"{classes[chosen[own[row]]]} is forbidden {where}"


def largest(values: np.ndarray, top: Top) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices of the largest positive values, falling, and of the lowest negative values, rising.

    Zero is neither.
    """
    if isinstance(top, tuple):
        positive, negative = (_select_largest(sign * values, count) for sign, count in zip((1, -1), top, strict=True))
        return positive, negative
    chosen = _select_largest(np.abs(values), len(values) if top is None else top)
    return chosen[values[chosen] > 0], chosen[values[chosen] < 0]


def _select_largest(values: np.ndarray, count: int) -> np.ndarray:
    """Return the indices of the ``count`` largest values above zero, falling, the earlier first among equals."""
    above = np.flatnonzero(values > 0)
    if count < len(above):
        found = values[above]
        least = np.partition(found, -count)[-count] if count else np.inf
        larger, equal = above[found > least], above[found == least]
        above = np.concatenate([larger, equal[: count - len(larger)]])
    return above[np.lexsort((above, -values[above]))]


def dense(weights: Weights) -> np.ndarray:
    """Return weights as an array."""
    return weights if isinstance(weights, np.ndarray) else weights.toarray()


# ---- checks of requests


def check_tokens(tokens: object, n_positions: int, whole: str, part: str) -> list[str]:
    """Return the token of each place of one item; ValueError for another number of tokens."""
    if not is_list(tokens):
        raise TypeError(f"tokens must be a list of {n_positions} words, got {tokens!r:.60}")
    if len(tokens) != n_positions:
        raise ValueError(f"tokens has {len(tokens)} entries, but the {whole} has {n_positions} {part}s")
    return [str(token) for token in tokens]


def check_places(positions: object, n_positions: int, part: str) -> list[int]:
    """Return the places to explain, rising, all for None; ValueError for unknown places."""
    if positions is None:
        return list(range(n_positions))
    if not is_list(positions):
        raise TypeError(f"positions must be a list of {part}s, such as [0], got {positions!r:.60}")
    wrong = [place for place in positions if not is_whole(place) or not 0 <= place < n_positions]
    if wrong:
        raise ValueError(f"positions names {wrong[0]!r:.60}, and there are {part}s 0 to {n_positions - 1}")
    return sorted({int(place) for place in positions})  # type: ignore[call-overload]  # checked above


def rival_labels(classes: list[object], against: object, count: int, tail: str) -> list[int]:
    """Return the class numbers of the labels to compare with; ``tail`` ends the error message."""
    if not isinstance(against, list | tuple | np.ndarray) or np.ndim(against) == 0:
        return label_numbers(classes, [against], "against") * count
    if len(against) != count:
        raise ValueError(f"against holds {len(against)} labels, but {tail}")
    return label_numbers(classes, against, "against")


def label_numbers(classes: Sequence[object], labels: Iterable, parameter: str) -> list[int]:
    """Return the class numbers of labels; ValueError with the name of the parameter for unknown labels."""
    places = {label: place for place, label in enumerate(classes)}
    return [find_place(plain_label(label), places, f"{parameter} holds") for label in labels]


def one_row(x: Any) -> Any:
    """Return one sample as a table of one row; tables stay unchanged."""
    if isinstance(x, np.ndarray) and x.ndim == 1:
        return x[None]
    if isinstance(x, Mapping):
        return [x]
    return [x] if isinstance(x, list | tuple) and x and not isinstance(x[0], list | tuple | np.ndarray) else x


def check_one_sequence(x: Any, caller: str) -> None:
    """Raise, in the caller's name, unless x can be one sequence."""
    first = x[0] if isinstance(x, list | tuple | np.ndarray) and len(x) else None
    row = first[0] if isinstance(first, list | tuple) and len(first) else None
    table = scipy.sparse.issparse(first) or n_dimensions(first) > 1 or isinstance(row, list | tuple | np.ndarray)
    if table or is_feature_sequences(x):
        raise ValueError(f"{caller} takes one sequence, got a list of {len(x)} of them: pass one, such as X[0]")
    if isinstance(x, np.ndarray) and x.dtype.kind not in "OU" and x.ndim != 2:
        raise ValueError(f"{caller} takes one sequence of shape (positions, features), got shape {x.shape}")
