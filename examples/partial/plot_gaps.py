"""
Few labels, and many gaps
=========================

Only some positions of each sequence are labelled. Gaps need not be filled or
cut out: ``None`` stands where nothing is known, and the field sums over all
that it could be. With one label in fifty it is nearly as good as with all of
them.
"""

import matplotlib.pyplot as plt
import numpy as np

from kernelfields import ChainCRF, KernelClassifier

# %%
# Three activities of about ten positions each, seen through noise.
random = np.random.default_rng(0)
names = np.array(["rest", "run", "walk"])
levels = np.array([[0.0, 0.0], [1.6, 1.8], [1.2, 0.2]])


def recording(length=60):
    state = (
        random.integers(3)
        + np.cumsum(
            (random.random(length) < 0.1) * random.integers(1, 3, length)
        )
    ) % 3
    return levels[state] + random.normal(size=(length, 2)), names[state]


X, y = zip(*(recording() for _ in range(30)), strict=True)
X_test, y_test = zip(*(recording() for _ in range(100)), strict=True)

# %%
# A field that sees the gaps, and a classifier of the labelled positions alone.
shares = [0.02, 0.05, 0.1, 0.3, 1.0]
right = {"field that sees the gaps": [], "labelled positions alone": []}
for share in shares:
    known = [random.random(len(labels)) < share for labels in y]
    told = [
        [label if ok else None for label, ok in zip(*pair, strict=True)]
        for pair in zip(y, known, strict=True)
    ]
    crf = ChainCRF("rbf", prior_variance=1.0, rank=60, random_state=0).fit(
        X, told
    )
    chosen = np.concatenate(known)
    single = KernelClassifier(
        "rbf", prior_variance=1.0, rank=60, random_state=0
    )
    single.fit(np.concatenate(X)[chosen], np.concatenate(y)[chosen])
    right["field that sees the gaps"].append(100 * crf.score(X_test, y_test))
    right["labelled positions alone"].append(
        100 * single.score(np.concatenate(X_test), np.concatenate(y_test))
    )
    if share == 0.1:
        day, filled = told[0], crf.predict_marginals(X[:1], known=told[:1])[0]

# %%
figure, (left, upper) = plt.subplots(
    1, 2, figsize=(9, 3.4), layout="constrained", width_ratios=[1, 1.6]
)
for (name, values), colour in zip(
    right.items(), ["#0072B2", "#E69F00"], strict=True
):
    left.semilogx(shares, values, "o-", color=colour, label=name)
left.set(
    xlabel="share of positions labelled",
    ylabel="right on new sequences, %",
    ylim=(50, 100),
)
left.set_xticks(shares, [f"{share:.0%}" for share in shares])
left.minorticks_off()
left.legend(frameon=False, loc="lower right", fontsize=9)
upper.imshow(
    filled.T,
    aspect="auto",
    cmap="Blues",
    vmin=0,
    vmax=1.2,
    interpolation="none",
)
upper.step(
    range(60),
    [list(names).index(label) for label in y[0]],
    where="mid",
    color="0.35",
    lw=1.2,
    label="truth",
)
asked = [(t, list(names).index(label)) for t, label in enumerate(day) if label]
upper.scatter(
    *zip(*asked, strict=True),
    marker="D",
    s=36,
    color="#D55E00",
    zorder=3,
    label="label given",
)
upper.set(
    yticks=range(3),
    yticklabels=names,
    xlabel="position",
    title="one training sequence, filled in",
)
upper.legend(
    ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.18), frameon=False
)
left.spines[["top", "right"]].set_visible(False)
upper.spines[:].set_visible(False)
