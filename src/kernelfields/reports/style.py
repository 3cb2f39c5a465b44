"""Colours and typography of reports and plots, for light and dark screens, for paper and for notebooks.

Plots name roles (``kf-value``, ``kf-bound``), never colours, so that one picture serves all schemes. On a page the
colours keep a contrast of at least 4.5 to 1 with the background for text, and no meaning rests on colour alone.

A notebook has colours of its own, which no media query knows: there text takes the colour of the text around it,
and the other colours are such that they can be told from white and from black. Paper is always light.
"""

from __future__ import annotations

_LIGHT = (
    "--kf-ink:#1d2530;--kf-muted:#596473;--kf-paper:#f7f7f4;--kf-card:#ffffff;--kf-line:#dde1e6;"
    "--kf-accent:#2156a5;--kf-cell:#76a3ea;--kf-cell-below:#eba767;--kf-second:#9c4f00;--kf-third:#1a7347;"
    "--kf-fourth:#7b3ea3;--kf-wrong:#b3261e;--kf-wrong-paper:#fdecea"
)
_DARK = (
    "--kf-ink:#e7eaef;--kf-muted:#9da8b7;--kf-paper:#13171c;--kf-card:#1a1f26;--kf-line:#333c48;"
    "--kf-accent:#86b4ff;--kf-cell:#2b62b5;--kf-cell-below:#96560f;--kf-second:#f2ac66;--kf-third:#76cf9f;"
    "--kf-fourth:#d0a3ee;--kf-wrong:#ff9389;--kf-wrong-paper:#3a2122"
)
# Cells are half transparent: the paper behind them, light or dark, keeps the numbers in them readable.
_NOTEBOOK = (
    "--kf-ink:currentColor;--kf-muted:color-mix(in srgb,currentColor 72%,transparent);--kf-paper:transparent;"
    "--kf-card:transparent;--kf-line:color-mix(in srgb,currentColor 22%,transparent);--kf-accent:#3f7fd9;"
    "--kf-cell:rgba(70,130,230,0.6);--kf-cell-below:rgba(225,130,40,0.6);--kf-second:#c76a12;--kf-third:#2b9a62;"
    "--kf-fourth:#9d5fc4;--kf-wrong:#d0453a;--kf-wrong-paper:rgba(208,69,58,0.12)"
)

#: Shapes of plots by their roles; the colours come from the scheme around them.
_PLOT_RULES = """
.kf-plot { font: 12px system-ui, "Segoe UI", "Helvetica Neue", "DejaVu Sans", sans-serif; }
.kf-plot text { fill: var(--kf-muted); font-variant-numeric: tabular-nums; }
.kf-plot .kf-label { fill: var(--kf-ink); }
.kf-grid { stroke: var(--kf-line); stroke-width: 1; }
.kf-band { fill: var(--kf-accent); fill-opacity: 0.14; }
.kf-value, .kf-gap { stroke: var(--kf-accent); stroke-width: 2; fill: none; stroke-linejoin: round; }
.kf-bound { stroke: var(--kf-second); stroke-width: 2; stroke-dasharray: 6 3; fill: none; }
.kf-tol { stroke: var(--kf-muted); stroke-width: 1; stroke-dasharray: 2 3; }
.kf-dot { fill: var(--kf-accent); }
.kf-bound-dot { fill: var(--kf-second); }
.kf-bar { fill: var(--kf-accent); fill-opacity: 0.55; }
.kf-cell { fill: var(--kf-cell); stroke: var(--kf-line); }
.kf-below { fill: var(--kf-cell-below); stroke: var(--kf-line); }
.kf-curve { fill: none; stroke-width: 2; stroke-linejoin: round; }
.kf-mark { stroke: none; }
.kf-whisker { fill: none; stroke-width: 1.5; stroke-opacity: 0.7; }
.kf-curve-0 { stroke: var(--kf-accent); } .kf-mark.kf-curve-0 { fill: var(--kf-accent); }
.kf-curve-1 { stroke: var(--kf-second); } .kf-mark.kf-curve-1 { fill: var(--kf-second); }
.kf-curve-2 { stroke: var(--kf-third); } .kf-mark.kf-curve-2 { fill: var(--kf-third); }
.kf-curve-3 { stroke: var(--kf-fourth); } .kf-mark.kf-curve-3 { fill: var(--kf-fourth); }
.kf-plot .kf-small { font-size: 10px; }
"""

#: A labelled sequence: words in the colours of their labels.
_SEQUENCE_RULES = """
.kf-sequence { margin: 0 0 1rem; }
.kf-sequence figcaption { color: var(--kf-muted); font-size: 0.9rem; margin-bottom: 0.3rem; }
.kf-sequence ol { display: flex; flex-wrap: wrap; gap: 0.3rem; list-style: none; margin: 0; padding: 0; }
.kf-sequence li { max-width: 100%; margin: 0; padding: 0.15rem 0.45rem 0.25rem; text-align: center;
  line-height: 1.25; border: 1px solid var(--kf-line); border-radius: 6px; overflow-wrap: anywhere; }
.kf-sequence li.kf-wrong { border: 2px solid var(--kf-wrong); padding: calc(0.15rem - 1px) calc(0.45rem - 1px); }
.kf-sequence li.kf-more { border-style: dashed; font-style: italic; color: var(--kf-muted); }
.kf-sequence bdi { white-space: pre-wrap; }
.kf-sequence small { display: block; font-size: 0.75rem; }
.kf-sequence .kf-truth { color: var(--kf-wrong); }
.kf-sequence .kf-sure { display: block; height: 3px; margin-top: 2px; border-radius: 2px; overflow: hidden;
  background: var(--kf-line); }
.kf-sequence .kf-sure span { display: block; height: 100%; background: var(--kf-ink); opacity: 0.65; }
"""

#: What every plot needs, inside a page or alone.
PLOT_STYLE = f"""
:root {{ {_LIGHT} }}
@media screen and (prefers-color-scheme: dark) {{ :root {{ {_DARK} }} }}
{_PLOT_RULES}"""

#: The same for a piece of a notebook inside an element of class kf-inspect.
NOTEBOOK_STYLE = f"""
.kf-inspect {{ {_NOTEBOOK} }}
.kf-inspect svg.kf-plot {{ max-width: 100%; height: auto; }}
.kf-inspect p {{ margin: 0.3rem 0; }}
.kf-inspect details {{ margin: 0.3rem 0; }}
.kf-inspect summary {{ cursor: pointer; }}
{_PLOT_RULES}{_SEQUENCE_RULES}"""

_PAGE_RULES = """
:root { color-scheme: light dark; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--kf-paper); color: var(--kf-ink);
  font: 16px/1.55 system-ui, "Segoe UI", "Helvetica Neue", "DejaVu Sans", sans-serif; }
main { max-width: 62rem; margin: 0 auto; padding: 3rem 1.5rem 4rem; }
h1 { font-size: 2rem; line-height: 1.2; letter-spacing: -0.015em; margin: 0 0 0.75rem; text-wrap: balance; }
h2 { font-size: 1.2rem; line-height: 1.3; margin: 0 0 0.5rem; }
p { margin: 0 0 1rem; max-width: 46rem; text-wrap: pretty; }
.lead { font-size: 1.1rem; }
section { margin-top: 2rem; padding: 1.5rem; background: var(--kf-card);
  border: 1px solid var(--kf-line); border-radius: 10px; }
section > :last-child { margin-bottom: 0; }
svg.kf-plot { display: block; max-width: 100%; height: auto; }
figure { margin: 0; }
figcaption { color: var(--kf-muted); font-size: 0.9rem; margin-bottom: 0.4rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { font-size: 0.8rem; font-weight: 600; color: var(--kf-muted); text-align: right; vertical-align: bottom;
  line-height: 1.3; }
td { text-align: right; white-space: nowrap; }
th, td { padding: 0.5rem 0.7rem; border-bottom: 1px solid var(--kf-line); }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
th:last-child, td:last-child { padding-right: 0; }
tbody tr:last-child td { border-bottom: 0; }
tr.best td { font-weight: 650; }
.beside { display: flex; flex-wrap: wrap; gap: 1.5rem; }
.beside > * { flex: 1 1 24rem; }
.strip { margin-bottom: 1.4rem; }
.strip ol { display: flex; flex-wrap: wrap; gap: 0.5rem; list-style: none; margin: 0; padding: 0; }
.strip li { width: 4.6rem; padding: 0.4rem; text-align: center; border: 1px solid var(--kf-line);
  border-radius: 8px; line-height: 1.3; }
.strip li.wrong { border: 2px solid var(--kf-wrong); background: var(--kf-wrong-paper);
  padding: calc(0.4rem - 1px); }
.strip img { display: block; width: 100%; image-rendering: pixelated; border-radius: 4px; }
.strip .predicted { font-size: 1.1rem; font-weight: 650; margin-top: 0.25rem; }
.strip .bar { height: 4px; border-radius: 2px; background: var(--kf-line); margin: 0.2rem 0; overflow: hidden; }
.strip .bar span { display: block; height: 100%; background: var(--kf-accent); }
.strip .wrong .predicted, .strip .truth { color: var(--kf-wrong); }
.strip .wrong .bar span { background: var(--kf-wrong); }
.strip .truth, .strip .note { font-size: 0.75rem; }
.strip .note { color: var(--kf-muted); }
footer { margin-top: 2rem; color: var(--kf-muted); font-size: 0.9rem; }
.facts { display: grid; grid-template-columns: max-content 1fr; gap: 0.3rem 1.2rem; margin: 0 0 1rem; }
.facts dt { color: var(--kf-muted); }
.facts dd { margin: 0; overflow-wrap: anywhere; }
tr.total td { border-top: 2px solid var(--kf-line); }
th.words { text-align: left; }
td.words { text-align: left; white-space: normal; overflow-wrap: break-word; }
h3 { font-size: 1rem; margin: 1.2rem 0 0.4rem; }
@page { margin: 1.5cm; }
@media print {
  :root { color-scheme: light; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  body { background: none; font-size: 11pt; }
  main { max-width: none; padding: 0; }
  section { padding: 0.8rem 0; border-width: 1px 0 0; border-radius: 0; }
  h1, h2, h3, figcaption, caption { break-after: avoid; }
  svg, tr, li, figure.strip { break-inside: avoid; }
  .wide { overflow: visible; }
}
"""

#: What a page adds to that.
PAGE_STYLE = _PAGE_RULES + _SEQUENCE_RULES
