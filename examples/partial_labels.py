"""A day of a watch that asks its wearer now and then: what was she doing, minute by minute?

    python examples/partial_labels.py [PICTURE.svg]

An accelerometer is read every minute; once in a while the wearer says what she does, or what she does not. A field is
fitted to these few answers, fills in the rest, and estimates its probabilities. The picture shows the first day: what
was asked, what was filled in, and the truth.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from kernelfields import ChainCRF

DOING = ["rest", "walk", "run"]
SHARE_ASKED = 0.1


def days_of_a_wearer(n_days: int = 20, minutes: int = 80, seed: int = 0) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return readings (minutes, 2) and what was done (minutes,), of each day."""
    random = np.random.default_rng(seed)
    readings, doing = [], []
    for _ in range(n_days):
        state = (random.integers(3) + np.cumsum((random.random(minutes) < 0.08) * random.integers(1, 3, minutes))) % 3
        level = np.array([[0.0, 0.0], [1.2, 0.4], [1.6, 1.8]])[state]
        readings.append(level + random.normal(size=(minutes, 2)))
        doing.append(np.array(DOING)[state])
    return readings, doing


def answers(doing: list[np.ndarray], seed: int = 1) -> list[list]:
    """Return the answers of the wearer: what she did, what she did not, mostly nothing."""
    random = np.random.default_rng(seed)
    told: list[list] = []
    for labels in doing:
        day: list = [None] * len(labels)
        for minute in np.flatnonzero(random.random(len(labels)) < SHARE_ASKED):
            label = str(labels[minute])
            other = random.choice([each for each in DOING if each != label])
            day[minute] = label if random.random() < 0.5 else set(DOING) - {str(other)}
        told.append(day)
    return told


def draw(path: Path, told: list, filled: np.ndarray, sure: np.ndarray, truth: np.ndarray) -> None:
    """Write a picture of one day."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 2.8), layout="constrained")
    axes.step(range(len(truth)), [DOING.index(each) for each in truth], where="mid", color="0.8", lw=6, label="truth")
    axes.scatter(
        range(len(filled)), [DOING.index(each) for each in filled], c=sure, s=12, cmap="viridis", vmin=0.3, vmax=1
    )
    said = [(minute, label) for minute, label in enumerate(told) if isinstance(label, str)]
    axes.scatter(
        [minute for minute, _ in said],
        [DOING.index(label) for _, label in said],
        marker="x",
        color="crimson",
        label="asked",
    )
    axes.set(yticks=range(3), yticklabels=DOING, xlabel="minute", title="filled in, the lighter the surer")
    axes.legend(loc="upper right")
    figure.savefig(path)
    pyplot.close(figure)


def main(picture: Path | None = None) -> tuple[float, float]:
    """Print and return how many minutes without an answer are filled in rightly, and how many the field expects."""
    readings, doing = days_of_a_wearer()
    told = answers(doing)
    crf = ChainCRF(prior_variance=1.0, random_state=0).fit(readings, told)
    filled, sure = crf.predict(readings, known=told), crf.predict_marginals(readings, known=told)
    open_minutes = [np.array([label is None for label in day]) for day in told]
    right = np.concatenate(
        [f[m] == t[m] for f, t, m in zip(map(np.array, filled), doing, open_minutes, strict=True)]
    ).mean()
    confident = np.concatenate([p[m].max(axis=1) for p, m in zip(sure, open_minutes, strict=True)])
    share = 1 - np.concatenate(open_minutes).mean()
    print(f"{share:.0%} of the minutes answered; of the others {right:.0%} filled in rightly")
    print(f"the field expected {confident.mean():.0%}; least sure:")
    print(crf.filled(readings, told, top=3))
    if picture is not None:
        draw(picture, told[0], np.array(filled[0]), sure[0].max(axis=1), doing[0])
    return float(right), float(confident.mean())


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
