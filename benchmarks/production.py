"""Models in production: the NumPy-only reader and onnxruntime against the library, on all test sequences.

    python -m benchmarks.production [--models FOLDER] [--starts 9]

Two models: CoNLL-2000 with the usual template, a linear kernel on sparse features, fitted to the training part; OCR
letters with an RBF kernel of rank 500, fitted to part of folds 1 to 9 and asked about fold 0. ``--models`` keeps them
in a folder and takes them from there the next time. For each model the script prints

    equal       sequences whose labels differ from the library's, and the largest difference of a marginal
    start       seconds of a fresh process: from its start to its end; importing, loading, the first answer
    speed       sequences per second: one at a time; all at once, where it can be asked so; one at a time by eight
                threads that share the model, and whether their answers are those of one thread

Without onnxruntime its rows are left out. A busy machine makes all times longer: the least of several runs is shown.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.result_files import merge_results
from benchmarks.shared_data import ocr_letters
from benchmarks.templates import chunking
from kernelfields import ChainCRF
from kernelfields.kernels import RBF
from kernelfields.serving import load_chain, to_onnx

N_THREADS, ASKED = 8, 400
START = """
import time
begin = time.perf_counter()
{imports}
imported = time.perf_counter()
import json, sys
model = {load}
loaded = time.perf_counter()
x = json.loads(sys.argv[2])
labels = model.predict([x if isinstance(x[0][0], str) else {array}(x, dtype=float)])
print(json.dumps([imported - begin, loaded - imported, time.perf_counter() - loaded]))
"""
STARTS = {
    "library": START.format(
        imports="import numpy\nfrom kernelfields import ChainCRF",
        load="ChainCRF.load(sys.argv[1])",
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


def letters(path: Path) -> list:
    """Fit an RBF chain of rank 500 to words of OCR letters, unless the file is there; return those of fold 0."""
    words, labels, fold = ocr_letters()
    words = [word.astype(np.float64) for word in words]
    if not path.exists():
        inside = np.flatnonzero(fold != 0)[:2500]
        crf = ChainCRF(RBF(0.04), prior_variance=10.0, rank=500, tol=0.05, max_iter=100, random_state=0)
        fit_quietly(crf, [words[i] for i in inside], [labels[i] for i in inside]).save(path)
    return [words[i] for i in np.flatnonzero(fold == 0)]


def fit_quietly(crf: ChainCRF, X: list, y: list) -> ChainCRF:
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
        self.encoded = served.inputs.encoded

    def predict(self, X: list) -> list:
        """Return the labels of each sequence."""
        return [self.classes[self.session.run(["labels"], self.encoded(x))[0]] for x in X]

    def predict_marginals(self, X: list) -> list:
        """Return the marginals of each sequence."""
        return [self.session.run(["marginals"], self.encoded(x))[0] for x in X]


def seconds(call: Callable[[], Any]) -> float:
    """Return the wall-clock seconds of a call."""
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def start_times(who: str, path: Path, x: Any, repeats: int) -> dict[str, float]:
    """Return the least seconds of fresh processes, and of their parts."""
    given = json.dumps(x.tolist() if isinstance(x, np.ndarray) else x)
    parts, whole = [], []
    for _ in range(repeats):
        begin = time.perf_counter()
        run = subprocess.run(
            [sys.executable, "-c", STARTS[who], str(path), given], capture_output=True, text=True, check=True
        )
        whole.append(time.perf_counter() - begin)
        parts.append(json.loads(run.stdout))
    least = np.array(parts)[np.argmin(whole)]
    return {"process": min(whole), **dict(zip(("import", "load", "first answer"), least.tolist(), strict=True))}


def differences(models: dict[str, Any], X: list) -> list[dict[str, Any]]:
    """Return for each road how many sequences have other labels than the library gives, and how marginals differ."""
    library = models["library"]
    labels, marginals = library.predict(X), library.predict_marginals(X)
    rows = []
    for who in [name for name in models if name != "library"]:
        other_labels, other_marginals = models[who].predict(X), models[who].predict_marginals(X)
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
    """Return sequences per second of predict: one at a time, all at once, one at a time by eight threads."""
    some = X[:ASKED]
    model.predict(X[:5])  # compiles, and loads what there is to load
    single = max(len(some) / seconds(lambda: [model.predict([x]) for x in some]) for _ in range(3))
    together = None if who == "onnxruntime" else max(len(X) / seconds(lambda: model.predict(X)) for _ in range(3))
    answers = [model.predict([x])[0] for x in some]
    runs = [by_threads(model.predict, some, N_THREADS) for _ in range(3)]
    same = all(np.array_equal(a, b) for _, others in runs for a, b in zip(answers, others, strict=True))
    best = max(rate for rate, _ in runs)
    return {"who": who, "single": single, "together": together, "eight_threads": best, "same_in_threads": same}


def measure(name: str, path: Path, X: list, starts: int) -> dict[str, Any]:
    """Print and return the figures of one model."""
    served = load_chain(path)
    models: dict[str, Any] = {"library": ChainCRF.load(path), "reader": served}
    labels_alone = dict(models)
    if importlib.util.find_spec("onnx") and importlib.util.find_spec("onnxruntime"):
        models["onnxruntime"] = OnnxChain(path, served, ("labels", "marginals"))
        labels_alone["onnxruntime"] = OnnxChain(path, served, ("labels",))
    n_positions = sum(map(len, X))
    print(f"\n{name}: {served.n_features_in_:,} features, {len(served.classes_)} labels, {path.stat().st_size:,} bytes")
    row: dict[str, Any] = {"model": name, "positions": n_positions, "equal": differences(models, X), "start": {}}
    for each in row["equal"]:
        print(
            f"  equal   {each['who']:12s} {each['different']} of {each['sequences']:,} sequences ({n_positions:,} "
            f"positions) have other labels; marginals differ by {each['largest_difference']:.1e} at most"
        )
    for who in STARTS:
        row["start"][who] = start_times(who, path, X[0], starts)
        parts = ", ".join(f"{part} {value:.3f} s" for part, value in row["start"][who].items())
        print(f"  start   {who:12s} {parts}")
    row["speed"] = [speeds(who, model, X) for who, model in labels_alone.items()]
    for each in row["speed"]:
        together = "" if each["together"] is None else f", all at once {each['together']:,.0f}"
        print(
            f"  speed   {each['who']:12s} one at a time {each['single']:,.0f} per second{together}, by {N_THREADS} "
            f"threads {each['eight_threads']:,.0f}, {'the same' if each['same_in_threads'] else 'OTHER'} answers"
        )
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, default=None, help="a folder that keeps the fitted models")
    parser.add_argument("--starts", type=int, default=9, help="fresh processes of each kind")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.models or Path(scratch)
        rows = [
            measure(name, folder / f"{name}.kfm", read(folder / f"{name}.kfm"), options.starts)
            for name, read in (("chunks", chunks), ("letters", letters))
        ]
    merge_results("production.json", rows, ("model",))


if __name__ == "__main__":
    main()
