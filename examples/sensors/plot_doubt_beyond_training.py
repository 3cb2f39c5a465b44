"""
Beyond what was seen
====================

A sensor drifts out of the range it was trained in. The fitted field mostly
stays sure there; log-odds that are shrunk by their variance (Laplace) come
back to doubt, where the range ends or readings were few.
"""

import matplotlib.pyplot as plt
import numpy as np

from kernelfields import ChainCRF, EdgeCliques
from kernelfields.kernels import RBF

# %%
# A valve is open or shut; readings are around 1 or around -1, with noise.
random = np.random.default_rng(0)


def recording(length):
    state = np.cumsum(random.random(length) < 0.2) % 2
    return (2.0 * state - 1.0 + 0.7 * random.normal(size=length))[
        :, None
    ], np.where(state, "open", "shut")


X, y = zip(*(recording(20) for _ in range(15)), strict=True)
crf = ChainCRF(
    RBF(0.5),
    prior_variance=20.0,
    edges=EdgeCliques(prior_variance=1.0),
    random_state=0,
).fit(X, y)
crf.laplace(X, y, n_samples=200, random_state=0)

# %%
# New readings drift away slowly, up and down.
time = np.arange(121)
drift = (np.sin(time / 5.0) * (0.5 + time / 18.0))[:, None]
told = {"the fit alone": False, "with doubt about the fit": True}
marginals = {
    name: crf.predict_marginals([drift], uncertainty=kind)[0][:, 0]
    for name, kind in told.items()
}
doubt = np.sqrt(crf.predict_variances([drift])[0].mean(axis=1))

# %%
figure, (above, middle, below) = plt.subplots(
    3,
    1,
    figsize=(8, 5),
    layout="constrained",
    sharex=True,
    height_ratios=[2, 2, 1],
)
seen = np.concatenate(X)
above.axhspan(
    seen.min(), seen.max(), color="#CDE4F2", lw=0, label="seen in training"
)
above.plot(time, drift, color="0.2")
above.set(ylabel="reading")
above.legend(loc="upper left", frameon=False)
for (name, values), colour in zip(
    marginals.items(), ["#E69F00", "#0072B2"], strict=True
):
    middle.plot(time, values, color=colour, lw=1.8, label=name)
middle.set(ylabel="probability of open", ylim=(-0.03, 1.03))
middle.legend(
    loc="lower left",
    bbox_to_anchor=(0.0, 1.0),
    ncols=2,
    frameon=False,
    fontsize=9,
)
below.fill_between(time, doubt, color="#CC79A7", lw=0)
below.set(ylabel="doubt, nats", xlabel="time", xlim=(0, 120), ylim=(0, None))
for axes in (above, middle, below):
    axes.spines[["top", "right"]].set_visible(False)
    axes.fill_between(
        time,
        *axes.get_ylim(),
        where=(drift[:, 0] > seen.max()) | (drift[:, 0] < seen.min()),
        color="0.93",
        lw=0,
        zorder=0,
    )
