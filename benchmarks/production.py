"""Models in production: the NumPy-only reader and onnxruntime against the library, on all test sequences.

    python -m benchmarks.production [equal] [start] [speed] [--models FOLDER] [--only words] [--starts 9]

Three models: CoNLL-2000 with the usual template, a linear kernel on sparse features, fitted to the training part; the
same sentences as words and tags, of which a step of the model makes features; OCR letters with an RBF kernel of rank
500, fitted to words of folds 1 to 9 and asked about all words. ``--models`` keeps them in a folder and takes them from
there the next time. For each model the script prints

    equal       sequences whose labels differ from the library's, and the largest difference of a marginal
    start       seconds of a fresh process from its start to its end, wall-clock and of the processor; of importing,
                loading and the first answer
    speed       sequences per second, and time of the processor: one at a time; all at once, where it can be asked so;
                one at a time by eight threads that share the model, and whether their answers are those of one thread

Without onnxruntime its rows are left out. A busy machine makes all times longer: the least of several runs is shown.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import make_pipeline

from benchmarks.measuring import seconds
from benchmarks.result_files import merge_results
from benchmarks.shared_data import ocr_letters, token_columns
from benchmarks.templates import chunking
from kernelfields import ChainCRF, TextFeatures, load, save
from kernelfields.kernels import RBF
from kernelfields.serving import load_chain, to_onnx

N_THREADS, ASKED = 8, 300
START = """
import time
begin = time.perf_counter()
{imports}
imported = time.perf_counter()
import json, sys
model = {load}
loaded = time.perf_counter()
x = json.loads(sys.argv[2])
numbers = isinstance(x[0][0], float)
labels = model.predict([{array}(x) if numbers else x])
print(json.dumps([imported - begin, loaded - imported, time.perf_counter() - loaded]))
"""
STARTS = {
    "library": START.format(
        imports="import numpy\nfrom kernelfields import load",
        load="load(sys.argv[1])",
        array="numpy.array",
    ),
    "reader": START.format(
        imports="import numpy\nfrom kernelfields.serving import load_chain",
        load="load_chain(sys.argv[1])",
        array="numpy.array",
    ),
}
Ask = Callable[[list], list]


def chunks(path: Path) -> list:
    """Fit a linear chain to CoNLL-2000, unless the file is there; return the test sentences."""
    if not path.exists():
        settings = {"support": "observed", "prior_variance": 1.0, "tol": 0.01, "max_iter": 40}
        fit_quietly(ChainCRF("linear", **settings), *chunking("train")).save(path)
    return chunking("test")[0]


def words(path: Path) -> list:
    """Fit a linear chain to words and tags of CoNLL-2000, unless the file is there; return those of the test part."""
    if not path.exists():
        rows = token_columns("conll2000", "train.tsv.gz")
        crf = ChainCRF("linear", support="observed", prior_variance=1.0, tol=0.05, max_iter=10)
        save(fit_quietly(make_pipeline(TextFeatures(), crf), *words_and_chunks(rows)), path)
    return words_and_chunks(token_columns("conll2000", "test.tsv.gz"))[0]


def words_and_chunks(sentences: list) -> tuple[list, list]:
    """Return words with their tags, and chunk tags."""
    return [[row[:2] for row in rows] for rows in sentences], [[row[2] for row in rows] for rows in sentences]


def letters(path: Path) -> list:
    """Fit an RBF chain of rank 500 to words of OCR letters, unless the file is there; return all words."""
    words, labels, fold = ocr_letters()
    words = [word.astype(np.float64) for word in words]
    if not path.exists():
        inside = np.flatnonzero(fold != 0)[:2500]
        crf = ChainCRF(RBF(0.04), prior_variance=10.0, rank=500, tol=0.05, max_iter=100, random_state=0)
        fit_quietly(crf, [words[i] for i in inside], [labels[i] for i in inside]).save(path)
    return words


def fit_quietly(crf: Any, X: list, y: list) -> Any:
    """Fit; a fit that is not quite done predicts as fast as any other."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return crf.fit(X, y)


class OnnxChain:
    """An exported chain in onnxruntime, asked as the others are."""

    def __init__(self, path: Path, served: Any, outputs: tuple[str, ...]):
        import onnxruntime

        target = path.with_suffix(f".{len(outputs)}.onnx")
        to_onnx(served, target, outputs=outputs)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(target, options, providers=["CPUExecutionProvider"])
        self.classes = np.array(json.loads(self.session.get_modelmeta().custom_metadata_map["classes"]))
        self.encoded = served.inputs.encode

    def predict(self, X: list) -> list:
        """Return the labels of each sequence."""
        return [self.classes[self.session.run(["labels"], self.encoded(x))[0]] for x in X]

    def answers(self, X: list) -> tuple[list, list]:
        """Return the labels and the marginals of each sequence; a graph computes both, whatever is fetched."""
        found = [self.session.run(["labels", "marginals"], self.encoded(x)) for x in X]
        return [self.classes[labels] for labels, _ in found], [marginals for _, marginals in found]


def start_times(who: str, path: Path, x: Any, repeats: int) -> dict[str, float]:
    """Return the least seconds of fresh processes, wall-clock and of the processor, and the parts of the quickest."""
    given = json.dumps(x.tolist() if isinstance(x, np.ndarray) else x)
    with tempfile.TemporaryDirectory() as compiled:
        # Bytecode is kept, as that of installed packages is; the first process writes it.
        settings = {**os.environ, "PYTHONPYCACHEPREFIX": compiled}
        settings.pop("PYTHONDONTWRITEBYTECODE", None)
        runs = [_started([sys.executable, "-c", STARTS[who], str(path), given], settings) for _ in range(repeats + 1)]
    wall, processor, parts = min(runs[1:])
    named = dict(zip(("import", "load", "first answer"), parts, strict=True))
    return {"process": wall, "processor": min(processor, *(run[1] for run in runs[1:])), **named}


def _started(command: list[str], settings: dict[str, str]) -> tuple[float, float, list[float]]:
    before, begin = os.times(), time.perf_counter()
    run = subprocess.run(command, capture_output=True, text=True, check=True, env=settings)
    wall, after = time.perf_counter() - begin, os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return wall, used, json.loads(run.stdout)


def answers(model: Any, X: list) -> tuple[list, list]:
    """Return the labels and the marginals of each sequence."""
    return model.answers(X) if isinstance(model, OnnxChain) else (model.predict(X), model.predict_marginals(X))


def differences(models: dict[str, Any], X: list) -> list[dict[str, Any]]:
    """Return for each road how many sequences have other labels than the library gives, and how marginals differ."""
    labels, marginals = answers(models["library"], X)
    rows = []
    for who in [name for name in models if name != "library"]:
        other_labels, other_marginals = answers(models[who], X)
        different = sum(not np.array_equal(a, b) for a, b in zip(labels, other_labels, strict=True))
        apart = max(float(np.abs(a - b).max()) for a, b in zip(marginals, other_marginals, strict=True))
        rows.append({"who": who, "sequences": len(X), "different": different, "largest_difference": apart})
    return rows


def by_threads(ask: Ask, X: list, n_threads: int) -> tuple[float, list]:
    """Return sequences per second, asked one at a time by some threads, and the answers."""
    with ThreadPoolExecutor(n_threads) as threads:
        begin = time.perf_counter()
        answers = list(threads.map(lambda x: ask([x])[0], X))
        return len(X) / (time.perf_counter() - begin), answers


def speeds(who: str, model: Any, X: list) -> dict[str, Any]:
    """Return how fast predict is: one sequence at a time, all at once, one at a time by eight threads."""
    some = X[:ASKED]
    model.predict(X[:5])  # compiles, and loads what there is to load
    alone = [model.predict([x])[0] for x in some]
    singly = lambda: [model.predict([x]) for x in some]  # noqa: E731
    together = None if who == "onnxruntime" else max(len(X) / seconds(lambda: model.predict(X)) for _ in range(2))
    runs = [by_threads(model.predict, some, N_THREADS) for _ in range(2)]
    return {
        "per_second": max(len(some) / seconds(singly) for _ in range(2)),
        "processor_ms": min(1e3 * seconds(singly, time.process_time) / len(some) for _ in range(2)),
        "together_per_second": together,
        "eight_threads_per_second": max(rate for rate, _ in runs),
        "same_in_threads": all(np.array_equal(a, b) for _, others in runs for a, b in zip(alone, others, strict=True)),
    }


def with_onnx(models: dict[str, Any], path: Path, outputs: tuple[str, ...]) -> dict[str, Any]:
    """Return models with that in onnxruntime, where it is installed."""
    if not (importlib.util.find_spec("onnx") and importlib.util.find_spec("onnxruntime")):
        return models
    return {**models, "onnxruntime": OnnxChain(path, models["reader"], outputs)}


def equality(path: Path, X: list, starts: int) -> Iterator[dict[str, Any]]:
    """Yield how far the answers are from those of the library."""
    models = {"library": load(path), "reader": load_chain(path)}
    for row in differences(with_onnx(models, path, ("labels", "marginals")), X):
        print(
            f"  equal   {row['who']:12s} {row['different']} of {row['sequences']:,} sequences ({sum(map(len, X)):,} "
            f"positions) have other labels; marginals differ by {row['largest_difference']:.1e} at most"
        )
        yield row


def starting(path: Path, X: list, starts: int) -> Iterator[dict[str, Any]]:
    """Yield how long fresh processes take."""
    library = 0.0
    for who in STARTS:
        row = start_times(who, path, X[0], starts)
        library = library or row["process"]
        shown = ", ".join(f"{part} {value:.3f} s" for part, value in row.items())
        print(f"  start   {who:12s} {shown}; {row['process'] / library:.2f} of the library's")
        yield {"who": who, **row}


def answering(path: Path, X: list, starts: int) -> Iterator[dict[str, Any]]:
    """Yield how fast labels are predicted."""
    models, library = {"library": load(path), "reader": load_chain(path)}, 0.0
    for who, model in with_onnx(models, path, ("labels",)).items():
        row = speeds(who, model, X)
        library = library or row["per_second"]
        together, same = row["together_per_second"], "the same" if row["same_in_threads"] else "OTHER"
        at_once = "" if together is None else f"; all at once {together:,.0f} per second"
        print(
            f"  speed   {who:12s} one at a time {row['per_second']:,.0f} per second ({row['per_second'] / library:.2f} "
            f"of the library's), {row['processor_ms']:.2f} ms of the processor{at_once}; by {N_THREADS} threads "
            f"{row['eight_threads_per_second']:,.0f}, {same} answers"
        )
        yield {"who": who, **row}


MODELS = {"chunks": chunks, "words": words, "letters": letters}
PARTS = {"equal": equality, "start": starting, "speed": answering}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=list(PARTS), help=f"some of {', '.join(PARTS)}")
    parser.add_argument("--models", type=Path, default=None, help="a folder that keeps the fitted models")
    parser.add_argument("--only", nargs="*", default=list(MODELS), help=f"some of {', '.join(MODELS)}")
    parser.add_argument("--starts", type=int, default=9, help="fresh processes of each kind")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        for name in options.only:
            path = (options.models or Path(scratch)) / f"{name}.kfm"
            X = MODELS[name](path)
            print(f"\n{name}: {len(X):,} sequences, a model of {path.stat().st_size:,} bytes")
            for part in options.parts:
                rows += [{"model": name, "part": part, **row} for row in PARTS[part](path, X, options.starts)]
    merge_results("production.json", rows, ("model", "part", "who"))


if __name__ == "__main__":
    main()
