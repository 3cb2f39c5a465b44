"""The most probable labellings of items, all of them or those that a condition accepts.

    k best labellings  ->  those accepted  ->  4 k best, if fewer than k are  ->  ...  ->  at most ``max_ranked``

Labellings come in the order of their probabilities, and no more of an item than it takes. The logarithms are those of
p(y | x) among all labellings, not among those that are accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernelfields.inference.answers import Answers

# So many times as many labellings are ranked when too few were accepted.
_GROWTH = 4
#: What a labelling must be, such as one that has each label once.
Condition = Callable[[Any], object]


def ranked_labellings(
    answers: Answers,
    k: int,
    rank: Callable[[Answers, int], Iterator[list[tuple[Any, float]]]],
    where: Condition | None,
    max_ranked: int,
) -> list[list[tuple[Any, float]]]:
    """Return the k most probable labellings of each item, with their log-probabilities.

    Parameters
    ----------
    answers : Answers
        The distribution of the labels.
    k : int
        The most labellings of an item.
    rank : callable
        A function of answers and a number that yields so many labellings of each item, the best first, with scores.
    where : callable or None
        A condition; None takes all labellings.
    max_ranked : int
        The most labellings of an item that the condition sees.

    Returns
    -------
    list of lists of (labels, float)
        The labellings of each item.
    """
    found = []
    for item, ranked in enumerate(rank(answers, k)):
        if where is not None:
            ranked = _filter_labellings(answers, item, ranked, k, rank, where, max_ranked)
        total = answers.log_partition[item]
        found.append([(labels, float(score - total)) for labels, score in ranked])
    return found


def _filter_labellings(
    answers: Answers,
    item: int,
    ranked: list[tuple[Any, float]],
    k: int,
    rank: Callable[[Answers, int], Iterator[list[tuple[Any, float]]]],
    where: Condition,
    max_ranked: int,
) -> list[tuple[Any, float]]:
    """Return the first k labellings of an item that satisfy a condition, among increasingly many of them."""
    size = k
    while True:
        kept = list(islice((pair for pair in ranked[:max_ranked] if where(pair[0])), k))
        if len(kept) == k or len(ranked) < size or size >= max_ranked:
            return kept
        size = min(_GROWTH * size, max_ranked)
        ranked = next(rank(answers.of_item(item), size))
