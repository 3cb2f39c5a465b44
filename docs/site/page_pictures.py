"""Pictures of the page of ``kernelfields label``, taken in a headless browser: docs/images/page.png and page.gif.

    python docs/site/page_pictures.py

Needs the extra page, Playwright and Chromium. The film has ten steps: labels from nothing, a refit, corrections, what
changed, the best labellings and why a label was given.
"""

import io
import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "page")]

from sentences import sentences  # noqa: E402

from kernelfields.page.server import Server  # noqa: E402
from kernelfields.page.session import LabellingSession  # noqa: E402

IMAGES, LABELS = ROOT / "docs" / "images", ["B-city", "I-city", "O"]
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]


def press(page: Page, *keys: str) -> None:
    """Press keys, and wait until they are done."""
    for key in keys:
        page.keyboard.press(key)
    page.wait_for_selector("body[data-busy='false']")


def main() -> None:
    """Take the pictures."""
    X, y = sentences(40, seed=2)
    server = Server(LabellingSession(X, None, classes=LABELS, words=X)).start()
    frames: list[Image.Image] = []
    with sync_playwright() as tools:
        browser = tools.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        page = browser.new_page(viewport={"width": 1100, "height": 460})
        page.goto(server.address)

        def take() -> None:
            page.wait_for_selector("body[data-busy='false']")
            frames.append(Image.open(io.BytesIO(page.screenshot())).convert("RGB"))

        page.wait_for_selector("body[data-busy='false'] .token")
        take()  # 1: nothing is known
        press(page, *[str(LABELS.index(label) + 1) for label in y[0]])
        take()  # 2: a sentence by number keys
        press(page, "n")
        for item in range(1, 9):
            press(page, *[str(LABELS.index(label) + 1) for label in y[item]], "n")
        take()  # 3: some more
        press(page, "r")
        take()  # 4: a model, and its predictions
        page.select_option("#order", "doubtful")
        press(page, "n")
        take()  # 5: the most doubtful sentence
        press(page, "e")
        take()  # 6: why this label
        press(page, "b")
        take()  # 7: the best labellings
        press(page, "2")
        take()  # 8: a label is fixed, and the rest changes
        press(page, "u")
        take()  # 9: undone
        press(page, "Shift+Enter")
        take()  # 10: accepted, and the next one
        browser.close()
    server.stop()
    frames[6].save(IMAGES / "page.png", optimize=True)
    small = [frame.quantize(64) for frame in frames]
    small[0].save(IMAGES / "page.gif", save_all=True, append_images=small[1:], duration=1800, loop=0, optimize=True)


if __name__ == "__main__":
    main()
