"""
A path of prior variances
=========================

From a stiff field to a free one: with ``warm_start=True`` each fit goes on
from the last, and every point of the path has a certificate of its own. Left,
what the freedom does to held-out data; right, the passes that a warm start
saves.
"""

import matplotlib.pyplot as plt
import numpy as np

from kernelfields import ChainCRF

plt.style.use(
    [
        "tableau-colorblind10",
        {"axes.spines.top": False, "axes.spines.right": False},
    ]
)
random = np.random.default_rng(1)
centres = random.normal(size=(4, 5))


def sequence(length):
    labels = [int(random.integers(4))]
    while len(labels) < length:
        labels.append(
            labels[-1] if random.random() < 0.6 else int(random.integers(4))
        )
    return centres[labels] + 1.3 * random.normal(size=(length, 5)), labels


X, y = zip(*(sequence(12) for _ in range(100)), strict=True)
X_train, y_train, X_test, y_test = X[:40], y[:40], X[40:], y[40:]

# %%
# ``warm_start`` keeps the basis and the coefficients; all that changes is the
# prior.
variances = np.logspace(-2, 2, 13)
path = ChainCRF("rbf", rank=80, warm_start=True, random_state=0)
table = []
for variance in variances:
    path.set_params(prior_variance=variance).fit(X_train, y_train)
    cold = ChainCRF(
        "rbf", rank=80, prior_variance=variance, random_state=0
    ).fit(X_train, y_train)
    likelihoods = [
        path.log_likelihood(*data) / (12 * len(data[0]))
        for data in ((X_train, y_train), (X_test, y_test))
    ]
    table.append((*likelihoods, path.solution_.passes, cold.solution_.passes))
    print(f"{variance:8.3f} {path.certificate_}")
train, test, warm, cold = np.array(table).T

# %%
figure, (fit, cost) = plt.subplots(
    1, 2, figsize=(9.5, 3.7), layout="constrained"
)
fit.semilogx(variances, train, "s--", color="C4", label="training sequences")
fit.semilogx(variances, test, "o-", color="C0", label="held-out sequences")
fit.plot(
    variances[test.argmax()],
    test.max(),
    "*",
    ms=18,
    color="C1",
    mec="black",
    label="best",
)
fit.set(
    xlabel="prior variance",
    ylabel="log-likelihood of a label, nats",
    title="stiff to free",
)
fit.legend(frameon=False)
cost.semilogx(
    variances,
    cold,
    "s-",
    color="C2",
    label=f"from zero each time: {cold.sum():.0f} in all",
)
cost.semilogx(
    variances,
    warm,
    "o-",
    color="C1",
    label=f"from the last one: {warm.sum():.0f} in all",
)
cost.set(
    xlabel="prior variance",
    ylabel="passes over the data",
    title="what it costs",
    ylim=(0, None),
)
cost.legend(frameon=False)
plt.show()
