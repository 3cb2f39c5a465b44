"""
Batches that come and go
========================

New recordings come day by day, and old ones are not kept. ``partial_fit``
carries over what was learnt from them, and stays close to a fit to all of
them; a field fitted to the last day alone does not. On the fourth day a state
appears that was never seen.
"""

import itertools

import matplotlib.pyplot as plt
import numpy as np

from kernelfields import ChainCRF
from kernelfields.kernels import RBF

# %%
# Days of three short recordings. From the fourth on there is a third state.
random = np.random.default_rng(0)
centres = np.array([[0.0, 0.0], [1.2, 0.0], [0.6, 1.1]])


def recording(n_states, length=40):
    state = (
        random.integers(n_states) + np.cumsum(random.random(length) < 0.15)
    ) % n_states
    return centres[state] + 0.6 * random.normal(size=(length, 2)), np.array(
        ["idle", "spin", "stuck"]
    )[state]


days = [[recording(2 if day < 3 else 3) for _ in range(3)] for day in range(8)]
X_test, y_test = zip(*(recording(3) for _ in range(60)), strict=True)

# %%
# Three fields after each day: one that goes on, one that keeps all data, one
# of the last day.
settings = {
    "kernel": RBF(1.0),
    "rank": 60,
    "prior_variance": 3.0,
    "random_state": 0,
}
ongoing = ChainCRF(**settings)
right = {"partial_fit": [], "all days so far": [], "last day alone": []}
for number, day in enumerate(days, start=1):
    ongoing.partial_fit(*zip(*day, strict=True))
    kept = ChainCRF(**settings).fit(
        *zip(*itertools.chain(*days[:number]), strict=True)
    )
    last = ChainCRF(**settings).fit(*zip(*day, strict=True))
    for name, field in zip(right, (ongoing, kept, last), strict=True):
        right[name].append(100 * field.score(X_test, y_test))

# %%
figure, axes = plt.subplots(figsize=(7, 3.8), layout="constrained")
for (name, values), colour in zip(
    right.items(), ["#0072B2", "#E69F00", "#999999"], strict=True
):
    axes.plot(
        range(1, 9),
        values,
        "o-",
        color=colour,
        lw=2 if name == "partial_fit" else 1.2,
        label=name,
    )
axes.axvspan(3.5, 4.5, color="0.93", zorder=0)
axes.text(
    4,
    axes.get_ylim()[0] + 1,
    "a new state",
    ha="center",
    fontsize=9,
    color="0.4",
)
axes.set(
    xlabel="day", ylabel="right on all three states, %", xticks=range(1, 9)
)
axes.legend(loc="lower right", frameon=False)
axes.spines[["top", "right"]].set_visible(False)
