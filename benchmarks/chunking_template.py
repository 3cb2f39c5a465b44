"""The usual chunking template: words and tags at -2..2, word bigrams, tag bigrams and trigrams, begin and end."""

from __future__ import annotations


def chunking_features(words: list[str], tags: list[str]) -> list[list[str]]:
    """Return the feature strings of each position of a sentence."""
    length = len(words)
    positions = []
    for t in range(length):
        features = []
        for d in range(-2, 3):
            if 0 <= t + d < length:
                features.append(f"w[{d}]={words[t + d]}")
                features.append(f"pos[{d}]={tags[t + d]}")
        for d in (-1, 0):
            if t + d >= 0 and t + d + 1 < length:
                features.append(f"w[{d}]|w[{d + 1}]={words[t + d]}|{words[t + d + 1]}")
        for d in (-2, -1, 0, 1):
            if t + d >= 0 and t + d + 1 < length:
                features.append(f"pos[{d}]|pos[{d + 1}]={tags[t + d]}|{tags[t + d + 1]}")
        for d in (-2, -1, 0):
            if t + d >= 0 and t + d + 2 < length:
                features.append(f"pos[{d}]|pos[{d + 1}]|pos[{d + 2}]=" + "|".join(tags[t + d : t + d + 3]))
        if t == 0:
            features.append("__BOS__")
        if t == length - 1:
            features.append("__EOS__")
        positions.append(features)
    return positions
