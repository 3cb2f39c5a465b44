"""The OCR letters experiment without its data: kernels of the families, and the tables of its page."""

import numpy as np
import pytest

from experiments import ocr_letters


@pytest.mark.parametrize("family", [name for name in ocr_letters.FAMILIES if name != "linear"])
def test_every_kernel_but_the_linear_one_is_one_on_the_diagonal(family):
    pixels = np.random.default_rng(0).integers(0, 2, size=(5, 16)).astype(float)
    for scale in ocr_letters.SCALES[family]:
        np.testing.assert_allclose(ocr_letters.kernel_of(family, scale).diag(pixels), 1.0)


def test_a_choice_at_the_end_of_its_grid_is_told():
    grid = (5.0, 20.0, 80.0)
    assert [ocr_letters.edge(chosen, grid) for chosen in grid] == ["low", None, "high"]
    assert ocr_letters.edge(1.0, (1.0,)) is None


def measured(family, fold, error, rank=2000, **more):
    row = {"family": family, "fold": fold, "error": error, "rank": rank, "relative_gap": 1e-3, "rkhs_gap": 0.2}
    ends = {"scale_at_edge": None, "variance_at_edge": "high" if family == "rbf" else None}
    return {**row, **ends, "passes": 40.0, "fit_work": 5.0, "work": 20.0, **more}


def test_tables_pair_folds_and_turn_accuracies_into_errors(monkeypatch):
    families = dict.fromkeys(ocr_letters.FAMILIES, 12.0) | {"linear": 20.0, "quadratic": 10.0}
    small = [measured(name, fold, error + fold) for name, error in families.items() for fold in (0, 1)]
    small[2]["error"] = 11.0  # quadratic, fold 0
    accuracy = {"value": 0.95, "low": 0.94, "high": 0.965}
    difference = {"reference": "cubic", "value": 0.01, "low": -0.005, "high": 0.02}
    large = [
        measured(name, 0, 5.0, rkhs_gap=None, accuracy=accuracy, difference=difference) for name in ("cubic", "rbf")
    ]
    others = [rank for rank in ocr_letters.RANKS if rank != ocr_letters.RANK]
    ranks = [
        measured(name, 0, 30.0, rank=rank, protocol=protocol, rkhs_gap=0.9 if protocol == "small" else None)
        for protocol, name in (("small", "rbf"), ("small", "cubic"), ("large", "cubic"))
        for rank in others
    ]
    files = {"ocr_small.json": small, "ocr_large.json": large, "ocr_ranks.json": ranks}
    monkeypatch.setattr(ocr_letters, "read_results", lambda file, folder: files[file])
    assert "| 2 | 11.00 (0.00) % | -9.50 (0.71) |  |  |  |" in ocr_letters.degrees()
    assert "5.00 % [3.50, 6.00] | -1.0 [-2.0, +0.5] | 5 s |" in ocr_letters.degrees()
    assert "| small, RBF | 100 | 30.00 % | 0.9 |" in ocr_letters.ranks()
    assert "| small, RBF | 2,000 | 12.00 % | 0.2 |" in ocr_letters.ranks()  # fold 1 has no other ranks
    assert "| large, cubic | 2,000 | 5.00 % |  |" in ocr_letters.ranks()
    assert ocr_letters.ends().endswith("prior variance at the high end in 2 (RBF).")
