"""Features of tokens as strings, the usual templates for chunking and for part-of-speech tagging."""

from __future__ import annotations

from benchmarks.shared_data import token_columns

#: Tag patterns of the chunking template besides single tags: bigrams and trigrams of neighbours.
_TAG_GRAMS = ((-2, -1), (-1, 0), (0, 1), (1, 2), (-2, -1, 0), (-1, 0, 1), (0, 1, 2))
_WORD_GRAMS = ((-1, 0), (0, 1))
_NEAR = (-2, -1, 0, 1, 2)


def grams(name: str, values: list[str], patterns: tuple[tuple[int, ...], ...], features: list[list[str]]) -> None:
    """Append, at every position, name[i]|name[j]=value_i|value_j for each pattern inside the sequence."""
    length = len(values)
    for pattern in patterns:
        head = "|".join(f"{name}[{offset}]" for offset in pattern) + "="
        first, last = max(0, -pattern[0]), length - max(0, pattern[-1])
        for t in range(first, last):
            features[t].append(head + "|".join([values[t + offset] for offset in pattern]))


def chunking_features(words: list[str], tags: list[str]) -> list[list[str]]:
    """Words and tags at -2..2, word bigrams, tag bigrams and trigrams, flags for both ends."""
    features: list[list[str]] = [[] for _ in words]
    singles = tuple((offset,) for offset in _NEAR)
    grams("w", words, (*singles, *_WORD_GRAMS), features)
    grams("pos", tags, (*singles, *_TAG_GRAMS), features)
    features[0].append("__BOS__")
    features[-1].append("__EOS__")
    return features


def tagging_features(words: list[str]) -> list[list[str]]:
    """Words at -2..2 in lower case, affixes up to four letters, shape of the word, flags for both ends."""
    features: list[list[str]] = [[] for _ in words]
    lower = [word.lower() for word in words]
    grams("w", lower, (*((offset,) for offset in _NEAR), *_WORD_GRAMS), features)
    for t, word in enumerate(words):
        for size in range(1, 1 + min(4, len(word))):
            features[t].append(f"prefix={lower[t][:size]}")
            features[t].append(f"suffix={lower[t][-size:]}")
        features[t] += [
            flag
            for flag, present in (
                ("first upper", word[0].isupper()),
                ("all upper", word.isupper()),
                ("digit", any(letter.isdigit() for letter in word)),
                ("hyphen", "-" in word),
            )
            if present
        ]
    features[0].append("__BOS__")
    features[-1].append("__EOS__")
    return features


def chunking(part: str) -> tuple[list[list[list[str]]], list[list[str]]]:
    """Return features and chunk tags of a part ("train" or "test") of CoNLL-2000."""
    sentences = token_columns("conll2000", f"{part}.tsv.gz")
    X = [chunking_features([row[0] for row in rows], [row[1] for row in rows]) for rows in sentences]
    return X, [[row[2] for row in rows] for rows in sentences]


def tagging(part: str) -> tuple[list[list[list[str]]], list[list[str]]]:
    """Return features and universal part-of-speech tags of a part ("train", "dev", "test") of UD English EWT."""
    sentences = token_columns("ud-english-ewt", f"{part}.tsv.gz")
    X = [tagging_features([row[0] for row in rows]) for rows in sentences]
    return X, [[row[1] for row in rows] for rows in sentences]
