"""Dictionaries of labels: the allowed labels of a word, or of another feature of a position.

A dictionary is learnt from labelled data: the labels that were seen with a word, for words that were seen often enough,
and what the user adds. Words outside of it may have any label, or those of an open class. It holds in training
and prediction alike, and is kept in the model file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace

import numpy as np
from sklearn.base import BaseEstimator

from kernelfields.data.allowed import AllowedLabels
from kernelfields.data.chains import Chains
from kernelfields.data.chunks import feature_text, number_word
from kernelfields.data.reading import find_place, listed, materialize_iterator, plain_label
from kernelfields.numerics.containers import find_column_names
from kernelfields.numerics.parameters import check_count
from kernelfields.numerics.registry import SETTINGS


@SETTINGS.register("label dictionary")
@dataclass(eq=False, repr=False)
class LabelDictionary(BaseEstimator):
    """Allowed labels of positions by the value of one feature, such as the word.

    The labels of a word are those that it was seen with in training. docs/many_labels.md.

    Parameters
    ----------
    feature : str or int
        The name of the feature in feature dicts, what feature strings begin with, or the number of a column of arrays.
    min_count : int, default 5
        The number of times that a word is seen to be known; others have the labels of ``unknown``.
    unknown : "all", "rare" or list of labels, default "all"
        The labels of words that are not known: all, those that words below ``min_count`` were seen with, or a list.
    entries : dict or None, default None
        Words with a list of labels that they may have besides those seen in training; they are known, however rare.

    Examples
    --------
    >>> from kernelfields import ChainCRF, LabelDictionary
    >>> X = [[{"word": "the"}, {"word": "cat"}, {"word": "sat"}]]
    >>> y = [["DET", "NOUN", "VERB"]]
    >>> allowed = LabelDictionary("word", min_count=1, entries={"run": ["NOUN", "VERB"]})
    >>> crf = ChainCRF(prior_variance=1.0, allowed=allowed, random_state=0).fit(X, y)
    >>> crf.predict_marginals([[{"word": "the"}, {"word": "run"}]])[0].round(1)
    array([[1. , 0. , 0. ],
           [0. , 0.5, 0.5]])
    """

    feature: str | int
    _: KW_ONLY
    min_count: int = 5
    unknown: str | Iterable = "all"
    entries: Mapping | None = None

    def check(self) -> None:
        """Raise an error if a parameter cannot be used.

        Raises
        ------
        ValueError
            If one cannot.
        """
        check_count(self.min_count, "min_count")
        if isinstance(self.unknown, str) and self.unknown not in ("all", "rare"):
            raise ValueError(f"unknown must be 'all', 'rare' or a list of labels, got {self.unknown!r}")
        if self.entries is not None and not isinstance(self.entries, Mapping):
            raise ValueError(f"entries must be a dict of words with lists of labels, got {self.entries!r:.60}")

    def readable(self, X: object) -> object:
        """Materialize X if it is an iterator: words are read first.

        Parameters
        ----------
        X : inputs
            The inputs.

        Returns
        -------
        inputs
            The inputs, as a list if they were an iterator.
        """
        return materialize_iterator(X)

    def learn(self, X: object, chains: Chains, classes: np.ndarray) -> FittedDictionary:
        """Return the dictionary of labelled chains.

        Parameters
        ----------
        X : inputs
            What the chains were read from.
        chains : Chains
            The labelled chains.
        classes : array (L,)
            The labels.

        Returns
        -------
        FittedDictionary
            The labels of each word.
        """
        self.check()
        words = read_words(X, chains, self.feature)
        numbers: dict[str, int] = {}
        seen_there = (chains.position_weights > 0).tolist()
        which = np.array(
            [
                numbers.setdefault(word, len(numbers)) if weighs and word is not None else -1
                for word, weighs in zip(words, seen_there, strict=True)
            ],
            dtype=np.int64,
        )
        seen = _seen_labels(which, chains, len(numbers), len(classes))
        counts = np.bincount(which[which >= 0], minlength=len(numbers))
        rare = counts < self.min_count
        known = {word: np.flatnonzero(seen[number]) for word, number in numbers.items() if not rare[number]}
        places = {label: place for place, label in enumerate(classes.tolist())}
        for entry, labels in (self.entries or {}).items():
            word = _as_word(entry, self.feature)
            own = np.flatnonzero(seen[numbers[word]]) if word in numbers else np.empty(0, np.int64)
            known[word] = np.union1d(own, _numbers(labels, places, f" for {entry!r}")).astype(np.int64)
        # Words without any label, such as those of unlabelled positions alone, are left out.
        known = {word: labels for word, labels in known.items() if len(labels)}
        return FittedDictionary(self.feature, known, self._open(seen[rare], places), len(classes))

    def learn_more(self, fitted: FittedDictionary, X: object, chains: Chains) -> FittedDictionary:
        """Add the labels of words in further chains to the dictionary.

        Words outside of the dictionary are not added, since their earlier counts are not kept. Labels that they have in
        the further chains become labels of all such words, unless ``unknown`` lists these.

        Parameters
        ----------
        fitted : FittedDictionary
            The dictionary so far.
        X : inputs
            What the chains were read from.
        chains : Chains
            The further chains.

        Returns
        -------
        FittedDictionary
            The dictionary.
        """
        which, sets = np.array(fitted.set_numbers(X, chains), dtype=np.int64), list(fitted.sets)
        which[chains.position_weights <= 0] = -1
        seen = _seen_labels(which, chains, len(sets), fitted.n_labels)
        for number in range(0 if isinstance(self.unknown, str) else 1, len(sets)):
            sets[number] = np.union1d(sets[number], np.flatnonzero(seen[number])).astype(np.int64)
        return fitted.with_sets(sets, fitted.n_labels)

    def _open(self, rare: np.ndarray, places: Mapping[object, int]) -> np.ndarray:
        """Return the labels of unknown words."""
        if not isinstance(self.unknown, str):
            return np.unique(_numbers(self.unknown, places, " in unknown"))
        found = np.flatnonzero(rare.any(axis=0)) if self.unknown == "rare" else np.empty(0, np.int64)
        return found if len(found) else np.arange(len(places))


class FittedDictionary:
    """Allowed labels of known and of unknown words, as numbers."""

    def __init__(self, feature: str | int, known: Mapping[str, np.ndarray], unknown: np.ndarray, n_labels: int):
        self.feature = feature
        self.unknown = unknown
        self.n_labels = n_labels
        self._places = {word: place for place, word in enumerate(known, start=1)}
        #: The labels of words that are not known, and of each word that is.
        self.sets = [unknown, *known.values()]

    def set_numbers(self, X: object, chains: Chains) -> list[int]:
        """Return the number of the label set of each position, zero for unknown words."""
        find = self._places.get
        return [0 if word is None else find(word, 0) for word in read_words(X, chains, self.feature)]

    def readable(self, X: object) -> object:
        """Materialize X if it is an iterator: words are read first."""
        return materialize_iterator(X)

    def limit(self, X: object, data: Chains) -> Chains:
        """Return data with lists of allowed labels."""
        return replace(data, allowed=self.lists(X, data))

    def limit_for_fit(self, X: object, data: Chains) -> Chains:
        """Return labelled data with lists of allowed labels that contain the given labels."""
        return self.limit(X, data).for_fit()

    def lists(self, X: object, chains: Chains) -> AllowedLabels:
        """Return the lists of allowed labels of new chains."""
        return AllowedLabels.from_sets(self.sets, np.array(self.set_numbers(X, chains), dtype=np.int64), self.n_labels)

    def labels_of(self, word: object) -> np.ndarray:
        """Return the numbers of the allowed labels of a word, or of a value of the column."""
        return self.sets[self._places.get(_as_word(word, self.feature), 0)]

    def with_sets(self, sets: Sequence[np.ndarray], n_labels: int) -> FittedDictionary:
        """Return the dictionary with other sets of labels."""
        unknown, *known = sets
        return FittedDictionary(self.feature, dict(zip(self._places, known, strict=True)), unknown, n_labels)

    def with_labels(self, places: np.ndarray, n_labels: int) -> FittedDictionary:
        """Return the dictionary for more labels; unrestricted unknown words get the new labels, too."""
        unknown, *known = (places[labels] for labels in self.sets)
        return self.with_sets([np.arange(n_labels) if len(unknown) == self.n_labels else unknown, *known], n_labels)

    def describe(self) -> dict[str, object]:
        """Return plain values and arrays for a model file."""
        sizes = np.array([len(labels) for labels in self.sets], dtype=np.int64)
        labels = np.concatenate(self.sets).astype(np.int32)
        described = {"feature": self.feature, "words": list(self._places), "sizes": sizes, "labels": labels}
        return {"kind": "dictionary", "n_labels": self.n_labels, **described}

    @classmethod
    def rebuild(cls, described: Mapping) -> FittedDictionary:
        """Rebuild the dictionary from its description; ValueError if it is not sound."""
        n_labels = int(described["n_labels"])
        words, sizes, labels = described["words"], np.asarray(described["sizes"]), np.asarray(described["labels"])
        whole = all(array.ndim == 1 and array.dtype.kind == "i" for array in (sizes, labels))
        if not whole or len(sizes) != len(words) + 1 or sizes.min() < 1 or sizes.sum() != len(labels):
            raise ValueError("the words and labels of its dictionary do not fit together")
        if labels.min() < 0 or labels.max() >= n_labels or not all(isinstance(word, str) for word in words):
            raise ValueError("its dictionary names labels that there are not, or words that are none")
        unknown, *sets = np.split(labels.astype(np.int64), np.cumsum(sizes)[:-1])
        return cls(described["feature"], dict(zip(words, sets, strict=True)), unknown, n_labels)


def rebuild_dictionary(described: Mapping) -> FittedDictionary:
    """Rebuild a dictionary of labels from its description."""
    if described["kind"] != "dictionary":
        raise ValueError("its labels are pruned by a coarse field, which is no longer done: fit with a LabelDictionary")
    return FittedDictionary.rebuild(described)


def check_dictionary(allowed: object) -> None:
    """Raise unless ``allowed`` is a LabelDictionary with valid parameters."""
    if not isinstance(allowed, LabelDictionary):
        raise ValueError(f"allowed must be a LabelDictionary or None, got {allowed!r:.60}")
    allowed.check()


def read_words(X: object, chains: Chains, feature: str | int) -> Sequence[str | None]:
    """Return the value of a feature at each position as a string, None without one."""
    if not isinstance(feature, str):
        if not isinstance(feature, int | np.integer) or not 0 <= feature < chains.inputs.shape[1]:
            raise ValueError(
                f"the feature {feature!r} of a LabelDictionary must be the name of a feature of dicts or strings, or "
                f"the number of one of {chains.inputs.shape[1]} columns"
            )
        column = chains.inputs[:, [feature]]
        values, which = np.unique(column if isinstance(column, np.ndarray) else column.toarray(), return_inverse=True)
        texts = [number_word(value) for value in values]
        return [texts[number] for number in which.ravel().tolist()]
    sequences: Iterable = X  # type: ignore[assignment]  # it was read as sequences before
    # Plain dicts, the usual case, are looked into without a call for each position.
    found = (
        position.get(feature) if type(position) is dict else feature_text(position, feature)
        for sequence in sequences
        for position in _positions(sequence, feature)
    )
    words = [value if value is None or type(value) is str else str(value) for value in found]
    if not any(word is not None for word in words) and words:
        raise ValueError(
            f"no position has the feature {feature!r}, which a LabelDictionary looks words up by: name a feature of "
            "dicts, what feature strings begin with, or the number of a column"
        )
    return words


def _as_word(entry: object, feature: str | int) -> str:
    """Return the key of a dictionary entry as a word; for columns, numbers are converted to text."""
    if isinstance(feature, str):
        return str(entry)
    try:
        return number_word(float(entry))  # type: ignore[arg-type]  # what is no number is refused here
    except (TypeError, ValueError) as error:
        raise ValueError(f"a LabelDictionary of column {feature} has entries of numbers, got {entry!r}") from error


def _positions(sequence: object, feature: str) -> Iterable[object]:
    columns = find_column_names(sequence) or []
    if feature in columns:
        named = sequence[:, columns.index(feature)] if isinstance(sequence, np.ndarray) else sequence[feature]  # type: ignore[index]
        return [{feature: value} for value in named]
    return sequence  # type: ignore[return-value]


def _seen_labels(which: np.ndarray, chains: Chains, n_words: int, n_labels: int) -> np.ndarray:
    """Return the observed labels of each word, (W, L), including all possible labels of partly known positions."""
    seen = np.zeros((n_words, n_labels), dtype=bool)
    rows, labels = chains.given.list_observed_labels()
    words = which[rows]
    seen[words[words >= 0], labels[words >= 0]] = True
    return seen


def _numbers(labels: object, places: Mapping[object, int], where: str) -> list[int]:
    if isinstance(labels, str) or not isinstance(labels, Iterable):
        raise ValueError(f"a LabelDictionary needs a list of labels{where}, got {labels!r}")
    numbers = [find_place(plain_label(label), places, "a LabelDictionary names", where) for label in labels]
    if not numbers:
        raise ValueError(f"a LabelDictionary allows no label{where}: name one of {listed(places)}")
    return numbers
