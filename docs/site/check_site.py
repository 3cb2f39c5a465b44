"""Check of a built site: nothing is fetched from outside, every internal link leads somewhere, every page is reached.

    python docs/site/check_site.py build/site

Prints what is wrong and ends with status 1, or counts what was looked at.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Attributes by which a browser fetches something on its own; a link waits to be followed.
FETCHED = {"link": "href", **dict.fromkeys(("embed", "iframe", "img", "script", "source", "video"), "src")}
STYLE_URL = re.compile(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)")
# The page of search results is opened by the search button, which no link shows.
BY_BUTTON = {"search.html"}
NOT_FETCHED = {"next", "prev", "search", "index", "canonical", "author", "copyright"}


@dataclass
class Page(HTMLParser):
    """Links, assets and anchors of one page."""

    path: Path
    links: list[str] = field(default_factory=list)
    assets: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Read the page."""
        super().__init__()
        self.feed(self.path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag fetches, links to and names."""
        found = {name: value or "" for name, value in attrs}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        fetched = found.get(FETCHED.get(tag, ""), "")
        if fetched and not (tag == "link" and set(found.get("rel", "").split()) & NOT_FETCHED):
            self.assets.append(fetched)


def is_outside(url: str) -> bool:
    """Tell whether an address names another host."""
    return bool(urlsplit(url).netloc) or urlsplit(url).scheme in {"http", "https"}


def outside_assets(site: Path, pages: dict[Path, Page]) -> list[str]:
    """Return a line for each asset of pages and style sheets that comes from another host or is not there."""
    wrong = []
    for path, page in pages.items():
        for asset in page.assets:
            if is_outside(asset):
                wrong.append(f"{path.relative_to(site)} fetches {asset}")
            elif not asset.startswith("data:") and not (path.parent / unquote(urlsplit(asset).path)).exists():
                wrong.append(f"{path.relative_to(site)} needs {asset}, which is not there")
    for sheet in site.rglob("*.css"):
        urls = [first or second for first, second in STYLE_URL.findall(sheet.read_text(encoding="utf-8"))]
        wrong += [f"{sheet.relative_to(site)} fetches {url}" for url in urls if is_outside(url)]
    return wrong


def target_of(path: Path, link: str) -> tuple[Path, str] | None:
    """Return file and anchor of an internal link; None for those that lead elsewhere."""
    parts = urlsplit(link)
    if is_outside(link) or parts.scheme:
        return None
    return ((path.parent / unquote(parts.path)).resolve() if parts.path else path), unquote(parts.fragment)


def broken_links(site: Path, pages: dict[Path, Page]) -> list[str]:
    """Return a line for each internal link whose file or anchor is not there."""
    wrong = []
    for path, page in pages.items():
        for link in page.links:
            target = target_of(path, link)
            if target is None:
                continue
            file, anchor = target
            known = pages[file].anchors | {"", "top"} if file in pages else {anchor} if file.is_file() else set()
            if anchor not in known:
                wrong.append(f"{path.relative_to(site)} links to {link}, which is not there")
    return wrong


def unreached(site: Path, pages: dict[Path, Page]) -> list[str]:
    """Return a line for each page that no chain of links from the first page leads to."""
    seen, ahead = set(), [site / "index.html"]
    while ahead:
        path = ahead.pop()
        if path in seen or path not in pages:
            continue
        seen.add(path)
        ahead += [target[0] for link in pages[path].links if (target := target_of(path, link)) is not None]
    missed = (path.relative_to(site) for path in sorted(set(pages) - seen))
    return [f"no link leads to {path}" for path in missed if path.as_posix() not in BY_BUTTON]


def main(folder: str) -> int:
    """Check the site in a folder; return the status to end with."""
    site = Path(folder).resolve()
    pages = {path: Page(path) for path in sorted(site.rglob("*.html")) if "_static" not in path.parts}
    if not pages:
        sys.stderr.write(f"there is no page in {site}: build the site first, make docs\n")
        return 1
    wrong = [*outside_assets(site, pages), *broken_links(site, pages), *unreached(site, pages)]
    sys.stderr.writelines(f"{line}\n" for line in sorted(set(wrong)))
    links = sum(len(page.links) for page in pages.values())
    sys.stdout.write(f"{len(pages)} pages, {links} links, {len(wrong)} faults\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) == 2 else "build/site"))
