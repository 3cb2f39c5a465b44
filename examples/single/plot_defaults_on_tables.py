"""
Three tables, nothing set
=========================

Every classifier as it comes, without a parameter: error rates of five-fold
cross-validation on tables that come with scikit-learn. Columns of wine and
cancer differ a thousandfold in scale; ``KernelClassifier`` notices and scales
them, and does what a support vector machine does once somebody has thought of
the scaler.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from kernelfields import KernelClassifier

plt.style.use(
    [
        "tableau-colorblind10",
        {"axes.spines.top": False, "axes.spines.right": False},
    ]
)
classifiers = {
    "KernelClassifier": KernelClassifier(random_state=0),
    "SVC after StandardScaler": make_pipeline(StandardScaler(), SVC()),
    "SVC": SVC(),
    "nearest neighbours": KNeighborsClassifier(),
}

# %%
# One set of folds for all. The intervals are two standard errors of a share of
# that many flowers, wines or patients.
tables = {
    "iris": load_iris,
    "wine": load_wine,
    "breast cancer": load_breast_cancer,
}
folds = StratifiedKFold(5, shuffle=True, random_state=0)
errors = {
    (name, table): 1
    - cross_val_score(classifier, *load(return_X_y=True), cv=folds).mean()
    for table, load in tables.items()
    for name, classifier in classifiers.items()
}

# %%
figure, panels = plt.subplots(
    1, len(tables), figsize=(9.5, 2.6), layout="constrained", sharey=True
)
for panel, (table, load) in zip(panels, tables.items(), strict=True):
    size = len(load().target)
    for row, name in enumerate(reversed(classifiers)):
        share = errors[name, table]
        reach = 2 * np.sqrt(share * (1 - share) / size)
        colour = "C1" if name == "KernelClassifier" else "C0"
        panel.errorbar(
            100 * share,
            row,
            xerr=100 * reach,
            fmt="o",
            color=colour,
            ms=7,
            capsize=3,
        )
    panel.set(
        title=f"{table}, {size} rows", xlabel="wrong, per cent", xlim=(0, None)
    )
    panel.set_ylim(-0.5, len(classifiers) - 0.5)
    panel.grid(axis="x", color="0.9")
panels[0].set_yticks(range(len(classifiers)), list(reversed(classifiers)))
plt.show()
