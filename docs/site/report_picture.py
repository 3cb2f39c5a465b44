"""Picture of the report that ``kernelfields evaluate --report`` writes: docs/images/report.png.

    python docs/site/report_picture.py

Needs Playwright and Chromium. The model is fitted to 200 sentences of ``make_entities``, the report is
about 100 others.
"""

import io
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from kernelfields.datasets import make_entities

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
COMMANDS = ("train train.conll -m names.safetensors", "evaluate names.safetensors test.conll --report test.html")


def main() -> None:
    """Write the files, run the commands, and take the picture."""
    X, y = make_entities(300, random_state=0, return_X_y=True)
    texts = ["".join(map("{}\t{}\n".format, *each)) for each in zip(X, y, strict=True)]
    with tempfile.TemporaryDirectory() as name, sync_playwright() as tools:
        folder = Path(name)
        (folder / "train.conll").write_text("\n".join(texts[:200]), encoding="utf-8")
        (folder / "test.conll").write_text("\n".join(texts[200:]), encoding="utf-8")
        for command in COMMANDS:
            subprocess.run([sys.executable, "-m", "kernelfields.cli", *command.split()], cwd=folder, check=True)
        browser = tools.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        page = browser.new_page(viewport={"width": 1000, "height": 760})
        page.goto((folder / "test.html").as_uri())
        shot = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
        browser.close()
    shot.quantize(128).save(IMAGES / "report.png", optimize=True)


if __name__ == "__main__":
    main()
