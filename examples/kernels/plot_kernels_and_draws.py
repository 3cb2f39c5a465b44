"""
Kernels, and the functions they prefer
======================================

Top, how alike inputs are to the two that are marked, by five kernels. Below,
three functions drawn from the Gaussian process with each kernel: the prior of
a field's potentials, before any label is seen.
"""

import matplotlib.pyplot as plt
import numpy as np

from kernelfields.kernels import RBF, Laplacian, Linear, Matern, Polynomial

plt.style.use(
    [
        "tableau-colorblind10",
        {"axes.spines.top": False, "axes.spines.right": False},
    ]
)
random = np.random.default_rng(4)
x = np.linspace(-3, 3, 241)[:, None]
kernels = {
    "RBF": RBF(1.0),
    "Matern, 3/2": Matern(length_scale=1.0, nu=1.5),
    "Laplacian": Laplacian(0.7),
    "Linear + 1": 0.3 * Linear() + 0.5,
    "Polynomial, cubic": 0.02 * Polynomial(3, gamma=1.0),
}

# %%
# A kernel is called with rows and returns a matrix. Draws are a root of it
# times noise; a little is added to the diagonal, because rounding can make the
# smallest eigenvalues negative.
draws = {
    name: np.linalg.cholesky(kernel(x) + 1e-8 * np.eye(len(x)))
    @ random.normal(size=(len(x), 3))
    for name, kernel in kernels.items()
}

# %%
figure, panels = plt.subplots(
    2, 5, figsize=(11, 4.2), layout="constrained", sharex=True, sharey="row"
)
for (name, kernel), likeness, functions in zip(
    kernels.items(), *panels, strict=True
):
    for at, colour in ((0.0, "C0"), (1.5, "C4")):
        likeness.plot(x, kernel(x, [[at]]), color=colour, lw=2)
        likeness.plot(at, kernel([[at]])[0, 0], "o", color=colour, ms=5)
    likeness.set_title(name)
    for draw, colour in zip(draws[name].T, ("C1", "C5", "C8"), strict=True):
        functions.plot(x, draw, color=colour, lw=1.3)
    functions.set(xlabel="input", ylim=(-4, 4))
panels[0, 0].set(ylabel="k(input, dot)", ylim=(-1.2, 2.6))
panels[1, 0].set_ylabel("three draws")
plt.show()
