"""
What a gap guarantees
=====================

The objective is strongly convex, so a small gap does not only mean a good
value: no score f(x, y) of any input can then be far from its best value. Left,
that bound and how far scores of new inputs really were; right, what it costs.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from kernelfields import KernelClassifier
from kernelfields.kernels import RBF

plt.style.use(
    [
        "tableau-colorblind10",
        {"axes.spines.top": False, "axes.spines.right": False},
    ]
)
X, y = load_digits(return_X_y=True)
X = X / 16
X_train, y_train, X_new, y_new = X[:800], y[:800], X[800:], y[800:]


def fitted(tol):
    return KernelClassifier(
        RBF(0.1), rank=150, prior_variance=10.0, tol=tol, random_state=0
    ).fit(X_train, y_train)


# %%
# With prior variance s the objective is a convex function plus norm^2 / (2 s).
# A gap of g nats therefore leaves the coefficients within sqrt(2 s g) of the
# best ones, and a score within that times sqrt(k(x, x) + 1); the 1 is the
# bias.
best = fitted(1e-10)
tolerances = [0.3, 0.1, 0.03, 0.01, 1e-3, 1e-4, 1e-5]
rows = []
for tol in tolerances:
    fit = fitted(tol)
    gap = max(fit.solution_.gap, 0.0)
    moved = np.abs(
        fit.decision_function(X_new) - best.decision_function(X_new)
    ).max()
    changed = np.mean(fit.predict(X_new) != best.predict(X_new))
    rows.append(
        (
            np.sqrt(2 * 10.0 * gap) * np.sqrt(2.0),
            moved,
            changed,
            fit.solution_.passes,
        )
    )
bound, moved, changed, passes = np.array(rows).T

# %%
figure, panels = plt.subplots(
    1, 3, figsize=(11, 3.5), layout="constrained", sharex=True
)
panels[0].loglog(tolerances, bound, "s--", label="guaranteed")
panels[0].loglog(tolerances, moved, "o-", label="largest of 997 new digits")
panels[0].set(ylabel="distance of a score from its best value", title="scores")
panels[0].legend(frameon=False)
panels[1].semilogx(tolerances, 100 * changed, "o-", color="C1")
panels[1].set(ylabel="labels that still change, per cent", title="labels")
panels[2].semilogx(tolerances, passes, "o-", color="C3")
panels[2].set(ylabel="passes over the data", title="cost", ylim=(0, None))
for panel in panels:
    panel.set_xlabel("tol, the relative gap")
panels[0].invert_xaxis()
plt.show()
