"""Which clique set a search for structure adds first, when candidates have priors of very different widths.

    python -m benchmarks.structure_ranking [--problems 10] [--old OLD]

Ten problems: forty sequences of ten labels from a field whose labels meet two, three or one and two steps apart, and
eight candidates with prior variances of 0.1, 1 and 10, drawn at random. Every candidate is fitted by itself, so that it
is known which brings most; then the search adds one set. Printed are what it took, and the passes over the features of
the sequences that the search and its fits made, in units of the features of the field at the start. ``--old`` runs the
same in another checkout of the project, beside this one. Two minutes on two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from unittest import mock

import numpy as np

from benchmarks.result_files import CHECKOUT, read_results, write_results
from kernelfields import ChainCRF, EdgeCliques, EndCliques, NodeCliques, SkipCliques, StartCliques
from kernelfields.data import CliqueSet, OrderCliques
from kernelfields.kernels import RBF
from kernelfields.objective import Datafit
from kernelfields.selection import StructureSearch

RESULT = "structure_ranking.json"
N_LABELS, N_SEQUENCES, LENGTH = 3, 40, 10
TRUTHS = ((2,), (3,), (1, 2))
VARIANCES = (0.1, 1.0, 10.0)


def candidates(seed: int) -> list[CliqueSet]:
    """Return eight clique sets with prior variances of their own."""
    variances = iter(np.random.default_rng(100 + seed).choice(VARIANCES, 8))
    return [
        SkipCliques(lag=2, prior_variance=next(variances)),
        SkipCliques(lag=3, prior_variance=next(variances)),
        OrderCliques(order=2, prior_variance=next(variances)),
        StartCliques(prior_variance=next(variances)),
        EndCliques(prior_variance=next(variances)),
        EdgeCliques("linear", name="edge inputs", prior_variance=next(variances)),
        NodeCliques("linear", window=3, name="neighbours", prior_variance=next(variances)),
        NodeCliques(RBF(0.3), rank=20, name="curved", prior_variance=next(variances)),
    ]


def sequences(seed: int, sweeps: int = 50) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return inputs and labels, Gibbs draws from a field of linear scores and tables of labels some steps apart."""
    random, lags = np.random.default_rng(seed), TRUTHS[seed % len(TRUTHS)]
    X = random.normal(size=(N_SEQUENCES, LENGTH, 3))
    scores = X @ random.normal(size=(3, N_LABELS))
    tables = {lag: 1.5 * random.normal(size=(N_LABELS, N_LABELS)) for lag in lags}
    labels = random.integers(N_LABELS, size=(N_SEQUENCES, LENGTH))
    for _ in range(sweeps):
        for t in range(LENGTH):
            logits = scores[:, t].copy()
            for lag, table in tables.items():
                if t >= lag:
                    logits += table[labels[:, t - lag]]
                if t + lag < LENGTH:
                    logits += table[:, labels[:, t + lag]].T
            # The largest of logits with Gumbel noise is a draw of the label given all others.
            labels[:, t] = np.argmax(logits + random.gumbel(size=logits.shape), axis=1)
    return list(X), list(labels)


@contextmanager
def counted_values() -> Iterator[list[float]]:
    """Yield a list that holds, afterwards, how many stored values of features all passes read."""
    made: list[Datafit] = []
    read: list[float] = []
    begin = Datafit.__init__

    def noted(self: Datafit, *arguments: object, **named: object) -> None:
        begin(self, *arguments, **named)  # type: ignore[arg-type]
        made.append(self)

    with mock.patch.object(Datafit, "__init__", noted):
        yield read
    read.append(sum(each.passes * max(1, sum(design.stored_values for design in each.designs)) for each in made))


def field(tol: float, cliques: object = None) -> ChainCRF:
    """Return a linear field of neighbours, or of given clique sets."""
    return ChainCRF("linear", cliques=cliques, tol=tol, max_iter=2000, random_state=0, n_jobs=1)


def problem(seed: int) -> dict:
    """Return what each candidate brings, what the search said of it, what it took, and what that cost."""
    X, y = sequences(seed)
    base = [NodeCliques("linear"), EdgeCliques()]
    start = field(1e-6, base).fit(X, y).solution_.value
    search = StructureSearch(field(1e-3), candidates(seed), max_additions=1, validation=0.0, threshold=0.0)
    with counted_values() as read:
        path = search.fit(X, y).structure_path_
    step = asdict(path.steps[1])
    names = list(step["bounds"])
    rows = {}
    for name, clique in zip(names, candidates(seed), strict=True):
        gain = start - field(1e-6, [*base, clique]).fit(X, y).solution_.value
        rows[name] = {"prior_variance": float(clique.prior_variance), "bound": step["bounds"][name], "gain": gain}
        if "estimates" in step:
            rows[name]["estimate"] = step["estimates"][name]
    return {
        "seed": seed,
        "candidates": rows,
        "best": max(rows, key=lambda name: rows[name]["gain"]),
        "taken": path.added[0],
        "passes": read[0] / (N_SEQUENCES * LENGTH * 3),
    }


def ranking() -> str:
    """Return the table of the page: what the best set is, what the bound and the estimate put first."""
    from experiments.result_pages import table

    lines = []
    for row in read_results(RESULT):
        found = row["candidates"]
        by_bound = max(found, key=lambda name: found[name]["bound"])
        cells = [f"{name} (s = {found[name]['prior_variance']:g})" for name in (row["best"], by_bound, row["taken"])]
        own = found[row["taken"]]
        figures = [
            f"{found[by_bound]['gain']:.1f}",
            f"{own['bound']:,.0f}",
            f"{own['estimate']:.1f}",
            f"{own['gain']:.1f}",
        ]
        lines.append([cells[0], cells[1], figures[0], cells[2], *figures[1:]])
    header = ["brings most", "largest bound", "brings", "taken", "its bound", "its estimate", "it brings"]
    return table(header, lines)


def _print(title: str, rows: list[dict]) -> None:
    for row in rows:
        gains = {name: row["candidates"][name]["gain"] for name in (row["taken"], row["best"])}
        print(f"{title} problem {row['seed']}: took {row['taken']} ({gains[row['taken']]:.1f} nats), ", end="")
        print(f"best {row['best']} ({gains[row['best']]:.1f}), {row['passes']:.0f} passes")
    best = sum(row["taken"] == row["best"] for row in rows)
    print(f"{title} the best in {best} of {len(rows)}, {sum(row['passes'] for row in rows):.0f} passes", flush=True)


def main() -> None:
    """Run the problems here, and in the other checkout."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.structure_ranking", description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=10)
    parser.add_argument("--old", type=Path, help="another checkout, to run the same problems in")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON and write nothing")
    arguments = parser.parse_args()
    if arguments.old is not None:
        command = [
            sys.executable,
            "-m",
            "benchmarks.structure_ranking",
            "--problems",
            str(arguments.problems),
            "--json",
        ]
        environment = {**os.environ, "PYTHONPATH": f"{arguments.old / 'src'}{os.pathsep}{CHECKOUT}"}
        printed = subprocess.run(command, env=environment, cwd=CHECKOUT, check=True, capture_output=True, text=True)
        _print("before:", json.loads(printed.stdout.splitlines()[-1]))
    rows = [problem(seed) for seed in range(arguments.problems)]
    if arguments.json:
        print(json.dumps(rows))
        return
    _print("now:", rows)
    write_results(RESULT, rows)


if __name__ == "__main__":
    main()
