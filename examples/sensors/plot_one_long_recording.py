"""
How much of one recording must be labelled?
===========================================

There is one long recording, and labelling takes time. A chain field and a
classifier of single readings learn from its first positions; both are judged
by the rest. No number of labels makes up for not knowing that states last.
"""

import matplotlib.pyplot as plt
import numpy as np

from kernelfields import ChainCRF, KernelClassifier

# %%
# Sleep stages of a made-up night: light, deep, dream, in loops; two channels
# follow them with much noise.
random = np.random.default_rng(0)
stages = np.array(["light", "deep", "light", "dream"])
lasts = random.integers(15, 40, size=200)
y = np.repeat(stages[np.arange(200) % 4], lasts)
level = {"light": [0.0, 0.0], "deep": [1.3, 0.3], "dream": [-0.3, 1.3]}
x = np.array([level[stage] for stage in y]) + 1.2 * random.normal(
    size=(len(y), 2)
)

# %%
# Accuracy on what comes after the first 3200 positions.
sizes = [100, 200, 400, 800, 1600, 3200]
rest = slice(3200, None)
right = {"chain": [], "single readings": []}
for size in sizes:
    crf = ChainCRF("rbf", prior_variance=1.0, rank=60, random_state=0).fit(
        [x[:size]], [y[:size]]
    )
    single = KernelClassifier(
        "rbf", prior_variance=1.0, rank=60, random_state=0
    ).fit(x[:size], y[:size])
    right["chain"].append(100 * crf.score([x[rest]], [y[rest]]))
    right["single readings"].append(100 * single.score(x[rest], y[rest]))

# %%
figure = plt.figure(figsize=(9, 3.8), layout="constrained")
places = figure.subplot_mosaic(
    [["curve", "night"], ["curve", "chain"]], width_ratios=[1, 1.6]
)
for (name, values), colour in zip(
    right.items(), ["#0072B2", "#E69F00"], strict=True
):
    places["curve"].semilogx(sizes, values, "o-", color=colour, label=name)
places["curve"].set(
    xlabel="labelled positions",
    ylabel="right on the rest, %",
    xticks=sizes,
    ylim=(40, 100),
)
places["curve"].set_xticks(sizes, sizes)
places["curve"].minorticks_off()
places["curve"].legend(frameon=False)
order, window = ["deep", "light", "dream"], slice(3300, 3700)
found = {
    "night": single.predict(x[window]),
    "chain": crf.predict([x[rest]])[0][100:500],
}
titles = {"night": "single readings", "chain": "chain"}
for name, labels in found.items():
    axes = places[name]
    axes.step(
        range(400),
        [order.index(each) for each in y[window]],
        where="mid",
        color="0.8",
        lw=6,
    )
    axes.plot(
        [order.index(each) for each in labels],
        ".",
        ms=4,
        color="#0072B2" if name == "chain" else "#E69F00",
    )
    axes.set(
        yticks=range(3),
        yticklabels=order,
        title=titles[name],
        ylim=(-0.4, 2.4),
    )
places["chain"].set_xlabel("position; grey: truth")
for axes in places.values():
    axes.spines[["top", "right"]].set_visible(False)
