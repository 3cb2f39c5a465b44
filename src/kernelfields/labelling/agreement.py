"""Agreement of annotators: a table of their pairs.

    kappa = (same - chance) / (1 - chance),   chance = sum_k p_a(k) p_b(k)       Cohen 1960

p_a(k) is the share of the label k among the labels of a, over the positions that both have labelled. If labels encode
entities, F1 compares the entities of one annotator with those of the other, in sequences that both have labelled
completely.

Cost: linear in the labels, for each pair. Raises ValueError if annotators have labelled different sequences.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations

from kernelfields.data.label_notations import recognize_scheme
from kernelfields.evaluation.entities import entity_f1_score
from kernelfields.reports.tables import Table


def agreement(y: Mapping[str, Sequence[Sequence | None]]) -> Table:
    """Compare annotators in pairs: the share of equal labels, kappa, and F1 of entities.

    Parameters
    ----------
    y : dict
        For the name of each annotator a list with the labels of each sequence, as :class:`~kernelfields.AnnotatedCRF`
        takes them. A label is None if the annotator gave none, and so is a sequence without any.

    Returns
    -------
    Table
        A row for each pair of annotators: ``labels``, the number of positions that both labelled, ``same``, the share
        of equal labels, ``kappa``, and ``F1`` if labels follow a scheme of entities.

    Raises
    ------
    ValueError
        If there are fewer than two annotators, or if their sequences differ in number or length.

    See Also
    --------
    kernelfields.AnnotatedCRF : Estimates how reliable each annotator is.

    References
    ----------
    Cohen (1960), A coefficient of agreement for nominal scales.

    Examples
    --------
    >>> from kernelfields.labelling import agreement
    >>> print(agreement({"kim": [["a", "b", "a"], ["b", "b"]], "lee": [["a", "b", "b"], None]}))
    annotators   labels    same   kappa
    kim, lee          3   0.667   0.400
    """
    if len(y) < 2:
        raise ValueError(f"agreement is that of two annotators or more, got {len(y)}")
    rows = [
        [f"{one}, {other}", *_compare_pair(y[one], y[other], f"{one} and {other}")] for one, other in combinations(y, 2)
    ]
    formats = {"labels": ",", "same": ".3f", "kappa": ".3f", "F1": ".3f"}
    return Table(["annotators", *formats], rows, formats=formats, optional=("F1",))


def _compare_pair(one: Sequence, other: Sequence, names: str) -> tuple[int, float | None, float | None, float | None]:
    if len(one) != len(other):
        raise ValueError(f"{names} have labelled {len(one)} and {len(other)} sequences: they must be the same")
    pairs, whole = [], []
    for number, (a, b) in enumerate(zip(one, other, strict=True)):
        if a is None or b is None:
            continue
        if len(a) != len(b):
            raise ValueError(f"{names}: sequence {number} has {len(a)} and {len(b)} labels, expected as many")
        both = [(x, z) for x, z in zip(a, b, strict=True) if _is_label(x) and _is_label(z)]
        pairs += both
        if len(both) == len(a):
            whole.append((list(a), list(b)))
    if not pairs:
        return 0, None, None, None
    same = sum(x == z for x, z in pairs) / len(pairs)
    shares = [Counter(column) for column in zip(*pairs, strict=True)]
    chance = sum(count * shares[1][label] for label, count in shares[0].items()) / len(pairs) ** 2
    kappa = None if chance == 1.0 else (same - chance) / (1.0 - chance)
    scheme = recognize_scheme({label for pair in pairs for label in pair})
    if scheme is None or not whole:
        return len(pairs), same, kappa, None
    left, right = map(list, zip(*whole, strict=True))
    return len(pairs), same, kappa, entity_f1_score(left, right, scheme="auto")


def _is_label(entry: object) -> bool:
    return entry is not None and entry != "" and not isinstance(entry, set | frozenset)
