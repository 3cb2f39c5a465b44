"""The finite coordinates of clique sets on labelled chains, pivots chosen for each set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kernelfields.engines import Engine
from kernelfields.estimators.spaces import CliqueSpace, build_space
from kernelfields.fields import Chains, CliqueSet


def chain_spaces(
    chains: Chains,
    n_labels: int,
    cliques: Sequence[tuple[str, CliqueSet]],
    *,
    random: np.random.Generator,
    say: Callable[[str], None],
    tol: float,
    dtype: Any,
    engine: Engine,
) -> list[CliqueSpace]:
    """Choose a basis for each named clique set and compute the features of the training chains."""
    spaces = []
    settings: dict[str, Any] = {"tol": tol, "dtype": dtype, "random": random, "engine": engine}
    settings["n_sharing"] = sum(clique.kernel is not None for _, clique in cliques)
    for name, clique in cliques:
        if clique.kernel is not None:
            say(f"choosing a basis for {name} cliques on {chains.n_positions:,} positions")
        spaces.append(build_space(name, clique, chains, n_labels, **settings))
    return spaces
