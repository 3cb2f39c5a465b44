"""
Durations that a field has learnt
=================================

How long does a state last? A chain of neighbours leaves it with the same
probability at every step, which makes short visits the most frequent.
``SegmentCRF`` learns a function of the duration: its samples last as long as
real ones do.
"""

from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np

from kernelfields import ChainCRF, SegmentCRF

# %%
# Washing machines: they fill for about 8 minutes, wash for about 20, spin for
# about 12.
random = np.random.default_rng(0)
programme = {"fill": 8, "wash": 20, "spin": 12}


def load(n_segments=7):
    begin = random.integers(3)
    labels = []
    for index in range(begin, begin + n_segments):
        name, mean = list(programme.items())[index % 3]
        labels += [name] * max(2, round(random.normal(mean, 0.2 * mean)))
    power = np.array(
        [list(programme).index(label) for label in labels]
    ) + 1.6 * random.normal(size=len(labels))
    return power[:, None], labels


X, y = zip(*(load() for _ in range(40)), strict=True)
X_test, y_test = zip(*(load() for _ in range(40)), strict=True)
fields = {
    "ChainCRF": ChainCRF(
        "rbf", prior_variance=1.0, rank=30, random_state=0
    ).fit(X, y),
    "SegmentCRF": SegmentCRF(
        "rbf", prior_variance=1.0, rank=30, random_state=0
    ).fit(X, y),
}


def durations(labellings, name):
    """Return how long each visit to ``name`` lasts, those at both ends of a
    sequence left out.
    """
    lasts = []
    for labels in labellings:
        cuts = (
            np.flatnonzero(np.array(labels[1:]) != np.array(labels[:-1])) + 1
        )
        lasts += [
            end - begin
            for begin, end in pairwise(cuts)
            if labels[begin] == name
        ]
    return lasts


# %%
# Labellings are drawn from the posterior of the test recordings, five of each.
drawn = {"test data": list(y_test)}
for name, field in fields.items():
    samples = field.sample(X_test, n_samples=5, random_state=0)
    drawn[name] = [labels for each in samples for labels in each]

figure, panels = plt.subplots(
    1, 3, figsize=(9, 3.2), layout="constrained", sharey=True
)
bins = np.arange(0.5, 36, 2)
for axes, name in zip(panels, programme, strict=True):
    axes.hist(
        durations(drawn["test data"], name),
        bins,
        density=True,
        color="#D9D9D9",
        label="test data",
    )
    for kind, colour in zip(fields, ["#E69F00", "#0072B2"], strict=True):
        right = 100 * fields[kind].score(X_test, y_test, decode="posterior")
        axes.hist(
            durations(drawn[kind], name),
            bins,
            density=True,
            histtype="step",
            lw=2,
            color=colour,
            label=f"{kind}, {right:.0f} %",
        )
    axes.set(title=name, xlabel="minutes")
    axes.spines[["top", "right", "left"]].set_visible(False)
panels[0].set(ylabel="share of visits", yticks=[])
panels[1].legend(frameon=False, fontsize=8, loc="upper right")
