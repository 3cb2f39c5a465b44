"""
Loaded dice of maximum entropy
==============================

Of all dice whose mean is 4.5, which one has the largest entropy? A member of
an exponential family: its probabilities are exponential in the number of pips
(left). With the variance given as well, they bend into bells and bowls
(right).
"""

import matplotlib.pyplot as plt
import numpy as np

from kernelfields.families import FiniteFamily

plt.style.use(
    [
        "tableau-colorblind10",
        {"axes.spines.top": False, "axes.spines.right": False},
    ]
)
pips = np.arange(1, 7)

# %%
# A family is a table of features, a row for each outcome.
# ``natural_parameters`` finds the member whose features have given means: of
# all distributions with these means the one of largest entropy.
by_mean = FiniteFamily(pips[:, None])
means = {
    mean: by_mean.natural_parameters([mean]) for mean in (2.5, 3.5, 4.5, 5.5)
}

# %%
# With the square of the pips as a second feature the variance is given as
# well. A fair die has 35 / 12.
by_both = FiniteFamily(np.column_stack([pips, pips**2]))
variances = {
    each: by_both.natural_parameters([3.5, 3.5**2 + each])
    for each in (1.0, 2.0, 35 / 12, 5.0)
}

# %%
# Entropies in bits are written beside the curves; a fair die has log2(6) =
# 2.58 of them, and no die has more.
figure, panels = plt.subplots(
    1, 2, figsize=(9, 3.7), layout="constrained", sharey=True
)
for panel, family, members, words in (
    (panels[0], by_mean, means, "mean"),
    (panels[1], by_both, variances, "variance"),
):
    for number, ((told, theta), mark) in enumerate(
        zip(members.items(), "osD^", strict=True)
    ):
        fair = np.allclose(family.probabilities(theta), 1 / 6)
        colour = "0.45" if fair else ("C0", "C4", "C1", "C5")[number]
        bits = family.entropy(theta) / np.log(2)
        label = f"{words} {told:.3g}: {bits:.2f} bits"
        panel.plot(
            pips,
            family.probabilities(theta),
            f"{mark}-",
            color=colour,
            lw=2,
            ms=7,
            label=label,
        )
    panel.set(xlabel="pips", xticks=pips, ylim=(0, 0.85))
    panel.legend(
        frameon=False,
        loc="upper center",
        ncols=2,
        columnspacing=1.0,
        handlelength=1.5,
    )
panels[0].set(ylabel="probability", title="the mean is all that is known")
panels[1].set_title("the mean is 3.5, and the variance is known")
plt.show()
