"""Proteins of netsurfp2-ss3 as sparse one-hot sequences, whole or a part of them, read where they are needed."""

from __future__ import annotations

import numpy as np
import scipy.sparse

from benchmarks.shared_data import token_columns
from kernelfields import ChainCRF
from kernelfields.kernels.dot_product import Linear
from kernelfields.kernels.stationary import RBF

PARTS = ("train", "valid", "test")
LETTERS = "ACDEFGHIKLMNPQRSTVWYX"


def proteins(share: float = 1.0, part: int = 0, n_parts: int = 1) -> tuple[list, list]:
    """Return one-hot inputs (T, 21) as CSR and labels C, H, E of a share of all proteins, cut into runs."""
    chains = [chain for name in PARTS for chain in token_columns("netsurfp2-ss3", f"{name}.tsv.gz")]
    chains = chains[: max(n_parts, round(share * len(chains)))]
    ends = np.cumsum([len(chain) for chain in chains])
    first, last = np.searchsorted(ends, np.array([part, part + 1]) / n_parts * ends[-1])
    chains = chains[first : last if part + 1 < n_parts else None]
    X = [one_hot([row[0] for row in chain]) for chain in chains]
    return X, [np.array([row[1] for row in chain]) for chain in chains]


def one_hot(residues: list[str]) -> scipy.sparse.csr_array:
    """Return a row with a single one for each residue; unknown ones count as X."""
    known = {letter: column for column, letter in enumerate(LETTERS)}
    columns = np.array([known.get(residue, len(LETTERS) - 1) for residue in residues])
    rows = np.arange(len(columns) + 1)
    return scipy.sparse.csr_array(
        (np.ones(len(columns), dtype=np.float32), columns, rows), shape=(len(columns), len(LETTERS))
    )


def field(rank: int, **settings: object) -> ChainCRF:
    """Return the field of the benchmarks: exact linear part and a kernel of the given rank, window 15."""
    kernel = Linear() + RBF(0.05)
    return ChainCRF(kernel, window=15, rank=rank, random_state=0, **settings)  # type: ignore[arg-type]
