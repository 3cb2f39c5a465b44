"""Pictures of pages of a built site, to be looked at: the first screen of each on a laptop and a phone, light and dark.

    python docs/site/site_pictures.py build/site FOLDER [PAGE ...]

writes FOLDER/PAGE.png with the four pictures of a page beside each other. Needs Playwright, Pillow and Chromium.
"""

import io
import sys
from pathlib import Path

from check_browser import LAPTOP, PHONE, chromium, served
from PIL import Image
from playwright.sync_api import sync_playwright

PAGES = (
    "index",
    "install",
    "quickstart",
    "chains",
    "sensors",
    "results/index",
    "results/ocr_letters",
    "gallery/index",
    "api/generated/kernelfields.ChainCRF",
)


def main(site: str, folder: str, *pages: str) -> None:
    """Write the pictures of pages."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    with served(Path(site).resolve()) as address, sync_playwright() as tools:
        browser = tools.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        for page in pages or PAGES:
            shots = []
            for scheme in ("light", "dark"):
                tab = browser.new_page(color_scheme=scheme)
                for size in (LAPTOP, PHONE):
                    tab.set_viewport_size(size)
                    tab.goto(f"{address}/{page}.html", wait_until="load")
                    shots.append(Image.open(io.BytesIO(tab.screenshot())))
                tab.close()
            sheet = Image.new("RGB", (sum(shot.width for shot in shots), max(shot.height for shot in shots)))
            for number, shot in enumerate(shots):
                sheet.paste(shot, (sum(before.width for before in shots[:number]), 0))
            sheet.save(Path(folder) / f"{page.replace('/', '-')}.png")
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
