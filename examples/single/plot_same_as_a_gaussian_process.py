"""
The same answers as a Gaussian process
======================================

scikit-learn's ``GaussianProcessClassifier`` and ``KernelClassifier`` find the
same function with the same prior: left, the two curves lie on each other.
Right, a field does not need all pairs of inputs: about twenty are enough here.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process import GaussianProcessClassifier, kernels

from kernelfields import KernelClassifier
from kernelfields.kernels import RBF

plt.style.use(
    [
        "tableau-colorblind10",
        {"axes.spines.top": False, "axes.spines.right": False},
    ]
)
random = np.random.default_rng(0)


def two_classes(size):
    x = random.uniform(-3, 3, size=(size, 1))
    return x, (
        random.random(size) < 1 / (1 + np.exp(-3 * np.sin(2 * x[:, 0])))
    ).astype(int)


# %%
# A Gaussian process with kernel ``c * RBF(length)`` on the log-odds of two
# classes is a softmax field with half that variance for each class and ``gamma
# = 0.5 / length ** 2``. ``laplace`` adds the doubt around the fit.
# scikit-learn shows the latent function from 1.7 on.
length, c = 0.7, 8.0
process = GaussianProcessClassifier(
    kernels.ConstantKernel(c) * kernels.RBF(length), optimizer=None
)
settings = {"prior_variance": c / 2, "bias": False, "random_state": 0}
field = KernelClassifier(
    RBF(0.5 / length**2), basis="all", rank=None, **settings
)
X, y = two_classes(80)
process.fit(X, y)
field.fit(X, y)
evidence = field.laplace(X, y)
grid = np.linspace(-5, 5, 300)[:, None]
mode, spread = process.latent_mean_and_variance(grid)
log_odds = field.decision_function(grid)
print(
    f"largest difference of the log-odds: {np.abs(mode - log_odds).max():.1e}"
)
print(
    f"log evidence: {process.log_marginal_likelihood_value_:.6f} and "
    f"{evidence.value:.6f}"
)

# %%
# The process factors a matrix of all pairs of inputs. A field may do with the
# span of a few of them, its pivots: its cost grows with the number of inputs
# and not with the cube of it. How far is it then from the process?
ranks, distances = [2, 4, 6, 8, 10, 12, 14, 16, 18, 20], []
for rank in ranks:
    small = KernelClassifier(RBF(0.5 / length**2), rank=rank, **settings).fit(
        X, y
    )
    distances.append(np.abs(small.decision_function(grid) - mode).max())

# %%
figure, (curve, count) = plt.subplots(
    1, 2, figsize=(9, 3.6), layout="constrained", width_ratios=[1.5, 1]
)
width = 2 * np.sqrt(spread)
curve.fill_between(
    grid[:, 0],
    mode - width,
    mode + width,
    color="C2",
    alpha=0.3,
    label="two deviations",
)
curve.plot(
    grid, mode, color="C0", lw=6, alpha=0.4, label="GaussianProcessClassifier"
)
curve.plot(grid, log_odds, color="C1", lw=1.8, label="KernelClassifier")
for label in (0, 1):
    curve.plot(
        X[y == label],
        np.full(sum(y == label), -9 + 18 * label),
        "|",
        color="0.3",
        ms=10,
    )
curve.set(
    xlabel="input",
    ylabel="log-odds",
    title="one function, fitted twice",
    ylim=(-10, 10),
)
curve.legend(
    frameon=False,
    fontsize="small",
    loc="lower right",
    bbox_to_anchor=(1, 0.06),
)
count.semilogy(ranks, distances, "s-", color="C1")
count.set(
    xlabel="pivots",
    ylabel="largest difference of log-odds",
    xticks=ranks[1::2],
)
count.set_title("how many inputs it takes")
plt.show()
