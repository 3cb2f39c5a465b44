"""A labelled sequence of pictures as a strip: picture, predicted label, how sure the field is, what is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kernelfields.reports.images import png_data_uri
from kernelfields.reports.markup import Markup, element


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
    given = {"predicted": predicted, "probabilities": probabilities, "truth": truth, "notes": notes}
    for name, values in given.items():
        if values is not None and len(values) != n_positions:
            raise ValueError(f"{name} has {len(values)} entries, but there are {n_positions} images")
    if not np.all((probabilities >= 0.0) & (probabilities <= 1.0 + 1e-9)):
        raise ValueError("probabilities must lie between 0 and 1; pass marginals of the predicted labels")
    items = [
        _position(
            png_data_uri(images[t], low, high),
            predicted[t],
            float(probabilities[t]),
            None if truth is None else truth[t],
            "" if notes is None else notes[t],
        )
        for t in range(n_positions)
    ]
    heading = [element("figcaption", caption)] if caption else []
    return element("figure", *heading, element("ol", *items), class_="strip")


def _position(source: str, predicted: object, probability: float, truth: object, note: str) -> Markup:
    wrong = truth is not None and predicted != truth
    said = f"predicted {predicted}, marginal probability {probability:.3f}"
    lines = []
    if wrong:
        said += f", truth {truth}"
        lines.append(element("div", f"truth {truth}", class_="truth"))
    if note:
        lines.append(element("div", note, class_="note"))
    return element(
        "li",
        element("img", src=source, alt=said),
        element("div", f"✗ {predicted}" if wrong else predicted, class_="predicted"),
        element("div", element("span", style=f"width:{100 * probability:.1f}%"), class_="bar"),
        *lines,
        class_="wrong" if wrong else None,
        title=said,
    )
