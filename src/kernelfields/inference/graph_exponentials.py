"""Tables of potentials as numbers between 0 and 1, compiled: exp(table - its largest entry)."""

from __future__ import annotations

import numpy as np
from numba import njit

from kernelfields.inference.workers import Workers

# exp takes about as long as ten multiplications.
_WORK = 10


def exponentials(tables: list[np.ndarray], workers: Workers) -> tuple[np.ndarray, np.ndarray]:
    """Return exp of all tables (rows, .., ..), flat and end to end, and the shift of each row.

    Every row is shifted to a largest entry of zero before; zero in the result means forbidden and nothing else.
    """
    rows = [table.reshape(len(table), -1) if len(table) else table.reshape(0, 1) for table in tables]
    values, shifts = np.empty(sum(each.size for each in rows)), np.empty(sum(map(len, rows)))
    entry = row = 0
    for each in rows:
        out = values[entry : entry + each.size].reshape(each.shape)
        tops = shifts[row : row + len(each)]

        def run(first, last, each=each, out=out, tops=tops):
            _exponentiate(first, last, each, out, tops)

        workers.each(run, workers.pieces(len(each), _WORK * each.size))
        entry, row = entry + each.size, row + len(each)
    return values, shifts


@njit(nogil=True, cache=True)
def _exponentiate(first, last, rows, out, shifts):
    for k in range(first, last):
        top = -np.inf
        for b in range(rows.shape[1]):
            if rows[k, b] > top:
                top = rows[k, b]
        if top == -np.inf:
            top = 0.0
        shifts[k] = top
        for b in range(rows.shape[1]):
            value = np.exp(rows[k, b] - top)
            if value == 0.0 and rows[k, b] > -np.inf:
                value = 5e-324  # an entry that only underflows stays possible, if only just
            out[k, b] = value
