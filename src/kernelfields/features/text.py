"""Features of words in their sentences for names, chunks and parts of speech.

    [["Anna", "sleeps"], ...]  ->  [[["lower[-1]=_B-1", "word=Anna", "suffix3=nna", "shape=Xxxx", ...], [...]], ...]

For the word at a position: itself and in lower case, prefixes and suffixes, shapes, and flags for capitals, digits,
hyphens and punctuation. For its neighbours: lower case, shapes and flags, and lower case alone farther away. With
further columns of tags, such as parts of speech: the tags around the position, and pairs and triples of them. Beyond
the ends, neighbours are _B-1 and _B+1. The functions of words are those of features/patterns.py, and
``kernelfields train`` uses the same features for column files without a template.

``TRANSFORMERS`` are the transformers that model files support, as a description of plain values with the kind of the
transformer, from which ``rebuild_transformer`` restores it. Those registered here need NumPy alone.

Cost: a few microseconds per word, as features of a word are cached. Raises ValueError or TypeError with the parameter,
or with sequence and position.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np

from kernelfields.data.positions import check_sequence, show_value
from kernelfields.features.patterns import FARTHEST_ROW, FLAGS, LONGEST_AFFIX, Cell, Expansion, Pattern
from kernelfields.numerics.containers import find_column_names
from kernelfields.numerics.parameters import is_sequence, is_whole
from kernelfields.numerics.registry import Parametrized, Registry
from kernelfields.numerics.user_warnings import warn_user

if TYPE_CHECKING:
    from sklearn.utils import Tags

_TEXTS = {str, np.str_}
_WINDOW, _TAG_NGRAMS = 2, 3


def text_patterns(
    word_column: int = 0,
    tag_columns: Sequence[int] = (),
    *,
    window: int = _WINDOW,
    context: int = 1,
    prefixes: int = 4,
    suffixes: int = 4,
    shapes: bool = True,
    flags: bool = True,
    bigrams: bool = False,
    tag_ngrams: int = _TAG_NGRAMS,
) -> list[Pattern]:
    """Return the patterns of words and tags in columns; parameters as in ``TextFeatures``."""
    affixes = [f"prefix{length}" for length in range(1, prefixes + 1)]
    affixes += [f"suffix{length}" for length in range(1, suffixes + 1)]
    about = [*(("shape", "shortshape") if shapes else ()), *(FLAGS if flags else ())]
    patterns = []
    for row in _rows(max(window, context)):
        functions = ["lower"] if abs(row) <= window else []
        functions += affixes if row == 0 else []
        functions += about if abs(row) <= context else []
        patterns += [_pattern("word", word_column, "x", row)] if row == 0 else []
        patterns += [_pattern(function, word_column, function, row) for function in functions]
    if bigrams:
        patterns += [_pattern("lower", word_column, "lower", *rows) for rows in pairwise(_rows(1))]
    return patterns + _tag_patterns(tag_columns, window, tag_ngrams)


def symbol_patterns(column: int = 0, tag_columns: Sequence[int] = (), *, window: int = 7) -> list[Pattern]:
    """Return the patterns of tags, and of symbols in a wider window than that of words."""
    patterns = [_pattern("symbol", column, "x", row) for row in _rows(window)]
    return patterns + _tag_patterns(tag_columns, _WINDOW, _TAG_NGRAMS)


def _tag_patterns(columns: Sequence[int], window: int, longest: int) -> list[Pattern]:
    patterns = []
    for number, column in enumerate(columns, start=1):
        for length in range(1, longest + 1):
            starts = range(-window, window + 2 - length)
            patterns += [_pattern(f"tag{number}", column, "x", *range(row, row + length)) for row in starts]
    return patterns


def _rows(reach: int) -> range:
    return range(-reach, reach + 1)


def _pattern(name: str, column: int, function: str, *rows: int) -> Pattern:
    """Return the pattern name[row]=value, or name[row|row]=value|value; a single row 0 is omitted."""
    suffix = "" if rows == (0,) else f"[{'|'.join(map(str, rows))}]"
    texts = (f"{name}{suffix}=", *["|"] * (len(rows) - 1), "")
    return Pattern(texts, tuple(Cell(row, column, function) for row in rows))


class StoredTransformer(Protocol):
    """The interface of a transformer of sequences that model files support."""

    def transform(self, X: Any) -> Any:
        """Transform the sequences for the next step."""

    def describe(self) -> dict[str, object]:
        """Return the transformer as plain values."""

    @classmethod
    def rebuild(cls, described: Mapping[str, Any]) -> Self:
        """Rebuild the transformer from its description; errors of any kind for an invalid one."""


#: Transformers by their kinds in model files.
TRANSFORMERS: Registry[StoredTransformer] = Registry("transformer")


def describe_transformer(transformer: StoredTransformer) -> dict[str, object]:
    """Convert a registered transformer to plain values."""
    return {"kind": TRANSFORMERS.find_name(transformer), **transformer.describe()}


def rebuild_transformer(described: Mapping[str, Any]) -> StoredTransformer:
    """Rebuild a transformer from its description; ValueError for an unregistered kind."""
    registered = TRANSFORMERS.find(described["kind"])
    if registered is None:
        raise ValueError(f"a transformer of the unknown kind {described['kind']!r:.60}")
    return registered.rebuild({name: value for name, value in described.items() if name != "kind"})


class WordTransformer(Parametrized):
    """A transformer of words with the interface of scikit-learn, which needs NumPy only."""

    def fit(self, X: object, y: object = None) -> Self:
        """Check parameters and sequences.

        Parameters
        ----------
        X : list of sequences
            The sequences.
        y : object, optional
            Not used.

        Returns
        -------
        self
            The transformer.
        """
        self.transform(X)
        return self

    def fit_transform(self, X: object, y: object = None) -> list[list[list[str]]]:
        """Check parameters and sequences; return their features.

        Parameters
        ----------
        X : list of sequences
            The sequences.
        y : object, optional
            Not used.

        Returns
        -------
        list of lists of list of str
            The feature strings of every position of every sequence.
        """
        return self.fit(X, y).transform(X)

    def transform(self, X: object) -> list[list[list[str]]]:
        """Return the feature strings of every position of every sequence.

        Parameters
        ----------
        X : list of sequences
            The sequences.

        Returns
        -------
        list of lists of list of str
            The strings.
        """
        raise NotImplementedError

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Tags:
        from sklearn.utils import Tags, TargetTags, TransformerTags

        own = {"requires_fit": False, "no_validation": True, "transformer_tags": TransformerTags()}
        return Tags(estimator_type=None, target_tags=TargetTags(required=False), **own)


@TRANSFORMERS.register("text")
@dataclass(eq=False, repr=False, kw_only=True)
class TextFeatures(WordTransformer):
    """Convert sequences of words to sequences of lists of feature strings.

    A field does this by itself when it is given words. A position is a word, or a row of cells: a tuple or list such as
    ("sleeps", "VBZ"), or a dict; sequences of rows may also be data frames. Nothing is learnt but ``n_tags_``, how many
    columns of tags the rows had at the fit.

    Parameters
    ----------
    word_column : int or str, default 0
        The column of the words, if positions are rows of cells.
    tag_columns : "rest" or sequence of int or str, default "rest"
        The columns of tags, by number or name; "rest" are all others, () none.
    window : int, default 2
        Words in lower case and tags are seen so far to both sides, at most 15.
    context : int, default 1
        Shapes and flags are seen so far to both sides.
    prefixes : int, default 4
        The longest prefix of the word itself, at most 9; 0 for none.
    suffixes : int, default 4
        The longest suffix of the word itself, at most 9; 0 for none.
    shapes : bool, default True
        Whether to have shapes of words, such as Xx.
    flags : bool, default True
        Whether to have flags, such as whether a word is a number.
    bigrams : bool, default False
        Whether to have pairs of neighbouring words.
    tag_ngrams : int, default 3
        The longest run of neighbouring tags that is seen as one, 1 for single tags.

    Examples
    --------
    >>> from kernelfields import TextFeatures
    >>> features = TextFeatures(window=0, context=0, prefixes=0, suffixes=2).fit_transform([["Ann", "sings"]])
    >>> features[0][1][:2]
    ['word=sings', 'lower=sings']
    """

    word_column: int | str = 0
    tag_columns: str | Sequence[int | str] = "rest"
    window: int = _WINDOW
    context: int = 1
    prefixes: int = 4
    suffixes: int = 4
    shapes: bool = True
    flags: bool = True
    bigrams: bool = False
    tag_ngrams: int = _TAG_NGRAMS

    def fit(self, X: object, y: object = None) -> Self:
        """Check parameters and sequences; warn if their words are texts of several words.

        Parameters
        ----------
        X : list of sequences
            The sequences.
        y : object, optional
            Not used.

        Returns
        -------
        self
            The transformer.
        """
        self.__dict__.pop("n_tags_", None)
        read = self.split_columns(X)
        self.n_tags_ = _n_tags(read)
        words = [word for columns in read for word in columns[0]]
        if are_texts(words):
            warn_user(
                f"positions are texts of several words, such as {words[0]!r:.60}, and TextFeatures takes each for one "
                "word: TfidfVectorizer() and OutOfFold(make_pipeline(TfidfVectorizer(), LogisticRegression())) see "
                "the words of a text",
            )
        return self

    def transform(self, X: object) -> list[list[list[str]]]:
        """Return the feature strings of every position of every sequence.

        Parameters
        ----------
        X : list of sequences
            The sequences.

        Returns
        -------
        list of lists of list of str
            The strings.
        """
        read = self.split_columns(X)
        given = self.get_params(deep=False)
        options: dict[str, Any] = {name: given[name] for name in (*_BOUNDS, "shapes", "flags", "bigrams")}
        expand = Expansion(text_patterns(0, range(1, 1 + _n_tags(read)), **options))
        return [expand.expand_columns(columns) if columns[0] else [] for columns in read]

    @property
    def reach(self) -> int:
        """The number of neighbours on either side that the features of a position depend on."""
        return max(self.window, self.context, int(self.bigrams))

    def describe(self) -> dict[str, object]:
        """Return the parameters and the number of tag columns as plain values.

        Returns
        -------
        dict
            The description.
        """
        columns = self.tag_columns if isinstance(self.tag_columns, str) else list(self.tag_columns)
        return {**self.get_params(), "tag_columns": columns, "n_tags": getattr(self, "n_tags_", None)}

    @classmethod
    def rebuild(cls, described: Mapping[str, Any]) -> Self:
        """Rebuild the transformer from its description.

        Parameters
        ----------
        described : dict
            What ``describe`` returned.

        Returns
        -------
        TextFeatures
            The transformer.
        """
        n_tags = described["n_tags"]
        rebuilt = cls(**{name: value for name, value in described.items() if name != "n_tags"})
        for name in ("shapes", "flags", "bigrams"):
            if not isinstance(described[name], bool):
                raise ValueError(f"{name} must be True or False, got {described[name]!r:.60}")
        rebuilt.transform([])
        if n_tags is not None:
            if not is_whole(n_tags) or n_tags < 0:
                raise ValueError(f"the number of columns of tags is {n_tags!r:.60}")
            rebuilt.n_tags_ = n_tags
        return rebuilt

    def split_columns(self, X: object) -> list[list[list[str]]]:
        """Return the columns of words and of tags of every sequence.

        Parameters
        ----------
        X : list of sequences
            The sequences.

        Returns
        -------
        list of lists of list of str
            The columns.
        """
        given = self.get_params(deep=False)
        for name, (least, most) in _BOUNDS.items():
            value = given[name]
            if not is_whole(value) or not least <= value <= most:
                raise ValueError(f"{name} must be a whole number from {least} to {most}, got {value!r}")
        if not is_sequence(self.tag_columns) and self.tag_columns != "rest":
            raise ValueError(f"tag_columns must be 'rest' or a list of columns, got {self.tag_columns!r}")
        if isinstance(X, str | bytes) or not isinstance(X, Iterable):
            raise TypeError(f"X must be a list of sequences of words, got {X!r:.60} ({type(X).__name__})")
        read = []
        expected = getattr(self, "n_tags_", None)
        for index, sequence in enumerate(X):
            columns = self._columns(sequence, index)
            read.append(columns)
            n_tags = len(columns) - 1
            expected = n_tags if expected is None and columns[0] else expected
            if columns[0] and n_tags != expected:
                before = "the fit" if hasattr(self, "n_tags_") else "those before"
                if len(columns[0]) == 1 and isinstance(X, list) and len(X) == 1 and not expected:
                    raise ValueError("one list of words is one sequence here, got [words]: pass words alone")
                raise ValueError(
                    f"sequence {index} has {n_tags} columns of tags, {before} had {expected}: pass the same columns, "
                    "or choose them by tag_columns"
                )
        return read

    def _columns(self, sequence: object, index: int) -> list[list[str]]:
        if (names := find_column_names(sequence)) is not None:
            cells = [sequence[name] for name in self._select_columns(names, index)]  # type: ignore[index]  # a data frame
            return [_check_words(list(column), index) for column in cells]
        if not is_sequence(sequence):
            check_sequence(sequence, f"sequence {index}")
            raise TypeError(f"sequence {index} must be a list of words or rows, got {show_value(sequence)}")
        positions = sequence.tolist() if isinstance(sequence, np.ndarray) else list(sequence)
        first = positions[0] if positions else ""
        if isinstance(first, Mapping):
            chosen = self._select_columns(list(first), index)
        elif isinstance(first, str) or not is_sequence(first):
            return [_check_words(positions, index)]
        else:
            chosen = self._select_columns(list(range(len(first))), index)
        try:
            if any(isinstance(row, str) for row in positions):
                raise TypeError("letters of a string are no cells")
            columns = [[row[column] for row in positions] for column in chosen]
        except (IndexError, KeyError, TypeError) as error:
            raise ValueError(f"the rows of sequence {index} must all have the same columns") from error
        return [_check_words(column, index) for column in columns]

    def _select_columns(self, names: list, index: int) -> list:
        """Return the names of the columns of words and of tags."""
        words = _column(self.word_column, names, "word_column", index)
        if isinstance(self.tag_columns, str) and self.tag_columns == "rest":
            return [words, *[name for name in names if name != words]]
        return [words, *[_column(column, names, "tag_columns", index) for column in self.tag_columns]]


def are_texts(words: Collection[str]) -> bool:
    """Whether most strings are texts of several words, such as the sentences of a document."""
    return 2 * sum(" " in word.strip() for word in words) > len(words)


def _n_tags(read: list[list[list[str]]]) -> int:
    """Return the number of tag columns of nonempty sequences."""
    return next((len(columns) - 1 for columns in read if columns[0]), 0)


#: Parameters that are whole numbers, and between which.
_BOUNDS = {
    "window": (0, FARTHEST_ROW),
    "context": (0, FARTHEST_ROW),
    "prefixes": (0, LONGEST_AFFIX),
    "suffixes": (0, LONGEST_AFFIX),
    "tag_ngrams": (1, 2 * FARTHEST_ROW + 1),
}


def _column(column: int | str, names: list, parameter: str, index: int) -> Hashable:
    """Return the name of a column from its name or index."""
    if column in names:
        return column
    if is_whole(column) and -len(names) <= column < len(names):
        return names[column]
    known = ", ".join(map(repr, names))
    raise ValueError(f"{parameter}: sequence {index} has no column {column!r}, only {known}")


def _check_words(words: list, index: int) -> list[str]:
    """Return words, or raise with the position of the first entry that is no string."""
    if set(map(type, words)) <= _TEXTS:
        return words
    for position, word in enumerate(words):
        if not isinstance(word, str):
            kind = type(word).__name__
            raise TypeError(
                f"sequence {index}, position {position}: {word!r:.60} ({kind}) is no word, expected a string; make "
                "strings of numbers and bytes, fill in what is missing, or choose columns of text by word_column and "
                "tag_columns"
            )
    return [str.__str__(word) for word in words]
