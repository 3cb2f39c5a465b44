"""Seconds and quality of a learnt graph of labels on yeast: 14 labels, 91 pairs, 1,500 training instances.

    python -m benchmarks.label_graph [--splits 2]

Parts of the training instances are held out: the fields with all pairs (the default), with none and with learnt pairs
are fitted to the rest, and their log-likelihoods of the held-out part compared. A search draws random numbers, so that
the fit after it has another basis: the learnt pairs are fitted once more as given ones, on the basis that all pairs
had, and that is compared. The test part is not read. Seconds are those of whole fits, by the clock and of processors.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from benchmarks.result_files import write_results
from benchmarks.shared_data import multilabel_set
from kernelfields import MultiLabelCRF


def row(name: str, graph: str | list, split: int, share: float = 0.2) -> tuple[dict, np.ndarray, list]:
    """Fit one field to a part of the training instances; return figures, log-likelihoods of the others, and pairs."""
    (X, Y), _, _ = multilabel_set("yeast")
    order = np.random.default_rng(split).permutation(len(X))
    held, train = np.split(order, [round(share * len(X))])
    start, work = time.perf_counter(), time.process_time()
    crf = MultiLabelCRF(label_graph=graph, random_state=0).fit(X[train], Y[train])
    seconds, work = time.perf_counter() - start, time.process_time() - work
    path, likelihoods = crf.structure_path_, np.asarray(crf.log_likelihood(X[held], Y[held], per_item=True))
    figures = {
        "graph": name,
        "split": split,
        "pairs": len(crf.label_edges_),
        "fits": 1 if path is None else 1 + len(path.steps),
        "ended": None if path is None else path.reason,
        "seconds": seconds,
        "processor_seconds": work,
        "log_likelihood": float(likelihoods.mean()),
        "right": crf.score(X[held], Y[held]),
    }
    return figures, likelihoods, crf.label_edges_


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=2, help="parts of the training instances to hold out in turn")
    rows, gains = [], []
    for split in range(parser.parse_args().splits):
        scores, pairs = {}, []
        for name in ("none", "auto", "learn", "given"):
            figures, scores[name], pairs = row(name, pairs if name == "given" else name, split)
            rows.append(figures)
            print(
                "split {split} {graph:6s} {pairs:3d} pairs, {fits:2d} fits, {seconds:6.1f} s ({processor_seconds:5.1f} "
                "s of processors), held-out log-likelihood {log_likelihood:.4f} an instance, all labels right "
                "{right:.3f}".format(**rows[-1]),
                flush=True,
            )
        gains.append(scores["given"] - scores["auto"])
    gain = np.concatenate(gains)
    error = gain.std() / np.sqrt(len(gain))
    print(f"learnt pairs against all pairs: {gain.mean():+.4f} nats an instance, standard error {error:.4f}")
    write_results("label_graph.json", rows)


if __name__ == "__main__":
    main()
