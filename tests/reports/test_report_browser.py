"""The report as a browser lays it out: nothing complains, nothing is wider than the window, long lines wrap."""

import json
import re
import shutil
import subprocess

import numpy as np
import pytest
from test_model_report import small_evaluation, small_weights
from test_model_summary import small_summary

from kernelfields.reports import LabelledSequence, report_page

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium to open the report with")

# Runs in a copy of the page only: reports themselves have no scripts.
MEASURE = """<script>
window.onload = () => {
  const all = (what) => [...document.querySelectorAll(what)];
  const rows = (item) => new Set([...item.querySelectorAll('li')].map((each) => each.offsetTop)).size;
  document.title = JSON.stringify({
    inner: window.innerWidth,
    width: document.documentElement.scrollWidth,
    headings: all('h2').map((each) => each.textContent),
    pictures: all('svg[role=img]').map((each) => [each.clientWidth, each.clientHeight]),
    rows: all('.kf-sequence').map(rows),
    background: getComputedStyle(document.body).backgroundColor,
    ink: getComputedStyle(document.body).color,
    bar: getComputedStyle(document.querySelector('.kf-sure span')).backgroundColor,
  });
};
</script></head>"""


def opened(document, folder, width, *options):
    """What the page measures in a window of this width, and what the browser logged about it."""
    path = folder / "report.html"
    path.write_text(document.replace("</head>", MEASURE), encoding="utf-8")
    run = subprocess.run(
        [
            BROWSER,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--enable-logging=stderr",
            f"--user-data-dir={folder / 'profile'}",
            f"--window-size={width},900",
            *options,
            "--dump-dom",
            path.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    found = re.search(r"<title>(\{.*?\})</title>", run.stdout, re.DOTALL)
    assert found, run.stdout[:500]
    return json.loads(found[1].replace("&amp;", "&")), [line for line in run.stderr.splitlines() if "CONSOLE" in line]


@pytest.fixture(scope="module")
def document():
    words = [f"word{index}" for index in range(200)]
    long = LabelledSequence(["N"] * 200, np.tile([0.75, 0.25], (200, 1)), ["N", "V"], tokens=words)
    unbroken = LabelledSequence(["N"], [[0.75, 0.25]], ["N", "V"], tokens=["x" * 3000])
    labels = tuple(f"B-LONG-LABEL-{index}" for index in range(30))
    model = small_summary(labels=labels, transitions=np.ones((30, 30)))
    parts = {"model": model, "evaluation": small_evaluation(), "weights": small_weights()}
    return report_page("Report", **parts, sequences=[long, unbroken])


@pytest.mark.slow
@pytest.mark.parametrize("width", [1200, 600])
def test_a_report_fits_the_window(document, tmp_path, width):
    measured, complaints = opened(document, tmp_path, width)
    assert complaints == []
    assert measured["width"] <= measured["inner"]
    assert len(measured["headings"]) == 8
    assert len(measured["pictures"]) == 4
    assert all(wide > 100 and high > 100 for wide, high in measured["pictures"])
    assert measured["rows"][0] >= 200 * 40 // width


@pytest.mark.slow
def test_colours_follow_the_screen(document, tmp_path):
    light, _ = opened(document, tmp_path, 900, "--blink-settings=preferredColorScheme=1")
    dark, _ = opened(document, tmp_path, 900, "--blink-settings=preferredColorScheme=0")
    brightness = {
        name: [sum(map(int, re.findall(r"\d+", page[part])[:3])) for part in ("background", "ink", "bar")]
        for name, page in (("light", light), ("dark", dark))
    }
    assert brightness["light"][0] > 600 > 200 > brightness["light"][1]
    assert brightness["dark"][0] < 150 < 600 < brightness["dark"][1]
    assert brightness["light"][2] < brightness["dark"][2]
