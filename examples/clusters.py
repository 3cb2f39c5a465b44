"""Clusters of a noisy machine: which of three modes it runs in, minute by minute, without a label.

    python examples/clusters.py

Three sensors are read every minute; a mode lasts for about twenty minutes. Clusters of single minutes confuse the
modes, which noise makes overlap; clusters of sequences learn that modes last, and separate them.
"""

from __future__ import annotations

import numpy as np
from sklearn.metrics import adjusted_rand_score

from kernelfields import FieldClustering

N_MODES = 3


def days_of_a_machine(n_days: int = 12, minutes: int = 60, seed: int = 0) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return readings (minutes, 3) and modes (minutes,) of each day."""
    random = np.random.default_rng(seed)
    readings, modes = [], []
    for _ in range(n_days):
        changes = random.random(minutes) < 0.05
        mode = (random.integers(N_MODES) + np.cumsum(changes)) % N_MODES
        readings.append(1.5 * np.eye(N_MODES)[mode] + random.normal(size=(minutes, N_MODES)))
        modes.append(mode)
    return readings, modes


def main(n_days: int = 12) -> tuple[float, float]:
    """Print and return how well clusters of single minutes and of sequences agree with the modes."""
    readings, modes = days_of_a_machine(n_days)
    truth = np.concatenate(modes)
    single = FieldClustering(N_MODES, random_state=0).fit_predict(np.concatenate(readings))
    model = FieldClustering(N_MODES, random_state=0).fit(readings)
    scores = [adjusted_rand_score(truth, labels) for labels in (single, np.concatenate(model.labels_))]
    print(f"adjusted Rand index: single minutes {scores[0]:.2f}, sequences {scores[1]:.2f}")
    print("one day:", "".join(map(str, model.labels_[0])))
    return scores[0], scores[1]


if __name__ == "__main__":
    main()
