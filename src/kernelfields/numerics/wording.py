"""Numbers with nouns in sentences: lines of the command, headings of reports, messages.

print(f"labelled {inflect(1, 'sequence')}, {inflect(1200, 'word')} in {inflect(2, 'pass')}")
labelled 1 sequence, 1,200 words in 2 passes
"""

from __future__ import annotations


def inflect(number: float, noun: str, form: str = ",") -> str:
    """Return a number with its noun in singular or plural.

    Parameters
    ----------
    number : how many there are
    noun : singular, such as "sequence" or "input feature"
    form : format of the number
    """
    plural = "" if number == 1 else "es" if noun.endswith("s") else "s"
    return f"{number:{form}} {noun}{plural}"
