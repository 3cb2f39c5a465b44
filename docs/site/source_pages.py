"""Sphinx extension: pages with the source of the files that pages link to.

A page links to a file of the repository as a reader of the repository would, ``[Class.method](../src/file.py)``, so
that the link works wherever the Markdown is shown. In the site such a link leads to a page with the highlighted
source of the file, at the line where the linked name is defined. Markdown files above ``docs`` are included by a page
(an ``{include}`` block), and links to them lead to it.
"""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from docutils import nodes
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import TextLexer, get_lexer_for_filename
from pygments.util import ClassNotFound
from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"\]\(((?:\.\./)+[^)#\s]+)(#[^)\s]*)?\)")
INCLUDE = re.compile(r"^```\{include\} \.\./([\w.]+)\n```$", re.MULTILINE)
OWN_LINK = re.compile(r"\]\((?![#/]|\w+:)")
PAGES = {
    "README.md": "index",
    "CONTRIBUTING.md": "contributing",
    "CHANGELOG.md": "changelog",
    "CODE_OF_CONDUCT.md": "code_of_conduct",
    "SECURITY.md": "security",
}
SCHEME = "source:"


def repository_path(docname: str, link: str) -> str:
    """Return the path from the root of the repository of what a page links to."""
    return posixpath.normpath(posixpath.join("docs", posixpath.dirname(docname), link))


def expanded(text: str) -> str:
    """Return the text of a page with what it includes, the links of which begin at the root of the repository."""
    return INCLUDE.sub(lambda match: OWN_LINK.sub("](../", (ROOT / match[1]).read_text(encoding="utf-8")), text)


def rewrite_links(app: Sphinx, docname: str, source: list[str]) -> None:
    """Give links that leave ``docs`` the page that includes the file, or a scheme of their own."""

    def rewritten(match: re.Match[str]) -> str:
        path = repository_path(docname, match[1])
        page = f"docs/{PAGES[path]}.md" if path in PAGES else path
        here = posixpath.dirname(f"docs/{docname}")
        link = posixpath.relpath(page, here) if page.startswith("docs/") else f"{SCHEME}{path}"
        return f"]({link}{match[2] or ''})"

    source[0] = LINK.sub(rewritten, expanded(source[0]))


@cache
def definitions(path: str) -> dict[str, int]:
    """Return the lines of functions, classes and their methods, by name or Class.name."""
    lines: dict[str, int] = {}
    for node in ast.parse((ROOT / path).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            lines[node.name] = node.lineno
        if isinstance(node, ast.ClassDef):
            methods = (each for each in node.body if isinstance(each, ast.FunctionDef))
            lines |= {f"{node.name}.{each.name}": each.lineno for each in methods}
    return lines


def page_of(path: str) -> str:
    """Return the name of the page that shows a file."""
    return f"source/{path.removesuffix('.py')}"


def resolve_links(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Lead links to files of the repository to their pages, and to the line of the name that is their text."""
    if app.builder.format != "html":
        return
    for node in doctree.findall(nodes.reference):
        if not node.get("refuri", "").startswith(SCHEME):
            continue
        path = node["refuri"].removeprefix(SCHEME).partition("#")[0]
        if not (ROOT / path).is_file():
            raise FileNotFoundError(f"docs/{docname} links to {path}, which is no file of the repository")
        line = definitions(path).get(node.astext().strip()) if path.endswith(".py") else None
        fragment = f"#line-{line}" if line else ""
        node["refuri"] = app.builder.get_relative_uri(docname, page_of(path)) + fragment
        node["internal"] = True


def linked_files() -> list[str]:
    """Return the files that pages link to, by their paths from the root of the repository."""
    found = set()
    for page in (ROOT / "docs").glob("**/*.md"):
        docname = page.relative_to(ROOT / "docs").with_suffix("").as_posix()
        text = expanded(page.read_text(encoding="utf-8"))
        paths = {repository_path(docname, link) for link, _ in LINK.findall(text)}
        found |= {path for path in paths if not path.startswith("docs/") and path not in PAGES}
    return sorted(found)


def lexer_of(path: str) -> Lexer:
    """Return what highlights a file; plain text for one whose name does not show its language, such as LICENSE."""
    try:
        return get_lexer_for_filename(path)
    except ClassNotFound:
        return TextLexer()


def source_pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield a page for each linked file."""
    formatter = HtmlFormatter(linenos="inline", lineanchors="line", wrapcode=True)
    for path in linked_files():
        text = (ROOT / path).read_text(encoding="utf-8")
        body = highlight(text, lexer_of(path), formatter)
        yield page_of(path), {"title": path, "body": f"<h1>{path}</h1>{body}"}, "page.html"


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect the steps to the events of a build."""
    app.connect("source-read", rewrite_links)
    app.connect("doctree-resolved", resolve_links)
    app.connect("html-collect-pages", source_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
