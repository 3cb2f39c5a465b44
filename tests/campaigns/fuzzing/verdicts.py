"""What a case came to: refused with a clear error, accepted and sound, or failed.

A case has two steps: ``load`` reads the file or calls the library, ``use`` asks the result for all it can answer. It
fails when

* an error comes that is none of the library's clear ones: a ValueError (ModelFileError, SequenceFileError and
  scikit-learn's NotFittedError among them), TypeError, OSError, MemoryError or, for what CRFsuite has and this
  package has not, NotImplementedError, with a message, and clear (clear_errors.py). An error of any other type, and
  at loading a model anything but ModelFileError, is not clear;
* it takes longer than ``SECONDS`` of the processor or, in a campaign, says nothing for ``PATIENCE``: where others have
  the cores, a case that needs a second of them may take many;
* it needs more memory than ``MEMORY_FACTOR`` times the file and ``MEMORY_ROOM``: the peak of the process's resident
  memory during the case, reset before it through /proc (Linux; elsewhere memory is not judged);
* it is accepted and answers NaN, infinity, or probabilities that do not sum to one.
"""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.campaigns.clear_errors import is_raised_here, origin

SECONDS, PATIENCE = 10.0, 100
MEMORY_FACTOR, MEMORY_ROOM = 10, 64 * 2**20
REFUSED, AT_USE, SOUND, FAILED = "refused at loading", "refused at first use", "accepted and sound", "FAILED"
KINDS = (REFUSED, AT_USE, SOUND, FAILED)
#: Counted beside these: model files whose damage passes the checksum.
VALID = "with a valid checksum"

_CLEAR = (ValueError, TypeError, OSError, MemoryError, NotImplementedError)


class Unsound(Exception):
    """An answer that no sound model gives."""


@dataclass
class Case:
    """What is done, in two steps; ``content`` is the file or a description, for who looks into a failure."""

    load: Callable[[], Any]
    use: Callable[[Any], None] = lambda loaded: None
    content: bytes = b""
    suffix: str = ".txt"
    note: str = ""
    #: Errors that loading may raise; None for all clear ones.
    refusals: tuple[type[BaseException], ...] | None = None
    #: Bytes that memory is measured against.
    size: int = field(default=0)
    valid_checksum: bool = False


@dataclass
class Verdict:
    """One of ``KINDS``, and why."""

    kind: str
    reason: str = ""
    valid_checksum: bool = False


def judge(case: Case) -> Verdict:
    """Run a case in this process."""
    started, before = time.process_time(), _reset_memory()
    verdict = _outcome(case)
    seconds, peak = time.process_time() - started, _peak_memory()
    if verdict.kind != FAILED and seconds > SECONDS:
        return Verdict(FAILED, f"took {seconds:.1f} s")
    if verdict.kind != FAILED and before is not None and peak is not None:
        allowed = MEMORY_FACTOR * max(case.size, len(case.content)) + MEMORY_ROOM
        if peak - before > allowed:
            return Verdict(FAILED, f"took {(peak - before) / 2**20:.0f} MiB of memory, {allowed / 2**20:.0f} allowed")
    return verdict


def _outcome(case: Case) -> Verdict:
    stage = REFUSED
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            loaded = case.load()
            stage = AT_USE
            case.use(loaded)
        except Unsound as error:
            return Verdict(FAILED, f"unsound: {error}")
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001 - whatever comes is what is looked for
            refusals = case.refusals if stage == REFUSED else None
            text = f"{type(error).__name__} {stage}: {_one_line(error)} [{origin(error)}]"
            return Verdict(stage if is_clear(error, refusals) else FAILED, text)
    return Verdict(SOUND)


def is_clear(error: BaseException, refusals: tuple[type[BaseException], ...] | None = None) -> bool:
    """Whether an error was raised on purpose, with words for a user."""
    if not isinstance(error, refusals or _CLEAR) or not str(error).strip():
        return False
    if isinstance(error, OSError) and error.errno is not None:
        return True
    return is_raised_here(error)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]


def _reset_memory() -> int | None:
    """Set the peak of resident memory to what is resident now, and return that; None where there is no /proc."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return None
    return _status("VmRSS")


def _peak_memory() -> int | None:
    return _status("VmHWM")


def _status(name: str) -> int | None:
    try:
        found = re.search(rf"^{name}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    except OSError:
        return None
    return None if found is None else 1024 * int(found.group(1))
