"""Labels whose tables cannot fit are refused before anything of their size is made."""

import numpy as np
import pytest

from kernelfields import ChainCRF
from kernelfields.numerics import memory


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_many_labels_are_refused_in_one_line_before_the_start(monkeypatch, kernel):
    monkeypatch.setattr(memory, "available_memory", lambda: 2**30)
    X, y = [np.zeros((50_000, 1)), np.ones((50_000, 1))], [np.arange(50_000), np.arange(50_000, 100_000)]
    crf = ChainCRF(kernel, prior_variance=1.0, rank=5)
    with pytest.raises(
        MemoryError, match=r"^100,000 labels: tables of pairs of labels need .* GiB, but 1\.0 GiB are free"
    ):
        crf.fit(X, y)
    assert not hasattr(crf, "field_")


def test_tables_that_fit_are_not_refused(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 2**30)
    memory.check_labels_fit(5_000)
    memory.check_labels_fit(100_000, 1_000)
    with pytest.raises(MemoryError, match="what is known of labels at 10,000 positions"):
        memory.check_labels_fit(100_000, 10_000)
