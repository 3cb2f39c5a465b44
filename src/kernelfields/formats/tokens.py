r"""Tokens of plain text with their offsets.

The default is the regular expression ``TOKEN``. Its alternatives, in their order:

    3.14  1,000  12:30     digits with . , or : between them
    東                     an ideograph or a kana alone
    don't  well-known      letters, digits, marks and others except spaces and punctuation; ' ’ and - join them
    ( " . …                one mark of punctuation

Spaces are never part of a token. ``tokenize(text, r"\S+")`` returns the matches of another expression, and
``tokenize(text, function)`` the results of a function: words, which are searched in the text from left to right, or
pairs (begin, end).

A word has at most 100,000 characters and a document at most a million words: longer ones are other kinds of files, and
need a thousand times their size in memory.

Cost: one pass over the text. Raises ValueError for a word that is not in the text, SequenceFileError for too long ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from kernelfields.data.text_files import SequenceFileError

#: An expression, or a function from a text to words or to (begin, end) pairs.
Tokenizer: TypeAlias = str | re.Pattern[str] | Callable[[str], Iterable[str | tuple[int, int]]]

LONGEST_WORD, MOST_WORDS = 100_000, 1_000_000

_PUNCTUATION = r"!-/:-@\[-^`{-~¡-©«-±´¶-¸»¿×÷،؛؟।॥\u2010-\u205e\u3000-\u303f\uff01-\uff0f\uff1a-\uff20"
_ALONE = r"\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_WORD = rf"[^\s{_PUNCTUATION}{_ALONE}]"
TOKEN = re.compile(rf"\d+(?:[.,:]\d+)+|[{_ALONE}]|{_WORD}+(?:['’-]{_WORD}+)*|\S")


def check_word(length: int, where: str, noun: str = "word") -> None:
    """Raise SequenceFileError for a word with too many characters."""
    if length > LONGEST_WORD:
        raise SequenceFileError(f"{where}: a {noun} of {length:,} characters, expected at most {LONGEST_WORD:,}")


def check_words(text: str, tokens: Iterable[tuple[float, float]] | None, where: str) -> None:
    """Raise SequenceFileError if a text has too many or too long words."""
    if len(text) <= LONGEST_WORD:
        return
    for number, (begin, end) in enumerate(tokenize(text) if tokens is None else tokens):
        check_word(int(end - begin), where)
        if number == MOST_WORDS:
            raise SequenceFileError(f"{where}: more than {MOST_WORDS:,} words: cut its text into documents")


def tokenize(text: str, tokenizer: Tokenizer | None = None) -> Iterator[tuple[int, int]]:
    """Cut a text into words.

    Parameters
    ----------
    text : str
        The text.
    tokenizer : callable, optional
        A function of the text that returns its words or their (begin, end); by default a regular expression.

    Yields
    ------
    tuple of int
        The (begin, end) of a token.

    Examples
    --------
    >>> from kernelfields.formats import tokenize
    >>> list(tokenize("Ann's dog."))
    [(0, 5), (6, 9), (9, 10)]
    """
    if tokenizer is None or isinstance(tokenizer, str | re.Pattern):
        pattern = TOKEN if tokenizer is None else re.compile(tokenizer)
        yield from (match.span() for match in pattern.finditer(text) if match.end() > match.start())
        return
    position = 0
    for found in tokenizer(text):
        if isinstance(found, str):
            begin = text.find(found, position)
            if begin < 0:
                raise ValueError(f"the tokenizer has found {found!r:.40}, which is not in the text from {position} on")
            found = (begin, begin + len(found))
        position = found[1]
        yield found


@dataclass(frozen=True)
class TokenizedText:
    """A text with the offsets (begin, end) of its words, in code points.

    Words of multiword tokens may share their place.
    """

    text: str
    tokens: Sequence[tuple[int, int]]

    def slice(self, begin: int, end: int) -> str:
        """Return the text of the words from ``begin`` to before ``end``."""
        return self.text[self.tokens[begin][0] : self.tokens[end - 1][1]] if begin < end else ""

    def find_word(self, place: int) -> int | None:
        """Return the number of the word around an offset; None at the edges of words and in gaps."""
        inside = (number for number, (begin, end) in enumerate(self.tokens) if begin < place < end)
        return next(inside, None)

    def split(self, number: int, at: int) -> TokenizedText:
        """Return the text with a word cut in two after ``at`` characters."""
        (begin, end), tokens = self.tokens[number], list(self.tokens)
        return TokenizedText(
            self.text, [*tokens[:number], (begin, begin + at), (begin + at, end), *tokens[number + 1 :]]
        )

    def join(self, number: int) -> TokenizedText:
        """Return the text with a word and the next word joined."""
        tokens = list(self.tokens)
        whole = (tokens[number][0], tokens[number + 1][1])
        return TokenizedText(self.text, [*tokens[:number], whole, *tokens[number + 2 :]])

    def gaps(self, begin: int, end: int) -> list[str]:
        """Return the text before each of the words from ``begin`` to before ``end``, and behind the last."""
        found = []
        for number in range(begin, end + 1):
            before = self.tokens[number - 1][1] if number else 0
            after = self.tokens[number][0] if number < len(self.tokens) else len(self.text)
            found.append(self.text[before:after] if before <= after else " ")
        return found

    @property
    def words(self) -> list[str]:
        """The words."""
        return [self.text[begin:end] for begin, end in self.tokens]
