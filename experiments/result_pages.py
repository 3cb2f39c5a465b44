"""Pages of results: docs/results/NAME.md with its pictures, made from the JSON of an experiment and never typed.

    page = ResultPage("prominence", "Prominence", command="kernelfields reproduce prominence", seconds=412.0)
    page.text("What was done, and what came of it.")
    page.table(["kernel", "accuracy"], [["linear", "81.0 %"]])
    page.picture("degrees", degree_plot([1, 2], [0.8, 0.9]), "Accuracy against degree")
    page.write()

An experiment writes its JSON first and its page from the JSON, so that ``--page`` can renew the page alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchmarks.result_files import CHECKOUT
from kernelfields.reports import Picture

PAGES = CHECKOUT / "docs" / "results"


class ResultPage:
    """A Markdown page that says what was run, how long it took, where that was measured, and what came of it."""

    def __init__(self, name: str, title: str, *, command: str, seconds: float | None, machine: str = "two cores"):
        self.name = name
        self._parts = [f"# {title}", f"    {command}"]
        if seconds is not None:
            duration = f"{seconds / 60:.0f} minutes" if seconds >= 600 else f"{seconds:.0f} seconds"
            self._parts.append(f"This took {duration} on {machine}.")
        self._pictures: dict[str, str] = {}

    def heading(self, title: str) -> None:
        """Begin a section."""
        self._parts.append(f"## {title}")

    def text(self, paragraph: str) -> None:
        """Add a paragraph, wrapped or not."""
        self._parts.append(paragraph.strip())

    def table(self, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Add a table; cells are shown as they are."""
        lines = [header, ["---"] * len(header), *rows]
        self._parts.append("\n".join(f"| {' | '.join(map(str, line))} |" for line in lines))

    def picture(self, name: str, picture: Picture, caption: str) -> None:
        """Add a picture, kept beside the page as NAME-name.svg."""
        file = f"{self.name}-{name}.svg"
        self._pictures[file] = picture.standalone()
        self._parts.append(f"![{caption}]({file})\n\n*{caption}.*")

    def write(self) -> None:
        """Write the page and its pictures."""
        PAGES.mkdir(parents=True, exist_ok=True)
        for file, svg in self._pictures.items():
            (PAGES / file).write_text(svg, encoding="utf-8")
        path = PAGES / f"{self.name}.md"
        path.write_text("\n\n".join(self._parts) + "\n", encoding="utf-8")
        print(f"wrote {path.relative_to(CHECKOUT)}")


def percent(value: float, interval: tuple[float, float] | None = None) -> str:
    """Return a share in per cent, with the ends of its interval."""
    text = f"{100 * value:.1f} %"
    return text if interval is None else f"{text} [{100 * interval[0]:.1f}, {100 * interval[1]:.1f}]"


def points(difference: dict) -> str:
    """Return a difference of shares (value, low, high) in percentage points, with its sign and interval."""
    value, low, high = (100 * difference[part] for part in ("value", "low", "high"))
    return f"{value:+.1f} [{low:+.1f}, {high:+.1f}]"
