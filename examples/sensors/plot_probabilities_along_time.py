"""
Probabilities along time, and their calibration
===============================================

Marginal probabilities of three activities, minute by minute, above the truth.
Of labels with a probability of 70 percent seven in ten should be right: the
curve on the right counts, over all test sequences, with intervals.
"""

import matplotlib.pyplot as plt
import numpy as np

from kernelfields import ChainCRF, evaluate

# %%
# A wrist band measures heart rate and speed. Activities last a while.
random = np.random.default_rng(3)
typical = {"rest": [65.0, 0.3], "run": [140.0, 9.0], "walk": [95.0, 4.0]}


def day(length):
    labels = [str(random.choice(list(typical)))]
    while len(labels) < length:
        labels.append(
            labels[-1]
            if random.random() < 0.85
            else str(random.choice(list(typical)))
        )
    return np.array([typical[label] for label in labels]) + random.normal(
        size=(length, 2)
    ) * [35.0, 5.0], labels


X, y = zip(*(day(90) for _ in range(100)), strict=True)
crf = ChainCRF(random_state=0).fit(X[:20], y[:20])
calibration = evaluate(crf, X[20:], y[20:], random_state=0).calibration

# %%
# The kernel, the scale of the columns and the prior variance were left to the
# data.
marginals, truth = (
    crf.predict_marginals(X[20:21])[0],
    [crf.classes_.tolist().index(label) for label in y[20]],
)
colours = ["#0072B2", "#D55E00", "#E69F00"]
figure = plt.figure(figsize=(9, 3.8), layout="constrained")
places = figure.subplot_mosaic(
    [["along", "curve"], ["truth", "curve"]],
    width_ratios=[2.2, 1],
    height_ratios=[8, 1],
)
minutes = np.arange(90)
places["along"].stackplot(
    minutes,
    marginals.T,
    colors=colours,
    labels=crf.classes_,
    alpha=0.85,
    step="mid",
    lw=0,
)
places["along"].set(
    xlim=(-0.5, 89.5), ylim=(0, 1), ylabel="probability", xticks=[]
)
places["along"].legend(
    loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False
)
places["truth"].bar(
    minutes, 1.0, width=1.0, color=[colours[each] for each in truth]
)
places["truth"].set(
    xlim=(-0.5, 89.5),
    ylim=(0, 1),
    yticks=[0.5],
    yticklabels=["truth"],
    xlabel="minute",
)
curve, seen = calibration.curve, calibration.curve.counts > 0
low, high = (
    curve.accuracy - curve.accuracy_low,
    curve.accuracy_high - curve.accuracy,
)
places["curve"].plot([0.3, 1.0], [0.3, 1.0], color="0.7", lw=1)
places["curve"].errorbar(
    curve.confidence[seen],
    curve.accuracy[seen],
    yerr=[low[seen], high[seen]],
    fmt="o-",
    color="#0072B2",
    capsize=2,
)
places["curve"].set(
    xlabel="probability of the label",
    ylabel="share that is right",
    xlim=(0.3, 1.02),
    ylim=(0.3, 1.02),
)
places["curve"].set_title(
    f"calibration error {calibration.expected_error.value:.3f}", fontsize=10
)
for axes in places.values():
    axes.spines[["top", "right"]].set_visible(False)
