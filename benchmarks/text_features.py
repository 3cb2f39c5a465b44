"""Text features of the command, without a template, beside the usual templates: quality, and seconds they take.

    python -m benchmarks.text_features [chunking] [tagging] [names] [symbols] [--dev] [--options "--support observed"]
                                       [--prior-variances 1 10]

Files of words and labels go through ``kernelfields train`` and ``kernelfields evaluate``, all settings as they are by
default but for --options. The usual templates are those of templates.py, given to the command as CRFsuite's text.

    chunking   CoNLL-2000, word and tag       F1 of chunks
    tagging    UD English EWT, word           token accuracy
    names      WNUT17, word                   F1 of entities; before, every word at -1, 0 and 1. --prior-variances are
                                              compared on dev, and the best one is measured on test, also in Python
    symbols    Qian-Sejnowski, residue        token accuracy; before, every residue at -1, 0 and 1

Everything that was chosen was chosen with --dev: on the development file, or else on the last tenth of the training
file. The result goes to benchmarks/results/text_features.json.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sklearn.pipeline import make_pipeline

from benchmarks.result_files import merge_results
from benchmarks.shared_data import token_columns
from benchmarks.templates import chunking_features, tagging_features
from kernelfields import ChainCRF, TextFeatures
from kernelfields.evaluation.entities import entity_f1_score
from kernelfields.formats import write_sequences

Sentences = list[list[list[str]]]
_NEAR = "".join(f"U{row}:%x[{row},0]\n" for row in (-1, 0, 1)) + "B\n"


def command(*arguments: object) -> dict[str, Any]:
    """Run the command and return its document."""
    line = [sys.executable, "-m", "kernelfields.cli", *map(str, arguments), "--json", "--quiet"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)


def parts(folder: str, names: tuple[str, str, str], columns: list[int], dev: bool) -> tuple[Sentences, Sentences]:
    """Return the sentences to learn from and those to measure on; names are of train, dev ("" for none) and test."""
    train, held, test = names
    sentences = [
        [[row[column] for column in columns] for row in sentence]
        for sentence in token_columns(folder, f"{train}.tsv.gz")
    ]
    if not dev or held:
        other = token_columns(folder, f"{held if dev else test}.tsv.gz")
        return sentences, [[[row[column] for column in columns] for row in sentence] for sentence in other]
    cut = len(sentences) - len(sentences) // 10
    return sentences[:cut], sentences[cut:]


def write_columns(path: Path, sentences: Sentences) -> Path:
    """Write sentences as a column file."""
    path.write_text("".join("".join("\t".join(row) + "\n" for row in each) + "\n" for each in sentences), "utf-8")
    return path


def measured(train: Path, test: Path, options: list[str], figure: str) -> dict[str, Any]:
    """Train and evaluate by the command; return the figure in per cent, and what training took."""
    model = train.with_suffix(".safetensors")
    begin = time.perf_counter()
    fit = command("train", train, "-m", model, *options)
    seconds = time.perf_counter() - begin
    shown = command("evaluate", model, test, "--resamples", "0", "--labels-only")
    value = shown["accuracy"] if figure == "accuracy" else shown["entities"]["averages"]["micro"]["f1"]
    return {"value": 100 * value["value"], "seconds": seconds, "passes": fit["passes"], "gap": fit["relative_gap"]}


def beside_the_usual(
    task: str, data: tuple[Sentences, Sentences], usual: Callable, figure: str, options: list[str]
) -> list[dict[str, Any]]:
    """Rows of a task without a template and with the usual one."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        names = ("train", "test")
        plain = [write_columns(Path(folder) / f"{name}.tsv", part) for name, part in zip(names, data, strict=True)]
        rows.append({"features": "no template", **measured(plain[0], plain[1], options, figure)})
        written = []
        for name, part in zip(names, data, strict=True):
            written.append(Path(folder) / f"{name}.crfsuite")
            write_sequences(written[-1], [usual(each) for each in part], [[row[-1] for row in each] for each in part])
        rows.append({"features": "usual template", **measured(written[0], written[1], options, figure)})
    return [{"task": task, **row} for row in rows]


def chunking(dev: bool, options: list[str]) -> list[dict[str, Any]]:
    data = parts("conll2000", ("train", "", "test"), [0, 1, 2], dev)

    def usual(rows: list[list[str]]) -> list[list[str]]:
        return chunking_features([row[0] for row in rows], [row[1] for row in rows])

    return beside_the_usual("chunking", data, usual, "f1", options)


def tagging(dev: bool, options: list[str]) -> list[dict[str, Any]]:
    data = parts("ud-english-ewt", ("train", "dev", "test"), [0, 1], dev)
    return beside_the_usual("tagging", data, lambda rows: tagging_features([r[0] for r in rows]), "accuracy", options)


def beside_three_places(
    task: str, data: tuple[Sentences, Sentences], figure: str, options: list[str]
) -> list[dict[str, Any]]:
    """Rows of a task without a template and with the cells at -1, 0 and 1."""
    with tempfile.TemporaryDirectory() as folder:
        names = ("train", "test")
        train, test = (
            write_columns(Path(folder) / f"{name}.tsv", part) for name, part in zip(names, data, strict=True)
        )
        template = Path(folder) / "near.template"
        template.write_text(_NEAR)
        found = {
            "no template": measured(train, test, options, figure),
            "cells at -1, 0, 1": measured(train, test, ["-t", str(template), *options], figure),
        }
    return [{"task": task, "features": name, **row} for name, row in found.items()]


def symbols(dev: bool, options: list[str]) -> list[dict[str, Any]]:
    data = parts("first-try", ("qian-sejnowski-train", "", "qian-sejnowski-test"), [0, 1], dev)
    return beside_three_places("symbols", data, "accuracy", options)


def names(dev: bool, options: list[str]) -> list[dict[str, Any]]:
    data = parts("first-try", ("wnut17-train", "wnut17-dev", "wnut17-test"), [0, 1], dev)
    return beside_three_places("names", data, "f1", options)


def names_by_prior(variances: list[float], options: list[str]) -> list[dict[str, Any]]:
    """Rows of WNUT17 on dev for prior variances, and of the best on test: by the command, and in Python."""
    files = ("wnut17-train", "wnut17-dev", "wnut17-test")
    (train, dev), (_, test) = (parts("first-try", files, [0, 1], held) for held in (True, False))
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        paths = [
            write_columns(Path(folder) / f"{name}.tsv", part)
            for name, part in (("train", train), ("dev", dev), ("test", test))
        ]
        for variance in variances:
            given = ["--prior-variance", str(variance), *options]
            rows.append({"features": f"prior variance {variance:g}, dev", **measured(paths[0], paths[1], given, "f1")})
            print(rows[-1], flush=True)
        best = max(zip(rows, variances, strict=True), key=lambda pair: pair[0]["value"])[1]
        given = ["--prior-variance", str(best), *options]
        rows.append({"features": f"prior variance {best:g}, test", **measured(paths[0], paths[2], given, "f1")})
    (X, y), (X_test, y_test) = ((_column(part, 0), _column(part, 1)) for part in (train, test))
    pipeline = make_pipeline(TextFeatures(), ChainCRF("linear", prior_variance=best, random_state=0))
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pipeline.fit(X, y)
    seconds, solution = time.perf_counter() - begin, pipeline[-1].solution_
    value = 100 * entity_f1_score(y_test, pipeline.predict(X_test), scheme="bio")
    figures = {"value": value, "seconds": seconds, "passes": solution.passes, "gap": solution.relative_gap}
    rows.append({"features": f"prior variance {best:g}, test, Pipeline", **figures})
    return [{"task": "names", **row} for row in rows]


def _column(sentences: Sentences, column: int) -> list[list[str]]:
    return [[row[column] for row in sentence] for sentence in sentences]


TASKS = {"chunking": chunking, "tagging": tagging, "names": names, "symbols": symbols}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", help=f"of {', '.join(TASKS)}; all unless told")
    parser.add_argument("--dev", action="store_true", help="measure on development data, and write no result")
    parser.add_argument("--options", default="", help="further options of kernelfields train")
    parser.add_argument("--prior-variances", nargs="+", type=float, default=None, help="for names")
    given = parser.parse_args()
    options = shlex.split(given.options)
    rows: list[dict[str, Any]] = []
    for task in given.tasks or TASKS:
        rows += TASKS[task](given.dev, options)
        if task == "names" and given.prior_variances:
            rows += names_by_prior(given.prior_variances, options)
    for row in rows:
        row["options"] = given.options
        print(
            f"{row['task']:9s} {row['features']:36s} {row['value']:6.2f}  {row['seconds']:6.1f} s  gap {row['gap']:.2g}"
        )
    if not given.dev:
        merge_results("text_features.json", rows, ("task", "features", "options"))


if __name__ == "__main__":
    main()
