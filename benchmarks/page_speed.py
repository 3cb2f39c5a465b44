"""How long the page takes: from a key to the new decoding on the screen, and to open a long queue.

    python -m benchmarks.page_speed

Needs the extra page, Playwright and Chromium. Medians of forty keys in a headless browser, the server in the same
process: a sentence of 50 words with 20 labels and a linear field, 1,000 positions with an RBF kernel of rank 1000, and
the time until the first item of 100,000 sentences is on the screen.
"""

from __future__ import annotations

import shutil
import time

import numpy as np
from playwright.sync_api import Browser, Page, sync_playwright
from sklearn.pipeline import make_pipeline

from benchmarks.result_files import merge_results
from kernelfields import ChainCRF, TextFeatures
from kernelfields.page.server import Server
from kernelfields.page.session import LabellingSession

RESULT, KEYS = "page_speed.json", 40
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
# From the key to the frame in which the answer is drawn.
TIMED = """async (key) => {
  const begin = performance.now();
  const done = new Promise((resolve) => {
    const watcher = new MutationObserver(() => {
      if (document.body.dataset.busy === "false") { watcher.disconnect(); resolve(); }
    });
    watcher.observe(document.body, { attributes: true });
  });
  document.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  await done;
  await new Promise(requestAnimationFrame);
  return performance.now() - begin;
}"""


def words() -> LabellingSession:
    """Return a sentence of 50 words with 20 labels, and a linear field."""
    random = np.random.default_rng(0)
    vocabulary = [f"word{number}" for number in range(400)]
    labels = [f"label{number}" for number in range(20)]
    X = [[str(random.choice(vocabulary)) for _ in range(50)] for _ in range(200)]
    y = [[labels[int(word[4:]) % 20] for word in own] for own in X]
    model = make_pipeline(TextFeatures(), ChainCRF("linear", prior_variance=1.0, random_state=0)).fit(X, y)
    return LabellingSession(X[:20], None, model, words=X[:20])


def readings() -> LabellingSession:
    """Return sequences of 1,000 positions, and an RBF field of rank 1000."""
    random = np.random.default_rng(0)
    labels = np.repeat(random.integers(4, size=(4, 100)), 10, axis=1)
    X = [np.eye(4)[own] + random.normal(size=(1000, 4)) for own in labels]
    model = ChainCRF("rbf", rank=1000, prior_variance=1.0, random_state=0).fit(X, [own.tolist() for own in labels])
    return LabellingSession(X, None, model, columns=["a", "b", "c", "d"])


def opened(browser: Browser, address: str) -> tuple[Page, float]:
    """Return the page and the seconds until its first item is there."""
    page, begin = browser.new_page(), time.perf_counter()
    page.goto(address)
    page.wait_for_selector("body[data-busy='false'] .token", timeout=60_000)
    return page, time.perf_counter() - begin


def main() -> None:
    with sync_playwright() as tools:
        browser = tools.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for name, made in (("50 words, 20 labels, linear", words), ("1,000 positions, RBF rank 1000", readings)):
            server = Server(made()).start()
            page, _ = opened(browser, server.address)
            spent = [page.evaluate(TIMED, "2") for _ in range(KEYS)]
            row = {"what": name, "median_ms": float(np.median(spent)), "p90_ms": float(np.quantile(spent, 0.9))}
            print(f"{name}: median {row['median_ms']:.0f} ms, nine of ten within {row['p90_ms']:.0f} ms", flush=True)
            merge_results(RESULT, [row], ("what",))
            page.close()
            server.stop()
        X = [["some", "words", "of", "a", "sentence"]] * 100_000
        begin = time.perf_counter()
        server = Server(LabellingSession(X, None, classes=["a", "b"], words=X)).start()
        page, shown = opened(browser, server.address)
        whole = time.perf_counter() - begin
        print(f"100,000 sentences: {whole:.2f} s, of which {shown:.2f} s in the browser")
        merge_results(RESULT, [{"what": "100,000 sentences open", "seconds": whole, "browser": shown}], ("what",))
        page.close()
        server.stop()
        browser.close()


if __name__ == "__main__":
    main()
