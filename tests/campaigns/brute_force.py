"""Every answer of random small fields against plain enumeration, at the public methods of the estimators.

    make fuzz                                                          this and the campaign of tests/campaigns/fuzz.py
    python -m tests.campaigns.brute_force --checks 100000           until so many comparisons are made
    python -m tests.campaigns.brute_force --fields Chain --only 17  one field once more, with all that is wrong

A field is drawn (fields/): estimator, structure, inputs, base measure, what is known of labels, engine. It is
fitted, for a few iterations or to the end; the objective of the fit, its gradient and its Hessian products are compared
with those of the enumeration. Then coefficients are drawn, of up to hundreds of nats, and all that can be asked is
asked: each comparison of one answer about one item is one check. Field number n of a kind follows from the seed, the
kind and n alone.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterable

import numpy as np

from tests.campaigns.fields.answers import Asked, check_answers
from tests.campaigns.fields.chains import Chain
from tests.campaigns.fields.composed import Annotated, Compat, Frames, Sequences
from tests.campaigns.fields.drawn import Drawn, Redraw
from tests.campaigns.fields.further import OBJECTIVES, QUESTIONS
from tests.campaigns.fields.objective import check_objective
from tests.campaigns.fields.structures import Graph, Instances, Segments, Single
from tests.campaigns.fields.tally import Tally
from tests.campaigns.fields.tied import Tied

_MOST_REDRAWS = 200

FIELDS: dict[str, Callable[[np.random.Generator], Drawn]] = {
    "Chain": Chain,
    "Ring": lambda random: Chain(random, ring=True),
    "Tied": Tied,
    "Segments": Segments,
    "Graph": Graph,
    "Single": Single,
    "Instances": Instances,
    "Annotated": Annotated,
    "Frames": Frames,
    "Sequences": Sequences,
    "Compat": Compat,
}
#: How often kinds that have more to draw come in each round.
OFTEN = {"Chain": 4, "Ring": 2}


def draw(kind: str, random: np.random.Generator) -> Drawn:
    """Return a field of a kind; what has no labelling is drawn again."""
    for _ in range(_MOST_REDRAWS):
        try:
            return FIELDS[kind](random)
        except Redraw:
            continue
    raise RuntimeError(f"{kind}: nothing that can be used was drawn in {_MOST_REDRAWS} attempts")


def run_field(tally: Tally, kind: str, seed: int, number: int) -> None:
    """Draw a field and compare all of it."""
    random = np.random.default_rng([seed, zlib.crc32(kind.encode()), number])
    tally.where = f"--seed {seed} --fields {kind} --only {number}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with tally.asking("fit"):
            drawn = draw(kind, random)
            tally.where += f" [{' '.join(drawn.note.split())}]"
            with tally.asking("objective"):
                if type(drawn) in OBJECTIVES:
                    OBJECTIVES[type(drawn)](tally, drawn)
                else:
                    check_objective(tally, drawn, random)
            if drawn.terms and random.random() < 0.8:
                drawn.draw_coefficients(random)
            asked = Asked(tally, drawn, drawn.new, None, [drawn.enumerated(item) for item in drawn.new])
            for check in QUESTIONS.get(type(drawn), (check_answers,)):
                with tally.asking(check.__name__):
                    check(tally, drawn, asked, random)


def run(
    checks: int,
    seconds: float = np.inf,
    seed: int = 0,
    fields: Iterable[str] = tuple(FIELDS),
    announce: Callable[[str], None] = print,
) -> Tally:
    """Draw fields of all kinds in turn until so many comparisons were made, or the time is over."""
    tally, ends, numbers = Tally(), time.monotonic() + seconds, Counter[str]()
    turns = [kind for kind in fields for _ in range(OFTEN.get(kind, 1))]
    while tally.total < checks and time.monotonic() < ends:
        for kind in turns:
            known = len(tally.failures)
            run_field(tally, kind, seed, numbers[kind])
            numbers[kind] += 1
            for failure in tally.failures[known:]:
                announce(failure)
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checks", type=int, default=100_000, help="comparisons to make, all fields together")
    parser.add_argument("--minutes", type=float, default=60.0, help="time for all of them")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fields", nargs="+", default=list(FIELDS), choices=list(FIELDS), metavar="KIND")
    parser.add_argument("--only", type=int, help="compare the field of this number alone")
    given = parser.parse_args()
    started = time.monotonic()
    if given.only is not None:
        tally = Tally()
        for kind in given.fields:
            run_field(tally, kind, given.seed, given.only)
        print("\n".join(tally.failures))
    else:
        tally = run(given.checks, 60 * given.minutes, given.seed, given.fields)
    for what, count in sorted(tally.counts.items()):
        print(f"{what:44}{count:>10,}")
    seconds = time.monotonic() - started
    print(f"{tally.total:,} checks in {seconds:.0f} s, {len(tally.failures)} wrong")
    return int(bool(tally.failures))


if __name__ == "__main__":
    sys.exit(main())
