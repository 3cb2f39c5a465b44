"""
One known label, and less doubt in the others
=============================================

What changes when a noisy digit is known to be even? ``known=`` takes what is
known of labels, and the answers are conditional on it. In each row one label
is given, and the doubt that is left in the others is shown: no prime has a
loop, so that each of the two determines most of the other.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss

from kernelfields import MultiLabelCRF

plt.style.use("tableau-colorblind10")
random = np.random.default_rng(0)
digits = load_digits()
members = {
    "even": "02468",
    "prime": "2357",
    "above 4": "56789",
    "by three": "0369",
    "loop": "0689",
}
answers = np.array(
    [[str(digit) in of for of in members.values()] for digit in range(10)]
).astype(int)
X, Y = (
    digits.data / 16 + 0.4 * random.normal(size=digits.data.shape),
    answers[digits.target],
)
X_test, Y_test = X[700:1200], Y[700:1200]
field = MultiLabelCRF("linear", label_graph="full", prior_variance=0.1).fit(
    X[:700], Y[:700]
)

# %%
# NaN is "not known". With nothing but NaN the answers are those without
# ``known``.
losses = np.zeros((6, 5))
for row in range(6):
    known = np.full(Y_test.shape, np.nan)
    if row:
        known[:, row - 1] = Y_test[:, row - 1]
    probabilities = field.predict_proba(X_test, known=known)
    for label in range(5):
        losses[row, label] = log_loss(
            Y_test[:, label],
            np.clip(probabilities[:, label], 1e-12, 1 - 1e-12),
        )

# %%
figure, ax = plt.subplots(figsize=(7.2, 4.6), layout="constrained")
shown = ax.imshow(
    losses / np.log(2),
    cmap="Blues",
    vmin=0,
    vmax=1.2 * losses.max() / np.log(2),
)
for (row, label), loss in np.ndenumerate(losses / np.log(2)):
    given = row == label + 1
    ax.text(
        label,
        row,
        "given" if given else f"{loss:.2f}",
        ha="center",
        va="center",
        color="0.4" if given else "black",
    )
ax.set_xticks(range(5), list(members))
ax.set_yticks(range(6), ["nothing", *members])
ax.set(xlabel="label that is predicted", ylabel="label that is given")
ax.axhline(0.5, color="white", lw=5)
figure.colorbar(shown, label="bits of doubt left in a label, on average")
plt.show()
