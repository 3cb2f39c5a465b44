"""Pictures of the page of ``kernelfields label``, taken in a headless browser: docs/images/page.gif and page-*.png.

    python docs/site/page_pictures.py

Needs the extra page, Playwright and Chromium. Each state of the page is shown at 1366 and at 390 pixels, light and
dark. The film goes from nothing to a model: spans that are marked, a refit, corrections, labels that may be wrong.
"""

import io
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright
from sklearn.pipeline import make_pipeline

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "page")]

from sentences import city_model, sentences  # noqa: E402

from kernelfields import ChainCRF, GraphCRF, TextFeatures  # noqa: E402
from kernelfields.page.server import Server  # noqa: E402
from kernelfields.page.session import LabellingSession  # noqa: E402

IMAGES = ROOT / "docs" / "images"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
VIEWS = [(1366, 700, "light"), (390, 700, "light"), (1366, 700, "dark"), (390, 700, "dark")]


def press(page: Page, *keys: str) -> None:
    """Press keys, and wait until they are done."""
    for key in keys:
        page.keyboard.press(key)
    page.wait_for_selector("body[data-busy='false']")


def picture(page: Page) -> Image.Image:
    """Return what is on the screen."""
    page.wait_for_selector("body[data-busy='false']")
    return Image.open(io.BytesIO(page.screenshot())).convert("RGB")


# ---- states of the page: what is labelled, and which keys show it


def spans() -> tuple[LabellingSession, list[str]]:
    """Return sentences with predicted spans, of which one is corrected."""
    X, _ = sentences(40, seed=3)
    X = [[*one, "and", *other] for one, other in zip(X[::2], X[1::2], strict=True)]
    return LabellingSession(X, None, city_model(), words=X, classes=["city", "river"]), ["d", "Shift+ArrowRight", "2"]


def positions() -> tuple[LabellingSession, list[str]]:
    """Return sentences with a tag for each word."""
    words = [["the", "cat", "sat", "on", "a", "mat"], ["a", "dog", "ran", "to", "the", "door"]] * 4
    tags = [["DET", "NOUN", "VERB", "ADP", "DET", "NOUN"]] * 8
    model = make_pipeline(TextFeatures(), ChainCRF("linear", prior_variance=1.0)).fit(words[:4], tags[:4])
    return LabellingSession(words, tags[:3] + [None] * 5, model, words=words), ["2", "3"]


def timeline() -> tuple[LabellingSession, list[str]]:
    """Return rooms over time, with a stretch that is marked."""
    random, X, y = np.random.default_rng(0), [], []
    for _ in range(6):
        state = np.repeat(random.integers(3, size=12), random.integers(20, 50, size=12))
        noise = random.normal(size=(3, len(state)))
        X.append(np.column_stack([np.arange(len(state)) / 10, state + 0.5 * noise[0], np.cumsum(noise[1]), noise[2]]))
        y.append(np.array(["busy", "empty", "idle"])[state].tolist())
    model = ChainCRF("rbf", rank=50, random_state=0).fit(X[:5], y[:5])
    keys = [*["ArrowDown"] * 3, *["Shift+ArrowDown"] * 4, "1", *["Shift+ArrowDown"] * 3]
    return LabellingSession(X, None, model, columns=["time", "light", "noise", "door"]), keys


def graph() -> tuple[LabellingSession, list[str]]:
    """Return graphs, with a node that is fixed."""
    random, X, y = np.random.default_rng(0), [], []
    ring = [[node, (node + 1) % 12] for node in range(12)]
    for _ in range(10):
        warm = random.integers(2, size=12)
        edges = np.array([*ring, [0, 4], [2, 7], [5, 9], [8, 11]])
        X.append((np.column_stack([warm + 0.8 * random.normal(size=12), random.normal(size=12)]), edges))
        y.append(np.array(["cold", "warm"])[warm].tolist())
    return LabellingSession(X, None, GraphCRF("linear").fit(X, y)), ["ArrowDown", "1"]


def findings() -> tuple[LabellingSession, list[str]]:
    """Return labelled sentences of which some are wrong."""
    X, y = sentences(60, seed=1)
    known = [["O"] * len(own) if item in (3, 9, 17) else own for item, own in enumerate(y)]
    return LabellingSession(X, known, city_model(), words=X), ["c"]


STATES: list[Callable[[], tuple[LabellingSession, list[str]]]] = [spans, positions, timeline, graph, findings]


def sheet(browser: Browser, session: LabellingSession, keys: list[str]) -> Image.Image:
    """Return a state at all widths, light and dark, side by side at half their size."""
    server, taken = Server(session).start(), []
    for number, (width, height, mode) in enumerate(VIEWS):
        page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=mode)
        page.goto(server.address)
        page.wait_for_selector("body[data-busy='false']")
        if number == 0 or keys == ["c"]:
            press(page, *keys)
        elif keys[0].startswith(("Arrow", "Shift")):
            press(page, *(key for key in keys if key.startswith(("Arrow", "Shift"))))
        taken.append(picture(page).resize((width // 2, height // 2), Image.Resampling.LANCZOS))
        page.close()
    server.stop()
    whole = Image.new("RGB", (taken[0].width + taken[1].width + 8, 2 * taken[0].height + 8), "white")
    for number, one in enumerate(taken):
        whole.paste(one, ((number % 2) * (taken[0].width + 8), (number // 2) * (taken[0].height + 8)))
    return whole


def film(browser: Browser) -> list[Image.Image]:
    """Return ten steps from nothing to a model."""
    X, y = sentences(40, seed=2)
    server = Server(LabellingSession(X, None, classes=["city"], scheme="bio", words=X)).start()
    page = browser.new_page(viewport={"width": 1100, "height": 460})
    page.goto(server.address)
    page.wait_for_selector("body[data-busy='false'] .token")

    def mark(item: int) -> None:
        begins = [t for t, label in enumerate(y[item]) if label == "B-city"]
        for begin in begins:
            length = next(
                (k for k in range(1, len(y[item]) - begin) if y[item][begin + k] != "I-city"), len(y[item]) - begin
            )
            press(page, "Home", *["ArrowRight"] * begin, *["Shift+ArrowRight"] * (length - 1), "1")

    frames = [picture(page)]  # nothing is known
    mark(0)
    frames.append(picture(page))  # a span
    press(page, "d")
    for item in range(1, 9):
        mark(item)
        press(page, "d")
    frames.append(picture(page))  # some more
    press(page, "r")
    frames.append(picture(page))  # a model, and its predictions
    page.select_option("#order", "doubtful")
    for keys in (["n"], ["e"], ["b"], ["Home", "o"], ["u"], ["d"]):
        press(page, *keys)  # the most doubtful, why, the best labellings, a fix, undone, done
        frames.append(picture(page))
    server.stop()
    return frames


def main() -> None:
    """Take the pictures."""
    with sync_playwright() as tools:
        browser = tools.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for state in STATES:
            sheet(browser, *state()).quantize(128).save(IMAGES / f"page-{state.__name__}.png", optimize=True)
        frames = [frame.quantize(64) for frame in film(browser)]
        browser.close()
    frames[0].save(IMAGES / "page.gif", save_all=True, append_images=frames[1:], duration=1800, loop=0, optimize=True)


if __name__ == "__main__":
    main()
