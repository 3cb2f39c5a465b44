"""
States that no line divides
===========================

Two sensors of a machine, three states, two of them wound around each other. A
linear field draws straight borders, an RBF field bends them. Both also learn
that states last, so that the strips of time below are better than the borders.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from sklearn.datasets import make_moons

from kernelfields import ChainCRF
from kernelfields.kernels import RBF, Constant, Linear

# %%
# Readings lie on two moons and in a cloud beside them; a state lasts four
# positions in the mean.
random = np.random.default_rng(0)
moons, sides = make_moons(4000, noise=0.3, random_state=0)
clouds = [
    moons[sides == 0],
    moons[sides == 1],
    random.normal([2.2, 1.2], 0.4, size=(2000, 2)),
]


def recording(length):
    state = (
        random.integers(3)
        + np.cumsum(
            (random.random(length) < 0.25) * random.integers(1, 3, length)
        )
    ) % 3
    return np.array([random.choice(clouds[each]) for each in state]), state


X, y = zip(*(recording(60) for _ in range(20)), strict=True)
X_test, y_test = zip(*(recording(60) for _ in range(50)), strict=True)
kernels = {
    "linear": Linear() + Constant(),
    "rbf": RBF(),
}  # the constant lets straight borders miss the origin
fields = {
    name: ChainCRF(kernel, prior_variance=3.0, random_state=0).fit(X, y)
    for name, kernel in kernels.items()
}

# %%
# Borders are those of single readings: a grid of sequences of length one.
colours = ListedColormap(["#0072B2", "#E69F00", "#009E73"])
across, up = np.meshgrid(
    np.linspace(-1.8, 3.6, 120), np.linspace(-1.5, 2.6, 100)
)
grid = np.column_stack([across.ravel(), up.ravel()])[:, None, :]

figure = plt.figure(figsize=(8, 5), layout="constrained")
places = figure.subplot_mosaic(
    [["linear", "rbf"], ["time", "time"]], height_ratios=[2.6, 1]
)
points, states = np.concatenate(X), np.concatenate(y)
for name, field in fields.items():
    axes, border = (
        places[name],
        np.concatenate(field.predict(list(grid))).reshape(across.shape),
    )
    axes.pcolormesh(
        across, up, border, cmap=colours, alpha=0.3, lw=0, rasterized=True
    )
    axes.scatter(*points.T, c=states, cmap=colours, s=6, lw=0)
    axes.set(
        xlabel="sensor 1",
        ylabel="sensor 2",
        title=f"{name}: {100 * field.score(X_test, y_test):.0f} % right",
    )
strips = {"truth": y_test[0]} | {
    name: field.predict(X_test[:1])[0] for name, field in fields.items()
}
places["time"].imshow(
    list(strips.values()), cmap=colours, aspect="auto", interpolation="none"
)
places["time"].set(
    yticks=range(3), yticklabels=strips, xlabel="time, one test sequence"
)
places["time"].hlines([0.5, 1.5], -0.5, 59.5, color="white", lw=4)
for axes in places.values():
    axes.spines[:].set_visible(False)
