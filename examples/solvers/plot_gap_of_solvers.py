"""
Five solvers on the way to the same optimum
===========================================

The objective is convex, so all solvers arrive, and the lower bound ends each
of them when it is there. A pass goes once over all data. Newton's method needs
the fewest, and a matrix of all pairs of coefficients; L-BFGS needs no matrix.
"""

import matplotlib.pyplot as plt
import numpy as np

from kernelfields import ChainCRF

plt.style.use(
    [
        "tableau-colorblind10",
        {"axes.spines.top": False, "axes.spines.right": False},
    ]
)
random = np.random.default_rng(0)
centres = random.normal(size=(4, 6))


def sequence(length):
    labels = [int(random.integers(4))]
    while len(labels) < length:
        labels.append(
            labels[-1] if random.random() < 0.7 else int(random.integers(4))
        )
    return centres[labels] + 1.2 * random.normal(size=(length, 6)), labels


X, y = zip(*(sequence(15) for _ in range(60)), strict=True)

# %%
# ``solution_.history`` has passes, value, lower bound and relative gap of each
# iteration, whatever the solver.
histories = {}
for solver in ("newton", "newton-cg", "block-jacobi", "subspace", "lbfgs"):
    crf = ChainCRF(
        "rbf",
        rank=60,
        prior_variance=3.0,
        solver=solver,
        tol=1e-6,
        random_state=0,
    ).fit(X, y)
    histories[solver] = crf.solution_.history
    print(
        f"{solver:12s} {crf.solution_.passes:6.0f} passes, value "
        f"{crf.solution_.value:.4f}"
    )

# %%
figure, ax = plt.subplots(figsize=(8, 4.2), layout="constrained")
for (solver, history), mark in zip(histories.items(), "os^Dv", strict=True):
    known = [each for each in history if np.isfinite(each.relative_gap)]
    passes, gaps = (
        [each.passes for each in known],
        [min(each.relative_gap, 1.0) for each in known],
    )
    ax.loglog(
        passes,
        gaps,
        f"{mark}-",
        ms=5,
        lw=1.8,
        markevery=max(1, len(gaps) // 15),
        label=solver,
    )
ax.axhline(1e-3, color="0.5", ls=":")
ax.annotate(
    "tol = 0.001, the default",
    (0.5, 1e-3),
    (0, 4),
    textcoords="offset points",
    color="0.35",
)
ax.set(
    xlabel="passes over the data",
    ylabel="relative gap",
    title="how far from the best fit, at most",
)
ax.legend(frameon=False)
plt.show()
