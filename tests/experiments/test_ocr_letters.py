"""The OCR letters experiment without its data: kernels of the families, what is left to do, and the page."""

import numpy as np
import pytest

from experiments import ocr_letters, ocr_letters_page, result_pages


@pytest.mark.parametrize("family", [name for name in ocr_letters.FAMILIES if name != "linear"])
def test_every_kernel_but_the_linear_one_is_one_on_the_diagonal(family):
    pixels = np.random.default_rng(0).integers(0, 2, size=(5, 16)).astype(float)
    for scale in ocr_letters.SCALES[family]:
        np.testing.assert_allclose(ocr_letters.kernel_of(family, scale).diag(pixels), 1.0)


def test_a_choice_at_the_end_of_its_grid_is_told():
    grid = (5.0, 20.0, 80.0)
    assert [ocr_letters.edge(chosen, grid) for chosen in grid] == ["low", None, "high"]
    assert ocr_letters.edge(1.0, (1.0,)) is None


def test_only_missing_rows_are_wanted_and_none_when_the_time_is_over(monkeypatch):
    rows = [{"family": "cubic", "fold": 1, "error": 12.0}]
    monkeypatch.setattr(ocr_letters, "read_results", lambda file, folder: rows)
    again, missing, late = (ocr_letters.Agenda(*case) for case in ((False, 9), (True, 9), (True, 0)))
    assert again.wants("file", family="cubic", fold=1)
    assert not missing.wants("file", family="cubic", fold=1)
    assert missing.wants("file", family="cubic", fold=2)
    assert not late.wants("file", family="cubic", fold=2)


def measured(family, fold, error, rank=2000, **more):
    row = {"family": family, "fold": fold, "error": error, "rank": rank, "relative_gap": 1e-3, "rkhs_gap": 0.2}
    ends = {"scale_at_edge": None, "variance_at_edge": "high" if family == "rbf" else None}
    return {**row, **ends, "passes": 40.0, "fit_work": 5.0, "work": 20.0, **more}


def test_the_page_pairs_folds_and_turns_accuracies_into_errors(monkeypatch, tmp_path):
    small = [measured("linear", fold, 20.0 + fold) for fold in (0, 1)]
    small += [measured("quadratic", fold, 10.0 + 3 * fold) for fold in (0, 1)]
    accuracy = {"value": 0.95, "low": 0.94, "high": 0.965}
    difference = {"reference": "cubic", "value": 0.01, "low": -0.005, "high": 0.02}
    small += [measured("rbf", 0, 12.0)]
    large = [measured("rbf", 0, 5.0, rkhs_gap=None, accuracy=accuracy, difference=difference)]
    ranks = [measured("rbf", 0, 9.0, rank=100, protocol="large", rkhs_gap=None)]
    ranks += [measured("rbf", 0, 30.0, rank=100, protocol="small", rkhs_gap=0.9)]
    files = {"ocr_small.json": small, "ocr_large.json": large, "ocr_ranks.json": ranks}
    monkeypatch.setattr(ocr_letters_page, "read_results", lambda file, folder: files[file])
    monkeypatch.setattr(result_pages, "CHECKOUT", tmp_path)
    monkeypatch.setattr(result_pages, "PAGES", tmp_path)
    ocr_letters_page.write_page()
    page = (tmp_path / "ocr_letters.md").read_text(encoding="utf-8")
    assert "| 2 | 11.50 (2.12) % | -9.00 (1.41) |" in page
    assert "5.00 % [3.50, 6.00] | -1.0 [-2.0, +0.5]" in page
    assert "| small, RBF | 100 | 30.00 % | 0.9 |" in page
    assert "| small, RBF | 2,000 | 12.00 % | 0.2 |" in page
    assert "| large, RBF | 2,000 | 5.00 % |  |" in page
    assert "No difference in the large protocol" in page
    assert "prior variance at the high end in 1 (RBF)" in page
