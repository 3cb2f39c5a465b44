"""Snakes on grids: plain edges against edges that see the colours and the direction of a step.

    python -m experiments.snakes [--models "no edges" ...]

200 grids to train on, 100 to test on; a snake of ten cells is to be numbered from head to tail, background is 0.
A cell shows the colour of its step's direction. Nodes see the colours of the cell and its eight neighbours. Plain
edges have one table of scores; directional ones have, for horizontal and for vertical edges, a table for each pair
of colours. The grids are too wide for exact inference with eleven labels: loopy belief propagation stands in.
The prior variance is chosen by 2-fold cross-validation on the training grids.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold

from benchmarks.result_files import EXPERIMENTS, merge_results, read_results
from benchmarks.shared_data import data_file
from experiments.result_pages import duration, estimate, percent, table, write_page
from kernelfields import GraphCRF, GraphFactors
from kernelfields.data import grid_edges
from kernelfields.evaluation import evaluate

RESULTS = "snakes.json"
VARIANCES = [1.0, 10.0, 100.0]
MODELS = {
    "no edges": "nodes alone",
    "plain edges": "grid, one table for all edges",
    "directional edges": "grid, tables by direction and colours of both cells",
}


def read_grids(part: str) -> tuple[list[tuple], list[np.ndarray]]:
    """Return, for each grid, one-hot colours (rows, columns, colours) and the labels of its cells."""
    with np.load(data_file("snakes", "snakes.npz"), allow_pickle=False) as archive:
        cells, labels, shapes = (archive[f"{name}_{part}"] for name in ("x", "y", "shape"))
        colours = np.unique(archive["x_train"], axis=0)
    codes = (cells[:, None, :] == colours).all(axis=-1).astype(float)
    grids, y, begin = [], [], 0
    for rows, columns in shapes.astype(int).tolist():
        end = begin + rows * columns
        grids.append(codes[begin:end].reshape(rows, columns, -1))
        y.append(labels[begin:end].astype(int))
        begin = end
    return grids, y


def as_graph(codes: np.ndarray, model: str) -> tuple:
    """Return one grid as (node_features, edges) or (node_features, edges, edge_features)."""
    rows, columns, n_colours = codes.shape
    padded = np.pad(codes, ((1, 1), (1, 1), (0, 0)))
    around = [padded[i : i + rows, j : j + columns] for i in range(3) for j in range(3)]
    nodes = np.concatenate(around, axis=-1).reshape(rows * columns, -1)
    if model == "no edges":
        return nodes, []
    if model == "plain edges":
        return nodes, grid_edges(rows, columns)
    edges = grid_edges(rows, columns, by_direction=True)
    flat = codes.reshape(-1, n_colours)
    features = {
        name: (flat[pairs[:, 0], :, None] * flat[pairs[:, 1], None, :]).reshape(len(pairs), -1)
        for name, pairs in edges.items()
    }
    return nodes, edges, features


def fitted(model: str, X: list, y: list, variance: float) -> GraphCRF:
    """Return a fitted field."""
    crf = GraphCRF(
        "linear",
        decode="viterbi",
        edges=GraphFactors("linear" if model == "directional edges" else None),
        inference="tree" if model == "no edges" else "loopy",
        prior_variance=variance,
        tol=1e-2,
        max_iter=300,
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return crf.fit(X, y)


def run(model: str) -> dict:
    """Choose the variance on the training grids, fit, and score the test grids."""
    begin = time.perf_counter()
    grids, y = read_grids("train")
    X = [as_graph(codes, model) for codes in grids]
    chosen, table = VARIANCES[0], {}
    for variance in VARIANCES:
        scores = []
        for train, held in KFold(2, shuffle=True, random_state=0).split(X):
            crf = fitted(model, [X[i] for i in train], [y[i] for i in train], variance)
            scores.append(crf.score([X[i] for i in held], [y[i] for i in held]))
        table[f"{variance:g}"] = float(np.mean(scores))
        if table[f"{variance:g}"] > table[f"{chosen:g}"]:
            chosen = variance
    crf = fitted(model, X, y, chosen)
    test_grids, test_y = read_grids("test")
    test_X = [as_graph(codes, model) for codes in test_grids]
    predicted = crf.predict(test_X)
    result = evaluate(test_y, predicted, random_state=0)
    body = np.concatenate(predicted) > 0
    return {
        "model": model,
        "prior_variance": chosen,
        "cross_validation": table,
        "accuracy": result.accuracy.to_dict(),
        "whole_grids": result.sequence_accuracy.to_dict(),
        "body_accuracy": float(np.mean(body == (np.concatenate(test_y) > 0))),
        "inference": crf.inference_.method,
        "iterations": crf.solution_.iterations,
        "reason": crf.solution_.reason,
        "seconds": time.perf_counter() - begin,
    }


def took() -> str:
    return duration(sum(row["seconds"] for row in read_results(RESULTS, EXPERIMENTS)))


def accuracy() -> str:
    rows = {row["model"]: row for row in read_results(RESULTS, EXPERIMENTS)}
    return table(
        ["field", "cells right", "grids without a mistake", "body or background", "prior variance", "seconds"],
        [
            [
                title,
                estimate(rows[model]["accuracy"]),
                estimate(rows[model]["whole_grids"]),
                percent(rows[model]["body_accuracy"]),
                f"{rows[model]['prior_variance']:g}",
                f"{rows[model]['seconds']:.0f}",
            ]
            for model, title in MODELS.items()
        ],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    for model in parser.parse_args().models:
        row = run(model)
        merge_results(RESULTS, [row], ("model",), EXPERIMENTS)
        print(f"{model:18s} {row['accuracy']} body {row['body_accuracy']:.4f} {row['cross_validation']}", flush=True)
    write_page("snakes")


if __name__ == "__main__":
    main()
