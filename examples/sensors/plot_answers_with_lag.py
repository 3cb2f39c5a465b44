"""
How long to wait for an answer
==============================

A stream labels readings while they come. With lag 0 it uses the past alone;
waiting for some readings more makes it right more often, and soon as right as
if it had waited for the end.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap

from kernelfields import ChainCRF

# %%
# Three states that last about fifteen readings, in much noise.
random = np.random.default_rng(1)


def recording(length):
    state = (
        random.integers(3)
        + np.cumsum(
            (random.random(length) < 0.07) * random.integers(1, 3, length)
        )
    ) % 3
    return np.eye(3)[state] + 1.1 * random.normal(size=(length, 3)), state


X, y = zip(*(recording(120) for _ in range(60)), strict=True)
crf = ChainCRF("linear", prior_variance=1.0).fit(X[:20], y[:20])

# %%
# Every lag has a stream of its own. Rows may be pushed one by one or, as here,
# all at once: answers are the same.
lags = [0, 1, 2, 3, 5, 8, 13, 20]
answers = {}
for lag in lags:
    answers[lag] = []
    for x in X[20:]:
        stream = crf.stream(lag=lag)
        answers[lag].append(
            np.concatenate([stream.push(x).labels, stream.end().labels])
        )
truth = np.concatenate(y[20:])
right = [100 * np.mean(np.concatenate(answers[lag]) == truth) for lag in lags]

# %%
figure, (left, strips) = plt.subplots(
    1, 2, figsize=(9, 3.6), layout="constrained", width_ratios=[1, 1.8]
)
left.axhline(100 * crf.score(X[20:], y[20:]), color="#E69F00", lw=1.5)
left.text(
    20,
    100 * crf.score(X[20:], y[20:]) + 0.3,
    "the whole sequence",
    ha="right",
    color="#B37700",
    fontsize=9,
)
left.plot(lags, right, "o-", color="#0072B2")
left.set(
    xlabel="lag, readings",
    ylabel="right, %",
    ylim=(min(right) - 2, max(right) + 2),
)
left.spines[["top", "right"]].set_visible(False)

rows = [y[20], *(answers[lag][0] for lag in (0, 2, 5, 20))]
strips.imshow(
    rows,
    aspect="auto",
    interpolation="none",
    cmap=ListedColormap(["#0072B2", "#E69F00", "#009E73"]),
)
strips.hlines(np.arange(4) + 0.5, -0.5, 119.5, color="white", lw=5)
strips.set(
    yticks=range(5),
    yticklabels=["truth", "lag 0", "lag 2", "lag 5", "lag 20"],
    xlabel="reading",
)
strips.spines[:].set_visible(False)
strips.tick_params(length=0)
