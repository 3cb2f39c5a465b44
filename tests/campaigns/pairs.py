"""Pairs and triples of features, and what is done after a fit: random small problems, asked in many ways.

    python -m tests.campaigns.pairs --seed 0 --checks 500000 --jobs 1      until so many numbers were compared
    python -m tests.campaigns.pairs --seed 0 --kinds chain --only 17       one problem once more, with all that is wrong

A problem draws an estimator and two or three features (pairing/features.py), small data, and fits. Its answers are
compared with enumeration (pairing/laws.py); then it is fitted again, warmly, in batches, saved, loaded and continued
(continuing.py), put into wrappers (wraps.py), and asked in other words (invariances.py).

One check is one number, label or set compared (pairing/counting.py): a table of marginals counts its entries. What is
refused in one line of words of our own is counted apart; any other error, and a saved model that cannot be read, is
wrong. Problem number n of a kind follows from the seed, the kind and n alone.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterable
from multiprocessing import get_context
from typing import Any

import numpy as np

from tests.campaigns.fields.drawn import Redraw
from tests.campaigns.pairing.asking import check_law, possible
from tests.campaigns.pairing.continuing import file_and_on, fit_again, fit_batches, fit_warm
from tests.campaigns.pairing.counting import Count, Refused, Unlawful
from tests.campaigns.pairing.features import KINDS, drawn_plan
from tests.campaigns.pairing.invariances import refitted, shifted, together
from tests.campaigns.pairing.laws import law_of
from tests.campaigns.pairing.problems import Problem
from tests.campaigns.pairing.wraps import calibrated, conformal, entities, framed, piped, searched

#: How often kinds that have more to draw come in each round.
OFTEN = {"chain": 5, "ring": 1, "segments": 2, "graph": 1, "single": 1, "multi": 1}
#: What is done with a fitted model, and how often.
WAYS: dict[str, tuple[Callable[..., None], float]] = {
    "again": (fit_again, 0.4),
    "warm": (fit_warm, 0.8),
    "batches": (fit_batches, 0.6),
    "file": (file_and_on, 0.5),
    "together": (together, 0.6),
    "shifted": (shifted, 0.3),
    "refitted": (refitted, 0.4),
    "calibrated": (calibrated, 0.5),
    "conformal": (conformal, 0.4),
    "frame": (framed, 0.4),
    "search": (searched, 0.15),
    "pipeline": (piped, 0.3),
    "entities": (entities, 1.0),
}
_MOST_REDRAWS = 200


def run_problem(count: Count, kind: str, seed: int, number: int) -> None:
    """Draw a problem, fit it, and compare all that can be."""
    random = np.random.default_rng([seed, zlib.crc32(kind.encode()), number])
    for _ in range(_MOST_REDRAWS):
        plan, features = drawn_plan(kind, random)
        try:
            problem = Problem(plan, random)
            break
        except Redraw:
            continue
    else:
        raise RuntimeError(f"{kind}: nothing that can be used was drawn in {_MOST_REDRAWS} attempts")
    where = f"--seed {seed} --kinds {kind} --only {number} [{' + '.join(features)}]"
    count.where, count.stage = where, "fit"
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            with count.trying(f"fit {kind}"):
                model = problem.fit(problem.estimator(), problem.first)
            count.stage = "law"
            check_law(count, problem, model, [problem.first], random)
            _leave_out_impossible(problem, model)
        except (Refused, Redraw, Unlawful):
            return
        for name, (way, often) in WAYS.items():
            if random.random() >= often:
                continue
            count.where, count.stage = where, name
            try:
                with count.asking(name):
                    way(count, problem, model, random)
            except (Refused, Redraw, Unlawful):
                continue


def _leave_out_impossible(problem: Problem, model: Any) -> None:
    """Leave out further items that a dictionary of the first leaves no labelling: they are refused, all together."""
    if problem.plan.listed:
        law = law_of(problem, model, [problem.first])
        kept = [number for number, item in enumerate(problem.second.items) if possible(law, item)]
        if len(kept) < 2:
            raise Redraw
        problem.second = problem.second.part(kept)


def run(
    checks: int,
    seconds: float = np.inf,
    seed: int = 0,
    kinds: Iterable[str] = KINDS,
    announce: Callable[[str], None] = print,
    share: tuple[int, int] = (0, 1),
) -> Count:
    """Draw problems of all kinds in turn until so many numbers were compared, or the time is over."""
    count, ends, numbers = Count(), time.monotonic() + seconds, Counter[str]()
    turns = [kind for kind in kinds for _ in range(OFTEN[kind])]
    numbers.update(dict.fromkeys(kinds, share[0]))
    while count.total < checks and time.monotonic() < ends:
        for kind in turns:
            known = len(count.failures)
            run_problem(count, kind, seed, numbers[kind])
            numbers[kind] += share[1]
            for failure in count.failures[known:]:
                announce(failure)
    count.problems = sum((numbers[kind] - share[0]) // share[1] for kind in kinds)
    return count


def _run_share(given: tuple[Any, ...]) -> Count:
    checks, seconds, seed, kinds, share = given
    return run(checks, seconds, seed, kinds, share=share)


def _run_jobs(given: argparse.Namespace) -> Count:
    """Run problems in several processes, which have every ``jobs``-th of each kind."""
    shares = [
        (given.checks // given.jobs, 60 * given.minutes, given.seed, given.kinds, (n, given.jobs))
        for n in range(given.jobs)
    ]
    with get_context("spawn").Pool(given.jobs) as pool:
        parts = pool.map(_run_share, shares)
    whole = Count()
    for part in parts:
        whole.counts += part.counts
        whole.refusals += part.refusals
        whole.failures += part.failures
        whole.problems += part.problems
    return whole


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checks", type=int, default=100_000, help="numbers to compare, all problems together")
    parser.add_argument("--minutes", type=float, default=120.0, help="time for all of them")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS), metavar="KIND")
    parser.add_argument("--only", type=int, help="the problem of this number alone")
    given = parser.parse_args()
    started, busy = time.monotonic(), time.process_time()
    if given.only is not None:
        count = Count()
        for kind in given.kinds:
            run_problem(count, kind, given.seed, given.only)
        print("\n".join(count.failures))
    else:
        one = given.jobs == 1
        count = run(given.checks, 60 * given.minutes, given.seed, given.kinds) if one else _run_jobs(given)
    for what, number in sorted(count.counts.items()):
        print(f"{what:64}{number:>10,}")
    print("refused in words:")
    for what, number in count.refusals.most_common():
        print(f"{number:>6} {what}")
    seconds, busy = time.monotonic() - started, time.process_time() - busy
    print(
        f"{count.total:,} checks on {count.problems:,} problems in {seconds:.0f} s ({busy:.0f} s of work here), "
        f"{sum(count.refusals.values()):,} refused in words, {len(count.failures)} wrong"
    )
    return int(bool(count.failures))


if __name__ == "__main__":
    sys.exit(main())
