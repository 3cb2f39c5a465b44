"""The figures of pages of results, made from the JSON of experiments and benchmarks and never typed.

    python -m experiments.result_pages [gestures ...]          all pages, or those of these names

A page in docs/results is Markdown with blocks,

    <!-- made by experiments.gestures.accuracy -->
    | kernel | frame accuracy |
    | --- | --- |
    | linear | 57.0 % |
    <!-- end -->

and a block is what the function of that name returns: a table, a sentence, or a drawing, which is kept beside the page
as NAME-name.svg. Words after the name of the function are its arguments. What stands between blocks is written by hand.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib

from benchmarks.result_files import CHECKOUT

PAGES = CHECKOUT / "docs" / "results"
BLOCK = re.compile(r"<!-- made by (?P<place>[\w.]+)\.(?P<name>\w+)(?P<words>[ \w./-]*) -->\n.*?<!-- end -->", re.DOTALL)


class Drawing(NamedTuple):
    """A picture of matplotlib, the name of its file, and what is said below it."""

    name: str
    figure: Any
    caption: str


def write_page(name: str) -> None:
    """Make the blocks of a page of results again, with their drawings."""
    path = PAGES / f"{name}.md"
    print(f"{'wrote' if renew(path) else 'nothing new in'} {path.relative_to(CHECKOUT)}", flush=True)


def renew(page: Path) -> bool:
    """Make the blocks of a file again, with their drawings; return whether its text changed."""

    def made(block: re.Match) -> str:
        found = getattr(import_module(block["place"]), block["name"])(*block["words"].split())
        text = found if isinstance(found, str) else _drawn(page, found)
        opening, _, _ = block[0].partition("\n")
        return f"{opening}\n{text}\n<!-- end -->"

    before = page.read_text(encoding="utf-8")
    after = BLOCK.sub(made, before)
    page.write_text(after, encoding="utf-8")
    return after != before


def _drawn(page: Path, drawing: Drawing) -> str:
    file = f"{page.stem}-{drawing.name}.svg"
    with matplotlib.rc_context({"svg.hashsalt": "kernelfields", "svg.fonttype": "none"}):
        drawing.figure.savefig(page.with_name(file), format="svg", metadata={"Date": None})
    return f"![{drawing.caption}]({file})\n\n*{drawing.caption}.*"


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table; cells are shown as they are."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def percent(value: float, interval: tuple[float, float] | None = None) -> str:
    """Return a share in per cent, with the ends of its interval."""
    text = f"{100 * value:.1f} %"
    return text if interval is None else f"{text} [{100 * interval[0]:.1f}, {100 * interval[1]:.1f}]"


def estimate(figure: dict) -> str:
    """Return a share (value, low, high) in per cent with its interval."""
    return percent(figure["value"], (figure["low"], figure["high"]))


def points(difference: dict) -> str:
    """Return a difference of shares (value, low, high) in percentage points, with its sign and interval."""
    value, low, high = (100 * difference[part] for part in ("value", "low", "high"))
    return f"{value:+.1f} [{low:+.1f}, {high:+.1f}]"


def duration(seconds: float, machine: str = "two cores") -> str:
    """Say how long an experiment took, and where."""
    shown = f"{seconds / 60:.0f} minutes" if seconds >= 600 else f"{seconds:.0f} seconds"
    return f"This took {shown} on {machine}."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    for name in parser.parse_args().names or sorted(path.stem for path in PAGES.glob("*.md")):
        write_page(name)


if __name__ == "__main__":
    main()
