"""Labelled chains and annotators with known confusions, from a seed."""

import numpy as np

CONFUSIONS = {
    "anna": np.array([[0.9, 0.1, 0.0], [0.1, 0.8, 0.1], [0.0, 0.1, 0.9]]),
    "ben": np.array([[0.6, 0.2, 0.2], [0.3, 0.5, 0.2], [0.1, 0.3, 0.6]]),
    "carl": np.array([[0.95, 0.05, 0.0], [0.0, 1.0, 0.0], [0.35, 0.05, 0.6]]),
}


def annotated_sequences(n_sequences=150, silent=0.2, confusions=CONFUSIONS, seed=0):
    """Inputs (T, 2), labels 0, 1, 2 that tend to stay, and annotator -> labels with None where one is silent."""
    random = np.random.default_rng(seed)
    means = np.array([[1.5, 0.0], [-1.0, 1.0], [0.0, -1.5]])
    X, y, said = [], [], {name: [] for name in confusions}
    for _ in range(n_sequences):
        labels = [int(random.integers(3))]
        while len(labels) < 8:
            labels.append(labels[-1] if random.random() < 0.7 else int(random.integers(3)))
        X.append(means[labels] + random.normal(size=(len(labels), 2)))
        y.append(np.array(labels))
        for name, matrix in confusions.items():
            words = [int(random.choice(3, p=matrix[label])) for label in labels]
            said[name].append([None if random.random() < silent else word for word in words])
    return X, y, said
