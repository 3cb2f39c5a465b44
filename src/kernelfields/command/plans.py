"""What a training run does besides its fit: a search for settings, checkpoints. Light, for help must come fast."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class SearchPlan:
    """What to choose from, and by what measure; ranks are that of the settings and a quarter of it unless told."""

    folds: int = 3
    scoring: str = "log_likelihood"
    prior_variances: tuple[float, ...] = (0.01, 0.1, 1.0, 10.0, 100.0)
    ranks: tuple[int, ...] | None = None


@dataclass(frozen=True)
class CheckpointPlan:
    """Where and how often to write checkpoints, and whether to go on from the last one."""

    path: str
    seconds: float = 60.0
    resume: bool = False


def search_plan(
    search: bool, folds: int | None, scoring: str | None, prior_variances: str | None, ranks: str | None
) -> SearchPlan | None:
    """Return the search that options ask for; ValueError for options of a search that is not wanted."""
    given: dict[str, Any] = {
        "folds": folds,
        "scoring": scoring,
        "prior_variances": None
        if prior_variances is None
        else numbers(prior_variances, "--prior-variances", float),
        "ranks": None if ranks is None else numbers(ranks, "--ranks", int),
    }
    given = {
        name: tuple(each) if isinstance(each, list) else each for name, each in given.items() if each is not None
    }
    if search:
        return SearchPlan(**given)
    if given:
        raise ValueError(f"--{next(iter(given)).replace('_', '-')} is for --search, which was not asked for")
    return None


def checkpoint_plan(path: str | None, seconds: float | None, resume: bool, model: str) -> CheckpointPlan | None:
    """Return the checkpoints that options ask for; ValueError for some that cannot be."""
    if path is None:
        if resume or seconds is not None:
            option = "--resume" if resume else "--checkpoint-seconds"
            raise ValueError(f"{option} needs --checkpoint, the file to write to and to go on from")
        return None
    if os.path.realpath(path) == os.path.realpath(model):
        raise ValueError(
            "--checkpoint and --model must be different files: the checkpoint goes when the fit is done"
        )
    return CheckpointPlan(path, 60.0 if seconds is None else seconds, resume)


def numbers(text: str, option: str, kind: type) -> list:
    """Return numbers that have commas between them."""
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        example = "3 or 2,0" if kind is int else "0.5 or 1,0.1"
        raise ValueError(
            f"{option} takes numbers with commas between them, such as {example}, got {text!r}"
        ) from None


def one_or_more(text: str | None, option: str, kind: type) -> Any:
    """Return a number, or a list of them if there are commas."""
    if text is None:
        return None
    several = numbers(text, option, kind)
    return several[0] if len(several) == 1 else several
