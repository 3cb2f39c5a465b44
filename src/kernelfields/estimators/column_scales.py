"""Scales of columns: the steps that bring the columns of each table to mean 0 and one spread.

columns of numbers       standardized (inputs/scale.py), those that ties move into each other alike
columns of kernels       unchanged: a kernel has named them
categories               unchanged
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelfields.data import extras
from kernelfields.inputs.scale import ScaleRule
from kernelfields.inputs.steps import ColumnSteps


def learn_scale(estimator: Any, reader: Any, data: Any, *, always: bool) -> ColumnSteps:
    """Learn the steps that standardize columns; no steps if no column needs it, unless ``always``."""
    found = {}
    for name, table in data.own.tables.items():
        orbits = None
        if estimator.ties is not None:
            columns = reader.tied_columns(name)
            permutations = extras.column_permutations(estimator.ties, columns, of_edges=name is not None)
            orbits = extras.number_orbits(permutations, columns.count)
        rule = ScaleRule(always, _find_unscaled(reader, name), orbits, data.processes)
        found[name] = rule.fit(table)
    return ColumnSteps(found)


def _find_unscaled(reader: Any, table: str | None) -> np.ndarray:
    """Return the indices of columns that are not scaled: columns of kernels by name, and categories."""
    own, width = reader.own, reader.n_columns
    if table is not None:
        return np.array([each for each in own.factors if each < reader.tied_columns(table).count], dtype=np.int64)
    last = np.arange(width - reader.rows.categories, width)
    return np.append(reader.steps.columns(own.rows, reader.rows.n_features), last)
