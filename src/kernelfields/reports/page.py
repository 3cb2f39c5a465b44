"""HTML pages and pieces of notebooks, self-contained: no scripts, nothing loaded from elsewhere.

A page follows light and dark screens and can be printed; paper is always light. Colours have names
(``var(--kf-accent)``), so that one picture or table serves all schemes; on a page they keep a contrast of at least
4.5 to 1 with the background for text, and no meaning rests on colour alone. A notebook has colours of its own,
which no media query knows: there text takes the colour of the text around it, and the other colours are such that
they can be told from white and from black.
"""

from __future__ import annotations

from collections.abc import Iterable

from kernelfields.reports.tables import Markup, element, join

# Light paper, dark screens, notebooks. Cells of notebooks are half transparent: the paper behind them, light or
# dark, keeps the numbers in them readable.
_COLOURS = {
    "ink": ("#1d2530", "#e7eaef", "currentColor"),
    "muted": ("#596473", "#9da8b7", "color-mix(in srgb,currentColor 72%,transparent)"),
    "paper": ("#f7f7f4", "#13171c", "transparent"),
    "card": ("#ffffff", "#1a1f26", "transparent"),
    "line": ("#dde1e6", "#333c48", "color-mix(in srgb,currentColor 22%,transparent)"),
    "accent": ("#2156a5", "#86b4ff", "#3f7fd9"),
    "second": ("#9c4f00", "#f2ac66", "#c76a12"),
    "third": ("#1a7347", "#76cf9f", "#2b9a62"),
    "fourth": ("#7b3ea3", "#d0a3ee", "#9d5fc4"),
    "cell": ("#76a3ea", "#2b62b5", "rgba(70,130,230,0.6)"),
    "cell-below": ("#eba767", "#96560f", "rgba(225,130,40,0.6)"),
    "wrong": ("#b3261e", "#ff9389", "#d0453a"),
}
#: Colours on light paper by name, which are also those of pictures in files.
LIGHT = {name: colours[0] for name, colours in _COLOURS.items()}
_ON_LIGHT, _ON_DARK, _IN_NOTEBOOKS = (
    ";".join(f"--kf-{name}:{colours[scheme]}" for name, colours in _COLOURS.items()) for scheme in range(3)
)
_FONT = 'system-ui, "Segoe UI", "Helvetica Neue", "DejaVu Sans", sans-serif'

_SCHEMES = f"""
:root {{ {_ON_LIGHT} }}
@media screen and (prefers-color-scheme: dark) {{ :root {{ {_ON_DARK} }} }}
"""

# Texts take no pointer: the title of the shape below them is what hovering should show.
_PICTURE_RULES = f"""
.kf-plot {{ font-family: {_FONT}; stroke-linejoin: round; fill: var(--kf-ink); }}
.kf-plot text {{ pointer-events: none; font-variant-numeric: tabular-nums; }}
"""

#: What a picture brings along that stands alone in a file.
PICTURE_STYLE = _SCHEMES + _PICTURE_RULES

#: Tables, words in the colours of their labels, and shaded tokens, in pages and in notebooks.
_DISPLAY_RULES = f"""
svg.kf-plot {{ display: block; max-width: 100%; height: auto; }}
.kf-wide {{ overflow-x: auto; }}
.kf-inspect {{ font: 13px/1.4 {_FONT}; }}
.kf-inspect table {{ border-collapse: collapse; width: auto; font-variant-numeric: tabular-nums; margin: 0; }}
.kf-inspect th, .kf-inspect td {{ padding: 0.1rem 0.5rem; text-align: right; white-space: nowrap; border: 0; }}
.kf-inspect th.kf-words, .kf-inspect td.kf-words {{ text-align: left; }}
.kf-inspect tbody th {{ font-weight: inherit; }}
.kf-inspect td.kf-words {{ white-space: pre-wrap; overflow-wrap: anywhere; max-width: 24rem; }}
.kf-inspect .kf-part td.kf-words {{ padding-left: 1.5rem; }}
.kf-inspect caption {{ text-align: left; font-weight: 650; padding: 0.3rem 0.5rem; caption-side: top; }}
.kf-inspect .kf-quiet {{ font-style: italic; opacity: 0.75; }}
.kf-inspect p, .kf-inspect details {{ margin: 0.3rem 0; }}
.kf-inspect summary {{ cursor: pointer; }}
.kf-beside {{ display: flex; flex-wrap: wrap; gap: 1rem; align-items: flex-start; }}
.kf-token {{ display: inline-block; padding: 0.1rem 0.4rem; text-align: center; border-radius: 4px;
  margin: 0.1rem 0.15rem 0.1rem 0; }}
.kf-token small {{ display: block; opacity: 0.75; }}
.kf-sequence {{ margin: 0 0 1rem; }}
.kf-sequence figcaption {{ color: var(--kf-muted); font-size: 0.9rem; margin-bottom: 0.3rem; }}
.kf-sequence ol {{ display: flex; flex-wrap: wrap; gap: 0.3rem; list-style: none; margin: 0; padding: 0; }}
.kf-sequence li {{ max-width: 100%; margin: 0; padding: 0.15rem 0.45rem 0.25rem; text-align: center;
  line-height: 1.25; border: 1px solid var(--kf-line); border-radius: 6px; overflow-wrap: anywhere; }}
.kf-sequence li.kf-wrong {{ border: 2px solid var(--kf-wrong); padding: calc(0.15rem - 1px) calc(0.45rem - 1px); }}
.kf-sequence li.kf-more {{ border-style: dashed; font-style: italic; color: var(--kf-muted); }}
.kf-sequence bdi {{ white-space: pre-wrap; }}
.kf-sequence svg {{ width: 100%; }}
.kf-legend {{ display: flex; flex-wrap: wrap; gap: 0.2rem 1rem; margin: 0.3rem 0 0; font-size: 0.85rem; }}
.kf-legend .kf-quiet {{ font-style: italic; opacity: 0.75; }}
.kf-legend i {{ display: inline-block; width: 0.8em; height: 0.8em; border-radius: 2px; margin-right: 0.4em; }}
.kf-sequence small {{ display: block; font-size: 0.75rem; }}
.kf-sequence .kf-truth {{ color: var(--kf-wrong); }}
.kf-sequence .kf-sure {{ display: block; height: 3px; margin-top: 2px; border-radius: 2px; overflow: hidden;
  background: var(--kf-line); }}
.kf-sequence .kf-sure span {{ display: block; height: 100%; background: var(--kf-ink); opacity: 0.65; }}
"""

_PAGE_RULES = f"""
:root {{ color-scheme: light dark; }}
* {{ box-sizing: border-box; }}
body {{ margin: 0; background: var(--kf-paper); color: var(--kf-ink); font: 16px/1.55 {_FONT}; }}
main {{ max-width: 62rem; margin: 0 auto; padding: 3rem 1.5rem 4rem; }}
h1 {{ font-size: 2rem; line-height: 1.2; letter-spacing: -0.015em; margin: 0 0 0.75rem; text-wrap: balance; }}
h2 {{ font-size: 1.2rem; line-height: 1.3; margin: 0 0 0.5rem; }}
h3 {{ font-size: 1rem; margin: 1.2rem 0 0.4rem; }}
p {{ margin: 0 0 1rem; max-width: 46rem; text-wrap: pretty; }}
.lead {{ font-size: 1.1rem; }}
section {{ margin-top: 2rem; padding: 1.5rem; background: var(--kf-card);
  border: 1px solid var(--kf-line); border-radius: 10px; }}
section > :last-child {{ margin-bottom: 0; }}
figure {{ margin: 0; }}
figcaption {{ color: var(--kf-muted); font-size: 0.9rem; margin-bottom: 0.4rem; }}
table {{ border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }}
th, td {{ padding: 0.5rem 0.7rem; border-bottom: 1px solid var(--kf-line); text-align: right;
  white-space: nowrap; }}
thead th {{ font-size: 0.8rem; font-weight: 600; color: var(--kf-muted); vertical-align: bottom;
  line-height: 1.3; }}
tbody th {{ font-weight: inherit; }}
th:first-child, td:first-child {{ text-align: left; padding-left: 0; }}
th:last-child, td:last-child {{ padding-right: 0; }}
tbody tr:last-child > * {{ border-bottom: 0; }}
tr.kf-best > * {{ font-weight: 650; }}
tr.kf-total > * {{ border-top: 2px solid var(--kf-line); }}
th.kf-words {{ text-align: left; }}
td.kf-words {{ text-align: left; white-space: normal; overflow-wrap: break-word; }}
.beside {{ display: flex; flex-wrap: wrap; gap: 1.5rem; }}
.beside > * {{ flex: 1 1 24rem; }}
.facts {{ display: grid; grid-template-columns: max-content 1fr; gap: 0.3rem 1.2rem; margin: 0 0 1rem; }}
.facts dt {{ color: var(--kf-muted); }}
.facts dd {{ margin: 0; overflow-wrap: anywhere; }}
footer {{ margin-top: 2rem; color: var(--kf-muted); font-size: 0.9rem; }}
@page {{ margin: 1.5cm; }}
@media print {{
  :root {{ color-scheme: light; }}
  * {{ print-color-adjust: exact; -webkit-print-color-adjust: exact; }}
  body {{ background: none; font-size: 11pt; }}
  main {{ max-width: none; padding: 0; }}
  section {{ padding: 0.8rem 0; border-width: 1px 0 0; border-radius: 0; }}
  h1, h2, h3, figcaption, caption {{ break-after: avoid; }}
  svg, tr, li {{ break-inside: avoid; }}
  .kf-wide {{ overflow: visible; }}
}}
"""
_PAGE_STYLE = PICTURE_STYLE + _PAGE_RULES + _DISPLAY_RULES
_NOTEBOOK_STYLE = f".kf-notebook {{ {_IN_NOTEBOOKS} }}" + _PICTURE_RULES + _DISPLAY_RULES


def page(title: str, lead: str, sections: Iterable[Markup], footer: str | None = None) -> str:
    """Return a whole HTML document. Write it as UTF-8."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", title),
        element("style", Markup(_PAGE_STYLE)),
    )
    main = element(
        "main",
        element("header", element("h1", title), element("p", lead, class_="lead")),
        *sections,
        *([element("footer", footer)] if footer else []),
    )
    return "<!DOCTYPE html>\n" + element("html", head, element("body", main), lang="en") + "\n"


def section(heading: str, *content: object) -> Markup:
    """Return a section; plain strings among the content become paragraphs."""
    return element("section", element("h2", heading), *map(markup_of, content))


def beside(*figures: tuple[str, object]) -> Markup:
    """Return captioned pictures next to each other, or below each other on a narrow screen."""
    captioned = [element("figure", element("figcaption", caption), markup_of(picture)) for caption, picture in figures]
    return element("div", join(captioned), class_="beside")


def markup_of(part: object) -> Markup:
    """Return what a page shows of a part: Markup as it is, a paragraph of a string, else its ``markup()``."""
    if isinstance(part, Markup):
        return part
    return part.markup() if hasattr(part, "markup") else element("p", part)


def inspected(parts: Iterable[object]) -> Markup:
    """Return parts in small type, with tables as wide as their content, for a page, which has the style for it."""
    return element("div", *parts, class_="kf-inspect")


def notebook(parts: Iterable[object]) -> str:
    """Return parts as one element that brings its own style and loads nothing, for a notebook or any page."""
    return str(element("div", element("style", Markup(_NOTEBOOK_STYLE)), *parts, class_="kf-inspect kf-notebook"))
