"""
A state that is rare
====================

A pump fails two minutes in a hundred. Which share of failures is found depends
on where the alarm is set: marginal probabilities give the whole curve. The
chain, which has learnt that failures last, is far above single minutes.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import average_precision_score, precision_recall_curve

from kernelfields import ChainCRF, KernelClassifier

# %%
# Vibration and heat; failures are short.
random = np.random.default_rng(0)


def shift(length):
    state = np.zeros(length, dtype=int)
    for begin in np.flatnonzero(random.random(length) < 0.006):
        state[begin : begin + random.integers(3, 7)] = 1
    return state[:, None] * [1.5, 1.0] + random.normal(
        size=(length, 2)
    ), np.where(state, "failure", "fine")


X, y = zip(*(shift(60) for _ in range(100)), strict=True)
X_test, y_test = zip(*(shift(60) for _ in range(400)), strict=True)
truth = np.concatenate(y_test) == "failure"

# %%
# A field, and a classifier that sees one minute at a time.
crf = ChainCRF(prior_variance=1.0, rank=100, random_state=0).fit(X, y)
single = KernelClassifier(
    "rbf", prior_variance=1.0, rank=100, random_state=0
).fit(np.concatenate(X), np.concatenate(y))
alarms = {
    "chain": np.concatenate(crf.predict_marginals(X_test))[:, 0],
    "single minutes": single.predict_proba(np.concatenate(X_test))[:, 0],
}

# %%
# Dots: the alarm goes off where a failure is more probable than not, as
# ``predict`` has it. Squares: each class is weighed by how rare it is,
# ``classes_[(marginals * weights).argmax(axis=1)]``, which finds nearly all at
# the price of false alarms.
share = np.mean(np.concatenate(y) == "failure")
figure, (left, right) = plt.subplots(
    1, 2, figsize=(9, 3.8), layout="constrained", width_ratios=[1, 1.3]
)
for (name, alarm), colour in zip(
    alarms.items(), ["#0072B2", "#E69F00"], strict=True
):
    precision, recall, _ = precision_recall_curve(truth, alarm)
    area = average_precision_score(truth, alarm)
    left.plot(recall, precision, color=colour, label=f"{name} ({area:.2f})")
    for rung, marker in (
        (alarm > 0.5, "o"),
        (alarm / share > (1 - alarm) / (1 - share), "s"),
    ):
        left.plot(
            rung[truth].mean(),
            truth[rung].mean(),
            marker,
            color=colour,
            mec="white",
            ms=8,
        )
left.set(
    xlabel="share of failing minutes found",
    ylabel="share of alarms that are right",
    xlim=(0, 1),
    ylim=(0, 1.03),
)
left.legend(loc="lower left", frameon=False, fontsize=8)

shown = next(
    i for i, labels in enumerate(y_test) if (labels == "failure").sum() > 7
)
for (name, alarm), colour in zip(
    alarms.items(), ["#0072B2", "#E69F00"], strict=True
):
    right.plot(
        alarm[60 * shown : 60 * (shown + 1)],
        color=colour,
        lw=1.6 if name == "chain" else 1.0,
    )
right.fill_between(
    range(60),
    y_test[shown] == "failure",
    step="mid",
    color="#D55E00",
    alpha=0.2,
    lw=0,
    label="failure",
)
right.set(
    xlabel="minute",
    ylabel="probability of failure",
    ylim=(0, 1.03),
    xlim=(0, 59),
)
right.legend(loc="upper right", frameon=False, fontsize=8)
for axes in (left, right):
    axes.spines[["top", "right"]].set_visible(False)
