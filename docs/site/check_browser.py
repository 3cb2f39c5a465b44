"""Check of a built site in Chromium: what the search finds first, and what is wider than its column.

    python docs/site/check_browser.py build/site

Every page is opened at the width of a laptop and of a phone. Code, output and tables must fit their column on the
laptop, and no page may scroll sideways on the phone. Prints what is wrong and ends with status 1, or counts what was
looked at. It needs playwright and Chromium; without them it says so and ends with status 0.
"""

from __future__ import annotations

import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

LAPTOP, PHONE = {"width": 1366, "height": 768}, {"width": 390, "height": 844}
# What people look for, and the page that should come first.
QUERIES = {
    "named entity recognition": "text",
    "sequence labelling": "chains",
    "time series": "sensors",
    "active learning": "labelling",
    "semi-supervised": "unlabelled",
    "conformal": "prediction_sets",
    "GPU": "engines",
    "install": "install",
    "pandas": "frames",
    "save model": "production",
    "missing labels": "partial_labels",
    "crowdsourcing": "annotators",
    "class imbalance": "rare_events",
    "CRF layer PyTorch": "layers",
    "confusion matrix": "evaluation_and_plots",
    "class weight": "rare_events",
    "cross validation": "selection",
    "feature importance": "evaluation_and_plots",
    "labels per character": "formats",
}
TOO_WIDE = """() => [...document.querySelectorAll("article pre, article table")]
    .filter(e => e.offsetParent !== null && e.scrollWidth > e.clientWidth + 1)
    .map(e => e.tagName.toLowerCase() + " " + e.textContent.trim().slice(0, 50).replace(/\\s+/g, " "))"""


@contextmanager
def served(site: Path) -> Iterator[str]:
    """Serve a folder on a free port of this machine."""

    class Silent(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
            """Say nothing."""

    class Patient(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            """Go on: a tab that leaves a page closes the connections of the page."""

    server = Patient(("127.0.0.1", 0), partial(Silent, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def first_results(tab: Any, address: str) -> Iterator[str]:
    """Yield a line for each query whose first result is another page."""
    for query, expected in QUERIES.items():
        tab.goto(f"{address}/search.html?q={query}")
        link = tab.locator("#search-results ul.search li a").first
        found = link.get_attribute("href").split("#")[0].split("?")[0]
        if found != f"{expected}.html":
            yield f"search for {query!r} finds {found} before {expected}.html"


def too_wide(tab: Any, address: str, pages: list[str]) -> Iterator[str]:
    """Yield a line for each block that is wider than its column, and for each page that is wider than a phone."""
    for page in pages:
        tab.set_viewport_size(LAPTOP)
        tab.goto(f"{address}/{page}", wait_until="domcontentloaded")
        yield from (f"{page}, {LAPTOP['width']} px: {block}" for block in tab.evaluate(TOO_WIDE))
        tab.set_viewport_size(PHONE)
        width = tab.evaluate("document.documentElement.scrollWidth")
        if width > PHONE["width"]:
            yield f"{page} is {width} px wide on a phone of {PHONE['width']} px"


def chromium() -> str | None:
    """Return the path of Chromium, if there is one."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def main(folder: str) -> int:
    """Check the site in a folder; return the status to end with."""
    path = chromium()
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        path = None
    if path is None:
        sys.stdout.write("no browser is looked with: it needs playwright and Chromium\n")
        return 0
    site = Path(folder).resolve()
    skipped = {"_static", "source", "_sources"}
    pages = [page.relative_to(site) for page in sorted(site.rglob("*.html"))]
    names = [page.as_posix() for page in pages if not skipped & {*page.parts}]
    with served(site) as address, sync_playwright() as tools:
        browser = tools.chromium.launch(executable_path=path, args=["--no-sandbox"])
        tab = browser.new_page()
        wrong = [*first_results(tab, address), *too_wide(tab, address, names)]
        browser.close()
    sys.stderr.writelines(f"{line}\n" for line in wrong)
    sys.stdout.write(f"{len(names)} pages, {len(QUERIES)} searches, {len(wrong)} faults in the browser\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) == 2 else "build/site"))
