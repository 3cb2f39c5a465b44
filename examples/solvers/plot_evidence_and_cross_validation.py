"""
Evidence, cross-validation and the truth
========================================

Two ways to choose the width of a kernel and the variance of its prior from 120
points: the evidence, from one fit to all of them, and three folds. Right, what
both try to guess: the likelihood of 4,000 new points. Stars: the best cells.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from kernelfields import FieldSearchCV, KernelClassifier
from kernelfields.kernels import RBF
from kernelfields.posterior.evidence.settings import EvidenceSearch

plt.style.use("tableau-colorblind10")
X, y = make_moons(120, noise=0.35, random_state=0)
X_new, y_new = make_moons(4000, noise=0.35, random_state=1)
gammas, variances = np.logspace(-1.5, 1.2, 6), np.logspace(-1.2, 1.5, 6)

# %%
# The evidence is what ``laplace`` returns. The search has one row in
# ``cv_results_`` for each pair.
evidence, truth = np.zeros((6, 6)), np.zeros((6, 6))
for row, variance in enumerate(variances):
    for column, gamma in enumerate(gammas):
        fit = KernelClassifier(
            RBF(gamma), prior_variance=variance, rank=40, random_state=0
        ).fit(X, y)
        evidence[row, column] = fit.laplace(
            X, y, n_samples=10, random_state=0
        ).value / len(X)
        truth[row, column] = np.mean(
            fit.predict_log_proba(X_new)[np.arange(4000), y_new]
        )
search = FieldSearchCV(
    KernelClassifier(rank=40),
    kernels=[RBF(gamma) for gamma in gammas],
    prior_variances=list(variances),
    halving=False,
    random_state=0,
).fit(X, y)
results = zip(
    search.cv_results_["params"],
    search.cv_results_["mean_test_score"],
    strict=True,
)
scores = {
    (each["kernel"].gamma, each["prior_variance"]): score
    for each, score in results
}
folds = np.array(
    [[scores[gamma, variance] for gamma in gammas] for variance in variances]
)

# %%
# ``optimize="evidence"`` climbs the first map by its gradient, here from a
# corner.
start = KernelClassifier(
    RBF(gammas[0]), prior_variance=variances[0], rank=40, random_state=0
)
path = start.fit(X, y, optimize=EvidenceSearch(restarts=0)).evidence_path_
climb = np.array(
    [
        (step.parameters["node gamma"], step.parameters["node prior_variance"])
        for step in path.steps
    ]
)

figure, panels = plt.subplots(
    1, 3, figsize=(12, 3.9), layout="constrained", sharex=True, sharey=True
)
titles = (
    "log evidence, all 120 points",
    "three folds of 120 points",
    "4,000 new points",
)
for panel, scores, title in zip(
    panels, (evidence, folds, truth), titles, strict=True
):
    shown = panel.pcolormesh(
        gammas,
        variances,
        scores,
        cmap="cividis",
        shading="nearest",
        vmin=scores.max() - 0.3,
    )
    row, column = np.unravel_index(scores.argmax(), scores.shape)
    panel.plot(
        gammas[column], variances[row], "*", ms=20, color="C1", mec="black"
    )
    panel.set(
        xscale="log", yscale="log", title=title, xlabel="gamma of the kernel"
    )
    figure.colorbar(shown, ax=panel, label="nats per point")
panels[0].plot(*climb.T, "o-", color="white", ms=4, lw=1)
panels[0].set_ylabel("prior variance")
plt.show()
