"""
A landscape of kernels
======================

States lie on the fields of a chessboard. ``ChainCRFCV`` tries widths of the
RBF kernel and prior variances by cross-validation; the star is its choice. The
ridge slopes: wider kernels want a larger prior variance to bend around the
squares, and the widest stay behind.
"""

import matplotlib.pyplot as plt
import numpy as np

from kernelfields import ChainCRF, ChainCRFCV
from kernelfields.kernels import RBF

# %%
# The state decides the colour of the square, and the square is drawn at
# random.
random = np.random.default_rng(0)


def game(length):
    state = np.cumsum(random.random(length) < 0.15) % 2
    rank = random.integers(4, size=length)
    file = 2 * random.integers(2, size=length) + (rank + state) % 2
    return np.column_stack([rank, file]) + random.uniform(
        0, 1, (length, 2)
    ) + 0.1 * random.normal(size=(length, 2)), state


X, y = zip(*(game(30) for _ in range(30)), strict=True)
X_test, y_test = zip(*(game(30) for _ in range(60)), strict=True)

# %%
# Features of a width are computed once for all prior variances, which makes a
# grid of 30 candidates cheap.
gammas, variances = np.logspace(-1, 1.5, 6), np.logspace(-1, 3, 5)
kernels = [RBF(gamma) for gamma in gammas]
search = ChainCRFCV(
    ChainCRF(rank=60, tol=1e-2),
    kernels=kernels,
    prior_variances=variances,
    halving=False,
    random_state=0,
).fit(X, y)
scores = np.reshape(search.cv_results_["mean_test_score"], (6, 5))
best = search.best_params_

# %%
figure, (left, right) = plt.subplots(
    1, 2, figsize=(9, 3.8), layout="constrained"
)
filled = left.contourf(
    variances,
    gammas,
    scores,
    levels=np.arange(-0.6, -0.14, 0.05),
    extend="min",
)
left.plot(
    best["prior_variance"],
    best["kernel"].gamma,
    "*",
    color="white",
    mec="0.2",
    ms=16,
)
left.set(
    xscale="log",
    yscale="log",
    xlabel="prior variance",
    ylabel="gamma, narrower upwards",
)
left.set_title("held-out log-likelihood per position", fontsize=10)
figure.colorbar(filled, ax=left)

across, up = np.meshgrid(
    np.linspace(-0.2, 4.2, 80), np.linspace(-0.2, 4.2, 80)
)
grid = list(np.column_stack([across.ravel(), up.ravel()])[:, None, :])
share = np.array(
    [marginals[0, 1] for marginals in search.predict_marginals(grid)]
).reshape(across.shape)
right.contourf(
    across, up, share, levels=np.linspace(0, 1, 11), cmap="PuOr", alpha=0.7
)
right.scatter(
    *np.concatenate(X).T,
    c=np.concatenate(y),
    cmap="PuOr",
    s=9,
    lw=0.3,
    ec="white",
)
right.set(
    aspect="equal", xticks=[], yticks=[], xlim=(-0.2, 4.2), ylim=(-0.2, 4.2)
)
right.set_title(
    f"the field chosen: {100 * search.score(X_test, y_test):.1f} % right",
    fontsize=10,
)
