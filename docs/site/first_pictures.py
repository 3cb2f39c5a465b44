"""Pictures below the first calls of pages: docs/images/first-*.svg.

    python docs/site/first_pictures.py [page ...]

The first block of a page is run as it stands there, and one call of ``plot`` draws what it fitted.
"""

import contextlib
import io
import re
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: The call that draws, by page.
PICTURES = {
    "annotators": "model.plot.labels(X[0], y[0])",
    "documents": "crf.plot.transitions()",
    "entities": "crf.plot.labels(X[300], y[300])",
    "graphs": "crf.plot.transitions()",
    "proteins": "crf.plot.labels(X[100], y[100])",
    "rings": "ring.plot.labels(X[40], y[40])",
    "segments": "crf.plot.labels(X[15][:30], y[15][:30])",
    "sensors": "chain.plot.labels(X[12][:40], y[12][:40])",
    "text": "model.plot.labels(X[266], y[266])",
    "unlabelled": "crf.plot.labels(X[0], truth[0])",
}


def draw(page: str) -> None:
    """Write the picture of a page."""
    found = BLOCK.search((ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8"))
    if found is None:
        raise ValueError(f"docs/{page}.md has no block of Python")
    names: dict[str, Any] = {"__name__": page}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(found[1], names)
        picture = eval(PICTURES[page], names)
    picture.savefig(ROOT / "docs" / "images" / f"first-{page}.svg", metadata={"Date": None}, bbox_inches="tight")


if __name__ == "__main__":
    mpl.use("agg")
    mpl.rcParams["svg.hashsalt"] = "kernelfields"
    for page in sys.argv[1:] or PICTURES:
        draw(page)
