"""Costs beside a fit: the seconds of a posterior with many columns, and the size of exported files.

    python -m benchmarks.costs [laplace] [onnx]

    laplace   KernelClassifier("linear") on 120 papers of Citeseer, 3,703 words and 6 labels: seconds of laplace
    onnx      a field of the words of addresses: bytes of its model file and of its ONNX graph

The peak memory of fits on text is printed by benchmarks.first_try.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import scipy.sparse

from benchmarks.first_try import words_and_labels
from benchmarks.shared_data import data_file
from kernelfields import ChainCRF, KernelClassifier, TextFeatures
from kernelfields.serving import load_chain, to_onnx


def laplace() -> None:
    """Print the seconds of a fit and of its posterior."""
    with np.load(data_file("first-try-2", "citeseer.npz"), allow_pickle=False) as archive:
        words = scipy.sparse.csr_array(tuple(archive[name] for name in ("data", "indices", "indptr")), archive["shape"])
        labels, train = archive["label"], archive["train"]
    classifier = KernelClassifier("linear", prior_variance=1.0, random_state=0)
    begin, spent = time.perf_counter(), time.process_time()
    classifier.fit(words[train], labels[train])
    fitted, fitted_cpu = time.perf_counter(), time.process_time()
    classifier.laplace(words[train], labels[train], random_state=0)
    print(f"laplace: {len(labels[train])} x {words.shape[1]:,} columns x {len(classifier.classes_)} labels")
    print(f"  fit {fitted - begin:.1f} s, {fitted_cpu - spent:.1f} s of CPU")
    seconds, cpu = time.perf_counter() - fitted, time.process_time() - fitted_cpu
    print(f"  laplace {seconds:.1f} s, {cpu:.1f} s of CPU")


def onnx() -> None:
    """Print the sizes of a model file and of its export."""
    words, labels = words_and_labels("first-try-2", "addresses-train.tsv.gz")
    crf = ChainCRF("linear", support="observed", prior_variance=10.0, l1=0.0, tol=1e-2)
    crf.fit(TextFeatures().fit(words).transform(words), labels)
    with tempfile.TemporaryDirectory() as folder:
        model, graph = Path(folder) / "model.kfm", Path(folder) / "model.onnx"
        crf.save(model)
        to_onnx(load_chain(model), graph)
        sizes = [path.stat().st_size / 2**20 for path in (model, graph)]
    print(f"onnx: {crf.n_features_in_:,} features x {len(crf.classes_)} labels")
    print(f"  model file {sizes[0]:.2f} MB, ONNX {sizes[1]:.2f} MB")


PARTS = {"laplace": laplace, "onnx": onnx}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=list(PARTS), metavar="part")
    for part in parser.parse_args().parts:
        PARTS[part]()


if __name__ == "__main__":
    main()
