"""Seconds and quality of a learnt graph of labels on yeast: 14 labels, 91 pairs, 1,500 training instances.

    python -m benchmarks.label_graph [--splits 2]

Parts of the training instances are held out: the fields with all pairs (the default), with none and with learnt pairs
are fitted to the rest, and their log-likelihoods of the held-out part compared. The test part is not read. Seconds are
those of whole fits, by the clock and of processors.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from benchmarks.result_files import write_results
from benchmarks.shared_data import multilabel_set
from kernelfields import MultiLabelCRF


def row(graph: str, split: int, share: float = 0.2) -> dict:
    """Fit one field to a part of the training instances and score it on the others."""
    (X, Y), _, _ = multilabel_set("yeast")
    order = np.random.default_rng(split).permutation(len(X))
    held, train = np.split(order, [round(share * len(X))])
    start, work = time.perf_counter(), time.process_time()
    crf = MultiLabelCRF(label_graph=graph, random_state=0).fit(X[train], Y[train])
    path = crf.structure_path_
    return {
        "graph": graph,
        "split": split,
        "pairs": len(crf.label_edges_),
        "fits": 1 if path is None else 1 + len(path.steps),
        "ended": None if path is None else path.reason,
        "seconds": time.perf_counter() - start,
        "processor_seconds": time.process_time() - work,
        "log_likelihood": float(crf.log_likelihood(X[held], Y[held])) / len(held),
        "right": crf.score(X[held], Y[held]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=2, help="parts of the training instances to hold out in turn")
    rows = []
    for split in range(parser.parse_args().splits):
        for graph in ("none", "auto", "learn"):
            rows.append(row(graph, split))
            print(
                "split {split} {graph:6s} {pairs:3d} pairs, {fits:2d} fits, {seconds:6.1f} s ({processor_seconds:5.1f} "
                "s of processors), held-out log-likelihood {log_likelihood:.4f} an instance, all labels right "
                "{right:.3f}".format(**rows[-1]),
                flush=True,
            )
    write_results("label_graph.json", rows)


if __name__ == "__main__":
    main()
