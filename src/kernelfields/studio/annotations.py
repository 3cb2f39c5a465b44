"""Submitted annotations, stored as lines of JSON beside the model.

    {"project": "1"}
    {"task": "7", "data": {...}, "annotation": "3", "result": [...]}     submitted or updated
    {"deleted": ["3"]}

A line is written to the disk before its annotation is used, so a restarted backend has all annotations. Among several
annotations of one task, the last submitted one counts. An incomplete last line was never acknowledged, and is removed.

Raises AnnotationsError with the file and the line, or the other project; OSError if the file cannot be written.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelfields.page.own_files import open_own_file


class AnnotationsError(ValueError):
    """The file of annotations is unreadable or belongs to another project."""


@dataclass(frozen=True)
class Annotation:
    """The annotation of one task by one annotator."""

    task: str
    data: Mapping[str, Any]
    id: str
    result: list[Mapping[str, Any]]


class Annotations:
    """The annotations of one project, stored in the file ``path``."""

    def __init__(self, path: Path):
        self.path = path
        self.project: str | None = None
        self._by_id: dict[str, Annotation] = {}
        if path.exists():
            self._read()

    def _read(self) -> None:
        raw = self.path.read_bytes()
        end = raw.rfind(b"\n") + 1
        for number, line in enumerate(raw[:end].splitlines(), start=1):
            try:
                self._apply(json.loads(line))
            except (KeyError, TypeError, ValueError, RecursionError) as error:
                raise AnnotationsError(
                    f"{self.path}, line {number}: this is no annotation: move the file away"
                ) from error
        if end < len(raw):
            os.truncate(self.path, end)

    def _apply(self, line: Mapping[str, Any]) -> None:
        if "project" in line:
            self.project = str(line["project"])
        elif "deleted" in line:
            for name in line["deleted"]:
                self._by_id.pop(str(name), None)
        else:
            own = Annotation(str(line["task"]), dict(line["data"]), str(line["annotation"]), list(line["result"]))
            self._by_id.pop(own.id, None)
            self._by_id[own.id] = own

    def _append(self, line: Mapping[str, Any]) -> None:
        file = open_own_file(self.path, "annotations", appending=True)
        size = os.fstat(file).st_size
        try:
            raw = json.dumps(line, ensure_ascii=False).encode() + b"\n"
            if os.write(file, raw) < len(raw):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
            os.fsync(file)
        except OSError:
            os.ftruncate(file, size)
            raise
        finally:
            os.close(file)
        self._apply(line)

    def claim(self, project: str) -> None:
        """Assign the file to a project; AnnotationsError if it belongs to another."""
        if self.project is None:
            self._append({"project": project})
        elif self.project != project:
            raise AnnotationsError(
                f"{self.path} has annotations of project {self.project}: start another backend for project {project}"
            )

    def add(self, own: Annotation) -> None:
        """Store an annotation; it replaces an earlier one with the same id."""
        line = {"task": own.task, "data": own.data, "annotation": own.id, "result": own.result}
        self._append(line)

    def delete(self, names: Iterable[str]) -> None:
        """Delete annotations by their ids."""
        if known := [name for name in names if name in self._by_id]:
            self._append({"deleted": known})

    def latest(self) -> list[Annotation]:
        """Return the last submitted annotation of each task."""
        return list({own.task: own for own in self._by_id.values()}.values())

    def __len__(self) -> int:
        return len(self._by_id)
