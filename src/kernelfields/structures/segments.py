"""Segments: sequences that are cut into pieces, each with one label."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelfields.data.chains import Chains
from kernelfields.data.cliques import CliqueSet
from kernelfields.data.readers import InputReader
from kernelfields.data.segments import (
    DURATION,
    DurationCliques,
    SegmentedChains,
    are_segments,
    begins_of,
    check_duration,
    read_segments,
)
from kernelfields.inference.choice import FamilySpec
from kernelfields.inference.potentials import EDGE
from kernelfields.inference.segments.checks import SegmentChecks
from kernelfields.models.build import name_cliques
from kernelfields.numerics.threads import Workers
from kernelfields.structures import library
from kernelfields.structures.chains import PartOf, SequenceStructure

if TYPE_CHECKING:
    from kernelfields.models.model_file import Document
    from kernelfields.objective.term import Term


class SegmentReader(InputReader):
    """Reads sequences as :class:`InputReader` does, as those that are cut into segments."""

    packs = SegmentedChains


def plain_labels(y: Any) -> tuple[Any, np.ndarray | None]:
    """Return labels of positions, and where segments begin if y is written as segments."""
    return read_segments(y) if are_segments(y) else (y, None)


@dataclass(frozen=True, eq=False)
class SegmentStructure(SequenceStructure):
    """Labels of segments, of which neighbours meet; each has a duration."""

    kind = "segments"
    reads = SegmentReader

    def check(self) -> None:
        super().check()
        name_cliques(self.described_cliques(1))

    def family(self, classes: np.ndarray, data: Chains | None) -> FamilySpec:
        longest = self.settings.max_duration
        if longest is None:
            if not isinstance(data, SegmentedChains):
                raise ValueError("max_duration is read off segments of this process: give it for Dask collections")
            begins, ends, _ = data.segments
            longest = min(2 * int((ends - begins).max()), int(data.lengths.max()))
        return replace(super().family(classes, data), max_duration=int(longest), repeats=bool(self.settings.repeats))

    # ---- data

    def training_labels(self, y: Any, *, warn: bool = False) -> Any:
        # A segment has one label: where those of entities break their scheme, it is for the user to cut it.
        return y if are_segments(y) else super().training_labels(y, warn=warn)

    def position_labels(self, y: Any) -> Any:
        return plain_labels(y)[0]

    def _segmented(self, chains: Chains, begins: np.ndarray | None, longest: int | None) -> SegmentedChains:
        """Return chains with their segments, where they are labelled.

        Of labels that are partly known, one labelling stands for all, cut anyhow.
        """
        assert isinstance(chains, SegmentedChains), "SegmentReader packs them so"
        if chains.labels is None:
            return chains
        if begins is not None:
            chains.given.check_complete(
                "labels that are partly known are written position by position, not as segments (begin, end, label)"
            )
        else:
            cut = self.settings.repeats or not chains.given.complete
            begins = begins_of(chains.labels, chains.offsets, longest if cut else None)
        return replace(chains, begins=begins)

    def learn(
        self, X: object, y: object, sample_weight: object, part_of: PartOf | None = None
    ) -> tuple[InputReader, SegmentedChains, np.ndarray]:
        y, begins = plain_labels(self.training_labels(y, warn=part_of is None))
        reader, longest = self.new_reader(X, part_of), self.settings.max_duration
        known = None if part_of is None else part_of[1]
        known = self.declared_classes if known is None else known
        chains, classes = reader.learn(X, y, sample_weight, classes=known, allowed=self.dictionary)
        if longest is None:
            chains.given.check_complete("some labels of y are not known, nor how long segments are: give max_duration")
        data = self._segmented(chains, begins, longest)
        SegmentChecks().check_labels(data, self.family(classes, data), classes)
        return reader, data, classes

    def _read_items(self, X: object, y: object, sample_weight: object) -> SegmentedChains:
        y, begins = plain_labels(y)
        return self._segmented(super()._read_items(X, y, sample_weight), begins, self.spec.max_duration)

    # ---- clique sets

    def described_cliques(self, max_duration: int) -> list[CliqueSet]:
        """Return the clique sets that the parameters describe."""
        usual = self.with_usual_values()
        given = usual.settings
        seen: dict[str, Any] = {"basis": given.basis, "rank": given.rank, "window": usual.window}
        shared = {**seen, "prior_variance": usual.first_variance}
        cliques = usual.nodes_and_edges(**seen)
        if given.durations is not None:
            durations = DurationCliques() if isinstance(given.durations, str) else given.durations
            cliques.append(durations.filled(**{**shared, "window": 1}).set_params(max_duration=max_duration))
        return cliques

    def clique_sets(self, training: Any) -> library.NamedCliques:
        return name_cliques(self.beside_categories(self.described_cliques(training.spec.max_duration), training.reader))

    # ---- after a fit

    def found(self) -> dict[str, Any]:
        longest = self.settings.max_duration
        return {"max_duration": self.spec.max_duration if longest is None else longest}

    def views(self, terms: Sequence[Term]) -> dict[str, Any]:
        # Scores of durations are the same for all data, so those of none will do.
        nothing = Chains(np.empty((0, 0)), np.zeros(1, dtype=np.int64))
        durations = [term.scores(nothing, Workers(1)) for term in terms if term.group == DURATION]
        return {**super().views(terms), "durations_": np.sum(durations, axis=0) if durations else None}

    def describe(self) -> Document:
        return {**super().describe(), "max_duration": self.spec.max_duration, "repeats": self.spec.repeats}

    @classmethod
    def rebuilt_spec(cls, described: Mapping[str, Any], classes: np.ndarray) -> FamilySpec:
        check_duration(described["max_duration"])
        longest, repeats = int(described["max_duration"]), bool(described["repeats"])
        return replace(super().rebuilt_spec(described, classes), max_duration=longest, repeats=repeats)

    @classmethod
    def check_terms(cls, terms: Sequence[Term], reader: InputReader, spec: FamilySpec) -> None:
        for term in terms:
            if term.group == DURATION and term.clique.max_duration != spec.max_duration:
                raise ValueError("the durations of a set are not those of the field")
            if term.group not in (None, EDGE, DURATION):
                raise ValueError(f"set {term.name!r} scores labels that do not meet in segments")
