"""Ties between labels: a group of permutations of labels and columns of the inputs that keeps scores.

    f(g.x, g.y) = f(x, y) for every g          (g.x)_{c(j)} = x_j,   g.y = l(y)

A chord moved up by a semitone is the chord of the notes moved up; left and right change places together with what was
measured left and right. A :class:`LabelSymmetry` names one such g, a generator; together with their repetitions and
products the generators are the group G. The prior of a tied set has the kernel

    mean over g in G of  k(x, g.x') [y = g.y']

whose functions are those of k with f(g.x, g.y) = f(x, y), and whose norm is that of k. So a field with ties has the
optimum of a field without on the data moved by every g, each with the weight 1 / |G|: no datum is copied for it.

:class:`Permutations` are generators in numbers, as a clique set keeps them: of labels (m, L), and of the columns that
its cliques see (m, d). Cost: O(m (L + d)); :meth:`Permutations.elements` O(|G| m (L + d)).
Raises ValueError for mappings that are no permutations, for names of no label or column, and for large groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from kernelfields.data.reading import find_place, listed
from kernelfields.numerics.parameters import is_whole
from kernelfields.numerics.registry import SETTINGS, Parametrized

#: The most elements of a group that are spelled out, for pivots and for certificates over the RKHS.
MOST_ELEMENTS = 5040


@SETTINGS.register("label symmetry")
class LabelSymmetry(Parametrized):
    """Tie labels: permuted labels and columns of the inputs have equal scores.

    It is one generator of a group; ``ties`` of an estimator takes one or a list. docs/ties.md has examples from music
    and sensors.

    Parameters
    ----------
    labels : dict
        The label that each label becomes; labels that are not named stay as they are.
    columns : sequence of int or dict, optional
        The place ``columns[j]`` that column j of X goes to; a dict names, by name or number, those that move. By
        default columns stay. In a window, every part is moved so; :func:`repeated_columns` is for blocks of one's own.
    edge_columns : sequence of int or dict, optional
        The places of the features of edges and factors of graphs, in the same form.

    See Also
    --------
    repeated_columns : Moves the columns of repeated blocks.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import ChainCRF
    >>> from kernelfields.data import LabelSymmetry
    >>> mirror = LabelSymmetry({"left": "right", "right": "left"}, columns=[1, 0])
    >>> X, y = [[[2.0, 0.0], [1.0, 0.0], [0.0, 1.0]]], [["left", "left", "right"]]  # columns measure left and right
    >>> crf = ChainCRF("linear", prior_variance=1.0, scale=False, ties=mirror).fit(X, y)
    >>> left, right = crf.predict_marginals([[[2.0, 0.0]], [[0.0, 2.0]]])
    >>> np.allclose(left, right[:, ::-1])  # the same, with labels in each other's place
    True
    """

    def __init__(self, labels: Mapping[Any, Any], columns: Any = None, edge_columns: Any = None):
        self.labels = labels
        self.columns = columns
        self.edge_columns = edge_columns


def repeated_columns(columns: Sequence[int], blocks: int, others: int = 0) -> np.ndarray:
    """Return the permutation of columns that permutes blocks of columns.

    Parameters
    ----------
    columns : sequence of int
        The place that each column of a block goes to.
    blocks : int
        The number of blocks.
    others : int, default 0
        The number of columns after the blocks, which stay.

    Returns
    -------
    array (n_columns,)
        The place of each column.

    Raises
    ------
    ValueError
        If ``columns`` is no permutation.

    See Also
    --------
    LabelSymmetry : Ties labels.

    Examples
    --------
    >>> from kernelfields.data import repeated_columns
    >>> repeated_columns([1, 0], blocks=2, others=1).tolist()
    [1, 0, 3, 2, 4]
    """
    moved = _check_permutation(np.asarray(columns), "columns")
    count = len(moved) * blocks
    within = moved + len(moved) * np.arange(blocks)[:, None]
    return np.concatenate([within.ravel(), np.arange(count, count + others)])


@SETTINGS.register("permutations")
class Permutations(Parametrized):
    """Generators of a group: label i becomes ``labels[k, i]`` (m, L), column j becomes ``columns[k, j]`` (m, d)."""

    def __init__(self, labels: np.ndarray, columns: np.ndarray):
        self.labels = labels
        self.columns = columns

    def check(self) -> None:
        """Raise ValueError unless every row is a permutation."""
        labels, columns = self.labels, self.columns
        for rows in (labels, columns):
            if not isinstance(rows, np.ndarray) or rows.ndim != 2 or len(rows) != len(labels):
                raise ValueError("ties of labels and of columns do not fit together")
            for row in rows:
                _check_permutation(row, "ties")

    @cached_property
    def elements(self) -> tuple[np.ndarray, np.ndarray]:
        """All elements of the group, (|G|, L) and (|G|, d), the identity first."""
        n_labels = self.labels.shape[1]
        generators = np.hstack([self.labels, self.columns + n_labels])
        first = np.arange(generators.shape[1])
        found, new = {first.tobytes(): first}, [first]
        while new:
            known, new = new, []
            for element in known:
                for generator in generators:
                    product = generator[element]
                    if product.tobytes() not in found:
                        found[product.tobytes()] = product
                        new.append(product)
            if len(found) > MOST_ELEMENTS:
                raise ValueError(
                    f"ties generate a group of more than {MOST_ELEMENTS:,} elements, too many for the pivots of a "
                    "kernel: use kernel='linear', or fewer generators"
                )
        every = np.array(list(found.values()))
        return every[:, :n_labels], every[:, n_labels:] - n_labels


def permute_labellings(labels: np.ndarray, labels_per_clique: int) -> np.ndarray:
    """Return the permutation of labellings of a clique, (L^k,), for a permutation of labels (L,)."""
    n_labels = len(labels)
    moved = np.zeros(1, dtype=np.int64)
    for _ in range(labels_per_clique):
        moved = (moved[:, None] * n_labels + labels).ravel()
    return moved


@dataclass(frozen=True)
class TiedColumns:
    """Number and names of the columns of inputs or of factor features; names may be None."""

    count: int
    names: Sequence[str] | None = None


def read_ties(ties: object) -> list[LabelSymmetry]:
    """Return the generators of ``ties``; TypeError for anything else."""
    given: list[Any] = list(ties) if isinstance(ties, list | tuple) else [ties]
    for each in given:
        if not isinstance(each, LabelSymmetry):
            raise TypeError(f"ties must be a LabelSymmetry(labels, columns) or a list of them, got {each!r:.80}")
        if not isinstance(each.labels, Mapping):
            raise TypeError(f"labels of a LabelSymmetry must be a dict, label to label, got {each.labels!r:.80}")
    if not given:
        raise ValueError("ties is an empty list: give None for no ties")
    return given


class NoTies:
    """The meaning of ``ties=None``: labels share no weights."""

    def refuse(self, why: str) -> None:
        """Accept: labels share no weights."""


@dataclass(frozen=True)
class GivenTies:
    """The symmetries of ``ties``."""

    generators: Sequence[LabelSymmetry]

    def refuse(self, why: str) -> None:
        """Raise ValueError if labels share weights."""
        raise ValueError(why)


def resolve_ties(ties: object) -> NoTies | GivenTies:
    """Resolve the parameter ``ties`` of an estimator; TypeError for anything but symmetries."""
    return NoTies() if ties is None else GivenTies(read_ties(ties))


def label_permutations(ties: object, classes: np.ndarray) -> np.ndarray:
    """Return the permutation of labels by each generator, (m, L)."""
    places = {label: place for place, label in enumerate(classes.tolist())}
    rows = []
    for each in read_ties(ties):
        row = np.arange(len(places))
        where = "; labels that training lacks are named by partial_labels=PartialLabels(classes=[...])"
        for label, becomes in each.labels.items():
            row[find_place(label, places, "ties name", where)] = find_place(becomes, places, "ties name", where)
        if len(lost := np.setdiff1d(np.arange(len(row)), row)):
            raise ValueError(
                f"labels of ties must change places among themselves, and none becomes {classes[lost[0]].item()!r}: "
                "two labels become the same one"
            )
        rows.append(row)
    return np.array(rows)


def column_permutations(ties: object, columns: TiedColumns, *, of_edges: bool = False) -> np.ndarray:
    """Return the permutation of columns of inputs, or of edges, by each generator, (m, d)."""
    name = "edge_columns" if of_edges else "columns"
    return np.array([_columns_of(getattr(each, name), columns, f"{name} of ties") for each in read_ties(ties)])


def number_orbits(permutations: Iterable[np.ndarray], size: int) -> np.ndarray:
    """Return the number of the orbit of each of ``size`` elements, in the order of first members."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    moves = np.array(list(permutations)).reshape(-1, size)
    rows = np.tile(np.arange(size), len(moves))
    steps = coo_array((np.ones(rows.size, dtype=bool), (rows, moves.ravel())), shape=(size, size))
    return connected_components(steps.tocsr(), directed=False)[1]


def _columns_of(given: object, columns: TiedColumns, what: str) -> np.ndarray:
    row = np.arange(columns.count)
    if given is None:
        return row
    if isinstance(given, Mapping):
        places = {name: place for place, name in enumerate(columns.names or ())}
        for column, goes_to in given.items():
            row[_place(column, places, columns, what)] = _place(goes_to, places, columns, what)
        return _check_permutation(row, what)
    moved = np.asarray(given)
    if moved.shape != (columns.count,):
        raise ValueError(f"{what} must have a place for each of {columns.count} columns, got shape {moved.shape}")
    return _check_permutation(moved, what)


def _place(column: Any, places: Mapping[str, int], columns: TiedColumns, what: str) -> int:
    if isinstance(column, str) and column in places:
        return places[column]
    if is_whole(column) and 0 <= column < columns.count:
        return int(column)
    known = listed(places) if places else f"0 to {columns.count - 1}"
    raise ValueError(f"{what} name {column!r}, which is no column: there are {known}")


def _check_permutation(row: np.ndarray, what: str) -> np.ndarray:
    """Return a permutation of 0 .. n - 1 as int64; ValueError for anything else."""
    if row.dtype.kind not in "iu" or not np.array_equal(np.sort(row), np.arange(len(row))):
        raise ValueError(f"{what} must be a permutation of 0 to {len(row) - 1}: each number once, got {row!r:.80}")
    return row.astype(np.int64)
