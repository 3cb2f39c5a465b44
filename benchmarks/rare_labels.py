"""What helps to find rare labels: class weights of a chain, of single positions, or costs of the decision.

    python -m benchmarks.rare_labels

Synthetic sequences, 95 % of whose positions are "O"; "A" and "B" show by one column each that is as noisy as the signal
is strong. Rare labels are spread over all sequences ("even", "long") or crowd in a fifth of them ("clustered").
Printed are precision, recall and F1 of A and B together on as many new sequences; LogisticRegression stands for
classifiers that see single positions, and "costs" divides marginals by the shares of the labels before the largest is
taken.
"""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import precision_recall_fscore_support

from kernelfields import ChainCRF

RARE = ["A", "B"]


def sequences(kind: str, seed: int) -> tuple[list[np.ndarray], list[list[str]]]:
    """Return inputs and labels of 300 short or 20 long sequences."""
    random = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(20 if kind == "long" else 300):
        length = 200 if kind == "long" else int(random.integers(10, 31))
        crowded = random.random() < 0.2
        rate = (0.17 if crowded else 0.0) if kind == "clustered" else 0.033
        labels, position = np.full(length, "O"), 0
        while position < length:
            if random.random() < rate:
                end = min(length, position + int(random.integers(1, 3)))
                labels[position:end] = random.choice(RARE)
                position = end
            position += 1
        signs = np.column_stack([labels == "A", labels == "B", labels != "O"])
        X.append(np.column_stack([signs + random.normal(size=signs.shape), np.ones(length)]))
        y.append(labels.tolist())
    return X, y


def show(name: str, true: np.ndarray, predicted: np.ndarray) -> None:
    precision, recall, f1, _ = precision_recall_fscore_support(
        true, predicted, labels=RARE, average="micro", zero_division=0.0
    )
    print(f"    {name:34} precision {precision:.2f}, recall {recall:.2f}, F1 {f1:.2f}", flush=True)


def compare(kind: str) -> None:
    """Print the figures of one kind of sequences."""
    (X, y), (X_test, y_test) = sequences(kind, 0), sequences(kind, 1)
    true, rows, labels = np.concatenate(y_test), np.concatenate(X), np.concatenate(y)
    print(f"{kind}: {np.mean(true == 'O'):.1%} of the positions are O")
    for weight in (None, "balanced"):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "class_weight weighs whole sequences")
            crf = ChainCRF("linear", prior_variance=10.0, class_weight=weight).fit(X, y)
        show(f"ChainCRF, class_weight={weight}", true, np.concatenate(crf.predict(X_test)))
        if weight is None:
            marginals = np.concatenate(crf.predict_marginals(X_test))
            shares = np.array([np.mean(labels == label) for label in crf.classes_])
            show("ChainCRF, costs", true, crf.classes_[(marginals / shares).argmax(axis=1)])
            show("ChainCRF, roots of the costs", true, crf.classes_[(marginals / np.sqrt(shares)).argmax(axis=1)])
    for weight in (None, "balanced"):
        single = LogisticRegression(class_weight=weight, max_iter=1000).fit(rows, labels)
        show(f"LogisticRegression, {weight}", true, single.predict(np.concatenate(X_test)))


if __name__ == "__main__":
    for kind in ("even", "clustered", "long"):
        compare(kind)
