"""From Python objects to a data set: FeatureDictEncoder against python-crfsuite's Trainer.append, in one run.

    python -m benchmarks.ingest [--repeats 5]

CoNLL-2000, as lists of feature strings (the usual chunking template) and as feature dicts (the kind of dicts in
the tutorial of sklearn-crfsuite). Both read the same objects in turn; the figures are medians over the repeats.
The machine may be busy, so the ratio is what counts. ``transform`` reads the test set over the columns learnt, as
prediction does.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median

import pycrfsuite  # type: ignore[import-untyped]

from benchmarks.result_files import write_results
from benchmarks.shared_data import DataMissing, token_columns
from benchmarks.templates import chunking
from kernelfields.features.dicts import FeatureDictEncoder


def tutorial_features(rows: list[list[str]], t: int) -> dict[str, object]:
    """Return the feature dict of a token: its word and tag, shapes of them, and those of its neighbours."""
    word, tag = rows[t][:2]
    features: dict[str, object] = {
        "bias": 1.0,
        "word.lower()": word.lower(),
        "word[-3:]": word[-3:],
        "word[-2:]": word[-2:],
        "word.isupper()": word.isupper(),
        "word.istitle()": word.istitle(),
        "word.isdigit()": word.isdigit(),
        "postag": tag,
        "postag[:2]": tag[:2],
    }
    for step, end in ((-1, "BOS"), (1, "EOS")):
        if not 0 <= t + step < len(rows):
            features[end] = True
            continue
        word, tag = rows[t + step][:2]
        features |= {
            f"{step:+d}:word.lower()": word.lower(),
            f"{step:+d}:word.istitle()": word.istitle(),
            f"{step:+d}:word.isupper()": word.isupper(),
            f"{step:+d}:postag": tag,
            f"{step:+d}:postag[:2]": tag[:2],
        }
    return features


def dicts(part: str) -> list[list[dict[str, object]]]:
    """Return the feature dicts of a part of CoNLL-2000."""
    sentences = token_columns("conll2000", f"{part}.tsv.gz")
    return [[tutorial_features(rows, t) for t in range(len(rows))] for rows in sentences]


def append_all(X: list, y: list[list[str]]) -> None:
    """Give a data set to a trainer of python-crfsuite."""
    trainer = pycrfsuite.Trainer(verbose=False)
    for sequence, labels in zip(X, y, strict=True):
        trainer.append(sequence, labels)


def seconds(task: Callable[[], object]) -> float:
    """Return the wall-clock seconds of a task."""
    begin = time.perf_counter()
    task()
    return time.perf_counter() - begin


def measure(name: str, X: list, y: list[list[str]], X_test: list, repeats: int) -> dict:
    """Return the medians of reading X in both ways and of reading X_test over the columns of X."""
    encoder = FeatureDictEncoder()
    inputs, _ = encoder.fit_transform(X)  # compiles as well
    times = [
        (
            seconds(lambda: append_all(X, y)),
            seconds(lambda: FeatureDictEncoder().fit_transform(X)),
            seconds(lambda: encoder.transform(X_test)),
        )
        for _ in range(repeats)
    ]
    append, fit, transform = (median(column) for column in zip(*times, strict=True))
    return {
        "input": name,
        "tokens": inputs.shape[0],
        "features": inputs.shape[1],
        "non_zeros": int(inputs.nnz),
        "append_s": append,
        "fit_transform_s": fit,
        "ratio": fit / append,
        "transform_tokens_per_s": sum(map(len, X_test)) / transform,
        "repeats": repeats,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    try:
        strings, labels = chunking("train")
    except DataMissing as missing:
        print(f"skipped: {missing}")
        return
    head = f"{'input':16s} {'features':>9s} {'non-zeros':>10s} {'append':>9s} {'ours':>9s} {'ratio':>6s}"
    print(f"{head} {'transform':>18s}")
    rows = []
    for name, X, X_test in (
        ("feature strings", strings, chunking("test")[0]),
        ("feature dicts", dicts("train"), dicts("test")),
    ):
        row = measure(name, X, labels, X_test, repeats)
        rows.append(row)
        print(
            f"{name:16s} {row['features']:9,d} {row['non_zeros']:10,d} {row['append_s']:7.2f} s "
            f"{row['fit_transform_s']:7.2f} s {row['ratio']:6.2f} {row['transform_tokens_per_s']:9,.0f} tokens/s",
            flush=True,
        )
    write_results("ingest.json", rows)


if __name__ == "__main__":
    main()
