"""Colours and typography of reports and plots, for light and dark screens.

Plots name roles (``kf-value``, ``kf-bound``), never colours, so that one picture serves both schemes. The
colours keep a contrast of at least 4.5 to 1 with the background for text, and no meaning rests on colour alone.
"""

from __future__ import annotations

_LIGHT = (
    "--kf-ink:#1d2530;--kf-muted:#596473;--kf-paper:#f7f7f4;--kf-card:#ffffff;--kf-line:#dde1e6;"
    "--kf-accent:#2156a5;--kf-cell:#76a3ea;--kf-second:#9c4f00;--kf-wrong:#b3261e;--kf-wrong-paper:#fdecea"
)
_DARK = (
    "--kf-ink:#e7eaef;--kf-muted:#9da8b7;--kf-paper:#13171c;--kf-card:#1a1f26;--kf-line:#333c48;"
    "--kf-accent:#86b4ff;--kf-cell:#2b62b5;--kf-second:#f2ac66;--kf-wrong:#ff9389;--kf-wrong-paper:#3a2122"
)

#: What every plot needs, inside a page or alone.
PLOT_STYLE = f"""
:root {{ {_LIGHT} }}
@media (prefers-color-scheme: dark) {{ :root {{ {_DARK} }} }}
.kf-plot {{ font: 12px system-ui, "Segoe UI", "Helvetica Neue", "DejaVu Sans", sans-serif; }}
.kf-plot text {{ fill: var(--kf-muted); font-variant-numeric: tabular-nums; }}
.kf-plot .kf-label {{ fill: var(--kf-ink); }}
.kf-grid {{ stroke: var(--kf-line); stroke-width: 1; }}
.kf-band {{ fill: var(--kf-accent); fill-opacity: 0.14; }}
.kf-value, .kf-gap {{ stroke: var(--kf-accent); stroke-width: 2; fill: none; stroke-linejoin: round; }}
.kf-bound {{ stroke: var(--kf-second); stroke-width: 2; stroke-dasharray: 6 3; fill: none; }}
.kf-tol {{ stroke: var(--kf-muted); stroke-width: 1; stroke-dasharray: 2 3; }}
.kf-dot {{ fill: var(--kf-accent); }}
.kf-bound-dot {{ fill: var(--kf-second); }}
.kf-cell {{ fill: var(--kf-cell); }}
.kf-frame {{ fill: none; stroke: var(--kf-line); }}
.kf-plot .kf-small {{ font-size: 10px; }}
"""

#: What a page adds to that.
PAGE_STYLE = """
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
@media print { body { background: none; } section { break-inside: avoid; } }
"""
