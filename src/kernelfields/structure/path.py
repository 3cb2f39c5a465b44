"""The path of a structure search: what was added, what it could have brought, what it brought."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from html import escape
from typing import Any


@dataclass(frozen=True)
class StructureStep:
    """One addition, kept or taken back, or the field at the start, whose ``added`` is None.

    ``bounds`` holds, for all candidates left before the step, the most they could have brought, the gap of the fit
    before it not included; ``bound`` is that of the one added with the gap, ``estimate`` what a Newton step
    promised, and ``gain`` is by how much the objective fell. ``score`` is the log-likelihood of held-out data,
    None without any.
    """

    added: str | None
    value: float
    gap: float
    bound: float = 0.0
    estimate: float = 0.0
    gain: float = 0.0
    bounds: dict[str, float] = field(default_factory=dict)
    score: float | None = None
    kept: bool = True
    seconds: float = 0.0


@dataclass
class StructurePath:
    """All steps of a search, and why it ended."""

    steps: list[StructureStep]
    #: What the candidates left could bring at the end, at most.
    left: dict[str, float]
    reason: str

    @property
    def added(self) -> list[str]:
        """Names of the clique sets that were kept, in the order in which they came."""
        return [step.added for step in self.steps if step.kept and step.added is not None]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "steps": [asdict(step) for step in self.steps],
            "left": dict(self.left),
            "added": self.added,
            "reason": self.reason,
        }

    def __str__(self) -> str:
        scored = any(step.score is not None for step in self.steps)
        header = f"{'':2s}{'added':28s} {'bound':>11s} {'estimate':>11s} {'gain':>11s} {'objective':>13s}" + (
            f" {'held out':>12s}" if scored else ""
        )
        lines = [header]
        for index, step in enumerate(self.steps):
            kept = "*" if index and step.kept else " "
            figures = [f"{each:11.4g}" if index else " " * 11 for each in (step.bound, step.estimate, step.gain)]
            line = f"{kept} {step.added or '(start)':28.28s} {' '.join(figures)} {step.value:13.6g}"
            lines.append(line + (f" {step.score:12.6g}" if step.score is not None else ""))
        return "\n".join([*lines, self._ending("*")])

    def _repr_html_(self) -> str:
        """Return the steps as a table for a notebook; ``kernelfields.reports.structure`` has a picture."""
        scored = any(step.score is not None for step in self.steps)
        heads = ["kept", "added", "bound", "estimate", "gain", "objective", *(["held out"] if scored else [])]
        rows = []
        for index, step in enumerate(self.steps):
            figures = [f"{each:.4g}" if index else "" for each in (step.bound, step.estimate, step.gain)]
            score = [] if not scored else ["" if step.score is None else f"{step.score:.6g}"]
            kept = "✓" if index and step.kept else ""
            rows.append([kept, step.added or "(start)", *figures, f"{step.value:.6g}", *score])
        head = "".join(f"<th>{each}</th>" for each in heads)
        body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
        return (
            f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{escape(self._ending('✓'))}</p>"
        )

    def _ending(self, mark: str) -> str:
        ending = f"ended: {self.reason}; {mark} kept"
        if self.left:
            name = max(self.left, key=self.left.__getitem__)
            ending += f"; the best candidate left is {name}, which could bring {self.left[name]:.4g} at most"
        return ending
