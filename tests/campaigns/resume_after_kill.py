"""kill -9 during training at random moments, then --resume, until the run ends: same optimum, no corrupt file?

    python -m tests.campaigns.resume_after_kill [--runs 10] [--seed 0]

Trains through the command, in a process of its own, with a checkpoint every 0.1 s. Half of the runs fit an RBF
field to Lwazi2's Afrikaans sentences, the other half a sparse linear one to sentences of CoNLL 2000; where the
data are not there, both are made up. A run is started again and again by the same line, `train ... --checkpoint
... --resume`, and killed: mostly some time after its first new checkpoint, at times in the middle of writing one,
now and then anywhere from its first instant on. The patience grows from kill to kill, so that a process gets to
the end. After every kill each file that is there is opened.

It holds that the objective is that of a run nobody disturbed, to 1e-6, that no file is ever corrupt, and that
nothing is left beside model and settings: the next writer removes the drafts of a killed one. The exit code says
whether it does.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.result_files import CAMPAIGNS, CHECKOUT, write_results
from benchmarks.shared_data import DataMissing, token_columns
from kernelfields.cli.models import load_model
from kernelfields.cli.settings import read_settings

MODEL, SETTINGS, CHECKPOINT = "model.safetensors", "model.toml", "run.checkpoint"
DRAFT = re.compile(r"\.(model\.safetensors|model\.toml|run\.checkpoint)\.[0-9a-f]{16}\.tmp")
FIT = ["--tol", "1e-7", "--max-iter", "100000", "-j", "1"]
FIELDS = {
    "afrikaans": ["--kernel", "rbf", "--rank", "300", "--prior-variance", "100", "--solver", "lbfgs"],
    "conll2000": ["--kernel", "linear", "--support", "observed", "--prior-variance", "1"],
}
ALLOWED = 1e-6
# Kills wait after a new checkpoint, on average this part of a fit at first and so much longer after each. Then
# some of them wait on for a file that is being written. Others come at any time from the start of the process.
MEAN_WAIT, GROWTH = 0.25, 1.2
WHILE_WRITING, ANYWHERE = 0.3, 0.15


@dataclass
class Run:
    """What happened to one run."""

    data: str
    kills: int = 0
    kills_after_a_checkpoint: int = 0
    drafts_seen: int = 0
    resumed: int = 0
    last_resumed: bool = False
    corrupt: list[str] = field(default_factory=list)
    left_over: list[str] = field(default_factory=list)
    objective: float = float("nan")
    relative_difference: float = float("inf")

    @property
    def sound(self) -> bool:
        """Whether the run ended as one that nobody disturbed."""
        return self.relative_difference <= ALLOWED and not self.corrupt and not self.left_over


def made_up(count: int, seed: int) -> list[list[list[str]]]:
    """Return sentences of words that hint at their labels."""
    random = np.random.default_rng(seed)
    labels = [np.cumsum(random.integers(2, size=12)) % 3 for _ in range(count)]
    return [[[f"w{random.integers(40) + 15 * y}", f"t{y}"] for y in each] for each in labels]


def write_data(folder: Path) -> dict[str, str]:
    """Write a column file for each field; return where the rows came from."""
    sources = {}
    for name in FIELDS:
        try:
            if name == "afrikaans":
                rows = [
                    [[*row[1:4], row[6]] for row in each] for each in token_columns("lwazi2-prominence", "afr.tsv.gz")
                ]
            else:
                rows = token_columns("conll2000", "train.tsv.gz")[:300]
            sources[name] = name
        except DataMissing:
            rows, sources[name] = made_up(400, len(sources)), "made up"
        text = "\n".join("".join("\t".join(row) + "\n" for row in each) for each in rows)
        (folder / f"{name}.conll").write_text(text, encoding="utf-8")
    return sources


def start(name: str, folder: Path) -> subprocess.Popen:
    """Start, or take up, the training run of a folder."""
    command = [sys.executable, "-m", "kernelfields.cli", "train", f"../{name}.conll", *FIELDS[name], *FIT]
    command += ["-m", MODEL, "--checkpoint", CHECKPOINT, "--checkpoint-seconds", "0.1", "--resume", "--json"]
    path = os.pathsep.join(filter(None, [str(CHECKOUT / "src"), os.environ.get("PYTHONPATH")]))
    return subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path}
    )


def wait_for(process: subprocess.Popen, seconds: float, until_changed: Path | None = None) -> bool:
    """Wait until a process has ended, or for so long after a file has changed; return whether it has ended."""
    before = until_changed and _state(until_changed)
    while until_changed is not None and _state(until_changed) == before:
        if process.poll() is not None:
            return True
        time.sleep(0.005)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _state(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns


def drafts(folder: Path) -> list[str]:
    """Return the names of files that are being written, or were when their writer was killed."""
    return [name for name in os.listdir(folder) if DRAFT.fullmatch(name)]


def opened(folder: Path) -> Iterator[str]:
    """Open every file that a run has written, drafts aside; yield what is wrong."""
    for path in sorted(folder.iterdir()):
        if DRAFT.fullmatch(path.name):
            continue
        try:
            if path.name in (MODEL, CHECKPOINT):
                load_model(path)
            elif path.name == SETTINGS:
                read_settings(path)
            else:
                yield f"{path.name} is not a file of the run"
        except ValueError as error:
            yield str(error)


def disturbed(name: str, folder: Path, random: np.random.Generator, startup: float, fit: float) -> Run:
    """Train a field, killing the process at random moments until one gets to the end."""
    run = Run(name)
    for attempt in itertools.count():
        process = start(name, folder)
        kind = random.random()
        if kind < ANYWHERE:
            ended = wait_for(process, random.uniform(0, startup))
        else:
            ended = wait_for(process, random.exponential(MEAN_WAIT * fit * GROWTH**attempt), folder / CHECKPOINT)
        if not ended and kind > 1 - WHILE_WRITING:
            while process.poll() is None and not drafts(folder):
                pass
            ended = process.poll() is not None
        there = (folder / CHECKPOINT).exists()
        process.kill()
        out, err = process.communicate()
        run.last_resumed = b"going on from" in err
        run.resumed += run.last_resumed
        run.corrupt += opened(folder)
        if ended:
            if process.returncode:
                run.corrupt.append(f"attempt {attempt} ended with {process.returncode}: {err.decode()[-300:]}")
            else:
                run.objective = json.loads(out)["objective"]
            break
        run.kills += 1
        run.kills_after_a_checkpoint += there
        run.drafts_seen += len(drafts(folder))
    run.left_over = sorted({path.name for path in folder.iterdir()} - {MODEL, SETTINGS})
    return run


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    random = np.random.default_rng(options.seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sources = write_data(folder)
        undisturbed, startup, seconds = {}, {}, {}
        for data in FIELDS:
            (folder / data).mkdir()
            begin = time.perf_counter()
            out, err = (process := start(data, folder / data)).communicate()
            if process.returncode:
                raise RuntimeError(err.decode())
            document = json.loads(out)
            undisturbed[data] = document["objective"]
            seconds[data] = document["seconds"]
            startup[data] = time.perf_counter() - begin - seconds[data]
            print(f"{data} ({sources[data]}), undisturbed: {document['objective']:.8g}, {document['seconds']:.1f} s")
        runs = []
        for index, data in zip(range(options.runs), itertools.cycle(FIELDS), strict=False):
            (folder / str(index)).mkdir()
            run = disturbed(data, folder / str(index), random, startup[data], seconds[data])
            run.relative_difference = abs(run.objective - undisturbed[data]) / undisturbed[data]
            runs.append(run)
            print(
                f"run {index} {data}: {run.kills} kills, {run.kills_after_a_checkpoint} after a checkpoint, "
                f"{run.resumed} resumed, {run.drafts_seen} in the middle of writing; difference "
                f"{run.relative_difference:.1e} {'' if run.sound else 'WRONG'} {run.corrupt} {run.left_over}",
                flush=True,
            )
    rows = [{**vars(run), "source": sources[run.data], "sound": run.sound} for run in runs]
    write_results("resume_after_kill.json", rows, CAMPAIGNS)
    wrong = sum(not run.sound for run in runs)
    kills, resumed = sum(run.kills for run in runs), sum(run.resumed > 0 for run in runs)
    print(
        f"{len(runs)} runs, {kills} kills, {resumed} runs resumed from a checkpoint; largest relative difference "
        f"{max(run.relative_difference for run in runs):.1e}; {wrong} wrong"
    )
    return 1 if wrong or not resumed else 0


if __name__ == "__main__":
    sys.exit(main())
