"""Passes of L-BFGS for several weights of the transitions in its start scaling.

    python -m benchmarks.start_scaling

The scaling is one number per clique set, about its curvature while all labels are equally likely; for sets without
features it is multiplied by ``TIED_SHARE`` of kernelfields/engines/clique_features.py. This prints what other
values would do. The problems are those the value was picked on: there is no independent check of it.
"""

from __future__ import annotations

import numpy as np

from benchmarks.result_files import write_results
from benchmarks.shared_data import DataMissing, ocr_letters
from benchmarks.solvers import measure, problems
from kernelfields import ChainCRF
from kernelfields.kernels.dot_product import Polynomial
from kernelfields.kernels.stationary import RBF
from kernelfields.objective.designs import design as clique_features

SHARES = [0.03, 0.1, 0.3, 1.0]


def more_problems() -> dict:
    """Return two lower ranks of OCR letters, beside those of solvers.py."""
    try:
        X, y, fold = ocr_letters()
    except DataMissing as missing:
        print(f"skipped: {missing}")
        return {}
    words = np.flatnonzero(fold == 1)
    data = ([X[i] for i in words], [y[i] for i in words])
    return {
        "OCR cubic rank 300": (ChainCRF(Polynomial(3, gamma=0.06), rank=300, prior_variance=3.0), *data),
        "OCR RBF rank 300": (ChainCRF(RBF(0.06), rank=300, prior_variance=30.0), *data),
    }


def main() -> None:
    chosen = clique_features.TIED_SHARE
    rows = []
    print(f"{'problem':24s} " + " ".join(f"{share:>8g}" for share in SHARES) + f"   passes; {chosen:g} is in use")
    for name, (estimator, X, y) in {**problems(), **more_problems()}.items():
        passes = []
        for share in SHARES:
            clique_features.TIED_SHARE = share
            passes.append(measure(estimator, X, y, "lbfgs", 1e-3)["passes"])
        rows.append({"problem": name, "shares": SHARES, "passes": passes})
        print(f"{name:24s} " + " ".join(f"{each:8.1f}" for each in passes), flush=True)
    clique_features.TIED_SHARE = chosen
    write_results("start_scaling.json", rows)


if __name__ == "__main__":
    main()
