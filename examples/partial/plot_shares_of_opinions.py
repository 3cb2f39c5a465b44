"""
Votes lose how many disagreed
=============================

Five people say at each position whether they see something. Fitted to what
most of them said, a field becomes overconfident; fitted to the shares of their
answers (``SoftTargets``) it predicts how many agree, as new answers confirm.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import log_loss

from kernelfields import ChainCRF, SoftTargets

# %%
# What is there comes and goes; the less there is, the fewer say yes.
random = np.random.default_rng(0)


def scene(length=60):
    signal = (
        np.convolve(
            random.normal(size=length + 24), np.hanning(25), mode="valid"
        )
        / 1.5
    )
    answers = random.random((length, 5)) < 1.0 / (
        1.0 + np.exp(-1.5 * signal[:, None])
    )
    return signal[:, None] + 0.6 * random.normal(
        size=(length, 1)
    ), answers.astype(int)


X, answers = zip(*(scene() for _ in range(120)), strict=True)
train, test = slice(0, 30), slice(30, 120)
shares = [each.mean(axis=1) for each in answers[train]]

# %%
# The same field on votes and on shares.
crf = ChainCRF("rbf", window=7, rank=60, prior_variance=1.0, random_state=0)
votes = crf.fit(
    X[train], [(share > 0.5).astype(int) for share in shares]
).predict_marginals(X[test])
targets = SoftTargets(
    [np.column_stack([1 - share, share]) for share in shares], classes=[0, 1]
)
soft = crf.fit(X[train], targets).predict_marginals(X[test])

# %%
# How many of five new people say yes where a field predicts so many percent?
figure, (left, right) = plt.subplots(
    1, 2, figsize=(9, 3.5), layout="constrained", width_ratios=[1.7, 1]
)
new = np.concatenate([each.mean(axis=1) for each in answers[test]])
left.bar(
    range(60),
    answers[30].mean(axis=1),
    width=1.0,
    color="#DDDDDD",
    label="share of five answers",
)
right.plot([0, 1], [0, 1], color="0.75", lw=1)
edges = np.linspace(0, 1, 11)
for name, marginals, colour in (
    ("fitted to votes", votes, "#E69F00"),
    ("fitted to shares", soft, "#0072B2"),
):
    left.plot(marginals[0][:, 1], color=colour, lw=2, label=name)
    said = np.concatenate(marginals)[:, 1]
    bins = np.digitize(said, edges[1:-1])
    places = [
        (said[bins == b].mean(), new[bins == b].mean())
        for b in range(10)
        if np.any(bins == b)
    ]
    loss = np.mean(
        [log_loss(given, said) for given in np.concatenate(answers[test]).T]
    )
    right.plot(
        *zip(*places, strict=True),
        "o-",
        color=colour,
        label=f"log-loss {loss:.2f}",
    )
left.set(
    xlabel="position, one new scene",
    ylabel="probability of yes",
    xlim=(-0.5, 59.5),
    ylim=(0, 1.02),
)
left.legend(
    ncols=3,
    loc="lower center",
    bbox_to_anchor=(0.5, 1.0),
    frameon=False,
    fontsize=9,
)
right.set(
    xlabel="predicted by the field",
    ylabel="share of new answers",
    xlim=(0, 1),
    ylim=(0, 1),
)
right.legend(frameon=False, fontsize=9)
for axes in (left, right):
    axes.spines[["top", "right"]].set_visible(False)
