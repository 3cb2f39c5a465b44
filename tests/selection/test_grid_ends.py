"""Where the best candidate lies at an end of its grid, the table of the search says so."""

import numpy as np
import pytest
from search_sequences import search_sequences

from kernelfields import ChainCRF, ChainCRFCV
from kernelfields.kernels import RBF, Linear, Matern
from kernelfields.selection.candidates import Candidate, find_grid_ends


def grid_of(kernels, variances, edges=(None,)):
    edge_part = [{} if edge is None else {"edges__prior_variance": edge} for edge in edges]
    return [
        Candidate({"kernel": kernel, "rank": 5, **edge, "prior_variance": variance})
        for kernel in kernels
        for edge in edge_part
        for variance in variances
    ]


ROUND = [RBF(0.1), RBF(0.3), RBF(3.0)]
SMOOTH = [Matern(nu=1.5, length_scale=1.0), Matern(nu=1.5, length_scale=2.0)]


@pytest.mark.parametrize(
    ("grid", "best", "words"),
    [
        (grid_of(ROUND, [1.0, 0.01, 0.1]), {"kernel": RBF(0.3), "prior_variance": 0.1}, []),
        (grid_of(ROUND, [1.0, 0.01, 0.1]), {"kernel": RBF(0.3)}, ["prior variance, 1, is the largest"]),
        (
            grid_of(ROUND, [1.0, 0.01, 0.1]),
            {"kernel": RBF(3.0), "prior_variance": 0.01},
            ["prior variance, 0.01, is the smallest", "gamma, 3, is the largest"],
        ),
        # Grids have two numbers or more.
        (grid_of([RBF(0.1)], [1.0]), {}, []),
        (grid_of([Linear(), RBF(0.1)], [1.0]), {"kernel": RBF(0.1)}, []),
        (grid_of([RBF("scale"), RBF(0.1)], [1.0]), {"kernel": RBF("scale")}, []),
        # Kernels of one kind that differ in more than their scale are no grid.
        (grid_of([SMOOTH[0], Matern(nu=2.5, length_scale=2.0)], [1.0]), {}, []),
        (grid_of(SMOOTH, [1.0]), {}, ["length scale, 1, is the smallest"]),
        # Nothing lies beyond infinity.
        (grid_of([Linear()], [1.0, 10.0, np.inf]), {"prior_variance": np.inf}, []),
        (
            grid_of([Linear()], [1.0], [0.5, 5.0]),
            {"edges__prior_variance": 5.0},
            ["edge prior variance, 5, is the larg"],
        ),
    ],
)
def test_ends_of_grids(grid, best, words):
    chosen = next(candidate for candidate in grid if best.items() <= candidate.params.items())
    found = find_grid_ends(chosen, grid)
    assert len(found) == len(words)
    assert all(text.startswith(f"the best {start}") for text, start in zip(found, words, strict=True))


def test_the_table_says_where_the_best_lies():
    search = ChainCRFCV(ChainCRF(rank=6), kernels=[RBF(0.1), RBF(1.0)], prior_variances=[0.1, 1.0], cv=2, refit=False)
    search.set_params(scoring=lambda crf, X, y: crf.prior_variance + crf.kernel.gamma, random_state=0)
    heading = str(search.fit(*search_sequences(12)).table()).splitlines()[0]
    assert "the best prior variance, 1, is the largest of its grid" in heading
    assert "the best gamma, 1, is the largest of its grid" in heading
