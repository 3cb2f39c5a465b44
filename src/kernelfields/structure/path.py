"""The path of a structure search: what was added, what it could have brought, what it brought."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from kernelfields.reports.tables import Table, element


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
        return f"{self._table('*').text()}\n{self._ending('*')}"

    def _repr_html_(self) -> str:
        """Return the steps as a table for a notebook; ``kernelfields.reports.plot_structure`` draws a picture."""
        return str(element("div", self._table("✓").markup(), element("p", self._ending("✓"))))

    def _table(self, mark: str) -> Table:
        """Return the steps, those that were kept with a mark before their name."""
        scored = any(step.score is not None for step in self.steps)
        rows = []
        for index, step in enumerate(self.steps):
            name = f"{mark if index and step.kept else ' '} {step.added or '(start)'}"
            improvements = [f"{each:.4g}" if index else "" for each in (step.bound, step.estimate, step.gain)]
            score = [] if not scored else ["" if step.score is None else f"{step.score:.6g}"]
            rows.append([name, *improvements, f"{step.value:.6g}", *score])
        columns = ["  added", "bound", "estimate", "gain", "objective", *(["held out"] if scored else [])]
        return Table(columns, rows, longest=30)

    def _ending(self, mark: str) -> str:
        ending = f"ended: {self.reason}; {mark} kept"
        if self.left:
            name = max(self.left, key=self.left.__getitem__)
            ending += f"; the best candidate left is {name}, which could bring {self.left[name]:.4g} at most"
        return ending
