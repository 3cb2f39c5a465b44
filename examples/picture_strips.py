"""Strips of pictures for a report: picture, predicted label, how sure the field is, what is wrong.

    page("Digits", "...", [section("Test sequences", STRIP_STYLE, sequence_strip(images, labels, probabilities))])

A page of ``kernelfields.reports`` takes any Markup; this one comes from a template of jinja2, which escapes what it is
given. Colours are those of the page.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from jinja2 import Environment
from matplotlib.image import imsave

from kernelfields.reports import Markup

#: To be put once on a page with strips.
STRIP_STYLE = Markup("""<style>
.strip { margin-bottom: 1.4rem; break-inside: avoid; }
.strip ol { display: flex; flex-wrap: wrap; gap: 0.5rem; list-style: none; margin: 0; padding: 0; }
.strip li { width: 4.6rem; padding: 0.4rem; text-align: center; border: 1px solid var(--kf-line);
  border-radius: 8px; line-height: 1.3; }
.strip li.wrong { border: 2px solid var(--kf-wrong); padding: calc(0.4rem - 1px);
  background: color-mix(in srgb, var(--kf-wrong) 12%, transparent); }
.strip img { display: block; width: 100%; image-rendering: pixelated; border-radius: 4px; }
.strip .predicted { font-size: 1.1rem; font-weight: 650; margin-top: 0.25rem; }
.strip .bar { height: 4px; border-radius: 2px; background: var(--kf-line); margin: 0.2rem 0; overflow: hidden; }
.strip .bar span { display: block; height: 100%; background: var(--kf-accent); }
.strip .wrong .predicted, .strip .truth { color: var(--kf-wrong); }
.strip .wrong .bar span { background: var(--kf-wrong); }
.strip .truth, .strip .note { font-size: 0.75rem; }
.strip .note { color: var(--kf-muted); }
</style>""")

_STRIP = Environment(autoescape=True).from_string("""<figure class="strip">
{%- if caption %}<figcaption>{{ caption }}</figcaption>{% endif -%}
<ol>
{%- for each in positions -%}
<li{{ ' class="wrong"'|safe if each.wrong }} title="{{ each.said }}"><img src="{{ each.source }}" alt="{{ each.said }}">
{#- -#}
<div class="predicted">{{ "✗ " if each.wrong }}{{ each.predicted }}</div>
{#- -#}
<div class="bar"><span style="width:{{ each.width }}%"></span></div>
{%- if each.wrong %}<div class="truth">truth {{ each.truth }}</div>{% endif -%}
{%- if each.note %}<div class="note">{{ each.note }}</div>{% endif -%}
</li>
{%- endfor -%}
</ol></figure>""")


def png_data_uri(image: Any, low: float = 0.0, high: float = 1.0) -> str:
    """Return an (h, w) array as a grey PNG for the src of an <img>; ``low`` is black, ``high`` white."""
    written = io.BytesIO()
    imsave(
        written,
        np.asarray(image, dtype=float),
        vmin=low,
        vmax=high,
        cmap="gray",
        metadata={"Software": None},
    )
    return "data:image/png;base64," + base64.b64encode(
        written.getvalue()
    ).decode("ascii")


def sequence_strip(
    images: Any,
    predicted: Sequence[object],
    probabilities: Any,
    truth: Sequence[object] | None = None,
    *,
    caption: str = "",
    notes: Sequence[str] | None = None,
    low: float = 0.0,
    high: float = 1.0,
) -> Markup:
    """Return one sequence as a row of pictures.

    images (T, h, w) with ``low`` black and ``high`` white; predicted (T,) labels; probabilities (T,) of those
    labels, shown as bars and in words on hover; truth (T,) marks wrong labels by a cross, a colour and the
    right label; notes (T,) add a line each, empty strings none.
    """
    probabilities = np.asarray(probabilities, dtype=float)
    n_positions = len(images)
    given = {
        "predicted": predicted,
        "probabilities": probabilities,
        "truth": truth,
        "notes": notes,
    }
    for name, values in given.items():
        if values is not None and len(values) != n_positions:
            raise ValueError(
                f"{name} has {len(values)} entries, but there are {n_positions} images"
            )
    if not np.all((probabilities >= 0.0) & (probabilities <= 1.0 + 1e-9)):
        raise ValueError(
            "probabilities must lie between 0 and 1; pass marginals of the predicted labels"
        )
    positions = []
    for t, (label, probability) in enumerate(
        zip(predicted, probabilities.tolist(), strict=True)
    ):
        wrong = truth is not None and label != truth[t]
        said = f"predicted {label}, marginal probability {probability:.3f}"
        positions.append(
            {
                "source": png_data_uri(images[t], low, high),
                "predicted": label,
                "wrong": wrong,
                "truth": None if truth is None else truth[t],
                "said": f"{said}, truth {truth[t]}"
                if truth is not None and wrong
                else said,
                "width": f"{100 * probability:.1f}",
                "note": "" if notes is None else notes[t],
            }
        )
    return Markup(_STRIP.render(caption=caption, positions=positions))
