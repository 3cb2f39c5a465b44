"""
A density that ends where data do
=================================

Shares lie between 0 and 1, and many of them are near an end. A kernel density
estimate smears its mass beyond; an exponential family on a box has all of it
inside, follows the data up to the edge, and gives held-out points more.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import beta
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KernelDensity

from kernelfields import ExponentialFamilyDensity
from kernelfields.kernels import RBF

plt.style.use(
    [
        "tableau-colorblind10",
        {"axes.spines.top": False, "axes.spines.right": False},
    ]
)
shares = np.concatenate(
    [beta(1, 6).rvs(250, random_state=0), beta(14, 4).rvs(150, random_state=1)]
)
shares = np.random.default_rng(0).permutation(shares)[:, None]

# %%
# Both are chosen by the held-out likelihood, on the same folds. Give the box
# when you cross-validate.
family = GridSearchCV(
    ExponentialFamilyDensity(RBF(), box=[[0.0, 1.0]]),
    {"kernel__gamma": [2.0, 10.0, 50.0]},
    scoring=lambda model, X: model.score_samples(X).mean(),
).fit(shares)
smoothed = GridSearchCV(
    KernelDensity(),
    {"bandwidth": np.logspace(-2.2, -0.8, 8)},
    scoring=family.scoring,
).fit(shares)
for search in (family, smoothed):
    print(
        f"{type(search.estimator).__name__}: {search.best_params_}, held out "
        f"{search.best_score_:.3f} per point"
    )

# %%
# The data were made, so the true density is known.
grid = np.linspace(-0.12, 1.12, 600)[:, None]
curves = {
    "the truth": (250 * beta(1, 6).pdf(grid) + 150 * beta(14, 4).pdf(grid))
    / 400,
    "kernel density": np.exp(smoothed.best_estimator_.score_samples(grid)),
    "exponential family": np.exp(family.best_estimator_.score_samples(grid)),
}
outside = 1 - np.trapezoid(
    curves["kernel density"][(grid[:, 0] >= 0)], grid[grid >= 0]
)
print(f"mass that the kernel density puts below zero: {outside:.3f}")

# %%
figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
ax.hist(
    shares[:, 0],
    bins=np.linspace(0, 1, 41),
    density=True,
    color="0.88",
    label="400 shares",
)
for (name, density), style in zip(
    curves.items(), ("k:", "C0--", "C1-"), strict=True
):
    ax.plot(grid, density, style, lw=2.2, label=name)
ax.axvspan(-0.12, 0, color="C0", alpha=0.07, lw=0)
ax.annotate(
    "no share is\nnegative",
    (-0.06, 3.2),
    ha="center",
    color="0.35",
    fontsize="small",
)
ax.set(xlabel="share", ylabel="density", xlim=(-0.12, 1.12), ylim=(0, None))
ax.legend(frameon=False)
plt.show()
