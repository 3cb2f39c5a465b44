"""Instances with dependent labels, made from a seed, and a sum over all labellings to compare with."""

import itertools

import numpy as np


def labelled_instances(n=80, seed=0):
    """X (n, 3) and Y (n, 4): the second label mostly follows the first, the third mostly excludes the fourth."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    Y = (X @ rng.normal(size=(3, 4)) + rng.logistic(size=(n, 4)) > 0).astype(int)
    Y[:, 1] = Y[:, 0] ^ (rng.random(n) < 0.15)
    Y[:, 3] = (1 - Y[:, 2]) ^ (rng.random(n) < 0.2)
    return X, Y


def joint_probabilities(log_odds, ratios):
    """p(y | x), (n, 2^K), for log odds (n, K) and log odds ratios {(j, k): w}, and all labellings (2^K, K)."""
    labellings = np.array(list(itertools.product([0, 1], repeat=log_odds.shape[1])))
    signs = labellings - 0.5
    scores = log_odds @ signs.T
    for (j, k), ratio in ratios.items():
        scores += np.reshape(ratio, (-1, 1)) * signs[:, j] * signs[:, k]
    table = np.exp(scores - scores.max(axis=1, keepdims=True))
    return table / table.sum(axis=1, keepdims=True), labellings
