"""Colours of the page: contrast of every text, and ten label colours that red-green blind people can tell apart."""

import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

import kernelfields.page
from kernelfields.reports.label_colours import INK, LABEL_COLOURS, label_colours

_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
_WHITE = np.array([0.95047, 1.0, 1.08883])
#: Vision without red or green cones, in linear RGB (Machado, Oliveira and Fernandes 2009, severity 1).
VISIONS = {
    "normal": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
}


def linear(colour):
    parts = np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)]) / 255
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def contrast(one, other):
    """Return the ratio of luminances by WCAG 2."""
    low, high = sorted(float(_XYZ[1] @ linear(colour)) + 0.05 for colour in (one, other))
    return high / low


def lab(parts):
    scaled = _XYZ @ parts / _WHITE
    f = np.where(scaled > 216 / 24389, np.cbrt(scaled), (24389 / 27 * scaled + 16) / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def ciede2000(one, other):
    """Return the difference of two colours in L*a*b* (Sharma, Wu and Dalal 2005)."""
    chroma = (np.hypot(*one[1:]) + np.hypot(*other[1:])) / 2
    grey = 0.5 * (1 - np.sqrt(chroma**7 / (chroma**7 + 25.0**7)))
    (l1, a1, b1), (l2, a2, b2) = ((l, (1 + grey) * a, b) for l, a, b in (one, other))  # noqa: E741
    c1, c2 = np.hypot(a1, b1), np.hypot(a2, b2)
    h1, h2 = (np.degrees(np.arctan2(b, a)) % 360 if c else 0.0 for a, b, c in ((a1, b1, c1), (a2, b2, c2)))
    turn = 0.0 if c1 * c2 == 0 else (h2 - h1 + 180) % 360 - 180
    step = 2 * np.sqrt(c1 * c2) * np.sin(np.radians(turn / 2))
    middle = h1 + h2 if c1 * c2 == 0 else h1 + ((h2 - h1 + 180) % 360 - 180) / 2
    light, mean = (l1 + l2) / 2, (c1 + c2) / 2
    cosines = [(-0.17, 1, -30), (0.24, 2, 0), (0.32, 3, 6), (-0.20, 4, -63)]
    tilt = 1 + sum(weight * np.cos(np.radians(times * middle + plus)) for weight, times, plus in cosines)
    scales = [
        1 + 0.015 * (light - 50) ** 2 / np.sqrt(20 + (light - 50) ** 2),
        1 + 0.045 * mean,
        1 + 0.015 * mean * tilt,
    ]
    parts = np.array([l2 - l1, c2 - c1, step]) / scales
    bend = -np.sin(np.radians(60 * np.exp(-((((middle % 360) - 275) / 25) ** 2))))
    bend *= 2 * np.sqrt(mean**7 / (mean**7 + 25.0**7))
    return float(np.sqrt(parts @ parts + bend * parts[1] * parts[2]))


def test_the_difference_of_colours_is_that_of_the_literature():
    """Four pairs of the table of Sharma, Wu and Dalal."""
    for one, other, expected in (
        ((50.0, 2.6772, -79.7751), (50.0, 0.0, -82.7485), 2.0425),
        ((50.0, 0.0, 0.0), (50.0, -1.0, 2.0), 2.3669),
        ((50.0, 2.5, 0.0), (50.0, 0.0, -2.5), 4.3065),
        ((60.2574, -34.0099, 36.2677), (60.4626, -34.1751, 39.4387), 1.2644),
    ):
        assert ciede2000(np.array(one), np.array(other)) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("vision", VISIONS)
def test_ten_labels_can_be_told_apart(vision):
    seen = [lab(np.clip(np.array(VISIONS[vision]) @ linear(colour), 0, 1)) for colour in LABEL_COLOURS]
    assert len(seen) == 10
    assert min(ciede2000(one, other) for one, other in combinations(seen, 2)) >= 15


def test_text_on_labels_can_be_read():
    assert all(contrast(INK, colour) >= 4.5 for colour in label_colours(60))
    assert len(set(label_colours(60))) == 60


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_text_of_the_page_can_be_read(mode):
    style = (Path(kernelfields.page.__file__).parent / "static" / "page.css").read_text(encoding="utf-8")
    blocks = [dict(re.findall(r"--([\w-]+): (#\w{6});", block)) for block in re.findall(r":root \{([^}]*)\}", style)]
    colours = blocks[0] if mode == "light" else blocks[0] | blocks[1]
    for text, ground in (
        ("ink", "paper"),
        ("ink", "card"),
        ("ink", "line"),
        ("muted", "paper"),
        ("muted", "card"),
        ("accent", "card"),
        ("on-accent", "accent"),
        ("paper", "wrong"),
        ("wrong", "card"),
        ("on-chip", "chip"),
    ):
        assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    # Predictions are the colour of their label, mixed with that of a chip.
    chip = np.array([int(colours["chip"][k : k + 2], 16) for k in (1, 3, 5)])
    for colour in LABEL_COLOURS:
        for share in (0.25, 0.5, 0.9):
            own = share * np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)]) + (1 - share) * chip
            mixed = "#" + "".join(f"{round(part):02x}" for part in own)
            assert contrast(colours["on-chip"], mixed) >= 4.5
