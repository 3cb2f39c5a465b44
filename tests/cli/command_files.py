"""Small files in every format, and the command as a function, for the tests in this folder."""

from __future__ import annotations

import numpy as np
from typer.testing import CliRunner

from kernelfields.cli.app import app

WORDS = {"DET": ["the", "a", "this"], "NOUN": ["cat", "dog", "house", "tree"], "VERB": ["sees", "has", "likes"]}
ORDER = ["DET", "NOUN", "VERB", "DET", "NOUN"]


def run(*arguments, code=0, **settings):
    """Run the command; the result has stdout, stderr and exit_code. Errors of the program are raised."""
    result = CliRunner().invoke(app, [str(each) for each in arguments], catch_exceptions=False, **settings)
    assert result.exit_code == code, result.output
    return result


def sentences(count=20, seed=0):
    """Sentences of words, the lengths of the words as a second column, and labels."""
    random = np.random.default_rng(seed)
    result = []
    for _ in range(count):
        tags = [tag if random.random() < 0.8 else str(random.choice(list(WORDS))) for tag in ORDER]
        words = [str(random.choice(WORDS[tag])) for tag in tags]
        result.append([(word, str(len(word)), tag) for word, tag in zip(words, tags, strict=True)])
    return result


def write_columns_file(path, rows=None, columns=(0, 1, 2)):
    """A column file with tabs."""
    lines = []
    for sentence in sentences() if rows is None else rows:
        lines += ["\t".join(row[column] for column in columns) for row in sentence] + [""]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def numbers(count=20, seed=0):
    """Sequences of two numbers with labels; the columns have very different spreads."""
    random = np.random.default_rng(seed)
    y = [np.repeat(random.integers(2, size=3), 2) for _ in range(count)]
    X = [np.column_stack([labels, 100.0 * labels]) + random.normal(size=(6, 2)) * [0.5, 50.0] for labels in y]
    return X, y


def write_csv_file(path, count=20, seed=0):
    X, y = numbers(count, seed)
    lines = ["day,height,weight,label"]
    for index, (table, labels) in enumerate(zip(X, y, strict=True)):
        lines += [f"d{index},{row[0]:.4f},{row[1]:.4f},{'ab'[label]}" for row, label in zip(table, labels, strict=True)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
