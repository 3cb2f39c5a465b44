"""Named features of two kinds: columns of numbers, followed by columns of categories, which are there or not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from kernelfields.data.chains import Packed
from kernelfields.data.dicts import FeatureDictEncoder
from kernelfields.inputs.scale import FEW_COLUMNS
from kernelfields.numerics.group import ALONE, Group

Data = TypeVar("Data", bound=Packed)


def with_categories(rows: Any, data: Data, among: Group = ALONE) -> Data:
    """Return the named features of rows, a RowReader, as columns of numbers followed by columns of categories.

    For few columns some of which hold other numbers than 0 and 1; others stay as they are.
    """
    inputs: Any = data.inputs  # sparse, where features have names
    if rows.encoder is None or inputs.shape[1] > FEW_COLUMNS:
        return data
    is_number = np.zeros(inputs.shape[1], dtype=bool)
    is_number[inputs.indices[(inputs.data != 0.0) & (inputs.data != 1.0)]] = True
    is_number = among.total(is_number.astype(np.float64)) > 0.0
    if not isinstance(rows.apart, bool):
        is_number = np.isin(rows.encoder.feature_names_, rows.apart)
    if not is_number.any() or is_number.all():
        return data
    order = np.argsort(~is_number, kind="stable")
    rows.categories, rows.sparse = int(np.count_nonzero(~is_number)), False
    rows.encoder = FeatureDictEncoder.from_spec([rows.encoder.feature_names_[column] for column in order])
    return replace(data, inputs=inputs.toarray()[:, order])
