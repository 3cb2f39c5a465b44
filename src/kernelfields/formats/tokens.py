"""Tokens of plain text with their offsets.

The default is the regular expression ``TOKEN``. Its alternatives, in their order:

    3.14  1,000  12:30     digits with . , or : between them
    東                     an ideograph or a kana alone
    don't  well-known      letters, digits, marks and all else but spaces and punctuation; ' ’ and - join them
    ( " . …                one mark of punctuation

Spaces are never part of a token. ``tokenize(text, r"\\S+")`` takes another expression, whose matches are the tokens;
``tokenize(text, function)`` a function from a text to words, which are looked up in the text from left to right, or to
(begin, end) pairs.

Cost: one pass over the text. Fails: ValueError naming a word that does not stand in the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

#: An expression, or a function from a text to words or to (begin, end) pairs.
Tokenizer: TypeAlias = str | re.Pattern[str] | Callable[[str], Iterable[str | tuple[int, int]]]

_PUNCTUATION = r"!-/:-@\[-^`{-~¡-©«-±´¶-¸»¿×÷،؛؟।॥\u2010-\u205e\u3000-\u303f\uff01-\uff0f\uff1a-\uff20"
_ALONE = r"\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_WORD = rf"[^\s{_PUNCTUATION}{_ALONE}]"
TOKEN = re.compile(rf"\d+(?:[.,:]\d+)+|[{_ALONE}]|{_WORD}+(?:['’-]{_WORD}+)*|\S")


def tokenize(text: str, tokenizer: Tokenizer | None = None) -> Iterator[tuple[int, int]]:
    """Yield (begin, end) of the tokens of a text."""
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
