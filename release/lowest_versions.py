"""Try the lowest versions that pyproject.toml allows: import, fit, help of every command, train, evaluate, the page.

    python release/lowest_versions.py

Dependencies and the extra "page" are installed with these versions in an environment of their own; the package is that
of the checkout. About two minutes. Where no index of packages can be reached, that is said, and nothing is tried.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from release.check import ROOT, environment, oldest_allowed, project

# What pip says where it has found no index at all, not an index without this version.
UNREACHABLE = ("(from versions: none)", "Failed to establish a new connection", "Temporary failure in name resolution")
COMMANDS = ("train", "predict", "evaluate", "inspect", "certify", "check", "rank", "convert", "export", "label")
TRIED = """
import json, urllib.request
import numpy as np
from kernelfields import ChainCRF
from kernelfields.page import serve

random = np.random.default_rng(0)
y = [np.repeat(random.integers(2, size=4), 3) for _ in range(20)]
X = [np.column_stack([own, -own]) + random.normal(size=(12, 2)) for own in y]
crf = ChainCRF("rbf", random_state=0).fit(X, y)
assert crf.score(X, y) > 0.7
server = serve(crf, X, browser=False)
headers = {"Content-Type": "application/json", "X-Kernelfields-Token": server.token}
asked = urllib.request.Request(f"http://127.0.0.1:{server.port}/api/state", b"{}", headers)
assert json.load(urllib.request.urlopen(asked))["items"] == 20
server.stop()
"""


def main() -> None:
    """Install, and try; the exit code is that of the first step that fails."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        python, described = environment(sys.executable, folder, "lowest"), project()
        pinned = oldest_allowed([*described["dependencies"], *described["optional-dependencies"]["page"]])
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:"]
        found = subprocess.run([*pip, *pinned], capture_output=True, text=True, check=False)
        if found.returncode:
            if any(words in found.stderr for words in UNREACHABLE):
                print("there is no index of packages here: the lowest versions are not tried")
                return
            sys.exit(found.stderr)
        settings = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        words = folder / "train.conll"
        words.write_text("the\tDET\ncat\tNOUN\n\n" * 20, encoding="utf-8")
        command = ["-m", "kernelfields.cli"]
        steps = [["-c", TRIED], [*command, "--help"], *([*command, each, "--help"] for each in COMMANDS)]
        steps += [[*command, "train", words.name, "--quiet"], [*command, "evaluate", "model.safetensors", words.name]]
        for step in steps:
            tried = subprocess.run(
                [python, *step], cwd=folder, env=settings, capture_output=True, text=True, check=False
            )
            if tried.returncode:
                sys.exit(f"{' '.join(pinned)}\n{' '.join(step)}\n{tried.stdout}{tried.stderr}")
    print(f"the lowest versions work: {', '.join(pinned)}")


if __name__ == "__main__":
    main()
